"""Look-ups on deliveries, the same for both dialects; those of a sweep go through what is not settled, never through all."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, func, not_, null, or_, select, text

from reprieve.adapters.sql.deliveries.rows import record
from reprieve.adapters.sql.deliveries.statements import RECORD
from reprieve.adapters.sql.engine import Database
from reprieve.adapters.sql.tables import dead_letters, deliveries, delivery_attempts, outcomes, queue
from reprieve.core.delivery import LEFT_OUT, REPLAYED
from reprieve.core.lifecycle import CLOSED, DeliveryStatus, JobStatus
from reprieve.ports.deliveries import DeliveryDetail
from reprieve.ports.intents import DeliveryAttempt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.engine import Connection

    from reprieve.ports.deliveries import DeliveryFilter
    from reprieve.ports.intents import DeliveryRecord

# In the very words of the partial indexes: SQLite uses them only then.
_OPEN: Final = text("deliveries.status <> 'sent'")
_UNSETTLED: Final = text("deliveries.status IN ('sending', 'uncertain', 'reconciling')")
UNPROVEN: Final = text(
    "deliveries.status = 'sent' AND deliveries.notification_id IS NULL AND deliveries.evidence IS NULL"
)
_PENDING: Final = and_(text("deliveries.status = 'pending'"), _OPEN)

_WHOLE: Final = tuple(deliveries.c[name] for name in RECORD)
_BODILESS: Final = tuple(null().label(name) if name == "body" else deliveries.c[name] for name in RECORD)
_ATTEMPT: Final = tuple(delivery_attempts.c[field.name] for field in fields(DeliveryAttempt))
_UNTOLD: Final = and_(
    deliveries.c.required,
    or_(deliveries.c.status != DeliveryStatus.SENT.value, deliveries.c.notified_at.is_(None)),
    not_(and_(deliveries.c.status == DeliveryStatus.FAILED.value, deliveries.c.reason.is_not_distinct_from(LEFT_OUT))),
)
_ended: Final = outcomes.c.job_id == deliveries.c.job_id
_ABANDONED: Final = (
    select(deliveries.c.id)
    .join(outcomes, _ended)
    .where(outcomes.c.status.in_([JobStatus.CANCELLED.value, JobStatus.SKIPPED.value]), not_(deliveries.c.resent)),
    select(deliveries.c.id)
    .join(dead_letters, dead_letters.c.job_id == deliveries.c.job_id)
    .join(outcomes, _ended)
    .where(
        outcomes.c.status == JobStatus.DEAD_LETTER.value,
        dead_letters.c.state.in_(sorted(state.value for state in CLOSED)),
        not_(deliveries.c.resent),
    ),
    select(deliveries.c.id)
    .join(outcomes, _ended)
    .where(outcomes.c.status == JobStatus.SUCCEEDED.value, deliveries.c.reason == REPLAYED),
    # Pruning and erasing take the body along. To look for each one's job would be to read all jobs.
    select(deliveries.c.id).where(deliveries.c.body.is_(None)),
)
"""Whose job was cancelled or skipped; given up; replayed, and has told others; pruned or erased.

