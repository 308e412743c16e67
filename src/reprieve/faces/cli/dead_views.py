"""Dead letters, their groups and figures, for people and for machines."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.text import Text

from reprieve.app.next_steps import next_step, next_step_of
from reprieve.core.lifecycle import DEAD, JobStatus, LetterEvent, LetterState
from reprieve.core.remedies import RootCause, likely_cause
from reprieve.core.signature import SIGNATURE_LENGTH
from reprieve.faces.cli.rendering import clock, count, facts, items, length, plain, status, when

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from reprieve.app.next_steps import NextStep
    from reprieve.ports.dead_letters import DeadLetterStats, GroupRow, HistoryEntry, LetterDetail, LetterRow

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_URGENT: Final = (
    LetterState.ESCALATED,
    LetterState.OPEN,
    LetterState.TRIAGED,
    LetterState.REMEDIATED,
    LetterState.APPROVED,
    LetterState.REPLAYED,
    LetterState.REPLAYING,
    LetterState.DISCARDED,
    LetterState.RESOLVED,
)
"""A group's next step is that of its members in the first of these states."""
_UNNAMED: Final = frozenset({LetterState.OPEN, LetterState.ESCALATED})


def row_as_json(row: LetterRow) -> dict[str, object]:
    """A dead letter in a list as plain values."""
    return {**asdict(row), "next": asdict(next_step_of(row))}


def detail_as_json(detail: LetterDetail) -> dict[str, object]:
    """A dead letter, whole, as plain values; the texts that hold JSON are opened."""
    whole = asdict(detail)
    row = whole.pop("row")
    whole["history"] = [{**entry, "detail": _opened(entry["detail"])} for entry in whole["history"]]
    whole["sanitized_context"] = _opened(detail.sanitized_context)
    whole["summary"] = None if detail.summary is None else _opened(detail.summary)
    return {**row, **whole, "next": asdict(next_step_of(detail.row))}


def group_as_json(group: GroupRow) -> dict[str, object]:
    """A group as plain values."""
    return {**asdict(group), "next": asdict(_next_of_group(group))}


def letter_list(rows: Sequence[LetterRow], now: float) -> RenderableType:
    """Each dead letter with what happened and what comes next under it."""
    headings = ("id", "state", "job", "pipeline.stage", "class", "died", "tries", "replays")
    return items(
        headings,
        [
            (
                (
                    str(row.letter_id),
                    _state(row),
                    str(row.job_id),
                    f"{row.pipeline}.{row.stage}",
                    row.error_class,
                    _ago(row.last_failure_at, now),
                    f"{row.attempts} of {row.budget}",
                    str(row.replays or ""),
                ),
                (_headline(row), f"next: {_told(next_step_of(row))}"),
            )
            for row in rows
        ],
    )


def group_list(
    groups: Sequence[GroupRow], now: float, *, states: frozenset[LetterState], blocks: bool
) -> RenderableType:
    """Each group with an example, what happened and what comes next under it; counted are those in these states."""
    headings = ("count", "states", "pipeline.stage", "class")
    return items(
        headings,
        [
            (
                (
                    f"{group.count:,}",
                    _counted(group.by_state, states),
                    ", ".join(f"{pipeline}.{stage}" for pipeline in group.pipelines for stage in group.stages),
                    group.error_class,
                ),
                (
                    shortened(group.signature),
                    f"{group.fingerprint}, for example {group.sample_id}",
                    (
                        f"first {_ago(group.first_seen, now)}, last {_ago(group.last_seen, now)}; in the last 24 hours: "
                        f"{trend(group.trend, blocks=blocks) or 'none'}"
                    ),
                    *_next_lines(group, states),
                ),
            )
            for group in groups
        ],
    )


def letter_page(detail: LetterDetail, now: float, *, stack: bool) -> RenderableType:
    """A dead letter: failure, context, stack, history, and what comes next."""
    row = detail.row
    parts: list[RenderableType] = [
        Text.assemble((f"dead letter {row.letter_id}", "bold"), f" of job {row.job_id}: ", _state(row)),
        _failure(detail, now),
    ]
    if detail.sanitized_context:
        parts += [Text("context", style="bold"), facts(_context(detail.sanitized_context))]
    lines = detail.last_stack.splitlines()
    if lines and stack:
        parts += [Text("stack", style="bold"), Text("\n".join(plain(line) for line in lines))]
    elif lines:
        parts.append(Text(f"stack: {count(len(lines), 'line')}; --stack shows them", style="dim"))
    if detail.history:
        parts += [Text("history", style="bold"), _history(detail.history, now)]
    if detail.summary is not None:
        parts += [Text("what is left of the history", style="bold"), facts(_context(detail.summary))]
    return Group(*parts, Text(), *_next_page(row))


