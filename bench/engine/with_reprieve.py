"""Our engine as its users have it: pipelines, `submit_many`, `work`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import reprieve
from engine.order import add_stamp, key, spin
from reprieve.adapters.sql import schema

if TYPE_CHECKING:
    from engine.order import Order
    from engine.usage import Meter

AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Change:
    """What a job of the bench is about."""

    changelist: int


@dataclass(frozen=True, slots=True)
class Sent:
    """When a job was sent, in nanoseconds."""

    sent: int


def _pipeline(told: Order) -> reprieve.Pipeline:
    """As many stages as are asked for, each with a result that the next one does not need."""
    pipeline = reprieve.Pipeline("bench")
    for number in range(told.stages):

        @pipeline.stage(name=f"stage_{number}")
        async def stage(job: reprieve.Job[Change]) -> int:
            if told.spin:
                spin(told.spin)
            return job.payload.changelist

    return pipeline


def _stamped(told: Order) -> reprieve.Pipeline:
    pipeline = reprieve.Pipeline("stamped")

    @pipeline.stage
    async def stamped(job: reprieve.Job[Sent]) -> None:
        add_stamp(Path(told.stamps), job.payload.sent)

    return pipeline


def install(told: Order) -> None:
    """Make our tables."""
    schema.upgrade(told.url)


def submit(told: Order) -> float:
    """Seconds to submit the jobs, a thousand with each call."""

    async def run() -> float:
        async with reprieve.connect(told.url) as app:
            began = time.perf_counter()
            await _submit_all(app, told)
            return time.perf_counter() - began

    return asyncio.run(run())


def submit_metered(told: Order, meter: Meter) -> float:
    """Seconds of the processor for the same calls, made by this process."""

    async def run() -> float:
        async with reprieve.connect(told.url) as app:
            began = meter.start()
            await _submit_all(app, told)
            return meter.since(began)

    return asyncio.run(run())


async def _submit_all(app: reprieve.App, told: Order) -> None:
    pipeline = _pipeline(told)
    for low in range(told.start, told.start + told.jobs, AT_ONCE):
        numbers = range(low, min(told.start + told.jobs, low + AT_ONCE))
        await app.submit_many(
            pipeline, [reprieve.Item(Change(number), idempotency_key=key(number, told)) for number in numbers]
        )


def stamp(told: Order) -> None:
    """Send jobs one by one, each with the time of its sending."""

    async def run() -> None:
        pipeline = _stamped(told)
        async with reprieve.connect(told.url) as app:
            for _ in range(told.jobs):
                sent = time.time_ns()
                await app.submit(pipeline, Sent(sent), idempotency_key=str(sent))
                await asyncio.sleep(told.gap)

    asyncio.run(run())


def work(told: Order) -> None:
    """Run a worker until it is told to stop."""

    async def run() -> None:
        pipelines = (_pipeline(told), _stamped(told)) if told.stamps else (_pipeline(told),)
        async with reprieve.connect(told.url) as app:
            # A worker claims up to half of what it runs at once.
            await app.work(*pipelines, concurrency=2 * told.batch, signals=True)

    asyncio.run(run())
