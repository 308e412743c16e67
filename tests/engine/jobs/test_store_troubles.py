"""A store that is away for a moment, or broken for good, while a worker works: what it costs, and who is told."""

import asyncio

import pytest

import reprieve
from reprieve import Job, JobStatus, Pipeline, StoreError, StoreRefusedError, StoreUnavailableError
from reprieve.adapters.sql.analysis.reading import SqlReviewReader
from reprieve.adapters.sql.dead_letters.reading import SqlDeadLetterReader
from reprieve.adapters.sql.deliveries.reading import SqlDeliveryReader
from reprieve.adapters.sql.keeper import SqlKeeper
from reprieve.adapters.sql.reader import SqlReader
from reprieve.adapters.sql.sqlite import SqliteStore
from reprieve.ports.intents import Bury, Finish, QueueState
from reprieve.testing import replies


class Failing:
    """A real store or reader that raises on command, from the calls that it is told to."""

    def __init__(self, real):
        self.real = real
        self.errors = {}

    def __getattr__(self, name):
        value = getattr(self.real, name)
        if name not in self.errors:
            return value

        def failing(*arguments, **options):
            if self.errors[name]:
                raise self.errors[name].pop(0)
            return value(*arguments, **options)

        return failing


def application(store, reader, url):
    return reprieve.App(
        store,
        reader=lambda: reader,
        letters=lambda: SqlDeadLetterReader(url),
        deliveries=lambda: SqlDeliveryReader(url),
        reviews=lambda: SqlReviewReader(url),
        keeper=lambda: SqlKeeper(url),
    )


@pytest.fixture
def run(sqlite_url):
    """Runs a coroutine with an application whose store and reader can be made to fail."""

    def run(main):
        async def opened():
            store, reader = Failing(SqliteStore(sqlite_url)), Failing(SqlReader(sqlite_url))
            app = application(store, reader, sqlite_url)
            async with app, asyncio.timeout(30):
                return await main(app, store, reader)

        return asyncio.run(opened())

    return run


def away(times):
    return [StoreUnavailableError("nobody is there") for _ in range(times)]


def test_memos_that_cannot_be_read_for_a_moment_cost_time_and_no_attempt(run, quick):
    pipeline, made = Pipeline("remembering", profile=quick, breaker=None), []

    @pipeline.stage
    async def llm(job: Job[str]) -> int:
        answer = await job.remember("part", lambda: made.append("paid") or len(made))
        if job.attempt == 1:
            raise ConnectionResetError
        return answer

    async def main(app, store, reader):
        store.errors["memos"] = away(3)
        submission = await app.submit(pipeline, "x")
        await app.work(pipeline, until_idle=True, poll=0.05)
        return await submission.result(timeout=20), reader.attempts(submission.job_id)

    result, attempts = run(main)
    assert result == 1
    assert made == ["paid"]
    assert [each.error_class for each in attempts] == ["CONNECTION_RESET"]


@pytest.mark.spec("CRIT-1.8")
def test_whether_content_was_accepted_before_is_asked_until_somebody_answers(run, quick, flaky_http):
    import httpx  # noqa: PLC0415 - only here

    flaky_http.always(replies.openai.content_filter())
    pipeline = Pipeline("refused", profile=quick)

    @pipeline.stage
    async def llm(job: Job[str]) -> None:
        async with httpx.AsyncClient() as client:
            (await client.get(flaky_http.url())).raise_for_status()

    async def main(app, store, reader):
        reader.errors["accepted_before"] = away(2)
        submission = await app.submit(pipeline, "x", subject="cl-1", version=1)
        await app.work(pipeline, until_idle=True, poll=0.05)
        return reader.job(submission.job_id)

    assert run(main).status is JobStatus.DEAD_LETTER


