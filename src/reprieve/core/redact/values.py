"""Where a value begins and ends: quoted at any depth of escaping, in brackets, or bare."""

from __future__ import annotations

import functools
import re
from typing import Final, NamedTuple

MARKER: Final = re.compile(rb"(?:\[redacted:[a-z0-9-]{1,40}\])++")

_QUOTE: Final = re.compile(
    rb"""[bBrRuUfFN]{0,2}(?:(?P<triple>(\\{1,255}["'])\2\2)|(?P<escapes>\\{0,255})(?P<mark>"{3}|'{3}|["'`]))"""
    rb"""|(?P<entity>&quot;|&#3[49];|%22|%27|\\{1,16}u002[27])"""
)
# A new record of a log, or the next part of a traceback: a value that was cut off does not go on there.
_RECORD: Final = re.compile(
    rb"""\n(?=Traceback |  File "|\[?\d{4}-\d\d-\d\d|\[?\d\d:\d\d:\d\d|\[?(?:DEBUG|INFO|WARN|ERROR|FATAL|CRITICAL)\b"""
    rb"""|[A-Za-z_.]{1,80}(?:Error|Exception|Warning)\b|During handling|The above exception|\{"|[$#>] )"""
)
_FRAME: Final = re.compile(rb"""\n(?=Traceback |  File "|\[?\d{4}-\d\d-\d\d[T ]|During handling|The above exception)""")
_LONGEST: Final = 1 << 16
_STEPS: Final = 4096
_LINE: Final = 2000


class Value(NamedTuple):
    """The inside of a value, and how it was written."""

    start: int
    end: int
    quoted: bool


class Quote(NamedTuple):
    """An opening quote: what closes it, how many backslashes stand before it, and where its inside begins."""

    mark: bytes
    escapes: int
    start: int


def quote_at(data: bytes, pos: int) -> Quote | None:
    """The quote that opens at this place, with a literal's prefix letters and escapes."""
    match = _QUOTE.match(data, pos)
    if match is None:
        return None
    whole = match["triple"] or match["entity"]  # read as they stand: the backslashes of three quotes are a part of them
    if whole is not None:
        return Quote(whole, 0, match.end())
    return Quote(match["mark"], len(match["escapes"]), match.end())


def nested(backslashes: int, escapes: int) -> int | None:
    """How many backslashes of its own a quote has in a string that was opened after `escapes` of them; None: not a whole number."""
    doubled = 1
    while escapes and escapes % 2 == 0:  # a repr doubles every backslash of what it shows
        escapes //= 2
        doubled *= 2
    own, rest = divmod(backslashes - escapes * doubled, (escapes + 1) * doubled)
    return None if rest else own


def _backslashes(data: bytes, pos: int, floor: int) -> int:
    low = max(floor, pos - 600)
    run = data[low:pos]
    return len(run) - len(run.rstrip(b"\\"))


def line_start(data: bytes, pos: int) -> int:
    """Where the line of this place begins, looked for only so far back as anyone writes a line."""
    return max(data.rfind(b"\n", max(0, pos - _LINE), pos) + 1, pos - _LINE, 0)


