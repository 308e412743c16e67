"""What would become of a failure if it went on: the waits, and the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reprieve.core.decide import Decision, History, RetryAt, decide

if TYPE_CHECKING:
    from reprieve.core.failure import Failure
    from reprieve.core.policy import Profile

_ALMOST_ONE = 1.0 - 2**-53
_SHOWN_AT_MOST = 1000


@dataclass(frozen=True, slots=True)
class Wait:
    """The wait before an attempt: as short and as long as chance can make it."""

    attempt: int
    shortest: float
    longest: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """The waits under one profile, and the decision that ends them."""

    profile: str
    waits: tuple[Wait, ...]
    end: Decision
    endless: bool = False
    """More attempts than are worth listing; `end` is then the last one looked at."""


def forecast(failure: Failure, profile: Profile, *, idempotent: bool = False) -> Forecast:
    """Ask `decide` about the same failure again and again, until it gives up."""
    waits: list[Wait] = []
    clock = 0.0
    for attempts in range(1, _SHOWN_AT_MOST + 1):
        history = History(attempts=attempts, started=0.0, idempotent=idempotent)
        shortest = decide(failure, history, profile, now=clock, draw=0.0)
        longest = decide(failure, history, profile, now=clock, draw=_ALMOST_ONE)
        if not isinstance(shortest, RetryAt):
            return Forecast(profile.name, tuple(waits), shortest)
        most = longest.delay if isinstance(longest, RetryAt) else shortest.delay
        low, high = sorted((shortest.delay, most))
        waits.append(Wait(shortest.attempt, low, high))
        clock = shortest.at
    return Forecast(profile.name, tuple(waits), shortest, endless=True)
