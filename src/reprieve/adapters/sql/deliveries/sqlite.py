"""Deliveries on SQLite, where a batch is alone: each row in its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reprieve.adapters.sql.deliveries import rows
from reprieve.adapters.sql.deliveries import statements as sql
from reprieve.adapters.sql.sqlite.rows import LEASED, standing
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

_BEGINS: Final = sql.Given(sql.BEGIN_COLUMNS)
_ENDS: Final = sql.Given(sql.END_COLUMNS)
_CORRECTIONS: Final = sql.Given(sql.CORRECT_COLUMNS)
_BEGIN: Final = sql.begin(_BEGINS)
_BEGUN: Final = sql.begun(_BEGINS)
_END: Final = sql.end(_ENDS)
_LOG_END: Final = sql.log(_ENDS)
_ENDED: Final = sql.logged(_ENDS)
_CORRECT: Final = sql.correct(_CORRECTIONS)
_LOG_CORRECTION: Final = sql.log(_CORRECTIONS, moved=1)
_CORRECTED: Final = sql.logged(_CORRECTIONS, moved=1)
_NAMES_A_JOB: Final = "length(q.waits_on) BETWEEN 10 AND 27 AND substr(q.waits_on, 10) NOT GLOB '*[^0-9]*'"
_NAMED: Final = f"CASE WHEN {_NAMES_A_JOB} THEN CAST(substr(q.waits_on, 10) AS INTEGER) ELSE q.job_id END"
_WAKE: Final = f"UPDATE queue SET {sql.WAKEN} WHERE job_id IN ({sql.settled(_NAMED)})"  # noqa: S608 - assembled from constants
_PREPARE: Final = """
INSERT INTO deliveries
  (job_id, changelist_id, recipient, review_version, sender, token, required, body, created_at, changed_at)
VALUES (:job_id, :changelist_id, :recipient, :review_version, :sender, :token, :required, :body, :now, :now)
ON CONFLICT (changelist_id, recipient, review_version) DO NOTHING
"""
_PREPARED: Final = f"""
SELECT {", ".join(sql.RECORD)} FROM deliveries WHERE changelist_id = ? AND recipient = ? AND review_version = ?
"""  # noqa: S608 - assembled from constants


def prepare(connection: sqlite3.Connection, intents: list[i.Prepare], again: bool) -> Sequence[i.Prepared]:  # noqa: ARG001, FBT001 - a handler's shape
    """Write rows where there are none; what there is now."""
    queued = standing(connection, [each.job_id for each in intents])
    answers = []
    for each in intents:
        row = queued.get(each.job_id)
        held = row is not None and row.state == LEASED and row.fence == each.fence
        answers.append(_prepare(connection, each) if held else i.Prepared(rows=()))
    return answers


def _prepare(connection: sqlite3.Connection, said: i.Prepare) -> i.Prepared:
    drafts = [dict(zip(sql.PREPARE_COLUMNS, each, strict=True)) for each in rows.of_drafts(said)]
    connection.executemany(_PREPARE, drafts)
    keys = [(said.changelist_id, each.recipient, said.review_version) for each in said.drafts]
    return i.Prepared(rows=tuple([rows.record(connection.execute(_PREPARED, key).fetchone()) for key in keys]))


def begin(connection: sqlite3.Connection, intents: list[i.Begin], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """Take deliveries; what was taken by an earlier try is taken by one of those who said so."""
    given = [dict(zip(sql.BEGIN_COLUMNS, rows.of_begin(each), strict=True)) for each in intents]
    found = {each for each in intents if again and connection.execute(_BEGUN, given[intents.index(each)]).fetchone()}
    answers = []
    for each, values in zip(intents, given, strict=True):
        done = connection.execute(_BEGIN, values).rowcount > 0 or each in found
        found.discard(each)
        answers.append(Written.APPLIED if done else Written.STALE)
    return answers


def end(connection: sqlite3.Connection, intents: list[i.End], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """Write what came of sends and look-ups."""
    given = [dict(zip(sql.END_COLUMNS, rows.of_end(each), strict=True)) for each in intents]
    return _each(connection, given, _END, _LOG_END, _ENDED if again else None)


def correct(connection: sqlite3.Connection, intents: list[i.Correct], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """Write what people and sweeps say."""
    given = [dict(zip(sql.CORRECT_COLUMNS, rows.of_correction(each), strict=True)) for each in intents]
    return _each(connection, given, _CORRECT, _LOG_CORRECTION, _CORRECTED if again else None)


def wake(connection: sqlite3.Connection, intents: list[i.WakeDelivered], again: bool) -> Sequence[int]:  # noqa: ARG001, FBT001 - a handler's shape
    """Make jobs ready whose deliveries are settled."""
    return [connection.execute(_WAKE).rowcount for _ in intents]


def _each(
    connection: sqlite3.Connection, given: Sequence[Mapping[str, Any]], change: str, log: str, before: str | None
) -> Sequence[Written]:
    """Change each row that may be changed, and keep what was tried; `before` finds what an earlier try has kept."""
    changed = [connection.execute(change, values).rowcount > 0 for values in given]
    connection.executemany(log, [values for values, done in zip(given, changed, strict=True) if done])
    return [
        Written.APPLIED
        if done or (before is not None and connection.execute(before, values).fetchone() is not None)
        else Written.STALE
        for values, done in zip(given, changed, strict=True)
    ]