def stats_page(stats: DeadLetterStats, now: float, *, blocks: bool) -> RenderableType:
    """The figures (ING-7.1)."""
    over = f"in the last {length(stats.window)}"
    return Group(
        facts(
            (
                ("in the queue", _queue(stats)),
                ("by state", _states(stats.by_state)),
                ("oldest", when(stats.oldest_at, now)),
                ("inflow", f"{stats.inflow_last_hour:,} in the last hour, {stats.inflow_per_hour:,.1f} an hour {over}"),
                ("last 24 hours", trend(stats.trend, blocks=blocks)),
                ("terminal errors", f"{_share(stats.terminal_error_rate, stats.errors)} {over}"),
                ("retries that succeed", f"{_share(stats.retry_success_rate, stats.retries)} {over}"),
                ("resolved", f"{stats.resolved:,} {over}"),
                (
                    "time to resolution",
                    "" if stats.median_resolution is None else f"{length(stats.median_resolution)} (median)",
                ),
            )
        )
    )


def _queue(stats: DeadLetterStats) -> str:
    """How many wait for a remedy, and those that are listed besides."""
    under_way = stats.by_state.get(LetterState.REPLAYING, 0)
    replayed = stats.by_state.get(LetterState.REPLAYED, 0)
    besides = [f"{under_way:,} replaying"] * bool(under_way) + [f"{replayed:,} replayed and to be verified"] * bool(
        replayed
    )
    return "; besides ".join(filter(None, (f"{stats.size:,} that wait for a remedy", ", ".join(besides))))


