"""What several kinds of intents ask of the tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

READY: Final = 0
LEASED: Final = 1
SCHEDULED: Final = 2
WAITING: Final = 3
SUSPECT: Final = 4


class Row(NamedTuple):
    """What is needed of a job in the queue to judge an intent about it."""

    job_id: int
    fence: int
    state: int
    cancel_requested: int
    cancelled_by: str | None
    cancel_reason: str | None
    pipeline: str
    stage: str
    handler: int


_ROWS: Final = f"SELECT {', '.join(Row._fields)} FROM queue WHERE job_id IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants
_DROP: Final = "DELETE FROM queue WHERE job_id IN (SELECT value FROM json_each(?))"
_END: Final = """
INSERT INTO outcomes (job_id, status, status_code, stage, fence, attempt, started_at, finished_at, reason, ended_by, result_type, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def listed(numbers: Iterable[int]) -> str:
    """Numbers as the JSON array that `json_each` takes: one parameter for any number of them."""
    return f"[{','.join(map(str, numbers))}]"


def quoted(texts: Iterable[str]) -> str:
    """Texts as such an array."""
    return json.dumps(list(texts))


def standing(connection: sqlite3.Connection, job_ids: Iterable[int]) -> dict[int, Row]:
    """The rows of jobs that are not over, by id."""
    found = connection.execute(_ROWS, (listed(job_ids),))
    return {row[0]: Row._make(row) for row in found}


def end(connection: sqlite3.Connection, outcomes: Sequence[tuple[Any, ...]]) -> None:
    """Take jobs out of the queue and write how each ended; the tuples are the columns of `outcomes`, codec left out."""
    connection.execute(_DROP, (listed([outcome[0] for outcome in outcomes]),))
    connection.executemany(_END, outcomes)


def end_cancelled(connection: sqlite3.Connection, row: Row, *, by: str | None, reason: str | None, now: float) -> None:
    """End a job that somebody does not want any more."""
    outcome = (row.job_id, "cancelled", None, row.stage, row.fence, row.handler, None, now, reason, by, None, None)
    end(connection, [outcome])
