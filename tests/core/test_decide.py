"""What becomes of a failure: each rule, their order, and the laws that hold for every combination."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reprieve.core.backoff import Backoff, Jitter
from reprieve.core.decide import Abort, DeadLetter, History, Park, Reason, RetryAt, decide
from reprieve.core.failure import TAXONOMY, Category, ErrorClass, Failure, Scope, Severity
from reprieve.core.policy import Cause, Judge, Parking, ParkState, Policy, Profile
from reprieve.errors import UsageError
from reprieve.testing import failure_of

NOW = 1_800_000_000.0
PLAIN = Profile(name="plain", policy=Policy(max_attempts=5, backoff=Backoff(initial=1.0, maximum=60.0)))


def after(attempts: int, **changes) -> History:
    return History(**{"attempts": attempts, "started": NOW, **changes})


def decided(error_class: str, attempts: int = 1, profile: Profile = PLAIN, *, draw: float = 0.5, **changes):
    return decide(failure_of(error_class), after(attempts, **changes), profile, now=NOW, draw=draw)


FAILURES = st.builds(
    Failure,
    category=st.sampled_from(Category),
    error_class=st.sampled_from([*ErrorClass, "A_CLASS_OF_THEIR_OWN"]),
    retryable=st.booleans(),
    requires_idempotent=st.booleans(),
    retry_after=st.none() | st.floats(0.0, 1000.0),
    status_code=st.none(),
    severity=st.sampled_from(Severity),
    outcome_unknown=st.booleans(),
    scope=st.sampled_from(Scope),
    message=st.just(""),
    signature=st.just(""),
    fingerprint=st.just("v1:0"),
    exception_type=st.just(""),
    code=st.none(),
    evidence=st.just(()),
)
HISTORIES = st.builds(
    History,
    attempts=st.integers(1, 12),
    started=st.floats(NOW - 100.0, NOW),
    cause=st.sampled_from(Cause),
    idempotent=st.booleans(),
    repairable=st.booleans(),
    repaired=st.booleans(),
)
POLICIES = st.builds(
    Policy,
    max_attempts=st.integers(1, 8),
    backoff=st.sampled_from([Backoff(maximum=60.0, jitter=Jitter.full()), Backoff(schedule=[5, 10, 20, 60])]),
    deadline=st.none() | st.floats(0.0, 200.0),
    pages_when_spent=st.booleans(),
)
PROFILES = st.builds(
    lambda default, sick, parks, crash: Profile(
        name="any",
        judge=Judge.CRITICIZER,
        policy=default,
        policies={"sick": sick},
        by_severity={Severity.UPSTREAM: "sick"},
        parks=parks,
        budgets={Cause.CRASH: crash},
    ),
    POLICIES,
    POLICIES,
    st.dictionaries(
        st.sampled_from(ErrorClass), st.builds(Parking, st.sampled_from(ParkState), st.booleans()), max_size=3
    ),
    st.integers(1, 5),
)
DRAWS = st.floats(0.0, 1.0, exclude_max=True)
ANY = given(FAILURES, HISTORIES, PROFILES, DRAWS)


def expected(failure: Failure, history: History, profile: Profile) -> tuple[type, Reason | None]:
    """The rules of the module's docstring, written once more as a table: the first that holds."""
    policy = profile.policy_for(failure)
    broken_output = failure.error_class == ErrorClass.OUTPUT_INVALID
    in_time = policy.deadline is None or history.started + policy.deadline >= NOW
    budget = policy.max_attempts if history.cause is Cause.HANDLER else profile.budgets[history.cause]
    spent = history.attempts >= budget
    rules = [
        (broken_output and history.repairable and not history.repaired and in_time, (RetryAt, Reason.REPAIR)),
        (failure.error_class in profile.parks, (Park, Reason.PARKED_BY_PROFILE)),
        (broken_output, (Park, Reason.OUTPUT_INVALID)),
        (failure.error_class == ErrorClass.NEEDS_REVIEW, (Park, Reason.NEEDS_REVIEW)),
        (failure.severity is Severity.FATAL, (Abort, Reason.FATAL)),
        (not failure.retryable, (DeadLetter, Reason.NON_RETRYABLE)),
        (failure.requires_idempotent and not history.idempotent, (DeadLetter, Reason.NOT_IDEMPOTENT)),
        (spent and failure.error_class == ErrorClass.DATABASE_UNAVAILABLE, (Abort, Reason.FATAL_WHEN_SPENT)),
        (spent, (DeadLetter, Reason.BUDGET_SPENT)),
    ]
    return next((outcome for holds, outcome in rules if holds), (RetryAt, None))


