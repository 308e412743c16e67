"""A worker: comes, renews its lease, takes over from the dead, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from reprieve.app.profiles import resolve
from reprieve.app.worker.claiming import Claims
from reprieve.app.worker.crew import Crew
from reprieve.app.worker.gates import Gates
from reprieve.app.worker.recovery import HOST, take_over
from reprieve.app.worker.runner import Runner
from reprieve.app.worker.running import Why
from reprieve.app.worker.time import StoreTime
from reprieve.errors import StoreUnavailableError, UsageError
from reprieve.ports.intents import Leave, Register, Renew, Wake

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from reprieve.app.journal import Journal
    from reprieve.app.pipeline import Pipeline
    from reprieve.app.worker.gates import Key
    from reprieve.app.worker.running import Running
    from reprieve.app.worker.settings import WorkerSettings
    from reprieve.core.failure import Failure
    from reprieve.ports.clock import Clock
    from reprieve.ports.intents import Lease
    from reprieve.ports.isolation import Isolator
    from reprieve.ports.reader import StageView

_LOG: Final = logging.getLogger("reprieve.worker")


class Worker:
    """One worker of a process; runs until it is stopped, or until nothing is left to do."""

    def __init__(  # noqa: PLR0913 - a table of parts, nearly all by keyword
        self,
        journal: Journal,
        pipelines: Mapping[str, Pipeline],
        *,
        settings: WorkerSettings,
        clock: Clock,
        digest_key: bytes,
        isolator: Isolator | None = None,
        accepted_before: Callable[[int, str], Awaitable[bool]] | None = None,
        standing: Callable[[], Awaitable[Sequence[StageView]]] | None = None,
        more: Callable[[], Awaitable[bool]] | None = None,
        draw: Callable[[], float] = random.random,
        watch: Callable[[int, BaseException, Failure], None] | None = None,
    ) -> None:
        self._journal, self._settings, self._clock = journal, settings, clock
        self._pipelines = dict(pipelines)
        self._time = StoreTime(journal.store, clock)
        self._keys = [key for pipeline in self._pipelines.values() for key in pipeline.keys()]  # noqa: SIM118 - not a mapping
        self._gates = Gates(journal)
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._renewed = 0.0
        self._steady_since = 0.0
        self._exit: BaseException | None = None
        self._threads = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="reprieve-stage")
        self._runner = Runner(
            journal=journal, pipelines=self._pipelines, gates=self._gates, now=self._time.now, draw=draw,
            digest_key=digest_key, worker_id=0, isolator=isolator, accepted_before=accepted_before,
            fallback=resolve("criticizer"),
            threads=self._threads,
            watch=watch,
            wake=self._wake.set,
            limits={
                (stage.pipeline, stage.name): asyncio.Semaphore(stage.concurrency)
                for pipeline in self._pipelines.values()
                for stage in pipeline.stages
                if stage.concurrency is not None
            },
        )  # fmt: skip
        self._crew = Crew(self._runner, slots=settings.concurrency, ended=self._ended)
        self._claims = Claims(
            self._runner, self._crew, keys=self._keys, settings=settings, wake=self._wake, stopping=self._stopping,
            standing=standing, more=more,
        )  # fmt: skip

    def stop(self) -> None:
        """Claim nothing more; what runs gets the grace to end, and is handed back after that."""
        self._runner.stopping = True
        self._stopping.set()
        self._wake.set()
        self._crew.interrupt()

    def hurry(self) -> None:
        """Stop without grace: what runs is handed back now."""
        self._hurry.set()
        self.stop()

    async def work(self, *, until_idle: bool = False) -> None:
        """Work until stopped, or until no job is ready, scheduled or running."""
        await self.come()
        leave = self._journal.store.subscribe(self._wake.set)
        housekeeping = asyncio.create_task(self._keep_house(), name="reprieve-housekeeping")
        housekeeping.add_done_callback(self._end_with)
        watch = asyncio.create_task(self._watch_lease(), name="reprieve-watch")
        try:
            await self._claims.keep_claiming(until_idle=until_idle)
        except BaseException:
            self._hurry.set()
            raise
        finally:
            leave()
            # In a task of its own: however often its caller is cancelled, no worker stays behind that nobody stops.
            await asyncio.shield(asyncio.create_task(self._go(housekeeping, watch), name="reprieve-leaving"))
        if self._exit is not None:
            raise self._exit

    # --- coming and going ---------------------------------------------------------------------------------------------

    async def come(self) -> None:
        """Take the right to work, get an id, take over from the dead, and wake what waited for this deployment."""
        store = self._journal.store
        if not await store.lock_for_work():
            raise UsageError("another process works on this file already; others may submit and look")
        await self._time.synchronize()
        await self._register()
        await self._gates.refresh()
        await take_over(self._runner, everybody=store.exclusive, patiently=True)
        for pipeline in self._pipelines.values():
            mine = tuple(pipeline.keys())
            wake = Wake(prefix="upgrade:", unless=f"upgrade:{pipeline.fingerprint}", stages=mine, now=self._time.now())
            await self._journal.ask(wake)

    async def _register(self) -> None:
        self._renewed = self._steady_since = self._clock.monotonic()
        now = self._time.now()
        name = f"{HOST}:{os.getpid()}"
        self._journal.workers.discard(self._runner.worker_id)
        self._runner.worker_id = await self._journal.ask(
            Register(name=name, host=HOST, pid=os.getpid(), stages=tuple(self._keys), now=now, expires_at=now + self._settings.lease)
        )  # fmt: skip
        self._journal.workers.add(self._runner.worker_id)

    async def _go(self, housekeeping: asyncio.Task[None], watch: asyncio.Task[None]) -> None:
        """Let what runs come to an end, hand the rest back, and leave."""
        self.stop()
        if self._exit is not None:
            self._hurry.set()
        if self._crew and not self._hurry.is_set():
            _LOG.warning("stopping: %d jobs still run, for up to %g s", len(self._crew), self._settings.grace)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.grace):
                await self._crew.settle(self._hurry)
        left = len(self._crew)
        self._crew.stop(Why.STOP)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.lease):
                await self._crew.settle(asyncio.Event())
        for task in (housekeeping, watch):
            task.cancel()
        await asyncio.wait([housekeeping, watch])
        await self.leave()
        _LOG.info("stopped; jobs that were handed back: %d", left)

    async def leave(self) -> None:
        """Go, unless something still runs: then the lease has to run out."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._journal.workers.discard(self._runner.worker_id)
        still = self._crew.jobs
        with suppress(StoreUnavailableError):
            await self._hand_back(still)
            if not still:
                await self._journal.ask(Leave(worker_id=self._runner.worker_id), patience=self._settings.lease)

    async def _hand_back(self, still: frozenset[int]) -> None:
        """What was claimed and never begun, because nobody waited for the claim's answer any more."""
        await self._renew()  # answered after every claim that was asked for before
        for lease in await self._journal.store.leases_of(self._runner.worker_id):
            if lease.job_id not in still:
                await self._runner.release(lease, lease.counters)

    # --- step by step, for those who drive a worker themselves --------------------------------------------------------

    async def claim(self, wanted: int, *, suspects: bool = False, probe: Key | None = None) -> tuple[Lease, ...]:
        """Lease up to so many jobs, or one suspect; whoever calls this has to run them."""
        return await self._claims.claim(wanted, suspects=suspects, probe=probe)

    async def run(self, lease: Lease, *, probe: bool = False) -> None:
        """Run a claimed job as far as it goes, in the calling task."""
        await self._crew.run(lease, probe=probe)

    def probes(self) -> AsyncIterator[Lease]:
        """One job for each open breaker whose hold is over, if the fleet gives us the right to send it through."""
        return self._claims.probes()

    async def promote(self) -> int:
        """Make ready what is due; says how many."""
        return await self._claims.promote()

    def next_due(self) -> float | None:
        """When what cannot be done now may be: something that is scheduled, or a hold that ends; None where nothing is."""
        return self._claims.next_due()

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def _ended(self, running: Running, task: asyncio.Task[None]) -> None:
        if self._runner.limits:
            self._wake.set()
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        if isinstance(error, StoreUnavailableError):
            _LOG.warning("job %d: %s", running.lease.job_id, error)
            self._claims.doubt()
            return
        self._end_with(task)

    def _end_with(self, task: asyncio.Task[None]) -> None:
        """Go, with what a task of ours raised: nobody could say what else is broken."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._exit = error if self._exit is None else self._exit
            self.stop()

    # --- housekeeping -------------------------------------------------------------------------------------------------

    async def _keep_house(self) -> None:
        """Every tick: a sign of life, what is due, what the fleet knows, probes; now and then: the dead."""
        ticks = 0
        while True:
            try:
                await self._renew()
                await self.promote()
                await self._gates.refresh()
                if not self._claims.isolating:
                    async for lease in self.probes():
                        self._crew.start(lease, probe=True)
                if ticks % 60 == 59:  # noqa: PLR2004 - clocks drift slowly
                    await self._time.synchronize()
                if ticks % 4 == 3:  # noqa: PLR2004 - once in a lease or so
                    # Whoever was cut off from the store sees many that seem dead, and only were cut off too.
                    unsteady = self._clock.monotonic() < self._steady_since + self._settings.lease
                    await take_over(self._runner, patiently=unsteady)
            except StoreUnavailableError as error:
                _LOG.warning("housekeeping has to wait: %s", error)
            ticks += 1
            await self._clock.sleep_async(self._settings.tick)

    async def _renew(self) -> None:
        before = self._clock.monotonic()
        now = self._time.now()
        expires_at = now + self._settings.lease
        renewal = Renew(
            worker_id=self._runner.worker_id, now=now, expires_at=expires_at, stopping=self._stopping.is_set()
        )
        renewed = await self._journal.ask(renewal, patience=self._settings.lease / 2)
        if not renewed.alive:
            _LOG.warning("this worker was given up by others; it begins anew")
            self._crew.stop(Why.TAKEN)
            await self._register()
            return
        if before > self._renewed + self._settings.lease / 2:
            self._steady_since = self._clock.monotonic()
        self._renewed = before
        self._crew.stop(Why.CANCEL, renewed.cancel)

    async def _watch_lease(self) -> None:
        """Stop what runs when the lease is over; apart from housekeeping, which may wait for a store that never answers."""
        if self._journal.store.exclusive:
            return  # nobody else can take over while this process lives
        tick = self._settings.tick
        while True:
            now = self._clock.monotonic()
            left = self._renewed + self._settings.lease - now
            pause = min(left, tick) if left > 0 else tick
            await self._clock.sleep_async(pause)
            if self._clock.monotonic() < now + pause + tick:
                self._stop_if_expired()
            # Else this very process stood still: whether others took over, housekeeping asks the store before anything is stopped.

    def _stop_if_expired(self) -> None:
        """Others may have taken over by now: stop what runs, by a clock that no one can set back."""
        if self._clock.monotonic() < self._renewed + self._settings.lease:
            return
        self._crew.stop(Why.LEASE)
