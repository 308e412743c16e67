"""Deliveries: look, have the provider asked, and settle by hand what cannot be known."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from reprieve.app.operations.asking import AUDIT, PATIENCE, actor_of, reason_of
from reprieve.app.outbox.courier import Courier, standing
from reprieve.app.outbox.sweeping import Sweep
from reprieve.app.worker.time import StoreTime
from reprieve.core.delivery import Act, may_ask
from reprieve.core.lifecycle import DELIVERY_TRANSITIONS, DeliveryEvent, DeliveryStatus
from reprieve.errors import RefusedError, UnknownNameError, UsageError
from reprieve.ports.deliveries import DeliveryFilter
from reprieve.ports.intents import Correct, DeliveryAttempt, WakeDelivered, Written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reprieve.app.operations.asking import OpenJournal
    from reprieve.app.outbox.sweeping import Swept
    from reprieve.ports.clock import Clock
    from reprieve.ports.deliveries import DeliveryDetail, DeliveryReader
    from reprieve.ports.intents import DeliveryRecord
    from reprieve.ports.sending import Sender

_HIGHEST_ID: Final = 2**63 - 1
_DONE: Final = {
    DeliveryEvent.CONFIRM: "confirmed",
    DeliveryEvent.RESEND: "put back to be sent",
    DeliveryEvent.GIVE_UP: "given up",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a look-up of one delivery came to."""

    before: DeliveryStatus
    after: DeliveryRecord


class DeliveryOperations:
    """What an operator can see and do about deliveries."""

    def __init__(self, reader: DeliveryReader, journal: OpenJournal, *, clock: Clock) -> None:
        self._reader, self._journal, self._clock = reader, journal, clock

    async def list(self, wanted: DeliveryFilter = DeliveryFilter()) -> Sequence[DeliveryRecord]:  # noqa: B008 - frozen
        """The newest first, without bodies; page on with `after`."""
        if wanted.limit < 1:
            raise UsageError(f"limit must be at least 1, not {wanted.limit}")
        return await asyncio.to_thread(self._reader.deliveries, wanted)

    async def show(self, delivery_id: int) -> DeliveryDetail:
        """One delivery with everything that was tried."""
        found = None
        if 0 < delivery_id <= _HIGHEST_ID:
            found = await asyncio.to_thread(self._reader.delivery, delivery_id)
        if found is None:
            raise UnknownNameError("delivery", str(delivery_id))
        return found

    async def body(self, delivery_id: int) -> bytes | None:
        """What was frozen, as it was given: shown only where somebody asks for this very thing."""
        await self.show(delivery_id)
        return await asyncio.to_thread(self._reader.body, delivery_id)

    async def confirm(self, delivery_id: int, *, actor: str, evidence: str) -> DeliveryDetail:
        """A held or failed delivery was received after all: mark it, with what shows it; nothing is sent."""
        return await self._correct(delivery_id, DeliveryEvent.CONFIRM, actor, _required("evidence", evidence))

    async def resend(self, delivery_id: int, *, actor: str, reason: str) -> DeliveryDetail:
        """A held or failed delivery is to be sent again: by its job, or by the sweep where that is over."""
        return await self._correct(delivery_id, DeliveryEvent.RESEND, actor, _required("a reason", reason))

    async def give_up(self, delivery_id: int, *, actor: str, reason: str) -> DeliveryDetail:
        """A held delivery shall not be sent."""
        return await self._correct(delivery_id, DeliveryEvent.GIVE_UP, actor, _required("a reason", reason))

    async def reconcile(self, senders: Mapping[str, Sender], *, actor: str) -> Swept:
        """Have everything that is due looked up, mended or held now, instead of by the next sweep of a worker."""
        actor = actor_of(actor)
        journal = await self._journal()
        sweep = Sweep(journal, self._reader, senders, clock=self._clock)
        done = await sweep.once()
        AUDIT.info("%s had %d deliveries reconciled", actor, done.looked_at)
        return done

    async def ask(self, delivery_id: int, senders: Mapping[str, Sender], *, actor: str) -> Asked:
        """Ask the provider of one delivery, also of one that is marked as sent; what is missing there is sent again."""
        actor = actor_of(actor)
        row = (await self.show(delivery_id)).row
        sender = senders.get(row.sender)
        if sender is None:
            raise UnknownNameError("sender", row.sender, tuple(senders))
        journal = await self._journal()
        time = StoreTime(journal.store, self._clock)
        await time.synchronize()
        _require_askable(row, sender, time.now())
        body = await asyncio.to_thread(self._reader.body, delivery_id)
        courier = Courier(journal, time.now)
        went = await courier.look_up(replace(row, body=body), sender)
        if went.row.status is DeliveryStatus.PENDING:
            went = await courier.advance(went.row, sender)
        await journal.ask(WakeDelivered(now=await journal.store.now()), patience=PATIENCE)
        AUDIT.info("%s had delivery %d looked up: %s", actor, delivery_id, went.row.status)
        return Asked(before=row.status, after=went.row)

    async def _correct(self, delivery_id: int, event: DeliveryEvent, actor: str, reason: str) -> DeliveryDetail:
        actor = actor_of(actor)
        row = (await self.show(delivery_id)).row
        if (row.status, event) not in DELIVERY_TRANSITIONS:
            raise RefusedError(f"delivery {delivery_id} is {row.status}, and can be {_DONE[event]} {_when(event)}")
        journal = await self._journal()
        now = await journal.store.now()
        attempt = DeliveryAttempt(
            kind=event.value, number=row.attempts, started_at=now, ended_at=now, phase=None, answer=_DONE[event],
            message=reason, actor=actor,
        )  # fmt: skip
        correct = Correct(delivery_id=delivery_id, fence=row.fence, event=event, attempt=attempt, reason=reason)
        if await journal.ask(correct, patience=PATIENCE) is not Written.APPLIED:
            raise RefusedError(f"delivery {delivery_id} has changed meanwhile: look at it again")
        await journal.ask(WakeDelivered(now=now), patience=PATIENCE)
        AUDIT.info("%s: delivery %d is %s", actor, delivery_id, _DONE[event])
        return await self.show(delivery_id)


def _required(what: str, text: str) -> str:
    kept = reason_of(text)
    if not kept:
        raise UsageError(f"say {what}: it is kept with the delivery")
    return kept


def _when(event: DeliveryEvent) -> str:
    states = [status for status, each in DELIVERY_TRANSITIONS if each is event]
    return f"only while it is {' or '.join(states)}"


def _require_askable(row: DeliveryRecord, sender: Sender, now: float) -> None:
    can = sender.capability
    if not can.looks_up:
        raise RefusedError(f"the provider of {row.sender} cannot be asked: confirm or resend it by hand")
    if row.last_sent_at is None:
        raise RefusedError(f"delivery {row.delivery_id} was never sent: there is nothing to ask for")
    if (row.status, DeliveryEvent.LOOK) not in DELIVERY_TRANSITIONS:
        raise RefusedError(f"delivery {row.delivery_id} is {row.status}: its provider does not have it")
    asking = may_ask(standing(row), can, now)
    match asking.act:
        case Act.LOOK_UP:
            return
        case Act.WAIT if asking.at is not None:
            left = max(asking.at - now, 0.1)
            raise RefusedError(f"delivery {row.delivery_id}: {asking.reason}: try again in {left:.1f} s")
        case _:
            raise RefusedError(f"delivery {row.delivery_id}: {asking.reason}: what is not found means nothing any more")
