"""Look-ups of the cache: those that are asked for at the same time share one round trip, and nobody writes for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.app.journal import Journal
    from reprieve.ports.intents import AnalysisRow

MOST: Final = 1000
"""Signatures in one look-up, or one reservation."""


class Looker:
    """Looks signatures up, many at a time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._wanted: dict[str, asyncio.Future[AnalysisRow | None]] = {}
        self._looks: set[asyncio.Task[None]] = set()

    async def one(self, signature: str) -> AnalysisRow | None:
        """What is known of one, with all others that are being looked up; None where nothing is."""
        found = self._wanted.get(signature)
        if found is None:
            if not self._wanted:
                # Those that come before the loop's next turn come along.
                look = asyncio.ensure_future(self._look())
                self._looks.add(look)
                look.add_done_callback(self._looks.discard)
            found = self._wanted[signature] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(found)

    async def many(self, signatures: Sequence[str]) -> dict[str, AnalysisRow]:
        """What is known of these."""
        store = self._journal.store
        found: dict[str, AnalysisRow] = {}
        for start in range(0, len(signatures), MOST):
            part = signatures[start : start + MOST]
            rows = await self._journal.look(lambda part=part: store.analyses(part))  # type: ignore[misc]  # a default binds it
            found |= {row.signature: row for row in rows}
        return found

    async def _look(self) -> None:
        await asyncio.sleep(0)
        wanted, self._wanted = self._wanted, {}
        try:
            rows = await self.many(list(wanted))
        except BaseException as error:
            for found in wanted.values():
                if not found.done():
                    found.set_exception(error)
                    found.exception()  # whoever stopped waiting for it need not be warned
            if not isinstance(error, Exception):
                raise
            return
        for signature, found in wanted.items():
            if not found.done():
                found.set_result(rows.get(signature))
