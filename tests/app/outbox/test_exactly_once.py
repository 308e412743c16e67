"""Attempts to have somebody told twice, or to have somebody told who should not be: by clocks, deployments, replays and people."""

from __future__ import annotations

import asyncio
import pickle

import pytest
from desk import QUICK, desk, read_rows
from told import BROKE, Told, alerts, telling

import reprieve
from reprieve.core.delivery import LEFT_OUT
from reprieve.core.lifecycle import DeliveryStatus, JobStatus
from reprieve.ports.deliveries import DeliveryFilter
from reprieve.ports.intents import Begin
from reprieve.senders import Found, Phase
from reprieve.testing import FakeClock

SENT, PENDING, HELD = DeliveryStatus.SENT, DeliveryStatus.PENDING, DeliveryStatus.HELD
FAILED, RECONCILING = DeliveryStatus.FAILED, DeliveryStatus.RECONCILING
DAY = 86_400.0


class Slow(Told):
    """A sender that takes its time: until the test lets it go."""

    def __init__(self, *answers, **can):
        super().__init__(*answers, **can)
        self.at_it, self.go_on = asyncio.Event(), asyncio.Event()

    async def send(self, outgoing):
        answer = await super().send(outgoing)
        outgoing.reached(Phase.DURING)
        self.at_it.set()
        await self.go_on.wait()
        return answer


def listed(sender, *, name="notices"):
    """A pipeline that tells who stands in the payload."""
    pipeline = reprieve.Pipeline(name, profile=QUICK, senders=[sender], breaker=None)

    @pipeline.stage(delivers=True)
    async def notify(job: reprieve.Job[list[str]]) -> list[str]:
        messages = [reprieve.Message(recipient=each, subject="s", text="t") for each in job.payload]
        return list((await reprieve.deliver(job, messages, via=sender.name)).sent)

    return pipeline


async def replay(here, job, **options):
    letter = here.app.letters.letter_of(job)
    await here.app.operations.dead_letters.replay(
        [letter], actor="eve", cause="data", evidence="found out", safe="told by key", **options
    )


# --- clocks


@pytest.mark.spec("REV-9.1")
def test_a_clock_that_jumps_during_a_send_makes_nobody_send_it_again(store_url):
    """By the clock everybody's time is over; but the one who is at it lives in this very process."""

    async def main():
        sender = Slow(Found.ABSENT)
        async with desk(store_url, telling(sender, "ada")) as here:
            job = await here.submit()
            working = asyncio.create_task(here.work())
            await sender.at_it.wait()
            here.clock.advance(DAY)
            await here.sweep()
            assert (sender.sent, sender.asked) == (["ada"], [])
            sender.go_on.set()
            await working
            await here.settle()
            assert here.job(job).status is JobStatus.SUCCEEDED
            assert here.row().status is SENT
        assert sender.sent == ["ada"]

    asyncio.run(main())


class Turning(FakeClock):
    """A clock that somebody can set back."""

    def turn(self, seconds):
        self._start += seconds


@pytest.mark.parametrize("turned", [-DAY, -30.0, 30.0, DAY])
@pytest.mark.spec("REV-9.1")
def test_a_clock_that_was_set_between_two_tries_tells_nobody_twice_and_forgets_nobody(store_url, turned):
    sender = Told(Found.FOUND, Found.FOUND, sends=[BROKE, ConnectionRefusedError("nobody there")], lag=1.0)

    async def main():
        async with desk(store_url, telling(sender, "ada", "ben"), clock=Turning()) as here:
            job = await here.submit()
            await here.work()
            here.clock.turn(turned)
            for _ in range(20):
                await here.settle()
                here.clock.advance(DAY / 8)
            assert here.job(job).status is JobStatus.SUCCEEDED
            assert {row.status for row in here.rows().values()} == {SENT}

    asyncio.run(main())
    assert sorted(sender.sent) == ["ada", "ben", "ben"] or sorted(sender.sent) == ["ada", "ada", "ben"]
    assert len(sender.asked) == 1


