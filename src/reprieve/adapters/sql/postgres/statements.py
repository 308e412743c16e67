"""The hot statements, in PostgreSQL's own words: each takes a whole batch as arrays, in one round trip.

They run with nested loops forced (see `SESSION`): every one touches rows by key, and a planner that knows a queue only
from when it was empty would read all of it. For the same reason no row is looked up by a join, whose order the planner
chooses: with an empty queue in mind it reads the whole queue, and each time the whole batch. `= ANY(...)` leaves no choice.
"""

from __future__ import annotations

from typing import Final

SESSION: Final = (
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off;"
    "SET jit = off; SET plan_cache_mode = force_generic_plan; SET client_min_messages = error;"
    # A caller's own transaction may hold a key or a subject for as long as it likes; signs of life have to get past it.
    "SET lock_timeout = '3s';"
    # A process that stands still in the middle of a batch must not hold its locks against those who take over.
    "SET idle_in_transaction_session_timeout = '5s'"
)

NOTIFY: Final = "SELECT pg_notify('reprieve', '')"

_GIVEN_JOBS: Final = """
WITH given AS MATERIALIZED (
  SELECT nextval('jobs_id_seq') AS id, g.*
  FROM unnest(%(keys)b::text[], %(pipelines)b::text[], %(stages)b::text[], %(payloads)b::bytea[], %(payload_types)b::text[],
      %(created_at)b::float8[], %(priorities)b::int[], %(run_at)b::float8[])
    AS g(key, pipeline, stage, payload, payload_type, created_at, priority, run_at)
),"""

# One row for all jobs: their ids, which go up as they were given; their keys only where some were there before.
_ANSWER: Final = """
SELECT array_agg(id ORDER BY id), CASE WHEN count(*) < %(given)b THEN array_agg(idempotency_key ORDER BY id) END,
  pg_notify('reprieve', '')::text
FROM made
"""

# Ids in the order of the call, rows in the order of the keys: two batches with the same keys cannot lock each other out.
_MADE: Final = """
made AS (
  INSERT INTO jobs (id, idempotency_key, pipeline, first_stage, payload, payload_type, created_at, priority)
  SELECT id, key, {columns} FROM given
  ORDER BY key COLLATE "C"
  ON CONFLICT (idempotency_key) DO NOTHING
  RETURNING id, idempotency_key, pipeline, first_stage, priority
), queued AS (
  INSERT INTO queue (job_id, pipeline, stage, priority, state)
  SELECT id, pipeline, first_stage, priority, 0 FROM made
)"""
SUBMIT: Final = (
    _GIVEN_JOBS
    + _MADE.format(columns="pipeline, stage, payload, payload_type, to_timestamp(created_at), priority")
    + _ANSWER
)

# A bulk submission differs in keys and payloads only: the rest travels once.
_GIVEN_ALIKE: Final = """
WITH given AS MATERIALIZED (
  SELECT nextval('jobs_id_seq') AS id, g.* FROM unnest(%(keys)b::text[], %(payloads)b::bytea[]) AS g(key, payload)
),"""
SUBMIT_ALIKE: Final = (
    _GIVEN_ALIKE
    + _MADE.format(
        columns="%(pipeline)b, %(stage)b, payload, %(payload_type)b, to_timestamp(%(created_at)b), %(priority)b::int"
    )
    + _ANSWER
)

SUBMIT_LATER: Final = f"""{_GIVEN_JOBS}
made AS (
  INSERT INTO jobs (id, idempotency_key, pipeline, first_stage, payload, payload_type, created_at, priority)
  SELECT id, key, pipeline, stage, payload, payload_type, to_timestamp(created_at), priority FROM given
  ORDER BY key COLLATE "C"
  ON CONFLICT (idempotency_key) DO NOTHING
  RETURNING id, idempotency_key
), queued AS (
  INSERT INTO queue (job_id, pipeline, stage, priority, state, run_at)
  SELECT g.id, g.pipeline, g.stage, g.priority, CASE WHEN g.run_at <= g.created_at THEN 0 ELSE 2 END, to_timestamp(g.run_at)
  FROM given g WHERE g.id IN (SELECT id FROM made)
){_ANSWER}"""  # noqa: S608 - assembled from constants

