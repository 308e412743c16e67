"""What becomes of a failure in the engine: retried, given up, parked, or the whole stage paused."""

import asyncio
import concurrent.futures
import os

import httpx
import pytest

import reprieve
from reprieve import Backoff, Job, JobStatus, NeedsReview, Pipeline, Policy, Profile, Retryable
from reprieve.app.worker import WorkerSettings
from reprieve.ports.intents import QueueState, Resume
from reprieve.testing import FakeClock, Reply, replies


async def ask(upstream):
    """What a stage does with an HTTP upstream."""
    async with httpx.AsyncClient() as client:
        answer = await client.get(upstream.url())
    return answer.raise_for_status().text


def asking(upstream, profile, name="review", **stage):
    """A pipeline of one stage that asks the upstream."""
    pipeline = Pipeline(name, profile=profile, breaker=None)

    @pipeline.stage(name="llm", **stage)
    async def llm(job: Job[str]) -> str:
        return await ask(upstream)

    return pipeline


def raising(profile, *errors, name="review", **stage):
    """A pipeline of one stage that raises these, one a call, and is well after that."""
    pipeline, left = Pipeline(name, profile=profile, breaker=None), list(errors)

    @pipeline.stage(name="llm", **stage)
    async def llm(job: Job[str]) -> int:
        if left:
            raise left.pop(0)
        return job.attempt

    return pipeline


def waits(bench, job):
    return [each.retry_at - each.ended_at for each in bench.look(lambda reader: reader.attempts(job))]


@pytest.mark.spec("CRIT-1.1", "CRIT-3.2")
def test_failures_that_pass_are_retried_and_the_job_succeeds(bench, quick, flaky_http):
    flaky_http.next(503, 502, 504, 500)
    job = bench.process(asking(flaky_http, quick), "x")
    assert bench.job(job).status is JobStatus.SUCCEEDED
    assert len(flaky_http.requests) == 5
    attempts = bench.look(lambda reader: reader.attempts(job))
    assert [each.status_code for each in attempts] == [503, 502, 504, 500]
    assert [run.attempt for run in bench.look(lambda reader: reader.stage_runs(job))] == [5]


@pytest.mark.spec("CRIT-3.2")
def test_the_criticizers_budget_is_five_attempts_the_first_included(bench, quick, flaky_http):
    flaky_http.always(503)
    job = bench.process(asking(flaky_http, quick), "x")
    assert len(flaky_http.requests) == 5
    assert bench.job(job).status is JobStatus.DEAD_LETTER
    assert bench.letter(job).reason == "budget_spent"
    assert [row["decision"] for row in bench.rows("attempts")] == ["retry"] * 4 + ["dead_letter"]


@pytest.mark.spec("CRIT-2.1")
def test_the_delay_is_drawn_anew_for_each_attempt(bench):
    policy = Policy(backoff=Backoff(initial=0.01, multiplier=2.0, maximum=0.04, jitter=reprieve.Jitter.full()))
    job = bench.process(raising(policy, *[ConnectionResetError() for _ in range(4)]), "x")
    drawn = waits(bench, job)
    assert all(0 <= wait < limit for wait, limit in zip(drawn, (0.01, 0.02, 0.04, 0.04), strict=True))
    assert len(set(drawn)) == 4


@pytest.mark.spec("CRIT-2.1")
def test_a_delay_follows_the_policy_of_the_attempt_that_failed_not_that_of_an_earlier_one(bench):
    clock = FakeClock()

    async def main():
        async with reprieve.connect(bench.url, clock=clock) as app:
            job = (await app.submit(raising(Policy()), "x")).job_id
            for seconds in (30.0, 20.0):
                pipeline = raising(Policy(backoff=Backoff(schedule=(seconds,))), ConnectionResetError())
                async with app._worker((pipeline,), WorkerSettings()) as worker:
                    await worker.come()
                    await worker.promote()
                    (lease,) = await worker.claim(1)
                    await worker.run(lease)
                    await worker.leave()
                clock.advance(60.0)
            return job

    assert waits(bench, asyncio.run(main())) == [pytest.approx(30.0, abs=1e-5), pytest.approx(20.0, abs=1e-5)]


