"""What a stage remembers: paid for once, over attempts, workers that go, and workers that die."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import reprieve
from reprieve import Job, JobStatus, Pipeline

PROGRAMS = Path(__file__).parent / "programs"


def test_what_was_made_is_made_once_over_all_attempts_of_a_stage(bench, quick):
    pipeline, made = Pipeline("paid", profile=quick, breaker=None), []

    async def ask(part):
        await asyncio.sleep(0)
        made.append(part)
        return {"part": part, "by": len(made)}

    @pipeline.stage
    async def llm(job: Job[str]) -> list[dict[str, object]]:
        answers = [await job.remember(part, lambda part=part: ask(part)) for part in ("a", "b")]
        if job.attempt < 4:
            raise ConnectionResetError
        return [*answers, await job.remember("c", lambda: {"part": "c", "by": 0})]

    job = bench.process(pipeline, "x")
    assert bench.result(job) == [{"part": "a", "by": 1}, {"part": "b", "by": 2}, {"part": "c", "by": 0}]
    assert made == ["a", "b"]
    assert [row["key"] for row in bench.rows("memos")] == ["a", "b", "c"]


def test_plain_functions_remember_too(bench, quick):
    pipeline, made = Pipeline("plain", profile=quick, breaker=None), []

    @pipeline.stage
    def count(job: Job[str]) -> int:
        first = job.remember_blocking("first", lambda: made.append(1) or len(made), type=int)
        if job.attempt < 3:
            raise ConnectionResetError
        return first + job.attempt

    assert bench.result(bench.process(pipeline, "x")) == 4
    assert made == [1]


def test_stages_and_jobs_remember_apart(bench, quick):
    pipeline = Pipeline("apart", profile=quick)

    @pipeline.stage
    async def first(job: Job[str]) -> str:
        return await job.remember("key", lambda: f"first of {job.payload}")

    @pipeline.stage
    async def second(job: Job[str], first: str) -> list[str]:
        return [first, await job.remember("key", lambda: f"second of {job.payload}")]

    assert bench.result(bench.process(pipeline, "a")) == ["first of a", "second of a"]
    assert bench.result(bench.process(pipeline, "b")) == ["first of b", "second of b"]


def test_parts_that_are_asked_for_at_once_are_each_made_once(bench, quick):
    pipeline, made = Pipeline("together", profile=quick, breaker=None), []

    async def ask(part):
        made.append(part)
        await asyncio.sleep(0.01)
        return part

    @pipeline.stage
    async def llm(job: Job[int]) -> list[int]:
        parts = [number % 10 for number in range(30)]
        found = await asyncio.gather(*[job.remember(str(part), lambda part=part: ask(part)) for part in parts])
        if job.attempt == 1:
            raise ConnectionResetError
        return sorted(set(found))

    assert bench.result(bench.process(pipeline, 1)) == list(range(10))
    assert sorted(made) == list(range(10))


def test_what_could_not_be_made_is_not_remembered(bench, quick):
    pipeline, made = Pipeline("unlucky", profile=quick, breaker=None), []

    async def ask():
        made.append("asked")
        if len(made) < 3:
            raise ConnectionResetError
        return "answer"

    @pipeline.stage
    async def llm(job: Job[str]) -> str:
        return await job.remember("part", ask)

    assert bench.result(bench.process(pipeline, "x")) == "answer"
    assert made == ["asked"] * 3


def test_what_is_remembered_outlives_a_worker_that_is_told_to_go(bench, quick):
    pipeline, made, begun = Pipeline("deployed", profile=quick), [], []

    @pipeline.stage
    async def llm(job: Job[str]) -> str:
        answer = await job.remember("part", lambda: made.append("paid") or "answer")
        begun.append(answer)
        if len(begun) == 1:
            await asyncio.sleep(60)
        return answer

    async def main():
        job = await bench.submit(pipeline, "x")
        await bench.work_until(pipeline, lambda: begun)
        await bench.work(pipeline)
        return job

    assert bench.result(bench.run(main)) == "answer"
    assert made == ["paid"]


@pytest.mark.spec("REV-9.1")
def test_what_is_remembered_outlives_a_worker_that_is_killed(bench, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PROGRAMS))
    import remembering  # noqa: PLC0415 - found only now

    paid = tmp_path / "paid"

    async def submit():
        return await bench.submit(remembering.pipeline, str(paid))

    job = bench.run(submit)
    program = subprocess.Popen([sys.executable, str(PROGRAMS / "remembering.py"), bench.url], stderr=subprocess.PIPE)
    _, said = program.communicate(timeout=30)
    assert program.returncode == -signal.SIGKILL, said.decode()
    bench.run(lambda: bench.work_until(remembering.pipeline, lambda: bench.job(job).status.over, lease=1.0))
    assert bench.job(job).status is JobStatus.SUCCEEDED
    assert json.loads(paid.read_text().splitlines()[0])["pid"] != os.getpid()
    assert len(paid.read_text().splitlines()) == 1  # one payment, by the process that was killed
    assert [row["cause"] for row in bench.rows("attempts")] == ["crash"]


def test_a_memo_that_does_not_fit_its_type_is_refused_when_it_is_made(bench, quick):
    pipeline = Pipeline("typed", profile=quick)

    @pipeline.stage
    async def llm(job: Job[str]) -> int:
        return await job.remember("part", lambda: "no number", type=int)

    letter = bench.letter(bench.process(pipeline, "x"))
    assert letter.error_class == "SCHEMA_INVALID"
    assert "no number" not in letter.message
    assert bench.rows("memos") == []


def test_a_worker_that_lost_its_job_cannot_write_into_its_memory(bench, quick):
    pipeline, begun, go_on = Pipeline("lost", profile=quick), asyncio.Event(), asyncio.Event()

    @pipeline.stage
    async def llm(job: Job[str]) -> str:
        begun.set()
        await go_on.wait()
        return await job.remember("part", lambda: "written too late")

    async def main():
        job = await bench.submit(pipeline, "x")
        working = asyncio.create_task(bench.work(pipeline, lease=60.0))
        await begun.wait()
        journal, view = bench.app.journal, bench.job(job)
        stolen = reprieve.ports.intents.Await(
            job_id=job, fence=view.fence, waits_on="review", now=await journal.store.now()
        )
        await journal.ask(stolen)
        go_on.set()
        await working
        return job

    job = bench.run(main)
    assert bench.rows("memos") == []
    assert bench.rows("attempts") == []
    assert bench.job(job).waits_on == "review"
