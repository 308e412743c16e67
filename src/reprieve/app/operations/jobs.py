"""Jobs: look, cancel, prune, erase."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.app.operations.asking import AUDIT, PATIENCE, actor_of, reason_of, require_pipeline
from reprieve.core.backoff import require_number, shown
from reprieve.core.lifecycle import JobStatus, LetterState
from reprieve.errors import UnknownNameError, UsageError
from reprieve.ports.intents import Cancel, Cancelled
from reprieve.ports.reader import JobFilter, Pruned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reprieve.app.operations.asking import OpenJournal
    from reprieve.app.operations.settling import Settler
    from reprieve.ports.clock import Clock
    from reprieve.ports.reader import (
        AttemptView,
        DeadLetterView,
        Ending,
        JobView,
        Keeper,
        Reader,
        StageRun,
        StageView,
        WorkerView,
    )

_PRUNED_AT_ONCE: Final = 500
"""Jobs in one transaction: a few dozen milliseconds in which others wait."""
_CENTURY: Final = 3_155_760_000.0
_HIGHEST_ID: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """A job with its history; no payload, no result."""

    job: JobView
    stages: Sequence[StageRun]
    """Those that are done."""
    attempts: Sequence[AttemptView]
    """Those that failed."""
    dead_letter: DeadLetterView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far all jobs are, and which stages stand still."""

    counts: Mapping[JobStatus, int]
    stopped: Sequence[StageView]
    """Paused by a person, or held because their upstream fails."""

    @property
    def total(self) -> int:
        """All jobs there are."""
        return sum(self.counts.values())

    @property
    def over(self) -> int:
        """Those that have ended, well or not."""
        return sum(count for status, count in self.counts.items() if status.over)

    @property
    def settled(self) -> bool:
        """Whether nothing is left that would go on by itself: what needs a person waits for one."""
        return self.over + self.counts[JobStatus.NEEDS_REVIEW] == self.total


