"""Dramatiq: messages retried as a profile decides, dead-lettered with evidence, and replayed by the broker.

    broker = ReprieveRedisBroker(url="redis://localhost/0", service="shop")
    dramatiq.set_broker(broker)

    @dramatiq.actor
    def charge(order_id): ...

    broker.failures.replay("default", "1795030522774-0")

`install(broker, dead_letters=...)` does the same for another broker, but for messages that Dramatiq cannot
decode.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from contextlib import contextmanager
from time import time
from typing import TYPE_CHECKING, Any, Final

from reprieve.errors import UsageError
from reprieve.integrations.tasks import (
    DEFAULT_PROFILE,
    LOG,
    NOT_REPLAYABLE,
    HostTask,
    TaskRecorder,
    build_policy,
    original_fields,
)

try:
    from dramatiq import Message
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.errors import DecodeError, Retry
    from dramatiq.middleware import (
        Middleware,
        MiddlewareError,
        Retries,
        Shutdown,
        SkipMessage,
        TimeLimitExceeded,
        default_middleware,
    )
    from dramatiq.middleware.threading import Interrupt
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] not in {"dramatiq", "redis"}:
        raise
    raise UsageError("this integration needs Dramatiq: pip install 'reprieve[dramatiq,redis]'") from error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reprieve.app.profiles import ProfileLike
    from reprieve.streams.dead_letters import StreamDeadLetter

INTEGRATION: Final = "dramatiq"
MAX_DELAY_MILLISECONDS: Final = 7 * 86_400_000 - 1
"""Dramatiq delays by less than a week."""
MAX_POLL_MILLISECONDS: Final = 250
RETRY_WITHOUT_REDIS_MILLISECONDS: Final = 30_000
FIRST_PAUSE_SECONDS: Final = 0.5
MAX_PAUSE_SECONDS: Final = 10.0
"""While a retry cannot be enqueued: the pauses between two attempts double up to this."""
_STARTED, _REPLAYS, _REPLAYED_FROM = "reprieve_started", "reprieve_replays", "reprieve_replayed_from"
_RUNS_ALONE, _KEPT, _UNSENT = "reprieve_runs_alone", "reprieve_kept", "reprieve_unsent"


def install(
    broker: Any,  # noqa: ANN401 - any broker of Dramatiq
    *,
    dead_letters: str,
    profile: ProfileLike = DEFAULT_PROFILE,
    service: str = "",
) -> ReprieveMiddleware:
    """Let a profile decide about the failures of a broker's messages, in place of Dramatiq's Retries.

    `dead_letters` is the address of a Redis. An actor has its own profile with `@actor(profile="...")`, and is
    repeated after conflicts with `idempotent=True`.
    """
    broker.middleware = [each for each in broker.middleware if not isinstance(each, Retries)]
    failures = ReprieveMiddleware(broker, TaskRecorder(dead_letters, build_policy(profile, service)))
    broker.add_middleware(failures)
    return failures


class ReprieveMiddleware(Middleware):
    """Counts starts, decides about failures, and writes dead letters. `install` makes one."""

    def __init__(self, broker: Any, recorder: TaskRecorder) -> None:  # noqa: ANN401 - any broker
        self.broker, self.recorder = broker, recorder
        self._room = _Room()
        self._stopping = threading.Event()

    @property
    def actor_options(self) -> set[str]:
        """What `@actor` takes."""
        return {"profile", "idempotent"}

    def before_worker_boot(self, _broker: Any, _worker: Any) -> None:  # noqa: ANN401 - as Dramatiq has it
        """A worker starts: retries that cannot be enqueued are repeated."""
        self._stopping.clear()

    def before_worker_shutdown(self, _broker: Any, _worker: Any) -> None:  # noqa: ANN401 - the same
        """The worker stops: retries that cannot be enqueued are left to the broker."""
        self._stopping.set()

    def before_ack(self, _broker: Any, message: Any) -> None:  # noqa: ANN401 - Dramatiq's message
        """Keep Dramatiq from acknowledging a message whose retry could not be enqueued."""
        if _UNSENT in message.options:
            raise UnsentRetryError(f"the retry of {message.message_id} was not enqueued: the broker delivers it again")

    def before_process_message(self, _broker: Any, message: Any) -> None:  # noqa: ANN401 - Dramatiq's message
        """Count the start. A message whose earlier start has not ended runs alone in this process."""
        task = self.host_task(message)
        try:
            suspect = not self.recorder.count_first_start(task)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with Redis, the message is handled
            LOG.warning("%s runs without being counted: %s", task, type(error).__name__)
            suspect = False
        self._room.enter(alone=suspect)
        message.options[_RUNS_ALONE] = suspect
        if suspect and self._is_poison(message):
            self._end(message)
            message.fail()
            raise SkipMessage("its workers died while it ran")

    def _is_poison(self, message: Any) -> bool:  # noqa: ANN401 - Dramatiq's message
        """Count the start of a suspect, or write the dead letter of one that has killed too many workers."""
        task = self.host_task(message, with_message=True)
        try:
            # The first start ran beside others, so that its end proves nothing.
            crashes = self.recorder.starts(task) - 1
            found = self.recorder.policy.decide_crash(task, crashes, profile=self._option(message, "profile"))
            if found is None:
                self.recorder.count_start(task)
                return False
            self.recorder.dead_letter(task, found)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with Redis, the message is handled
            LOG.critical("%s runs without being counted: %s", task, type(error).__name__)
            return False
        message.options[_KEPT] = True
        return True

    def after_process_message(
        self,
        _broker: Any,  # noqa: ANN401 - as Dramatiq has it
        message: Any,  # noqa: ANN401 - the same
        *,
        result: object = None,  # noqa: ARG002 - the same
        exception: BaseException | None = None,
    ) -> None:
        """Decide about the failure, and forget the start."""
        try:
            if exception is not None:
                self._failed(message, exception)
        finally:
            self._end(message)

    def after_skip_message(self, _broker: Any, message: Any) -> None:  # noqa: ANN401 - Dramatiq's message
        """Another middleware skipped it after its start was counted."""
        if _RUNS_ALONE in message.options and not message.options.get(_KEPT):
            self._end(message)

    def before_nack(self, _broker: Any, message: Any) -> None:  # noqa: ANN401 - Dramatiq's message
        """Dramatiq gives up a message: one for an actor that this worker does not have."""
        if not message.options.get(_KEPT):
            unknown = UsageError(f"no actor is named {message.actor_name!r}")
            self.keep_unreadable(message.queue_name, message.encode(), unknown, message)

    def keep_unreadable(self, queue: str, data: bytes, exc: Exception, message: Any = None) -> None:  # noqa: ANN401 - the same
        """Write the dead letter of a message that cannot be made into a call."""
        task = HostTask(
            integration=INTEGRATION,
            queue=queue,
            name="unknown" if message is None else message.actor_name,
            id="" if message is None else message.message_id,
            fields={"unreadable" if message is None else "message": data},
        )
        self.recorder.dead_letter(task, self.recorder.policy.decide_unreadable(exc, task))

    def replay(self, queue: str, dead_letter_id: str) -> str | None:
        """Enqueue a dead letter's message again, and remove the dead letter.

        Returns the message's id, or None where another replay has it. The message has its whole budget again. A
        crash in between leaves the dead letter, and the message can be enqueued twice.
        """
        letter = self.recorder.begin_replay(queue, dead_letter_id)
        if letter is None:
            return None
        try:
            message = _replayed(letter, queue)
            self.broker.enqueue(message)
        except BaseException:
            self.recorder.cancel_replay(queue, dead_letter_id)
            raise
        self.recorder.finish_replay(queue, dead_letter_id)
        return str(message.message_id)

    def _failed(self, message: Any, exc: BaseException) -> None:  # noqa: ANN401 - Dramatiq's message
        task = self.host_task(message, with_message=True)
        if isinstance(exc, Shutdown):  # a deployment costs no attempt
            self._retry(message, task.attempt - 1, task, 0)
            return
        found = self.recorder.policy.decide_failure(
            _as_failure(exc),
            task,
            profile=self._option(message, "profile"),
            idempotent=bool(self._option(message, "idempotent")),
        )
        if found.delay is not None:
            asked = exc.delay if isinstance(exc, Retry) and exc.delay else 0
            self._retry(message, task.attempt, task, max(math.ceil(found.delay * 1000), asked))
            return
        try:
            self.recorder.dead_letter(task, found)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with Redis, the message must not be lost
            LOG.critical("%s: its dead letter cannot be written: %s", task, type(error).__name__)
            self._retry(message, task.attempt, task, RETRY_WITHOUT_REDIS_MILLISECONDS)
            return
        message.options[_KEPT] = True
        message.fail()

    def _retry(self, message: Any, retries: int, task: HostTask, delay: int) -> None:  # noqa: ANN401 - Dramatiq's message
        """Enqueue the message again, as often as it takes: Dramatiq acknowledges it whatever is raised here."""
        again = message.copy(options={"retries": retries, _STARTED: task.started or time()})
        again.options.pop(_RUNS_ALONE, None)
        message.options[_UNSENT] = True
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                self.broker.enqueue(again, delay=min(delay, MAX_DELAY_MILLISECONDS))
            except (Exception, Interrupt) as error:  # noqa: BLE001 - the message must not be lost
                LOG.critical("%s: its retry cannot be enqueued: %s", task, type(error).__name__)
            else:
                del message.options[_UNSENT]
                return
            if self._wait_for_shutdown(pause):
                return
            pause = min(pause * 2, MAX_PAUSE_SECONDS)

    def _wait_for_shutdown(self, seconds: float) -> bool:
        try:
            return self._stopping.wait(seconds)
        except Interrupt:  # the actor's time limit, which is still counted
            return self._stopping.is_set()

    def _end(self, message: Any) -> None:  # noqa: ANN401 - Dramatiq's message
        alone = message.options.pop(_RUNS_ALONE, None)
        if alone is None:
            return
        try:
            self.recorder.forget(self.host_task(message))
        except Exception as error:  # noqa: BLE001 - the message has ended
            LOG.warning("the starts of %s stay counted: %s", message.message_id, type(error).__name__)
        finally:
            self._room.leave(alone=alone)

    def _option(self, message: Any, name: str) -> Any:  # noqa: ANN401 - what the actor has
        return self.broker.get_actor(message.actor_name).options.get(name)

    def host_task(self, message: Any, *, with_message: bool = False) -> HostTask:  # noqa: ANN401 - Dramatiq's message
        """The message as a task; with what a dead letter needs only where one may be written."""
        options = message.options
        return HostTask(
            integration=INTEGRATION,
            queue=message.queue_name,
            name=message.actor_name,
            id=message.message_id,
            fields={"message": message.encode()} if with_message else {},
            attempt=int(options.get("retries", 0)) + 1,
            started=options.get(_STARTED),
            replays=int(options.get(_REPLAYS, 0)),
            replayed_from=str(options.get(_REPLAYED_FROM, "")),
        )


class UnsentRetryError(MiddlewareError):
    """Dramatiq logs it, and leaves the message unacknowledged."""


def _replayed(letter: StreamDeadLetter, queue: str) -> Any:  # noqa: ANN401 - Dramatiq's message
    """The message of a dead letter, without what is left of its attempts."""
    fields = original_fields(letter, INTEGRATION)
    if "message" not in fields:
        raise UsageError(NOT_REPLAYABLE)
    message = Message.decode(fields["message"])
    dropped = {"retries", "eta", "traceback", _STARTED, _RUNS_ALONE, _KEPT, _UNSENT}
    options: dict[str, Any] = {name: value for name, value in message.options.items() if name not in dropped}
    options |= {_REPLAYS: letter.replays + 1, _REPLAYED_FROM: letter.dead_letter_id}
    return dataclasses.replace(message, queue_name=queue, options=options)


def _as_failure(exc: BaseException) -> Exception:
    """The exception of an actor as one that can be classified: Dramatiq's interrupts are not."""
    if isinstance(exc, Exception):
        return exc
    if isinstance(exc, TimeLimitExceeded):
        return TimeoutError("the actor took longer than its time limit")
    return RuntimeError(f"the actor raised {type(exc).__name__}")


