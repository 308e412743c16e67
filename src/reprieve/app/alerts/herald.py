"""The herald beside a worker: tells sinks what they have to hear, and ends alerts whose condition is over.

Every worker has one. What is to be told is in the database: a sink that is down is tried again, one that hangs is given up
after its time, and neither keeps anybody waiting. A herald that dies leaves what it had taken to others, after a while.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.alerts.raising import ACTOR, ALERTS
from reprieve.app.alerts.sinks import mark_of, notice_of, told_or_why
from reprieve.app.looking import Looks
from reprieve.app.redaction import redact_exception
from reprieve.app.worker.time import StoreTime
from reprieve.errors import StoreUnavailableError, UsageError
from reprieve.ports.intents import Resolve, TakeNotices, Told

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence

    from reprieve.app.journal import Journal
    from reprieve.ports.alerting import AlertReader, Over, Sink
    from reprieve.ports.clock import Clock
    from reprieve.ports.intents import NoticeRecord

_LOG: Final = logging.getLogger("reprieve.alerting")
_AT_ONCE: Final = 20
"""Notices that one herald takes and tells at a time."""
_ROUNDS: Final = 50
"""After so many takes it is looked again whether there is more to be told."""
_MARGIN: Final = 10.0
"""Seconds by which a notice is taken for longer than its sink may need: for writing down what came of it."""
_FIRST_WAIT: Final = 5.0
_LONGEST_WAIT: Final = 600.0
_IDLE: Final = 5.0
_LAST_WORDS: Final = 5.0
"""Seconds that whoever stops waits for sinks to answer; what they have not heard then, somebody else tells them."""
_LEAST: Final = 0.2
"""Seconds between two looks, however much is going on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heralded:
    """What one round came to."""

    told: int = 0
    failed: int = 0
    resolved: int = 0


class Herald:
    """Tells the sinks of one process."""

    def __init__(self, journal: Journal, reader: AlertReader, sinks: Sequence[Sink], *, clock: Clock) -> None:
        self._journal, self._reader, self._clock = journal, reader, clock
        self._sinks = {sink.name: sink for sink in sinks}
        if len(self._sinks) < len(sinks):
            raise UsageError("two sinks have the same name: rows know them by that alone, so give one another")
        self._look = Looks()
        self._time = StoreTime(journal.store, clock)
        self._leaving = asyncio.Event()
        self._mark: str | None = None

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[Herald]:
        """At work while something else is; whatever happens here, that is not hurt. No sink waits for another.

        Ends with one more look: what came last is told too, to whoever answers soon.
        """
        telling = [asyncio.create_task(self._work(partial(self._serve, name)), name="reprieve-herald") for name in self._sinks]  # fmt: skip
        ending = asyncio.create_task(self._work(self._end_all), name="reprieve-herald")
        try:
            yield self
        finally:
            self._leaving.set()
            ending.cancel()
            try:
                if telling:
                    await asyncio.wait(telling, timeout=_LAST_WORDS)
            finally:
                for task in telling:
                    task.cancel()
                await asyncio.wait([*telling, ending])
                await self._look.close()

    async def _work(self, step: Callable[[], Awaitable[Heralded]]) -> None:
        wake = asyncio.Event()
        leave = self._journal.store.subscribe(wake.set)
        try:
            while True:
                done, last = Heralded(), self._leaving.is_set()
                try:
                    await self._time.synchronize()
                    done = await step()
                except StoreUnavailableError as error:
                    _LOG.warning("alerts have to wait: %s", error)
                except Exception as error:  # noqa: BLE001 - whatever it is, the worker beside goes on
                    _LOG.error("a round of alerts failed:\n%s", redact_exception(error))
                if last:
                    return
                await self._rest(wake, busy=done != Heralded())
        finally:
            leave()

    async def _rest(self, wake: asyncio.Event, *, busy: bool) -> None:
        """Until there may be news; never more often than a few times a second, since workers have news all the time."""
        await self._unless_leaving(self._clock.sleep_async(_LEAST))
        if not busy:
            await self._unless_leaving(wake.wait())
        wake.clear()

    async def _unless_leaving(self, waiting: Coroutine[Any, Any, object]) -> None:
        """Wait for it, or for the end, or for long enough."""
        tasks = [asyncio.create_task(waiting), asyncio.create_task(self._leaving.wait())]
        try:
            await asyncio.wait(tasks, timeout=_IDLE, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in tasks:
                each.cancel()

    async def once(self) -> Heralded:
        """Tell everything that is due now, and end what is over; then tell of that."""
        await self._time.synchronize()
        first = await self._serve_all()
        ended = await self._end_all()
        after = await self._serve_all() if ended.resolved else Heralded()
        return Heralded(told=first.told + after.told, failed=first.failed + after.failed, resolved=ended.resolved)

    async def _serve_all(self) -> Heralded:
        rounds = await asyncio.gather(*(self._serve(name) for name in self._sinks))
        return Heralded(told=sum(each.told for each in rounds), failed=sum(each.failed for each in rounds))

    async def _end_all(self) -> Heralded:
        over = await self._look(self._reader.over, self._time.now())
        for each in over:
            await self._end(each)
        return Heralded(resolved=len(over))

    async def _end(self, over: Over) -> None:
        ended = Resolve(actor=ACTOR, why=over.why, now=self._time.now(), alerts=((over.alert_id, over.last_at),))
        if (await self._journal.ask(ended)).alerts:
            ALERTS.info("alert %d is over: %s", over.alert_id, over.why)

    async def _serve(self, name: str) -> Heralded:
        """Tell one sink everything that is due."""
        told = failed = rounds = 0
        while await self._look(self._reader.has_to_tell, self._time.now(), (name,)):
            now = self._time.now()
            until = now + self._sinks[name].timeout + _MARGIN
            take = TakeNotices(sinks=(name,), now=now, until=until, limit=_AT_ONCE, makes_out=rounds % _ROUNDS == 0)
            taken = await self._journal.ask(take)
            rounds += 1
            if not taken.notices and take.makes_out:
                break
            if not taken.notices:
                rounds = 0
                continue
            outcomes = await asyncio.gather(*(self._tell(each) for each in taken.notices))
            told += sum(outcomes)
            failed += len(outcomes) - sum(outcomes)
        return Heralded(told=told, failed=failed)

    async def _tell(self, row: NoticeRecord) -> bool:
        """Whether the sink has heard it; else it is put off, ever longer."""
        if self._mark is None:
            self._mark = mark_of(await self._journal.store.digest_key())
        error = await told_or_why(self._sinks[row.sink], notice_of(row, self._mark))
        now = self._time.now()
        again = None
        if error is not None:
            again = now + min(_FIRST_WAIT * 2.0 ** min(row.attempts - 1, 20), _LONGEST_WAIT)
            _LOG.warning("the sink %s could not be told of alert %d: %s", row.sink, row.alert_id, error)
        told = Told(notice_id=row.notice_id, fence=row.fence, now=now, error=error, not_before=again)
        await self._journal.ask(told)
        return error is None
