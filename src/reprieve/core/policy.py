"""Budgets, policies and profiles: how often, how long between, and what becomes of which failure; all of it data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypedDict

from reprieve.core.alerts import DEFAULT_RULES, Rule
from reprieve.core.backoff import LONGEST, Backoff, Jitter, require_number, require_whole, shown
from reprieve.core.failure import Category, Failure, Severity
from reprieve.core.timeouts import OperationTimeout
from reprieve.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

MOST_ATTEMPTS: Final = 32_767
"""As many as a store counts in the narrow rows of its queue."""
DEFAULT_BACKOFF: Final = Backoff(maximum=60.0, jitter=Jitter.full())


class Judge(StrEnum):
    """Whose rules classify a failure."""

    CRITICIZER = "criticizer"
    INGESTION = "ingestion"


class Cause(StrEnum):
    """What ended an attempt; none of them eats the attempts of another."""

    HANDLER = "handler"
    CRASH = "crash"
    OUT_OF_MEMORY = "out_of_memory"
    """The system killed the worker: judged as WORKER_LOST, which is retryable. A MemoryError is the handler's own failure."""
    LOST_LEASE = "lost_lease"
    DEPLOY = "deploy"


DEFAULT_BUDGETS: Final[Mapping[Cause, int]] = {
    Cause.CRASH: 3,
    Cause.OUT_OF_MEMORY: 2,
    Cause.LOST_LEASE: 10,
    # A deployment is no fault of the job's; the bound only ends a worker that is restarted for ever.
    Cause.DEPLOY: 100,
}


class ParkState(StrEnum):
    """Where work waits that is neither tried again nor dead."""

    SKIPPED = "skipped"
    NEEDS_REVIEW = "needs_review"


