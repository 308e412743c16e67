"""A consumer of Redis Streams beside a bare redis-py loop, FastStream, Taskiq and Dramatiq; all on one server."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reprieve
from harness import Effort, Figure
from redis_server import RedisServer
from sample import median_costs
from stream_contender import BATCH, FIELD, GROUP, QUEUE, Task, fill

if TYPE_CHECKING:
    from collections.abc import Callable

    from sample import SampleOptions

HERE = Path(__file__).parent
PEERS = ("faststream", "taskiq", "dramatiq")
MODULES = {"faststream": "faststream", "taskiq": "taskiq_redis", "dramatiq": "dramatiq"}
ROUNDS = 5
MESSAGES = {"bare": 100_000, "reprieve": 100_000, "faststream": 20_000, "taskiq": 10_000, "dramatiq": 5_000}
QUICK_MESSAGES = 300
PACED_SECONDS = 5
WAITING = 100_000
HELD = 100
LEASE = 5.0
FAILURES = 5_000


def run(effort: Effort) -> list[Figure]:
    """Measure all of it on one server."""
    quick = effort.calls < Effort().calls
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(on_port=True, folder=Path(folder) / "server")
        server.folder.mkdir()
        server.start()
        try:
            figures = throughput(server, rounds=1 if quick else ROUNDS, quick=quick)
            figures += latency(server, rounds=1 if quick else ROUNDS, quick=quick)
            figures += recovery(server)
            figures += memory(server, QUICK_MESSAGES if quick else WAITING)
            figures += failures(server, QUICK_MESSAGES if quick else FAILURES)
            return figures
        finally:
            server.stop()


def sample(asked: SampleOptions) -> dict[str, float]:
    """Return the processor time that our consumer needs for a message, and for one that fails."""
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(folder=Path(folder) / "server")
        server.folder.mkdir()
        server.start()
        try:
            count = asked.scale(50_000, 200)
            workloads: dict[str, Callable[[], float]] = {
                "a message is handled": lambda: processor_time(server, count, fails=False),
                "a message fails and is dead-lettered": lambda: processor_time(server, count // 10, fails=True),
            }
            return median_costs(workloads, asked.seconds)
        finally:
            server.stop()


def installed() -> list[str]:
    """Return the contenders that are here; the tests have no peers."""
    return ["bare", "reprieve", *(name for name in PEERS if importlib.util.find_spec(MODULES[name]))]


def contend(server: RedisServer, name: str, mode: str, count: int) -> dict[str, float]:
    """Run one contender in a process of its own on an empty server."""
    server.call("FLUSHALL")
    command = [sys.executable, str(HERE / "stream_contender.py"), name, server.url, mode, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def throughput(server: RedisServer, *, rounds: int, quick: bool) -> list[Figure]:
    """Messages a second, the contenders in turns."""
    rates: dict[str, list[float]] = {name: [] for name in installed()}
    for _ in range(rounds):
        for name, measured in rates.items():
            count = QUICK_MESSAGES if quick else MESSAGES[name]
            measured.append(contend(server, name, "drain", count)["per_second"])
    middle = {name: statistics.median(measured) for name, measured in rates.items()}
    targets = {"bare": 0.5, "taskiq": 8.0, "dramatiq": 8.0}
    return [
        Figure(
            name=f"messages a second, beside {name}",
            value=middle["reprieve"],
            unit="1/s",
            peer=name,
            peer_value=rate,
            at_least=targets.get(name),
        )
        for name, rate in middle.items()
        if name != "reprieve"
    ]


def latency(server: RedisServer, *, rounds: int, quick: bool) -> list[Figure]:
    """From sending to the handler at 1,000 messages a second: the 99th of 100."""
    delays: dict[str, list[float]] = {name: [] for name in installed()}
    for _ in range(rounds):
        for name, measured in delays.items():
            count = QUICK_MESSAGES if quick else PACED_SECONDS * 1000
            measured.append(1000 * contend(server, name, "pace", count)["p99"])
    middle = {name: statistics.median(measured) for name, measured in delays.items()}
    return [
        Figure(
            name="p99 at 1,000 a second, the bound of 20 ms",
            value=middle["reprieve"],
            unit="ms",
            peer="20 ms",
            peer_value=20.0,
            at_most=1.0,
        )
    ] + [
        Figure(
            name=f"p99 at 1,000 a second, beside {name}",
            value=middle["reprieve"],
            unit="ms",
            peer=name,
            peer_value=delay,
        )
        for name, delay in middle.items()
        if name != "reprieve"
    ]


KILLED = """
import asyncio, sys
import reprieve

