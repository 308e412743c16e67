"""Run one task in one worker process or container, and return how it ended."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.redaction import redact
from reprieve.core.backoff import LONGEST, require_number, require_whole
from reprieve.core.record import writable
from reprieve.core.task_end import (
    ReportedResult,
    TaskEnd,
    TaskEndReason,
    TaskEvidence,
    TaskStatus,
    TaskStopReason,
    decide_task_end,
)
from reprieve.errors import UsageError
from reprieve.processes.session import ProcessExit, SessionProcess, WardenOptions
from reprieve.supervisor import contract
from reprieve.supervisor.containers import (
    FOLDER,
    ContainerSpec,
    build_remove_command,
    build_run_command,
    container_name,
    read_state,
    require_program,
)
from reprieve.supervisor.environment import build_worker_environment, require_foreign_names
from reprieve.supervisor.failures import read_failure, read_stack
from reprieve.supervisor.output import OutputTail, PipeReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from reprieve.core.failure import Failure
    from reprieve.core.policy import Profile

PROCESS_CRASHED: Final = "Process crashed"
"""The error of a result whose worker ended with a code other than 0 (ORC-4.3)."""
_SPAWN_SECONDS: Final = 60.0
_TASK_SECONDS: Final = 1800.0
_SECONDS_TO_STOP: Final = 5.0
"""Between SIGTERM and SIGKILL, for a task that is cancelled or that the shutdown no longer waits for."""
_SECONDS_BETWEEN_LOOKS: Final = 0.05
_MIN_MEMORY_BYTES: Final = 4 * 1024 * 1024
_MAX_MEMORY_BYTES: Final = 2**50


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What runs a task, and within which limits."""

    command: Sequence[str]
    """For a container: what runs in it; empty: what its image says."""
    container: ContainerSpec | None = None
    env: Sequence[str] | None = None
    """Names of variables that the worker gets. None: all that do not belong to Reprieve; for a container none."""
    memory_bytes: int | None = None
    spawn_timeout_seconds: float | None = None
    """None: the timeout of `worker_spawn` in the supervisor's profile, else 60 s."""
    task_timeout_seconds: float | None = None
    """None: the timeout of `developer_task` in the supervisor's profile, else 30 min."""
    waits_for_ready: bool = True
    """The worker says when it is ready. False: a process that runs is ready."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if isinstance(self.command, str) or isinstance(self.env, str):
            raise UsageError("command and env are lists of words, as ['python', 'worker.py'] and ['PATH']")
        if not self.command and self.container is None:
            raise UsageError("a worker needs a command, or an image to run in a container")
        for name, seconds in (("spawn", self.spawn_timeout_seconds), ("task", self.task_timeout_seconds)):
            if seconds is not None:
                require_number(f"{name}_timeout", seconds, 0.001, LONGEST)
        if self.memory_bytes is not None:
            require_whole("memory", self.memory_bytes, _MIN_MEMORY_BYTES, _MAX_MEMORY_BYTES)
        if self.container is not None:
            require_program(self.container.program)
        if self.env is not None:
            require_foreign_names(self.env)


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """How long a worker may take."""

    spawn_seconds: float
    """From its start until it is ready."""
    task_seconds: float
    """From then on until it has ended."""


def task_limits(spec: WorkerSpec, profile: Profile | None = None) -> TaskLimits:
    """Return the limits of a worker: its own, else those of the profile, else 60 s and 30 min."""

    def choose(own: float | None, operation: str, default: float) -> float:
        if own is not None:
            return own
        named = None if profile is None else profile.timeouts.get(operation)
        return default if named is None else named.seconds

    return TaskLimits(
        spawn_seconds=choose(spec.spawn_timeout_seconds, "worker_spawn", _SPAWN_SECONDS),
        task_seconds=choose(spec.task_timeout_seconds, "developer_task", _TASK_SECONDS),
    )


@dataclass(frozen=True, slots=True)
class Task:
    """One message, as its worker gets it."""

    id: str
    attempt: int
    document: bytes
    """JSON."""


@dataclass(frozen=True, slots=True)
class TaskReport:
    """How a task ended."""

    end: TaskEnd
    error: str | None = None
    """For the result: "Process crashed", the worker's own message, or what was exceeded."""
    result: Any = None
    error_class: str | None = None
    exception_type: str | None = None
    failure: Failure | None = None
    """The worker's own classification of its exception."""
    stack: str = ""
    """The stack of that exception, sanitized."""
    retry_after: float | None = None
    output: str = ""
    """The last 64 KiB of standard output and error, without secrets; empty for a task that finished."""
    pid: int = 0
    lived_seconds: float = 0.0
    max_rss_bytes: int = 0
    cpu_seconds: float = 0.0
    leftovers: int = 0
    memory_limit: str = "none"


