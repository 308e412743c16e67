"""What an upstream does next: acts in sequence, per place or for any, and what it does when they are used up."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

T = TypeVar("T")


class Script(Generic[T]):
    """Queues of acts by place; the queue of a place speaks before the one for any place (None)."""

    def __init__(self, otherwise: T) -> None:
        """Take what is done when nothing else is scripted."""
        self._lock = threading.Lock()
        self._otherwise = otherwise
        self._queues: defaultdict[Hashable, deque[T]] = defaultdict(deque)
        self._defaults: dict[Hashable, T] = {}

    def append(self, acts: Iterable[T], place: Hashable = None) -> None:
        """Do these next, once each, in this order."""
        with self._lock:
            self._queues[place].extend(acts)

    def settle(self, act: T, place: Hashable = None) -> None:
        """Do this whenever nothing is queued."""
        with self._lock:
            self._defaults[place] = act

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._queues.clear()
            self._defaults.clear()

    def take(self, *places: Hashable) -> T:
        """The next act for these places, the most particular first."""
        with self._lock:
            for place in (*places, None):
                if self._queues[place]:
                    return self._queues[place].popleft()
                if place in self._defaults:
                    return self._defaults[place]
            return self._otherwise

    def take_if(self, wanted: Callable[[T], bool]) -> T | None:
        """The next act for any place, if it is wanted; else it stays."""
        with self._lock:
            queue = self._queues[None]
            act = queue[0] if queue else self._defaults.get(None, self._otherwise)
            if not wanted(act):
                return None
            return queue.popleft() if queue else act

    def pending(self) -> tuple[T, ...]:
        """What was queued and has not been done."""
        with self._lock:
            return tuple(act for queue in self._queues.values() for act in queue)
