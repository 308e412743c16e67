"""Events on `worker:lifecycle` and results on `{queue}:results`, as fields of stream entries (ORC-4.3, ORC-4.4)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.core.task_end import TaskStatus
from reprieve.streams.dead_letters import iso_timestamp

if TYPE_CHECKING:
    from reprieve.supervisor.task_runner import TaskReport

LIFECYCLE_STREAM: Final = "worker:lifecycle"
RESULTS_SUFFIX: Final = ":results"
MAX_EVENTS: Final = 100_000
"""The event stream is trimmed to about this length. Results are never trimmed."""


class WorkerStatus(StrEnum):
    """What happened to a worker."""

    SPAWNING = "spawning"
    STARTED = "started"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    GAVE_UP = "gave_up"


_ENDS: Final = frozenset({WorkerStatus.FINISHED, WorkerStatus.FAILED, WorkerStatus.STOPPED})
SUPERVISOR_LOST: Final = "supervisor_lost"
"""The reason of the end that another supervisor publishes for the worker of one that was killed."""


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """Which worker runs which attempt of which task."""

    supervisor: str
    worker: str
    queue: str
    group: str
    task: str
    attempt: int
    delivery: int
    """How often the message was delivered: another number for each worker that is started for it."""

    def event_id(self, status: WorkerStatus) -> str:
        """Return the id of an event: another one for each event, the same where an event is published twice."""
        phase = "ended" if status in _ENDS else status.value
        return f"{self.task}:{self.delivery}:{phase}"


def build_event(
    run: WorkerRun,
    status: WorkerStatus,
    *,
    at: float,
    pid: int = 0,
    report: TaskReport | None = None,
    will_retry: bool | None = None,
) -> dict[str, str]:
    """Build the fields of a lifecycle event."""
    fields = {
        "status": status.value,
        "worker": run.worker,
        "task": run.task,
        "attempt": str(run.attempt),
        "event_id": run.event_id(status),
        "queue": run.queue,
        "group": run.group,
        "supervisor": run.supervisor,
        "timestamp": iso_timestamp(at),
    }
    if pid:
        fields["pid"] = str(pid)
    if report is not None:
        fields |= describe_end(report) | describe_usage(report)
        if report.error is not None:
            fields["error"] = report.error
    if will_retry is not None:
        fields["will_retry"] = json.dumps(will_retry)
    return fields


def build_lost_event(run: WorkerRun, *, at: float, pid: int = 0) -> dict[str, str]:
    """Build the end of a worker whose supervisor was killed; its task is run again."""
    event = build_event(run, WorkerStatus.FAILED, at=at, pid=pid, will_retry=True)
    return event | {"reason": SUPERVISOR_LOST, "error": "The supervisor was lost while the task ran"}


def build_result(run: WorkerRun, report: TaskReport, *, at: float) -> dict[str, str]:
    """Build the fields of a result."""
    status = report.end.status
    fields = {
        "task": run.task,
        "status": "failed" if status is TaskStatus.STOPPED else status.value,
        "attempt": str(run.attempt),
        "event_id": run.event_id(worker_status(report)),
        "worker": run.worker,
        "timestamp": iso_timestamp(at),
    }
    if status is TaskStatus.FINISHED:
        return fields | {"result": json.dumps(report.result)}
    return fields | {"error": report.error or ""} | describe_end(report) | describe_exception_of(report)


def worker_status(report: TaskReport) -> WorkerStatus:
    """Return what happened to the worker: one that reported an exception has ended well itself."""
    match report.end.status:
        case TaskStatus.FINISHED | TaskStatus.ERROR:
            return WorkerStatus.FINISHED
        case TaskStatus.STOPPED:
            return WorkerStatus.STOPPED
        case TaskStatus.FAILED:
            return WorkerStatus.FAILED


def describe_end(report: TaskReport) -> dict[str, str]:
    """Return reason, exit code and signal, as far as there are any."""
    end = report.end
    found = {"reason": end.reason, "exit_code": end.exit_code, "signal": end.signal}
    return {name: str(value) for name, value in found.items() if value is not None}


def describe_exception_of(report: TaskReport) -> dict[str, str]:
    """Return what the worker said of its exception, as far as it said something."""
    found = {
        "exception_type": report.exception_type,
        "error_class": report.error_class,
        "fingerprint": report.failure.fingerprint if report.failure else None,
        "stack": report.stack,
    }
    return {name: value for name, value in found.items() if value}


def describe_usage(report: TaskReport) -> dict[str, str]:
    """Return what the worker used."""
    usage = {"lived_seconds": f"{report.lived_seconds:.3f}", "cpu_seconds": f"{report.cpu_seconds:.3f}"}
    usage["max_rss_bytes"] = str(report.max_rss_bytes)
    if report.memory_limit != "none":
        usage["memory_limit"] = report.memory_limit
    return usage