@pytest.mark.spec("REV-9.1")
def test_what_was_begun_too_late_is_not_sent(store_url):
    """Writing down that it begins took longer than its lease: others may be at it by then."""
    sender = Told()

    async def main():
        async with desk(store_url, telling(sender, "ada")) as here:
            job = await here.submit()
            apply, store = here.app.journal.store.apply, here.app.journal.store

            async def slowly(intents, **options):
                answers = await apply(intents, **options)
                if any(isinstance(each, Begin) for each in intents):
                    here.clock.advance(60)
                    store.apply = apply
                return answers

            store.apply = slowly
            await here.work()
            assert sender.sent == []
            assert (here.row().status, here.row().attempts) == (PENDING, 1)
            assert here.log("ada") == [("send", "put_off")]
            here.clock.advance(60)
            await here.settle()
            assert here.job(job).status is JobStatus.SUCCEEDED

    asyncio.run(main())
    assert sender.sent == ["ada"]


def test_a_send_gets_no_more_time_than_is_left_of_its_lease(store_url):
    given = []

    class Watched(Told):
        async def send(self, outgoing):
            given.append(outgoing.timeout)
            return await super().send(outgoing)

    async def main():
        async with desk(store_url, telling(Watched(), "ada")) as here:
            await here.submit()
            apply, store = here.app.journal.store.apply, here.app.journal.store

            async def slowly(intents, **options):
                if any(isinstance(each, Begin) for each in intents):
                    here.clock.advance(3)
                return await apply(intents, **options)

            store.apply = slowly
            await here.work()

    asyncio.run(main())
    assert given == [pytest.approx(2.0)]


# --- deployments


def test_who_was_told_by_a_sender_that_is_no_more_is_told(store_url):
    """A sender was renamed between two tries of a job: it concerns only who has not been told."""
    old = Told(sends=[None, BROKE])
    new = Told()
    new.name = "renamed"

    async def main():
        async with desk(store_url, listed(old)) as here:
            job = await here.submit(["ada", "ben"])
            await here.work()
            told = old.sent[0]
            here.change(here.rows()[old.sent[1]].delivery_id, status="failed", reason="X: gone", leased_until=None)
            await here.settle()
            assert here.job(job).status is JobStatus.DEAD_LETTER
        async with desk(store_url, listed(new)) as here:
            await replay(here, job, payload=[told], pipeline=here.pipelines[0])
            await here.settle()
            assert here.job(job).status is JobStatus.SUCCEEDED

    asyncio.run(main())
    assert new.sent == []


def test_who_is_to_be_told_by_a_sender_that_nobody_knows_is_named_with_what_to_do(store_url):
    old, new = Told(sends=[ConnectionRefusedError("nobody there")]), Told()
    new.name = "renamed"

    async def main():
        async with desk(store_url, listed(old)) as here:
            job = await here.submit(["ada"])
            await here.work()
        clock = FakeClock(now=here.clock.now() + 60)
        async with desk(store_url, listed(new), clock=clock) as here:
            await here.work()
            assert here.job(job).status is JobStatus.DEAD_LETTER
            letter = here.app.letters.letter(here.app.letters.letter_of(job))
            assert "delivery 1" in letter.message
            assert "'told'" in letter.message
            assert "senders=[...]" in letter.message

    asyncio.run(main())
    assert (old.sent, new.sent) == (["ada"], [])


def test_what_a_sender_left_in_doubt_that_nobody_knows_any_more_is_held_after_a_day(store_url, caplog):
    old, other = Told(sends=[BROKE]), Told()
    other.name = "other"

    async def main():
        async with desk(store_url, telling(old, "ada")) as here:
            job = await here.submit()
            await here.work()
            assert here.row().status is RECONCILING
            here.senders = {"other": other}
            here.clock.advance(DAY / 2)
            await here.sweep()
            assert here.row().status is not HELD
            here.clock.advance(DAY)
            await here.sweep()
            row = here.row()
            assert row.status is HELD
            assert row.reason == "no worker has known its sender 'told' for a day"
            await here.app.operations.deliveries.confirm(1, actor="eve", evidence="she has it")
            await here.settle()
            assert here.job(job).status is JobStatus.SUCCEEDED

    asyncio.run(main())
    assert old.sent == ["ada"]
    assert alerts(caplog) == ["delivery 1 waits for a person: no worker has known its sender 'told' for a day"]


# --- replays


