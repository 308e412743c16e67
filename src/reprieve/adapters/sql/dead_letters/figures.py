"""The figures of the dead-letter queue: what is counted as letters change, and short ranges of indexes."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, func, or_, select, text

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

    from sqlalchemy import ColumnElement, Select, Table
    from sqlalchemy.engine import Connection

_LAST: Final = ("dead_letter", "abort")
"""What is decided where an attempt buries its job."""
_TIMED: Final = 1_000
"""Of how many that were resolved the median is taken."""
# In the very words of the partial indexes: SQLite uses them only then.
_RECOVERED: Final[Mapping[Table, str]] = {
    checkpoints: "checkpoints.attempt > 1",
    outcomes: "outcomes.status = 'succeeded' AND outcomes.attempt > 1",
}
"""Where stages are that succeeded at a second or later attempt."""


def read_stats(connection: Connection, *, now: float, window: float, pipeline: str | None) -> DeadLetterStats:
    """All figures; a window begins right after the moment so many seconds ago, and ends with now."""
    figures = _Figures(connection, pipeline, now)
    by_state = figures.by_state()
    errors, terminal, failed_again = figures.failed(window)
    recovered = figures.recovered(window)
    retries = failed_again + recovered
    resolved, durations = figures.resolved(window)
    return DeadLetterStats(
        by_state=by_state,
        size=sum(by_state[state] for state in DEAD),
        inflow_last_hour=figures.deaths(HOUR),
        inflow_per_hour=figures.deaths(window) / (window / HOUR),
        trend=figures.trend(),
        errors=errors,
        terminal_error_rate=terminal / errors if errors else None,
        retries=retries,
        retry_success_rate=recovered / retries if retries else None,
        oldest_at=figures.oldest(),
        resolved=resolved,
        median_resolution=median(durations) if durations else None,
        window=window,
    )


@dataclass(frozen=True, slots=True)
class _Figures:
    """One statement or two for each figure."""

    connection: Connection
    pipeline: str | None
    now: float

    def by_state(self) -> Mapping[LetterState, int]:
        """How many letters there are."""
        counts = dead_letter_counts.c
        found = select(counts.state, func.sum(counts.letters)).group_by(counts.state)
        if self.pipeline is not None:
            found = found.join(dead_letter_groups, dead_letter_groups.c.id == counts.group_id).where(*self._kinds())
        counted = {state: int(letters) for state, letters in self.connection.execute(found)}
        return {state: counted.get(state, 0) for state in LetterState}

    def deaths(self, window: float) -> int:
        """How often letters died: in whole hours as it was counted, less what was before and after, by the attempts."""
        begin = self.now - window
        first, last = int(begin // HOUR), int(self.now // HOUR)
        at = attempts.c.ended_at
        outside = or_(and_(at >= first * HOUR, at <= begin), and_(at > self.now, at < (last + 1) * HOUR))
        return int(self.connection.scalar(self._hours(first, last)) or 0) - self._buried(outside)

    def trend(self) -> Sequence[int]:
        """Deaths by the hour."""
        wanted = last_hours(self.now)
        hour = dead_letter_hours.c.hour
        found = self._hours(wanted[0], wanted[-1]).add_columns(hour).group_by(hour)
        deaths = {each: int(count) for count, each in self.connection.execute(found)}
        return [deaths.get(each, 0) for each in wanted]

    def failed(self, window: float) -> tuple[int, int, int]:
        """Attempts that failed, those of them that were terminal, and those that were not the first."""
        found = select(
            func.count(),
            func.count().filter(attempts.c.error_type == "terminal"),
            func.count().filter(attempts.c.number > 1),
        )
        errors, terminal, again = self.connection.execute(found.where(*self._in(attempts.c.ended_at, window))).one()
        return errors, terminal, again

    def recovered(self, window: float) -> int:
        """How many stages succeeded at a second or later attempt."""
        found = (
            select(func.count()).select_from(table).where(text(words), *self._in(table.c.finished_at, window))
            for table, words in _RECOVERED.items()
        )
        return sum(self.connection.scalar(each) or 0 for each in found)

    def oldest(self) -> float | None:
        """When the one died that has waited longest."""
        wanted = LetterFilter(states=DEAD, pipeline=self.pipeline, sort=Sort.OLDEST, limit=1)
        return next((row.last_failure_at for row in read_page(self.connection, wanted)), None)

    def resolved(self, window: float) -> tuple[int, Sequence[float]]:
        """How many were resolved, and how long the last of them took."""
        closed = dead_letters.c.closed_at
        conditions = (
            dead_letters.c.state == LetterState.RESOLVED.value,
            closed.is_not(None),
            *self._in(closed, window),
        )
        last = select(dead_letters.c.opened_at, closed).select_from(FROM_ROWS).where(*conditions, *self._kinds())
        rows = self.connection.execute(last.order_by(closed.desc()).limit(_TIMED))
        return self._letters(*conditions), [closed_at - opened_at for opened_at, closed_at in rows]

    def _in(self, column: ColumnElement[Any], window: float) -> tuple[ColumnElement[bool], ...]:
        return column > self.now - window, column <= self.now

    def _kinds(self) -> list[ColumnElement[bool]]:
        return [] if self.pipeline is None else [dead_letter_groups.c.pipeline == self.pipeline]

    def _letters(self, *conditions: ColumnElement[bool]) -> int:
        source = dead_letters if self.pipeline is None else FROM_ROWS
        found = select(func.count()).select_from(source).where(*conditions, *self._kinds())
        return self.connection.scalar(found) or 0

    def _hours(self, first: int, last: int) -> Select[tuple[int]]:
        """How many died from one hour to another."""
        hours = dead_letter_hours.c
        found = select(func.sum(hours.deaths)).where(hours.hour.between(first, last))
        if self.pipeline is None:
            return found
        return found.join(dead_letter_groups, dead_letter_groups.c.id == hours.group_id).where(*self._kinds())

    def _buried(self, condition: ColumnElement[bool]) -> int:
        found = select(func.count()).select_from(attempts).where(attempts.c.decision.in_(_LAST), condition)
        if self.pipeline is not None:
            found = found.join(FROM_ROWS, dead_letters.c.job_id == attempts.c.job_id).where(*self._kinds())
        return self.connection.scalar(found) or 0
