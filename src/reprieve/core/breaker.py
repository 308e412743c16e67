"""When a stage's upstream counts as down, how long to leave it alone, and what a probe that fails costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.core.backoff import LONGEST, require_number, require_whole
from reprieve.core.failure import Category, ErrorClass, Severity
from reprieve.core.policy import MOST_ATTEMPTS
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from reprieve.core.failure import Failure

MOST_JOBS: Final = 100
"""How many different jobs a run remembers at most."""

SHORTEST_HOLD: Final = 0.01
"""Seconds; without a wait between them, probes would be a load of their own."""

_SHARE_OF_THE_OUTAGE: Final = 0.5

_SEVERITIES: Final = frozenset({Severity.TRANSIENT, Severity.UPSTREAM})
_CATEGORIES: Final = frozenset({Category.NETWORK, Category.RATE_LIMIT, Category.UPSTREAM})


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Opens after a run of failures; then claims are held, and one probe at a time is let through, at no cost."""

    after: int = 5
    """Retryable failures in a row of one error class, none succeeding between."""
    jobs: int = 3
    """The least number of different jobs among them: one bad job is no outage."""
    first_hold: float = 2.0
    """Seconds before the first probe."""
    longest_hold: float = 30.0
    """The most seconds between two probes, so also how late the end of an outage can be noticed."""
    patience: float = 21_600.0
    """Seconds for which failed probes cost no attempt; after that they count again, so that every job comes to an end."""

    def __post_init__(self) -> None:
        """Refuse what could not be followed."""
        require_whole("after", self.after, 1, MOST_ATTEMPTS)
        require_whole("jobs", self.jobs, 1, MOST_JOBS)
        require_number("first_hold", self.first_hold, SHORTEST_HOLD, LONGEST)
        require_number("longest_hold", self.longest_hold, SHORTEST_HOLD, LONGEST)
        require_number("patience", self.patience, 0.0, LONGEST)
        if self.first_hold > self.longest_hold:
            raise UsageError(f"first_hold must not exceed longest_hold ({self.longest_hold:g})")


@dataclass(frozen=True, slots=True)
class Run:
    """Failures of one error class that came one after another in a stage."""

    error_class: str = ""
    count: int = 0
    jobs: frozenset[int] = frozenset()
    """Which jobs they were of; no more are kept than any breaker asks for."""

    def failed(self, error_class: str, job_id: int) -> Run:
        """One failure more; another class starts anew."""
        if error_class != self.error_class:
            return Run(error_class, 1, frozenset({job_id}))
        known = job_id in self.jobs or len(self.jobs) == MOST_JOBS
        return Run(error_class, self.count + 1, self.jobs if known else self.jobs | {job_id})

    def succeeded(self) -> Run:
        """None any more: the upstream answers."""
        return Run()

    def trips(self, breaker: Breaker) -> bool:
        """Whether it is long enough, and of enough jobs, to be an outage."""
        return self.count >= breaker.after and len(self.jobs) >= breaker.jobs


def concerns(failure: Failure) -> bool:
    """Whether a failure says something about the upstream: network, rate_limit and upstream do, waits for locks apart.

    Conflicts and locks are between jobs, a lost worker is our own, and what nobody recognises may be the stage's bug.
    """
    return (
        failure.retryable
        and failure.severity in _SEVERITIES
        and failure.category in _CATEGORIES
        and failure.error_class != ErrorClass.LOCK_TIMEOUT
    )


def hold(breaker: Breaker, opened_at: float, now: float) -> float:
    """Seconds until the next probe: the longer the outage already is, the more, so that nobody needs to count."""
    elapsed = _SHARE_OF_THE_OUTAGE * (now - opened_at)
    return min(max(elapsed, breaker.first_hold), breaker.longest_hold)


def free(breaker: Breaker, opened_at: float, now: float) -> bool:
    """Whether a probe that fails still costs its job no attempt."""
    return now - opened_at < breaker.patience
