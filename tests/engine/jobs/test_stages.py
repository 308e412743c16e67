"""Stages, one after another: what they get, what is kept of them, and how many run at a time."""

import asyncio
import contextvars
import threading
from dataclasses import dataclass

import pytest

import reprieve
from reprieve import Job, JobStatus, Pipeline


@dataclass(frozen=True)
class Change:
    number: int


@dataclass(frozen=True)
class Diff:
    lines: list[str]


class Upstream:
    """Fails as often as it is told to, and counts."""

    def __init__(self, **failures):
        self.failures = failures
        self.calls = []

    def call(self, stage):
        self.calls.append(stage)
        if self.failures.get(stage, 0) > 0:
            self.failures[stage] -= 1
            raise ConnectionResetError("the upstream hung up")


def three_stages(upstream, profile):
    review = Pipeline("review", profile=profile, breaker=None)

    @review.stage
    async def fetch(job: Job[Change]) -> Diff:
        upstream.call("fetch")
        return Diff([f"+{job.payload.number}"])

    @review.stage
    async def llm(job: Job[Change], fetch: Diff) -> str:
        upstream.call("llm")
        return f"{fetch.lines} is fine"

    @review.stage
    async def notify(job: Job[Change], llm: str, fetch: Diff) -> list[str]:
        upstream.call("notify")
        return [llm, *fetch.lines]

    return review


def test_each_stage_gets_the_results_of_those_before_it_with_their_types(bench, quick):
    review = three_stages(Upstream(), quick)
    job = bench.process(review, Change(7))
    assert bench.result(job, review) == ["['+7'] is fine", "+7"]
    assert [run.stage for run in bench.look(lambda reader: reader.stage_runs(job))] == ["fetch", "llm", "notify"]
    assert [row["stage"] for row in bench.rows("checkpoints")] == ["fetch", "llm"]
    assert bench.rows("attempts") == []


@pytest.mark.spec("CRIT-3.1", "CRIT-3.3", "CRIT-3.5")
def test_each_stage_has_a_budget_of_its_own_and_what_is_done_is_not_done_again(bench, quick):
    upstream = Upstream(fetch=4, llm=4, notify=4)
    job = bench.process(three_stages(upstream, quick), Change(1))
    assert bench.job(job).status is JobStatus.SUCCEEDED
    assert upstream.calls == [stage for stage in ("fetch", "llm", "notify") for _ in range(5)]
    attempts = bench.look(lambda reader: reader.attempts(job))
    assert [(each.stage, each.number, each.decision) for each in attempts] == [
        (stage, number, "retry") for stage in ("fetch", "llm", "notify") for number in (1, 2, 3, 4)
    ]
    assert [run.attempt for run in bench.look(lambda reader: reader.stage_runs(job))] == [5, 5, 5]


@pytest.mark.spec("CRIT-3.1", "CRIT-3.2", "CRIT-3.4")
def test_the_fifth_failure_of_a_stage_ends_the_job_whatever_the_others_took(bench, quick):
    upstream = Upstream(fetch=4, llm=5)
    job = bench.process(three_stages(upstream, quick), Change(1))
    assert bench.job(job).status is JobStatus.DEAD_LETTER
    assert upstream.calls == ["fetch"] * 5 + ["llm"] * 5
    letter = bench.letter(job)
    assert (letter.stage, letter.attempts, letter.budget, letter.reason) == ("llm", 5, 5, "budget_spent")
    assert [row["stage"] for row in bench.rows("checkpoints", job_id=job)] == ["fetch"]


def test_a_stage_may_have_a_profile_of_its_own(bench, quick, quickly):
    pipeline = Pipeline("mixed", profile=quick, breaker=None)
    calls = []

    @pipeline.stage
    async def patient(job: Job[int]) -> int:
        calls.append("patient")
        if len(calls) < 5:
            raise ConnectionResetError
        return 1

    @pipeline.stage(profile=quickly("ingestion"))
    async def hasty(job: Job[int], patient: int) -> int:
        calls.append("hasty")
        raise ConnectionResetError

    letter = bench.letter(bench.process(pipeline, 1))
    assert calls == ["patient"] * 5 + ["hasty"] * 3
    assert (letter.stage, letter.attempts, letter.budget, letter.policy) == ("hasty", 3, 3, "ingestion")


def test_plain_functions_run_in_threads_side_by_side_and_see_the_context_of_their_worker(bench, quick):
    pipeline = Pipeline("plain", profile=quick)
    meeting = threading.Barrier(2, timeout=20)
    who = contextvars.ContextVar("who", default="nobody")

    @pipeline.stage
    def meet(job: Job[int]) -> list[str]:
        meeting.wait()  # passes only while another job is here
        return [threading.current_thread().name, who.get()]

    async def main():
        who.set("the worker")
        jobs = [await bench.submit(pipeline, number) for number in (1, 2)]
        await bench.work(pipeline)
        return [await bench.app.wait(job, timeout=20) for job in jobs]

    seen = bench.run(main)
    assert {name.startswith("reprieve-stage") for name, _ in seen} == {True}
    assert {said for _, said in seen} == {"the worker"}


class Crowd:
    """How many are inside at once, at most."""

    def __init__(self):
        self.inside = self.most = 0

    async def stay(self, seconds=0.01):
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(seconds)
        self.inside -= 1


def test_a_worker_runs_no_more_jobs_at_once_than_it_was_told(bench, quick):
    pipeline, crowd = Pipeline("crowded", profile=quick), Crowd()

    @pipeline.stage
    async def stay(job: Job[int]) -> None:
        await crowd.stay()

    async def main():
        await bench.app.submit_many(pipeline, range(20))
        await bench.work(pipeline, concurrency=4)

    bench.run(main)
    assert crowd.most == 4
    assert len(bench.rows("outcomes", status="succeeded")) == 20


