"""The most attempts that a policy may ask for are counted on both databases."""

import pytest
from sqlalchemy import update

import reprieve
from reprieve import Cause, Job, JobStatus, Pipeline, Policy, Profile
from reprieve.adapters.sql import tables
from reprieve.adapters.sql.engine import Database
from reprieve.core.policy import MOST_ATTEMPTS
from reprieve.errors import UsageError


def test_a_job_may_fail_as_often_as_any_policy_allows(bench):
    """It has failed all but twice; it fails once more, and the last attempt of all succeeds."""
    policy = Policy(max_attempts=MOST_ATTEMPTS, backoff=reprieve.Backoff(initial=0.01, maximum=0.02))
    pipeline, attempts = Pipeline("stubborn", profile=policy, breaker=None), []

    @pipeline.stage
    async def call(job: Job[int]) -> int:
        attempts.append(job.attempt)
        if job.attempt < MOST_ATTEMPTS:
            raise reprieve.Retryable("not yet")
        return job.attempt

    async def main():
        job = await bench.submit(pipeline, 1)
        database = Database.at(bench.url, writes=True)
        try:
            with database.transaction() as connection:
                connection.execute(update(tables.queue).values(handler=MOST_ATTEMPTS - 2))
        finally:
            database.close()
        await bench.work(pipeline)
        return job

    job = bench.run(main)
    assert attempts == [MOST_ATTEMPTS - 1, MOST_ATTEMPTS]
    assert bench.job(job).status is JobStatus.SUCCEEDED
    assert bench.result(job) == MOST_ATTEMPTS


def test_more_than_can_be_counted_is_refused_where_it_is_declared():
    with pytest.raises(UsageError, match=rf"^max_attempts must be from 1 to {MOST_ATTEMPTS}, not {MOST_ATTEMPTS + 1}$"):
        Policy(max_attempts=MOST_ATTEMPTS + 1)
    with pytest.raises(UsageError, match=rf"^budgets.crash must be from 1 to {MOST_ATTEMPTS}, not 1000000$"):
        Profile(name="endless", budgets={Cause.CRASH: 1_000_000})
