"""The jobs that run in a worker: begun, stopped, waited for."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from reprieve.app.worker.running import Running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from reprieve.app.worker.gates import Key
    from reprieve.app.worker.runner import Runner
    from reprieve.app.worker.running import Why
    from reprieve.ports.intents import Lease


class Crew:
    """What runs here, by job; a stage takes a slot, and what is only being written none."""

    def __init__(self, runner: Runner, *, slots: int, ended: Callable[[Running, asyncio.Task[None]], None]) -> None:
        self._runner, self._slots, self._tell = runner, slots, ended
        self._loop = asyncio.get_running_loop()
        self._running: dict[int, Running] = {}
        self._executing = 0
        self._freed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._running)

    @property
    def jobs(self) -> frozenset[int]:
        """Whose they are."""
        return frozenset(self._running)

    @property
    def room(self) -> int:
        """How many more may begin."""
        return self._slots - self._executing

    def busy(self) -> dict[Key, int]:
        """How many run in each stage."""
        busy: dict[Key, int] = {}
        for running in self._running.values():
            key = (running.lease.pipeline, running.stage)
            busy[key] = busy.get(key, 0) + 1
        return busy

    def start(self, lease: Lease, *, probe: bool = False) -> None:
        """Begin with a job, in a task of its own."""
        self._executing += 1
        running = Running(lease, self._runner, loop=self._loop, release=self._free_slot, probe=probe)
        self._running[lease.job_id] = running
        running.task = self._loop.create_task(self._runner.run(running))
        running.task.add_done_callback(partial(self._ended, running))

    async def run(self, lease: Lease, *, probe: bool = False) -> None:
        """Run a job as far as it goes, in the calling task."""
        running = Running(lease, self._runner, loop=self._loop, release=lambda: None, probe=probe)
        running.task = asyncio.current_task()
        await self._runner.run(running)

    def stop(self, why: Why, jobs: Iterable[int] | None = None) -> None:
        """End what runs from outside: all of it, or these jobs."""
        for job_id in self.jobs if jobs is None else jobs:
            if job_id in self._running:
                self._running[job_id].stop(why)

    async def wait_for_room(self) -> None:
        """Until a slot is free, or somebody wants to be heard."""
        self._freed.clear()
        await self._freed.wait()

    def interrupt(self) -> None:
        """Have whoever waits for room look again."""
        self._freed.set()

    async def settle(self, unless: asyncio.Event) -> None:
        """Until nothing runs, or there is no time for that."""
        while self._running and not unless.is_set():
            tasks = [running.task for running in self._running.values() if running.task is not None]
            hurried = asyncio.create_task(unless.wait())
            try:
                await asyncio.wait([*tasks, hurried], return_when=asyncio.FIRST_COMPLETED)
            finally:
                hurried.cancel()

    def _free_slot(self) -> None:
        self._executing -= 1
        self._freed.set()

    def _ended(self, running: Running, task: asyncio.Task[None]) -> None:
        running.free_slot()
        if self._running.get(running.lease.job_id) is running:
            del self._running[running.lease.job_id]
        self._tell(running, task)
