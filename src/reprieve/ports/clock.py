"""Time, passed in."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time, passed in; a test hands over one that it moves itself."""

    def now(self) -> float:
        """Seconds since the epoch: for people, rows and HTTP-dates."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back: for deadlines."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Give way for so long."""
        ...
