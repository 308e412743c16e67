"""Every way of the lifecycle's table that the engine can go, driven step by step, and the status that everybody sees there."""

import asyncio
from contextlib import suppress

import pytest

import reprieve
from reprieve import Job, JobStatus, NeedsReview, Permanent, Pipeline, Retryable
from reprieve.app.worker import WorkerSettings
from reprieve.core.lifecycle import TRANSITIONS, JobEvent, after
from reprieve.ports.intents import Cancel
from reprieve.testing import FakeClock

CLAIM, CHECKPOINT, FINISH, RETRY, BURY, SKIP, ASK, RELEASE, CANCEL = (
    JobEvent.CLAIM, JobEvent.CHECKPOINT, JobEvent.FINISH, JobEvent.RETRY, JobEvent.BURY, JobEvent.SKIP, JobEvent.ASK,
    JobEvent.RELEASE, JobEvent.CANCEL,
)  # fmt: skip

BY_A_WORKER = [
    (CLAIM, CHECKPOINT, FINISH),
    (CLAIM, RETRY, CLAIM, BURY),
    (CLAIM, RETRY, CLAIM, CHECKPOINT, RETRY, CLAIM, FINISH),
    (CLAIM, SKIP),
    (CLAIM, ASK, CANCEL),
    (CLAIM, RELEASE, CLAIM, CHECKPOINT, RELEASE, CLAIM, FINISH),
    (CLAIM, CHECKPOINT, RELEASE, CANCEL),
    (CANCEL,),
    (CLAIM, CANCEL),
    (CLAIM, RETRY, CANCEL),
]
BY_THEIR_OWN_LOOP = [(*before, event) for before in ((), (RETRY,)) for event in (FINISH, RETRY, BURY, SKIP, ASK)]
BY_A_PERSON = {
    (JobStatus.NEEDS_REVIEW, JobEvent.ANSWER),
    (JobStatus.NEEDS_REVIEW, JobEvent.SKIP),
    (JobStatus.SKIPPED, JobEvent.REOPEN),
    (JobStatus.DEAD_LETTER, JobEvent.REPLAY),
}
"""Shown where reviews and dead letters are."""

RAISED = {
    RETRY: lambda: Retryable("later", retry_after=60.0),
    BURY: lambda: Permanent("never"),
    SKIP: lambda: Permanent("too long", error_class="CONTEXT_LENGTH_EXCEEDED"),
    ASK: lambda: NeedsReview("is this right?"),
}
PROFILE = reprieve.load_profiles()["analysis"]


class Driver:
    """A job whose two stages do what they are told, and a worker that takes one step at a time."""

    def __init__(self, app, clock, worker, orders, inside):
        self.app, self.clock, self.worker, self.orders, self.inside = app, clock, worker, orders, inside
        self.running = None

    async def do(self, job, event):
        match event:
            case JobEvent.CLAIM:
                self.clock.advance(60.0)
                await self.worker.promote()
                (lease,) = await self.worker.claim(1)
                self.inside.clear()
                self.running = asyncio.create_task(self.worker.run(lease))
                await self.inside.wait()
            case JobEvent.RELEASE:
                self.running.cancel()
                with suppress(asyncio.CancelledError):
                    await self.running
            case JobEvent.CHECKPOINT:
                self.inside.clear()
                self.orders.put_nowait(None)
                await self.inside.wait()
            case JobEvent.CANCEL:
                await self.app.journal.ask(Cancel(job_id=job, actor="ops", reason="", now=self.clock.now()))
                if self.running is not None and not self.running.done():
                    self.orders.put_nowait(None)  # the stage ends, and the job does not go on
                    await self.running
            case JobEvent.FINISH:
                self.orders.put_nowait(None)
                await self.running
            case _:
                self.orders.put_nowait(RAISED[event]())
                await self.running


async def drive(bench, path):
    orders, inside, clock = asyncio.Queue(), asyncio.Event(), FakeClock()
    pipeline = Pipeline("driven", profile=PROFILE, breaker=None)

    async def obey():
        inside.set()
        if (error := await orders.get()) is not None:
            raise error

    @pipeline.stage
    async def first(job: Job[str]) -> None:
        await obey()

    @pipeline.stage
    async def second(job: Job[str]) -> None:
        await obey()

    async with reprieve.connect(bench.url, clock=clock) as app, asyncio.timeout(20):
        job = (await app.submit(pipeline, "x")).job_id
        status = bench.job(job).status
        assert status is JobStatus.PENDING
        async with app._worker((pipeline,), WorkerSettings(lease=3600.0)) as worker:
            await worker.come()
            driver = Driver(app, clock, worker, orders, inside)
            for event in path:
                await driver.do(job, event)
                expected = after(status, event)
                assert bench.job(job).status is expected, f"{status} + {event}"
                status = expected
            if driver.running is not None:
                assert driver.running.done()
            await worker.leave()


@pytest.mark.parametrize("path", BY_A_WORKER, ids="-".join)
def test_a_job_has_the_status_that_the_table_gives_it_after_all_that_a_worker_does(bench, path):
    asyncio.run(drive(bench, path))
    assert bench.look(lambda reader: reader.orphans(limit=5)) == reprieve.ports.reader.Orphans()


@pytest.mark.parametrize("path", BY_THEIR_OWN_LOOP, ids="-".join)
def test_so_it_has_where_callers_run_their_own_loop(bench, path):
    pipeline = Pipeline("unclaimed", profile=PROFILE)

    @pipeline.stage
    async def parse(job: Job[str]) -> None: ...

    async def main():
        job = await bench.submit(pipeline, "x")
        status = bench.job(job).status
        for event in path:
            if event is FINISH:
                await bench.app.complete_item(job, "parse")
            else:
                await bench.app.handle_item_failure(job, "agent", "parse", RAISED[event](), PROFILE)
            status = after(status, event)
            assert bench.job(job).status is status

    bench.run(main)


def test_no_other_way_is_in_the_table():
    gone = set()
    for path in BY_A_WORKER + BY_THEIR_OWN_LOOP:
        status = JobStatus.PENDING
        for event in path:
            gone.add((status, event))
            status = after(status, event)
    assert gone | BY_A_PERSON == set(TRANSITIONS)
