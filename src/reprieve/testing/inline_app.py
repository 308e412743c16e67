"""Pipelines in a test: the whole engine on a temporary SQLite file, without a worker, a poll or a sleep.

async with inline() as app:
    outcome = await app.run(review, change)
assert outcome.raise_for_status().result == ...

Waits pass by moving a clock: backoff, delays, Retry-After and holds cost a test no time, and are there to be looked at in
`app.clock.slept`. Only a stage's own timeout is of real time, since its function is.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from reprieve.adapters.sql import schema
from reprieve.adapters.sql.alerts.reading import SqlAlertReader
from reprieve.adapters.sql.analysis.reading import SqlReviewReader
from reprieve.adapters.sql.dead_letters.reading import SqlDeadLetterReader
from reprieve.adapters.sql.deliveries.reading import SqlDeliveryReader
from reprieve.adapters.sql.keeper import SqlKeeper
from reprieve.adapters.sql.reader import SqlReader
from reprieve.adapters.sql.sqlite import SqliteStore
from reprieve.app.application import App
from reprieve.app.waiting import value_of
from reprieve.app.worker import WorkerSettings
from reprieve.core.lifecycle import JobStatus
from reprieve.errors import JobError, JobFailedError, JobTimeoutError, UnknownNameError, UsageError
from reprieve.ports.intents import QueueState
from reprieve.processes.runner import ChildProcessRunner
from reprieve.testing.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Self, Unpack

    from reprieve.app.pipeline import Pipeline
    from reprieve.app.worker import Worker
    from reprieve.core.failure import Failure
    from reprieve.ports.reader import AttemptView, DeadLetterView, JobView, StageRun

_SETTINGS: Final = WorkerSettings(concurrency=1)
_SHORTEST_WAIT: Final = 1e-6
"""Seconds; at today's dates a float tells no two moments apart that are closer."""


class SubmitOptions(TypedDict, total=False):
    """What `App.submit` takes by keyword."""

    idempotency_key: str | None
    subject: str | None
    version: int | Literal["next"] | None
    priority: int
    delay: float | None
    run_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a job."""

    job: JobView
    result: Any
    """What the last stage returned, once it has."""
    failure: Failure | None
    """The verdict on what a stage raised last."""
    exception: BaseException | None = field(repr=False)
    """What it was."""
    attempts: tuple[AttemptView, ...]
    """Those that failed, in order."""
    stages: tuple[StageRun, ...]
    """Those that are done, in order."""
    dead_letter: DeadLetterView | None
    problem: JobError | None = field(repr=False)
    """Why there is no result."""

    @property
    def status(self) -> JobStatus:
        """The job's; where it is not over, it waits for a person, for an upgrade, or at a paused stage."""
        return self.job.status

    def raise_for_status(self) -> Self:
        """Unless the job has succeeded, raise what its stage raised; or say why it stands or was ended."""
        if self.exception is not None and self.status in _BY_FAILURE:
            raise self.exception
        if self.problem is not None:
            raise self.problem
        return self


_BY_FAILURE: Final = frozenset({JobStatus.DEAD_LETTER, JobStatus.SKIPPED, JobStatus.NEEDS_REVIEW})