def test_a_stage_runs_no_more_jobs_at_once_than_it_declares_wherever_it_stands(bench, quick):
    pipeline, first, second = Pipeline("limited", profile=quick), Crowd(), Crowd()

    @pipeline.stage(concurrency=3)
    async def narrow(job: Job[int]) -> None:
        await first.stay()

    @pipeline.stage(concurrency=2)
    async def narrower(job: Job[int]) -> None:
        await second.stay()

    async def main():
        await bench.app.submit_many(pipeline, range(20))
        await bench.work(pipeline)

    bench.run(main)
    assert (first.most, second.most) == (3, 2)
    assert len(bench.rows("outcomes", status="succeeded")) == 20


def test_jobs_that_have_left_a_narrow_stage_do_not_keep_others_out_of_it(bench, quick):
    pipeline, here, all_here = Pipeline("funnel", profile=quick), [], asyncio.Event()

    @pipeline.stage(concurrency=1)
    async def narrow(job: Job[int]) -> None:
        await asyncio.sleep(0)

    @pipeline.stage
    async def wide(job: Job[int]) -> None:
        here.append(job.id)
        if len(here) == 3:
            all_here.set()
        await all_here.wait()

    async def main():
        await bench.app.submit_many(pipeline, range(3))
        await bench.work(pipeline)

    bench.run(main)
    assert len(bench.rows("outcomes", status="succeeded")) == 3


def test_higher_priorities_go_first_and_equal_ones_in_the_order_they_came(bench, quick):
    pipeline, order = Pipeline("ordered", profile=quick), []

    @pipeline.stage
    async def note(job: Job[str]) -> None:
        order.append(job.payload)

    async def main():
        for name, priority in (("a", 0), ("b", 5), ("c", -1), ("d", 5), ("e", 0)):
            await bench.submit(pipeline, name, priority=priority)
        await bench.work(pipeline, concurrency=1)

    bench.run(main)
    assert "".join(order) == "bdaec"


def test_a_delayed_job_waits_for_its_time_and_does_not_hold_up_others(bench, quick):
    pipeline, order = Pipeline("later", profile=quick), []

    @pipeline.stage
    async def note(job: Job[str]) -> None:
        order.append(job.payload)

    async def main():
        late = await bench.submit(pipeline, "late", delay=0.3, priority=9)
        view = bench.job(late)
        assert (view.status, view.state) == (JobStatus.PENDING, reprieve.ports.intents.QueueState.SCHEDULED)
        now = await bench.submit(pipeline, "now")
        await bench.work(pipeline)
        return late, now

    late, now = bench.run(main)
    assert order == ["now", "late"]
    assert bench.rows("outcomes", job_id=late)[0]["started_at"] >= bench.job(late).created_at + 0.3
    assert bench.rows("outcomes", job_id=now)[0]["started_at"] < bench.job(late).created_at + 0.3


def test_a_moment_that_has_passed_is_now(bench, quick):
    pipeline = Pipeline("past", profile=quick)

    @pipeline.stage
    async def note(job: Job[str]) -> str:
        return job.payload

    job = bench.process(pipeline, "x", run_at=1.0)
    assert bench.job(job).status is JobStatus.SUCCEEDED


def test_a_result_that_does_not_fit_its_type_is_a_failure_that_says_where_and_not_what(bench, quick):
    pipeline = Pipeline("misfit", profile=quick)
    given = "a value that nobody should read"

    @pipeline.stage
    async def wrong(job: Job[str]) -> Diff:
        return {"lines": [1, given]}

    letter = bench.letter(bench.process(pipeline, "x"))
    assert (letter.error_class, letter.category, letter.attempts) == ("SCHEMA_INVALID", "validation", 1)
    assert "lines.0" in letter.message
    kept = [bench.rows(name) for name in ("dead_letters", "dead_letter_texts", "dead_letter_groups", "attempts")]
    assert all(kept)
    assert given not in str(kept)


def test_a_result_that_is_too_large_says_what_to_do_instead(bench, quick):
    pipeline = Pipeline("large", profile=quick, max_result=100)

    @pipeline.stage
    async def large(job: Job[str]) -> str:
        return "y" * 200

    letter = bench.letter(bench.process(pipeline, "x"))
    assert (letter.error_class, letter.attempts) == ("PAYLOAD_TOO_LARGE", 1)
    assert "more than the 100 of max_result" in letter.message


def test_an_application_that_is_left_lets_its_workers_go_first(bench, quick):
    pipeline, begun = Pipeline("left", profile=quick), asyncio.Event()

    @pipeline.stage
    async def wait(job: Job[str]) -> str:
        begun.set()
        await asyncio.sleep(0.05)
        return "done"

    async def main():
        async with reprieve.connect(bench.url) as app:
            job = (await app.submit(pipeline, "x")).job_id
            working = asyncio.create_task(app.work(pipeline))
            await begun.wait()
        await working
        return job

    job = asyncio.run(asyncio.wait_for(main(), 20))
    assert bench.job(job).status is JobStatus.SUCCEEDED
    assert bench.rows("workers") == []


def test_workers_of_one_process_share_a_queue_and_run_each_job_once(bench, quick):
    pipeline, ran = Pipeline("shared", profile=quick), []

    @pipeline.stage
    async def note(job: Job[int]) -> None:
        ran.append(job.payload)
        await asyncio.sleep(0.001)

    async def main():
        await bench.app.submit_many(pipeline, range(200))
        await asyncio.gather(*[bench.work(pipeline, concurrency=5) for _ in range(3)])

    bench.run(main)
    assert sorted(ran) == list(range(200))
    assert len(bench.rows("outcomes", status="succeeded")) == 200
    assert bench.rows("workers") == []
