"""Contenders, and how their jobs are drained: workers as processes of their own, the same polling for all."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg

from engine import usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.order import Order
    from engine.server import Server

POLL = 0.01
"""Seconds between two looks at how many jobs are done, at the least."""
IDLE = 9
"""How many times longer than a look took the next one waits, so that looking disturbs nobody."""
PATIENCE = 600.0
"""Seconds after which jobs are not waited for any longer."""
BENCH: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """Somebody who runs jobs, by the module that drives it."""

    name: str
    module: str
    finished: str
    """SQL for how many of `{jobs}` jobs are finished."""

    def told(self, action: str, order: Order) -> Any:  # noqa: ANN401 - whatever it measured
        """Have it do something in a process of its own, and return what it measured."""
        done = subprocess.run(
            _command(self.module, action, order),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env=_environment(),
        )
        if done.returncode:
            raise RuntimeError(f"{self.name} could not {action}:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1])


def _command(module: str, action: str, order: Order) -> list[str]:
    return [sys.executable, "-m", "engine.order", module, action, order.argument()]


def _environment() -> dict[str, str]:
    """Everything is compiled once, as where it is installed; some environments forbid that for sources."""
    bytecode = str(Path(sys.prefix) / ".bench-bytecode")
    paths = os.pathsep.join((str(BENCH), str(BENCH.parent / "src")))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore"}


@contextmanager
def workers(contender: Contender, orders: Sequence[Order]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run workers in sessions of their own; they are told to stop, and killed where they do not."""
    running = [
        subprocess.Popen(
            _command(contender.module, "work", order),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,
        )
        for order in orders
    ]
    try:
        yield running
    finally:
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in running:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


class Watch:
    """A connection that only looks at how many jobs are finished."""

    def __init__(self, contender: Contender, order: Order) -> None:
        self._query = contender.finished.format(jobs=order.jobs)
        self._connection: Any
        self.backend = 0
        if order.url.startswith("sqlite"):
            self._connection = sqlite3.connect(order.url.removeprefix("sqlite:///"), timeout=30, isolation_level=None)
        else:
            self._connection = psycopg.connect(order.url, autocommit=True)
            self.backend = self._connection.info.backend_pid
        self.looks = 0

    def finished(self) -> int:
        """How many are."""
        self.looks += 1
        return int(self._connection.execute(self._query).fetchone()[0])

    def close(self) -> None:
        """Let go."""
        self._connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """What draining a queue took."""

    rate: float
    """Jobs a second."""
    worker: float
    """Microseconds of the processor by job, in all workers together."""
    server: float = 0.0
    """The same in the database's server."""
    transactions: float = 0.0
    wal: float = 0.0
    """Bytes by job."""
    memory: float = 0.0
    """The most that one worker had in memory, in MB."""


def drain(contender: Contender, order: Order, server: Server | None, *, processes: int = 1) -> Drain:
    """Run workers until all jobs are finished; the clock runs from the last look that saw none to the first that saw all."""
    name = "" if server is None else order.database
    before = 0 if server is None else server.transactions(name)
    with closing(Watch(contender, order)) as watch:
        with workers(contender, [order] * processes) as running:
            first, last = _wait(contender, order, watch, server, running)
            memory = max(usage.peak_memory(process.pid) for process in running)
        looks = watch.looks
    taken = [after - earlier for earlier, after in zip(first, last, strict=True)]
    spent = 0 if server is None else server.transactions(name) - before - looks
    return Drain(
        rate=order.jobs / taken[0],
        worker=taken[1] / order.jobs * 1e6,
        server=taken[2] / order.jobs * 1e6,
        wal=taken[3] / order.jobs,
        transactions=spent / order.jobs,
        memory=memory / 1e6,
    )


def _wait(
    contender: Contender,
    order: Order,
    watch: Watch,
    server: Server | None,
    running: Sequence[subprocess.Popen[bytes]],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    leaders = {process.pid for process in running}

    def used() -> tuple[float, ...]:
        now, theirs = time.perf_counter(), usage.of_sessions(leaders)
        if server is None:
            return (now, theirs, 0.0, 0.0)
        return (now, theirs, usage.of_server(server.pid, besides=watch.backend), float(server.written()))

    until = time.monotonic() + PATIENCE
    first = used()
    while True:
        began = time.perf_counter()
        if (finished := watch.finished()) >= order.jobs:
            return first, used()
        looked = time.perf_counter() - began
        if not finished:
            first = used()
        if ended := [process for process in running if process.poll() is not None]:
            raise RuntimeError(f"a worker of {contender.name} ended:\n{ended[0].communicate()[1].decode()[-2000:]}")
        if time.monotonic() > until:
            raise TimeoutError(f"{contender.name}: {finished} of {order.jobs} jobs after {PATIENCE:g} s")
        time.sleep(max(POLL, IDLE * looked))
