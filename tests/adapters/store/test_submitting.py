"""Submissions: one job for a key, one for a version of a subject, however often and from wherever they are asked for."""

import asyncio

import pytest
from sqlalchemy.exc import IntegrityError

from reprieve.errors import StoreRefusedError
from reprieve.ports import intents as i
from reprieve.ports.intents import QueueState

NOW = 1_700_000_000.0


def test_a_submitted_job_is_pending_and_ready(desk, submits):
    job_id = desk.do(submits("cl-42@3", payload=b'{"change": 42}', priority=5, subject="cl-42", version=3)).job_id
    job = desk.row("jobs", id=job_id)
    assert {name: job[name] for name in ("idempotency_key", "pipeline", "first_stage", "subject", "version", "rerun_of")} == {
        "idempotency_key": "cl-42@3", "pipeline": "review", "first_stage": "fetch", "subject": "cl-42", "version": 3,
        "rerun_of": None,
    }  # fmt: skip
    assert (bytes(job["payload"]), job["payload_type"], job["created_at"]) == (b'{"change": 42}', "Change", NOW)
    queued = desk.queued(job_id)
    assert (queued["state"], queued["stage"], queued["priority"], queued["fence"]) == (QueueState.READY, "fetch", 5, 0)
    assert desk.status(job_id) == "pending"
    assert desk.outcome(job_id) is None


@pytest.mark.spec("REV-1.1", "REV-1.2")
def test_the_same_key_again_returns_the_first_job_and_creates_nothing(desk, submits):
    first = desk.submit("key")
    before = desk.everything()
    assert desk.do(submits("key", created_at=NOW + 9)) == i.Submitted(job_id=first, duplicate=True)
    assert desk.everything() == before


@pytest.mark.spec("REV-1.1")
def test_the_database_itself_refuses_a_second_job_with_a_key(desk):
    desk.submit("key")
    with pytest.raises(IntegrityError):
        desk.write(
            "INSERT INTO jobs (id, idempotency_key, pipeline, first_stage, created_at, payload_type)"
            " SELECT id + 1, idempotency_key, 'other', 'other', created_at, payload_type FROM jobs"
        )
    assert len(desk.rows("jobs")) == 1


def test_the_same_key_in_another_pipeline_is_refused(desk, submits):
    desk.submit("key")
    assert desk.do(submits("key", pipeline="other")) == i.KeyTaken(pipeline="review")
    assert desk.do(submits("key", pipeline="other", subject="s", version=1)) == i.KeyTaken(pipeline="review")
    assert len(desk.rows("jobs")) == 1


def test_the_same_key_with_another_payload_returns_the_first_job_and_says_so(desk, submits):
    first = desk.submit("key", payload=b"1")
    assert desk.do(submits("key", payload=b"2")) == i.Submitted(job_id=first, duplicate=True, mismatch=True)
    assert bytes(desk.row("jobs", id=first)["payload"]) == b"1"


@pytest.mark.spec("REV-1.2")
def test_a_key_that_stands_twice_in_a_batch_makes_one_job(desk, submits):
    desk.submit("old")
    new, again, old, other, elsewhere = desk.batch(
        submits("new", payload=b"1"),
        submits("new", payload=b"1"),
        submits("old"),
        submits("new", payload=b"2"),
        submits("new", pipeline="other", payload=b"1"),
    )
    assert not new.duplicate
    assert again == i.Submitted(job_id=new.job_id, duplicate=True)
    assert (old.duplicate, old.job_id != new.job_id) == (True, True)
    assert other == i.Submitted(job_id=new.job_id, duplicate=True, mismatch=True)
    assert elsewhere == i.KeyTaken(pipeline="review")
    assert len(desk.rows("jobs")) == len(desk.rows("queue")) == 2


def test_jobs_of_a_batch_get_ids_in_the_order_of_the_call(desk, submits):
    keys = [f"key-{number}" for number in (7, 3, 9, 1, 5)]
    ids = [answer.job_id for answer in desk.batch(*[submits(key) for key in keys])]
    assert ids == sorted(ids)
    assert [desk.row("jobs", id=job_id)["idempotency_key"] for job_id in ids] == keys


def test_a_batch_may_mix_plain_delayed_and_versioned_submissions(desk, submits):
    answers = desk.batch(
        submits("a"),
        submits("b", subject="s", version=1),
        submits("c", run_at=NOW + 5),
        submits("d", subject="s", version=2),
        submits("e", subject="s", version=1),
    )
    assert [answer.duplicate for answer in answers] == [False, False, False, False, True]
    assert answers[4].job_id == answers[1].job_id
    assert [desk.state(answer.job_id) for answer in answers[:4]] == [
        QueueState.READY,
        QueueState.READY,
        QueueState.SCHEDULED,
        QueueState.READY,
    ]


@pytest.mark.spec("REV-1.1", "REV-1.2")
def test_a_hundred_concurrent_submits_of_one_key_from_several_stores_create_one_job(desk, submits):
    stores = [desk.store, *(desk.another() for _ in range(3))]

    async def rush():
        return await asyncio.gather(*[stores[number % 4].apply([submits("key")]) for number in range(100)])

    answers = [answer for (answer,) in desk.run(rush())]
    assert len({answer.job_id for answer in answers}) == 1
    assert [answer.duplicate for answer in answers].count(False) == 1
    assert len(desk.rows("jobs")) == len(desk.rows("queue")) == 1


