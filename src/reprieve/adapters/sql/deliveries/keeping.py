"""Upkeep of deliveries: their keys outlive their jobs, so that nobody is told twice; what they said does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import bindparam, delete, or_, select, update

from reprieve.adapters.sql.deliveries.reading import UNPROVEN
from reprieve.adapters.sql.tables import deliveries, delivery_attempts
from reprieve.core.lifecycle import DeliveryStatus
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy.engine import Connection

T = TypeVar("T")

_AT_ONCE: Final = 500
_NAMED: Final = 20
"""Ids in one statement, and in one message."""
_IN_DOUBT: Final = frozenset(
    {DeliveryStatus.SENDING, DeliveryStatus.UNCERTAIN, DeliveryStatus.RECONCILING, DeliveryStatus.HELD}
)
_NAMES: Final = ("changelist_id", "recipient", "token")
"""Columns that say who was told about what."""


def chunks(many: Sequence[T]) -> Iterator[Sequence[T]]:
    """As many as one statement takes."""
    return (many[start : start + _AT_ONCE] for start in range(0, len(many), _AT_ONCE))


def unsettled(connection: Connection, job_ids: Sequence[int]) -> set[int]:
    """Of these jobs, which are in the order of their ids, those with a delivery of which something is left to be done."""
    if not job_ids:
        return set()
    settled = [status.value for status in DeliveryStatus if status.settled]
    nearby = select(deliveries.c.job_id).where(
        deliveries.c.job_id.between(job_ids[0], job_ids[-1]), or_(deliveries.c.status.not_in(settled), UNPROVEN)
    )
    return set(connection.scalars(nearby))


def prune_told(connection: Connection, job_ids: Sequence[int]) -> None:
    """Remove what the deliveries of these jobs said, and what was tried for them; the rows stay."""
    for some in chunks(job_ids):
        of_jobs = deliveries.c.job_id.in_(some)
        ids = select(deliveries.c.id).where(of_jobs)
        connection.execute(delete(delivery_attempts).where(delivery_attempts.c.delivery_id.in_(ids)))
        connection.execute(update(deliveries).where(of_jobs, deliveries.c.body.is_not(None)).values(body=None))


class Told:
    """Whom a subject's jobs told, also those that were pruned; held, to be erased."""

    def __init__(self, connection: Connection, job_ids: Sequence[int], subject: str | None) -> None:
        """Find those of the jobs and, where it is given, all others of the subject; `UsageError` where one is in doubt."""
        self._connection = connection
        ids: set[int] = set()
        if subject is not None:
            ids.update(connection.scalars(select(deliveries.c.id).where(deliveries.c.changelist_id == subject)))
        for some in chunks(job_ids):
            ids.update(connection.scalars(select(deliveries.c.id).where(deliveries.c.job_id.in_(some))))
        columns = (deliveries.c[name] for name in ("id", "job_id", "status", *_NAMES))
        held = select(*columns).order_by(deliveries.c.id).with_for_update()
        self._rows = [
            row for some in chunks(sorted(ids)) for row in connection.execute(held.where(deliveries.c.id.in_(some)))
        ]
        doubtful = [str(row.id) for row in self._rows if row.status in _IN_DOUBT]
        if doubtful:
            more = f" and {len(doubtful) - _NAMED} more" if len(doubtful) > _NAMED else ""
            named = ", ".join(doubtful[:_NAMED])
            raise UsageError(f"deliveries of that subject are in doubt: {named}{more}; settle them, then erase")

    @property
    def job_ids(self) -> list[int]:
        """By which jobs; some may have been pruned."""
        return [row.job_id for row in self._rows]

    def erase(self, digest: Callable[[str], str]) -> None:
        """Make unreadable who was told about what, and remove what it said."""
        changes = [
            {"delivery": row.id, **{f"new_{name}": digest(getattr(row, name)) for name in _NAMES}} for row in self._rows
        ]
        new: dict[str, Any] = {name: bindparam(f"new_{name}") for name in _NAMES}
        if changes:
            self._connection.execute(
                update(deliveries).where(deliveries.c.id == bindparam("delivery")).values(body=None, **new), changes
            )
