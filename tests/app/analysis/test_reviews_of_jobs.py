"""A job that a person has to look at is in the queue with its material, and goes on with the person's answer."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

import reprieve
from reprieve.app.material import as_given, material_of
from reprieve.core.analysis import ReviewState
from reprieve.ports.reviews import ReviewFilter

sys.path.insert(0, str(Path(__file__).parent / "programs"))

import judged_apart


def unusable():
    return reprieve.Unusable("the answer cannot be used", material=judged_apart.MATERIAL)


def judging(*, isolated=False, last=False):
    pipeline = reprieve.Pipeline("judging")

    @pipeline.stage
    async def fetch(job: reprieve.Job[str]) -> str:
        return job.payload

    if isolated:
        pipeline.stage(isolate="process")(judged_apart.judge)
    else:

        @pipeline.stage
        async def judge(job: reprieve.Job[str], text: str) -> int:
            raise RuntimeError("wrapped") from unusable()

    if not last:

        @pipeline.stage
        async def tell(job: reprieve.Job[str], score: int) -> str:
            return f"score {score}"

    return pipeline


@pytest.fixture
def run(store_url):
    def go(task):
        async def main():
            async with reprieve.connect(store_url) as app:
                return await task(app, app.operations.reviews)

        return asyncio.run(main())

    return go


async def asked(app, pipeline, **options):
    """A job that waits for a person; the job and its review."""
    job = await app.submit(pipeline, "text", **options)
    await app.work(pipeline, until_idle=True)
    (review,) = await app.operations.reviews.list()
    return job, review


def test_a_job_goes_on_from_the_next_stage_with_what_a_person_answered(run):
    pipeline = judging()

    async def main(app, reviews):
        job, review = await asked(app, pipeline)
        assert (review.job_id, review.pipeline, review.stage) == (job.job_id, "judging", "judge")
        detail = await reviews.show(review.review_id)
        assert b"ada@example.org" in detail.samples
        assert b"not an integer" in detail.answers
        known = {"judging": pipeline}
        with pytest.raises(reprieve.UsageError, match="does not fit the result of 'judge'"):
            await reviews.verify(review.review_id, "many", actor="ada", pipelines=known)
        with pytest.raises(reprieve.UsageError, match="say where the pipeline 'judging' is"):
            await reviews.verify(review.review_id, 4, actor="ada")
        done = await reviews.verify(review.review_id, 4, actor="ada", note="counted", pipelines=known)
        assert done.review.state is ReviewState.VERIFIED
        assert await reviews.list() == []
        await app.work(pipeline, until_idle=True)
        return await job.result()

    assert run(main) == "score 4"


def test_where_a_stage_says_nothing_of_its_result_a_person_is_held_to_what_the_model_was_held_to(run):
    pipeline = reprieve.Pipeline("loose")

    @pipeline.stage
    async def judge(job):
        raise unusable()

    async def main(app, reviews):
        job, review = await asked(app, pipeline)
        with pytest.raises(reprieve.UsageError, match="does not fit the schema"):
            await reviews.verify(review.review_id, {"nonsense": 1}, actor="ada", pipelines={"loose": pipeline})
        await reviews.verify(review.review_id, 7, actor="ada", pipelines={"loose": pipeline})
        return await job.result()

    assert run(main) == 7


def test_a_persons_answer_to_the_last_stage_is_the_jobs_result(run):
    pipeline = judging(last=True)

    async def main(app, reviews):
        job, review = await asked(app, pipeline)
        await reviews.verify(review.review_id, 5, actor="ada", pipelines={"judging": pipeline})
        return await job.result()

    assert run(main) == 5


def test_a_stage_in_a_process_of_its_own_brings_its_material_too(run):
    pipeline = judging(isolated=True)

    async def main(app, reviews):
        _, review = await asked(app, pipeline)
        return await reviews.show(review.review_id)

    assert b"ada@example.org" in run(main).samples


def test_a_rejected_job_is_skipped_and_says_by_whom_and_why(run):
    pipeline = judging()

    async def main(app, reviews):
        job, review = await asked(app, pipeline)
        with pytest.raises(reprieve.UsageError, match="say why"):
            await reviews.reject(review.review_id, actor="ada", reason=" ")
        await reviews.reject(review.review_id, actor="ada", reason="nobody can tell")
        with pytest.raises(reprieve.JobFailedError):
            await job.result()
        return (await app.operations.jobs.show(job.job_id)).job

    job = run(main)
    assert (job.status, job.reason, job.ended_by) == ("skipped", "nobody can tell", "ada")


def test_a_rejection_is_taken_back_and_the_job_goes_on_with_what_is_answered_then(run):
    pipeline = judging()

    async def main(app, reviews):
        job, review = await asked(app, pipeline, subject="cl-1", version=1)
        await reviews.reject(review.review_id, actor="ada", reason="nobody can tell")
        await reviews.undo(review.review_id, actor="ben", reason="I can")
        assert (await app.operations.jobs.show(job.job_id)).job.status == "needs_review"
        assert [each.review_id for each in await reviews.list()] == [review.review_id]
        await reviews.verify(review.review_id, 3, actor="ben", pipelines={"judging": pipeline})
        await app.work(pipeline, until_idle=True)
        entries = (await reviews.show(review.review_id)).history
        return await job.result(), [(each.event, each.actor) for each in entries]

    result, entries = run(main)
    assert result == "score 3"
    assert entries == [("ask", "reprieve"), ("reject", "ada"), ("undo", "ben"), ("verify", "ben")]


def test_a_rejection_is_not_taken_back_once_a_later_version_has_come(run):
    pipeline = judging()

    async def main(app, reviews):
        _, review = await asked(app, pipeline, subject="cl-1", version=1)
        await reviews.reject(review.review_id, actor="ada", reason="nobody can tell")
        await app.submit(pipeline, "text", subject="cl-1", version=2)
        with pytest.raises(reprieve.RefusedError, match="version 2 of its subject came after"):
            await reviews.undo(review.review_id, actor="ada", reason="oops")
        return (await reviews.show(review.review_id)).review.state

    assert run(main) is ReviewState.REJECTED


def test_two_people_do_not_do_the_same_work(run):
    pipeline = judging()

    async def main(app, reviews):
        _, review = await asked(app, pipeline)
        await reviews.claim(review.review_id, actor="ada")
        with pytest.raises(reprieve.RefusedError, match="ada is at it"):
            await reviews.reject(review.review_id, actor="bob", reason="x")
        with pytest.raises(reprieve.UsageError, match="needs an actor"):
            await reviews.claim(review.review_id, actor="")
        with pytest.raises(reprieve.UnknownNameError, match="no review is named '99'"):
            await reviews.claim(99, actor="ada")
        return await reviews.list(ReviewFilter(claimed_by="ada"))

    assert len(run(main)) == 1


def test_a_cancelled_job_waits_for_nobody(run):
    pipeline = judging()

    async def main(app, reviews):
        job, _ = await asked(app, pipeline)
        await app.operations.jobs.cancel(job.job_id, actor="bob")
        return await reviews.list()

    assert run(main) == []


def test_pruning_takes_the_reviews_of_jobs_that_are_over_and_leaves_open_ones(run):
    pipeline = judging(last=True)

    async def main(app, reviews):
        job, review = await asked(app, pipeline)
        await reviews.verify(review.review_id, 5, actor="ada", pipelines={"judging": pipeline})
        _, waiting = await asked(app, pipeline)
        await app.operations.jobs.prune(0.0, actor="bob")
        with pytest.raises(reprieve.UnknownNameError):
            await app.operations.jobs.show(job.job_id)
        everything = ReviewFilter(states=frozenset(ReviewState))
        return [each.review_id for each in await reviews.list(everything)], waiting.review_id

    left, waiting = run(main)
    assert left == [waiting]


def test_erasing_a_subject_takes_what_users_gave_out_of_its_reviews_and_never_of_an_open_one(run):
    pipeline = judging(last=True)

    async def main(app, reviews):
        _, review = await asked(app, pipeline, subject="s", version=1)
        with pytest.raises(reprieve.RefusedError, match="not over yet"):
            await app.operations.jobs.erase("s", actor="bob")
        assert (await reviews.show(review.review_id)).samples is not None
        await reviews.verify(review.review_id, 5, actor="ada", pipelines={"judging": pipeline})
        await app.operations.jobs.erase("s", actor="bob")
        return await reviews.show(review.review_id)

    detail = run(main)
    assert (detail.review.reason, {entry.note for entry in detail.history}) == ("erased", {"erased"})
    assert (detail.samples, detail.answers, detail.answer, detail.schema) == (None, None, None, None)
    assert [entry.answer for entry in detail.history] == [None, None]
    assert detail.review.closed_by == "ada"


def test_erasing_a_subject_takes_what_its_failures_said_out_of_alerts(run):
    pipeline = reprieve.Pipeline("telling")

    @pipeline.stage
    async def tell(job: reprieve.Job[str]) -> str:
        raise TypeError(job.payload)

    async def main(app, _):
        await app.submit(pipeline, "Jane Q. Public of Elm Street", subject="jane", version=1)
        await app.work(pipeline, until_idle=True)
        (before,) = await app.operations.alerts.list()
        await app.operations.jobs.erase("jane", actor="bob")
        (after,) = await app.operations.alerts.list()
        return before.summary, after.summary

    before, after = run(main)
    assert "Jane" in before
    assert after == "erased"


def test_without_samples_what_was_asked_is_shown():
    kept = as_given({"question": "Which is it?", "samples": [], "answers": []})
    assert json.loads(kept.samples) == ["Which is it?"]
    assert json.loads(as_given({"question": "Which?", "samples": ["a"]}).samples) == ["a"]


def test_what_failed_in_a_group_is_shown_all_of_it():
    def unusable_of(name):
        answer = {"text": f"{name}!", "errors": ["no"]}
        return reprieve.Unusable("no", material={"schema": {"type": "string"}, "samples": [name], "answers": [answer]})

    group = ExceptionGroup("two", [unusable_of("one"), ExceptionGroup("more", [ValueError("x"), unusable_of("two")])])
    found = material_of(group)
    assert json.loads(found.samples) == ["one", "two"]
    assert [each["text"] for each in json.loads(found.answers)] == ["one!", "two!"]
    assert json.loads(found.schema) == {"type": "string"}
    alone = material_of(ExceptionGroup("one", [unusable_of("one")]))
    assert json.loads(alone.samples) == ["one"]
    assert material_of(ExceptionGroup("none", [ValueError("x")])) is None
