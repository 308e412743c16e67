"""The clock of the machine, behind the port."""

from __future__ import annotations

import time


class SystemClock:
    """Real time; stateless, so one is as good as another."""

    __slots__ = ()

    # The functions themselves, not methods around them: a decorated call reads this clock every time.
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    def sleep(self, seconds: float) -> None:
        """Block this thread; not at all for what lies in the past."""
        if seconds > 0:
            time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Give way to other tasks for so long, at least once."""
        import asyncio  # noqa: PLC0415 - only who sleeps asynchronously pays for loading it

        await asyncio.sleep(seconds)
