"""A consumer process for tests: `python -m support.stream_worker URL QUEUE LEDGER OPTIONS`.

A message says what its handler does. The ledger is a file to which each start and end of a handler is appended.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from typing import Any

import reprieve
from reprieve.streams.consumer import Consumer, ConsumerOptions
from reprieve.streams.runner import ConsumerRunner


async def act(task: dict[str, str], attempt: int) -> None:
    """Do what the message says."""
    match task.get("do"):
        case "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        case "transient" if attempt < 3:
            raise ConnectionError("glitch")
        case "spent":
            raise ConnectionError("never up")
        case "permanent":
            raise ValueError("no such project")
        case "slow":
            await asyncio.sleep(float(task.get("seconds", "0.2")))
        case "slow_failure":
            await asyncio.sleep(float(task.get("seconds", "0.2")))
            raise ValueError("too late")


def main() -> None:
    """Consume until a signal ends it."""
    url, queue, path, text = sys.argv[1:]
    settings = json.loads(text)
    ledger = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    schedule = tuple(settings.pop("schedule", (0.05,)))
    profile = reprieve.Policy(max_attempts=4, backoff=reprieve.Backoff(schedule=schedule))

    def log(word: str, message: Any) -> None:
        os.write(ledger, f"{word} {message.id} {os.getpid()} {time.time():.3f}\n".encode())

    # An acknowledgement counts once its answer is here: after it, no consumer may start the message again.
    count_done = ConsumerRunner._count_done

    def log_acknowledged(runner: ConsumerRunner, ids: list[bytes], acknowledged: int) -> None:
        if acknowledged == len(ids):
            lines = "".join(f"acknowledged {each.decode()} {os.getpid()} {time.time():.3f}\n" for each in ids)
            os.write(ledger, lines.encode())
        count_done(runner, ids, acknowledged)

    ConsumerRunner._count_done = log_acknowledged  # type: ignore[method-assign]

    async def handle(task: dict[str, str], message: reprieve.StreamMessage) -> None:
        log("start", message)
        await act(task, message.attempt)
        log("end", message)

    options = ConsumerOptions(**{"lease": 0.6, "breaker": None, "shutdown_timeout": 1.0, **settings})
    asyncio.run(Consumer(handle, queue, group="workers", profile=profile, options=options).run(url))


if __name__ == "__main__":
    main()
