"""Group commit: one writer takes all that wait, in few transactions, and whoever asked is answered by what is on disk."""

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from reprieve.adapters.sql.reader import SqlReader
from reprieve.adapters.sql.sqlite import SqliteStore
from reprieve.app.journal import Journal
from reprieve.errors import StoreRefusedError, StoreUnavailableError
from reprieve.ports.intents import Claim, Finish, Register, Remember, Submit, Submitted, Written
from reprieve.testing import FakeClock

LONG = 20.0


class Answerless(Exception):
    """An act: the batch is committed, and its answer never comes."""


class Misbehaving:
    """A real store that does on command what databases do: is away, loses an answer, takes its time."""

    def __init__(self, store):
        self.real = store
        self.batches = []
        self.tried_again = []
        self.acts = deque()
        self.away = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.entered = asyncio.Event()

    def __getattr__(self, name):
        return getattr(self.real, name)

    async def apply(self, intents, *, again=False):
        self.entered.set()
        await self.gate.wait()
        self.tried_again.append(again)
        act = self.acts.popleft() if self.acts else None
        if self.away or isinstance(act, StoreUnavailableError):
            raise act or StoreUnavailableError("nobody is there")
        if act is not None and not isinstance(act, Answerless):
            raise act
        answers = await self.real.apply(intents, again=again)
        self.batches.append(list(intents))
        if isinstance(act, Answerless):
            raise StoreUnavailableError("the connection broke", outcome_unknown=True)
        return answers

    def hold(self):
        """Let the next batch wait until the gate is opened."""
        self.gate.clear()
        self.entered.clear()


class Setup:
    def __init__(self, url, clock):
        self.url, self.clock = url, clock
        self.store = Misbehaving(SqliteStore(url, clock=clock))
        self.journal = Journal(self.store, clock=clock)

    def submit(self, key):
        return Submit(
            idempotency_key=key, pipeline="p", stage="s", payload=b"1", payload_type="any", created_at=self.clock.now()
        )

    async def leased(self, count):
        """Jobs that a worker has claimed."""
        await asyncio.gather(*[self.journal.ask(self.submit(f"job-{number}")) for number in range(count)])
        now = self.clock.now()
        come = Register(name="w", host="h", pid=1, stages=(("p", "s"),), now=now, expires_at=now + 1e6)
        worker = await self.journal.ask(come)
        claimed = await self.journal.ask(
            Claim(worker_id=worker, capacity=count, stages={("p", "s"): count}, now=self.clock.now())
        )
        self.store.batches.clear()
        self.store.tried_again.clear()
        return claimed.leases

    def remember(self, lease, key):
        return Remember(job_id=lease.job_id, fence=lease.fence, stage="s", key=key, value=b"1", now=self.clock.now())

    def finish(self, lease):
        now = self.clock.now()
        return Finish(
            job_id=lease.job_id, fence=lease.fence, stage="s", result=b"1", result_type="any", attempt=1,
            started_at=now, finished_at=now,
        )  # fmt: skip

    def has(self, key):
        """Whether such a job is on disk."""
        reader = SqlReader(self.url)
        try:
            return reader.job_by_key(key) is not None
        finally:
            reader.close()


@pytest.fixture
def run(sqlite_url):
    """Runs a test's coroutine with a journal that is open meanwhile."""

    @asynccontextmanager
    async def opened():
        made = Setup(sqlite_url, FakeClock())
        await made.store.open()
        made.journal.start()
        try:
            yield made
        finally:
            made.store.gate.set()
            await made.journal.close()
            await made.store.close()

    def run(test):
        async def main():
            async with opened() as made, asyncio.timeout(LONG):
                return await test(made)

        return asyncio.run(main())

    return run


def test_all_that_wait_are_applied_together(run):
    async def test(setup):
        answers = await asyncio.gather(*[setup.journal.ask(setup.submit(str(number))) for number in range(500)])
        assert [len(batch) for batch in setup.store.batches] == [500]
        assert [answer.job_id for answer in answers] == list(range(1, 501))

    run(test)


