"""What one rule says about one exception, before it becomes a Failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprieve.core.failure import Category, ErrorClass, Scope, Severity


class Weight(StrEnum):
    """How much a finding counts against those of deeper links in the chain."""

    DECIDES = "decides"
    TRANSPORT = "transport"
    """A connection failed: a deeper link may say how (a certificate, a name, a refusal)."""
    GATEWAY = "gateway"
    """Someone else's judgement of an error: the original, if it is in the chain, is heard first."""
    WRAPPER = "wrapper"
    """Only a wrapping: what it wraps decides, whatever that is."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An error class with what the taxonomy cannot know of it; None means: as the taxonomy has it."""

    error_class: str
    rule: str = ""
    field: str = "type"
    value: str = ""
    weight: Weight = Weight.DECIDES
    retryable: bool | None = None
    requires_idempotent: bool | None = None
    outcome_unknown: bool = False
    retry_after: float | None = None
    status: int | None = None
    code: str | None = None
    scope: Scope | None = None
    severity: Severity | None = None
    category: Category | None = None
    declared: bool = False
    """The word of a user, which stands in every profile."""

    def but(self, **changes: object) -> Finding:
        """The same finding with some facts changed."""
        return replace(self, **changes)  # type: ignore[arg-type]  # the keys are ours, the values come from typed callers


Reader = Callable[[BaseException, float], Finding | None]
"""Reads one exception at a given moment (seconds since the epoch); None where it has nothing to say."""

Rules = dict[str, Finding | Reader]
"""From `package.ClassName` to what is known of that class."""


def by_word(meanings: dict[ErrorClass, str]) -> dict[str, ErrorClass]:
    """Turn a table from a class to all the words that mean it into one from word to class."""
    return {word: error_class for error_class, words in meanings.items() for word in words.split()}
