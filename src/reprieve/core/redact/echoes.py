"""Secrets that stand beside their names: what a validator was given, an element's neighbour, a row of a table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from reprieve.core.redact.judge import harmless, random_looking, telling
from reprieve.core.redact.keys import Kind, kind_of
from reprieve.core.redact.patterns import Span, compiled
from reprieve.core.redact.structure import RULES
from reprieve.core.redact.values import Value, quote_at, string_end

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUOTE: Final = rb"\\*[\"']"
_BREAK: Final = rb"(?:\s|\\+[nrt])*"
ECHO_TRIGGER: Final = rb"input_value=\\*[\"']|" + _QUOTE + rb"input" + _QUOTE + rb": ?\\*[\"']"
_FIELD: Final = re.compile(
    rb"""(?:^|[\n"'(]|\\n)[ \t]*([\w.\[\]-]{2,100})(?:\r?\n|(?:\\++r)?\\++n)[^\n\[]{1,300}\[type=[\w.]{1,60}, \Z"""
)
_PLACE: Final = re.compile(rb"""loc\\*["']: ?[\[(]((?:[^\])\n]){1,300})[\])][^\n]{0,400}\Z""")
_NAME: Final = re.compile(rb"""[\w.-]{2,100}""")
_REACH: Final = 800


def echoes(data: bytes) -> Iterator[Span]:
    """The input that a validation error shows, where the field that it was for is a secret or a person's."""
    for match in compiled(ECHO_TRIGGER).finditer(data):
        before = data[max(0, match.start() - _REACH) : match.start()]
        place = _PLACE.search(before[before.rfind(b"loc") :]) if b"loc" in before else None
        names = _NAME.findall(place[1]) if place is not None else []
        if not names and (field := _FIELD.search(before[-500:])) is not None:
            names = [field[1]]
        kind = kind_of(names[-1].rpartition(b".")[2]) if names else None
        quote = quote_at(data, match.end() - len(_trailing_quote(data, match.end())))
        if kind is None or quote is None:
            continue
        value = Value(quote.start, string_end(data, quote), quoted=True)
        if telling(data, match.start(), names[-1], kind, value):
            yield Span(value.start, value.end, RULES[kind])


def _trailing_quote(data: bytes, end: int) -> bytes:
    """The quote that ends here, with the backslashes before it."""
    run = data[max(0, end - 260) : end - 1]
    return data[end - 1 - (len(run) - len(run.rstrip(b"\\"))) : end]


_STEM: Final = rb"(?i:pass|pwd|secret|token|api_?key|access_?key|private_?key|_key\b|credential|auth)"
_SAID: Final = rb"([\w.-]*" + _STEM + rb"[\w.-]*)"
_TEXT: Final = rb"([^\s<>\"'\\]+)"
_ATTRIBUTES: Final = rb"(?:\s+[\w:.-]+=\\*[\"'][^\"'<>\n]*[\"'])*\s*"
_NEIGHBOURS: Final = (
    # <key>password</key><string>x</string>, and the cells of a table or a list
    (rb"<(key|name|th|td|dt|b|strong|label|span)\b[^<>]*>\s*" + _SAID + rb":?\s*</\w+>:?" + _BREAK + rb"(?:<[\w:]+[^<>]*>)?\s*" + _TEXT, 2, 3),
    # <string name="password">x</string>
    (rb"<(\w+)[^<>]*\b(?:name|key|id)=\\*[\"']" + _SAID + rb"\\*[\"']" + _ATTRIBUTES + rb">" + _TEXT, 2, 3),
    # <input name="password" type="hidden" value="x"/>, and the same the other way round
    (rb"<(\w+)[^<>]*\b(?:name|key|id|property)=\\*[\"']" + _SAID + rb"\\*[\"']" + _ATTRIBUTES + rb"(?:value|content)=\\*[\"']([^\"'<>\\\n]+)", 2, 3),
    (rb"<(\w+)[^<>]*\b(?:value|content)=\\*[\"']([^\"'<>\\\n]+)\\*[\"']" + _ATTRIBUTES + rb"(?:name|key|id|property)=\\*[\"']" + _SAID + rb"\\*[\"']", 3, 2),
)  # fmt: skip
MARKUP_TRIGGER: Final = _STEM + rb"[\w.-]*:?\s*</\w|\b(?:name|key|id|property)=\\*[\"'][\w.-]*" + _STEM


def neighbours(data: bytes) -> Iterator[Span]:
    """Text and attributes of elements that another element or attribute names."""
    for pattern, name_group, value_group in _NEIGHBOURS:
        for match in compiled(pattern).finditer(data):
            name, element = match.group(name_group) or b"", match.group(1)
            value = Value(match.start(value_group), match.end(value_group), quoted=True)
            kind = kind_of(name)
            if kind is None or kind in (Kind.PERSON, Kind.SPACED):
                continue
            sure = element not in (b"th", b"td", b"dt", b"b", b"strong", b"label", b"span")
            if (sure or _mixed(data[value.start : value.end])) and telling(data, match.start(), name, kind, value):
                yield Span(value.start, value.end, RULES[kind])


_ROW: Final = (
    rb"(?m)(?:^|\||\\n|[\"'])[ \t]*[*`]*"
    + _SAID
    + rb"[*`:]*[ \t]*\|[ \t]*[*`]*([^\s|`]+)[*`]*[ \t]*(?:\||$|\r?\n|\\|[\"'])"
)
ROW_TRIGGER: Final = _STEM + rb"[\w.-]*[*`:]*[ \t]*\|[ \t]*[*`]*[^\s|`]"


def rows(data: bytes) -> Iterator[Span]:
    """`| Password | x |`: a row whose first cell names what stands in the second."""
    for match in compiled(_ROW).finditer(data):
        name, value = match.group(1) or b"", Value(match.start(2), match.end(2), quoted=True)
        kind = kind_of(name)
        if kind is None or kind in (Kind.PERSON, Kind.SPACED) or not _mixed(data[value.start : value.end]):
            continue
        if telling(data, match.start(1), name, kind, value):
            yield Span(value.start, value.end, RULES[kind])


def _mixed(content: bytes) -> bool:
    """Whether this is no word of a language: tables describe fields more often than they hold secrets."""
    if harmless(content):
        return False
    return random_looking(content) or (
        re.search(rb"\d", content) is not None and re.search(rb"[A-Za-z]", content) is not None
    )
