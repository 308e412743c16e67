"""A batch is all or nothing, its answers are in its order, and who waits for news is told."""

import asyncio

import psycopg
import pytest
from outbox_desk import accepted, begin, correct, prepare

from reprieve.adapters.sql import schema
from reprieve.core.alerts import DEFAULT_RULES, Seen, Watch, alarm
from reprieve.core.analysis import AnalysisStatus, ReviewEvent
from reprieve.core.canary import CampaignState
from reprieve.core.lifecycle import LetterEvent
from reprieve.core.policy import Cause
from reprieve.errors import SchemaError, StoreRefusedError
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

NOW = 1_700_000_000.0
STAGES = {("review", "fetch"): 10}


def unwritable(say, name, job_id):
    """An intent that the database refuses."""
    too_long = say.attempt(message="x" * 1001)
    match name:
        case "submit":
            return i.Submit(
                idempotency_key="bad", pipeline="review", stage="fetch", payload=b"{}", payload_type="t", created_at=NOW,
                priority=2**70,
            )  # fmt: skip
        case "retry":
            return say.retry(job_id, 1, attempt=too_long)
        case "bury":
            return say.bury(job_id, 1, attempt=say.attempt(message="x" * 1001, decision="dead_letter", retry_at=None))
        case "finish":
            return say.finish(job_id, 1, attempt=2**70)
        case "checkpoint":
            return say.checkpoint(job_id, 1, attempt=2**70)
        case "release":
            return say.release(job_id, 1, counters=i.Counters(handler=-1))


@pytest.mark.parametrize("name", ["submit", "retry", "bury", "finish", "checkpoint", "release"])
def test_one_bad_intent_is_refused_and_nothing_of_its_batch_is_written(desk, say, submits, name):
    good, bad = desk.lease("good"), desk.lease("bad one")
    before = desk.everything()
    with pytest.raises(StoreRefusedError):
        desk.batch(say.finish(good.job_id, 1), unwritable(say, name, bad.job_id), submits("new"))
    assert desk.everything() == before
    assert desk.batch(say.finish(good.job_id, 1), submits("new"))[0] is Written.APPLIED


def test_a_text_that_cannot_be_written_is_refused(desk, submits):
    with pytest.raises(StoreRefusedError):
        desk.batch(submits("good"), submits("bad \ud800"))
    assert desk.rows("jobs") == []


@pytest.mark.parametrize("name", ["cancel", "pause", "retry"])
def test_a_nul_that_only_the_driver_refuses_is_told_as_a_refusal_with_a_known_outcome(postgres_desk, say, name):
    desk = postgres_desk
    lease = desk.lease()
    nul = "a\0b"
    said = {
        "cancel": say.cancel(lease.job_id, reason=nul),
        "pause": i.Pause(pipeline="review", stage="fetch", actor="ann", reason=nul, now=NOW),
        "retry": say.retry(lease.job_id, 1, attempt=say.attempt(message=nul)),
    }
    before = desk.everything()
    with pytest.raises(StoreRefusedError):
        desk.do(said[name])
    assert desk.everything() == before
    assert desk.do(say.finish(lease.job_id, 1)) is Written.APPLIED, "the connection is as it was"


def test_a_refusal_does_not_repeat_what_it_refused(desk, say):
    lease = desk.lease()
    planted = "tok" + "en-" + "a1b2c3"
    with pytest.raises(StoreRefusedError) as caught:
        desk.do(say.retry(lease.job_id, 1, attempt=say.attempt(message=planted * 200)))
    assert planted not in str(caught.value)


SEEN = Seen(watch=Watch.HELD, at=NOW, source="mail", summary="delivery 1 waits for a person")


