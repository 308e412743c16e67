"""Tasks of other systems: their failures are decided, dead-lettered in a stream, and counted when workers die.

The dead letters of a queue are in the stream `{queue}:dlq`, with the three fields of `reprieve.streams`. Their
`original_message` holds the fields that the host sends the task again from.

A start is counted in Redis before the task runs, and forgotten when it ends in any way that its process
survives. What is left is the number of workers that died with it, which ends a task that kills its workers.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from dataclasses import dataclass, field
from random import random
from time import time
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.judging import classify
from reprieve.app.profiles import resolve
from reprieve.app.redaction import redact_exception
from reprieve.core.decide import DeadLetter, History, Park, RetryAt, decide
from reprieve.core.failure import ErrorClass
from reprieve.core.policy import Cause
from reprieve.errors import Permanent, Retryable, UnknownNameError, UsageError
from reprieve.streams.connection import (
    BlockingRedisConnection,
    RedisConnection,
    parse_address,
)
from reprieve.streams.dead_letters import (
    ERROR_CONTEXT,
    ORIGIN,
    ORIGINAL_MESSAGE,
    build_error_context,
    decode_dead_letter,
)
from reprieve.streams.history import MessageHistory
from reprieve.streams.keys import dead_letter_stream
from reprieve.streams.message import encode_fields

try:
    from redis.exceptions import ConnectionError as RedisConnectionError
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] != "redis":
        raise
    raise UsageError("integrations need redis-py: pip install 'reprieve[redis]'") from error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.app.profiles import ProfileLike
    from reprieve.core.decide import Decision
    from reprieve.core.failure import Failure
    from reprieve.core.policy import Profile
    from reprieve.streams.connection import Command
    from reprieve.streams.dead_letters import StreamDeadLetter
    from reprieve.streams.message import Fields
    from reprieve.streams.scripts import Script

LOG: Final = logging.getLogger("reprieve.integrations")
DEFAULT_PROFILE: Final = "orchestrator"
STARTS_KEPT_SECONDS: Final = 7 * 86_400
"""How long a start that never ended is remembered."""
NOT_REPLAYABLE: Final = "this message could not be read: correct it, and send it by hand"
REPLAY_HOLD_SECONDS: Final = 60
"""How long one replay keeps others from the same dead letter; a crash within it delays the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTask:
    """A task as its host delivered it."""

    integration: str
    """The host: `celery`, `dramatiq`, `taskiq`."""
    queue: str
    name: str
    id: str
    fields: Mapping[str, bytes] = field(repr=False)
    """Everything that sending it again takes."""
    attempt: int = 1
    """The number of this attempt within the handler's budget."""
    started: float | None = None
    """When its first attempt began, where the host carries that."""
    replays: int = 0
    replayed_from: str = ""

    def __str__(self) -> str:
        return f"{self.integration} {self.name} {self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailure:
    """A failure of a task with what is done about it."""

    failure: Failure
    decision: Decision
    origin: Cause
    attempts: int
    stack: str = field(repr=False, default="")

    @property
    def delay(self) -> float | None:
        """Seconds until the next attempt; None where there is none."""
        return self.decision.delay if isinstance(self.decision, RetryAt) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPolicy:
    """How the failures of tasks are decided: the profile of the host, unless a task has its own."""

    profile: Profile
    service: str = ""

    def decide_failure(
        self,
        exc: BaseException,
        task: HostTask,
        *,
        profile: ProfileLike | None = None,
        idempotent: bool = False,
    ) -> TaskFailure:
        """Decide what becomes of a task that raised."""
        chosen, now = self._chosen(profile), time()
        failure = classify(exc, profile=chosen, stage=task.name, now=now)
        started = now if task.started is None else task.started
        history = History(attempts=task.attempt, started=started, idempotent=idempotent)
        decision = decide(failure, history, chosen, now=now, draw=random())  # noqa: S311 - jitter
        found = TaskFailure(
            failure=failure,
            decision=decision,
            origin=Cause.HANDLER,
            attempts=task.attempt,
            stack="" if isinstance(decision, RetryAt) else redact_exception(exc),
        )
        _log(task, found)
        return found

    def decide_crash(
        self,
        task: HostTask,
        crashes: int,
        *,
        profile: ProfileLike | None = None,
    ) -> TaskFailure | None:
        """Decide about a task with which so many workers died; None where it runs again."""
        if crashes < 1:
            return None
        chosen, now = self._chosen(profile), time()
        failure = _lost(task, f"the worker died {crashes} times while it ran this task")
        history = History(attempts=crashes, started=now, cause=Cause.CRASH)
        decision = decide(failure, history, chosen, now=now, draw=0.0)
        if isinstance(decision, RetryAt):
            return None
        found = TaskFailure(failure=failure, decision=decision, origin=Cause.CRASH, attempts=crashes)
        _log(task, found)
        return found

    def decide_deliveries(self, task: HostTask, *, profile: ProfileLike | None = None) -> TaskFailure | None:
        """Decide about a message of a host that counts deliveries only; None where it runs.

        A handler that fails is decided on. So a message that came more often than any policy allows attempts
        had workers that died.
        """
        chosen, now = self._chosen(profile), time()
        allowed = max(each.max_attempts for each in (chosen.policy, *chosen.policies.values()))
        if task.attempt <= allowed:
            return None
        failure = _lost(task, f"this message was delivered {task.attempt} times, and no worker ended it")
        decision = decide(failure, History(attempts=task.attempt, started=now), chosen, now=now, draw=0.0)
        found = TaskFailure(failure=failure, decision=decision, origin=Cause.CRASH, attempts=task.attempt - 1)
        _log(task, found)
        return found

    def decide_unreadable(self, exc: BaseException, task: HostTask) -> TaskFailure:
        """Decide about a message that could not be made into a call: it is always dead-lettered."""
        now = time()
        # The message of the classification: that of the exception may quote the body.
        words = f"this message cannot be read: {classify(exc).message}"
        unreadable = Permanent(words, error_class=ErrorClass.SCHEMA_INVALID)
        failure = classify(unreadable, stage=task.name, now=now)
        history = History(attempts=1, started=now)
        decision = decide(failure, history, self.profile, now=now, draw=0.0)
        found = TaskFailure(failure=failure, decision=decision, origin=Cause.HANDLER, attempts=0)
        _log(task, found)
        return found

    def dead_letter_fields(self, task: HostTask, found: TaskFailure) -> dict[str, str]:
        """The three fields of a dead letter, by name."""
        decision = found.decision
        history = MessageHistory(
            handler=found.attempts if found.origin is Cause.HANDLER else 0,
            crash=found.attempts if found.origin is Cause.CRASH else 0,
            last_error_class=str(found.failure.error_class),
            replays=task.replays,
            replayed_from=task.replayed_from,
        )
        context = build_error_context(
            found.failure,
            at=time(),
            service=self.service,
            attempts=found.attempts,
            reason=decision.reason,
            origin=found.origin,
            history=history,
            consumer=f"{task.integration}:{os.getpid()}",
            stack=found.stack,
            park_state=decision.state if isinstance(decision, Park) else "",
        )
        origin = {
            "queue": task.queue,
            "id": task.id,
            "group": task.integration,
            "deliveries": found.attempts,
            "key": f"{task.queue}:{task.id}",
            "integration": task.integration,
            "task": task.name,
        }
        pairs = {"integration": task.integration.encode(), **task.fields}
        flat = [part for name, value in pairs.items() for part in (name.encode(), value)]
        return {
            ORIGINAL_MESSAGE: encode_fields(flat),
            ERROR_CONTEXT: json.dumps(context),
            ORIGIN: json.dumps(origin),
        }

    def dead_letter_command(self, task: HostTask, found: TaskFailure) -> Command:
        """The XADD of a dead letter."""
        fields = self.dead_letter_fields(task, found)
        flat = [part for pair in fields.items() for part in pair]
        return ("XADD", dead_letter_stream(task.queue), "*", *flat)

    def _chosen(self, profile: ProfileLike | None) -> Profile:
        return self.profile if profile is None else resolve(profile)


