"""Taskiq: tasks retried as a profile decides, dead-lettered with evidence, and replayed through the broker.

    failures = ReprieveMiddleware("redis://localhost/0", service="shop")
    broker = RedisStreamBroker("redis://localhost/0", consumer_id="0").with_middlewares(failures)

    @broker.task
    async def charge(order_id): ...

    await failures.replay("taskiq", "1795030522774-0")

Taskiq's brokers cannot delay on Redis. A retry waits in a sorted set, and workers send it when it is due.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from reprieve.errors import UsageError
from reprieve.integrations.tasks import (
    DEFAULT_PROFILE,
    LOG,
    NOT_REPLAYABLE,
    AsyncTaskRecorder,
    HostTask,
    TaskRecorder,
    build_policy,
    original_fields,
)
from reprieve.streams.scripts import Script

try:
    from taskiq import AckableMessage, NoResultError, TaskiqMiddleware
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] != "taskiq":
        raise
    raise UsageError("this integration needs Taskiq: pip install 'reprieve[taskiq,redis]'") from error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from taskiq import AsyncBroker, TaskiqMessage, TaskiqResult

    from reprieve.app.profiles import ProfileLike

INTEGRATION: Final = "taskiq"
POLL_SECONDS: Final = 0.2
"""How often a worker looks for retries that are due."""
PAUSE_WITHOUT_REDIS_SECONDS: Final = 2.0
SEND_LEASE_MILLISECONDS: Final = 30_000
"""A worker that took a retry to send it and died leaves it to others after so long."""
MAX_SENT: Final = 100
ALONE_WAIT_SECONDS: Final = 60.0
"""How long a suspect waits for other tasks of its process to end."""
_ATTEMPT, _STARTED = "reprieve_attempt", "reprieve_started"
_REPLAYS, _REPLAYED_FROM = "reprieve_replays", "reprieve_replayed_from"


def _script(name: str, text: str) -> Script:
    data = text.encode()
    return Script(name, data, hashlib.sha1(data, usedforsecurity=False).hexdigest())


_NOW: Final = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) "
# KEYS: waiting  ARGV: message delay_ms. A delay counts from the next millisecond, so that it is never early.
_SCHEDULE: Final = _script(
    "schedule", _NOW + "redis.call('ZADD', KEYS[1], now + 1 + tonumber(ARGV[2]), ARGV[1]) return now"
)
# KEYS: waiting  ARGV: lease_ms limit -> messages that are due. They come again after the lease unless removed.
_TAKE_DUE: Final = _script(
    "take_due",
    _NOW + "local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2]) "
    "for _, message in ipairs(due) do redis.call('ZADD', KEYS[1], now + ARGV[1], message) end return due",
)


class ReprieveMiddleware(TaskiqMiddleware):
    """Counts starts, decides about failures, sends retries when they are due, and writes dead letters.

    `url` is the address of a Redis. A task has its own profile with `@broker.task(profile="...")`, and is
    repeated after conflicts with `idempotent=True`.
    """

    def __init__(self, url: str, *, profile: ProfileLike = DEFAULT_PROFILE, service: str = "") -> None:
        super().__init__()
        policy = build_policy(profile, service)
        self._policy, self._blocking = policy, TaskRecorder(url, policy)
        self.recorder = AsyncTaskRecorder(url, policy)
        self._raw: dict[str, bytes] = {}
        """The messages that run, as they came: Taskiq changes the arguments of a message that it has read."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._sender: asyncio.Task[None] | None = None
        self._listen_to_broker: Callable[[], AsyncGenerator[bytes | AckableMessage, None]] | None = None

    def set_broker(self, broker: AsyncBroker) -> None:
        """Stand between the broker and the worker: Taskiq drops what it cannot read, before any hook."""
        super().set_broker(broker)
        self._listen_to_broker = broker.listen
        broker.listen = self._listen  # type: ignore[method-assign]  # Taskiq has no hook there

    async def startup(self) -> None:
        """Begin to send retries, in worker processes."""
        if self.broker.is_worker_process:
            self._sender = asyncio.create_task(self._send_due())

    async def shutdown(self) -> None:
        """Stop sending retries."""
        if self._sender is not None:
            self._sender.cancel()
            with suppress(asyncio.CancelledError):
                await self._sender
        await self.recorder.close()

    async def _listen(self) -> AsyncGenerator[bytes | AckableMessage, None]:
        assert self._listen_to_broker is not None  # noqa: S101 - for the type checker: a broker listens
        async for message in self._listen_to_broker():
            data = message.data if isinstance(message, AckableMessage) else message
            try:
                task = await self._readable(data)
            except Exception as error:  # noqa: BLE001 - it stays unacknowledged, and the broker delivers it again
                LOG.critical("the dead letter of a message cannot be written: %s", type(error).__name__)
                continue
            suspect = task is not None and not await self._counted(task)
            if suspect and task is not None and await self._is_poison(task):
                task = None
            if task is None:
                await self._acknowledge(message)
                continue
            self._raw[task.id] = data
            self._idle.clear()
            yield message
            if suspect:
                await self._wait_until_idle()

    async def _acknowledge(self, message: bytes | AckableMessage) -> None:
        if not isinstance(message, AckableMessage):
            return
        try:
            called = message.ack()
            if called is not None:
                await called
        except Exception as error:  # noqa: BLE001 - the broker delivers it again, and it is dead-lettered again
            LOG.warning("a dead-lettered message cannot be acknowledged: %s", type(error).__name__)

    async def _readable(self, data: bytes) -> HostTask | None:
        """The task of a message; None for one that was dead-lettered, as it is no call of a task."""
        task = HostTask(
            integration=INTEGRATION, queue=self._queue({}), name="unknown", id="", fields={"unreadable": data}
        )
        problem: Exception
        try:
            message = self.broker.formatter.loads(data)
            message.parse_labels()
            task = self.host_task(message, data)
        except Exception as error:  # noqa: BLE001 - whatever the formatter raises
            problem = error
        else:
            if self.broker.find_task(message.task_name) is not None:
                return task
            problem = UsageError(f"no task is named {message.task_name!r}")
        await self.recorder.dead_letter(task, self._policy.decide_unreadable(problem, task))
        return None

    async def _counted(self, task: HostTask) -> bool:
        """Count a first start; False for a suspect, whose earlier start has not ended."""
        try:
            return await self.recorder.count_first_start(task)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with Redis, the task runs
            LOG.warning("%s runs without being counted: %s", task, type(error).__name__)
            return True

    async def _is_poison(self, task: HostTask) -> bool:
        """Wait until nothing else runs here and count the start, or write the dead letter."""
        await self._wait_until_idle()
        try:
            # The first start ran beside others, so that its end proves nothing.
            crashes = await self.recorder.starts(task) - 1
            found = self._policy.decide_crash(task, crashes)
            if found is None:
                await self.recorder.count_start(task)
                return False
            await self.recorder.dead_letter(task, found)
        except Exception as error:  # noqa: BLE001 - the same
            LOG.critical("%s runs without being counted: %s", task, type(error).__name__)
            return False
        return True

    async def _wait_until_idle(self) -> None:
        try:
            async with asyncio.timeout(ALONE_WAIT_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            LOG.warning("tasks of this process run for long: a suspect runs beside them")

    async def on_error(
        self,
        message: TaskiqMessage,
        result: TaskiqResult[Any],
        exception: BaseException,
    ) -> None:
        """Decide about a failure; Taskiq acknowledges the message afterwards, unless this raises."""
        raw = self._raw.get(message.task_id)
        if raw is None or isinstance(exception, NoResultError):
            return
        try:
            await self._decide(message, result, exception, raw)
        except BaseException as error:
            LOG.critical("%s stays unacknowledged: %s", message.task_id, type(error).__name__)
            self._has_ended(message.task_id)
            raise

    async def _decide(
        self, message: TaskiqMessage, result: TaskiqResult[Any], exception: BaseException, raw: bytes
    ) -> None:
        task = self.host_task(message, raw)
        if not isinstance(exception, Exception):  # the worker stops: that costs no attempt
            await self._schedule(raw, task, attempt=task.attempt, delay=0.0)
            return
        labels = message.labels
        found = self._policy.decide_failure(
            exception, task, profile=labels.get("profile"), idempotent=bool(labels.get("idempotent"))
        )
        if found.delay is None:
            await self.recorder.dead_letter(task, found)
            return
        await self._schedule(raw, task, attempt=task.attempt + 1, delay=found.delay)
        result.error = NoResultError()  # it is not over: no result is kept

    async def post_execute(self, message: TaskiqMessage, result: TaskiqResult[Any]) -> None:  # noqa: ARG002 - as Taskiq has it
        """Forget the start of a task that has ended."""
        if not self._has_ended(message.task_id):
            return
        try:
            await self.recorder.forget(self.host_task(message, b""))
        except Exception as error:  # noqa: BLE001 - the task has ended
            LOG.warning("the starts of %s stay counted: %s", message.task_id, type(error).__name__)

    def _has_ended(self, task_id: str) -> bool:
        """Whether a task ran here until now."""
        ran = self._raw.pop(task_id, None) is not None
        if not self._raw:
            self._idle.set()
        return ran

    async def _schedule(self, raw: bytes, task: HostTask, *, attempt: int, delay: float) -> None:
        again = self._with_labels(raw, {_ATTEMPT: attempt, _STARTED: task.started or time.time()})
        member = self.broker.formatter.dumps(again).message
        await self.recorder.run(_SCHEDULE, [self._waiting()], member, int(delay * 1000) + 1)

    async def _send_due(self) -> None:
        """Send what is due, for as long as the worker runs."""
        recorder, waiting, formatter = self.recorder, self._waiting(), self.broker.formatter
        while True:
            try:
                due = await recorder.run(_TAKE_DUE, [waiting], SEND_LEASE_MILLISECONDS, MAX_SENT)
                for member in due:
                    await self.broker.kick(formatter.dumps(formatter.loads(member)))
                    await recorder.call("ZREM", waiting, member)
            except Exception as error:  # noqa: BLE001 - retries wait in Redis until it can be reached
                LOG.warning("retries wait for Redis: %s", type(error).__name__)
                await asyncio.sleep(PAUSE_WITHOUT_REDIS_SECONDS)
            await asyncio.sleep(POLL_SECONDS)

    async def dead_letter_ids(self, queue: str, *, limit: int = 1000) -> list[str]:
        """The ids of the oldest dead letters of a queue."""
        return await asyncio.to_thread(self._blocking.dead_letter_ids, queue, limit=limit)

    async def replay(self, queue: str, dead_letter_id: str) -> str | None:
        """Send a dead letter's task again, and remove the dead letter.

        Returns the task's id, or None where another replay has it. The task has its whole budget again. A crash
        in between leaves the dead letter, and the task can be sent twice.
        """
        letter = await asyncio.to_thread(self._blocking.begin_replay, queue, dead_letter_id)
        if letter is None:
            return None
        try:
            fields = original_fields(letter, INTEGRATION)
            if "message" not in fields:
                raise UsageError(NOT_REPLAYABLE)  # noqa: TRY301 - the dead letter is let go below
            labels = {_REPLAYS: letter.replays + 1, _REPLAYED_FROM: dead_letter_id, _ATTEMPT: 1}
            message = self._with_labels(fields["message"], labels)
            message.labels.pop(_STARTED, None)
            await self.broker.kick(self.broker.formatter.dumps(message))
        except BaseException:
            await asyncio.to_thread(self._blocking.cancel_replay, queue, dead_letter_id)
            raise
        await asyncio.to_thread(self._blocking.finish_replay, queue, dead_letter_id)
        return message.task_id

    def host_task(self, message: TaskiqMessage, raw: bytes) -> HostTask:
        """The message as a task."""
        labels = message.labels
        return HostTask(
            integration=INTEGRATION,
            queue=self._queue(labels),
            name=message.task_name,
            id=message.task_id,
            fields={"message": raw},
            attempt=int(labels.get(_ATTEMPT, 1)),
            started=labels.get(_STARTED),
            replays=int(labels.get(_REPLAYS, 0)),
            replayed_from=str(labels.get(_REPLAYED_FROM, "")),
        )

    def _with_labels(self, raw: bytes, labels: dict[str, Any]) -> TaskiqMessage:
        message = self.broker.formatter.loads(raw)
        message.labels.update(labels)
        return message

    def _queue(self, labels: dict[str, Any]) -> str:
        return str(labels.get("queue_name") or getattr(self.broker, "queue_name", INTEGRATION))

    def _waiting(self) -> str:
        """The sorted set of retries, by the server time in ms at which they are due."""
        return f"{self._queue({})}:reprieve:{INTEGRATION}:waiting"
