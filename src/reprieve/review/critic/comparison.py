"""Separates the problems that a change made from those that the old version had already."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence


_Problem = TypeVar("_Problem")


def only_new(
    found: Sequence[_Problem],
    *,
    key: Callable[[_Problem], Hashable],
    is_touched: Callable[[_Problem], bool],
    before: Iterable[Hashable],
) -> list[_Problem]:
    """Return the touched problems that have no equal problem in the old version.

    Problems are equal where their keys are equal, which leaves out line numbers: moved code is not new. Every
    old problem covers one new problem, first those on lines that the change did not touch.
    """
    covered = Counter(before)
    for problem in found:
        if not is_touched(problem):
            covered[key(problem)] -= 1
    new: list[_Problem] = []
    for problem in filter(is_touched, found):
        if covered[key(problem)] > 0:
            covered[key(problem)] -= 1
        else:
            new.append(problem)
    return new
