"""What to do about a delivery: a table over its row, its provider's capability and the time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.app.judging import classify
from reprieve.core.delivery import (
    Act,
    Capability,
    Found,
    Phase,
    Standing,
    after_failed_send,
    after_look_up,
    assumed_phase,
    next_act,
    wait_in_doubt,
)
from reprieve.core.lifecycle import (
    DELIVERY_TRANSITIONS,
    DeliveryEvent,
    DeliveryStatus,
    delivery_after,
)
from reprieve.errors import IllegalTransitionError, Permanent, Retryable

NEW = Standing(
    status=DeliveryStatus.PENDING, notified_at=None, evidence=False, attempts=0, first_sent_at=None, last_sent_at=None,
    leased_until=None, not_before=None, lookups=0,
)  # fmt: skip
LOOKS = Capability(looks_up=True, lag=10.0, retention=1000.0, send_timeout=30.0)
KEYED = Capability(key_window=1000.0, lag=10.0, send_timeout=30.0)
NEITHER = Capability(send_timeout=30.0)
CAPABILITIES = pytest.mark.parametrize("can", [LOOKS, KEYED, NEITHER, replace(KEYED, looks_up=True)])
IN_DOUBT = replace(NEW, status=DeliveryStatus.UNCERTAIN, attempts=1, first_sent_at=100.0, last_sent_at=100.0)


@pytest.mark.spec("REV-4.6")
@CAPABILITIES
def test_a_row_that_was_never_attempted_is_sent(can):
    assert next_act(NEW, can, 0.0).act is Act.SEND


@pytest.mark.spec("REV-3.3", "REV-4.5")
@CAPABILITIES
def test_what_is_notified_with_evidence_is_left_alone_for_ever(can):
    row = replace(NEW, status=DeliveryStatus.SENT, notified_at=100.0, evidence=True, attempts=1)
    assert next_act(row, can, 1e9).act is Act.NOTHING


@pytest.mark.spec("REV-4.7", "REV-7.1")
def test_what_may_have_been_sent_is_looked_up_before_anything_else():
    assert next_act(IN_DOUBT, LOOKS, 200.0).act is Act.LOOK_UP


@pytest.mark.spec("REV-8.2")
def test_a_mark_without_evidence_is_looked_up_and_never_sent_first():
    claims = replace(NEW, status=DeliveryStatus.SENT, notified_at=100.0, evidence=False)
    assert next_act(claims, LOOKS, 200.0).act is Act.LOOK_UP
    for can in (KEYED, NEITHER):
        assert next_act(replace(claims, first_sent_at=190.0, last_sent_at=190.0), can, 200.0).act is Act.HOLD


def test_a_send_whose_process_ended_is_left_alone_until_its_time_and_the_lag_are_over():
    row = replace(IN_DOUBT, status=DeliveryStatus.SENDING, leased_until=135.0)
    assert next_act(row, LOOKS, 134.0).at == 135.0
    assert next_act(row, LOOKS, 139.0) == replace_at(next_act(row, LOOKS, 139.0), 140.0)
    assert next_act(row, LOOKS, 140.0).act is Act.LOOK_UP


def replace_at(what, at):
    assert what.act is Act.WAIT
    return replace(what, at=at)


def test_a_provider_that_drops_a_second_one_gets_a_second_one_within_its_window_only():
    assert next_act(IN_DOUBT, KEYED, 900.0).act is Act.SEND
    assert next_act(IN_DOUBT, KEYED, 1000.0).act is Act.HOLD


def test_where_nothing_can_be_known_a_person_decides():
    assert next_act(IN_DOUBT, NEITHER, 200.0).act is Act.HOLD


def test_nobody_gets_last_months_mail_again():
    assert next_act(IN_DOUBT, LOOKS, 100.0 + 900.0).act is Act.HOLD


@pytest.mark.parametrize(
    ("found", "event"),
    [
        (Found.FOUND, DeliveryEvent.FIND),
        (Found.DUPLICATE, DeliveryEvent.FIND),
        (Found.ABSENT, DeliveryEvent.MISS),
        (Found.UNKNOWN, DeliveryEvent.DOUBT),
    ],
)
def test_a_look_up_has_three_answers_and_the_fourth_that_is_shown(found, event):
    assert after_look_up(found, IN_DOUBT, LOOKS, 200.0)[0] is event


def test_a_provider_that_never_says_is_asked_ever_more_rarely_and_then_a_person_is():
    row, now, waits = IN_DOUBT, 200.0, []
    while True:
        event, following = after_look_up(Found.UNKNOWN, row, LOOKS, now)
        if event is DeliveryEvent.HOLD:
            break
        waits.append(following.at - now)
        row, now = replace(row, lookups=row.lookups + 1), following.at
    assert waits == sorted(waits)
    assert len(waits) > 3
    assert now < 100.0 + LOOKS.retention


@pytest.mark.parametrize(
    ("error", "phase", "event"),
    [
        (Retryable("later"), Phase.BEFORE, DeliveryEvent.PUT_OFF),
        (Retryable("later"), Phase.REJECTED, DeliveryEvent.PUT_OFF),
        (Permanent("never"), Phase.REJECTED, DeliveryEvent.REFUSE),
        (Permanent("never"), Phase.DURING, DeliveryEvent.DOUBT),
        (Retryable("later"), Phase.DURING, DeliveryEvent.DOUBT),
    ],
)
def test_a_failed_send_is_judged_by_how_far_it_got(error, phase, event):
    assert after_failed_send(classify(error), phase) is event


@pytest.mark.spec("REV-7.1")
@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("error", [Retryable("later"), Permanent("never")])
def test_a_later_try_that_fails_takes_no_doubt_off_an_earlier_one(error, phase):
    assert after_failed_send(classify(error), phase, doubted=True) is DeliveryEvent.DOUBT


def test_a_doubt_waits_longer_with_every_send():
    waits = [wait_in_doubt(attempts, 0.0) for attempts in range(1, 30)]
    assert waits[0] == 0.0
    assert waits == sorted(waits)
    assert waits[-1] == 900.0
    assert wait_in_doubt(1, 60.0) == 60.0


@pytest.mark.parametrize(
    ("error", "phase"),
    [
        (ConnectionRefusedError("no"), Phase.BEFORE),
        (ConnectionResetError("gone"), Phase.DURING),
        (TimeoutError("slow"), Phase.DURING),
        (ValueError("odd"), Phase.DURING),
    ],
)
def test_a_sender_that_says_nothing_is_taken_to_have_got_as_far_as_it_may_have(error, phase):
    assert assumed_phase(classify(error)) is phase


def test_what_is_not_in_the_table_raises():
    for status in DeliveryStatus:
        for event in DeliveryEvent:
            if (status, event) in DELIVERY_TRANSITIONS:
                assert delivery_after(status, event) in DeliveryStatus
            else:
                with pytest.raises(IllegalTransitionError):
                    delivery_after(status, event)


moments = st.floats(min_value=0.0, max_value=1e6)
rows = st.builds(
    Standing,
    status=st.sampled_from(DeliveryStatus),
    notified_at=st.none() | st.floats(0.0, 1e6),
    evidence=st.booleans(),
    attempts=st.integers(0, 5),
    first_sent_at=st.none() | moments,
    last_sent_at=st.none() | moments,
    leased_until=st.none() | moments,
    not_before=st.none() | moments,
    lookups=st.integers(0, 30),
)
capabilities = st.builds(
    Capability,
    key_window=st.none() | st.floats(1.0, 1e5),
    looks_up=st.booleans(),
    lag=st.floats(0.0, 100.0),
    retention=st.none() | st.floats(1.0, 1e6),
    send_timeout=st.floats(0.1, 100.0),
)


@given(rows, capabilities, moments)
def test_a_second_send_is_made_only_of_what_is_pending_or_what_the_provider_drops(row, can, now):
    if next_act(row, can, now).act is Act.SEND and row.status is not DeliveryStatus.PENDING:
        assert not row.notified
        assert can.key_window is not None
        assert row.first_sent_at is not None
        assert now < row.first_sent_at + can.key_window


@given(rows, capabilities, moments)
def test_nothing_is_done_while_somebody_is_at_it_and_every_wait_ends(row, can, now):
    what = next_act(row, can, now)
    if row.leased_until is not None and now < row.leased_until:
        assert what.act is Act.WAIT
    if what.act is Act.WAIT:
        assert what.at > now


@given(rows, capabilities, moments)
def test_whatever_is_done_is_a_way_that_the_table_has(row, can, now):
    events = {Act.SEND: DeliveryEvent.BEGIN, Act.LOOK_UP: DeliveryEvent.LOOK, Act.HOLD: DeliveryEvent.HOLD}
    act = next_act(row, can, now).act
    if act in events:
        assert (row.status, events[act]) in DELIVERY_TRANSITIONS