class Refusing(Told):
    """It does not take what is for a stranger."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    async def send(self, outgoing):
        answer = await super().send(outgoing)
        if outgoing.message.recipient == "stranger" and self.error is not None:
            outgoing.reached(Phase.REJECTED)
            raise self.error
        return answer


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (reprieve.Permanent("no such person", error_class="RECIPIENT_INVALID"), FAILED),
        (ConnectionRefusedError("nobody there"), PENDING),
    ],
    ids=["refused", "put off"],
)
@pytest.mark.spec("REV-6.3", "REV-3.3")
def test_a_replay_with_other_recipients_tells_the_new_ones_and_nobody_who_was_taken_off(store_url, error, left):
    sender = Refusing(error)
    pipeline = listed(sender)

    async def main():
        async with desk(store_url, pipeline) as here:
            job = await here.submit(["ada", "stranger"])
            while here.job(job).status is not JobStatus.DEAD_LETTER:
                await here.settle()
                here.clock.advance(60)
            assert here.rows()["stranger"].status is left
            sender.error = None
            await replay(here, job, payload=["ada", "ben"], pipeline=pipeline)
            await here.settle()
            here.clock.advance(DAY)
            await here.settle()
            assert here.job(job).status is JobStatus.SUCCEEDED
            assert {name: row.status for name, row in here.rows().items()} == {
                "ada": SENT, "ben": SENT, "stranger": FAILED,
            }  # fmt: skip
            assert here.rows()["stranger"].reason == LEFT_OUT
            await here.app.operations.dead_letters.resolve(1, actor="eve", note="all have been told")

    asyncio.run(main())
    assert [name for name in sender.sent if name != "stranger"] == ["ada", "ben"]
    assert sender.sent.count("stranger") == (1 if left is FAILED else 5)


@pytest.mark.spec("CRIT-5.5")
def test_a_replay_whose_mail_was_lost_and_then_refused_is_not_closed_over_who_was_not_told(store_url):
    """The job has succeeded; what its provider found out later counts all the same."""
    refused = reprieve.Permanent("no such person", error_class="RECIPIENT_INVALID")
    sender = Refusing(refused)
    pipeline = telling(sender, "stranger")

    async def main():
        async with desk(store_url, pipeline) as here:
            job = await here.submit()
            await here.settle()
            sender.error = None
            await replay(here, job)
            await here.settle()
            assert (here.job(job).status, here.row().status) == (JobStatus.SUCCEEDED, SENT)
            sender.error, sender.answers = refused, [Found.ABSENT]
            here.change(1, evidence=None, notification_id=None)
            here.clock.advance(DAY)
            await here.settle()
            assert here.row().status is FAILED
            letters = here.app.operations.dead_letters
            with pytest.raises(reprieve.RefusedError, match="not everybody has been told: 1 deliveries"):
                await letters.resolve(1, "everybody was told", actor="eve")
            sender.error = None
            await here.app.operations.deliveries.resend(1, actor="eve", reason="the address is right")
            await here.settle()
            assert here.row().status is SENT
            await letters.resolve(1, "everybody was told", actor="eve")

    asyncio.run(main())


@pytest.mark.spec("REV-7.1")
def test_what_a_person_gave_up_is_not_sent_by_a_replay_and_only_by_a_person(store_url):
    """It may have been received: a replay of a thousand jobs must not send it blindly."""
    sender = Told(sends=[BROKE], looks_up=False)
    pipeline = telling(sender, "ada")

    async def main():
        async with desk(store_url, pipeline) as here:
            job = await here.submit()
            await here.settle()
            assert here.row().status is HELD
            await here.app.operations.deliveries.give_up(1, actor="eve", reason="nobody knows, nobody cares")
            await here.settle()
            assert here.job(job).status is JobStatus.DEAD_LETTER
            await replay(here, job)
            await here.settle()
            assert (here.row().status, sender.sent) == (FAILED, ["ada"])
            letter = here.app.letters.letter(1)
            assert "delivery 1: nobody knows, nobody cares" in letter.message
            await here.app.operations.deliveries.resend(1, actor="eve", reason="ada has not got it")
            await replay(here, job)
            await here.settle()
            assert here.job(job).status is JobStatus.SUCCEEDED

    asyncio.run(main())
    assert sender.sent == ["ada", "ada"]


@pytest.mark.parametrize("first_ends", ["open", "discarded"])
def test_the_replay_of_a_job_serves_who_is_missing_also_where_another_job_was_first_to_tell(store_url, first_ends):
    sender = Refusing(reprieve.Permanent("no such person", error_class="RECIPIENT_INVALID"))
    first, second = telling(sender, "stranger"), telling(sender, "stranger", pipeline="copies")

    async def main():
        async with desk(store_url, first, second) as here:
            job = await here.submit()
            await here.settle()
            other = await here.submit(pipeline=second)
            await here.settle()
            assert [here.job(each).status for each in (job, other)] == [JobStatus.DEAD_LETTER] * 2
            assert (here.row().job_id, sender.sent) == (job, ["stranger"])
            if first_ends == "discarded":
                await discarded(here, job)
            sender.error = None
            await replay(here, other)
            await here.settle()
            assert (here.row().status, here.job(other).status) == (SENT, JobStatus.SUCCEEDED)
            if first_ends == "open":
                await replay(here, job)
                await here.settle()
                assert here.job(job).status is JobStatus.SUCCEEDED

    asyncio.run(main())
    assert sender.sent == ["stranger"] * 2


async def discarded(here, job):
    letter = here.app.letters.letter_of(job)
    await here.app.operations.dead_letters.discard([letter], actor="eve", reason="settled by hand")


async def cancelled(here, job):
    await replay(here, job)
    await here.app.operations.jobs.cancel(job, actor="eve", reason="a mistake")


async def left_open(here, job):
    pass


@pytest.mark.parametrize("ends", [discarded, cancelled, left_open])
def test_what_a_person_has_sent_again_is_sent_also_where_its_job_is_over(store_url, ends):
    """Also where that is put off: the sweep that would give it up for its job's sake leaves it alone."""
    sender = Refusing(reprieve.Permanent("no such person", error_class="RECIPIENT_INVALID"))

    async def main():
        async with desk(store_url, telling(sender, "stranger")) as here:
            job = await here.submit()
            await here.settle()
            await ends(here, job)
            await here.settle()
            ended = here.job(job).status
            assert (here.row().status, sender.sent) == (FAILED, ["stranger"])
            sender.error = ConnectionRefusedError("nobody there")
            await here.app.operations.deliveries.resend(1, actor="eve", reason="the mailbox is back")
            await here.settle()
            assert (here.row().status, len(sender.sent)) == (PENDING, 2)
            sender.error = None
            here.clock.advance(DAY)
            await here.settle()
            assert (here.row().status, here.job(job).status) == (SENT, ended)

    asyncio.run(main())
    assert len(sender.sent) == 3


