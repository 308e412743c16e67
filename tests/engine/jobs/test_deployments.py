"""Deployments: jobs that were begun under other names and types than the present ones."""

import asyncio
from dataclasses import dataclass

import pytest

import reprieve
from reprieve import Backoff, Job, JobStatus, Pipeline, Policy
from reprieve.ports.intents import QueueState

LATER = Policy(backoff=Backoff(schedule=(0.2,)))
"""Long enough for a worker to be gone before the next attempt."""


@dataclass(frozen=True)
class Diff:
    lines: list[str]


@dataclass(frozen=True)
class NewDiff:
    lines: list[str]
    language: str


def before(calls, *, profile=LATER):
    """The pipeline as it was: fetch, then a stage `ask` that fails."""
    pipeline = Pipeline("review", profile=profile)

    @pipeline.stage
    async def fetch(job: Job[str]) -> Diff:
        calls.append("fetch")
        return Diff([job.payload])

    @pipeline.stage
    async def ask(job: Job[str], fetch: Diff) -> str:
        if job.attempt > 1:
            await asyncio.sleep(60)  # the worker is about to be told to go
        calls.append(await job.remember("part", lambda: f"paid in attempt {job.attempt}"))
        calls.append(job.token)
        raise ConnectionResetError("under the old name")

    return pipeline


async def leave_at_ask(bench, calls):
    """A job that has passed fetch and failed once in ask."""
    job = await bench.submit(before(calls), "a line")
    await bench.work_until(before(calls), lambda: bench.rows("attempts"))
    view = bench.job(job)
    assert (view.stage, view.counters.handler) == ("ask", 1)
    return job


def test_a_renamed_stage_takes_over_the_jobs_and_results_of_its_former_name(bench, quick):
    calls, pipeline = [], Pipeline("review", profile=quick)

    @pipeline.stage(was="fetch")
    async def load(job: Job[str]) -> Diff:
        raise AssertionError("the job has passed this stage")

    @pipeline.stage(was="ask")
    async def llm(job: Job[str], load: Diff) -> list[str]:
        return [*load.lines, f"attempt {job.attempt}"]

    async def main():
        job = await leave_at_ask(bench, calls)
        await bench.work(pipeline)
        return job

    job = bench.run(main)
    assert bench.result(job, pipeline) == ["a line", "attempt 2"]


def test_a_renamed_stage_still_finds_what_it_remembered_however_often_it_fails(bench, quick):
    calls, pipeline = [], Pipeline("review", profile=quick)

    @pipeline.stage
    async def fetch(job: Job[str]) -> Diff:
        raise AssertionError("the job has passed this stage")

    @pipeline.stage(was="ask")
    async def llm(job: Job[str], fetch: Diff) -> str:
        calls.append(await job.remember("part", lambda: f"paid in attempt {job.attempt}"))
        calls.append(job.token)
        if job.attempt < 4:
            raise ConnectionResetError("under the new name")
        return "done"

    async def main():
        job = await leave_at_ask(bench, calls)
        await bench.work(pipeline)
        return job

    job = bench.run(main)
    assert bench.result(job) == "done"
    assert calls[0] == "fetch"
    assert calls[1::2] == ["paid in attempt 1"] * 4
    assert len(set(calls[2::2])) == 1  # what an upstream knows the work by stays the same
    assert [each.number for each in bench.look(lambda reader: reader.attempts(job))] == [1, 2, 3]


def changed(calls, quick, *, upgraded):
    """The pipeline with another type of what fetch returns; with or without a way from the old one to it."""
    pipeline = Pipeline("review", profile=quick)

    @pipeline.stage
    async def fetch(job: Job[str]) -> NewDiff:
        raise AssertionError("the job has passed this stage")

    @pipeline.stage
    async def ask(job: Job[str], fetch: NewDiff) -> str:
        calls.append(f"asked in attempt {job.attempt}")
        return f"{fetch.lines} in {fetch.language}"

    if upgraded:

        @pipeline.upgrade("fetch")
        def with_language(old):
            return {**old, "language": "unknown"}

    return pipeline


def test_a_result_that_no_longer_fits_parks_the_job_at_no_cost_until_an_upgrade_comes(bench, quick):
    calls = []

    async def main():
        job = await leave_at_ask(bench, calls)
        parked = []
        for _ in range(2):  # the second one, of the same code, does not even try
            await bench.work(changed(calls, quick, upgraded=False))
            parked.append(bench.job(job))
        await bench.work(changed(calls, quick, upgraded=True))
        return job, parked

    job, (parked, again) = bench.run(main)
    assert (parked.status, parked.state) == (JobStatus.IN_PROGRESS, QueueState.WAITING)
    assert parked.waits_on.startswith("upgrade:")
    assert parked.counters.handler == 1
    assert parked.worker_id is None
    assert again == parked
    assert bench.job(job).status is JobStatus.SUCCEEDED
    assert bench.result(job) == "['a line'] in unknown"
    assert calls[-1] == "asked in attempt 2"
    assert len(bench.rows("attempts")) == 1


