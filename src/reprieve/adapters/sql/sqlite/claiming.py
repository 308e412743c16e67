"""Claims, and making ready what is due."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from reprieve.adapters.sql.sqlite.rows import listed
from reprieve.ports import intents as i

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

_CLOSED: Final = """
SELECT pipeline, stage FROM stages WHERE paused OR held_until > ? OR (opened_at IS NOT NULL AND NOT ?)
"""
_LIVES: Final = "SELECT 1 FROM workers WHERE id = ? AND lost_cause IS NULL"
_READY: Final = """
SELECT priority, job_id FROM queue WHERE state = 0 AND pipeline = ? AND stage = ? ORDER BY priority DESC, job_id LIMIT ?
"""
_SUSPECTS: Final = "SELECT priority, job_id, pipeline, stage FROM queue WHERE state = 4"
_TAKE: Final = """
UPDATE queue SET state = 1, fence = fence + 1, worker_id = ?, leased_at = ?, run_at = NULL, alone = ?, opened_at = COALESCE(opened_at, ?)
WHERE job_id IN (SELECT value FROM json_each(?))
"""
_LEASE: Final = """
SELECT q.job_id, q.fence, q.pipeline, q.stage, q.handler, q.crash, q.out_of_memory, q.lost_lease, q.deploy, q.opened_at, q.alone,
  j.idempotency_key, j.payload, j.payload_type, j.created_at, q.priority, j.subject, j.version, j.first_stage
