"""Submitting: one job for one key whoever asks and however often, versions that only grow, and payloads that are checked."""

import asyncio
import math
from dataclasses import dataclass

import pytest

import reprieve
from reprieve import Item, Job, JobStatus, PayloadError, Pipeline, SubmitError, UsageError
from reprieve.ports.intents import QueueState


@dataclass(frozen=True)
class Change:
    number: int
    author: str = "somebody"


def review(name="review", *, supersede=False, profile="criticizer"):
    """Three stages; the last one tells people."""
    pipeline = Pipeline(name, profile=profile, supersede=supersede)

    @pipeline.stage
    async def fetch(job: Job[Change]) -> int:
        return job.payload.number

    @pipeline.stage
    async def llm(job: Job[Change], fetch: int) -> int:
        return fetch + 1

    @pipeline.stage(delivers=True)
    async def notify(job: Job[Change], llm: int) -> list[int]:
        return [job.version, llm]

    return pipeline


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("REV-1.1", "REV-1.2")
def test_a_hundred_submits_of_one_key_at_once_make_one_job(bench):
    pipeline = review()

    async def main():
        asked = [bench.app.submit(pipeline, Change(1), idempotency_key="cl-1@1") for _ in range(100)]
        return await asyncio.gather(*asked)

    made = bench.run(main)
    assert len({each.job_id for each in made}) == 1
    assert sorted(each.duplicate for each in made) == [False] + [True] * 99
    assert not any(each.mismatch for each in made)
    assert [row["idempotency_key"] for row in bench.rows("jobs")] == ["cl-1@1"]
    assert len(bench.rows("queue")) == 1


@pytest.mark.spec("REV-1.2")
def test_so_do_submits_from_several_connections(bench):
    pipeline = review()

    async def one_of_many():
        async with reprieve.connect(bench.url) as app:
            return await asyncio.gather(
                *[app.submit(pipeline, Change(1), idempotency_key=f"key-{number % 5}") for number in range(20)]
            )

    async def main():
        return [each for made in await asyncio.gather(*[one_of_many() for _ in range(5)]) for each in made]

    made = asyncio.run(main())
    assert len({each.job_id for each in made}) == 5
    assert sum(not each.duplicate for each in made) == 5
    assert len(bench.rows("jobs")) == 5


@pytest.mark.spec("REV-1.2")
def test_a_duplicate_is_the_first_job_whatever_state_that_is_in(bench, quick):
    pipeline = review(profile=quick)

    async def main():
        first = await bench.app.submit(pipeline, Change(1), idempotency_key="k")
        waiting = await bench.app.submit(pipeline, Change(1), idempotency_key="k")
        await bench.work(pipeline)
        over = await bench.app.submit(pipeline, Change(1), idempotency_key="k")
        return first, waiting, over, await over.result(timeout=20)

    first, waiting, over, result = bench.run(main)
    assert first.job_id == waiting.job_id == over.job_id
    assert (first.duplicate, waiting.duplicate, over.duplicate) == (False, True, True)
    assert result == [1, 2]
    assert len(bench.rows("outcomes")) == 1


def test_a_duplicate_with_another_payload_is_the_first_job_and_says_so(bench):
    pipeline = review()

    async def main():
        await bench.app.submit(pipeline, Change(1), idempotency_key="k")
        return await bench.app.submit(pipeline, Change(2), idempotency_key="k")

    again = bench.run(main)
    assert (again.duplicate, again.mismatch) == (True, True)
    assert bench.look(lambda reader: reader.payload(again.job_id)) == b'{"number":1,"author":"somebody"}'


def test_a_key_of_another_pipeline_is_refused_and_named(bench):
    async def main():
        await bench.app.submit(review("one"), Change(1), idempotency_key="k")
        with pytest.raises(SubmitError, match="belongs to a job of pipeline 'one'"):
            await bench.app.submit(review("two"), Change(1), idempotency_key="k")

    bench.run(main)
    assert len(bench.rows("jobs")) == 1


def test_without_a_key_every_job_is_a_new_one(bench):
    pipeline = review()

    async def main():
        return [await bench.app.submit(pipeline, Change(1)) for _ in range(3)]

    made = bench.run(main)
    assert len({each.job_id for each in made}) == 3
    assert len({each.idempotency_key for each in made}) == 3


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("REV-2.1")
def test_asking_again_for_the_same_version_does_nothing_and_returns_the_earlier_result(bench, quick):
    pipeline = review(profile=quick)

    async def main():
        first = await bench.app.submit(pipeline, Change(1), idempotency_key="a", subject="cl-1", version=3)
        await bench.work(pipeline)
        again = await bench.app.submit(pipeline, Change(1), idempotency_key="b", subject="cl-1", version=3)
        return first, again, await again.result(timeout=20)

    first, again, result = bench.run(main)
    assert (again.job_id, again.duplicate) == (first.job_id, True)
    assert result == [3, 2]
    assert len(bench.rows("jobs")) == len(bench.rows("outcomes")) == 1


