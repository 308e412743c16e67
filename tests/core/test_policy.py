"""Policies and profiles as values: Retry-After, which policy is followed, overriding, and what is refused."""

import copy
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.core.backoff import Backoff, Jitter
from reprieve.core.failure import Category, ErrorClass, Severity
from reprieve.core.policy import Cause, Judge, Parking, ParkState, Policy, Profile
from reprieve.errors import UnknownNameError, UsageError
from reprieve.testing import failure_of

DRAWS = st.floats(0.0, 1.0, exclude_max=True)
CRITICIZER_BACKOFF = Backoff(initial=1.0, multiplier=2.0, maximum=60.0, jitter=Jitter.full())


@given(st.integers(1, 50), DRAWS, st.floats(0.0, 10_000.0), st.floats(0.0, 100.0), st.floats(0.0, 500.0))
def test_a_retry_after_makes_a_wait_longer_but_never_past_the_ceiling(attempt, draw, asked, floor, more):
    policy = Policy(backoff=CRITICIZER_BACKOFF, retry_after_floor=floor, retry_after_ceiling=floor + more)
    limited = failure_of(ErrorClass.RATE_LIMITED, retry_after=asked)
    calculated = CRITICIZER_BACKOFF.delay(attempt, draw)
    wait = policy.wait(limited, attempt, draw)
    assert floor <= wait <= floor + more
    assert wait >= min(asked, policy.retry_after_ceiling)
    assert wait >= min(calculated, policy.retry_after_ceiling)
    assert wait in {floor, floor + more, asked, calculated}


@given(st.integers(1, 50), DRAWS)
def test_without_a_retry_after_the_wait_is_the_backoff_whatever_floor_and_ceiling_say(attempt, draw):
    policy = Policy(backoff=CRITICIZER_BACKOFF, retry_after_floor=5.0, retry_after_ceiling=6.0)
    assert policy.wait(failure_of(ErrorClass.RATE_LIMITED), attempt, draw) == CRITICIZER_BACKOFF.delay(attempt, draw)


@pytest.mark.parametrize(("asked", "wait"), [(math.inf, 300.0), (math.nan, 2.0), (-5.0, 2.0), (0.0, 2.0)])
def test_an_absurd_retry_after_can_neither_shorten_the_wait_nor_pass_the_ceiling(asked, wait):
    policy = Policy(backoff=Backoff(initial=2.0))
    assert policy.wait(failure_of(ErrorClass.RATE_LIMITED, retry_after=asked), 1, 0.5) == wait


def test_a_category_can_have_a_backoff_of_its_own():
    policy = Policy(backoff=Backoff(initial=1.0), backoff_by_category={Category.RATE_LIMIT: Backoff(initial=10.0)})
    assert policy.wait(failure_of(ErrorClass.RATE_LIMITED), 1, 0.5) == 10.0
    assert policy.wait(failure_of(ErrorClass.UPSTREAM_ERROR), 1, 0.5) == 1.0


def test_a_failure_follows_the_policy_of_its_severity_or_else_the_default():
    slow = Policy(max_attempts=9)
    profile = Profile(name="mine", policies={"slow": slow}, by_severity={Severity.UPSTREAM: "slow"})
    assert profile.policy_for(failure_of(ErrorClass.OVERLOADED)).name == "mine.slow"
    assert profile.policy_for(failure_of(ErrorClass.NETWORK_TIMEOUT)).name == "mine"


def test_policies_are_named_after_their_profile_unless_they_have_names():
    profile = Profile(name="mine", policy=Policy(name="house rule"), policies={"slow": Policy()})
    assert profile.policy.name == "house rule"
    assert profile.policies["slow"].name == "mine.slow"
    assert profile.renamed("yours").policies["slow"].name == "yours.slow"
    assert Profile.of(Policy(name="alone")).name == "alone"
    assert Profile.of(Policy()).policy.name == "policy"


def test_only_makes_one_policy_answer_for_everything():
    slow = Policy(max_attempts=9)
    profile = Profile(
        name="mine",
        judge=Judge.INGESTION,
        policies={"slow": slow},
        by_severity={Severity.UPSTREAM: "slow"},
        parks={"BUG": Parking(ParkState.NEEDS_REVIEW)},
    )
    pinned = profile.only("slow")
    assert pinned.policy_for(failure_of(ErrorClass.NETWORK_TIMEOUT)).max_attempts == 9
    assert (pinned.name, pinned.judge, pinned.parks) == ("mine.slow", Judge.INGESTION, profile.parks)
    with pytest.raises(UnknownNameError, match="slow"):
        profile.only("slwo")


