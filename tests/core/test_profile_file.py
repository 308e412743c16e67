"""Profiles from TOML text: what it can say, and that every mistake is refused with its line and what would be right."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.core.backoff import Backoff, Jitter
from reprieve.core.failure import Category, Severity
from reprieve.core.policy import Cause, Judge, Parking, ParkState, Policy, Profile
from reprieve.core.profile_file import read_profiles
from reprieve.core.toml_lines import lines_of_keys
from reprieve.errors import ProfileError

KNOWN = {
    "criticizer": Profile(name="criticizer"),
    "house": Profile(
        name="house",
        policies={"fast": Policy(max_attempts=2), "slow": Policy(max_attempts=9, backoff=Backoff(schedule=[5, 60]))},
        by_severity={Severity.TRANSIENT: "fast", Severity.UPSTREAM: "slow"},
    ),
}


def read(text: str) -> dict[str, Profile]:
    return read_profiles(dedent(text), source="service.toml", known=KNOWN)


def refusal(text: str) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        read(text)
    assert str(caught.value).startswith("service.toml")
    return caught.value


def test_everything_that_a_profile_has_can_be_said():
    profile = read("""
        [mine]
        judge = "ingestion"
        max_attempts = 7
        retry_after_ceiling = 120
        retry_after_floor = 2
        deadline = 600
        pages_when_spent = true
        backoff = { initial = 2, multiplier = 3, maximum = 30, jitter = { proportional = 0.1 } }
        backoff_by_category.rate_limit = { initial = 20 }
        park.BUG = "needs_review"
        park.AUTH_DENIED = { state = "skipped", alert = true, investigate = true }
        budgets.crash = 9

        [mine.policies.slow]
        severity = ["upstream", "transient"]
        max_attempts = 8
        backoff = { schedule = [5, 60], jitter = "none" }
    """)["mine"]
    base = Backoff(initial=2.0, multiplier=3.0, maximum=30.0, jitter=Jitter.proportional(0.1))
    limited = Backoff(initial=20.0, multiplier=3.0, maximum=30.0, jitter=Jitter.proportional(0.1))
    shared = {"retry_after_ceiling": 120, "retry_after_floor": 2, "deadline": 600, "pages_when_spent": True}
    shared["backoff_by_category"] = {Category.RATE_LIMIT: limited}
    slow = Backoff(initial=2.0, multiplier=3.0, maximum=30.0, schedule=(5.0, 60.0))
    assert profile == Profile(
        name="mine",
        judge=Judge.INGESTION,
        policy=Policy(name="mine", max_attempts=7, backoff=base, **shared),
        policies={"slow": Policy(name="mine.slow", max_attempts=8, backoff=slow, **shared)},
        by_severity={Severity.UPSTREAM: "slow", Severity.TRANSIENT: "slow"},
        parks={"BUG": Parking(ParkState.NEEDS_REVIEW), "AUTH_DENIED": Parking(ParkState.SKIPPED, True, True)},  # noqa: FBT003 - the flags just read
        budgets={Cause.CRASH: 9},
    )


@pytest.mark.spec("ORC-2.3")
def test_a_known_profile_changes_only_where_the_text_says_so():
    house = read("[house.policies.slow]\nmax_attempts = 12")["house"]
    assert house == KNOWN["house"].override("slow", max_attempts=12)


@pytest.mark.spec("ORC-2.3")
def test_a_value_given_for_a_profile_holds_for_all_its_policies_but_those_with_their_own():
    house = read("house.max_attempts = 4\nhouse.policies.slow.max_attempts = 12")["house"]
    assert [policy.max_attempts for policy in (house.policy, *house.policies.values())] == [4, 4, 12]


def test_a_profile_can_extend_one_that_stands_further_down_and_its_policies_take_its_name():
    profiles = read("""
        [second]
        extends = "first"
        max_attempts = 3
        [first]
        extends = "house"
        deadline = 10
    """)
    assert profiles["second"].policies["slow"].name == "second.slow"
    assert (profiles["second"].policy.max_attempts, profiles["second"].policy.deadline) == (3, 10)
    assert profiles["first"].policies["slow"].max_attempts == 9


def test_a_profile_can_extend_the_known_one_of_its_own_name():
    assert read('[house]\nextends = "house"\ndeadline = 1')["house"] == KNOWN["house"].override(deadline=1)


def test_growth_given_over_a_schedule_takes_its_place():
    slow = read("house.policies.slow.backoff.initial = 3")["house"].policies["slow"]
    assert slow.backoff == Backoff(initial=3.0)


def test_a_severity_claimed_again_moves_to_its_new_policy():
    house = read('[house.policies.slow]\nseverity = "transient"')["house"]
    assert house.by_severity == {Severity.TRANSIENT: "slow"}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[house]\nmax_attempts = = 3", 2, "not valid TOML"),
        ('[house]\nextends = "crit', 2, "not valid TOML"),
        ("[house]\ndeadline = 1\n[house]\n", 3, "not valid TOML"),
        ("[house]\n\nmax_atempts = 3", 3, "unknown key 'max_atempts' (did you mean 'max_attempts'?)"),
        ("[house.backoff]\ninitial = 1\ninital = 1", 3, "(did you mean 'initial'?)"),
        ("[house]\nbackoff = { initial = 1, inital = 1 }", 2, "(did you mean 'initial'?)"),
        ("house.backoff.maximum = 1\nhouse.backoff.inital = 1", 2, "(did you mean 'initial'?)"),
        ("[house.policies.fast]\nseverety = 'fatal'", 2, "(did you mean 'severity'?)"),
        ("[house]\ndeadline = 1\nmax_attempts = 'five'", 3, "max_attempts must be a whole number from 1"),
        ("[house]\nmax_attempts = 2.5", 2, "max_attempts must be a whole number"),
        ("[house]\nmax_attempts = true", 2, "max_attempts must be a whole number"),
        ("[house]\nmax_attempts = 0", 2, "max_attempts must be from 1 to 32767, not 0"),
        ("[house]\nmax_attempts = 1\nretry_after_floor = 400", 3, "must not exceed retry_after_ceiling"),
        ("[house]\ndeadline = nan", 2, "deadline must be from 0"),
        ("[house]\npages_when_spent = 1", 2, "pages_when_spent must be true or false"),
        ("[house.backoff]\n\nmultiplier = 0.5", 3, "multiplier must be from 1 to 1000, not 0.5"),
        ("[house]\nbackoff = 3", 2, "backoff must be a table, not 3"),
        ("house = 3", 1, "house must be a table, not 3"),
        ("[[house]]\nmax_attempts = 3", 1, "house must be a table"),
        ("[house.backoff]\ninitial = 1\nschedule = [1]", 3, "schedule takes the place of initial"),
        ("[house.backoff]\nschedule = []", 2, "schedule must be a list of one or more seconds"),
        ("[house.backoff]\nschedule = [\n  1,\n  -2,\n]", 2, "schedule's delay must be from 0"),
        ("[house.backoff]\njitter = 'ful'", 2, "no jitter is named 'ful' (did you mean 'full'?)"),
        ("[house.backoff]\njitter = { proportional = 2 }", 2, "jitter's fraction must be from 0 to 1, not 2"),
        ("[house.backoff]\njitter = { additive = [1, 0] }", 2, "jitter's low bound must not exceed"),
        ("[house.backoff]\njitter = { additive = 1 }", 2, 'jitter must be "none", "full"'),
        ("[house.backoff_by_category]\nrate_limt = { initial = 1 }", 2, "(did you mean 'rate_limit'?)"),
        ("[house.backoff_by_category.rate_limt]\ninitial = 1", 1, "(did you mean 'rate_limit'?)"),
        ("[house.policies.fast]\nseverity = 'transent'", 2, "(did you mean 'transient'?); there are: transient"),
        ("[house.policies.fast]\nseverity = 3", 2, "severity cannot be 3; there are: transient"),
        ("[house.policies]\n'a b' = {}", 2, "a policy's name is letters"),
        ("[house.park]\nBUG = 'skiped'", 2, "(did you mean 'skipped'?)"),
        ("[house.park]\nBUG = { alert = true }", 2, "state is missing; there are: skipped, needs_review"),
        ("[house.park.BUG]\nstate = 'skipped'\nalert = 1", 3, "alert must be true or false, not 1"),
        ("[house.park]\nBUG = 3", 2, "BUG must be a table, not 3"),
        ("[house.budgets]\ncrash = 1\nlost_leese = 1", 3, "(did you mean 'lost_lease'?)"),
        ("[house.budgets]\nlost_lease = 1\ncrash = 0", 3, "budgets.crash must be from 1"),
        ("[house.budgets]\nhandler = 1", 2, "there are: crash, out_of_memory, lost_lease, deploy"),
        ("[house]\njudge = 'oracle'", 2, "judge cannot be 'oracle'; there are: criticizer, ingestion"),
        ("[mine]\nextends = 'critiziser'", 2, "(did you mean 'criticizer'?)"),
        ("[mine]\nextends = 3", 2, "extends must be the name of a profile, not 3"),
        ("[a]\nextends = 'b'\n[b]\nextends = 'a'", 4, "a extends b extends a"),
        ("\n[critiziser]\nmax_attempts = 3", 2, "(did you mean 'criticizer'?); a new one says `extends` or `judge`"),
        ("['a b']\njudge = 'criticizer'", 1, "a profile's name is letters"),
        ('a = """\n[b]\n"""\n[house]\ndedline = 1', 1, "a must be a table"),
    ],
)
def test_a_mistake_is_refused_with_its_line_and_what_would_be_right(text, line, said):
    error = refusal(text)
    assert said in str(error)
    assert error.line == line


def test_depth_and_digits_without_end_are_refused_and_crash_nothing():
    assert "nested too deeply" in str(refusal("a = " + "[" * 100_000))
    assert "not valid TOML" in str(refusal("[house]\nmax_attempts = " + "9" * 5000))
    assert refusal("[house]\nmax_attempts = " + "9" * 4000).line == 2
    assert "so many digits" in str(refusal("[house]\nmax_attempts = 0x" + "f" * 9000))
    assert "so many digits" in str(refusal("[house]\nbackoff = 0x" + "f" * 9000))
    assert "so many digits" in str(refusal("[house]\npages_when_spent = 0x" + "f" * 9000))


@given(st.text(alphabet="[]{}=\"'\\#\n.,-_ a1\r\tU", max_size=60))
def test_no_text_gets_anything_but_profiles_or_a_refusal(text):
    try:
        assert read_profiles(text, source="fuzz.toml", known=KNOWN) == {}
    except ProfileError as error:
        assert error.source == "fuzz.toml"


def test_lines_are_right_after_strings_arrays_and_comments_that_span_lines():
    lines = lines_of_keys(
        dedent('''\
        # [not] a = 1
        text = """
        [not.a.table]
        key = "\\""" still inside
        """"
        literal = \'\'\'
        it's = 1
        \'\'\'
        list = [ # ] not yet
          1, "]", { inner = 1,
        other = [2] }, ]
        [ a . "b.c" ] # here
        d.'e' = { f = 1979-05-27 07:32:00, g = {} }
        last = 1
        ''')
    )
    assert lines == {
        ("text",): 2,
        ("literal",): 6,
        ("list",): 9,
        ("list", "inner"): 10,
        ("list", "other"): 11,
        ("a",): 12,
        ("a", "b.c"): 12,
        ("a", "b.c", "d"): 13,
        ("a", "b.c", "d", "e"): 13,
        ("a", "b.c", "d", "e", "f"): 13,
        ("a", "b.c", "d", "e", "g"): 13,
        ("a", "b.c", "last"): 14,
    }


def test_a_profile_can_say_that_it_expects_denials():
    assert read('[a]\njudge = "criticizer"\nexpects_denials = true\n')["a"].expects_denials is True


def test_what_a_profile_expects_is_true_or_false():
    with pytest.raises(ProfileError, match=r"line 3: expects_denials must be true or false"):
        read('[a]\njudge = "criticizer"\nexpects_denials = "yes"\n')
