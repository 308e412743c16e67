"""Our engine when it replays a group of dead letters: those of the waves before the last, and as many as are asked for."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import reprieve
from engine.with_reprieve import AT_ONCE, Change, install, work
from reprieve.core.canary import WAVES

if TYPE_CHECKING:
    from engine.order import Order

__all__ = ["install", "submit", "work"]


def _broken() -> reprieve.Pipeline:
    """The pipeline of the bench before somebody mended it."""
    pipeline = reprieve.Pipeline("bench")

    @pipeline.stage(name="stage_0")
    async def stage(job: reprieve.Job[Change]) -> int:
        raise reprieve.Permanent(f"{job.payload.changelist} cannot be read")

    return pipeline


def submit(told: Order) -> None:
    """Have all jobs die of one failure, and start a campaign over their group, which waits for a worker."""

    async def run() -> None:
        pipeline = _broken()
        async with reprieve.connect(told.url) as app:
            for low in range(0, told.jobs + sum(WAVES), AT_ONCE):
                numbers = range(low, min(told.jobs + sum(WAVES), low + AT_ONCE))
                await app.submit_many(pipeline, [Change(number) for number in numbers])
            await app.work(pipeline, concurrency=2 * told.batch, until_idle=True)
            operations = app.operations
            (group,) = await operations.dead_letters.groups()
            await operations.campaigns.start(
                group.fingerprint, actor="bench", cause="code", evidence="it is mended", safe=True
            )

    logging.disable(logging.ERROR)  # ten thousand deaths are told of, each
    asyncio.run(run())
