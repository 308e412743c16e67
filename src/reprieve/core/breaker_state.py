"""A circuit breaker as a value: every event gives the next state, and nothing else changes it.

                      5 failures of one class, 3 jobs
    CLOSED  ------------------------------------------------>  OPEN
       ^                                                     |      ^
       |  all calls of the last step succeeded     a success |      | a failure of an admitted call
       |                                                     v      |
       +-----------------------------------------------  HALF_OPEN -+

CLOSED admits every call and counts failures of one class in a row. OPEN admits one probe at a time in the whole fleet.
It is due `max(clamp(outage / 2, 2 s, 300 s), Retry-After)` after the last one, so that an outage of any length costs
few calls. HALF_OPEN admits 1, 2, 4, ... calls; each step begins when all calls of the one before have succeeded. A
failure there opens the breaker again with the outage's original start.

No call is free: the caller charges every call to its job. The state is held by the caller, in one place for the whole
fleet. `now` is the clock of that place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.core.backoff import LONGEST, require_number, require_whole
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_THRESHOLD: Final = 10_000
MAX_JOBS: Final = 100
"""How many different jobs a streak remembers at most."""
_OUTAGE_SHARE: Final = 0.5


class BreakerStatus(StrEnum):
    """Whether calls are let through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerLimits:
    """When a breaker opens, how long it waits between probes, and how it closes."""

    failure_threshold: int = 5
    """Failures of one class in a row, none succeeding between."""
    min_jobs: int = 3
    """The least number of different jobs among them: one bad job is no outage."""
    open_seconds: float = 2.0
    """The shortest wait before a probe."""
    max_open_seconds: float = 300.0
    """The longest wait before a probe, unless the upstream asks for more."""
    admission_seconds: float = 60.0
    """How long an admitted call is waited for without a word from its caller, which renews it while the call runs."""
    full_calls: int = 64
    """The breaker closes after a step of at least so many calls."""

    def __post_init__(self) -> None:
        """Refuse what could not be followed."""
        require_whole("failure_threshold", self.failure_threshold, 1, MAX_THRESHOLD)
        require_whole("min_jobs", self.min_jobs, 1, MAX_JOBS)
        require_number("open_seconds", self.open_seconds, 0.01, LONGEST)
        require_number("max_open_seconds", self.max_open_seconds, 0.01, LONGEST)
        require_number("admission_seconds", self.admission_seconds, 0.01, LONGEST)
        require_whole("full_calls", self.full_calls, 1, MAX_THRESHOLD)
        if self.open_seconds > self.max_open_seconds:
            raise UsageError(f"open_seconds must not exceed max_open_seconds ({self.max_open_seconds:g})")


DEFAULT_BREAKER_LIMITS: Final = BreakerLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerState:
    """Where a breaker stands. The default is the state of one that has seen no failure."""

    status: BreakerStatus = BreakerStatus.CLOSED
    error_class: str = ""
    failures: int = 0
    jobs: tuple[str, ...] = ()
    """Which jobs failed in this streak; no more are kept than `min_jobs`."""
    since: float = 0.0
    """When the first failure of the streak came: the start of the outage."""
    probe_at: float = 0.0
    """OPEN: no call before."""
    admitted_until: float = 0.0
    """Until when admitted calls are waited for."""
    step: int = 0
    """HALF_OPEN: how many calls this step admits. OPEN: 1 while a probe is out."""
    admitted: int = 0
    succeeded: int = 0

    def seconds_until_call(self, now: float) -> float:
        """Return how long no call is admitted; 0 if one may be."""
        match self.status:
            case BreakerStatus.CLOSED:
                return 0.0
            case BreakerStatus.OPEN:
                return max(0.0, self.probe_at - now, self.admitted_until - now if self.admitted else 0.0)
            case BreakerStatus.HALF_OPEN:
                return max(0.0, self.admitted_until - now) if self.admitted >= self.step else 0.0


CLOSED: Final = BreakerState()


def admit_calls(state: BreakerState, limits: BreakerLimits, *, now: float, wanted: int) -> tuple[BreakerState, int]:
    """Return the state after calls were let through, and how many of the wanted ones may go."""
    if state.status is BreakerStatus.CLOSED or wanted < 1:
        return state, max(0, wanted)
    if state.seconds_until_call(now) > 0.0:
        return state, 0
    until = now + limits.admission_seconds
    if state.status is BreakerStatus.OPEN:
        return replace(state, admitted=1, admitted_until=until), 1
    # Calls whose caller is gone are let through again.
    admitted = state.succeeded if now >= state.admitted_until else state.admitted
    count = min(wanted, state.step - admitted)
    return replace(state, admitted=admitted + count, admitted_until=until), count


