"""The one table of all rules, and the look-up over an exception's MRO."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from reprieve.core.facts import attribute, seconds, text_of
from reprieve.core.failure import Category, ErrorClass
from reprieve.core.finding import Finding, Reader, Rules
from reprieve.core.rules import builtin, cloud, data, databases, http_clients, messaging, models

_of = ErrorClass


def _of_verdict(exc: BaseException, _now: float) -> Finding:
    """What the author of a stage said by raising one of our own verdicts."""
    defaults = {
        "Retryable": _of.DECLARED_RETRYABLE,
        "Permanent": _of.DECLARED_PERMANENT,
        "NeedsReview": _of.NEEDS_REVIEW,
    }
    base = next(defaults[kind.__name__] for kind in type(exc).__mro__ if kind.__name__ in defaults)
    own, category = text_of(attribute(exc, "error_class")), text_of(attribute(exc, "category"))
    return Finding(
        base if own is None else own,
        rule="declared",
        value=type(exc).__name__,
        retryable=base is _of.DECLARED_RETRYABLE,
        retry_after=seconds(attribute(exc, "retry_after")),
        category=Category(category) if category in set(Category) else None,
    )


def of_attributes(exc: BaseException) -> Finding | None:
    """What the author of an exception class declared on it: `retryable`, `error_class`, `category`, `retry_after`."""
    retryable, own = attribute(exc, "retryable"), attribute(exc, "error_class")
    if not isinstance(retryable, bool) and not isinstance(own, str):
        return None
    category = attribute(exc, "category")
    fallback = _of.DECLARED_PERMANENT if retryable is False else _of.DECLARED_RETRYABLE
    return Finding(
        own if isinstance(own, str) and own else fallback,
        rule="declared",
        field="retryable" if isinstance(retryable, bool) else "error_class",
        value=str(retryable) if isinstance(retryable, bool) else str(own),
        retryable=retryable if isinstance(retryable, bool) else None,
        retry_after=seconds(attribute(exc, "retry_after")),
        category=Category(category) if isinstance(category, str) and category in set(Category) else None,
    )


RULES: Final[Rules] = {
    "reprieve.Retryable": _of_verdict,
    "reprieve.Permanent": _of_verdict,
    "reprieve.NeedsReview": _of_verdict,
    **builtin.RULES,
    **http_clients.RULES,
    **databases.RULES,
    **models.RULES,
    **cloud.RULES,
    **messaging.RULES,
    **data.RULES,
}
KNOWN_PACKAGES: Final = frozenset(name.partition(".")[0] for name in RULES) - {"builtins"}


@lru_cache(maxsize=4096)
def rules_for(names: tuple[str, ...]) -> tuple[tuple[str, Finding | Reader], ...]:
    """The rules that hold for a class, the most special first."""
    return tuple((name, RULES[name]) for name in names if name in RULES)
