"""A job in progress: where it stands, how it is stopped from outside, and what its stage remembers."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from reprieve.errors import ReprieveError
from reprieve.ports.intents import Counters, Remember, Written

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from reprieve.app.pipeline.job import Job
    from reprieve.app.worker.runner import Runner
    from reprieve.ports.intents import Lease
    from reprieve.ports.sending import Sender

UNTRIED: Final = Counters()


class LeaseLostError(ReprieveError):
    """Somebody else has the job by now; what this attempt does is not wanted any more."""


class Why(StrEnum):
    """Why a running job was stopped from outside."""

    CANCEL = "cancel"
    """Somebody asked for it."""
    STOP = "stop"
    """The worker has to go."""
    LEASE = "lease"
    """The worker's lease ran out."""
    TAKEN = "taken"
    """Another worker has the job by now."""


class Running:
    """A job in progress, and the memory of the stage that it is in."""

    __slots__ = (
        "calling",
        "counters",
        "fresh",
        "in_thread",
        "is_executing",
        "job",
        "journal",
        "lease",
        "loop",
        "now",
        "opened_at",
        "probe",
        "profile",
        "release",
        "senders",
        "stage",
        "started_at",
        "supersedable",
        "task",
        "why",
    )  # fmt: skip

    def __init__(
        self,
        lease: Lease,
        runner: Runner,
        *,
        loop: asyncio.AbstractEventLoop,
        release: Callable[[], None],
        probe: bool = False,
    ) -> None:
        self.lease, self.journal, self.now, self.loop, self.release, self.probe = (
            lease, runner.journal, runner.now, loop, release, probe,
        )  # fmt: skip
        pipeline = runner.pipelines.get(lease.pipeline)
        self.senders: Mapping[str, Sender] = {} if pipeline is None else pipeline.senders
        self.profile = runner.fallback if pipeline is None else pipeline.profile
        self.supersedable: tuple[str, ...] = () if pipeline is None else pipeline.supersedes()
        self.task: asyncio.Task[None] | None = None
        self.why: Why | None = None
        self.job: Job[Any] | None = None
        self.is_executing = True
        self.in_thread = False
        """Whether a plain function runs, which nothing can interrupt."""
        self.calling = False
        """Whether it is inside a stage; only there can it be interrupted: what is being written is written."""
        self.stage = lease.stage
        self.counters, self.opened_at, self.started_at = lease.counters, lease.opened_at, 0.0
        self.fresh = lease.fence == 1
        """Nothing can have been remembered yet."""

    def free_slot(self) -> None:
        """No stage of it runs any more: another job may."""
        if self.is_executing:
            self.is_executing = False
            self.release()

    def stop(self, why: Why) -> None:
        """End it from outside; the first reason counts."""
        if self.why is not None:
            return
        self.why = why
        if why is Why.STOP and self.in_thread:
            return  # it cannot be interrupted: whatever it comes to is still written while the worker waits for it
        if self.job is not None:
            self.job.cancelled = True
        if self.calling and self.task is not None:
            self.task.cancel()

    def is_unwanted(self) -> bool:
        """Whether the task was cancelled by whoever awaits it, and not by us."""
        return self.why is None and self.task is not None and self.task.cancelling() > 0

    def go_on(self, stage: str, moment: float) -> None:
        """To the next stage, with a budget of its own."""
        self.stage, self.counters, self.opened_at = stage, UNTRIED, moment

    async def load(self) -> dict[str, bytes]:
        """All memos of this stage."""
        memos = await self.journal.look(partial(self.journal.store.memos, self.lease.job_id, self.stage))
        return {memo.stage: memo.data for memo in memos}

    async def keep(self, key: str, value: bytes) -> None:
        """One memo more, durable when this returns."""
        lease = self.lease
        intent = Remember(
            job_id=lease.job_id, fence=lease.fence, stage=self.stage, key=key, value=value, now=self.now()
        )
        if await self.journal.ask(intent) is Written.STALE:
            raise LeaseLostError(f"job {lease.job_id} was taken over by another worker")
