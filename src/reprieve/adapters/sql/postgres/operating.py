"""What is said about stages, workers and jobs that wait."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from reprieve.adapters.sql.postgres import statements as sql
from reprieve.ports import intents as i

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.adapters.sql.postgres.link import Cursor

_STAGE_STATEMENTS = {
    i.Pause: sql.PAUSE, i.Resume: sql.RESUME, i.Hold: sql.HOLD, i.Close: sql.CLOSE, i.Probe: sql.PROBE,
    i.GiveBack: sql.GIVE_BACK,
}  # fmt: skip


async def change_stage(cursor: Cursor, intents: list[i.StageIntent], again: bool) -> Sequence[bool]:  # noqa: FBT001 - a handler's shape
    """Pause, resume, hold, close, probe or not; whether anything changed."""
    answers = [False] * len(intents)
    # Stage by stage, so that two batches cannot lock each other out; of one stage in the order of saying.
    for place, each in sorted(enumerate(intents), key=lambda found: (found[1].pipeline, found[1].stage)):
        await cursor.execute(_STAGE_STATEMENTS[type(each)], asdict(each))
        answers[place] = cursor.rowcount > 0
        if again and not answers[place] and isinstance(each, i.Probe):
            await cursor.execute(sql.PROBED, asdict(each))
            answers[place] = await cursor.fetchone() is not None
    return answers


async def wake(cursor: Cursor, intents: list[i.Wake], again: bool) -> Sequence[int]:  # noqa: ARG001, FBT001 - a handler's shape
    """Make waiting jobs ready."""
    answers = []
    for each in intents:
        pipelines = [pipeline for pipeline, _ in each.stages]
        stages = [stage for _, stage in each.stages]
        values = {"prefix": each.prefix, "unless": each.unless, "pipelines": pipelines, "stages": stages}
        await cursor.execute(sql.WAKE, values)
        answers.append(cursor.rowcount)
    return answers


async def register(cursor: Cursor, intents: list[i.Register], again: bool) -> Sequence[int]:  # noqa: ARG001, FBT001 - a handler's shape
    """Give a worker its id; one registered in vain after an unknown outcome runs out by itself."""
    answers = []
    for each in intents:
        stages = sorted(each.stages)
        values = {"pipelines": [pipeline for pipeline, _ in stages], "stages": [stage for _, stage in stages]}
        await cursor.execute(sql.REGISTER_STAGES, values)
        await cursor.execute(sql.REGISTER, {**asdict(each), "stages": None})
        row = await cursor.fetchone()
        answers.append(row[0] if row else 0)
    return answers


async def renew(cursor: Cursor, intents: list[i.Renew], again: bool) -> Sequence[i.Renewed]:  # noqa: ARG001, FBT001 - a handler's shape
    """Push a worker's end further away, and tell it what to stop."""
    answers = []
    for each in intents:
        await cursor.execute(sql.RENEW, asdict(each))
        if await cursor.fetchone() is None:
            answers.append(i.Renewed(alive=False))
            continue
        await cursor.execute(sql.TO_CANCEL, {"worker_id": each.worker_id})
        answers.append(i.Renewed(alive=True, cancel=tuple([row[0] for row in await cursor.fetchall()])))
    return answers


async def leave(cursor: Cursor, intents: list[i.Leave], again: bool) -> Sequence[bool]:  # noqa: ARG001, FBT001 - a handler's shape
    """Forget workers."""
    answers = []
    for each in intents:
        await cursor.execute(sql.LEAVE, {"worker_id": each.worker_id})
        answers.append(cursor.rowcount > 0)
    return answers


async def lose(cursor: Cursor, intents: list[i.Lost], again: bool) -> Sequence[bool]:  # noqa: ARG001, FBT001 - a handler's shape
    """Write down how workers ended; whether they are lost now."""
    answers = []
    for each in intents:
        await cursor.execute(sql.LOST, {**asdict(each), "cause": each.cause.value})
        answers.append(cursor.rowcount > 0)
    return answers