# Where in the batch a row of the queue stands.
_PLACE: Final = "array_position(%(job_ids)b::bigint[], q.job_id)"
_MINE_OF_MANY: Final = f"""
  q.job_id = ANY(%(job_ids)b::bigint[]) AND q.fence = (%(fences)b::bigint[])[{_PLACE}] AND q.state = 1
"""

FINISH: Final = f"""
WITH gone AS (DELETE FROM queue q WHERE {_MINE_OF_MANY} RETURNING q.job_id)
INSERT INTO outcomes (job_id, status, stage, fence, attempt, started_at, finished_at, result_type, result)
SELECT job_id, 'succeeded', stage, fence, attempt, to_timestamp(started_at), to_timestamp(finished_at), result_type, result
FROM unnest(%(job_ids)b::bigint[], %(fences)b::bigint[], %(stages)b::text[], %(results)b::bytea[], %(result_types)b::text[],
    %(attempts)b::int[], %(started_at)b::float8[], %(finished_at)b::float8[])
  AS g(job_id, fence, stage, result, result_type, attempt, started_at, finished_at)
WHERE job_id = ANY(ARRAY(SELECT gone.job_id FROM gone))
RETURNING job_id
"""  # noqa: S608 - assembled from constants

CHECKPOINT: Final = f"""
WITH moved AS (
  UPDATE queue q
  SET stage = (%(next_stages)b::text[])[{_PLACE}], handler = 0, crash = 0, out_of_memory = 0, lost_lease = 0, deploy = 0,
      alone = false, opened_at = to_timestamp((%(finished_at)b::float8[])[{_PLACE}])
  WHERE {_MINE_OF_MANY}
  RETURNING q.job_id, q.cancel_requested
), kept AS (
  INSERT INTO checkpoints (job_id, stage, fence, attempt, started_at, finished_at, result_type, result)
  SELECT job_id, stage, fence, attempt, to_timestamp(started_at), to_timestamp(finished_at), result_type, result
  FROM unnest(%(job_ids)b::bigint[], %(fences)b::bigint[], %(stages)b::text[], %(results)b::bytea[], %(result_types)b::text[],
      %(attempts)b::int[], %(started_at)b::float8[], %(finished_at)b::float8[])
    AS g(job_id, fence, stage, result, result_type, attempt, started_at, finished_at)
  WHERE job_id = ANY(ARRAY(SELECT moved.job_id FROM moved))
  ON CONFLICT (job_id, stage) DO UPDATE
  SET fence = excluded.fence, attempt = excluded.attempt, started_at = excluded.started_at,
      finished_at = excluded.finished_at, result_type = excluded.result_type, result = excluded.result
)
SELECT job_id, cancel_requested FROM moved
"""  # noqa: S608 - assembled from constants

ATTEMPT_COLUMNS: Final = (
    "stage", "number", "cause", "counted", "started_at", "ended_at", "worker_id", "decision", "reason", "error_class", "category",
    "error_type", "error_retryable", "status_code", "message", "signature", "fingerprint", "failure", "failure_count", "retry_at",
)  # fmt: skip
_NULLABLE: Final = {"status_code": "::int", "worker_id": "::bigint"}
"""What may be NULL has to say its type."""
_TIMES: Final = frozenset({"started_at", "ended_at", "retry_at"})


def _value(name: str) -> str:
    slot = f"%({name})s"
    return f"to_timestamp({slot}::float8)" if name in _TIMES else slot + _NULLABLE.get(name, "")


_MINE: Final = "job_id = %(job_id)s AND fence = %(fence)s AND (state = 1) = NOT %(unleased)s"
_ATTEMPT: Final = f"""
INSERT INTO attempts (job_id, fence, {", ".join(ATTEMPT_COLUMNS)})
SELECT job_id, %(fence)s, {", ".join(_value(name) for name in ATTEMPT_COLUMNS)} FROM hit RETURNING job_id
"""  # noqa: S608 - assembled from constants
_BACK: Final = """worker_id = NULL, leased_at = NULL, alone = false, handler = %(handler)s, crash = %(crash)s,
  out_of_memory = %(out_of_memory)s, lost_lease = %(lost_lease)s, deploy = %(deploy)s"""

