"""Which names give their values away, and what kind of value each one holds."""

from __future__ import annotations

import functools
import re
from enum import StrEnum
from typing import Final

from reprieve.core.redact import names


class Kind(StrEnum):
    """How a value is read and judged, by the name that it stands under."""

    PASSWORD = "password"  # noqa: S105 - the name of a kind
    """Anything that is not code: people choose weak ones."""
    TOKEN = "token"  # noqa: S105 - the name of a kind
    """Anything that is not code, a number or a word of two or three letters."""
    STRICT = "strict"
    """Only what looks random: the name alone does not say enough."""
    HEADER = "header"
    """A header's value, up to the end of its line."""
    PHRASE = "phrase"
    """Several words."""
    PERSON = "person"
    """A person's name, address, birth date or number."""
    SPACED = "spaced"
    """Only what is written like a name or an address: capitals, or a number and a street."""


TERMS: Final[dict[str, Kind]] = {
    **dict.fromkeys(names.PERHAPS_PEOPLE, Kind.SPACED),
    **dict.fromkeys(names.PEOPLE, Kind.PERSON),
    **dict.fromkeys(names.UNSURE, Kind.STRICT),
    **dict.fromkeys(names.ISSUED, Kind.TOKEN),
    **dict.fromkeys(names.CHOSEN, Kind.PASSWORD),
    **dict.fromkeys(names.PHRASES, Kind.PHRASE),
    **dict.fromkeys(names.HEADERS, Kind.HEADER),
}
_ONE_WORD: Final[dict[str, Kind]] = {term.replace("_", ""): kind for term, kind in TERMS.items() if "_" in term}
_ENDINGS: Final[dict[str, Kind]] = {
    term: kind
    for term, kind in _ONE_WORD.items()
    if kind in (Kind.TOKEN, Kind.PHRASE) and term.endswith(("key", "secret", "token", "phrase"))
} | {term: Kind.PASSWORD if term.endswith(("word", "passwd", "pwd")) else Kind.TOKEN for term in names.RUN_TOGETHER}
_NO_MATTER: Final = frozenset(names.NO_MATTER)
_ABOUT: Final = frozenset(names.ABOUT)
_STRONG: Final = frozenset(names.STRONG)
_KEYS_TO_NOTHING: Final = frozenset(names.KEYS_TO_NOTHING)
_PLAIN_ALONE: Final = frozenset(names.PLAIN_ALONE)
_COUNTED: Final = frozenset(names.COUNTED)
_NOTHING: Final = frozenset(names.NOTHING)
_PASSES: Final = frozenset(("render", "first", "second", "low", "high", "band", "by"))
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATOR: Final = re.compile(r"[^A-Za-z0-9]+")
_LONGEST_TERM: Final = 4


@functools.lru_cache(maxsize=4096)
def kind_of(name: bytes) -> Kind | None:
    """What stands under this name; None for a name that gives nothing away."""
    spaced = _CAMEL.sub("_", name.decode("latin-1"))
    words = [part.lower() for part in _SEPARATOR.split(spaced) if part]
    whole = "_".join(words)
    if whole in _NOTHING:
        return None
    known = TERMS.get(whole) or (_ONE_WORD.get(whole) if len(words) == 1 else None)
    if known is not None:
        return known
    while len(words) > 1 and (words[-1] in _NO_MATTER or words[-1].isdigit()):
        words.pop()
    for length in range(min(_LONGEST_TERM, len(words)), 0, -1):
        kind = TERMS.get("_".join(words[-length:]))
        if kind is not None:
            return _weighed(kind, words, length)
    return _by_ending(words)


def _by_ending(words: list[str]) -> Kind | None:
    """What the end of a name says that is no term as a whole."""
    last = words[-1] if words else ""
    for term, kind in _ENDINGS.items():
        if last.endswith(term):
            return kind
    if last.endswith("pass") and last not in _NOTHING:
        return Kind.PASSWORD
    return Kind.STRICT if last not in _ABOUT and _STRONG.intersection(words) else None


def _weighed(kind: Kind, words: list[str], length: int) -> Kind | None:
    """What a term says at the end of a longer name: `primary_key` and `error_code` say nothing."""
    if len(words) == length:
        return kind
    term, before = "_".join(words[-length:]), words[-length - 1]
    if term == "key":
        return None if before in _KEYS_TO_NOTHING else Kind.STRICT
    if term in _PLAIN_ALONE or before in _COUNTED or (term == "pass" and before in _PASSES):
        return None
    return kind
