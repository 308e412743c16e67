"""DBOS: queued workflows of as many steps as are asked for, on PostgreSQL or SQLite."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from dbos import DBOS, DBOSClient, DBOSConfig

if TYPE_CHECKING:
    from engine.order import Order

QUEUE = "stages"


@DBOS.step()
def step(number: int) -> int:
    """One stage that does nothing."""
    return number + 1


@DBOS.workflow()
def pipeline(number: int, stages: int) -> int:
    """The stages, one after the other."""
    for _ in range(stages):
        number = step(number)
    return number


def _launch(told: Order) -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": told.url,
        "log_level": "ERROR",
        "application_version": "1",
        "executor_id": "local",
    }
    DBOS(config=config)
    DBOS.launch()


def install(told: Order) -> None:
    """Make its tables."""
    _launch(told)
    DBOS.destroy()


def submit(told: Order) -> float:
    """Seconds to enqueue the workflows one by one; there is no call for many."""
    client = DBOSClient(system_database_url=told.url)
    began = time.perf_counter()
    for number in range(told.start, told.start + told.jobs):
        client.enqueue({"workflow_name": "pipeline", "queue_name": QUEUE, "app_version": "1"}, number, told.stages)
    taken = time.perf_counter() - began
    client.destroy()
    return taken


def work(told: Order) -> None:
    """Run a worker until it is told to stop; without a limit its threads lock each other out of a SQLite file."""
    _launch(told)
    DBOS.register_queue(QUEUE, worker_concurrency=told.batch, polling_interval_sec=0.1)
    threading.Event().wait()
