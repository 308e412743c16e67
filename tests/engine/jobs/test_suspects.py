"""A job that was there when a worker died is run alone: nothing begins beside it, be it ready or a probe."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from reprieve import Job, Pipeline
from reprieve.app.worker import WorkerSettings
from reprieve.ports.intents import Claim, Counters, Hold, Leave, Register, Release

SETTINGS = WorkerSettings(concurrency=4, poll=0.05)
TURNS = 50
"""Of the event loop: enough for whatever would begin too soon."""


class Line:
    """Two pipelines whose one stage each says when it begins, and ends when it is told to."""

    def __init__(self):
        self.begun, self.go = [], {"suspected": asyncio.Event(), "probed": asyncio.Event()}
        self.suspected, self.probed = (self._pipeline(name) for name in self.go)

    def _pipeline(self, name):
        pipeline = Pipeline(name)

        @pipeline.stage
        async def stage(job: Job[int]) -> None:
            self.begun.append(name)
            await self.go[name].wait()

        return pipeline

    def let_all_go(self):
        for event in self.go.values():
            event.set()


async def make_suspect(bench, pipeline):
    """A job with which a worker died."""
    job = await bench.submit(pipeline, 1)
    journal = bench.app.journal
    now, key = await journal.store.now(), (pipeline.name, "stage")
    worker = await journal.ask(Register(name="dead", host="h", pid=1, stages=(key,), now=now, expires_at=now + 60.0))
    (lease,) = (await journal.ask(Claim(worker_id=worker, capacity=1, stages={key: 1}, now=now))).leases
    assert lease.job_id == job
    await journal.ask(Release(job_id=job, fence=lease.fence, counters=Counters(crash=1), now=now))
    await journal.ask(Leave(worker_id=worker))
    return job


async def open_breaker(bench, pipeline):
    """As after an outage whose hold is over."""
    now = await bench.app.journal.store.now()
    await bench.app.journal.ask(
        Hold(pipeline=pipeline.name, stage="stage", until=now, error_class="X", reason="outage", now=now, opens=True)
    )


async def some_turns():
    for _ in range(TURNS):
        await asyncio.sleep(0)


@asynccontextmanager
async def at_work(bench, line):
    """A worker for both pipelines that has come, and takes the steps that a test asks for."""
    async with bench.app._worker((line.suspected, line.probed), SETTINGS) as worker:
        await worker.come()
        try:
            yield worker
        finally:
            line.let_all_go()
            await worker._crew.settle(asyncio.Event())
            await worker.leave()


@pytest.mark.spec("REV-9.1")
def test_nothing_is_claimed_beside_a_suspect_that_runs(bench):
    async def main():
        line = Line()
        await make_suspect(bench, line.suspected)
        async with at_work(bench, line) as worker:
            alone = asyncio.create_task(worker._claims._run_suspect())
            await bench.until(lambda: line.begun)
            for pipeline in (line.suspected, line.probed):
                await bench.submit(pipeline, 2)
            await open_breaker(bench, line.probed)
            assert await worker.claim(4) == ()
            assert await worker.claim(1, probe=("probed", "stage")) == ()
            assert line.begun == ["suspected"]
            line.let_all_go()
            assert await alone, "and then the others have their turn"
        assert line.begun == ["suspected", "suspected"]

    bench.run(main)


def test_a_probe_that_was_claimed_meanwhile_ends_before_a_suspect_begins(bench):
    """Its claim was on its way when the worker made room for the suspect."""

    async def main():
        line = Line()
        suspect = await make_suspect(bench, line.suspected)
        await bench.submit(line.probed, 1)
        await open_breaker(bench, line.probed)
        journal = bench.holding()
        let_go = journal.hold(lambda intent: isinstance(intent, Claim) and intent.probe)
        async with at_work(bench, line) as worker:

            async def probe():
                async for lease in worker.probes():
                    worker._crew.start(lease, probe=True)

            probing = asyncio.create_task(probe())
            await bench.until(lambda: any(claim.probe for claim in journal.asked_for(Claim)))
            alone = asyncio.create_task(worker._claims._run_suspect())
            await some_turns()
            let_go.set()
            await probing
            await bench.until(lambda: bench.rows("queue", job_id=suspect, state=1))
            await some_turns()
            assert line.begun == ["probed"]
            line.let_all_go()
            assert await alone
        assert line.begun == ["probed", "suspected"]

    bench.run(main)


def test_a_probe_that_finds_nothing_says_nothing_about_suspects_elsewhere(bench):
    """The suspect is asked for next, and not only after another look for ready jobs."""

    async def main():
        line = Line()
        line.let_all_go()
        await make_suspect(bench, line.suspected)
        await open_breaker(bench, line.probed)
        journal = bench.holding()
        async with at_work(bench, line) as worker:
            assert await worker.claim(4) == ()
            assert [lease async for lease in worker.probes()] == []
            claiming = asyncio.create_task(worker._claims.keep_claiming(until_idle=False))
            await bench.until(lambda: line.begun)
            worker.stop()
            await claiming
        return [(claim.suspects, claim.probe) for claim in journal.asked_for(Claim)[:3]]

    assert bench.run(main) == [(False, False), (False, True), (True, False)]