@pytest.mark.spec("CRIT-1.2", "CRIT-2.2")
def test_retry_after_is_honoured_where_it_is_longer_than_the_backoff(bench, quick, flaky_http):
    flaky_http.next(Reply(429, headers={"Retry-After": "1"}))
    job = bench.process(asking(flaky_http, quick), "x")
    assert bench.job(job).status is JobStatus.SUCCEEDED
    (attempt,) = bench.look(lambda reader: reader.attempts(job))
    assert attempt.reason == "retry_after"
    assert attempt.retry_at - attempt.ended_at == pytest.approx(1.0, abs=1e-5)
    assert bench.rows("outcomes")[0]["started_at"] >= attempt.retry_at


@pytest.mark.spec("CRIT-2.2")
@pytest.mark.parametrize(("asked", "waited"), [(0.001, 0.05), (0.2, 0.2), (3600.0, 300.0)])
def test_a_wait_is_the_longer_of_the_two_and_never_more_than_five_minutes(bench, asked, waited):
    policy = Policy(backoff=Backoff(schedule=(0.05,)))
    pipeline = raising(policy, Retryable("later", retry_after=asked))

    async def main():
        job = await bench.submit(pipeline, "x")
        await bench.work_until(pipeline, lambda: bench.rows("attempts"))
        return job

    assert waits(bench, bench.run(main)) == [pytest.approx(waited, abs=1e-5)]


@pytest.mark.spec("CRIT-2.3")
def test_retries_stop_at_once_when_the_failure_turns_out_to_be_for_good(bench, quick, flaky_http):
    flaky_http.next(503, 503, 400)
    job = bench.process(asking(flaky_http, quick), "x")
    assert len(flaky_http.requests) == 3
    letter = bench.letter(job)
    assert (letter.error_class, letter.reason, letter.attempts, letter.budget) == (
        "REQUEST_REJECTED",
        "non_retryable",
        3,
        5,
    )


@pytest.mark.spec("CRIT-1.4")
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_conflict_is_retried_only_where_repeating_is_declared_safe(bench, quick, flaky_http, idempotent):
    flaky_http.next(409)
    job = bench.process(asking(flaky_http, quick, idempotent=idempotent), "x")
    if idempotent:
        assert bench.job(job).status is JobStatus.SUCCEEDED
        assert len(flaky_http.requests) == 2
    else:
        letter = bench.letter(job)
        assert (letter.error_class, letter.reason, letter.attempts) == ("WRITE_CONFLICT", "not_idempotent", 1)
        assert len(flaky_http.requests) == 1


@pytest.mark.spec("CRIT-1.8")
@pytest.mark.parametrize(
    ("denials_expected", "accepted_before", "escalated"),
    [(True, False, False), (True, True, True), (False, False, True)],
)
def test_a_refusal_of_content_is_escalated_where_nobody_expected_it(
    bench, flaky_http, denials_expected, accepted_before, escalated
):
    profile = Profile(name="strict", policy=Policy(backoff=Backoff(initial=0.01)), expects_denials=denials_expected)
    pipeline = asking(flaky_http, profile)
    if accepted_before:
        first = bench.process(pipeline, "the same text", subject="cl-1", version=1)
        assert bench.job(first).status is JobStatus.SUCCEEDED
    flaky_http.next(replies.openai.content_filter())
    letter = bench.letter(bench.process(pipeline, "the same text", subject="cl-1", version=2))
    assert (letter.error_class, letter.reason, letter.attempts) == ("POLICY_REJECTED", "non_retryable", 1)
    assert letter.escalated is escalated


@pytest.mark.spec("CRIT-1.8")
def test_content_that_was_accepted_for_another_subject_or_in_other_words_makes_no_surprise(bench, flaky_http):
    profile = Profile(name="strict", policy=Policy(backoff=Backoff(initial=0.01)), expects_denials=True)
    pipeline = asking(flaky_http, profile)
    bench.process(pipeline, "the same text", subject="cl-1", version=1)
    bench.process(pipeline, "other words", subject="cl-2", version=1)
    flaky_http.next(replies.openai.content_filter())
    letter = bench.letter(bench.process(pipeline, "the same text", subject="cl-2", version=2))
    assert not letter.escalated


