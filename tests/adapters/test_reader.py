"""What can be looked up, on both dialects."""

import itertools
import re

import pytest
from sqlalchemy import event

from reprieve.adapters.sql.reader import SqlReader
from reprieve.core.lifecycle import JobStatus
from reprieve.errors import SchemaError, StoreError, StoreRefusedError, StoreUnavailableError, UsageError
from reprieve.ports.intents import Counters, QueueState
from reprieve.ports.reader import JobFilter, Orphans, StageRun

NOW = 1_700_000_000.0


@pytest.fixture
def reader(rows):
    found = SqlReader(rows.url)
    yield found
    found.close()


@pytest.fixture
def explain(reader, rows):
    """The plan of what a look-up asks, as the database tells it."""

    def plan(look_up):
        asked = []

        def keep(connection, cursor, statement, parameters, context, executemany):
            asked.append((statement, parameters))

        event.listen(reader._database.engine, "before_cursor_execute", keep)
        look_up()
        event.remove(reader._database.engine, "before_cursor_execute", keep)
        statement, parameters = asked[-1]
        with reader._database.transaction() as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
                connection.exec_driver_sql("SET LOCAL enable_sort = off")
                return "\n".join(row[0] for row in connection.exec_driver_sql(f"EXPLAIN {statement}", parameters))
            found = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            return "\n".join(row[3] for row in found)

    return plan


STANDINGS = [
    ({"state": 0}, JobStatus.PENDING),
    ({"state": 2}, JobStatus.PENDING),
    ({"state": 4, "crash": 1, "fence": 1}, JobStatus.RETRYABLE_FAILED),
    ({"state": 1, "fence": 1}, JobStatus.IN_PROGRESS),
    ({"state": 1, "fence": 2, "handler": 1}, JobStatus.IN_PROGRESS),
    ({"state": 3, "fence": 1, "waits_on": "review"}, JobStatus.NEEDS_REVIEW),
    ({"state": 3, "fence": 1, "waits_on": "review:llm", "handler": 1}, JobStatus.NEEDS_REVIEW),
    ({"state": 3, "fence": 1, "waits_on": "Review"}, JobStatus.IN_PROGRESS),
    ({"state": 3, "fence": 1, "waits_on": "upgrade:Diff"}, JobStatus.IN_PROGRESS),
    ({"state": 0, "fence": 1}, JobStatus.IN_PROGRESS),
    ({"state": 0, "fence": 2, "deploy": 1}, JobStatus.IN_PROGRESS),
    *[
        ({"state": state, "fence": 1, cause: 1}, JobStatus.RETRYABLE_FAILED)
        for state, cause in itertools.product((0, 2), ("handler", "crash", "out_of_memory", "lost_lease"))
    ],
]


@pytest.fixture
def standing(rows):
    """One job for every way to stand in the queue, and one for every way to end; status by job id."""
    found = {}
    for job_id, (values, status) in enumerate(STANDINGS, 1):
        rows.queued(job_id, **values)
        found[job_id] = status
    for job_id, status in enumerate(("succeeded", "dead_letter", "skipped", "cancelled"), 101):
        rows.ended(job_id, status)
        found[job_id] = JobStatus(status)
    return found


def test_a_jobs_status_is_derived_from_where_it_stands(reader, standing):
    assert {job_id: reader.job(job_id).status for job_id in standing} == standing


def test_the_view_for_ingestion_derives_the_same_status(reader, rows, standing):
    assert dict(rows.sql("SELECT id, status FROM ingestion_queue")) == {
        key: str(value) for key, value in standing.items()
    }


@pytest.mark.parametrize("status", list(JobStatus))
def test_jobs_are_found_by_their_status_the_newest_first(reader, standing, status):
    found = reader.jobs(JobFilter(status=status))
    assert [job.job_id for job in found] == sorted((key for key in standing if standing[key] is status), reverse=True)
    assert {job.status for job in found} == {status}


def test_jobs_are_counted_by_status(reader, rows, standing):
    expected = {status: sum(each is status for each in standing.values()) for status in JobStatus}
    assert reader.counts() == expected
    assert reader.counts("review") == expected
    assert set(reader.counts("other").values()) == {0}


def test_a_page_ends_where_the_next_one_begins(reader, standing):
    first = reader.jobs(JobFilter(limit=5))
    second = reader.jobs(JobFilter(limit=5, after=first[-1].job_id))
    assert [job.job_id for job in (*first, *second)] == sorted(standing, reverse=True)[:10]


