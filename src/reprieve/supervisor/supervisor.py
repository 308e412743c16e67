"""Take tasks from a stream, run each in a worker of its own, and publish what became of it.

For each task: lifecycle event, result, dead letter, acknowledgement, in this order. Whatever ends this process, the task
is pending until all are done: another supervisor takes it over, publishes the end of the lost worker and runs the task.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import secrets
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import ResponseError

from reprieve.app.profiles import resolve
from reprieve.app.redaction import redact
from reprieve.core.backoff import LONGEST, require_number, require_whole
from reprieve.core.failure import TAXONOMY, ErrorClass, Severity
from reprieve.core.policy import Cause
from reprieve.core.restart import GiveUp, Restart, RestartHistory, RestartPolicy, decide_restart
from reprieve.core.task_end import TaskEndReason, TaskStatus, TaskStopReason
from reprieve.errors import UsageError
from reprieve.streams.connection import UNREACHABLE, RedisConnection, is_unavailable, parse_address
from reprieve.streams.consumer import Consumer, ConsumerOptions
from reprieve.streams.failure_writer import rule_on
from reprieve.streams.history import read_history
from reprieve.streams.lanes import FailedRun, WorkerRunError
from reprieve.streams.message import StreamMessage, encode_fields
from reprieve.streams.start_checks import check_appendable
from reprieve.supervisor import containers
from reprieve.supervisor.environment import build_worker_environment
from reprieve.supervisor.failures import (
    TaskFailed,
    TaskInterrupted,
    describe_failure,
    describe_history,
    describe_task_error,
    failure_of_task,
)
from reprieve.supervisor.lifecycle import (
    LIFECYCLE_STREAM,
    MAX_EVENTS,
    RESULTS_SUFFIX,
    WorkerRun,
    WorkerStatus,
    build_event,
    build_lost_event,
    build_result,
    describe_end,
    describe_usage,
    worker_status,
)
from reprieve.supervisor.registry import SECONDS_UNTIL_SILENT, RunningTask, SupervisorRecord, SupervisorRegistry
from reprieve.supervisor.task_runner import Task, TaskReport, TaskRun, WorkerSpec, task_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reprieve.app.profiles import ProfileLike
    from reprieve.ports.alerting import Sink
    from reprieve.streams.failure_writer import Ruling

_LOG: Final = logging.getLogger("reprieve.supervisor")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SECONDS_BETWEEN_BEATS: Final = 1.0
_SECONDS_AFTER_SHUTDOWN: Final = 20.0
"""For SIGTERM, SIGKILL and publishing, once `shutdown_timeout` is over."""
_SECONDS_BESIDE_TIMEOUTS: Final = 120.0
_SECONDS_TO_CLEAN_UP: Final = 60.0
"""Between the time limit of a whole task and the timeout of its lane, which would always allow a retry."""
_FIRST_BACKOFF_SECONDS: Final = 0.05
_MAX_BACKOFF_SECONDS: Final = 5.0
_START_FAILURES: Final = frozenset({TaskEndReason.START_ERROR, TaskEndReason.SPAWN_TIMEOUT})
_ERROR_CLASSES: Final = {
    TaskEndReason.CRASH: str(ErrorClass.WORKER_LOST),
    TaskEndReason.KILLED: str(ErrorClass.WORKER_LOST),
    TaskEndReason.OUT_OF_MEMORY: str(ErrorClass.OUT_OF_MEMORY),
    TaskEndReason.TIMEOUT: "TASK_TIMEOUT",
    TaskEndReason.SPAWN_TIMEOUT: "SPAWN_TIMEOUT",
    TaskEndReason.START_ERROR: "START_ERROR",
    TaskEndReason.INVALID_RESULT: "INVALID_RESULT",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorOptions:
    """How a supervisor works."""

    slots: int = 1
    """Tasks that run at a time, each in a worker of its own."""
    retry: bool = False
    """Try a task again whose worker crashed, ran out of memory or time, or reported a retryable failure."""
    output: str = ""
    """The stream of results; empty: `{queue}:results`."""
    lease: float = 30.0
    shutdown_timeout: float = 30.0
    """Seconds that running tasks have when the supervisor is stopped. Then they are stopped and handed back."""
    max_start_failures: int = 5
    """Give up after so many workers in a row that could not be started or were not ready in time."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        require_whole("slots", self.slots, 1, 1000)
        require_whole("max_start_failures", self.max_start_failures, 1, 1_000_000)
        require_number("shutdown_timeout", self.shutdown_timeout, 0.0, LONGEST)


