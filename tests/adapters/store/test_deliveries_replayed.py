"""A replay serves who is missing: what failed is to be sent again, by the word of who replays; the rest stays as it is."""

import pytest
from outbox_desk import NOW, Outbox

from reprieve.core.lifecycle import DeliveryEvent, DeliveryStatus, LetterEvent
from reprieve.ports import intents as i

MARKS = {"notification_id": "<1@mail>", "notified_at": NOW, "evidence": "x"}


@pytest.fixture
def outbox(desk):
    return Outbox(desk)


def dead(desk, say, key="key"):
    """A job that is buried; itself and its letter."""
    lease = desk.lease(key)
    desk.do(say.bury(lease.job_id, lease.fence))
    return lease.job_id, desk.row("dead_letters", job_id=lease.job_id)["id"]


def replay(*letters, **values):
    step = i.Step(event=LetterEvent.OVERRIDE, note="the address was corrected")
    return i.Replay(letters=letters, steps=(step,), actor="ann", now=NOW + 60, **values)


@pytest.mark.parametrize("values", [{}, {"restart": True}])
def test_a_replay_puts_back_what_failed_marks_what_is_pending_and_changes_nothing_else(desk, say, outbox, values):
    job_id, letter_id = dead(desk, say)
    for status in DeliveryStatus:
        outbox.put(status, job_id=job_id)
    outbox.put(DeliveryStatus.FAILED, job_id=99)
    before = outbox.rows()
    assert desk.do(replay(letter_id, **values)).applied == (letter_id,)
    after = outbox.rows()
    changed = {was["status"]: (was, now) for was, now in zip(before, after, strict=True) if was != now}
    assert sorted(changed) == ["failed", "pending"]
    for was, now in changed.values():
        assert (now["status"], now["fence"], now["reason"]) == ("pending", was["fence"] + 1, "its job is replayed")
    assert [entry["delivery_id"] for entry in desk.rows("delivery_attempts")] == [changed["failed"][0]["id"]]


def test_what_a_person_gave_up_stays_given_up(desk, say, outbox):
    job_id, letter_id = dead(desk, say)
    delivery_id = outbox.put(DeliveryStatus.HELD, job_id=job_id)
    attempt = i.DeliveryAttempt(
        kind="give_up", number=0, started_at=NOW, ended_at=NOW, phase=None, answer="given up", actor="ann"
    )
    given_up = i.Correct(
        delivery_id=delivery_id, fence=0, event=DeliveryEvent.GIVE_UP, attempt=attempt, reason="nobody knows"
    )
    assert desk.do(given_up) is i.Written.APPLIED
    desk.do(replay(letter_id))
    assert (outbox.row(delivery_id)["status"], outbox.row(delivery_id)["reason"]) == ("failed", "nobody knows")


def test_what_is_put_back_bears_no_mark_and_its_log_says_by_whom(desk, say, outbox):
    job_id, letter_id = dead(desk, say)
    times = {"first_sent_at": NOW, "last_sent_at": NOW}
    delivery_id = outbox.put(
        DeliveryStatus.FAILED, job_id=job_id, fence=4, attempts=2, not_before=NOW + 999, reason="no", **times, **MARKS
    )
    desk.do(replay(letter_id))
    row = outbox.row(delivery_id)
    assert [row[name] for name in (*MARKS, "not_before")] == [None] * 4
    assert (row["attempts"], row["first_sent_at"], row["changed_at"]) == (2, NOW, NOW + 60)
    (entry,) = outbox.log(delivery_id)
    told = {name: entry[name] for name in ("fence", "kind", "number", "started_at", "ended_at", "actor")}
    assert told == {
        "fence": 5, "kind": "resend", "number": 2, "started_at": NOW + 60, "ended_at": NOW + 60, "actor": "ann",
    }  # fmt: skip


def test_each_job_of_a_large_replay_has_its_own_put_back(desk, say, outbox):
    letters = []
    for number in range(12):
        job_id, letter_id = dead(desk, say, f"key-{number}")
        letters.append(letter_id)
        outbox.put(DeliveryStatus.FAILED, job_id=job_id)
    desk.do(replay(*letters[:10]))
    assert [row["status"] for row in outbox.rows()] == ["pending"] * 10 + ["failed"] * 2


def test_a_replay_that_is_sent_again_puts_back_nothing_twice(desk, say, outbox):
    job_id, letter_id = dead(desk, say)
    outbox.put(DeliveryStatus.FAILED, job_id=job_id)
    desk.do(replay(letter_id))
    before = desk.everything()
    assert desk.do(replay(letter_id), again=True).applied == (letter_id,)
    assert desk.everything() == before


def test_a_replay_that_is_refused_puts_back_nothing(desk, say, outbox):
    job_id, letter_id = dead(desk, say)
    outbox.put(DeliveryStatus.FAILED, job_id=job_id)
    assert [each.letter_id for each in desk.do(replay(letter_id, stage="nowhere")).refused] == [letter_id]
    assert (outbox.status(), outbox.log()) == (DeliveryStatus.FAILED, [])
