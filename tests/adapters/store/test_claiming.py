"""Claims: who gets which job, in what order, and what never is given away."""

import asyncio

import pytest

from reprieve.core.policy import Cause
from reprieve.ports import intents as i
from reprieve.ports.intents import QueueState

NOW = 1_700_000_000.0


def ids(leases):
    return [lease.job_id for lease in leases]


def test_a_lease_holds_all_that_is_needed_to_run_the_stage(desk, submits):
    job_id = desk.do(submits("cl-42@3", payload=b'{"n": 1}', priority=5, subject="cl-42", version=3)).job_id
    assert desk.claim(7) == (
        i.Lease(
            job_id=job_id, fence=1, pipeline="review", stage="fetch", idempotency_key="cl-42@3", payload=b'{"n": 1}',
            payload_type="Change", created_at=NOW, priority=5, subject="cl-42", version=3,
        ),
    )  # fmt: skip
    row = desk.queued(job_id)
    assert (row["state"], row["worker_id"], row["leased_at"], row["opened_at"], row["fence"], row["alone"]) == (
        QueueState.LEASED, 7, NOW, NOW, 1, False,
    )  # fmt: skip
    assert desk.status(job_id) == "in_progress"


def test_higher_priority_comes_first_then_the_lower_id(desk):
    low, high, middle, other = (desk.submit(key, priority=p) for key, p in (("a", -1), ("b", 9), ("c", 0), ("d", 9)))
    assert ids(desk.claim(capacity=1)) == [high]
    assert ids(desk.claim()) == [other, middle, low]


def test_order_holds_across_stages(desk, submits):
    wanted = [("a", "llm", 0), ("b", "fetch", 0), ("c", "llm", 5), ("d", "fetch", 5), ("e", "llm", 0)]
    a, b, c, d, e = (desk.do(submits(key, stage=stage, priority=p)).job_id for key, stage, p in wanted)
    assert ids(desk.claim(1, "fetch", "llm", capacity=3)) == [c, d, a]
    assert ids(desk.claim(1, "fetch", "llm")) == [b, e]


def test_no_more_is_taken_than_there_is_capacity_for(desk):
    first, second, third = (desk.submit(key) for key in "abc")
    assert ids(desk.claim(capacity=2)) == [first, second]
    assert desk.claim(capacity=0) == ()
    assert ids(desk.claim(capacity=2)) == [third]


def test_no_more_is_taken_of_a_stage_than_the_worker_can_take_of_it(desk, submits):
    fetches = [desk.do(submits(f"f{n}", stage="fetch")).job_id for n in range(3)]
    models = [desk.do(submits(f"m{n}", stage="llm")).job_id for n in range(3)]
    taken = desk.claim(stages={("review", "fetch"): 1, ("review", "llm"): 2, ("review", "notify"): 5})
    assert sorted(ids(taken)) == [fetches[0], *models[:2]]
    assert desk.claim(stages={("review", "fetch"): 0}) == ()


def test_only_stages_that_the_worker_knows_are_taken(desk, submits):
    desk.do(submits("a", stage="llm"))
    desk.do(submits("b", pipeline="other"))
    assert desk.claim(1, "fetch", "notify") == ()
    assert desk.claim(stages={}) == ()


def test_a_leased_job_is_not_given_to_another(desk):
    desk.lease()
    assert desk.claim(2) == ()


def test_concurrent_claims_never_share_a_job(desk, submits):
    desk.batch(*[submits(f"key-{number}") for number in range(60)])
    stores = [desk.store, *(desk.another() for _ in range(3))]
    workers = [desk.register() for _ in range(12)]

    async def rush():
        claims = [
            i.Claim(worker_id=workers[number], capacity=7, stages={("review", "fetch"): 7}, now=NOW)
            for number in range(12)
        ]
        return await asyncio.gather(*[stores[number % 4].apply([claim]) for number, claim in enumerate(claims)])

    taken = [job_id for (answer,) in desk.run(rush()) for job_id in ids(answer.leases)]
    assert len(taken) == len(set(taken))
    taken += ids(desk.claim(99))
    assert sorted(taken) == [row["id"] for row in desk.rows("jobs")]


def test_several_claims_in_one_batch_get_jobs_of_their_own(desk, submits):
    desk.batch(*[submits(f"key-{number}") for number in range(5)])
    stages = {("review", "fetch"): 10}
    one, two = desk.register(), desk.register()
    first, second = desk.batch(
        i.Claim(worker_id=one, capacity=3, stages=stages, now=NOW),
        i.Claim(worker_id=two, capacity=3, stages=stages, now=NOW),
    )
    assert (len(first.leases), len(second.leases)) == (3, 2)
    assert not set(ids(first.leases)) & set(ids(second.leases))


