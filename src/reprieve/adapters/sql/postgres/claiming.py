"""Claims, and making ready what is due."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from reprieve.ports import intents as i

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.adapters.sql.postgres.link import Cursor

_LEASE_COLUMNS: Final = (
    """q.job_id, q.fence, q.pipeline, q.stage, q.handler, q.crash, q.out_of_memory, q.lost_lease, q.deploy, q.alone"""
)

# The worker's own row is locked against being given up meanwhile: what a worker claims after that would be nobody's.
# No join has to find the rows of the queue, or those of the jobs: see `statements`.
_CLAIM: Final = f"""
WITH asked AS MATERIALIZED (
  SELECT id AS worker, to_timestamp(%(now)b) AS moment, %(probe)b::bool AS probe FROM workers
  WHERE id = %(worker)b AND lost_cause IS NULL FOR SHARE
),
free AS MATERIALIZED (
  SELECT w.pipeline, w.stage, w.most
  FROM unnest(%(pipelines)b::text[], %(stages)b::text[], %(mosts)b::int[]) AS w(pipeline, stage, most)
  CROSS JOIN asked
  LEFT JOIN stages s ON s.pipeline = w.pipeline AND s.stage = w.stage
  WHERE s.pipeline IS NULL
     OR (NOT s.paused AND (s.held_until IS NULL OR s.held_until <= moment) AND (s.opened_at IS NULL OR probe))
),
picked AS MATERIALIZED (
  SELECT q.job_id, q.opened_at FROM free CROSS JOIN LATERAL (
    SELECT job_id, priority, opened_at FROM queue
    WHERE pipeline = free.pipeline AND stage = free.stage AND state = 0
    ORDER BY priority DESC, job_id LIMIT free.most FOR UPDATE SKIP LOCKED
  ) q
  ORDER BY q.priority DESC, q.job_id LIMIT %(capacity)b
),
taken AS (
  UPDATE queue q
  SET state = 1, fence = q.fence + 1, worker_id = asked.worker, leased_at = moment, run_at = NULL, alone = false,
      opened_at = COALESCE(q.opened_at, moment)
  FROM asked WHERE q.job_id = ANY(ARRAY(SELECT picked.job_id FROM picked))
  RETURNING {_LEASE_COLUMNS}, q.priority,
    (ARRAY(SELECT picked.opened_at FROM picked))[array_position(ARRAY(SELECT picked.job_id FROM picked), q.job_id)] AS opened_at
),
suspicion AS (
  SELECT EXISTS (SELECT 1 FROM queue q JOIN free ON q.pipeline = free.pipeline AND q.stage = free.stage WHERE q.state = 4) AS any
)
SELECT suspicion.any, t.job_id, t.fence, t.pipeline, t.stage, t.handler, t.crash, t.out_of_memory, t.lost_lease, t.deploy, t.alone,
       extract(epoch FROM t.opened_at)::float8, j.idempotency_key, j.payload, j.payload_type,
       extract(epoch FROM j.created_at)::float8, j.priority, j.subject, j.version, j.first_stage
FROM suspicion LEFT JOIN (
  taken t CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.id = t.job_id LIMIT 1) j
) ON true
ORDER BY t.priority DESC, t.job_id
"""  # noqa: S608 - assembled from constants

_CLAIM_SUSPECT: Final = (
    _CLAIM.replace(
        """    SELECT job_id, priority, opened_at FROM queue
    WHERE pipeline = free.pipeline AND stage = free.stage AND state = 0
    ORDER BY priority DESC, job_id LIMIT free.most FOR UPDATE SKIP LOCKED""",
        """    SELECT job_id, priority, opened_at FROM queue
    WHERE pipeline = free.pipeline AND stage = free.stage AND state = 4
    ORDER BY priority DESC, job_id LIMIT 1 FOR UPDATE SKIP LOCKED""",
    )
    .replace("alone = false", "alone = true")
    .replace("q.state = 4)", "q.state = 4 AND q.job_id NOT IN (SELECT job_id FROM picked))")
)

_LOCK_WORKER: Final = "SELECT 1 FROM workers WHERE id = %(worker)b FOR UPDATE"

# These read the whole queue, once a worker that died or lost an answer: an index of what is leased made every claim and finish
# 5 to 10 % dearer, and a planner that knows the queue from when it was empty did not even use it.
_HELD: Final = f"""
SELECT false, {_LEASE_COLUMNS}, extract(epoch FROM q.opened_at)::float8, j.idempotency_key, {{payload}}, j.payload_type,
       extract(epoch FROM j.created_at)::float8, j.priority, j.subject, j.version, j.first_stage{{more}}
