"""What one audited exception is, and the short ways to write down what it should be judged as."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.core.failure import Category

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import EllipsisType

    from audited.lab import Lab

NOW: Final = 1_700_000_000.0
"""Tue, 14 Nov 2023 22:13:20 GMT; every Retry-After date is read against it."""

NETWORK: Final = frozenset({Category.NETWORK})
RATE_LIMIT: Final = frozenset({Category.RATE_LIMIT})
UPSTREAM: Final = frozenset({Category.UPSTREAM})
CONFLICT: Final = frozenset({Category.CONFLICT})
VALIDATION: Final = frozenset({Category.VALIDATION})
AUTH: Final = frozenset({Category.AUTH})
NOT_FOUND: Final = frozenset({Category.NOT_FOUND})
POLICY: Final = frozenset({Category.POLICY})
CONFIGURATION: Final = frozenset({Category.CONFIGURATION})
UNKNOWN: Final = frozenset({Category.UNKNOWN})
AWAY: Final = NETWORK | UPSTREAM
"""502, 503, 504 and their kin: the table's first row or its third."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One exception and the verdict it should get."""

    label: str
    library: str
    provoke: Callable[[Lab], object]
    """Raises the exception, returns it, or returns a coroutine that does either."""
    retryable: bool
    categories: frozenset[Category]
    reason: str
    retry_after: float | EllipsisType | None = ...
    """Seconds, None where none may be read, or `...` where the exception says nothing about it."""
    error_class: str | None = None
    secrets: tuple[str, ...] = ()
    """What must not come back in the record."""
    arguable: bool = False
    """Reported, never counted."""


def retry(
    library: str,
    label: str,
    provoke: Callable[[Lab], object],
    categories: frozenset[Category],
    reason: str,
    **more: object,
) -> Case:
    """A case that another try may help."""
    return Case(
        label=label, library=library, provoke=provoke, retryable=True, categories=categories, reason=reason, **more
    )


def stop(
    library: str,
    label: str,
    provoke: Callable[[Lab], object],
    categories: frozenset[Category],
    reason: str,
    **more: object,
) -> Case:
    """A case that no other try will help."""
    return Case(
        label=label, library=library, provoke=provoke, retryable=False, categories=categories, reason=reason, **more
    )


class NotProvokedError(Exception):
    """A factory that should have failed did not: the corpus is wrong, not the classifier."""


def catch(case: Case, lab: Lab) -> BaseException:
    """The exception of a case, raised for real where the factory raises it."""
    try:
        outcome = case.provoke(lab)
        if inspect.iscoroutine(outcome):
            outcome = asyncio.run(outcome)
    except (Exception, BaseExceptionGroup) as exc:  # noqa: BLE001 - the audit wants whatever the library raises
        return exc
    if isinstance(outcome, BaseException):
        return outcome
    raise NotProvokedError(f"{case.label}: nothing was raised, got {type(outcome).__name__}")


def secret(*parts: str) -> str:
    """A planted credential, assembled only at run time."""
    return "".join(parts)