def renew_admission(state: BreakerState, limits: BreakerLimits, *, now: float) -> BreakerState:
    """Return the state after a caller said that its admitted calls still run."""
    if state.status is BreakerStatus.CLOSED or not state.admitted:
        return state
    return replace(state, admitted_until=now + limits.admission_seconds)


def release_calls(state: BreakerState, *, now: float, count: int) -> BreakerState:
    """Return the state after admitted calls ended without saying anything about the upstream, or were not made."""
    match state.status:
        case BreakerStatus.CLOSED:
            return state
        case BreakerStatus.OPEN:
            return replace(state, admitted=0, probe_at=min(state.probe_at, now))
        case BreakerStatus.HALF_OPEN:
            return replace(state, admitted=max(state.succeeded, state.admitted - count))


def record_success(state: BreakerState, limits: BreakerLimits, *, now: float, admitted: bool = False) -> BreakerState:
    """Return the state after a call that the upstream answered."""
    match state.status:
        case BreakerStatus.CLOSED:
            return CLOSED
        case BreakerStatus.OPEN:
            until = now + limits.admission_seconds
            return replace(state, status=BreakerStatus.HALF_OPEN, step=1, admitted=0, succeeded=0, admitted_until=until)
        case BreakerStatus.HALF_OPEN:
            if not admitted:  # it began before the breaker opened
                return state
            succeeded = state.succeeded + 1
            if succeeded < state.step:
                return replace(state, succeeded=succeeded)
            if state.step >= limits.full_calls:
                return CLOSED
            return replace(state, step=2 * state.step, admitted=0, succeeded=0)


def record_failure(
    state: BreakerState,
    limits: BreakerLimits,
    *,
    now: float,
    error_class: str,
    job: str,
    retry_after: float | None = None,
    admitted: bool = False,
) -> BreakerState:
    """Return the state after a failure that says something about the upstream.

    `retry_after` is in seconds, and already capped by the policy.
    """
    asked = retry_after or 0.0
    if state.status is BreakerStatus.CLOSED:
        return _with_failure(state, limits, now=now, error_class=error_class, job=job, asked=asked)
    if not admitted:  # it began before the breaker opened: charged, but no probe
        return replace(state, probe_at=max(state.probe_at, now + asked))
    return _opened(state, limits, now=now, asked=asked)


def _with_failure(
    state: BreakerState, limits: BreakerLimits, *, now: float, error_class: str, job: str, asked: float
) -> BreakerState:
    if error_class != state.error_class:
        state = BreakerState(error_class=error_class, since=now)
    known = job in state.jobs or len(state.jobs) >= limits.min_jobs
    jobs = state.jobs if known else (*state.jobs, job)
    state = replace(state, failures=state.failures + 1, jobs=jobs)
    if state.failures >= limits.failure_threshold and len(jobs) >= limits.min_jobs:
        return _opened(state, limits, now=now, asked=asked)
    return state


def _opened(state: BreakerState, limits: BreakerLimits, *, now: float, asked: float) -> BreakerState:
    grown = _OUTAGE_SHARE * (now - state.since)
    wait = max(min(max(grown, limits.open_seconds), limits.max_open_seconds), asked)
    return replace(
        state, status=BreakerStatus.OPEN, probe_at=now + wait, step=0, admitted=0, succeeded=0, admitted_until=0.0
    )


def breaker_values(state: BreakerState) -> dict[str, Any]:
    """Return the state as plain values for JSON; `read_breaker_state` gives an equal one."""
    return {name: getattr(state, name) for name in BreakerState.__slots__} | {"jobs": list(state.jobs)}


def read_breaker_state(values: Mapping[str, Any]) -> BreakerState:
    """Return the state that `breaker_values` was given; unknown values of another version are left out."""
    known = {name: values[name] for name in BreakerState.__slots__ if name in values}
    try:
        status = BreakerStatus(known.pop("status", "closed"))
        return BreakerState(**{**known, "status": status, "jobs": tuple(known.get("jobs", ()))})
    except (TypeError, ValueError) as error:
        raise UsageError(f"this is no state of a breaker: {type(error).__name__}") from None
