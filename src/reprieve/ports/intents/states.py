"""Where a job stands in the queue, what became of an intent, and how often a stage was tried."""

from __future__ import annotations

from dataclasses import asdict
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.core.value import value

if TYPE_CHECKING:
    from reprieve.core.policy import Cause

CODEC_JSON: Final = 1
"""How stored bytes are to be read; another number will mean encrypted."""


class QueueState(IntEnum):
    """Where a job that is not over stands in the queue."""

    READY = 0
    LEASED = 1
    SCHEDULED = 2
    """Not before its `run_at`."""
    WAITING = 3
    """For a person or a deployment; says on what."""
    SUSPECT = 4
    """Ready, but was there when a worker died (its crash or out_of_memory counter is not 0): to be run alone."""


class Written(StrEnum):
    """What became of an intent about a job."""

    APPLIED = "applied"
    STALE = "stale"
    """Nothing was changed: the fence is not the job's."""
    ESCALATED = "escalated"
    """Applied: the job was buried again with the same class, which is not retryable, and is now for engineering."""
    ALERTED = "alerted"
    """Applied: with it an alert was opened that was not open before."""
    CANCELLED = "cancelled"
    """A checkpoint was written, and somebody asked to cancel the job: it must not go on."""


@value
class Counters:
    """Attempts of the job's current stage by what ended them, since its budget was opened."""

    handler: int = 0
    crash: int = 0
    out_of_memory: int = 0
    lost_lease: int = 0
    deploy: int = 0

    def of(self, cause: Cause) -> int:
        """How many attempts this cause has ended."""
        count: int = getattr(self, cause.value)
        return count

    def plus(self, cause: Cause) -> Counters:
        """One more for this cause."""
        return Counters(**{**asdict(self), cause.value: self.of(cause) + 1})
