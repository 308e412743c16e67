"""A worker that works until nothing is left is not done while jobs wait behind a breaker."""

import asyncio

import reprieve
from reprieve import Backoff, Breaker, Jitter, Policy
from reprieve.core.lifecycle import JobStatus

QUICK = Policy(max_attempts=5, backoff=Backoff(initial=0.01, maximum=0.05, jitter=Jitter.none()))


async def outage(url, policy):
    """Fifty jobs against an upstream that is down for two seconds."""
    loop = asyncio.get_running_loop()
    pipeline = reprieve.Pipeline("calls", profile=policy, breaker=Breaker(first_hold=0.3, longest_hold=0.6))
    back = loop.time() + 2.0
    refused = 0

    @pipeline.stage
    async def call(job: reprieve.Job[int]) -> int:
        nonlocal refused
        if loop.time() < back:
            refused += 1
            raise ConnectionRefusedError("the upstream is down")
        return job.payload

    async with reprieve.connect(url) as app:
        await app.submit_many(pipeline, range(50))
        await asyncio.wait_for(app.work(pipeline, until_idle=True, concurrency=10, lease=2.0, poll=0.05), 60)
        return app.reader.counts(), refused


def test_it_stays_until_the_outage_is_over_and_all_is_done(store_url):
    counts, refused = asyncio.run(outage(store_url, QUICK))
    assert counts[JobStatus.SUCCEEDED] == 50
    assert refused < 50


def test_a_job_with_one_attempt_only_does_not_die_of_an_outage_that_is_known(store_url):
    counts, _ = asyncio.run(outage(store_url, Policy(max_attempts=1)))
    assert counts[JobStatus.DEAD_LETTER] < 16  # those that were under way when it began, and none of the others
    assert counts[JobStatus.SUCCEEDED] + counts[JobStatus.DEAD_LETTER] == 50


def test_it_ends_where_a_breaker_is_open_and_no_job_is_left_to_try_it_with(store_url):
    async def run():
        pipeline = reprieve.Pipeline("calls", profile=Policy(max_attempts=1), breaker=Breaker(after=3, first_hold=0.2))

        @pipeline.stage
        async def call(job: reprieve.Job[int]) -> int:
            raise ConnectionRefusedError("the upstream is down")

        async with reprieve.connect(store_url) as app:
            await app.submit_many(pipeline, range(3))
            await asyncio.wait_for(app.work(pipeline, until_idle=True, concurrency=3, lease=2.0, poll=0.05), 30)
            return app.reader.counts()

    assert asyncio.run(run())[JobStatus.DEAD_LETTER] == 3
