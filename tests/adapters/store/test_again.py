"""A batch whose outcome was unknown is sent again: what had been done is answered as if it were done now, and done once."""

import pytest

from reprieve.ports import intents as i
from reprieve.ports.intents import Cancelled, QueueState, Written

NOW = 1_700_000_000.0
UNLEASED = ["complete", "retry", "bury", "skip", "review"]
LEASED = ["checkpoint", "finish", "retry", "bury", "skip", "review", "wait", "release", "remember"]


@pytest.mark.parametrize("name", LEASED)
def test_a_report_that_was_written_is_answered_as_applied_and_written_once(desk, say, name):
    lease = desk.lease()
    report = getattr(say, name)(lease.job_id, 1)
    assert desk.do(report) is Written.APPLIED
    before = desk.everything()
    assert desk.do(report, again=True) is Written.APPLIED
    assert desk.everything() == before


@pytest.mark.parametrize("name", LEASED)
def test_a_report_that_was_not_written_is_written_now(desk, say, name):
    lease = desk.lease()
    before = desk.everything()
    assert desk.do(getattr(say, name)(lease.job_id, 1), again=True) is Written.APPLIED
    assert desk.everything() != before


@pytest.mark.parametrize("name", [*LEASED, "stop"])
def test_a_report_of_a_lease_that_somebody_else_has_taken_over_is_stale_also_when_sent_again(desk, say, name):
    lost = desk.lease()
    desk.do(say.release(lost.job_id, 1))
    desk.claim(2)
    desk.do(say.cancel(lost.job_id))
    before = desk.everything()
    assert desk.do(getattr(say, name)(lost.job_id, 1), again=True) is Written.STALE
    assert desk.everything() == before


@pytest.mark.parametrize("name", UNLEASED)
def test_a_report_without_a_lease_is_answered_as_applied_and_counts_once(desk, say, name):
    job_id = desk.submit()
    report = getattr(say, name)(job_id, 0, **({} if name == "complete" else {"unleased": True}))
    assert desk.do(report) is Written.APPLIED
    before = desk.everything()
    assert desk.do(report, again=True) is Written.APPLIED
    assert desk.everything() == before


@pytest.mark.parametrize("name", ["retry", "release", "wait", "review", "checkpoint"])
def test_a_report_that_met_a_cancellation_meets_it_again(desk, say, name):
    lease = desk.lease()
    desk.do(say.cancel(lease.job_id))
    report = getattr(say, name)(lease.job_id, 1)
    assert desk.do(report) is Written.CANCELLED
    before = desk.everything()
    assert desk.do(report, again=True) is Written.CANCELLED
    assert desk.everything() == before


def test_a_job_that_was_stopped_is_stopped(desk, say):
    lease = desk.lease()
    desk.do(say.cancel(lease.job_id))
    assert desk.do(say.stop(lease.job_id, 1)) is Written.APPLIED
    assert desk.do(say.stop(lease.job_id, 1), again=True) is Written.APPLIED


def test_an_ending_is_not_taken_for_another_under_the_same_fence(desk, say):
    lease = desk.lease()
    desk.do(say.bury(lease.job_id, 1))
    assert desk.do(say.finish(lease.job_id, 1), again=True) is Written.STALE
    other = desk.lease("other")
    desk.do(say.finish(other.job_id, 1))
    assert desk.do(say.bury(other.job_id, 1), again=True) is Written.STALE
    third = desk.submit("third")
    desk.do(say.skip(third, 0, unleased=True))
    assert desk.do(say.complete(third, 0), again=True) is Written.STALE


def test_a_cancellation_that_was_done_is_done(desk, say):
    job_id = desk.submit()
    desk.do(say.cancel(job_id))
    assert desk.do(say.cancel(job_id)) is Cancelled.OVER
    assert desk.do(say.cancel(job_id), again=True) is Cancelled.DONE
    assert desk.do(say.cancel(job_id, actor="bob"), again=True) is Cancelled.OVER


def test_a_cancellation_that_was_asked_for_is_asked_for(desk, say):
    lease = desk.lease()
    desk.do(say.cancel(lease.job_id))
    assert desk.do(say.cancel(lease.job_id), again=True) is Cancelled.REQUESTED


@pytest.mark.spec("REV-1.2")
@pytest.mark.parametrize("values", [{}, {"run_at": NOW + 9}, {"subject": "cl-1", "version": 1}])
def test_a_submission_that_created_the_job_is_not_its_own_duplicate(desk, submits, values):
    job_id = desk.submit("key", **values)
    before = desk.everything()
    assert desk.do(submits("key", **values), again=True) == i.Submitted(job_id=job_id)
    later = submits("key", **(values | {"created_at": NOW + 1}))
    assert desk.do(later, again=True) == i.Submitted(job_id=job_id, duplicate=True)
    assert desk.everything() == before


def test_a_batch_of_which_some_was_there_before_is_told_apart(desk, submits):
    old = desk.submit("old")
    batch = [submits("new", created_at=NOW + 5), submits("old", created_at=NOW + 5)]
    first = desk.batch(*batch)
    assert desk.batch(*batch, again=True) == first
    assert first[1] == i.Submitted(job_id=old, duplicate=True)


def test_a_key_that_stands_twice_in_a_batch_that_was_lost_makes_one_job_and_its_duplicate(desk, submits):
    first, second = desk.batch(submits("key"), submits("key"), again=True)
    assert (first.duplicate, second) == (False, i.Submitted(job_id=first.job_id, duplicate=True))


def test_a_submission_that_was_lost_is_made_now(desk, submits):
    answer = desk.do(submits("key"), again=True)
    assert (answer.duplicate, desk.state(answer.job_id)) == (False, QueueState.READY)


def test_a_probe_that_was_granted_is_granted(desk):
    place = {"pipeline": "review", "stage": "fetch"}
    desk.do(i.Hold(**place, until=NOW, error_class="X", reason="x", now=NOW, opens=True))
    probe = i.Probe(**place, until=NOW + 60, now=NOW + 1)
    assert desk.do(probe) is True
    assert desk.do(probe, again=True) is True
    for until, now in ((NOW + 61, NOW + 1), (NOW + 60, NOW + 2)):
        assert desk.do(i.Probe(**place, until=until, now=now), again=True) is False, "somebody else's"


def test_a_claim_that_is_sent_again_returns_the_leases_whose_answer_was_lost(desk):
    job_id = desk.submit()
    claim = {"capacity": 5, "stages": {("review", "fetch"): 5}, "now": NOW, "worker_id": desk.register()}
    desk.do(i.Claim(**claim))
    (lease,) = desk.do(i.Claim(**claim, holding=frozenset()), again=True).leases
    assert (lease.job_id, lease.fence) == (job_id, 1)