@dataclass(slots=True)
class _WorkerResult:
    """What the worker wrote, within its limit."""

    data: bytearray = field(default_factory=bytearray)
    is_too_large: bool = False

    def receive(self, data: bytes) -> None:
        if self.is_too_large or len(self.data) + len(data) > contract.MAX_RESULT_BYTES:
            self.is_too_large = True
            self.data.clear()
        else:
            self.data += data


class TaskRun:
    """One task on its way. `run` is called once; `stop` may be called at any time."""

    def __init__(
        self,
        task: Task,
        spec: WorkerSpec,
        *,
        on_started: Callable[[int], None] = lambda pid: None,  # noqa: ARG005 - a default that does nothing
        own_values: Iterable[str] = (),
    ) -> None:
        self.task, self.spec = task, spec
        self._limits = task_limits(spec)
        self._on_started = on_started
        self._own_values = tuple(own_values)
        self._process: SessionProcess | None = None
        self._stopped_for: TaskStopReason | None = None
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._output, self._written = OutputTail(), _WorkerResult()
        self._drained: tuple[PipeReader, ...] = ()
        self._is_start_told = False

    def stop(self, reason: TaskStopReason) -> None:
        """End the task by SIGTERM, and five seconds later by SIGKILL. The first reason counts."""
        if self._stopped_for is None:
            self._stopped_for = reason
            if self._process is not None:
                self._process.terminate(group=True)
                self._loop.call_later(_SECONDS_TO_STOP, self._process.kill)

    def kill(self, reason: TaskStopReason) -> None:
        """End the task now."""
        self._stopped_for = self._stopped_for or reason
        if self._process is not None:
            self._process.kill()

    async def run(self) -> TaskReport:
        """Start the worker, wait for its end, and leave nothing of it behind."""
        began = self._loop.time()
        with ExitStack() as stack:
            try:
                process = self._start_container(stack) if self.spec.container else self._start_process(stack)
            except OSError as error:
                evidence = TaskEvidence(_exit_code_of(error), is_startable=False)
                return self._report(
                    evidence, error=f"Worker could not be started: {writable(error.strerror or str(error))}"
                )
            self._process = process
            try:
                if self._stopped_for is not None:
                    process.kill()
                await self._watch(process)
                report = await self._judge(process)
            finally:
                process.kill()
                process.clean_up()
                await asyncio.shield(process.exited)
        return _with_usage(report, process, self._loop.time() - began)

    async def _watch(self, process: SessionProcess) -> None:
        """Wait for readiness, then for the end. Kill the tree at either timeout."""
        ready: asyncio.Future[Any] = self._ready if self.spec.waits_for_ready else process.started
        if self.spec.container is not None:
            self._look_for_ready_file()
        await asyncio.wait(
            [ready, process.ended], timeout=self._limits.spawn_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if not ready.done() and not process.ended.done():
            self.kill(TaskStopReason.SPAWN_TIMEOUT)
        elif not process.ended.done():
            self._tell_start(process)
            await asyncio.wait([process.ended], timeout=self._limits.task_seconds)
            if not process.ended.done():
                self.kill(TaskStopReason.TIMEOUT)
        await asyncio.shield(process.ended)

    def _tell_start(self, process: SessionProcess) -> None:
        if not self._is_start_told:
            self._is_start_told = True
            self._on_started(process.pid)

    async def _judge(self, process: SessionProcess) -> TaskReport:
        exit_ = process.ended.result()
        container = self.spec.container
        out_of_memory, error = exit_.out_of_memory, exit_.start_error
        if container is not None and self._stopped_for is None and exit_.code != 0:
            state = await read_state(container.program, self._container_name, self._environment)
            out_of_memory = state is not None and state.out_of_memory
            error = error or (state.error if state else None)
        if container is None:
            await asyncio.shield(process.exited)
        self._drain()
        is_ready = self._ready.done() if self.spec.waits_for_ready else exit_.start_error is None
        if is_ready:  # it ended in the same moment
            self._tell_start(process)
        reported, document = self._parse_result()
        evidence = TaskEvidence(
            exit_.code,
            reported,
            self._stopped_for,
            out_of_memory=out_of_memory,
            in_container=container is not None,
            is_memory_limited=self.spec.memory_bytes is not None,
            is_startable=exit_.start_error is None,
        )
        if decide_task_end(evidence).status is TaskStatus.FINISHED:
            return self._report(evidence, document=document, error=error)
        # Redaction of the whole output takes too long for the event loop.
        return await asyncio.to_thread(self._report, evidence, document=document, error=error)

    # --- starting ---

    def _start_process(self, stack: ExitStack) -> SessionProcess:
        output = self._pipe(stack, self._output.receive)
        written = self._pipe(stack, self._written.receive)
        ready = self._pipe(stack, lambda _: self._set_ready())
        self._drained = (ready, written, output)
        stdin = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
        stdin.write(self.task.document)
        stdin.seek(0)
        environment = build_worker_environment(os.environ, self.spec.env, own_values=self._own_values)
        environment |= self._task_variables()
        environment |= {
            contract.RESULT_FD: str(contract.RESULT_NUMBER),
            contract.READY_FD: str(contract.READY_NUMBER),
        }
        options = WardenOptions(
            numbered=((written.write_end, contract.RESULT_NUMBER), (ready.write_end, contract.READY_NUMBER)),
            memory_bytes=self.spec.memory_bytes,
        )
        process = SessionProcess(
            self.spec.command,
            options=options,
            environment=environment,
            output=(output.write_end, output.write_end),
            stdin=stdin.fileno(),
        )
        for pipe in (output, written, ready):
            pipe.hand_over()
        return process

    def _start_container(self, stack: ExitStack) -> SessionProcess:
        container = self.spec.container
        assert container is not None  # noqa: S101 - for the type checker: the caller looked
        output = self._pipe(stack, self._output.receive)
        self._drained = (output,)
        private = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="reprieve-task-", ignore_cleanup_errors=True))
        )
        self._folder = private / "task"
        self._folder.mkdir()
        self._folder.chmod(0o777)  # the user of the image may be any; the folder above is ours alone
        (self._folder / "task.json").write_bytes(self.task.document)
        (self._folder / "task.json").chmod(0o644)
        self._container_name = container_name()
        variables = self._task_variables() | {
            contract.TASK_FILE: f"{FOLDER}/task.json",
            contract.READY_FILE: f"{FOLDER}/ready",
            contract.RESULT_FILE: f"{FOLDER}/result.json",
        }
        named = build_worker_environment(os.environ, self.spec.env, own_values=self._own_values, in_container=True)
        # The program itself needs PATH, HOME, DOCKER_HOST and the like, and takes the values of named variables from here.
        self._environment = build_worker_environment(os.environ, own_values=self._own_values) | named | variables
        command = build_run_command(
            container,
            self.spec.command,
            name=self._container_name,
            folder=str(self._folder),
            environment=[*named, *variables],
            memory_bytes=self.spec.memory_bytes,
            task_id=self.task.id,
        )
        clean_up = build_remove_command(container.program, self._container_name)
        process = SessionProcess(
            command,
            options=WardenOptions(control_groups=False, clean_up=clean_up),
            environment=self._environment,
            output=(output.write_end, output.write_end),
        )
        output.hand_over()
        return process

    def _pipe(self, stack: ExitStack, receive: Callable[[bytes], None]) -> PipeReader:
        pipe = PipeReader(receive)
        stack.callback(pipe.close)
        return pipe

    def _task_variables(self) -> dict[str, str]:
        return {contract.TASK_ID: self.task.id, contract.TASK_ATTEMPT: str(self.task.attempt)}

    # --- readiness and results ---

    def _set_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _look_for_ready_file(self) -> None:
        """Look again and again, as no event crosses the border of every kind of container."""
        if (self._folder / "ready").exists():
            self._set_ready()
        elif self._process is not None and not self._process.ended.done():
            self._loop.call_later(_SECONDS_BETWEEN_LOOKS, self._look_for_ready_file)

    def _drain(self) -> None:
        for pipe in self._drained:
            pipe.drain()
        if self.spec.container is not None:
            self._look_for_ready_file()
            self._read_result_file()

    def _read_result_file(self) -> None:
        """Read what the container wrote: a plain file only, as a link would lead to a file of this host."""
        try:
            descriptor = os.open(self._folder / "result.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                self._written.receive(file.read(contract.MAX_RESULT_BYTES + 1))

    def _parse_result(self) -> tuple[ReportedResult, dict[str, Any]]:
        if self._written.is_too_large:
            return ReportedResult.INVALID, {"error": f"the result has more than {contract.MAX_RESULT_BYTES} bytes"}
        if not self._written.data:
            return ReportedResult.NONE, {}
        try:
            document = json.loads(self._written.data)
        except (ValueError, RecursionError):
            return ReportedResult.INVALID, {"error": "the result is no JSON"}
        match document:
            case {"status": "finished"}:
                return ReportedResult.FINISHED, document
            case {"status": "error", "error": str()}:
                is_retryable = document.get("retryable") is True
                return (ReportedResult.RETRYABLE_ERROR if is_retryable else ReportedResult.ERROR), document
            case _:
                problem = 'the result is no object with "status" of "finished" or "error"'
                return ReportedResult.INVALID, {"error": problem}

    def _report(
        self, evidence: TaskEvidence, *, document: dict[str, Any] | None = None, error: str | None = None
    ) -> TaskReport:
        end = decide_task_end(evidence)
        document = document or {}
        if end.status is TaskStatus.FINISHED:
            return TaskReport(end, result=document.get("result"))
        output = self._output.text()
        if end.status is TaskStatus.ERROR:
            return TaskReport(
                end,
                writable(redact(document["error"]))[: contract.MAX_ERROR_CHARACTERS],
                error_class=_text(document.get("error_class")),
                exception_type=_text(document.get("exception_type")),
                failure=read_failure(document.get("failure")),
                stack=read_stack(document.get("stack")),
                retry_after=_seconds(document.get("retry_after")),
                output=output,
            )
        return TaskReport(end, self._describe(end, document, error, output), output=output)

    def _describe(self, end: TaskEnd, document: dict[str, Any], error: str | None, output: str) -> str:
        """Say what failed, for the result. An end that nothing else explains is a crash."""
        if end.reason is TaskEndReason.START_ERROR:
            detail = error or (output.strip().splitlines() or ["no reason was given"])[-1]
            return f"Worker could not be started: {writable(redact(detail))}"[: contract.MAX_ERROR_CHARACTERS]
        known = {
            TaskEndReason.TIMEOUT: f"Task timed out after {self._limits.task_seconds:g} s",
            TaskEndReason.SPAWN_TIMEOUT: f"Worker was not ready within {self._limits.spawn_seconds:g} s",
            TaskEndReason.INVALID_RESULT: f"Worker result was refused: {document.get('error')}",
            TaskEndReason.CANCELLED: "Task was cancelled",
            TaskEndReason.SHUTDOWN: "Supervisor stopped",
        }
        return known.get(end.reason, PROCESS_CRASHED) if end.reason else PROCESS_CRASHED


def _exit_code_of(error: OSError) -> int:
    """Return the exit code of a shell for a command that could not be started."""
    return 127 if isinstance(error, FileNotFoundError) else 126


def _with_usage(report: TaskReport, process: SessionProcess, lived_seconds: float) -> TaskReport:
    exit_: ProcessExit = process.exited.result()
    return replace(
        report,
        pid=process.pid,
        lived_seconds=lived_seconds,
        max_rss_bytes=exit_.max_rss_bytes,
        cpu_seconds=exit_.cpu_seconds,
        leftovers=exit_.leftovers,
        memory_limit=process.memory_limit,
    )


def _text(value: object) -> str | None:
    return writable(redact(value))[:200] if isinstance(value, str) else None


def _seconds(value: object) -> float | None:
    """Return a delay that the worker asks for; None for what is no number of seconds up to a year."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= LONGEST else None
