"""What becomes of a failure: the one place in the project that compares attempts with budgets.

The rules, first match wins:

    1. a model's output that can still be repaired  -> RetryAt now, at no cost
    2. a class that the profile parks               -> Park as the profile says
    3. output beyond repair, or a person asked for  -> Park for review
    4. fatal                                        -> Abort: dead-letter, page, pause the stage
    5. not retryable                                -> DeadLetter, escalated where a policy's refusal is a surprise
    6. safe only to repeat where idempotent         -> DeadLetter, unless the stage is
    7. the budget of this cause is spent            -> DeadLetter; Abort where the class is fatal once spent
    8. the next try would start past the deadline   -> DeadLetter
    9. anything else                                -> RetryAt

`outcome_unknown` does not stop a retry: a timed-out call is retryable (CRIT-1.1). It is for those who send to people,
who look at the provider before they repeat.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.core.failure import TAXONOMY, ErrorClass, Severity
from reprieve.core.policy import Cause, Parking, ParkState
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from reprieve.core.failure import Failure
    from reprieve.core.policy import Policy, Profile


class Reason(StrEnum):
    """Which rule decided."""

    BACKOFF = "backoff"
    RETRY_AFTER = "retry_after"
    RESUME = "resume"
    REPAIR = "repair"
    PARKED_BY_PROFILE = "parked_by_profile"
    OUTPUT_INVALID = "output_invalid"
    NEEDS_REVIEW = "needs_review"
    FATAL = "fatal"
    FATAL_WHEN_SPENT = "fatal_when_spent"
    NON_RETRYABLE = "non_retryable"
    NOT_IDEMPOTENT = "not_idempotent"
    BUDGET_SPENT = "budget_spent"
    DEADLINE = "deadline"


FOR_GOOD: Final = frozenset({Reason.FATAL, Reason.NON_RETRYABLE, Reason.NOT_IDEMPOTENT})
"""Why something is given up that another attempt under the same policy would not have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What is known of the earlier attempts of this stage, or of this call."""

    attempts: int
    """Those that this cause ended since the budget was opened, the one that just failed included."""
    started: float
    """When the first of them began, on the clock that `now` is read from."""
    cause: Cause = Cause.HANDLER
    idempotent: bool = False
    """Whether its author declared that repeating it is safe."""
    repairable: bool = False
    """Whether the model can be asked to mend its output: so for a guarded answer that came to its end."""
    repaired: bool = False
    """Whether it has done so already; once is all there is (LLM-4.2)."""
    accepted_before: bool = False
    """Whether this very content has passed already, so that refusing it now is a surprise."""

    def __post_init__(self) -> None:
        """Refuse a history without the failure that is being decided on."""
        if self.attempts < 1:
            raise UsageError(f"attempts must count the one that just failed: at least 1, not {self.attempts!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAt:
    """Try again, not before `at`."""

    reason: Reason
    at: float
    delay: float
    attempt: int
    """The number that the next try has within its budget; a repair keeps the number of the one that failed."""
    budget: int
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Give this item up and keep it for triage."""

    reason: Reason
    attempts: int
    budget: int
    policy: str
    pages: bool
    escalates: bool = False
    """Whether a person should ask why: content was refused where nobody expected it (CRIT-1.8)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """Dead-letter this item and pause its stage: every other item would fail too."""

    reason: Reason
    attempts: int
    budget: int
    policy: str
    pages: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """Set this item aside: never sent again, or for a person to look at."""

    reason: Reason
    state: ParkState
    attempts: int
    policy: str
    pages: bool
    investigate: bool
    halts: bool
    """Whether what comes after it in its batch would fail the same way."""


Decision = RetryAt | DeadLetter | Park | Abort


def decide(failure: Failure, history: History, profile: Profile, *, now: float, draw: float) -> Decision:
    """Turn a failure into what is done about it; `draw` is a random number from 0 up to, not including, 1."""
    policy = profile.policy_for(failure)
    budget = profile.budget(policy, history.cause)
    return (
        _repair(failure, history, policy, budget, now)
        or _park(failure, history, profile, policy)
        or _end(failure, history, policy, budget, escalates=_is_surprise(failure, history, profile))
        or _try_again(failure, history, policy, budget, now, draw)
    )


def _repair(failure: Failure, history: History, policy: Policy, budget: int, now: float) -> RetryAt | None:
    wanted = failure.error_class == ErrorClass.OUTPUT_INVALID and history.repairable and not history.repaired
    if not wanted or _too_late(now, history, policy):
        return None
    return RetryAt(reason=Reason.REPAIR, at=now, delay=0.0, attempt=history.attempts, budget=budget, policy=policy.name)


def _park(failure: Failure, history: History, profile: Profile, policy: Policy) -> Park | None:
    parking = profile.parks.get(failure.error_class)
    reason = Reason.PARKED_BY_PROFILE
    if parking is None:
        match failure.error_class:
            case ErrorClass.OUTPUT_INVALID:
                reason = Reason.OUTPUT_INVALID
            case ErrorClass.NEEDS_REVIEW:
                reason = Reason.NEEDS_REVIEW
            case _:
                return None
        parking = Parking(ParkState.NEEDS_REVIEW)
    return Park(
        reason=reason,
        state=parking.state,
        attempts=history.attempts,
        policy=policy.name,
        pages=parking.alert,
        investigate=parking.investigate or _is_surprise(failure, history, profile),
        halts=failure.severity is Severity.FATAL,
    )


def _is_surprise(failure: Failure, history: History, profile: Profile) -> bool:
    if failure.error_class != ErrorClass.POLICY_REJECTED:
        return False
    return history.accepted_before or not profile.expects_denials


def _end(
    failure: Failure, history: History, policy: Policy, budget: int, *, escalates: bool
) -> DeadLetter | Abort | None:
    if failure.severity is Severity.FATAL:
        return _abort(Reason.FATAL, history, policy, budget)
    if not failure.retryable:
        ended = _dead_letter(Reason.NON_RETRYABLE, history, policy, budget, pages=failure.pages)
        return replace(ended, escalates=escalates)
    if failure.requires_idempotent and not history.idempotent:
        return _dead_letter(Reason.NOT_IDEMPOTENT, history, policy, budget, pages=failure.pages)
    if history.attempts < budget:
        return None
    kind = TAXONOMY.get(failure.error_class)
    if kind is not None and kind.fatal_when_spent:
        return _abort(Reason.FATAL_WHEN_SPENT, history, policy, budget)
    # What kills worker after worker hurts its neighbours too.
    poison = history.cause in {Cause.CRASH, Cause.OUT_OF_MEMORY}
    pages = failure.pages or policy.pages_when_spent or poison
    return _dead_letter(Reason.BUDGET_SPENT, history, policy, budget, pages=pages)


def _try_again(
    failure: Failure, history: History, policy: Policy, budget: int, now: float, draw: float
) -> RetryAt | DeadLetter:
    if history.cause is Cause.DEPLOY:
        reason, delay = Reason.RESUME, 0.0
    else:
        delay = policy.wait(failure, history.attempts, draw)
        asked = failure.retry_after is not None and failure.retry_after >= delay
        reason = Reason.RETRY_AFTER if asked else Reason.BACKOFF
    at = now + delay
    if _too_late(at, history, policy):
        pages = failure.pages or policy.pages_when_spent
        return _dead_letter(Reason.DEADLINE, history, policy, budget, pages=pages)
    attempt = history.attempts + 1
    return RetryAt(reason=reason, at=at, delay=delay, attempt=attempt, budget=budget, policy=policy.name)


def _too_late(at: float, history: History, policy: Policy) -> bool:
    return policy.deadline is not None and at > history.started + policy.deadline


def _dead_letter(reason: Reason, history: History, policy: Policy, budget: int, *, pages: bool) -> DeadLetter:
    return DeadLetter(reason=reason, attempts=history.attempts, budget=budget, policy=policy.name, pages=pages)


def _abort(reason: Reason, history: History, policy: Policy, budget: int) -> Abort:
    return Abort(reason=reason, attempts=history.attempts, budget=budget, policy=policy.name)
