"""Cancelling: what nobody runs ends at once, what runs is stopped, and nothing that was cancelled goes on."""

import asyncio
import threading

import pytest

import reprieve
from reprieve import Job, JobStatus, NeedsReview, Pipeline, Retryable
from reprieve.errors import Wait
from reprieve.ports.intents import Await, Cancel, Cancelled, Counters, Renew


async def cancel(bench, job, reason="not needed any more"):
    now = await bench.app.journal.store.now()
    return await bench.app.journal.ask(Cancel(job_id=job, actor="ops", reason=reason, now=now))


def ended(bench, job):
    view = bench.job(job)
    (outcome,) = bench.rows("outcomes", job_id=job)
    return view.status, view.reason, outcome["ended_by"]


CANCELLED = (JobStatus.CANCELLED, "not needed any more", "ops")


def waiting_pipeline(profile, error=None):
    pipeline = Pipeline("waiting", profile=profile)

    @pipeline.stage
    async def run(job: Job[str]) -> str:
        if error is not None:
            raise error
        return "done"

    return pipeline


@pytest.mark.parametrize("options", [{}, {"delay": 3600.0}], ids=["ready", "scheduled"])
def test_a_job_that_nobody_has_begun_is_cancelled_at_once_and_never_run(bench, quick, options):
    pipeline = waiting_pipeline(quick)

    async def main():
        job = await bench.submit(pipeline, "x", **options)
        assert await cancel(bench, job) is Cancelled.DONE
        await bench.work(pipeline)
        return job

    job = bench.run(main)
    assert ended(bench, job) == CANCELLED
    assert bench.job(job).fence == 0


@pytest.mark.parametrize(
    "error", [Retryable("later", retry_after=60.0), NeedsReview("look")], ids=["retryable_failed", "needs_review"]
)
def test_a_job_that_waits_after_a_failure_is_cancelled_at_once(bench, quick, error):
    pipeline = waiting_pipeline(quick, error)

    async def main():
        job = await bench.submit(pipeline, "x")
        await bench.work_until(pipeline, lambda: bench.rows("attempts"))
        assert await cancel(bench, job) is Cancelled.DONE
        return job

    assert ended(bench, bench.run(main)) == CANCELLED


def test_an_async_stage_that_runs_is_interrupted(bench, quick):
    pipeline, begun, told = Pipeline("running", profile=quick), asyncio.Event(), []

    @pipeline.stage
    async def first(job: Job[str]) -> str:
        return "kept"

    @pipeline.stage
    async def second(job: Job[str]) -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append(job.cancelled)
            raise
        return "done"

    async def main():
        job = await bench.submit(pipeline, "x")
        working = asyncio.create_task(bench.work(pipeline, lease=1.0))
        await begun.wait()
        assert await cancel(bench, job) is Cancelled.REQUESTED
        assert bench.job(job).cancel_requested
        await working
        return job

    job = bench.run(main)
    assert ended(bench, job) == CANCELLED
    assert told == [True]
    assert bench.job(job).stage == "second"
    assert [row["stage"] for row in bench.rows("checkpoints")] == ["first"]
    assert bench.rows("attempts") == []


def test_a_plain_function_sees_that_it_is_not_wanted_any_more(bench, quick):
    pipeline, begun, stopped = Pipeline("plain", profile=quick), threading.Event(), threading.Event()

    @pipeline.stage
    def look_now_and_then(job: Job[str]) -> str:
        begun.set()
        while not job.cancelled:
            if stopped.wait(0.005):
                return "nobody told it"
        stopped.set()
        return "stopped"

    async def main():
        job = await bench.submit(pipeline, "x")
        working = asyncio.create_task(bench.work(pipeline, lease=1.0))
        await asyncio.to_thread(begun.wait)
        assert await cancel(bench, job) is Cancelled.REQUESTED
        await working
        assert await asyncio.to_thread(stopped.wait, 20)
        return job

    assert ended(bench, bench.run(main)) == CANCELLED


@pytest.mark.parametrize("error", [None, ConnectionResetError(), NeedsReview(), TypeError()])
def test_what_was_asked_for_while_the_stage_ends_by_itself_is_done_unless_the_job_ends_too(bench, quick, error):
    """The request comes too late to interrupt: the stage ends before its worker hears of it."""
    pipeline, begun, go_on = Pipeline("late", profile=quick), asyncio.Event(), asyncio.Event()

    @pipeline.stage
    async def first(job: Job[str]) -> str:
        begun.set()
        await go_on.wait()
        if error is not None:
            raise error
        return "kept"

    @pipeline.stage
    async def second(job: Job[str]) -> str:
        raise AssertionError("it must not go on")

    async def main():
        job = await bench.submit(pipeline, "x")
        working = asyncio.create_task(bench.work(pipeline, lease=60.0))
        await begun.wait()
        await cancel(bench, job)
        go_on.set()
        await working
        return job

    job = bench.run(main)
    if isinstance(error, TypeError):
        assert bench.job(job).status is JobStatus.DEAD_LETTER
    else:
        assert ended(bench, job) == CANCELLED
        assert [row["stage"] for row in bench.rows("checkpoints")] == (["first"] if error is None else [])