@pytest.mark.spec("CRIT-1.6", "CRIT-1.9", "ORC-1.4")
def test_what_every_job_would_meet_pauses_the_stage_until_somebody_resumes_it(bench, quick, flaky_http):
    flaky_http.next(401)
    pipeline = asking(flaky_http, quick)
    first = bench.process(pipeline, "x")
    letter = bench.letter(first)
    assert (letter.error_class, letter.reason, letter.pages) == ("AUTH_DENIED", "fatal", True)
    (stage,) = bench.look(lambda reader: reader.stages())
    assert (stage.paused, stage.paused_by, stage.reason) == (True, "reprieve", "AUTH_DENIED")

    second = bench.process(pipeline, "y")  # the credential works by now, but nobody has said so
    assert bench.job(second).status is JobStatus.PENDING
    assert len(flaky_http.requests) == 1

    async def resume():
        await bench.app.journal.ask(
            Resume(pipeline="review", stage="llm", actor="ops", now=await bench.app.journal.store.now())
        )
        await bench.work(pipeline)

    bench.run(resume)
    assert bench.job(second).status is JobStatus.SUCCEEDED
    assert bench.job(first).status is JobStatus.DEAD_LETTER


@pytest.mark.spec("CRIT-1.9")
def test_a_bug_is_dead_lettered_at_once_and_pages_but_stops_nobody_else(bench, quick):
    pipeline = raising(quick, TypeError("unsupported operand"))
    letter = bench.letter(bench.process(pipeline, "x"))
    assert (letter.error_class, letter.category, letter.pages, letter.attempts) == ("BUG", "configuration", True, 1)
    assert [stage.paused for stage in bench.look(lambda reader: reader.stages())] == [False]
    assert bench.job(bench.process(pipeline, "y")).status is JobStatus.SUCCEEDED


@pytest.mark.spec("ORC-1.4")
def test_a_database_that_stays_away_is_fatal_once_the_budget_is_spent(bench, quick):
    gone = [Retryable("no route", error_class="DATABASE_UNAVAILABLE") for _ in range(5)]
    job = bench.process(raising(quick, *gone), "x")
    letter = bench.letter(job)
    assert (letter.reason, letter.pages, letter.attempts) == ("fatal_when_spent", True, 5)
    assert [stage.paused for stage in bench.look(lambda reader: reader.stages())] == [True]


@pytest.mark.spec("LLM-1.1")
@pytest.mark.parametrize(
    ("reply", "error_class"),
    [
        (replies.openai.invalid_request(), "REQUEST_REJECTED"),
        (replies.openai.context_length_exceeded(), "CONTEXT_LENGTH_EXCEEDED"),
        (replies.openai.model_not_found(), "NOT_FOUND"),
    ],
)
def test_what_the_model_will_not_take_is_skipped_not_dead_lettered(bench, quickly, flaky_http, reply, error_class):
    flaky_http.always(reply)
    job = bench.process(asking(flaky_http, quickly("analysis")), "x")
    view = bench.job(job)
    assert (view.status, view.reason) == (JobStatus.SKIPPED, error_class)
    assert len(flaky_http.requests) == 1
    assert bench.rows("dead_letters") == []
    assert [row["decision"] for row in bench.rows("attempts")] == ["park"]


def test_an_invalid_key_skips_the_job_and_stops_the_batch(bench, quickly, flaky_http):
    flaky_http.always(replies.openai.invalid_api_key())
    pipeline = asking(flaky_http, quickly("analysis"))

    async def main():
        jobs = [await bench.submit(pipeline, text) for text in "abc"]
        await bench.work(pipeline, concurrency=1)
        return jobs

    jobs = bench.run(main)
    assert [bench.job(job).status for job in jobs] == [JobStatus.SKIPPED, JobStatus.PENDING, JobStatus.PENDING]
    assert [stage.paused for stage in bench.look(lambda reader: reader.stages())] == [True]


