"""The circuit breaker of a group: the pure function of `core.breaker_state`, with its state in Redis.

Consumers change the state by compare-and-set, so that one of them decides each step. Nothing is stored while nothing
fails. The times are the server's.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from reprieve.core.breaker_state import (
    CLOSED,
    BreakerLimits,
    BreakerState,
    BreakerStatus,
    admit_calls,
    breaker_values,
    read_breaker_state,
)
from reprieve.errors import UsageError
from reprieve.streams.scripts import COMPARE_AND_SET

if TYPE_CHECKING:
    from collections.abc import Callable

    from reprieve.streams.connection import RedisConnection
    from reprieve.streams.keys import StreamKeys

_KEEP_MS: Final = 86_400_000
_MAX_TRIES: Final = 20


def parse_breaker(text: bytes | None) -> BreakerState:
    """Read the value of the key. What cannot be read is a closed breaker: work goes on."""
    if text is None:
        return CLOSED
    try:
        stored = json.loads(text)
        return read_breaker_state(stored) if isinstance(stored, dict) else CLOSED
    except (ValueError, UsageError):
        return CLOSED


class GroupBreaker:
    """What one consumer knows of its group's breaker."""

    def __init__(self, connection: RedisConnection, keys: StreamKeys, limits: BreakerLimits) -> None:
        self._connection, self._key, self._limits = connection, keys.breaker, limits
        self._text = b""
        self._offset: float | None = None
        self.state = CLOSED

    @property
    def is_gated(self) -> bool:
        """Whether calls need an admission."""
        return self.state.status is not BreakerStatus.CLOSED

    @property
    def has_streak(self) -> bool:
        """Whether failures are counted that a success would end."""
        return self.state != CLOSED

    def now(self) -> float:
        """Return the server's time, as it was told last and counted on by the monotonic clock."""
        return time.monotonic() + (self._offset if self._offset is not None else time.time() - time.monotonic())

    def seconds_until_call(self) -> float:
        """Return how long no call is admitted."""
        return self.state.seconds_until_call(self.now())

    def see(self, text: bytes | None) -> None:
        """Take over a value that was read."""
        self._text = text or b""
        self.state = parse_breaker(text)

    async def refresh(self) -> None:
        """Read the state."""
        began = time.monotonic()
        _, text, now = await self._connection.run(COMPARE_AND_SET, [self._key], b"?", b"", _KEEP_MS)
        self._offset = now / 1000 - (began + time.monotonic()) / 2
        self.see(text)

    async def update(self, change: Callable[[BreakerState, float], BreakerState]) -> BreakerState:
        """Apply a change to the state that is stored, whatever other consumers do meanwhile; return it."""
        if self._offset is None:
            await self.refresh()
        for _ in range(_MAX_TRIES):
            wanted = change(self.state, self.now())
            text = b"" if wanted == CLOSED else json.dumps(breaker_values(wanted)).encode()
            done, current, _ = await self._connection.run(COMPARE_AND_SET, [self._key], self._text, text, _KEEP_MS)
            self.see(text if done else current)
            if done:
                break
        return self.state

    async def admit(self, wanted: int) -> int:
        """Ask to make so many calls; return how many are admitted."""
        admitted = 0

        def change(state: BreakerState, now: float) -> BreakerState:
            nonlocal admitted
            changed, admitted = admit_calls(state, self._limits, now=now, wanted=wanted)
            return changed

        await self.update(change)
        return admitted