def string_end(data: bytes, quote: Quote, *, spill: bool = False) -> int:
    """Where the inside of a string ends; one that is never closed ends with its line, or with the record if it may spill."""
    start, mark = quote.start, quote.mark
    pos = start
    scale = 1  # inside a repr, or another string, every backslash of the text stands twice or more often
    for _ in range(_STEPS):
        pos = data.find(mark, pos, start + _LONGEST)
        if pos < 0:
            break
        count = 0 if len(mark) > 3 else _backslashes(data, pos, start)  # noqa: PLR2004 - an entity has no escapes
        own = nested(count, quote.escapes)
        if own and scale == 1 and own % 2 == 0 and not _STRUCTURE.match(data, pos + 1):
            scale = own
        # With fewer backslashes than it was opened with, the quote closes a string around this one.
        if count < quote.escapes or (own is not None and own // scale % 2 == 0):
            if data.find(b"\n", start, pos) < 0 or _plausible(data, start, pos, len(mark)):
                return max(start, pos - min(count, quote.escapes))
            break
        pos += len(mark)
    else:
        return pos  # more nested quotes than anyone writes: all of them go
    return _rstrip(data, start, _record_end(data, start) if spill else _line_end(data, start))


def _line_end(data: bytes, start: int) -> int:
    end = data.find(b"\n", start, start + _LONGEST)
    if end < 0 and start + _LONGEST < len(data):
        return _far(data, start // _LONGEST + 1, spill=False)
    return len(data) if end < 0 else end


def _record_end(data: bytes, start: int) -> int:
    end = _RECORD.search(data, start, start + _LONGEST)
    if end is None and start + _LONGEST < len(data):
        return _far(data, start // _LONGEST + 1, spill=True)
    return len(data) if end is None else end.start()


@functools.lru_cache(maxsize=64)
def _far(data: bytes, block: int, *, spill: bool) -> int:
    """Where a line or record ends that is longer than a block: asked for by every string in it, looked for once."""
    if spill:
        match = _RECORD.search(data, block * _LONGEST)
        return len(data) if match is None else match.start()
    end = data.find(b"\n", block * _LONGEST)
    return len(data) if end < 0 else end


def forget() -> None:
    """Let go of the texts that were looked at."""
    _far.cache_clear()


_STRUCTURE: Final = re.compile(rb"""\s*(?:[,}\]):;]|\\*["']|\Z)""")


def _plausible(data: bytes, start: int, pos: int, width: int) -> bool:
    """Whether a quote on a later line closes what was opened: no record begins in between and a delimiter follows."""
    after = data[pos + width : pos + width + 1]
    if after not in (b"", b",", b"}", b"]", b")", b";", b"\n", b"\r", b" ", b"\\", b'"', b"'", b"<"):
        return False
    return _RECORD.search(data, start, pos) is None


def _rstrip(data: bytes, start: int, end: int) -> int:
    while end > start and data[end - 1] in b"\r\n \t":
        end -= 1
    return end


_BRACKET: Final = re.compile(rb"""[\[\]{}()]|\\{0,255}["']|\n\n""")
_CLOSING: Final = {b"[": b"]", b"{": b"}", b"(": b")"}


def bracket_end(data: bytes, pos: int, *, spill: bool = False) -> int:
    """The place after the bracket that closes the one at `pos`; strings inside are skipped over."""
    depth: list[bytes] = []
    steps = 0
    limit = min(len(data), pos + _LONGEST * 4)
    frame = _FRAME.search(data, pos, limit)
    limit = limit if frame is None else frame.start()
    while (match := _BRACKET.search(data, pos, limit)) is not None and (steps := steps + 1) < _STEPS * 4:
        token = match[0]
        pos = match.end()
        if token in _CLOSING:
            depth.append(_CLOSING[token])
        elif token[-1:] in (b'"', b"'"):
            quote = Quote(token[-1:], len(token) - 1, pos)
            end = string_end(data, quote, spill=spill)
            closed = data.find(token[-1:], end, end + 40)
            pos = closed + 1 if closed >= 0 else end + 1
        elif token in (b"]", b"}", b")"):
            if depth and depth[-1] == token:
                depth.pop()
            if not depth:
                return pos
    return _rstrip(data, pos, limit)


# An `&`, a comma or a bracket ends a bare value only where the next field, or nothing, follows: passwords hold them too.
_BARE: Final = re.compile(
    rb"""(?:[^\s"'`<>&;,)\]}\\|]|&(?![A-Za-z_][\w.-]{0,40}=|quot;|amp;|\#3|lt;|gt;)"""
    rb"""|[,;](?![\s"'\\]|[A-Za-z_][\w .-]{0,40}[=:]|\Z)"""
    rb"""|[)\]}](?![\s,;.:)\]}"'\\]|\Z)|\|(?!\s)|\\{1,8}(?![nrtu"'\\\s]|\Z)|\\++u(?!00[0-3])[0-9a-fA-F]{4}|(?<=\S)["'](?=[^\s,;.:)\]}"'\\&<>])|[<>](?=[^\s</]))++"""
)
_TO_LINE_END: Final = re.compile(rb"(?:[^\r\n\\]|\\(?!\\*[nr]))++")
_NEAR: Final = 1024
_FAR: Final = 262_144
_PHRASE: Final = re.compile(rb"""(?:[^\r\n\\"'`,;|<>&)\]}]|(?<=\w)'(?=\w)|\\(?!\\*[nrt"']))++""")


def bare(data: bytes, pos: int) -> Value:
    """A value without quotes: up to white space or the next field."""
    match = _BARE.match(data, pos, pos + _NEAR)
    end = pos if match is None else match.end()
    while end > pos and data[end - 1] in b".,:;!?":
        end -= 1
    return Value(pos, end, quoted=False)


def whole(data: bytes, value: Value) -> int:
    """Where a value ends that is to go: one that was cut for being longer than values are goes to the next white space."""
    if value.quoted or value.end - value.start < _NEAR - 8:
        return value.end
    ends = (data.find(mark, value.end, value.end + _FAR) for mark in (b" ", b"\n", b'"', b"'"))
    return min((end for end in ends if end >= 0), default=min(len(data), value.end + _FAR))


def to_line_end(data: bytes, pos: int, limit: int = 1 << 20) -> Value:
    """The rest of the line, up to an escaped line end too."""
    match = _TO_LINE_END.match(data, pos, pos + limit)
    end = pos if match is None else match.end()
    return Value(pos, _rstrip(data, pos, end), quoted=False)


def phrase(data: bytes, pos: int) -> Value:
    """Words up to the next delimiter."""
    match = _PHRASE.match(data, pos, pos + _NEAR)
    end = pos if match is None else match.end()
    return Value(pos, _rstrip(data, pos, end), quoted=False)


_PERSONAL: Final = re.compile(
    rb"""[A-Z0-9+(\x80-\xff][^\s,;"'`<>\\&|]*+(?:[ ]+[A-Z0-9(\x80-\xff][\w\x80-\xff'./()@-]*+){0,6}"""
)

_AFTER_COMMA: Final = re.compile(
    rb"""(?:,(?:[ ]+(?![\w.-]{0,40}[=:])[A-Z0-9\x80-\xff][\w\x80-\xff'./-]*+){1,3}){1,3}(?=[ ]*(?:[\r\n,;)\]}"'\\&]|\Z))"""
)
_LETTER: Final = re.compile(rb"[A-Za-z\x80-\xff]")


def personal(data: bytes, pos: int) -> Value:
    """A name, an address or a number without quotes: words with capitals and groups of digits."""
    match = _PERSONAL.match(data, pos)
    if match is None:
        return bare(data, pos)
    end = match.end()
    # `12 Elm Street, Apt 3` and `March 21, 1983` go on after the comma; `name=Anna, Job=7` does not.
    if (further := _AFTER_COMMA.match(data, end)) is not None and _LETTER.search(data, pos, end):
        end = further.end()
    while end > pos and data[end - 1] in b".,:;)]}":
        end -= 1
    return Value(pos, end, quoted=False)


_INDENTED: Final = re.compile(rb"(?:[ \t]*\r?\n)*([ \t]+)")
_ESCAPED_LINE: Final = re.compile(rb"(?:(?:\\++r)?\\++n)++([ \t]*+)((?:[^\\\n\"]|\\++(?![nrt\\\"]))*+)")


def escaped_block(data: bytes, pos: int, indent: int) -> Value:
    """The lines below, where line ends are escaped."""
    start = end = pos
    while (match := _ESCAPED_LINE.match(data, end)) is not None and len(match[1]) > indent and match[2]:
        start = match.start(2) if start == pos else start
        end = match.end()
    return Value(min(start, end), _rstrip(data, start, end), quoted=False)


def block(data: bytes, pos: int, indent: int) -> Value:
    """The lines below that are indented deeper than their key."""
    end = pos
    cursor = data.find(b"\n", pos)
    while cursor >= 0:
        match = _INDENTED.match(data, cursor + 1)
        if match is None or len(match[1]) <= indent:
            break
        following = data.find(b"\n", match.end())
        end = len(data) if following < 0 else following
        cursor = following
    first = data.find(b"\n", pos)
    start = pos if first < 0 else first + 1
    return Value(min(start, end), _rstrip(data, min(start, end), end), quoted=False)
