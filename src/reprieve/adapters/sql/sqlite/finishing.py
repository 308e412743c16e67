"""Stages that are done: the hot half of a worker's writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reprieve.adapters.sql.sqlite.rows import end, listed
from reprieve.ports.intents import Written

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from reprieve.ports import intents as i

_HELD: Final = """
SELECT job_id, fence, cancel_requested FROM queue WHERE state = 1 AND job_id IN (SELECT value FROM json_each(?))
"""
_FINISHED: Final = """
SELECT job_id, fence FROM outcomes WHERE status = 'succeeded' AND job_id IN (SELECT value FROM json_each(?))
"""
_KEEP: Final = """
INSERT INTO checkpoints (job_id, stage, fence, attempt, started_at, finished_at, result_type, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job_id, stage) DO UPDATE
SET fence = excluded.fence, attempt = excluded.attempt, started_at = excluded.started_at,
    finished_at = excluded.finished_at, result_type = excluded.result_type, codec = excluded.codec, result = excluded.result
"""
_MOVE: Final = """
UPDATE queue SET stage = ?, opened_at = ?, alone = false, handler = 0, crash = 0, out_of_memory = 0, lost_lease = 0, deploy = 0
WHERE job_id = ?
"""


def finish(connection: sqlite3.Connection, intents: list[i.Finish], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """End jobs that have succeeded."""
    ids = listed([each.job_id for each in intents])
    held = {job_id: fence for job_id, fence, _ in connection.execute(_HELD, (ids,))}
    mine = [each for each in intents if held.get(each.job_id) == each.fence]
    end(
        connection,
        [
            (each.job_id, "succeeded", None, each.stage, each.fence, each.attempt, each.started_at, each.finished_at,
             None, None, each.result_type, each.result)
            for each in mine
        ],
    )  # fmt: skip
    if len(mine) == len(intents):
        return [Written.APPLIED] * len(intents)
    done = {(each.job_id, each.fence) for each in mine}
    if again:
        done.update(connection.execute(_FINISHED, (ids,)))
    return [Written.APPLIED if (each.job_id, each.fence) in done else Written.STALE for each in intents]


def checkpoint(connection: sqlite3.Connection, intents: list[i.Checkpoint], again: bool) -> Sequence[Written]:  # noqa: ARG001, FBT001 - a handler's shape
    """Keep results and move jobs on; after an unknown outcome the lease still stands, and is written to the same effect."""
    ids = listed([each.job_id for each in intents])
    held = {(job_id, fence): cancelled for job_id, fence, cancelled in connection.execute(_HELD, (ids,))}
    mine = [each for each in intents if (each.job_id, each.fence) in held]
    connection.executemany(
        _KEEP,
        [
            (each.job_id, each.stage, each.fence, each.attempt, each.started_at, each.finished_at, each.result_type, each.result)
            for each in mine
        ],
    )  # fmt: skip
    connection.executemany(_MOVE, [(each.next_stage, each.finished_at, each.job_id) for each in mine])
    answers = {None: Written.STALE, 0: Written.APPLIED, 1: Written.CANCELLED}
    return [answers[held.get((each.job_id, each.fence))] for each in intents]
