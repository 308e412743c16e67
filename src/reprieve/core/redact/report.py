"""What was taken out, by rule, and never what it was."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class RedactionReport:
    """Counts by rule; holds no value that was taken out."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, counts: Iterable[tuple[str, int]]) -> None:
        """Add what one scan found."""
        for rule, count in counts:
            self._counts[rule] += count

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """Rules and how often each acted, by name."""
        return tuple(sorted(self._counts.items()))

    @property
    def total(self) -> int:
        """How often any rule acted."""
        return sum(self._counts.values())

    def to_json(self) -> str:
        """One JSON object: rule to count."""
        return json.dumps(dict(self.counts), separators=(",", ":"))

    def __repr__(self) -> str:
        return f"RedactionReport({dict(self.counts)!r})"
