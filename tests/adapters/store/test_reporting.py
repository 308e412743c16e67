"""What a worker says about its jobs: each report changes what it should, and only while the fence is the job's."""

import pytest

from reprieve.core.policy import Cause
from reprieve.ports import intents as i
from reprieve.ports.intents import QueueState, Written

NOW = 1_700_000_000.0
FENCED = ["checkpoint", "finish", "retry", "bury", "skip", "review", "wait", "release", "remember", "stop"]


def counters(row):
    return i.Counters(**{name: row[name] for name in i.Counters.__slots__})


# --- success ---------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("CRIT-3.1", "CRIT-3.3", "CRIT-3.5")
def test_a_checkpoint_keeps_the_result_and_moves_the_job_on_under_the_same_lease_with_a_fresh_budget(desk, say):
    lease = desk.lease()
    desk.do(say.release(lease.job_id, 1, counters=i.Counters(handler=3, lost_lease=1, deploy=4)))
    desk.claim(7, now=NOW + 5)
    answer = desk.do(say.checkpoint(lease.job_id, 2, attempt=4, started_at=NOW + 5, finished_at=NOW + 8))
    assert answer is Written.APPLIED
    row = desk.queued(lease.job_id)
    assert (row["stage"], row["state"], row["fence"], row["worker_id"]) == ("llm", QueueState.LEASED, 2, 7)
    assert (counters(row), row["opened_at"], row["alone"]) == (i.Counters(), NOW + 8, False)
    kept = desk.row("checkpoints", job_id=lease.job_id)
    assert (kept["stage"], kept["fence"], kept["attempt"], bytes(kept["result"]), kept["result_type"]) == (
        "fetch", 2, 4, b'"diff"', "Diff",
    )  # fmt: skip
    assert (kept["started_at"], kept["finished_at"]) == (NOW + 5, NOW + 8)
    assert desk.status(lease.job_id) == "in_progress"


def test_a_checkpoint_of_a_stage_that_is_run_again_replaces_the_one_before(desk, say):
    lease = desk.lease()
    desk.do(say.checkpoint(lease.job_id, 1, result=b"1"))
    desk.do(say.checkpoint(lease.job_id, 1, result=b"2", result_type="Other"))
    (kept,) = desk.rows("checkpoints", job_id=lease.job_id)
    assert (bytes(kept["result"]), kept["result_type"]) == (b"2", "Other")


def test_a_job_that_ran_alone_runs_among_others_in_its_next_stage(desk, say):
    job_id = desk.bring(QueueState.SUSPECT)
    desk.claim(1, suspects=True)
    desk.do(say.checkpoint(job_id, 2))
    row = desk.queued(job_id)
    assert (row["alone"], counters(row)) == (False, i.Counters())
    desk.do(say.release(job_id, 2, counters=i.Counters()))
    (lease,) = desk.claim(1, "llm")
    assert (lease.alone, lease.counters, lease.opened_at) == (False, i.Counters(), NOW + 1)


def test_a_finished_job_has_succeeded_and_leaves_the_queue(desk, say):
    lease = desk.lease()
    assert desk.do(say.finish(lease.job_id, 1, attempt=2, started_at=NOW + 1, finished_at=NOW + 2)) is Written.APPLIED
    assert desk.queued(lease.job_id) is None
    ended = desk.outcome(lease.job_id)
    assert (ended["status"], ended["status_code"], ended["stage"], ended["fence"], ended["attempt"]) == (
        "succeeded", None, "fetch", 1, 2,
    )  # fmt: skip
    assert (bytes(ended["result"]), ended["result_type"], ended["started_at"], ended["finished_at"]) == (
        b'"done"', "Review", NOW + 1, NOW + 2,
    )  # fmt: skip
    assert desk.status(lease.job_id) == "succeeded"
    assert desk.claim() == ()


