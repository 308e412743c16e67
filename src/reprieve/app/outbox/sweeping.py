"""The sweep: whatever was left in doubt is found, asked about, mended or handed to a person; no row escapes it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from reprieve.app.outbox.courier import ALERTS, Courier
from reprieve.app.redaction import redact_exception
from reprieve.core.lifecycle import DeliveryEvent, DeliveryStatus
from reprieve.ports.intents import Correct, DeliveryAttempt, WakeDelivered, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reprieve.app.journal import Journal
    from reprieve.ports.clock import Clock
    from reprieve.ports.deliveries import DeliveryReader
    from reprieve.ports.intents import DeliveryRecord
    from reprieve.ports.sending import Sender

_LOG: Final = logging.getLogger("reprieve.outbox")
_AT_ONCE: Final = 20
_PAGE: Final = 500
_SOONEST: Final = 0.5
_LATEST: Final = 15.0
_LONGEST_BACKOFF: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one sweep came to."""

    looked_at: int = 0
    given_up: int = 0
    woken: int = 0


class Sweep:
    """Reconciles deliveries of the senders that this process knows."""

    def __init__(
        self,
        journal: Journal,
        reader: DeliveryReader,
        senders: Mapping[str, Sender],
        *,
        now: Callable[[], float],
        clock: Clock,
    ) -> None:
        self._journal, self._reader, self._senders, self._now, self._clock = journal, reader, senders, now, clock
        self._courier = Courier(journal, now, backoff=lambda attempt: min(2.0**attempt, _LONGEST_BACKOFF))

    async def run(self) -> None:
        """Sweep at intervals, for ever; soon again after something was found."""
        pause = _SOONEST
        while True:
            try:
                done = await self.once()
            except Exception as error:  # noqa: BLE001 - a sweep that fails is made again
                _LOG.error("a sweep of deliveries failed:\n%s", redact_exception(error))
                done = Swept()
            pause = _SOONEST if done != Swept() else min(2 * pause, _LATEST)
            await self._clock.sleep_async(pause)

    async def once(self) -> Swept:
        """Everything that is due now, once."""
        look = partial(self._reader.due, now=self._now(), senders=frozenset(self._senders), limit=_PAGE)
        rows = await asyncio.to_thread(look)
        turn = asyncio.Semaphore(_AT_ONCE)

        async def one(row: DeliveryRecord) -> bool:
            async with turn:
                return await self._mend(row)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(row)) for row in rows]
        given_up = 0
        for row in await asyncio.to_thread(partial(self._reader.abandoned, limit=_PAGE)):
            given_up += await self._give_up(row)
        woken = await self._journal.ask(WakeDelivered(now=self._now()))
        return Swept(looked_at=sum(task.result() for task in tasks), given_up=given_up, woken=woken)

    async def _mend(self, row: DeliveryRecord) -> bool:
        """Whether anything was done about it."""
        if row.status is DeliveryStatus.SENT:
            ALERTS.error("delivery %d is marked as sent without evidence: its provider is asked", row.delivery_id)
        went = await self._courier.advance(row, self._senders[row.sender])
        return went.row.fence != row.fence

    async def _give_up(self, row: DeliveryRecord) -> bool:
        now = self._now()
        reason = "its job has ended without it"
        attempt = DeliveryAttempt(
            kind="sweep", number=1, started_at=now, ended_at=now, phase=None, answer="given_up", message=reason
        )
        correct = Correct(
            delivery_id=row.delivery_id, fence=row.fence, event=DeliveryEvent.GIVE_UP, attempt=attempt, reason=reason
        )
        return await self._journal.ask(correct) is Written.APPLIED
