"""Canary replay as values: when a wave is sent, when it waits, when it stops, and how fast it may go."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.core.canary import (
    AT_ONCE,
    CAMPAIGN_TRANSITIONS,
    UNDER_WAY,
    WAVES,
    CampaignEvent,
    CampaignState,
    Done,
    NextWave,
    Pace,
    Send,
    Standing,
    Stop,
    Wait,
    check_rate,
    check_waves,
    decide,
)
from reprieve.errors import UsageError

NOW = 1_700_000_000.0


def standing(**given):
    usual = {"waves": WAVES, "wave": 0, "launched": 0, "waiting": 0, "replaying": 0, "confirmed": 0, "failed": 0}
    return Standing(**usual | {"left_out": 0, "returned": 0} | given)


UNTIL_SOMETHING_ENDS = Wait(seconds=None)


@pytest.mark.parametrize(
    ("given", "move"),
    [
        # The waves.
        ({"waiting": 500}, Send(count=1)),
        ({"waiting": 499, "launched": 1, "replaying": 1}, UNTIL_SOMETHING_ENDS),
        ({"waiting": 499, "launched": 1, "confirmed": 1}, NextWave()),
        ({"waiting": 499, "wave": 1}, Send(count=2)),
        ({"waiting": 498, "wave": 1, "launched": 1, "confirmed": 1}, Send(count=1)),
        ({"waiting": 497, "wave": 2}, Send(count=5)),
        ({"waiting": 497, "wave": 3, "launched": 20, "confirmed": 19, "replaying": 1}, UNTIL_SOMETHING_ENDS),
        ({"waiting": 372, "wave": 4, "launched": 100, "confirmed": 100}, NextWave()),
        ({"waiting": 372, "wave": 5}, Send(count=372)),
        ({"waiting": 3, "wave": 3}, Send(count=3)),
        ({"wave": 3, "launched": 3, "confirmed": 2, "replaying": 1}, UNTIL_SOMETHING_ENDS),
        ({"wave": 3, "launched": 3, "confirmed": 3}, Done()),
        ({}, Done()),
        ({"waves": (), "waiting": 700}, Send(count=700)),
        # Who can no longer be replayed proves nothing: another takes the place.
        ({"waiting": 499, "launched": 1, "left_out": 1}, Send(count=1)),
        ({"launched": 1, "left_out": 1}, Done()),
        # The last wave is sent ahead of the workers, but never all at once.
        ({"waiting": 100_000, "wave": 5}, Send(count=AT_ONCE)),
        ({"waiting": 99_000, "wave": 5, "launched": 1000, "replaying": 1000}, Send(count=AT_ONCE)),
        ({"waiting": 98_000, "wave": 5, "launched": 2000, "replaying": UNDER_WAY}, UNTIL_SOMETHING_ENDS),
        (
            {"waiting": 98_000, "wave": 5, "launched": 2000, "replaying": 1501, "confirmed": 499},
            UNTIL_SOMETHING_ENDS,
        ),
        ({"waiting": 98_000, "wave": 5, "launched": 2000, "replaying": 1500, "confirmed": 500}, Send(count=500)),
        ({"waiting": 40, "wave": 5, "launched": 2000, "replaying": 1900, "confirmed": 100}, Send(count=40)),
        # The same failure again.
        (
            {"waiting": 497, "wave": 1, "launched": 2, "confirmed": 1, "returned": 1},
            Stop(reason="1 of 2 in wave 2 came back with the failure they had before"),
        ),
        (
            {"waiting": 90_000, "wave": 5, "launched": 9000, "replaying": 1500, "confirmed": 7490, "returned": 10},
            Stop(reason="10 of 9,000 in wave 6 came back with the failure they had before"),
        ),
        (
            {"launched": 1, "returned": 1, "failure": "TIMEOUT (v1:abc)"},
            Stop(reason="1 of 1 in wave 1 came back with TIMEOUT (v1:abc)"),
        ),
        # Other failures.
        ({"waiting": 499, "launched": 1, "failed": 1}, Stop(reason="1 of 1 in wave 1 failed with something else")),
        ({"launched": 1, "failed": 1}, Stop(reason="1 of 1 in wave 1 failed with something else")),
        ({"waiting": 9, "wave": 1, "launched": 2, "failed": 1, "confirmed": 1}, NextWave()),
        (
            {"waiting": 9, "wave": 2, "launched": 5, "failed": 3, "confirmed": 2},
            Stop(reason="3 of 5 in wave 3 failed with something else"),
        ),
        ({"waiting": 9, "wave": 2, "launched": 5, "failed": 3, "replaying": 2}, UNTIL_SOMETHING_ENDS),
        (
            {"waiting": 9, "wave": 3, "launched": 20, "failed": 11, "replaying": 9},
            Stop(reason="11 of 20 in wave 4 failed with something else"),
        ),
        ({"waiting": 9, "wave": 3, "launched": 20, "failed": 10, "replaying": 10}, UNTIL_SOMETHING_ENDS),
        # Quick failures do not outvote successes that take their time.
        ({"waiting": 98_000, "wave": 5, "launched": 2000, "failed": 30, "replaying": 1970}, UNTIL_SOMETHING_ENDS),
    ],
)
def test_what_a_campaign_does_next(given, move):
    assert decide(standing(**given)) == move


@pytest.mark.parametrize(
    ("rate", "allowed", "waiting", "move"),
    [
        (20.0, 5.0, 100, Send(count=5)),
        (20.0, 4.0, 100, Wait(seconds=0.05)),
        (20.0, 20.0, 100, Send(count=20)),
        (20.0, 3.0, 3, Send(count=3)),
        (20.0, -10.0, 100, Wait(seconds=0.75)),
        (0.5, 0.0, 100, Wait(seconds=2.0)),
        (0.5, 1.0, 100, Send(count=1)),
        (0.5, 1.0 - 1e-9, 100, Send(count=1)),
        (1000.0, 999.0, 100, Send(count=100)),
        (1000.0, 0.0, 100, Wait(seconds=0.1)),
    ],
)
def test_a_rate_decides_how_many_and_when(rate, allowed, waiting, move):
    pace = Pace(allowed=allowed, at=NOW, sent=0)
    assert decide(standing(waiting=waiting, wave=5), rate=rate, pace=pace) == move


def test_what_is_not_used_is_saved_up_for_a_second_and_no_longer():
    pace = Pace.start(now=NOW, sent=10)
    assert pace.allowed == 0.0
    assert pace.later(20.0, now=NOW + 0.25, sent=10).allowed == 5.0
    assert pace.later(20.0, now=NOW + 3600.0, sent=10).allowed == 20.0
    assert pace.later(0.1, now=NOW + 3600.0, sent=10).allowed == 1.0


def test_what_others_sent_counts_too():
    pace = Pace.start(now=NOW, sent=10).later(20.0, now=NOW + 1.0, sent=25)
    assert pace.allowed == 5.0
    assert pace.later(20.0, now=NOW + 1.0, sent=40).allowed == -10.0


def test_the_very_first_need_not_wait_and_a_restart_does_not_get_another():
    assert Pace.start(now=NOW, sent=0).allowed == 1.0
    assert Pace.start(now=NOW, sent=1).allowed == 0.0


def test_a_clock_that_goes_back_gives_nothing_away():
    pace = Pace.start(now=NOW, sent=1).later(10.0, now=NOW + 1.0, sent=1)
    back = pace.later(10.0, now=NOW - 100.0, sent=1)
    assert back.allowed == 10.0
    assert back.later(10.0, now=NOW + 1.0, sent=11).allowed == 0.0


NUMBERS = st.integers(0, 5000)


@given(
    st.builds(
        Standing, waves=st.lists(st.integers(1, 200), max_size=6).map(tuple), wave=st.integers(0, 8), launched=NUMBERS,
        waiting=NUMBERS, replaying=NUMBERS, confirmed=NUMBERS, failed=NUMBERS, left_out=NUMBERS, returned=NUMBERS,
    ),
    st.none() | st.floats(0.001, 1000.0),
    st.floats(-100.0, 1000.0),
)  # fmt: skip
def test_whatever_the_numbers_it_sends_neither_after_a_return_nor_beyond_wave_rate_and_room(seen, rate, allowed):
    pace = None if rate is None else Pace(allowed=allowed, at=NOW, sent=seen.sent)
    move = decide(seen, rate=rate, pace=pace)
    if seen.returned:
        assert isinstance(move, Stop)
    if isinstance(move, Send):
        assert 1 <= move.count <= min(seen.wanted, AT_ONCE)
        assert seen.replaying + move.count <= UNDER_WAY
        assert seen.size is None or seen.sent + move.count <= seen.size
        assert rate is None or move.count <= allowed + 1e-5
    if isinstance(move, NextWave | Done):
        assert not seen.replaying
    if isinstance(move, Wait):
        assert seen.replaying or move.seconds is not None, "nobody would end this wait"


@dataclass
class Model:
    """A campaign whose members end as told, and any number of stewards that look at it."""

    ends: list[str]
    waves: tuple
    rate: float | None
    now: float = NOW
    wave: int = 0
    launched: int = 0
    next: int = 0
    replaying: list = field(default_factory=list)
    counts: dict = field(default_factory=lambda: dict.fromkeys(("confirmed", "returned", "failed", "left_out"), 0))
    returned: int = 0
    left_out: int = 0
    sent_at: list = field(default_factory=list)
    waves_sent: list = field(default_factory=lambda: [0])

    def standing(self):
        return Standing(
            waves=self.waves, wave=self.wave, launched=self.launched, waiting=len(self.ends) - self.next,
            replaying=len(self.replaying), confirmed=self.counts["confirmed"], failed=self.counts["failed"],
            left_out=self.counts["left_out"], returned=self.returned,
        )  # fmt: skip

    def launch(self, count):
        for _ in range(count):
            end = self.ends[self.next]
            self.next += 1
            self.launched += 1
            if end == "left_out":
                self.counts["left_out"] += 1
                self.left_out += 1
            else:
                self.replaying.append(end)
                self.sent_at.append(self.now)
                self.waves_sent[-1] += 1

    def end_one(self, place):
        end = self.replaying.pop(place % len(self.replaying))
        self.counts[end] += 1
        self.returned += end == "returned"

    def widen(self):
        assert not self.replaying, "a wave begins when every member of the one before is settled"
        self.wave, self.launched = self.wave + 1, 0
        self.counts = dict.fromkeys(self.counts, 0)
        self.waves_sent.append(0)

    def step(self, draw, paces):
        """One of three stewards looks, and does what is decided; whether the campaign goes on."""
        seen, sent = self.standing(), self.next - self.left_out
        steward = draw.randrange(3)
        if draw.random() < 0.1:
            paces.pop(steward, None)  # it was restarted
        if self.rate is not None:
            before = paces.get(steward)
            started = Pace.start(now=self.now, sent=sent)
            paces[steward] = before.later(self.rate, now=self.now, sent=sent) if before else started
        match decide(seen, rate=self.rate, pace=paces.get(steward)):
            case Send(count=count):
                assert not self.returned, "nothing is sent after a return"
                self.launch(count)
            case NextWave():
                self.widen()
            case Stop():
                assert self.returned or 2 * self.counts["failed"] > seen.sent
                return False
            case Done():
                assert (self.next, self.replaying) == (len(self.ends), [])
                return False
            case Wait(seconds=seconds):
                self.now += 0.01 if seconds is None else seconds * draw.choice([0.3, 1.0, 1.0, 5.0])
        if self.replaying and draw.random() < 0.5:
            self.end_one(draw.randrange(100))
        return True

    def most_beyond(self, rate):
        """By how many the sends between any two moments were more than the rate allows for in that time."""
        return max(
            last - first + 1 - rate * (self.sent_at[last] - began)
            for first, began in enumerate(self.sent_at)
            for last in range(first, len(self.sent_at))
        )


@given(st.data())
def test_with_any_number_of_stewards_that_come_and_go_a_campaign_keeps_to_waves_and_rate_and_ends(data):
    kinds = st.sampled_from(["confirmed"] * 12 + ["failed", "left_out", "returned"])
    model = Model(
        data.draw(st.lists(kinds, min_size=1, max_size=60)),
        data.draw(st.sampled_from([WAVES, (), (1, 1), (3,), (50,)])),
        data.draw(st.none() | st.sampled_from([0.5, 3.0, 20.0, 1000.0])),
    )
    draw, paces = data.draw(st.randoms(use_true_random=False)), {}
    assert any(not model.step(draw, paces) for _ in range(2000)), "the campaign never ended"
    for size, count in zip(model.waves, model.waves_sent, strict=False):
        assert count <= size
    if model.rate is not None and model.sent_at:
        assert model.most_beyond(model.rate) <= max(1.0, model.rate) + 1e-3, "a second's worth, saved up"


@pytest.mark.parametrize("state", CampaignState)
@pytest.mark.parametrize("event", CampaignEvent)
def test_what_is_over_cannot_be_steered_any_more(state, event):
    after = CAMPAIGN_TRANSITIONS.get((state, event))
    assert (after is None) or not state.over
    assert after is not state


@pytest.mark.parametrize("waves", [(0,), (-1,), (1, 2.5), (True,), (1,) * 101, (10_000_000,)])
def test_waves_that_could_not_be_sent_are_refused(waves):
    with pytest.raises(UsageError, match="wave"):
        check_waves(waves)
    assert check_waves([1, 5]) == (1, 5)
    assert check_waves(()) == ()


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), float("inf"), True])
def test_a_rate_that_nobody_could_keep_is_refused(rate):
    with pytest.raises(UsageError, match="rate"):
        check_rate(rate)
    assert check_rate(20.0) == 20.0
    assert check_rate(None) is None
