"""Alerts that ended long ago go, with what their sinks were told of them; and sightings that count for nothing any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, func, select, tuple_, update

from reprieve.adapters.sql.dead_letters.keeping import ERASED
from reprieve.adapters.sql.deliveries.keeping import chunks
from reprieve.adapters.sql.tables import alert_notices, alert_sightings, alerts, attempts, jobs
from reprieve.ports.alerting import AlertsPruned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection


def prune_alerts(
    connection: Connection, *, before: float, now: float, limit: int, dry: bool, after: int
) -> AlertsPruned:
    """Of the next ones, remove those that were resolved before and of which nobody has anything to be told any more."""
    following = select(alerts.c.id, alerts.c.resolved_at).where(alerts.c.id > after).order_by(alerts.c.id).limit(limit)
    rows = connection.execute(following).all()
    due = [row.id for row in rows if row.resolved_at is not None and row.resolved_at < before]
    telling = _telling(connection, due, now)
    gone = [alert_id for alert_id in due if alert_id not in telling]
    if gone and not dry:
        connection.execute(delete(alert_notices).where(alert_notices.c.alert_id.in_(gone)))
        connection.execute(delete(alerts).where(alerts.c.id.in_(gone)))
    return AlertsPruned(
        alerts=len(gone), kept_for_sinks=len(telling), more=len(rows) == limit, after=rows[-1].id if rows else after
    )


def _telling(connection: Connection, alert_ids: Sequence[int], now: float) -> set[int]:
    """Those of whose end a sink is still to be told, or of whose beginning one is told just now; the others' notices are held."""
    if not alert_ids:
        return set()
    of_alerts = select(alert_notices).where(alert_notices.c.alert_id.in_(alert_ids))
    rows = connection.execute(of_alerts.order_by(alert_notices.c.id).with_for_update()).all()
    heard = {(row.alert_id, row.sink) for row in rows if row.kind == "raise" and row.told_at is not None}
    untold = [row for row in rows if row.told_at is None]
    # What is put off stands there as what is being told does: a sink that is down is tried at least every ten minutes.
    return {row.alert_id for row in untold if row.kind == "resolve" and (row.alert_id, row.sink) in heard} | {
        row.alert_id for row in untold if row.kind == "raise" and row.attempts and row.not_before > now
    }


def erase_alerts(connection: Connection, job_ids: Sequence[int]) -> None:
    """Take out what alerts say of failures like those of these jobs: they quote the latest one."""
    for some in chunks(job_ids):
        like = (
            select(jobs.c.pipeline, attempts.c.stage, attempts.c.error_class)
            .join_from(attempts, jobs, jobs.c.id == attempts.c.job_id)
            .where(attempts.c.job_id.in_(some))
            .distinct()
        )
        for pipeline, stage, error_class in connection.execute(like).all():
            quoting = (alerts.c.source == pipeline, alerts.c.stage == stage, alerts.c.error_class == error_class)
            connection.execute(update(alerts).where(*quoting).values(summary=ERASED))


def prune_sightings(connection: Connection, *, oldest: float, limit: int, after: int) -> int | None:
    """Of the next ones, remove those that are older, or from before the end of an alert of theirs; where to go on."""
    following = select(alert_sightings).where(alert_sightings.c.id > after).order_by(alert_sightings.c.id).limit(limit)
    rows = connection.execute(following).all()
    if not rows:
        return None
    places = {(row.rule, row.key) for row in rows}
    ends = (
        select(alerts.c.rule, alerts.c.key, func.max(alerts.c.resolved_at).label("ended_at"))
        .where(tuple_(alerts.c.rule, alerts.c.key).in_(sorted(places)), alerts.c.resolved_at.is_not(None))
        .group_by(alerts.c.rule, alerts.c.key)
    )
    ended_at = {(row.rule, row.key): row.ended_at for row in connection.execute(ends)}
    dead = [row.id for row in rows if row.at <= max(oldest, ended_at.get((row.rule, row.key), oldest))]
    if dead:
        connection.execute(delete(alert_sightings).where(alert_sightings.c.id.in_(dead)))
    last: int = rows[-1].id
    return last if len(rows) == limit else None
