"""The inline mode: the whole engine in a test, without a worker, a poll or a sleep."""

import asyncio
import contextvars
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import reprieve
from reprieve import Backoff, Breaker, Job, JobStatus, NeedsReview, Pipeline, Policy, Retryable, UsageError
from reprieve.ports.intents import Pause
from reprieve.testing import FakeClock, Reply, inline, run_inline


@dataclass(frozen=True)
class Review:
    verdict: str


def pipeline_of(*errors, profile="criticizer", breaker=None, **stage):
    """Two stages; the second one raises these, one a call, and is well after that."""
    pipeline, left = Pipeline("review", profile=profile, breaker=breaker), list(errors)

    @pipeline.stage
    async def fetch(job: Job[str]) -> str:
        return job.payload.upper()

    @pipeline.stage(name="llm", **stage)
    async def llm(job: Job[str], fetch: str) -> Review:
        if left:
            raise left.pop(0)
        return Review(f"{fetch} is fine")

    return pipeline


def test_a_job_runs_to_its_end_and_its_result_has_its_type():
    outcome = run_inline(pipeline_of(), "a diff")
    assert outcome.status is JobStatus.SUCCEEDED
    assert outcome.result == Review("A DIFF is fine")
    assert (outcome.failure, outcome.attempts, outcome.dead_letter) == (None, (), None)
    assert [run.stage for run in outcome.stages] == ["fetch", "llm"]
    assert outcome.raise_for_status() is outcome


def test_backoff_passes_without_being_waited_for_and_can_be_looked_at():
    errors = [ConnectionResetError(f"failure {number}") for number in (1, 2, 3, 4)]

    async def main():
        async with inline() as app:
            return app, await app.run(pipeline_of(*errors), "x")

    app, outcome = asyncio.run(main())
    assert outcome.status is JobStatus.SUCCEEDED
    assert [each.number for each in outcome.attempts] == [1, 2, 3, 4]
    assert app.clock.slept == pytest.approx([0.5, 1.0, 2.0, 4.0], abs=1e-4)  # half of what full jitter allows
    assert outcome.stages[-1].attempt == 5


@pytest.mark.parametrize(("draw", "waited"), [(0.0, 0.0), (0.25, 0.25), (0.999, 0.999)])
def test_chance_is_what_the_test_says_it_is(draw, waited):
    async def main():
        async with inline(draw=draw) as app:
            outcome = await app.run(pipeline_of(ConnectionResetError()), "x")
            return outcome.attempts[0]

    attempt = asyncio.run(main())
    assert attempt.retry_at - attempt.ended_at == pytest.approx(waited, abs=1e-5)


@pytest.mark.spec("CRIT-2.2")
@pytest.mark.parametrize(("asked", "waited"), [("7", 7.0), ("3600", 300.0)])
def test_retry_after_passes_up_to_its_ceiling(flaky_http, asked, waited):
    import httpx  # noqa: PLC0415 - only here

    pipeline = Pipeline("asking")
    flaky_http.next(Reply(429, headers={"Retry-After": asked}))

    @pipeline.stage
    async def ask(job: Job[str]) -> int:
        async with httpx.AsyncClient() as client:
            return (await client.get(flaky_http.url())).raise_for_status().status_code

    async def main():
        async with inline() as app:
            return await app.run(pipeline, "x"), app.clock

    outcome, clock = asyncio.run(main())
    assert outcome.result == 200
    assert sum(clock.slept) == pytest.approx(waited, abs=1e-4)


def test_a_delayed_start_passes_too():
    async def main():
        async with inline() as app:
            outcome = await app.run(pipeline_of(), "x", delay=86_400.0)
            return outcome, app.clock.monotonic()

    outcome, passed = asyncio.run(main())
    assert outcome.status is JobStatus.SUCCEEDED
    assert passed >= 86_400.0


@pytest.mark.spec("CRIT-3.2")
def test_a_job_that_is_given_up_has_its_dead_letter_and_raises_what_its_stage_raised():
    errors = [ConnectionResetError(f"failure {number}") for number in range(1, 7)]
    outcome = run_inline(pipeline_of(*errors), "x")
    assert outcome.status is JobStatus.DEAD_LETTER
    assert outcome.result is None
    assert (outcome.failure.error_class, outcome.failure.message) == ("CONNECTION_RESET", "failure 5")
    assert (outcome.dead_letter.stage, outcome.dead_letter.attempts) == ("llm", 5)
    with pytest.raises(ConnectionResetError, match="failure 5") as caught:
        outcome.raise_for_status()
    assert caught.value is errors[4]
    assert any(frame.name == "llm" for frame in caught.traceback)