Not what a person has put back since: a sweep sends that.
"""


class SqlDeliveryReader:
    """`ports.deliveries.DeliveryReader` on SQLite and PostgreSQL; safe to use from several threads."""

    def __init__(self, url: str) -> None:
        self._database = Database.at(url, writes=False)

    def close(self) -> None:
        """Let go of the connections; may be called twice."""
        self._database.close()

    def deliveries(self, wanted: DeliveryFilter) -> Sequence[DeliveryRecord]:
        """The newest first, without bodies; page on with `after`."""
        statement = select(*_BODILESS).order_by(deliveries.c.id.desc()).limit(wanted.limit)
        for name in ("job_id", "changelist_id", "recipient", "sender"):
            value = getattr(wanted, name)
            if value is not None:
                statement = statement.where(deliveries.c[name] == value)
        if wanted.senders is not None:
            statement = statement.where(deliveries.c.sender.in_(sorted(wanted.senders)))
        if wanted.statuses:
            statement = statement.where(deliveries.c.status.in_(sorted(wanted.statuses)))
            if DeliveryStatus.SENT not in wanted.statuses:
                statement = statement.where(_OPEN)
        if wanted.after is not None:
            statement = statement.where(deliveries.c.id < wanted.after)
        return self._records(statement)

    def delivery(self, delivery_id: int) -> DeliveryDetail | None:
        """One, with its attempts."""
        tried = select(*_ATTEMPT).where(delivery_attempts.c.delivery_id == delivery_id).order_by(delivery_attempts.c.id)
        with self._database.transaction() as connection:
            row = connection.execute(select(*_BODILESS).where(deliveries.c.id == delivery_id)).one_or_none()
            if row is None:
                return None
            attempts = [DeliveryAttempt(**values) for values in connection.execute(tried).mappings()]
            return DeliveryDetail(row=record(row), attempts=attempts)

    def body(self, delivery_id: int) -> bytes | None:
        """What was frozen; None where there is no such delivery, or it was erased."""
        with self._database.transaction() as connection:
            return connection.scalar(select(deliveries.c.body).where(deliveries.c.id == delivery_id))

    def due(self, *, now: float, senders: frozenset[str], limit: int) -> Sequence[DeliveryRecord]:
        """What a sweep has to look at now, with bodies, the longest due first."""
        with self._database.transaction() as connection:
            return _first(connection, _due(now, deliveries.c.sender.in_(sorted(senders))), _WHOLE, limit)

    def orphaned(self, *, before: float, senders: frozenset[str], limit: int) -> Sequence[DeliveryRecord]:
        """What would be due, of any sender but these, and has been left alone since before then."""
        unknown = and_(deliveries.c.sender.not_in(sorted(senders)), deliveries.c.changed_at <= before)
        with self._database.transaction() as connection:
            return _first(connection, _due(before, unknown), _BODILESS, limit)

    def abandoned(self, *, limit: int) -> Sequence[DeliveryRecord]:
        """Pending ones that nobody will send: their job was cancelled, skipped or pruned, or its dead letter closed."""
        with self._database.transaction() as connection:
            found = {
                delivery_id
                for each in _ABANDONED
                for delivery_id in connection.scalars(each.where(_PENDING).order_by(deliveries.c.id).limit(limit))
            }
        ids = sorted(found)[:limit]
        return (
            self._records(select(*_BODILESS).where(deliveries.c.id.in_(ids)).order_by(deliveries.c.id)) if ids else []
        )

    def unserved(self, job_id: int) -> Mapping[DeliveryStatus, int]:
        """How many required recipients of a job have not been told, by status."""
        with self._database.transaction() as connection:
            return read_unserved(connection, job_id)

    def _records(self, statement: Select[Any]) -> Sequence[DeliveryRecord]:
        with self._database.transaction() as connection:
            return [record(row) for row in connection.execute(statement)]


def read_unserved(connection: Connection, job_id: int) -> dict[DeliveryStatus, int]:
    """How many required recipients of a job have not been told, by status."""
    counted = select(deliveries.c.status, func.count()).where(deliveries.c.job_id == job_id, _UNTOLD)
    return {
        DeliveryStatus(status): count for status, count in connection.execute(counted.group_by(deliveries.c.status))
    }


def _first(
    connection: Connection, statements: Iterable[Select[Any]], columns: Sequence[ColumnElement[Any]], limit: int
) -> list[DeliveryRecord]:
    """Of what several statements find, the rows that have been so the longest."""
    found = sorted(row for each in statements for row in connection.execute(each.limit(limit)))
    ids = [delivery_id for _, delivery_id in found[:limit]]
    if not ids:
        return []
    rows = {row.id: record(row) for row in connection.execute(select(*columns).where(deliveries.c.id.in_(ids)))}
    return [rows[delivery_id] for delivery_id in ids if delivery_id in rows]


def _due(now: float, which: ColumnElement[bool]) -> Sequence[Select[Any]]:
    """Since when, and which: each in the order of an index, so that of many only the first are read."""
    since: ColumnElement[Any] = func.coalesce(
        deliveries.c.not_before, deliveries.c.leased_until, deliveries.c.changed_at
    )
    wanted = select(since.label("since"), deliveries.c.id).where(
        which,
        or_(deliveries.c.leased_until.is_(None), deliveries.c.leased_until <= now),
    )
    # Two statements, not one with OR: the index is in the order of the time.
    at_any_time, at_its_time = deliveries.c.not_before.is_(None), deliveries.c.not_before <= now
    over = and_(_ended, or_(outcomes.c.status == JobStatus.SUCCEEDED.value, deliveries.c.resent))
    waiting = and_(queue.c.job_id == deliveries.c.job_id, text("queue.state = 3 AND queue.waits_on LIKE 'delivery:%'"))
    pending = and_(
        _PENDING, or_(at_any_time, at_its_time), or_(deliveries.c.reason.is_(None), deliveries.c.reason != REPLAYED)
    )
    return (
        wanted.where(_UNSETTLED, at_any_time).order_by(deliveries.c.not_before, deliveries.c.id),
        wanted.where(_UNSETTLED, at_its_time).order_by(deliveries.c.not_before, deliveries.c.id),
        wanted.where(UNPROVEN, or_(at_any_time, at_its_time)).order_by(deliveries.c.id),
        wanted.join(outcomes, over).where(pending).order_by(deliveries.c.id),
        wanted.join(queue, waiting).where(pending).order_by(deliveries.c.id),
    )
