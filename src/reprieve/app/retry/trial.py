"""One call that failed at least once: judge, decide, tell, wait. Nothing of it exists for a call that succeeds."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.app.retry.events import Moment, RetryEvent, tell, tell_async
from reprieve.app.retry.nesting import gave_up_below, mark, warn_nested
from reprieve.app.retry.settings import Nested

if TYPE_CHECKING:
    from reprieve.app.retry.nesting import Place
    from reprieve.app.retry.settings import Settings
    from reprieve.core.decide import Decision, RetryAt
    from reprieve.core.failure import Failure
    from reprieve.core.policy import Profile

_NESTED: Final = "nested_retry"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """How retries behave inside a test: none waits, and `attempts` replaces every budget."""

    attempts: int | None = None


REHEARSAL: Final[ContextVar[Rehearsal | None]] = ContextVar("reprieve_rehearsal", default=None)


class Trial:
    """The state of one retried call, made at its first failure and dropped at its end; never holds the exception."""

    __slots__ = ("_draw", "_place", "_settings", "_started", "attempts", "failure", "retry")

    def __init__(self, settings: Settings, place: Place, started: float) -> None:
        self._settings = settings
        self._place = place
        self._started = started
        self._draw = 0.0
        self.attempts = 0
        self.failure: Failure | None = None
        self.retry: RetryAt | None = None

    def survives(self, error: Exception) -> bool:
        """Judge a failure and tell the hooks; False means: let it go up as it is."""
        event = self._judge(error)
        while event is not None:
            tell(self._settings.hooks, event)
            if event.moment is Moment.GAVE_UP:
                self._give_up(error, event)
                return False
            event = self._too_late(event)
        return self.retry is not None

    async def survives_async(self, error: Exception) -> bool:
        """Judge a failure and tell the hooks, awaiting those that ask for it."""
        event = self._judge(error)
        while event is not None:
            await tell_async(self._settings.hooks, event)
            if event.moment is Moment.GAVE_UP:
                self._give_up(error, event)
                return False
            event = self._too_late(event)
        return self.retry is not None

    def wait(self) -> None:
        """Sleep until the next attempt is due."""
        seconds = self._left_to_wait()
        if seconds > 0:
            self._settings.clock.sleep(seconds)

    async def wait_async(self) -> None:
        """Give way until the next attempt is due."""
        seconds = self._left_to_wait()
        if seconds > 0:
            await self._settings.clock.sleep_async(seconds)

    def recovered(self) -> None:
        """Tell the hooks that an attempt succeeded after all."""
        tell(self._settings.hooks, self._recovery())

    async def recovered_async(self) -> None:
        """Tell the hooks, awaiting those that ask for it."""
        await tell_async(self._settings.hooks, self._recovery())

    def _judge(self, error: Exception) -> RetryEvent | None:
        """Turn an exception into an event; None where it is not ours to judge."""
        from reprieve.app.judging import classify  # noqa: PLC0415 - a call that succeeds needs no classifier

        settings = self._settings
        self.attempts += 1
        self.retry = None
        if not settings.considers(error):
            return None
        failure = classify(error, profile=settings.profile, stage=settings.stage, now=settings.clock.now())
        self.failure = failure
        if settings.nested is Nested.STOP and failure.retryable and gave_up_below(error, self._place):
            warn_nested(self._place)
            return self._event(Moment.GAVE_UP, failure, None)
        self._draw = _chance() if settings.draw is None else settings.draw()
        return self._decided(failure, settings.clock.monotonic())

    def _decided(self, failure: Failure, now: float) -> RetryEvent:
        """Ask the one place that decides."""
        from reprieve.core.decide import History, RetryAt, decide  # noqa: PLC0415 - as in `_judge`

        history = History(attempts=self.attempts, started=self._started, idempotent=self._settings.idempotent)
        decision = decide(failure, history, self._profile(), now=now, draw=self._draw)
        self.retry = decision if isinstance(decision, RetryAt) else None
        return self._event(Moment.GAVE_UP if self.retry is None else Moment.RETRYING, failure, decision)

    def _too_late(self, event: RetryEvent) -> RetryEvent | None:
        """Decide again if the hooks took longer than the wait; an event only if the deadline passed meanwhile."""
        retry, now = self.retry, self._settings.clock.monotonic()
        if retry is None or now <= retry.at:
            return None
        again = self._decided(event.failure, now - retry.delay)
        return again if again.moment is Moment.GAVE_UP else None

    def _profile(self) -> Profile:
        rehearsal = REHEARSAL.get()
        if rehearsal is None or rehearsal.attempts is None:
            return self._settings.profile
        return self._settings.profile.override(max_attempts=rehearsal.attempts)

    def _left_to_wait(self) -> float:
        if self.retry is None or REHEARSAL.get() is not None:
            return 0.0
        return self.retry.at - self._settings.clock.monotonic()

    def _event(self, moment: Moment, failure: Failure, decision: Decision | None) -> RetryEvent:
        return RetryEvent(
            moment=moment,
            function=self._place.name,
            stage=self._settings.stage,
            attempt=self.attempts,
            elapsed=self._settings.clock.monotonic() - self._started,
            failure=failure,
            decision=decision,
            reason=_NESTED if decision is None else decision.reason,
        )

    def _recovery(self) -> RetryEvent:
        assert self.failure is not None  # noqa: S101 - for the type checker: only a failed call can recover
        self.attempts += 1
        return self._event(Moment.RECOVERED, self.failure, self.retry)

    def _give_up(self, error: Exception, event: RetryEvent) -> None:
        """Leave a note for people and, where retrying was worth it, a mark for the retries above."""
        attempts = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        note = f"reprieve: gave up after {attempts}: {event.reason} ({event.failure.error_class})"
        if event.failure.retryable:
            mark(error, self._place)
        # An exception object that is raised again and again says it once; some refuse notes altogether.
        with suppress(Exception):
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)


def _chance() -> float:
    from random import random  # noqa: PLC0415 - slow to load, and a call that succeeds needs no chance

    return random()  # noqa: S311 - jitter, not cryptography
