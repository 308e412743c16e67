"""A backend of PostgreSQL that stands still, and neither answers nor breaks: it is given up, and everything goes on."""

import asyncio
import os
import signal
from contextlib import asynccontextmanager, contextmanager

import engine_pipelines
import pytest
from engine_pipelines import Work

import reprieve
from reprieve.adapters.sql.postgres import PostgresStore
from reprieve.app.clock import SystemClock
from reprieve.app.journal import Journal
from reprieve.errors import StoreUnavailableError
from reprieve.ports.intents import Submit


@contextmanager
def frozen(store):
    """The backend of the connection that writes."""
    pid = store._link._connection.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


@asynccontextmanager
async def opened(url, **patience):
    store = PostgresStore(url, longest_read=patience.get("read", 15.0))
    await store.open()
    journal = Journal(store, clock=SystemClock(), longest_apply=patience.get("apply", 15.0))
    journal.start()
    try:
        async with asyncio.timeout(40):
            yield store, journal
    finally:
        await journal.close()
        await store.close()


def submission(key):
    return Submit(
        idempotency_key=key, pipeline="p", stage="s", payload=b"{}", payload_type="t", created_at=1_700_000_000.0
    )


def test_a_batch_that_a_frozen_backend_has_is_written_once_by_another(postgres_url):
    async def main():
        async with opened(postgres_url, apply=0.5) as (store, journal):
            await journal.ask(submission("before"))
            with frozen(store) as backend:
                meanwhile = await journal.ask(submission("meanwhile"))
                assert store._link._connection.info.backend_pid != backend
            after = await journal.ask(submission("after"))
            again = await journal.ask(submission("meanwhile"))
            return meanwhile, after, again

    meanwhile, after, again = asyncio.run(main())
    assert not meanwhile.duplicate
    assert not after.duplicate
    assert (again.duplicate, again.job_id) == (True, meanwhile.job_id)


def test_a_look_at_a_frozen_backend_is_given_up_too_and_holds_up_nobody(postgres_url):
    async def main():
        async with opened(postgres_url, read=0.5) as (store, journal):
            with frozen(store):
                with pytest.raises(StoreUnavailableError, match=r"has not answered for 0\.5 s"):
                    await store.stages()
                return await journal.ask(submission("meanwhile")), await store.stages()

    submitted, stages = asyncio.run(main())
    assert not submitted.duplicate
    assert stages == []


@pytest.mark.spec("REV-9.1")
def test_a_worker_whose_backend_freezes_goes_on_with_another_and_no_job_pays_for_it(postgres_lab):
    lab = postgres_lab
    jobs = lab.submit(*[Work(seconds=0.02) for _ in range(60)])
    engine_pipelines.write_to(str(lab.file))

    async def main():
        async with reprieve.connect(lab.url) as app:
            app.journal._longest_apply = app.journal.store._longest_read = 0.5
            working = asyncio.create_task(app.work(engine_pipelines.campaign, concurrency=10, poll=0.05, lease=30.0))
            await asyncio.to_thread(lab.until, lambda: lab.count("outcomes") > 5, "jobs end")
            with frozen(app.journal.store):
                await asyncio.to_thread(lab.finish)
            working.cancel()
            await asyncio.wait([working])

    asyncio.run(main())
    lab.check(jobs)
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")
    assert lab.rows("attempts") == []
