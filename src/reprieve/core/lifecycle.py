"""The states of a job and the ways between them, as one table; an undefined transition raises and changes nothing."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.errors import IllegalTransitionError

if TYPE_CHECKING:
    from collections.abc import Mapping


class JobStatus(StrEnum):
    """What a job is, to everybody who asks."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    RETRYABLE_FAILED = "retryable_failed"
    NEEDS_REVIEW = "needs_review"
    SUCCEEDED = "succeeded"
    DEAD_LETTER = "dead_letter"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether the job has ended; a dead letter may be replayed, which opens it again."""
        return self in OVER


OVER: Final = frozenset({JobStatus.SUCCEEDED, JobStatus.DEAD_LETTER, JobStatus.SKIPPED, JobStatus.CANCELLED})
DEAD_LETTER_STATUS: Final = 599
"""The status code of what is in the dead-letter queue (ING-3.3)."""


class JobEvent(StrEnum):
    """What can happen to a job."""

    CLAIM = "claim"
    CHECKPOINT = "checkpoint"
    FINISH = "finish"
    RETRY = "retry"
    BURY = "bury"
    SKIP = "skip"
    ASK = "ask"
    """Hand it to a person."""
    RELEASE = "release"
    """The lease was given back at no cost."""
    CANCEL = "cancel"
    ANSWER = "answer"
    """A person has answered: it goes on."""
    REPLAY = "replay"


def _table() -> dict[tuple[JobStatus, JobEvent], JobStatus]:
    pending, running, failed = JobStatus.PENDING, JobStatus.IN_PROGRESS, JobStatus.RETRYABLE_FAILED
    review, dead = JobStatus.NEEDS_REVIEW, JobStatus.DEAD_LETTER
    table = {
        (pending, JobEvent.CLAIM): running,
        (running, JobEvent.CLAIM): running,
        (failed, JobEvent.CLAIM): running,
        (running, JobEvent.CHECKPOINT): running,
        (running, JobEvent.FINISH): JobStatus.SUCCEEDED,
        (running, JobEvent.RETRY): failed,
        (running, JobEvent.BURY): dead,
        (running, JobEvent.SKIP): JobStatus.SKIPPED,
        (running, JobEvent.ASK): review,
        (running, JobEvent.RELEASE): running,
        (review, JobEvent.ANSWER): running,
        (dead, JobEvent.REPLAY): running,
    }
    table |= {(status, JobEvent.CANCEL): JobStatus.CANCELLED for status in (pending, running, failed, review)}
    # Callers who run their own loop report what became of a job that nobody has claimed.
    for status in (pending, failed):
        table |= {
            (status, JobEvent.FINISH): JobStatus.SUCCEEDED,
            (status, JobEvent.RETRY): failed,
            (status, JobEvent.BURY): dead,
            (status, JobEvent.SKIP): JobStatus.SKIPPED,
            (status, JobEvent.ASK): review,
        }
    return table


TRANSITIONS: Final[Mapping[tuple[JobStatus, JobEvent], JobStatus]] = _table()


def after(status: JobStatus, event: JobEvent) -> JobStatus:
    """What a job is after an event."""
    try:
        return TRANSITIONS[status, event]
    except KeyError:
        raise IllegalTransitionError("job", status, event) from None