def test_reports_of_many_jobs_go_in_one_batch_each_with_its_own_answer(desk, say):
    leases = {key: desk.lease(key) for key in "abcdef"}
    jobs = {key: lease.job_id for key, lease in leases.items()}
    answers = desk.batch(
        say.finish(jobs["a"], 1),
        say.checkpoint(jobs["b"], 1),
        say.finish(jobs["c"], 9),
        say.retry(jobs["d"], 1),
        say.checkpoint(jobs["e"], 9),
        say.bury(jobs["f"], 1),
    )
    applied, stale = Written.APPLIED, Written.STALE
    assert answers == [applied, applied, stale, applied, stale, applied]
    assert {key: desk.status(job_id) for key, job_id in jobs.items()} == {
        "a": "succeeded", "b": "in_progress", "c": "in_progress", "d": "retryable_failed", "e": "in_progress",
        "f": "dead_letter",
    }  # fmt: skip


# --- failure ---------------------------------------------------------------------------------------------------------------


def test_a_retry_is_scheduled_with_its_attempt_written_down(desk, say):
    lease = desk.lease()
    record = say.attempt(
        number=2, cause=Cause.HANDLER, counted=False, status_code=503, message="it said 503", failure_count=2,
        error_type="rate_limit", worker_id=7,
    )  # fmt: skip
    used = i.Counters(handler=2, deploy=1)
    assert desk.do(say.retry(lease.job_id, 1, counters=used, opened_at=NOW - 5, attempt=record)) is Written.APPLIED
    row = desk.queued(lease.job_id)
    assert (row["state"], row["run_at"], row["stage"], row["opened_at"], counters(row)) == (
        QueueState.SCHEDULED, NOW + 3, "fetch", NOW - 5, used,
    )  # fmt: skip
    assert (row["worker_id"], row["leased_at"], row["fence"]) == (None, None, 1)
    kept = desk.row("attempts", job_id=lease.job_id)
    assert {name: kept[name] for name in record.__slots__} == {name: getattr(record, name) for name in record.__slots__}
    assert kept["fence"] == 1
    assert desk.status(lease.job_id) == "retryable_failed"


@pytest.mark.spec("CRIT-3.1")
def test_a_retry_may_send_the_job_to_another_stage(desk, say):
    lease = desk.lease()
    desk.do(say.checkpoint(lease.job_id, 1))
    desk.do(say.retry(lease.job_id, 1, stage="fetch", run_at=NOW))
    desk.do(i.Promote(now=NOW))
    assert [each.stage for each in desk.claim(1, "fetch", "llm")] == ["fetch"]


def test_a_job_for_a_person_stands_at_the_stage_that_its_attempt_names(desk, say):
    job_id = desk.submit()
    record = say.attempt(stage="llm", decision="park", retry_at=None)
    desk.do(say.review(job_id, 0, attempt=record, unleased=True))
    assert desk.queued(job_id)["stage"] == "llm"


@pytest.mark.spec("ING-3.3", "CRIT-3.4", "CRIT-4.6")
def test_a_buried_job_is_a_dead_letter_with_code_599_and_its_attempt_in_one_write(desk, say):
    lease = desk.lease()
    record = say.attempt(decision="dead_letter", retry_at=None, number=5, started_at=NOW + 4, ended_at=NOW + 6)
    found = say.letter(
        error_class="AUTH_DENIED", message="denied", last_stack="Traceback: here", sanitized_context='{"stage": "fetch"}',
        pages=True, escalated=True, status_code=401, last_failure_at=NOW + 6,
    )  # fmt: skip
    assert desk.do(say.bury(lease.job_id, 1, attempt=record, letter=found)) is Written.APPLIED
    assert desk.queued(lease.job_id) is None
    ended = desk.outcome(lease.job_id)
    assert (ended["status"], ended["status_code"], ended["stage"], ended["attempt"], ended["finished_at"]) == (
        "dead_letter", 599, "fetch", 5, NOW + 6,
    )  # fmt: skip
    assert (ended["result"], ended["reason"]) == (None, "budget_spent")
    kept = desk.letter(lease.job_id)
    assert {name: kept[name] for name in found.__slots__} == {name: getattr(found, name) for name in found.__slots__}
    assert (kept["fence"], kept["state"], kept["opened_at"], kept["first_failure_at"]) == (1, "open", NOW + 6, NOW + 6)
    assert desk.row("attempts", job_id=lease.job_id)["decision"] == "dead_letter"
    assert (desk.status(lease.job_id), desk.shown(lease.job_id)["status_code"]) == ("dead_letter", 599)


