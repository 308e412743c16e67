"""One delivery through one send or one look-up: begun on disk, done, ended on disk in one guarded write."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from reprieve.app.alerts.raising import Alerts
from reprieve.app.judging import classify
from reprieve.app.outbox.freezing import thaw
from reprieve.app.redaction import redact
from reprieve.core.alerts import Watch
from reprieve.core.classify import is_passage
from reprieve.core.delivery import (
    IN_DOUBT,
    Act,
    Found,
    Next,
    Phase,
    Standing,
    after_failed_send,
    after_look_up,
    assumed_phase,
    next_act,
    wait_in_doubt,
)
from reprieve.core.lifecycle import DeliveryEvent, DeliveryStatus, delivery_after
from reprieve.errors import Retryable
from reprieve.ports.intents import Begin, Correct, DeliveryAttempt, End, Written
from reprieve.ports.sending import Answer, Outgoing, Question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reprieve.app.journal import Journal
    from reprieve.app.profiles import ProfileLike
    from reprieve.core.failure import Failure
    from reprieve.ports.intents import DeliveryRecord
    from reprieve.ports.sending import Message, Sender

_LOG: Final = logging.getLogger("reprieve.outbox")
_MARGIN: Final = 5.0
"""Seconds by which a lease outlasts the time that a send may take: for writing down what came of it."""
_LONGEST_NOTE: Final = 1000
_LONGEST_ID: Final = 500


@dataclass(frozen=True, slots=True)
class Went:
    """The row as it is after an act, and what went wrong."""

    row: DeliveryRecord
    error: BaseException | None = None
    failure: Failure | None = None


class Courier:
    """Acts on deliveries through one journal; whoever calls it owns the decision to."""

    def __init__(
        self,
        journal: Journal,
        now: Callable[[], float],
        *,
        profile: ProfileLike = "criticizer",
        backoff: Callable[[int], float] | None = None,
    ) -> None:
        """Take how long to put off what failed, by the number of its attempt; None where a job's own retry sees to that."""
        self._journal, self._now, self._profile, self._backoff = journal, now, profile, backoff
        self._alerts = Alerts(journal)

    async def advance(self, row: DeliveryRecord, sender: Sender, *, resends: bool = True) -> Went:
        """Take a delivery as far as it goes now; without `resends` not beyond the word that it is missing."""
        went = Went(row)
        while True:
            what = next_act(standing(went.row), sender.capability, self._now())
            match what.act:
                case Act.SEND if went.row.status is DeliveryStatus.PENDING and not resends:
                    return went
                case Act.SEND:
                    went = await self.send(went.row, sender)
                case Act.LOOK_UP:
                    went = await self.look_up(went.row, sender)
                case Act.HOLD:
                    went = Went(await self.hold(went.row, what.reason))
                case Act.NOTHING | Act.WAIT:
                    return went
            if went.error is not None or went.row.fence == row.fence:
                return went  # it failed, or somebody else is at it
            row = went.row

    async def send(self, row: DeliveryRecord, sender: Sender) -> Went:
        """Hand it to the provider: only after that is on disk, and marked only after the provider has taken it."""
        message = thaw(row)
        if message is None:
            return Went(await self.hold(row, "its body was erased"))
        with self._alone(row) as alone:
            return await self._send(row, message, sender) if alone else Went(row)

    async def _send(self, row: DeliveryRecord, message: Message, sender: Sender) -> Went:
        can, started = sender.capability, self._now()
        begun = await self._begin(row, DeliveryEvent.BEGIN, lasts=can.send_timeout, lag=can.lag)
        if begun is None:
            return Went(row)
        failed = partial(self._failed, begun, started=started, lag=can.lag, doubted=row.status in IN_DOUBT)
        # Counted from before it was written down: whoever takes over when the lease ends finds nobody at it.
        left = started + can.send_timeout - self._now()
        if left <= 0:
            return await failed(
                Retryable("writing down that it is sent took all the time there was for it"), Phase.BEFORE
            )
        phases: list[Phase] = []
        outgoing = Outgoing(
            message=message, token=row.token, timeout=left, prepared_at=row.created_at, reached=phases.append
        )
        try:
            async with asyncio.timeout(left):
                notification_id = _kept(await sender.send(outgoing))
        except BaseException as exc:  # noqa: BLE001 - what was begun is ended, whatever ends it
            return await failed(exc, phases[-1] if phases else None)
        attempt = self._attempt("send", begun, started, "accepted", notification_id=notification_id)
        accepted = End(
            delivery_id=row.delivery_id, fence=begun.fence, event=DeliveryEvent.ACCEPT, attempt=attempt,
            notification_id=notification_id, notified_at=attempt.ended_at,
        )  # fmt: skip
        return Went(await self._end(begun, accepted))

    async def _failed(
        self, row: DeliveryRecord, exc: BaseException, phase: Phase | None, *, started: float, lag: float, doubted: bool
    ) -> Went:
        """Write down what a send came to that raised; what ends the process ends it after that."""
        passage = is_passage(exc)
        failure = None if passage else classify(exc, profile=self._profile, stage="deliver", now=self._now())
        if phase is None:
            phase = Phase.DURING if failure is None else assumed_phase(failure)
        if failure is not None:
            attempts = None if self._backoff is None else row.attempts
            event = after_failed_send(failure, phase, doubted=doubted, attempts=attempts)
        else:
            event = DeliveryEvent.DOUBT if doubted or phase is Phase.DURING else DeliveryEvent.PUT_OFF
        said = "it was interrupted" if failure is None else failure.message
        error_class = None if failure is None else failure.error_class
        attempt = self._attempt("send", row, started, event.value, phase=phase, error_class=error_class, message=said)
        ended = await self._end(
            row,
            End(
                delivery_id=row.delivery_id, fence=row.fence, event=event, attempt=attempt,
                reason=said if error_class is None else f"{error_class}: {said}"[:_LONGEST_NOTE],
                not_before=self._not_before(event, row, failure, lag),
            ),
        )  # fmt: skip
        if passage:
            raise exc
        return Went(ended, None if event is DeliveryEvent.DOUBT else exc, failure)

    def _not_before(
        self, event: DeliveryEvent, row: DeliveryRecord, failure: Failure | None, lag: float
    ) -> float | None:
        now = self._now()
        if event is DeliveryEvent.DOUBT:
            return now + wait_in_doubt(row.attempts, lag)
        if event is not DeliveryEvent.PUT_OFF or self._backoff is None:
            return None
        asked = 0.0 if failure is None or failure.retry_after is None else failure.retry_after
        return now + max(self._backoff(row.attempts), asked)

    async def look_up(self, row: DeliveryRecord, sender: Sender) -> Went:
        """Ask the provider whether it has it, and write down what that means."""
        with self._alone(row) as alone:
            return await self._look_up(row, sender) if alone else Went(row)

    async def _look_up(self, row: DeliveryRecord, sender: Sender) -> Went:
        can, started = sender.capability, self._now()
        claimed = row.notified_at is not None
        begun = await self._begin(row, DeliveryEvent.LOOK, lasts=can.send_timeout, lag=0.0)
        if begun is None:
            return Went(row)
        if claimed and not standing(row).evidence:
            await self._alert(Watch.UNPROVEN, row, "is marked as sent without evidence: its provider is asked")
        answer = await self._ask(begun, sender)
        event, following = after_look_up(answer.found, standing(begun), can, self._now())
        evidence = _printable(redact(answer.evidence))[:_LONGEST_NOTE] or f"look-up: {answer.found}"
        notification_id = _kept(answer.notification_id)
        attempt = self._attempt(
            "look_up", begun, started, answer.found.value, message=evidence, notification_id=notification_id
        )
        found = event is DeliveryEvent.FIND
        # Before it is written: who dies between the two asks again, and nobody is left unheard.
        if claimed and event is DeliveryEvent.MISS:
            await self._alert(
                Watch.BROKEN_ORDER, row, "was marked as sent, and its provider has no record: it is sent again"
            )
        if event is DeliveryEvent.HOLD:
            await self._alert(Watch.HELD, row, f"waits for a person: {following.reason}")
        if answer.found is Found.DUPLICATE:
            await self._alert(Watch.DUPLICATE, row, f"is with its provider more than once: {evidence}")
        sent_at = answer.sent_at if answer.sent_at is not None else attempt.ended_at
        ended = await self._end(
            begun,
            End(
                delivery_id=row.delivery_id, fence=begun.fence, event=event, attempt=attempt,
                notification_id=(notification_id or begun.notification_id) if found else None,
                notified_at=(begun.notified_at or sent_at) if found else None,
                evidence=evidence if found else None,
                reason=_reason(answer, following),
                not_before=following.at,
            ),
        )  # fmt: skip
        return Went(ended)

    async def _ask(self, row: DeliveryRecord, sender: Sender) -> Answer:
        question = Question(
            recipient=row.recipient, token=row.token, notification_id=row.notification_id,
            since=row.created_at if row.first_sent_at is None else row.first_sent_at, timeout=sender.capability.send_timeout,
        )  # fmt: skip
        try:
            async with asyncio.timeout(question.timeout):
                return await sender.look_up(question)
        except Exception as exc:  # noqa: BLE001 - whatever goes wrong with a look-up, nothing is known by it
            failure = classify(exc, profile=self._profile, stage="look_up", now=self._now())
            return Answer.unknown(f"{failure.error_class}: {failure.message}")

    @contextmanager
    def _alone(self, row: DeliveryRecord) -> Iterator[bool]:
        """Whether nobody else in this process is at it; nobody else is until the block ends."""
        # A lease alone would not do where the store's clock is this machine's, and jumps.
        underway = self._journal.underway
        if row.delivery_id in underway:
            yield False
            return
        underway.add(row.delivery_id)
        try:
            yield True
        finally:
            underway.remove(row.delivery_id)

    async def _begin(
        self, row: DeliveryRecord, event: DeliveryEvent, *, lasts: float, lag: float
    ) -> DeliveryRecord | None:
        now = self._now()
        begin = Begin(
            delivery_id=row.delivery_id, fence=row.fence, event=event, now=now, until=now + lasts + _MARGIN,
            not_before=now + lasts + _MARGIN + lag,
        )  # fmt: skip
        if await self._journal.ask(begin) is not Written.APPLIED:
            _LOG.info("delivery %d is somebody else's now", row.delivery_id)
            return None
        status = delivery_after(row.status, event)
        begun = replace(row, status=status, fence=row.fence + 1, leased_until=begin.until, not_before=begin.not_before)
        if event is not DeliveryEvent.BEGIN:
            return begun
        first = now if row.first_sent_at is None else row.first_sent_at
        return replace(begun, attempts=row.attempts + 1, first_sent_at=first, last_sent_at=now, lookups=0)

    async def _end(self, row: DeliveryRecord, end: End) -> DeliveryRecord:
        if await self._journal.ask(end) is not Written.APPLIED:
            _LOG.warning("delivery %d was taken over before its end was written: it is reconciled", row.delivery_id)
            return row
        status = delivery_after(row.status, end.event)
        lookups = row.lookups + (row.status is DeliveryStatus.RECONCILING and end.event is DeliveryEvent.DOUBT)
        ended = replace(
            row, status=status, leased_until=None, not_before=end.not_before, reason=end.reason, lookups=lookups
        )
        if status is DeliveryStatus.SENT:
            return replace(
                ended, notification_id=end.notification_id, notified_at=end.notified_at, evidence=end.evidence
            )
        return replace(ended, notification_id=None, notified_at=None) if status is DeliveryStatus.PENDING else ended

    async def refuse(self, row: DeliveryRecord, reason: str) -> Went:
        """It can be sent to nobody: fail it without a try."""
        return Went(await self._settle(row, DeliveryEvent.GIVE_UP, "check", reason))

    async def hold(self, row: DeliveryRecord, why: str) -> DeliveryRecord:
        """It waits for a person; one that was never sent is given up."""
        event = DeliveryEvent.GIVE_UP if row.status is DeliveryStatus.PENDING else DeliveryEvent.HOLD
        await self._alert(Watch.HELD, row, f"waits for a person: {why}")
        return await self._settle(row, event, "sweep", why)

    async def _alert(self, watch: Watch, row: DeliveryRecord, what: str) -> None:
        summary = f"delivery {row.delivery_id} {what}"
        await self._alerts.saw(watch, source=row.sender, summary=summary, profile=self._profile)

    async def _settle(self, row: DeliveryRecord, event: DeliveryEvent, kind: str, reason: str) -> DeliveryRecord:
        """Without the provider, by what is known already; the same row where somebody else has changed it."""
        after = delivery_after(row.status, event)
        attempt = self._attempt(kind, row, self._now(), after.value, message=reason)
        correct = Correct(delivery_id=row.delivery_id, fence=row.fence, event=event, attempt=attempt, reason=reason)
        if await self._journal.ask(correct) is not Written.APPLIED:
            return row
        return replace(row, status=after, fence=row.fence + 1, reason=reason)

    def _attempt(
        self,
        kind: str,
        row: DeliveryRecord,
        started: float,
        answer: str,
        *,
        phase: Phase | None = None,
        error_class: str | None = None,
        message: str = "",
        notification_id: str | None = None,
    ) -> DeliveryAttempt:
        return DeliveryAttempt(
            kind=kind, number=row.attempts if kind == "send" else row.lookups + 1, started_at=started, ended_at=self._now(),
            phase=None if phase is None else phase.value, answer=answer, error_class=error_class,
            message=message[:_LONGEST_NOTE], notification_id=notification_id,
        )  # fmt: skip


def standing(row: DeliveryRecord) -> Standing:
    """A row, as far as it decides what to do."""
    return Standing(
        status=row.status, notified_at=row.notified_at,
        evidence=row.notification_id is not None or row.evidence is not None, attempts=row.attempts,
        first_sent_at=row.first_sent_at, last_sent_at=row.last_sent_at, leased_until=row.leased_until,
        not_before=row.not_before, lookups=row.lookups,
    )  # fmt: skip


def _kept(notification_id: str | None) -> str | None:
    """An id as a row keeps it: what a provider says may hold what no database takes."""
    return None if notification_id is None else _printable(notification_id)[:_LONGEST_ID]


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(filter(str.isprintable, text))


def _reason(answer: Answer, following: Next) -> str | None:
    if answer.found is Found.DUPLICATE:
        return "duplicate: the provider has it more than once"
    return following.reason or None
