"""The shipped profiles say what the specifications say, and names lead to them; a user's file changes what it names."""

import random
import subprocess
import sys
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reprieve
from reprieve.app.profiles import SHIPPED, ProfileBook, load_profiles, resolve
from reprieve.core.decide import Abort, DeadLetter, History, Park, Reason, RetryAt, decide
from reprieve.core.failure import TAXONOMY, ErrorClass, Failure, Severity
from reprieve.core.policy import Judge, ParkState, Policy, Profile
from reprieve.errors import ProfileError, UnknownNameError, UsageError
from reprieve.testing import failure_of

SOURCES = str(Path(reprieve.__file__).parents[1])
NOW = 1_800_000_000.0
DRAWS = st.floats(0.0, 1.0, exclude_max=True)
LAST_DRAW = 1.0 - 2**-53


def decided(name: str, failure: Failure, attempts: int = 1, *, draw: float = 0.5, **changes):
    history = History(**{"attempts": attempts, "started": NOW, **changes})
    return decide(failure, history, resolve(name), now=NOW, draw=draw)


def retries(name: str, failure: Failure, *, draw: float = 0.5) -> list[float]:
    """The delays of all retries until the budget is spent."""
    delays = []
    while isinstance(decision := decided(name, failure, len(delays) + 1, draw=draw), RetryAt):
        delays.append(decision.delay)
    return delays


@pytest.mark.spec("CRIT-2.0", "CRIT-2.1")
@given(DRAWS, st.integers(1, 4))
def test_criticizer_draws_each_delay_anew_from_nothing_to_the_capped_exponential(draw, attempt):
    delay = decided("criticizer", failure_of(ErrorClass.NETWORK_TIMEOUT), attempt, draw=draw).delay
    assert delay == draw * min(60.0, 1.0 * 2.0 ** (attempt - 1))


@pytest.mark.spec("CRIT-2.0")
def test_criticizer_caps_the_exponential_at_a_minute():
    patient = resolve("criticizer").override(max_attempts=100)
    history = History(attempts=40, started=NOW)
    decision = decide(failure_of(ErrorClass.UPSTREAM_ERROR), history, patient, now=NOW, draw=LAST_DRAW)
    assert decision.delay == pytest.approx(60.0)


@pytest.mark.spec("CRIT-2.2")
@pytest.mark.parametrize(
    ("retry_after", "delay"), [(0.0, 4.0), (3.9, 4.0), (17.0, 17.0), (300.0, 300.0), (301.0, 300.0), (86_400.0, 300.0)]
)
def test_criticizer_waits_the_longer_of_backoff_and_retry_after_up_to_five_minutes(retry_after, delay):
    failure = failure_of(ErrorClass.RATE_LIMITED, retry_after=retry_after)
    assert decided("criticizer", failure, 4, draw=0.5).delay == delay


@pytest.mark.spec("CRIT-3.2", "CRIT-1.3")
def test_criticizer_gives_a_stage_five_attempts_the_first_included():
    failure = failure_of(ErrorClass.UPSTREAM_ERROR)
    assert len(retries("criticizer", failure)) == 4
    spent = decided("criticizer", failure, 5)
    assert (type(spent), spent.reason, spent.attempts, spent.budget) == (DeadLetter, Reason.BUDGET_SPENT, 5, 5)


@pytest.mark.spec("CRIT-2.3")
@pytest.mark.parametrize("error_class", [c for c in ErrorClass if not TAXONOMY[c].retryable])
def test_criticizer_retries_nothing_that_is_not_retryable(error_class):
    assert retries("criticizer", failure_of(error_class)) == []


@pytest.mark.spec("CRIT-1.4")
def test_criticizer_retries_a_conflict_only_where_the_stage_is_idempotent():
    conflict = failure_of(ErrorClass.WRITE_CONFLICT)
    assert isinstance(decided("criticizer", conflict, idempotent=True), RetryAt)
    assert isinstance(decided("criticizer", conflict, idempotent=False), DeadLetter)


@pytest.mark.spec("CRIT-1.9")
def test_criticizer_dead_letters_a_bug_and_pages():
    decision = decided("criticizer", failure_of(ErrorClass.BUG))
    assert (type(decision), decision.pages) == (DeadLetter, True)


