"""What is said about deliveries once more, after an outcome that was unknown, is answered as if it were done now, and done once."""

import pytest
from outbox_desk import NOW, Outbox, accepted, begin, correct, draft, end, look, prepare, tried

from reprieve.core.lifecycle import DeliveryEvent, DeliveryStatus
from reprieve.ports.intents import Written

ENDS = ["accept", "put_off", "refuse", "doubt", "find", "miss", "hold"]
CORRECTIONS = ["confirm", "resend", "give_up", "hold", "look"]
LOOKED_UP = {DeliveryEvent.FIND, DeliveryEvent.MISS, DeliveryEvent.DOUBT}
ADA, BOB = "mailto:ada@example.org", "mailto:bob@example.org"


@pytest.fixture
def outbox(desk):
    return Outbox(desk)


def test_what_was_begun_is_begun_and_counted_once(desk, outbox):
    for number, (status, word) in enumerate([(DeliveryStatus.PENDING, begin), (DeliveryStatus.UNCERTAIN, look)], 1):
        outbox.put(status)
        said = word(number, until=NOW + 30.1234567)
        assert desk.do(said) is Written.APPLIED
        before = desk.everything()
        assert desk.do(said, again=True) is Written.APPLIED
        assert desk.do(said) is Written.STALE
        assert desk.everything() == before


def test_what_was_not_begun_is_begun_now(desk, outbox):
    outbox.put()
    assert desk.do(begin(), again=True) is Written.APPLIED
    assert (outbox.status(), outbox.row()["fence"]) == (DeliveryStatus.SENDING, 1)


def test_what_somebody_else_has_begun_is_not_ours(desk, outbox):
    outbox.put(DeliveryStatus.UNCERTAIN)
    desk.do(begin())
    before = desk.everything()
    for other in (begin(until=NOW + 31), begin(fence=1), look()):
        assert desk.do(other, again=True) is Written.STALE
    assert desk.everything() == before


@pytest.mark.parametrize("done_before", [False, True])
def test_of_two_who_said_the_very_same_only_one_is_told_that_it_is_his(desk, outbox, done_before):
    outbox.put()
    if done_before:
        desk.do(begin())
    assert sorted(desk.batch(begin(), begin(), again=True)) == [Written.APPLIED, Written.STALE]
    assert outbox.row()["attempts"] == 1


@pytest.mark.parametrize("event", [DeliveryEvent(each) for each in ENDS])
def test_what_was_ended_is_ended_and_counted_once(desk, outbox, event):
    status = DeliveryStatus.RECONCILING if event in {DeliveryEvent.FIND, DeliveryEvent.MISS, DeliveryEvent.DOUBT} else DeliveryStatus.SENDING  # fmt: skip
    outbox.put(status, fence=1, leased_until=NOW + 30)
    attempt = tried(started_at=NOW + 0.1234567, ended_at=NOW + 0.7654321)
    assert desk.do(end(event=event, attempt=attempt)) is Written.APPLIED
    before = desk.everything()
    assert desk.do(end(event=event, attempt=attempt), again=True) is Written.APPLIED
    assert desk.everything() == before


def test_what_was_ended_and_begun_again_since_is_still_answered_as_ended(desk, outbox):
    outbox.put()
    desk.do(begin())
    doubt = end(event=DeliveryEvent.DOUBT)
    desk.do(doubt)
    desk.do(look(fence=1))
    before = desk.everything()
    assert desk.do(doubt, again=True) is Written.APPLIED
    assert desk.everything() == before


def test_what_was_not_ended_is_ended_now(desk, outbox):
    outbox.put()
    desk.do(begin())
    assert desk.do(accepted(), again=True) is Written.APPLIED
    assert (outbox.status(), len(outbox.log())) == (DeliveryStatus.SENT, 1)


@pytest.mark.parametrize("event", [DeliveryEvent(each) for each in CORRECTIONS])
def test_what_was_corrected_is_corrected_and_told_once(desk, outbox, event):
    outbox.put(DeliveryStatus.UNCERTAIN if event is DeliveryEvent.HOLD else DeliveryStatus.HELD)
    said = correct(event=event)
    assert desk.do(said) is Written.APPLIED
    before = desk.everything()
    assert desk.do(said, again=True) is Written.APPLIED
    assert desk.everything() == before
    other = correct(event=event, attempt=tried(kind=event.value, actor="bob"))
    assert desk.do(other, again=True) is Written.STALE, "somebody else's"
    assert desk.everything() == before


def test_preparing_once_more_writes_nothing_twice(desk, outbox):
    lease = desk.lease()
    first = desk.do(prepare(lease.job_id, 1, draft(ADA), draft(BOB)))
    before = desk.everything()
    assert desk.do(prepare(lease.job_id, 1, draft(ADA), draft(BOB)), again=True) == first
    assert desk.everything() == before
