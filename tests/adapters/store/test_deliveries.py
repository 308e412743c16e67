"""What stores make of deliveries: rows first, one holder at a time, each change allowed by the table, all of it in one write."""

import pytest
from outbox_desk import NOW, Outbox, accepted, begin, correct, draft, end, look, prepare, tried
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from reprieve.core.lifecycle import DELIVERY_TRANSITIONS, DeliveryEvent, DeliveryStatus
from reprieve.errors import StoreRefusedError
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

BEGINS = {DeliveryEvent.BEGIN, DeliveryEvent.LOOK}
ENDS = {
    DeliveryEvent.ACCEPT, DeliveryEvent.PUT_OFF, DeliveryEvent.REFUSE, DeliveryEvent.DOUBT, DeliveryEvent.FIND,
    DeliveryEvent.MISS, DeliveryEvent.HOLD,
}  # fmt: skip
CORRECTIONS = {
    DeliveryEvent.CONFIRM, DeliveryEvent.RESEND, DeliveryEvent.GIVE_UP, DeliveryEvent.HOLD, DeliveryEvent.LOOK,
}  # fmt: skip
ADA, BOB = "mailto:ada@example.org", "mailto:bob@example.org"


@pytest.fixture
def outbox(desk):
    return Outbox(desk)


KEPT = "CREATE TABLE versions (status TEXT, has_id BOOLEAN, has_time BOOLEAN)"
KEEP = "INSERT INTO versions VALUES (NEW.status, NEW.notification_id IS NOT NULL, NEW.notified_at IS NOT NULL)"
ON_SQLITE = [f"CREATE TRIGGER keep_{on} AFTER {on} ON deliveries BEGIN {KEEP}; END" for on in ("INSERT", "UPDATE")]
ON_POSTGRES = [
    f"CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {KEEP}; RETURN NULL; END$$",
    "CREATE TRIGGER keep AFTER INSERT OR UPDATE ON deliveries FOR EACH ROW EXECUTE FUNCTION keep()",
]


@pytest.fixture
def watched(desk):
    """Every version of any row of deliveries, as it was written: its status, and which marks it bore."""
    is_sqlite = desk.url.startswith("sqlite")

    def run(*statements):
        with desk._engine.begin() as connection:
            return [connection.execute(text(statement)) for statement in statements]

    def versions():
        with desk._engine.connect() as connection:
            found = connection.execute(text("SELECT * FROM versions"))
            return [(status, bool(has_id), bool(has_time)) for status, has_id, has_time in found]

    run(KEPT, *(ON_SQLITE if is_sqlite else ON_POSTGRES))
    yield versions
    if not is_sqlite:  # whose database others use after this test
        run("DROP TRIGGER keep ON deliveries", "DROP FUNCTION keep", "DROP TABLE versions")


# --- rows first


@pytest.mark.spec("REV-3.1", "REV-3.2")
def test_a_row_is_written_for_each_recipient_before_anything_is_sent(desk, outbox):
    lease = desk.lease()
    answer = desk.do(prepare(lease.job_id, lease.fence, draft(BOB, required=False), draft(ADA, body=b"hi", token="t")))
    assert [row.recipient for row in answer.rows] == [BOB, ADA]
    assert [(row["recipient"], row["status"], row["attempts"]) for row in outbox.rows()] in (
        [(ADA, "pending", 0), (BOB, "pending", 0)],
        [(BOB, "pending", 0), (ADA, "pending", 0)],
    )
    told = answer.rows[1]
    assert told == i.DeliveryRecord(
        delivery_id=told.delivery_id, job_id=lease.job_id, changelist_id="cl-1", recipient=ADA, review_version=1,
        sender="mail", token="t", body=b"hi", required=True, status=DeliveryStatus.PENDING, notification_id=None,
        notified_at=None, evidence=None, fence=0, attempts=0, lookups=0, first_sent_at=None, last_sent_at=None,
        leased_until=None, not_before=None, reason=None, created_at=NOW,
    )  # fmt: skip
    assert (answer.rows[0].required, outbox.row(told.delivery_id)["body"]) == (False, b"hi")


def test_what_was_frozen_first_stays_and_so_does_its_job(desk, outbox):
    (first,) = outbox.prepared(ADA)
    other = desk.lease("other")
    later = prepare(other.job_id, other.fence, draft(BOB), draft(ADA, body=b"another", token="x", required=False))
    bob, ada = desk.do(later).rows
    assert ada == first
    assert (bob.recipient, bob.job_id) == (BOB, other.job_id)
    assert len(outbox.rows()) == 2


