"""What is known of a signature, and what became of a batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from reprieve.core.analysis import AnalysisStatus
from reprieve.ports.modelling import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyzed(Generic[T]):
    """What is known of one signature; sanitized but for the signature and the value."""

    signature: str
    status: AnalysisStatus
    value: T | None = None
    """With `analyzed`."""
    is_human_verified: bool = False
    cached: bool = False
    """Whether it was known before: the model was not asked for this caller."""
    model: str | None = None
    error_type: str | None = None
    error_reason: str | None = None
    failure_count: int = 0
    retry_after: float | None = None
    """Seconds since the epoch before which it is not asked again; None where nothing is put off."""
    usage: Usage = field(default_factory=Usage)
    """What asking about it has taken for this caller, as far as the provider said; nothing where it was known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Generic[T]):
    """What became of a batch; what is left out was never asked, since the batch was stopped."""

    total: int
    results: Mapping[str, Analyzed[T]] = field(default_factory=dict)
    stopped: str | None = None
    """Why no more were asked: the provider would have refused them all; None where all were."""

    def count(self, status: AnalysisStatus) -> int:
        """How many are so now; what was never asked is active."""
        counts = Counter(result.status for result in self.results.values())
        left = self.total - len(self.results) if status is AnalysisStatus.ACTIVE else 0
        return counts[status] + left

    @property
    def cached(self) -> int:
        """How many were known before."""
        return sum(result.cached for result in self.results.values())

    @property
    def usage(self) -> Usage:
        """What all of it has taken."""
        return sum((result.usage for result in self.results.values()), Usage())


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a batch is."""

    done: int
    total: int
    cached: int
    analyzed: int
    skipped: int
    needs_review: int
