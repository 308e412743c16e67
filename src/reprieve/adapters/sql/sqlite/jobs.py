"""What workers and operators say about jobs, row by row: failures and cancellations are not hot."""

from __future__ import annotations

from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Final, assert_never

from reprieve.adapters.sql.analysis.opening import ask_of_job
from reprieve.adapters.sql.sqlite import operating
from reprieve.adapters.sql.sqlite.rows import LEASED, READY, SCHEDULED, SUSPECT, WAITING, end, end_cancelled, standing
from reprieve.adapters.sql.talking import on_sqlite
from reprieve.adapters.sql.words import SQLITE
from reprieve.core.lifecycle import JobStatus
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from reprieve.adapters.sql.sqlite.rows import Row

    Report = i.Retry | i.SetAside | i.Await | i.Release | i.Remember | i.Complete | i.Stop

_COUNTERS: Final = tuple(field.name for field in fields(i.Counters))
_GIVE_BACK: Final = f"""
UPDATE queue SET state = ?, waits_on = ?, run_at = ?, stage = ?, opened_at = COALESCE(?, opened_at), fence = ?, worker_id = NULL,
  leased_at = NULL, alone = false, {", ".join(f"{name} = ?" for name in _COUNTERS)}
WHERE job_id = ?
"""  # noqa: S608 - assembled from constants
_AWAIT: Final = """
UPDATE queue SET state = 3, waits_on = ?, worker_id = NULL, leased_at = NULL, alone = false WHERE job_id = ?
"""
_REMEMBER: Final = """
INSERT INTO memos (job_id, stage, key, value, created_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_ASK_TO_STOP: Final = "UPDATE queue SET cancel_requested = true, cancelled_by = ?, cancel_reason = ? WHERE job_id = ?"
_KNOWN: Final = "SELECT 1 FROM jobs WHERE id = ?"
_ENDED: Final = "SELECT status, fence FROM outcomes WHERE job_id = ?"
_CANCELLED: Final = "SELECT finished_at, ended_by, reason FROM outcomes WHERE job_id = ? AND status = 'cancelled'"
_RECORDED: Final = ("job_id", "fence", *(field.name for field in fields(i.AttemptRecord)))
_RECORD: Final = f"INSERT INTO attempts ({', '.join(_RECORDED)}) VALUES ({', '.join('?' * len(_RECORDED))})"  # noqa: S608 - names of ours
_ATTEMPTED: Final = "SELECT 1 FROM attempts WHERE job_id = ? AND fence = ?"


def report(connection: sqlite3.Connection, intents: list[Report], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """Write what became of attempts, each only where the fence is the job's."""
    rows = standing(connection, [each.job_id for each in intents])
    return [_report(connection, each, rows.get(each.job_id), again=again) for each in intents]


def _report(connection: sqlite3.Connection, said: Report, row: Row | None, *, again: bool) -> Written:
    if row is None or not _is_in_place(said, row):
        return _found_done(connection, said, row) if again else Written.STALE
    if row.cancel_requested and _would_go_on(said):
        end_cancelled(connection, row, by=row.cancelled_by, reason=row.cancel_reason, now=_time_of(said))
        return Written.CANCELLED
    _write(connection, said, row)
    return Written.APPLIED


def _write(connection: sqlite3.Connection, said: Report, row: Row) -> None:
    match said:
        case i.Retry():
            _record(connection, said, said.attempt)
            _give_back(connection, row, said, SCHEDULED)
        case i.Release():
            suspect = said.counters.crash + said.counters.out_of_memory > 0
            idle = SUSPECT if suspect else READY
            _give_back(connection, row, said, idle if said.run_at is None else SCHEDULED)
        case i.Await():
            connection.execute(_AWAIT, (said.waits_on, said.job_id))
            if said.waits_on.startswith("review"):
                asked = ask_of_job(
                    SQLITE, said.job_id, error_type="needs_review", reason=said.waits_on, material=None, now=said.now
                )
                on_sqlite(connection, asked)
        case i.SetAside():
            _set_aside(connection, said, row)
        case i.Remember():
            connection.execute(_REMEMBER, (said.job_id, said.stage, said.key, said.value, said.now))
        case i.Complete():
            outcome = (
                said.job_id,
                "succeeded",
                None,
                said.stage,
                said.fence,
                row.handler + 1,
                None,
                said.now,
                None,
                None,
            )
            end(connection, [(*outcome, said.result_type, said.result)])
        case i.Stop():
            end_cancelled(connection, row, by=row.cancelled_by, reason=row.cancel_reason, now=said.now)
        case _:
            assert_never(said)


def _is_in_place(said: Report, row: Row) -> bool:
    """Whether the intent is about the job as it stands."""
    if said.fence != row.fence:
        return False
    if isinstance(said, i.Stop) and not row.cancel_requested:
        return False
    unleased = isinstance(said, i.Complete) or (isinstance(said, i.Retry | i.SetAside) and said.unleased)
    return (row.state != LEASED) if unleased else (row.state == LEASED)