class JobOperations:
    """What an operator can see and do about jobs."""

    def __init__(self, reader: Reader, keeper: Keeper, journal: OpenJournal, *, settle: Settler, clock: Clock) -> None:
        self._reader, self._keeper, self._journal, self._clock = reader, keeper, journal, clock
        self._settle = settle

    async def list(self, wanted: JobFilter = JobFilter()) -> Sequence[JobView]:  # noqa: B008 - frozen
        """The newest first; page on with `after`."""
        if wanted.limit < 1:
            raise UsageError(f"limit must be at least 1, not {wanted.limit}")
        found = await asyncio.to_thread(self._reader.jobs, wanted)
        if not found and wanted.pipeline is not None:
            await require_pipeline(self._reader, wanted.pipeline)
        return found

    async def show(self, job_id: int) -> JobDetail:
        """One job with its history."""
        _require_id(job_id)
        job = await asyncio.to_thread(self._reader.job, job_id)
        if job is None:
            raise UnknownNameError("job", str(job_id))
        return await self._detail(job)

    async def find(self, idempotency_key: str) -> JobDetail:
        """The job that was submitted under this key, with its history."""
        if not isinstance(idempotency_key, str):
            raise UsageError(f"a job is found by its key, a text, not by {shown(idempotency_key)}: show takes its id")
        job = await asyncio.to_thread(self._reader.job_by_key, idempotency_key)
        if job is None:
            raise UnknownNameError("job", idempotency_key)
        return await self._detail(job)

    async def payload(self, job_id: int) -> bytes | None:
        """A job's payload as it was given: shown only where somebody asks for this very thing."""
        await self.show(job_id)
        return await asyncio.to_thread(self._reader.payload, job_id)

    async def ending(self, job_id: int) -> Ending | None:
        """How a job ended, with its result as it was stored; None while it has not."""
        await self.show(job_id)
        return next(iter(await asyncio.to_thread(self._reader.endings, [job_id])), None)

    async def progress(self, pipeline: str | None = None) -> Progress:
        """How many jobs there are of each status, and which stages stand still."""
        counts = await asyncio.to_thread(self._reader.counts, pipeline)
        if pipeline is not None and not any(counts.values()):
            await require_pipeline(self._reader, pipeline)
        stages = await asyncio.to_thread(self._reader.stages)
        stopped = [
            stage
            for stage in stages
            if pipeline in (None, stage.pipeline) and (stage.paused or stage.held_until is not None)
        ]
        return Progress(counts=counts, stopped=stopped)

    async def workers(self) -> Sequence[WorkerView]:
        """Those that are at work."""
        now = self._clock.now()
        return [each for each in await asyncio.to_thread(self._reader.workers) if each.expires_at > now]

    async def cancel(self, job_id: int, *, actor: str, reason: str = "") -> Cancelled:
        """End a job now, or ask the worker that runs it to stop it; `OVER` where it had ended before."""
        actor, reason = actor_of(actor), reason_of(reason)
        _require_id(job_id)
        journal = await self._journal()
        intent = Cancel(job_id=job_id, actor=actor, reason=reason, now=await journal.store.now())
        answer = await journal.ask(intent, patience=PATIENCE)
        if answer is Cancelled.UNKNOWN:
            raise UnknownNameError("job", str(job_id))
        AUDIT.info("%s cancelled job %d: %s", actor, job_id, answer)
        return answer

    async def prune(
        self,
        older_than: float,
        *,
        actor: str,
        pipeline: str | None = None,
        dry: bool = False,
        tell: Callable[[Pruned], None] | None = None,
    ) -> Pruned:
        """Remove jobs that ended more than so many seconds ago, but for those that an open dead letter or delivery needs.

        `tell` hears after each transaction what has been done so far.
        """
        actor = actor_of(actor)
        require_number("older_than", older_than, 0.0, _CENTURY)
        if pipeline is not None:
            await require_pipeline(self._reader, pipeline)
        before = self._clock.now() - older_than
        total = Pruned(jobs=0, kept_for_dead_letters=0, more=True)
        while total.more:
            done = await asyncio.to_thread(
                self._keeper.prune,
                before=before,
                pipeline=pipeline,
                limit=_PRUNED_AT_ONCE,
                dry=dry,
                after=total.after,
            )
            total = Pruned(
                jobs=total.jobs + done.jobs,
                kept_for_dead_letters=total.kept_for_dead_letters + done.kept_for_dead_letters,
                kept_for_deliveries=total.kept_for_deliveries + done.kept_for_deliveries,
                more=done.more,
                after=done.after,
            )
            if tell is not None:
                tell(total)
        if not dry:
            AUDIT.info("%s pruned %d jobs that ended over %.0f s before", actor, total.jobs, older_than)
        return total

    async def erase(self, subject: str, *, actor: str, pipeline: str | None = None) -> int:
        """Remove what a subject's jobs were given and gave; how many jobs it was. Refused while one of them is open."""
        actor = actor_of(actor)
        count = await asyncio.to_thread(self._keeper.erase, subject, pipeline=pipeline)
        AUDIT.info("%s erased a subject with %d jobs", actor, count)
        return count

    async def _detail(self, job: JobView) -> JobDetail:
        found = await asyncio.to_thread(self._look, job)
        letter = found.dead_letter
        if letter is None or not job.status.over or letter.state != LetterState.REPLAYING:
            return found
        await self._settle()
        return await asyncio.to_thread(self._look, job)

    def _look(self, job: JobView) -> JobDetail:
        reader = self._reader
        return JobDetail(
            job=job,
            stages=reader.stage_runs(job.job_id),
            attempts=reader.attempts(job.job_id),
            dead_letter=reader.dead_letter_of(job.job_id),
        )


def _require_id(job_id: int) -> None:
    """Refuse what no job can be known by."""
    if isinstance(job_id, bool) or not isinstance(job_id, int):
        raise UsageError(f"a job's id is a whole number, not {shown(job_id)}: find takes its key")
    if not 0 < job_id <= _HIGHEST_ID:
        raise UnknownNameError("job", str(job_id))