@pytest.mark.spec("LLM-2.2")
def test_the_model_policy_retries_twice(bench, quickly, flaky_http):
    flaky_http.always(replies.openai.server_error())
    letter = bench.letter(bench.process(asking(flaky_http, quickly("analysis")), "x"))
    assert len(flaky_http.requests) == 3
    assert (letter.attempts, letter.budget) == (3, 3)


def test_output_that_does_not_fit_goes_to_a_person(bench, quickly):
    pipeline = Pipeline("analysis", profile=quickly("analysis"))

    @pipeline.stage(repairable=True)
    async def llm(job: Job[str]) -> list[int]:
        return "not what was asked for"

    view = bench.job(bench.process(pipeline, "x"))
    assert (view.status, view.waits_on) == (JobStatus.NEEDS_REVIEW, "review")
    assert bench.rows("attempts")[0]["error_class"] == "OUTPUT_INVALID"


def test_who_asks_for_a_person_waits_for_one_without_a_lease(bench, quick):
    pipeline = raising(quick, NeedsReview("is this a joke or a threat?"))
    job = bench.process(pipeline, "x")
    view = bench.job(job)
    assert (view.status, view.state, view.waits_on) == (JobStatus.NEEDS_REVIEW, QueueState.WAITING, "review")
    assert view.worker_id is None

    async def again():
        await bench.work(pipeline)

    bench.run(again)  # no worker takes it up by itself
    assert bench.job(job) == view


@pytest.mark.spec("ING-1.5", "ING-3.1", "ING-3.3")
def test_a_terminal_error_is_in_the_dead_letter_queue_on_its_first_failure(bench, quickly, flaky_http):
    flaky_http.always(404)
    job = bench.process(asking(flaky_http, quickly("ingestion")), "x")
    assert len(flaky_http.requests) == 1
    (outcome,) = bench.rows("outcomes", job_id=job)
    assert (outcome["status"], outcome["status_code"]) == ("dead_letter", 599)


@pytest.mark.spec("ING-1.8", "ING-3.2", "ING-3.3")
def test_a_retryable_error_is_there_after_three_failures_on_the_same_step(bench, quickly):
    pipeline, calls = Pipeline("ingest", profile=quickly("ingestion"), breaker=None), []

    @pipeline.stage
    async def parse(job: Job[str]) -> None:
        calls.append("parse")
        if calls.count("parse") < 3:
            raise RuntimeError("nobody knows what this is")

    @pipeline.stage
    async def store(job: Job[str]) -> None:
        calls.append("store")
        raise RuntimeError("nor this")

    job = bench.process(pipeline, "x")
    assert calls == ["parse"] * 3 + ["store"] * 3
    assert bench.rows("outcomes", job_id=job)[0]["status_code"] == 599
    assert bench.letter(job).stage == "store"


@pytest.mark.spec("ING-4.1")
def test_every_failed_attempt_has_the_fields_of_the_ingestion_queue(bench, quickly, flaky_http):
    flaky_http.next(Reply(429, headers={"Retry-After": "0"}), Reply(503, body=b"x" * 3000))
    pipeline = asking(flaky_http, quickly("ingestion"))

    @pipeline.stage
    async def notify(job: Job[str], llm: str) -> None:
        raise ValueError(f"invalid input {'z' * 3000} 123 {'z' * 20}")

    job = bench.process(pipeline, "x")
    limited, unavailable, invalid = bench.look(lambda reader: reader.attempts(job))
    assert [(each.stage, each.failure_count) for each in (limited, unavailable, invalid)] == [
        ("llm", 1),
        ("llm", 2),
        ("notify", 1),
    ]
    assert [each.error_type for each in (limited, unavailable, invalid)] == ["rate_limit", "retryable", "terminal"]
    assert [each.error_retryable for each in (limited, unavailable, invalid)] == [True, True, False]
    assert limited.retry_at >= limited.ended_at
    assert unavailable.retry_at > unavailable.ended_at
    assert invalid.retry_at is None
    assert len(invalid.message) == 1000
    assert all(each.signature and len(each.signature) <= 100 for each in (limited, unavailable, invalid))


