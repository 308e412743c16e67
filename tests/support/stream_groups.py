"""A queue and group on a test's Redis, and consumers of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from reprieve.streams.connection import BlockingRedisConnection, RedisConnection, parse_address
from reprieve.streams.consumer import Consumer, ConsumerOptions
from reprieve.streams.dead_letters import StreamDeadLetter, decode_dead_letter
from reprieve.streams.keys import WAITING_CONSUMER, build_keys
from reprieve.streams.status import GroupStatus, read_group_status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from reprieve.streams.runner import RunCounts
    from support.redis_servers import RedisServer

LEASE = 0.6
WITHIN = 8.0


class Group:
    """The group `workers` of a queue."""

    def __init__(self, server: RedisServer, queue: str = "engineering:queue", name: str = "workers") -> None:
        self.server, self.queue, self.name = server, queue, name
        self.keys = build_keys(queue, name)
        self._connection = BlockingRedisConnection(parse_address(server.url))

    def call(self, *command: Any) -> Any:
        """Send one command."""
        return self._connection.call(*command)

    def add(self, *messages: dict[str, str]) -> list[str]:
        """Add messages with these fields; return their ids."""
        return [
            self.call("XADD", self.queue, "*", *[word for pair in message.items() for word in pair]).decode()
            for message in messages
        ]

    def add_json(self, *bodies: Any, field: str = "data") -> list[str]:
        """Add messages whose body is JSON in one field."""
        return self.add(*[{field: json.dumps(body)} for body in bodies])

    def consumer(self, function: Any, *, sinks: Any = (), **options: Any) -> Consumer[Any, Any]:
        """A consumer of this group with a short lease."""
        declared = {name: options.pop(name) for name in ("model", "profile", "service") if name in options}
        settings = {"lease": LEASE, "shutdown_timeout": 2.0, **options}
        return Consumer(
            function,
            self.queue,
            group=self.name,
            options=ConsumerOptions(**settings),
            sinks=lambda: sinks,
            **{"service": "langgraph", **declared},
        )

    async def drain(self, function: Any, **options: Any) -> RunCounts:
        """Run a consumer until nothing is left to do."""
        consumer = self.consumer(function, **options)
        return await asyncio.wait_for(consumer.run(self.server.url, until_idle=True, signals=False), 20)

    def dead_letters(self) -> list[StreamDeadLetter]:
        """The dead letters of the queue."""
        rows = self.call("XRANGE", self.keys.dead_letters, "-", "+")
        return [decode_dead_letter(self.queue, entry_id, fields) for entry_id, fields in rows]

    def pending(self) -> int:
        """Delivered messages that are not acknowledged."""
        try:
            return int(self.call("XPENDING", self.queue, self.name)[0])
        except ResponseError:  # the group is made when the first consumer starts
            return 0

    def running(self) -> int:
        """Pending messages that a consumer holds."""
        try:
            owners = self.call("XPENDING", self.queue, self.name)[3] or []
        except ResponseError:
            return 0
        return sum(int(count) for name, count in owners if name != WAITING_CONSUMER.encode())

    async def status(self) -> GroupStatus:
        """The group's status."""
        connection = RedisConnection(parse_address(self.server.url))
        try:
            return await read_group_status(connection, self.keys, self.name)
        finally:
            await connection.close()

    async def until(self, condition: Callable[[], Any], *, within: float = WITHIN) -> None:
        """Wait until it is true."""
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            await asyncio.sleep(0.01)


class Run:
    """A consumer that runs beside the test."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.counts: Any = None


@asynccontextmanager
async def running(consumer: Consumer[Any, Any], group: Group, *, url: str = "") -> AsyncIterator[Run]:
    """Run a consumer beside the test, and stop it at the end."""
    run = Run()
    task = asyncio.create_task(consumer.run(url or group.server.url, stop=run.stop, signals=False))
    try:
        yield run
    finally:
        run.stop.set()
        run.counts = await asyncio.wait_for(task, 20)


class Worker:
    """A consumer in a process of its own."""

    def __init__(self, group: Group, ledger: Path, *, url: str = "", **options: Any) -> None:
        tests = Path(__file__).parents[1]
        command = [
            sys.executable,
            "-m",
            "support.stream_worker",
            url or group.server.url,
            group.queue,
            str(ledger),
            json.dumps(options),
        ]
        environment = {**os.environ, "PYTHONPATH": f"{tests}:{tests.parent / 'bench'}"}
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it on the spot."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Let it end."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def workers(group: Group, ledger: Path, count: int = 1, **options: Any) -> Iterator[list[Worker]]:
    """Consumer processes; those that are left are stopped at the end."""
    started = [Worker(group, ledger, **options) for _ in range(count)]
    try:
        yield started
    finally:
        for each in started:
            each.stop()


def read_ledger(path: Path) -> list[tuple[str, str, int, float]]:
    """The lines of a ledger: word, message id, process id, time."""
    if not path.exists():
        return []
    lines = [line.split() for line in path.read_text().splitlines()]
    return [(word, message, int(pid), float(at)) for word, message, pid, at in lines]
