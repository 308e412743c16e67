"""Deliveries while another connection's transaction is still open: who waits for whom, and what is found after that."""

import asyncio

import psycopg
import pytest
from outbox_desk import NOW, Outbox, accepted, begin, correct, draft, prepare

from reprieve.core.lifecycle import DeliveryEvent, DeliveryStatus
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

TAKEN = """
UPDATE deliveries SET status = 'sending', fence = fence + 1, attempts = attempts + 1, leased_until = now() + interval '1 day',
  first_sent_at = now() WHERE id = 1
"""
WRITTEN = """
INSERT INTO deliveries (job_id, changelist_id, recipient, review_version, sender, token, required, created_at, changed_at, body)
VALUES (99, 'cl-1', %s, 1, 'mail', 'theirs', true, now(), now(), 'theirs')
"""
AT_ONCE = "SET lock_timeout = '300ms'"


@pytest.fixture
def outbox(postgres_desk):
    return Outbox(postgres_desk)


async def until_somebody_waits(connection):
    async with asyncio.timeout(10):
        while True:
            found = await connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
            if await found.fetchone() is not None:
                return
            await asyncio.sleep(0.01)


def meanwhile(desk, intents, statement, values=(), *, look=None):
    """The answers to intents that are sent while the statement has been run and not committed; what was seen meanwhile."""

    async def race():
        async with await psycopg.AsyncConnection.connect(desk.url) as other:
            await other.execute(statement, values)
            asked = asyncio.create_task(desk.store.apply(intents))
            await until_somebody_waits(other)
            seen = None if look is None else await look()
            await other.commit()
            return await asked, seen

    return desk.run(race())


@pytest.mark.spec("REV-3.1")
def test_a_row_that_somebody_is_just_committing_is_the_answer_to_who_prepares_it_too(outbox):
    desk = outbox.desk
    lease = desk.lease()
    ada, bob = draft("mailto:ada@example.org"), draft("mailto:bob@example.org")
    (answer,), _ = meanwhile(desk, [prepare(lease.job_id, 1, ada, bob)], WRITTEN, ["mailto:ada@example.org"])
    assert [(row.job_id, row.body) for row in answer.rows] == [(99, b"theirs"), (lease.job_id, bob.body)]
    assert len(outbox.rows()) == 2


def test_rows_are_written_in_the_order_of_their_keys(outbox):
    """Else two who prepare the same recipients in different orders would lock each other out."""
    desk = outbox.desk
    lease = desk.lease()
    said = prepare(lease.job_id, 1, draft("mailto:z@example.org"), draft("mailto:a@example.org"))

    async def write_the_first():
        async with await psycopg.AsyncConnection.connect(desk.url) as third:
            await third.execute(AT_ONCE)
            with pytest.raises(psycopg.errors.LockNotAvailable):
                await third.execute(WRITTEN, ["mailto:a@example.org"])
            return True

    (answer,), waited = meanwhile(desk, [said], WRITTEN, ["mailto:z@example.org"], look=write_the_first)
    assert waited, "the first key is written before the last is waited for"
    assert [row.job_id for row in answer.rows] == [99, lease.job_id]


@pytest.mark.parametrize("kind", [begin, accepted, correct])
def test_rows_are_taken_in_the_order_of_their_ids(outbox, kind):
    desk = outbox.desk
    lease = {"fence": 1, "leased_until": NOW + 30} if kind is accepted else {}
    status = {begin: DeliveryStatus.PENDING, accepted: DeliveryStatus.SENDING, correct: DeliveryStatus.HELD}[kind]
    ids = [outbox.put(status, **lease) for _ in range(3)]

    async def free_ones():
        async with await psycopg.AsyncConnection.connect(desk.url) as third:
            found = await third.execute("SELECT id FROM deliveries ORDER BY id FOR UPDATE SKIP LOCKED")
            return [row[0] for row in await found.fetchall()]

    held = "SELECT id FROM deliveries WHERE id = %s FOR UPDATE"
    said = [kind(delivery_id) for delivery_id in reversed(ids)]
    answers, free = meanwhile(desk, said, held, [ids[-1]], look=free_ones)
    assert free == [], "the others have been taken before the last is waited for"
    assert answers == [Written.APPLIED] * 3


def test_who_takes_what_somebody_is_just_taking_comes_too_late(outbox):
    outbox.put(DeliveryStatus.UNCERTAIN)
    for said in (begin(), correct(event=DeliveryEvent.HOLD)):
        answers, _ = meanwhile(outbox.desk, [said], TAKEN)
        assert answers == [Written.STALE]
        row = outbox.row()
        assert (row["status"], row["fence"], row["attempts"]) == ("sending", 1, 1)
        outbox.change(1, status="uncertain", fence=0, leased_until=None, attempts=0, first_sent_at=None)


def test_an_end_that_meets_somebody_who_is_just_taking_over_comes_too_late(outbox):
    desk = outbox.desk
    outbox.put()
    desk.do(begin(until=NOW + 1))
    answers, _ = meanwhile(desk, [accepted()], TAKEN)
    assert answers == [Written.STALE]
    row = outbox.row()
    assert (row["status"], row["fence"], row["notification_id"], outbox.log()) == ("sending", 2, None, [])


def test_a_job_that_somebody_is_changing_is_woken_by_the_next_look(outbox):
    """A sweep waits for nobody."""
    desk = outbox.desk
    lease = desk.lease()
    desk.do(i.Await(job_id=lease.job_id, fence=1, waits_on="delivery:1", now=NOW))
    with psycopg.connect(desk.url) as other:
        other.execute("SELECT 1 FROM queue FOR UPDATE")
        assert desk.do(i.WakeDelivered(now=NOW)) == 0
    assert desk.do(i.WakeDelivered(now=NOW)) == 1
