"""What a retry is told once, checked when it is told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypedDict

from reprieve.app.clock import SystemClock
from reprieve.app.retry.events import Hook
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from reprieve.core.policy import Policy, Profile
    from reprieve.ports import Clock

On = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
Hooks = Hook | Iterable[Hook]

DEFAULT_PROFILE = "criticizer"
_SYSTEM_CLOCK = SystemClock()


class Nested(StrEnum):
    """What to do with a failure that a retry further down has already given up on."""

    STOP = "stop"
    RETRY = "retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that the calls of one retry share; never changed, so safe in any thread."""

    profile: Profile
    on: On | None
    timeout: float | None
    idempotent: bool
    hooks: tuple[Hook, ...]
    clock: Clock
    stage: str
    nested: Nested
    draw: Callable[[], float] | None

    def considers(self, error: Exception) -> bool:
        """Whether this exception is ours to judge; `on` narrows, it never makes a hopeless failure retryable."""
        match self.on:
            case None:
                return True
            case type() | tuple():
                return isinstance(error, self.on)
            case predicate:
                return predicate(error)


class Options(TypedDict, total=False):
    """What `retry` and `attempts` take by keyword."""

    on: On | None
    """The exceptions to consider, as classes or a predicate; others go up at once. It narrows the judgement and never
    overrules it: raise `Retryable` for what only you know to be worth another try."""
    timeout: float | None
    """Seconds that one attempt may take; only in async code, which is truly cancelled."""
    deadline: float | None
    """Seconds after the first attempt's start beyond which none begins and no wait lasts."""
    idempotent: bool
    """Whether doing it twice is harmless; write conflicts are retried only then."""
    hooks: Hooks
    """Told of each retry, of giving up and of recovering; one that fails is logged under `reprieve.retry`."""
    clock: Clock | None
    """Time, for tests and simulations."""
    stage: str
    """A name for the work, kept in events."""
    nested: str
    """"stop" at failures that a retry further down has given up, or "retry" them all the same."""
    draw: Callable[[], float] | None
    """Chance, for repeatable runs: gives numbers from 0 up to, not including, 1."""


def make_settings(  # noqa: PLR0913 - the keywords of `Options`, here with their defaults
    policy: str | Policy | Profile | None,
    *,
    on: On | None = None,
    timeout: float | None = None,
    deadline: float | None = None,
    idempotent: bool = False,
    hooks: Hooks = (),
    clock: Clock | None = None,
    stage: str = "",
    nested: str = Nested.STOP,
    draw: Callable[[], float] | None = None,
) -> Settings:
    """Check what was asked for and resolve the names, so that a mistake shows where it is written."""
    _check_seconds("timeout", timeout)
    _check_seconds("deadline", deadline)
    _check_on(on)
    return Settings(
        profile=_profile(DEFAULT_PROFILE if policy is None else policy, deadline),
        on=on,
        timeout=timeout,
        idempotent=idempotent,
        hooks=_hooks(hooks),
        clock=_SYSTEM_CLOCK if clock is None else clock,
        stage=stage,
        nested=_nested(nested),
        draw=draw,
    )


def _profile(policy: str | Policy | Profile, deadline: float | None) -> Profile:
    return _named_profile(policy, deadline) if isinstance(policy, str) else _resolved(policy, deadline)


def _resolved(policy: str | Policy | Profile, deadline: float | None) -> Profile:
    from reprieve.app.profiles import resolve  # noqa: PLC0415 - not loaded before somebody retries

    profile = resolve(policy)
    return profile if deadline is None else profile.override(deadline=deadline)


# A block names its policy each time that it runs; a name always means the same.
_named_profile = lru_cache(maxsize=256)(_resolved)


def _check_seconds(name: str, value: float | None) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{name} is a number of seconds, not {type(value).__name__}")
    if not (value > 0 and math.isfinite(value)):
        raise UsageError(f"{name} must be more than 0 seconds and finite, not {value}")


def _check_on(on: object) -> None:
    kinds = on if isinstance(on, tuple) else (on,) if isinstance(on, type) else ()
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise UsageError(f"on= takes exception classes or a predicate; {kind!r} is neither")
        if not issubclass(kind, Exception):
            raise UsageError(f"{kind.__name__} ends a program or a task and is never retried; leave it out of on=")
    if not kinds and on is not None and not callable(on):
        raise UsageError(f"on= takes exception classes or a predicate, not {on!r}")


def _hooks(hooks: Hooks) -> tuple[Hook, ...]:
    found: tuple[Hook, ...] = tuple(hooks) if isinstance(hooks, Iterable) else (hooks,)
    for hook in found:
        if not callable(hook):
            raise UsageError(f"hooks= takes functions of one RetryEvent; {hook!r} cannot be called")
    return found


def _nested(nested: str) -> Nested:
    try:
        return Nested(nested)
    except ValueError:
        raise UsageError(f'nested= is "stop" or "retry", not {nested!r}') from None
