"""What pruning and erasing do to reviews of signatures, on both dialects."""

import threading

import pytest
from sqlalchemy import event

from reprieve.adapters.sql.analysis.reading import SqlReviewReader
from reprieve.adapters.sql.keeper import SqlKeeper
from reprieve.errors import RefusedError, StoreUnavailableError
from reprieve.ports.reviews import ReviewsPruned

NOW = 1_700_000_000.0
LATER = NOW + 1000
GIVEN = {"schema": b'{"type": "object"}', "samples": b'["from Jane Roe"]', "answers": b'[{"text": "?"}]'}
CLOSED = {
    "verified": {"closed_at": NOW + 5, "closed_by": "ada", "answered_fence": 3, "answer": b'"by hand"'},
    "rejected": {"closed_at": NOW + 5, "closed_by": "ada", "answered_fence": 3},
    "withdrawn": {"closed_at": NOW + 5, "closed_by": "reprieve"},
}


@pytest.fixture
def keeper(rows):
    found = SqlKeeper(rows.url)
    yield found
    found.close()


@pytest.fixture
def reader(rows):
    found = SqlReviewReader(rows.url)
    yield found
    found.close()


def review(rows, review_id, state="verified", **values):
    """A review of a signature with two entries; the second does not name it."""
    needed = {"claimed": {"claimed_by": "ada", "claimed_at": NOW + 1}, **CLOSED}.get(state, {})
    about = {"url_signature": f"s{review_id}", "question": "q1", "error_type": "json_schema_error", "reason": "no"}
    rows.add("reviews", id=review_id, state=state, opened_at=NOW, **(GIVEN | about | needed | values))
    entry = {"review_id": review_id, "at": NOW, "actor": "ada", "note": "seen"}
    rows.add("review_history", event="ask", url_signature=values.get("url_signature", f"s{review_id}"), **entry)
    rows.add("review_history", event="verify", answer=b'"by hand"', **entry)


def review_of_job(rows, review_id, job_id):
    about = {"job_id": job_id, "pipeline": "review", "stage": "llm", "error_type": "needs_review", "reason": "no"}
    rows.add("reviews", id=review_id, state="verified", opened_at=NOW, **GIVEN, **about, **CLOSED["verified"])


def known(rows, signature, **values):
    rows.add("analysis_cache", url_signature=signature, question="q1", created_at=NOW, changed_at=NOW, **values)


def pruned(keeper, **values):
    return keeper.prune_reviews(**({"before": LATER, "limit": 100, "dry": False} | values))


def material(rows):
    return {row["id"]: [row[name] for name in GIVEN] for row in rows.all("reviews")}


# --- pruning


@pytest.mark.parametrize("state", CLOSED)
def test_a_closed_review_loses_what_it_was_decided_by_and_keeps_who_decided_what(keeper, rows, state):
    review(rows, 1, state)
    (before,), history = rows.all("reviews"), rows.all("review_history")
    assert pruned(keeper) == ReviewsPruned(reviews=1, more=False, after=1)
    (after,) = rows.all("reviews")
    assert after == before | dict.fromkeys(GIVEN) | {"answered_fence": None}
    assert rows.all("review_history") == history
    assert pruned(keeper).reviews == 0, "what is pruned is not counted again"


@pytest.mark.parametrize("state", ["open", "claimed"])
def test_what_waits_for_a_person_is_never_touched(keeper, rows, state):
    review(rows, 1, state)
    before = rows.all("reviews")
    assert pruned(keeper, before=LATER * 2).reviews == 0
    assert rows.all("reviews") == before


def test_only_what_was_closed_before_is_pruned_and_what_is_known_of_the_signature_is_not(keeper, rows):
    review(rows, 1)
    review(rows, 2, closed_at=NOW + 6)
    known(rows, "s1", status="analyzed", answer=b'"by hand"', is_human_verified=True)
    served = rows.all("analysis_cache")
    assert pruned(keeper, before=NOW + 6).reviews == 1
    assert material(rows) == {1: [None, None, None], 2: list(GIVEN.values())}
    assert rows.all("analysis_cache") == served


def test_reviews_of_jobs_go_with_their_jobs_and_not_before(keeper, rows):
    review_of_job(rows, 1, job_id=7)
    assert pruned(keeper).reviews == 0
    assert material(rows) == {1: list(GIVEN.values())}


def test_a_dry_run_counts_and_changes_nothing(keeper, rows):
    review(rows, 1)
    review(rows, 2, "open")
    before = rows.all("reviews")
    assert pruned(keeper, dry=True) == ReviewsPruned(reviews=1, more=False, after=2)
    assert rows.all("reviews") == before


def test_pruning_goes_on_where_it_was_and_looks_at_no_more_than_it_was_told_to(keeper, rows):
    for review_id in (1, 2, 3, 1000, 1001):  # after a long gap
        review(rows, review_id)
    asked = []
    event.listen(keeper._database.engine, "before_cursor_execute", lambda *given: asked.append(given[2].lower()))
    done, counts = ReviewsPruned(reviews=0, more=True), []
    while done.more:
        assert len(counts) < 9
        done = pruned(keeper, limit=2, after=done.after)
        counts.append(done.reviews)
    assert counts == [2, 2, 1]
    looks = [statement for statement in asked if statement.startswith("select reviews")]
    assert all("reviews.id > " in look and "limit" in look for look in looks)
    assert all("reviews.id between" in statement for statement in asked if statement.startswith("update"))


