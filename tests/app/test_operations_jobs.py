"""What operators see and do about jobs, over a real application."""

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

import reprieve
from reprieve.app.operations import jobs as jobs_module
from reprieve.core.lifecycle import JobStatus
from reprieve.errors import RefusedError, UnknownNameError, UsageError
from reprieve.ports.intents import Cancelled
from reprieve.ports.reader import JobFilter, Pruned
from reprieve.wiring import open_operations

pipeline = reprieve.Pipeline("review")


@pipeline.stage
async def fetch(job: reprieve.Job[dict]) -> int:
    return job.payload["n"]


@pipeline.stage
async def llm(job: reprieve.Job[dict], n: int) -> int:
    if n < 0:
        raise reprieve.Permanent("negative")
    if n == 0:
        raise reprieve.NeedsReview("odd")
    return 2 * n


@asynccontextmanager
async def worked(url, *numbers, **first):
    """An application whose worker has done one job a number."""
    async with reprieve.connect(url) as app:
        for place, number in enumerate(numbers):
            await app.submit(pipeline, {"n": number}, idempotency_key=f"key-{place}", **(first if place == 0 else {}))
        await app.work(pipeline, until_idle=True)
        yield app


def test_a_job_is_shown_with_the_stages_that_it_has_passed(store_url):
    async def run():
        async with worked(store_url, 4) as app:
            detail = await app.operations.jobs.find("key-0")
            assert detail == await app.operations.jobs.show(detail.job.job_id)
            assert detail.job.status is JobStatus.SUCCEEDED
            assert [run.stage for run in detail.stages] == ["fetch", "llm"]
            assert (list(detail.attempts), detail.dead_letter) == ([], None)
            assert await app.operations.jobs.payload(detail.job.job_id) == b'{"n":4}'
            assert (await app.operations.jobs.ending(detail.job.job_id)).result == b"8"

    asyncio.run(run())


@pytest.mark.spec("CRIT-4.1", "CRIT-4.6")
def test_a_job_that_was_given_up_is_shown_with_what_went_wrong_and_where(store_url):
    async def run():
        async with worked(store_url, -1) as app:
            detail = await app.operations.jobs.find("key-0")
            assert detail.job.status is JobStatus.DEAD_LETTER
            assert [run.stage for run in detail.stages] == ["fetch"]
            (attempt,) = detail.attempts
            letter = detail.dead_letter
            assert (attempt.stage, attempt.decision, attempt.error_class) == ("llm", "dead_letter", letter.error_class)
            assert (letter.stage, letter.state) == ("llm", "open")
            assert letter.first_failure_at <= letter.last_failure_at

    asyncio.run(run())


@pytest.mark.parametrize("job_id", [0, -1, 77, 2**63, 10**30])
def test_a_job_that_is_not_there_is_told_by_its_number(sqlite_url, job_id):
    async def run():
        async with worked(sqlite_url, 1) as app:
            for asked in (app.operations.jobs.show, app.operations.jobs.payload, app.operations.jobs.ending):
                with pytest.raises(UnknownNameError, match=f"no job is named '{job_id}'"):
                    await asked(job_id)
            with pytest.raises(UnknownNameError, match=f"no job is named '{job_id}'"):
                await app.operations.jobs.cancel(job_id, actor="ada")

    asyncio.run(run())


def test_a_pipeline_that_is_misspelt_is_told_with_the_nearest_one(sqlite_url):
    async def run():
        async with worked(sqlite_url, 1) as app:
            asked = app.operations.jobs
            for look_up in (
                asked.list(JobFilter(pipeline="revew")),
                asked.progress("revew"),
                asked.prune(0, actor="ada", pipeline="revew"),
            ):
                with pytest.raises(UnknownNameError, match="did you mean 'review'"):
                    await look_up
            assert [job.job_id for job in await asked.list(JobFilter(pipeline="review"))] == [1]
            assert list(await asked.list(JobFilter(pipeline="review", status=JobStatus.SKIPPED))) == []
            with pytest.raises(UsageError, match="limit"):
                await asked.list(JobFilter(limit=0))

    asyncio.run(run())


def test_a_job_that_waits_is_cancelled_at_once_and_tells_by_whom_and_why(store_url, caplog):
    caplog.set_level(logging.INFO, "reprieve.operations")
    secret = "hunter" + "2secret"

    async def run():
        async with reprieve.connect(store_url) as app:
            job = await app.submit(pipeline, {"n": 1}, delay=3600)
            operations = app.operations.jobs
            answer = await operations.cancel(job.job_id, actor="ada", reason=f"wrong password={secret}")
            assert answer is Cancelled.DONE
            assert await operations.cancel(job.job_id, actor="ada") is Cancelled.OVER
            view = (await operations.show(job.job_id)).job
            assert (view.status, view.ended_by) == (JobStatus.CANCELLED, "ada")
            assert view.reason.startswith("wrong")
            assert secret not in view.reason

    asyncio.run(run())
    assert "ada cancelled job 1: done" in caplog.text
    assert secret not in caplog.text