def test_what_comes_while_a_batch_is_written_makes_the_next_one(run):
    async def test(setup):
        setup.store.hold()
        first = setup.journal.ask(setup.submit("first"))
        await setup.store.entered.wait()
        others = [setup.journal.ask(setup.submit(f"other-{number}")) for number in range(50)]
        setup.store.gate.set()
        await asyncio.gather(first, *others)
        assert [len(batch) for batch in setup.store.batches] == [1, 50]

    run(test)


def test_a_batch_has_an_end(run):
    async def test(setup):
        await asyncio.gather(*[setup.journal.ask(setup.submit(str(number))) for number in range(2500)])
        assert [len(batch) for batch in setup.store.batches] == [1000, 1000, 500]

    run(test)


def test_many_that_are_asked_for_at_once_are_answered_in_their_order(run):
    async def test(setup):
        known = await setup.journal.ask(setup.submit("known"))
        answers = await setup.journal.ask_all([setup.submit(key) for key in ("a", "known", "b")])
        assert [answer.duplicate for answer in answers] == [False, True, False]
        assert answers[1].job_id == known.job_id

    run(test)


def test_of_one_job_there_is_one_intent_in_a_batch_and_their_order_is_kept(run):
    async def test(setup):
        one, two, three = await setup.leased(3)
        asked = [
            setup.journal.ask(intent)
            for intent in (
                setup.remember(one, "a"),
                setup.remember(one, "b"),
                setup.finish(two),
                setup.finish(one),
                setup.finish(three),
            )
        ]
        assert await asyncio.gather(*asked) == [Written.APPLIED] * 5
        about = [[intent.job_id for intent in batch] for batch in setup.store.batches]
        assert about == [[one.job_id, two.job_id, three.job_id], [one.job_id], [one.job_id]]
        kinds = [type(intent) for batch in setup.store.batches for intent in batch if intent.job_id == one.job_id]
        assert kinds == [Remember, Remember, Finish]

    run(test)


def test_one_bad_intent_fails_alone(run):
    async def test(setup):
        asked = [setup.journal.ask(setup.submit(key)) for key in ("good", "a lone surrogate \ud800", "fine")]
        good, bad, fine = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(bad, StoreRefusedError)
        assert isinstance(good, Submitted)
        assert isinstance(fine, Submitted)
        assert setup.has("good")
        assert setup.has("fine")

    run(test)


def test_what_a_cancelled_caller_asked_for_happens_all_the_same(run):
    async def test(setup):
        async def call(key):
            await setup.journal.ask(setup.submit(key))

        setup.store.hold()
        being_written = asyncio.create_task(call("being written"))
        await setup.store.entered.wait()
        waiting = asyncio.create_task(call("waiting"))
        await asyncio.sleep(0)
        for caller in (being_written, waiting):
            caller.cancel()
        setup.store.gate.set()
        await asyncio.wait([being_written, waiting])
        await setup.journal.ask(setup.submit("after"))
        assert setup.has("being written")
        assert setup.has("waiting")

    run(test)


@pytest.mark.spec("REV-1.2")
def test_a_submission_whose_answer_was_lost_is_found_and_is_no_duplicate(run):
    async def test(setup):
        setup.store.acts.append(Answerless())
        answer = await setup.journal.ask(setup.submit("once"))
        assert not answer.duplicate
        assert setup.store.tried_again == [False, True]
        assert (await setup.journal.ask(setup.submit("once"))).duplicate
        assert setup.store.tried_again == [False, True, False]

    run(test)


def test_a_finish_whose_answer_was_lost_is_applied_and_not_stale(run):
    async def test(setup):
        (lease,) = await setup.leased(1)
        setup.store.acts.append(Answerless())
        assert await setup.journal.ask(setup.finish(lease)) is Written.APPLIED
        assert await setup.journal.ask(setup.finish(lease)) is Written.STALE

    run(test)


def test_a_store_that_is_away_is_tried_again_until_it_is_back(run):
    async def test(setup):
        setup.store.acts.extend(StoreUnavailableError("away") for _ in range(6))
        assert not (await setup.journal.ask(setup.submit("patient"))).duplicate
        assert setup.store.tried_again == [False] * 7
        assert setup.clock.slept == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]

    run(test)


