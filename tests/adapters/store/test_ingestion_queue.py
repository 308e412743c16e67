"""The view `ingestion_queue`: what became of each item, under the names of its specification."""

import pytest

from reprieve.ports import intents as i

NOW = 1_700_000_000.0
FIELDS = (
    "failure_count", "last_failed_step", "last_error_message", "last_error_signature", "last_error_at", "error_type",
    "error_retryable", "retry_after",
)  # fmt: skip


def fields_of(desk, job_id):
    shown = desk.shown(job_id)
    values = tuple(shown[name] for name in FIELDS)
    return (*values[:6], None if values[6] is None else bool(values[6]), values[7])


def test_an_item_that_has_not_failed_shows_nothing_of_a_failure(desk):
    job_id = desk.submit("key")
    shown = desk.shown(job_id)
    assert (shown["id"], shown["idempotency_key"], shown["pipeline"]) == (job_id, "key", "review")
    assert (shown["status"], shown["status_code"]) == ("pending", None)
    assert fields_of(desk, job_id) == (0, None, None, None, None, None, None, None)


@pytest.mark.spec("ING-4.1")
def test_an_item_that_failed_shows_its_last_failure_and_when_it_is_tried_again(desk, say):
    lease = desk.lease()
    desk.do(say.retry(lease.job_id, 1, run_at=NOW))
    desk.do(i.Promote(now=NOW))
    desk.claim()
    record = say.attempt(
        failure_count=2, message="429 too many requests", signature="N too many requests", ended_at=NOW + 7,
        error_type="rate_limit", retry_at=NOW + 17,
    )  # fmt: skip
    desk.do(say.retry(lease.job_id, 2, run_at=NOW + 17, attempt=record, counters=i.Counters(handler=2)))
    assert desk.status(lease.job_id) == "retryable_failed"
    assert fields_of(desk, lease.job_id) == (
        2, "fetch", "429 too many requests", "N too many requests", NOW + 7, "rate_limit", True, NOW + 17,
    )  # fmt: skip


@pytest.mark.spec("ING-3.3", "ING-4.1")
def test_an_item_in_the_dead_letter_queue_has_status_code_599(desk, say):
    lease = desk.lease()
    record = say.attempt(
        failure_count=1,
        decision="dead_letter",
        retry_at=None,
        error_type="terminal",
        error_retryable=False,
        message="400",
    )
    desk.do(say.bury(lease.job_id, 1, attempt=record))
    shown = desk.shown(lease.job_id)
    assert (shown["status"], shown["status_code"]) == ("dead_letter", 599)
    assert fields_of(desk, lease.job_id) == (1, "fetch", "400", "it was slow", NOW + 1, "terminal", False, None)


@pytest.mark.spec("ING-4.1")
def test_failures_are_counted_in_a_row_and_no_longer_once_the_step_is_passed(desk, say):
    lease = desk.lease()
    desk.do(say.retry(lease.job_id, 1, run_at=NOW))
    assert desk.shown(lease.job_id)["failure_count"] == 1
    desk.do(i.Promote(now=NOW))
    desk.claim()
    assert desk.shown(lease.job_id)["failure_count"] == 1, "it stands there still"
    desk.do(say.checkpoint(lease.job_id, 2))
    count, step, message, *_, retry_after = fields_of(desk, lease.job_id)
    assert (count, step, message, retry_after) == (0, "fetch", "it was slow", None)


@pytest.mark.spec("ING-4.1")
def test_an_item_that_succeeded_at_last_has_no_failures_in_a_row(desk, say):
    lease = desk.lease()
    desk.do(say.retry(lease.job_id, 1, run_at=NOW))
    desk.do(i.Promote(now=NOW))
    desk.claim()
    desk.do(say.finish(lease.job_id, 2))
    shown = desk.shown(lease.job_id)
    assert (shown["status"], shown["failure_count"], shown["retry_after"]) == ("succeeded", 0, None)


def test_each_place_in_the_queue_has_its_status(desk, say):
    found = {state: desk.bring(state, state.name) for state in i.QueueState if state is not i.QueueState.READY}
    expected = {
        i.QueueState.LEASED: "in_progress", i.QueueState.SCHEDULED: "pending", i.QueueState.WAITING: "in_progress",
        i.QueueState.SUSPECT: "retryable_failed",
    }  # fmt: skip
    assert {state: desk.status(job_id) for state, job_id in found.items()} == expected


@pytest.mark.parametrize(
    ("used", "status"),
    [
        (i.Counters(), "in_progress"),
        (i.Counters(deploy=3), "in_progress"),
        (i.Counters(handler=1), "retryable_failed"),
        (i.Counters(lost_lease=1), "retryable_failed"),
    ],
)
def test_a_job_that_is_ready_again_is_in_progress_unless_something_but_a_deployment_failed_it(desk, say, used, status):
    lease = desk.lease()
    desk.do(say.release(lease.job_id, 1, counters=used))
    assert desk.status(lease.job_id) == status


@pytest.mark.parametrize(
    ("waits_on", "status"),
    [("review", "needs_review"), ("review:7", "needs_review"), ("Review", "in_progress"), ("deploy:x", "in_progress")],
)
def test_a_job_that_waits_needs_review_only_where_it_waits_on_one(desk, say, waits_on, status):
    lease = desk.lease()
    desk.do(say.wait(lease.job_id, 1, waits_on=waits_on))
    assert desk.status(lease.job_id) == status