@pytest.mark.parametrize(
    ("error", "profile", "status"),
    [
        (NeedsReview("look at this"), "criticizer", JobStatus.NEEDS_REVIEW),
        (reprieve.Permanent("too long", error_class="CONTEXT_LENGTH_EXCEEDED"), "analysis", JobStatus.SKIPPED),
    ],
)
def test_a_job_that_is_set_aside_stands_where_it_was_set(error, profile, status):
    outcome = run_inline(pipeline_of(error, profile=profile), "x")
    assert outcome.status is status
    with pytest.raises(type(error)):
        outcome.raise_for_status()


def test_a_paused_stage_ends_the_run_and_not_the_job():
    async def main():
        async with inline() as app:
            pause = Pause(pipeline="review", stage="llm", actor="ops", reason="", now=app.clock.now())
            await app.journal.ask(pause)
            return await app.run(pipeline_of(), "x")

    outcome = asyncio.run(main())
    assert (outcome.status, outcome.job.stage) == (JobStatus.IN_PROGRESS, "llm")
    with pytest.raises(reprieve.JobTimeoutError, match="waits on somebody to resume its stage"):
        outcome.raise_for_status()


def test_a_job_that_another_version_superseded_says_so():
    pipeline = Pipeline("review", supersede=True)

    @pipeline.stage
    async def llm(job: Job[str]) -> int:
        return job.version

    async def main():
        async with inline() as app:
            old = await app.submit(pipeline, "x", subject="cl-1", version=1)
            new = await app.run(pipeline, "x", subject="cl-1", version=2)
            return app.outcome(old.job_id), new

    old, new = asyncio.run(main())
    assert new.result == 2
    assert old.status is JobStatus.CANCELLED
    with pytest.raises(reprieve.JobFailedError, match="superseded by version 2"):
        old.raise_for_status()


def test_an_outage_holds_the_stage_and_its_probes_pass_without_a_wait():
    """Three jobs fail five times in a row: the breaker opens, and a probe closes it again."""
    breaker = Breaker(after=3, jobs=3, first_hold=30.0, longest_hold=60.0)
    policy = Policy(backoff=Backoff(schedule=(1.0,)))
    pipeline = pipeline_of(*[ConnectionRefusedError("down") for _ in range(4)], profile=policy, breaker=breaker)

    async def main():
        async with inline() as app:
            first = [await app.submit(pipeline, text) for text in "ab"]
            last = await app.run(pipeline, "c")
            return [app.outcome(each.job_id, pipeline=pipeline) for each in first], last, app.clock.monotonic()

    first, last, passed = asyncio.run(main())
    assert last.result == Review("C is fine")
    assert passed >= 30.0
    assert {outcome.status for outcome in first} <= {JobStatus.SUCCEEDED, JobStatus.RETRYABLE_FAILED}


def test_jobs_that_were_submitted_before_go_first_and_duplicates_are_found():
    pipeline, order = Pipeline("ordered"), []

    @pipeline.stage
    async def note(job: Job[str]) -> str:
        order.append(job.payload)
        return job.payload

    async def main():
        async with inline() as app:
            await app.submit(pipeline, "first", idempotency_key="k")
            await app.run(pipeline, "second")
            return await app.run(pipeline, "first", idempotency_key="k")

    again = asyncio.run(main())
    assert order == ["first", "second"]
    assert again.result == "first"


def test_several_runs_at_once_take_turns():
    pipeline = pipeline_of(ConnectionResetError(), ConnectionResetError())

    async def main():
        async with inline() as app:
            return await asyncio.gather(*[app.run(pipeline, text) for text in "abc"])

    assert [outcome.result.verdict for outcome in asyncio.run(main())] == ["A is fine", "B is fine", "C is fine"]


def test_what_a_stage_remembers_is_kept_between_attempts():
    pipeline, made = Pipeline("remembering"), []

    @pipeline.stage
    async def llm(job: Job[str]) -> int:
        answer = await job.remember("part", lambda: made.append("paid") or len(made))
        if job.attempt < 3:
            raise Retryable("again")
        return answer

    assert run_inline(pipeline, "x").result == 1
    assert made == ["paid"]