def test_each_claim_of_a_job_has_a_higher_fence_and_tells_when_the_stage_was_first_begun(desk, say):
    lease = desk.lease()
    assert (lease.fence, lease.opened_at) == (1, None)
    desk.do(say.release(lease.job_id, lease.fence, counters=i.Counters(deploy=2)))
    (second,) = desk.claim(2, now=NOW + 50)
    assert (second.fence, second.opened_at, second.counters) == (2, NOW, i.Counters(deploy=2))
    row = desk.queued(lease.job_id)
    assert (row["opened_at"], row["leased_at"], row["worker_id"]) == (NOW, NOW + 50, 2)


def test_a_lease_carries_the_results_of_the_stages_before_in_order(desk, say):
    lease = desk.lease()
    desk.do(say.checkpoint(lease.job_id, 1, result=b"1", result_type="A", finished_at=NOW + 1))
    desk.do(
        say.checkpoint(
            lease.job_id, 1, stage="llm", next_stage="a last one", result=b"2", result_type="B", finished_at=NOW + 2
        )
    )
    desk.do(say.release(lease.job_id, 1))
    (again,) = desk.claim(1, "a last one")
    assert again.results == (
        i.StoredResult(stage="fetch", data=b"1", type="A"),
        i.StoredResult(stage="llm", data=b"2", type="B"),
    )


def test_results_do_not_stray_between_jobs(desk, say):
    one, two = desk.lease("one"), desk.lease("two")
    for lease, result in ((one, b"1"), (two, b"2")):
        desk.do(say.checkpoint(lease.job_id, 1, result=result))
        desk.do(say.release(lease.job_id, 1))
    fresh = desk.submit("three", stage="llm")
    found = {lease.job_id: [result.data for result in lease.results] for lease in desk.claim(1, "llm")}
    assert found == {one.job_id: [b"1"], two.job_id: [b"2"], fresh: []}


def test_an_erased_payload_is_none(desk):
    job_id = desk.submit()
    desk.write("UPDATE jobs SET payload = NULL")
    (lease,) = desk.claim()
    assert (lease.job_id, lease.payload) == (job_id, None)


def test_a_claim_after_an_unknown_outcome_returns_what_the_worker_does_not_know_it_holds(desk, submits):
    known, unknown = desk.submit("a"), desk.submit("b", payload=b"[1]")
    desk.claim(7)
    desk.submit("c")
    (lease,) = desk.claim(7, holding=frozenset({known}))
    assert (lease.job_id, lease.fence, lease.payload) == (unknown, 1, b"[1]")
    assert desk.queued(unknown)["fence"] == 1
    assert len(desk.claim(7, holding=frozenset({known, unknown}))) == 1
    assert desk.claim(8, holding=frozenset()) == ()


@pytest.mark.parametrize("suspects", [False, True])
def test_a_worker_that_is_unknown_or_was_given_up_gets_nothing(desk, suspects):
    desk.submit()
    desk.bring(QueueState.SUSPECT, "other")
    worker = desk.register()
    desk.do(i.Lost(worker_id=worker, cause=Cause.CRASH, now=NOW))
    for worker_id in (worker, 404):
        claim = i.Claim(worker_id=worker_id, capacity=9, stages={("review", "fetch"): 9}, now=NOW, suspects=suspects)
        assert desk.do(claim).leases == ()


# --- stages that are closed ----------------------------------------------------------------------------------------------


def test_a_paused_stage_is_not_claimed_until_it_is_resumed(desk):
    desk.submit()
    desk.do(i.Pause(pipeline="review", stage="fetch", actor="ann", reason="upgrade", now=NOW))
    assert desk.claim() == ()
    assert desk.claim(probe=True) == ()
    desk.do(i.Resume(pipeline="review", stage="fetch", actor="ann", now=NOW))
    assert len(desk.claim()) == 1


def test_a_held_stage_is_claimed_once_its_time_is_over(desk):
    desk.submit()
    desk.do(i.Hold(pipeline="review", stage="fetch", until=NOW + 30, error_class="RATE_LIMITED", reason="429", now=NOW))
    assert desk.claim(now=NOW + 29) == ()
    assert desk.claim(now=NOW + 29, probe=True) == ()
    assert len(desk.claim(now=NOW + 30)) == 1


def test_a_stage_whose_breaker_is_open_is_claimed_only_by_a_probe_and_not_before_its_hold_is_over(desk):
    desk.submit("a")
    desk.submit("b")
    desk.do(
        i.Hold(
            pipeline="review", stage="fetch", until=NOW + 30, error_class="UPSTREAM", reason="5", now=NOW, opens=True
        )
    )
    assert desk.claim(now=NOW + 29, probe=True) == ()
    assert desk.claim(now=NOW + 31) == ()
    assert len(desk.claim(now=NOW + 31, probe=True, capacity=1)) == 1
    desk.do(i.Close(pipeline="review", stage="fetch", now=NOW + 32))
    assert len(desk.claim(now=NOW + 32)) == 1