def test_once_an_outcome_was_unknown_it_stays_so(run):
    async def test(setup):
        setup.store.acts.extend([Answerless(), StoreUnavailableError("away")])
        assert not (await setup.journal.ask(setup.submit("once"))).duplicate
        assert setup.store.tried_again == [False, True, True]

    run(test)


def test_whose_patience_is_over_is_told_and_the_others_wait_on(run):
    async def test(setup):
        setup.store.away = True
        hasty = setup.journal.ask(setup.submit("hasty"), patience=1.0)
        patient = setup.journal.ask(setup.submit("patient"))
        with pytest.raises(StoreUnavailableError, match="nobody is there"):
            await hasty
        assert not patient.done()
        assert setup.clock.monotonic() >= 1.0
        setup.store.away = False
        await patient
        assert not setup.has("hasty")

    run(test)


def test_a_claim_is_not_tried_again_behind_the_workers_back(run):
    async def test(setup):
        await setup.leased(1)
        claim = Claim(worker_id=1, capacity=1, stages={("p", "s"): 1}, now=setup.clock.now())
        setup.store.acts.append(Answerless())
        with pytest.raises(StoreUnavailableError) as caught:
            await setup.journal.ask(claim)
        assert caught.value.outcome_unknown
        assert len(setup.store.tried_again) == 1

    run(test)


def test_an_error_that_nobody_expected_is_told_to_all_and_the_writer_lives_on(run, caplog):
    async def test(setup):
        setup.store.acts.append(ZeroDivisionError("of all things"))
        asked = [setup.journal.ask(setup.submit(key)) for key in "ab"]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(answer) for answer in answers] == [ZeroDivisionError] * 2
        assert not (await setup.journal.ask(setup.submit("c"))).duplicate

    run(test)
    assert "for a reason nobody expected" in caplog.text


def test_closing_writes_what_is_being_written_and_what_waits(run):
    async def test(setup):
        setup.store.hold()
        current = setup.journal.ask(setup.submit("current"))
        await setup.store.entered.wait()
        waiting = setup.journal.ask(setup.submit("waiting"))
        forgotten = setup.journal.ask(setup.submit("forgotten"))
        forgotten.cancel()
        closing = asyncio.create_task(setup.journal.close())
        await asyncio.sleep(0)
        setup.store.gate.set()
        await closing
        assert isinstance(await current, Submitted)
        assert isinstance(await waiting, Submitted)
        assert setup.has("forgotten")

    run(test)


def test_closing_does_not_wait_for_a_store_that_stays_away(run):
    async def test(setup):
        setup.store.away = True
        asked = [setup.journal.ask(setup.submit(key)) for key in "ab"]
        await setup.store.entered.wait()
        asked.append(setup.journal.ask(setup.submit("c")))
        await setup.journal.close()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreUnavailableError] * 3

    run(test)


def test_after_closing_nothing_is_taken_and_closing_again_does_nothing(run):
    async def test(setup):
        await setup.journal.close()
        with pytest.raises(StoreUnavailableError, match="the application is closed"):
            setup.journal.ask(setup.submit("late"))
        await setup.journal.close()

    run(test)


def test_a_writer_that_was_cancelled_with_all_other_tasks_comes_back_for_those_who_clean_up(run):
    async def test(setup):
        setup.store.hold()
        current = setup.journal.ask(setup.submit("current"))
        await setup.store.entered.wait()
        waiting = setup.journal.ask(setup.submit("waiting"))
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        with pytest.raises(StoreUnavailableError) as caught:
            await current
        assert caught.value.outcome_unknown
        setup.store.gate.set()
        assert isinstance(await waiting, Submitted)
        assert isinstance(await setup.journal.ask(setup.submit("later")), Submitted)

    run(test)


def test_a_batch_ends_by_the_bytes_that_it_carries_too(run):
    """A server takes no statement of a gigabyte, however few its rows are."""

    async def test(setup):
        large = [replace(setup.submit(f"large-{number}"), payload=b"0" * 12_000_000) for number in range(6)]
        await asyncio.gather(*[setup.journal.ask(intent) for intent in large])
        return [sum(len(intent.payload) for intent in batch) for batch in setup.store.batches]

    sizes = run(test)
    assert sum(sizes) == 72_000_000
    assert max(sizes) <= 33_554_432
