"""Retries for any function or block: judged by `classify`, decided by `decide`, waited for here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Unpack, overload

from reprieve.app.retry.blocks import AsyncAttempt, Attempt, Attempts
from reprieve.app.retry.decorate import F, decorate
from reprieve.app.retry.events import Hook, Moment, RetryEvent
from reprieve.app.retry.nesting import NestedRetryWarning
from reprieve.app.retry.settings import Nested, Options, make_settings

if TYPE_CHECKING:
    from reprieve.core.policy import Policy, Profile

__all__ = [
    "AsyncAttempt",
    "Attempt",
    "Attempts",
    "Hook",
    "Moment",
    "Nested",
    "NestedRetryWarning",
    "Options",
    "RetryEvent",
    "attempts",
    "retry",
]


class Decorator(Protocol):
    """Gives back a function of the very type that it is given."""

    def __call__(self, function: F, /) -> F:
        """Wrap the function."""
        ...


@overload
def retry(function: F, /) -> F: ...
@overload
def retry(policy: str | Policy | Profile | None = None, /, **options: Unpack[Options]) -> Decorator: ...
def retry(policy: Any = None, /, **options: Unpack[Options]) -> Any:
    """Try a function again when it fails and another try is worth it; the last exception is raised as it was.

    Args:
        policy: a profile or policy, or its name; `criticizer` if none is given. The function itself in a bare `@retry`.
        **options: `on`, `timeout`, `deadline`, `idempotent`, `hooks`, `clock`, `stage`, `nested`, `draw`; see `Options`.
    """
    if callable(policy) or isinstance(policy, staticmethod | classmethod):
        return decorate(policy, make_settings(None, **options))
    settings = make_settings(policy, **options)
    return lambda function: decorate(function, settings)


def attempts(policy: str | Policy | Profile | None = None, /, **options: Unpack[Options]) -> Attempts:
    """Try a block again; takes what `retry` takes.

    for attempt in attempts("transient"):
        with attempt:
            ...

    In async code both lines begin with `async`.
    """
    return Attempts(make_settings(policy, **options))