def test_a_pruned_review_says_that_it_is(keeper, rows, reader):
    review(rows, 1)
    review(rows, 2, "open")
    review_of_job(rows, 3, job_id=7)
    assert [reader.review(each).is_pruned for each in (1, 2, 3)] == [False, False, False]
    pruned(keeper)
    assert [reader.review(each).is_pruned for each in (1, 2, 3)] == [True, False, False]


# --- erasing


def everything(rows):
    return [rows.all(name) for name in ("analysis_cache", "reviews", "review_history")]


@pytest.mark.parametrize("state", ["open", "claimed", *CLOSED])
def test_erasing_a_signature_leaves_nothing_of_it_and_all_of_the_others(keeper, rows, state):
    review(rows, 1, state, url_signature="people/jane-roe")
    known(rows, "people/jane-roe", status="skipped")
    rows.add("review_history", url_signature="people/jane-roe", at=NOW, actor="ada", event="reset", note="")
    review(rows, 2)
    known(rows, "s2", status="analyzed", answer=b"1")
    assert keeper.erase_signatures(["people/jane-roe", "nobody"], now=NOW) == ["people/jane-roe"]
    assert "people/jane-roe" not in str(everything(rows))
    assert [len(each) for each in everything(rows)] == [1, 1, 2]
    assert keeper.erase_signatures(["people/jane-roe"], now=NOW) == []


@pytest.mark.parametrize("left", ["analysis_cache", "reviews", "review_history"])
def test_whatever_is_left_of_a_signature_is_erased(keeper, rows, left):
    match left:
        case "analysis_cache":
            known(rows, "s1")
        case "reviews":
            review(rows, 1)
            rows.sql("DELETE FROM review_history")
        case _:
            rows.add("review_history", url_signature="s1", at=NOW, actor="ada", event="reset", note="")
    assert keeper.erase_signatures(["s1"], now=NOW) == ["s1"]
    assert everything(rows) == [[], [], []]


def test_nothing_is_erased_while_somebody_asks_the_model_about_one_of_them(keeper, rows):
    known(rows, "free")
    known(rows, "asked", leased_by="me", leased_until=NOW + 60)
    with pytest.raises(RefusedError, match=r"^'asked' is being asked about: try again once that is over; nothing is"):
        keeper.erase_signatures(["free", "asked"], now=NOW + 59)
    assert len(rows.all("analysis_cache")) == 2
    assert keeper.erase_signatures(["free", "asked"], now=NOW + 60) == ["free", "asked"], "whoever asked is gone"


def test_many_are_erased_at_once_and_a_refusal_names_some(keeper, rows):
    names = [f"s{number:04}" for number in range(1200)]
    for name in names[:25]:
        known(rows, name, leased_by="me", leased_until=NOW + 60)
    with pytest.raises(RefusedError, match=r"^'s0000', .*'s0019' and 5 more are being asked about"):
        keeper.erase_signatures(names, now=NOW)
    for name in names[25:]:
        known(rows, name)
    assert keeper.erase_signatures(names, now=NOW + 60) == names
    assert rows.all("analysis_cache") == []


@pytest.mark.parametrize("rows", ["postgresql"], indirect=True)  # a file has one writer at a time
def test_no_signature_is_erased_between_the_two_steps_of_one_who_asks(keeper, rows):
    """Who asks writes it down, where it is not there, and holds it after: it must not be gone then."""
    known(rows, "s1")
    erased = threading.Thread(target=keeper.erase_signatures, args=(["s1"],), kwargs={"now": NOW})
    with rows._database.transaction() as connection:
        connection.exec_driver_sql(
            "INSERT INTO analysis_cache (url_signature, question, created_at, changed_at) VALUES ('s1', 'q', now(), now()) "
            "ON CONFLICT DO NOTHING"
        )
        erased.start()
        while erased.is_alive() and not connection.exec_driver_sql("SELECT 1 FROM pg_locks WHERE NOT granted").all():
            erased.join(0.01)
        held = connection.exec_driver_sql("SELECT 1 FROM analysis_cache FOR UPDATE").all()
    erased.join(20)
    assert held == [(1,)]
    assert rows.all("analysis_cache") == []


@pytest.mark.parametrize("rows", ["postgresql"], indirect=True)
def test_an_erasure_does_not_keep_others_waiting_for_long(keeper, rows, monkeypatch):
    """Somebody holds the table open: whoever comes after the erasure would wait behind it."""
    monkeypatch.setattr("reprieve.adapters.sql.analysis.keeping.PATIENCE", 0.1)
    known(rows, "s1")
    with rows._database.transaction() as connection:
        connection.exec_driver_sql("UPDATE analysis_cache SET question = 'q2'")
        with pytest.raises(StoreUnavailableError, match="lock timeout"):
            keeper.erase_signatures(["s1"], now=NOW)
    assert keeper.erase_signatures(["s1"], now=NOW) == ["s1"]
