"""What happens while another connection's transaction is still open, or between two statements of ours."""

import asyncio

import psycopg

from reprieve.ports.intents import Cancelled, QueueState

NOW = 1_700_000_000.0
GIVEN_BACK = """
UPDATE queue SET state = 2, run_at = now(), worker_id = NULL, leased_at = NULL WHERE job_id = %s AND state = 1
"""


async def until_somebody_waits(connection):
    """Until a transaction waits for another one's end."""
    async with asyncio.timeout(10):
        while True:
            found = await connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
            if await found.fetchone() is not None:
                return
            await asyncio.sleep(0.01)


def meanwhile(desk, intent, statement, job_id):
    """The answer to an intent that is sent while the statement has been run and not committed."""

    async def race():
        async with await psycopg.AsyncConnection.connect(desk.url) as other:
            await other.execute(statement, (job_id,))
            asked = asyncio.create_task(desk.store.apply([intent]))
            await until_somebody_waits(other)
            await other.commit()
            (answer,) = await asked
            return answer

    return desk.run(race())


def test_a_cancel_that_meets_a_retry_which_is_being_committed_ends_the_job(postgres_desk, say):
    desk = postgres_desk
    lease = desk.lease()
    assert meanwhile(desk, say.cancel(lease.job_id), GIVEN_BACK, lease.job_id) is Cancelled.DONE
    assert (desk.queued(lease.job_id), desk.status(lease.job_id)) == (None, "cancelled")


def test_a_cancel_that_meets_a_claim_which_is_being_committed_asks_its_worker(postgres_desk, say):
    desk = postgres_desk
    job_id = desk.submit()
    claimed = "UPDATE queue SET state = 1, fence = 1, worker_id = 1, leased_at = now() WHERE job_id = %s"
    assert meanwhile(desk, say.cancel(job_id), claimed, job_id) is Cancelled.REQUESTED
    assert desk.state(job_id) is QueueState.LEASED
    assert desk.queued(job_id)["cancel_requested"]


def test_a_cancel_that_meets_the_jobs_end_which_is_being_committed_finds_it_over(postgres_desk, say):
    desk = postgres_desk
    lease = desk.lease()
    ended = """
    WITH gone AS (DELETE FROM queue WHERE job_id = %s RETURNING job_id)
    INSERT INTO outcomes (job_id, status, stage, fence, attempt, finished_at)
    SELECT job_id, 'succeeded', 'fetch', 1, 1, now() FROM gone
    """
    assert meanwhile(desk, say.cancel(lease.job_id), ended, lease.job_id) is Cancelled.OVER
    assert desk.status(lease.job_id) == "succeeded"
