"""Who owns which files: CODEOWNERS, where the last line that fits a path decides, also to own it by nobody."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from reprieve.review.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

PLACES: Final = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
"""Where it may be; the first one that is there counts."""
_MOST_LINES: Final = 5000
_MOST_PATHS: Final = 2000
_NOT_TAKEN: Final = ("!", "[")
"""What CODEOWNERS does not have of other files of patterns: such a line is passed over."""
_WORD: Final = re.compile(r"(?:\\.|[^\s\\])+")


@dataclass(frozen=True, slots=True)
class Owned:
    """One line: whose the files are."""

    pattern: str
    owners: tuple[str, ...]
    """`@name`, `@organization/team` or an address, as written."""


def parse(text: str) -> tuple[Owned, ...]:
    """The lines that say something, in their order."""
    found = []
    for line in text.splitlines()[:_MOST_LINES]:
        words = _WORD.findall(line)
        comment = next((place for place, word in enumerate(words) if word.startswith("#")), len(words))
        words = words[:comment]
        if words and not words[0].startswith(_NOT_TAKEN):
            found.append(Owned(words[0], tuple(word for word in words[1:] if "@" in word)))
    return tuple(found)


def owners_of(path: str, lines: tuple[Owned, ...]) -> tuple[str, ...]:
    """Whose a file is."""
    return owners_of_all((path,), lines)


def owners_of_all(paths: Iterable[str], lines: tuple[Owned, ...]) -> tuple[str, ...]:
    """Everybody who owns one of them, once, in the order in which they come up; of very many paths, of the first ones."""
    compiled = [(Pattern(line.pattern), line.owners) for line in reversed(lines)]
    found: dict[str, None] = {}
    for path in islice(paths, _MOST_PATHS):
        found |= dict.fromkeys(next((owners for pattern, owners in compiled if pattern.fits(path)), ()))
    return tuple(found)