# --- people, providers, pipelines


@pytest.mark.spec("REV-7.1")
def test_a_job_that_is_cancelled_while_it_tells_people_tells_nobody_more_and_what_was_begun_is_found_out(store_url):
    async def main():
        sender = Slow(*[Found.FOUND] * 10, send_timeout=30.0)
        pipeline = telling(sender, *[f"r{number:02}" for number in range(15)])
        async with reprieve.connect(store_url) as app, asyncio.timeout(60):
            job = await app.submit(pipeline, "hello", subject="cl-1", version=1)
            worker = asyncio.create_task(app.work(pipeline, poll=0.05, lease=2.0))
            await sender.at_it.wait()
            await app.operations.jobs.cancel(job.job_id, actor="eve", reason="a mistake")
            statuses = []
            while sorted(statuses) != [FAILED] * 5 + [SENT] * 10:
                await asyncio.sleep(0.05)
                statuses = [row.status for row in app.deliveries.deliveries(DeliveryFilter())]
            assert app.reader.job(job.job_id).status is JobStatus.CANCELLED
            worker.cancel()
            await asyncio.wait([worker])
        assert len(sender.sent) == 10

    asyncio.run(main())


@pytest.mark.parametrize("looked_up", [False, True])
def test_an_id_that_no_database_takes_does_not_hold_a_delivery_up(store_url, looked_up):
    class Odd(Told):
        async def send(self, outgoing):
            await super().send(outgoing)
            return "id\0\ud800-7" + "x" * 5000

        async def look_up(self, question):
            answer = await super().look_up(question)
            return type(answer)(found=Found.FOUND, notification_id="id\0\ud800-7", evidence="\0\ud800")

    sender = Odd(sends=[BROKE] if looked_up else [])

    async def main():
        async with desk(store_url, telling(sender, "ada")) as here:
            job = await here.submit()
            await here.settle()
            assert here.job(job).status is JobStatus.SUCCEEDED
            assert here.row().notification_id.startswith("id-7")
            assert len(here.row().notification_id) <= 500

    asyncio.run(main())
    assert sender.sent == ["ada"]


