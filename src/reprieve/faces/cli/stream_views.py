"""Dead letters of streams for people: lists, one whole, figures."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.text import Text

from reprieve.faces.cli.rendering import clock, count, facts, items, length, plain, when

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from reprieve.operations.streams import (
        StreamDeadLetterDetail,
        StreamDeadLetterStats,
        StreamDeadLetterSummary,
    )
    from reprieve.streams.closed_dead_letters import ClosedDeadLetter
    from reprieve.streams.status import GroupStatus

_YEAR_3000: Final = 32_503_680_000.0


def status_list(groups: Sequence[GroupStatus], now: float) -> RenderableType:
    """Return how groups stand: under each what keeps it from working, and its alerts."""
    headings = (
        "queue",
        "group",
        "state",
        "unread",
        "pending",
        "waiting",
        "suspects",
        "oldest",
        "consumers",
        "dead letters",
    )
    return items(
        headings,
        [
            (
                (
                    each.queue,
                    each.group,
                    _state(each),
                    f"{each.lag:,}{'' if each.lag_is_exact else '+'}",
                    f"{each.pending:,}",
                    f"{each.waiting:,}",
                    str(each.suspects or ""),
                    "" if each.oldest_seconds is None else length(each.oldest_seconds),
                    f"{len(each.consumers):,}",
                    f"{each.dead_letters:,}",
                ),
                tuple(_troubles(each, now)),
            )
            for each in groups
        ],
    )


def _state(group: GroupStatus) -> str:
    if group.paused is not None:
        return "paused"
    if group.seconds_until_probe is not None:
        return "breaker open"
    return "runs" if group.consumers else "no consumer"


def _troubles(group: GroupStatus, now: float) -> Iterator[str]:
    if group.paused is not None:
        by = f" by {group.paused.actor}" if group.paused.actor else ""
        why = f": {group.paused.reason}" if group.paused.reason else ""
        yield f"paused{by}, {when(group.paused.at, now)}{why}"
        yield f"next: reprieve streams resume {shlex.quote(group.queue)} {shlex.quote(group.group)}"
    if group.seconds_until_probe is not None:
        wait = f"in {length(group.seconds_until_probe)}" if group.seconds_until_probe else "now"
        yield f"breaker open since {when(group.breaker.since, now)}: {group.breaker.error_class}; next call {wait}"
    for alert in group.alerts:
        yield f"alert {alert.rule} ({alert.level}), {count(alert.count, 'time')}: {alert.summary}"
    if group.dead_letters:
        yield f"next: reprieve streams list {shlex.quote(group.queue)}"


def letter_list(rows: Sequence[StreamDeadLetterSummary], now: float, *, one_queue: bool) -> RenderableType:
    """Return the list: under each dead letter what happened and what comes next."""
    headings = ("id", "queue", "group", "service", "class", "failed", "attempts", "replays")
    return items(
        headings,
        [
            (
                (
                    row.dead_letter_id,
                    "" if one_queue else row.queue,
                    row.group,
                    row.service,
                    row.error_class,
                    f"{length(now - row.at)} ago",
                    str(row.attempts or ""),
                    str(row.replays or ""),
                ),
                (row.error, f"next: {row.next.command}"),
            )
            for row in rows
        ],
    )


def letter_page(detail: StreamDeadLetterDetail, now: float) -> RenderableType:
    """Return one dead letter: failure, message, context, earlier failures, and what comes next."""
    row = detail.row
    parts: list[RenderableType] = [
        Text(plain(f"dead letter {row.dead_letter_id} of {row.queue}"), style="bold"),
        facts(
            (
                ("group", row.group),
                ("message", row.message_id),
                ("key", row.key),
                ("service", row.service),
                ("error", row.error),
                ("class", f"{row.error_class} ({row.category})" if row.error_class else ""),
                ("given up", row.reason.replace("_", " ")),
                ("attempts", str(row.attempts or "")),
                ("replays", str(row.replays or "")),
                ("since", when(row.at, now)),
                ("size", count(row.size, "byte")),
            )
        ),
        Text("message", style="bold"),
        facts(_message(detail.message)),
    ]
    parts += _context(detail.context)
    if detail.events:
        parts += [Text("failures", style="bold"), facts(_event(each) for each in detail.events)]
    parts += [Text(), Text(plain(f"next: {row.next.what}"), style="bold"), Text(plain(f"  {row.next.command}"))]
    if row.next.hint:
        parts.append(Text(plain(f"  {row.next.hint}"), style="dim"))
    return Group(*parts)


def detail_as_json(detail: StreamDeadLetterDetail) -> dict[str, object]:
    """Return one dead letter as plain values."""
    whole = asdict(detail)
    row = whole.pop("row")
    if detail.raw is None:
        whole.pop("raw")
    else:
        whole["original_message"] = whole.pop("raw")
    return {**row, **whole}


def closed_page(dead_letter_id: str, queue: str, closed: ClosedDeadLetter, now: float) -> RenderableType:
    """Return what became of a dead letter that was replayed or discarded."""
    return Group(
        Text(plain(f"dead letter {dead_letter_id} of {queue} was {closed.outcome}"), style="bold"),
        facts(
            (
                ("by", closed.actor),
                ("when", when(closed.at, now)),
                ("reason", closed.reason),
                ("message", closed.message_id),
                ("class", closed.error_class),
                ("group", closed.group),
            )
        ),
    )


def stats_page(stats: StreamDeadLetterStats, now: float) -> RenderableType:
    """Return the figures of one queue."""
    over = f"in the last {length(stats.window)}"
    return Group(
        Text(plain(stats.queue), style="bold"),
        facts(
            (
                ("dead letters", f"{stats.depth:,}, {count(stats.bytes, 'byte')} of messages"),
                ("oldest", when(stats.oldest_at, now)),
                ("classes", _counted(stats.by_error_class)),
                ("categories", _counted(stats.by_category)),
                ("groups", _counted(stats.by_group)),
                ("failed again", f"{stats.failed_again:,} after a replay" if stats.failed_again else ""),
                ("inflow", f"{stats.inflow_last_hour:,} in the last hour, {stats.inflow_per_hour:,.1f} an hour {over}"),
                ("closed", f"{stats.replayed:,} replayed and {stats.discarded:,} discarded {over}"),
            )
        ),
    )


def _counted(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name or 'unknown'} {number:,}" for name, number in numbers.items())


def _message(message: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - a mapping, pairs or None
    if message is None:
        return [("", "it cannot be read: trimmed before it was handled, or written by another program")]
    pairs = list(message.items()) if isinstance(message, dict) else message
    return [(plain(str(name)), _shown(value)) for name, value in pairs]


def _values(values: Mapping[str, object]) -> list[tuple[str, str]]:
    return [
        (plain(name).replace("_", " "), _shown(value))
        for name, value in values.items()
        if value not in ({}, [], "", None)
    ]


def _context(context: Mapping[str, object]) -> Iterator[RenderableType]:
    """Yield the sections of the context; what is not as Reprieve writes it stays among the plain values."""
    left = dict(context)
    sections: list[tuple[str, RenderableType]] = []
    if (history := _history(left.get("history"))) is not None:
        del left["history"]
        sections.append(("history", facts(history)))
    if (evidence := _evidence(left.get("evidence"))) is not None:
        del left["evidence"]
        sections.append(("evidence", facts(evidence)))
    if isinstance(stack := left.get("stack"), str):
        del left["stack"]
        sections.append(("stack", Text("\n".join(plain(line) for line in stack.splitlines()))))
    if isinstance(origins := left.get("attempts_by_origin"), dict):
        left["attempts_by_origin"] = ", ".join(f"{name} {number}" for name, number in origins.items())
    if values := _values(left):
        sections.insert(0, ("context", facts(values)))
    for title, section in sections:
        yield Text(title, style="bold")
        yield section


def _history(history: object) -> list[tuple[str, str]] | None:
    if not isinstance(history, dict):
        return None
    return _values(
        {name: _moment(value) or value if name.endswith("_at") else value for name, value in history.items()}
    )


def _evidence(evidence: object) -> list[tuple[str, str]] | None:
    if not isinstance(evidence, list) or not all(isinstance(each, dict) for each in evidence):
        return None
    return [
        (
            plain(f"{each.get('link') or ''} {each.get('field') or ''}"),
            f"{each.get('value', '')} ({each.get('rule', '')})",
        )
        for each in evidence
    ]


def _event(event: Mapping[str, object]) -> tuple[str, str]:
    return _moment(event.get("at")) or "-", f"{event.get('error_class', '')}: {event.get('error', '')}"


def _moment(at: object) -> str:
    return clock(at) if isinstance(at, int | float) and 0 <= at < _YEAR_3000 else ""


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
