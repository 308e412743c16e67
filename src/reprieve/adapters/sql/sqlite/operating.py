"""What is said about stages, workers and jobs that wait; none of it is hot."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from reprieve.core.policy import Cause
from reprieve.ports import intents as i
from reprieve.ports.reader import StageView

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

_PAUSE: Final = """
INSERT INTO stages (pipeline, stage, paused, paused_by, reason, changed_at) VALUES (:pipeline, :stage, true, :actor, :reason, :now)
ON CONFLICT (pipeline, stage) DO UPDATE
SET paused = true, paused_by = excluded.paused_by, reason = excluded.reason, changed_at = excluded.changed_at
WHERE NOT stages.paused
"""
_RESUME: Final = """
UPDATE stages SET paused = false, paused_by = NULL, reason = NULL, held_until = NULL, opened_at = NULL, error_class = NULL,
  probe_until = NULL, changed_at = :now
WHERE pipeline = :pipeline AND stage = :stage AND (paused OR held_until IS NOT NULL)
"""
_HOLD: Final = """
INSERT INTO stages (pipeline, stage, held_until, opened_at, error_class, reason, changed_at)
VALUES (:pipeline, :stage, :until, CASE WHEN :opens THEN :now END, :error_class, :reason, :now)
ON CONFLICT (pipeline, stage) DO UPDATE
SET held_until = max(COALESCE(stages.held_until, excluded.held_until), excluded.held_until),
  opened_at = COALESCE(stages.opened_at, excluded.opened_at), error_class = excluded.error_class,
  reason = CASE WHEN stages.paused THEN stages.reason ELSE excluded.reason END,
  probe_until = CASE WHEN :opens THEN NULL ELSE stages.probe_until END, changed_at = excluded.changed_at
"""
_CLOSE: Final = """
UPDATE stages SET held_until = NULL, opened_at = NULL, error_class = NULL, probe_until = NULL,
  reason = CASE WHEN paused THEN reason END, changed_at = :now
WHERE pipeline = :pipeline AND stage = :stage AND opened_at IS NOT NULL
"""
_PROBE: Final = """
UPDATE stages SET probe_until = :until, changed_at = :now
WHERE pipeline = :pipeline AND stage = :stage AND opened_at IS NOT NULL AND NOT paused AND held_until <= :now
  AND (probe_until IS NULL OR probe_until <= :now)
"""
_GIVE_BACK: Final = """
UPDATE stages SET probe_until = NULL, changed_at = :now WHERE pipeline = :pipeline AND stage = :stage AND probe_until = :until
"""
_PROBED: Final = """
SELECT 1 FROM stages WHERE pipeline = :pipeline AND stage = :stage AND probe_until = :until AND changed_at = :now
"""
_CHANGES: Final = {
    i.Pause: _PAUSE,
    i.Resume: _RESUME,
    i.Hold: _HOLD,
    i.Close: _CLOSE,
    i.Probe: _PROBE,
    i.GiveBack: _GIVE_BACK,
}
_STAGES: Final = """
SELECT pipeline, stage, paused, paused_by, reason, held_until, opened_at, error_class, probe_until, changed_at
FROM stages ORDER BY pipeline, stage
"""
_WAKE: Final = """
UPDATE queue SET state = CASE WHEN crash + out_of_memory > 0 THEN 4 ELSE 0 END, waits_on = NULL
WHERE state = 3 AND substr(waits_on, 1, length(:prefix)) = :prefix AND waits_on <> :unless
  AND (:everywhere OR EXISTS (
    SELECT 1 FROM json_each(:stages) AS named
    WHERE json_extract(named.value, '$[0]') = queue.pipeline AND json_extract(named.value, '$[1]') = queue.stage))
