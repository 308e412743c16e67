"""The sweep: whatever was left in doubt is found, asked about, mended or handed to a person; no row escapes it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.app.looking import Looks
from reprieve.app.outbox.courier import Courier
from reprieve.app.redaction import redact_exception
from reprieve.app.worker.time import StoreTime
from reprieve.core.delivery import IN_DOUBT, LEFT_OUT, REPLAYED
from reprieve.core.lifecycle import DeliveryEvent, DeliveryStatus
from reprieve.errors import StoreUnavailableError, UsageError
from reprieve.ports.deliveries import DeliveryFilter
from reprieve.ports.intents import Correct, DeliveryAttempt, WakeDelivered, Written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from reprieve.app.journal import Journal
    from reprieve.app.pipeline import Pipeline
    from reprieve.ports.clock import Clock
    from reprieve.ports.deliveries import DeliveryReader
    from reprieve.ports.intents import DeliveryRecord
    from reprieve.ports.sending import Sender

_LOG: Final = logging.getLogger("reprieve.outbox")
_AT_ONCE: Final = 20
_PAGE: Final = 500
_QUICK: Final = 0.1
_STEADY: Final = 1.0
_IDLE: Final = 5.0
_LONGEST_BACKOFF: Final = 300.0
_ORPHANED: Final = 86_400.0
"""Seconds after which somebody would have seen to a delivery, if any worker knew its sender."""
_ORPHANS_EVERY: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one sweep came to."""

    looked_at: int = 0
    given_up: int = 0
    woken: int = 0


class Sweep:
    """Reconciles deliveries of the senders that this process knows."""

    def __init__(
        self, journal: Journal, reader: DeliveryReader, senders: Mapping[str, Sender], *, clock: Clock
    ) -> None:
        self._journal, self._reader, self._senders, self._clock = journal, reader, senders, clock
        self._look = Looks()
        self._time = StoreTime(journal.store, clock)
        self._turn = asyncio.Lock()
        self._orphans_at = clock.monotonic()
        self._courier = Courier(journal, self._time.now, backoff=lambda attempt: min(2.0**attempt, _LONGEST_BACKOFF))

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[Sweep]:
        """At work while something else is; whatever happens here, that is not hurt."""
        task = asyncio.create_task(self._work(), name="reprieve-sweep")
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])
            await self._look.close()

    async def has_more(self) -> bool:
        """Sweep now; whether that got something done, or time alone will."""
        try:
            done = await self.once()
        except StoreUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - told where it is tried again; a worker's end does not hang on it
            _LOG.debug("nobody knows whether deliveries are in doubt: %s", redact_exception(error))
            return False
        return done != Swept() or await self._is_in_doubt()

    async def _work(self) -> None:
        """Sweep at intervals: soon again after something was found, rarely while nothing is."""
        pause = _QUICK
        while True:
            busy = False
            try:
                done = await self.once()
                busy = done != Swept() or await self._is_in_doubt()
            except StoreUnavailableError as error:
                _LOG.warning("deliveries have to wait: %s", error)
                done = Swept()
            except Exception as error:  # noqa: BLE001 - whatever it is, the worker beside goes on
                _LOG.error("a sweep of deliveries failed:\n%s", redact_exception(error))
                done = Swept()
            pause = _QUICK if done != Swept() else min(2 * pause, _STEADY if busy else _IDLE)
            await self._clock.sleep_async(pause)

    async def once(self) -> Swept:
        """Everything that is due now, once."""
        async with self._turn:
            await self._time.synchronize()
            names = frozenset(self._senders)
            rows = await self._look(self._reader.due, now=self._time.now(), senders=names, limit=_PAGE)
            mended = await self._mend_all(rows)
            orphaned = await self._hold_orphaned(names)
            given_up = await self._give_up_abandoned()
            # Only now: what a cancelled job did not get to tell is given up by then, and taken by nobody.
            await self._mend_all([row for row in mended if row.status is DeliveryStatus.PENDING])
            woken = await self._journal.ask(WakeDelivered(now=self._time.now()))
        return Swept(looked_at=len(mended) + orphaned, given_up=given_up, woken=woken)

    async def _is_in_doubt(self) -> bool:
        """Whether something of ours is unsettled that time, or a look-up, will settle."""
        wanted = DeliveryFilter(statuses=IN_DOUBT, senders=frozenset(self._senders), limit=1)
        return bool(await self._look(self._reader.deliveries, wanted))

    async def _mend_all(self, rows: Sequence[DeliveryRecord]) -> list[DeliveryRecord]:
        """Those of which something was done, as they are now; what is missing is sent if that was known before."""
        turn = asyncio.Semaphore(_AT_ONCE)

        async def one(row: DeliveryRecord) -> DeliveryRecord:
            async with turn:
                return await self._mend(row)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(row)) for row in rows]
        after = [task.result() for task in tasks]
        return [now for before, now in zip(rows, after, strict=True) if now.fence != before.fence]

    async def _mend(self, row: DeliveryRecord) -> DeliveryRecord:
        try:
            known = row.status is DeliveryStatus.PENDING
            went = await self._courier.advance(row, self._senders[row.sender], resends=known)
        except Exception as error:  # noqa: BLE001 - one that fails stops no other
            _LOG.error("delivery %d could not be reconciled:\n%s", row.delivery_id, redact_exception(error))
            return row
        return went.row

    async def _hold_orphaned(self, names: frozenset[str]) -> int:
        """Hand over to a person what was left by senders that were renamed or removed; looked for now and then."""
        if self._clock.monotonic() < self._orphans_at:
            return 0
        self._orphans_at = self._clock.monotonic() + _ORPHANS_EVERY
        before = self._time.now() - _ORPHANED
        rows = await self._look(self._reader.orphaned, before=before, senders=names, limit=_PAGE)
        held = [
            await self._courier.hold(row, f"no worker has known its sender {row.sender!r} for a day") for row in rows
        ]
        return sum(after is not before for before, after in zip(rows, held, strict=True))

    async def _give_up_abandoned(self) -> int:
        given_up = 0
        while True:
            abandoned = await self._look(self._reader.abandoned, limit=_PAGE)
            done = sum(await asyncio.gather(*(self._give_up(row) for row in abandoned)))
            given_up += done
            if not done or len(abandoned) < _PAGE:
                return given_up

    async def _give_up(self, row: DeliveryRecord) -> bool:
        now = self._time.now()
        reason = LEFT_OUT if row.reason == REPLAYED else "its job has ended without it"
        attempt = DeliveryAttempt(
            kind="sweep", number=1, started_at=now, ended_at=now, phase=None, answer="given_up", message=reason
        )
        correct = Correct(
            delivery_id=row.delivery_id, fence=row.fence, event=DeliveryEvent.GIVE_UP, attempt=attempt, reason=reason
        )
        return await self._journal.ask(correct) is Written.APPLIED


def senders_of(pipelines: Iterable[Pipeline]) -> dict[str, Sender]:
    """All senders by name; a name stands for one of them, as rows know it by that alone."""
    named: dict[str, Sender] = {}
    for pipeline in pipelines:
        for name, sender in pipeline.senders.items():
            if named.setdefault(name, sender) is not sender:
                raise UsageError(f"two pipelines have different senders named {name!r}: give one another name")
    return named