def _lost(task: HostTask, message: str) -> Failure:
    return classify(Retryable(message, error_class=ErrorClass.WORKER_LOST), stage=task.name)


def _log(task: HostTask, found: TaskFailure) -> None:
    """One line for each failure, of sanitized words."""
    error_class, message = found.failure.error_class, found.failure.message
    match found.decision:
        case RetryAt(delay=delay):
            LOG.info("%s: %s, retry in %.1f s: %r", task, error_class, delay, message)
        case Park(state=state):
            LOG.warning("%s: %s, dead-lettered as %s: %r", task, error_class, state, message)
        case DeadLetter(reason=reason, pages=pages):
            log = LOG.critical if pages else LOG.error
            log("%s: %s, dead-lettered (%s): %r", task, error_class, reason, message)
        case _:
            LOG.critical("%s: %s, dead-lettered; its queue goes on: %r", task, error_class, message)


def starts_key(task: HostTask) -> str:
    """The key that counts the starts of a task that have not ended."""
    return f"{task.queue}:reprieve:{task.integration}:starts:{task.id}"


def replay_key(queue: str, dead_letter_id: str) -> str:
    """The key that one replay of a dead letter holds."""
    return f"{queue}:reprieve:replay:{dead_letter_id}"


def first_start_command(task: HostTask) -> Command:
    """Count a start if none is counted; answered by None where one is, so that the task is a suspect."""
    return ("SET", starts_key(task), 1, "NX", "EX", STARTS_KEPT_SECONDS)


