"""What becomes of messages whose handler failed: classify, decide, and write it in Redis.

A retry leaves the message pending until its delay is over. Everything else acknowledges it and adds a dead letter in
one script. There is no store here in which a parked message could wait for a person, so what a profile parks becomes a
dead letter too, with `park_state` in its error_context.
"""

from __future__ import annotations

import json
import logging
import random
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.judging import classify
from reprieve.app.redaction import redact, redact_exception
from reprieve.core.alerts import Watch
from reprieve.core.breaker import concerns
from reprieve.core.breaker_state import record_failure, record_success, release_calls
from reprieve.core.decide import Abort, DeadLetter, History, Park, RetryAt, decide
from reprieve.core.failure import ErrorClass
from reprieve.core.policy import Cause
from reprieve.core.record import writable
from reprieve.errors import Permanent, Retryable
from reprieve.streams.dead_letters import build_error_context, describe_error, encode_dead_letter, iso_timestamp
from reprieve.streams.history import MessageHistory, read_history
from reprieve.streams.keys import WAITING_CONSUMER
from reprieve.streams.lanes import FailedRun
from reprieve.streams.message import StreamMessage
from reprieve.streams.pause import GroupPause
from reprieve.streams.scripts import DEAD_LETTER, SCHEDULE_RETRY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reprieve.core.breaker_state import BreakerLimits, BreakerState
    from reprieve.core.decide import Decision
    from reprieve.core.failure import Failure
    from reprieve.core.policy import Profile
    from reprieve.streams.connection import RedisConnection
    from reprieve.streams.group_alerts import GroupAlerts
    from reprieve.streams.keys import StreamKeys

_LOG: Final = logging.getLogger("reprieve.streams")
_DEAD_LETTER_RETRY_SECONDS: Final = 60.0
"""When a message is handled again whose dead letter could not be written."""
_TRIMMED: Final = 2
_MESSAGE_LENGTH: Final = 200
_TRIMMED_TEXT: Final = "the message was trimmed from its stream before it was handled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """A failed run with what was decided about it."""

    message: StreamMessage
    failure: Failure
    decision: Decision
    origin: Cause
    history: MessageHistory
    """This run included."""
    stack: str
    successes: int = 0
    """How many runs had succeeded before this one failed."""
    context: Mapping[str, Any] = field(default_factory=dict)
    """More for the dead letter."""

    @property
    def retry_at(self) -> float | None:
        """When the message is tried again; None if it becomes a dead letter."""
        return self.decision.at if isinstance(self.decision, RetryAt) else None

    @property
    def pauses(self) -> bool:
        """Whether every other message would fail too."""
        return isinstance(self.decision, Abort) or (isinstance(self.decision, Park) and self.decision.halts)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What one call of `FailureWriter.write` did."""

    scheduled: int = 0
    dead_lettered: int = 0
    lost: int = 0
    """Messages that another consumer had taken over."""
    next_due: float | None = None
    """Seconds until the first of the retries."""


def rule_on(run: FailedRun, profile: Profile, *, now: float, rand: float, idempotent: bool) -> Ruling:
    """Classify a failed run and decide what becomes of its message."""
    message, known = run.message, run.message.history or MessageHistory()
    failure = failure_of_run(run, profile, now=now)
    started = now if known.opened_at is None else known.opened_at
    history = known.with_failure(
        run.origin,
        at=now,
        started=now,
        error_class=str(failure.error_class),
        error=describe_error(failure)[:_MESSAGE_LENGTH],
    )
    attempts = max(1, history.count(run.origin))
    decision = decide(
        failure,
        History(attempts=attempts, started=started, cause=run.origin, idempotent=idempotent),
        profile,
        now=now,
        draw=rand,
    )
    stack = "" if isinstance(decision, RetryAt) or run.unparseable else redact_exception(run.error, limit=4000)
    return Ruling(
        message=message,
        failure=failure,
        decision=decision,
        origin=run.origin,
        history=history,
        stack=stack,
        successes=run.successes,
        context=run.context,
    )


