"""What people say about what waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprieve.core.value import value

if TYPE_CHECKING:
    from reprieve.core.analysis import ReviewEvent, ReviewState


@value
class Continuation:
    """How a job goes on with a person's answer as the result of its stage."""

    stage: str
    next_stage: str | None
    """None: it was the last one, and the job has succeeded."""
    result_type: str


@value
class Rule:
    """Have this happen to a review, as its state allows, and to what it is about, in one transaction."""

    review_id: int
    event: ReviewEvent
    actor: str
    note: str
    now: float
    take_over: bool = False
    """Though somebody else has claimed it."""
    answer: bytes | None = None
    """With VERIFY: as given."""
    continuation: Continuation | None = None
    """With VERIFY, of a job."""


@value
class Ruled:
    """What became of it."""

    state: ReviewState | None
    """As it is now; None: there is no such review."""
    why: str = ""
    """Why nothing was done; empty where it was."""
