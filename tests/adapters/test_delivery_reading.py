"""What can be looked up about deliveries, on both dialects."""

import pytest
from sqlalchemy import event

from reprieve.adapters.sql.dead_letters.reading import SqlDeadLetterReader
from reprieve.adapters.sql.deliveries.reading import SqlDeliveryReader
from reprieve.core.delivery import LEFT_OUT
from reprieve.core.lifecycle import DeliveryStatus, JobStatus, LetterState
from reprieve.ports.dead_letters import Verification
from reprieve.ports.deliveries import DeliveryFilter
from reprieve.ports.intents import DeliveryAttempt, DeliveryRecord

NOW = 1_700_000_000.0
MAIL = frozenset({"mail"})
UNSETTLED = (DeliveryStatus.SENDING, DeliveryStatus.UNCERTAIN, DeliveryStatus.RECONCILING)


@pytest.fixture
def reader(rows):
    found = SqlDeliveryReader(rows.url)
    yield found
    found.close()


def put(rows, delivery_id, status="pending", **values):
    sent = {"notified_at": NOW, "notification_id": f"<{delivery_id}@mail>"} if status == "sent" else {}
    defaults = {
        "id": delivery_id, "job_id": 1, "changelist_id": "cl-1", "recipient": f"mailto:{delivery_id}@example.org",
        "review_version": 1, "sender": "mail", "token": f"token-{delivery_id}", "required": True, "status": status,
        "body": b"{}", "created_at": NOW, "changed_at": NOW,
    }  # fmt: skip
    rows.add("deliveries", **(defaults | sent | values))


def ids(found):
    return [row.delivery_id for row in found]


def due(reader, **values):
    return ids(reader.due(**({"now": NOW, "senders": MAIL, "limit": 100} | values)))


# --- pages


def test_a_page_has_the_newest_first_and_goes_on_after_its_last(reader, rows):
    for number in range(1, 8):
        put(rows, number)
    first = reader.deliveries(DeliveryFilter(limit=3))
    assert ids(first) == [7, 6, 5]
    assert ids(reader.deliveries(DeliveryFilter(limit=3, after=first[-1].delivery_id))) == [4, 3, 2]
    assert reader.deliveries(DeliveryFilter(after=1)) == []


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"statuses": frozenset({DeliveryStatus.HELD})}, [3]),
        ({"statuses": frozenset({DeliveryStatus.HELD, DeliveryStatus.SENT})}, [3, 2]),
        ({"job_id": 7}, [4]),
        ({"changelist_id": "cl-9"}, [5]),
        ({"recipient": "mailto:2@example.org"}, [2]),
        ({"sender": "slack"}, [6]),
        ({"sender": "slack", "job_id": 7}, []),
        ({"senders": frozenset({"slack", "fax"})}, [6]),
        ({"senders": frozenset({"slack"}), "limit": 1}, [6]),
        ({"senders": frozenset({"mail"}), "limit": 1}, [5]),
        ({"senders": frozenset()}, []),
    ],
)
def test_a_page_holds_only_what_was_asked_for(reader, rows, wanted, found):
    put(rows, 1)
    put(rows, 2, "sent")
    put(rows, 3, "held")
    put(rows, 4, job_id=7)
    put(rows, 5, changelist_id="cl-9")
    put(rows, 6, sender="slack")
    assert ids(reader.deliveries(DeliveryFilter(**wanted))) == found


def test_a_delivery_is_shown_with_all_that_was_tried_and_without_its_body(reader, rows):
    tried = {
        "kind": "send", "number": 1, "started_at": NOW, "ended_at": NOW + 1.5, "phase": "during", "answer": "doubt",
        "error_class": "NETWORK_TIMEOUT", "message": "no answer", "notification_id": None, "actor": "reprieve",
    }  # fmt: skip
    times = {"first_sent_at": NOW + 1, "last_sent_at": NOW + 2, "leased_until": NOW + 3, "not_before": NOW + 4}
    put(rows, 1, "uncertain", attempts=1, lookups=2, fence=3, reason="?", evidence="x", required=False, **times)
    put(rows, 2)
    for number, delivery_id in enumerate((1, 2, 1), 1):
        rows.add("delivery_attempts", delivery_id=delivery_id, fence=number, **(tried | {"number": number}))
    found = reader.delivery(1)
    assert found.row == DeliveryRecord(
        delivery_id=1, job_id=1, changelist_id="cl-1", recipient="mailto:1@example.org", review_version=1, sender="mail",
        token="token-1", body=None, required=False, status=DeliveryStatus.UNCERTAIN, notification_id=None, notified_at=None,
        evidence="x", fence=3, attempts=1, lookups=2, reason="?", created_at=NOW, **times,
    )  # fmt: skip
    assert found.attempts == [DeliveryAttempt(**(tried | {"number": number})) for number in (1, 3)]
    assert reader.deliveries(DeliveryFilter(statuses=frozenset({DeliveryStatus.UNCERTAIN}))) == [found.row]