@pytest.mark.spec("CRIT-4.6")
def test_the_first_failure_of_a_dead_letter_is_the_earliest_attempt_of_that_job_and_stage(desk, say):
    stranger, lease = desk.lease("stranger"), desk.lease("ours")
    desk.do(say.retry(stranger.job_id, 1, attempt=say.attempt(ended_at=NOW - 900)))
    early = say.attempt(ended_at=NOW - 500, started_at=NOW - 501)
    desk.do(say.retry(lease.job_id, 1, run_at=NOW, attempt=early))
    desk.do(i.Promote(now=NOW))
    desk.claim()
    desk.do(say.checkpoint(lease.job_id, 2))
    for fence, ended_at in ((2, NOW + 100), (3, NOW + 200)):
        record = say.attempt(stage="llm", ended_at=ended_at, retry_at=ended_at)
        desk.do(say.retry(lease.job_id, fence, stage="llm", run_at=ended_at, attempt=record))
        desk.do(i.Promote(now=ended_at))
        desk.claim(1, "llm")
    last = say.attempt(stage="llm", decision="dead_letter", retry_at=None, ended_at=NOW + 300)
    found = say.letter(stage="llm", last_failure_at=NOW + 300)
    desk.do(say.bury(lease.job_id, 4, attempt=last, letter=found))
    kept = desk.row("dead_letters", job_id=lease.job_id)
    assert (kept["first_failure_at"], kept["last_failure_at"]) == (NOW + 100, NOW + 300)


def test_a_skipped_job_is_over(desk, say):
    lease = desk.lease()
    assert desk.do(say.skip(lease.job_id, 1)) is Written.APPLIED
    ended = desk.outcome(lease.job_id)
    assert (ended["status"], ended["reason"], ended["status_code"]) == ("skipped", "NETWORK_TIMEOUT", None)
    assert desk.queued(lease.job_id) is None
    assert len(desk.rows("attempts", job_id=lease.job_id)) == 1


def test_a_job_for_a_person_waits_on_a_review_without_a_lease(desk, say):
    lease = desk.lease()
    assert desk.do(say.review(lease.job_id, 1, counters=i.Counters(handler=2))) is Written.APPLIED
    row = desk.queued(lease.job_id)
    assert (row["state"], row["waits_on"], row["worker_id"], row["leased_at"]) == (
        QueueState.WAITING, "review", None, None,
    )  # fmt: skip
    assert counters(row) == i.Counters(handler=2)
    assert desk.status(lease.job_id) == "needs_review"
    assert len(desk.rows("attempts", job_id=lease.job_id)) == 1
    assert desk.claim() == ()


@pytest.mark.parametrize("name", ["bury", "skip", "review"])
def test_a_failure_that_every_job_would_meet_pauses_the_stage_too(desk, say, name):
    desk.submit("other")
    lease = desk.lease()
    decision = "dead_letter" if name == "bury" else "park"
    record = say.attempt(decision=decision, retry_at=None, error_class="CONFIG_MISSING", ended_at=NOW + 7)
    desk.do(getattr(say, name)(lease.job_id, 1, attempt=record, pause=True))
    row = desk.stage()
    assert (row["paused"], row["paused_by"], row["reason"], row["changed_at"]) == (
        True, "reprieve", "CONFIG_MISSING", NOW + 7,
    )  # fmt: skip
    assert desk.claim() == ()