@pytest.mark.spec("REV-4.4")
def test_preparing_again_answers_with_the_rows_as_they_are_now(desk, outbox):
    (row,) = outbox.prepared(ADA)
    desk.batch(begin(row.delivery_id))
    desk.batch(accepted(row.delivery_id, evidence="seen", reason="fine", not_before=NOW + 9))
    (now,) = desk.do(prepare(row.job_id, 1, draft(ADA))).rows
    assert (now.status, now.notification_id, now.notified_at) == (DeliveryStatus.SENT, "<1@mail>", NOW + 2)
    assert (now.evidence, now.reason, now.not_before, now.fence) == ("seen", "fine", NOW + 9, 1)
    assert (now.attempts, now.first_sent_at, now.last_sent_at, now.leased_until) == (1, NOW, NOW, None)


@pytest.mark.parametrize("trouble", ["another fence", "nobody's", "over", "unknown"])
def test_only_who_holds_the_job_prepares_its_deliveries(desk, say, outbox, trouble):
    lease = desk.lease()
    fence, job_id = lease.fence, lease.job_id
    match trouble:
        case "another fence":
            fence += 1
        case "nobody's":
            desk.do(say.release(job_id, fence))
        case "over":
            desk.do(say.finish(job_id, fence))
        case _:
            job_id = 404
    assert desk.do(prepare(job_id, fence)) == i.Prepared(rows=())
    assert outbox.rows() == []


def test_who_lost_the_job_is_told_so_also_beside_somebody_who_holds_another(desk, outbox):
    lost, held = desk.lease("lost"), desk.lease("held")
    answers = desk.batch(prepare(lost.job_id, 7), prepare(held.job_id, held.fence), prepare(404, 1))
    assert [[row.job_id for row in answer.rows] for answer in answers] == [[], [held.job_id], []]


def test_a_recipient_that_stands_twice_in_a_batch_gets_one_row(desk, outbox):
    one, two = desk.lease("one"), desk.lease("two")
    twice = prepare(one.job_id, one.fence, draft(ADA, body=b"1"), draft(ADA, body=b"2"))
    answers = desk.batch(twice, prepare(two.job_id, two.fence, draft(ADA, body=b"3")))
    (row,) = outbox.rows()
    assert [each.delivery_id for answer in answers for each in answer.rows] == [row["id"]] * 3
    assert {each.body for answer in answers for each in answer.rows} == {b"1"}


def test_preparing_nothing_writes_nothing(desk, outbox):
    lease = desk.lease()
    nothing = i.Prepare(job_id=lease.job_id, fence=1, changelist_id="cl-1", review_version=1, drafts=(), now=NOW)
    assert desk.do(nothing) == i.Prepared(rows=())
    assert outbox.rows() == []


@pytest.mark.spec("REV-3.1")
def test_the_database_itself_has_one_row_for_a_recipient_of_a_version(outbox):
    key = {"changelist_id": "cl-1", "recipient": ADA, "review_version": 1}
    outbox.put(**key)
    for other in ({"changelist_id": "cl-2"}, {"recipient": BOB}, {"review_version": 2}):
        outbox.put(**(key | other))
    with pytest.raises(IntegrityError):
        outbox.put(**key)


def test_the_database_itself_has_no_row_that_is_sent_without_a_time_or_pending_with_one(outbox):
    """A sweep would not find the one, and a stage would skip the other."""
    for status, marks in (("sent", {"notified_at": None, "notification_id": "x"}), ("pending", {"notified_at": NOW})):
        with pytest.raises(IntegrityError):
            outbox.put(DeliveryStatus(status), **marks)


def test_a_text_that_cannot_be_written_is_refused_and_nothing_is_left(desk, outbox):
    lease = desk.lease()
    before = desk.everything()
    with pytest.raises(StoreRefusedError):
        desk.do(prepare(lease.job_id, 1, draft(ADA), draft("mailto:\ud800@example.org")))
    assert desk.everything() == before


# --- what may happen to which