def test_a_payload_that_no_longer_fits_waits_for_its_upgrade_too(bench, quick):
    @dataclass(frozen=True)
    class Change:
        number: int

    def pipeline(payload_type, *, upgraded=False):
        made = Pipeline("typed", profile=quick)

        @made.stage
        async def take(job: Job[payload_type]) -> int:
            return job.payload.number if payload_type is Change else job.payload

        if upgraded:

            @made.upgrade("payload")
            def numbered(old):
                return {"number": old}

        return made

    async def main():
        job = await bench.submit(pipeline(int), 7)
        await bench.work(pipeline(Change))
        parked = bench.job(job)
        await bench.work(pipeline(Change, upgraded=True))
        return job, parked

    job, parked = bench.run(main)
    assert (parked.status, parked.state) == (JobStatus.IN_PROGRESS, QueueState.WAITING)
    assert bench.result(job) == 7
    assert bench.rows("attempts") == []


def test_an_upgrade_that_does_not_help_parks_the_job_again(bench, quick):
    calls = []

    def wrong(*, right):
        pipeline = changed(calls, quick, upgraded=False)

        @pipeline.upgrade("fetch")
        def with_language(old):
            return {**old, "language": "unknown"} if right else {"lines": "no list", "language": 1}

        return pipeline

    async def main():
        job = await leave_at_ask(bench, calls)
        await bench.work(changed(calls, quick, upgraded=False))
        first = bench.job(job)
        await bench.work(wrong(right=False))
        return job, first, bench.job(job)

    _, first, second = bench.run(main)
    assert first.state is second.state is QueueState.WAITING
    assert second.counters == first.counters


def test_a_type_that_only_grew_something_optional_needs_no_upgrade(bench, quick):
    @dataclass(frozen=True)
    class Grown:
        lines: list[str]
        language: str = "unknown"

    calls, pipeline = [], Pipeline("review", profile=quick)

    @pipeline.stage
    async def fetch(job: Job[str]) -> Grown:
        raise AssertionError("the job has passed this stage")

    @pipeline.stage
    async def ask(job: Job[str], fetch: Grown) -> str:
        return f"{fetch.lines} in {fetch.language}"

    async def main():
        job = await leave_at_ask(bench, calls)
        await bench.work(pipeline)
        return job

    assert bench.result(bench.run(main)) == "['a line'] in unknown"


def test_a_stage_that_was_put_in_before_where_the_job_stands_parks_it(bench, quick):
    calls, pipeline = [], Pipeline("review", profile=quick)

    @pipeline.stage
    async def fetch(job: Job[str]) -> Diff:
        raise AssertionError("the job has passed this stage")

    @pipeline.stage
    async def lint(job: Job[str], fetch: Diff) -> int:
        raise AssertionError("so it has this one")

    @pipeline.stage
    async def ask(job: Job[str], lint: int) -> int:
        return lint

    async def main():
        job = await leave_at_ask(bench, calls)
        await bench.work(pipeline)
        return job

    view = bench.job(bench.run(main))
    assert (view.status, view.state) == (JobStatus.IN_PROGRESS, QueueState.WAITING)


def test_a_job_at_a_stage_that_nobody_knows_any_more_is_left_alone_until_somebody_does(bench, quick):
    calls, without = [], Pipeline("review", profile=quick)

    @without.stage
    async def fetch(job: Job[str]) -> Diff:
        return Diff([])

    with_it = Pipeline("review", profile=quick)

    @with_it.stage
    async def fetch_again(job: Job[str]) -> Diff:
        return Diff([])

    @with_it.stage
    async def ask(job: Job[str]) -> int:
        return job.attempt

    async def main():
        job = await leave_at_ask(bench, calls)
        fence = bench.job(job).fence
        await bench.work_until(without, lambda: bench.job(job).state is QueueState.READY)
        await bench.work(without)
        alone = bench.job(job)
        await bench.work(with_it)
        return job, alone, fence

    job, alone, fence = bench.run(main)
    assert (alone.status, alone.stage, alone.fence) == (JobStatus.RETRYABLE_FAILED, "ask", fence)
    assert bench.result(job) == 2


def test_a_worker_leaves_the_jobs_of_other_pipelines_alone_and_does_not_wait_for_them(bench, quick):
    mine, other = Pipeline("mine", profile=quick), Pipeline("other", profile=quick)

    for pipeline in (mine, other):

        @pipeline.stage
        async def run(job: Job[int]) -> int:
            return job.payload

    async def main():
        ready = await bench.submit(other, 1)
        later = await bench.submit(other, 2, delay=3600.0)
        job = await bench.submit(mine, 3)
        await asyncio.wait_for(bench.work(mine), 20)
        return ready, later, job

    ready, later, job = bench.run(main)
    assert bench.job(job).status is JobStatus.SUCCEEDED
    assert [bench.job(each).status for each in (ready, later)] == [JobStatus.PENDING] * 2


def test_two_pipelines_of_one_name_cannot_be_worked_on_at_once(bench, quick):
    async def main():
        one, two = before([], profile=quick), before([], profile=quick)
        with pytest.raises(reprieve.UsageError, match="two of the pipelines have the same name"):
            await bench.app.work(one, two)
        with pytest.raises(reprieve.UsageError, match="work needs a pipeline"):
            await bench.app.work()

    bench.run(main)
