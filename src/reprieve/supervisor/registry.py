"""Which supervisors run and what they run, as records in Redis; and the requests of operators to cancel a task.

`{queue}:reprieve:{group}:supervisors` holds a record of each supervisor, `...:cancellations` a request for each task.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.streams.connection import RedisConnection

SECONDS_UNTIL_SILENT: Final = 5.0
"""A supervisor without a beat for so long is shown as silent."""
_SECONDS_UNTIL_FORGOTTEN: Final = 3600.0


@dataclass(slots=True)
class RunningTask:
    """A task on its way in a supervisor."""

    id: str
    worker: str
    attempt: int
    started_at: float
    pid: int = 0
    is_started: bool = False
    """Whether its worker is ready."""
    delivery: int = 0
    """How often the message had been delivered."""


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Who wants a task cancelled, and why."""

    actor: str
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class SupervisorRecord:
    """A supervisor as others see it."""

    name: str
    host: str
    pid: int
    slots: int
    started_at: float
    program: str = ""
    """The container program; empty for processes."""
    beat_at: float = 0.0
    """By the clock of Redis."""
    tasks: tuple[RunningTask, ...] = field(default=())


class SupervisorRegistry:
    """Reads and writes the records of one queue and group."""

    def __init__(self, connection: RedisConnection, queue: str, group: str) -> None:
        self._connection = connection
        self._supervisors = f"{queue}:reprieve:{group}:supervisors"
        self._cancellations = f"{queue}:reprieve:{group}:cancellations"

    async def beat(self, record: SupervisorRecord, tasks: Sequence[RunningTask]) -> dict[str, Cancellation]:
        """Write the record, and take the requests to cancel one of these tasks."""
        now = await self._now()
        values = asdict(record) | {"beat_at": now, "tasks": [asdict(task) for task in tasks]}
        commands: list[tuple[Any, ...]] = [("HSET", self._supervisors, record.name, json.dumps(values))]
        if tasks:
            commands.append(("HMGET", self._cancellations, *[task.id for task in tasks]))
        replies = await self._connection.pipeline(commands)
        wanted = replies[1] if tasks else []
        found = {task.id: _cancellation(text) for task, text in zip(tasks, wanted, strict=True) if text is not None}
        if found:
            await self._connection.call("HDEL", self._cancellations, *found)
        return found

    async def read(self) -> tuple[float, list[SupervisorRecord]]:
        """Return the time of Redis and the records, and forget those of supervisors that were lost long ago."""
        now = await self._now()
        values = await self._connection.call("HGETALL", self._supervisors)
        records = [record for text in values[1::2] if (record := _record(text)) is not None]
        lost = [each.name for each in records if now - each.beat_at > _SECONDS_UNTIL_FORGOTTEN]
        if lost:
            await self._connection.call("HDEL", self._supervisors, *lost)
        return now, sorted((each for each in records if each.name not in lost), key=lambda each: each.started_at)

    async def cancel(self, task: str, cancellation: Cancellation) -> None:
        """Ask whichever supervisor runs the task to stop it."""
        await self._connection.call("HSET", self._cancellations, task, json.dumps(asdict(cancellation)))

    async def withdraw(self, task: str) -> None:
        """Delete the request to cancel a task that has ended: a replay of the task may keep its id."""
        await self._connection.call("HDEL", self._cancellations, task)

    async def forget(self, name: str) -> None:
        """Remove the record of a supervisor that stops."""
        await self._connection.call("HDEL", self._supervisors, name)

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def _now(self) -> float:
        seconds, microseconds = await self._connection.call("TIME")
        return int(seconds) + int(microseconds) / 1e6


def _record(text: bytes) -> SupervisorRecord | None:
    """Read a record; None for what another version wrote differently."""
    try:
        values = json.loads(text)
        tasks = tuple(RunningTask(**task) for task in values.pop("tasks", ()))
        return SupervisorRecord(**values, tasks=tasks)
    except (ValueError, TypeError, AttributeError):
        return None


def _cancellation(text: bytes) -> Cancellation:
    try:
        return Cancellation(**json.loads(text))
    except (ValueError, TypeError):
        return Cancellation("unknown", "", 0.0)
