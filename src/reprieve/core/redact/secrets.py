"""Live credentials by their exact value, in every spelling that they take on the way to a log."""

from __future__ import annotations

import base64
import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, quote_plus

from reprieve.core.redact.patterns import Span, compiled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SHORTEST: Final = 6
"""Shorter values are refused: they would be found in half of all words."""
_PREFIX: Final = 8
_SHORTEST_VARIANT: Final = 6
_ESCAPES: Final = 3


def variants(value: str) -> frozenset[bytes]:
    """The spellings of a value: plain, percent, JSON and repr escapes, hex, base64 wherever it stands in what is encoded."""
    raw = value.encode("utf-8", "surrogatepass")
    found = {raw, raw.hex().encode(), raw.hex().upper().encode()}
    for encode in (quote, quote_plus):
        encoded = encode(raw, safe="").encode()
        found |= {encoded, encoded.lower() if b"%" in encoded else encoded, encode(encoded.decode(), safe="").encode()}
    for ascii_only in (True, False):
        escaped = value
        for _ in range(_ESCAPES):
            escaped = json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]
            found.add(escaped.encode("utf-8", "surrogatepass"))
            found.add(escaped.replace("/", "\\/").encode("utf-8", "surrogatepass"))
    shown = repr(value)[1:-1]
    found |= {
        shown.encode("utf-8", "surrogatepass"),
        repr(shown)[1:-1].encode("utf-8", "surrogatepass"),
        repr(raw)[2:-1].encode(),
    }
    found.update(_base64(raw))
    return frozenset(variant for variant in found if len(variant) >= _SHORTEST_VARIANT)


def _base64(raw: bytes) -> Iterator[bytes]:
    """What base64 makes of the value alone, and of it after one or two other bytes: only what no neighbour can change."""
    for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
        whole = encode(raw)
        yield whole
        yield whole.rstrip(b"=")
        for shift in range(3):
            encoded = encode(b"\0" * shift + raw).rstrip(b"=")
            first = -(-shift * 8 // 6)
            last = (shift + len(raw)) * 8 // 6
            yield encoded[first:last]


@dataclass(frozen=True, slots=True)
class Secrets:
    """Live credentials, each with the name that its marker shows; made by `Secrets.of`."""

    values: frozenset[tuple[str, str]] = frozenset()
    """Pairs of name and value."""

    def __repr__(self) -> str:
        return f"Secrets({len(self.values)} values)"

    def __bool__(self) -> bool:
        return bool(self.values)

    @classmethod
    def of(cls, values: Iterable[str] | Mapping[str, str]) -> Secrets:
        """Take values, or names and values; those shorter than `SHORTEST` are left out."""
        pairs = values.items() if hasattr(values, "items") else (("credential", value) for value in values)
        return cls(frozenset((name, value) for name, value in pairs if len(value) >= SHORTEST))

    def spans(self, data: bytes) -> Iterator[Span]:
        """Every place where one of them stands, the longest spelling first."""
        if not self.values:
            return
        index, pattern = _index(self.values)
        pos = 0
        while (match := compiled(pattern).search(data, pos)) is not None:
            start = match.start()
            pos = start + 1
            for variant in index.get(data[start : match.end()], ()):
                if data.startswith(variant, start):
                    pos = start + len(variant)
                    yield Span(start, pos, "live-credential")
                    break


@functools.lru_cache(maxsize=8)
def _index(values: frozenset[tuple[str, str]]) -> tuple[dict[bytes, tuple[bytes, ...]], bytes]:
    """Spellings by their first bytes, longest first, and one pattern of all those beginnings."""
    spellings: set[bytes] = set()
    for _, value in values:
        spellings |= variants(value)
    index: dict[bytes, list[bytes]] = {}
    for spelling in spellings:
        index.setdefault(spelling[:_PREFIX], []).append(spelling)
    pattern = b"|".join(
        b"".join(b"\\x%02x" % byte for byte in prefix) for prefix in sorted(index, key=len, reverse=True)
    )
    ordered = {prefix: tuple(sorted(found, key=len, reverse=True)) for prefix, found in index.items()}
    return ordered, pattern


NONE: Final = Secrets()
"""No live credentials are known."""
