"""One signature through the model, by the one who holds it: ask, judge, decide, write; as often as core says."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.alerts.raising import alarms_of_failure
from reprieve.app.guarding import Guard
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
    from reprieve.app.analysis.holding import Holds
    from reprieve.app.analysis.questions import Question
    from reprieve.app.guarding import Guarded
    from reprieve.app.journal import Journal
    from reprieve.app.worker.time import StoreTime
    from reprieve.core.decide import Decision
    from reprieve.core.failure import Failure
    from reprieve.core.policy import Profile
    from reprieve.ports.clock import Clock
    from reprieve.ports.intents import AnalysisRow, Raise, Weigh
    from reprieve.ports.modelling import Model, Usage

_LOG: Final = logging.getLogger("reprieve.analysis")
_OUTAGE: Final = 10
"""Signatures in a row that spent their retries, after which a batch is not gone on with."""
_LONGEST_NAME: Final = 200
"""Characters of a model's name that are kept: the provider says it, and may say anything."""


class Halt:
    """What the questions of one batch share: a failure that all others would meet too ends the batch.

    So does an outage: once so many in a row have spent their retries, the others need not try.
    """

    __slots__ = ("_in_a_row", "why")

    def __init__(self) -> None:
        self._in_a_row = 0
        self.why: str | None = None

    def stop(self, failure: Failure) -> None:
        """Ask no more; the first reason counts."""
        self.why = self.why or f"{error_type_of(failure)}: {failure.message}"

    def put_off(self, failure: Failure) -> None:
        """One more that came to nothing for now."""
        self._in_a_row += 1
        if self._in_a_row >= _OUTAGE:
            self.stop(failure)

    def settled(self) -> None:
        """Somebody is there."""
        self._in_a_row = 0


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
    holds: Holds
    source: str
    """By which name alerts know this analysis."""

    async def ask(self, row: AnalysisRow, samples: Sequence[object], halt: Halt) -> Usage | None:
        """Until something is written down, and what that took; None where somebody else has taken over meanwhile."""
        try:
            with self.holds.held(row):
                return await self._until_written(row, samples, halt)
        except BaseException:
            # Nobody waits for the answer any more, or nobody could judge what went wrong: the next one may ask at once.
            with suppress(StoreUnavailableError):
                self.journal.ask(LetGo(signature=row.signature, fence=row.fence, now=self.time.now()))
            raise

    async def _until_written(self, row: AnalysisRow, samples: Sequence[object], halt: Halt) -> Usage | None:
        prompt = self.question.about(row.signature, samples)
        guard = Guard(self.model, prompt, schema=self.question.form, samples=samples, timeout=self.timeout)
        attempts, started = 0, self.time.now()
        while True:
            attempts += 1
            try:
                answer = await guard.run()
            except Exception as error:  # noqa: BLE001 - whatever it is, core decides what becomes of it
                history = History(attempts=attempts, started=started, idempotent=True)
                written, wait = await self._failed(row, error, guard.usage, history, halt)
                if not written or wait is None:
                    return guard.usage if written else None
                await self.clock.sleep_async(wait)
            else:
                halt.settled()
                return answer.usage if await self._concluded(row, answer) else None

    async def _concluded(self, row: AnalysisRow, answer: Guarded[Any]) -> bool:
        reply = answer.replies[-1]
        conclude = Conclude(
            signature=row.signature, fence=row.fence, answer=self.question.written(answer.value, reply.text),
            model=writable(redact(reply.model or self.model.name))[:_LONGEST_NAME], now=self.time.now(), usage=answer.usage,
        )  # fmt: skip
        return await self.journal.ask(conclude) is Written.APPLIED

    async def _failed(
        self, row: AnalysisRow, error: Exception, usage: Usage, history: History, halt: Halt
    ) -> tuple[bool, float | None]:
        """Whether it was written, not where somebody else has taken over; and seconds until the next try, where there is one."""
        now = self.time.now()
        failure = classify(error, profile=self.profile, stage="analysis", now=now)
        decision = decide(failure, history, self.profile, now=now, draw=self.draw())
        if failure.category == Category.CONFIGURATION and not isinstance(decision, RetryAt):
            raise error  # a bug, or a setting: nothing about this signature
        fault = self._fault(row, error, failure, decision, halt, history, now)
        if not isinstance(decision, RetryAt):  # else what was answered counts when it has come to an end
            fault = replace(fault, usage=usage)
        # It has happened, and somebody may have to hear of it, also where another has taken the signature over.
        alarms = alarms_of_failure(failure, source=self.source, profile=self.profile, decision=decision, at=now)
        writing = self.journal.ask_together(fault, *alarms)
        writing.add_done_callback(partial(self._tell, alarms))
        answer = (await asyncio.shield(writing))[0]  # who leaves meanwhile does not keep others from hearing of it
        self._log(failure, decision, fault)
        wait = decision.delay if isinstance(decision, RetryAt) else None
        return answer is Written.APPLIED, wait

    def _tell(self, alarms: Sequence[Raise | Weigh], writing: asyncio.Future[list[Any]]) -> None:
        if not writing.cancelled() and writing.exception() is None:
            self.alerts.told(alarms, writing.result()[1:])

    def _fault(
        self, row: AnalysisRow, error: Exception, failure: Failure, decision: Decision, halt: Halt, history: History, now: float
    ) -> Fault:  # fmt: skip
        status, retry_after, until = AnalysisStatus.ACTIVE, None, None
        match decision:
            case RetryAt():
                retry_after, until = decision.at, now + self.holds.lease  # renewed meanwhile
            case Park(state=ParkState.NEEDS_REVIEW):
                status = AnalysisStatus.NEEDS_REVIEW
            case Park() if stops_all(failure) and halt.why is not None:
                pass  # the first one has stopped the batch; this one was only on its way
            case Park():
                status = AnalysisStatus.SKIPPED
            case DeadLetter() if failure.retryable:
                wait = self.profile.policy_for(failure).wait(failure, history.attempts, self.draw())
                retry_after = now + wait
                halt.put_off(failure)
            case DeadLetter():
                status = AnalysisStatus.SKIPPED
            case Abort():
                pass  # every other signature would meet it too
        if isinstance(decision, Abort) or (isinstance(decision, Park) and stops_all(failure)):
            halt.stop(failure)
        elif status is not AnalysisStatus.ACTIVE:
            halt.settled()
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