@pytest.mark.parametrize("status", [None, JobStatus.PENDING, JobStatus.SUCCEEDED, JobStatus.CANCELLED])
def test_filters_narrow_what_is_found_whatever_the_status(reader, rows, status):
    mine = {"pipeline": "mail", "subject": "cl-7", "version": 2}
    for start, add, values in ((10, rows.queued, {}), (20, rows.ended, {}), (30, rows.ended, {"status": "cancelled"})):
        add(
            start,
            **values,
            stage="send",
            job=mine | {"version": start},
            **({"pipeline": "mail"} if start == 10 else {}),
        )
        add(start + 1, **values)
    expected = {None: [30, 20, 10], JobStatus.PENDING: [10], JobStatus.SUCCEEDED: [20], JobStatus.CANCELLED: [30]}
    for wanted in (
        {"pipeline": "mail"},
        {"stage": "send"},
        {"subject": "cl-7"},
        {"subject": "cl-7", "pipeline": "mail", "stage": "send"},
    ):
        found = reader.jobs(JobFilter(status=status, **wanted))
        assert [job.job_id for job in found] == expected[status], wanted
    assert reader.jobs(JobFilter(status=status, subject="cl-7", pipeline="review")) == []
    assert reader.jobs(JobFilter(status=status, subject="cl-8")) == []


def test_a_job_that_stands_in_the_queue_is_told_whole(reader, rows):
    given = {"subject": "cl-1", "version": 3, "rerun_of": 2, "payload": b"12345", "priority": 9}
    rows.queued(5, 1, job=given, stage="llm", fence=4, worker_id=8, handler=1, crash=2, out_of_memory=3, lost_lease=4,
                deploy=5, cancel_requested=True, cancel_reason="enough", cancelled_by="ada")  # fmt: skip
    job = reader.job(5)
    assert (job.stage, job.state, job.fence, job.worker_id) == ("llm", QueueState.LEASED, 4, 8)
    assert job.counters == Counters(handler=1, crash=2, out_of_memory=3, lost_lease=4, deploy=5)
    assert (job.subject, job.version, job.rerun_of, job.payload_size, job.priority) == ("cl-1", 3, 2, 5, 9)
    assert (job.cancel_requested, job.reason, job.ended_by, job.finished_at) == (True, "enough", "ada", None)
    assert job.created_at == NOW + 5
    assert reader.job_by_key("key-5") == job
    assert reader.payload(5) == b"12345"


def test_a_job_that_is_over_is_told_whole(reader, rows):
    rows.ended(5, "cancelled", stage="llm", fence=3, reason="superseded", ended_by="eve", job={"payload": None})
    job = reader.job(5)
    assert (job.stage, job.status, job.state, job.fence) == ("llm", JobStatus.CANCELLED, None, 3)
    assert (job.finished_at, job.reason, job.ended_by, job.payload_size) == (NOW + 7, "superseded", "eve", None)
    assert (job.counters, job.worker_id, job.cancel_requested) == (Counters(), None, False)


def test_what_is_not_there_is_none(reader):
    assert reader.job(1) is None
    assert reader.job_by_key("nothing") is None
    assert reader.payload(1) is None
    assert reader.dead_letter_of(1) is None
    assert reader.attempts(1) == reader.stage_runs(1) == reader.endings([1]) == reader.endings([]) == []


def test_the_stages_of_a_job_are_its_checkpoints_and_its_end(reader, rows):
    rows.ended(1, result=b"123")
    rows.checkpoint(1, "llm", started_at=NOW + 1, finished_at=NOW + 2, attempt=3, result=None)
    rows.checkpoint(1, "fetch", started_at=NOW, finished_at=NOW + 1, result=b"12")
    assert reader.stage_runs(1) == [
        StageRun(stage="fetch", attempt=1, started_at=NOW, finished_at=NOW + 1, result_size=2),
        StageRun(stage="llm", attempt=3, started_at=NOW + 1, finished_at=NOW + 2, result_size=0),
        StageRun(stage="notify", attempt=1, started_at=NOW + 2, finished_at=NOW + 3, result_size=3),
    ]


def test_a_job_that_failed_has_only_the_stages_that_were_acknowledged(reader, rows):
    rows.ended(1, "dead_letter")
    rows.checkpoint(1)
    assert [run.stage for run in reader.stage_runs(1)] == ["fetch"]


def test_attempts_come_in_order_and_whole(reader, rows):
    rows.queued(1)
    rows.attempt(1, number=1)
    rows.attempt(2, number=7)
    rows.attempt(1, number=2, decision="dead_letter", retry_at=None, status_code=503, counted=False)
    first, second = reader.attempts(1)
    assert (first.number, first.retry_at, first.counted, first.status_code) == (1, NOW + 3, True, None)
    assert (second.number, second.retry_at, second.counted, second.status_code) == (2, None, False, 503)
    assert second.decision == "dead_letter"


