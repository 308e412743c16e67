"""PgQueuer: single jobs, on the event loop that its own program uses."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import asyncpg  # type: ignore[import-untyped]  # it has no types
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from engine.order import Order, add_stamp, key, payload, spin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pgqueuer.models import Job

AT_ONCE = 1000
Result = TypeVar("Result")


def install(told: Order) -> None:
    """Make its tables."""
    _with_queries(told, lambda queries: queries.install())


def submit(told: Order) -> float:
    """Seconds to enqueue the jobs, a thousand with each call."""

    async def run(queries: Queries) -> float:
        began = time.perf_counter()
        for low in range(told.start, told.start + told.jobs, AT_ONCE):
            numbers = range(low, min(told.start + told.jobs, low + AT_ONCE))
            keys: list[str | None] = [key(number, told) if told.keyed else None for number in numbers]
            await queries.enqueue(
                ["stage"] * len(numbers),
                [payload(number) for number in numbers],
                [0] * len(numbers),
                dedupe_key=keys,
                on_conflict="skip",
            )
        return time.perf_counter() - began

    return _with_queries(told, run)


def stamp(told: Order) -> None:
    """Send jobs one by one, each with the time of its sending."""

    async def run(queries: Queries) -> None:
        for _ in range(told.jobs):
            await queries.enqueue("stamp", str(time.time_ns()).encode())
            await asyncio.sleep(told.gap)

    _with_queries(told, run)


def work(told: Order) -> None:
    """Run a worker until it is told to stop."""
    logging.disable(logging.INFO)

    async def run() -> None:
        queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(told.url)))

        @queuer.entrypoint("stage")
        async def stage(_job: Job) -> None:
            if told.spin:
                spin(told.spin)

        @queuer.entrypoint("stamp")
        async def stamped(job: Job) -> None:
            add_stamp(Path(told.stamps), int(job.payload or b"0"))

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
        await queuer.run(batch_size=told.batch)

    uvloop.run(run())


def _with_queries(told: Order, action: Callable[[Queries], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        connection = await asyncpg.connect(told.url)
        try:
            return await action(Queries(AsyncpgDriver(connection)))
        finally:
            await connection.close()

    return uvloop.run(run())