def test_every_intent_gets_the_answer_that_the_port_promises(desk, say, submits):
    worker = desk.register()
    place = {"pipeline": "review", "stage": "fetch", "now": NOW}
    leases = [desk.lease(f"key-{number}", worker_id=worker).job_id for number in range(10)]
    names = ["checkpoint", "finish", "retry", "bury", "skip", "wait", "release", "remember", "complete", "stop"]
    batch = [
        i.Claim(worker_id=worker, capacity=1, stages=STAGES, now=NOW),
        *[getattr(say, name)(job_id, 1) for name, job_id in zip(names, leases, strict=True)],
        submits("new"),
        say.cancel(404),
        i.Promote(now=NOW),
        i.Wake(prefix="x", now=NOW),
        i.WakeDelivered(now=NOW),
        *[each(404) for each in (prepare, begin, accepted, correct)],
        i.Remedy(letters=(404,), steps=(i.Step(event=LetterEvent.NOTE, note="x"),), actor="ann", now=NOW),
        i.Replay(letters=(404,), steps=(i.Step(event=LetterEvent.OVERRIDE, note="x"),), actor="ann", now=NOW),
        i.Settle(now=NOW),
        i.Gather(actor="ann", now=NOW, selection="{}", fingerprint=None, steps=(), waves=(1,)),
        i.Enlist(campaign_id=404, letters=(404,)),
        i.Steer(campaign_id=404, fence=0, expects=(), state=CampaignState.CANCELLED, actor="ann", reason="x", now=NOW),
        i.Launch(campaign_id=404, wave=0, launched=0, count=1, now=NOW),
        i.Reserve(signatures=("a",), question="q", owner="x", until=NOW, now=NOW),
        i.Prolong(holds=(("a", 404),), until=NOW),
        i.Conclude(signature="a", fence=404, answer=b"1", model="m", now=NOW),
        i.Fault(signature="a", fence=404, status=AnalysisStatus.ACTIVE, error_type="x", error_reason="x", now=NOW),
        i.LetGo(signature="a", fence=404, now=NOW),
        i.Recall(signature="a", fence=404, question="q", reason="x", now=NOW, material=i.Material()),
        i.Reset(signatures=("a",), actor="ann", note="x", now=NOW),
        i.Rule(review_id=404, event=ReviewEvent.CLAIM, actor="ann", note="x", now=NOW),
        i.Pause(**place, actor="ann", reason="x"),
        i.Resume(**place, actor="ann"),
        i.Hold(**place, until=NOW, error_class="x", reason="x"),
        i.Close(**place),
        i.Probe(**place, until=NOW),
        i.GiveBack(**place, until=NOW),
        i.Register(name="w", host="h", pid=1, stages=(), now=NOW, expires_at=NOW),
        i.Renew(worker_id=worker, now=NOW, expires_at=NOW),
        i.Leave(worker_id=404),
        i.Lost(worker_id=404, cause=Cause.CRASH, now=NOW),
        i.Raise(alarm=alarm(DEFAULT_RULES["held"], SEEN)),
        i.Weigh(alarm=alarm(DEFAULT_RULES["rate_limits"], SEEN), more_than=10, within=300.0, attempts=True),
        i.Resolve(actor="ann", why="x", now=NOW, alerts=((404, None),)),
        i.Acknowledge(alert_id=404, actor="ann", now=NOW),
        i.TakeNotices(sinks=("mail",), now=NOW, until=NOW + 1),
        i.Told(notice_id=404, fence=1, now=NOW),
    ]
    assert {type(intent) for intent in batch} == set(i.ANSWERS)
    for intent, answer in zip(batch, desk.batch(*batch), strict=True):
        assert isinstance(answer, i.ANSWERS[type(intent)]), intent
        assert isinstance(answer, bool) == (i.ANSWERS[type(intent)] is bool), intent


def test_a_claim_finds_what_its_own_batch_made_ready(desk, submits, say):
    lease = desk.lease("old")
    _, answer, claimed = desk.batch(
        say.release(lease.job_id, 1),
        submits("new"),
        i.Claim(worker_id=desk.register(), capacity=9, stages=STAGES, now=NOW),
    )
    assert {each.job_id for each in claimed.leases} == {lease.job_id, answer.job_id}


