"""Upkeep, the same for both dialects: pruning, erasing, upgrading; in small transactions, so that nobody waits long."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from sqlalchemy import and_, bindparam, delete, select, update

from reprieve.adapters.sql import copying, schema
from reprieve.adapters.sql.alerts.keeping import erase_alerts, prune_alerts, prune_sightings
from reprieve.adapters.sql.analysis.keeping import erase_reviews, erase_signatures, prune_material, prune_reviews
from reprieve.adapters.sql.dead_letters import keeping
from reprieve.adapters.sql.deliveries.keeping import Told, chunks, prune_told, unsettled
from reprieve.adapters.sql.engine import Database
from reprieve.adapters.sql.tables import (
    attempts,
    checkpoints,
    dead_letters,
    jobs,
    memos,
    meta,
    outcomes,
    queue,
    revisions,
)
from reprieve.adapters.sql.views import jobs_of_subject
from reprieve.core.lifecycle import LetterState
from reprieve.errors import RefusedError, SchemaError
from reprieve.ports.reader import Pruned, SchemaView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from reprieve.ports.alerting import AlertsPruned
    from reprieve.ports.dead_letters import LettersPruned
    from reprieve.ports.reviews import ReviewsPruned

_OF_A_JOB: Final = (*(each.c.job_id for each in (memos, attempts, checkpoints, revisions, outcomes)), jobs.c.id)
_NAMED: Final = 20
"""Ids in one message."""


class SqlKeeper:
    """The keepers of jobs, dead letters, reviews and alerts in `ports`, on SQLite and PostgreSQL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._database = Database.at(url, writes=True)

    def close(self) -> None:
        """Let go of the connections; may be called twice."""
        self._database.close()

    def prune(self, *, before: float, pipeline: str | None, limit: int, dry: bool, after: int = 0) -> Pruned:
        """Of the next `limit` jobs that are over, remove those that ended before; never one of which something is left to do."""
        # By id, and not by time: no index on the time has to be kept up for it with every job that ends.
        following = (
            select(outcomes.c.job_id, outcomes.c.finished_at, jobs.c.created_at, jobs.c.pipeline)
            # Said of both: PostgreSQL would walk through all jobs up to there.
            .outerjoin_from(outcomes, jobs, and_(jobs.c.id == outcomes.c.job_id, jobs.c.id > after))
            .where(outcomes.c.job_id > after)
            .order_by(outcomes.c.job_id)
            .limit(limit)
        )
        with self._database.transaction() as connection:
            rows = connection.execute(following).all()
            due = [row.job_id for row in rows if row.finished_at < before and pipeline in (None, row.pipeline)]
            pinned = _pinned(connection, due)
            closed = [job_id for job_id in due if job_id not in pinned]
            telling = unsettled(connection, closed)
            gone = [job_id for job_id in closed if job_id not in telling]
            if not dry:
                prune_told(connection, gone)
                prune_reviews(connection, gone)
                for column in _OF_A_JOB:
                    for some in chunks(gone):
                        connection.execute(delete(column.table).where(column.in_(some)))
        # What was submitted since cannot have ended before; the ids are in the order of submission, or nearly so.
        more = len(rows) == limit and any(row.created_at is None or row.created_at < before for row in rows)
        last = rows[-1].job_id if rows else after
        return Pruned(
            jobs=len(gone), kept_for_dead_letters=len(due) - len(closed), kept_for_deliveries=len(closed) - len(gone),
            more=more, after=last,
        )  # fmt: skip

    def prune_letters(self, *, before: float, limit: int, dry: bool, after: int = 0) -> LettersPruned:
        """Of the next `limit` that are closed, reduce those that were closed before to a summary: texts and entries go."""
        with self._database.transaction() as connection:
            return keeping.prune_letters(connection, before=before, limit=limit, dry=dry, after=after)

    def prune_reviews(self, *, before: float, limit: int, dry: bool, after: int = 0) -> ReviewsPruned:
        """Of the next `limit` reviews, take samples, schema and the model's answers out of those of signatures that were closed before."""
        with self._database.transaction() as connection:
            return prune_material(connection, before=before, limit=limit, dry=dry, after=after)

    def erase_signatures(self, signatures: Sequence[str], *, now: float) -> Sequence[str]:
        """Remove all that is known of these, or nothing; those of which something was."""
        with self._database.transaction() as connection:
            return erase_signatures(connection, signatures, now=now)

    def prune_sightings(self, *, oldest: float, limit: int, after: int = 0) -> int | None:
        """Of the next `limit`, remove those that are older, or whose alert has ended since; where to go on."""
        with self._database.transaction() as connection:
            return prune_sightings(connection, oldest=oldest, limit=limit, after=after)

    def prune_alerts(self, *, before: float, now: float, limit: int, dry: bool, after: int = 0) -> AlertsPruned:
        """Of the next `limit`, remove those that were resolved before, with their notices; never one that is being told of."""
        with self._database.transaction() as connection:
            return prune_alerts(connection, before=before, now=now, limit=limit, dry=dry, after=after)

    def erase(self, subject: str, *, pipeline: str | None) -> int:
        """Remove payloads, results, memos and what failures said of a subject's jobs, which must be over, and whom they told; how many."""
        with self._database.transaction() as connection:
            found = select(jobs.c.id, jobs.c.idempotency_key).where(jobs.c.id.in_(jobs_of_subject(subject, pipeline)))
            rows = connection.execute(found.order_by(jobs.c.id).with_for_update()).all()
            ids = [row.id for row in rows]
            _refuse_open(connection, ids)
            told = Told(connection, ids, subject if pipeline is None else None)
            if not told.job_ids and not ids:
                return 0
            # A name that comes back is like none before: the ids of jobs never come back.
            digest = _digest_of(connection, salt=min([*ids, *told.job_ids]))
            told.erase(digest)
            if not rows:
                return 0
            connection.execute(
                update(jobs)
                .where(jobs.c.id == bindparam("job"))
                .values(payload=None, subject=digest(subject), idempotency_key=bindparam("new_key")),
                [{"job": row.id, "new_key": digest(row.idempotency_key)} for row in rows],
            )
            erase_reviews(connection, ids)
            erase_alerts(connection, ids)
            for some in chunks(ids):
                keeping.erase_letters(connection, some)
                connection.execute(
                    update(attempts)
                    .where(attempts.c.job_id.in_(some))
                    .values(message=keeping.ERASED, signature=keeping.ERASED, failure="{}")
                )
                connection.execute(update(outcomes).where(outcomes.c.job_id.in_(some)).values(result=None))
                connection.execute(update(checkpoints).where(checkpoints.c.job_id.in_(some)).values(result=None))
                connection.execute(update(revisions).where(revisions.c.job_id.in_(some)).values(payload=None))
                connection.execute(delete(memos).where(memos.c.job_id.in_(some)))
            return len(ids)

    def schema(self) -> SchemaView:
        """Whether the tables are those that this version needs; changes nothing."""
        state = schema.check(self._url)
        return SchemaView(fit=state.fit, revision=state.revision, wanted=state.wanted)

    def upgrade(self) -> None:
        """Make the tables, or bring them up to date."""
        schema.upgrade(self._url)

    def copy_to(self, url: str, told: Callable[[str, int], None]) -> Mapping[str, int]:
        """Copy everything into another, empty database, all or nothing."""
        return copying.copy(self._url, url, told)


