"""The same text with one spelling for each sign, byte for byte as long, so that what is found there is found here."""

from __future__ import annotations

import re
from typing import Final

from reprieve.core.redact.patterns import compiled

_COLOURS: Final = rb"(?:\x1b|\\{1,8}(?:u001[bB]|x1[bB]|033|e))\[[0-9;]{0,20}[A-Za-z]"
_ENTITIES: Final = rb"&(?:amp;){0,3}(?:quot|apos|gt|lt|amp|nbsp|#(?:[xX]2[27]|0?3[49]));|\\u00(?:2[267]|3[cCdDeE])"
_COLOUR_SIGNS: Final = (b"1b[", b"1B[", b"033[", b"\\e[")
_SIGNS: Final = {
    b"&quot;": b'"', b"&apos;": b"'", b"&gt;": b">", b"&lt;": b"<", b"&amp;": b"&", b"&nbsp;": b" ", b"&#x22;": b'"', b"&#X22;": b'"', b"&#x27;": b"'",
    b"&#X27;": b"'", b"&#34;": b'"', b"&#39;": b"'", b"&#034;": b'"', b"&#039;": b"'", b"\\u0022": b'"', b"\\u0027": b"'", b"\\u0026": b"&",
    b"\\u003c": b"<", b"\\u003C": b"<", b"\\u003e": b">", b"\\u003E": b">", b"\\u003d": b"=", b"\\u003D": b"=",
}  # fmt: skip

# JSON in a URL or a form: only there do these signs stand for structure.
_ENCODED: Final = rb"(?i)(?:%7B|%5B)(?:%20|%0A|%09|\+|%7B|%5B)*%22[^\s\"'<>]*"
_PERCENT: Final = re.compile(rb"(?i)%(?:22|3A|2C|7B|7D|5B|5D|20|5C|0A)|\+")
_PERCENT_SIGNS: Final = {
    b"%22": b'\\\\"', b"%3A": b"  :", b"%2C": b"  ,", b"%7B": b"  {", b"%7D": b"}  ", b"%5B": b"  [", b"%5D": b"]  ", b"%20": b"   ", b"%5C": b"\\\\\\", b"%0A": b"   ", b"+": b" ",
}  # fmt: skip


def _sign(entity: bytes) -> bytes:
    """A quote behind as many backslashes as the entity was long reads as one that is escaped so often."""
    inner = entity.replace(b"amp;", b"")  # what is left of `&amp;amp;quot;`, and nothing but the sign of `&amp;amp;`
    sign = b"&" if inner == b"&" else _SIGNS[inner]
    fill = b"\\" if sign in (b'"', b"'") else b" "
    gap = fill * (len(entity) - 1)
    return sign + gap if sign == b">" else gap + sign  # an arrow stays one: `=&gt;`


def view(data: bytes) -> bytes:
    """Colours as blanks, entities and doubled quotes as escaped quotes; the very same bytes where there are none."""
    changed: bytearray | None = None
    escaped = b"\\" in data
    if b"\x1b" in data or (escaped and any(sign in data for sign in _COLOUR_SIGNS)):
        changed = bytearray(data)
        for match in compiled(_COLOURS).finditer(data):
            changed[match.start() : match.end()] = b" " * (match.end() - match.start())
    if b"&" in data or (escaped and b"\\u00" in data):
        for match in compiled(_ENTITIES).finditer(data):
            changed = bytearray(data) if changed is None else changed
            changed[match.start() : match.end()] = _sign(data[match.start() : match.end()])
    if b"%22" in data:
        for match in compiled(_ENCODED).finditer(data):
            changed = bytearray(data) if changed is None else changed
            stretch = bytes(changed[match.start() : match.end()])
            changed[match.start() : match.end()] = _PERCENT.sub(lambda sign: _PERCENT_SIGNS[sign[0].upper()], stretch)
    if b"''" in data:
        changed = bytearray(data) if changed is None else changed
        _undouble(data, changed)
    return data if changed is None else bytes(changed)


def _undouble(data: bytes, changed: bytearray) -> None:
    """SQL doubles a quote inside a string; an empty string has a delimiter on either side."""
    pos = data.find(b"''")
    while pos >= 0:
        before, after = data[pos - 1 : pos], data[pos + 2 : pos + 3]
        if after == b"'" or before == b"\\":
            pos = data.find(b"''", pos + 3)
            continue
        if after not in _AFTER_EMPTY or before not in _BEFORE_EMPTY:
            changed[pos] = 0x5C
        pos = data.find(b"''", pos + 2)


_AFTER_EMPTY: Final = frozenset((b"", b" ", b"\t", b"\r", b"\n", b",", b")", b"]", b"}", b";", b":"))
_BEFORE_EMPTY: Final = frozenset((b"", b" ", b"\t", b"\r", b"\n", b"(", b",", b"=", b":", b"[", b"{"))