def test_a_stale_report_does_not_pause_a_stage(desk, say):
    lease = desk.lease()
    assert desk.do(say.bury(lease.job_id, 9, pause=True)) is Written.STALE
    assert desk.do(say.review(lease.job_id, 9, pause=True)) is Written.STALE
    assert not (desk.stage() or {"paused": False})["paused"]


# --- giving back -----------------------------------------------------------------------------------------------------------


def test_a_job_that_waits_keeps_its_counters_and_has_no_lease(desk, say):
    lease = desk.lease()
    desk.do(say.release(lease.job_id, 1, counters=i.Counters(handler=2)))
    desk.claim()
    assert desk.do(say.wait(lease.job_id, 2, waits_on="deploy:Diff")) is Written.APPLIED
    row = desk.queued(lease.job_id)
    assert (row["state"], row["waits_on"], row["worker_id"], row["leased_at"]) == (
        QueueState.WAITING, "deploy:Diff", None, None,
    )  # fmt: skip
    assert counters(row) == i.Counters(handler=2)
    assert desk.status(lease.job_id) == "in_progress"
    assert desk.rows("attempts") == []


def test_a_released_job_is_ready_at_once_at_no_cost(desk, say):
    lease = desk.lease()
    assert desk.do(say.release(lease.job_id, 1, counters=i.Counters(deploy=1))) is Written.APPLIED
    row = desk.queued(lease.job_id)
    assert (row["state"], row["stage"], row["worker_id"], counters(row)) == (
        QueueState.READY, "fetch", None, i.Counters(deploy=1),
    )  # fmt: skip
    assert desk.status(lease.job_id) == "in_progress"
    assert desk.rows("attempts") == []


def test_a_job_that_is_released_for_later_is_scheduled(desk, say):
    lease = desk.lease()
    desk.do(say.release(lease.job_id, 1, run_at=NOW + 30))
    assert (desk.state(lease.job_id), desk.queued(lease.job_id)["run_at"]) == (QueueState.SCHEDULED, NOW + 30)


@pytest.mark.parametrize("used", [i.Counters(crash=1), i.Counters(out_of_memory=2, handler=1)])
def test_a_job_that_was_there_when_a_worker_died_is_released_as_a_suspect(desk, say, used):
    lease = desk.lease()
    desk.do(say.release(lease.job_id, 1, counters=used))
    assert (desk.state(lease.job_id), counters(desk.queued(lease.job_id))) == (QueueState.SUSPECT, used)
    assert desk.status(lease.job_id) == "retryable_failed"


# --- memos -----------------------------------------------------------------------------------------------------------------


def test_the_first_value_under_a_key_is_remembered(desk, say):
    lease = desk.lease()
    assert desk.do(say.remember(lease.job_id, 1, key="a", value=b"1")) is Written.APPLIED
    assert desk.do(say.remember(lease.job_id, 1, key="a", value=b"2")) is Written.APPLIED
    assert desk.do(say.remember(lease.job_id, 1, key="b", value=b"3")) is Written.APPLIED
    assert desk.do(say.remember(lease.job_id, 1, key="a", stage="llm", value=b"4")) is Written.APPLIED
    found = {memo.stage: memo.data for memo in desk.run(desk.store.memos(lease.job_id, "fetch"))}
    assert found == {"a": b"1", "b": b"3"}
    assert desk.queued(lease.job_id)["state"] == QueueState.LEASED


def test_a_memo_outlives_the_attempt_that_made_it(desk, say):
    lease = desk.lease()
    desk.do(say.remember(lease.job_id, 1))
    desk.do(say.retry(lease.job_id, 1))
    assert [memo.data for memo in desk.run(desk.store.memos(lease.job_id, "fetch"))] == [b"1"]
    assert desk.run(desk.store.memos(lease.job_id, "llm")) == []


