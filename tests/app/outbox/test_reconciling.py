"""What was left in doubt is asked about, mended, or handed to a person; by a clock that the test moves."""

from __future__ import annotations

import asyncio
import itertools
import logging

import pytest
from desk import by_key, by_look_up, by_nothing, desk, notifying
from told import BROKE, Told, alerts, telling

import reprieve
from reprieve.app.outbox.sweeping import Sweep
from reprieve.core.lifecycle import DeliveryStatus, JobStatus
from reprieve.senders import Found

SENT, PENDING, HELD = DeliveryStatus.SENT, DeliveryStatus.PENDING, DeliveryStatus.HELD
FAILED, UNCERTAIN, RECONCILING = DeliveryStatus.FAILED, DeliveryStatus.UNCERTAIN, DeliveryStatus.RECONCILING


# --- marks without evidence


@pytest.mark.spec("REV-8.2")
def test_a_mark_without_evidence_is_asked_about_before_anything_else_and_alerts(store_url, office, caplog):
    pipeline = notifying(office, by_look_up(office), ["ada"])

    async def main():
        async with desk(store_url, pipeline) as here:
            await here.submit()
            await here.work()
            here.change(here.row().delivery_id, notification_id=None, evidence=None)
            await here.sweep()
            row = here.row()
            assert (row.status, row.notification_id) == (SENT, f"po-{row.token[:8]}")
            assert "received" in row.evidence
            assert here.log("ada") == [("send", "accepted"), ("look_up", "found")]

    asyncio.run(main())
    assert office.tries == ["ada"]
    assert alerts(caplog) == ["delivery 1 is marked as sent without evidence: its provider is asked"]


@pytest.mark.spec("REV-7.2")
def test_what_is_marked_as_sent_without_a_record_at_the_provider_is_cleared_sent_and_alerted(store_url, office, caplog):
    pipeline = notifying(office, by_look_up(office), ["ada"])

    async def main():
        async with desk(store_url, pipeline) as here:
            await here.submit()
            await here.work()
            here.change(here.row().delivery_id, notification_id=None, evidence=None)
            office.taken.clear()
            await here.settle()
            row = here.row()
            assert (row.status, row.attempts, row.notification_id) == (SENT, 2, f"po-{row.token[:8]}")
            assert here.log("ada") == [("send", "accepted"), ("look_up", "absent"), ("send", "accepted")]

    asyncio.run(main())
    assert office.told() == {"ada": 1}
    assert any("marked as sent, and its provider has no record" in each for each in alerts(caplog))


@pytest.mark.spec("REV-7.2")
def test_an_operator_has_one_asked_about_that_is_marked_and_proven_and_it_is_sent_where_it_is_missing(
    store_url, office, caplog
):
    pipeline = notifying(office, by_look_up(office), ["ada"])

    async def main():
        async with desk(store_url, pipeline) as here:
            await here.submit()
            await here.work()
            office.taken.clear()
            asked = await here.app.operations.deliveries.ask(1, here.senders, actor="eve")
            assert (asked.before, asked.after.status) == (SENT, SENT)
            (raised,) = await here.app.operations.alerts.list()
            assert (raised.rule, raised.level) == ("broken_order", "page")
            assert here.log("ada") == [("send", "accepted"), ("look_up", "absent"), ("send", "accepted")]

    asyncio.run(main())
    assert office.told() == {"ada": 1}
    assert alerts(caplog) == ["delivery 1 was marked as sent, and its provider has no record: it is sent again"]


@pytest.mark.spec("REV-8.2")
@pytest.mark.parametrize("sender", [by_key, by_nothing])
def test_a_mark_without_evidence_that_nobody_can_be_asked_about_is_held_and_never_sent(
    store_url, office, caplog, sender
):
    pipeline = notifying(office, sender(), ["ada"])

    async def main():
        async with desk(store_url, pipeline) as here:
            await here.submit()
            await here.work()
            here.change(here.row().delivery_id, notification_id=None, evidence=None)
            await here.settle()
            assert here.row().status is HELD

    asyncio.run(main())
    assert office.tries == ["ada"]
    assert any("waits for a person" in each for each in alerts(caplog))


@pytest.mark.spec("REV-8.2")
def test_a_stage_that_meets_a_mark_without_evidence_has_the_provider_asked_before_it_sends(store_url, caplog):
    sender = Told(Found.FOUND, sends=[None, ConnectionRefusedError("nobody there")])
    pipeline = telling(sender, "ada", "ben")

    async def main():
        async with desk(store_url, pipeline) as here:
            job = await here.submit()
            await here.work()
            here.change(here.rows()["ada"].delivery_id, notification_id=None, evidence=None)
            here.clock.advance(60)
            await here.work()
            assert here.job(job).status is JobStatus.SUCCEEDED
            assert here.rows()["ada"].evidence == "the provider says found"

    asyncio.run(main())
    assert sender.sent == ["ada", "ben", "ben"]
    assert alerts(caplog) == ["delivery 1 is marked as sent without evidence: its provider is asked"]


