"""Callers who run their own loop: what becomes of a job whose step failed, on both databases."""

import asyncio
import json
import logging
import sqlite3
from contextlib import closing
from datetime import datetime

import psycopg
import pytest

import reprieve
from reprieve import Abort, DeadLetter, Park, ParkState, Pipeline, Policy, RetryAt
from reprieve.core.lifecycle import JobStatus
from reprieve.errors import IllegalTransitionError, JobFailedError, ResultError, UnknownNameError, UsageError
from reprieve.ports.intents import Claim, Register
from reprieve.testing import FakeClock

NOW = 1_700_000_000.0
SERVER_ERROR = {"statusCode": 500, "message": "Internal server error"}
RATE_LIMIT = {"statusCode": 429, "message": "Rate limit exceeded"}
NOT_FOUND = {"statusCode": 404, "message": "row 42 is not there"}

FIELDS = (
    "status", "status_code", "failure_count", "last_failed_step", "last_error_message", "last_error_signature",
    "last_error_at", "error_type", "error_retryable", "retry_after",
)  # fmt: skip


@pytest.fixture
def ingest():
    """A pipeline that nobody works on."""
    found = Pipeline("ingest", profile="ingestion")

    @found.stage
    async def download(job: reprieve.Job[dict]) -> dict:
        raise AssertionError("no worker runs")

    return found


@pytest.fixture
def clock():
    return FakeClock(now=NOW)


@pytest.fixture
def run(store_url, clock):
    """Runs a scene with an open application, whose clock stands still."""

    def go(scene):
        async def opened():
            async with reprieve.connect(store_url, clock=clock) as app:
                return await scene(app)

        return asyncio.run(opened())

    return go


@pytest.fixture
def seen(store_url):
    """What the view `ingestion_queue` shows of a job, and how many rows a table has."""

    def rows(statement):
        if store_url.startswith("sqlite"):
            with closing(sqlite3.connect(store_url.removeprefix("sqlite:///"))) as connection:
                return connection.execute(statement).fetchall()
        with psycopg.connect(store_url) as connection:
            return connection.execute(statement).fetchall()

    def shown(job_id):
        (row,) = rows(f"SELECT {', '.join(FIELDS)} FROM ingestion_queue WHERE id = {job_id}")
        values = {
            name: value.timestamp() if isinstance(value, datetime) else value
            for name, value in zip(FIELDS, row, strict=True)
        }
        return values | {
            "error_retryable": None if values["error_retryable"] is None else bool(values["error_retryable"])
        }

    shown.rows = rows
    return shown


@pytest.mark.spec("ING-4.1", "ING-5.2")
def test_a_failure_shows_in_every_field_of_the_view(run, seen, ingest):
    async def scene(app):
        job = await app.submit(ingest, {"url": "https://example.org"})
        untouched = seen(job.job_id)
        decision = await app.handle_item_failure(job.job_id, "fetcher", "download", RATE_LIMIT, draw=0.5)
        return untouched, decision, seen(job.job_id)

    untouched, decision, shown = run(scene)
    assert untouched == dict.fromkeys(FIELDS) | {"status": "pending", "failure_count": 0}
    assert isinstance(decision, RetryAt)
    assert decision.at == NOW + 10.0
    assert shown == {
        "status": "retryable_failed",
        "status_code": None,
        "failure_count": 1,
        "last_failed_step": "download",
        "last_error_message": "Rate limit exceeded",
        "last_error_signature": "Rate limit exceeded",
        "last_error_at": NOW,
        "error_type": "rate_limit",
        "error_retryable": True,
        "retry_after": NOW + 10.0,
    }


@pytest.mark.spec("ING-3.2", "ING-3.3", "ING-4.1")
def test_the_third_failure_in_a_row_on_one_step_is_a_dead_letter_under_599(run, seen, ingest, clock):
    async def scene(app):
        job = await app.submit(ingest, {})
        kinds = []
        for _ in range(3):
            clock.advance(60)
            kinds.append(type(await app.handle_item_failure(job.job_id, "fetcher", "download", SERVER_ERROR)))
        with pytest.raises(JobFailedError, match="dead_letter at download: UPSTREAM_ERROR: Internal server error"):
            await app.wait(job.job_id)
        return kinds, seen(job.job_id), app.reader.dead_letter_of(job.job_id), app.reader.attempts(job.job_id)

    kinds, shown, letter, attempts = run(scene)
    assert kinds == [RetryAt, RetryAt, DeadLetter]
    assert [(each.number, each.failure_count, each.decision) for each in attempts] == [
        (1, 1, "retry"), (2, 2, "retry"), (3, 3, "dead_letter"),
    ]  # fmt: skip
    assert (shown["status"], shown["status_code"], shown["failure_count"]) == ("dead_letter", 599, 3)
    assert (shown["error_type"], shown["error_retryable"], shown["retry_after"]) == ("retryable", True, None)
    assert (letter.stage, letter.error_class, letter.attempts, letter.budget) == ("download", "UPSTREAM_ERROR", 3, 3)
    assert (letter.first_failure_at, letter.last_failure_at) == (NOW + 60, NOW + 180)