@pytest.mark.spec("LLM-3.1")
@pytest.mark.parametrize("attempt", range(1, 17))
def test_analysis_waits_as_calculate_delay_of_its_text_does(attempt):
    policy = resolve("analysis").policy
    for seed in range(20):
        jitter = random.Random(seed).uniform(0, 300 / 1000)
        draw = random.Random(seed).random()
        wait = policy.wait(failure_of(ErrorClass.NETWORK_TIMEOUT), attempt, draw)
        assert wait == pytest.approx(1.0 * (2.0 ** (attempt - 1)) + jitter)


@pytest.mark.spec("LLM-2.2", "LLM-3.1")
@pytest.mark.parametrize(
    "error_class",
    [ErrorClass.NETWORK_TIMEOUT, ErrorClass.CONNECTION_REFUSED, ErrorClass.UPSTREAM_ERROR, ErrorClass.OVERLOADED],
)
def test_analysis_retries_what_may_pass_twice(error_class):
    assert retries("analysis", failure_of(error_class), draw=0.0) == [1.0, 2.0]


@pytest.mark.spec("LLM-2.1")
def test_analysis_backs_off_from_a_rate_limit_and_respects_retry_after():
    assert retries("analysis", failure_of(ErrorClass.RATE_LIMITED), draw=0.0) == [1.0, 2.0]
    assert retries("analysis", failure_of(ErrorClass.RATE_LIMITED, retry_after=20.0)) == [20.0, 20.0]


@pytest.mark.parametrize(
    ("error_class", "state", "pages", "investigate"),
    [
        pytest.param(ErrorClass.REQUEST_REJECTED, "skipped", False, False, marks=pytest.mark.spec("LLM-1.1")),
        pytest.param(ErrorClass.CONTEXT_LENGTH_EXCEEDED, "skipped", False, True, marks=pytest.mark.spec("LLM-1.2")),
        pytest.param(ErrorClass.AUTH_DENIED, "skipped", True, False, marks=pytest.mark.spec("LLM-1.3", "LLM-1.4")),
        pytest.param(ErrorClass.OUTPUT_INVALID, "needs_review", False, False, marks=pytest.mark.spec("LLM-1.5")),
    ],
)
def test_analysis_parks_permanent_errors_on_their_first_failure(error_class, state, pages, investigate):
    decision = decided("analysis", failure_of(error_class), repairable=True, repaired=True)
    assert isinstance(decision, Park)
    assert (decision.state, decision.pages, decision.investigate) == (state, pages, investigate)


@pytest.mark.spec("LLM-1.5", "LLM-4.3")
def test_analysis_repairs_output_once_before_a_person_is_asked():
    broken = failure_of(ErrorClass.OUTPUT_INVALID)
    assert decided("analysis", broken, repairable=True).reason is Reason.REPAIR
    assert decided("analysis", broken, repairable=True, repaired=True).state is ParkState.NEEDS_REVIEW


def test_analysis_halts_the_batch_at_an_authentication_error_only():
    assert decided("analysis", failure_of(ErrorClass.AUTH_DENIED)).halts
    assert not decided("analysis", failure_of(ErrorClass.REQUEST_REJECTED)).halts


@pytest.mark.spec("ING-2.1")
@pytest.mark.parametrize(
    ("error_class", "attempt", "middle"),
    [
        (ErrorClass.UPSTREAM_ERROR, 1, 1.0),
        (ErrorClass.UPSTREAM_ERROR, 2, 2.0),
        (ErrorClass.UPSTREAM_ERROR, 3, 4.0),
        (ErrorClass.UPSTREAM_ERROR, 4, 8.0),
        (ErrorClass.UPSTREAM_ERROR, 5, 16.0),
        (ErrorClass.UPSTREAM_ERROR, 7, 60.0),
        (ErrorClass.RATE_LIMITED, 1, 10.0),
        (ErrorClass.RATE_LIMITED, 2, 20.0),
        (ErrorClass.RATE_LIMITED, 3, 40.0),
        (ErrorClass.RATE_LIMITED, 4, 60.0),
        (ErrorClass.RATE_LIMITED, 500, 60.0),
    ],
)
def test_ingestion_waits_as_its_table_says_a_fifth_either_way(error_class, attempt, middle):
    policy, failure = resolve("ingestion").policy, failure_of(error_class)
    assert policy.wait(failure, attempt, 0.0) == pytest.approx(0.8 * middle)
    assert policy.wait(failure, attempt, 0.5) == pytest.approx(middle)
    assert policy.wait(failure, attempt, LAST_DRAW) == pytest.approx(1.2 * middle)