def _pinned(connection: Connection, ids: Sequence[int]) -> set[int]:
    """Those whose dead letter is still open; the others' are held, so that nobody reopens one meanwhile."""
    if not ids:
        return set()
    nearby = (
        select(dead_letters.c.job_id, dead_letters.c.state)
        .where(dead_letters.c.job_id.between(ids[0], ids[-1]))
        .order_by(dead_letters.c.id)
        .with_for_update(read=True)
    )
    return {row.job_id for row in connection.execute(nearby) if not LetterState(row.state).closed}


def _refuse_open(connection: Connection, ids: Sequence[int]) -> None:
    standing = [
        job_id
        for some in chunks(ids)
        for job_id in connection.scalars(
            select(queue.c.job_id).where(queue.c.job_id.in_(some)).order_by(queue.c.job_id)
        )
    ]
    if standing:
        named = ", ".join(str(job_id) for job_id in standing[:_NAMED])
        more = f" and {len(standing) - _NAMED} more" if len(standing) > _NAMED else ""
        raise RefusedError(f"jobs of that subject are not over yet: {named}{more}; cancel them or wait, then erase")


def _digest_of(connection: Connection, *, salt: int) -> Callable[[str], str]:
    """How a name is made unreadable: the same one alike within an erasure, never like one of an earlier erasure."""
    key = connection.scalar(select(meta.c.value).where(meta.c.key == "digest_key"))
    if key is None:
        raise SchemaError("the database has lost its key for digests: the row 'digest_key' of the table meta")

    def digest(name: str) -> str:
        return "erased:" + hmac.new(bytes.fromhex(key), f"{salt}:{name}".encode(), hashlib.sha256).hexdigest()[:40]

    return digest
