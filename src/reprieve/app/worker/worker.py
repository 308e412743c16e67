"""A worker: comes, claims, renews its lease, takes over from the dead, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from reprieve.app.profiles import resolve
from reprieve.app.worker.gates import Gates
from reprieve.app.worker.recovery import HOST, take_over
from reprieve.app.worker.running import Runner, Running, Why
from reprieve.app.worker.time import StoreTime
from reprieve.errors import StoreUnavailableError, UsageError
from reprieve.ports.intents import Claim, Leave, Promote, Register, Renew, Wake

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from reprieve.app.journal import Journal
    from reprieve.app.pipeline import Pipeline
    from reprieve.app.worker.gates import Key
    from reprieve.app.worker.settings import WorkerSettings
    from reprieve.core.failure import Failure
    from reprieve.ports.clock import Clock
    from reprieve.ports.intents import Lease
    from reprieve.ports.isolation import Isolator
    from reprieve.ports.reader import StageView

_LOG: Final = logging.getLogger("reprieve.worker")
_FIRST_POLL: Final = 0.05
_PROMOTED_AT_ONCE: Final = 1000


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
        draw: Callable[[], float] = random.random,
        watch: Callable[[int, BaseException, Failure], None] | None = None,
    ) -> None:
        self._journal, self._settings, self._clock = journal, settings, clock
        self._loop = asyncio.get_running_loop()
        self._pipelines = dict(pipelines)
        self._time = StoreTime(journal.store, clock)
        self._keys = [key for pipeline in self._pipelines.values() for key in pipeline.keys()]  # noqa: SIM118 - not a mapping
        self._gates = Gates(journal)
        self._running: dict[int, Running] = {}
        self._executing = 0
        self._wake = asyncio.Event()
        self._slot = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._claim_unknown = False
        self._claiming = asyncio.Lock()
        self._suspects = self._suspects_behind = False
        self._isolating = False
        self._suspect_probe: Key | None = None
        """A stage whose breaker is open, and where only suspects are left to probe it with."""
        self._due: float | None = None
        self._standing = standing
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

    def stop(self) -> None:
        """Claim nothing more; what runs gets the grace to end, and is handed back after that."""
        self._runner.stopping = True
        self._stopping.set()
        self._wake.set()
        self._slot.set()

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
            await self._claim_all(until_idle=until_idle)
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
        if self._running and not self._hurry.is_set():
            _LOG.warning("stopping: %d jobs still run, for up to %g s", len(self._running), self._settings.grace)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.grace):
                await self._settle_all(self._hurry)
        for running in tuple(self._running.values()):
            running.stop(Why.STOP)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.lease):
                await self._settle_all(asyncio.Event())
        for task in (housekeeping, watch):
            task.cancel()
        await asyncio.wait([housekeeping, watch])
        await self.leave()

    async def leave(self) -> None:
        """Go, unless something still runs: then the lease has to run out."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._journal.workers.discard(self._runner.worker_id)
        still = set(self._running)
        with suppress(StoreUnavailableError):
            await self._hand_back(still)
            if not still:
                await self._journal.ask(Leave(worker_id=self._runner.worker_id), patience=self._settings.lease)

    async def _hand_back(self, still: set[int]) -> None:
        """What was claimed and never begun, because nobody waited for the claim's answer any more."""
        await self._renew()  # answered after every claim that was asked for before
        for lease in await self._journal.store.leases_of(self._runner.worker_id):
            if lease.job_id not in still:
                await self._runner.release(lease, lease.counters)

    # --- claiming -----------------------------------------------------------------------------------------------------

    async def _claim_all(self, *, until_idle: bool) -> None:
        poll = _FIRST_POLL
        while not self._stopping.is_set():
            if (self._suspects or self._suspect_probe is not None) and await self._run_suspect():
                continue
            room = self._settings.concurrency - self._executing
            if room <= 0:
                self._slot.clear()
                await self._slot.wait()
                continue
            wanted = min(room, max(1, self._settings.concurrency // 2))
            self._wake.clear()
            got = await self._claim(wanted)
            if got == wanted:
                poll = _FIRST_POLL
                await asyncio.sleep(0)  # what was claimed begins, and may end, before the next claim is sized
                continue
            if until_idle and not got and await self._is_idle():
                return
            poll = _FIRST_POLL if got else min(2 * poll, self._settings.poll)
            await self._rest(poll)

    async def _rest(self, seconds: float) -> None:
        """Until woken, or until something is due."""
        due = self._due
        if due is not None:
            seconds = min(seconds, max(0.0, due - self._time.now()))
        with suppress(TimeoutError):
            # Not wait_for, which forgets that it was cancelled when it is woken at the same time (Python 3.11).
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        if due is not None and due <= self._time.now():
            with suppress(StoreUnavailableError):  # housekeeping tells of it
                await self.promote()

    def next_due(self) -> float | None:
        """When what cannot be done now may be: something that is scheduled, or a hold that ends; None where nothing is."""
        moments = self._gates.openings(self._keys, self._time.now())
        return min([*moments, *([] if self._due is None else [self._due])], default=None)

    async def _is_idle(self) -> bool:
        """Nothing runs, nothing is due later, nobody is suspected, nothing is held."""
        if self._running or self._suspects:
            return False
        try:
            promoted = await self.promote()
            later = await self._is_due_later()
        except StoreUnavailableError:
            return False
        if promoted or later or self._gates.keep_waiting(self._keys, self._time.now()):
            return False
        # Housekeeping may have made something ready after the last claim.
        return not await self._claim(1) and not self._running and not self._suspects

    async def _is_due_later(self) -> bool:
        """Whether a job of ours is scheduled; those of others are no reason to stay."""
        if self._due is None or self._standing is None:
            return self._due is not None
        views = await self._standing()
        return any(view.scheduled and (view.pipeline, view.stage) in self._keys for view in views)

    async def _claim(self, wanted: int, *, suspects: bool = False, probe: Key | None = None) -> int:
        leases = await self.claim(wanted, suspects=suspects, probe=probe)
        for lease in leases:
            self._start(lease, probe=probe is not None)
        return len(leases)

    async def claim(self, wanted: int, *, suspects: bool = False, probe: Key | None = None) -> tuple[Lease, ...]:
        """Lease up to so many jobs, or one suspect; whoever calls this has to run them."""
        # One at a time: what another claim has just got does not count as forgotten.
        async with self._claiming:
            if self._isolating and not suspects:
                self._suspects_behind = False
                return ()
            claim = Claim(
                worker_id=self._runner.worker_id, capacity=wanted, now=self._time.now(), suspects=suspects,
                stages=self._limits(wanted) if probe is None else {probe: 1}, probe=probe is not None,
                holding=frozenset(self._running) if self._claim_unknown else None,
            )  # fmt: skip
            try:
                claimed = await self._journal.ask(claim)
            except StoreUnavailableError as error:
                self._claim_unknown = self._claim_unknown or error.outcome_unknown
                return ()
            self._claim_unknown = False
            if probe is None:
                self._suspects = claimed.suspects
            self._suspects_behind = claimed.suspects
            return claimed.leases

    def _limits(self, wanted: int) -> dict[tuple[str, str], int]:
        """How many of each stage: no more than it may run at once."""
        if not self._runner.limits:
            return dict.fromkeys(self._keys, wanted)
        busy: dict[tuple[str, str], int] = {}
        for running in self._running.values():
            key = (running.lease.pipeline, running.stage)
            busy[key] = busy.get(key, 0) + 1
        limits = {}
        for pipeline, name in self._keys:
            stage = self._pipelines[pipeline].find(name)
            most = (
                wanted
                if stage is None or stage.concurrency is None
                else stage.concurrency - busy.get((pipeline, name), 0)
            )
            if most > 0:
                limits[pipeline, name] = min(wanted, most)
        return limits

    def _start(self, lease: Lease, *, probe: bool = False) -> Running:
        self._executing += 1
        running = Running(lease, self._runner, loop=self._loop, release=self._free_slot, probe=probe)
        self._running[lease.job_id] = running
        running.task = self._loop.create_task(self._runner.run(running))
        running.task.add_done_callback(partial(self._ended, running))
        return running

    async def run(self, lease: Lease, *, probe: bool = False) -> None:
        """Run a claimed job as far as it goes, in the calling task."""
        running = Running(lease, self._runner, loop=self._loop, release=lambda: None, probe=probe)
        running.task = asyncio.current_task()
        await self._runner.run(running)

    def _free_slot(self) -> None:
        self._executing -= 1
        self._slot.set()

    def _ended(self, running: Running, task: asyncio.Task[None]) -> None:
        running.free_slot()
        if self._running.get(running.lease.job_id) is running:
            del self._running[running.lease.job_id]
        if self._runner.limits:
            self._wake.set()
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        if isinstance(error, StoreUnavailableError):
            _LOG.warning("job %d: %s", running.lease.job_id, error)
            self._claim_unknown = True  # nothing was written of it: the next claim gets it back
            return
        self._end_with(task)

    def _end_with(self, task: asyncio.Task[None]) -> None:
        """Go, with what a task of ours raised: nobody could say what else is broken."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._exit = error if self._exit is None else self._exit
            self.stop()

    async def _run_suspect(self) -> bool:
        """Let what runs end, then run one suspect with nothing beside it; False where there is none to be had."""
        self._isolating = True
        try:
            await self._settle_all(self._stopping)
            if self._stopping.is_set():
                return False
            probe, self._suspect_probe = self._suspect_probe, None
            got = await self.claim(1, suspects=True, probe=probe)
            await self._settle_all(self._stopping)  # a probe may have begun while this was asked for
            for lease in got:
                self._start(lease, probe=probe is not None)
            if not got:
                self._suspects = False
            await self._settle_all(self._stopping)
        finally:
            self._isolating = False
        # Others get a turn between two suspects.
        if got:
            await self._claim(self._settings.concurrency)
        return bool(got)

    async def _settle_all(self, unless: asyncio.Event) -> None:
        """Until nothing runs, or there is no time for that."""
        while self._running and not unless.is_set():
            tasks = [running.task for running in self._running.values() if running.task is not None]
            hurried = asyncio.create_task(unless.wait())
            try:
                await asyncio.wait([*tasks, hurried], return_when=asyncio.FIRST_COMPLETED)
            finally:
                hurried.cancel()

    # --- housekeeping -------------------------------------------------------------------------------------------------

    async def _keep_house(self) -> None:
        """Every tick: a sign of life, what is due, what the fleet knows, probes; now and then: the dead."""
        ticks = 0
        while True:
            try:
                await self._renew()
                await self.promote()
                await self._gates.refresh()
                if not self._isolating:
                    async for lease in self.probes():
                        self._start(lease, probe=True)
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
            for running in tuple(self._running.values()):
                running.stop(Why.TAKEN)
            await self._register()
            return
        if before > self._renewed + self._settings.lease / 2:
            self._steady_since = self._clock.monotonic()
        self._renewed = before
        for job_id in renewed.cancel:
            if job_id in self._running:
                self._running[job_id].stop(Why.CANCEL)

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
        for running in tuple(self._running.values()):
            running.stop(Why.LEASE)

    async def promote(self) -> int:
        """Make ready what is due; says how many."""
        promoted = await self._journal.ask(
            Promote(now=self._time.now(), limit=_PROMOTED_AT_ONCE), patience=self._settings.lease / 2
        )
        self._due = promoted.next_due if promoted.count < _PROMOTED_AT_ONCE else self._time.now()
        if promoted.count:
            self._wake.set()
        return promoted.count

    async def probes(self) -> AsyncIterator[Lease]:
        """One job for each open breaker whose hold is over, if the fleet gives us the right to send it through."""
        now = self._time.now()
        for key in self._gates.to_probe(self._keys, now):
            if self._stopping.is_set() or not await self._gates.probe(key, until=now + self._settings.lease, now=now):
                continue
            leases = await self.claim(1, probe=key)
            for lease in leases:
                yield lease
            if self._suspects_behind and not leases:
                self._suspect_probe = key  # it has to be alone, which only the claiming loop can see to
                self._wake.set()
            elif not leases:
                await self._gates.give_back(key, now)