def test_a_job_that_runs_is_stopped_by_its_worker(store_url):
    running = asyncio.Event()
    slow = reprieve.Pipeline("slow")

    @slow.stage
    async def wait(job: reprieve.Job[dict]) -> None:
        running.set()
        await asyncio.sleep(3600)

    async def run():
        async with reprieve.connect(store_url) as app:
            job = await app.submit(slow, {})
            working = asyncio.create_task(app.work(slow, until_idle=True, lease=2))
            await asyncio.wait_for(running.wait(), 60)
            assert await app.operations.jobs.cancel(job.job_id, actor="ada", reason="enough") is Cancelled.REQUESTED
            await asyncio.wait_for(working, 60)
            view = (await app.operations.jobs.show(job.job_id)).job
            assert (view.status, view.ended_by, view.reason) == (JobStatus.CANCELLED, "ada", "enough")

    asyncio.run(run())


@pytest.mark.parametrize("actor", ["", "  ", "a" * 201, "a\nb", "a\0b"])
def test_a_change_without_a_proper_actor_is_refused(sqlite_url, actor):
    async def run():
        async with worked(sqlite_url, 1, subject="cl-1", version=1) as app:
            for change in (
                app.operations.jobs.cancel(1, actor=actor),
                app.operations.jobs.prune(0, actor=actor),
                app.operations.jobs.erase("cl-1", actor=actor),
                app.operations.stages.pause("review", actor=actor),
                app.operations.stages.resume("review", actor=actor),
                app.operations.database.upgrade(actor=actor),
            ):
                with pytest.raises(UsageError, match="actor"):
                    await change
            assert await app.operations.jobs.payload(1) is not None

    asyncio.run(run())


def test_pruning_goes_through_all_jobs_and_tells_how_far_it_is(store_url, monkeypatch):
    monkeypatch.setattr(jobs_module, "_PRUNED_AT_ONCE", 2)
    heard = []

    async def run():
        async with worked(store_url, 1, -1, 2, 3, 4) as app:
            jobs = app.operations.jobs
            assert (await jobs.prune(3600, actor="ada")).jobs == 0
            assert (await jobs.prune(0, actor="ada", dry=True)).jobs == 4
            done = await jobs.prune(0, actor="ada", pipeline="review", tell=heard.append)
            assert done == Pruned(jobs=4, kept_for_dead_letters=1, more=False, after=5)
            assert [job.status for job in await jobs.list()] == [JobStatus.DEAD_LETTER]
            with pytest.raises(UsageError, match="older_than"):
                await jobs.prune(-1, actor="ada")

    asyncio.run(run())
    assert [(each.jobs, each.more) for each in heard] == [(1, True), (3, True), (4, False)]


def test_an_erased_subject_leaves_its_jobs_without_contents(store_url):
    async def run():
        async with worked(store_url, 4, subject="cl-7", version=1) as app:
            jobs = app.operations.jobs
            assert await jobs.erase("cl-7", actor="ada") == 1
            assert await jobs.erase("cl-7", actor="ada") == 0
            assert await jobs.payload(1) is None
            assert (await jobs.ending(1)).result is None
            assert await app.wait(1) is None
            with pytest.raises(UnknownNameError):
                await jobs.find("key-0")

    asyncio.run(run())


def test_a_subject_with_an_open_job_is_not_erased(store_url):
    async def run():
        async with reprieve.connect(store_url) as app:
            await app.submit(pipeline, {"n": 1}, subject="cl-7", version=1, delay=3600)
            with pytest.raises(RefusedError, match="not over yet: 1;"):
                await app.operations.jobs.erase("cl-7", actor="ada")
            assert await app.operations.jobs.payload(1) is not None

    asyncio.run(run())


def test_progress_counts_what_is_over_and_what_waits_for_a_person(store_url):
    async def run():
        async with worked(store_url, 4, -1, 0) as app:
            progress = await app.operations.jobs.progress("review")
            assert (progress.total, progress.over, progress.settled) == (3, 2, True)
            assert progress.counts[JobStatus.NEEDS_REVIEW] == 1
            await app.operations.stages.pause("review", "llm", actor="ada")
            await app.submit(pipeline, {"n": 1})
            progress = await app.operations.jobs.progress()
            assert (progress.total, progress.over, progress.settled) == (4, 2, False)
            assert [stage.stage for stage in progress.stopped] == ["llm"]

    asyncio.run(run())


def test_operators_do_without_an_application(store_url):
    async def run():
        async with reprieve.connect(store_url) as app:
            job = await app.submit(pipeline, {"n": 1}, delay=3600)
        async with open_operations(store_url) as operations:
            assert (await operations.jobs.show(job.job_id)).job.status is JobStatus.PENDING
            assert await operations.jobs.cancel(job.job_id, actor="ada") is Cancelled.DONE
            assert (await operations.jobs.show(job.job_id)).job.status is JobStatus.CANCELLED

    asyncio.run(run())
