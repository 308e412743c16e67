"""What can be looked up about reviews and signatures, and their upkeep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.core.analysis import AnalysisStatus, ReviewState


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewView:
    """A review as a list shows it; sanitized but for the signature."""

    review_id: int
    url_signature: str | None
    job_id: int | None
    pipeline: str | None
    stage: str | None
    question: str | None
    state: ReviewState
    claimed_by: str | None
    claimed_at: float | None
    error_type: str
    reason: str
    opened_at: float
    closed_at: float | None
    closed_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewEntry:
    """One entry of the history; the answer is as given."""

    at: float
    actor: str
    event: str
    before: str | None
    after: str | None
    note: str
    answer: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDetail:
    """A review with all that a reviewer needs, as given."""

    review: ReviewView
    schema: bytes | None
    samples: bytes | None
    answers: bytes | None
    answer: bytes | None
    history: Sequence[ReviewEntry]
    is_pruned: bool = False
    """What it was decided by is gone, so nobody can decide it again."""
    can_be_undone: bool = False
    """It is verified or rejected, and nobody has gone on with that: no worker, no reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFilter:
    """Which reviews; the oldest first, as a queue has them."""

    states: frozenset[ReviewState] = frozenset()
    """Empty: those that wait."""
    pipeline: str | None = None
    url_signature: str | None = None
    job_id: int | None = None
    claimed_by: str | None = None
    after: int | None = None
    """Newer than this id: the cursor."""
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureView:
    """What is known of a signature, without its answer; sanitized but for the signature."""

    url_signature: str
    question: str
    status: AnalysisStatus
    is_human_verified: bool
    model: str | None
    error_type: str | None
    error_reason: str | None
    failure_count: int
    last_error_at: float | None
    retry_after: float | None
    changed_at: float
    input_tokens: int | None
    """What all that was asked about it has taken so far, as far as the provider said."""
    output_tokens: int | None
    cost: float | None
    """In US dollars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureDetail:
    """All that is known of a signature; its answer and those of the history are as given."""

    signature: SignatureView
    answer: bytes | None
    history: Sequence[ReviewEntry]


class ReviewReader(Protocol):
    """Everything that is looked up about reviews and signatures; blocking, for threads."""

    def close(self) -> None:
        """Let go of the database."""
        ...

    def reviews(self, wanted: ReviewFilter) -> Sequence[ReviewView]:
        """The oldest first; of those that wait, only what still does."""
        ...

    def review(self, review_id: int) -> ReviewDetail | None:
        """One, or None; withdrawn also where what it is about does not wait any more, and nobody has written that down yet."""
        ...

    def signatures(
        self, status: AnalysisStatus | None, *, limit: int, after: str | None, error_type: str | None = None
    ) -> Sequence[SignatureView]:
        """What is known of signatures, in their order; page on with `after`."""
        ...

    def signature(self, url_signature: str) -> SignatureDetail | None:
        """One, or None."""
        ...

    def history(self, url_signature: str) -> Sequence[ReviewEntry]:
        """All that people did about a signature, in order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewsPruned:
    """What a pruning took samples and answers out of, or would."""

    reviews: int
    more: bool = False
    after: int = 0
    """Where to go on: the id of the last one that was looked at."""


class ReviewKeeper(Protocol):
    """Upkeep of what is known of signatures; blocking, in small transactions."""

    def prune_reviews(self, *, before: float, limit: int, dry: bool, after: int = 0) -> ReviewsPruned:
        """Of the next `limit` reviews, take samples, schema and the model's answers out of those of signatures that were closed before."""
        ...

    def erase_signatures(self, signatures: Sequence[str], *, now: float) -> Sequence[str]:
        """Remove all that is known of these, or nothing; those of which something was. `RefusedError` while one is being asked about."""
        ...
