"""A clock that jumps instead of sleeping."""

from __future__ import annotations

import asyncio


class FakeClock:
    """Time that moves only when something sleeps or a test says so; `slept` keeps every wait."""

    def __init__(self, *, now: float = 1_700_000_000.0) -> None:
        self._start = now
        self._elapsed = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds}")
        self._elapsed += seconds

    def sleep(self, seconds: float) -> None:
        """Be there at once."""
        self.slept.append(seconds)
        self.advance(max(0.0, seconds))

    async def sleep_async(self, seconds: float) -> None:
        """Be there at once, after giving way to the tasks that are ready."""
        self.sleep(seconds)
        await asyncio.sleep(0)
