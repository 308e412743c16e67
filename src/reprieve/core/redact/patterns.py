"""Linear-time patterns over bytes, compiled at first use."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Span(NamedTuple):
    """A stretch of bytes to take out, and the rule that says so."""

    start: int
    end: int
    rule: str


class Match(Protocol):
    """What a search found."""

    def start(self, group: int = 0) -> int:
        """Where a group begins; -1 where it took no part."""
        ...

    def end(self, group: int = 0) -> int:
        """Where a group ends."""
        ...

    def group(self, group: int = 0) -> bytes | None:
        """The bytes of a group."""
        ...


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> Match | None:
        """The first match from a position on."""
        ...

    def match(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> Match | None:
        """A match at just that position."""
        ...

    def fullmatch(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> Match | None:
        """A match of all of it."""
        ...

    def finditer(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> Iterator[Match]:
        """All matches, left to right."""
        ...


class Gate(Protocol):
    """Many patterns, of which one pass says which occur."""

    def Match(self, text: bytes) -> list[int] | None:  # noqa: N802 - re2's own spelling
        """The numbers of the patterns that occur; None where none does."""
        ...


# A cut in the cache of states is only slower; a set that runs out of memory would answer "nothing here".
_GATE_MEMORY: Final = 64 << 20
_PATTERN_MEMORY: Final = 32 << 20


@functools.cache
def compiled(pattern: bytes) -> Pattern:
    """Compile a pattern; bytes above 127 are plain bytes, `.` matches line ends too only where it says so."""
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415 - loaded at first use; re2 ships no types

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = _PATTERN_MEMORY
    options.log_errors = False
    return cast("Pattern", re2.compile(pattern, options))


def gate(patterns: Iterable[bytes]) -> Gate:
    """Compile many patterns into one pass."""
    import re2  # noqa: PLC0415 - loaded at first use

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = _GATE_MEMORY
    options.log_errors = False
    result = re2.Set.SearchSet(options)
    for pattern in patterns:
        result.Add(pattern)
    result.Compile()
    return cast("Gate", result)