def test_a_pipeline_whose_versions_supersede_each_other_tells_people_only_where_it_says_so(store_url):
    """Else a newer version would cancel it while some have been told, and others not."""
    sender = Told()
    pipeline = reprieve.Pipeline("notices", profile=QUICK, senders=[sender], breaker=None, supersede=True)

    @pipeline.stage
    async def notify(job: reprieve.Job[str]) -> int:
        message = reprieve.Message(recipient="ada", subject="s", text="t")
        return len((await reprieve.deliver(job, [message], via="told")).sent)

    async def main():
        async with desk(store_url, pipeline) as here:
            job = await here.submit()
            await here.settle()
            assert here.job(job).status is JobStatus.DEAD_LETTER
            assert "delivers=True" in here.app.letters.letter(1).message

    asyncio.run(main())
    assert sender.sent == []


@pytest.mark.spec("REV-3.1")
def test_two_stages_and_two_pipelines_that_tell_the_same_about_the_same_version_tell_it_once(store_url):
    sender = Told()
    twice = reprieve.Pipeline("twice", profile=QUICK, senders=[sender], breaker=None)

    async def tell(job):
        message = reprieve.Message(recipient="ada", subject=job.stage, text=job.pipeline)
        return len((await reprieve.deliver(job, [message], via="told")).sent)

    @twice.stage
    async def first(job: reprieve.Job[str]) -> int:
        return await tell(job) + await tell(job)

    @twice.stage
    async def second(job: reprieve.Job[str], before: int) -> int:
        return before + await tell(job)

    async def main():
        async with desk(store_url, twice, telling(sender, "ada")) as here:
            jobs = [await here.submit(pipeline=each) for each in here.pipelines]
            await here.settle()
            assert [here.job(job).status for job in jobs] == [JobStatus.SUCCEEDED] * 2

    asyncio.run(main())
    assert sender.sent == ["ada"]


# --- several channels, other processes


def by_channel(via, *senders):
    pipeline = reprieve.Pipeline("notices", profile=QUICK, senders=list(senders), breaker=None)

    @pipeline.stage(delivers=True)
    async def notify(job: reprieve.Job[list[str]]) -> list[str]:
        messages = [reprieve.Message(recipient=each, subject="s", text="t") for each in job.payload]
        return list((await reprieve.deliver(job, messages, via=via)).sent)

    return pipeline


@pytest.mark.spec("REV-3.2", "REV-6.3")
def test_of_several_channels_all_rows_are_there_first_and_one_that_is_refused_stops_no_other(store_url):
    rows_seen = []

    class Looking(Refusing):
        async def send(self, outgoing):
            rows_seen.append(len(read_rows(store_url)))
            return await super().send(outgoing)

    mail, chat = Looking(reprieve.Permanent("no", error_class="RECIPIENT_INVALID")), Told()
    chat.name = "chat"
    mail.address = lambda recipient: recipient.removeprefix("mail:")
    pipeline = by_channel({"mail": mail, "chat": "chat"}, mail, chat)

    async def main():
        async with desk(store_url, pipeline) as here:
            job = await here.submit(["mail:stranger", "chat:ada", "CHAT:ben", "fax:cy", "dan"])
            await here.settle()
            assert here.job(job).status is JobStatus.DEAD_LETTER
            reasons = {name: (row.status, row.sender, row.reason) for name, row in here.rows().items()}
            assert reasons["stranger"][:2] == (FAILED, "told")
            assert reasons["chat:ada"] == (SENT, "chat", None)
            fax = "RECIPIENT_INVALID: no sender is for this channel; there are: chat, mail"
            assert (reasons["invalid:fax%3Acy"][2], reasons["invalid:dan"][2]) == (fax, fax)

    asyncio.run(main())
    assert sorted(chat.sent) == ["CHAT:ben", "chat:ada"]
    assert rows_seen == [5]


@pytest.mark.parametrize(
    ("via", "says"),
    [
        ({}, "via= names no sender"),
        ({"mail": "nobody"}, "no sender of this pipeline is named 'nobody'"),
        ("nobody", "nobody"),
    ],
)
def test_a_sender_that_is_none_is_refused_before_anything_is_written(store_url, via, says):
    async def main():
        async with desk(store_url, by_channel(via, Told())) as here:
            job = await here.submit(["ada"])
            await here.settle()
            assert here.job(job).status is JobStatus.DEAD_LETTER
            assert says in here.app.letters.letter(1).message
            assert here.rows() == {}

    asyncio.run(main())


def test_in_another_process_nobody_is_told_and_the_error_says_what_to_do():
    job = pickle.loads(pickle.dumps(reprieve.Job("x", id=1)))
    with pytest.raises(reprieve.UsageError, match="isolated in a process cannot deliver: return the messages"):
        reprieve.deliver_blocking(job, [], via="told")
