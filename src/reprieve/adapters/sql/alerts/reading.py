"""Look-ups about alerts, the same for both dialects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import or_, select, text

from reprieve.adapters.sql.alerts.noticing import LONG_OVER
from reprieve.adapters.sql.engine import Database
from reprieve.adapters.sql.tables import (
    alert_notices,
    alert_sinks,
    alerts,
    dead_letter_counts,
    dead_letter_groups,
    deliveries,
    stages,
)
from reprieve.core.alerts import Until
from reprieve.core.lifecycle import DeliveryStatus, LetterState
from reprieve.ports.alerting import AlertView, NoticeView, Over

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement

    from reprieve.ports.alerting import AlertFilter

# In the very words of the partial indexes: SQLite uses them only then.
_OPEN: Final = text("alerts.resolved_at IS NULL")
_OVER: Final = text("alerts.resolved_at IS NOT NULL")
_UNTOLD: Final = text("alert_notices.told_at IS NULL")
_VIEW: Final = tuple(
    alerts.c.id.label(name) if name == "alert_id" else alerts.c[name] for name in AlertView.__slots__
)  # fmt: skip
_NOTICE: Final = tuple(alert_notices.c[name] for name in NoticeView.__slots__)
_FIRST: Final = alert_notices.alias("first")
_ITS_TURN: Final = or_(
    alert_notices.c.kind == "raise",
    select(_FIRST.c.id)
    .where(
        _FIRST.c.alert_id == alert_notices.c.alert_id,
        _FIRST.c.sink == alert_notices.c.sink,
        _FIRST.c.kind == "raise",
        _FIRST.c.told_at.is_not(None),
    )
    .exists(),
)
"""An end is told once the beginning was."""
_SETTLING: Final = 60.0
"""Seconds within which a delivery is held of which an alert says so: that is raised before it is written."""
_DONE_WITH: Final = (LetterState.REPLAYED, LetterState.RESOLVED, LetterState.DISCARDED)

_PAUSED: Final = (
    select(stages.c.stage)
    .where(stages.c.pipeline == alerts.c.source, stages.c.stage == alerts.c.stage, stages.c.paused)
    .exists()
)
_UNSETTLED: Final = (
    select(dead_letter_counts.c.group_id)
    .join(dead_letter_groups, dead_letter_groups.c.id == dead_letter_counts.c.group_id)
    .where(
        dead_letter_groups.c.pipeline == alerts.c.source,
        dead_letter_groups.c.stage == alerts.c.stage,
        dead_letter_groups.c.error_class == alerts.c.error_class,
        dead_letter_counts.c.letters > 0,
        dead_letter_counts.c.state.not_in([state.value for state in _DONE_WITH]),
    )
    .exists()
)
_HOLDING: Final = (
    select(deliveries.c.id)
    .where(
        deliveries.c.sender == alerts.c.source,
        deliveries.c.status == DeliveryStatus.HELD.value,
        text("deliveries.status <> 'sent'"),
    )
    .exists()
)
_ENDED: Final[Mapping[Until, tuple[ColumnElement[bool], str]]] = {
    Until.RESUMED: (~_PAUSED, "the stage goes on"),
    Until.SETTLED: (~_UNSETTLED, "no dead letter of it is left"),
    Until.RELEASED: (~_HOLDING, "no delivery is held any more"),
}


class SqlAlertReader:
    """`ports.alerting.AlertReader` on SQLite and PostgreSQL; safe to use from several threads."""

    def __init__(self, url: str) -> None:
        self._database = Database.at(url, writes=False)

    def close(self) -> None:
        """Let go of the connections; may be called twice."""
        self._database.close()

    def alerts(self, wanted: AlertFilter) -> Sequence[AlertView]:
        """The newest first; page on with `after`."""
        statement = select(*_VIEW).order_by(alerts.c.id.desc()).limit(wanted.limit)
        if wanted.is_open is not None:
            statement = statement.where(_OPEN if wanted.is_open else alerts.c.resolved_at.is_not(None))
        for name in ("rule", "level", "source"):
            if getattr(wanted, name) is not None:
                statement = statement.where(alerts.c[name] == getattr(wanted, name))
        if wanted.after is not None:
            statement = statement.where(alerts.c.id < wanted.after)
        return [AlertView(**row) for row in self._values(statement)]

    def alert(self, alert_id: int) -> AlertView | None:
        """One, or None."""
        found = self._values(select(*_VIEW).where(alerts.c.id == alert_id))
        return AlertView(**found[0]) if found else None

    def notices(self, alert_id: int) -> Sequence[NoticeView]:
        """What its sinks have been told, in order."""
        of_alert = select(*_NOTICE).where(alert_notices.c.alert_id == alert_id).order_by(alert_notices.c.id)
        return [NoticeView(**row) for row in self._values(of_alert)]

    def over(self, now: float) -> Sequence[Over]:
        """Open alerts whose condition has ended by itself."""
        found = [
            Over(alert_id=row["id"], last_at=row["last_at"], why=f"nothing for {row['quiet']:g} s")
            for row in self._open(Until.QUIET)
            if row["last_at"] + row["quiet"] <= now
        ]
        for until, (ended, why) in _ENDED.items():
            latest = now - _SETTLING if until is Until.RELEASED else now
            found += [
                Over(alert_id=row["id"], last_at=row["last_at"], why=why)
                for row in self._open(until, ended)
                if row["last_at"] <= latest
            ]
        return found

    def _open(self, until: Until, *conditions: ColumnElement[bool]) -> Sequence[Mapping[str, Any]]:
        wanted = select(alerts.c.id, alerts.c.last_at, alerts.c.quiet)
        return self._values(wanted.where(_OPEN, alerts.c.over_when == until.value, *conditions))

    def has_to_tell(self, now: float, sinks: Sequence[str]) -> bool:
        """Whether one of these sinks has something to be told now, or is new."""
        due = select(alert_notices.c.id).where(
            _UNTOLD, alert_notices.c.not_before <= now, alert_notices.c.sink.in_(sinks), _ITS_TURN
        )
        if self._values(due.limit(1)):
            return True
        known = select(alert_sinks.c.sink, alert_sinks.c.since).where(alert_sinks.c.sink.in_(sinks))
        since = {row["sink"]: row["since"] for row in self._values(known)}
        return any(sink not in since or self._has_news(sink, max(since[sink], now - LONG_OVER)) for sink in sinks)

    def _has_news(self, sink: str, since: float) -> bool:
        """Whether there is an alert of which it has not heard: that it is open, or that it has come and gone since."""
        wanted = ("raise", (_OPEN,)), ("resolve", (_OVER, alerts.c.resolved_at > since))
        for kind, which in wanted:
            heard = select(alert_notices.c.id).where(
                alert_notices.c.alert_id == alerts.c.id, alert_notices.c.sink == sink, alert_notices.c.kind == kind
            )
            if self._values(select(alerts.c.id).where(*which, ~heard.exists()).limit(1)):
                return True
        return False

    def _values(self, statement: Any) -> Sequence[Mapping[str, Any]]:  # noqa: ANN401 - any selection
        with self._database.transaction() as connection:
            return [
                {str(name): value for name, value in row.items()} for row in connection.execute(statement).mappings()
            ]