@pytest.mark.parametrize("status", DeliveryStatus)
@pytest.mark.parametrize(("kind", "events"), [(begin, BEGINS), (end, ENDS), (correct, CORRECTIONS)])
def test_what_the_table_allows_is_applied_and_nothing_else_changes_anything(desk, outbox, kind, events, status):
    """Each event on a row of its own; of a send or a look-up that ends, the lease stands."""
    lease = {"leased_until": NOW + 30, "fence": 1} if kind is end else {}
    ids = [outbox.put(status, **lease) for _ in DeliveryEvent]
    before = {row["id"]: row for row in outbox.rows()}
    fence = {"fence": 1} if kind is end else {"fence": 0}
    said = [kind(delivery_id, event=event, **fence) for delivery_id, event in zip(ids, DeliveryEvent, strict=True)]
    answers = desk.batch(*said)
    for delivery_id, event, answer in zip(ids, DeliveryEvent, answers, strict=True):
        after = DELIVERY_TRANSITIONS.get((status, event)) if event in events else None
        assert answer is (Written.STALE if after is None else Written.APPLIED), event
        if after is None:
            assert (outbox.row(delivery_id), outbox.log(delivery_id)) == (before[delivery_id], []), event
        else:
            assert outbox.status(delivery_id) is after, event
            assert len(outbox.log(delivery_id)) == (kind is not begin), event


# --- taking


def test_a_send_is_begun_with_a_lease_a_fence_and_a_count(desk, outbox):
    outbox.put(lookups=4)
    assert desk.do(begin(now=NOW + 1, until=NOW + 31, not_before=NOW + 41)) is Written.APPLIED
    row = outbox.row()
    assert (row["status"], row["fence"], row["leased_until"], row["not_before"]) == ("sending", 1, NOW + 31, NOW + 41)
    assert (row["attempts"], row["first_sent_at"], row["last_sent_at"]) == (1, NOW + 1, NOW + 1)
    assert (row["lookups"], row["changed_at"]) == (0, NOW + 1)
    assert desk.do(begin(fence=1, now=NOW + 31, until=NOW + 61)) is Written.APPLIED
    row = outbox.row()
    assert (row["attempts"], row["first_sent_at"], row["last_sent_at"]) == (2, NOW + 1, NOW + 31)


def test_a_look_up_is_begun_without_counting_as_a_send(desk, outbox):
    outbox.put(DeliveryStatus.UNCERTAIN, attempts=1, first_sent_at=NOW, last_sent_at=NOW, lookups=4)
    assert desk.do(look(now=NOW + 5, until=NOW + 35)) is Written.APPLIED
    row = outbox.row()
    assert (row["status"], row["fence"], row["leased_until"]) == ("reconciling", 1, NOW + 35)
    assert (row["attempts"], row["first_sent_at"], row["last_sent_at"], row["lookups"]) == (1, NOW, NOW, 4)


@pytest.mark.parametrize("status", DeliveryStatus)
def test_nobody_takes_a_delivery_while_a_lease_stands_and_anybody_once_it_is_over(desk, outbox, status):
    delivery_id = outbox.put(status, leased_until=NOW + 10)
    for event in BEGINS:
        assert desk.do(begin(delivery_id, event=event, now=NOW + 9.9)) is Written.STALE
    legal = next((event for event in BEGINS if (status, event) in DELIVERY_TRANSITIONS), None)
    if legal is not None:
        assert desk.do(begin(delivery_id, event=legal, now=NOW + 10)) is Written.APPLIED


def test_only_the_fence_that_was_seen_takes_a_delivery(desk, outbox):
    outbox.put(fence=3)
    before = desk.everything()
    assert desk.batch(begin(fence=2), begin(fence=4), begin(404, 3)) == [Written.STALE] * 3
    assert desk.everything() == before


def test_of_two_who_take_a_delivery_in_one_batch_one_does(desk, outbox):
    for number in (1, 2):
        outbox.put()
        answers = desk.batch(begin(number), begin(number, until=NOW + 60))
        assert sorted(answers) == [Written.APPLIED, Written.STALE]
        row = outbox.row(number)
        assert (row["fence"], row["attempts"]) == (1, 1)
        assert row["leased_until"] == (NOW + 30 if answers[0] is Written.APPLIED else NOW + 60)


def test_a_large_batch_is_answered_in_the_order_of_its_intents(desk, outbox):
    ids = [outbox.put() for _ in range(30)]
    taken = [delivery_id for delivery_id in ids if delivery_id % 3]
    assert set(desk.batch(*[begin(delivery_id) for delivery_id in reversed(taken)])) == {Written.APPLIED}
    answers = desk.batch(*[accepted(delivery_id) for delivery_id in reversed(ids)])
    expected = [Written.APPLIED if delivery_id % 3 else Written.STALE for delivery_id in reversed(ids)]
    assert answers == expected
    assert [row["status"] for row in outbox.rows()] == ["sent" if each % 3 else "pending" for each in ids]


# --- ending


