"""What a contender's process is told, and the program that runs one: `python -m engine.order with_pgqueuer work '{...}'`."""

from __future__ import annotations

import cProfile
import hashlib
import importlib
import json
import os
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One table of settings for all contenders; each reads what concerns it."""

    url: str
    beside: str = ""
    """The address of another database that takes turns with this one."""
    jobs: int = 0
    start: int = 0
    """The number of the first job, for those that name theirs."""
    stages: int = 1
    batch: int = 100
    """Jobs that a worker takes at once, or runs at once."""
    keyed: bool = False
    """Submit with deduplicating keys."""
    scattered: bool = False
    """With keys that are not in order."""
    spin: float = 0.0
    """Seconds of the processor in each stage."""
    stamps: str = ""
    """The file to which a stage that is told when it was sent adds how long that took, in nanoseconds."""
    gap: float = 0.02
    """Seconds between two jobs that are sent with a stamp."""

    @property
    def database(self) -> str:
        """The name of the database on the server."""
        return self.url.split("?", 1)[0].rsplit("/", 1)[1]

    def argument(self) -> str:
        """What stands on the command line."""
        return json.dumps(asdict(self))


def spin(seconds: float) -> None:
    """Use the processor for so long."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def key(number: int, told: Order) -> str:
    """What a job is told apart by."""
    return hashlib.sha256(str(number).encode()).hexdigest()[:32] if told.scattered else f"cl-{number}@1"


def payload(number: int) -> bytes:
    """The same bytes for every contender that takes bytes."""
    return json.dumps({"changelist": number}).encode()


def add_stamp(path: Path, sent: int) -> None:
    """Note how long ago a job was sent."""
    taken = time.time_ns() - sent
    with path.open("a", encoding="ascii") as stamps:
        stamps.write(f"{taken}\n")


def end_with_parent() -> None:
    """Leave no worker behind where the bench itself is killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    """Do what is asked of one contender (`install+submit`: both), and print what it measured itself.

    BENCH_PROFILE names a file for a profile of it.
    """
    module, action, argument = sys.argv[1:]
    told = Order(**json.loads(argument))
    contender = importlib.import_module(f"engine.{module}")
    measured = None
    end_with_parent()
    profiler = cProfile.Profile()
    for step in action.split("+"):
        asked = getattr(contender, step)
        measured = profiler.runcall(asked, told) if "BENCH_PROFILE" in os.environ else asked(told)
    print(json.dumps(measured))
    if path := os.environ.get("BENCH_PROFILE"):
        profiler.dump_stats(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
