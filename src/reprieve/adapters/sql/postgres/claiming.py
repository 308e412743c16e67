"""Claims, and making ready what is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reprieve.adapters.sql.postgres import statements as sql
from reprieve.ports import intents as i

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.adapters.sql.postgres.link import Cursor

_NONE = i.Counters()


async def claim(cursor: Cursor, claims: list[i.Claim], again: bool) -> Sequence[i.Claimed]:  # noqa: ARG001, FBT001 - a handler's shape
    """Lease jobs for each claim; after an unknown outcome, first what was leased without the worker knowing."""
    return [await _claim(cursor, each) for each in claims]


async def _claim(cursor: Cursor, wanted: i.Claim) -> i.Claimed:
    rows: list[tuple[Any, ...]] = []
    if wanted.holding is not None:
        # The claim whose outcome is unknown may still be on its way in: it holds this lock until it has come to an end.
        await cursor.execute(sql.LOCK_WORKER, {"worker": wanted.worker_id})
        await cursor.execute(sql.HELD_BY, {"worker": wanted.worker_id, "known": list(wanted.holding)})
        rows = await cursor.fetchall()
    if not rows:
        await cursor.execute(
            sql.CLAIM_SUSPECT if wanted.suspects else sql.CLAIM,
            {
                "worker": wanted.worker_id,
                "now": wanted.now,
                "probe": wanted.probe,
                "capacity": 1 if wanted.suspects else wanted.capacity,
                "pipelines": [pipeline for pipeline, _ in wanted.stages],
                "stages": [stage for _, stage in wanted.stages],
                "mosts": list(wanted.stages.values()),
            },
        )
        rows = await cursor.fetchall()
    suspects = bool(rows) and rows[0][0]
    taken = [row for row in rows if row[1] is not None]
    resumed = [row[1] for row in taken if row[4] != row[19]]
    results = await _results(cursor, resumed) if resumed else {}
    return i.Claimed(leases=tuple([lease(row, results.get(row[1], ())) for row in taken]), suspects=suspects)


async def _results(cursor: Cursor, job_ids: list[int]) -> dict[int, tuple[i.StoredResult, ...]]:
    await cursor.execute(sql.RESULTS, (job_ids,))
    found: dict[int, list[i.StoredResult]] = {}
    for job_id, stage, data, kind, codec in await cursor.fetchall():
        found.setdefault(job_id, []).append(i.StoredResult(stage=stage, data=data, type=kind, codec=codec))
    return {job_id: tuple(results) for job_id, results in found.items()}


def lease(row: tuple[Any, ...], results: tuple[i.StoredResult, ...] = ()) -> i.Lease:
    """What a row of CLAIM or HELD_BY says."""
    (_, job_id, fence, pipeline, stage, handler, crash, out_of_memory, lost_lease, deploy, alone, opened_at, key, payload,
     payload_type, created_at, priority, subject, version, _) = row  # fmt: skip
    untried = not (handler or crash or out_of_memory or lost_lease or deploy)
    counters = _NONE if untried else i.Counters(
        handler=handler, crash=crash, out_of_memory=out_of_memory, lost_lease=lost_lease, deploy=deploy
    )  # fmt: skip
    return i.Lease(
        job_id=job_id, fence=fence, pipeline=pipeline, stage=stage, idempotency_key=key, payload=payload,
        payload_type=payload_type, created_at=created_at, priority=priority, subject=subject, version=version,
        counters=counters, opened_at=opened_at, alone=alone, results=results,
    )  # fmt: skip


async def promote(cursor: Cursor, promotions: list[i.Promote], again: bool) -> Sequence[i.Promoted]:  # noqa: ARG001, FBT001 - a handler's shape
    """Make ready what is due."""
    answers = []
    for each in promotions:
        await cursor.execute(sql.PROMOTE, {"now": each.now, "limit": each.limit})
        row = await cursor.fetchone()
        count, next_due = row if row is not None else (0, None)
        answers.append(i.Promoted(count=count, next_due=next_due))
    return answers