"""
_REGISTER: Final = """
INSERT INTO workers (name, host, pid, started_at, expires_at) VALUES (?, ?, ?, ?, ?)
"""
_REGISTER_STAGE: Final = "INSERT INTO stages (pipeline, stage) VALUES (?, ?) ON CONFLICT DO NOTHING"
_RENEW: Final = "UPDATE workers SET expires_at = ?, stopping = ? WHERE id = ? AND lost_cause IS NULL"
_TO_CANCEL: Final = "SELECT job_id FROM queue WHERE cancel_requested AND worker_id = ? ORDER BY job_id"
_LEAVE: Final = "DELETE FROM workers WHERE id = ?"
_LOSE: Final = """
UPDATE workers SET lost_cause = COALESCE(lost_cause, :cause)
WHERE id = :worker_id AND (lost_cause IS NOT NULL OR :seen OR expires_at <= :now)
"""
_LOST: Final = """
SELECT id, name, host, pid, stopping, lost_cause FROM workers
WHERE id <> ? AND (expires_at <= ? OR lost_cause IS NOT NULL) ORDER BY id
"""


def change_stage(connection: sqlite3.Connection, intents: list[i.StageIntent], again: bool) -> Sequence[bool]:  # noqa: FBT001 - a handler's shape
    """Pause, resume, hold, close, probe or not; whether anything changed."""
    return [_change(connection, each, again=again) for each in intents]


def _change(connection: sqlite3.Connection, wanted: i.StageIntent, *, again: bool) -> bool:
    values = asdict(wanted)
    if connection.execute(_CHANGES[type(wanted)], values).rowcount > 0:
        return True
    return again and isinstance(wanted, i.Probe) and connection.execute(_PROBED, values).fetchone() is not None


def pause(connection: sqlite3.Connection, pipeline: str, attempt: i.AttemptRecord) -> None:
    """Pause the stage of a failure that every other job would meet too."""
    reason = attempt.error_class
    wanted = i.Pause(pipeline=pipeline, stage=attempt.stage, actor="reprieve", reason=reason, now=attempt.ended_at)
    _change(connection, wanted, again=False)


def stages(connection: sqlite3.Connection) -> Sequence[StageView]:
    """All that are known, without counts."""
    return [
        StageView(
            pipeline=pipeline, stage=stage, paused=bool(paused), paused_by=paused_by, reason=reason, held_until=held_until,
            opened_at=opened_at, error_class=error_class, probe_until=probe_until, changed_at=changed_at,
        )
        for pipeline, stage, paused, paused_by, reason, held_until, opened_at, error_class, probe_until, changed_at
        in connection.execute(_STAGES)
    ]  # fmt: skip


def wake(connection: sqlite3.Connection, intents: list[i.Wake], again: bool) -> Sequence[int]:  # noqa: ARG001, FBT001 - a handler's shape
    """Make waiting jobs ready, or suspects where a worker died on them."""
    answers = []
    for each in intents:
        values: dict[str, Any] = {"prefix": each.prefix, "unless": each.unless}
        values |= {"everywhere": not each.stages, "stages": json.dumps(each.stages)}
        answers.append(connection.execute(_WAKE, values).rowcount)
    return answers


def register(connection: sqlite3.Connection, intents: list[i.Register], again: bool) -> Sequence[int]:  # noqa: ARG001, FBT001 - a handler's shape
    """Give a worker its id; one registered in vain after an unknown outcome runs out by itself."""
    answers = []
    for each in intents:
        connection.executemany(_REGISTER_STAGE, each.stages)
        made = connection.execute(_REGISTER, (each.name, each.host, each.pid, each.now, each.expires_at))
        answers.append(made.lastrowid or 0)
    return answers


def renew(connection: sqlite3.Connection, intents: list[i.Renew], again: bool) -> Sequence[i.Renewed]:  # noqa: ARG001, FBT001 - a handler's shape
    """Push a worker's end further away, and tell it what to stop."""
    answers = []
    for each in intents:
        alive = connection.execute(_RENEW, (each.expires_at, each.stopping, each.worker_id)).rowcount > 0
        asked = connection.execute(_TO_CANCEL, (each.worker_id,)) if alive else ()
        answers.append(i.Renewed(alive=alive, cancel=tuple([row[0] for row in asked])))
    return answers


def leave(connection: sqlite3.Connection, intents: list[i.Leave], again: bool) -> Sequence[bool]:  # noqa: ARG001, FBT001 - a handler's shape
    """Forget workers."""
    return [connection.execute(_LEAVE, (each.worker_id,)).rowcount > 0 for each in intents]


def lose(connection: sqlite3.Connection, intents: list[i.Lost], again: bool) -> Sequence[bool]:  # noqa: ARG001, FBT001 - a handler's shape
    """Write down how workers ended; whether they are lost now."""
    return [connection.execute(_LOSE, {**asdict(each), "cause": each.cause.value}).rowcount > 0 for each in intents]


def lost_workers(connection: sqlite3.Connection, now: float, besides: int) -> Sequence[i.LostWorker]:
    """Those that do not renew any more."""
    return [
        i.LostWorker(
            worker_id=worker_id, name=name, host=host, pid=pid, stopping=bool(stopping),
            cause=None if cause is None else Cause(cause),
        )
        for worker_id, name, host, pid, stopping, cause in connection.execute(_LOST, (besides, now))
    ]  # fmt: skip