@reprieve.consumer({queue!r}, group={group!r}, lease={lease}, concurrency={held}, prefetch={held})
async def handle(task):
    await asyncio.sleep(600)

asyncio.run(handle.run(sys.argv[1]))
"""


def recovery(server: RedisServer) -> list[Figure]:
    """Seconds from the SIGKILL of a consumer that holds 100 messages until another has handled them all."""
    server.call("FLUSHALL")
    fill(server.url, HELD)
    code = KILLED.format(queue=QUEUE, group=GROUP, lease=LEASE, held=HELD)
    process = subprocess.Popen([sys.executable, "-c", code, server.url], stderr=subprocess.DEVNULL)
    while not process.poll() and pending(server) < HELD:
        time.sleep(0.05)
    process.kill()
    process.wait()
    began = time.perf_counter()
    asyncio.run(_drain(server.url, lambda _: None, lease=LEASE))
    took = time.perf_counter() - began
    return [
        Figure(
            name=f"recovery after SIGKILL, {HELD} messages held, lease {LEASE:g} s",
            value=took,
            unit="s",
            peer="the lease and 5 s",
            peer_value=LEASE + 5.0,
            at_most=1.0,
        )
    ]


def pending(server: RedisServer) -> int:
    """Return how many messages are delivered and not acknowledged; 0 before there is a group."""
    try:
        return int(server.call("XPENDING", QUEUE, GROUP)[0])
    except Exception:  # noqa: BLE001 - the group is made by the consumer
        return 0


async def _drain(url: str, handler: Callable[[Any], None], **options: Any) -> None:  # noqa: ANN401 - options of a consumer
    @reprieve.consumer(QUEUE, group=GROUP, model=Task, body=FIELD, **options)
    async def handle(task: Task) -> None:
        handler(task)

    await handle.run(url, until_idle=True, signals=False)


def memory(server: RedisServer, count: int) -> list[Figure]:
    """What Redis needs for messages that wait for a retry, the entries themselves left out."""
    server.call("FLUSHALL")
    fill(server.url, count)
    server.call("XGROUP", "CREATE", QUEUE, GROUP, "0")
    before = used_memory(server)

    def fail(_task: Task) -> None:
        raise ConnectionError("glitch")

    async def wait_for_all() -> None:
        patient = reprieve.Policy(backoff=reprieve.Backoff(schedule=(3600.0,)))

        @reprieve.consumer(QUEUE, group=GROUP, model=Task, body=FIELD, profile=patient, breaker=None)
        async def handle(task: Task) -> None:
            fail(task)

        stop = asyncio.Event()
        running = asyncio.create_task(handle.run(server.url, stop=stop, signals=False))
        while await asyncio.to_thread(server.call, "ZCARD", handle.keys.waiting) < count:  # noqa: ASYNC110 - Redis has the state
            await asyncio.sleep(0.1)
        stop.set()
        await running

    asyncio.run(wait_for_all())
    used = (used_memory(server) - before) / 1e6 * WAITING / count
    return [
        Figure(
            name="memory of Redis per 100,000 messages that wait",
            value=used,
            unit="MB",
            peer="60 MB",
            peer_value=60.0,
            at_most=1.0,
        )
    ]


def used_memory(server: RedisServer) -> int:
    """Return the bytes that the server has in use."""
    lines = server.call("INFO", "memory").decode().splitlines()
    return int(next(line.partition(":")[2] for line in lines if line.startswith("used_memory:")))


def failures(server: RedisServer, count: int) -> list[Figure]:
    """Processor time of our process for a message that succeeds, and for one that becomes a dead letter."""
    good = processor_time(server, 10 * count, fails=False)
    bad = processor_time(server, count, fails=True)
    return [
        Figure(name="processor time of a message", value=good / 1000, unit="us"),
        Figure(name="processor time of a dead letter", value=bad / 1000, unit="us"),
    ]


def processor_time(server: RedisServer, count: int, *, fails: bool) -> float:
    """Return the nanoseconds that this process needs for a message."""
    server.call("FLUSHALL")
    fill(server.url, count)

    def handle(_task: Task) -> None:
        if fails:
            raise ValueError("no such project")

    began = time.process_time_ns()
    asyncio.run(_drain(server.url, handle, breaker=None, prefetch=BATCH))
    return (time.process_time_ns() - began) / count