# A suspect whose time has not come is scheduled first; `Promote` makes it a suspect again by its crashes.
RETRY: Final = f"""
WITH hit AS (
  UPDATE queue SET state = 2, run_at = to_timestamp(%(run_at)s::float8), stage = %(stage)s, waits_on = NULL,
    opened_at = to_timestamp(%(opened_at)s::float8), fence = fence + CASE WHEN %(unleased)s THEN 1 ELSE 0 END, {_BACK}
  WHERE {_MINE} AND NOT cancel_requested RETURNING job_id
) {_ATTEMPT}
"""  # noqa: S608 - assembled from constants

SKIP: Final = f"""
WITH hit AS (DELETE FROM queue WHERE {_MINE} RETURNING job_id),
ended AS (
  INSERT INTO outcomes (job_id, status, stage, fence, attempt, started_at, finished_at, reason)
  SELECT job_id, 'skipped', %(stage)s, %(fence)s, %(number)s, to_timestamp(%(started_at)s::float8),
    to_timestamp(%(ended_at)s::float8), %(error_class)s FROM hit
) {_ATTEMPT}
"""  # noqa: S608 - assembled from constants

ASK: Final = f"""
WITH hit AS (
  UPDATE queue SET state = 3, waits_on = 'review', run_at = NULL, stage = %(stage)s,
    fence = fence + CASE WHEN %(unleased)s THEN 1 ELSE 0 END, {_BACK}
  WHERE {_MINE} AND NOT cancel_requested RETURNING job_id
) {_ATTEMPT}
"""  # noqa: S608 - assembled from constants

AWAIT: Final = """
UPDATE queue SET state = 3, waits_on = %(waits_on)s, worker_id = NULL, leased_at = NULL, alone = false
WHERE job_id = %(job_id)s AND fence = %(fence)s AND state = 1 AND NOT cancel_requested RETURNING job_id
"""

RELEASE: Final = f"""
UPDATE queue SET run_at = to_timestamp(%(run_at)s::float8), {_BACK},
  state = CASE WHEN %(run_at)s::float8 IS NOT NULL THEN 2 WHEN %(crash)s + %(out_of_memory)s > 0 THEN 4 ELSE 0 END
WHERE job_id = %(job_id)s AND fence = %(fence)s AND state = 1 AND NOT cancel_requested RETURNING job_id
"""  # noqa: S608 - assembled from constants

REMEMBER: Final = """
INSERT INTO memos (job_id, stage, key, value, created_at)
SELECT job_id, %(stage)s, %(key)s, %(value)s, to_timestamp(%(now)s::float8) FROM queue
WHERE job_id = %(job_id)s AND fence = %(fence)s AND state = 1
ON CONFLICT DO NOTHING
"""
HOLDS: Final = "SELECT job_id FROM queue WHERE job_id = %(job_id)s AND fence = %(fence)s AND state = 1"

COMPLETE: Final = """
WITH gone AS (DELETE FROM queue WHERE job_id = %(job_id)s AND fence = %(fence)s AND state <> 1 RETURNING job_id, handler)
INSERT INTO outcomes (job_id, status, stage, fence, attempt, finished_at, result_type, result)
SELECT job_id, 'succeeded', %(stage)s, %(fence)s, handler + 1, to_timestamp(%(now)s::float8), %(result_type)s, %(result)s
FROM gone RETURNING job_id
"""

STOP: Final = """
WITH gone AS (
  DELETE FROM queue WHERE job_id = %(job_id)s AND fence = %(fence)s AND state = 1 AND cancel_requested
  RETURNING job_id, stage, handler, cancel_reason, cancelled_by
)
INSERT INTO outcomes (job_id, status, stage, fence, attempt, finished_at, reason, ended_by)
SELECT job_id, 'cancelled', stage, %(fence)s, handler, to_timestamp(%(now)s::float8), cancel_reason, cancelled_by
FROM gone RETURNING job_id
"""

STOPPED: Final = "SELECT job_id FROM outcomes WHERE job_id = %(job_id)s AND fence = %(fence)s AND status = 'cancelled'"

