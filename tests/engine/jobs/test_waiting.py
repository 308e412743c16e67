"""Waiting for a job: its result with its type, why there is none, or that it is not over yet."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from dataclasses import dataclass

import psycopg
import pytest

import reprieve
from reprieve import Job, JobFailedError, JobStatus, JobTimeoutError, NeedsReview, Pipeline
from reprieve.adapters.sql.analysis.reading import SqlReviewReader
from reprieve.adapters.sql.dead_letters.reading import SqlDeadLetterReader
from reprieve.adapters.sql.deliveries.reading import SqlDeliveryReader
from reprieve.adapters.sql.keeper import SqlKeeper
from reprieve.adapters.sql.reader import SqlReader
from reprieve.adapters.sql.sqlite import SqliteStore


@dataclass(frozen=True)
class Review:
    verdict: str
    lines: tuple[int, ...]


def reviewing(profile, error=None):
    pipeline = Pipeline("review", profile=profile)

    @pipeline.stage
    async def llm(job: Job[str]) -> Review:
        if error is not None:
            raise error
        return Review(job.payload, (1, 2))

    return pipeline


def test_a_result_comes_back_as_its_type_and_without_the_pipeline_as_plain_values(bench, quick):
    pipeline = reviewing(quick)

    async def main():
        submission = await bench.app.submit(pipeline, "fine")
        await bench.work(pipeline)
        return await submission.result(timeout=20), await bench.app.wait(submission.job_id, timeout=20)

    assert bench.run(main) == (Review("fine", (1, 2)), {"verdict": "fine", "lines": [1, 2]})


def test_who_waits_before_the_job_is_worked_on_gets_it_too_and_so_do_others(bench, quick):
    pipeline = reviewing(quick)

    async def main():
        submissions = [await bench.app.submit(pipeline, str(number)) for number in range(3)]
        waits = [asyncio.create_task(each.result(timeout=20)) for each in submissions + submissions]
        await asyncio.sleep(0.05)
        await bench.work(pipeline)
        return [review.verdict for review in await asyncio.gather(*waits)]

    assert bench.run(main) == ["0", "1", "2"] * 2


@pytest.mark.parametrize(
    ("error", "profile", "status", "told"),
    [
        (TypeError("a bug"), "criticizer", "dead_letter", "dead_letter at llm: BUG: a bug"),
        (
            reprieve.Permanent("too long", error_class="CONTEXT_LENGTH_EXCEEDED"),
            "analysis",
            "skipped",
            "skipped at llm",
        ),
    ],
)
def test_a_job_that_ended_otherwise_raises_what_it_ended_as_and_why(bench, quickly, error, profile, status, told):
    pipeline = reviewing(quickly(profile), error)

    async def main():
        submission = await bench.app.submit(pipeline, "x")
        await bench.work(pipeline)
        with pytest.raises(JobFailedError, match=told) as caught:
            await submission.result(timeout=20)
        return submission.job_id, caught.value

    job, raised = bench.run(main)
    assert (raised.job_id, raised.status) == (job, status)


@pytest.mark.parametrize("error", [None, NeedsReview("look at this")])
def test_a_job_that_is_not_over_in_time_is_said_to_be_what_it_is(bench, quick, error):
    pipeline = reviewing(quick, error)

    async def main():
        submission = await bench.app.submit(pipeline, "x")
        if error is not None:
            await bench.work(pipeline)
        status = JobStatus.PENDING if error is None else JobStatus.NEEDS_REVIEW
        with pytest.raises(JobTimeoutError, match=f"is not over after 0.05 s: it is {status}") as caught:
            await submission.result(timeout=0.05)
        assert (caught.value.job_id, caught.value.status) == (submission.job_id, status)
        assert isinstance(caught.value, TimeoutError)
        if error is None:
            await bench.work(pipeline)  # who stopped waiting has not stopped the job
            return await submission.result(timeout=20)
        return None

    assert bench.run(main) == (Review("x", (1, 2)) if error is None else None)


def test_a_job_that_nobody_knows_is_not_waited_for(bench):
    async def main():
        with pytest.raises(reprieve.UnknownNameError, match="no job is named '4711'"):
            await bench.app.wait(4711)

    bench.run(main)


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.1])
def test_waiting_ends_with_the_application_at_whatever_moment_that_is(bench, quick, seconds):
    pipeline = reviewing(quick)

    async def main():
        async with reprieve.connect(bench.url) as app:
            submission = await app.submit(pipeline, "x")
            waits = [asyncio.create_task(submission.result()) for _ in range(2)]
            await asyncio.sleep(seconds)
        for waiting in waits:
            with pytest.raises(reprieve.StoreUnavailableError, match="the application was closed"):
                await asyncio.wait_for(waiting, 20)

    asyncio.run(main())


class SlowReader(SqlReader):
    """A real reader whose look takes until it is let go, and that tells whether it was closed meanwhile."""

    def __init__(self, url):
        super().__init__(url)
        self.looking, self.let_go = threading.Event(), threading.Event()
        self.closed_while_looking = None

    def endings(self, job_ids):
        self.looking.set()
        self.let_go.wait(20)
        self.looking.clear()
        return super().endings(job_ids)

    def close(self):
        self.closed_while_looking = self.looking.is_set()
        super().close()


def test_an_application_that_is_left_waits_for_looks_that_are_under_way(sqlite_url, quick):
    pipeline = reviewing(quick)
    store = SqliteStore(sqlite_url)

    async def main():
        reader = SlowReader(sqlite_url)
        async with reprieve.App(
            store,
            reader=lambda: reader,
            letters=lambda: SqlDeadLetterReader(sqlite_url),
            deliveries=lambda: SqlDeliveryReader(sqlite_url),
            reviews=lambda: SqlReviewReader(sqlite_url),
            keeper=lambda: SqlKeeper(sqlite_url),
        ) as app:
            submission = await app.submit(pipeline, "x")
            waiting = asyncio.create_task(submission.result())
            await asyncio.to_thread(reader.looking.wait)
            waiting.cancel()
            asyncio.get_running_loop().call_later(0.1, reader.let_go.set)
        return reader.closed_while_looking

    assert asyncio.run(main()) is False


def test_a_look_that_fails_for_good_is_told_to_those_who_wait(store_url, quick):
    pipeline = reviewing(quick)

    async def main():
        async with reprieve.connect(store_url) as app, asyncio.timeout(20):
            submission = await app.submit(pipeline, "x")
            waiting = asyncio.create_task(submission.result())
            await asyncio.sleep(0.05)
            lose_outcomes(store_url)
            with pytest.raises(reprieve.SchemaError, match="reprieve db upgrade"):
                await waiting

    asyncio.run(main())


def lose_outcomes(url):
    connection = sqlite3.connect(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else psycopg.connect(url)
    with closing(connection):
        connection.execute("ALTER TABLE outcomes RENAME TO lost")
        connection.commit()


def test_an_application_that_is_not_open_says_so():
    app = reprieve.connect("sqlite:///nowhere.db")
    with pytest.raises(reprieve.UsageError, match="not open"):
        asyncio.run(app.wait(1))
