"""Many at once: deliveries in one batch, from two stores, and the jobs that wait for them."""

import asyncio

import pytest
from outbox_desk import NOW, Outbox, accepted, begin, correct, draft, end, look, prepare

from reprieve.core.lifecycle import DeliveryEvent, DeliveryStatus
from reprieve.ports import intents as i
from reprieve.ports.intents import QueueState, Written

ADA = "mailto:ada@example.org"
IN_DOUBT = {DeliveryStatus.SENDING, DeliveryStatus.UNCERTAIN, DeliveryStatus.RECONCILING, DeliveryStatus.HELD}


@pytest.fixture
def outbox(desk):
    return Outbox(desk)


def test_what_is_said_about_one_delivery_in_one_batch_frees_before_it_takes(desk, outbox):
    outbox.put()
    desk.do(begin())
    put_off = end(event=DeliveryEvent.PUT_OFF)
    assert desk.batch(begin(fence=1, until=NOW + 60), put_off) == [Written.APPLIED, Written.APPLIED]
    assert (outbox.status(), outbox.row()["leased_until"]) == (DeliveryStatus.SENDING, NOW + 60)


def test_every_kind_gets_the_answer_that_the_port_promises(desk, outbox):
    said = [i.WakeDelivered(now=NOW), begin(404), accepted(404), correct(404), prepare(404)]
    for intent, answer in zip(said, desk.batch(*said), strict=True):
        assert type(answer) is i.ANSWERS[type(intent)], intent


# --- two stores


@pytest.mark.spec("REV-3.1")
def test_a_hundred_who_prepare_at_once_write_one_row_for_a_recipient(desk, outbox):
    stores = (desk.store, desk.another())
    leases = [desk.lease(f"key-{number}") for number in range(100)]
    recipients = [f"mailto:{name}@example.org" for name in ("ada", "bob", "eve")]

    async def all_at_once():
        drafts = [draft(recipient) for recipient in recipients]
        said = [
            # Some begin at the other end: rows are locked in one order, whatever the order of saying.
            prepare(lease.job_id, lease.fence, *(drafts if place % 3 else reversed(drafts)))
            for place, lease in enumerate(leases)
        ]
        return await asyncio.gather(*[stores[place % 2].apply([each]) for place, each in enumerate(said)])

    answers = desk.run(all_at_once())
    assert sorted(row["recipient"] for row in outbox.rows()) == recipients
    ids = {row["recipient"]: (row["id"], row["job_id"]) for row in outbox.rows()}
    for place, (answer,) in enumerate(answers):
        told = [(row.recipient, (row.delivery_id, row.job_id)) for row in answer.rows]
        assert told == [(each, ids[each]) for each in (recipients if place % 3 else reversed(recipients))]


def test_of_two_stores_that_take_the_same_deliveries_each_is_taken_by_one(desk, outbox):
    """In large batches, said in opposite orders: nobody locks anybody out."""
    stores = (desk.store, desk.another())
    ids = [outbox.put() for _ in range(40)]

    async def race():
        forward = [begin(delivery_id, until=NOW + 30) for delivery_id in ids]
        backward = [begin(delivery_id, until=NOW + 60) for delivery_id in reversed(ids)]
        return await asyncio.gather(stores[0].apply(forward), stores[1].apply(backward))

    one, two = desk.run(race())
    for delivery_id, first, second in zip(ids, one, reversed(two), strict=True):
        assert {first, second} == {Written.APPLIED, Written.STALE}
        row = outbox.row(delivery_id)
        assert (row["fence"], row["attempts"]) == (1, 1)
        assert row["leased_until"] == (NOW + 30 if first is Written.APPLIED else NOW + 60)


# --- jobs that wait


def wait(desk, say, key, waits_on="delivery:{}"):
    lease = desk.lease(key)
    desk.do(say.wait(lease.job_id, lease.fence, waits_on=waits_on.format(lease.job_id)))
    return lease.job_id