# --- what is no failure -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("plain", [False, True])
def test_somebody_who_leaves_in_a_stage_takes_the_worker_along_and_costs_no_attempt(bench, quick, leaving, plain):
    pipeline, wrong = Pipeline("leaving", profile=quick), [True]

    def leave(job):
        if wrong.pop() if wrong else False:
            raise leaving
        return job.attempt

    if plain:

        @pipeline.stage
        def stage(job: Job[str]) -> int:
            return leave(job)
    else:

        @pipeline.stage(name="stage")
        async def stage_async(job: Job[str]) -> int:
            return leave(job)

    jobs = []

    async def main():
        jobs.append(await bench.submit(pipeline, "x"))
        await bench.work(pipeline)

    with pytest.raises(leaving):
        bench.run(main)
    view = bench.job(jobs[0])
    assert (view.status, view.counters.handler, view.counters.crash) == (JobStatus.IN_PROGRESS, 0, 0)
    bench.run(lambda: bench.work(pipeline))
    assert bench.result(jobs[0]) == 1
    assert bench.rows("attempts") == []


@pytest.mark.parametrize(
    "cancellation",
    [
        asyncio.CancelledError(),
        concurrent.futures.CancelledError(),
        BaseExceptionGroup("two", [asyncio.CancelledError(), ValueError("beside it")]),
    ],
    ids=["asyncio", "futures", "group"],
)
@pytest.mark.parametrize("plain", [False, True])
def test_a_cancellation_that_nobody_asked_for_is_no_failure_and_stops_nobody_else(bench, quick, cancellation, plain):
    pipeline, wrong = Pipeline("cancelled", profile=quick), [True]

    def cancelled(job):
        if wrong.pop() if wrong else False:
            raise cancellation
        return job.attempt

    if plain:

        @pipeline.stage
        def stage(job: Job[str]) -> int:
            return cancelled(job)
    else:

        @pipeline.stage(name="stage")
        async def stage_async(job: Job[str]) -> int:
            return cancelled(job)

    job = bench.process(pipeline, "x")
    assert bench.result(job) == 1
    assert bench.rows("attempts") == []


def test_a_plain_function_that_runs_out_of_an_iterator_fails_and_does_not_hang(bench, quick):
    pipeline = Pipeline("empty", profile=quick)

    @pipeline.stage
    def take(job: Job[list[int]]) -> int:
        return next(iter(job.payload))

    letter = bench.letter(bench.process(pipeline, []))
    assert (letter.error_class, letter.attempts) == ("BUG", 1)
    assert "next(iter(job.payload))" in letter.last_stack


def test_an_exception_that_cannot_even_be_shown_is_judged(bench, quick):
    class Unshowable(Exception):
        def __str__(self):
            raise RuntimeError("not today")

        __repr__ = __str__

    job = bench.process(raising(quick, Unshowable()), "x")
    assert bench.job(job).status is JobStatus.SUCCEEDED
    assert [row["error_class"] for row in bench.rows("attempts")] == ["UNKNOWN"]


def test_texts_that_no_database_takes_are_written_all_the_same(bench, quick):
    nasty = "NUL \x00, a lone surrogate \ud800, an escape \x1b[2J"
    letter = bench.letter(bench.process(raising(quick, TypeError(nasty)), "x"))
    assert "\x00" not in letter.message + letter.last_stack
    assert letter.message.startswith("NUL ")


def test_an_attempt_that_failed_is_told_to_the_log_in_one_line(bench, quick, flaky_http, caplog):
    flaky_http.next(503, 400)
    with caplog.at_level("INFO", logger="reprieve.worker"):
        bench.process(asking(flaky_http, quick), "x")
    said = [record.getMessage() for record in caplog.records if record.name == "reprieve.worker"]
    told = [text for text in said if " job 1: " in text]
    assert [text.split(":")[1].split(",")[0].strip() for text in told] == ["UPSTREAM_UNAVAILABLE", "REQUEST_REJECTED"]
    assert all(os.linesep not in text for text in told)
