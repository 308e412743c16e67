"""A breaker opens for an outage, lets one probe through at a time, and closes in steps."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.core.breaker_state import (
    CLOSED,
    BreakerLimits,
    BreakerState,
    BreakerStatus,
    admit_calls,
    breaker_values,
    read_breaker_state,
    record_failure,
    record_success,
    release_calls,
    renew_admission,
)
from reprieve.errors import UsageError

LIMITS = BreakerLimits()


def failing(jobs, *, state=CLOSED, now=100.0, error_class="OVERLOADED", **facts):
    for job in jobs:
        state = record_failure(state, LIMITS, now=now, error_class=error_class, job=job, **facts)
    return state


OPEN = failing("abcab")


def test_it_opens_after_five_failures_of_one_class_from_three_jobs():
    assert failing("abca").status is BreakerStatus.CLOSED
    assert OPEN.status is BreakerStatus.OPEN
    assert failing("aaaabbbb").status is BreakerStatus.CLOSED


def test_another_class_or_a_success_begins_anew():
    mixed = failing("abca", state=failing("a", state=failing("abca"), error_class="RATE_LIMITED"))
    assert (mixed.failures, mixed.status) == (4, BreakerStatus.CLOSED)
    assert record_success(failing("abca"), LIMITS, now=1.0) == CLOSED


def test_the_first_probe_is_due_after_two_seconds_and_is_alone():
    assert admit_calls(OPEN, LIMITS, now=101.9, wanted=9) == (OPEN, 0)
    probing, count = admit_calls(OPEN, LIMITS, now=102.0, wanted=9)
    assert count == 1
    assert admit_calls(probing, LIMITS, now=103.0, wanted=9)[1] == 0


@pytest.mark.parametrize(
    ("outage", "retry_after", "wait"), [(2, None, 2), (60, None, 30), (6000, None, 300), (60, 45.0, 45), (60, 5.0, 30)]
)
def test_a_probe_that_fails_puts_the_next_off_by_half_the_outage_or_what_the_upstream_asks(outage, retry_after, wait):
    probing, _ = admit_calls(OPEN, LIMITS, now=100.0 + outage, wanted=1)
    failed = failing("a", state=probing, now=100.0 + outage, admitted=True, retry_after=retry_after)
    assert failed.seconds_until_call(100.0 + outage) == wait
    assert failed.since == 100.0


def test_a_call_that_ran_when_it_opened_does_not_move_the_probe_unless_the_upstream_asks():
    assert failing("z", state=OPEN, now=101.0) == OPEN
    assert failing("z", state=OPEN, now=101.0, retry_after=30.0).probe_at == 131.0


def test_after_a_success_the_calls_double_until_it_closes():
    state, _ = admit_calls(OPEN, LIMITS, now=200.0, wanted=1)
    state = record_success(state, LIMITS, now=200.0, admitted=True)
    steps = []
    while state.status is BreakerStatus.HALF_OPEN:
        state, count = admit_calls(state, LIMITS, now=200.0, wanted=1000)
        steps.append(count)
        assert admit_calls(state, LIMITS, now=200.0, wanted=1)[1] == 0
        for _ in range(count):
            state = record_success(state, LIMITS, now=200.0, admitted=True)
    assert steps == [1, 2, 4, 8, 16, 32, 64]
    assert state == CLOSED


def test_a_failure_while_calls_grow_opens_it_with_the_original_start():
    half = record_success(admit_calls(OPEN, LIMITS, now=200.0, wanted=1)[0], LIMITS, now=200.0, admitted=True)
    half, _ = admit_calls(half, LIMITS, now=200.0, wanted=1)
    again = failing("x", state=half, now=200.0, admitted=True)
    assert (again.status, again.since, again.probe_at) == (BreakerStatus.OPEN, 100.0, 250.0)


def test_a_straggler_says_nothing_while_calls_grow():
    half = record_success(OPEN, LIMITS, now=200.0)
    assert record_success(half, LIMITS, now=201.0) == half
    assert failing("x", state=half, now=201.0).status is BreakerStatus.HALF_OPEN


def test_a_probe_that_says_nothing_is_followed_at_once():
    probing, _ = admit_calls(OPEN, LIMITS, now=102.0, wanted=1)
    assert admit_calls(release_calls(probing, now=103.0, count=1), LIMITS, now=103.0, wanted=1)[1] == 1
    half, _ = admit_calls(record_success(OPEN, LIMITS, now=1.0), LIMITS, now=1.0, wanted=1)
    assert admit_calls(release_calls(half, now=1.0, count=1), LIMITS, now=1.0, wanted=5)[1] == 1
    assert release_calls(CLOSED, now=1.0, count=1) == CLOSED


def test_a_caller_that_is_gone_does_not_keep_the_probe_and_one_that_renews_does():
    probing, _ = admit_calls(OPEN, LIMITS, now=102.0, wanted=1)
    renewed = renew_admission(probing, LIMITS, now=150.0)
    assert admit_calls(renewed, LIMITS, now=170.0, wanted=1)[1] == 0
    assert admit_calls(probing, LIMITS, now=162.0, wanted=1)[1] == 1
    assert renew_admission(OPEN, LIMITS, now=1.0) == OPEN
    half, _ = admit_calls(record_success(OPEN, LIMITS, now=200.0), LIMITS, now=200.0, wanted=1)
    assert admit_calls(half, LIMITS, now=261.0, wanted=5)[1] == 1


EVENTS = st.lists(
    st.tuples(st.sampled_from(["admit", "success", "failure", "release", "renew"]), st.booleans(), st.integers(0, 90)),
    max_size=60,
)


@given(EVENTS)
def test_whatever_happens_an_open_breaker_has_one_probe_and_a_step_no_more_than_its_calls(events):
    state, now, out = CLOSED, 0.0, 0
    for kind, admitted, seconds in events:
        now += seconds
        match kind:
            case "admit":
                before = state
                state, count = admit_calls(state, LIMITS, now=now, wanted=7)
                if before.status is BreakerStatus.OPEN:
                    assert count <= 1
                out = count
            case "success":
                state = record_success(state, LIMITS, now=now, admitted=admitted)
            case "failure":
                job = str(seconds % 4)
                state = record_failure(state, LIMITS, now=now, error_class="OVERLOADED", job=job, admitted=admitted)
            case "release":
                state = release_calls(state, now=now, count=1)
            case "renew":
                state = renew_admission(state, LIMITS, now=now)
        assert 0 <= out <= 7
        assert state.succeeded <= max(state.step, 1)
        assert state.status is not BreakerStatus.HALF_OPEN or state.admitted <= state.step
        assert read_breaker_state(json.loads(json.dumps(breaker_values(state)))) == state
        assert state.seconds_until_call(now) >= 0.0


def test_limits_that_cannot_be_followed_are_refused():
    with pytest.raises(UsageError, match="must not exceed"):
        BreakerLimits(open_seconds=10.0, max_open_seconds=5.0)
    with pytest.raises(UsageError, match="failure_threshold"):
        BreakerLimits(failure_threshold=0)


def test_a_stored_state_of_another_version_is_read_and_a_damaged_one_is_refused():
    assert read_breaker_state({**breaker_values(OPEN), "later": 1}) == OPEN
    assert read_breaker_state({}) == BreakerState()
    with pytest.raises(UsageError):
        read_breaker_state({"status": "ajar"})
    assert replace(OPEN, jobs=("a",)) != OPEN
