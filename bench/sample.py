"""The sample protocol: a group's own workloads are measured for some seconds and printed as costs in JSON.

`bench/compare.py` runs the bench of two checkouts through this protocol and knows nothing else about them. A
change that older checkouts cannot answer needs another PROTOCOL.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness import Name, medians, take_turns

if TYPE_CHECKING:
    from pathlib import Path

    from engine.usage import Meter

PROTOCOL: Final = 1
SLICE_NANOSECONDS: Final = 10_000_000
"""One turn of a small workload: long beside the clock's own cost, short beside the noise of the machine."""
SHORT_SECONDS: Final = 1.0

Measure = Callable[[int], float]
"""Measures so many calls and returns the nanoseconds of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOptions:
    """What a sample is asked for."""

    seconds: float
    """The least time for which workloads run."""
    fixture: Path
    """A folder that later samples of the same checkout find again."""

    @property
    def is_short(self) -> bool:
        """Whether this sample only shows that the group works: then data sets are small, too."""
        return self.seconds < SHORT_SECONDS

    def scale(self, count: int, short: int) -> int:
        """Return the size of a data set."""
        return short if self.is_short else count


def sized(measure: Measure) -> Callable[[], float]:
    """Return a workload that makes as many calls as fill a slice. Finding their number warms the calls up."""
    calls = 1
    measure(calls)  # loads modules and fills caches
    while (spent := calls * measure(calls)) < SLICE_NANOSECONDS / 10:
        calls *= 4
    calls = max(1, round(calls * SLICE_NANOSECONDS / spent))
    return lambda: measure(calls)


def run_turns(workloads: Mapping[Name, Callable[[], float]], seconds: float) -> dict[Name, list[float]]:
    """Run all workloads in turns, at least once, until the seconds are used up."""
    samples: dict[Name, list[float]] = {name: [] for name in workloads}
    until = time.monotonic() + seconds
    while True:
        for name, costs in take_turns(workloads, 1).items():
            samples[name] += costs
        if time.monotonic() >= until:
            return samples


def repeat_turn(turn: Callable[[], Mapping[str, float]], seconds: float) -> dict[str, float]:
    """Run a turn with several costs, at least once, until the seconds are used up; return their medians."""
    samples: dict[str, list[float]] = {}
    until = time.monotonic() + seconds
    while not samples or time.monotonic() < until:
        for name, cost in turn().items():
            samples.setdefault(name, []).append(cost)
    return medians(samples)


def metered(meter: Meter, action: Callable[[], object]) -> Measure:
    """Measure an action by a meter, which may count a database server, too."""

    def measure(calls: int) -> float:
        turns = range(calls)
        began = meter.start()
        for _ in turns:
            action()
        return meter.since(began) / calls * 1e9

    return measure


def median_costs(workloads: Mapping[str, Callable[[], float]], seconds: float) -> dict[str, float]:
    """Return the median cost of each workload; the median leaves out turns that a neighbour disturbed."""
    return medians(run_turns(workloads, seconds))