@pytest.mark.spec("ING-3.1", "ING-3.3", "ING-4.1")
def test_a_terminal_error_is_a_dead_letter_on_its_first_failure(run, seen, ingest):
    async def scene(app):
        job = await app.submit(ingest, {"private": "letter"}, idempotency_key="doc-7")
        decision = await app.handle_item_failure("doc-7", "fetcher", "parse", NOT_FOUND)
        return decision, seen(job.job_id), app.reader.dead_letter_of(job.job_id)

    decision, shown, letter = run(scene)
    assert isinstance(decision, DeadLetter)
    assert (shown["status_code"], shown["failure_count"], shown["last_failed_step"]) == (599, 1, "parse")
    assert (shown["error_type"], shown["error_retryable"]) == ("terminal", False)
    assert shown["last_error_signature"] == "row N is not there"
    context = json.loads(letter.sanitized_context)
    assert (context["stage"], context["upstream_status"], context["payload_size"]) == ("parse", 404, 20)
    assert "letter" not in letter.sanitized_context
    assert "doc-7" not in letter.sanitized_context


@pytest.mark.spec("ING-3.2", "ING-4.1")
def test_another_step_starts_a_count_of_its_own(run, seen, ingest):
    async def scene(app):
        job = await app.submit(ingest, {})
        counts = []
        for step in ("download", "download", "parse", "parse", "download", "download"):
            assert isinstance(await app.handle_item_failure(job.job_id, "fetcher", step, SERVER_ERROR), RetryAt)
            counts.append(seen(job.job_id)["failure_count"])
        last = await app.handle_item_failure(job.job_id, "fetcher", "download", SERVER_ERROR)
        return counts, last

    counts, last = run(scene)
    assert counts == [1, 2, 1, 2, 1, 2]
    assert isinstance(last, DeadLetter)


@pytest.mark.spec("ING-4.1")
def test_messages_are_kept_short_and_without_secrets(run, seen, ingest):
    token = "sk-" + "proj-" + "a1B2" * 12

    async def scene(app):
        job = await app.submit(ingest, {})
        error = RuntimeError(f"api_key={token} " + "row 42 is odd " * 200)
        await app.handle_item_failure(job.job_id, "fetcher", "parse", error, Policy(max_attempts=1))
        return seen(job.job_id), app.reader.dead_letter_of(job.job_id)

    shown, letter = run(scene)
    assert len(shown["last_error_message"]) <= 1000
    assert len(shown["last_error_signature"]) <= 100
    assert "RuntimeError" in letter.last_stack
    assert token not in str(shown) + str(letter)


@pytest.mark.spec("ING-5.2")
def test_what_was_decided_is_logged_on_one_line(run, ingest, caplog):
    async def scene(app):
        job = await app.submit(ingest, {"body": "a private letter"})
        with caplog.at_level(logging.DEBUG, logger="reprieve.ingestion"):
            await app.handle_item_failure(job.job_id, "fetcher", "parse", SERVER_ERROR, draw=0.5)
            await app.handle_item_failure(job.job_id, "fetcher", "parse", {"status": 400, "message": "bad\nbody"})
            other = await app.submit(ingest, {})
            await app.handle_item_failure(other.job_id, "fetcher", "parse", reprieve.NeedsReview("look"))

    run(scene)
    assert caplog.messages == [
        "fetcher/parse: failure 1 (UPSTREAM_ERROR), retry in 1.0 s: 'Internal server error'",
        "fetcher/parse: failure 2 (REQUEST_REJECTED), moved to the dead-letter queue (non_retryable): 'bad\\nbody'",
        "fetcher/parse: failure 1 (NEEDS_REVIEW), set aside as needs_review (needs_review): 'look'",
    ]