# Locked before it is judged: a report that is being committed may change where the job stands.
STANDS: Final = "SELECT state FROM queue WHERE job_id = %(job_id)s FOR UPDATE"
CANCEL_NOW: Final = """
WITH gone AS (DELETE FROM queue WHERE job_id = %(job_id)s RETURNING job_id, stage, handler, fence)
INSERT INTO outcomes (job_id, status, stage, fence, attempt, finished_at, reason, ended_by)
SELECT job_id, 'cancelled', stage, fence, handler, to_timestamp(%(now)s::float8), %(reason)s, %(actor)s FROM gone
"""
CANCEL_LATER: Final = """
UPDATE queue SET cancel_requested = true, cancelled_by = %(actor)s, cancel_reason = %(reason)s
WHERE job_id = %(job_id)s
"""
CANCELLED_BEFORE: Final = """
SELECT job_id FROM outcomes WHERE job_id = %(job_id)s AND status = 'cancelled' AND ended_by = %(actor)s
  AND finished_at = to_timestamp(%(now)s::float8)
"""
PROBED: Final = """
SELECT 1 FROM stages WHERE pipeline = %(pipeline)s AND stage = %(stage)s AND opened_at IS NOT NULL
  AND probe_until = to_timestamp(%(until)s::float8) AND changed_at = to_timestamp(%(now)s::float8)
"""
EXISTS: Final = "SELECT id FROM jobs WHERE id = %(job_id)s"

WAKE: Final = """
UPDATE queue SET state = CASE WHEN crash + out_of_memory > 0 THEN 4 ELSE 0 END, waits_on = NULL WHERE state = 3 AND starts_with(waits_on, %(prefix)s) AND waits_on <> %(unless)s
AND (cardinality(%(pipelines)s::text[]) = 0 OR (pipeline, stage) IN (SELECT * FROM unnest(%(pipelines)s::text[], %(stages)s::text[])))
"""

PAUSE: Final = """
INSERT INTO stages (pipeline, stage, paused, paused_by, reason, changed_at)
VALUES (%(pipeline)s, %(stage)s, true, %(actor)s, %(reason)s, to_timestamp(%(now)s::float8))
ON CONFLICT (pipeline, stage) DO UPDATE
SET paused = true, paused_by = excluded.paused_by, reason = excluded.reason, changed_at = excluded.changed_at
WHERE NOT stages.paused
"""
RESUME: Final = """
UPDATE stages SET paused = false, paused_by = NULL, reason = NULL, held_until = NULL, opened_at = NULL, error_class = NULL,
  probe_until = NULL, changed_at = to_timestamp(%(now)s::float8)
WHERE pipeline = %(pipeline)s AND stage = %(stage)s AND (paused OR held_until IS NOT NULL OR opened_at IS NOT NULL)
"""
HOLD: Final = """
INSERT INTO stages (pipeline, stage, held_until, opened_at, error_class, reason, changed_at)
VALUES (%(pipeline)s, %(stage)s, to_timestamp(%(until)s::float8),
  CASE WHEN %(opens)s THEN to_timestamp(%(now)s::float8) END, %(error_class)s, %(reason)s, to_timestamp(%(now)s::float8))
ON CONFLICT (pipeline, stage) DO UPDATE
SET held_until = GREATEST(stages.held_until, excluded.held_until), opened_at = COALESCE(stages.opened_at, excluded.opened_at),
  error_class = excluded.error_class, reason = CASE WHEN stages.paused THEN stages.reason ELSE excluded.reason END,
  probe_until = CASE WHEN %(opens)s THEN NULL ELSE stages.probe_until END, changed_at = excluded.changed_at
"""
CLOSE: Final = """
UPDATE stages SET held_until = NULL, opened_at = NULL, error_class = NULL, probe_until = NULL,
  reason = CASE WHEN paused THEN reason END, changed_at = to_timestamp(%(now)s::float8)
WHERE pipeline = %(pipeline)s AND stage = %(stage)s AND opened_at IS NOT NULL
"""
PROBE: Final = """
UPDATE stages SET probe_until = to_timestamp(%(until)s::float8), changed_at = to_timestamp(%(now)s::float8)
WHERE pipeline = %(pipeline)s AND stage = %(stage)s AND opened_at IS NOT NULL AND NOT paused
  AND held_until <= to_timestamp(%(now)s::float8) AND (probe_until IS NULL OR probe_until <= to_timestamp(%(now)s::float8))
"""
GIVE_BACK: Final = """
UPDATE stages SET probe_until = NULL, changed_at = to_timestamp(%(now)s::float8)
WHERE pipeline = %(pipeline)s AND stage = %(stage)s AND probe_until = to_timestamp(%(until)s::float8)
"""