def test_a_body_is_given_to_who_asks_for_it(reader, rows):
    put(rows, 1, body=b'{"text":"hello"}')
    put(rows, 2, body=None)
    assert [reader.body(number) for number in (1, 2, 404)] == [b'{"text":"hello"}', None, None]


def test_a_delivery_that_nobody_knows_is_none(reader):
    assert reader.delivery(404) is None


# --- what a sweep looks at


@pytest.mark.parametrize("status", DeliveryStatus)
def test_what_is_in_doubt_is_due_and_what_is_settled_or_waits_for_its_job_is_not(reader, rows, status):
    put(rows, 1, status)
    assert due(reader) == ([1] if status in UNSETTLED else [])


@pytest.mark.parametrize("status", UNSETTLED)
def test_what_is_in_doubt_is_due_when_its_lease_and_its_time_are_over(reader, rows, status):
    put(rows, 1, status, leased_until=NOW + 10)
    put(rows, 2, status, not_before=NOW + 20)
    put(rows, 3, status, leased_until=NOW + 30, not_before=NOW)
    put(rows, 4, status, leased_until=NOW - 50, not_before=NOW + 40)
    assert due(reader) == []
    assert due(reader, now=NOW + 10) == [1]
    assert due(reader, now=NOW + 29.9) == [1, 2]
    assert sorted(due(reader, now=NOW + 40)) == [1, 2, 3, 4]


def test_what_claims_to_be_sent_without_evidence_is_due(reader, rows):
    put(rows, 1, "sent", notification_id=None)
    put(rows, 2, "sent", notification_id=None, evidence="in the journal")
    put(rows, 3, "sent")
    put(rows, 4, "sent", notification_id=None, not_before=NOW + 10)
    put(rows, 5, "sent", notification_id=None, leased_until=NOW + 10)
    assert due(reader) == [1]
    assert due(reader, now=NOW + 10) == [1, 4, 5]


@pytest.mark.parametrize("outcome", ["succeeded", "dead_letter", "cancelled", "skipped"])
def test_of_what_is_pending_only_that_of_a_job_which_has_succeeded_is_due(reader, rows, outcome):
    rows.ended(1, outcome)
    rows.queued(2)
    put(rows, 1)
    put(rows, 2, not_before=NOW + 10)
    put(rows, 3, job_id=2)
    put(rows, 4, job_id=404)
    put(rows, 5, "held")
    assert due(reader) == ([1] if outcome == "succeeded" else [])
    assert due(reader, now=NOW + 10) == ([1, 2] if outcome == "succeeded" else [])


def test_only_deliveries_of_senders_that_the_sweep_knows_are_due(reader, rows):
    rows.ended(1)
    for number, (status, values) in enumerate(
        [("uncertain", {}), ("uncertain", {"not_before": NOW}), ("sent", {"notification_id": None}), ("pending", {})]
    ):
        put(rows, 2 * number, status, **values)
        put(rows, 2 * number + 1, status, sender="slack", **values)
    assert sorted(due(reader)) == [0, 2, 4, 6]
    assert sorted(due(reader, senders=frozenset({"slack"}))) == [1, 3, 5, 7]
    assert len(due(reader, senders=frozenset({"slack", "mail"}))) == 8
    assert due(reader, senders=frozenset()) == []


def test_the_longest_due_come_first_whatever_their_kind_and_no_more_than_asked_for(reader, rows):
    rows.ended(1)
    put(rows, 1, "uncertain", not_before=NOW - 1)
    put(rows, 2, "sending", leased_until=NOW - 4)
    put(rows, 3, "reconciling", changed_at=NOW - 2)
    put(rows, 4, "sent", notification_id=None, changed_at=NOW - 5)
    put(rows, 5, changed_at=NOW - 3)
    assert due(reader) == [4, 2, 5, 3, 1]
    assert due(reader, limit=2) == [4, 2]


def test_what_is_due_comes_with_its_body(reader, rows):
    put(rows, 1, "uncertain", body=b"hello")
    (row,) = reader.due(now=NOW, senders=MAIL, limit=1)
    assert row.body == b"hello"


COPIES = """
INSERT INTO deliveries (id, job_id, changelist_id, recipient, review_version, sender, token, required, status, notification_id,
  notified_at, created_at, changed_at)
WITH RECURSIVE numbers(n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM numbers WHERE n < 4000)
SELECT n, job_id, changelist_id, recipient || n, review_version, sender, token, required, status, notification_id,
  notified_at, created_at, changed_at FROM deliveries CROSS JOIN numbers
"""


