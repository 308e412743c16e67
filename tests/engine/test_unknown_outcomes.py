"""A COMMIT whose answer never came: what was done is found done, and what a claim got without anybody knowing is run."""

import asyncio
import os
import socket
import time

import engine_pipelines
import psycopg
import pytest
from engine_pipelines import Work

import reprieve
from reprieve.adapters.sql.postgres import PostgresStore
from reprieve.errors import StoreUnavailableError
from reprieve.ports import intents as i

SLOW_COMMITS = """
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slowly AFTER INSERT OR UPDATE ON {table} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ({condition})
EXECUTE FUNCTION wait()
"""


def run(url, statement):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def wait_for_a_commit(url):
    committing = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(committing).fetchone() is None:
            time.sleep(0.01)


async def lose_the_answer(store, url):
    """Once the server commits, and takes its time, hang up: it goes on, and tells nobody."""
    async with asyncio.timeout(30):
        await asyncio.to_thread(wait_for_a_commit, url)
    connection = socket.socket(fileno=os.dup(store._link._connection.fileno()))
    connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def submission(key):
    return i.Submit(
        idempotency_key=key, pipeline="p", stage="s", payload=b"{}", payload_type="t", created_at=1_700_000_000.0
    )


@pytest.mark.parametrize("beside", [(), (i.Promote(now=1.0),)], ids=["one statement", "a transaction"])
def test_a_submission_whose_answer_was_lost_is_told_as_unknown_and_found_the_second_time(postgres_url, beside):
    run(postgres_url, SLOW_COMMITS.format(table="jobs", condition="true"))

    async def main():
        store = PostgresStore(postgres_url)
        await store.open()
        try:
            batch = [submission("key"), *beside]
            first = asyncio.create_task(store.apply(batch))
            await lose_the_answer(store, postgres_url)
            with pytest.raises(StoreUnavailableError) as caught:
                await first
            assert caught.value.outcome_unknown
            await asyncio.sleep(1.0)  # it is committed by now
            return (await store.apply(batch, again=True))[0]
        finally:
            await store.close()

    answer = asyncio.run(main())
    assert not answer.duplicate
    assert answer.job_id == 1


def test_a_submission_that_is_given_up_says_that_it_may_have_been_made(postgres_url, postgres_server, monkeypatch):
    """Its answer was lost, and after that the server could not be reached for longer than it had the patience."""
    monkeypatch.setattr("reprieve.app.application.SUBMIT_PATIENCE", 1.0)
    run(postgres_url, SLOW_COMMITS.format(table="jobs", condition="true"))
    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]

    async def main():
        async with reprieve.connect(postgres_url) as app:
            submitting = asyncio.create_task(app.submit(engine_pipelines.campaign, Work(), idempotency_key="key"))
            await lose_the_answer(app.journal.store, postgres_url)
            run(postgres_server("postgres"), f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            with pytest.raises(StoreUnavailableError) as caught:
                await submitting
            run(postgres_server("postgres"), f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            assert (await app.submit(engine_pipelines.campaign, Work(), idempotency_key="key")).duplicate
            return caught.value

    error = asyncio.run(main())
    assert error.outcome_unknown
    assert "cannot be reached" in str(error)


def test_what_a_claim_got_without_the_workers_knowing_is_run_all_the_same(postgres_lab):
    lab = postgres_lab
    jobs = lab.submit(*[Work() for _ in range(5)])
    engine_pipelines.write_to(str(lab.file))
    run(lab.url, SLOW_COMMITS.format(table="queue", condition="NEW.state = 1 AND NEW.stage = 'fetch'"))

    async def main():
        async with reprieve.connect(lab.url) as app:
            working = asyncio.create_task(app.work(engine_pipelines.campaign, poll=0.05, lease=5.0))
            await lose_the_answer(app.journal.store, lab.url)
            await asyncio.to_thread(lab.finish)
            working.cancel()
            await asyncio.wait([working])

    asyncio.run(main())
    lab.check(jobs)
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")
    assert lab.rows("attempts") == []