@pytest.mark.spec("ORC-2.3")
def test_override_changes_all_policies_or_the_one_that_is_named_and_nothing_else():
    profile = Profile(name="mine", policies={"fast": Policy(max_attempts=2), "slow": Policy(max_attempts=9)})
    every = profile.override(max_attempts=7, deadline=60.0)
    assert [policy.max_attempts for policy in (every.policy, *every.policies.values())] == [7, 7, 7]
    one = profile.override("slow", max_attempts=7)
    assert [policy.max_attempts for policy in (one.policy, *one.policies.values())] == [5, 2, 7]
    assert one.policies["slow"].name == "mine.slow"
    assert profile.policies["slow"].max_attempts == 9
    with pytest.raises(UnknownNameError, match="did you mean 'slow'"):
        profile.override("slo", max_attempts=7)
    with pytest.raises(UsageError, match="max_attempts"):
        profile.override(max_attempts=0)


def test_each_cause_has_a_budget_and_giving_one_keeps_the_others():
    profile = Profile(name="mine", policy=Policy(max_attempts=4), budgets={Cause.CRASH: 8})
    assert profile.budget(profile.policy, Cause.HANDLER) == 4
    assert profile.budget(profile.policy, Cause.CRASH) == 8
    assert all(profile.budget(profile.policy, cause) >= 1 for cause in Cause)


def test_a_profile_keeps_no_hold_on_the_mappings_that_it_was_built_from():
    parks = {"BUG": Parking(ParkState.SKIPPED)}
    profile = Profile(name="mine", parks=parks)
    parks.clear()
    assert "BUG" in profile.parks


def test_profiles_can_be_pickled_copied_compared_and_hashed():
    profile = Profile(
        name="mine",
        policies={"slow": Policy(backoff_by_category={Category.AUTH: Backoff()})},
        by_severity={Severity.UPSTREAM: "slow"},
        parks={"BUG": Parking(ParkState.SKIPPED)},
    )
    assert pickle.loads(pickle.dumps(profile)) == copy.deepcopy(profile) == profile
    assert len({profile, copy.deepcopy(profile)}) == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"max_attempts": 0}, "max_attempts must be from 1"),
        ({"max_attempts": 2.0}, "max_attempts must be a whole number"),
        ({"max_attempts": True}, "max_attempts must be a whole number"),
        ({"max_attempts": 10**5000}, "max_attempts must be from 1"),
        ({"deadline": -1.0}, "deadline must be from 0"),
        ({"deadline": math.nan}, "deadline must be from 0"),
        ({"retry_after_ceiling": math.inf}, "retry_after_ceiling must be from 0"),
        ({"retry_after_floor": 301.0}, "retry_after_floor must not exceed retry_after_ceiling"),
        ({"backoff": 3}, "backoff must be a Backoff"),
        ({"backoff_by_category": {"rate_limt": Backoff()}}, "backoff_by_category is for network, rate_limit"),
        ({"pages_when_spent": "yes"}, "pages_when_spent must be true or false"),
    ],
)
def test_a_policy_that_could_not_be_followed_is_refused(values, said):
    with pytest.raises(UsageError, match=said):
        Policy(**values)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": ""}, "name"),
        ({"judge": "oracle"}, "judge must be one of criticizer, ingestion"),
        ({"by_severity": {Severity.FATAL: "nobody"}}, "no policy for severity fatal is named 'nobody'"),
        ({"budgets": {Cause.HANDLER: 3}}, "budgets are for crash"),
        ({"budgets": {Cause.CRASH: 0}}, r"budgets\.crash must be from 1"),
    ],
)
def test_a_profile_that_leads_nowhere_is_refused(values, said):
    with pytest.raises(UsageError, match=said):
        Profile(**{"name": "mine", **values})


def test_a_parking_state_that_is_none_is_refused():
    with pytest.raises(UsageError, match="skipped, needs_review"):
        Parking("lost")
