"""Rules as data: what each watches, where its edges are, and what is no rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.app.profiles import SHIPPED
from reprieve.core.alerts import (
    DEFAULT_RULES,
    By,
    Level,
    Rule,
    Seen,
    Until,
    Verdict,
    Watch,
    alarm,
    at_once,
    counting,
    enough_to_tell,
    key_of,
    too_many,
    weigh_batch,
)
from reprieve.errors import ProfileError, UsageError

SKIPPED = DEFAULT_RULES["skipped"]


def seen(watch=Watch.PAGE, error_class="BUG", **values):
    defaults = {"at": 1.0, "source": "review", "stage": "llm", "summary": "x"}
    return Seen(watch=watch, error_class=error_class, **(defaults | values))


# --- windows


@pytest.mark.spec("LLM-7.2")
@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0.0] * 11, True),
        ([0.0] * 10, False),
        ([30.0 * n for n in range(11)], False),  # the first is exactly 300 s older than the last: out of the window
        ([29.9 * n for n in range(11)], True),
        ([0.0] * 10 + [299.999], True),
        ([0.0] * 10 + [300.0], False),
        ([0.0] + [300.0] * 11, True),
        ([], False),
    ],
)
def test_more_than_ten_within_five_minutes_is_eleven_that_are_less_than_that_apart(times, expected):
    assert too_many(times, more_than=10, within=300.0) is expected
    assert too_many(reversed(times), more_than=10, within=300.0) is expected


@given(st.lists(st.integers(0, 100), max_size=40), st.integers(0, 6), st.integers(1, 30))
def test_a_window_is_exact_wherever_it_begins(times, more_than, within):
    naive = any(sum(begin <= each < begin + within for each in times) > more_than for begin in times)
    assert too_many(times, more_than=more_than, within=within) == naive


@given(st.integers(1, 8), st.integers(1, 50), st.data())
def test_looking_at_enough_around_an_event_tells_as_much_as_looking_at_all(more_than, within, data):
    middle = 100
    around = st.integers(middle - within + 1, middle + within - 1)
    times = data.draw(st.lists(around, min_size=enough_to_tell(more_than), max_size=40))
    few = data.draw(st.permutations(times))[: enough_to_tell(more_than)]
    assert too_many(few, more_than=more_than, within=within)


# --- batches


@pytest.mark.spec("LLM-7.3")
@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        (5, 100, Verdict.RESOLVE), (6, 100, Verdict.RAISE), (1, 20, Verdict.RESOLVE), (2, 20, Verdict.RAISE),
        (19, 19, Verdict.KEEP), (0, 0, Verdict.KEEP), (50, 1000, Verdict.RESOLVE), (51, 1000, Verdict.RAISE),
    ],
)  # fmt: skip
def test_more_than_five_percent_of_a_batch_of_at_least_twenty(part, whole, expected):
    assert weigh_batch(SKIPPED, part=part, whole=whole) is expected


@given(st.integers(1, 99), st.integers(1, 50))
def test_a_share_that_is_met_exactly_is_not_exceeded(percent, hundreds):
    rule = replace(SKIPPED, share=percent / 100, at_least=1)
    assert weigh_batch(rule, part=percent * hundreds, whole=100 * hundreds) is Verdict.RESOLVE
    assert weigh_batch(rule, part=percent * hundreds + 1, whole=100 * hundreds) is Verdict.RAISE


def test_a_share_of_nothing_known_is_refused():
    for part, whole in ((-1, 10), (11, 10)):
        with pytest.raises(UsageError, match="no share of a batch"):
            weigh_batch(SKIPPED, part=part, whole=whole)


# --- which rule


@pytest.mark.parametrize(
    ("what", "rule"),
    [
        pytest.param(seen(Watch.PAGE), "page", marks=pytest.mark.spec("CRIT-1.9")),
        pytest.param(seen(Watch.PAUSE, "CONFIG_INVALID"), "fatal", marks=pytest.mark.spec("ORC-1.4")),
        pytest.param(seen(Watch.SPENT, "OVERLOADED"), "spent", marks=pytest.mark.spec("ORC-2.2")),
        pytest.param(seen(Watch.FAILURE, "AUTH_DENIED"), "authentication", marks=pytest.mark.spec("LLM-7.1")),
        pytest.param(seen(Watch.PAGE, "AUTH_DENIED"), "authentication", marks=pytest.mark.spec("LLM-7.1")),
        pytest.param(seen(Watch.PAUSE, "AUTH_DENIED"), "fatal", marks=pytest.mark.spec("LLM-7.1")),
        pytest.param(seen(Watch.ESCALATION), "escalation", marks=pytest.mark.spec("CRIT-5.6")),
        pytest.param(seen(Watch.BROKEN_ORDER, ""), "broken_order", marks=pytest.mark.spec("REV-7.2")),
        (seen(Watch.UNPROVEN, ""), "unproven"),
        (seen(Watch.HELD, ""), "held"),
        (seen(Watch.DUPLICATE, ""), "duplicate"),
        (seen(Watch.FAILURE, "RATE_LIMITED"), None),
        (seen(Watch.FAILURE, "NETWORK_TIMEOUT"), None),
        (seen(Watch.SKIPPED, ""), None),
    ],
)
def test_one_rule_at_most_is_raised_at_once(what, rule):
    found = at_once(DEFAULT_RULES, what)
    assert (None if found is None else found.name) == rule


def test_a_rule_that_is_off_raises_nothing():
    rules = {**DEFAULT_RULES, "page": replace(DEFAULT_RULES["page"], off=True)}
    assert at_once(rules, seen()) is None
    assert weigh_batch(replace(SKIPPED, off=True), part=20, whole=20) is Verdict.KEEP
    assert counting({"r": replace(DEFAULT_RULES["rate_limits"], off=True)}, "RATE_LIMITED") == ()


def test_only_rate_limits_count_by_default():
    assert [rule.name for rule in counting(DEFAULT_RULES, "RATE_LIMITED")] == ["rate_limits"]
    assert counting(DEFAULT_RULES, "BUG") == ()


@pytest.mark.parametrize(("by", "key"), [(By.SOURCE, "review"), (By.STAGE, "review/llm"), (By.CLASS, "review/llm/BUG")])
def test_by_what_alerts_are_kept_apart(by, key):
    rule = replace(DEFAULT_RULES["page"], by=by)
    assert key_of(rule, seen()) == key
    assert alarm(rule, seen()).key == key
    assert key_of(rule, seen(stage="", error_class="")) == "review"


def test_a_summary_has_its_bounds():
    assert len(alarm(DEFAULT_RULES["page"], seen(summary="x" * 10_000)).summary) == 500


# --- what is no rule


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"more_than": 3}, "within is missing"),
        ({"within": 60.0}, "more_than is missing"),
        ({"more_than": -1}, "more_than"),
        ({"more_than": 3, "within": 60.0, "watches": Watch.PAGE}, "more_than counts failures"),
        ({"share": 0.5}, "share is for"),
        ({"watches": Watch.SKIPPED}, "share is for"),
        ({"watches": Watch.SKIPPED, "share": 1.5}, "share"),
        ({"watches": Watch.HELD, "error_classes": ("BUG",)}, "error_class is of no use"),
        ({"until": Until.RELEASED}, "until cannot be released"),
        ({"watches": Watch.HELD, "until": Until.RESUMED}, "until cannot be resumed"),
        ({"level": "loud"}, "level must be one of page, warning"),
        ({"off": 1}, "off must be true or false"),
        ({"quiet": -1.0}, "quiet"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(values, problem):
    with pytest.raises(UsageError, match=problem):
        Rule(name="mine", **({"watches": Watch.FAILURE} | values))


# --- in profiles


@pytest.mark.parametrize("name", ["analysis", "criticizer", "ingestion", "orchestrator"])
def test_every_profile_has_the_rules_without_saying_so(name):
    assert SHIPPED[name].alerts == DEFAULT_RULES


def read(text):
    return SHIPPED.extended(text, source="service.toml")


def test_a_profile_changes_rules_and_adds_its_own():
    book = read("""
