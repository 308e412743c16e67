"""Pruning, erasing and upgrading, on both dialects."""

import json
import sqlite3

import pytest
from sqlalchemy import event

from reprieve.adapters.sql.dead_letters.reading import SqlDeadLetterReader
from reprieve.adapters.sql.keeper import SqlKeeper
from reprieve.adapters.sql.reader import SqlReader
from reprieve.core.lifecycle import LetterState
from reprieve.errors import RefusedError, SchemaError, StoreUnavailableError
from reprieve.ports.dead_letters import LetterFilter, LettersPruned
from reprieve.ports.reader import JobFilter, Orphans, Pruned, SchemaView

NOW = 1_700_000_000.0
LATER = NOW + 1000


@pytest.fixture
def keeper(rows):
    found = SqlKeeper(rows.url)
    yield found
    found.close()


def pruned(keeper, **values):
    return keeper.prune(**({"before": LATER, "pipeline": None, "limit": 100, "dry": False} | values))


def ids(rows, table="jobs"):
    key = "id" if table == "jobs" else "job_id"
    return sorted(row[key] for row in rows.all(table))


def whole(rows, job_id, **values):
    rows.ended(job_id, **values)
    rows.checkpoint(job_id)
    rows.memo(job_id)
    rows.attempt(job_id)
    rows.revision(job_id)


def test_pruning_removes_all_that_is_stored_of_a_job_that_ended_before(keeper, rows):
    whole(rows, 1)
    whole(rows, 2, finished_at=LATER)
    assert pruned(keeper) == Pruned(jobs=1, kept_for_dead_letters=0, more=False, after=2)
    for table in ("jobs", "outcomes", "checkpoints", "memos", "attempts", "revisions"):
        assert ids(rows, table) == [2], table


def test_pruning_leaves_what_is_not_over(keeper, rows):
    rows.queued(1)
    rows.checkpoint(1)
    assert pruned(keeper).jobs == 0
    assert ids(rows) == ids(rows, "checkpoints") == [1]


@pytest.mark.parametrize("state", [each for each in LetterState if not each.closed])
def test_pruning_never_takes_what_a_dead_letter_still_needs(keeper, rows, state):
    whole(rows, 1, status="dead_letter")
    rows.letter(1, state)
    assert pruned(keeper) == Pruned(jobs=0, kept_for_dead_letters=1, more=False, after=1)
    assert ids(rows) == ids(rows, "attempts") == ids(rows, "checkpoints") == [1]


@pytest.mark.parametrize("state", ["resolved", "discarded"])
def test_a_closed_dead_letter_outlives_its_job(keeper, rows, state):
    whole(rows, 1, status="dead_letter")
    rows.letter(1, state)
    assert pruned(keeper).jobs == 1
    assert ids(rows) == []
    assert ids(rows, "dead_letters") == [1]


def test_pruning_in_chunks_goes_on_where_it_was(keeper, rows):
    for job_id in range(1, 8):
        rows.ended(job_id)
    rows.letter(2)
    first = pruned(keeper, limit=3)
    assert first == Pruned(jobs=2, kept_for_dead_letters=1, more=True, after=3)
    second = pruned(keeper, limit=3, after=first.after)
    assert (second.jobs, second.kept_for_dead_letters, second.more) == (3, 0, True)
    third = pruned(keeper, limit=3, after=second.after)
    assert (third.jobs, third.more) == (1, False)
    assert ids(rows) == [2]


def test_pruning_stops_at_jobs_that_were_submitted_since(keeper, rows):
    for job_id in range(1, 10):
        rows.ended(job_id)
    found = pruned(keeper, before=NOW + 4.5, limit=3)
    assert (found.jobs, found.more) == (2, True)  # the third was submitted before, and ended since
    found = pruned(keeper, before=NOW + 4.5, limit=3, after=found.after)
    assert (found.jobs, found.more) == (0, True)
    found = pruned(keeper, before=NOW + 4.5, limit=3, after=found.after)
    assert (found.jobs, found.more) == (0, False)


