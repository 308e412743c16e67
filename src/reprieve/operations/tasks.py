"""Supervised tasks: run a supervisor, see what runs where, cancel one task."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reprieve.app.redaction import redact
from reprieve.errors import StoreUnavailableError, UnknownNameError
from reprieve.processes.session import adopt_orphans
from reprieve.streams.connection import UNREACHABLE, parse_address
from reprieve.streams.operator_errors import connect_redis, readable_errors
from reprieve.supervisor.registry import (
    SECONDS_UNTIL_SILENT,
    Cancellation,
    RunningTask,
    SupervisorRecord,
    SupervisorRegistry,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reprieve.supervisor.supervisor import Supervisor


@dataclass(frozen=True, slots=True)
class SupervisedTaskView:
    """A task that runs, as an operator sees it."""

    id: str
    worker: str
    attempt: int
    pid: int
    is_started: bool
    """Whether its worker is ready."""
    seconds: float
    """How long it has been running."""


@dataclass(frozen=True, slots=True)
class SupervisorView:
    """A supervisor, as an operator sees it."""

    name: str
    host: str
    pid: int
    slots: int
    container_program: str
    """Empty where its workers are processes."""
    uptime_seconds: float
    beat_age_seconds: float
    is_silent: bool
    """It has not been heard of for some seconds: stopped, killed, or cut off."""
    tasks: tuple[SupervisedTaskView, ...]


async def supervise_tasks(supervisor: Supervisor, redis_url: str, *, until_idle: bool = False) -> int:
    """Run a supervisor as the one work of this process. Return an exit code.

    This process adopts what a killed warden leaves and kills it. It must start processes in no other way.
    """
    adopt_orphans()
    try:
        return await supervisor.run(redis_url, until_idle=until_idle)
    except UNREACHABLE as error:
        raise StoreUnavailableError(f"Redis at {parse_address(redis_url)}: {redact(str(error))}") from error


async def list_supervisors(redis_url: str, queue: str, group: str) -> tuple[SupervisorView, ...]:
    """Return the supervisors of a queue and group, the oldest first."""
    async with _registry(redis_url, queue, group) as registry:
        now, records = await registry.read()
    return tuple(_view(record, now) for record in records)


async def cancel_task(redis_url: str, queue: str, group: str, task: str, *, actor: str, reason: str) -> SupervisorView:
    """Have the supervisor that runs a task stop it. Return that supervisor; UnknownNameError where none runs it.

    The worker gets SIGTERM, and SIGKILL five seconds later. The result is `failed` with the reason `cancelled`. The
    message is acknowledged and has no dead letter.
    """
    async with _registry(redis_url, queue, group) as registry:
        now, records = await registry.read()
        found = next((each for each in records if task in {running.id for running in each.tasks}), None)
        if found is None or now - found.beat_at > SECONDS_UNTIL_SILENT:
            running = tuple(each.id for record in records for each in record.tasks)
            raise UnknownNameError("running task", task, running)
        await registry.cancel(task, Cancellation(actor, redact(reason), now))
    return _view(found, now)


@asynccontextmanager
async def _registry(redis_url: str, queue: str, group: str) -> AsyncIterator[SupervisorRegistry]:
    redis = connect_redis(redis_url)
    registry = SupervisorRegistry(redis, queue, group)
    try:
        with readable_errors(redis.address, queue):
            yield registry
    finally:
        await registry.close()


def _view(record: SupervisorRecord, now: float) -> SupervisorView:
    age = max(0.0, now - record.beat_at)
    return SupervisorView(
        record.name,
        record.host,
        record.pid,
        record.slots,
        record.program,
        max(0.0, record.beat_at - record.started_at),
        age,
        age > SECONDS_UNTIL_SILENT,
        tuple(_task_view(task, now) for task in record.tasks),
    )


def _task_view(task: RunningTask, now: float) -> SupervisedTaskView:
    return SupervisedTaskView(
        task.id, task.worker, task.attempt, task.pid, task.is_started, max(0.0, now - task.started_at)
    )
