"""Submissions: plain ones all together, those of a subject one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from reprieve.adapters.sql.sqlite import jobs
from reprieve.adapters.sql.sqlite.rows import READY, SCHEDULED, quoted
from reprieve.ports import intents as i

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    Reply = i.Submitted | i.KeyTaken | i.VersionTooLow

_LAST_ID: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'"
_CREATE: Final = """
INSERT INTO jobs (id, idempotency_key, pipeline, first_stage, payload, payload_type, created_at, priority, subject, version, rerun_of)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (idempotency_key) DO NOTHING
"""
_QUEUE: Final = "INSERT INTO queue (job_id, pipeline, stage, priority, state, run_at) VALUES (?, ?, ?, ?, ?, ?)"
# A revision has taken the payload's place; what was submitted is compared with what was submitted.
_SUBMITTED: Final = """
COALESCE((SELECT first.payload FROM revisions AS first WHERE first.job_id = jobs.id AND first.number = 1), payload)
"""
_BY_KEY: Final = f"""
SELECT idempotency_key, id, pipeline, {_SUBMITTED}, created_at, version
FROM jobs WHERE idempotency_key IN (SELECT value FROM json_each(?))
"""  # noqa: S608 - assembled from constants
_BY_VERSION: Final = f"SELECT id, {_SUBMITTED} FROM jobs WHERE pipeline = ? AND subject = ? AND version = ?"  # noqa: S608 - constants
_HIGHEST: Final = "SELECT id, version FROM jobs WHERE pipeline = ? AND subject = ? ORDER BY version DESC LIMIT 1"
_TOLD: Final = "SELECT max(review_version) FROM deliveries WHERE changelist_id = ?"
_OLDER: Final = """
SELECT queue.job_id FROM jobs JOIN queue ON queue.job_id = jobs.id
WHERE jobs.pipeline = ? AND jobs.subject = ? AND jobs.version < ? AND queue.stage IN (SELECT value FROM json_each(?))
ORDER BY queue.job_id
"""


def submit(connection: sqlite3.Connection, intents: list[i.Submit], again: bool) -> Sequence[Reply]:  # noqa: FBT001 - a handler's shape
    """Create jobs, or find those that are there."""
    if all(each.subject is None for each in intents):
        return _plain(connection, intents, again=again)
    return [
        _versioned(connection, each, again=again)
        if each.subject is not None
        else _plain(connection, [each], again=again)[0]
        for each in intents
    ]


def _plain(connection: sqlite3.Connection, intents: Sequence[i.Submit], *, again: bool) -> list[Reply]:
    first = _next_id(connection)
    if _create(connection, first, intents) == len(intents):
        _queue(connection, list(enumerate(intents, first)))
        return [i.Submitted(job_id=job_id) for job_id in range(first, first + len(intents))]
    keys = quoted([each.idempotency_key for each in intents])
    there = {row[0]: row[1:] for row in connection.execute(_BY_KEY, (keys,))}
    replies: list[Reply] = []
    made: list[tuple[int, i.Submit]] = []
    for job_id, each in enumerate(intents, first):
        known = there[each.idempotency_key]
        if known[0] == job_id:
            made.append((job_id, each))
            replies.append(i.Submitted(job_id=job_id))
        else:
            # Found from this very batch, it is a duplicate, whatever its time.
            replies.append(_known(each, known, again=again and known[0] < first))
    _queue(connection, made)
    return replies


def _next_id(connection: sqlite3.Connection) -> int:
    """The id that SQLite would give out next; the transaction keeps others from doing so."""
    row: tuple[int] | None = connection.execute(_LAST_ID).fetchone()
    return 1 if row is None else row[0] + 1


def _create(
    connection: sqlite3.Connection, first: int, intents: Sequence[i.Submit], rerun_of: int | None = None
) -> int:
    rows = [
        (job_id, each.idempotency_key, each.pipeline, each.stage, each.payload, each.payload_type, each.created_at,
         each.priority, each.subject, each.version, rerun_of)
        for job_id, each in enumerate(intents, first)
    ]  # fmt: skip
    return connection.executemany(_CREATE, rows).rowcount


def _queue(connection: sqlite3.Connection, made: list[tuple[int, i.Submit]]) -> None:
    rows = []
    for job_id, each in made:
        later = each.run_at is not None and each.run_at > each.created_at
        state, run_at = (SCHEDULED, each.run_at) if later else (READY, None)
        rows.append((job_id, each.pipeline, each.stage, each.priority, state, run_at))
    connection.executemany(_QUEUE, rows)


def _known(wanted: i.Submit, row: tuple[int, str, bytes | None, float, int | None], *, again: bool) -> Reply:
    job_id, pipeline, payload, created_at, version = row
    if pipeline != wanted.pipeline:
        return i.KeyTaken(pipeline=pipeline)
    ours = again and created_at == wanted.created_at
    settled = version if wanted.next_version else None
    return i.Submitted(job_id=job_id, duplicate=not ours, mismatch=payload != wanted.payload, version=settled)


def _versioned(connection: sqlite3.Connection, wanted: i.Submit, *, again: bool) -> Reply:
    row = connection.execute(_BY_KEY, (quoted([wanted.idempotency_key]),)).fetchone()
    if row is not None:
        return _known(wanted, row[1:], again=again)
    if wanted.next_version:
        return _next(connection, wanted)
    same = connection.execute(_BY_VERSION, (wanted.pipeline, wanted.subject, wanted.version)).fetchone()
    if same is not None:
        return i.Submitted(job_id=same[0], duplicate=True, mismatch=same[1] != wanted.payload)
    before, highest = connection.execute(_HIGHEST, (wanted.pipeline, wanted.subject)).fetchone() or (None, 0)
    if highest > (wanted.version or 0):
        return i.VersionTooLow(highest=highest)
    return _create_version(connection, wanted, rerun_of=before)


def _next(connection: sqlite3.Connection, wanted: i.Submit) -> Reply:
    """One above all there are, and above all that somebody was told: deliveries outlive their jobs."""
    before, highest = connection.execute(_HIGHEST, (wanted.pipeline, wanted.subject)).fetchone() or (None, 0)
    (told,) = connection.execute(_TOLD, (wanted.subject,)).fetchone()
    highest = max(highest, told or 0)
    if highest >= i.HIGHEST_VERSION:
        return i.VersionTooLow(highest=highest)
    settled = replace(wanted, version=highest + 1)
    return replace(_create_version(connection, settled, rerun_of=before), version=settled.version)


def _create_version(connection: sqlite3.Connection, wanted: i.Submit, *, rerun_of: int | None) -> i.Submitted:
    job_id = _next_id(connection)
    _create(connection, job_id, [wanted], rerun_of=rerun_of)
    _queue(connection, [(job_id, wanted)])
    return i.Submitted(job_id=job_id, superseded=_supersede(connection, wanted))


def _supersede(connection: sqlite3.Connection, wanted: i.Submit) -> tuple[int, ...]:
    if not wanted.supersedes:
        return ()
    found = connection.execute(_OLDER, (wanted.pipeline, wanted.subject, wanted.version, quoted(wanted.supersedes)))
    older = [row[0] for row in found]
    reason = f"superseded by version {wanted.version}"
    jobs.cancel(
        connection,
        [i.Cancel(job_id=job_id, actor="reprieve", reason=reason, now=wanted.created_at) for job_id in older],
        again=False,
    )
    return tuple(older)
