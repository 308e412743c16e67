"""Deliveries on PostgreSQL: all that is said of one kind in a batch is one statement, in the order of the rows it locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reprieve.adapters.sql.deliveries import rows
from reprieve.adapters.sql.deliveries import statements as sql
from reprieve.adapters.sql.postgres.arrays import BigInts, Blobs, Floats, Ints, MaybeFloats, MaybeTexts, Texts
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reprieve.adapters.sql.postgres.link import Cursor

_KINDS: Final[Mapping[str, tuple[str, type[list[Any]]]]] = {
    "bigint": ("bigint", BigInts), "int": ("int", Ints), "flag": ("int", Ints), "text": ("text", Texts),
    "text?": ("text", MaybeTexts), "moment": ("float8", Floats), "moment?": ("float8", MaybeFloats), "bytes": ("bytea", Blobs),
}  # fmt: skip


def _given(columns: Mapping[str, str]) -> sql.Given:
    arrays = ", ".join(f"%b::{_KINDS[kind][0]}[]" for kind in columns.values())
    return sql.Given(columns, f"unnest({arrays}) WITH ORDINALITY AS g({', '.join(columns)}, place)")


def _arrays(columns: Mapping[str, str], given: Iterable[rows.Values]) -> list[list[Any]]:
    return [_KINDS[kind][1](values) for kind, values in zip(columns.values(), zip(*given, strict=True), strict=True)]


_BEGINS: Final = _given(sql.BEGIN_COLUMNS)
_ENDS: Final = _given(sql.END_COLUMNS)
_CORRECTIONS: Final = _given(sql.CORRECT_COLUMNS)
_DRAFTS: Final = _given(sql.PREPARE_COLUMNS)

_BEGIN: Final = f"{sql.begin(_BEGINS)} RETURNING g.place"
_BEGUN: Final = sql.begun(_BEGINS)


def _kept(change: str, log: str) -> str:
    return f"""
    WITH changed AS ({change} RETURNING g.*), kept AS ({log}) SELECT place FROM changed
    """  # noqa: S608 - assembled from constants


_END: Final = _kept(sql.end(_ENDS), sql.log(_ENDS, "FROM changed AS g"))
_ENDED: Final = sql.logged(_ENDS)
_CORRECT: Final = _kept(sql.correct(_CORRECTIONS), sql.log(_CORRECTIONS, "FROM changed AS g", moved=1))
_CORRECTED: Final = sql.logged(_CORRECTIONS, moved=1)
_NAMED: Final = "COALESCE(substring(q.waits_on FROM '^delivery:([0-9]{1,18})$')::bigint, q.job_id)"
_WAKE: Final = f"""
WITH settled AS MATERIALIZED ({sql.settled(_NAMED)} FOR UPDATE SKIP LOCKED)
UPDATE queue SET {sql.WAKEN} WHERE job_id = ANY(ARRAY(SELECT settled.job_id FROM settled))
"""  # noqa: S608 - assembled from constants

_MOMENTS: Final = frozenset(
    {"notified_at", "first_sent_at", "last_sent_at", "leased_until", "not_before", "created_at"}
)
_RECORD: Final = ", ".join(
    f"extract(epoch FROM d.{name})::float8" if name in _MOMENTS else f"d.{name}" for name in sql.RECORD
)
# One row by its key, however the planner would like to join.
_THERE: Final = f"""
CROSS JOIN LATERAL (
  SELECT {", ".join(sql.RECORD)} FROM deliveries
  WHERE changelist_id = g.changelist_id AND recipient = g.recipient AND review_version = g.review_version LIMIT 1
) AS d
"""  # noqa: S608 - assembled from constants
# A row without an id says that a job is held; rows that others are just committing are not seen, and looked for after.
_PREPARE: Final = f"""
WITH held AS MATERIALIZED (
  SELECT g.* FROM {_DRAFTS.table} CROSS JOIN LATERAL (
    SELECT 1 FROM queue WHERE job_id = g.job_id AND fence = g.fence AND state = 1 LIMIT 1
  ) AS q
), made AS (
  INSERT INTO deliveries (job_id, changelist_id, recipient, review_version, sender, token, required, body, created_at, changed_at)
  SELECT job_id, changelist_id, recipient, review_version, sender, token, required = 1, body, to_timestamp(now), to_timestamp(now)
  FROM held ORDER BY changelist_id COLLATE "C", recipient COLLATE "C", review_version, place
  ON CONFLICT (changelist_id, recipient, review_version) DO NOTHING
  RETURNING *
)
SELECT {_RECORD} FROM made AS d
UNION ALL SELECT {_RECORD} FROM held AS g {_THERE}
UNION ALL SELECT {", ".join("job_id" if name == "job_id" else "NULL" for name in sql.RECORD)} FROM held
"""  # noqa: S608 - assembled from constants
_PREPARED: Final = f"""
SELECT {_RECORD} FROM unnest(%b::text[], %b::text[], %b::int[]) AS g(changelist_id, recipient, review_version) {_THERE}
"""  # noqa: S608 - assembled from constants


async def prepare(cursor: Cursor, intents: list[i.Prepare], again: bool) -> Sequence[i.Prepared]:  # noqa: ARG001, FBT001 - a handler's shape
    """Write rows where there are none; what there is now."""
    drafts = [draft for each in intents for draft in rows.of_drafts(each)]
    if not drafts:
        return [i.Prepared(rows=())] * len(intents)
    await cursor.execute(_PREPARE, _arrays(sql.PREPARE_COLUMNS, drafts))
    held: set[int] = set()
    found: dict[tuple[str, str, int], i.DeliveryRecord] = {}
    for row in await cursor.fetchall():
        if row[0] is None:
            held.add(row[1])
        else:
            found[row[2], row[3], row[4]] = rows.record(row)
    mine = {each.job_id: _keys(each) for each in intents if each.job_id in held}
    missing = [key for keys in mine.values() for key in keys if key not in found]
    if missing:
        names, recipients, versions = zip(*missing, strict=True)
        await cursor.execute(_PREPARED, (Texts(names), Texts(recipients), Ints(versions)))
        found |= {(row[2], row[3], row[4]): rows.record(row) for row in await cursor.fetchall()}
    return [i.Prepared(rows=tuple([found[key] for key in mine.get(each.job_id, ())])) for each in intents]


def _keys(said: i.Prepare) -> list[tuple[str, str, int]]:
    return [(said.changelist_id, draft.recipient, said.review_version) for draft in said.drafts]


async def begin(cursor: Cursor, intents: list[i.Begin], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """Take deliveries; what was taken by an earlier try is taken by one of those who said so."""
    found: set[i.Begin] = set()
    if again:
        given = [rows.of_begin(each) for each in intents]
        found = {intents[place] for place in await _places(cursor, _BEGUN, sql.BEGIN_COLUMNS, given)}
    answers = await _each(cursor, _BEGIN, sql.BEGIN_COLUMNS, [rows.of_begin(each) for each in intents])
    for place, each in enumerate(intents):
        if each in found:
            answers[place] = Written.APPLIED
            found.discard(each)
    return answers


async def end(cursor: Cursor, intents: list[i.End], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """Write what came of sends and look-ups."""
    given = [rows.of_end(each) for each in intents]
    answers = await _each(cursor, _END, sql.END_COLUMNS, given)
    return await _or_before(cursor, _ENDED, sql.END_COLUMNS, given, answers) if again else answers


async def correct(cursor: Cursor, intents: list[i.Correct], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """Write what people and sweeps say."""
    given = [rows.of_correction(each) for each in intents]
    answers = await _each(cursor, _CORRECT, sql.CORRECT_COLUMNS, given)
    return await _or_before(cursor, _CORRECTED, sql.CORRECT_COLUMNS, given, answers) if again else answers


async def wake(cursor: Cursor, intents: list[i.WakeDelivered], again: bool) -> Sequence[int]:  # noqa: ARG001, FBT001 - a handler's shape
    """Make jobs ready whose deliveries are settled."""
    answers = []
    for _ in intents:
        await cursor.execute(_WAKE)
        answers.append(cursor.rowcount)
    return answers


async def _places(
    cursor: Cursor, statement: str, columns: Mapping[str, str], given: Sequence[rows.Values]
) -> Iterable[int]:
    """Which of the rows a statement found or changed; they are handed over, and so locked, in the order of their ids."""
    order = sorted(range(len(given)), key=lambda place: given[place][0])
    ids = BigInts(given[place][0] for place in order)
    await cursor.execute(statement, [*_arrays(columns, [given[place] for place in order]), ids])
    return [order[row[0] - 1] for row in await cursor.fetchall()]


async def _each(
    cursor: Cursor, statement: str, columns: Mapping[str, str], given: Sequence[rows.Values]
) -> list[Written]:
    answers = [Written.STALE] * len(given)
    for place in await _places(cursor, statement, columns, given):
        answers[place] = Written.APPLIED
    return answers


async def _or_before(
    cursor: Cursor, statement: str, columns: Mapping[str, str], given: Sequence[rows.Values], answers: list[Written]
) -> list[Written]:
    """After an unknown outcome: what was kept under the same fence was applied the first time."""
    if Written.STALE in answers:
        for place in await _places(cursor, statement, columns, given):
            answers[place] = Written.APPLIED
    return answers