@pytest.mark.spec("REV-2.2", "REV-2.3")
def test_a_higher_version_is_a_job_of_its_own_tied_to_the_one_before(bench, quick):
    pipeline = review(profile=quick)

    async def main():
        first = await bench.submit(pipeline, Change(1), idempotency_key="a", subject="cl-1", version=1)
        await bench.work(pipeline)
        second = await bench.submit(pipeline, Change(5), idempotency_key="b", subject="cl-1", version=4)
        await bench.work(pipeline)
        return first, second

    first, second = bench.run(main)
    assert [bench.result(job) for job in (first, second)] == [[1, 2], [4, 6]]
    view = bench.job(second)
    assert (view.subject, view.version, view.rerun_of) == ("cl-1", 4, first)
    assert bench.job(first).status is JobStatus.SUCCEEDED


@pytest.mark.spec("REV-2.2")
@pytest.mark.parametrize("version", [1, 2])
def test_a_version_that_is_not_above_all_others_is_refused(bench, version):
    pipeline = review()

    async def main():
        await bench.submit(pipeline, Change(1), subject="cl-1", version=3)
        with pytest.raises(SubmitError, match=f"version {version} is not above version 3"):
            await bench.submit(pipeline, Change(1), subject="cl-1", version=version)

    bench.run(main)
    assert len(bench.rows("jobs")) == 1


def test_versions_are_those_of_a_subject_in_its_pipeline(bench):
    async def main():
        one, two = review("one"), review("two")
        return [
            await bench.submit(one, Change(1), subject="cl-1", version=3),
            await bench.submit(one, Change(1), subject="cl-2", version=1),
            await bench.submit(two, Change(1), subject="cl-1", version=1),
        ]

    assert len(set(bench.run(main))) == 3


@pytest.mark.spec("REV-2.2")
def test_of_many_who_ask_for_the_next_version_at_once_one_gets_it(bench):
    pipeline = review()

    async def main():
        await bench.submit(pipeline, Change(0), subject="cl-1", version=1)
        asked = [
            bench.app.submit(pipeline, Change(2), idempotency_key=f"try-{number}", subject="cl-1", version=2)
            for number in range(30)
        ]
        return await asyncio.gather(*asked)

    made = bench.run(main)
    assert len({each.job_id for each in made}) == 1
    assert sum(not each.duplicate for each in made) == 1
    assert [row["version"] for row in bench.rows("jobs")] == [1, 2]


def test_a_newer_version_takes_the_place_of_an_older_one_that_has_not_begun_to_deliver(bench, quick):
    pipeline = review(supersede=True, profile=quick)

    async def main():
        old = await bench.submit(pipeline, Change(1), subject="cl-1", version=1)
        other = await bench.submit(pipeline, Change(1), subject="cl-2", version=1)
        new = await bench.app.submit(pipeline, Change(2), subject="cl-1", version=2)
        assert new.superseded == (old,)
        await bench.work(pipeline)
        return old, other, new.job_id

    old, other, new = bench.run(main)
    view = bench.job(old)
    assert (view.status, view.reason) == (JobStatus.CANCELLED, "superseded by version 2")
    assert [bench.job(job).status for job in (other, new)] == [JobStatus.SUCCEEDED] * 2


@pytest.mark.parametrize("stage", ["llm", "notify"])
def test_a_running_job_is_superseded_until_it_delivers(bench, quick, stage):
    pipeline, here, go_on = Pipeline("review", profile=quick, supersede=True), asyncio.Event(), asyncio.Event()

    async def stop_at(name, job):
        if name == stage and job.version == 1:
            here.set()
            await go_on.wait()

    @pipeline.stage
    async def llm(job: Job[Change]) -> None:
        await stop_at("llm", job)

    @pipeline.stage(delivers=True)
    async def notify(job: Job[Change]) -> str:
        await stop_at("notify", job)
        return "told"

    async def main():
        old = await bench.submit(pipeline, Change(1), subject="cl-1", version=1)
        working = asyncio.create_task(bench.work(pipeline, lease=1.0))
        await here.wait()
        new = await bench.app.submit(pipeline, Change(2), subject="cl-1", version=2)
        if stage == "notify":
            assert new.superseded == ()
            go_on.set()
        else:
            assert new.superseded == (old,)
        await working
        return old, new.job_id

    old, new = bench.run(main)
    expected = JobStatus.CANCELLED if stage == "llm" else JobStatus.SUCCEEDED
    assert (bench.job(old).status, bench.job(new).status) == (expected, JobStatus.SUCCEEDED)


def test_without_that_declaration_both_versions_run(bench, quick):
    pipeline = review(profile=quick)

    async def main():
        old = await bench.submit(pipeline, Change(1), subject="cl-1", version=1)
        new = await bench.app.submit(pipeline, Change(2), subject="cl-1", version=2)
        assert new.superseded == ()
        await bench.work(pipeline)
        return old, new.job_id

    assert [bench.job(job).status for job in bench.run(main)] == [JobStatus.SUCCEEDED] * 2


# --- payloads ---------------------------------------------------------------------------------------------------------

