"""Named timeouts: how long an operation may take, and what follows when it takes longer, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from reprieve.core.backoff import LONGEST, require_number, shown
from reprieve.errors import OperationTimeoutError, UsageError, did_you_mean


class TimeoutAction(StrEnum):
    """What follows when an operation takes longer than its timeout."""

    RETRY = "retry"
    """The failure is transient: the operation is tried again."""
    FAIL = "fail"
    """The failure is permanent."""
    CANCEL = "cancel"
    """The work is cancelled where it runs, and the failure is permanent."""
    KILL = "kill"
    """The process that does the work is killed, and the failure is permanent."""


ENDS_WORK: Final = frozenset({TimeoutAction.CANCEL, TimeoutAction.KILL})
"""The actions that end work which goes on outside of the waiting task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTimeout:
    """The timeout of one operation."""

    name: str = ""
    """Of the operation, filled in by the profile that holds it, as `redis_command`."""
    seconds: float
    action: TimeoutAction
    retry: bool = False
    """After `cancel` or `kill`: whether the work can be repeated, so that the failure is transient."""

    def __post_init__(self) -> None:
        """Refuse values that cannot be followed."""
        require_number("seconds", self.seconds, 0.0, LONGEST)
        if not self.seconds:
            raise UsageError("seconds must be more than 0")
        object.__setattr__(self, "seconds", float(self.seconds))
        object.__setattr__(self, "action", _action(self.action))
        if not isinstance(self.retry, bool):
            raise UsageError(f"retry must be true or false, not {shown(self.retry)}")
        if self.retry and self.action not in ENDS_WORK:
            actions = ", ".join(sorted(ENDS_WORK))
            raise UsageError(f"retry is for the actions {actions}; {self.action} says it already")

    @property
    def retryable(self) -> bool:
        """Whether the operation may be tried again after its timeout."""
        return self.retry or self.action is TimeoutAction.RETRY

    @property
    def unstopped(self) -> str:
        """What an expiry says where nothing ended the work; empty for actions that end nothing."""
        return "nothing was given that ends the work, so it may go on" if self.action in ENDS_WORK else ""

    def named(self, name: str) -> OperationTimeout:
        """The same for the operation of this name."""
        return self if self.name == name else replace(self, name=name)

    def error(self, detail: str = "") -> OperationTimeoutError:
        """The exception that says that the operation took longer; `detail` is added to its message."""
        return OperationTimeoutError(
            self.name, seconds=self.seconds, action=self.action, retryable=self.retryable, detail=detail
        )


_MARK: Final = "__reprieve_timeout__"


def mark_timeout(function: object, timeout: OperationTimeout) -> None:
    """Note on a wrapper which timeout it keeps, for declarations around it."""
    setattr(function, _MARK, timeout)


def require_outermost(where: str, function: object, seconds: float) -> None:
    """Refuse a timeout around a function that keeps a longer one, which could never expire."""
    inner = getattr(function, _MARK, None)
    if isinstance(inner, OperationTimeout) and inner.seconds > seconds:
        raise UsageError(
            f"{where} may take {seconds:g} s, but the timeout of {inner.name} inside it is"
            f" {inner.seconds:g} s and could never expire: drop the inner one, or give the outer one more time"
        )


def _action(value: object) -> TimeoutAction:
    if isinstance(value, str) and value in set(TimeoutAction):
        return TimeoutAction(value)
    hint = did_you_mean(value, TimeoutAction) if isinstance(value, str) else ""
    raise UsageError(f"action must be one of {', '.join(TimeoutAction)}, not {shown(value)}{hint}")