class Supervisor:
    """Runs the tasks of a queue, each in a process or container of its own."""

    def __init__(  # noqa: PLR0913 - what it works with, by keyword
        self,
        queue: str,
        worker: WorkerSpec,
        *,
        group: str,
        body: str | None = None,
        model: Any = None,  # noqa: ANN401 - any type pydantic knows
        profile: ProfileLike = "orchestrator",
        service: str = "",
        options: SupervisorOptions | None = None,
        sinks: Callable[[], Sequence[Sink]] = tuple,
    ) -> None:
        self.options = SupervisorOptions() if options is None else options
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._profile = resolve(profile)
        limits = task_limits(worker, self._profile)
        self._worker = replace(
            worker, spawn_timeout_seconds=limits.spawn_seconds, task_timeout_seconds=limits.task_seconds
        )
        self._queue, self._group, self._body = queue, group, body
        self._output = self.options.output or f"{queue}{RESULTS_SUFFIX}"
        self._runs: dict[str, TaskRun] = {}
        self._tasks: dict[str, RunningTask] = {}
        self._announcing: set[asyncio.Task[None]] = set()
        self._count = 0
        self._starts = RestartHistory()
        self._not_before = 0.0
        self._has_given_up = False
        self._stopping = asyncio.Event()
        self._url = ""
        slots = self.options.slots
        longest = limits.spawn_seconds + limits.task_seconds + _SECONDS_BESIDE_TIMEOUTS
        self._longest_seconds = min(longest, LONGEST - _SECONDS_TO_CLEAN_UP)

        async def handle(content: object, message: StreamMessage) -> None:
            await self._handle_in_time(content, message)

        self._consumer = Consumer(
            handle,
            queue,
            group=group,
            model=model,
            profile=self._profile,
            service=service,
            options=ConsumerOptions(
                body=body,
                concurrency=slots,
                prefetch=slots,
                lease=self.options.lease,
                timeout=self._longest_seconds + _SECONDS_TO_CLEAN_UP,
                shutdown_timeout=self.options.shutdown_timeout + _SECONDS_AFTER_SHUTDOWN,
                idempotent=self.options.retry,
            ),
            sinks=sinks,
        )
        if self._output in {queue, self._consumer.keys.dead_letters, LIFECYCLE_STREAM}:
            raise UsageError(
                f"results cannot go to {self._output!r}, which holds something else: choose another output"
            )

    async def run(self, url: str, *, until_idle: bool = False, signals: bool = True) -> int:
        """Supervise until stopped; with `until_idle` until nothing is left to do. Return an exit code.

        With `signals`, the first SIGTERM or SIGINT lets running tasks end within `shutdown_timeout`, a second one kills
        them. Tasks that are killed so are handed back, which costs them no attempt of their own.
        """
        self._url = url
        address = parse_address(url)
        self._redis = RedisConnection(address)
        self._registry = SupervisorRegistry(RedisConnection(address), self._queue, self._group)
        loop = asyncio.get_running_loop()
        if signals:
            for number in _SIGNALS:
                loop.add_signal_handler(number, self.stop)
        beat = asyncio.create_task(self._beat())
        try:
            await self._check_streams()
            await self._sweep_containers()
            await self._consumer.run(url, stop=self._stopping, until_idle=until_idle, signals=False)
        finally:
            if signals:
                for number in _SIGNALS:
                    loop.remove_signal_handler(number)
            beat.cancel()
            await asyncio.wait([beat])
            with suppress(*UNREACHABLE):
                await self._registry.forget(self.name)
            await self._registry.close()
            await self._redis.close()
        return 1 if self._has_given_up else 0

    def stop(self) -> None:
        """Take no more tasks and let running ones end; called again, kill them."""
        if self._stopping.is_set():
            for run in list(self._runs.values()):
                run.kill(TaskStopReason.SHUTDOWN)
            return
        self._stopping.set()
        asyncio.get_running_loop().call_later(self.options.shutdown_timeout, self._stop_runs)

    def _stop_runs(self) -> None:
        for run in list(self._runs.values()):
            run.stop(TaskStopReason.SHUTDOWN)

    # --- one task ---

    async def _handle_in_time(self, content: object, message: StreamMessage) -> None:
        """Run one task within the time limit for its run and its publishing together."""
        scope = asyncio.timeout(self._longest_seconds)
        try:
            async with scope:
                await self._handle(content, message)
        except (TimeoutError, asyncio.CancelledError):
            if not scope.expired():
                raise
            text = f"The task and its publishing took longer than {self._longest_seconds:g} s"
            kind = TaskInterrupted if self.options.retry else TaskFailed
            raise WorkerRunError(kind(text, error_class="TASK_TIMEOUT"), Cause.HANDLER, {}) from None

    async def _handle(self, content: object, message: StreamMessage) -> None:
        """Run one task. Returning acknowledges it; raising leaves what becomes of it to the consumer."""
        await self._await_start()
        self._count += 1
        worker = f"{self.name}:{self._count}"
        which = WorkerRun(
            self.name, worker, self._queue, self._group, message.id, attempt_of(message), message.deliveries
        )
        run = TaskRun(
            Task(message.id, which.attempt, self._document(content, message)),
            self._worker,
            on_started=lambda pid: self._note_start(which, pid),
            own_values=(self._url,),
        )
        self._runs[message.id] = run
        self._tasks[message.id] = RunningTask(
            message.id, worker, which.attempt, started_at=time.time(), delivery=message.deliveries
        )
        try:
            if message.deliveries > 1:
                await self._announce_lost_workers(message)
            await self._announce(build_event(which, WorkerStatus.SPAWNING, at=time.time()))
            report = await run.run()
            self._note_end(report)
            await self._conclude(which, message, report)
        finally:
            self._runs.pop(message.id, None)
            self._tasks.pop(message.id, None)

    def _document(self, content: object, message: StreamMessage) -> bytes:
        """The task as JSON: the named field as it is, else all fields."""
        if self._body is None:
            return encode_fields(message.fields).encode()
        wanted = self._body.encode()
        pairs = zip(message.fields[::2], message.fields[1::2], strict=True)
        return next((value for name, value in pairs if name == wanted), json.dumps(content, default=str).encode())

    async def _conclude(self, which: WorkerRun, message: StreamMessage, report: TaskReport) -> None:
        """Decide about another attempt, publish, and raise unless the task is done."""
        failure, will_retry = self._failure_of(report), False
        if failure is not None:
            await self._read_history(message)
            ruling = self._rule_on(message, failure)
            will_retry = ruling.retry_at is not None
            failure.context = {**failure.context, "history": describe_history(ruling.history)}
        at = time.time()
        if self._announcing:  # events stay in their order
            await asyncio.wait(self._announcing)
        event = build_event(which, worker_status(report), at=at, pid=report.pid, report=report, will_retry=will_retry)
        await self._publish(LIFECYCLE_STREAM, event)
        is_published = will_retry or await self._publish(self._output, build_result(which, report, at=at))
        if self._has_given_up and not self._stopping.is_set():
            await self._publish(LIFECYCLE_STREAM, build_event(which, WorkerStatus.GAVE_UP, at=at, report=report))
            self.stop()
        if not will_retry:
            with suppress(*UNREACHABLE):
                await self._registry.withdraw(message.id)
        if failure is not None:
            raise failure
        if not is_published:
            text = f"Redis refused the result in {self._output}"
            raise WorkerRunError(TaskFailed(text, error_class="RESULT_REFUSED"), Cause.HANDLER, {})

    def _failure_of(self, report: TaskReport) -> WorkerRunError | None:
        """Build what the consumer is told; None for a task that is done, also by an operator who cancelled it."""
        end, text = report.end, describe_task_error(report)
        if end.cause is None:
            return None
        error_class = _error_class(report)
        is_retried = self.options.retry or end.cause is Cause.DEPLOY
        known = failure_of_task(report, report.error_class or error_class)
        context = describe_failure(report, known, is_retried=is_retried) | {
            "task": describe_end(report) | describe_usage(report),
            "output": report.output,
        }
        if end.cause is Cause.DEPLOY:
            return WorkerRunError(TaskInterrupted(text), Cause.DEPLOY, context)
        if self.options.retry and end.is_retryable:
            again = TaskInterrupted(text, retry_after=report.retry_after, error_class=error_class)
            return WorkerRunError(again, end.cause, context)
        return WorkerRunError(TaskFailed(text, error_class=error_class), Cause.HANDLER, context)

    def _rule_on(self, message: StreamMessage, failure: WorkerRunError) -> Ruling:
        """Decide as the consumer will: by the same function from the same history."""
        run = FailedRun(message, failure.error, failure.origin)
        rand = random.random()  # noqa: S311 - jitter
        return rule_on(run, self._profile, now=time.time(), rand=rand, idempotent=self.options.retry)

    # --- starts ---

    async def _await_start(self) -> None:
        """Wait after workers that could not be started; hand the task back where the supervisor stops meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, self._not_before - time.monotonic())):
                await self._stopping.wait()
        if self._stopping.is_set():
            raise WorkerRunError(TaskInterrupted("Supervisor stopped"), Cause.DEPLOY, {})

    def _note_start(self, which: WorkerRun, pid: int) -> None:
        task = self._tasks[which.task]
        task.pid, task.is_started = pid, True
        event = build_event(which, WorkerStatus.STARTED, at=time.time(), pid=pid)
        announcing = asyncio.create_task(self._announce(event))
        self._announcing.add(announcing)
        announcing.add_done_callback(self._announcing.discard)

    def _note_end(self, report: TaskReport) -> None:
        """Start the next worker later, or none any more, where this one could not be started."""
        if report.end.reason not in _START_FAILURES:
            self._starts = RestartHistory()
            return
        policy = RestartPolicy(max_quick_ends=self.options.max_start_failures)
        decision = decide_restart(self._starts, 1, 0.0, policy, stopping=False)
        match decision:
            case Restart(delay_seconds=delay, history=history):
                self._starts, self._not_before = history, time.monotonic() + delay
            case GiveUp(quick_ends=count):
                self._has_given_up = True
                _LOG.critical("%d workers in a row could not be started, the last: %s", count, report.error)
            case _:
                pass

    # --- Redis ---

    async def _announce(self, event: dict[str, str]) -> None:
        """Publish an informative event, once. A failure is logged."""
        try:
            await self._redis.call(*_add_event(event))
        except UNREACHABLE as error:
            _LOG.warning(
                "the event %s of task %s was not published: %s", event["status"], event["task"], redact(str(error))
            )

    async def _announce_lost_workers(self, message: StreamMessage) -> None:
        """Publish the end of the workers that ran this task in supervisors that were killed, as far as they are known."""
        try:
            now, records = await self._registry.read()
        except UNREACHABLE as error:
            _LOG.warning("who ran task %s before is not known: %s", message.id, redact(str(error)))
            return
        for record in records:
            if now - record.beat_at <= SECONDS_UNTIL_SILENT:  # alive: it publishes the end itself
                continue
            for task in record.tasks:
                if task.id == message.id and task.delivery < message.deliveries:
                    place = (self._queue, self._group, task.id, task.attempt, task.delivery)
                    run = WorkerRun(record.name, task.worker, *place)
                    await self._announce(build_lost_event(run, at=time.time(), pid=task.pid))

    async def _check_streams(self) -> None:
        """Refuse to start where results or events cannot be written."""
        for stream in (self._output, LIFECYCLE_STREAM):
            await check_appendable(self._redis, stream)

    async def _publish(self, stream: str, fields: dict[str, str]) -> bool:
        """Publish until Redis has it. The task is acknowledged only afterwards.

        Returns False where Redis refuses: another try would be refused too, so the supervisor gives up.
        """
        command = _add_event(fields) if stream == LIFECYCLE_STREAM else ("XADD", stream, "*", *_flat(fields))
        try:
            await self._call_patiently(stream, command)
        except ResponseError as error:
            _LOG.critical("%s: Redis refuses to append: %s", stream, redact(str(error)))
            self._has_given_up = True
            return False
        return True

    async def _read_history(self, message: StreamMessage) -> None:
        """Read the history of a message at its first delivery: a replayed one has a history then."""
        if message.history is None and message.deliveries == 1:
            names = [message.id, *(f"{message.id}:{each}" for each in ("lost_lease", "crash", "out_of_memory"))]
            state = self._consumer.keys.state
            text, lost, crash, memory = await self._call_patiently(state, ("HMGET", state, *names))
            message.history = read_history(
                text, lost_lease=int(lost or 0), crash=int(crash or 0), out_of_memory=int(memory or 0)
            )

    async def _call_patiently(self, key: str, command: tuple[str | int, ...]) -> Any:  # noqa: ANN401 - what Redis sent
        """Send a command until Redis carries it out; raise what it refuses."""
        backoff = _FIRST_BACKOFF_SECONDS
        while True:
            try:
                return await self._redis.call(*command)
            except UNREACHABLE as error:
                if isinstance(error, ResponseError) and not is_unavailable(error):
                    raise
                _LOG.warning("%s: Redis: %s; again in %.1f s", key, redact(str(error)), backoff)
                await asyncio.sleep(backoff)
                backoff = min(2 * backoff, _MAX_BACKOFF_SECONDS)

    async def _beat(self) -> None:
        """Keep the record of this supervisor, and stop tasks that operators cancelled."""
        spec = self._worker
        record = SupervisorRecord(
            self.name,
            socket.gethostname(),
            os.getpid(),
            self.options.slots,
            started_at=time.time(),
            program=spec.container.program if spec.container else "",
        )
        while True:
            try:
                cancelled = await self._registry.beat(record, list(self._tasks.values()))
                for task, cancellation in cancelled.items():
                    if task in self._runs:
                        _LOG.warning("task %s is cancelled by %s: %s", task, cancellation.actor, cancellation.reason)
                        self._runs[task].stop(TaskStopReason.CANCELLED)
            except UNREACHABLE as error:
                _LOG.warning("%s: Redis: %s", self.name, redact(str(error)))
            await asyncio.sleep(_SECONDS_BETWEEN_BEATS)

    async def _sweep_containers(self) -> None:
        """Remove containers of supervisors that were killed together with their wardens."""
        if self._worker.container is None:
            return
        environment = build_worker_environment(os.environ, own_values=(self._url,))
        removed = await containers.remove_abandoned(self._worker.container.program, environment)
        if removed:
            _LOG.warning("%d containers of killed supervisors were removed", len(removed))


def attempt_of(message: StreamMessage) -> int:
    """Return the number of this attempt, from 1: after as many workers as ended in any other way than by a deploy."""
    history = message.history
    if history is None:
        return 1
    return 1 + history.handler + history.worker_crash + history.worker_out_of_memory + history.deploy


def _error_class(report: TaskReport) -> str | None:
    """Return the class for the dead letter. A worker cannot pause the whole group, so a fatal one is not taken over."""
    reported = report.error_class if report.end.status is TaskStatus.ERROR else None
    if reported is None:
        reason = report.end.reason
        return _ERROR_CLASSES.get(reason) if reason is not None else None
    known = TAXONOMY.get(ErrorClass(reported)) if reported in set(ErrorClass) else None
    return reported if known is not None and known.severity is not Severity.FATAL else None


def _add_event(fields: dict[str, str]) -> tuple[str | int, ...]:
    return ("XADD", LIFECYCLE_STREAM, "MAXLEN", "~", MAX_EVENTS, "*", *_flat(fields))


def _flat(fields: dict[str, str]) -> list[str]:
    return [each for pair in fields.items() for each in pair]
