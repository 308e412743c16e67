"""Timeouts and processes: an async stage is cancelled, a plain one is killed, and what dies takes nobody along."""

import asyncio
import importlib
import secrets
import time
from pathlib import Path

import pytest

import reprieve
from reprieve import Job, JobStatus, Pipeline
from reprieve.ports.intents import Counters

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def stages(monkeypatch):
    """Functions that another process can find."""
    monkeypatch.syspath_prepend(str(PROGRAMS))
    return importlib.import_module("isolated_stages")


def isolated(function, profile, **options):
    pipeline = Pipeline("isolated", profile=profile, breaker=None)
    pipeline.stage(name="apart", isolate="process", **options)(function)
    return pipeline


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_an_async_stage_is_cancelled_at_its_timeout_and_tried_again(bench, quick):
    pipeline, told = Pipeline("slow", profile=quick), []

    @pipeline.stage(timeout=0.05)
    async def wait(job: Job[str]) -> int:
        try:
            if job.attempt < 3:
                await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append(f"attempt {job.attempt} was cancelled")
            raise
        return job.attempt

    job = bench.process(pipeline, "x")
    assert bench.result(job) == 3
    assert told == ["attempt 1 was cancelled", "attempt 2 was cancelled"]
    attempts = bench.look(lambda reader: reader.attempts(job))
    assert [(each.error_class, each.cause, each.decision) for each in attempts] == [
        ("NETWORK_TIMEOUT", "handler", "retry")
    ] * 2
    assert all(each.ended_at - each.started_at >= 0.05 for each in attempts)


def test_what_a_timeout_means_is_the_stages_own_to_say(bench, quick):
    """As spawning a worker does: a timeout is for good."""
    pipeline = Pipeline("spawn", profile=quick)

    @pipeline.stage
    async def spawn(job: Job[str]) -> None:
        try:
            async with asyncio.timeout(0.02):
                await asyncio.sleep(60)
        except TimeoutError as error:
            raise reprieve.Permanent("the worker did not come up") from error

    letter = bench.letter(bench.process(pipeline, "x"))
    assert (letter.error_class, letter.reason, letter.attempts) == ("DECLARED_PERMANENT", "non_retryable", 1)


def test_a_timeout_counts_from_when_the_stage_has_its_turn(bench, quick):
    pipeline = Pipeline("queueing", profile=quick)

    @pipeline.stage
    async def first(job: Job[int]) -> None: ...

    @pipeline.stage(timeout=0.3, concurrency=1)
    async def narrow(job: Job[int]) -> None:
        await asyncio.sleep(0.15)  # four of them take longer than the timeout of one

    async def main():
        await bench.app.submit_many(pipeline, range(4))
        await bench.work(pipeline)

    bench.run(main)
    assert len(bench.rows("outcomes", status="succeeded")) == 4
    assert bench.rows("attempts") == []


def test_an_isolated_stage_gets_the_job_and_returns_its_result_from_another_process(bench, quick, stages):
    async def main():
        doubled = isolated(stages.add, quick)
        job = await bench.submit(doubled, 41)
        await bench.work(doubled)
        return await bench.app.wait(job, timeout=20)

    assert bench.run(main) == 42


def test_an_isolated_stage_is_killed_at_its_timeout_and_tried_again(bench, quick, stages, tmp_path):
    file = tmp_path / "pids"
    # So many attempts, as on a busy machine a process may not even have come up in that time.
    patient = quick.override(max_attempts=50)
    job = bench.process(isolated(stages.hang, patient, timeout=1.0), str(file))
    assert bench.result(job) == "done"
    first, second = file.read_text().split()
    assert is_gone(first)
    assert is_gone(second)  # it went with its worker
    assert {(row["error_class"], row["cause"]) for row in bench.rows("attempts")} == {("NETWORK_TIMEOUT", "handler")}


@pytest.mark.spec("CRIT-4.2", "CRIT-4.4", "CRIT-4.5")
def test_what_an_isolated_stage_raises_is_judged_and_shown_as_if_it_had_been_here(bench, quick, stages):
    key = "sk-" + "proj-" + secrets.token_urlsafe(36)
    job = bench.process(isolated(stages.fail, quick), key)
    letter = bench.letter(job)
    assert (letter.error_class, letter.stage, letter.attempts) == ("BUG", "apart", 1)
    assert "in fail" in letter.last_stack
    assert "TypeError: cannot use" in letter.last_stack
    kept = [bench.rows(name) for name in ("dead_letters", "dead_letter_texts", "dead_letter_groups", "attempts")]
    assert all(kept)
    assert key not in str(kept)


def test_an_isolated_stage_that_kills_its_process_is_charged_for_crashes_and_not_for_failures(bench, quick, stages):
    pipeline = isolated(stages.die, quick)

    async def main():
        bad = await bench.submit(pipeline, "die")
        good = [await bench.submit(pipeline, "live") for _ in range(3)]
        await bench.work(pipeline)
        return bad, good

    bad, good = bench.run(main)
    assert [bench.job(job).status for job in good] == [JobStatus.SUCCEEDED] * 3
    letter = bench.letter(bad)
    assert (letter.error_class, letter.attempts, letter.budget, letter.pages) == ("WORKER_LOST", 3, 3, True)
    assert "SIGKILL" in letter.message
    attempts = bench.look(lambda reader: reader.attempts(bad))
    assert [(each.cause, each.number) for each in attempts] == [("crash", 1), ("crash", 2), ("crash", 3)]


def test_an_isolated_stage_is_told_that_it_cannot_remember(bench, quick, stages):
    letter = bench.letter(bench.process(isolated(stages.remember, quick), "x"))
    assert "another process" in letter.message
    assert letter.attempts == 1


def test_a_worker_that_goes_kills_what_it_isolated_and_hands_the_job_back(bench, quick, stages, tmp_path):
    file = tmp_path / "pids"
    pipeline = isolated(stages.hang, quick)

    async def main():
        job = await bench.submit(pipeline, str(file))
        await bench.work_until(pipeline, lambda: file.exists() and file.read_text())
        return job

    view = bench.job(bench.run(main))
    assert (view.status, view.counters) == (JobStatus.IN_PROGRESS, Counters(deploy=1))
    deadline = time.monotonic() + 20
    while not is_gone(file.read_text().split()[0]):
        assert time.monotonic() < deadline, "the process outlived its worker"
        time.sleep(0.01)