@settings(max_examples=400, deadline=None)
@ANY
def test_every_combination_gets_the_one_decision_that_the_first_matching_rule_names(failure, history, profile, draw):
    kind, reason = expected(failure, history, profile)
    decision = decide(failure, history, profile, now=NOW, draw=draw)
    if reason is None:
        policy = profile.policy_for(failure)
        wait = 0.0 if history.cause is Cause.DEPLOY else policy.wait(failure, history.attempts, draw)
        late = policy.deadline is not None and NOW + wait > history.started + policy.deadline
        assert (type(decision), decision.reason is Reason.DEADLINE) == (DeadLetter if late else RetryAt, late)
    else:
        assert (type(decision), decision.reason) == (kind, reason)
    assert decision == decide(failure, history, profile, now=NOW, draw=draw)


@settings(max_examples=400, deadline=None)
@ANY
def test_no_retry_ever_passes_the_budget_or_the_deadline_or_goes_back_in_time(failure, history, profile, draw):
    likely = replace(failure, retryable=True, severity=Severity.UPSTREAM, requires_idempotent=False)
    decision = decide(likely, history, profile, now=NOW, draw=draw)
    if not isinstance(decision, RetryAt):
        return
    policy = profile.policy_for(likely)
    assert decision.at == NOW + decision.delay >= NOW
    if policy.deadline is not None:
        assert decision.at <= history.started + policy.deadline
    if decision.reason is not Reason.REPAIR:
        assert decision.attempt == history.attempts + 1 <= decision.budget
        assert decision.budget == profile.budget(policy, history.cause)


@pytest.mark.spec("CRIT-2.3", "ORC-1.3")
@settings(deadline=None)
@given(FAILURES, HISTORIES, PROFILES, DRAWS)
def test_a_failure_that_is_not_retryable_is_never_retried_whatever_came_before(failure, history, profile, draw):
    assume(failure.error_class != ErrorClass.OUTPUT_INVALID)
    decision = decide(replace(failure, retryable=False), history, profile, now=NOW, draw=draw)
    assert not isinstance(decision, RetryAt)


@pytest.mark.spec("CRIT-2.3")
def test_retries_stop_at_once_when_a_failure_turns_out_permanent():
    assert isinstance(decided(ErrorClass.NETWORK_TIMEOUT, 1), RetryAt)
    turned = decided(ErrorClass.SCHEMA_INVALID, 2)
    assert turned == DeadLetter(reason=Reason.NON_RETRYABLE, attempts=2, budget=5, policy="plain", pages=False)


@pytest.mark.parametrize("attempts", [1, 2, 3, 4, 5, 6])
def test_the_budget_counts_the_first_attempt(attempts):
    decision = decided(ErrorClass.UPSTREAM_ERROR, attempts)
    assert isinstance(decision, RetryAt) is (attempts < 5)


def test_a_conflict_is_retried_only_where_repeating_is_declared_safe():
    refused = decided(ErrorClass.WRITE_CONFLICT)
    assert (type(refused), refused.reason) == (DeadLetter, Reason.NOT_IDEMPOTENT)
    assert isinstance(decided(ErrorClass.WRITE_CONFLICT, idempotent=True), RetryAt)


def test_a_timeout_whose_outcome_is_unknown_is_still_retried():
    failure = failure_of(ErrorClass.NETWORK_TIMEOUT, outcome_unknown=True)
    assert isinstance(decide(failure, after(1), PLAIN, now=NOW, draw=0.5), RetryAt)


@pytest.mark.parametrize(
    ("retry_after", "delay", "reason"),
    [(None, 4.0, Reason.BACKOFF), (1.0, 4.0, Reason.BACKOFF), (30.0, 30.0, Reason.RETRY_AFTER)],
)
def test_a_retry_says_whether_the_backoff_or_the_upstream_set_its_wait(retry_after, delay, reason):
    failure = failure_of(ErrorClass.RATE_LIMITED, retry_after=retry_after)
    decision = decide(failure, after(3), PLAIN, now=NOW, draw=0.5)
    assert decision == RetryAt(reason=reason, at=NOW + delay, delay=delay, attempt=4, budget=5, policy="plain")


def test_a_retry_that_could_only_start_after_the_deadline_is_given_up_at_once():
    profile = PLAIN.override(deadline=10.0)
    failure = failure_of(ErrorClass.RATE_LIMITED, retry_after=8.0)
    on_time = decide(failure, after(1, started=NOW - 2.0), profile, now=NOW, draw=0.5)
    late = decide(failure, after(1, started=NOW - 2.5), profile, now=NOW, draw=0.5)
    assert on_time.at == NOW + 8.0
    assert (type(late), late.reason) == (DeadLetter, Reason.DEADLINE)


@pytest.mark.parametrize("pages", [True, False])
def test_running_out_of_time_pages_where_running_out_of_attempts_does(pages):
    profile = PLAIN.override(deadline=0.5, pages_when_spent=pages)
    late = decided(ErrorClass.OVERLOADED, profile=profile)
    assert late == DeadLetter(reason=Reason.DEADLINE, attempts=1, budget=5, policy="plain", pages=pages)


