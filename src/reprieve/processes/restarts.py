"""A pool of worker processes: each is started again when it ends, and all stop on SIGTERM or SIGINT.

The end of a process is reported to the store at once. The jobs of its worker are rescued without waiting for the lease
to expire, and are charged to what ended the process.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from reprieve.app.redaction import redact_exception
from reprieve.core.backoff import require_whole
from reprieve.core.policy import Cause
from reprieve.core.restart import Restart, RestartHistory, RestartPolicy, decide_restart
from reprieve.errors import UsageError
from reprieve.ports.intents import Lost
from reprieve.ports.isolation import ended

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from reprieve.app.journal import Journal
    from reprieve.ports.clock import Clock
    from reprieve.ports.reader import Reader
    from reprieve.processes.session import ProcessExit
    from reprieve.processes.spawner import ChildProcess, SubprocessSpawner

    Report = Callable[[int, Cause], Awaitable[None]]

_LOG: Final = logging.getLogger("reprieve.processes")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_MOST_PROCESSES: Final = 1000
_POLICY: Final = RestartPolicy()
_GRACE: Final = 5.0
"""Seconds that are left after the second signal."""
_REPORT_PATIENCE: Final = 10.0
"""Seconds to report an end; after that the lease has to expire."""


async def supervise_processes(
    command: Sequence[str],
    count: int,
    *,
    processes: SubprocessSpawner,
    report: Report,
    clock: Clock,
    shared: bool,
) -> int:
    """Keep `count` processes of this command running until SIGTERM or SIGINT, or until all have ended well.

    The first signal stops them and waits until they end. A second one kills those that are left after five seconds. A
    process that exits with 0 is not started again. Any other is, unless its first exit says that the command is wrong.
    `shared` says whether the store lets several processes work. Returns an exit code.
    """
    require_whole("processes", count, 1, _MOST_PROCESSES)
    if count > 1 and not shared:
        raise UsageError(
            "a SQLite file has one working process at a time: leave --processes at 1, or use PostgreSQL for more"
        )
    pool = _ProcessPool(command, processes, report, clock)
    try:
        with _signals(pool.stop):
            async with asyncio.TaskGroup() as places:
                tasks = [places.create_task(pool.keep_one()) for _ in range(count)]
    finally:
        await pool.end()
    code = next((task.result() for task in tasks if task.result() != 0), 0)
    return code if code >= 0 else 128 - code


def crash_reporter(journal: Journal, reader: Reader, host: str) -> Report:
    """Build a `report` for `supervise_processes`: it tells the store which workers of this host have ended."""

    async def report(pid: int, cause: Cause) -> None:
        workers = await asyncio.to_thread(reader.workers)
        now = await journal.store.now()
        for worker in workers:
            if (worker.host, worker.pid) == (host, pid):
                await journal.ask(Lost(worker_id=worker.worker_id, cause=cause, now=now), patience=_REPORT_PATIENCE)

    return report


class _ProcessPool:
    """The processes that run, and whether they are to stop."""

    def __init__(self, command: Sequence[str], processes: SubprocessSpawner, report: Report, clock: Clock) -> None:
        self._command, self._processes, self._report, self._clock = command, processes, report, clock
        self._running: set[ChildProcess] = set()
        self._stopping = asyncio.Event()
        self._hurry: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Stop all; called again, kill those that are left after the grace."""
        if self._stopping.is_set() and self._hurry is None:
            self._hurry = asyncio.create_task(self._kill_after_grace())
        self._stopping.set()
        for process in self._running:
            process.terminate()

    async def keep_one(self) -> int:
        """Run one process after another. Return the exit code of the last one, 0 where none ran at the stop."""
        history = RestartHistory()
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            code = await self._run()
            lived = self._clock.monotonic() - began
            decision = decide_restart(history, code, lived, _POLICY, stopping=self._stopping.is_set())
            if not isinstance(decision, Restart):
                return code
            history = decision.history
            await self._pause(decision.delay_seconds)
        return 0

    async def end(self) -> None:
        """Kill every process that is left."""
        if self._hurry is not None:
            self._hurry.cancel()
        for process in self._running:
            process.kill()
        await asyncio.gather(*(process.wait() for process in self._running))

    async def _run(self) -> int:
        try:
            process = self._processes.start(self._command)
        except OSError as error:
            _LOG.error("a worker process could not be started: %s", error)
            return 1
        self._running.add(process)
        exited = await process.wait()
        self._running.discard(process)
        if exited.code == 0:
            return 0
        stopped = self._stopping.is_set() and exited.code in {-signal.SIGTERM, -signal.SIGKILL}
        await self._tell(process.pid, exited, stopped=stopped)
        return 0 if exited.code == -signal.SIGTERM and stopped else exited.code

    async def _tell(self, pid: int, exited: ProcessExit, *, stopped: bool) -> None:
        cause = Cause.OUT_OF_MEMORY if exited.out_of_memory else Cause.DEPLOY if stopped else Cause.CRASH
        _LOG.warning("worker process %d %s (%s)", pid, ended(exited.code), cause)
        try:
            async with asyncio.timeout(_REPORT_PATIENCE):
                await self._report(pid, cause)
        except Exception as error:  # noqa: BLE001 - its jobs wait for its lease to run out, and the others live on
            _LOG.error("the end of worker process %d could not be told:\n%s", pid, redact_exception(error))

    async def _pause(self, seconds: float) -> None:
        """Wait before the next start, or until the pool stops."""
        waits = [asyncio.create_task(self._clock.sleep_async(seconds)), asyncio.create_task(self._stopping.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def _kill_after_grace(self) -> None:
        await self._clock.sleep_async(_GRACE)
        for process in self._running:
            process.kill()


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
