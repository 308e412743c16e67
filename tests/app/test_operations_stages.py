"""What operators see and do about stages, over a real application."""

import asyncio

import pytest

import reprieve
from reprieve.core.lifecycle import JobStatus
from reprieve.errors import UnknownNameError

pipeline = reprieve.Pipeline("review")


@pipeline.stage
async def fetch(job: reprieve.Job[dict]) -> int:
    return 1


@pipeline.stage
async def llm(job: reprieve.Job[dict], n: int) -> int:
    return n


def test_stages_are_known_once_a_worker_or_a_job_has_been_there(store_url):
    async def run():
        async with reprieve.connect(store_url) as app:
            assert list(await app.operations.stages.list()) == []
            await app.submit(pipeline, {})
            (waiting,) = await app.operations.stages.list("review")
            assert (waiting.stage, waiting.ready) == ("fetch", 1)
            await app.work(pipeline, until_idle=True)
            stages = await app.operations.stages.list()
            assert [(each.stage, each.ready, each.paused) for each in stages] == [
                ("fetch", 0, False),
                ("llm", 0, False),
            ]

    asyncio.run(run())


def test_a_paused_stage_holds_its_jobs_until_it_is_resumed(store_url):
    async def run():
        async with reprieve.connect(store_url) as app:
            await app.work(pipeline, until_idle=True)
            stages = app.operations.stages
            changed = await stages.pause("review", "llm", actor="ada", reason="maintenance")
            assert [each.stage for each in changed] == ["llm"]
            assert list(await stages.pause("review", "llm", actor="eve")) == []
            _, paused = await stages.list("review")
            assert (paused.paused, paused.paused_by, paused.reason) == (True, "ada", "maintenance")

            job = await app.submit(pipeline, {})
            working = asyncio.create_task(app.work(pipeline))
            while [run.stage for run in (await app.operations.jobs.show(job.job_id)).stages] != ["fetch"]:  # noqa: ASYNC110 - another task writes it, into a database
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)  # long enough for a worker to do the next stage, had it been free to
            view = (await app.operations.jobs.show(job.job_id)).job
            assert (view.status, view.stage) == (JobStatus.IN_PROGRESS, "llm")

            assert [each.stage for each in await stages.resume("review", actor="ada")] == ["llm"]
            assert list(await stages.resume("review", actor="ada")) == []
            assert await asyncio.wait_for(job.result(), 60) == 1
            working.cancel()
            await asyncio.wait([working])

    asyncio.run(run())


def test_a_stage_can_be_paused_before_any_worker_has_run(store_url):
    async def run():
        async with reprieve.connect(store_url) as app:
            stages = app.operations.stages
            with pytest.raises(UnknownNameError, match="no pipeline is named 'review'"):
                await stages.pause("review", "llm", actor="ada")
            job = await app.submit(pipeline, {})
            assert [each.stage for each in await stages.pause("review", "llm", actor="ada")] == ["llm"]
            assert list(await stages.pause("review", "llm", actor="eve")) == []
            working = asyncio.create_task(app.work(pipeline))
            while [run.stage for run in (await app.operations.jobs.show(job.job_id)).stages] != ["fetch"]:  # noqa: ASYNC110 - another task writes it, into a database
                await asyncio.sleep(0.01)
            with pytest.raises(UnknownNameError, match="no stage of review is named 'lm'"):
                await stages.pause("review", "lm", actor="ada")
            assert (await app.operations.jobs.show(job.job_id)).job.status is JobStatus.IN_PROGRESS
            await stages.resume("review", "llm", actor="ada")
            assert await asyncio.wait_for(job.result(), 60) == 1
            working.cancel()
            await asyncio.wait([working])

    asyncio.run(run())


def test_a_pipeline_that_is_declared_can_be_paused_before_anything_else(store_url):
    async def run():
        async with reprieve.connect(store_url) as app:
            stages = app.operations.stages
            with pytest.raises(UnknownNameError, match=r"no stage of review is named 'lm' .did you mean 'llm'"):
                await stages.pause("review", "lm", actor="ada", declared=("fetch", "llm"))
            changed = await stages.pause("review", actor="ada", declared=("fetch", "llm"))
            assert [each.stage for each in changed] == ["fetch", "llm"]
            assert [each.paused for each in await stages.list("review")] == [True, True]

    asyncio.run(run())


def test_a_whole_pipeline_can_be_paused(store_url):
    async def run():
        async with reprieve.connect(store_url) as app:
            await app.work(pipeline, until_idle=True)
            assert len(await app.operations.stages.pause("review", actor="ada")) == 2
            assert all(each.paused for each in await app.operations.stages.list())

    asyncio.run(run())


def test_a_name_that_is_misspelt_is_told_with_the_nearest_one(sqlite_url):
    async def run():
        async with reprieve.connect(sqlite_url) as app:
            await app.work(pipeline, until_idle=True)
            stages = app.operations.stages
            for change in (
                stages.pause("revew", actor="ada"),
                stages.resume("revew", actor="ada"),
                stages.list("revew"),
            ):
                with pytest.raises(UnknownNameError, match=r"no pipeline is named 'revew' .did you mean 'review'"):
                    await change
            for change in (stages.pause("review", "lm", actor="ada"), stages.resume("review", "lm", actor="ada")):
                with pytest.raises(UnknownNameError, match=r"no stage of review is named 'lm' .did you mean 'llm'"):
                    await change

    asyncio.run(run())
