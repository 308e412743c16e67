"""How paired costs become a verdict, and how often that verdict is wrong."""

import math
import random

import pytest

EIGHT_PERCENT = 1.08
NOISE = 0.035
"""Standard deviation of one sample's cost; a pair has the noise of two. A busy machine showed less."""
DISTURBED = 0.05
"""How many samples a neighbour makes slower by much more than that."""


@pytest.fixture(scope="module")
def ratios(bench_module):
    return bench_module("ratios")


@pytest.fixture
def judged(ratios):
    """Compare a figure as the program does, with made-up costs of a known ratio; return verdict and pairs."""

    def compare(source, true_ratio):
        plan = ratios.SamplingPlan()
        base, head, drift = [], [], 0.0
        while True:
            drift += source.gauss(0, 0.02)
            base.append(100 * math.exp(drift + noise(source)))
            head.append(100 * true_ratio * math.exp(drift + noise(source)))
            if len(base) < plan.pairs:
                continue
            ratio = ratios.estimate_ratio(base, head)
            if not ratios.needs_more_pairs([ratio], plan):
                return ratios.judge_ratio(ratio), ratio.pairs

    return compare


def noise(source):
    disturbed = abs(source.gauss(0, 4 * NOISE)) if source.random() < DISTURBED else 0.0
    return source.gauss(0, NOISE) + disturbed


def test_equal_checkouts_are_not_called_slower(ratios, judged):
    source = random.Random(11)
    runs = [[judged(source, 1.0)[0] for _ in range(60)] for _ in range(40)]
    wrong = sum(ratios.Verdict.SLOWER in run for run in runs)
    assert wrong <= 2, f"{wrong} of 40 comparisons of 60 equal figures reported a slower one"


def test_a_slowdown_of_eight_percent_is_found(ratios, judged):
    source = random.Random(12)
    found = [judged(source, EIGHT_PERCENT)[0] for _ in range(400)].count(ratios.Verdict.SLOWER)
    assert found > 380, f"{found} of 400 slowdowns of 8 % were found"


def test_a_speedup_of_eight_percent_is_found(ratios, judged):
    source = random.Random(13)
    found = [judged(source, 1 / EIGHT_PERCENT)[0] for _ in range(100)].count(ratios.Verdict.FASTER)
    assert found > 95


def test_the_interval_holds_the_true_ratio_in_nineteen_of_twenty_cases(ratios):
    source = random.Random(14)
    held = 0
    for _ in range(1000):
        base = [math.exp(noise(source)) for _ in range(25)]
        head = [1.03 * math.exp(noise(source)) for _ in range(25)]
        ratio = ratios.estimate_ratio(base, head)
        held += ratio.low <= 1.03 <= ratio.high
    assert held >= 940


def test_the_interval_of_twenty_five_pairs_lies_between_the_eighth_ratio_and_the_eighth_from_the_end(ratios):
    head = [1 + number / 100 for number in range(25)]
    ratio = ratios.estimate_ratio([1.0] * 25, head)
    assert (ratio.low, ratio.median, ratio.high) == pytest.approx((1.07, 1.12, 1.17))
    assert ratio.pairs == 25


def test_a_drift_that_both_sides_share_cancels_out(ratios):
    base = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    ratio = ratios.estimate_ratio(base, [1.5 * cost for cost in base])
    assert (ratio.low, ratio.high) == pytest.approx((1.5, 1.5))


def test_five_pairs_have_no_interval(ratios):
    ratio = ratios.estimate_ratio([1.0] * 5, [2.0] * 5)
    assert (ratio.low, ratio.high) == (0.0, math.inf)
    assert ratios.judge_ratio(ratio) is ratios.Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("base", "head"), [([], []), ([1.0], [0.0]), ([-1.0], [1.0]), ([math.nan], [1.0]), ([1.0, 1.0], [1.0])]
)
def test_costs_that_are_not_positive_or_not_paired_are_refused(ratios, base, head):
    with pytest.raises(ValueError):  # noqa: PT011 - the standard library words the last case
        ratios.estimate_ratio(base, head)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.99, 1.03, "no difference"),
        (1.01, 1.06, "no difference"),
        (1.021, 1.06, "slower"),
        (1.05, 1.30, "slower"),
        (0.90, 0.97, "faster"),
        (0.95, 1.03, "undecided"),
        (1.01, 1.09, "undecided"),
    ],
)
def test_the_whole_interval_decides(ratios, low, high, verdict):
    assert ratios.judge_ratio(ratios.Ratio(median=(low + high) / 2, low=low, high=high, pairs=25)) == verdict


@pytest.mark.parametrize(
    ("pairs", "high", "more"),
    [(24, 1.0, True), (25, 1.05, False), (25, 1.07, True), (99, 1.07, True), (100, 9.0, False)],
)
def test_pairs_are_added_while_the_interval_is_wide(ratios, pairs, high, more):
    ratio = ratios.Ratio(median=1.0, low=1.0, high=high, pairs=pairs)
    narrow = ratios.Ratio(median=1.0, low=1.0, high=1.0, pairs=pairs)
    assert ratios.needs_more_pairs([narrow, ratio], ratios.SamplingPlan()) is more


def test_the_pairs_that_are_left_are_estimated_from_the_widest_interval(ratios):
    wide = ratios.Ratio(median=1.0, low=1.0, high=1.08, pairs=30)
    narrow = ratios.Ratio(median=1.0, low=1.0, high=1.01, pairs=30)
    assert ratios.estimate_pairs([narrow, wide], ratios.SamplingPlan()) == 54
    assert ratios.estimate_pairs([narrow], ratios.SamplingPlan()) == 25
    assert ratios.estimate_pairs([ratios.estimate_ratio([1.0], [1.0])], ratios.SamplingPlan()) == 25