REGISTER: Final = """
INSERT INTO workers (name, host, pid, started_at, expires_at)
VALUES (%(name)s, %(host)s, %(pid)s, to_timestamp(%(now)s::float8), to_timestamp(%(expires_at)s::float8)) RETURNING id
"""
REGISTER_STAGES: Final = """
INSERT INTO stages (pipeline, stage) SELECT * FROM unnest(%(pipelines)s::text[], %(stages)s::text[]) ON CONFLICT DO NOTHING
"""
RENEW: Final = """
UPDATE workers SET expires_at = to_timestamp(%(expires_at)s::float8), stopping = %(stopping)s
WHERE id = %(worker_id)s AND lost_cause IS NULL RETURNING id
"""
TO_CANCEL: Final = "SELECT job_id FROM queue WHERE worker_id = %(worker_id)s AND cancel_requested"
LEAVE: Final = "DELETE FROM workers WHERE id = %(worker_id)s"
LOST: Final = """
UPDATE workers SET lost_cause = COALESCE(lost_cause, %(cause)s)
WHERE id = %(worker_id)s AND (lost_cause IS NOT NULL OR %(seen)s OR expires_at <= to_timestamp(%(now)s::float8))
"""
LOST_WORKERS: Final = """
SELECT id, name, host, pid, stopping, lost_cause, expires_at <= pg_postmaster_start_time() FROM workers
WHERE id <> %(besides)s AND (expires_at <= to_timestamp(%(now)s::float8) OR lost_cause IS NOT NULL) ORDER BY id
"""

# A revision has taken the payload's place; what was submitted is compared with what was submitted.
_SUBMITTED: Final = """
COALESCE((SELECT first.payload FROM revisions AS first WHERE first.job_id = jobs.id AND first.number = 1), payload)
"""
BY_KEY: Final = f"""
SELECT id, idempotency_key, pipeline, {_SUBMITTED}, extract(epoch FROM created_at)::float8, version
FROM jobs WHERE idempotency_key = ANY(%b::text[])
"""  # noqa: S608 - assembled from constants
VERSION_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s || chr(31) || %s, 0))"
HIGHEST: Final = "SELECT id, version FROM jobs WHERE pipeline = %s AND subject = %s ORDER BY version DESC LIMIT 1"
BY_VERSION: Final = f"SELECT id, {_SUBMITTED} FROM jobs WHERE pipeline = %s AND subject = %s AND version = %s"  # noqa: S608 - constants
TOLD: Final = "SELECT max(review_version) FROM deliveries WHERE changelist_id = %s"
SUBMIT_VERSION: Final = """
WITH made AS (
  INSERT INTO jobs (idempotency_key, pipeline, first_stage, payload, payload_type, created_at, priority, subject, version, rerun_of)
  VALUES (%(idempotency_key)s, %(pipeline)s, %(stage)s, %(payload)s, %(payload_type)s, to_timestamp(%(created_at)s::float8),
    %(priority)s, %(subject)s, %(version)s, %(rerun_of)s)
  ON CONFLICT DO NOTHING RETURNING id
)
INSERT INTO queue (job_id, pipeline, stage, priority, state, run_at)
SELECT id, %(pipeline)s, %(stage)s, %(priority)s,
  CASE WHEN %(run_at)s::float8 > %(created_at)s::float8 THEN 2 ELSE 0 END, to_timestamp(%(run_at)s::float8)
FROM made RETURNING job_id
"""
SUPERSEDED: Final = """
SELECT q.job_id FROM queue q JOIN jobs j ON j.id = q.job_id
WHERE j.pipeline = %(pipeline)s AND j.subject = %(subject)s AND j.version < %(version)s AND q.stage = ANY(%(stages)s::text[])
ORDER BY q.job_id FOR UPDATE OF q
"""

STAGES: Final = """
SELECT pipeline, stage, paused, paused_by, reason, extract(epoch FROM held_until)::float8, extract(epoch FROM opened_at)::float8,
  error_class, extract(epoch FROM probe_until)::float8, extract(epoch FROM changed_at)::float8
FROM stages ORDER BY pipeline, stage
"""