def test_both_tables_are_entered_where_pruning_goes_on(keeper, rows):
    """Else PostgreSQL walks through all jobs up to there, for every chunk of a million."""
    asked = []
    event.listen(keeper._database.engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    pruned(keeper, after=5)
    (look,) = [statement for statement in asked if "FROM outcomes" in statement]
    assert "outcomes.job_id > " in look
    assert "jobs.id > " in look


def test_a_dry_run_counts_and_removes_nothing(keeper, rows):
    whole(rows, 1)
    rows.ended(2, "dead_letter")
    rows.letter(2)
    assert pruned(keeper, dry=True) == Pruned(jobs=1, kept_for_dead_letters=1, more=False, after=2)
    assert ids(rows) == [1, 2]
    assert ids(rows, "checkpoints") == [1]


def test_only_the_pipeline_that_was_named_is_pruned(keeper, rows):
    rows.ended(1)
    rows.ended(2, job={"pipeline": "mail"})
    assert pruned(keeper, pipeline="mail").jobs == 1
    assert ids(rows) == [1]


def subject(rows):
    mine = {"subject": "cl-7", "payload": b"private"}
    whole(rows, 1, job=mine | {"version": 1})
    whole(rows, 2, job=mine | {"version": 2}, status="dead_letter")
    whole(rows, 3, job=mine | {"version": 1, "pipeline": "mail"})
    whole(rows, 4, job={"subject": "cl-8", "version": 1, "payload": b"other"})


def test_erasing_a_subject_leaves_nothing_that_its_user_gave(keeper, rows):
    subject(rows)
    assert keeper.erase("cl-7", pipeline=None) == 3
    jobs = {row["id"]: row for row in rows.all("jobs")}
    outcomes = {row["job_id"]: row for row in rows.all("outcomes")}
    for job_id in (1, 2, 3):
        assert jobs[job_id]["payload"] is None
        assert jobs[job_id]["subject"].startswith("erased:")
        assert jobs[job_id]["idempotency_key"].startswith("erased:")
        assert outcomes[job_id]["result"] is None
    assert {row["job_id"]: row["result"] for row in rows.all("checkpoints")} == {
        1: None,
        2: None,
        3: None,
        4: b'"diff"',
    }
    assert {row["job_id"]: row["payload"] for row in rows.all("revisions")} == {
        1: None,
        2: None,
        3: None,
        4: b"earlier",
    }
    assert ids(rows, "memos") == [4]
    assert (jobs[4]["payload"], jobs[4]["subject"], outcomes[4]["result"]) == (b"other", "cl-8", b'"done"')
    assert all(b"private" not in row["payload"] for row in rows.all("jobs") if row["payload"])


@pytest.mark.parametrize("state", ["open", "discarded"])
def test_erasing_a_subject_leaves_nothing_of_what_its_failures_said(keeper, rows, state):
    """Letters, attempts, histories and the name of a group may quote it; a digest would tell that it came back."""
    words = "Jane Roe of cl-7 has no country"
    for job_id, subject in ((1, "cl-7"), (2, "cl-8")):
        said = words if job_id == 1 else "no country"
        rows.ended(job_id, "dead_letter", job={"subject": subject, "version": 1})
        rows.attempt(job_id, message=said, signature=said, failure=f'{{"message": "{said}"}}')
        closed = {"closed_at": NOW} if state == "discarded" else {}
        letter_id = rows.letter(
            job_id, state, fingerprint=f"v1:{job_id}", message=said, last_stack=said, failure=said, signature=said,
            sanitized_context=f'{{"subject_digest": "{said}"}}', **closed,
        )  # fmt: skip
        rows.entry(letter_id, "note", state, state, note=said)
    before = [row for row in rows.all("dead_letters") if row["job_id"] == 2]
    keeper.erase("cl-7", pipeline=None)
    tables = ("dead_letters", "dead_letter_texts", "dead_letter_history", "dead_letter_groups", "attempts")
    everything = {name: rows.all(name) for name in tables}
    assert "Jane" not in str(everything)
    assert [len(everything[name]) for name in tables] == [2, 1, 1, 2, 2]
    assert [row for row in everything["dead_letters"] if row["job_id"] == 2] == before
    erased = next(row for row in everything["dead_letters"] if row["job_id"] == 1)
    assert (erased["state"], json.loads(erased["summary"])["entries"]) == (state, 1)


def test_jobs_of_an_erased_subject_stay_together_and_what_failed_stays_to_be_seen(keeper, rows):
    subject(rows)
    keeper.erase("cl-7", pipeline=None)
    jobs = {row["id"]: row for row in rows.all("jobs")}
    assert jobs[1]["subject"] == jobs[2]["subject"] == jobs[3]["subject"]
    assert len({row["idempotency_key"] for row in jobs.values()}) == 4
    assert ids(rows, "attempts") == [1, 2, 3, 4]


def test_a_subject_can_be_erased_in_one_pipeline_alone(keeper, rows):
    subject(rows)
    assert keeper.erase("cl-7", pipeline="mail") == 1
    assert [row["subject"] for row in rows.all("jobs")].count("cl-7") == 2


def test_a_subject_that_comes_back_can_be_erased_again(keeper, rows):
    rows.ended(1, job={"subject": "cl-7", "version": 1, "idempotency_key": "k"})
    keeper.erase("cl-7", pipeline=None)
    rows.ended(2, job={"subject": "cl-7", "version": 1, "idempotency_key": "k"})
    assert keeper.erase("cl-7", pipeline=None) == 1
    assert keeper.erase("cl-7", pipeline=None) == 0


def test_the_digest_needs_the_databases_own_key(keeper, rows):
    rows.ended(1, job={"subject": "cl-7", "version": 1})
    rows.sql("DELETE FROM meta")
    with pytest.raises(SchemaError, match="digest_key"):
        keeper.erase("cl-7", pipeline=None)
    assert rows.all("jobs")[0]["subject"] == "cl-7"


def test_nothing_is_erased_while_a_job_of_the_subject_is_open(keeper, rows):
    subject(rows)
    for job_id in range(50, 80):
        rows.queued(job_id, job={"subject": "cl-7", "version": job_id})
    with pytest.raises(RefusedError, match=r"not over yet: 50, 51, .*, 69 and 10 more"):
        keeper.erase("cl-7", pipeline=None)
    assert rows.all("jobs")[0]["payload"] == b"private"
    assert ids(rows, "memos") == [1, 2, 3, 4]


def test_after_pruning_and_erasing_nothing_is_orphaned(keeper, rows):
    subject(rows)
    keeper.erase("cl-7", pipeline="review")
    pruned(keeper, pipeline="mail")
    reader = SqlReader(rows.url)
    assert reader.orphans(limit=9) == Orphans()
    assert [job.job_id for job in reader.jobs(JobFilter())] == [4, 2, 1]
    reader.close()


def test_a_database_gets_its_tables(empty_url):
    keeper = SqlKeeper(empty_url)
    missing = keeper.schema()
    assert missing == SchemaView(fit="missing", revision=None, wanted=missing.wanted)
    keeper.upgrade()
    keeper.upgrade()
    assert keeper.schema() == SchemaView(fit="current", revision=missing.wanted, wanted=missing.wanted)
    assert keeper.prune(before=LATER, pipeline=None, limit=1, dry=False).jobs == 0
    keeper.close()


def test_a_file_that_somebody_else_writes_is_told_as_locked(tmp_path, monkeypatch):
    monkeypatch.setattr("reprieve.adapters.sql.engine.PATIENCE", 0.1)
    path = tmp_path / "jobs.db"
    keeper = SqlKeeper(f"sqlite:///{path}")
    keeper.upgrade()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked"):
        keeper.prune(before=LATER, pipeline=None, limit=1, dry=False)
    holder.execute("ROLLBACK")
    holder.close()
    keeper.close()


# --- dead letters


def pruned_letters(keeper, **values):
    return keeper.prune_letters(**({"before": LATER, "limit": 100, "dry": False} | values))


def closed_letter(rows, job_id, state="resolved", **values):
    """A dead letter with the history of a replay that worked."""
    letter_id = rows.letter(job_id, state, **({"cause": "data", "replays": 1} | values))
    rows.entry(letter_id, "triage", "open", "triaged", actor="ada", note="a wrong field")
    rows.entry(letter_id, "override", "triaged", "replaying", actor="eve", note="no time")
    rows.entry(letter_id, "recover", "replaying", "replayed", actor="the store")
    rows.entry(letter_id, "resolve", "replayed", state, actor="eve", note="n" * 600)
    rows.entry(letter_id, "note", state, state, actor="bob", note="afterwards")
    return letter_id


def test_a_pruned_dead_letter_keeps_its_row_and_a_summary_of_its_history(keeper, rows):
    closed_letter(rows, 1)
    before = {name: value for name, value in rows.all("dead_letters")[0].items() if name != "summary"}
    counted = rows.all("dead_letter_counts"), rows.all("dead_letter_hours")
    done = pruned_letters(keeper)
    assert (done.letters, done.more) == (1, False)
    (row,) = rows.all("dead_letters")
    summary = json.loads(row.pop("summary"))
    assert row == before
    assert rows.all("dead_letter_texts") == rows.all("dead_letter_history") == []
    assert (rows.all("dead_letter_counts"), rows.all("dead_letter_hours")) == counted
    assert summary.pop("pruned_at") > NOW
    assert summary == {
        "error_class": "AUTH_DENIED",
        "stage": "notify",
        "cause": "data",
        "cause_named_by": "ada",
        "entries": 5,
        "replays": 1,
        "ended_as": "resolved",
        "ended_at": NOW + 2,
        "ended_by": "eve",
        "resolution": "n" * 500,
    }


@pytest.mark.parametrize("state", [each for each in LetterState if not each.closed])
def test_a_dead_letter_that_is_not_closed_is_never_pruned(keeper, rows, state):
    letter_id = rows.letter(1, state)
    rows.entry(letter_id, "note", state, state)
    before = rows.all("dead_letters"), rows.all("dead_letter_texts"), rows.all("dead_letter_history")
    assert pruned_letters(keeper, before=LATER * 2).letters == 0
    assert (rows.all("dead_letters"), rows.all("dead_letter_texts"), rows.all("dead_letter_history")) == before


def test_only_what_was_closed_before_is_pruned(keeper, rows):
    closed_letter(rows, 1, closed_at=NOW + 5)
    kept = closed_letter(rows, 2, closed_at=NOW + 6)
    assert pruned_letters(keeper, before=NOW + 6).letters == 1
    assert [row["letter_id"] for row in rows.all("dead_letter_texts")] == [kept]
    assert {row["letter_id"] for row in rows.all("dead_letter_history")} == {kept}


def test_a_dry_run_over_dead_letters_counts_and_changes_nothing(keeper, rows):
    closed_letter(rows, 1)
    closed_letter(rows, 2, "discarded")
    before = rows.all("dead_letters"), rows.all("dead_letter_texts"), rows.all("dead_letter_history")
    assert pruned_letters(keeper, dry=True).letters == 2
    assert (rows.all("dead_letters"), rows.all("dead_letter_texts"), rows.all("dead_letter_history")) == before


def test_dead_letters_are_pruned_in_chunks_and_once(keeper, rows):
    *_, last = [closed_letter(rows, job_id) for job_id in range(1, 4)]
    rows.letters({"job_id": job_id, "state": "open"} for job_id in range(10, 60))
    for table, column in (
        ("dead_letters", "id"),
        ("dead_letter_texts", "letter_id"),
        ("dead_letter_history", "letter_id"),
    ):
        rows.sql(f"UPDATE {table} SET {column} = 10000 WHERE {column} = {last}")  # after a long gap
    done = LettersPruned(letters=0, more=True)
    counts = []
    while done.more:
        assert len(counts) < 20
        done = pruned_letters(keeper, limit=1, after=done.after)
        counts.append(done.letters)
    assert sum(counts) == 3
    assert max(counts) == 1
    assert pruned_letters(keeper).letters == 0
    assert len(rows.all("dead_letter_texts")) == 50
    assert rows.all("dead_letter_history") == []


def test_what_happens_after_a_pruning_is_carried_on_by_the_next(keeper, rows):
    letter_id = closed_letter(rows, 1, "discarded")
    pruned_letters(keeper)
    assert pruned_letters(keeper).letters == 0
    rows.entry(letter_id, "reopen", "discarded", "open", actor="bob")
    rows.entry(letter_id, "discard", "open", "discarded", actor="bob", note="for good")
    assert pruned_letters(keeper).letters == 1
    summary = json.loads(rows.all("dead_letters")[0]["summary"])
    assert (summary["entries"], summary["cause_named_by"]) == (7, "ada")
    assert (summary["ended_by"], summary["resolution"]) == ("bob", "for good")


def test_a_pruned_dead_letter_is_still_found_and_told(keeper, rows):
    letter_id = closed_letter(rows, 1)
    pruned_letters(keeper)
    reader = SqlDeadLetterReader(rows.url)
    assert [row.letter_id for row in reader.letters(LetterFilter())] == [letter_id]
    letter = reader.letter(letter_id)
    assert (letter.message, letter.history) == ("", [])
    assert json.loads(letter.summary)["cause"] == "data"
    reader.close()