# --- fences ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FENCED)
def test_of_two_workers_that_both_believe_they_own_a_job_the_fence_lets_one_write(desk, say, name):
    lost = desk.lease()
    desk.do(say.release(lost.job_id, lost.fence))
    (held,) = desk.claim(2)
    if name == "stop":
        desk.do(say.cancel(lost.job_id))
    before = desk.everything()
    assert desk.do(getattr(say, name)(lost.job_id, lost.fence)) is Written.STALE
    assert desk.everything() == before
    assert desk.do(getattr(say, name)(held.job_id, held.fence)) is Written.APPLIED


@pytest.mark.parametrize("name", FENCED)
@pytest.mark.parametrize("ending", ["finish", "retry", "wait", "release", "bury"])
def test_nothing_is_written_about_a_job_that_is_no_longer_leased(desk, say, name, ending):
    lease = desk.lease()
    desk.do(getattr(say, ending)(lease.job_id, 1))
    before = desk.everything()
    assert desk.do(getattr(say, name)(lease.job_id, 1)) is Written.STALE
    assert desk.everything() == before


@pytest.mark.parametrize("name", [*FENCED, "complete"])
def test_nothing_is_written_about_a_job_that_does_not_exist(desk, say, name):
    before = desk.everything()
    assert desk.do(getattr(say, name)(404, 1)) is Written.STALE
    assert desk.everything() == before


def test_a_job_that_nobody_asked_to_cancel_is_not_stopped(desk, say):
    lease = desk.lease()
    assert desk.do(say.stop(lease.job_id, 1)) is Written.STALE
    assert desk.state(lease.job_id) is QueueState.LEASED


# --- callers who run their own loop ----------------------------------------------------------------------------------------


def test_a_job_that_nobody_has_leased_can_be_completed(desk, say):
    job_id = desk.submit()
    assert desk.do(say.complete(job_id, 0)) is Written.APPLIED
    ended = desk.outcome(job_id)
    assert (ended["status"], ended["attempt"], ended["finished_at"], bytes(ended["result"])) == (
        "succeeded", 1, NOW + 1, b'"done"',
    )  # fmt: skip
    assert desk.queued(job_id) is None


@pytest.mark.parametrize("name", ["retry", "review"])
def test_a_report_without_a_lease_counts_once(desk, say, name):
    job_id = desk.submit()
    report = getattr(say, name)(job_id, 0, unleased=True)
    assert desk.do(report) is Written.APPLIED
    assert desk.do(report) is Written.STALE
    assert len(desk.rows("attempts", job_id=job_id)) == 1
    assert desk.queued(job_id)["fence"] == 1
    assert desk.state(job_id) is (QueueState.SCHEDULED if name == "retry" else QueueState.WAITING)


@pytest.mark.parametrize("state", [QueueState.READY, QueueState.SCHEDULED, QueueState.WAITING, QueueState.SUSPECT])
def test_a_job_that_nobody_has_leased_can_be_buried_or_retried(desk, say, state):
    job_id = desk.bring(state)
    fence = desk.queued(job_id)["fence"]
    assert desk.do(say.retry(job_id, fence, unleased=True)) is Written.APPLIED
    row = desk.queued(job_id)
    assert (row["state"], row["waits_on"]) == (QueueState.SCHEDULED, None)
    assert desk.do(say.bury(job_id, fence + 1, unleased=True)) is Written.APPLIED
    assert desk.status(job_id) == "dead_letter"


@pytest.mark.parametrize("name", ["retry", "bury", "skip", "review", "complete"])
def test_a_report_without_a_lease_takes_none_away(desk, say, name):
    lease = desk.lease()
    before = desk.everything()
    values = {} if name == "complete" else {"unleased": True}
    assert desk.do(getattr(say, name)(lease.job_id, lease.fence, **values)) is Written.STALE
    assert desk.everything() == before
