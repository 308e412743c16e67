"""Breakers as values: what opens one, how long it holds, what a probe costs."""

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.app.judging import classify
from reprieve.core.breaker import MOST_JOBS, Breaker, Run, concerns, free, hold
from reprieve.core.failure import TAXONOMY, ErrorClass, Severity
from reprieve.errors import Retryable, UsageError
from reprieve.testing import failure_of

TIMES = st.floats(0.0, 1e10)


def run_of(*failures):
    run = Run()
    for error_class, job_id in failures:
        run = run.failed(error_class, job_id)
    return run


def test_five_failures_of_one_class_from_three_jobs_open_the_breaker_and_four_do_not():
    jobs = [1, 2, 3, 1, 2]
    assert not run_of(*(("OVERLOADED", job) for job in jobs[:4])).trips(Breaker())
    assert run_of(*(("OVERLOADED", job) for job in jobs)).trips(Breaker())


@given(st.integers(1, 1000), st.integers(1, 2))
def test_one_or_two_jobs_never_open_it_however_often_they_fail(failures, jobs):
    assert not run_of(*(("OVERLOADED", number % jobs) for number in range(failures))).trips(Breaker())


def test_another_class_starts_anew():
    run = run_of(*(("OVERLOADED", job) for job in range(4)), ("DNS_FAILURE", 4))
    assert run == Run("DNS_FAILURE", 1, frozenset({4}))
    assert run_of(*(("OVERLOADED", job) for job in range(4)), ("DNS_FAILURE", 4), ("OVERLOADED", 5)).count == 1


def test_a_success_ends_the_run():
    run = run_of(*(("OVERLOADED", job) for job in range(4)))
    assert run.succeeded() == Run()
    assert not run.succeeded().failed("OVERLOADED", 5).trips(Breaker())


@given(st.lists(st.tuples(st.sampled_from(["OVERLOADED", "DNS_FAILURE"]), st.integers(0, 20)), max_size=60))
def test_a_run_knows_the_failures_since_the_class_last_changed(failures):
    run = run_of(*failures)
    tail = []
    for error_class, job_id in reversed(failures):
        if error_class != failures[-1][0]:
            break
        tail.append(job_id)
    assert (run.count, run.jobs) == (len(tail), frozenset(tail))


def test_a_run_stays_small_however_many_jobs_fail():
    run = run_of(*(("OVERLOADED", job) for job in range(10_000)))
    assert (run.count, len(run.jobs)) == (10_000, MOST_JOBS)
    assert run.trips(Breaker(jobs=MOST_JOBS))


@pytest.mark.parametrize(("elapsed", "seconds"), [(0, 2.0), (3, 2.0), (8, 4.0), (40, 20.0), (60, 30.0), (9_000, 30.0)])
def test_a_hold_is_half_of_the_outage_so_far_within_its_bounds(elapsed, seconds):
    assert hold(Breaker(), 1000.0, 1000.0 + elapsed) == seconds


@given(TIMES, TIMES)
def test_a_hold_keeps_its_bounds_also_where_the_clock_was_set_back(opened_at, now):
    assert 2.0 <= hold(Breaker(), opened_at, now) <= 30.0


def test_an_outage_of_two_minutes_is_probed_a_dozen_times_or_less_and_noticed_within_the_longest_hold():
    breaker, now, probes = Breaker(), 0.0, 0
    while now < 120.0:
        now += hold(breaker, 0.0, now)
        probes += 1
    assert probes <= 12
    assert now <= 120.0 + breaker.longest_hold


def test_a_failed_probe_is_free_until_patience_is_over():
    breaker = Breaker(patience=60.0)
    assert free(breaker, 1000.0, 1059.9)
    assert not free(breaker, 1000.0, 1060.0)
    assert not free(Breaker(patience=0.0), 1000.0, 1000.0)


OF_AN_UPSTREAM = {
    "NETWORK_TIMEOUT", "CONNECTION_RESET", "CONNECTION_REFUSED", "DNS_FAILURE", "UPSTREAM_UNAVAILABLE", "RATE_LIMITED",
    "UPSTREAM_ERROR", "OVERLOADED", "RESOURCE_EXHAUSTED", "DATABASE_UNAVAILABLE", "DECLARED_RETRYABLE",
}  # fmt: skip


@pytest.mark.parametrize("error_class", TAXONOMY)
def test_the_classes_that_concern_a_breaker_are_these(error_class):
    assert concerns(failure_of(error_class)) == (error_class in OF_AN_UPSTREAM)


def test_a_failure_that_is_not_tried_again_concerns_no_breaker():
    assert not concerns(failure_of(ErrorClass.OVERLOADED, retryable=False))
    assert not concerns(failure_of(ErrorClass.OVERLOADED, severity=Severity.FATAL))


def test_a_class_of_the_users_own_concerns_it_when_declared_retryable_but_not_when_merely_named():
    class Named(Exception):
        error_class = "MINE"

    assert concerns(classify(Retryable("busy", error_class="MINE")))
    assert classify(Named("busy")).retryable
    assert not concerns(classify(Named("busy")))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"after": 0}, "after"),
        ({"after": 2.0}, "after"),
        ({"after": True}, "after"),
        ({"jobs": 0}, "jobs"),
        ({"jobs": MOST_JOBS + 1}, "jobs"),
        ({"first_hold": 0.0}, "first_hold"),
        ({"first_hold": math.nan}, "first_hold"),
        ({"longest_hold": math.inf}, "longest_hold"),
        ({"longest_hold": "30"}, "longest_hold"),
        ({"first_hold": 31.0}, "first_hold must not exceed longest_hold"),
        ({"patience": -1.0}, "patience"),
    ],
)
def test_settings_that_could_not_be_followed_are_refused_by_name(values, named):
    with pytest.raises(UsageError, match=f"^{named}"):
        Breaker(**values)


def test_breakers_and_runs_survive_pickling():
    for value in (Breaker(after=7), Run("OVERLOADED", 1, frozenset({1}))):
        assert pickle.loads(pickle.dumps(value)) == value
