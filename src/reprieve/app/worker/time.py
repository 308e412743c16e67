"""The store's clock, kept here between two looks at it: all workers agree, however wrong their machines' clocks are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprieve.ports.clock import Clock
    from reprieve.ports.store import Store


class StoreTime:
    """Seconds since the epoch by the store's clock, measured from this machine's monotonic one."""

    __slots__ = ("_clock", "_offset", "_store")

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._offset = clock.now() - clock.monotonic()

    async def synchronize(self) -> None:
        """Look again; half of the look's own time is taken off."""
        before = self._clock.monotonic()
        moment = await self._store.now()
        self._offset = moment - (before + self._clock.monotonic()) / 2

    def now(self) -> float:
        """What the store's clock says now."""
        return self._offset + self._clock.monotonic()
