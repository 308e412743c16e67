"""One signature through the model, by the one who holds it: ask, judge, decide, write; as often as core says."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.guarding import guarded
from reprieve.app.judging import classify
from reprieve.app.material import material_of
from reprieve.app.redaction import redact
from reprieve.core.analysis import AnalysisStatus, error_type_of, stops_all
from reprieve.core.decide import Abort, DeadLetter, History, Park, RetryAt, decide
from reprieve.core.failure import Category
from reprieve.core.policy import ParkState
from reprieve.core.record import writable
from reprieve.errors import StoreUnavailableError
from reprieve.ports.intents import Conclude, Fault, LetGo, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reprieve.app.alerts import Alerts
    from reprieve.app.analysis.questions import Question
    from reprieve.app.journal import Journal
    from reprieve.app.worker.time import StoreTime
    from reprieve.core.decide import Decision
    from reprieve.core.failure import Failure
    from reprieve.core.policy import Profile
    from reprieve.ports.clock import Clock
    from reprieve.ports.intents import AnalysisRow
    from reprieve.ports.modelling import Model

_LOG: Final = logging.getLogger("reprieve.analysis")
_MARGIN: Final = 30.0
"""Seconds by which a lease outlasts the two calls that a guarded question takes at most; never more than one of those."""


_LONGEST_NAME: Final = 200
"""Characters of a model's name that are kept: the provider says it, and may say anything."""


class Halt:
    """What the questions of one batch share: the first failure that all others would meet too ends the batch."""

    __slots__ = ("why",)

    def __init__(self) -> None:
        self.why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Asks about signatures that are held already."""

    journal: Journal
    model: Model
    question: Question[Any]
    profile: Profile
    timeout: float
    clock: Clock
    time: StoreTime
    draw: Callable[[], float]
    alerts: Alerts
    source: str
    """By which name alerts know this analysis."""

    @property
    def lease(self) -> float:
        """Seconds for which a signature is held at a time."""
        return 2 * self.timeout + min(self.timeout, _MARGIN)

    async def ask(self, row: AnalysisRow, samples: Sequence[object], halt: Halt) -> bool:
        """Until something is written down; False where somebody else has taken over meanwhile."""
        try:
            return await self._until_written(row, samples, halt)
        except BaseException:
            # Nobody waits for the answer any more, or nobody could judge what went wrong: the next one may ask at once.
            with suppress(StoreUnavailableError):
                self.journal.ask(LetGo(signature=row.signature, fence=row.fence, now=self.time.now()))
            raise

    async def _until_written(self, row: AnalysisRow, samples: Sequence[object], halt: Halt) -> bool:
        prompt = self.question.about(row.signature, samples)
        attempts, started = 0, self.time.now()
        while True:
            attempts += 1
            try:
                answer = await guarded(
                    self.model, prompt, schema=self.question.form, samples=samples, timeout=self.timeout
                )
            except Exception as error:  # noqa: BLE001 - whatever it is, core decides what becomes of it
                history = History(attempts=attempts, started=started, idempotent=True)
                wait = await self._failed(row, error, history, halt)
                if isinstance(wait, bool):
                    return wait
                await self.clock.sleep_async(wait)
            else:
                return await self._concluded(row, answer.value, answer.replies[-1])

    async def _concluded(self, row: AnalysisRow, value: object, reply: Any) -> bool:  # noqa: ANN401 - a Reply
        conclude = Conclude(
            signature=row.signature, fence=row.fence, answer=self.question.written(value, reply.text),
            model=writable(redact(reply.model or self.model.name))[:_LONGEST_NAME], now=self.time.now(),
        )  # fmt: skip
        return await self.journal.ask(conclude) is Written.APPLIED

    async def _failed(self, row: AnalysisRow, error: Exception, history: History, halt: Halt) -> float | bool:
        """Write it down; seconds until the next try, or whether it was written where there is none."""
        now = self.time.now()
        failure = classify(error, profile=self.profile, stage="analysis", now=now)
        decision = decide(failure, history, self.profile, now=now, draw=self.draw())
        if failure.category == Category.CONFIGURATION and not isinstance(decision, RetryAt):
            raise error  # a bug, or a setting: nothing about this signature
        fault = self._fault(row, error, failure, decision, halt, history, now)
        written = await self.journal.ask(fault) is Written.APPLIED
        self._log(failure, decision, fault)
        if written:
            await self.alerts.failed(failure, source=self.source, profile=self.profile, decision=decision)
        return decision.delay if written and isinstance(decision, RetryAt) else written

    def _fault(
        self, row: AnalysisRow, error: Exception, failure: Failure, decision: Decision, halt: Halt, history: History, now: float
    ) -> Fault:  # fmt: skip
        status, retry_after, until = AnalysisStatus.ACTIVE, None, None
        match decision:
            case RetryAt():
                retry_after, until = decision.at, decision.at + self.lease
            case Park(state=ParkState.NEEDS_REVIEW):
                status = AnalysisStatus.NEEDS_REVIEW
            case Park() if stops_all(failure) and halt.why is not None:
                pass  # the first one has stopped the batch; this one was only on its way
            case Park():
                status = AnalysisStatus.SKIPPED
            case DeadLetter() if failure.retryable:
                wait = self.profile.policy_for(failure).wait(failure, history.attempts, self.draw())
                retry_after = now + wait
            case DeadLetter():
                status = AnalysisStatus.SKIPPED
            case Abort():
                pass  # every other signature would meet it too
        if isinstance(decision, Abort) or (isinstance(decision, Park) and stops_all(failure)):
            halt.why = halt.why or f"{error_type_of(failure)}: {failure.message}"
        return Fault(
            signature=row.signature, fence=row.fence, status=status, error_type=error_type_of(failure),
            error_reason=failure.message, now=now, retry_after=retry_after, until=until,
            material=material_of(error) if status is AnalysisStatus.NEEDS_REVIEW else None,
        )  # fmt: skip

    def _log(self, failure: Failure, decision: Decision, fault: Fault) -> None:
        """One line a failure; sanitized words only, and no signature: it is users' data."""
        match decision:
            case RetryAt():
                _LOG.info("analysis: %s, retry in %.1f s: %r", failure.error_class, decision.delay, failure.message)
            case Park(investigate=True):
                _LOG.error(
                    "analysis: %s, %s, to be investigated: %r", failure.error_class, fault.status, failure.message
                )
            case _:
                _LOG.warning("analysis: %s, %s: %r", failure.error_class, fault.status, failure.message)
