"""The same text with one spelling for each sign, byte for byte as long, so that what is found there is found here."""

from __future__ import annotations

import re
from typing import Final

_COLOURS: Final = re.compile(rb"(?:\x1b|\\{1,8}(?:u001[bB]|x1[bB]|033|e))\[[0-9;]{0,20}[A-Za-z]")
_ENTITIES: Final = re.compile(
    rb"&(?:quot|apos|gt|lt|amp|nbsp|#(?:x2[27]|X2[27]|3[49]|0?3[49]));|\\u00(?:2[27]|26|3[cCdDeE])"
)
_SIGNS: Final = {
    b"&quot;": b'"', b"&apos;": b"'", b"&gt;": b">", b"&lt;": b"<", b"&amp;": b"&", b"&nbsp;": b" ", b"&#x22;": b'"', b"&#X22;": b'"', b"&#x27;": b"'",
    b"&#X27;": b"'", b"&#34;": b'"', b"&#39;": b"'", b"&#034;": b'"', b"&#039;": b"'", b"\\u0022": b'"', b"\\u0027": b"'", b"\\u0026": b"&",
    b"\\u003c": b"<", b"\\u003C": b"<", b"\\u003e": b">", b"\\u003E": b">", b"\\u003d": b"=", b"\\u003D": b"=",
}  # fmt: skip
# SQL doubles a quote inside a string; an empty string has a delimiter on either side.
_DOUBLED: Final = re.compile(rb"(?<!')''(?!')(?=[^\s,)\]};:]|\Z)|(?<=[^\s(,=:\[{'])''(?!')")


def _sign(match: re.Match[bytes]) -> bytes:
    """A quote behind as many backslashes as the entity was long reads as one that is escaped so often."""
    sign = _SIGNS[match[0]]
    fill = b"\\" if sign in (b'"', b"'") else b" "
    gap = fill * (len(match[0]) - 1)
    return sign + gap if sign == b">" else gap + sign  # an arrow stays one: `=&gt;`


def view(data: bytes) -> bytes:
    """Colours as blanks, entities and doubled quotes as escaped quotes; the very same bytes where there are none."""
    if b"[" in data and (b"\x1b[" in data or b"1b[" in data or b"1B[" in data or b"033[" in data or b"\\e[" in data):
        data = _COLOURS.sub(lambda match: b" " * len(match[0]), data)
    if b"&" in data or b"\\u00" in data:
        data = _ENTITIES.sub(_sign, data)
    if b"''" in data:
        data = _DOUBLED.sub(b"\\\\'", data)
    return data