FROM queue q CROSS JOIN jobs j ON j.id = q.job_id
"""
_LEASE_OF_THESE: Final = f"""{_LEASE}
WHERE q.job_id IN (SELECT value FROM json_each(?)) ORDER BY q.priority DESC, q.job_id
"""  # noqa: S608 - assembled from constants
_FORGOTTEN: Final = f"""{_LEASE}
WHERE q.state = 1 AND q.worker_id = ? AND q.job_id NOT IN (SELECT value FROM json_each(?)) ORDER BY q.job_id
"""  # noqa: S608 - assembled from constants
_HELD: Final = f"""{_LEASE.replace("j.payload,", "NULL,").replace("j.first_stage", "j.first_stage, q.leased_at")}
WHERE q.state = 1 AND q.worker_id = ? ORDER BY q.job_id
"""
_RESULTS: Final = """
SELECT job_id, stage, result, result_type, codec FROM checkpoints
WHERE job_id IN (SELECT value FROM json_each(?)) AND result IS NOT NULL ORDER BY job_id, finished_at
"""
_PROMOTE: Final = """
UPDATE queue SET state = CASE WHEN crash + out_of_memory > 0 THEN 4 ELSE 0 END, run_at = NULL
WHERE job_id IN (SELECT job_id FROM queue WHERE state = 2 AND run_at <= ? ORDER BY run_at LIMIT ?)
"""
_NEXT: Final = "SELECT min(run_at) FROM queue WHERE state = 2"
_NONE: Final = i.Counters()


def claim(connection: sqlite3.Connection, claims: list[i.Claim], again: bool) -> Sequence[i.Claimed]:  # noqa: ARG001, FBT001 - a handler's shape
    """Lease jobs for each claim; after an unknown outcome, first what was leased without the worker knowing."""
    return [_claim(connection, each) for each in claims]


def _claim(connection: sqlite3.Connection, wanted: i.Claim) -> i.Claimed:
    if wanted.holding is not None:
        forgotten = connection.execute(_FORGOTTEN, (wanted.worker_id, listed(wanted.holding))).fetchall()
        if forgotten:
            return i.Claimed(leases=_leases(connection, forgotten))
    if connection.execute(_LIVES, (wanted.worker_id,)).fetchone() is None:
        return i.Claimed(leases=())
    closed = set(connection.execute(_CLOSED, (wanted.now, wanted.probe)))
    free = {stage: most for stage, most in wanted.stages.items() if stage not in closed}
    suspects = sorted(
        (-priority, job_id)
        for priority, job_id, pipeline, stage in connection.execute(_SUSPECTS)
        if (pipeline, stage) in free
    )
    ids = [job_id for _, job_id in suspects[:1]] if wanted.suspects else _ready(connection, free, wanted.capacity)
    if not ids:
        return i.Claimed(leases=(), suspects=bool(suspects))
    these = listed(ids)
    # Read before it is written: the lease tells when the stage's first attempt began, and nothing where this is it.
    rows = connection.execute(_LEASE_OF_THESE, (these,)).fetchall()
    connection.execute(_TAKE, (wanted.worker_id, wanted.now, wanted.suspects, wanted.now, these))
    leases = _leases(connection, rows, taken=True, alone=wanted.suspects)
    return i.Claimed(leases=leases, suspects=len(suspects) > wanted.suspects)


def _ready(connection: sqlite3.Connection, free: dict[tuple[str, str], int], capacity: int) -> list[int]:
    found: list[tuple[int, int]] = []
    for (pipeline, stage), most in free.items():
        found += connection.execute(_READY, (pipeline, stage, max(0, min(most, capacity))))
    if len(free) > 1:
        found.sort(key=lambda each: (-each[0], each[1]))
    return [job_id for _, job_id in found[:capacity]]


def leases_of(connection: sqlite3.Connection, worker_id: int) -> Sequence[i.Lease]:
    """What a worker holds, payloads and results left out."""
    return [replace(_lease(row[:-1]), leased_at=row[-1]) for row in connection.execute(_HELD, (worker_id,))]


def _leases(
    connection: sqlite3.Connection, rows: list[tuple[Any, ...]], *, taken: bool = False, alone: bool | None = None
) -> tuple[i.Lease, ...]:
    begun = [row[0] for row in rows if row[3] != row[18]]
    results = _results(connection, begun) if begun else {}
    return tuple([_lease(row, results.get(row[0], ()), later=int(taken), alone=alone) for row in rows])


def _lease(
    row: tuple[Any, ...], results: tuple[i.StoredResult, ...] = (), *, later: int = 0, alone: bool | None = None
) -> i.Lease:
    (job_id, fence, pipeline, stage, handler, crash, out_of_memory, lost_lease, deploy, opened_at, was_alone, key, payload,
     payload_type, created_at, priority, subject, version, _) = row  # fmt: skip
    counters = _NONE
    if handler or crash or out_of_memory or lost_lease or deploy:
        counters = i.Counters(
            handler=handler, crash=crash, out_of_memory=out_of_memory, lost_lease=lost_lease, deploy=deploy
        )
    return i.Lease(
        job_id=job_id, fence=fence + later, pipeline=pipeline, stage=stage, idempotency_key=key, payload=payload,
        payload_type=payload_type, created_at=created_at, priority=priority, subject=subject, version=version,
        counters=counters, opened_at=opened_at, alone=bool(was_alone) if alone is None else alone, results=results,
    )  # fmt: skip


def _results(connection: sqlite3.Connection, job_ids: list[int]) -> dict[int, tuple[i.StoredResult, ...]]:
    found: dict[int, list[i.StoredResult]] = {}
    for job_id, stage, data, kind, codec in connection.execute(_RESULTS, (listed(job_ids),)):
        found.setdefault(job_id, []).append(i.StoredResult(stage=stage, data=data, type=kind, codec=codec))
    return {job_id: tuple(results) for job_id, results in found.items()}


def promote(connection: sqlite3.Connection, promotions: list[i.Promote], again: bool) -> Sequence[i.Promoted]:  # noqa: ARG001, FBT001 - a handler's shape
    """Make ready what is due."""
    answers = []
    for each in promotions:
        count = connection.execute(_PROMOTE, (each.now, each.limit)).rowcount
        answers.append(i.Promoted(count=count, next_due=connection.execute(_NEXT).fetchone()[0]))
    return answers