@pytest.mark.spec("ING-3.1", "ING-3.2")
def test_ingestion_gives_up_on_the_third_failure_or_at_once_when_terminal():
    assert len(retries("ingestion", failure_of(ErrorClass.UNKNOWN))) == 2
    assert retries("ingestion", failure_of(ErrorClass.REQUEST_REJECTED)) == []
    assert resolve("ingestion").judge is Judge.INGESTION


@pytest.mark.spec("ORC-1.1", "ORC-2.1")
def test_orchestrator_retries_a_glitch_three_times_a_tenth_of_a_second_either_way():
    glitch = failure_of(ErrorClass.UPSTREAM_UNAVAILABLE)
    assert retries("orchestrator", glitch, draw=0.0) == pytest.approx([0.9, 1.9, 3.9])
    assert retries("orchestrator", glitch, draw=0.5) == pytest.approx([1.0, 2.0, 4.0])
    assert retries("orchestrator", glitch, draw=LAST_DRAW) == pytest.approx([1.1, 2.1, 4.1])
    spent = decided("orchestrator", glitch, 4)
    assert (type(spent), spent.policy, spent.pages) == (DeadLetter, "orchestrator.transient", False)


@pytest.mark.spec("ORC-1.2", "ORC-2.2")
@pytest.mark.parametrize("error_class", [ErrorClass.RATE_LIMITED, ErrorClass.OVERLOADED])
def test_orchestrator_retries_a_sick_upstream_five_times_then_notifies_the_admin(error_class):
    sick = failure_of(error_class)
    for draw in (0.0, 0.5, LAST_DRAW):
        assert retries("orchestrator", sick, draw=draw) == [5.0, 10.0, 20.0, 60.0, 60.0]
    spent = decided("orchestrator", sick, 6)
    assert (type(spent), spent.policy, spent.pages) == (DeadLetter, "orchestrator.upstream", True)


@pytest.mark.spec("ORC-1.3")
@pytest.mark.parametrize("error_class", [ErrorClass.REQUEST_REJECTED, ErrorClass.SCHEMA_INVALID, ErrorClass.NOT_FOUND])
def test_orchestrator_fails_fast_where_repeating_is_pointless(error_class):
    decision = decided("orchestrator", failure_of(error_class))
    assert (type(decision), decision.reason) == (DeadLetter, Reason.NON_RETRYABLE)


@pytest.mark.spec("ORC-1.4")
def test_orchestrator_aborts_and_alerts_on_what_is_fatal():
    for failure, attempts in [
        (failure_of(ErrorClass.AUTH_DENIED), 1),
        (failure_of(ErrorClass.CONFIG_INVALID), 1),
        (failure_of(ErrorClass.DATABASE_UNAVAILABLE), 4),
    ]:
        decision = decided("orchestrator", failure, attempts)
        assert (type(decision), decision.pages) == (Abort, True)


@pytest.mark.parametrize("name", SHIPPED.names())
def test_every_shipped_name_resolves_to_a_profile_that_says_its_name(name):
    profile = resolve(name)
    assert (profile.name, profile.policy.name) == (name, name)


def test_names_policies_and_profiles_all_resolve_the_same_way():
    upstream = failure_of(ErrorClass.OVERLOADED)
    assert resolve("transient") == resolve("orchestrator.transient")
    assert resolve("transient").policy_for(upstream).name == "orchestrator.transient"
    assert resolve("orchestrator").policy_for(upstream).name == "orchestrator.upstream"
    assert resolve(Policy(name="mine", max_attempts=2)).policy_for(upstream).max_attempts == 2
    profile = Profile(name="mine")
    assert resolve(profile) is profile
    with pytest.raises(UsageError, match="not int"):
        resolve(3)


