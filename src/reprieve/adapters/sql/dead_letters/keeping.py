"""Dead letters that were closed long ago are reduced to a summary: texts and entries go, the letter itself stays."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete, exists, func, select, update

from reprieve.adapters.sql.tables import dead_letter_groups, dead_letter_history, dead_letter_texts, dead_letters
from reprieve.core.lifecycle import CLOSED, LetterEvent
from reprieve.ports.dead_letters import LettersPruned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Connection

_CLOSED: Final = [state.value for state in CLOSED]
_FOR_ONE: Final = 20
"""At how many letters to look for each that is to be found closed: so a statement has its bounds where few are."""
_LONGEST_NOTE: Final = 500
ERASED: Final = "erased"
"""What a failure said, once its subject is erased."""


def prune_letters(connection: Connection, *, before: float, limit: int, dry: bool, after: int) -> LettersPruned:
    """Of the next ones that are closed, at most `limit`, reduce those that were closed before."""
    until = after + _FOR_ONE * limit
    closed = (
        select(dead_letters, dead_letter_groups.c.error_class, dead_letter_groups.c.stage)
        .join(dead_letter_groups, dead_letter_groups.c.id == dead_letters.c.group_id)
        .where(dead_letters.c.id > after, dead_letters.c.id <= until, dead_letters.c.state.in_(_CLOSED))
        .order_by(dead_letters.c.id)
        .limit(limit)
        .with_for_update(of=dead_letters)  # nobody reopens one meanwhile
    )
    rows = connection.execute(closed).all()
    last = rows[-1].id if len(rows) == limit else until
    # The next one there is, however far away.
    following = connection.scalar(select(func.min(dead_letters.c.id)).where(dead_letters.c.id > last))
    due = [row for row in rows if row.closed_at < before]
    history = _entries(connection, [row.id for row in due])
    pruned = [row for row in due if row.summary is None or history[row.id]]
    if pruned and not dry:
        _reduce(connection, pruned, history)
    return LettersPruned(
        letters=len(pruned), more=following is not None, after=last if following is None else following - 1
    )


def erase_letters(connection: Connection, job_ids: Sequence[int]) -> None:
    """Reduce the letters of these jobs, whatever their state: no text, no digest and no word of anybody stays."""
    found = (
        select(dead_letters, dead_letter_groups.c.error_class, dead_letter_groups.c.stage)
        .join(dead_letter_groups, dead_letter_groups.c.id == dead_letters.c.group_id)
        .where(dead_letters.c.job_id.in_(job_ids))
        .order_by(dead_letters.c.id)
        .with_for_update(of=dead_letters)
    )
    rows = connection.execute(found).all()
    if not rows:
        return
    _reduce(connection, rows, _entries(connection, [row.id for row in rows]), quotes=False)
    of_jobs = dead_letters.c.job_id.in_(job_ids)
    connection.execute(update(dead_letters).where(of_jobs).values(signature=ERASED))
    # A group is called by what its first member said: by its class, where no other says the same.
    said = dead_letters.c.signature == dead_letter_groups.c.signature
    others = exists().where(dead_letters.c.group_id == dead_letter_groups.c.id, said)
    connection.execute(
        update(dead_letter_groups)
        .where(dead_letter_groups.c.id.in_({row.group_id for row in rows}), ~others)
        .values(signature=dead_letter_groups.c.error_class)
    )


def _entries(connection: Connection, ids: Sequence[int]) -> Mapping[int, list[Any]]:
    """By letter, the oldest first."""
    found: defaultdict[int, list[Any]] = defaultdict(list)
    of_letters = select(dead_letter_history).where(dead_letter_history.c.letter_id.in_(ids))
    for entry in connection.execute(of_letters.order_by(dead_letter_history.c.id)):
        found[entry.letter_id].append(entry)
    return found


def _reduce(
    connection: Connection, rows: Sequence[Any], history: Mapping[int, list[Any]], *, quotes: bool = True
) -> None:
    now = time.time()
    ids = [row.id for row in rows]
    connection.execute(
        update(dead_letters).where(dead_letters.c.id == bindparam("letter")).values(summary=bindparam("told")),
        [{"letter": row.id, "told": json.dumps(_summary(row, history[row.id], now, quotes=quotes))} for row in rows],
    )
    connection.execute(delete(dead_letter_texts).where(dead_letter_texts.c.letter_id.in_(ids)))
    connection.execute(delete(dead_letter_history).where(dead_letter_history.c.letter_id.in_(ids)))


def _summary(row: Any, entries: Sequence[Any], now: float, *, quotes: bool) -> dict[str, Any]:  # noqa: ANN401 - a row of the table
    """What stays of a letter's history, what was said at its end only where it `quotes`; what an earlier pruning left is carried on."""
    earlier: dict[str, Any] = json.loads(row.summary or "{}")
    named = [entry for entry in entries if entry.event == LetterEvent.TRIAGE]
    ended = [entry for entry in entries if entry.after in _CLOSED and entry.before not in _CLOSED]
    end = ended[-1] if ended else None
    return {
        "error_class": row.error_class,
        "stage": row.stage,
        "cause": row.cause,
        "cause_named_by": named[-1].actor if named else earlier.get("cause_named_by"),
        "entries": earlier.get("entries", 0) + len(entries),
        "replays": row.replays,
        "ended_as": row.state,
        "ended_at": row.closed_at,
        "ended_by": end.actor if end else earlier.get("ended_by"),
        "resolution": (end.note[:_LONGEST_NOTE] if end else earlier.get("resolution")) if quotes else None,
        "pruned_at": now,
    }