@dataclass(frozen=True, slots=True)
class Parking:
    """What a profile does with an error class in place of a retry or a dead letter."""

    state: ParkState
    alert: bool = False
    investigate: bool = False
    """Logged for investigation (LLM-1.2)."""

    def __post_init__(self) -> None:
        """Refuse a state that is none."""
        if not isinstance(self.state, ParkState):
            raise UsageError(f"state must be one of {', '.join(ParkState)}, not {self.state!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How often a failure is tried again and how long each wait is."""

    name: str = ""
    """Filled in by the profile that holds it, as `orchestrator.transient`."""
    max_attempts: int = 5
    """The first one included."""
    backoff: Backoff = DEFAULT_BACKOFF
    backoff_by_category: Mapping[Category, Backoff] = field(default_factory=dict, hash=False)
    retry_after_ceiling: float = 300.0
    """Seconds; the most that an upstream's Retry-After can make of a wait (CRIT-2.2)."""
    retry_after_floor: float = 0.0
    """Seconds; the least, for upstreams that say 0 and mean later."""
    deadline: float | None = None
    """Seconds from the first attempt's start after which none begins."""
    pages_when_spent: bool = False

    def __post_init__(self) -> None:
        """Refuse what could not be followed."""
        require_whole("max_attempts", self.max_attempts, 1, MOST_ATTEMPTS)
        require_number("retry_after_ceiling", self.retry_after_ceiling, 0.0, LONGEST)
        require_number("retry_after_floor", self.retry_after_floor, 0.0, LONGEST)
        if self.retry_after_floor > self.retry_after_ceiling:
            raise UsageError(f"retry_after_floor must not exceed retry_after_ceiling ({self.retry_after_ceiling:g})")
        if self.deadline is not None:
            require_number("deadline", self.deadline, 0.0, LONGEST)
        if not isinstance(self.backoff, Backoff):
            raise UsageError(f"backoff must be a Backoff, not {self.backoff!r}")
        if not isinstance(self.pages_when_spent, bool):
            raise UsageError(f"pages_when_spent must be true or false, not {shown(self.pages_when_spent)}")
        own = {_category(key): backoff for key, backoff in self.backoff_by_category.items()}
        object.__setattr__(self, "backoff_by_category", own)

    def wait(self, failure: Failure, attempt: int, draw: float) -> float:
        """Seconds to the next try after this many failures, the upstream's Retry-After included."""
        backoff = self.backoff_by_category.get(failure.category, self.backoff)
        delay = backoff.delay(attempt, draw)
        if failure.retry_after is None:
            return delay
        return min(max(delay, failure.retry_after, self.retry_after_floor), self.retry_after_ceiling)


class PolicyValues(TypedDict, total=False):
    """What `Profile.override` can change."""

    max_attempts: int
    backoff: Backoff
    backoff_by_category: Mapping[Category, Backoff]
    retry_after_ceiling: float
    retry_after_floor: float
    deadline: float | None
    pages_when_spent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Everything that a pipeline, a stage or a call lives by: who judges, which policy, what is parked."""

    name: str
    judge: Judge = Judge.CRITICIZER
    policy: Policy = Policy()
    """For what no named policy claims."""
    policies: Mapping[str, Policy] = field(default_factory=dict, hash=False)
    """By their short names: `transient` of `orchestrator.transient`."""
    by_severity: Mapping[Severity, str] = field(default_factory=dict, hash=False)
    """Which named policy a retryable failure of that severity follows."""
    parks: Mapping[str, Parking] = field(default_factory=dict, hash=False)
    """By error class."""
    expects_denials: bool = False
    """Whether deny policies are configured; a refusal of content where none is, is escalated (CRIT-1.8)."""
    budgets: Mapping[Cause, int] = field(default_factory=lambda: dict(DEFAULT_BUDGETS), hash=False)
    """Attempts for the causes that are not the handler's own doing."""
    alerts: Mapping[str, Rule] = field(default_factory=lambda: dict(DEFAULT_RULES), hash=False)
    """Who has to hear of what, by the names of the rules."""
    timeouts: Mapping[str, OperationTimeout] = field(default_factory=dict, hash=False)
    """By the names of the operations."""

    def __post_init__(self) -> None:
        """Refuse names that lead nowhere, and give the policies theirs."""
        if not self.name:
            raise UsageError("name must not be empty")
        if not isinstance(self.judge, Judge):
            raise UsageError(f"judge must be one of {', '.join(Judge)}, not {self.judge!r}")
        if not isinstance(self.expects_denials, bool):
            raise UsageError(f"expects_denials must be true or false, not {shown(self.expects_denials)}")
        for severity, short in self.by_severity.items():
            if short not in self.policies:
                raise UnknownNameError(f"policy for severity {severity}", short, tuple(self.policies))
        for cause, budget in self.budgets.items():
            if cause not in DEFAULT_BUDGETS:
                raise UsageError(f"budgets are for {', '.join(DEFAULT_BUDGETS)}, not {cause!r}")
            require_whole(f"budgets.{cause}", budget, 1, MOST_ATTEMPTS)
        for operation, timeout in self.timeouts.items():
            if not isinstance(timeout, OperationTimeout):
                raise UsageError(f"timeouts.{operation} must be an OperationTimeout, not {shown(timeout)}")
        named = {short: _named(policy, f"{self.name}.{short}") for short, policy in self.policies.items()}
        timeouts = {operation: timeout.named(operation) for operation, timeout in self.timeouts.items()}
        object.__setattr__(self, "policy", _named(self.policy, self.name))
        object.__setattr__(self, "policies", named)
        object.__setattr__(self, "by_severity", dict(self.by_severity))
        object.__setattr__(self, "parks", dict(self.parks))
        object.__setattr__(self, "budgets", {**DEFAULT_BUDGETS, **self.budgets})
        object.__setattr__(self, "timeouts", timeouts)

    @classmethod
    def of(cls, policy: Policy) -> Profile:
        """Wrap a policy that stands alone; failures are judged as without a profile."""
        return cls(name=policy.name or "policy", policy=policy)

    def policy_for(self, failure: Failure) -> Policy:
        """The policy that a failure follows."""
        short = self.by_severity.get(failure.severity)
        return self.policy if short is None else self.policies[short]

    def budget(self, policy: Policy, cause: Cause) -> int:
        """How many attempts there are for a cause."""
        return policy.max_attempts if cause is Cause.HANDLER else self.budgets[cause]

    def timeout(self, operation: str) -> OperationTimeout:
        """The timeout of an operation; raises UnknownNameError for one that this profile does not have."""
        found = self.timeouts.get(operation)
        if found is not None:
            return found
        if self.timeouts:
            known = tuple(sorted(self.timeouts))
            raise UnknownNameError(f"operation with a timeout in {self.name}", operation, known)
        raise UsageError(
            f"the profile {self.name!r} has no timeouts: name a profile that has, such as orchestrator, or give it"
            f" [{self.name.partition('.')[0]}.timeouts.{operation}] with `seconds` and `action`"
        )

    def only(self, short: str) -> Profile:
        """The same profile with one of its named policies for everything."""
        if short not in self.policies:
            raise UnknownNameError(f"policy of {self.name}", short, tuple(self.policies))
        policy = self.policies[short]
        return replace(self, name=policy.name, policy=policy, policies={}, by_severity={})

    def renamed(self, name: str) -> Profile:
        """The same under another name, which its policies take too."""
        bare = {short: replace(policy, name="") for short, policy in self.policies.items()}
        return replace(self, name=name, policy=replace(self.policy, name=""), policies=bare)

    def override(
        self,
        policy: str | None = None,
        /,
        *,
        timeouts: Mapping[str, float | OperationTimeout] | None = None,
        **values: Unpack[PolicyValues],
    ) -> Profile:
        """Change values of one named policy, or of all that the profile has, and timeouts (ORC-2.3).

        A number replaces the seconds of a timeout and keeps its action.
        """
        base = self if timeouts is None else replace(self, timeouts=self._changed_timeouts(timeouts))
        if policy is not None:
            if policy not in self.policies:
                raise UnknownNameError(f"policy of {self.name}", policy, tuple(self.policies))
            changed = {**self.policies, policy: replace(self.policies[policy], **values)}
            return replace(base, policies=changed)
        changed = {short: replace(each, **values) for short, each in self.policies.items()}
        return replace(base, policy=replace(self.policy, **values), policies=changed)

    def _changed_timeouts(self, changes: Mapping[str, float | OperationTimeout]) -> dict[str, OperationTimeout]:
        changed = dict(self.timeouts)
        for operation, value in changes.items():
            if isinstance(value, OperationTimeout):
                changed[operation] = value
            else:
                changed[operation] = replace(self.timeout(operation), seconds=value)
        return changed


def _named(policy: Policy, name: str) -> Policy:
    return policy if policy.name else replace(policy, name=name)


def _category(key: str) -> Category:
    try:
        return Category(key)
    except ValueError:
        raise UsageError(f"backoff_by_category is for {', '.join(Category)}, not {key!r}") from None
