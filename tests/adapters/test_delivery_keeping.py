"""Pruning and erasing where people were told: keys outlive their jobs, and a subject can be made unreadable."""

import pytest

from reprieve.adapters.sql.keeper import SqlKeeper
from reprieve.core.lifecycle import DeliveryStatus
from reprieve.errors import UsageError
from reprieve.ports.reader import Pruned

NOW = 1_700_000_000.0
LATER = NOW + 1000
IN_DOUBT = [DeliveryStatus.SENDING, DeliveryStatus.UNCERTAIN, DeliveryStatus.RECONCILING, DeliveryStatus.HELD]


@pytest.fixture
def keeper(rows):
    found = SqlKeeper(rows.url)
    yield found
    found.close()


def pruned(keeper, **values):
    return keeper.prune(**({"before": LATER, "pipeline": None, "limit": 100, "dry": False} | values))


def told(rows, delivery_id, job_id, status="sent", **values):
    """A delivery, with one attempt."""
    sent = {"notified_at": NOW, "notification_id": f"<{delivery_id}@mail>"} if status == "sent" else {}
    defaults = {
        "id": delivery_id, "job_id": job_id, "changelist_id": "cl-7", "recipient": f"mailto:{delivery_id}@example.org",
        "review_version": 1, "sender": "mail", "token": f"token-{delivery_id}", "required": True, "status": status,
        "body": b"private", "created_at": NOW, "changed_at": NOW,
    }  # fmt: skip
    rows.add("deliveries", **(defaults | sent | values))
    rows.add(
        "delivery_attempts", delivery_id=delivery_id, fence=1, kind="send", number=1, started_at=NOW, ended_at=NOW,
        answer="accepted", message="250 ok", actor="reprieve",
    )  # fmt: skip


def bodies(rows):
    return {row["id"]: row["body"] for row in rows.all("deliveries")}


def tried(rows):
    return sorted(row["delivery_id"] for row in rows.all("delivery_attempts"))


# --- pruning


def test_pruning_a_job_keeps_the_keys_of_its_deliveries_and_nothing_of_what_they_said(keeper, rows):
    rows.ended(1)
    rows.ended(2, finished_at=LATER)
    told(rows, 1, 1)
    told(rows, 2, 1, "failed")
    told(rows, 3, 2)
    before = {row["id"]: row for row in rows.all("deliveries")}
    assert pruned(keeper) == Pruned(jobs=1, kept_for_dead_letters=0, more=False, after=2)
    after = {row["id"]: row for row in rows.all("deliveries")}
    assert after == {1: before[1] | {"body": None}, 2: before[2] | {"body": None}, 3: before[3]}
    assert tried(rows) == [3]


@pytest.mark.parametrize("status", [each for each in DeliveryStatus if not each.settled])
def test_a_job_is_kept_while_a_delivery_of_it_is_not_settled(keeper, rows, status):
    rows.ended(1)
    rows.ended(2)
    told(rows, 1, 1)
    told(rows, 2, 1, status)
    told(rows, 3, 2)
    assert pruned(keeper, dry=True) == Pruned(
        jobs=1, kept_for_dead_letters=0, kept_for_deliveries=1, more=False, after=2
    )
    assert bodies(rows) == {1: b"private", 2: b"private", 3: b"private"}
    assert pruned(keeper).kept_for_deliveries == 1
    assert [row["id"] for row in rows.all("jobs")] == [1]
    assert (bodies(rows), tried(rows)) == ({1: b"private", 2: b"private", 3: None}, [1, 2])


def test_a_job_is_kept_while_a_delivery_claims_to_be_sent_without_evidence(keeper, rows):
    rows.ended(1)
    told(rows, 1, 1, notification_id=None)
    assert pruned(keeper).kept_for_deliveries == 1
    rows.change("deliveries", evidence="in the journal")
    assert pruned(keeper).jobs == 1