class TaskRecorder:
    """Dead letters and starts in a Redis, for threads and forked processes: a connection for each."""

    def __init__(self, url: str, policy: TaskPolicy) -> None:
        self.policy = policy
        self._address = parse_address(url)
        self._local = threading.local()

    def dead_letter(self, task: HostTask, found: TaskFailure) -> str:
        """Write a dead letter and forget the starts; return its id."""
        added = self.call(*self.policy.dead_letter_command(task, found))
        self.forget(task)
        return bytes(added).decode()

    def count_first_start(self, task: HostTask) -> bool:
        """Count a start; False, and nothing counted, where an earlier one has not ended."""
        return self.call(*first_start_command(task)) is not None

    def starts(self, task: HostTask) -> int:
        """How many starts have not ended."""
        return int(self.call("GET", starts_key(task)) or 0)

    def count_start(self, task: HostTask) -> None:
        """Count one more start."""
        self.call("INCR", starts_key(task))

    def forget(self, task: HostTask) -> None:
        """Forget the starts of a task that ended."""
        self.call("DEL", starts_key(task))

    def begin_replay(self, queue: str, dead_letter_id: str) -> StreamDeadLetter | None:
        """Read a dead letter and keep others from replaying it; None where another replay has it.

        Raises UnknownNameError where there is none.
        """
        entries = self.call("XRANGE", dead_letter_stream(queue), dead_letter_id, dead_letter_id)
        if not entries:
            raise UnknownNameError(f"dead letter of {queue}", dead_letter_id)
        held = self.call("SET", replay_key(queue, dead_letter_id), 1, "NX", "EX", REPLAY_HOLD_SECONDS)
        return None if held is None else decode_dead_letter(queue, entries[0][0], entries[0][1])

    def finish_replay(self, queue: str, dead_letter_id: str) -> None:
        """Remove a dead letter that was sent again."""
        self.call("XDEL", dead_letter_stream(queue), dead_letter_id)
        self.call("DEL", replay_key(queue, dead_letter_id))

    def cancel_replay(self, queue: str, dead_letter_id: str) -> None:
        """Let others replay a dead letter that could not be sent again."""
        self.call("DEL", replay_key(queue, dead_letter_id))

    def dead_letter_ids(self, queue: str, *, limit: int = 1000) -> list[str]:
        """The ids of the oldest dead letters of a queue."""
        entries = self.call("XRANGE", dead_letter_stream(queue), "-", "+", "COUNT", limit)
        return [entry_id.decode() for entry_id, _ in entries]

    def call(self, *command: Any) -> Any:  # noqa: ANN401 - arguments and reply of any command
        """Send a command on the connection of this thread in this process."""
        owner, connection = getattr(self._local, "connection", (0, None))
        if connection is None or owner != os.getpid():
            connection = BlockingRedisConnection(self._address)
            self._local.connection = (os.getpid(), connection)
        try:
            return connection.call(*command)
        except RedisConnectionError:
            # Servers and proxies close idle connections, and this one may be used once a day. A command that was
            # carried out before its reply was lost leaves a second dead letter: better than a task that runs again.
            return connection.call(*command)


class AsyncTaskRecorder:
    """The same for asyncio. It belongs to the event loop that it is used in."""

    def __init__(self, url: str, policy: TaskPolicy) -> None:
        self.policy = policy
        self._connection = RedisConnection(parse_address(url))

    async def dead_letter(self, task: HostTask, found: TaskFailure) -> str:
        """Write a dead letter and forget the starts; return its id."""
        added = await self.call(*self.policy.dead_letter_command(task, found))
        await self.forget(task)
        return bytes(added).decode()

    async def count_first_start(self, task: HostTask) -> bool:
        """Count a start; False, and nothing counted, where an earlier one has not ended."""
        return await self.call(*first_start_command(task)) is not None

    async def starts(self, task: HostTask) -> int:
        """How many starts have not ended."""
        return int(await self.call("GET", starts_key(task)) or 0)

    async def count_start(self, task: HostTask) -> None:
        """Count one more start."""
        await self.call("INCR", starts_key(task))

    async def forget(self, task: HostTask) -> None:
        """Forget the starts of a task that ended."""
        await self.call("DEL", starts_key(task))

    async def call(self, *command: Any) -> Any:  # noqa: ANN401 - arguments and reply of any command
        """Send a command; once more where the connection was closed, as `TaskRecorder` does."""
        try:
            return await self._connection.call(*command)
        except RedisConnectionError:
            return await self._connection.call(*command)

    async def run(self, script: Script, keys: list[str], *arguments: Any) -> Any:  # noqa: ANN401 - the same
        """Run a script that may run twice, in the same way."""
        try:
            return await self._connection.run(script, keys, *arguments)
        except RedisConnectionError:
            return await self._connection.run(script, keys, *arguments)

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()


def build_policy(profile: ProfileLike, service: str) -> TaskPolicy:
    """The policy of a host, from the profile that its user names."""
    return TaskPolicy(profile=resolve(profile), service=service)


def original_fields(dead_letter: StreamDeadLetter, integration: str) -> dict[str, bytes]:
    """The fields that a task is sent again from; UsageError for a dead letter of another host."""
    fields: Fields = dead_letter.original or []
    named = {fields[at].decode(errors="replace"): fields[at + 1] for at in range(0, len(fields), 2)}
    found = named.get("integration", b"").decode(errors="replace")
    if found != integration:
        host = found or "a consumer of streams"
        raise UsageError(f"{dead_letter.dead_letter_id} is a dead letter of {host}, not of {integration}")
    return named