def test_the_dead_letter_of_a_job_is_told_whole(reader, rows):
    rows.ended(1, "dead_letter")
    rows.letter(2, message="another")
    letter_id = rows.letter(1, message="denied", status_code=403, pages=True, stage="llm", fingerprint="v1:7")
    letter = reader.dead_letter_of(1)
    assert (letter.letter_id, letter.job_id, letter.message, letter.state) == (letter_id, 1, "denied", "open")
    assert (letter.stage, letter.error_class, letter.fingerprint) == ("llm", "AUTH_DENIED", "v1:7")
    assert (letter.status_code, letter.pages, letter.policy) == (403, True, "criticizer")
    assert (letter.first_failure_at, letter.last_failure_at) == (NOW, NOW + 1)


def test_a_dead_letter_whose_texts_were_pruned_is_told_without_them(reader, rows):
    rows.letter(1, "resolved")
    rows.sql("DELETE FROM dead_letter_texts")
    letter = reader.dead_letter_of(1)
    assert (letter.state, letter.error_class) == ("resolved", "AUTH_DENIED")
    assert letter.message == letter.last_stack == letter.sanitized_context == letter.reason == letter.policy == ""


def test_endings_tell_the_result_or_what_went_wrong(reader, rows):
    rows.ended(1, result=b"7")
    rows.ended(2, "dead_letter", reason="non_retryable")
    rows.attempt(2, message="first", error_class="NETWORK_TIMEOUT")
    rows.letter(2, message="again", error_class="AUTH_DENIED")
    rows.ended(3, "skipped")
    rows.attempt(3, message="odd", error_class="SCHEMA_INVALID", decision="park", retry_at=None)
    rows.queued(4)
    done, dead, skipped = reader.endings([4, 3, 2, 1, 99])
    assert (done.job_id, done.status, done.result, done.result_type) == (1, JobStatus.SUCCEEDED, b"7", "Review")
    assert (dead.result, dead.reason, dead.error_class, dead.message) == (None, "non_retryable", "AUTH_DENIED", "again")
    assert (skipped.error_class, skipped.message) == ("SCHEMA_INVALID", "odd")


def test_more_endings_than_fit_one_statement_are_all_found(reader, rows):
    for job_id in range(1, 6):
        rows.ended(job_id)
    wanted = [*range(1000, 3000), *range(1, 6)]
    assert [ending.job_id for ending in reader.endings(wanted)] == [1, 2, 3, 4, 5]


def test_stages_are_told_with_what_stands_at_each(reader, rows):
    rows.stage("fetch", paused=True, paused_by="ada", reason="maintenance")
    rows.stage("llm", held_until=NOW + 5, opened_at=NOW, error_class="OVERLOADED", probe_until=NOW + 6, changed_at=NOW)
    for job_id, state in enumerate((0, 0, 1, 2, 3, 4), 1):
        rows.queued(job_id, state)
    rows.queued(10, stage="old name")
    fetch, llm = reader.stages()
    assert (fetch.paused, fetch.paused_by, fetch.reason, fetch.ready) == (True, "ada", "maintenance", 0)
    assert (llm.held_until, llm.opened_at, llm.error_class, llm.probe_until) == (NOW + 5, NOW, "OVERLOADED", NOW + 6)
    fetch, llm, forgotten = reader.stages(counted=True)
    assert (fetch.ready, fetch.leased, fetch.scheduled, fetch.waiting, fetch.suspects) == (2, 1, 1, 1, 1)
    assert (llm.ready, forgotten.stage, forgotten.ready, forgotten.paused) == (0, "old name", 1, False)


def test_workers_are_told(reader, rows):
    rows.worker(3, name="w3", stopping=True)
    (worker,) = reader.workers()
    assert (worker.worker_id, worker.name, worker.stopping, worker.expires_at) == (3, "w3", True, NOW + 30)


def versions(rows, first, second, **other):
    rows.ended(1, job={"subject": "cl-1", "version": 1, "payload": first, **other})
    rows.queued(2, job={"subject": "cl-1", "version": 2, "payload": second})


def test_content_that_has_passed_a_stage_in_another_version_is_known(reader, rows):
    versions(rows, b"same", b"same")
    rows.checkpoint(1, "llm")
    assert reader.accepted_before(2, "llm")
    assert reader.accepted_before(2, "notify")
    assert not reader.accepted_before(2, "fetch")
    assert not reader.accepted_before(1, "llm")