def test_an_empty_batch_is_nothing(desk):
    assert desk.batch() == []


def test_a_store_can_be_closed_twice_and_opened_again(desk, submits):
    store = desk.another()
    desk.run(store.close())
    desk.run(store.close())
    desk.run(store.open())
    assert desk.run(store.apply([submits()]))[0].duplicate is False


def test_a_store_refuses_a_database_of_a_newer_version(desk):
    desk.write("UPDATE reprieve_revision SET version_num = '9999'")
    try:
        with pytest.raises(SchemaError, match="newer version of Reprieve"):
            desk.another()
    finally:
        desk.write(f"UPDATE reprieve_revision SET version_num = '{schema.REVISIONS[-1]}'")


def test_the_clock_that_was_handed_over_is_the_stores(desk):
    desk.clock.advance(5)
    assert desk.run(desk.store.now()) == NOW + 5


def test_the_digest_key_is_the_databases_own(desk):
    key = desk.run(desk.store.digest_key())
    assert key.hex() == desk.row("meta", key="digest_key")["value"]
    assert len(key) == 32


def test_who_subscribed_is_told_of_new_work_until_it_leaves(desk, submits):
    async def scenario():
        told = asyncio.Event()
        leave = desk.store.subscribe(told.set)
        # A subscription may take a moment to be in place, and tells of itself then.
        for number in range(50):
            await desk.store.apply([submits(f"key-{number}")])
            try:
                await asyncio.wait_for(told.wait(), 0.2)
                break
            except TimeoutError:
                continue
        heard = told.is_set()
        leave()
        await asyncio.sleep(0.05)
        told.clear()
        await desk.store.apply([submits("after")])
        await asyncio.sleep(0.1)
        return heard, told.is_set()

    assert desk.run(scenario()) == (True, False)


def is_told(desk, intent):
    """Whether those who wait for news are told after this intent."""

    async def here():
        told = []
        leave = desk.store.subscribe(lambda: told.append(True))
        await desk.store.apply([intent])
        leave()
        return bool(told)

    if desk.url.startswith("sqlite"):
        return desk.run(here())
    with psycopg.connect(desk.url, autocommit=True) as listening:
        listening.execute("LISTEN reprieve")
        desk.do(intent)
        listening.execute("NOTIFY reprieve, 'end'")
        said = []
        for notice in listening.notifies(timeout=30):
            said.append(notice.payload)
            if notice.payload == "end":
                break
        assert said[-1] == "end"
        return len(said) > 1


def test_workers_are_told_of_what_is_ready_and_not_of_what_is_for_later(desk, say):
    first, second, third = (desk.lease(key).job_id for key in "abc")
    assert not is_told(desk, say.retry(first, 1, run_at=NOW + 30))
    assert not is_told(desk, say.release(second, 1, run_at=NOW + 60))
    assert is_told(desk, say.release(third, 1))
    assert not is_told(desk, i.Promote(now=NOW + 29))
    assert is_told(desk, i.Promote(now=NOW + 30)), "a retry whose time has come"
    assert is_told(desk, i.Promote(now=NOW + 60))
    assert not is_told(desk, i.Wake(prefix="deploy:", now=NOW))
    waiting = desk.bring(i.QueueState.WAITING, "waiting")
    assert is_told(desk, i.Wake(prefix="deploy:", now=NOW))
    assert desk.state(waiting) is i.QueueState.READY


def test_a_caller_that_is_cancelled_leaves_the_store_working(desk, submits):
    async def scenario():
        for number in range(30):
            task = asyncio.create_task(desk.store.apply([submits(f"key-{number}-{n}") for n in range(20)]))
            for _ in range(number % 5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return await desk.store.apply([submits("last")])

    (answer,) = desk.run(scenario())
    assert answer.duplicate is False
    assert len(desk.rows("jobs")) == len(desk.rows("queue"))