@pytest.mark.spec("REV-6.1")
def test_every_attempt_is_kept_under_its_delivery(desk, outbox):
    outbox.put()
    desk.do(begin())
    doubt = tried(phase="during", answer="doubt", error_class="NETWORK_TIMEOUT", message="no answer")
    desk.do(end(event=DeliveryEvent.DOUBT, attempt=doubt))
    desk.do(look(fence=1, now=NOW + 10))
    found = tried(
        kind="look_up", started_at=NOW + 10, ended_at=NOW + 11, answer="found", notification_id="<1@mail>", actor="a"
    )
    desk.do(end(fence=2, event=DeliveryEvent.FIND, attempt=found))
    common = {"delivery_id": 1, "number": 1}
    assert outbox.log() == [
        common | {
            "id": 1, "fence": 1, "kind": "send", "started_at": NOW, "ended_at": NOW + 2, "phase": "during",
            "answer": "doubt", "error_class": "NETWORK_TIMEOUT", "message": "no answer", "notification_id": None,
            "actor": "reprieve",
        },
        common | {
            "id": 2, "fence": 2, "kind": "look_up", "started_at": NOW + 10, "ended_at": NOW + 11, "phase": None,
            "answer": "found", "error_class": None, "message": "250 ok", "notification_id": "<1@mail>", "actor": "a",
        },
    ]  # fmt: skip


@pytest.mark.spec("REV-4.3")
def test_the_marks_of_a_sent_delivery_and_its_status_are_one_write(desk, outbox, watched):
    """A trigger sees every version of the row: none is half marked."""
    outbox.put()
    desk.do(begin())
    assert desk.do(accepted(evidence="250")) is Written.APPLIED
    assert watched() == [("pending", False, False), ("sending", False, False), ("sent", True, True)]
    row = outbox.row()
    assert (row["notification_id"], row["notified_at"], row["evidence"]) == ("<1@mail>", NOW + 2, "250")
    assert (row["leased_until"], row["not_before"], row["fence"], row["changed_at"]) == (None, None, 1, NOW + 2)


@pytest.mark.spec("REV-4.3")
def test_what_the_provider_has_is_backfilled_in_one_write(desk, outbox, watched):
    outbox.put(DeliveryStatus.UNCERTAIN)
    desk.do(look())
    found = end(event=DeliveryEvent.FIND, notification_id="<7@mail>", notified_at=NOW - 60, evidence="in the journal")
    assert desk.do(found) is Written.APPLIED
    assert watched()[-2:] == [("reconciling", False, False), ("sent", True, True)]
    row = outbox.row()
    assert (row["notification_id"], row["notified_at"], row["evidence"]) == ("<7@mail>", NOW - 60, "in the journal")


def test_a_delivery_that_is_found_keeps_the_id_that_it_had_and_is_never_without_a_time(desk, outbox):
    outbox.put(DeliveryStatus.UNCERTAIN, notification_id="<old@mail>")
    desk.do(look())
    desk.do(end(event=DeliveryEvent.FIND))
    row = outbox.row()
    assert (row["notification_id"], row["notified_at"]) == ("<old@mail>", NOW + 2)


def test_what_the_provider_does_not_have_is_cleared_of_every_mark(desk, outbox):
    outbox.put(DeliveryStatus.SENT, notification_id="<1@mail>", evidence="said so")
    desk.do(look())
    assert outbox.row()["notified_at"] == NOW, "until the answer is there"
    desk.do(end(event=DeliveryEvent.MISS, evidence="absent", not_before=NOW + 5, reason="absent"))
    row = outbox.row()
    assert (row["status"], row["notification_id"], row["notified_at"], row["evidence"]) == ("pending", None, None, None)
    assert (row["not_before"], row["reason"]) == (NOW + 5, "absent")


def test_a_look_up_without_an_answer_is_counted_and_a_doubtful_send_is_none(desk, outbox):
    outbox.put()
    desk.do(begin())
    desk.do(end(event=DeliveryEvent.DOUBT, not_before=NOW + 9))
    assert (outbox.row()["lookups"], outbox.row()["not_before"]) == (0, NOW + 9)
    for number in (1, 2):
        desk.do(look(fence=number, now=NOW + 100 * number))
        desk.do(end(fence=number + 1, event=DeliveryEvent.DOUBT))
        assert (outbox.status(), outbox.row()["lookups"]) == (DeliveryStatus.RECONCILING, number)


def test_what_was_put_off_or_refused_is_not_marked(desk, outbox):
    outbox.put()
    outbox.put()
    desk.batch(begin(1), begin(2))
    put_off, refused = DeliveryEvent.PUT_OFF, DeliveryEvent.REFUSE
    desk.batch(end(1, event=put_off, not_before=NOW + 60, reason="busy"), end(2, event=refused, reason="no such user"))
    one, two = outbox.rows()
    assert (one["status"], one["not_before"], one["reason"], one["attempts"]) == ("pending", NOW + 60, "busy", 1)
    assert (two["status"], two["notified_at"], two["reason"]) == ("failed", None, "no such user")