def test_a_job_that_is_over_or_unknown_is_not_cancelled(bench, quick):
    pipeline = waiting_pipeline(quick)

    async def main():
        job = await bench.submit(pipeline, "x")
        await bench.work(pipeline)
        assert await cancel(bench, job) is Cancelled.OVER
        assert await cancel(bench, 4711) is Cancelled.UNKNOWN
        return job

    assert bench.result(bench.run(main)) == "done"


def test_a_stage_that_will_not_be_interrupted_may_finish(bench, quick):
    pipeline, begun = Pipeline("stubborn", profile=quick), asyncio.Event()

    @pipeline.stage
    async def stubborn(job: Job[str]) -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "done all the same"
        return "not reached"

    async def main():
        job = await bench.submit(pipeline, "x")
        working = asyncio.create_task(bench.work(pipeline, lease=1.0))
        await begun.wait()
        await cancel(bench, job)
        await working
        return job

    job = bench.run(main)
    assert bench.job(job).status is JobStatus.SUCCEEDED
    assert bench.result(job) == "done all the same"


def test_a_job_that_waits_for_its_turn_in_a_narrow_stage_is_cancelled_without_having_run(bench, quick):
    pipeline, ran, begun, go_on = Pipeline("narrow", profile=quick), [], asyncio.Event(), asyncio.Event()

    @pipeline.stage
    async def first(job: Job[int]) -> None: ...

    @pipeline.stage(concurrency=1)
    async def narrow(job: Job[int]) -> None:
        ran.append(job.payload)
        begun.set()
        await go_on.wait()

    async def main():
        jobs = [await bench.submit(pipeline, number) for number in range(2)]
        working = asyncio.create_task(bench.work(pipeline, lease=1.0))
        await begun.wait()
        waiting = jobs[1 - ran[0]]
        await bench.until(lambda: bench.job(waiting).stage == "narrow")
        assert await cancel(bench, waiting) is Cancelled.REQUESTED
        await bench.until(lambda: bench.job(waiting).status.over)
        go_on.set()
        await working
        return waiting

    assert ended(bench, bench.run(main)) == CANCELLED
    assert len(ran) == 1


def test_a_worker_that_is_cancelled_hands_its_jobs_back_and_another_finishes_them(bench, quick):
    """A deployment costs a job no attempt."""
    pipeline, begun = Pipeline("deployed", profile=quick), []

    @pipeline.stage
    async def run(job: Job[str]) -> int:
        begun.append(job.attempt)
        if len(begun) == 1:
            await asyncio.sleep(60)
        return job.attempt

    async def main():
        job = await bench.submit(pipeline, "x")
        await bench.work_until(pipeline, lambda: begun)
        between = bench.job(job)
        await bench.work(pipeline)
        return job, between

    job, between = bench.run(main)
    assert (between.status, between.counters) == (JobStatus.IN_PROGRESS, Counters(deploy=1))
    assert begun == [1, 1]
    assert bench.result(job) == 1
    assert bench.rows("attempts") == []


def test_a_job_that_is_about_to_wait_is_cancelled_all_the_same(bench, quick):
    """It is asked for while it is being written that the job waits: that is written to its end, and then seen to."""
    pipeline = waiting_pipeline(quick, Wait("somebody"))

    async def main():
        job = await bench.submit(pipeline, "x")
        journal = bench.holding()
        let_go = journal.hold(lambda intent: isinstance(intent, Await))

        async def ask():
            await bench.until(lambda: journal.asked_for(Await))
            assert await cancel(bench, job) is Cancelled.REQUESTED
            seen = len(journal.asked_for(Renew))
            await bench.until(lambda: len(journal.asked_for(Renew)) > seen + 1)  # by now it has been told to stop
            let_go.set()

        asking = asyncio.create_task(ask())
        await bench.work_until(pipeline, lambda: asking.done() and bench.rows("outcomes"), lease=1.0)
        await asking
        return job

    assert ended(bench, bench.run(main)) == CANCELLED


def test_who_waits_for_a_cancelled_job_is_told_so(bench, quick):
    pipeline = waiting_pipeline(quick)

    async def main():
        submission = await bench.app.submit(pipeline, "x")
        await cancel(bench, submission.job_id)
        with pytest.raises(reprieve.JobFailedError, match="ended as cancelled at run: not needed any more"):
            await submission.result(timeout=20)

    bench.run(main)