def failure_of_run(run: FailedRun, profile: Profile, *, now: float) -> Failure:
    """Classify what ended a run; everything gets a class, also what is no Exception."""
    error = run.error
    if run.origin is not Cause.HANDLER:
        reason = str(error) or "the consumer was stopped while the handler ran"
        error = Retryable(reason, error_class=ErrorClass.WORKER_LOST)
    elif not isinstance(error, Exception):
        # Cancelled from inside, SystemExit: nothing asked the handler to end.
        error = Retryable(f"the handler ended with {type(error).__name__}", error_class=ErrorClass.UNKNOWN)
    failure = classify(error, profile=profile, stage=run.message.queue, now=now)
    if run.unparseable and (failure.retryable or failure.error_class != ErrorClass.SCHEMA_INVALID):
        # A message that cannot be parsed will not parse later, and it says nothing about other messages.
        text = f"the message cannot be parsed: {describe_error(failure)}"
        failure = classify(Permanent(text, error_class=ErrorClass.SCHEMA_INVALID), profile=profile, now=now)
    return failure


def load_rules(profile: Profile) -> None:
    """Load all that judging a failure needs, so that the first failure does not keep the event loop waiting."""
    from reprieve.app.alerts.raising import watch_of  # noqa: PLC0415 - it loads more than a happy path needs

    message = StreamMessage("", "", b"0-0", [], history=MessageHistory())
    run = FailedRun(message, Permanent("nothing happened"))
    watch_of(rule_on(run, profile, now=0.0, rand=0.0, idempotent=False).decision)