# --- look-ups that lag, lie, and do not answer


def test_a_provider_that_lags_is_not_asked_before_its_time(store_url):
    sender = Told(Found.FOUND, sends=[BROKE], lag=1.0)
    pipeline = telling(sender, "ada")

    async def main():
        async with desk(store_url, pipeline) as here:
            job = await here.submit()
            await here.work()
            assert (here.row().status, here.job(job).waits_on) == (UNCERTAIN, f"delivery:{job}")
            here.clock.advance(0.99)
            await here.settle()
            assert sender.asked == []
            here.clock.advance(0.02)
            await here.settle()
            assert len(sender.asked) == 1
            assert here.job(job).status is JobStatus.SUCCEEDED

    asyncio.run(main())
    assert sender.sent == ["ada"]


@pytest.mark.spec("REV-7.1")
def test_an_operator_is_refused_until_a_look_up_that_finds_nothing_would_mean_something(store_url):
    """The send ended with the connection after two seconds: the provider may show it three seconds after that."""
    sender = Told(Found.ABSENT, lag=3.0)

    async def main():
        async with desk(store_url, telling(sender, "ada")) as here:

            async def late(outgoing):
                here.clock.advance(2.0)
                sender.sent.append(outgoing.message.recipient)
                raise BROKE

            sender.send, send = late, sender.send
            await here.submit()
            await here.work()
            sender.send = send
            assert here.row().status is UNCERTAIN
            here.clock.advance(2.5)
            with pytest.raises(reprieve.RefusedError, match=r"may not show it yet: try again in 0\.5 s"):
                await here.app.operations.deliveries.ask(1, here.senders, actor="eve")
            assert (sender.asked, sender.sent) == ([], ["ada"])
            here.clock.advance(0.6)
            asked = await here.app.operations.deliveries.ask(1, here.senders, actor="eve")
            assert (asked.before, asked.after.status) == (UNCERTAIN, SENT)

    asyncio.run(main())
    assert sender.sent == ["ada", "ada"]


def test_an_operator_is_refused_while_a_provider_that_has_just_taken_it_may_not_show_it(store_url):
    sender = Told(lag=3.0)

    async def main():
        async with desk(store_url, telling(sender, "ada")) as here:

            async def late(outgoing):
                here.clock.advance(2.0)
                sender.sent.append(outgoing.message.recipient)
                return "told-1"

            sender.send = late
            await here.submit()
            await here.work()
            assert here.row().status is SENT
            here.clock.advance(2.5)
            with pytest.raises(reprieve.RefusedError, match="may not show it yet"):
                await here.app.operations.deliveries.ask(1, here.senders, actor="eve")

    asyncio.run(main())
    assert (sender.asked, sender.sent) == ([], ["ada"])


def test_a_send_that_was_taken_without_an_id_is_not_asked_about_before_the_provider_shows_it(store_url):
    sender = Told(Found.ABSENT, lag=3.0)

    async def nameless(outgoing):
        sender.sent.append(outgoing.message.recipient)

    sender.send = nameless

    async def main():
        async with desk(store_url, telling(sender, "ada")) as here:
            await here.submit()
            await here.settle()
            assert (here.row().status, sender.asked) == (SENT, [])
            sender.answers = [Found.FOUND]
            here.clock.advance(3.1)
            await here.settle()
            assert here.row().evidence == "the provider says found"

    asyncio.run(main())
    assert sender.sent == ["ada"]


def test_an_operator_is_refused_where_the_provider_may_have_forgotten_it(store_url):
    """A tenth of what it is said to keep is not relied on, for a person as for a sweep."""
    sender = Told(Found.ABSENT, retention=1000.0)

    async def main():
        async with desk(store_url, telling(sender, "ada")) as here:
            await here.submit()
            await here.work()
            here.clock.advance(950)
            with pytest.raises(reprieve.RefusedError, match="too long ago"):
                await here.app.operations.deliveries.ask(1, here.senders, actor="eve")

    asyncio.run(main())
    assert (sender.asked, sender.sent) == ([], ["ada"])