[service]
extends = "criticizer"
[service.alerts.rate_limits]
more_than = 50
within = 60
[service.alerts.held]
off = true
[service.alerts.slow]
watches = "failure"
error_class = ["NETWORK_TIMEOUT", "UPSTREAM_UNAVAILABLE"]
more_than = 100
within = 600
level = "warning"
by = "stage"
""")
    rules = book["service"].alerts
    assert (rules["rate_limits"].more_than, rules["rate_limits"].within, rules["rate_limits"].level) == (
        50,
        60,
        Level.WARNING,
    )
    assert rules["held"].off
    assert rules["slow"].error_classes == ("NETWORK_TIMEOUT", "UPSTREAM_UNAVAILABLE")
    assert (rules["slow"].by, rules["slow"].level) == (By.STAGE, Level.WARNING)
    assert SHIPPED["criticizer"].alerts == DEFAULT_RULES, "the shipped ones stay as they are"
    extended = book.extended('[more]\nextends = "service"\n', source="more.toml")
    assert extended["more"].alerts == rules


@pytest.mark.parametrize(
    ("lines", "line", "problem"),
    [
        ("[service.alerts.rate_limit]\nmore_than = 5", 3, "no rule is named 'rate_limit'.*rate_limits"),
        ("[service.alerts.mine]\nlevel = 'page'", 3, "a new one says what it `watches`"),
        ("[service.alerts.page]\nlevl = 'page'", 4, "unknown key 'levl'.*level"),
        ("[service.alerts.page]\nlevel = 'loud'", 4, "level cannot be 'loud'"),
        ("[service.alerts.rate_limits]\nwithin = 60\nmore_than = 'x'", 5, "more_than"),
        ("[service.alerts.page]\nerror_class = 'BUGG'", 4, "error class.*BUG"),
        ("[service.alerts.page]\nerror_class = [1]", 4, "error_class must be a name"),
        ("[service.alerts.mine]\nwatches = 'failure'\nmore_than = 3", 3, "within is missing"),
        ("[service.alerts]\npage = 3", 4, "page must be a table"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_rule_is_told_with_its_line(lines, line, problem):
    with pytest.raises(ProfileError, match=problem) as caught:
        read(f'[service]\nextends = "criticizer"\n{lines}\n')
    assert caught.value.line == line
