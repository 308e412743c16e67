"""How a worker goes: however it is told, nothing of it stays behind."""

import asyncio
import threading

import reprieve
from reprieve.core.lifecycle import JobStatus

SOON = {"lease": 2.0, "poll": 0.05}


async def until(condition, seconds=20.0):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - it is the database that changes
            await asyncio.sleep(0.02)


def test_a_worker_that_is_cancelled_twice_leaves_all_the_same(store_url):
    pipeline = reprieve.Pipeline("slow")
    began = asyncio.Event()

    @pipeline.stage
    async def sleep(job: reprieve.Job[int]) -> None:
        began.set()
        await asyncio.sleep(60)

    async def run():
        async with reprieve.connect(store_url) as app:
            await app.submit(pipeline, 1)
            work = asyncio.create_task(app.work(pipeline, **SOON))
            await began.wait()
            work.cancel()
            await asyncio.sleep(0)
            work.cancel()
            await asyncio.wait([work])
            await until(lambda: not app.reader.workers())
            left = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("reprieve-h")]
            return left, app.reader.job(1)

    left, job = asyncio.run(run())
    assert left == []
    assert job.worker_id is None
    assert job.counters.handler == 0


def test_what_a_plain_function_comes_to_while_its_worker_stops_is_kept(store_url):
    pipeline = reprieve.Pipeline("plain")
    began, go_on, runs = threading.Event(), threading.Event(), []

    @pipeline.stage
    def work_hard(job: reprieve.Job[int]) -> int:
        runs.append(job.cancelled)
        began.set()
        go_on.wait(20)
        return 7

    async def run():
        async with reprieve.connect(store_url) as app:
            submission = await app.submit(pipeline, 1)
            work = asyncio.create_task(app.work(pipeline, **SOON))
            await until(began.is_set)
            work.cancel()  # without any grace
            await asyncio.sleep(0.2)
            go_on.set()
            await asyncio.wait([work])
            await until(lambda: app.reader.job(submission.job_id).status is JobStatus.SUCCEEDED)
            return await submission.result(timeout=5)

    assert asyncio.run(run()) == 7
    assert runs == [False]


def test_a_stage_that_takes_too_long_is_told_apart_from_a_slow_network(store_url):
    pipeline = reprieve.Pipeline("hasty", profile=reprieve.Policy(max_attempts=1))

    @pipeline.stage(timeout=0.1)
    async def sleep(job: reprieve.Job[int]) -> None:
        await asyncio.sleep(60)

    async def run():
        async with reprieve.connect(store_url) as app:
            await app.submit(pipeline, 1)
            await app.work(pipeline, until_idle=True, **SOON)
            return app.reader.dead_letter_of(1)

    assert asyncio.run(run()).message == "the stage took longer than its timeout of 0.1 s"
