"""What workers and operators say about jobs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from reprieve.adapters.sql.analysis.opening import ask_of_job
from reprieve.adapters.sql.postgres import statements as sql
from reprieve.adapters.sql.postgres.arrays import BigInts, Blobs, Floats, Ints, Texts
from reprieve.adapters.sql.talking import on_postgres
from reprieve.adapters.sql.words import POSTGRES
from reprieve.core.lifecycle import JobStatus
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.adapters.sql.postgres.link import Asking, Cursor

_OF = {True: Written.APPLIED, False: Written.STALE}


async def finish(cursor: Cursor, intents: list[i.Finish], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """End jobs that have succeeded, all in one statement."""
    await cursor.execute(
        sql.FINISH,
        _done(intents),
    )
    done = {row[0] for row in await cursor.fetchall()}
    if again and len(done) < len(intents):
        done |= await _found(
            cursor, "SELECT job_id FROM outcomes WHERE status = 'succeeded' AND (job_id, fence)", intents
        )
    return [_OF[each.job_id in done] for each in intents]


async def checkpoint(cursor: Cursor, intents: list[i.Checkpoint], again: bool) -> Sequence[Written]:  # noqa: ARG001, FBT001 - a handler's shape
    """Keep results and move jobs on, all in one statement."""
    await cursor.execute(
        sql.CHECKPOINT,
        {**_done(intents), "next_stages": Texts([each.next_stage for each in intents])},
    )
    done = {row[0]: Written.CANCELLED if row[1] else Written.APPLIED for row in await cursor.fetchall()}
    # After an unknown outcome the lease still stands under its fence: written again, to the same effect.
    return [done.get(each.job_id, Written.STALE) for each in intents]


def _done(intents: Sequence[i.Finish] | Sequence[i.Checkpoint]) -> dict[str, list[Any]]:
    """Stages that have succeeded, a column an array."""
    return {
        "job_ids": BigInts([each.job_id for each in intents]),
        "fences": BigInts([each.fence for each in intents]),
        "stages": Texts([each.stage for each in intents]),
        "results": Blobs([each.result for each in intents]),
        "result_types": Texts([each.result_type for each in intents]),
        "attempts": Ints([each.attempt for each in intents]),
        "started_at": Floats([each.started_at for each in intents]),
        "finished_at": Floats([each.finished_at for each in intents]),
    }


async def retry(cursor: Cursor, intents: list[i.Retry], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """Schedule another try; what somebody asked to cancel is cancelled instead."""
    values = [
        {
            **_about(each), **_attempt(each.attempt), **asdict(each.counters),
            "run_at": each.run_at, "opened_at": each.opened_at, "unleased": each.unleased, "now": each.attempt.ended_at,
        }
        for each in intents
    ]  # fmt: skip
    answers = await _each(cursor, sql.RETRY, values)
    return await _or_cancelled(
        cursor, values, await _seen(cursor, "attempts", intents, answers, again=again), again=again
    )


async def set_aside(cursor: Cursor, intents: list[i.SetAside], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """Skip, or wait for a person."""
    answers = []
    for each in intents:
        statement = sql.SKIP if each.status is JobStatus.SKIPPED else sql.ASK
        pipeline = await _pipeline(cursor, each.job_id) if each.pause else ""
        values = {
            **_about(each), **_attempt(each.attempt), **asdict(each.counters), "unleased": each.unleased,
            "now": each.attempt.ended_at,
        }  # fmt: skip
        written = await _each(cursor, statement, [values])
        if each.status is JobStatus.NEEDS_REVIEW and written[0] is Written.APPLIED:
            asked = ask_of_job(
                POSTGRES, each.job_id, error_type=each.attempt.error_class, reason=each.attempt.message, material=each.material,
                now=each.attempt.ended_at,
            )  # fmt: skip
            await on_postgres(cursor, asked)
        answer = await _seen(cursor, "attempts", [each], written, again=again)
        answer = await _or_cancelled(cursor, [values], answer, again=again)
        if each.pause and answer[0] is Written.APPLIED:
            await _pause(cursor, pipeline, each.attempt)
        answers += answer
    return answers


async def wait(cursor: Cursor, intents: list[i.Await], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """Give leases back until something is answered."""
    values = [asdict(each) for each in intents]
    written = await _each(cursor, sql.AWAIT, values)
    for each, answer in zip(intents, written, strict=True):
        if each.waits_on.startswith("review") and answer is Written.APPLIED:
            asked = ask_of_job(
                POSTGRES, each.job_id, error_type="needs_review", reason=each.waits_on, material=None, now=each.now
            )
            await on_postgres(cursor, asked)
    answers = await _given_back(cursor, intents, written, again=again)
    return await _or_cancelled(cursor, values, answers, again=again)


async def release(cursor: Cursor, intents: list[i.Release], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """Give leases back."""
    values = [{**_about(each), **asdict(each.counters), "run_at": each.run_at, "now": each.now} for each in intents]
    answers = await _given_back(cursor, intents, await _each(cursor, sql.RELEASE, values), again=again)
    return await _or_cancelled(cursor, values, answers, again=again)


async def remember(cursor: Cursor, intents: list[i.Remember], again: bool) -> Sequence[Written]:  # noqa: ARG001, FBT001 - a handler's shape
    """Keep memos; the first under a key stays."""
    values = [asdict(each) for each in intents]
    await cursor.executemany(sql.REMEMBER, values)
    return await _each(cursor, sql.HOLDS, values)


async def complete(cursor: Cursor, intents: list[i.Complete], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """End jobs that nobody had leased."""
    answers = await _each(cursor, sql.COMPLETE, [asdict(each) for each in intents])
    return await _seen(cursor, "outcomes", intents, answers, again=again, status="succeeded")


async def stop(cursor: Cursor, intents: list[i.Stop], again: bool) -> Sequence[Written]:  # noqa: FBT001 - a handler's shape
    """End jobs whose workers stopped them."""
    answers = await _each(cursor, sql.STOP, [asdict(each) for each in intents])
    return await _seen(cursor, "outcomes", intents, answers, again=again, status="cancelled")


async def cancel(cursor: Cursor, intents: list[i.Cancel], again: bool) -> Sequence[i.Cancelled]:  # noqa: FBT001 - a handler's shape
    """End what nobody runs; ask for the rest."""
    return [await cancel_one(cursor, each, again=again) for each in intents]


async def cancel_one(cursor: Asking, wanted: i.Cancel, *, again: bool = False) -> i.Cancelled:
    """End a job that nobody runs, or ask its worker."""
    values = asdict(wanted)
    if again:
        await cursor.execute(sql.CANCELLED_BEFORE, values)
        if await cursor.fetchone() is not None:
            return i.Cancelled.DONE
    await cursor.execute(sql.STANDS, values)
    standing = await cursor.fetchone()
    if standing is None:
        await cursor.execute(sql.EXISTS, values)
        return i.Cancelled.UNKNOWN if await cursor.fetchone() is None else i.Cancelled.OVER
    if standing[0] == i.QueueState.LEASED:
        await cursor.execute(sql.CANCEL_LATER, values)
        return i.Cancelled.REQUESTED
    await cursor.execute(sql.CANCEL_NOW, values)
    return i.Cancelled.DONE


def _about(intent: i.Retry | i.SetAside | i.Release) -> dict[str, Any]:
    return {"job_id": intent.job_id, "fence": intent.fence}


def _attempt(record: i.AttemptRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in sql.ATTEMPT_COLUMNS} | {"cause": record.cause.value}


async def _each(cursor: Cursor, statement: str, values: list[dict[str, Any]]) -> list[Written]:
    """Run a statement for each row, pipelined; it was applied where it returned something."""
    await cursor.executemany(statement, values, returning=True)
    answers = []
    while True:
        answers.append(_OF[await cursor.fetchone() is not None])
        if not cursor.nextset():
            return answers


async def _found(cursor: Cursor, select: str, intents: Sequence[i.JobIntent]) -> set[int]:
    await cursor.execute(
        f"{select} IN (SELECT * FROM unnest(%b::bigint[], %b::bigint[]))",  # noqa: S608 - assembled from constants
        ([each.job_id for each in intents], [each.fence for each in intents if not isinstance(each, i.Cancel)]),
    )
    return {row[0] for row in await cursor.fetchall()}


async def _seen(
    cursor: Cursor,
    table: str,
    intents: Sequence[i.JobIntent],
    answers: list[Written],
    *,
    again: bool,
    status: str | None = None,
) -> list[Written]:
    """After an unknown outcome: what stands in the table under the same fence was applied the first time."""
    if not again or Written.STALE not in answers:
        return answers
    ended = "" if status is None else f"status = '{status}' AND "
    done = await _found(cursor, f"SELECT job_id FROM {table} WHERE {ended}(job_id, fence)", intents)  # noqa: S608 - our own names
    return [Written.APPLIED if each.job_id in done else answer for each, answer in zip(intents, answers, strict=True)]


async def _given_back(
    cursor: Cursor, intents: Sequence[i.JobIntent], answers: list[Written], *, again: bool
) -> list[Written]:
    if not again or Written.STALE not in answers:
        return answers
    done = await _found(cursor, "SELECT job_id FROM queue WHERE state <> 1 AND (job_id, fence)", intents)
    return [Written.APPLIED if each.job_id in done else answer for each, answer in zip(intents, answers, strict=True)]


async def _or_cancelled(
    cursor: Cursor, values: list[dict[str, Any]], answers: list[Written], *, again: bool
) -> list[Written]:
    """What was not applied because somebody asked to cancel it ends here, or has ended here before.

    A report by somebody without a lease leaves that to the worker that has it.
    """
    for statement in (sql.STOP, sql.STOPPED) if again else (sql.STOP,):
        asked = [
            place
            for place, answer in enumerate(answers)
            if answer is Written.STALE and not values[place].get("unleased", False)
        ]
        if asked:
            stopped = await _each(cursor, statement, [values[place] for place in asked])
            for place, answer in zip(asked, stopped, strict=True):
                if answer is Written.APPLIED:
                    answers[place] = Written.CANCELLED
    return answers


async def _pipeline(cursor: Cursor, job_id: int) -> str:
    await cursor.execute("SELECT pipeline FROM jobs WHERE id = %s", (job_id,))
    row = await cursor.fetchone()
    return "" if row is None else row[0]


async def _pause(cursor: Cursor, pipeline: str, attempt: i.AttemptRecord) -> None:
    await cursor.execute(
        sql.PAUSE,
        {"pipeline": pipeline, "stage": attempt.stage, "actor": "reprieve", "reason": attempt.error_class, "now": attempt.ended_at},
    )  # fmt: skip
