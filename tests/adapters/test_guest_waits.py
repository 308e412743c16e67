"""Somebody's own transaction may stay open for long; only who needs its key waits for it."""

import asyncio

import psycopg

import reprieve
from reprieve.ports.intents import Register

PIPELINE = reprieve.Pipeline("guests")


@PIPELINE.stage
async def look(job: reprieve.Job[int]) -> int:
    return job.payload


def test_a_key_that_a_guest_holds_does_not_hold_up_what_workers_say(postgres_url):
    """The submission waits for the guest's transaction; a worker's sign of life does not wait for the submission."""

    async def run():
        async with reprieve.connect(postgres_url) as app:
            guest = await psycopg.AsyncConnection.connect(postgres_url)
            async with guest:
                await app.submit(PIPELINE, 1, idempotency_key="held", connection=guest)
                waiting = asyncio.create_task(app.submit(PIPELINE, 1, idempotency_key="held"))
                await asyncio.sleep(0.1)  # it has reached the server, which lets it wait for the guest
                register = Register(name="w", host="h", pid=1, stages=(), now=1.0, expires_at=2.0)
                worker_id = await asyncio.wait_for(app.journal.ask(register), 9)
                assert not waiting.done()
            return worker_id, await waiting

    worker_id, submission = asyncio.run(run())
    assert worker_id > 0
    assert submission.duplicate