def test_a_store_that_is_broken_for_good_ends_the_worker_and_says_why(run, quick):
    pipeline, begun = Pipeline("waiting", profile=quick), asyncio.Event()

    @pipeline.stage
    async def wait(job: Job[str]) -> str:
        begun.set()
        await asyncio.sleep(60)
        return "never"

    async def main(app, store, reader):
        submission = await app.submit(pipeline, "x")
        working = asyncio.create_task(app.work(pipeline, lease=1.0, grace=0.0))
        await begun.wait()
        store.errors["stages"] = [StoreError("the table is gone")] * 1000
        with pytest.raises(StoreError, match="the table is gone"):
            await working
        return reader.job(submission.job_id)

    job = run(main)
    assert (job.status, job.worker_id) == (JobStatus.IN_PROGRESS, None)  # it was handed back
    assert job.counters.deploy == 1


class Refusing(Failing):
    """A real store that refuses every batch in which one of these kinds is about a certain job."""

    def __init__(self, real, *kinds):
        super().__init__(real)
        self.kinds, self.bad = kinds, None

    async def apply(self, intents, *, again=False):
        if any(isinstance(intent, self.kinds) and intent.job_id == self.bad for intent in intents):
            raise StoreRefusedError("a value that this database does not take")
        return await self.real.apply(intents, again=again)


@pytest.fixture
def refuse(sqlite_url, quick):
    """Three jobs of two stages, of the second of which the store takes no intent of these kinds; what became of them all."""

    def refuse(*kinds):
        pipeline, runs = Pipeline("refused", profile=quick), []

        @pipeline.stage
        async def give(job: Job[str]) -> str:
            return job.payload

        @pipeline.stage
        async def take(job: Job[str], give: str) -> str:
            runs.append(give)
            return give

        async def main():
            store = Refusing(SqliteStore(sqlite_url), *kinds)
            app = application(store, SqlReader(sqlite_url), sqlite_url)
            async with app, asyncio.timeout(30):
                jobs = [(await app.submit(pipeline, text)).job_id for text in ("good", "bad", "fine")]
                store.bad = jobs[1]
                await app.work(pipeline, until_idle=True, poll=0.05)
                return [app.reader.job(job) for job in jobs], app.reader.dead_letter_of(jobs[1]), runs

        return asyncio.run(main())

    return refuse


def test_a_job_whose_end_the_store_will_not_take_is_a_dead_letter_and_ends_no_worker(refuse, caplog):
    """What cannot be written will not be written by another try either; a person can look at it, and replay it."""
    (good, bad, fine), letter, runs = refuse(Finish)
    assert good.status is fine.status is JobStatus.SUCCEEDED
    assert (bad.status, bad.stage, bad.worker_id) == (JobStatus.DEAD_LETTER, "take", None)
    assert (letter.stage, letter.error_class, letter.category) == ("take", "CONSTRAINT_VIOLATED", "validation")
    assert (letter.attempts, letter.reason) == (1, "non_retryable")
    assert "does not take" in letter.message
    assert sorted(runs) == ["bad", "fine", "good"], "it was run once"
    assert "does not take" in caplog.text


def test_a_job_whose_dead_letter_the_store_will_not_take_either_waits_for_a_person(refuse, caplog):
    (good, bad, fine), letter, runs = refuse(Finish, Bury)
    assert good.status is fine.status is JobStatus.SUCCEEDED
    assert (bad.status, bad.state, bad.worker_id) == (JobStatus.NEEDS_REVIEW, QueueState.WAITING, None)
    assert bad.waits_on == "review:refused"
    assert letter is None
    assert sorted(runs) == ["bad", "fine", "good"]
    assert "waits for a person" in caplog.text


def test_who_waits_for_a_person_because_of_a_refusal_can_be_cancelled(refuse, sqlite_url):
    (_, bad, _), _, _ = refuse(Finish, Bury)

    async def main():
        async with reprieve.connect(sqlite_url) as app:
            await app.operations.jobs.cancel(bad.job_id, actor="ann", reason="done by hand")
            return app.reader.job(bad.job_id).status

    assert asyncio.run(main()) is JobStatus.CANCELLED
