"""Groups of dead letters by their fingerprint: from what is counted as letters change, not from a million rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, select

from reprieve.adapters.sql.dead_letters.pages import kinds_of
from reprieve.adapters.sql.tables import dead_letter_counts, dead_letter_groups, dead_letter_hours, dead_letters
from reprieve.core.lifecycle import LetterState
from reprieve.ports.dead_letters import GroupFilter, GroupRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.engine import Connection

HOUR: Final = 3600
TREND: Final = 24
"""Hours."""


def last_hours(now: float) -> range:
    """The hours of a trend, by the clock."""
    current = int(now // HOUR)
    return range(current - TREND + 1, current + 1)


def read_groups(connection: Connection, wanted: GroupFilter, *, now: float) -> Sequence[GroupRow]:
    """A page of groups."""
    kinds = kinds_of(wanted)
    groups, counts = dead_letter_groups.c, dead_letter_counts.c
    count = func.sum(counts.letters)
    page = (
        select(groups.fingerprint, count.label("letters"))
        .join_from(dead_letter_counts, dead_letter_groups, groups.id == counts.group_id)
        .where(*kinds, counts.letters > 0)
        .group_by(groups.fingerprint)
        .order_by((count if wanted.by_count else func.max(groups.last_seen)).desc(), groups.fingerprint)
        .offset(wanted.offset)
        .limit(wanted.limit)
    )
    if wanted.states:
        page = page.where(counts.state.in_(sorted(wanted.states)))
    return _rows(connection, {row.fingerprint: row.letters for row in connection.execute(page)}, kinds, now=now)


def read_group(connection: Connection, fingerprint: str, *, now: float) -> GroupRow | None:
    """One; None where it has no member."""
    found = _rows(connection, {fingerprint: None}, [], now=now)
    return found[0] if found else None


def read_fingerprints(connection: Connection, prefix: str, *, limit: int) -> Sequence[str]:
    """Those that begin so."""
    fingerprint = dead_letter_groups.c.fingerprint
    # Not LIKE: it takes one case for the other on SQLite. There are thousands of groups, not millions.
    found = select(fingerprint).where(func.substr(fingerprint, 1, len(prefix)) == prefix).distinct()
    return sorted(connection.scalars(found))[:limit]


def _rows(
    connection: Connection, counts: Mapping[str, int | None], conditions: Sequence[ColumnElement[bool]], *, now: float
) -> list[GroupRow]:
    """The groups with these fingerprints, in this order; None for a count counts all."""
    of_page = select(dead_letter_groups).where(dead_letter_groups.c.fingerprint.in_(list(counts)), *conditions)
    kinds: defaultdict[str, list[Any]] = defaultdict(list)
    for kind in connection.execute(of_page.order_by(dead_letter_groups.c.first_seen, dead_letter_groups.c.id)):
        kinds[kind.fingerprint].append(kind)
    ids = [kind.id for several in kinds.values() for kind in several]
    states, newest = _members(connection, ids)
    deaths = _deaths(connection, ids, now)
    rows = [
        _row(kinds[fingerprint], count, states, newest, deaths, now)
        for fingerprint, count in counts.items()
        if any(kind.id in newest for kind in kinds[fingerprint])
    ]
    samples = select(dead_letters.c.id, dead_letters.c.signature).where(
        dead_letters.c.id.in_([row.sample_id for row in rows])
    )
    texts = {row.id: row.signature for row in connection.execute(samples)}
    return [replace(row, signature=texts[row.sample_id]) for row in rows]


def _row(
    kinds: Sequence[Any],
    count: int | None,
    states: Mapping[int, Counter[LetterState]],
    newest: Mapping[int, tuple[float, int]],
    deaths: Mapping[int, Counter[int]],
    now: float,
) -> GroupRow:
    by_state = _total(states[kind.id] for kind in kinds)
    hourly = _total(deaths[kind.id] for kind in kinds)
    return GroupRow(
        fingerprint=kinds[0].fingerprint,
        signature=kinds[0].signature,
        error_class=kinds[0].error_class,
        category=kinds[0].category,
        pipelines=sorted({kind.pipeline for kind in kinds}),
        stages=sorted({kind.stage for kind in kinds}),
        first_seen=kinds[0].first_seen,
        last_seen=max(kind.last_seen for kind in kinds),
        count=by_state.total() if count is None else count,
        by_state={state: by_state[state] for state in LetterState},
        trend=[hourly[hour] for hour in last_hours(now)],
        sample_id=max(newest[kind.id] for kind in kinds if kind.id in newest)[1],
    )


def _members(
    connection: Connection, ids: Sequence[int]
) -> tuple[Mapping[int, Counter[LetterState]], Mapping[int, tuple[float, int]]]:
    """By group: how many letters are in which state, and the key of the newest."""
    counts = dead_letter_counts.c
    of_range = (dead_letters.c.group_id == counts.group_id, dead_letters.c.state == counts.state)
    key = (dead_letters.c.last_failure_at, dead_letters.c.id)
    at, letter_id = (
        select(column).where(*of_range).order_by(*(each.desc() for each in key)).limit(1).scalar_subquery()
        for column in key
    )
    found = select(counts.group_id, counts.state, counts.letters, at, letter_id)
    states: defaultdict[int, Counter[LetterState]] = defaultdict(Counter)
    newest: dict[int, tuple[float, int]] = {}
    for group_id, state, letters, *last in connection.execute(
        found.where(counts.group_id.in_(ids), counts.letters > 0)
    ):
        states[group_id][LetterState(state)] = letters
        newest[group_id] = max(newest.get(group_id, (0.0, 0)), (last[0], last[1]))
    return states, newest


def _deaths(connection: Connection, ids: Sequence[int], now: float) -> Mapping[int, Counter[int]]:
    """By group and hour, of the last hours."""
    hours = dead_letter_hours.c
    # The hours one by one, not as a range: so the groups are looked up in each, and not looked for in all.
    found = select(hours.group_id, hours.hour, hours.deaths).where(
        hours.hour.in_(last_hours(now)), hours.group_id.in_(ids)
    )
    deaths: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for group_id, hour, count in connection.execute(found):
        deaths[group_id][hour] = count
    return deaths


def _total(counters: Iterable[Counter[Any]]) -> Counter[Any]:
    total: Counter[Any] = Counter()
    for each in counters:
        total.update(each)
    return total
