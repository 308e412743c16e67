"""Rows before sends, sends before marks: seen by the receiver at the moment a message arrives, and by the database itself."""

from __future__ import annotations

import asyncio

import pytest
from desk import QUICK, by_key, by_look_up, by_nothing, desk, notifying, read_rows
from sqlalchemy import text

import reprieve
from reprieve.adapters.sql.engine import Database
from reprieve.core.lifecycle import JobStatus

NAMES = [f"reader-{number:02}" for number in range(12)]
SENDERS = pytest.mark.parametrize("sender", [by_look_up, lambda _: by_key(), lambda _: by_nothing()])
HISTORY = "CREATE TABLE history (delivery BIGINT, status TEXT, notification_id TEXT, marked INTEGER)"
RECORD = "INSERT INTO history VALUES (NEW.id, NEW.status, NEW.notification_id, CASE WHEN NEW.notified_at IS NULL THEN 0 ELSE 1 END);"
TRIGGERS = {
    "sqlite": [f"CREATE TRIGGER keep AFTER UPDATE ON deliveries BEGIN {RECORD} END"],
    "postgresql": [
        f"CREATE FUNCTION keep() RETURNS trigger AS $$ BEGIN {RECORD} RETURN NEW; END $$ LANGUAGE plpgsql",
        "CREATE TRIGGER keep AFTER UPDATE ON deliveries FOR EACH ROW EXECUTE FUNCTION keep()",
    ],
}


def execute(url, *statements):
    database = Database.at(url, writes=True)
    try:
        with database.transaction() as connection:
            results = [connection.execute(text(statement)) for statement in statements]
            return results[-1].all() if results[-1].returns_rows else []
    finally:
        database.close()


@pytest.mark.spec("REV-8.1", "REV-4.1", "REV-4.3")
@SENDERS
def test_while_a_message_arrives_its_row_is_being_sent_and_bears_no_mark(store_url, office, sender):
    seen = {}
    office.arrived = lambda who: seen.setdefault(who, read_rows(store_url)[who])
    pipeline = notifying(office, sender(office), ["ada", "ben"])

    async def main():
        async with desk(store_url, pipeline) as here:
            job = await here.submit()
            await here.work()
            assert here.job(job).status is JobStatus.SUCCEEDED
            return here.rows()

    rows = asyncio.run(main())
    assert sorted(seen) == ["ada", "ben"]
    for name, before in seen.items():
        assert (before["status"], before["notified_at"], before["notification_id"]) == ("sending", None, None)
        assert (before["attempts"], before["leased_until"] is None) == (1, False)
        assert (rows[name].status, rows[name].notification_id) == ("sent", f"po-{rows[name].token[:8]}")
        assert rows[name].notified_at is not None


@pytest.mark.spec("REV-4.3", "REV-8.1")
def test_a_row_is_written_twice_once_before_the_send_and_once_with_all_marks(store_url, office):
    pipeline = notifying(office, by_look_up(office), ["ada"])
    written_before = []

    async def main():
        async with desk(store_url, pipeline) as here:
            execute(store_url, HISTORY, *TRIGGERS[store_url.partition(":")[0]])
            office.arrived = lambda _: written_before.extend(execute(store_url, "SELECT * FROM history"))
            await here.submit()
            await here.work()
            return here.row()

    row = asyncio.run(main())
    begun = (row.delivery_id, "sending", None, 0)
    assert written_before == [begun]
    assert execute(store_url, "SELECT * FROM history") == [begun, (row.delivery_id, "sent", row.notification_id, 1)]


@pytest.mark.spec("REV-3.1", "REV-3.2")
def test_when_the_first_message_arrives_every_recipient_has_a_row(store_url, office):
    seen = []
    office.arrived = lambda _: seen or seen.append(read_rows(store_url))
    pipeline = notifying(office, by_look_up(office), NAMES)

    async def main():
        async with desk(store_url, pipeline) as here:
            await here.submit()
            await here.work()

    asyncio.run(main())
    assert sorted(seen[0]) == NAMES
    assert {row["changelist_id"] for row in seen[0].values()} == {"cl-1"}
    assert len({row["token"] for row in seen[0].values()}) == len(NAMES)
    assert all(row["body"] for row in seen[0].values())
    assert sorted(office.tries) == NAMES


@pytest.mark.spec("REV-4.1", "REV-9.2")
def test_every_try_sends_the_same_bytes_under_the_same_key_whatever_the_stage_makes_of_it(store_url, office):
    """The message is frozen with its row: a stage that words it anew on every attempt changes nothing."""
    office.next("ada", "429", "take and 500")
    pipeline = reprieve.Pipeline("notices", profile=QUICK, senders=[by_key()], breaker=None)
    wordings = []

    @pipeline.stage
    async def notify(job: reprieve.Job[str]) -> None:
        wordings.append(f"attempt {len(wordings)}")
        message = reprieve.Message(recipient=office.url("/inbox/ada"), subject="s", text=wordings[-1])
        await reprieve.deliver(job, [message], via="hook")

    async def main():
        async with desk(store_url, pipeline) as here:
            job = await here.submit()
            for _ in range(3):
                await here.settle()
                here.clock.advance(60)
            assert here.job(job).status is JobStatus.SUCCEEDED
            return here.row()

    row = asyncio.run(main())
    ((key, taken),) = office.taken.items()
    assert key == row.token
    assert len(wordings) == 3
    assert [message["body"]["text"] for message in taken] == ["attempt 0", "attempt 0"]
    assert [body for _, body in office.heard] == [office.heard[0][1]] * 3


@pytest.mark.spec("REV-6.1")
def test_every_attempt_is_in_the_log_under_its_key_with_what_came_of_it(store_url, office):
    office.next("ada", "429", "take and drop")
    office.answers.extend(["500"])
    pipeline = notifying(office, by_look_up(office), ["ada", "ben"])

    async def main():
        async with desk(store_url, pipeline) as here:
            await here.submit()
            for _ in range(4):
                await here.settle()
                here.clock.advance(60)
            assert here.log("ada") == [
                ("send", "put_off"), ("send", "doubt"), ("look_up", "unknown"), ("look_up", "found"),
            ]  # fmt: skip
            assert here.log("ben") == [("send", "accepted")]
            row = here.rows()["ada"]
            detail = here.app.deliveries.delivery(row.delivery_id)
            assert (detail.row.changelist_id, detail.row.review_version) == ("cl-1", 1)
            first, second, unknown, found = detail.attempts
            assert (first.number, first.phase, first.error_class) == (1, "rejected", "RATE_LIMITED")
            assert (second.number, second.phase) == (2, "during")
            assert (unknown.number, found.number) == (1, 2)
            assert found.notification_id == row.notification_id
            assert all(each.started_at <= each.ended_at and each.actor == "reprieve" for each in detail.attempts)
            assert first.ended_at < second.started_at

    asyncio.run(main())
