"""Secrets in columns: the header says what stands below it, in SQL, CSV and printed tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from reprieve.core.redact.judge import harmless, telling
from reprieve.core.redact.keys import kind_of
from reprieve.core.redact.patterns import Span, compiled
from reprieve.core.redact.structure import RULES
from reprieve.core.redact.values import Value, line_start, quote_at, string_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reprieve.core.redact.keys import Kind

INSERT_TRIGGER: Final = rb"(?i)\)(?:\s|\\n)*values(?:\s|\\n)*\("
_NAMES: Final = b" \t\"'`[]\\"
_GAP: Final = re.compile(rb"(?:[\s,]|\\++[nrt])*+")
_BARE: Final = re.compile(rb"[^\s,()'\"]++")
_ROW: Final = re.compile(rb"\s*\)\s*,\s*\(")
_ROWS: Final = 1000
_WIDTH: Final = 2000


def _columns(cells: list[bytes]) -> dict[int, tuple[bytes, Kind]]:
    """The columns whose names give their values away."""
    named = ((place, cell.strip(_NAMES)) for place, cell in enumerate(cells))
    return {place: (name, kind) for place, name in named if (kind := kind_of(name[-100:])) is not None}


def inserts(data: bytes) -> Iterator[Span]:
    """`INSERT INTO users (name, password) VALUES ('anna', ...)`."""
    for match in compiled(INSERT_TRIGGER).finditer(data):
        opened = data.rfind(b"(", max(0, match.start() - _WIDTH), match.start())
        columns = _columns(data[opened + 1 : match.start()].split(b",")) if opened >= 0 else {}
        pos = match.end()
        for _ in range(_ROWS):
            pos, spans = _row(data, pos, columns)
            yield from spans
            following = _ROW.match(data, pos, pos + 40)
            if following is None:
                break
            pos = following.end()


def _row(data: bytes, pos: int, columns: dict[int, tuple[bytes, Kind]]) -> tuple[int, list[Span]]:
    found: list[Span] = []
    for place in range(max(columns, default=-1) + 1):
        pos = _GAP.match(data, pos).end()  # type: ignore[union-attr]  # it matches the empty string too
        quote = quote_at(data, pos)
        if quote is not None:
            value = Value(quote.start, string_end(data, quote), quoted=True)
            pos = value.end + quote.escapes + len(quote.mark)
        else:
            bare = _BARE.match(data, pos)
            if bare is None:
                break
            value = Value(pos, bare.end(), quoted=False)
            pos = bare.end()
        if place in columns and telling(data, pos, *columns[place], value):
            found.append(Span(value.start, value.end, RULES[columns[place][1]]))
    return pos, found


TABLE_TRIGGER: Final = rb"(?m)^[ \t]*[-+|: ]*-{3}[ :]*[+|][-+|: ]*-{3}[-+|: ]*\r?\n"
_SHEET_NAMES: Final = rb"(?:password|passwd|pwd|secret|token|api_?key|ssn|phone|iban|birth|dob|first_?name|last_?name|full_?name|card_?number|email)"
_HEADER: Final = rb"(?:[\w. -]+,)*[\w.-]*" + _SHEET_NAMES + rb"[\w.-]*(?:,[\w. -]+)*"
_SHEET: Final = rb"(?im)(?:^|[\"'=:])(" + _HEADER + rb")(\r?\n|(?:\\+r)?\\+n)[^\n,\\]*,"
SHEET_TRIGGER: Final = rb"(?im)(?:^|[\"'=:])" + _HEADER + rb"(?:\r?\n|(?:\\+r)?\\+n)[^\n,\\]*,"
_LINE_END: Final = re.compile(rb"\n|\Z")
_ESCAPED_LINE_END: Final = re.compile(rb"""(?:\\++r)?\\++n|\\*["']|\n|\Z""")


def tables(data: bytes) -> Iterator[Span]:
    """A table as `psql` or Markdown prints it."""
    read = 0
    for match in compiled(TABLE_TRIGGER).finditer(data):
        if match.start() < read:  # a line of the table above, which has been read already
            continue
        head = data[line_start(data, max(0, match.start() - 1)) : max(0, match.start() - 1)]
        cells = head.split(b"|")
        found, read = _cells(data, match.end(), _columns(cells), b"|", len(cells))
        yield from found


def sheets(data: bytes) -> Iterator[Span]:
    """Lines of comma-separated values below their header."""
    read = 0
    for match in compiled(_SHEET).finditer(data):
        cells = (match.group(1) or b"").split(b",")
        if len(cells) > 1 and match.start() >= read:
            escaped = b"\\" in (match.group(2) or b"")
            found, read = _cells(data, match.end(2), _columns(cells), b",", len(cells), escaped=escaped)
            yield from found


def _cells(
    data: bytes, pos: int, columns: dict[int, tuple[bytes, Kind]], mark: bytes, width: int, *, escaped: bool = False
) -> tuple[list[Span], int]:
    """What is to go in the rows below a head, and where the last of them ends."""
    found: list[Span] = []
    for _ in range(_ROWS if columns else 0):
        line_end = (_ESCAPED_LINE_END if escaped else _LINE_END).search(data, pos)
        end, following = (len(data), len(data)) if line_end is None else line_end.span()
        cells = data[pos:end].split(mark)
        if len(cells) != width:
            break
        for place, (name, kind) in columns.items():
            start = pos + sum(len(cell) + 1 for cell in cells[:place])
            text = cells[place]
            inner = text.strip(b" \t\r\"'")
            begin = start + text.find(inner)
            value = Value(begin, begin + len(inner), quoted=True)
            if inner and not harmless(inner) and telling(data, begin, name, kind, value):
                found.append(Span(value.start, value.end, RULES[kind]))
        pos = following
        if pos >= len(data) or (escaped and data[pos - 1 : pos] != b"n"):
            break
    return found, pos
