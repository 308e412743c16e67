"""A worker as a process, and the process that such workers are forked from: everything is loaded by then, so they start fast.

Reads a line of JSON for each worker that is wanted; says `started PID`, and `ended PID CODE` when one has.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import engine_pipelines
import httpx  # noqa: F401 - so that the children have it
import psycopg  # noqa: F401 - the same

import reprieve
import reprieve.adapters.sql.postgres
import reprieve.adapters.sql.reader
import reprieve.adapters.sql.schema
import reprieve.adapters.sql.sqlite
from reprieve.app.clock import SystemClock
from reprieve.app.worker import recovery, worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Work = Callable[[str, dict[str, Any]], Awaitable[None]]


class JumpyClock(SystemClock):
    """A wall clock that somebody sets again and again, an hour back or forth; the other one goes on."""

    def now(self) -> float:
        return time.time() + 3600.0 * (int(time.monotonic() * 10) % 3 - 1)


def application(url: str, *, jumpy: bool) -> reprieve.App:
    if not jumpy:
        return reprieve.connect(url)
    clock = JumpyClock()
    app = reprieve.connect(url, clock=clock)
    if not url.startswith("sqlite"):
        app._store._clock = None  # the server's own, which nobody sets
    return app


async def work(url: str, options: dict[str, Any]) -> None:
    names = options.pop("pipelines", ["campaign"])
    pipelines = [engine_pipelines.PIPELINES[name] for name in names]
    jumpy = options.pop("jumpy", False)
    settings = {"lease": 1.0, "poll": 0.05, "grace": 5.0, "concurrency": 10, "signals": True} | options
    async with application(url, jumpy=jumpy) as app:
        while True:
            try:
                await app.work(*pipelines, **settings)
            except reprieve.UsageError:  # another process has the file: stand by, and take over when it dies
                await asyncio.sleep(0.02)
            else:
                return


def become_worker(wanted: dict[str, Any], work: Work) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output = os.open(wanted["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for number in (1, 2):
        os.dup2(output, number)
    os.close(0)
    os.close(output)
    options = wanted["options"]
    logging.basicConfig(
        level=options.pop("log", "WARNING"), format="%(asctime)s %(process)d %(name)s %(message)s", force=True
    )
    engine_pipelines.write_to(wanted["file"])
    if (host := options.pop("host", None)) is not None:  # as if it were on another machine
        recovery.HOST = worker.HOST = host
    if (bytes_of_a_file := options.pop("file_size", None)) is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_of_a_file, resource.RLIM_INFINITY))
    asyncio.run(work(wanted["url"], options))


def reap(*_: object) -> None:
    """Tell of those that have ended; nobody may stay a zombie, which would look alive."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        os.write(1, f"ended {pid} {os.waitstatus_to_exitcode(status)}\n".encode())


def main(work: Work = work) -> None:
    """Fork workers that do this, for ever."""
    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if pid == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            become_worker(json.loads(line), work)
            return
        os.write(1, f"started {pid}\n".encode())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


if __name__ == "__main__":
    main()