class _Room:
    """Lets threads in together, or one alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside, self._waiting, self._taken = 0, 0, False

    def enter(self, *, alone: bool) -> None:
        with self._changed:
            if alone:
                # A thread that waits to be alone keeps others from entering: else it could wait without end.
                with self._counted():
                    self._changed.wait_for(lambda: not self._taken and self._inside == 0)
                self._taken = True
            else:
                self._changed.wait_for(lambda: not self._taken and self._waiting == 0)
                self._inside += 1

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def leave(self, *, alone: bool) -> None:
        with self._changed:
            if alone:
                self._taken = False
            else:
                self._inside -= 1
            self._changed.notify_all()


class ReprieveRedisBroker(RedisBroker):
    """Dramatiq's broker on Redis with Reprieve's middleware. It keeps messages that cannot be decoded."""

    def __init__(
        self,
        *,
        url: str,
        dead_letters: str | None = None,
        profile: ProfileLike = DEFAULT_PROFILE,
        service: str = "",
        middleware: list[Middleware] | None = None,
        **options: Any,  # noqa: ANN401 - what RedisBroker takes
    ) -> None:
        chosen = [each() for each in default_middleware] if middleware is None else middleware
        super().__init__(url=url, middleware=chosen, **options)  # type: ignore[no-untyped-call]  # Dramatiq's
        self.failures = install(self, dead_letters=dead_letters or url, profile=profile, service=service)

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Any:  # noqa: ANN401 - Dramatiq's consumer
        """Consume a queue. An idle consumer looks again soon: a retry passes through two queues."""
        return super().consume(queue_name, prefetch, min(timeout, MAX_POLL_MILLISECONDS))

    @property
    def consumer_class(self) -> Any:  # noqa: ANN401 - a class that is made of Dramatiq's own
        """Dramatiq's consumer, which raises on such a message, restarts and meets it again."""
        return _consumer_class(super().consumer_class)


def _consumer_class(base: Any) -> Any:  # noqa: ANN401 - Dramatiq does not export its consumer
    class ReprieveConsumer(base):  # type: ignore[misc]  # the same
        """Keeps what cannot be decoded, and goes on with the next message."""

        def __next__(self) -> Any:  # noqa: ANN401 - as Dramatiq has it
            try:
                return super().__next__()
            except DecodeError as exc:
                self._keep(exc.data, exc)
                return None

        def _keep(self, data: bytes, exc: Exception) -> None:
            self.broker.failures.keep_unreadable(self.queue_name, data, exc)
            # Its id in Redis is not known, as it is in the message itself.
            messages = f"{self.broker.namespace}:{self.queue_name}.msgs"
            for redis_id, stored in self.broker.client.hscan_iter(messages):
                if stored == data:
                    self.broker.do_ack(self.queue_name, redis_id)

    return ReprieveConsumer
