"""The signatures that this process is asking about: held for as long as somebody does, all by one renewal."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from reprieve.app.redaction import redact_exception
from reprieve.ports.intents import Prolong

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reprieve.app.journal import Journal
    from reprieve.app.worker.time import StoreTime
    from reprieve.ports.intents import AnalysisRow

_LOG: Final = logging.getLogger("reprieve.analysis")
_RENEWALS: Final = 3
"""In the time of a lease: two may fail."""


class Holds:
    """Keeps others from asking what is being asked, however long the model takes or makes its callers wait in line."""

    def __init__(self, journal: Journal, time: StoreTime, lease: float) -> None:
        self._journal, self._time, self.lease = journal, time, lease
        self._held: dict[str, int] = {}
        self._renewal: asyncio.Task[None] | None = None

    @contextmanager
    def held(self, row: AnalysisRow) -> Iterator[None]:
        """Meanwhile it is prolonged, under its fence; whoever has taken it over all the same keeps it."""
        self._held[row.signature] = row.fence
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew(), name="reprieve-holds")
        try:
            yield
        finally:
            if self._held.get(row.signature) == row.fence:
                del self._held[row.signature]
            if not self._held and self._renewal is not None:
                self._renewal.cancel()
                self._renewal = None

    async def _renew(self) -> None:
        while True:
            # By the loop's own time: it is this process that has to show that it lives, whatever a clock is told.
            await asyncio.sleep(self.lease / _RENEWALS)
            holds = tuple(self._held.items())
            try:
                await self._journal.ask(
                    Prolong(holds=holds, until=self._time.now() + self.lease), patience=self.lease / _RENEWALS
                )
            except Exception as error:  # noqa: BLE001 - whatever it is, the next renewal may work
                _LOG.warning(
                    "analysis: %d signatures could not be held for longer:\n%s", len(holds), redact_exception(error)
                )