def test_a_sweep_reads_nothing_that_is_settled(reader, rows):
    """Each look enters the table by an index that holds only what may be due: a million that were sent cost it nothing."""
    put(rows, 1, "sent")
    rows.sql(COPIES)
    rows.sql("ANALYZE")
    asked = []
    event.listen(reader._database.engine, "before_cursor_execute", lambda *given: asked.append(given[2:4]))
    assert (due(reader), reader.abandoned(limit=9)) == ([], [])
    looks = [(statement, values) for statement, values in asked if "FROM deliveries" in statement]
    explain = "EXPLAIN QUERY PLAN" if rows.url.startswith("sqlite") else "EXPLAIN"
    with reader._database.transaction() as connection:
        for statement, values in looks:
            plan = [str(row[-1]) for row in connection.exec_driver_sql(f"{explain} {statement}", values)]
            entries = [step for step in plan if "deliveries" in step and ("SCAN" in step.upper() or "SEARCH" in step)]
            assert entries, plan
            assert all("ix_deliveries_" in step or "USING INTEGER PRIMARY KEY" in step for step in entries), plan
    assert len(looks) >= 7


# --- what nobody will send


@pytest.mark.parametrize("outcome", ["succeeded", "dead_letter", "cancelled", "skipped"])
def test_what_is_pending_is_abandoned_when_its_job_has_ended_without_it(reader, rows, outcome):
    rows.ended(1, outcome)
    rows.queued(2)
    put(rows, 1)
    put(rows, 2, job_id=2)
    put(rows, 3, job_id=404, body=None)
    for number, status in enumerate(each for each in DeliveryStatus if each is not DeliveryStatus.PENDING):
        put(rows, 10 + number, status)
    expected = [1, 3] if outcome in {"cancelled", "skipped"} else [3]
    assert ids(reader.abandoned(limit=9)) == expected, "3: its job was pruned"
    assert ids(reader.abandoned(limit=1)) == expected[:1]


@pytest.mark.parametrize("state", LetterState)
def test_what_waits_for_a_replay_is_abandoned_when_its_dead_letter_is_closed(reader, rows, state):
    rows.ended(1, "dead_letter")
    rows.letter(1, state)
    put(rows, 1)
    assert ids(reader.abandoned(limit=9)) == ([1] if state.closed else [])


@pytest.mark.parametrize("outcome", ["succeeded", "dead_letter", "cancelled", "skipped"])
def test_what_a_person_has_put_back_is_due_and_not_abandoned_however_its_job_has_ended(reader, rows, outcome):
    rows.ended(1, outcome)
    if outcome == "dead_letter":
        rows.letter(1, "discarded")
    rows.queued(2)
    put(rows, 1, resent=True)
    put(rows, 2, job_id=2, resent=True)
    put(rows, 3, resent=True, body=None)
    put(rows, 4, "failed", resent=True)
    assert due(reader) == [1, 3]
    assert ids(reader.abandoned(limit=9)) == [3], "nothing is left of it to send"


# --- who was not told


def test_the_unserved_are_those_who_had_to_be_told_and_were_not(reader, rows):
    put(rows, 1, "sent")
    put(rows, 2, "pending")
    put(rows, 3, "pending")
    put(rows, 4, "failed")
    put(rows, 5, "held", notified_at=NOW)
    put(rows, 6, "failed", required=False)
    put(rows, 7, "uncertain", job_id=2)
    put(rows, 8, "failed", reason=LEFT_OUT)
    expected = {DeliveryStatus.PENDING: 2, DeliveryStatus.FAILED: 1, DeliveryStatus.HELD: 1}
    assert reader.unserved(1) == expected
    assert reader.unserved(2) == {DeliveryStatus.UNCERTAIN: 1}
    assert reader.unserved(404) == {}


@pytest.mark.spec("CRIT-5.5")
def test_a_replay_is_verified_only_when_everybody_was_told(rows):
    rows.ended(1)
    letter_id = rows.letter(1, "replayed")
    letters = SqlDeadLetterReader(rows.url)
    put(rows, 1, "sent")
    put(rows, 2, "failed", required=False)
    put(rows, 3, "failed", reason=LEFT_OUT)
    assert letters.verification(letter_id) == Verification(job_status=JobStatus.SUCCEEDED, undelivered=0)
    put(rows, 4, "held")
    put(rows, 5, "pending")
    put(rows, 6, "failed", reason="REQUEST_REJECTED: 400")
    assert letters.verification(letter_id) == Verification(job_status=JobStatus.SUCCEEDED, undelivered=3)
    assert not letters.verification(letter_id).passed
    letters.close()
