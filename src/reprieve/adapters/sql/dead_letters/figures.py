"""The figures of the dead-letter queue: what is counted as letters change, and short ranges of indexes."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, select, text

from reprieve.adapters.sql.dead_letters.groups import HOUR, last_hours
from reprieve.adapters.sql.dead_letters.pages import FROM_ROWS, read_page
from reprieve.adapters.sql.tables import (
    attempts,
    checkpoints,
    dead_letter_counts,
    dead_letter_groups,
    dead_letter_hours,
    dead_letters,
    outcomes,
)
from reprieve.core.lifecycle import DEAD, LetterState
from reprieve.ports.dead_letters import DeadLetterStats, LetterFilter, Sort

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.engine import Connection

_RESOLVED: Final = 1_000
"""Of how many the median is taken."""


def read_stats(connection: Connection, *, now: float, window: float, pipeline: str | None) -> DeadLetterStats:
    """All figures; a window is from `window` seconds ago, which is out of it, to now, which is in it."""
    kinds = [] if pipeline is None else [dead_letter_groups.c.pipeline == pipeline]
    by_state = _by_state(connection, kinds)
    died = _deaths(connection, kinds, now=now, window=window)
    errors, terminal, failed_again = _failed(connection, now=now, window=window)
    recovered = _recovered(connection, now=now, window=window)
    retries = failed_again + recovered
    resolved, durations = _resolved(connection, kinds, now=now, window=window)
    oldest = read_page(connection, LetterFilter(states=DEAD, pipeline=pipeline, sort=Sort.OLDEST, limit=1))
    return DeadLetterStats(
        by_state=by_state,
        size=sum(by_state[state] for state in DEAD),
        inflow_last_hour=_deaths(connection, kinds, now=now, window=HOUR),
        inflow_per_hour=died / (window / HOUR),
        trend=_trend(connection, kinds, now=now),
        errors=errors,
        terminal_error_rate=terminal / errors if errors else None,
        retries=retries,
        retry_success_rate=recovered / retries if retries else None,
        oldest_at=oldest[0].last_failure_at if oldest else None,
        resolved=resolved,
        median_resolution=median(durations) if durations else None,
        window=window,
    )


def _within(column: ColumnElement[Any], *, now: float, window: float) -> tuple[ColumnElement[bool], ...]:
    return column > now - window, column <= now


def _by_state(connection: Connection, kinds: Sequence[ColumnElement[bool]]) -> Mapping[LetterState, int]:
    counts = dead_letter_counts.c
    found = select(counts.state, func.sum(counts.letters)).group_by(counts.state)
    if kinds:
        found = found.join(dead_letter_groups, dead_letter_groups.c.id == counts.group_id).where(*kinds)
    counted = {state: int(letters) for state, letters in connection.execute(found)}
    return {state: counted.get(state, 0) for state in LetterState}


def _deaths(connection: Connection, kinds: Sequence[ColumnElement[bool]], *, now: float, window: float) -> int:
    """How many letters died in the window, by the time at which each died last."""
    recent = _within(dead_letters.c.last_failure_at, now=now, window=window)
    # State by state, as the index has it.
    found = select(func.count()).where(dead_letters.c.state.in_(sorted(LetterState)), *recent)
    found = found.select_from(FROM_ROWS).where(*kinds) if kinds else found.select_from(dead_letters)
    return connection.scalar(found) or 0


def _trend(connection: Connection, kinds: Sequence[ColumnElement[bool]], *, now: float) -> Sequence[int]:
    hours = dead_letter_hours.c
    found = select(hours.hour, func.sum(hours.deaths)).where(hours.hour.in_(last_hours(now))).group_by(hours.hour)
    if kinds:
        found = found.join(dead_letter_groups, dead_letter_groups.c.id == hours.group_id).where(*kinds)
    deaths = {hour: int(count) for hour, count in connection.execute(found)}
    return [deaths.get(hour, 0) for hour in last_hours(now)]


def _failed(connection: Connection, *, now: float, window: float) -> tuple[int, int, int]:
    """Failed attempts, those of them that were terminal, and those that were not the first."""
    found = select(
        func.count(),
        func.count().filter(attempts.c.error_type == "terminal"),
        func.count().filter(attempts.c.number > 1),
    ).where(*_within(attempts.c.ended_at, now=now, window=window))
    errors, terminal, again = connection.execute(found).one()
    return errors, terminal, again


def _recovered(connection: Connection, *, now: float, window: float) -> int:
    """Stages that succeeded at a second or later attempt."""
    # In the very words of the partial indexes: SQLite uses them only then.
    retried = {
        checkpoints: "checkpoints.attempt > 1",
        outcomes: "outcomes.status = 'succeeded' AND outcomes.attempt > 1",
    }
    recent = {table: _within(table.c.finished_at, now=now, window=window) for table in retried}
    return sum(
        connection.scalar(select(func.count()).select_from(table).where(text(words), *recent[table])) or 0
        for table, words in retried.items()
    )


def _resolved(
    connection: Connection, kinds: Sequence[ColumnElement[bool]], *, now: float, window: float
) -> tuple[int, Sequence[float]]:
    """How many were resolved in the window, and how long the last of them took."""
    closed = (dead_letters.c.state == LetterState.RESOLVED.value, dead_letters.c.closed_at.is_not(None))
    conditions = (*closed, *_within(dead_letters.c.closed_at, now=now, window=window), *kinds)
    source = FROM_ROWS if kinds else dead_letters
    count = connection.scalar(select(func.count()).select_from(source).where(*conditions)) or 0
    last = select(dead_letters.c.opened_at, dead_letters.c.closed_at).select_from(source).where(*conditions)
    rows = connection.execute(last.order_by(dead_letters.c.closed_at.desc()).limit(_RESOLVED))
    return count, [closed_at - opened_at for opened_at, closed_at in rows]
