"""One pass that says which rules can act at all, then only those; again until nothing is left to take out."""

from __future__ import annotations

import bisect
import functools
from typing import TYPE_CHECKING, Final

from reprieve.core.redact import chat, contexts, echoes, pii, structure, tables, talk, vendors
from reprieve.core.redact.patterns import gate
from reprieve.core.redact.secrets import NONE
from reprieve.core.redact.values import MARKER, forget
from reprieve.core.redact.view import view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reprieve.core.redact.patterns import Gate, Span
    from reprieve.core.redact.report import RedactionReport
    from reprieve.core.redact.secrets import Secrets

    Finder = Callable[[bytes], Iterator[Span]]

_ROUNDS: Final = 8
"""More than any text has needed; each takes out what only the one before it laid bare."""
_SHORT: Final = 2048
_SIGNS: Final = b" \t\r\n.,;:!?'\"()[]{}<>=&/\\-"


def _groups() -> tuple[tuple[tuple[bytes, Finder], ...], ...]:
    """What the gates look for, and who goes on from there.

    One gate for all of them would need a state for every combination of what it has seen: three are many times faster on
    a text that they meet for the first time.
    """
    return (
        (
            (chat.TRIGGER, chat.spans),
            (talk.TUPLE_TRIGGER, talk.role_tuples),
            (talk.LINE_TRIGGER, talk.yaml_lines),
            (talk.TRANSCRIPT_TRIGGER, talk.transcripts),
            (talk.TEMPLATE_TRIGGER, talk.templates),
            (talk.PROMPT_TRIGGER, talk.prompt_lines),
            (talk.OTHER_TRIGGER, talk.others),
            (contexts.KEY_TRIGGER, contexts.private_keys),
            (structure.FLAG_TRIGGER, structure.flags),
            (echoes.ECHO_TRIGGER, echoes.echoes),
            (echoes.MARKUP_TRIGGER, echoes.neighbours),
            (echoes.ROW_TRIGGER, echoes.rows),
            (tables.INSERT_TRIGGER, tables.inserts),
            (tables.TABLE_TRIGGER, tables.tables),
            (tables.SHEET_TRIGGER, tables.sheets),
            (pii.EMAIL_TRIGGER, pii.emails),
            (pii.NAMED_TRIGGER, pii.named_addresses),
            (pii.PHONE_TRIGGER, pii.phones),
            (pii.CARD_TRIGGER, pii.cards),
            (pii.IBAN_TRIGGER, pii.ibans),
            (pii.SSN_TRIGGER, pii.social_security_numbers),
        ),
        ((vendors.TRIGGER, vendors.spans),),
        ((contexts.TRIGGER, contexts.spans),),
    )


@functools.cache
def _gates() -> tuple[tuple[Gate, tuple[Finder, ...]], ...]:
    return tuple((gate(trigger for trigger, _ in rows), tuple(finder for _, finder in rows)) for rows in _groups())


@functools.cache
def _structure_gate() -> Gate:
    return gate([structure.KEY])


@functools.cache
def _address_gate() -> Gate:
    return gate([pii.IP_TRIGGER])


def _spans(data: bytes, secrets: Secrets, *, addresses: bool) -> list[Span]:
    """All that any rule wants out of these bytes."""
    exact = list(secrets.spans(data)) if secrets.values else []
    data = view(data)
    # A gate is quicker to say no, but so many long texts have such names that there it would only be one pass more.
    found = list(structure.spans(data)) if len(data) > _SHORT or _structure_gate().Match(data) is not None else []
    for known, finders in _gates():
        for hit in known.Match(data) or ():
            found.extend(finders[hit](data))
    if addresses and _address_gate().Match(data) is not None:
        found.extend(pii.network_addresses(data))
    return exact + found


def _merged(data: bytes, found: list[Span]) -> list[Span]:
    """The same stretches without overlaps, none of them a marker or a part of one; the widest gives its name."""
    marked = [match.span() for match in MARKER.finditer(data)] if b"[redacted:" in data else []
    if marked:
        found = [wide for span in found if (wide := _whole_markers(data, span, marked)) is not None]
    found.sort(key=lambda span: (span.start, -span.end))
    merged: list[Span] = []
    for span in found:
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            if span.end > last.end:
                merged[-1] = last._replace(end=span.end)
        elif span.end > span.start:
            merged.append(span)
    return merged


def _whole_markers(data: bytes, span: Span, marked: list[tuple[int, int]]) -> Span | None:
    """The span, wide enough to hold the markers that it touches; None if it holds nothing else."""
    start, end = span.start, span.end
    first = bisect.bisect_left(marked, (start, 0)) - 1
    if first >= 0 and marked[first][1] > start:
        start = marked[first][0]
    last = bisect.bisect_left(marked, (end, 0)) - 1
    if last >= 0 and marked[last][1] > end:
        end = marked[last][1]
    if not MARKER.sub(b"", data[start:end]).strip(_SIGNS):
        return None
    return span._replace(start=start, end=end)


def scan(text: str, secrets: Secrets = NONE, *, addresses: bool = False) -> tuple[str, tuple[tuple[str, int], ...]]:
    """The clean text and which rules acted how often; the very same string where none did."""
    data = text.encode("utf-8", "surrogatepass")
    found = _spans(data, secrets, addresses=addresses)
    if not found:
        forget()
        return text, ()
    counts: dict[str, int] = {}
    for _ in range(_ROUNDS):
        merged = _merged(data, found)
        if not merged:
            break
        pieces: list[bytes] = []
        pos = 0
        for span in merged:
            pieces += (data[pos : span.start], b"[redacted:", span.rule.encode(), b"]")
            counts[span.rule] = counts.get(span.rule, 0) + 1
            pos = span.end
        pieces.append(data[pos:])
        data = b"".join(pieces)
        found = _spans(data, secrets, addresses=addresses)
    forget()
    return data.decode("utf-8", "surrogatepass"), tuple(sorted(counts.items()))


def redact(
    text: str, *, secrets: Secrets = NONE, report: RedactionReport | None = None, addresses: bool = False
) -> str:
    """The text without secrets, people's data and what was said to models; a report given counts what was taken out."""
    clean, counts = scan(text, secrets, addresses=addresses)
    if report is not None and counts:
        report.add(counts)
    return clean