def test_a_job_is_woken_once_none_of_its_deliveries_is_in_doubt(desk, say, outbox):
    jobs = {status: wait(desk, say, f"key-{status}") for status in DeliveryStatus}
    for status, job_id in jobs.items():
        outbox.put(DeliveryStatus.SENT, job_id=job_id)
        outbox.put(status, job_id=job_id)
    clear = {status for status in DeliveryStatus if status not in IN_DOUBT}
    assert desk.do(i.WakeDelivered(now=NOW)) == len(clear)
    for status, job_id in jobs.items():
        assert desk.state(job_id) is (QueueState.READY if status in clear else QueueState.WAITING), status
    assert desk.do(i.WakeDelivered(now=NOW)) == 0


def test_what_waits_on_something_else_is_left_alone(desk, say, outbox):
    others = [wait(desk, say, f"key-{name}", name) for name in ("review", "deploy:Diff", "deliver", "Delivery:1")]
    scheduled = desk.submit("later", run_at=NOW + 60)
    assert desk.do(i.WakeDelivered(now=NOW)) == 0
    assert {desk.state(job_id) for job_id in others} == {QueueState.WAITING}
    assert desk.state(scheduled) is QueueState.SCHEDULED


def test_a_job_may_wait_on_the_deliveries_of_another(desk, say, outbox):
    """Whose they are was decided by who came first."""
    first = wait(desk, say, "first")
    second = wait(desk, say, "second", f"delivery:{first}")
    outbox.put(DeliveryStatus.HELD, job_id=first)
    assert desk.do(i.WakeDelivered(now=NOW)) == 0
    desk.do(correct(event=DeliveryEvent.CONFIRM))
    assert desk.do(i.WakeDelivered(now=NOW)) == 2
    assert desk.state(second) is QueueState.READY


def test_a_job_that_does_not_say_whose_waits_on_its_own(desk, say, outbox):
    for number, words in enumerate(("delivery:", "delivery:x", "delivery:1 and more", f"delivery:{'9' * 30}")):
        job_id = wait(desk, say, f"key-{number}", words)
        delivery_id = outbox.put(DeliveryStatus.UNCERTAIN, job_id=job_id)
        assert desk.do(i.WakeDelivered(now=NOW)) == 0, words
        outbox.change(delivery_id, status="failed")
        assert desk.do(i.WakeDelivered(now=NOW)) == 1, words


def test_a_job_that_a_worker_died_on_is_woken_as_a_suspect(desk, say, outbox):
    lease = desk.lease()
    desk.do(say.release(lease.job_id, 1, counters=i.Counters(crash=1)))
    (lease,) = desk.claim(suspects=True)
    desk.do(say.wait(lease.job_id, lease.fence, waits_on=f"delivery:{lease.job_id}"))
    assert desk.do(i.WakeDelivered(now=NOW)) == 1
    assert desk.state(lease.job_id) is QueueState.SUSPECT


def test_a_batch_that_settles_the_last_delivery_wakes_the_job_and_a_claim_finds_it(desk, say, outbox):
    job_id = wait(desk, say, "key")
    outbox.put(DeliveryStatus.UNCERTAIN, job_id=job_id)
    desk.do(look())
    stages = {("review", "fetch"): 5}
    claim = i.Claim(worker_id=1, capacity=5, stages=stages, now=NOW)
    claimed, woken, ended = desk.batch(claim, i.WakeDelivered(now=NOW), end(event=DeliveryEvent.FIND))
    assert (ended, woken) == (Written.APPLIED, 1)
    assert [lease.job_id for lease in claimed.leases] == [job_id]


def test_workers_hear_of_jobs_that_were_woken(desk, say, outbox):
    wait(desk, say, "key", "delivery:")
    claim = i.Claim(worker_id=1, capacity=5, stages={("review", "fetch"): 5}, now=NOW)

    async def wake_until_somebody_hears():
        heard = asyncio.Event()
        leave = desk.store.subscribe(heard.set)
        try:
            async with asyncio.timeout(20):
                while not heard.is_set():  # a listener takes its time to be there
                    assert await desk.store.apply([i.WakeDelivered(now=NOW)]) == [1]
                    (claimed,) = await desk.store.apply([claim])
                    (lease,) = claimed.leases
                    await desk.store.apply([say.wait(lease.job_id, lease.fence, waits_on="delivery:")])
                    await asyncio.sleep(0.05)
        finally:
            leave()

    desk.run(wake_until_somebody_hears())