def trend(numbers: Sequence[int], *, blocks: bool) -> str:
    """Numbers as a small picture; as they are where a terminal cannot draw it. Empty where all are 0."""
    highest = max(numbers, default=0)
    if not highest:
        return ""
    if not blocks:
        return " ".join(str(number) for number in numbers)
    return "".join(_BLOCKS[-(-number * (len(_BLOCKS) - 1) // highest)] for number in numbers)


def _failure(detail: LetterDetail, now: float) -> Table:
    row = detail.row
    return facts(
        (
            ("pipeline", row.pipeline),
            ("stage", row.stage),
            ("class", f"{row.error_class} ({row.category})"),
            ("message", detail.message),
            ("status", "" if row.status_code is None else str(row.status_code)),
            ("attempts", f"{row.attempts} of {row.budget}"),
            ("policy", detail.policy),
            ("given up", detail.reason.replace("_", " ")),
            ("first failure", when(row.first_failure_at, now)),
            ("last failure", when(row.last_failure_at, now)),
            ("in the queue since", when(row.opened_at, now)),
            ("closed", when(row.closed_at, now)),
            ("signature", row.signature),
            ("fingerprint", row.fingerprint),
            ("cause", _cause(row)),
            ("replays", str(row.replays) if row.replays else ""),
            ("campaign", "" if row.campaign_id is None else str(row.campaign_id)),
            ("job", _job(detail)),
            ("stages that are done", ", ".join(detail.finished_stages)),
            ("payload", _payload(detail)),
        )
    )


def _history(history: Sequence[HistoryEntry], now: float) -> RenderableType:
    headings = ("when", "who", "what", "state")
    return items(
        headings,
        [
            (
                (
                    when(entry.at, now),
                    entry.actor,
                    entry.event,
                    entry.after if entry.before == entry.after else f"{entry.before} -> {entry.after}",
                ),
                (entry.note, _told_of(entry)),
            )
            for entry in history
        ],
    )


def _told_of(entry: HistoryEntry) -> str:
    """What is known of it besides, in a line."""
    known = _opened(entry.detail)
    match entry.event:
        case LetterEvent.TRIAGE if "cause" in known:
            return f"cause: {known['cause']}"
        case LetterEvent.VERIFY:
            told = f"untold: {known['undelivered']}" if known.get("undelivered") else "everybody was told"
            return f"job {known.get('job_status')}, {told}"
        case LetterEvent.RELAPSE | LetterEvent.FAIL if isinstance(known.get("before"), dict):
            before = known.pop("before")
            same = all(known.get(name) == before.get(name) for name in ("error_class", "stage", "fingerprint"))
            how = f"{known.get('error_class')} at {known.get('stage')}: {known.get('message')}"
            return (
                f"failed again the same way: {how}"
                if same
                else f"failed with {how}; before it was {before.get('error_class')}"
            )
        case _:
            return _flat(known)


def _next_page(row: LetterRow) -> list[Text]:
    step = next_step_of(row)
    lines = [Text(f"next: {step.what}", style="bold")]
    if step.command is not None:
        lines.append(Text(f"  {step.command}"))
    if step.hint is not None:
        lines.append(Text(f"  {step.hint}", style="dim"))
    if row.state in DEAD and row.state is not LetterState.APPROVED and row.waits_in is None:
        named = row.cause or likely_cause(row.category) or "CAUSE"
        whole = f"reprieve dead replay {row.letter_id} --cause {named} --evidence '...' --safe"
        lines += [Text("in one go:", style="dim"), Text(f"  {whole}")]
        if named == RootCause.DATA:
            lines.append(Text("  with --set PATH=JSON or --payload FILE where its payload is wrong", style="dim"))
    return lines


def _job(detail: LetterDetail) -> str | Text:
    if detail.job_status is None:
        return "removed"
    shown = status(detail.job_status)
    if detail.job_status is not JobStatus.CANCELLED or not detail.job_ended_by:
        return shown
    return Text.assemble(
        shown, plain(f" by {detail.job_ended_by}{f': {detail.job_reason}' if detail.job_reason else ''}")
    )


def _cause(row: LetterRow) -> str:
    likely = likely_cause(row.category)
    if row.cause is None:
        return "" if likely is None else f"not named yet; likely {likely}"
    return f"to be named anew; it was {row.cause}" if row.state in _UNNAMED else row.cause


def _payload(detail: LetterDetail) -> str:
    if detail.payload_kept:
        return f"kept: reprieve jobs show {detail.row.job_id} --payload"
    return "not kept: it cannot be replayed"


def _next_of_group(group: GroupRow, states: frozenset[LetterState] = frozenset(LetterState)) -> NextStep:
    state = next((each for each in _URGENT if each in states and group.by_state.get(each)), LetterState.RESOLVED)
    return next_step(state, f"--group {group.fingerprint}", category=group.category)


def _next_lines(group: GroupRow, states: frozenset[LetterState]) -> list[str]:
    """What comes next, for members in each state on its own where they are in several that ask for something."""
    asking = [each for each in _URGENT if group.by_state.get(each) and each in states and not each.closed]
    asking = [each for each in asking if each is not LetterState.REPLAYING] or asking
    if len(asking) < 2:  # noqa: PLR2004 - several
        return [f"next: {_told(_next_of_group(group, states))}"]
    steps = [(each, next_step(each, f"--group {group.fingerprint}", category=group.category)) for each in asking]
    return [f"next: {_told(step)}    # {group.by_state[each]:,} {each}" for each, step in steps]


def _counted(by_state: Mapping[LetterState, int], states: frozenset[LetterState]) -> str:
    """The states of those that are counted; what else there is stands in brackets."""
    others = _states({state: number for state, number in by_state.items() if state not in states})
    shown = _states({state: number for state, number in by_state.items() if state in states})
    return f"{shown} (and {others})" if others else shown


def _told(step: NextStep) -> str:
    return step.command or step.what


def _state(row: LetterRow) -> Text:
    shown = status(row.state)
    return Text.assemble(shown, " (escalated)") if row.escalated and row.state is not LetterState.ESCALATED else shown


def _states(by_state: Mapping[LetterState, int]) -> str:
    return ", ".join(f"{state} {by_state[state]:,}" for state in _URGENT if by_state.get(state))


def _headline(row: LetterRow) -> str:
    """What it failed with, in a line: the status, and how its message begins, in which numbers are an N."""
    status = "" if row.status_code is None else f"{row.status_code}: "
    return status + shortened(row.signature)


def shortened(signature: str) -> str:
    """A signature that was cut ends with a whole word."""
    return signature if len(signature) < SIGNATURE_LENGTH else f"{signature.rpartition(' ')[0] or signature} ..."


def _ago(moment: float, now: float) -> str:
    return f"{length(now - moment)} ago"


def _share(rate: float | None, number: int) -> str:
    return "none" if rate is None else f"{100 * rate:.1f} % of {number:,}"


def _context(text: str) -> list[tuple[str, str]]:
    opened = _opened(text)
    return [(name.replace("_", " "), _moment(name, value)) for name, value in opened.items()] if opened else []


def _moment(name: str, value: Any) -> str:  # noqa: ANN401 - what JSON can hold
    """A value in a line; the time of one that is a time."""
    return clock(value) if name.endswith("_at") and isinstance(value, int | float) else _flat(value)


def _flat(value: Any) -> str:  # noqa: ANN401 - what JSON can hold
    """A value in a line; what is not there is left out."""
    match value:
        case None | False | "":
            return ""
        case dict():
            parts = {name.replace("_", " "): _flat(each) for name, each in value.items()}
            return ", ".join(f"{name}: {each}" for name, each in parts.items() if each and each != "0")
        case list():
            return ", ".join(_flat(each) for each in value)
        case _:
            return str(value)


def _opened(text: str) -> Any:  # noqa: ANN401 - what JSON can hold
    try:
        return json.loads(text)
    except ValueError:
        return {"text": text} if text else {}
