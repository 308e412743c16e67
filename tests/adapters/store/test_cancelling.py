"""Cancelling a job, wherever it stands."""

import pytest

from reprieve.ports import intents as i
from reprieve.ports.intents import Cancelled, QueueState, Written

NOW = 1_700_000_000.0


def asked_to_stop(desk, say):
    lease = desk.lease()
    assert desk.do(say.cancel(lease.job_id)) is Cancelled.REQUESTED
    return lease


def is_cancelled(desk, job_id, *, at):
    ended = desk.outcome(job_id)
    return desk.queued(job_id) is None and (
        ended["status"], ended["reason"], ended["ended_by"], ended["finished_at"], ended["result"],
    ) == ("cancelled", "not needed", "ann", at, None)  # fmt: skip


@pytest.mark.parametrize("state", [QueueState.READY, QueueState.SCHEDULED, QueueState.WAITING, QueueState.SUSPECT])
def test_a_job_that_nobody_runs_is_cancelled_at_once(desk, say, state):
    job_id = desk.bring(state)
    fence = desk.queued(job_id)["fence"]
    assert desk.do(say.cancel(job_id)) is Cancelled.DONE
    assert is_cancelled(desk, job_id, at=NOW + 1)
    ended = desk.outcome(job_id)
    assert (ended["stage"], ended["fence"]) == ("fetch", fence)
    assert desk.status(job_id) == "cancelled"


def test_a_job_that_waits_for_a_person_is_cancelled_at_once(desk, say):
    lease = desk.lease()
    desk.do(say.review(lease.job_id, 1))
    assert desk.do(say.cancel(lease.job_id)) is Cancelled.DONE
    assert is_cancelled(desk, lease.job_id, at=NOW + 1)


def test_the_worker_of_a_running_job_is_asked_to_stop_it(desk, say):
    worker = desk.register()
    lease = desk.lease(worker_id=worker)
    desk.lease("left alone", worker_id=worker)
    other = desk.lease("other", worker_id=worker + 1)
    assert desk.do(say.cancel(lease.job_id)) is Cancelled.REQUESTED
    assert desk.do(say.cancel(other.job_id)) is Cancelled.REQUESTED
    row = desk.queued(lease.job_id)
    assert (row["state"], row["cancel_requested"], row["cancelled_by"], row["cancel_reason"]) == (
        QueueState.LEASED, True, "ann", "not needed",
    )  # fmt: skip
    renewed = desk.do(i.Renew(worker_id=worker, now=NOW, expires_at=NOW + 60))
    assert renewed == i.Renewed(alive=True, cancel=(lease.job_id,))
    assert desk.status(lease.job_id) == "in_progress"


@pytest.mark.parametrize("ending", ["finish", "bury", "skip"])
def test_a_job_that_is_over_stays_as_it_ended(desk, say, ending):
    lease = desk.lease()
    desk.do(getattr(say, ending)(lease.job_id, 1))
    before = desk.everything()
    assert desk.do(say.cancel(lease.job_id)) is Cancelled.OVER
    assert desk.everything() == before


def test_a_job_that_was_cancelled_is_over(desk, say):
    job_id = desk.submit()
    desk.do(say.cancel(job_id))
    assert desk.do(say.cancel(job_id, actor="bob", now=NOW + 9)) is Cancelled.OVER
    assert is_cancelled(desk, job_id, at=NOW + 1)


def test_a_job_that_does_not_exist_is_unknown(desk, say):
    assert desk.do(say.cancel(404)) is Cancelled.UNKNOWN


def test_a_worker_that_stopped_the_job_ends_it(desk, say):
    lease = asked_to_stop(desk, say)
    assert desk.do(say.stop(lease.job_id, 1, now=NOW + 5)) is Written.APPLIED
    assert is_cancelled(desk, lease.job_id, at=NOW + 5)
    assert desk.outcome(lease.job_id)["fence"] == 1


def test_a_checkpoint_is_kept_and_tells_the_worker_not_to_go_on(desk, say):
    lease = asked_to_stop(desk, say)
    assert desk.do(say.checkpoint(lease.job_id, 1)) is Written.CANCELLED
    assert len(desk.rows("checkpoints", job_id=lease.job_id)) == 1
    assert desk.queued(lease.job_id)["stage"] == "llm"
    assert desk.do(say.stop(lease.job_id, 1, now=NOW + 5)) is Written.APPLIED
    assert is_cancelled(desk, lease.job_id, at=NOW + 5)


@pytest.mark.parametrize(("ending", "status"), [("finish", "succeeded"), ("bury", "dead_letter"), ("skip", "skipped")])
def test_a_job_that_ends_before_it_is_stopped_ends_as_it_did(desk, say, ending, status):
    lease = asked_to_stop(desk, say)
    assert desk.do(getattr(say, ending)(lease.job_id, 1)) is Written.APPLIED
    assert desk.status(lease.job_id) == status


@pytest.mark.parametrize("name", ["retry", "release", "wait", "review"])
def test_a_job_that_would_be_tried_again_or_wait_is_cancelled_instead(desk, say, name):
    lease = asked_to_stop(desk, say)
    assert desk.do(getattr(say, name)(lease.job_id, 1)) is Written.CANCELLED
    assert is_cancelled(desk, lease.job_id, at=NOW + 1)


@pytest.mark.parametrize("name", ["retry", "review"])
@pytest.mark.parametrize("again", [False, True])
def test_a_report_without_a_lease_does_not_stop_a_job_in_its_workers_place(desk, say, name, again):
    lease = asked_to_stop(desk, say)
    before = desk.everything()
    report = getattr(say, name)(lease.job_id, lease.fence, unleased=True)
    assert desk.do(report, again=again) is Written.STALE
    assert desk.everything() == before


def test_a_memo_is_kept_while_the_job_is_being_stopped(desk, say):
    lease = asked_to_stop(desk, say)
    assert desk.do(say.remember(lease.job_id, 1)) is Written.APPLIED
    assert len(desk.rows("memos")) == 1