class FailureWriter:
    """Writes what becomes of failed messages for one consumer."""

    def __init__(
        self,
        connection: RedisConnection,
        keys: StreamKeys,
        *,
        group: str,
        consumer: str,
        service: str,
        profile: Profile,
        idempotent: bool,
        alerts: GroupAlerts,
    ) -> None:
        self._connection, self._keys = connection, keys
        self._group, self._consumer, self._service = group, consumer, service
        self._profile, self._idempotent, self._alerts = profile, idempotent, alerts

    async def rule(self, runs: Sequence[FailedRun]) -> list[Ruling]:
        """Read the history of each message that was delivered as new, and decide about all."""
        fresh = [run.message for run in runs if run.message.history is None and run.message.deliveries == 1]
        if fresh:
            await self.read_histories(fresh)
        now = time.time()
        return [
            rule_on(run, self._profile, now=now, rand=random.random(), idempotent=self._idempotent)  # noqa: S311 - jitter
            for run in runs
        ]

    async def read_histories(self, messages: Sequence[StreamMessage]) -> None:
        """Fill in the history of messages; a replayed message has one on its first delivery."""
        names = [name for message in messages for name in _state_fields(message)]
        values = await self._connection.call("HMGET", self._keys.state, *names)
        for index, message in enumerate(messages):
            text, lost_lease, crash, out_of_memory = values[4 * index : 4 * index + 4]
            message.history = read_history(
                text, lost_lease=int(lost_lease or 0), crash=int(crash or 0), out_of_memory=int(out_of_memory or 0)
            )

    async def write(self, rulings: Sequence[Ruling]) -> WriteResult:
        """Write retries in one script and dead letters in one pipeline. Raise if nothing is known about them."""
        now = time.time()
        retries = [each for each in rulings if each.retry_at is not None]
        ended = [each for each in rulings if each.retry_at is None]
        next_due, scheduled, lost = None, 0, 0
        if retries:
            delays = [max(0, round(1000 * ((each.retry_at or now) - now))) for each in retries]
            results = await self.schedule(
                [(each.message, delay, each.history.to_json()) for each, delay in zip(retries, delays, strict=True)]
            )
            # A message that was trimmed cannot be delivered again, but its content is still here.
            ended += [each for each, result in zip(retries, results, strict=True) if result == _TRIMMED]
            scheduled, lost = results.count(1), results.count(0)
            next_due = min(delays) / 1000
        written, gone = await self._dead_letter(ended)
        for each in rulings:
            self._log(each)
            self._alerts.failed(each.failure, each.decision, self._summary(each))
        return WriteResult(scheduled=scheduled, dead_lettered=written, lost=lost + gone, next_due=next_due)

    async def schedule(self, messages: Iterable[tuple[StreamMessage, int, str]]) -> list[int]:
        """Leave messages pending for so many ms. An empty history gives back what had not started."""
        arguments: list[Any] = []
        for message, delay, history in messages:
            arguments += [message.message_id, message.deliveries, delay, history]
        keys = [self._keys.queue, self._keys.waiting, self._keys.state, self._keys.suspects]
        reply = await self._connection.run(
            SCHEDULE_RETRY, keys, self._group, self._consumer, WAITING_CONSUMER, *arguments
        )
        return [int(each) for each in reply]

    async def _dead_letter(self, ended: Sequence[Ruling]) -> tuple[int, int]:
        if not ended:
            return 0, 0
        names = self._keys
        keys = [names.queue, names.dead_letters, names.state, names.paused, names.replayed]
        calls = [
            (
                self._group,
                self._consumer,
                each.message.message_id,
                each.message.deliveries,
                *encode_dead_letter(each.message, self._context(each)),
                self._pause(each),
            )
            for each in ended
        ]
        replies = await self._connection.run_each(DEAD_LETTER, keys, calls, raises=False)
        refused = [(each, reply) for each, reply in zip(ended, replies, strict=True) if isinstance(reply, Exception)]
        if refused:
            await self._keep(refused)
        written = sum(isinstance(reply, bytes) for reply in replies)
        return written, replies.count(None)

    async def _keep(self, refused: Sequence[tuple[Ruling, Exception]]) -> None:
        """Keep messages pending whose dead letter the server refused; they are handled again later, at no cost."""
        error = refused[0][1]
        summary = f"{self._keys.dead_letters} takes no dead letters: {redact(str(error))}"
        _LOG.critical("%s; %d messages are kept pending", summary, len(refused))
        self._alerts.happened(Watch.PAGE, summary, error_class=ErrorClass.CONFIG_INVALID)
        delay = round(1000 * _DEAD_LETTER_RETRY_SECONDS)
        await self.schedule([(each.message, delay, "") for each, _ in refused])

    def _context(self, ruling: Ruling) -> dict[str, Any]:
        decision = ruling.decision
        return build_error_context(
            ruling.failure,
            at=time.time(),
            service=self._service,
            attempts=ruling.history.count(ruling.origin),
            reason=decision.reason.value,
            origin=ruling.origin,
            history=ruling.history,
            consumer=self._consumer,
            stack=ruling.stack,
            park_state=decision.state.value if isinstance(decision, Park) else "",
        ) | dict(ruling.context)

    def trimmed_context(self) -> tuple[str, str]:
        """Return the error_context of a trimmed message, in two parts around its number of attempts."""
        head = json.dumps(
            {
                "error": _TRIMMED_TEXT,
                "timestamp": iso_timestamp(time.time()),
                "service": self._service,
                "attempts": "?",
            }
        )
        tail = json.dumps({"error_class": "MESSAGE_TRIMMED", "reason": "trimmed", "consumer": self._consumer})
        before = head.removesuffix('"?"}')
        return before, f", {tail[1:]}"

    async def report_trimmed(self, ids: Sequence[bytes], error: bytes | None) -> None:
        """Alert about messages that others trimmed from the stream while they waited."""
        if ids:
            summary = f"{self._keys.queue}/{self._group}: {len(ids)} messages were trimmed before they were handled"
            _LOG.error("%s", summary)
            self._alerts.happened(Watch.PAGE, summary, error_class="MESSAGE_TRIMMED")
        if error is not None:
            summary = f"{self._keys.dead_letters} takes no dead letters: {redact(error.decode(errors='replace'))}"
            _LOG.critical("%s", summary)
            self._alerts.happened(Watch.PAGE, summary, error_class=ErrorClass.CONFIG_INVALID)
        if ids or error is not None:
            await self._alerts.flush()

    def _pause(self, ruling: Ruling) -> str:
        if not ruling.pauses:
            return ""
        return GroupPause(
            reason=describe_error(ruling.failure),
            actor="reprieve",
            at=time.time(),
            error_class=str(ruling.failure.error_class),
            message_id=ruling.message.id,
        ).to_json()

    def _summary(self, ruling: Ruling) -> str:
        became = {RetryAt: "is retried", DeadLetter: "dead-lettered", Park: "dead-lettered", Abort: "dead-lettered"}
        paused = ", and the group is paused" if ruling.pauses else ""
        text = (
            f"{self._keys.queue}/{self._group}: {ruling.failure.error_class}, message {ruling.message.id} "
            f"{became[type(ruling.decision)]} ({ruling.decision.reason}){paused}: {ruling.failure.message}"
        )
        return writable(redact(" ".join(text.split())))

    def _log(self, ruling: Ruling) -> None:
        where = f"{self._keys.queue}/{self._group} message {ruling.message.id}"
        error_class, message = ruling.failure.error_class, ruling.failure.message
        match ruling.decision:
            case RetryAt(delay=delay):
                _LOG.info("%s: %s, retry in %.1f s: %r", where, error_class, delay, message)
            case Abort():
                _LOG.critical("%s: %s, dead-lettered and the group paused: %r", where, error_class, message)
            case _:
                _LOG.error("%s: %s, dead-lettered (%s): %r", where, error_class, ruling.decision.reason, message)


