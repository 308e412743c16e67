"""procrastinate: single jobs."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import procrastinate

from engine.order import add_stamp, spin

if TYPE_CHECKING:
    from procrastinate.types import JSONDict

    from engine.order import Order

AT_ONCE = 1000


def _application(told: Order) -> procrastinate.App:
    application = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=told.url))

    @application.task(name="stage")
    async def stage(changelist: int) -> None:
        _ = changelist
        if told.spin:
            spin(told.spin)

    @application.task(name="stamp")
    async def stamped(sent: int) -> None:
        add_stamp(Path(told.stamps), sent)

    return application


def install(told: Order) -> None:
    """Make its tables."""
    with _application(told).open() as application:
        application.schema_manager.apply_schema()


def submit(told: Order) -> float:
    """Seconds to defer the jobs, a thousand with each call."""
    with _application(told).open() as application:
        task = application.tasks["stage"]
        began = time.perf_counter()
        for low in range(told.start, told.start + told.jobs, AT_ONCE):
            numbers = range(low, min(told.start + told.jobs, low + AT_ONCE))
            changes: list[JSONDict] = [{"changelist": number} for number in numbers]
            task.batch_defer(*changes)
        return time.perf_counter() - began


def stamp(told: Order) -> None:
    """Send jobs one by one, each with the time of its sending."""
    with _application(told).open() as application:
        for _ in range(told.jobs):
            application.tasks["stamp"].defer(sent=time.time_ns())
            time.sleep(told.gap)


def work(told: Order) -> None:
    """Run a worker until it is told to stop."""

    async def run() -> None:
        async with _application(told).open_async() as application:
            await application.run_worker_async(concurrency=told.batch)

    asyncio.run(run())