@pytest.mark.spec("ING-5.2")
def test_an_error_can_be_an_exception_a_message_or_an_object(run, ingest):
    async def scene(app):
        found = []
        for error in (TimeoutError("read timed out"), "too many requests", {"status": "503", "message": "busy"}, None):
            job = await app.submit(ingest, {})
            found.append(await app.handle_item_failure(job.job_id, "fetcher", "parse", error, draw=0.5))
        return [decision.delay for decision in found]

    assert run(scene) == [1.0, 10.0, 1.0, 1.0]


def test_a_step_that_asks_for_a_person_waits_for_one_where_it_stands(run, seen, ingest):
    async def scene(app):
        job = await app.submit(ingest, {})
        decision = await app.handle_item_failure(job.job_id, "fetcher", "parse", reprieve.NeedsReview("look"))
        with pytest.raises(IllegalTransitionError, match="a job that is needs_review cannot retry"):
            await app.handle_item_failure(job.job_id, "fetcher", "parse", SERVER_ERROR)
        return decision, app.reader.job(job.job_id), seen(job.job_id)

    decision, job, shown = run(scene)
    assert isinstance(decision, Park)
    assert decision.state is ParkState.NEEDS_REVIEW
    assert (job.status, job.stage) == (JobStatus.NEEDS_REVIEW, "parse")
    assert (shown["failure_count"], shown["last_failed_step"]) == (1, "parse")


def test_what_a_profile_skips_ends_the_job(run, ingest):
    async def scene(app):
        job = await app.submit(ingest, {})
        error = {"status": 400, "message": "no", "code": "invalid_request_error"}
        decision = await app.handle_item_failure(job.job_id, "fetcher", "parse", error, "analysis")
        return decision, app.reader.job(job.job_id).status

    decision, status = run(scene)
    assert (decision.state, status) == (ParkState.SKIPPED, JobStatus.SKIPPED)


def test_what_would_fail_for_all_pauses_the_step(run, ingest):
    async def scene(app):
        job = await app.submit(ingest, {})
        error = {"status": 401, "message": "invalid api key"}
        decision = await app.handle_item_failure(job.job_id, "fetcher", "parse", error, "criticizer")
        return decision, app.reader.stages()

    decision, (stage,) = run(scene)
    assert isinstance(decision, Abort)
    assert (stage.pipeline, stage.stage, stage.paused, stage.paused_by) == ("ingest", "parse", True, "reprieve")


def test_a_deadline_counts_from_the_first_failure_of_the_step(run, ingest, clock):
    async def scene(app):
        job = await app.submit(ingest, {})
        policy = Policy(max_attempts=10, deadline=100.0)
        found = []
        for step, wait in (("parse", 90), ("store", 60), ("store", 60), ("store", 0)):
            found.append(await app.handle_item_failure(job.job_id, "fetcher", step, SERVER_ERROR, policy, draw=0.0))
            clock.advance(wait)
        return [decision.reason for decision in found]

    assert run(scene) == ["backoff", "backoff", "backoff", "deadline"]


def test_reports_at_the_same_time_are_each_counted_once(run, seen, ingest):
    async def scene(app):
        job = await app.submit(ingest, {})
        policy = Policy(max_attempts=100)
        reports = [app.handle_item_failure(job.job_id, "fetcher", "parse", SERVER_ERROR, policy) for _ in range(4)]
        await asyncio.gather(*reports)
        return seen(job.job_id)["failure_count"], [each.number for each in app.reader.attempts(job.job_id)]

    assert run(scene) == (4, [1, 2, 3, 4])


def test_a_step_that_succeeds_ends_the_job_with_its_result(run, seen, ingest):
    async def scene(app):
        first = await app.submit(ingest, {}, idempotency_key="first")
        second = await app.submit(ingest, {})
        await app.handle_item_failure("first", "fetcher", "parse", SERVER_ERROR)
        await app.complete_item("first", "parse", {"rows": [1, 2]})
        await app.complete_item(second.job_id, "download")
        shown = seen(first.job_id)
        runs = app.reader.stage_runs(first.job_id)
        return await first.result(timeout=30), await app.wait(second.job_id, timeout=30), shown, runs

    result, nothing, shown, (stage,) = run(scene)
    assert (result, nothing) == ({"rows": [1, 2]}, None)
    assert (shown["status"], shown["status_code"], shown["failure_count"]) == ("succeeded", None, 0)
    assert (stage.stage, stage.attempt) == ("parse", 2)


