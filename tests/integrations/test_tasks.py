"""What the integrations share: decisions, starts that are counted, and dead letters that are replayed once."""

import asyncio
import time
from dataclasses import replace

import pytest

from reprieve import Policy, UnknownNameError, UsageError
from reprieve.app.profiles import resolve
from reprieve.integrations.tasks import (
    REPLAY_HOLD_SECONDS,
    STARTS_KEPT_SECONDS,
    AsyncTaskRecorder,
    HostTask,
    TaskPolicy,
    TaskRecorder,
    build_policy,
    original_fields,
)
from reprieve.streams.dead_letters import decode_dead_letter

TASK = HostTask(integration="celery", queue="orders", name="shop.charge", id="t-1", fields={"body": b"\xff[1]"})
POLICY = build_policy("orchestrator", "shop")


@pytest.fixture
def recorder(redis_server):
    return TaskRecorder(redis_server.url, POLICY)


def dead_lettered(recorder, task=TASK):
    return recorder.dead_letter(task, POLICY.decide_failure(ValueError("wrong"), task))


def test_a_dead_letter_holds_the_message_byte_for_byte_and_says_what_happened(recorder, redis_server):
    letter_id = dead_lettered(recorder)
    ((entry_id, entry),) = redis_server.call("XRANGE", "orders:dlq", "-", "+")
    letter = decode_dead_letter("orders", entry_id, entry)
    assert letter.dead_letter_id == letter_id
    assert original_fields(letter, "celery") == {"integration": b"celery", "body": b"\xff[1]"}
    assert list(letter.context)[:4] == ["error", "timestamp", "service", "attempts"]
    assert (letter.error, letter.service, letter.attempts) == ("ValueError: wrong", "shop", 1)
    assert (letter.queue, letter.message_id, letter.group) == ("orders", "t-1", "celery")


def test_a_start_that_did_not_end_is_seen_by_the_next_one_until_it_is_forgotten(recorder, redis_server):
    assert recorder.count_first_start(TASK)
    assert not recorder.count_first_start(TASK)
    assert recorder.starts(TASK) == 1
    recorder.count_start(TASK)
    assert recorder.starts(TASK) == 2
    left = redis_server.call("TTL", "orders:reprieve:celery:starts:t-1")
    assert STARTS_KEPT_SECONDS - 60 < left <= STARTS_KEPT_SECONDS
    recorder.forget(TASK)
    assert recorder.count_first_start(TASK)


def test_a_dead_letter_forgets_the_starts(recorder):
    recorder.count_first_start(TASK)
    dead_lettered(recorder)
    assert recorder.starts(TASK) == 0


def test_a_replay_keeps_others_away_until_it_is_finished_or_cancelled(recorder, redis_server):
    letter_id = dead_lettered(recorder)
    letter = recorder.begin_replay("orders", letter_id)
    assert letter.message_id == "t-1"
    assert recorder.begin_replay("orders", letter_id) is None
    assert redis_server.call("TTL", f"orders:reprieve:replay:{letter_id}") <= REPLAY_HOLD_SECONDS
    recorder.cancel_replay("orders", letter_id)
    assert recorder.begin_replay("orders", letter_id) == letter
    recorder.finish_replay("orders", letter_id)
    assert recorder.dead_letter_ids("orders") == []
    with pytest.raises(UnknownNameError, match="no dead letter of orders is named"):
        recorder.begin_replay("orders", letter_id)


def test_a_dead_letter_of_another_host_is_not_replayed(recorder, redis_server):
    letter = recorder.begin_replay("orders", dead_lettered(recorder))
    with pytest.raises(UsageError, match="is a dead letter of celery, not of dramatiq"):
        original_fields(letter, "dramatiq")
    foreign = replace(letter, original=[b"order", b"7"])
    with pytest.raises(UsageError, match="is a dead letter of a consumer of streams, not of dramatiq"):
        original_fields(foreign, "dramatiq")


def test_a_connection_that_was_closed_while_it_was_idle_costs_no_dead_letter(recorder, redis_server):
    recorder.count_first_start(TASK)
    redis_server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    dead_lettered(recorder)
    assert len(recorder.dead_letter_ids("orders")) == 1


def test_an_async_connection_that_was_closed_while_it_was_idle_costs_no_dead_letter(redis_server):
    async def main():
        recorder = AsyncTaskRecorder(redis_server.url, POLICY)
        assert await recorder.count_first_start(TASK)
        redis_server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await recorder.dead_letter(TASK, POLICY.decide_failure(ValueError("wrong"), TASK))
        await recorder.close()

    asyncio.run(main())
    assert redis_server.call("XLEN", "orders:dlq") == 1


@pytest.mark.parametrize(("crashes", "ends"), [(0, False), (1, False), (2, False), (3, True), (4, True)])
def test_a_task_is_poison_once_the_budget_for_crashes_is_spent(crashes, ends):
    found = POLICY.decide_crash(TASK, crashes)
    assert (found is not None) is ends
    if ends:
        assert (found.failure.error_class, found.attempts, found.decision.reason) == (
            "WORKER_LOST",
            crashes,
            "budget_spent",
        )


@pytest.mark.parametrize(("deliveries", "ends"), [(1, False), (6, False), (7, True)])
def test_deliveries_alone_end_a_message_after_the_largest_budget_of_the_profile(deliveries, ends):
    found = POLICY.decide_deliveries(replace(TASK, attempt=deliveries))
    assert (found is not None) is ends


def test_a_deadline_counts_from_the_first_attempt_where_the_host_carries_its_moment():
    policy = TaskPolicy(profile=resolve(Policy(deadline=60)))
    error = ConnectionResetError(104, "reset")
    assert policy.decide_failure(error, replace(TASK, started=time.time() - 1)).delay is not None
    late = policy.decide_failure(error, replace(TASK, started=time.time() - 61))
    assert late.decision.reason == "deadline"


def test_a_task_can_have_a_profile_of_its_own():
    error = ConnectionResetError(104, "reset")
    once = POLICY.decide_failure(error, TASK, profile=Policy(max_attempts=1))
    assert (once.delay, once.decision.reason) == (None, "budget_spent")
