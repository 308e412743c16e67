"""Lanes run the handler: a fixed number of tasks, or of threads for a handler that is no coroutine function.

A lane takes one message after another from a queue that all share. Nothing is made for a single message: no task, no
timeout, no clock call. The consumer looks at the lanes now and then, and cancels what ran for too long.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from reprieve.core.policy import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from reprieve.streams.message import Fields, StreamMessage

_CLOSE_SECONDS: Final = 2.0
"""How long handlers may take to end after their second cancellation."""


class CancelReason(StrEnum):
    """Why the consumer cancelled a handler."""

    TIMEOUT = "timeout"
    STOP = "stop"
    LOST_LEASE = "lost_lease"


class WorkerRunError(Exception):
    """Raised by a handler that runs messages in processes of their own, and knows what ended one."""

    def __init__(self, error: Exception, origin: Cause, context: Mapping[str, Any]) -> None:
        """Take what is classified, the budget that pays, and what the dead letter is to hold besides; sanitized."""
        super().__init__(str(error))
        self.error, self.origin, self.context = error, origin, context


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A message whose handler did not return."""

    message: StreamMessage
    error: BaseException
    origin: Cause = Cause.HANDLER
    unparseable: bool = False
    successes: int = 0
    """How many runs had succeeded before this one failed: tells a streak of failures from failures among successes."""
    context: Mapping[str, Any] = field(default_factory=dict)
    """More for the `error_context` of a dead letter; sanitized."""


@dataclass(frozen=True, slots=True)
class Handler:
    """What a lane calls."""

    call: Callable[..., Any]
    parse: Callable[[Fields], Any]
    takes_message: bool
    timeout: float


class Lanes:
    """The queue, the lanes, and what came out of them."""

    def __init__(self, handler: Handler, count: int, notify: Callable[[], None]) -> None:
        self.handler = handler
        self.queue: deque[StreamMessage] = deque()
        self.done: deque[StreamMessage] = deque()
        self.failed: deque[FailedRun] = deque()
        self.count = count
        self.taken = 0
        """How many messages were taken out of `done`; the consumer counts them."""
        self.asks_for_news = True
        """Whether the next end of a message calls `notify`. It is switched off until the consumer waits again."""
        self._notify = notify
        self._lanes: list[_TaskLane | _ThreadLane] = []
        self.lock = threading.Lock()
        """Held by a thread while it moves a message from the queue to itself."""

    def start(self, *, threads: bool) -> None:
        """Start the lanes."""
        kind: Any = _ThreadLane if threads else _TaskLane
        self._lanes = [kind(self) for _ in range(self.count)]

    def put(self, messages: list[StreamMessage]) -> None:
        """Queue messages and wake as many lanes as they need."""
        self.queue.extend(messages)
        wanted = len(messages)
        for lane in self._lanes:
            if lane.message is None:
                lane.wake()
                wanted -= 1
                if wanted <= 0:
                    break

    def running(self) -> list[StreamMessage]:
        """Return the messages whose handlers run."""
        return [message for lane in self._lanes if (message := lane.message) is not None]

    @property
    def held(self) -> int:
        """How many messages are queued or run."""
        return len(self.queue) + sum(lane.message is not None for lane in self._lanes)

    def known(self) -> Iterator[StreamMessage]:
        """Yield every message that is somewhere between its delivery and its end."""
        with self.lock:
            yield from [*self.queue, *self.running(), *self.done, *(each.message for each in self.failed)]

    def drop_queue(self) -> list[StreamMessage]:
        """Take back what has not started."""
        with self.lock:
            dropped = list(self.queue)
            self.queue.clear()
        return dropped

    def cancel_overdue(self, now: float) -> None:
        """Cancel handlers that ran for longer than their timeout, as seen from one look to the next."""
        for lane in list(self._lanes):
            message = lane.message
            if message is None or message is not lane.seen:
                lane.seen, lane.seen_at = message, now
            elif now - lane.seen_at > self.handler.timeout:
                lane.cancel(CancelReason.TIMEOUT)

    def cancel_all(self, reason: CancelReason) -> int:
        """Cancel every handler that runs, once for each reason; return how many were cancelled now."""
        lanes = [lane for lane in self._lanes if lane.message is not None and not lane.is_cancelled_for(reason)]
        for lane in lanes:
            lane.cancel(reason)
        return len(lanes)

    @property
    def has_lost_runs(self) -> bool:
        """Whether a handler still runs that was cancelled because the lease was lost."""
        return any(each.message is not None and each.is_cancelled_for(CancelReason.LOST_LEASE) for each in self._lanes)

    async def close(self) -> None:
        """End the lanes; leave handlers alone that ignore their cancellation."""
        tasks = [task for lane in self._lanes if (task := lane.close()) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)

    def replace(self, lane: _ThreadLane) -> None:
        """Put a new thread in the place of one whose handler does not end."""
        self._lanes = [_ThreadLane(self) if each is lane else each for each in self._lanes]

    def tell(self) -> None:
        """Say that a message ended, if the consumer waits for that."""
        if self.asks_for_news:
            self.asks_for_news = False
            self._notify()

    @property
    def successes(self) -> int:
        """How many runs have succeeded."""
        return self.taken + len(self.done)

    def fail(self, message: StreamMessage, error: BaseException, reason: CancelReason | None) -> None:
        """Record a run that did not return."""
        match reason:
            case CancelReason.LOST_LEASE:
                return  # others have it
            case CancelReason.STOP:
                run = FailedRun(message, error, Cause.DEPLOY, successes=self.successes)
            case CancelReason.TIMEOUT:
                run = FailedRun(message, TimeoutError(_overdue(self.handler.timeout)), successes=self.successes)
            case None if isinstance(error, WorkerRunError):
                run = FailedRun(message, error.error, error.origin, successes=self.successes, context=error.context)
            case None:
                run = FailedRun(message, error, successes=self.successes)
        self.failed.append(run)


