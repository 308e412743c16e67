"""How much a worker does at once, and how long it may be silent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from reprieve.core.backoff import LONGEST, require_number, require_whole

_MOST_JOBS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What `app.work` takes."""

    concurrency: int = 100
    """Jobs that run at the same time; plain functions get as many threads."""
    lease: float = 30.0
    """Seconds without a sign of life after which others take over a worker's jobs."""
    grace: float = 30.0
    """Seconds that running stages get to end when the worker is told to stop."""
    poll: float = 1.0
    """The most seconds between two looks at an empty queue; a worker is woken sooner where that is possible."""

    def __post_init__(self) -> None:
        """Refuse what could not be followed."""
        require_whole("concurrency", self.concurrency, 1, _MOST_JOBS)
        require_number("lease", self.lease, 0.5, LONGEST)
        require_number("grace", self.grace, 0.0, LONGEST)
        require_number("poll", self.poll, 0.01, LONGEST)

    @property
    def tick(self) -> float:
        """Seconds between two signs of life."""
        return min(1.0, self.lease / 4)
