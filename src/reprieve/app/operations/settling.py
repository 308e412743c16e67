"""Replayed jobs that are over: their dead letters are told, before anybody looks at them or does something about them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.app.operations.asking import PATIENCE
from reprieve.core.lifecycle import LetterState
from reprieve.ports.dead_letters import LetterFilter
from reprieve.ports.intents import Settle

if TYPE_CHECKING:
    from reprieve.app.operations.asking import OpenJournal
    from reprieve.ports.dead_letters import DeadLetterReader

_AT_ONCE: Final = 1000
_ROUNDS: Final = 10
"""So that somebody who looks while many thousands are replayed does not wait for all of them; workers settle too."""
_REPLAYING: Final = LetterFilter(states=frozenset({LetterState.REPLAYING}), limit=1)


@dataclass(frozen=True, slots=True)
class Settler:
    """Settles what is replaying and over; nothing is written where nothing is replaying."""

    letters: DeadLetterReader
    journal: OpenJournal

    async def __call__(self) -> None:
        """Do it now."""
        if not await asyncio.to_thread(self.letters.letters, _REPLAYING):
            return
        journal = await self.journal()
        for _ in range(_ROUNDS):
            settle = Settle(now=await journal.store.now(), limit=_AT_ONCE)
            if await journal.ask(settle, patience=PATIENCE) < _AT_ONCE:
                return
