"""What the author of an exception says of it: by raising a verdict of ours, or by attributes on a class of theirs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reprieve.core.facts import attribute, seconds
from reprieve.core.failure import TAXONOMY, Category, ErrorClass
from reprieve.core.finding import Finding
from reprieve.errors import NeedsReview, Retryable

if TYPE_CHECKING:
    from reprieve.errors import OperationTimeoutError, Verdict

_CLASS_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")


def of_verdict(verdict: Verdict, rule: str, *, field: str = "type") -> Finding:
    """A `Retryable`, `Permanent` or `NeedsReview`, raised or answered by a user's rule."""
    match verdict:
        case Retryable():
            declared = ErrorClass.DECLARED_RETRYABLE
        case NeedsReview():
            declared = ErrorClass.NEEDS_REVIEW
        case _:
            declared = ErrorClass.DECLARED_PERMANENT
    return Finding(
        class_name(attribute(verdict, "error_class")) or declared,
        rule=rule,
        field=field,
        value=type(verdict).__name__,
        declared=True,
        retryable=declared is ErrorClass.DECLARED_RETRYABLE,
        retry_after=seconds(attribute(verdict, "retry_after")),
        category=category(attribute(verdict, "category")),
    )


def of_operation_timeout(exc: OperationTimeoutError) -> Finding:
    """A named timeout that expired: its action says whether another try is worth it."""
    # What is only tried again is a slow answer, in one class with the timeouts of clients.
    retried = exc.action == "retry"
    return Finding(
        ErrorClass.NETWORK_TIMEOUT if retried else ErrorClass.OPERATION_TIMEOUT,
        rule=f"timeout.{exc.operation}",
        field="action",
        value=exc.action,
        retryable=exc.retryable,
        outcome_unknown=True,
    )


def of_attributes(exc: BaseException) -> Finding | None:
    """`retryable` on an exception of somebody's own, with `error_class`, `category` and `retry_after` beside it."""
    retryable = attribute(exc, "retryable")
    if not isinstance(retryable, bool):
        return None
    fallback = ErrorClass.DECLARED_RETRYABLE if retryable else ErrorClass.DECLARED_PERMANENT
    return Finding(
        class_name(attribute(exc, "error_class")) or fallback,
        rule="declared",
        field="retryable",
        value=str(retryable),
        declared=True,
        retryable=retryable,
        retry_after=seconds(attribute(exc, "retry_after")),
        category=category(attribute(exc, "category")),
    )


def renamed(found: Finding | None, exc: BaseException) -> Finding | None:
    """What was found, under the `error_class` and `category` that the exception's author gave it."""
    name, own = class_name(attribute(exc, "error_class")), category(attribute(exc, "category"))
    if name is None and own is None:
        return found
    found = (
        Finding(ErrorClass.UNKNOWN, rule="declared", field="error_class", value=name or "") if found is None else found
    )
    kind = TAXONOMY[found.error_class]
    return found.but(
        error_class=name or found.error_class,
        category=own or found.category or kind.category,
        severity=found.severity or kind.severity,
        scope=found.scope or kind.scope,
        retryable=kind.retryable if found.retryable is None else found.retryable,
        requires_idempotent=kind.requires_idempotent
        if found.requires_idempotent is None
        else found.requires_idempotent,
    )


def class_name(value: object) -> str | None:
    """A class of one of ours, or an identifier of somebody's own; None for all that is no name."""
    if not isinstance(value, str) or _CLASS_NAME.fullmatch(value) is None:
        return None
    return ErrorClass(value) if value in TAXONOMY else value


def category(value: object) -> Category | None:
    """A category by its name; None for all else."""
    return Category(value) if isinstance(value, str) and value in set(Category) else None