class _TaskLane:
    """A task that awaits the handler."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.message: StreamMessage | None = None
        self.seen: StreamMessage | None = None
        self.seen_at = 0.0
        self._reason: CancelReason | None = None
        self._closing = False
        self._woken = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="reprieve-lane")

    def wake(self) -> None:
        self._woken.set()

    def is_cancelled_for(self, reason: CancelReason) -> bool:
        return self._reason is reason

    def cancel(self, reason: CancelReason) -> None:
        if self._reason is not CancelReason.LOST_LEASE:  # a run without a lease decides nothing, also if it is late
            self._reason = reason
        self._task.cancel()

    def close(self) -> asyncio.Task[None]:
        self._closing = True
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        while not self._closing:
            try:
                await self._woken.wait()
                self._woken.clear()
                await self._drain()
            except asyncio.CancelledError:
                if self._closing:
                    raise
                self._uncancel()  # a cancellation that came after its handler had ended

    async def _drain(self) -> None:
        lanes = self._lanes
        queue, done, handler = lanes.queue, lanes.done, lanes.handler
        call, parse, takes_message = handler.call, handler.parse, handler.takes_message
        while queue and not self._closing:
            self.message = message = queue.popleft()
            try:
                value = parse(message.fields)
            except Exception as error:  # noqa: BLE001 - whatever a validator raises, the message cannot be handled
                lanes.failed.append(FailedRun(message, error, unparseable=True, successes=lanes.successes))
            else:
                try:
                    await (call(value, message) if takes_message else call(value))
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001 - also SystemExit and a cancellation from inside
                    self._end(message, error)
                else:
                    done.append(message)
                    if self._reason is not None:
                        self._uncancel()  # the handler swallowed its cancellation
            self.message = None
            if lanes.asks_for_news:
                lanes.tell()

    def _end(self, message: StreamMessage, error: BaseException) -> None:
        reason = None
        if isinstance(error, asyncio.CancelledError):
            if self._closing:
                raise error
            reason = self._reason
        self._uncancel()
        self._lanes.fail(message, error, reason)

    def _uncancel(self) -> None:
        self._reason = None
        while self._task.cancelling():
            self._task.uncancel()


class _ThreadLane:
    """A thread that calls the handler. A thread cannot be cancelled, so it is given up and another takes its place."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.message: StreamMessage | None = None
        self.seen: StreamMessage | None = None
        self.seen_at = 0.0
        self._given_up = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reprieve-lane", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._woken.set()

    def is_cancelled_for(self, reason: CancelReason) -> bool:  # noqa: ARG002 - a cancelled thread has no message
        return False

    def cancel(self, reason: CancelReason) -> None:
        with self._lanes.lock:
            message, self.message = self.message, None
            if message is None:
                return
            self._given_up = True
        error = TimeoutError(_overdue(self._lanes.handler.timeout))
        self._lanes.fail(message, error, reason)
        if reason is not CancelReason.STOP:
            self._lanes.replace(self)
        self._lanes.tell()

    def close(self) -> None:
        self._given_up = True
        self._woken.set()

    def _run(self) -> None:
        while not self._given_up:
            self._woken.wait()
            self._woken.clear()
            while self._take():
                self._handle()

    def _take(self) -> bool:
        with self._lanes.lock:
            if not self._lanes.queue or self._given_up:
                return False
            self.message = self._lanes.queue.popleft()
            return True

    def _handle(self) -> None:
        lanes, message = self._lanes, self.message
        if message is None:
            return
        run: FailedRun | None = None
        try:
            value = lanes.handler.parse(message.fields)
        except Exception as error:  # noqa: BLE001 - as above
            run = FailedRun(message, error, unparseable=True, successes=lanes.successes)
        else:
            try:
                if lanes.handler.takes_message:
                    lanes.handler.call(value, message)
                else:
                    lanes.handler.call(value)
            except BaseException as error:  # noqa: BLE001 - nothing above a thread handles it
                run = FailedRun(message, error, successes=lanes.successes)
        with lanes.lock:
            if self.message is not message:
                return  # its time was up: another decision was made about the message
            self.message = None
            if run is None:
                lanes.done.append(message)
            else:
                lanes.failed.append(run)
        lanes.tell()


def _overdue(timeout: float) -> str:
    return f"the handler did not end within {timeout:g} s"
