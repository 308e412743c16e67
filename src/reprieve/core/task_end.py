"""Decide what the end of a supervised task means, from what was seen of its process or container."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reprieve.core.policy import Cause


class TaskStatus(StrEnum):
    """How a task ended."""

    FINISHED = "finished"
    ERROR = "error"
    """The worker caught an exception and reported it (ORC-4.4)."""
    FAILED = "failed"
    """The worker ended without a result, or was killed (ORC-4.3)."""
    STOPPED = "stopped"
    """The supervisor stops, or an operator cancelled the task."""


class TaskEndReason(StrEnum):
    """Why a task did not finish."""

    CRASH = "crash"
    OUT_OF_MEMORY = "oom"
    KILLED = "killed"
    """SIGKILL by another process; perhaps the machine was out of memory."""
    TIMEOUT = "timeout"
    SPAWN_TIMEOUT = "spawn_timeout"
    START_ERROR = "start_error"
    """The command, the image or the container program cannot be used."""
    INVALID_RESULT = "invalid_result"
    EXCEPTION = "exception"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"


class TaskStopReason(StrEnum):
    """Why the supervisor ended a task itself."""

    TIMEOUT = "timeout"
    SPAWN_TIMEOUT = "spawn_timeout"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"


class ReportedResult(StrEnum):
    """What the worker wrote as its result."""

    NONE = "none"
    FINISHED = "finished"
    ERROR = "error"
    RETRYABLE_ERROR = "retryable_error"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class TaskEvidence:
    """What was seen of the end of a task."""

    exit_code: int
    """As `subprocess` has it for processes; 0 to 255 for containers."""
    reported: ReportedResult = ReportedResult.NONE
    stopped_for: TaskStopReason | None = None
    out_of_memory: bool = False
    """The kernel counted such a kill in the group of the task, or the container program says so."""
    in_container: bool = False
    is_memory_limited: bool = False
    is_startable: bool = True
    """False where the command could not be executed at all."""


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """What an end means for the task."""

    status: TaskStatus
    reason: TaskEndReason | None = None
    cause: Cause | None = None
    """Which attempt budget pays for it; None where nothing failed."""
    is_retryable: bool = False
    """Whether another attempt may end differently; it is made only where retries are asked for."""
    exit_code: int | None = None
    signal: int | None = None


CONTAINER_PROGRAM_FAILED: Final = 125
_SIGNAL_BASE: Final = 128
_HIGHEST_SIGNAL: Final = 64
_SIGKILL: Final = 9
_START_ERRORS: Final = frozenset({CONTAINER_PROGRAM_FAILED, 126, 127})
"""What `docker run` and `podman run` exit with where the container or its command cannot be started."""

_STOPPED: Final = {
    TaskStopReason.TIMEOUT: TaskEnd(TaskStatus.FAILED, TaskEndReason.TIMEOUT, Cause.HANDLER, is_retryable=True),
    TaskStopReason.SPAWN_TIMEOUT: TaskEnd(TaskStatus.FAILED, TaskEndReason.SPAWN_TIMEOUT, Cause.HANDLER),
    TaskStopReason.CANCELLED: TaskEnd(TaskStatus.STOPPED, TaskEndReason.CANCELLED),
    TaskStopReason.SHUTDOWN: TaskEnd(TaskStatus.STOPPED, TaskEndReason.SHUTDOWN, Cause.DEPLOY, is_retryable=True),
}
_REPORTED: Final = {
    ReportedResult.NONE: TaskEnd(TaskStatus.FINISHED),
    ReportedResult.FINISHED: TaskEnd(TaskStatus.FINISHED),
    ReportedResult.ERROR: TaskEnd(TaskStatus.ERROR, TaskEndReason.EXCEPTION, Cause.HANDLER),
    ReportedResult.RETRYABLE_ERROR: TaskEnd(
        TaskStatus.ERROR, TaskEndReason.EXCEPTION, Cause.HANDLER, is_retryable=True
    ),
    ReportedResult.INVALID: TaskEnd(TaskStatus.FAILED, TaskEndReason.INVALID_RESULT, Cause.HANDLER),
}


def decide_task_end(evidence: TaskEvidence) -> TaskEnd:
    """Decide what an end means.

    A worker that exited with 0 is believed, also where it was being stopped at that moment. Then what the supervisor
    did itself explains the end, then the kernel's counter, then code or signal.
    """
    code, number = _code_and_signal(evidence)
    if not evidence.is_startable:
        return _end(TaskEndReason.START_ERROR, Cause.HANDLER, code, number, is_retryable=False)
    if code == 0:
        end = _REPORTED[evidence.reported]
    elif evidence.stopped_for is not None:
        end = _STOPPED[evidence.stopped_for]
    elif evidence.in_container and code in _START_ERRORS:
        return _end(TaskEndReason.START_ERROR, Cause.HANDLER, code, number, is_retryable=False)
    else:
        reason = _reason_of_failure(evidence, number)
        cause = Cause.OUT_OF_MEMORY if reason is TaskEndReason.OUT_OF_MEMORY else Cause.CRASH
        return _end(reason, cause, code, number, is_retryable=True)
    return TaskEnd(end.status, end.reason, end.cause, end.is_retryable, code, number)


def _code_and_signal(evidence: TaskEvidence) -> tuple[int | None, int | None]:
    """Tell exit codes from signals. A container reports signal n as the code 128 + n."""
    code = evidence.exit_code
    if code < 0:
        return None, -code
    if evidence.in_container and _SIGNAL_BASE < code <= _SIGNAL_BASE + _HIGHEST_SIGNAL:
        return None, code - _SIGNAL_BASE
    return code, None


def _reason_of_failure(evidence: TaskEvidence, number: int | None) -> TaskEndReason:
    killed = number == _SIGKILL
    if evidence.out_of_memory or (evidence.in_container and evidence.is_memory_limited and killed):
        return TaskEndReason.OUT_OF_MEMORY
    return TaskEndReason.KILLED if killed else TaskEndReason.CRASH


def _end(reason: TaskEndReason, cause: Cause, code: int | None, number: int | None, *, is_retryable: bool) -> TaskEnd:
    return TaskEnd(TaskStatus.FAILED, reason, cause, is_retryable, code, number)
