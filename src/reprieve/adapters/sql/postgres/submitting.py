"""Submissions: plain ones all in one statement, those of a subject one by one under a lock of that subject."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from reprieve.adapters.sql.postgres import statements as sql
from reprieve.adapters.sql.postgres.arrays import Blobs, Floats, Ints, MaybeFloats, Texts
from reprieve.adapters.sql.postgres.jobs import cancel_one
from reprieve.ports import intents as i

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reprieve.adapters.sql.postgres.link import Asking

    Reply = i.Submitted | i.KeyTaken | i.VersionTooLow


_SHARED: Final = attrgetter("pipeline", "stage", "payload_type", "created_at", "priority", "run_at")
"""What a bulk submission repeats in every job."""


async def submit(cursor: Asking, intents: list[i.Submit], again: bool) -> Sequence[Reply]:  # noqa: FBT001 - a handler's shape
    """Create jobs, or find those that are there."""
    replies: list[Reply | None] = [None] * len(intents)
    plain = [place for place, each in enumerate(intents) if each.subject is None]
    for delayed in (False, True):
        places = [place for place in plain if (intents[place].run_at is not None) is delayed]
        if places:
            statement = sql.SUBMIT_LATER if delayed else sql.SUBMIT
            found = await _plain(cursor, statement, [intents[place] for place in places], again=again)
            for place, reply in zip(places, found, strict=True):
                replies[place] = reply
    subjects = sorted({(each.pipeline, each.subject) for each in intents if each.subject is not None})
    for pipeline, subject in subjects:
        await cursor.execute(sql.VERSION_LOCK, (pipeline, subject))
    for place, each in enumerate(intents):
        if each.subject is not None:
            replies[place] = await _versioned(cursor, each, again=again)
    if subjects:
        await cursor.execute(sql.NOTIFY)
    return replies  # type: ignore[return-value]  # every place has been filled


async def _plain(cursor: Asking, statement: str, intents: list[i.Submit], *, again: bool) -> list[Reply]:
    first: dict[str, i.Submit] = {}
    for each in intents:
        first.setdefault(each.idempotency_key, each)
    ids, keys = await _insert(cursor, statement, list(first.values()))
    if keys is None and len(first) == len(intents):
        return [i.Submitted(job_id=job_id) for job_id in ids]
    made = dict(zip(first if keys is None else keys, ids, strict=True))
    missing = [key for key in first if key not in made]
    there: dict[str, tuple[Any, ...]] = {}
    late: Iterator[Reply] = iter(())
    if missing:
        await cursor.execute(sql.BY_KEY, (missing,))
        there = {row[1]: row for row in await cursor.fetchall()}
        # A key may be forgotten between the two statements: then there is room for it now.
        gone = [each for each in intents if each.idempotency_key not in made and each.idempotency_key not in there]
        if gone:
            late = iter(await _plain(cursor, statement, gone, again=again))
    replies: list[Reply] = []
    for each in intents:
        key = each.idempotency_key
        if key in made and first[key] is each:
            replies.append(i.Submitted(job_id=made[key]))
        elif key in made and first[key].pipeline != each.pipeline:
            replies.append(i.KeyTaken(pipeline=first[key].pipeline))
        elif key in made:
            same = first[key].payload == each.payload
            replies.append(i.Submitted(job_id=made[key], duplicate=True, mismatch=not same))
        else:
            replies.append(_known(each, there[key], again=again) if key in there else next(late))
    return replies


async def _insert(cursor: Asking, statement: str, rows: list[i.Submit]) -> tuple[Sequence[int], Sequence[str] | None]:
    """The ids of those that were created, in order; with their keys, unless all were."""
    values: dict[str, Any] = {
        "given": len(rows),
        "keys": Texts([each.idempotency_key for each in rows]),
        "payloads": Blobs([each.payload for each in rows]),
    }
    shared = set(map(_SHARED, rows))
    if len(shared) == 1 and statement is sql.SUBMIT:
        pipeline, stage, payload_type, created_at, priority, _ = shared.pop()
        await cursor.execute(
            sql.SUBMIT_ALIKE,
            values
            | {"pipeline": pipeline, "stage": stage, "payload_type": payload_type, "created_at": created_at, "priority": priority},
        )  # fmt: skip
    else:
        await cursor.execute(
            statement,
            values
            | {
                "pipelines": Texts([each.pipeline for each in rows]),
                "stages": Texts([each.stage for each in rows]),
                "payload_types": Texts([each.payload_type for each in rows]),
                "created_at": Floats([each.created_at for each in rows]),
                "priorities": Ints([each.priority for each in rows]),
                "run_at": MaybeFloats([each.run_at for each in rows]),
            },
        )
    ids, keys, _ = await cursor.fetchone() or ((), (), "")
    return ids or (), keys if ids else ()


def _known(wanted: i.Submit, row: tuple[Any, ...], *, again: bool) -> Reply:
    job_id, _, pipeline, payload, created_at, version = row
    if pipeline != wanted.pipeline:
        return i.KeyTaken(pipeline=pipeline)
    # Timestamps have microseconds; the first try of this very submission wrote the same one.
    ours = again and abs(created_at - wanted.created_at) < 1e-5  # noqa: PLR2004
    settled = version if wanted.next_version else None
    return i.Submitted(job_id=job_id, duplicate=not ours, mismatch=payload != wanted.payload, version=settled)


async def _versioned(cursor: Asking, wanted: i.Submit, *, again: bool) -> Reply:
    await cursor.execute(sql.BY_KEY, ([wanted.idempotency_key],))
    row = await cursor.fetchone()
    if row is not None:
        return _known(wanted, row, again=again)
    await cursor.execute(sql.HIGHEST, (wanted.pipeline, wanted.subject))
    before, highest = await cursor.fetchone() or (None, 0)
    if wanted.next_version:
        return await _next(cursor, wanted, before, highest, again=again)
    if before is not None and highest >= (wanted.version or 0):
        await cursor.execute(sql.BY_VERSION, (wanted.pipeline, wanted.subject, wanted.version))
        same = await cursor.fetchone()
        if same is None:
            return i.VersionTooLow(highest=highest)
        return i.Submitted(job_id=same[0], duplicate=True, mismatch=same[1] != wanted.payload)
    # Nobody, where another pipeline took the key in the meantime.
    made = await _create_version(cursor, wanted, before)
    return made or await _versioned(cursor, wanted, again=again)


async def _next(cursor: Asking, wanted: i.Submit, before: int | None, highest: int, *, again: bool) -> Reply:
    """One above all there are, and above all that somebody was told: deliveries outlive their jobs."""
    await cursor.execute(sql.TOLD, (wanted.subject,))
    (told,) = await cursor.fetchone() or (None,)
    highest = max(highest, told or 0)
    if highest >= i.HIGHEST_VERSION:
        return i.VersionTooLow(highest=highest)
    made = await _create_version(cursor, replace(wanted, version=highest + 1), before)
    return await _versioned(cursor, wanted, again=again) if made is None else replace(made, version=highest + 1)


async def _create_version(cursor: Asking, wanted: i.Submit, rerun_of: int | None) -> i.Submitted | None:
    await cursor.execute(
        sql.SUBMIT_VERSION,
        {
            "idempotency_key": wanted.idempotency_key, "pipeline": wanted.pipeline, "stage": wanted.stage,
            "payload": wanted.payload, "payload_type": wanted.payload_type, "created_at": wanted.created_at,
            "priority": wanted.priority, "subject": wanted.subject, "version": wanted.version,
            "rerun_of": rerun_of, "run_at": wanted.run_at,
        },
    )  # fmt: skip
    made = await cursor.fetchone()
    if made is None:
        return None
    return i.Submitted(job_id=made[0], superseded=await _supersede(cursor, wanted))


async def _supersede(cursor: Asking, wanted: i.Submit) -> tuple[int, ...]:
    if not wanted.supersedes:
        return ()
    values = {
        "pipeline": wanted.pipeline,
        "subject": wanted.subject,
        "version": wanted.version,
        "stages": list(wanted.supersedes),
    }
    await cursor.execute(sql.SUPERSEDED, values)
    older = [row[0] for row in await cursor.fetchall()]
    for job_id in older:
        reason = f"superseded by version {wanted.version}"
        await cancel_one(cursor, i.Cancel(job_id=job_id, actor="reprieve", reason=reason, now=wanted.created_at))
    return tuple(older)