def test_an_operator_who_asks_about_one_that_waits_to_be_sent_again_sends_nothing(store_url):
    sender = Told(sends=[ConnectionRefusedError("nobody there")])

    async def main():
        async with desk(store_url, telling(sender, "ada")) as here:
            await here.submit()
            await here.work()
            assert here.row().status is PENDING
            here.clock.advance(60)
            with pytest.raises(reprieve.RefusedError, match="delivery 1 is pending"):
                await here.app.operations.deliveries.ask(1, here.senders, actor="eve")

    asyncio.run(main())
    assert (sender.asked, sender.sent) == ([], ["ada"])


def test_a_receiver_that_denies_what_it_has_is_believed_after_its_lag_and_not_before(store_url, office):
    """The window that remains: a provider that definitely denies what it took is sent a second one."""
    office.next("ada", "take and drop")
    office.answers.append("404")
    pipeline = notifying(office, by_look_up(office, lag=1.0), ["ada"])

    async def main():
        async with desk(store_url, pipeline) as here:
            await here.submit()
            await here.work()
            here.clock.advance(0.9)
            await here.settle()
            assert office.told() == {"ada": 1}
            here.clock.advance(0.2)
            await here.settle()
            assert here.log("ada") == [("send", "doubt"), ("look_up", "absent"), ("send", "accepted")]

    asyncio.run(main())
    assert office.told() == {"ada": 2}


@pytest.mark.parametrize("answer", [Found.UNKNOWN, TimeoutError("no answer"), ConnectionResetError("broke")])
def test_a_provider_that_does_not_say_is_asked_again_with_growing_waits_and_held_at_the_end(store_url, caplog, answer):
    sender = Told(*[answer] * 100, sends=[BROKE])
    pipeline = telling(sender, "ada")
    asked_at = []

    async def main():
        async with desk(store_url, pipeline) as here:
            job = await here.submit()
            await here.work()
            while here.row().status is not HELD:
                asked_at.append(here.clock.now())
                here.clock.advance(here.row().not_before - here.clock.now())
                await here.sweep()
            row = here.row()
            assert row.reason == "the provider did not say whether it has it"
            assert (row.notified_at, row.attempts) == (None, 1)
            assert here.job(job).status is JobStatus.IN_PROGRESS
            here.clock.advance(1e6)
            await here.settle()
            assert here.job(job).waits_on == f"delivery:{job}"

    asyncio.run(main())
    waits = [later - earlier for earlier, later in itertools.pairwise(asked_at)]
    assert waits == sorted(waits)
    assert [round(wait) for wait in waits[:4]] == [1, 2, 4, 8]
    assert max(waits) <= 900.001
    assert len(sender.asked) == 21
    assert sender.sent == ["ada"]
    assert alerts(caplog) == ["delivery 1 waits for a person: the provider did not say whether it has it"]


def test_more_than_one_at_the_provider_is_shown_and_alerted(store_url, caplog):
    sender = Told(Found.DUPLICATE, sends=[BROKE])

    async def main():
        async with desk(store_url, telling(sender, "ada")) as here:
            job = await here.submit()
            await here.settle()
            row = here.row()
            assert (row.status, row.reason) == (SENT, "duplicate: the provider has it more than once")
            assert here.job(job).status is JobStatus.SUCCEEDED

    asyncio.run(main())
    assert alerts(caplog) == ["delivery 1 is with its provider more than once: the provider says duplicate"]


# --- who goes on while somebody is in doubt


def test_who_is_to_be_sent_again_does_not_wait_for_another_of_whom_nobody_knows(store_url):
    """Of two in doubt one is missing at the provider; its second send is put off, and tried again all the same."""
    busy = ConnectionRefusedError("nobody there")
    sender = Told(Found.ABSENT, *[Found.UNKNOWN] * 100, sends=[BROKE, BROKE, busy], lag=1.0)
    pipeline = telling(sender, "ada", "ben")

    async def main():
        async with desk(store_url, pipeline) as here:
            job = await here.submit()
            for _ in range(10):
                await here.settle()
                here.clock.advance(60)
            rows = here.rows()
            assert here.job(job).status is JobStatus.IN_PROGRESS
            assert sorted(row.status for row in rows.values()) == [RECONCILING, SENT]

    asyncio.run(main())
    assert len(sender.sent) == 4


