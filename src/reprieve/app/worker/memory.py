"""What a stage remembers between its attempts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from reprieve.errors import ReprieveError
from reprieve.ports.intents import Remember, Written

if TYPE_CHECKING:
    from collections.abc import Callable

    from reprieve.app.journal import Journal
    from reprieve.ports.intents import Lease


class LeaseLostError(ReprieveError):
    """Somebody else has the job by now; what this attempt does is not wanted any more."""


class StageMemory:
    """The memos of one stage of a claimed job."""

    __slots__ = ("_journal", "_lease", "_now", "_stage", "loop")

    def __init__(self, journal: Journal, lease: Lease, stage: str, now: Callable[[], float]) -> None:
        self._journal, self._lease, self._stage, self._now = journal, lease, stage, now
        self.loop = asyncio.get_running_loop()

    async def load(self) -> dict[str, bytes]:
        """All of them."""
        memos = await self._journal.store.memos(self._lease.job_id, self._stage)
        return {memo.stage: memo.data for memo in memos}

    async def keep(self, key: str, value: bytes) -> None:
        """One more, durable when this returns."""
        lease = self._lease
        intent = Remember(
            job_id=lease.job_id, fence=lease.fence, stage=self._stage, key=key, value=value, now=self._now()
        )
        if await self._journal.ask(intent) is Written.STALE:
            raise LeaseLostError(f"job {lease.job_id} was taken over by another worker")
