"""What whoever applies an intent has at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprieve.adapters.sql.dead_letters.tally import Tally
    from reprieve.adapters.sql.words import Words


@dataclass(frozen=True, slots=True, kw_only=True)
class Hand:
    """The dialect, the counts, and what nobody else can change meanwhile."""

    words: Words
    tally: Tally
    held: frozenset[int]
    """Letters; of all others nothing is known for sure."""
    again: bool
    """Whether an earlier try, whose outcome is unknown, may have done it."""
