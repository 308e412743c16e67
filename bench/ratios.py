"""Decide from paired costs of two checkouts whether a figure became slower: pure functions of numbers."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TAIL: Final = 0.025
"""The chance on each side of a 95 % interval."""
MAX_WIDTH: Final = 0.06
"""An interval wider than this share of the ratio decides nothing."""
MARGIN: Final = 0.02
"""The whole interval must be this far from 1 before a figure counts as slower or faster.

An interval of 6 points reaches 3 points to each side. A slowdown of 8 % then clears the margin by another
3 points, which is about two standard errors: it is found in about 97 of 100 comparisons. Equal checkouts
cross the margin only with an error of 5 points, which is more than three standard errors: less than one
figure in a thousand.
"""


class Verdict(StrEnum):
    """What the interval of a ratio says about a figure."""

    SLOWER = "slower"
    FASTER = "faster"
    EQUAL = "no difference"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Cost of the head divided by the cost of the base: above 1 the head is slower."""

    median: float
    low: float
    high: float
    pairs: int

    @property
    def width(self) -> float:
        """Width of the interval as a share of the ratio: 0.06 is six points at a ratio of 1."""
        return self.high / self.low - 1 if self.low > 0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """How long a comparison goes on."""

    pairs: int = 25
    max_pairs: int = 100
    seconds: float = 5.0
    """Of each sample. A pair has two samples."""

    @property
    def is_standard(self) -> bool:
        """Whether the result may be quoted."""
        default = SamplingPlan()
        return self.pairs >= default.pairs and self.seconds >= default.seconds


def estimate_ratio(base: Sequence[float], head: Sequence[float]) -> Ratio:
    """Estimate the median ratio of paired costs with its 95 % interval.

    The interval lies between two order statistics of the paired ratios, as in the sign test. It assumes
    nothing about the shape of the noise. Fewer than six pairs have no such interval: it reaches from 0 to
    infinity.

    Raises:
        ValueError: a cost is not a positive number, or a cost has no partner.
    """
    if not base or not all(math.isfinite(cost) and cost > 0 for cost in (*base, *head)):
        raise ValueError("a cost must be a positive number")
    ratios = sorted(math.log(after / before) for before, after in zip(base, head, strict=True))
    pairs, rank = len(ratios), _rank(len(ratios))
    return Ratio(
        median=math.exp(statistics.median(ratios)),
        low=math.exp(ratios[rank - 1]) if rank else 0.0,
        high=math.exp(ratios[pairs - rank]) if rank else math.inf,
        pairs=pairs,
    )


@cache
def _rank(pairs: int) -> int:
    """Return the largest r for which fewer than r ratios lie below the median with a chance up to TAIL."""
    rank, chance = 0, 0.0
    while (chance := chance + math.comb(pairs, rank) / 2**pairs) <= TAIL:
        rank += 1
    return rank


def judge_ratio(ratio: Ratio) -> Verdict:
    """Return what the interval shows. A wide interval that lies beyond the margin as a whole shows enough."""
    if ratio.low > 1 + MARGIN:
        return Verdict.SLOWER
    if ratio.high < 1 - MARGIN:
        return Verdict.FASTER
    return Verdict.EQUAL if ratio.width <= MAX_WIDTH else Verdict.UNDECIDED


def needs_more_pairs(ratios: Iterable[Ratio], plan: SamplingPlan) -> bool:
    """Whether a group of figures is measured on: too few pairs, or an interval that is too wide."""
    for ratio in ratios:
        wanted = plan.pairs if ratio.width <= MAX_WIDTH else plan.max_pairs
        if ratio.pairs < wanted:
            return True
    return False


def estimate_pairs(ratios: Iterable[Ratio], plan: SamplingPlan) -> int:
    """Estimate how many pairs a group needs: an interval narrows with the square root of their number."""
    known = [ratio for ratio in ratios if math.isfinite(ratio.width)]
    wanted = max((ratio.pairs * (ratio.width / MAX_WIDTH) ** 2 for ratio in known), default=0.0)
    return math.ceil(min(max(wanted, plan.pairs), plan.max_pairs))