def test_a_closed_stage_does_not_keep_others_from_being_claimed(desk, submits):
    desk.submit("a")
    open_one = desk.do(submits("b", stage="llm")).job_id
    desk.do(i.Pause(pipeline="review", stage="fetch", actor="ann", reason="x", now=NOW))
    desk.do(i.Pause(pipeline="other", stage="llm", actor="ann", reason="x", now=NOW))
    assert ids(desk.claim(1, "fetch", "llm")) == [open_one]


# --- suspects --------------------------------------------------------------------------------------------------------------


def test_suspects_are_run_alone_and_one_at_a_time(desk):
    suspects = {desk.bring(QueueState.SUSPECT, key) for key in "ab"}
    ready = desk.submit("c")
    plain = desk.claimed()
    assert (ids(plain.leases), plain.suspects) == ([ready], True)
    (first,) = desk.claim(1, suspects=True)
    assert (first.job_id in suspects, first.alone, first.fence) == (True, True, 2)
    assert desk.queued(first.job_id)["alone"]
    (second,) = desk.claim(2, suspects=True)
    assert {first.job_id, second.job_id} == suspects
    assert desk.claim(3, suspects=True) == ()
    assert desk.claimed(3).suspects is False


def test_the_suspect_with_the_highest_priority_then_the_lowest_id_comes_first_over_all_stages(desk, submits, say):
    wanted = [("a", "llm", 0), ("b", "fetch", 0), ("c", "fetch", 5), ("d", "llm", 5), ("e", "fetch", 9)]
    a, b, c, d, e = (desk.do(submits(key, stage=stage, priority=p)).job_id for key, stage, p in wanted)
    for lease in desk.claim(1, "fetch", "llm"):
        desk.do(say.release(lease.job_id, lease.fence, counters=i.Counters(crash=1)))
    taken = [desk.claimed(1, "fetch", "llm", suspects=True) for _ in range(6)]
    assert [ids(each.leases) for each in taken] == [[e], [c], [d], [a], [b], []]
    assert [each.suspects for each in taken] == [True] * 4 + [False] * 2


def test_a_suspect_that_is_released_is_no_longer_marked_as_running_alone(desk, say):
    desk.bring(QueueState.SUSPECT)
    (lease,) = desk.claim(1, suspects=True)
    desk.do(say.release(lease.job_id, lease.fence, counters=i.Counters()))
    assert not desk.queued(lease.job_id)["alone"]
    assert desk.claim()[0].alone is False


def test_suspects_of_stages_that_are_closed_or_not_the_workers_are_not_told_of(desk):
    desk.bring(QueueState.SUSPECT)
    assert desk.claimed(1, "llm").suspects is False
    desk.do(i.Pause(pipeline="review", stage="fetch", actor="ann", reason="x", now=NOW))
    assert desk.claimed().suspects is False
    assert desk.claim(suspects=True) == ()


# --- what is due -----------------------------------------------------------------------------------------------------------


def test_a_scheduled_job_becomes_ready_when_it_is_promoted_and_not_before_it_is_due(desk):
    job_id = desk.submit(run_at=NOW + 60)
    assert desk.do(i.Promote(now=NOW + 59)) == i.Promoted(count=0, next_due=NOW + 60)
    assert desk.claim(now=NOW + 100) == ()
    assert desk.do(i.Promote(now=NOW + 60)) == i.Promoted(count=1, next_due=None)
    assert desk.state(job_id) is QueueState.READY
    assert ids(desk.claim()) == [job_id]


def test_promotion_is_bounded_and_tells_that_more_is_due(desk):
    earliest, _, later = (desk.submit(key, run_at=NOW + due) for key, due in (("a", 1), ("b", 2), ("c", 90)))
    assert desk.do(i.Promote(now=NOW + 5, limit=1)) == i.Promoted(count=1, next_due=NOW + 2)
    assert desk.state(earliest) is QueueState.READY
    assert desk.do(i.Promote(now=NOW + 5, limit=1)) == i.Promoted(count=1, next_due=NOW + 90)
    assert desk.state(later) is QueueState.SCHEDULED


def test_a_job_that_a_worker_died_on_is_promoted_to_a_suspect(desk, say):
    lease = desk.lease()
    desk.do(say.retry(lease.job_id, 1, counters=i.Counters(out_of_memory=1)))
    assert desk.state(lease.job_id) is QueueState.SCHEDULED
    desk.do(i.Promote(now=NOW + 3))
    assert desk.state(lease.job_id) is QueueState.SUSPECT


@pytest.mark.parametrize("state", [QueueState.LEASED, QueueState.SCHEDULED, QueueState.WAITING, QueueState.SUSPECT])
def test_only_ready_jobs_are_claimed(desk, state):
    desk.bring(state)
    assert desk.claim(2) == ()