def test_a_job_that_is_over_takes_no_more_reports(run, seen, ingest):
    async def scene(app):
        job = await app.submit(ingest, {})
        await app.complete_item(job.job_id, "parse", 1)
        with pytest.raises(IllegalTransitionError, match="a job that is succeeded cannot finish"):
            await app.complete_item(job.job_id, "parse", 2)
        with pytest.raises(IllegalTransitionError, match="a job that is succeeded cannot retry"):
            await app.handle_item_failure(job.job_id, "fetcher", "parse", SERVER_ERROR)
        assert seen.rows("SELECT count(*) FROM attempts") == [(0,)]
        return await app.wait(job.job_id)

    assert run(scene) == 1


def test_a_job_that_a_worker_runs_is_refused(run, seen, ingest):
    async def scene(app):
        job = await app.submit(ingest, {})
        worker = await app.journal.ask(
            Register(name="w", host="h", pid=1, stages=(("ingest", "download"),), now=NOW, expires_at=NOW + 60)
        )
        claim = Claim(worker_id=worker, capacity=1, stages={("ingest", "download"): 1}, now=NOW)
        assert (await app.journal.ask(claim)).leases
        for report in (
            app.handle_item_failure(job.job_id, "fetcher", "download", SERVER_ERROR),
            app.complete_item(job.job_id, "download"),
        ):
            with pytest.raises(UsageError, match=f"job {job.job_id} is being run by a worker"):
                await report
        return seen(job.job_id)["status"]

    assert run(scene) == "in_progress"


def test_a_step_that_is_no_stage_of_a_pipeline_that_workers_run_is_refused(run, seen, ingest):
    async def scene(app):
        job = await app.submit(ingest, {})
        stages = (("ingest", "download"), ("ingest", "parse"))
        await app.journal.ask(Register(name="w", host="h", pid=1, stages=stages, now=NOW, expires_at=NOW + 60))
        for report in (
            app.handle_item_failure(job.job_id, "fetcher", "dwonload", SERVER_ERROR),
            app.complete_item(job.job_id, "dwonload"),
        ):
            with pytest.raises(UsageError, match=r"no stage of ingest is named 'dwonload' .did you mean 'download'"):
                await report
        untouched = seen(job.job_id)["status"]
        await app.complete_item(job.job_id, "parse")
        return untouched, seen(job.job_id)["status"]

    assert run(scene) == ("pending", "succeeded")


def test_a_paused_step_of_a_loop_of_ones_own_does_not_make_the_others_wrong(run, seen, ingest):
    async def scene(app):
        denied, other = await app.submit(ingest, {}), await app.submit(ingest, {})
        refusal = {"statusCode": 401, "message": "invalid api key"}
        decision = await app.handle_item_failure(denied.job_id, "fetcher", "log-in", refusal, "criticizer")
        await app.complete_item(other.job_id, "parse")
        return type(decision), seen(other.job_id)["status"]

    assert run(scene) == (Abort, "succeeded")


@pytest.mark.parametrize("job", [0, -1, 99, 2**70, "no such key"])
def test_a_job_that_is_not_there_is_told_by_its_name(run, ingest, job):
    async def scene(app):
        with pytest.raises(UnknownNameError, match=f"no job is named '{job}'"):
            await app.handle_item_failure(job, "fetcher", "parse", SERVER_ERROR)
        with pytest.raises(UnknownNameError, match=f"no job is named '{job}'"):
            await app.complete_item(job, "parse")

    run(scene)


def test_what_cannot_be_kept_is_refused_and_nothing_is_written(run, seen, ingest):
    async def scene(app):
        job = await app.submit(ingest, {})
        with pytest.raises(UsageError, match="the name of a step has letters"):
            await app.handle_item_failure(job.job_id, "fetcher", "a\0b", SERVER_ERROR)
        with pytest.raises(UsageError, match="the name of a step has letters"):
            await app.complete_item(job.job_id, "")
        with pytest.raises(ResultError, match="the result of parse"):
            await app.complete_item(job.job_id, "parse", object())
        with pytest.raises(UnknownNameError, match="no profile or policy is named 'ingest'"):
            await app.handle_item_failure(job.job_id, "fetcher", "parse", SERVER_ERROR, "ingest")
        with pytest.raises(KeyboardInterrupt):
            await app.handle_item_failure(job.job_id, "fetcher", "parse", KeyboardInterrupt())
        return seen(job.job_id)["status"]

    assert run(scene) == "pending"


def test_an_application_that_is_not_open_says_so(ingest, sqlite_url):
    app = reprieve.connect(sqlite_url)
    with pytest.raises(UsageError, match="not open"):
        asyncio.run(app.handle_item_failure(1, "fetcher", "parse", SERVER_ERROR))