SECRET = "nobody should read this in an error"


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"number": SECRET}, "number"),
        ({"number": 1, "author": object()}, "author"),
        ([SECRET], "Change"),
        (SECRET, "Change"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_and_the_error_says_where_not_what(bench, payload, told):
    async def main():
        with pytest.raises(PayloadError) as caught:
            await bench.submit(review(), payload)
        return caught.value

    error = bench.run(main)
    assert told in str(error)
    seen = [error, error.__cause__, error.__context__]
    assert not any(SECRET in repr(each) for each in seen)
    assert bench.rows("jobs") == []


def test_a_payload_that_is_too_large_says_how_large_it_may_be_and_what_to_do(bench):
    pipeline = Pipeline("small", max_payload=100)

    @pipeline.stage
    async def take(job: Job[str]) -> None: ...

    async def main():
        with pytest.raises(
            PayloadError, match=r"takes 202 bytes, more than the 100 of max_payload: store it elsewhere"
        ):
            await bench.submit(pipeline, "x" * 200)

    bench.run(main)
    assert bench.rows("jobs") == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subject": "cl-1"}, "subject and version go together"),
        ({"version": 1}, "subject and version go together"),
        ({"subject": "cl-1", "version": 0}, "version must be from 1"),
        ({"subject": "", "version": 1}, "subject must be a text"),
        ({"idempotency_key": ""}, "idempotency_key must be a text"),
        ({"idempotency_key": "k" * 501}, "has 501 characters; at most 500"),
        ({"idempotency_key": "a\0b"}, "a character that databases do not take"),
        ({"idempotency_key": "\ud800"}, "a character that databases do not take"),
        ({"priority": 2**31}, "priority must be from"),
        ({"priority": True}, "priority must be a whole number"),
        ({"delay": -1.0}, "delay must be from 0"),
        ({"delay": math.nan}, "delay must be from 0"),
        ({"run_at": math.inf}, "run_at must be from 0"),
        ({"delay": 1.0, "run_at": 1.0}, "delay and run_at say the same thing"),
    ],
)
def test_options_that_cannot_be_are_refused_before_anything_is_written(bench, options, told):
    async def main():
        with pytest.raises(UsageError, match=told):
            await bench.submit(review(), Change(1), **options)

    bench.run(main)
    assert bench.rows("jobs") == []


# --- many at once -----------------------------------------------------------------------------------------------------


def test_many_are_submitted_at_once_each_with_options_of_its_own(bench, quick):
    pipeline = review(profile=quick)

    async def main():
        items = [Change(1), Item(Change(2), idempotency_key="two", priority=3), Item(Change(3), delay=3600.0)]
        made = await bench.app.submit_many(pipeline, items)
        more = await bench.app.submit_many(pipeline, [Item(Change(9), idempotency_key="two")])
        return [each.job_id for each in made], more[0]

    jobs, again = bench.run(main)
    assert len(set(jobs)) == 3
    assert (again.job_id, again.duplicate, again.mismatch) == (jobs[1], True, True)
    assert [bench.job(job).priority for job in jobs] == [0, 3, 0]
    assert [bench.job(job).state for job in jobs] == [QueueState.READY, QueueState.READY, QueueState.SCHEDULED]


def test_thousands_are_submitted_in_a_few_batches_and_keep_their_order(bench):
    pipeline = review()

    async def main():
        made = await bench.app.submit_many(pipeline, [Change(number) for number in range(2500)])
        return [each.job_id for each in made]

    jobs = bench.run(main)
    assert jobs == sorted(set(jobs))
    assert len(bench.rows("queue")) == 2500
    assert bench.look(lambda reader: reader.payload(jobs[2400])) == b'{"number":2400,"author":"somebody"}'


def test_one_key_twice_in_a_bulk_is_one_job(bench):
    async def main():
        items = [Item(Change(1), idempotency_key="k"), Item(Change(1), idempotency_key="k")]
        return await bench.app.submit_many(review(), items)

    first, second = bench.run(main)
    assert (first.job_id, first.duplicate, second.duplicate) == (second.job_id, False, True)
    assert len(bench.rows("jobs")) == 1


def test_of_many_all_are_checked_before_one_is_written_and_the_error_says_which(bench):
    async def main():
        with pytest.raises(PayloadError, match=r"^item 1: the payload of review"):
            await bench.app.submit_many(review(), [Change(1), {"number": SECRET}, Change(3)])

    bench.run(main)
    assert bench.rows("jobs") == []


def test_of_many_one_that_the_store_refuses_is_named_and_does_not_hold_up_the_others(bench):
    async def main():
        await bench.app.submit(review("other"), Change(1), idempotency_key="taken")
        items = [Change(1), Item(Change(2), idempotency_key="taken"), Change(3)]
        with pytest.raises(SubmitError, match=r"^item 1: .* belongs to a job of pipeline 'other'"):
            await bench.app.submit_many(review(), items)

    bench.run(main)
    assert [row["pipeline"] for row in bench.rows("jobs")] == ["other", "review", "review"]


def test_nothing_is_submitted_to_a_pipeline_without_stages(bench):
    async def main():
        with pytest.raises(UsageError, match="has no stages"):
            await bench.submit(Pipeline("empty"), 1)

    bench.run(main)