@pytest.mark.parametrize(
    ("name", "near"),
    [("critisizer", "criticizer"), ("orchestrator.transent", "orchestrator.transient"), ("orchestrator.", None)],
)
def test_an_unknown_name_is_refused_with_the_nearest_and_all_known_ones(name, near):
    with pytest.raises(UnknownNameError) as caught:
        resolve(name)
    assert caught.value.known == SHIPPED.names()
    assert "orchestrator.upstream" in str(caught.value)
    assert near is None or f"did you mean {near!r}" in str(caught.value)


@pytest.mark.spec("ORC-2.3")
def test_a_service_s_file_overrides_only_the_values_it_names(tmp_path):
    file = tmp_path / "service.toml"
    file.write_text(
        '[orchestrator.policies.transient]\nmax_attempts = 6\n[mine]\nextends = "criticizer"\nbackoff.maximum = 10\n'
    )
    book = load_profiles(file)
    assert book["orchestrator"] == resolve("orchestrator").override("transient", max_attempts=6)
    assert book["transient"].policy.max_attempts == 6
    assert book["mine"].policy.backoff == replace(resolve("criticizer").policy.backoff, maximum=10.0)
    assert book["ingestion"] is resolve("ingestion")


def test_a_loaded_book_changes_no_other(tmp_path):
    file = tmp_path / "service.toml"
    file.write_text("[criticizer]\nmax_attempts = 9\n")
    book = load_profiles(file)
    assert (book["criticizer"].policy.max_attempts, SHIPPED["criticizer"].policy.max_attempts) == (9, 5)
    file.write_text("[criticizer]\ndeadline = 60\n")
    second = load_profiles(file, book=book)["criticizer"].policy
    assert (second.max_attempts, second.deadline) == (9, 60)
    assert book["criticizer"].policy.deadline is None


def test_a_bare_policy_name_that_two_profiles_have_is_refused_with_both():
    book = SHIPPED.extended('[mine]\nextends = "orchestrator"', source="mine.toml")
    with pytest.raises(UsageError, match=r"mine\.transient, orchestrator\.transient"):
        book.resolve("transient")
    assert book.resolve("mine.transient").name == "mine.transient"
    assert resolve("transient", book=ProfileBook()).name == "orchestrator.transient"


def test_a_file_that_cannot_be_read_or_is_not_text_is_refused_with_its_name_and_line(tmp_path):
    with pytest.raises(ProfileError, match=r"absent\.toml: cannot be read: No such file"):
        load_profiles(tmp_path / "absent.toml")
    with pytest.raises(ProfileError, match=r"cannot be read"):
        load_profiles(tmp_path)
    file = tmp_path / "latin.toml"
    file.write_bytes(b"[criticizer]\n# caf\xe9\n")
    with pytest.raises(ProfileError, match=r"latin\.toml, line 2: is not UTF-8"):
        load_profiles(str(file))


def test_a_file_with_a_byte_order_mark_and_windows_lines_is_read(tmp_path):
    file = tmp_path / "windows.toml"
    file.write_bytes(b"\xef\xbb\xbf[criticizer]\r\nmax_attempts = 9\r\n")
    assert load_profiles(file)["criticizer"].policy.max_attempts == 9
    file.write_bytes(b"\xef\xbb\xbf[criticizer]\r\n\r\nmax_atempts = 9\r\n")
    with pytest.raises(ProfileError, match="line 3: unknown key"):
        load_profiles(file)


def test_a_fatal_severity_can_have_a_policy_but_is_aborted_all_the_same():
    book = SHIPPED.extended('[mine]\njudge = "criticizer"\npolicies.never.severity = "fatal"', source="mine.toml")
    assert book["mine"].by_severity == {Severity.FATAL: "never"}
    history = History(attempts=1, started=NOW)
    decision = decide(failure_of(ErrorClass.TLS_INVALID), history, book["mine"], now=NOW, draw=0.0)
    assert (type(decision), decision.policy) == (Abort, "mine.never")


def test_a_retry_after_without_end_still_stops_at_the_ceiling():
    assert decided("analysis", failure_of(ErrorClass.RATE_LIMITED, retry_after=inf)).delay == 300.0


def test_no_file_is_read_before_a_name_is_asked_for():
    code = (
        "import sys, reprieve.app.profiles; sys.exit('tomllib' in sys.modules or 'importlib.resources' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-S", "-c", code], check=False, env={"PYTHONPATH": SOURCES}).returncode == 0