def test_a_job_that_meets_a_delivery_of_another_in_doubt_waits_for_that_one_and_is_not_run_again(store_url):
    sender = Told(sends=[BROKE], looks_up=False)
    first, second = telling(sender, "ada"), telling(sender, "ada", pipeline="copies")

    async def main():
        async with desk(store_url, first, second) as here:
            job = await here.submit()
            other = await here.submit(pipeline=second)
            await here.settle()
            assert here.row().status is HELD
            assert here.job(other).waits_on == f"delivery:{job}"
            swept = await here.sweep()
            assert (swept.woken, await here.work()) == (0, 0)
            await here.app.operations.deliveries.confirm(1, actor="eve", evidence="she has it")
            await here.settle()
            assert [here.job(each).status for each in (job, other)] == [JobStatus.SUCCEEDED] * 2

    asyncio.run(main())
    assert sender.sent == ["ada"]


# --- bodies that are gone


def test_a_delivery_whose_body_was_erased_is_not_sent_and_says_so(store_url):
    sender = Told(sends=[ConnectionRefusedError("nobody there")])

    async def main():
        async with desk(store_url, telling(sender, "ada")) as here:
            job = await here.submit()
            await here.work()
            here.change(1, body=None)
            here.clock.advance(60)
            await here.work()
            assert (here.row().status, here.row().reason) == (FAILED, "its body was erased")
            assert here.job(job).status is JobStatus.DEAD_LETTER
            letter = here.app.letters.letter(here.app.letters.letter_of(job))
            assert letter.row.error_class == "DECLARED_PERMANENT"
            assert "its body was erased" in letter.message

    asyncio.run(main())
    assert sender.sent == ["ada"]


def test_one_in_doubt_whose_body_was_erased_is_held(store_url, caplog):
    sender = Told(sends=[BROKE, BROKE], looks_up=False, key_window=3600.0)

    async def main():
        async with desk(store_url, telling(sender, "ada")) as here:
            await here.submit()
            await here.work()
            here.change(1, body=None)
            here.clock.advance(60)
            await here.settle()
            assert (here.row().status, here.row().reason) == (HELD, "its body was erased")

    asyncio.run(main())
    assert len(sender.sent) == 2
    assert alerts(caplog) == ["delivery 1 waits for a person: its body was erased"]


# --- an end to it


def test_a_sweep_knows_that_more_will_come_however_many_others_are_in_doubt_by_senders_it_does_not_know(store_url):
    sender, stranger = Told(Found.FOUND, sends=[BROKE], lag=60.0), Told(sends=[BROKE] * 501, lag=60.0)
    stranger.name = "stranger"
    crowd = telling(stranger, *[f"r{number}" for number in range(501)], pipeline="crowd")

    async def main():
        async with desk(store_url, telling(sender, "ada"), crowd) as here:
            await here.submit()
            await here.work()
            await here.submit(subject="cl-2", pipeline=crowd)
            await here.work()
            del here.senders["stranger"]
            sweep = Sweep(here.app.journal, here.app.deliveries, here.senders, clock=here.clock)
            assert await sweep.has_more(), "ada's is in doubt"
            here.clock.advance(61)
            await sweep.once()
            assert not await sweep.has_more()

    asyncio.run(main())


def test_an_optional_recipient_who_cannot_be_reached_after_the_job_is_given_up_at_some_time(store_url):
    sender = Told(sends=[ConnectionRefusedError("nobody there")] * 1000)

    async def main():
        async with desk(store_url, telling(sender, "ada", optional=["ada"])) as here:
            job = await here.submit()
            await here.work()
            assert here.job(job).status is JobStatus.SUCCEEDED
            for _ in range(100):
                here.clock.advance(300)
                await here.sweep()
                if here.row().status is FAILED:
                    break
            row = here.row()
            assert row.status is FAILED
            assert row.reason.startswith("CONNECTION_REFUSED: ")

    asyncio.run(main())
    assert 5 <= len(sender.sent) < 50


def test_a_sweep_that_fails_at_one_row_mends_the_others(store_url, caplog):
    class Odd(Told):
        @property
        def capability(self):
            raise RuntimeError("odd")

        @capability.setter
        def capability(self, value):
            pass

    sender = Told(Found.FOUND, sends=[BROKE], lag=1.0)
    odd = Odd()
    odd.name = "odd"
    pipeline = telling(sender, "ada")

    async def main():
        async with desk(store_url, pipeline) as here:
            await here.submit()
            await here.submit(subject="cl-2")
            await here.work()
            here.change(2, sender="odd", status="uncertain", notified_at=None, notification_id=None)
            here.senders["odd"] = odd
            here.clock.advance(60)
            await here.sweep()
            assert here.app.deliveries.delivery(1).row.status is SENT
            assert here.app.deliveries.delivery(2).row.status is UNCERTAIN

    asyncio.run(main())
    assert any(
        record.levelno == logging.ERROR and "delivery 2 could not be reconciled" in record.getMessage()
        for record in caplog.records
    )