FROM queue q JOIN jobs j ON j.id = q.job_id
WHERE q.state = 1 AND q.worker_id = %(worker)b AND NOT q.job_id = ANY(%(known)b::bigint[])
ORDER BY q.job_id
"""  # noqa: S608 - assembled from constants
_FORGOTTEN: Final = _HELD.format(payload="j.payload", more="")
HELD_BY: Final = _HELD.format(payload="NULL::bytea", more=", extract(epoch FROM q.leased_at)::float8")

_RESULTS: Final = """
SELECT job_id, stage, result, result_type, codec FROM checkpoints
WHERE job_id = ANY(%b::bigint[]) AND result IS NOT NULL ORDER BY job_id, finished_at
"""

_PROMOTE: Final = """
WITH due AS MATERIALIZED (
  SELECT job_id FROM queue WHERE state = 2 AND run_at <= to_timestamp(%(now)b)
  ORDER BY run_at LIMIT %(limit)b FOR UPDATE SKIP LOCKED
), made AS (
  UPDATE queue q SET state = CASE WHEN crash + out_of_memory > 0 THEN 4 ELSE 0 END, run_at = NULL
  WHERE q.job_id = ANY(ARRAY(SELECT due.job_id FROM due)) RETURNING 1
)
SELECT (SELECT count(*) FROM made),
       (SELECT extract(epoch FROM run_at)::float8 FROM queue
        WHERE state = 2 AND job_id NOT IN (SELECT job_id FROM due) ORDER BY run_at LIMIT 1)
"""
_NONE: Final = i.Counters()


async def claim(cursor: Cursor, claims: list[i.Claim], again: bool) -> Sequence[i.Claimed]:  # noqa: ARG001, FBT001 - a handler's shape
    """Lease jobs for each claim; after an unknown outcome, first what was leased without the worker knowing."""
    return [await _claim(cursor, each) for each in claims]


async def _claim(cursor: Cursor, wanted: i.Claim) -> i.Claimed:
    rows: list[tuple[Any, ...]] = []
    if wanted.holding is not None:
        # The claim whose outcome is unknown may still be on its way in: it holds this lock until it has come to an end.
        await cursor.execute(_LOCK_WORKER, {"worker": wanted.worker_id})
        await cursor.execute(_FORGOTTEN, {"worker": wanted.worker_id, "known": list(wanted.holding)})
        rows = await cursor.fetchall()
    if not rows:
        await cursor.execute(
            _CLAIM_SUSPECT if wanted.suspects else _CLAIM,
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
    await cursor.execute(_RESULTS, (job_ids,))
    found: dict[int, list[i.StoredResult]] = {}
    for job_id, stage, data, kind, codec in await cursor.fetchall():
        found.setdefault(job_id, []).append(i.StoredResult(stage=stage, data=data, type=kind, codec=codec))
    return {job_id: tuple(results) for job_id, results in found.items()}


def lease(row: tuple[Any, ...], results: tuple[i.StoredResult, ...] = ()) -> i.Lease:
    """What a row of CLAIM says."""
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


def held(row: tuple[Any, ...]) -> i.Lease:
    """What a row of HELD_BY says."""
    *columns, leased_at = row
    return replace(lease(tuple(columns)), leased_at=leased_at)


async def promote(cursor: Cursor, promotions: list[i.Promote], again: bool) -> Sequence[i.Promoted]:  # noqa: ARG001, FBT001 - a handler's shape
    """Make ready what is due."""
    answers = []
    for each in promotions:
        await cursor.execute(_PROMOTE, {"now": each.now, "limit": each.limit})
        row = await cursor.fetchone()
        count, next_due = row if row is not None else (0, None)
        answers.append(i.Promoted(count=count, next_due=next_due))
    return answers