@pytest.mark.spec("REV-1.2")
def test_concurrent_batches_with_the_same_keys_in_other_orders_do_not_block_each_other(desk, submits):
    stores = [desk.store, *(desk.another() for _ in range(3))]
    keys = [f"key-{number}" for number in range(40)]
    orders = [keys, keys[::-1], keys[20:] + keys[:20], keys[::2] + keys[1::2]]

    async def rush():
        return await asyncio.gather(
            *[store.apply([submits(key) for key in order]) for store, order in zip(stores, orders, strict=True)]
        )

    answers = desk.run(rush())
    found = [
        {key: answer.job_id for key, answer in zip(o, a, strict=True)} for o, a in zip(orders, answers, strict=True)
    ]
    assert found[0] == found[1] == found[2] == found[3]
    assert len(desk.rows("jobs")) == len(desk.rows("queue")) == 40


def test_a_delayed_job_is_scheduled_and_one_whose_time_has_passed_is_ready(desk):
    later, past = desk.submit("later", run_at=NOW + 60), desk.submit("past", run_at=NOW - 60)
    assert (desk.state(later), desk.queued(later)["run_at"]) == (QueueState.SCHEDULED, NOW + 60)
    assert desk.state(past) is QueueState.READY
    assert [lease.job_id for lease in desk.claim()] == [past]


# --- versions --------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("REV-2.1")
def test_a_succeeded_version_asked_for_again_is_left_as_it_is(desk, submits, say):
    lease = desk.lease("cl-1@1", subject="cl-1", version=1)
    desk.do(say.finish(lease.job_id, lease.fence))
    before = desk.everything()
    for key in ("cl-1@1", "another key"):
        assert desk.do(submits(key, subject="cl-1", version=1)) == i.Submitted(job_id=lease.job_id, duplicate=True)
    assert desk.everything() == before


def test_a_version_asked_for_again_with_another_payload_says_so(desk, submits):
    first = desk.submit("a", subject="cl-1", version=1, payload=b"1")
    again = desk.do(submits("b", subject="cl-1", version=1, payload=b"2"))
    assert again == i.Submitted(job_id=first, duplicate=True, mismatch=True)


@pytest.mark.spec("REV-2.2")
def test_a_version_below_the_highest_is_refused(desk, submits):
    desk.submit("three", subject="cl-1", version=3)
    desk.submit("seven", subject="cl-1", version=7)
    before = desk.everything()
    assert desk.do(submits("five", subject="cl-1", version=5)) == i.VersionTooLow(highest=7)
    assert desk.everything() == before


@pytest.mark.spec("REV-2.2", "REV-2.3")
def test_a_higher_version_is_a_job_of_its_own_that_knows_what_it_repeats(desk, submits, say):
    first = desk.lease("one", subject="cl-1", version=1)
    desk.do(say.finish(first.job_id, first.fence))
    second = desk.submit("two", subject="cl-1", version=2)
    third = desk.submit("five", subject="cl-1", version=5)
    assert [desk.row("jobs", id=job_id)["rerun_of"] for job_id in (first.job_id, second, third)] == [
        None,
        first.job_id,
        second,
    ]
    assert desk.status(first.job_id) == "succeeded"
    assert desk.status(third) == "pending"


def test_versions_of_another_subject_or_pipeline_are_apart(desk, submits):
    desk.submit("a", subject="cl-1", version=9)
    for key, pipeline, subject in (("b", "review", "cl-2"), ("c", "other", "cl-1")):
        answer = desk.do(submits(key, pipeline=pipeline, subject=subject, version=1))
        assert (answer.duplicate, desk.row("jobs", id=answer.job_id)["rerun_of"]) == (False, None)


@pytest.mark.parametrize("values", [{"subject": "cl-1"}, {"subject": "cl-1", "version": 0}])
def test_a_subject_without_a_version_or_with_none_that_counts_is_refused_and_leaves_nothing(desk, submits, values):
    with pytest.raises(StoreRefusedError):
        desk.do(submits("key", **values))
    assert desk.rows("jobs") == desk.rows("queue") == []


@pytest.mark.spec("REV-2.1")
def test_concurrent_submits_of_one_version_under_other_keys_create_one_job(desk, submits):
    stores = [desk.store, *(desk.another() for _ in range(3))]

    async def rush():
        wanted = [submits(f"key-{number}", subject="cl-1", version=1) for number in range(40)]
        return await asyncio.gather(*[stores[number % 4].apply([each]) for number, each in enumerate(wanted)])

    answers = [answer for (answer,) in desk.run(rush())]
    assert [answer.duplicate for answer in answers].count(False) == 1
    assert len(desk.rows("jobs")) == 1


