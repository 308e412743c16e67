"""One contender of the streams bench in a process of its own: fills a queue, works it off, prints JSON.

    python bench/stream_contender.py NAME URL MODE COUNT

MODE `drain` handles COUNT messages that wait; `pace` handles COUNT messages that come at 1,000 a second.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio as async_redis
from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

QUEUE, GROUP, FIELD = "bench:queue", "bench", "data"
PACE = 1000
BATCH = 100


class Task(BaseModel):
    """A message of about 150 bytes."""

    number: int
    sent_at: float
    project: str
    text: str


def body(number: int) -> bytes:
    """Return the JSON of a message."""
    task = Task(number=number, sent_at=time.time(), project="p-123456", text="x" * 80)
    return task.model_dump_json().encode()


class Meter:
    """Counts handled messages; knows when the last one came and how long each was on its way."""

    def __init__(self, count: int) -> None:
        self.count, self.handled = count, 0
        self.began = self.ended = 0.0
        self.delays: list[float] = []
        self.done = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def listen(self) -> None:
        """Take the event loop that waits for the end."""
        self._loop = asyncio.get_running_loop()

    def saw(self, task: Task) -> None:
        """Count one message."""
        self.handled += 1
        if self.handled == 1:
            self.began = time.perf_counter()
        if PACED:
            self.delays.append(time.time() - task.sent_at)
        if self.handled == self.count:
            self.ended = time.perf_counter()
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self.done.set)

    def saw_from_thread(self, task: Task) -> None:
        """Count one message of several threads."""
        with self._lock:
            self.saw(task)

    def result(self) -> dict[str, float]:
        """Return the figures."""
        answer = {"per_second": (self.count - 1) / max(self.ended - self.began, 1e-9)}
        if self.delays:
            ordered = sorted(self.delays)
            answer |= {"p50": ordered[len(ordered) // 2], "p99": ordered[int(len(ordered) * 0.99)]}
        return answer


PACED = False
TASKS: list[asyncio.Task[None]] = []


def fill(url: str, count: int) -> None:
    """Add messages in pipelines."""
    client = redis.Redis.from_url(url)
    for start in range(0, count, 1000):
        pipeline = client.pipeline(transaction=False)
        for number in range(start, min(count, start + 1000)):
            pipeline.xadd(QUEUE, {FIELD: body(number)})
        pipeline.execute()
    client.close()


def pace(send: Callable[[int], object], count: int) -> None:
    """Send messages at an even pace, from a thread."""
    began = time.perf_counter()
    for number in range(count):
        wait = began + number / PACE - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        send(number)


async def feed(url: str, meter: Meter) -> None:
    """Send paced messages to the stream and wait until all are handled."""
    client = redis.Redis.from_url(url)
    if PACED:
        await asyncio.sleep(0.5)
        await asyncio.to_thread(pace, lambda number: client.xadd(QUEUE, {FIELD: body(number)}), meter.count)
    await meter.done.wait()
    client.close()


async def bare(url: str, meter: Meter) -> None:
    """Redis-py alone: acknowledge and read in one pipeline, no failure handling whatsoever."""
    client = async_redis.Redis.from_url(url, protocol=2)
    await client.xgroup_create(QUEUE, GROUP, "0", mkstream=True)
    validate = Task.__pydantic_validator__.validate_json

    async def loop() -> None:
        ids: list[bytes] = []
        while True:
            pipeline = client.pipeline(transaction=False)
            if ids:
                pipeline.xack(QUEUE, GROUP, *ids)
            pipeline.xreadgroup(GROUP, "bare", {QUEUE: ">"}, count=BATCH, block=1000)
            read = (await pipeline.execute())[-1]
            ids = []
            for message_id, fields in read[0][1] if read else ():
                meter.saw(validate(fields[b"data"]))
                ids.append(message_id)

    await _until_done(loop(), url, meter)
    await client.aclose()


async def reprieve_consumer(url: str, meter: Meter) -> None:
    """Our consumer with its defaults."""
    import reprieve  # noqa: PLC0415 - a contender loads what it measures

    @reprieve.consumer(QUEUE, group=GROUP, model=Task, body=FIELD, service="bench")
    async def handle(task: Task) -> None:
        meter.saw(task)

    stop = asyncio.Event()
    running = asyncio.create_task(handle.run(url, stop=stop, signals=False))
    await feed(url, meter)
    stop.set()
    await running


async def faststream(url: str, meter: Meter) -> None:
    """FastStream with a batch subscriber."""
    from faststream.redis import RedisBroker, StreamSub  # noqa: PLC0415 - as above

    broker = RedisBroker(url, logger=None)

    @broker.subscriber(
        stream=StreamSub(QUEUE, group=GROUP, consumer="faststream", batch=True, max_records=BATCH, polling_interval=100)
    )
    async def handle(tasks: list[dict[str, Any]]) -> None:
        for task in tasks:
            content = task[FIELD] if isinstance(task, dict) and FIELD in task else task
            meter.saw(Task.model_validate(content) if isinstance(content, dict) else Task.model_validate_json(content))

    client = async_redis.Redis.from_url(url)
    await client.xgroup_create(QUEUE, GROUP, "0", mkstream=True)
    await client.aclose()
    await broker.start()
    await feed(url, meter)
    await broker.stop()


async def taskiq(url: str, meter: Meter) -> None:
    """Taskiq with its stream broker, acknowledged when executed."""
    from taskiq.api import run_receiver_task  # noqa: PLC0415 - as above
    from taskiq_redis import RedisStreamBroker  # noqa: PLC0415 - as above

    broker = RedisStreamBroker(url, queue_name=QUEUE, consumer_group_name=GROUP, consumer_id="0", xread_count=BATCH)

    @broker.task
    async def handle(number: int, sent_at: float, project: str, text: str) -> None:
        meter.saw(Task(number=number, sent_at=sent_at, project=project, text=text))

    async def send(number: int) -> None:
        await handle.kiq(**json.loads(body(number)))

    await broker.startup()
    if not PACED:
        for start in range(0, meter.count, 500):
            await asyncio.gather(*(send(number) for number in range(start, min(meter.count, start + 500))))
    broker.is_worker_process = True
    receiving = asyncio.create_task(run_receiver_task(broker, max_async_tasks=100))
    if PACED:
        await asyncio.sleep(0.5)
        began = time.perf_counter()
        for number in range(meter.count):
            await asyncio.sleep(max(0.0, began + number / PACE - time.perf_counter()))
            await send(number)
    await meter.done.wait()
    TASKS.append(receiving)  # it does not always end when it is cancelled: the process ends it


async def dramatiq(url: str, meter: Meter) -> None:
    """Dramatiq with its Redis broker and eight threads."""
    import dramatiq as library  # noqa: PLC0415 - as above
    from dramatiq.brokers.redis import RedisBroker  # noqa: PLC0415 - as above

    broker = RedisBroker(url=url)
    library.set_broker(broker)

    @library.actor(queue_name="bench")
    def handle(number: int, sent_at: float, project: str, text: str) -> None:
        meter.saw_from_thread(Task(number=number, sent_at=sent_at, project=project, text=text))

    def send(number: int) -> None:
        handle.send(**json.loads(body(number)))

    if not PACED:
        for number in range(meter.count):
            await asyncio.to_thread(send, number) if number % 1000 == 0 else send(number)
    worker = library.Worker(broker, worker_threads=8)
    worker.start()
    if PACED:
        await asyncio.sleep(0.5)
        await asyncio.to_thread(pace, send, meter.count)
    await meter.done.wait()
    worker.stop()
    broker.close()


async def _until_done(loop: Awaitable[None], url: str, meter: Meter) -> None:
    looping = asyncio.ensure_future(loop)
    await feed(url, meter)
    await asyncio.sleep(0.05)
    looping.cancel()
    await asyncio.gather(looping, return_exceptions=True)


CONTENDERS: dict[str, Callable[[str, Meter], Awaitable[None]]] = {
    "bare": bare,
    "reprieve": reprieve_consumer,
    "faststream": faststream,
    "taskiq": taskiq,
    "dramatiq": dramatiq,
}
OWN_QUEUE = ("taskiq", "dramatiq")
"""They send with their own client."""


def main() -> None:
    """Run one contender."""
    global PACED  # noqa: PLW0603 - one mode for the whole process
    logging.disable(logging.CRITICAL)
    name, url, mode, number = sys.argv[1:]
    count = int(number)
    PACED = mode == "pace"
    if not PACED and name not in OWN_QUEUE:
        fill(url, count)

    async def run() -> None:
        meter = Meter(count)
        meter.listen()
        await asyncio.wait_for(CONTENDERS[name](url, meter), 120)
        print(json.dumps(meter.result()), flush=True)
        os._exit(0)

    asyncio.run(run())


if __name__ == "__main__":
    main()
