"""Separates the problems that a change made from those that the old version had already."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence


_Kind = TypeVar("_Kind", bound="Hashable")
_Problem = TypeVar("_Problem")


def only_new(
    found: Sequence[_Problem],
    *,
    key: Callable[[_Problem], Hashable],
    is_touched: Callable[[_Problem], bool],
    before: Iterable[Hashable],
    kind: Callable[[Any], Hashable] = lambda key: key[0],
) -> list[_Problem]:
    """Return the touched problems that have no equal problem in the old version.

    A formatter changes the lines of old problems. So no more problems of a kind, which is a part of the key, are new than
    the new version has beyond the old one.

    Problems are equal where their keys are equal, which leaves out line numbers: moved code is not new. Every
    old problem covers one new problem, first those on lines that the change did not touch.
    """
    old = list(before)
    covered = Counter(old)
    surplus = Counter(kind(key(problem)) for problem in found)
    surplus.subtract(kind(each) for each in old)
    for problem in found:
        if not is_touched(problem):
            covered[key(problem)] -= 1
    new: list[_Problem] = []
    for problem in filter(is_touched, found):
        if covered[key(problem)] > 0:
            covered[key(problem)] -= 1
        elif surplus[kind(key(problem))] > 0:
            surplus[kind(key(problem))] -= 1
            new.append(problem)
    return new


def practised(
    found: Iterable[_Problem], *, kind: Callable[[_Problem], _Kind], is_touched: Callable[[_Problem], bool]
) -> frozenset[_Kind]:
    """Return the kinds of problems that lines which the change leaves alone have too: the file does this by habit."""
    return frozenset(kind(each) for each in found if not is_touched(each))