# --- the next version ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("REV-2.1", "REV-2.3")
def test_the_next_version_is_settled_where_it_is_written_and_the_same_key_has_the_same_one(desk, submits):
    first = desk.do(submits("cl-1#a", subject="cl-1", next_version=True))
    second = desk.do(submits("cl-1#b", subject="cl-1", next_version=True))
    assert (first.version, second.version, second.duplicate) == (1, 2, False)
    assert desk.row("jobs", id=second.job_id)["rerun_of"] == first.job_id
    again = desk.do(submits("cl-1#a", subject="cl-1", next_version=True, created_at=NOW + 9))
    assert again == i.Submitted(job_id=first.job_id, duplicate=True, version=1)
    assert desk.do(submits("given", subject="cl-1", version=7)).version is None
    assert desk.do(submits("cl-1#c", subject="cl-1", next_version=True)).version == 8
    assert desk.do(submits("other", subject="cl-2", next_version=True)).version == 1


def test_the_next_version_supersedes_older_ones_that_have_not_begun_to_deliver(desk, submits):
    older = desk.submit("one", subject="cl-1", version=1)
    answer = desk.do(submits("two", subject="cl-1", next_version=True, supersedes=("fetch",)))
    assert answer.superseded == (older,)
    assert (answer.version, desk.outcome(older)["reason"]) == (2, "superseded by version 2")


def test_the_next_version_is_above_what_somebody_was_told_also_when_its_job_is_gone(desk, submits):
    desk.submit("another")
    desk.write(
        "INSERT INTO deliveries (job_id, changelist_id, recipient, review_version, sender, token, required, created_at,"
        " changed_at) SELECT 99, 'cl-1', 'maildir:ada', 4, 'maildir', 'token', true, created_at, created_at FROM jobs"
    )
    assert desk.do(submits("new", subject="cl-1", next_version=True)).version == 5


def test_there_is_no_version_above_the_highest(desk, submits):
    desk.submit("last", subject="cl-1", version=i.HIGHEST_VERSION)
    assert desk.do(submits("more", subject="cl-1", next_version=True)) == i.VersionTooLow(highest=i.HIGHEST_VERSION)


@pytest.mark.spec("REV-2.1", "REV-2.2")
def test_concurrent_submits_of_new_contents_get_a_version_each_and_of_one_content_the_same(desk, submits):
    stores = [desk.store, *(desk.another() for _ in range(3))]

    async def rush():
        wanted = [submits(f"cl-1#{number % 10}", subject="cl-1", next_version=True) for number in range(40)]
        return await asyncio.gather(*[stores[number % 4].apply([each]) for number, each in enumerate(wanted)])

    answers = [answer for (answer,) in desk.run(rush())]
    assert sorted(answer.version for answer in answers if not answer.duplicate) == list(range(1, 11))
    assert sorted(row["version"] for row in desk.rows("jobs")) == list(range(1, 11))
    for number in range(10):
        assert len({(answer.job_id, answer.version) for answer in answers[number::10]}) == 1


# --- supersession ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [QueueState.READY, QueueState.SCHEDULED, QueueState.WAITING, QueueState.SUSPECT])
def test_a_newer_version_ends_an_older_one_that_nobody_runs(desk, submits, state):
    older = desk.bring(state, "one", subject="cl-1", version=1)
    answer = desk.do(submits("two", subject="cl-1", version=2, supersedes=("fetch", "llm"), created_at=NOW + 5))
    assert answer.superseded == (older,)
    assert desk.queued(older) is None
    ended = desk.outcome(older)
    assert (ended["status"], ended["reason"], ended["finished_at"]) == (
        "cancelled",
        "superseded by version 2",
        NOW + 5,
    )
    assert desk.status(answer.job_id) == "pending"


def test_a_newer_version_asks_for_an_older_one_that_runs_to_be_stopped(desk, submits):
    older = desk.bring(QueueState.LEASED, "one", subject="cl-1", version=1)
    answer = desk.do(submits("two", subject="cl-1", version=2, supersedes=("fetch",)))
    assert answer.superseded == (older,)
    row = desk.queued(older)
    assert (row["cancel_requested"], row["cancel_reason"]) == (True, "superseded by version 2")
    assert desk.outcome(older) is None


def test_an_older_version_that_is_further_on_or_over_or_of_another_subject_is_left(desk, submits, say):
    delivering = desk.lease("one", subject="cl-1", version=1)
    desk.do(say.checkpoint(delivering.job_id, delivering.fence, next_stage="notify"))
    done = desk.lease("two", subject="cl-1", version=2)
    desk.do(say.finish(done.job_id, done.fence))
    stranger = desk.submit("three", subject="cl-2", version=1)
    answer = desk.do(submits("four", subject="cl-1", version=3, supersedes=("fetch", "llm")))
    assert answer.superseded == ()
    assert not desk.queued(delivering.job_id)["cancel_requested"]
    assert desk.outcome(done.job_id)["status"] == "succeeded"
    assert desk.state(stranger) is QueueState.READY


def test_a_newer_version_that_supersedes_nothing_leaves_the_older_ones(desk):
    older = desk.submit("one", subject="cl-1", version=1)
    desk.submit("two", subject="cl-1", version=2)
    assert desk.state(older) is QueueState.READY