def lost_run_ruling(
    message: StreamMessage, profile: Profile, *, service: str, now: float, rand: float
) -> Ruling | None:
    """Decide about a message that lost consumers held: a ruling if one of its budgets is spent, else None."""
    history = message.history or MessageHistory()
    for origin in (Cause.OUT_OF_MEMORY, Cause.CRASH, Cause.LOST_LEASE):
        count = history.count(origin)
        if not count:
            continue
        text = f"{_LOST_WORDS[origin]} {count} times while {service or 'it'} handled this message"
        failure = classify(Retryable(text, error_class=ErrorClass.WORKER_LOST), profile=profile, now=now)
        started = now if history.opened_at is None else history.opened_at
        decision = decide(failure, History(attempts=count, started=started, cause=origin), profile, now=now, draw=rand)
        if not isinstance(decision, RetryAt):
            known = replace(history, first_failure_at=history.first_failure_at or now)
            return Ruling(message=message, failure=failure, decision=decision, origin=origin, history=known, stack="")
    return None


_LOST_WORDS: Final = {
    Cause.OUT_OF_MEMORY: "the consumer ran out of memory",
    Cause.CRASH: "the consumer was lost",
    Cause.LOST_LEASE: "the lease was lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What ended since the breaker was told last: it sees successes and failures in the order in which they came."""

    rulings: Sequence[Ruling]
    successes_before: int
    """How many runs had succeeded when the breaker was told last."""
    successes: int
    """How many have succeeded now."""
    admitted: frozenset[bytes]
    """Messages whose calls the breaker had admitted."""
    admitted_successes: int


def breaker_change(
    state: BreakerState, limits: BreakerLimits, turn: Turn, *, now: float, profile: Profile
) -> BreakerState:
    """Return the breaker's state after a turn."""
    for _ in range(turn.admitted_successes):
        state = record_success(state, limits, now=now, admitted=True)
    seen = turn.successes_before
    for ruling in turn.rulings:
        failure, was_admitted = ruling.failure, ruling.message.message_id in turn.admitted
        if ruling.successes > seen:
            state, seen = record_success(state, limits, now=now), ruling.successes
        if ruling.origin is Cause.HANDLER and concerns(failure):
            ceiling = profile.policy_for(failure).retry_after_ceiling
            asked = None if failure.retry_after is None else min(failure.retry_after, ceiling)
            state = record_failure(
                state,
                limits,
                now=now,
                error_class=str(failure.error_class),
                job=ruling.message.id,
                retry_after=asked,
                admitted=was_admitted,
            )
        elif was_admitted:
            state = release_calls(state, now=now, count=1)
    return record_success(state, limits, now=now) if turn.successes > seen else state


def _state_fields(message: StreamMessage) -> tuple[str, ...]:
    return (message.id, f"{message.id}:lost_lease", f"{message.id}:crash", f"{message.id}:out_of_memory")