def test_a_job_that_two_things_need_is_counted_once(keeper, rows):
    rows.ended(1, "dead_letter")
    rows.letter(1)
    told(rows, 1, 1, "held")
    found = pruned(keeper)
    assert (found.jobs, found.kept_for_dead_letters, found.kept_for_deliveries) == (0, 1, 0)


# --- erasing


def subject(rows):
    for job_id, version in ((1, 1), (2, 2)):
        rows.ended(job_id, job={"subject": "cl-7", "version": version})
    rows.ended(3, job={"subject": "cl-7", "version": 1, "pipeline": "mail"})
    rows.ended(4, job={"subject": "cl-8", "version": 1})
    told(rows, 1, 1)
    told(rows, 2, 1, "failed")
    told(rows, 3, 2, recipient="mailto:1@example.org", review_version=2)
    told(rows, 4, 3, changelist_id="elsewhere")
    told(rows, 5, 4, changelist_id="cl-8")


def test_erasing_a_subject_leaves_nobody_who_was_told_about_it(keeper, rows):
    subject(rows)
    told(rows, 6, 404)  # of a job that was pruned
    assert keeper.erase("cl-7", pipeline=None) == 3
    found = {row["id"]: row for row in rows.all("deliveries")}
    for delivery_id in (1, 2, 3, 4, 6):
        row = found[delivery_id]
        assert row["body"] is None
        assert all(row[name].startswith("erased:") for name in ("changelist_id", "recipient", "token"))
    assert (found[5]["recipient"], found[5]["changelist_id"], found[5]["body"]) == (
        "mailto:5@example.org", "cl-8", b"private",
    )  # fmt: skip
    assert (found[1]["status"], found[1]["notification_id"], found[1]["notified_at"]) == ("sent", "<1@mail>", NOW)


def test_what_belonged_together_still_does(keeper, rows):
    subject(rows)
    keeper.erase("cl-7", pipeline=None)
    found = {row["id"]: row for row in rows.all("deliveries")}
    jobs = {row["id"]: row for row in rows.all("jobs")}
    assert found[1]["changelist_id"] == found[3]["changelist_id"] == jobs[1]["subject"]
    assert found[1]["recipient"] == found[3]["recipient"]
    assert len({found[1]["recipient"], found[2]["recipient"]}) == 2
    assert found[4]["changelist_id"] != found[1]["changelist_id"]


def test_what_is_left_of_pruned_jobs_can_be_erased(keeper, rows):
    told(rows, 1, 404)
    assert keeper.erase("cl-7", pipeline=None) == 0
    (row,) = rows.all("deliveries")
    assert row["changelist_id"].startswith("erased:")
    told(rows, 2, 405, recipient="mailto:1@example.org")
    keeper.erase("cl-7", pipeline=None)
    first, second = rows.all("deliveries")
    assert first["recipient"] != second["recipient"], "one erasure is not like another"


def test_in_one_pipeline_only_what_its_own_jobs_told_is_erased(keeper, rows):
    subject(rows)
    assert keeper.erase("cl-7", pipeline="mail") == 1
    erased = {row["id"] for row in rows.all("deliveries") if row["changelist_id"].startswith("erased:")}
    assert erased == {4}


@pytest.mark.parametrize("status", IN_DOUBT)
def test_nothing_is_erased_while_a_delivery_of_the_subject_is_in_doubt(keeper, rows, status):
    subject(rows)
    for delivery_id in range(50, 80):
        told(rows, delivery_id, 1, status)
    before = rows.all("deliveries"), rows.all("jobs")
    with pytest.raises(UsageError, match=r"in doubt: 50, 51, .*, 69 and 10 more; settle them"):
        keeper.erase("cl-7", pipeline=None)
    assert (rows.all("deliveries"), rows.all("jobs")) == before


def test_what_was_to_be_sent_is_not_any_more_once_it_is_erased(keeper, rows):
    rows.ended(1, "dead_letter", job={"subject": "cl-7", "version": 1})
    told(rows, 1, 1, "pending")
    assert keeper.erase("cl-7", pipeline=None) == 1
    assert bodies(rows) == {1: None}
