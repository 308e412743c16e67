"""What can have been the cause of a dead letter, what to do about each, and what comes next for an item (CRIT 8.5)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.core.failure import Category
from reprieve.core.lifecycle import LetterState

if TYPE_CHECKING:
    from collections.abc import Mapping


class RootCause(StrEnum):
    """What an operator names as the cause."""

    TRANSIENT = "transient"
    DATA = "data"
    AUTH_CONFIG = "auth_config"
    CODE = "code"


REMEDIES: Final[Mapping[RootCause, str]] = {
    RootCause.TRANSIENT: "verify that the upstream has recovered and has capacity",
    RootCause.DATA: "correct the source payload or the mapping",
    RootCause.AUTH_CONFIG: "rotate or fix credentials, permissions or endpoints",
    RootCause.CODE: "deploy the fix, after it was validated in staging",
}
"""What the evidence of a remediation has to show."""

_USUAL: Final[Mapping[Category, RootCause]] = {
    Category.NETWORK: RootCause.TRANSIENT,
    Category.RATE_LIMIT: RootCause.TRANSIENT,
    Category.UPSTREAM: RootCause.TRANSIENT,
    Category.CONFLICT: RootCause.DATA,
    Category.VALIDATION: RootCause.DATA,
    Category.AUTH: RootCause.AUTH_CONFIG,
    Category.NOT_FOUND: RootCause.DATA,
    Category.POLICY: RootCause.DATA,
    Category.CONFIGURATION: RootCause.CODE,
}


def likely_cause(category: str) -> RootCause | None:
    """What it usually is with failures of this category: a proposal, which an operator confirms."""
    return _USUAL.get(Category(category)) if category in set(Category) else None


NEXT_STEPS: Final[Mapping[LetterState, str]] = {
    LetterState.OPEN: "name the cause",
    LetterState.TRIAGED: "record what was done about it",
    LetterState.REMEDIATED: "confirm that running it again does no harm",
    LetterState.APPROVED: "replay it",
    LetterState.REPLAYING: "wait: a worker runs it",
    LetterState.REPLAYED: "verify what it did, and close it with a note",
    LetterState.RESOLVED: "nothing",
    LetterState.ESCALATED: "have engineering find the cause, and name it",
    LetterState.DISCARDED: "nothing; it can be reopened",
}
"""What comes next for an item in each state; no state is left out."""