def _would_go_on(said: Report) -> bool:
    """Whether the job would be there still, waiting, though somebody asked to cancel it."""
    if isinstance(said, i.SetAside):
        return said.status is JobStatus.NEEDS_REVIEW
    return isinstance(said, i.Retry | i.Release | i.Await)


def _time_of(said: Report) -> float:
    return said.attempt.ended_at if isinstance(said, i.Retry | i.SetAside) else said.now


def _found_done(connection: sqlite3.Connection, said: Report, row: Row | None) -> Written:
    """What an earlier try of this very intent, whose outcome was unknown, has left."""
    if row is not None and isinstance(said, i.Release | i.Await):
        return Written.APPLIED if row.fence == said.fence and row.state != LEASED else Written.STALE
    done = False
    match said:
        case i.Retry() | i.SetAside():
            done = connection.execute(_ATTEMPTED, (said.job_id, said.fence)).fetchone() is not None
        case i.Complete():
            done = connection.execute(_ENDED, (said.job_id,)).fetchone() == ("succeeded", said.fence)
        case i.Stop() | i.Release() | i.Await() | i.Remember():
            pass
        case _:
            assert_never(said)
    if done:
        return Written.APPLIED
    stopped = connection.execute(_ENDED, (said.job_id,)).fetchone() == ("cancelled", said.fence)
    if isinstance(said, i.Stop):
        return Written.APPLIED if stopped else Written.STALE
    return Written.CANCELLED if stopped and _would_go_on(said) else Written.STALE


def _record(connection: sqlite3.Connection, said: i.Retry | i.SetAside, attempt: i.AttemptRecord) -> None:
    connection.execute(_RECORD, (said.job_id, said.fence, *astuple(attempt)))


def _give_back(connection: sqlite3.Connection, row: Row, said: i.Retry | i.SetAside | i.Release, state: int) -> None:
    """Take the lease off; a report by somebody without one moves the fence on, so that it counts once."""
    stage = row.stage if isinstance(said, i.Release) else said.attempt.stage
    opened_at = said.opened_at if isinstance(said, i.Retry) else None
    run_at = None if isinstance(said, i.SetAside) else said.run_at
    waits_on = "review" if isinstance(said, i.SetAside) else None
    unleased = not isinstance(said, i.Release) and said.unleased
    values = (state, waits_on, run_at, stage, opened_at, row.fence + unleased, *astuple(said.counters), said.job_id)
    connection.execute(_GIVE_BACK, values)


def _set_aside(connection: sqlite3.Connection, said: i.SetAside, row: Row) -> None:
    _record(connection, said, said.attempt)
    if said.status is JobStatus.SKIPPED:
        _skip(connection, said)
    else:
        _give_back(connection, row, said, WAITING)
        attempt = said.attempt
        asked = ask_of_job(
            SQLITE, said.job_id, error_type=attempt.error_class, reason=attempt.message, material=said.material, now=attempt.ended_at
        )  # fmt: skip
        on_sqlite(connection, asked)
    if said.pause:
        operating.pause(connection, row.pipeline, said.attempt)


def _skip(connection: sqlite3.Connection, said: i.SetAside) -> None:
    attempt = said.attempt
    outcome = (
        said.job_id, said.status.value, None, attempt.stage, said.fence, attempt.number, attempt.started_at, attempt.ended_at,
        attempt.error_class, None, None, None,
    )  # fmt: skip
    end(connection, [outcome])


def cancel(connection: sqlite3.Connection, intents: list[i.Cancel], again: bool) -> Sequence[i.Cancelled]:  # noqa: FBT001 - a handler's shape
    """End what nobody runs; ask for the rest."""
    rows = standing(connection, [each.job_id for each in intents])
    return [_cancel(connection, each, rows.get(each.job_id), again=again) for each in intents]


def _cancel(connection: sqlite3.Connection, wanted: i.Cancel, row: Row | None, *, again: bool) -> i.Cancelled:
    if row is None:
        if connection.execute(_KNOWN, (wanted.job_id,)).fetchone() is None:
            return i.Cancelled.UNKNOWN
        found = connection.execute(_CANCELLED, (wanted.job_id,)).fetchone()
        ours = again and found == (wanted.now, wanted.actor, wanted.reason)
        return i.Cancelled.DONE if ours else i.Cancelled.OVER
    if row.state == LEASED:
        connection.execute(_ASK_TO_STOP, (wanted.actor, wanted.reason, wanted.job_id))
        return i.Cancelled.REQUESTED
    end_cancelled(connection, row, by=wanted.actor, reason=wanted.reason, now=wanted.now)
    return i.Cancelled.DONE