@pytest.mark.parametrize(("payload", "other"), [(b"else", {}), (b"same", {"pipeline": "mail"}), (None, {})])
def test_other_content_or_another_pipeline_says_nothing_about_a_job(reader, rows, payload, other):
    versions(rows, payload, b"same", **other)
    rows.checkpoint(1, "llm")
    assert not reader.accepted_before(2, "llm")


def test_what_cannot_be_is_found(reader, rows):
    rows.queued(1)
    rows.ended(2)
    assert reader.orphans(limit=10) == Orphans()
    rows.job(3)
    rows.queued(4)
    rows.add("outcomes", job_id=4, status="cancelled", stage="x", fence=0, attempt=0, finished_at=NOW)
    rows.add("outcomes", job_id=5, status="cancelled", stage="x", fence=0, attempt=0, finished_at=NOW)
    rows.worker(1)
    rows.queued(6, 1, worker_id=1)
    rows.queued(7, 1, worker_id=2)
    assert reader.orphans(limit=10) == Orphans(neither=(3,), both=(4,), jobless=(5,), unleased=(7,))
    rows.job(8)
    assert reader.orphans(limit=1).neither == (3,)


def test_a_job_that_is_neither_queued_nor_over_is_shown_as_what_it_is(reader, rows):
    rows.job(3)
    job = reader.job(3)
    assert (job.status, job.stage) == (JobStatus.IN_PROGRESS, "fetch")
    assert "db check" in job.waits_on


@pytest.mark.parametrize("status", [JobStatus.DEAD_LETTER, JobStatus.SKIPPED, JobStatus.CANCELLED])
def test_what_failed_is_found_by_its_own_index(reader, explain, status):
    assert "ix_outcomes_unsuccessful" in explain(lambda: reader.jobs(JobFilter(status=status)))


def test_a_subject_is_found_by_its_index_though_no_pipeline_is_named(reader, explain):
    plan = explain(lambda: reader.jobs(JobFilter(subject="cl-1")))
    assert "uq_jobs_pipeline_subject_version" in plan
    assert "SCAN jobs" not in plan.replace("SCAN jobs USING COVERING INDEX", "")


@pytest.mark.parametrize("wanted", [{"subject": "\udcff"}, {"after": 2**64}, {"pipeline": "a\0b"}])
def test_values_that_databases_do_not_take_find_nothing_or_are_refused(reader, rows, wanted):
    rows.ended(1, job={"subject": "cl-1", "version": 1})
    try:
        found = reader.jobs(JobFilter(**wanted))
    except (UsageError, StoreRefusedError) as error:
        assert re.search(r"do not take|larger than|out of range|NUL", str(error))
    else:
        assert [job.job_id for job in found] == ([1] if "after" in wanted else [])


def test_a_reader_writes_nothing(reader, rows):
    rows.ended(1)
    with pytest.raises(StoreError, match=r"read-only|cannot be written"), reader._database.transaction() as connection:
        connection.exec_driver_sql("DELETE FROM jobs")
    assert reader.job(1) is not None


def test_a_database_without_tables_is_told_with_what_to_do(empty_url, tmp_path):
    (tmp_path / "jobs.db").touch()
    reader = SqlReader(empty_url)
    with pytest.raises(SchemaError, match="reprieve db upgrade"):
        reader.counts()
    reader.close()


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    reader = SqlReader(f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(SchemaError, match=r"no database at .*none.db.*reprieve db upgrade"):
        reader.job(1)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_told(tmp_path):
    (tmp_path / "text.db").write_text("this is a text, and long enough to be looked at as a database" * 10)
    reader = SqlReader(f"sqlite:///{tmp_path}/text.db")
    with pytest.raises(StoreError, match="not a SQLite database"):
        reader.job(1)
    reader.close()


def test_a_server_that_is_not_there_is_told_without_the_password():
    password = "hunter" + "2secret"
    reader = SqlReader(f"postgresql://ada:{password}@127.0.0.1:1/jobs")
    with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1:1/jobs") as caught:
        reader.job(1)
    assert password not in str(caught.value)


@pytest.mark.parametrize("url", ["mysql://host/name", "jobs.db", ""])
def test_a_url_of_nothing_we_know_is_refused(url):
    with pytest.raises(StoreError, match="sqlite:///"):
        SqlReader(url)


def test_a_database_in_memory_cannot_be_seen_from_outside():
    with pytest.raises(UsageError, match="name a file"):
        SqlReader("sqlite://")