def test_an_end_comes_too_late_once_somebody_else_has_taken_over(desk, outbox):
    outbox.put()
    desk.do(begin(until=NOW + 5))
    desk.do(look(fence=1, now=NOW + 6))
    before = desk.everything()
    for again in (False, True):
        assert desk.do(accepted(fence=1), again=again) is Written.STALE
        assert desk.do(end(fence=1, event=DeliveryEvent.DOUBT), again=again) is Written.STALE
    assert desk.everything() == before


def test_an_end_after_its_lease_ran_out_still_counts_while_nobody_took_over(desk, outbox):
    outbox.put()
    desk.do(begin(until=NOW + 1))
    assert desk.do(accepted()) is Written.APPLIED


@pytest.mark.parametrize("event", sorted(ENDS))
def test_an_end_is_written_once(desk, outbox, event):
    """Also that of a look-up without an answer, whose status stays what it was."""
    status = DeliveryStatus.RECONCILING if event in {DeliveryEvent.FIND, DeliveryEvent.MISS, DeliveryEvent.DOUBT} else DeliveryStatus.SENDING  # fmt: skip
    outbox.put(status, fence=1, leased_until=NOW + 30)
    assert desk.do(end(event=event)) is Written.APPLIED
    before = desk.everything()
    assert desk.do(end(event=event)) is Written.STALE
    assert desk.everything() == before


# --- correcting


@pytest.mark.parametrize("status", [DeliveryStatus.HELD, DeliveryStatus.FAILED])
def test_what_a_person_confirms_is_marked_with_what_she_said(desk, outbox, status):
    outbox.put(status, fence=4, not_before=NOW + 9, reason="?", notification_id="<1@mail>")
    said = correct(fence=4, event=DeliveryEvent.CONFIRM, reason="bob has it")
    assert desk.do(said) is Written.APPLIED
    row = outbox.row()
    assert (row["status"], row["notified_at"], row["evidence"]) == ("sent", NOW + 2, "bob has it")
    assert (row["fence"], row["not_before"], row["reason"], row["changed_at"]) == (5, None, "bob has it", NOW + 2)
    (entry,) = outbox.log()
    assert (entry["fence"], entry["kind"], entry["actor"], row["notification_id"]) == (5, "confirm", "ann", "<1@mail>")


@pytest.mark.parametrize("status", [DeliveryStatus.HELD, DeliveryStatus.FAILED])
def test_what_a_person_has_sent_again_bears_no_mark(desk, outbox, status):
    marks = {"notification_id": "<1@mail>", "notified_at": NOW, "evidence": "x"}
    outbox.put(status, not_before=NOW + 999, attempts=1, first_sent_at=NOW, last_sent_at=NOW, **marks)
    assert desk.do(correct()) is Written.APPLIED
    row = outbox.row()
    assert (row["status"], row["attempts"], row["not_before"]) == ("pending", 1, None)
    assert [row[name] for name in marks] == [None, None, None]


def test_what_is_held_or_given_up_keeps_its_marks_as_they_were(desk, outbox):
    outbox.put(DeliveryStatus.SENT)
    desk.do(correct(event=DeliveryEvent.HOLD, reason="cannot be known"))
    assert (outbox.status(), outbox.row()["notified_at"]) == (DeliveryStatus.HELD, NOW)
    desk.do(correct(fence=1, event=DeliveryEvent.GIVE_UP, reason="never mind"))
    assert (outbox.status(), outbox.row()["reason"]) == (DeliveryStatus.FAILED, "never mind")


def test_nobody_corrects_what_somebody_is_at(desk, outbox):
    outbox.put(DeliveryStatus.SENDING, leased_until=NOW + 5)
    before = desk.everything()
    assert desk.do(correct(event=DeliveryEvent.HOLD)) is Written.STALE, "it says so 2 seconds after NOW"
    assert desk.everything() == before
    late = tried(kind="sweep", ended_at=NOW + 5)
    assert desk.do(correct(event=DeliveryEvent.HOLD, attempt=late)) is Written.APPLIED
    assert outbox.row()["leased_until"] is None


def test_of_two_people_who_saw_the_same_row_one_is_heard(desk, outbox):
    outbox.put(DeliveryStatus.FAILED)
    assert desk.do(correct()) is Written.APPLIED
    assert desk.do(correct(event=DeliveryEvent.GIVE_UP)) is Written.STALE
    assert outbox.status() is DeliveryStatus.PENDING
