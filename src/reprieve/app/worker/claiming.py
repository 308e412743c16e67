"""What a worker asks the store for, and when: ready jobs, suspects that run alone, probes through open breakers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from reprieve.errors import StoreUnavailableError
from reprieve.ports.intents import Claim, Promote

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from reprieve.app.worker.crew import Crew
    from reprieve.app.worker.gates import Key
    from reprieve.app.worker.runner import Runner
    from reprieve.app.worker.settings import WorkerSettings
    from reprieve.ports.intents import Lease
    from reprieve.ports.reader import StageView

_FIRST_POLL: Final = 0.05
_PROMOTED_AT_ONCE: Final = 1000


class Claims:
    """Keeps a crew in work until it is told to stop, or until nothing is left to do."""

    def __init__(
        self,
        runner: Runner,
        crew: Crew,
        *,
        keys: Sequence[Key],
        settings: WorkerSettings,
        wake: asyncio.Event,
        stopping: asyncio.Event,
        standing: Callable[[], Awaitable[Sequence[StageView]]] | None,
        more: Callable[[], Awaitable[bool]] | None,
    ) -> None:
        self._runner, self._crew, self._settings, self._keys = runner, crew, settings, keys
        self._wake, self._stopping, self._standing = wake, stopping, standing
        self._more = more
        """Whether somebody beside the worker will have put more into the queue."""
        self._claiming = asyncio.Lock()
        self._in_doubt = False
        """Whether the store may have leased us more than we know."""
        self._due: float | None = None
        self._suspects = self._suspects_behind = False
        self._suspect_probe: Key | None = None
        """A stage whose breaker is open, and where only suspects are left to probe it with."""
        self.isolating = False
        """Whether a suspect runs, or is about to: nothing may begin beside it."""

    def doubt(self) -> None:
        """A job of ours was not written about: the next claim gets it back."""
        self._in_doubt = True

    async def keep_claiming(self, *, until_idle: bool) -> None:
        """Until the worker stops; or until no job is ready, scheduled or running."""
        poll = _FIRST_POLL
        while not self._stopping.is_set():
            if (self._suspects or self._suspect_probe is not None) and await self._run_suspect():
                continue
            room = self._crew.room
            if room <= 0:
                await self._crew.wait_for_room()
                continue
            wanted = min(room, max(1, self._settings.concurrency // 2))
            self._wake.clear()
            got = await self._begin(wanted)
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
            seconds = min(seconds, max(0.0, due - self._runner.now()))
        with suppress(TimeoutError):
            # Not wait_for, which forgets that it was cancelled when it is woken at the same time (Python 3.11).
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        if due is not None and due <= self._runner.now():
            with suppress(StoreUnavailableError):  # housekeeping tells of it
                await self.promote()

    def next_due(self) -> float | None:
        """When what cannot be done now may be: something that is scheduled, or a hold that ends; None where nothing is."""
        moments = self._runner.gates.openings(self._keys, self._runner.now())
        return min([*moments, *([] if self._due is None else [self._due])], default=None)

    async def _is_idle(self) -> bool:
        """Nothing runs, nothing is due later, nobody is suspected, nothing is held."""
        if self._crew or self._suspects:
            return False
        try:
            promoted = await self.promote()
            later = await self._is_due_later() or (self._more is not None and await self._more())
        except StoreUnavailableError:
            return False
        if promoted or later or self._runner.gates.keep_waiting(self._keys, self._runner.now()):
            return False
        # Housekeeping may have made something ready after the last claim.
        return not await self._begin(1) and not self._crew and not self._suspects

    async def _is_due_later(self) -> bool:
        """Whether a job of ours is scheduled; those of others are no reason to stay."""
        if self._due is None or self._standing is None:
            return self._due is not None
        views = await self._standing()
        return any(view.scheduled and (view.pipeline, view.stage) in self._keys for view in views)

    async def _begin(self, wanted: int) -> int:
        leases = await self.claim(wanted)
        for lease in leases:
            self._crew.start(lease)
        return len(leases)

    async def claim(self, wanted: int, *, suspects: bool = False, probe: Key | None = None) -> tuple[Lease, ...]:
        """Lease up to so many jobs, or one suspect; whoever calls this has to run them."""
        # One at a time: what another claim has just got does not count as forgotten.
        async with self._claiming:
            if self.isolating and not suspects:
                self._suspects_behind = False
                return ()
            claim = Claim(
                worker_id=self._runner.worker_id, capacity=wanted, now=self._runner.now(), suspects=suspects,
                stages=self._limits(wanted) if probe is None else {probe: 1}, probe=probe is not None,
                holding=self._crew.jobs if self._in_doubt else None,
            )  # fmt: skip
            try:
                claimed = await self._runner.journal.ask(claim)
            except StoreUnavailableError as error:
                self._in_doubt = self._in_doubt or error.outcome_unknown
                return ()
            self._in_doubt = False
            if probe is None:
                self._suspects = claimed.suspects
            self._suspects_behind = claimed.suspects
            return claimed.leases

    def _limits(self, wanted: int) -> dict[Key, int]:
        """How many of each stage: no more than it may run at once."""
        if not self._runner.limits:
            return dict.fromkeys(self._keys, wanted)
        busy = self._crew.busy()
        limits = {}
        for pipeline, name in self._keys:
            stage = self._runner.pipelines[pipeline].find(name)
            most = (
                wanted
                if stage is None or stage.concurrency is None
                else stage.concurrency - busy.get((pipeline, name), 0)
            )
            if most > 0:
                limits[pipeline, name] = min(wanted, most)
        return limits

    async def _run_suspect(self) -> bool:
        """Let what runs end, then run one suspect with nothing beside it; False where there is none to be had."""
        self.isolating = True
        try:
            await self._crew.settle(self._stopping)
            if self._stopping.is_set():
                return False
            probe, self._suspect_probe = self._suspect_probe, None
            got = await self.claim(1, suspects=True, probe=probe)
            await self._crew.settle(self._stopping)  # a probe may have begun while this was asked for
            for lease in got:
                self._crew.start(lease, probe=probe is not None)
            if not got:
                self._suspects = False
            await self._crew.settle(self._stopping)
        finally:
            self.isolating = False
        # Others get a turn between two suspects.
        if got:
            await self._begin(self._settings.concurrency)
        return bool(got)

    async def promote(self) -> int:
        """Make ready what is due; says how many."""
        promoted = await self._runner.journal.ask(
            Promote(now=self._runner.now(), limit=_PROMOTED_AT_ONCE), patience=self._settings.lease / 2
        )
        self._due = promoted.next_due if promoted.count < _PROMOTED_AT_ONCE else self._runner.now()
        if promoted.count:
            self._wake.set()
        return promoted.count

    async def probes(self) -> AsyncIterator[Lease]:
        """One job for each open breaker whose hold is over, if the fleet gives us the right to send it through."""
        gates, now = self._runner.gates, self._runner.now()
        until = now + self._settings.lease
        for key in gates.to_probe(self._keys, now):
            if self._stopping.is_set() or not await gates.probe(key, until=until, now=now):
                continue
            leases = await self.claim(1, probe=key)
            for lease in leases:
                yield lease
            if self._suspects_behind and not leases:
                self._suspect_probe = key  # it has to be alone, which only the claiming loop can see to
                self._wake.set()
            elif not leases:
                await gates.give_back(key, until=until, now=now)
