"""The waits between tries: their bounds, their growth, and that no number of failures breaks them."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprieve.core.backoff import LONGEST, Backoff, Jitter, JitterKind
from reprieve.errors import UsageError

ATTEMPTS = st.one_of(st.integers(1, 100), st.integers(1, 10**9), st.integers(1, 10**400))
DRAWS = st.floats(0.0, 1.0, exclude_max=True)
SECONDS = st.floats(0.0, LONGEST)
JITTERS = st.one_of(
    st.just(Jitter.none()),
    st.just(Jitter.full()),
    st.floats(0.0, 1.0).map(Jitter.proportional),
    st.tuples(st.floats(-100.0, 100.0), st.floats(0.0, 100.0)).map(
        lambda pair: Jitter.additive(pair[0], pair[0] + pair[1])
    ),
)
BACKOFFS = st.one_of(
    st.builds(Backoff, initial=SECONDS, multiplier=st.floats(1.0, 1000.0), maximum=SECONDS, jitter=JITTERS),
    st.builds(
        Backoff,
        initial=st.integers(0, 100),
        multiplier=st.integers(1, 10),
        maximum=st.integers(0, 1000),
        jitter=JITTERS,
    ),
    st.builds(Backoff, schedule=st.lists(SECONDS, min_size=1, max_size=6), jitter=JITTERS),
)


def bounds(jitter: Jitter, delay: float) -> tuple[float, float]:
    match jitter.kind:
        case JitterKind.NONE:
            return delay, delay
        case JitterKind.FULL:
            return 0.0, delay
        case JitterKind.PROPORTIONAL:
            return delay * (1.0 - jitter.high), delay * (1.0 + jitter.high)
        case JitterKind.ADDITIVE:
            return max(0.0, delay + jitter.low), max(0.0, delay + jitter.high)


@settings(deadline=None)
@given(BACKOFFS, ATTEMPTS, DRAWS)
def test_every_delay_lies_within_the_bounds_of_its_jitter(backoff, attempt, draw):
    least, most = bounds(backoff.jitter, backoff.before_jitter(attempt))
    delay = backoff.delay(attempt, draw)
    assert math.isfinite(delay)
    assert delay >= 0.0
    slack = 1e-9 * max(1.0, most)
    assert least - slack <= delay <= most + slack


@settings(deadline=None)
@given(BACKOFFS, st.integers(1, 10**6), st.integers(0, 10**6))
def test_an_exponential_envelope_never_falls_and_never_passes_its_maximum(backoff, attempt, further):
    if backoff.schedule is None:
        assert backoff.before_jitter(attempt) <= backoff.before_jitter(attempt + further) <= backoff.maximum
    else:
        assert backoff.before_jitter(len(backoff.schedule) + further) == backoff.schedule[-1]


@given(BACKOFFS, st.integers(1, 1000), DRAWS)
def test_the_same_attempt_and_draw_give_the_same_delay(backoff, attempt, draw):
    assert backoff.delay(attempt, draw) == backoff.delay(attempt, draw)


@pytest.mark.parametrize("attempt", [10_000, 10**9, 10**400])
@pytest.mark.parametrize("multiplier", [2, 2.0, 1000, 1.0])
def test_no_number_of_failures_overflows(attempt, multiplier):
    backoff = Backoff(initial=1, multiplier=multiplier, maximum=60)
    assert backoff.delay(attempt, 0.5) == (1.0 if multiplier == 1 else 60.0)


def test_a_backoff_that_starts_from_nothing_stays_there():
    assert Backoff(initial=0, multiplier=2, maximum=60).delay(10**9, 0.5) == 0.0


@pytest.mark.parametrize(
    ("attempt", "cap"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 16.0), (6, 32.0), (7, 60.0), (50, 60.0)]
)
def test_full_jitter_draws_from_nothing_up_to_the_capped_exponential(attempt, cap):
    backoff = Backoff(initial=1.0, multiplier=2.0, maximum=60.0, jitter=Jitter.full())
    assert backoff.delay(attempt, 0.0) == 0.0
    assert backoff.delay(attempt, 0.25) == cap / 4
    assert cap * 0.99 < backoff.delay(attempt, 0.999) < cap


def test_proportional_jitter_moves_the_capped_delay_and_so_may_exceed_the_cap():
    backoff = Backoff(initial=1.0, multiplier=2.0, maximum=60.0, jitter=Jitter.proportional(0.2))
    assert backoff.delay(30, 0.0) == pytest.approx(48.0)
    assert backoff.delay(30, 0.5) == pytest.approx(60.0)
    assert backoff.delay(30, 1.0 - 2**-53) == pytest.approx(72.0)


def test_additive_jitter_below_nothing_does_not_make_a_delay_negative():
    assert Backoff(initial=0.05, jitter=Jitter.additive(-0.1, 0.1)).delay(1, 0.0) == 0.0


def test_a_schedule_repeats_its_last_value():
    backoff = Backoff(schedule=[5, 10, 20, 60])
    assert [backoff.delay(attempt, 0.9) for attempt in (1, 2, 3, 4, 5, 6, 10**9)] == [5, 10, 20, 60, 60, 60, 60]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"initial": -1.0}, "initial"),
        ({"initial": math.nan}, "initial"),
        ({"initial": math.inf}, "initial"),
        ({"initial": 10**400}, "initial"),
        ({"initial": "1"}, "initial"),
        ({"initial": True}, "initial"),
        ({"multiplier": 0.5}, "multiplier"),
        ({"multiplier": math.inf}, "multiplier"),
        ({"maximum": -1}, "maximum"),
        ({"maximum": math.inf}, "maximum"),
        ({"schedule": []}, "schedule"),
        ({"schedule": [1.0, -2.0]}, "schedule"),
        ({"schedule": 5}, "schedule"),
        ({"jitter": "full"}, "jitter"),
    ],
)
def test_a_backoff_that_could_not_be_followed_is_refused_by_the_name_of_its_field(values, named):
    with pytest.raises(UsageError, match=f"^{named}"):
        Backoff(**values)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Jitter.proportional(1.5),
        lambda: Jitter.proportional(-0.1),
        lambda: Jitter.proportional("a fifth"),
        lambda: Jitter.additive(0.3, 0.0),
        lambda: Jitter.additive(math.nan, 0.0),
        lambda: Jitter(JitterKind.FULL, 0.0, 1.0),
        lambda: Jitter(JitterKind.PROPORTIONAL, 0.0, 0.2),
        lambda: Jitter("some"),
    ],
)
def test_a_jitter_that_could_not_be_followed_is_refused(make):
    with pytest.raises(UsageError, match=r"^jitter"):
        make()


@pytest.mark.parametrize(("attempt", "draw"), [(0, 0.5), (-1, 0.5), (1, 1.0), (1, -0.1), (1, math.nan)])
def test_an_attempt_below_one_and_a_draw_out_of_range_are_refused(attempt, draw):
    with pytest.raises(UsageError, match=r"attempt|draw"):
        Backoff().delay(attempt, draw)