class InlineApp(App):
    """An application that runs its jobs where they are asked for."""

    def __init__(self, path: Path, *, clock: FakeClock, draw: float) -> None:
        url = f"sqlite:///{path}"
        super().__init__(
            SqliteStore(url, clock=clock),
            reader=lambda: SqlReader(url),
            letters=lambda: SqlDeadLetterReader(url),
            deliveries=lambda: SqlDeliveryReader(url),
            reviews=lambda: SqlReviewReader(url),
            keeper=lambda: SqlKeeper(url),
            alerts=lambda: SqlAlertReader(url),
            isolator=ChildProcessRunner,
            clock=clock,
        )
        self.clock = clock
        """Time, which only waits move; move it yourself with `advance`."""
        self._draw = draw
        self._turn = asyncio.Lock()
        self._raised: dict[int, tuple[BaseException, Failure]] = {}

    async def run(self, pipeline: Pipeline, payload: object, **options: Unpack[SubmitOptions]) -> Outcome:
        """Submit a job and take it as far as it goes by itself; jobs of the pipeline that come before it go first."""
        submission = await self.submit(pipeline, payload, **options)
        async with (
            self._turn,
            self._worker((pipeline,), _SETTINGS, draw=lambda: self._draw, watch=self._watch) as worker,
        ):
            await worker.come()
            try:
                await self._drive(worker, submission.job_id)
            finally:
                await worker.leave()
        return self.outcome(submission.job_id, pipeline=pipeline)

    def outcome(self, job_id: int, *, pipeline: Pipeline | None = None) -> Outcome:
        """What has become of a job so far; with its pipeline, the result is of its own type."""
        job = self._job(job_id)
        result, problem = self._result(job, pipeline)
        exception, failure = self._raised.get(job_id, (None, None))
        return Outcome(
            job=job,
            result=result,
            failure=failure,
            exception=exception,
            attempts=tuple(self.reader.attempts(job_id)),
            stages=tuple(self.reader.stage_runs(job_id)),
            dead_letter=self.reader.dead_letter_of(job_id),
            problem=problem,
        )

    async def _drive(self, worker: Worker, job_id: int) -> None:
        """Step by step, until the job is over or waits for somebody; where nothing can be done, time passes."""
        while not (job := self._job(job_id)).status.over and job.state is not QueueState.WAITING:
            await worker.promote()
            if await _step(worker):
                continue
            due = worker.next_due()
            if due is None:
                return
            await self.clock.sleep_async(max(due - self.clock.now(), _SHORTEST_WAIT))

    def _watch(self, job_id: int, exception: BaseException, failure: Failure) -> None:
        self._raised[job_id] = (exception, failure)

    def _job(self, job_id: int) -> JobView:
        job = self.reader.job(job_id)
        if job is None:
            raise UnknownNameError("job", str(job_id))
        return job

    def _result(self, job: JobView, pipeline: Pipeline | None) -> tuple[object, JobError | None]:
        for ending in self.reader.endings([job.job_id]):
            try:
                return value_of(ending, pipeline), None
            except JobFailedError as error:
                return None, error
        waits_on = job.waits_on or "somebody to resume its stage"
        message = f"job {job.job_id} is not over: it is {job.status} at {job.stage} and waits on {waits_on}"
        return None, JobTimeoutError(message, job_id=job.job_id, status=job.status)


async def _step(worker: Worker) -> bool:
    """Run the next job, one that is suspected of killing workers, or one through an open breaker; False where none can."""
    for lease in await worker.claim(1) or await worker.claim(1, suspects=True):
        await worker.run(lease)
        return True
    stepped = False
    async for lease in worker.probes():
        await worker.run(lease, probe=True)
        stepped = True
    return stepped


@asynccontextmanager
async def inline(*, clock: FakeClock | None = None, draw: float = 0.5) -> AsyncIterator[InlineApp]:
    """An application on a file that goes with it; `draw` stands for chance, from 0 up to, not including, 1."""
    with TemporaryDirectory(prefix="reprieve-") as folder:
        async with _open(Path(folder) / "jobs.db", clock, draw) as app:
            yield app


def run_inline(pipeline: Pipeline, payload: object, **options: Unpack[SubmitOptions]) -> Outcome:
    """Run one job of a pipeline in a plain test."""
    with TemporaryDirectory(prefix="reprieve-") as folder:
        return InlineRunner(Path(folder))(pipeline, payload, **options)


class InlineRunner:
    """Runs jobs in plain tests, one after another, on one database and by one clock."""

    def __init__(self, folder: Path, *, draw: float = 0.5) -> None:
        self.clock = FakeClock()
        self._path, self._draw = folder / "jobs.db", draw

    def __call__(self, pipeline: Pipeline, payload: object, **options: Unpack[SubmitOptions]) -> Outcome:
        """Submit a job and take it as far as it goes by itself."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run(pipeline, payload, options))
        raise UsageError("an event loop is running here: write `async with inline() as app: await app.run(...)`")

    async def _run(self, pipeline: Pipeline, payload: object, options: SubmitOptions) -> Outcome:
        async with _open(self._path, self.clock, self._draw) as app:
            return await app.run(pipeline, payload, **options)


def _open(path: Path, clock: FakeClock | None, draw: float) -> InlineApp:
    if not path.exists():
        path.write_bytes(_empty_database())
    return InlineApp(path, clock=FakeClock() if clock is None else clock, draw=draw)


@cache
def _empty_database() -> bytes:
    """A file with our tables: copying one takes a tenth of the time that making one does."""
    with TemporaryDirectory(prefix="reprieve-") as folder:
        path = Path(folder) / "empty.db"
        schema.upgrade(f"sqlite:///{path}")
        return path.read_bytes()