def test_plain_stages_and_the_context_of_the_test_are_there():
    who = contextvars.ContextVar("who", default="nobody")
    pipeline = Pipeline("plain")

    @pipeline.stage
    def plain(job: Job[str]) -> str:
        return who.get()

    who.set("the test")
    assert run_inline(pipeline, "x").result == "the test"


def test_a_stage_in_a_process_of_its_own_runs_there(tmp_path, monkeypatch):
    (tmp_path / "stages_of_a_user.py").write_text(
        "import os\nfrom reprieve import Job\n\n\ndef who(job: Job[str]) -> int:\n    return os.getpid()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import stages_of_a_user  # noqa: PLC0415 - found only now

    pipeline = Pipeline("isolated")
    pipeline.stage(isolate="process", timeout=30.0)(stages_of_a_user.who)
    pid = run_inline(pipeline, "x").raise_for_status().result
    assert pid != os.getpid()


def test_a_stages_timeout_is_real():
    pipeline = Pipeline("slow", profile=Policy(max_attempts=1))

    @pipeline.stage(timeout=0.05)
    async def slow(job: Job[str]) -> None:
        await asyncio.sleep(60)

    outcome = run_inline(pipeline, "x")
    assert outcome.failure.error_class == "NETWORK_TIMEOUT"


def test_a_test_that_is_cancelled_ends_and_leaves_the_job_for_later():
    pipeline, hang = Pipeline("hanging"), [True]

    @pipeline.stage
    async def wait(job: Job[str]) -> int:
        if hang:
            await asyncio.sleep(60)
        return job.attempt

    async def main():
        async with inline() as app:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(app.run(pipeline, "x", idempotency_key="k"), 0.2)
            hang.clear()
            return await app.run(pipeline, "x", idempotency_key="k")

    assert asyncio.run(main()).result == 1


def test_somebody_who_leaves_in_a_stage_leaves_the_test():
    pipeline = Pipeline("leaving")

    @pipeline.stage
    async def leave(job: Job[str]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_inline(pipeline, "x")


def test_a_payload_that_does_not_fit_is_refused_as_everywhere():
    pipeline = Pipeline("typed")

    @pipeline.stage
    async def take(job: Job[int]) -> int:
        return job.payload

    with pytest.raises(reprieve.PayloadError):
        run_inline(pipeline, "no number")


def test_a_clock_can_be_brought_along():
    clock = FakeClock(now=1_000_000.0)

    async def main():
        async with inline(clock=clock) as app:
            return await app.run(pipeline_of(), "x")

    assert asyncio.run(main()).job.created_at == 1_000_000.0


def test_inside_an_event_loop_the_plain_form_says_what_to_write_instead():
    async def main():
        with pytest.raises(UsageError, match="async with inline"):
            run_inline(pipeline_of(), "x")

    asyncio.run(main())


def test_the_fixture_keeps_its_jobs_and_its_time_through_the_test(reprieve_inline):
    pipeline = pipeline_of(ConnectionResetError())
    first = reprieve_inline(pipeline, "x", idempotency_key="k")
    assert first.result == Review("X is fine")
    assert reprieve_inline.clock.slept == pytest.approx([0.5], abs=1e-4)
    again = reprieve_inline(pipeline, "other", idempotency_key="k")
    assert (again.job.job_id, again.result) == (first.job.job_id, first.result)
    reprieve_inline.clock.advance(3600.0)
    later = reprieve_inline(pipeline, "y")
    assert later.job.created_at >= first.job.created_at + 3600.0


def test_nothing_is_left_behind(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run_inline(pipeline_of(), "x")

    async def main():
        async with inline() as app:
            await app.run(pipeline_of(), "x")
            assert list(tmp_path.iterdir())

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


def test_loading_the_plugin_loads_no_database():
    code = "import sys, reprieve.testing.plugin; print(sorted({'sqlalchemy', 'psycopg'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"


def test_the_program_on_the_page_about_testing_passes_as_it_stands(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
    section = page.partition("## Pipelines, on the spot")[2].partition("\n## ")[0]
    program = section.partition("```python\n")[2].partition("```")[0]
    last = (
        "\n\ndef test_the_last_one():\n    import asyncio\n\n    assert asyncio.run(how_long_it_takes())[0] >= 60.0\n"
    )
    (tmp_path / "test_page.py").write_text(program + last, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert "3 passed" in run.stdout, run.stdout + run.stderr