@pytest.mark.spec("ORC-1.4")
@pytest.mark.parametrize("error_class", [c for c in ErrorClass if TAXONOMY[c].severity is Severity.FATAL])
def test_what_is_fatal_aborts_on_its_first_failure_and_pages(error_class):
    decision = decided(error_class)
    assert decision == Abort(reason=Reason.FATAL, attempts=1, budget=5, policy="plain", pages=True)


@pytest.mark.spec("ORC-1.4")
def test_a_database_that_stays_away_is_fatal_once_the_budget_is_spent():
    assert isinstance(decided(ErrorClass.DATABASE_UNAVAILABLE, 4), RetryAt)
    decision = decided(ErrorClass.DATABASE_UNAVAILABLE, 5)
    assert decision == Abort(reason=Reason.FATAL_WHEN_SPENT, attempts=5, budget=5, policy="plain", pages=True)


def test_a_bug_is_dead_lettered_and_pages_but_pauses_nothing():
    decision = decided(ErrorClass.BUG)
    assert (type(decision), decision.pages) == (DeadLetter, True)


def test_a_profile_can_park_what_would_otherwise_abort_and_says_that_the_batch_should_halt():
    profile = replace(PLAIN, parks={"AUTH_DENIED": Parking(ParkState.SKIPPED, alert=True)})
    decision = decided(ErrorClass.AUTH_DENIED, profile=profile)
    assert decision == Park(
        reason=Reason.PARKED_BY_PROFILE,
        state=ParkState.SKIPPED,
        attempts=1,
        policy="plain",
        pages=True,
        investigate=False,
        halts=True,
    )


def test_work_whose_stage_asked_for_a_person_waits_for_one():
    decision = decided(ErrorClass.NEEDS_REVIEW)
    assert (decision.state, decision.reason, decision.halts) == (ParkState.NEEDS_REVIEW, Reason.NEEDS_REVIEW, False)


@pytest.mark.parametrize("attempts", [1, 5])
def test_a_model_s_output_is_repaired_once_at_no_cost_and_then_goes_to_a_person(attempts):
    first = decided(ErrorClass.OUTPUT_INVALID, attempts, repairable=True)
    assert first == RetryAt(reason=Reason.REPAIR, at=NOW, delay=0.0, attempt=attempts, budget=5, policy="plain")
    second = decided(ErrorClass.OUTPUT_INVALID, attempts, repairable=True, repaired=True)
    assert (second.state, second.reason) == (ParkState.NEEDS_REVIEW, Reason.OUTPUT_INVALID)


def test_output_goes_straight_to_a_person_where_nothing_can_repair_it_or_no_time_is_left():
    without = decided(ErrorClass.OUTPUT_INVALID)
    late = decided(ErrorClass.OUTPUT_INVALID, profile=PLAIN.override(deadline=1.0), repairable=True, started=NOW - 2.0)
    assert (without.state, late.state) == (ParkState.NEEDS_REVIEW, ParkState.NEEDS_REVIEW)


def test_a_schema_failure_of_the_input_is_never_repaired():
    assert isinstance(decided(ErrorClass.SCHEMA_INVALID, repairable=True), DeadLetter)


@pytest.mark.parametrize(("cause", "budget"), [(Cause.CRASH, 3), (Cause.OUT_OF_MEMORY, 2), (Cause.LOST_LEASE, 10)])
def test_a_cause_other_than_the_handler_spends_its_own_budget(cause, budget):
    profile = PLAIN.override(max_attempts=1)
    assert isinstance(decided(ErrorClass.WORKER_LOST, budget - 1, profile, cause=cause), RetryAt)
    spent = decided(ErrorClass.WORKER_LOST, budget, profile, cause=cause)
    poison = cause is not Cause.LOST_LEASE
    assert spent == DeadLetter(reason=Reason.BUDGET_SPENT, attempts=budget, budget=budget, policy="plain", pages=poison)


def test_work_that_a_deployment_interrupted_resumes_at_once():
    decision = decided(ErrorClass.WORKER_LOST, 6, cause=Cause.DEPLOY)
    assert (decision.reason, decision.delay) == (Reason.RESUME, 0.0)


def test_a_history_without_the_failure_at_hand_is_refused():
    with pytest.raises(UsageError, match="at least 1"):
        after(0)


@pytest.mark.spec("CRIT-1.8")
@pytest.mark.parametrize(
    ("expects_denials", "accepted_before", "escalates"),
    [(False, False, True), (False, True, True), (True, True, True), (True, False, False)],
)
def test_refused_content_is_never_retried_and_escalated_where_it_is_a_surprise(
    expects_denials, accepted_before, escalates
):
    profile = replace(PLAIN, expects_denials=expects_denials)
    history = after(1, accepted_before=accepted_before)
    decision = decide(failure_of(ErrorClass.POLICY_REJECTED), history, profile, now=NOW, draw=0.5)
    assert isinstance(decision, DeadLetter)
    assert (decision.reason, decision.escalates) == (Reason.NON_RETRYABLE, escalates)


def test_only_refused_content_is_escalated():
    assert decided(ErrorClass.SCHEMA_INVALID).escalates is False
