"""What is looked up about reviews and signatures, on both databases: as it is, not as it was last written down."""

import asyncio

import pytest

import reprieve
from reprieve.core.analysis import ReviewState
from reprieve.testing import replies

GOOD = replies.openai.completion('{"kind": "article"}')


def test_all_that_were_skipped_for_an_error_are_reset_page_by_page_each_on_record(lab, monkeypatch):
    monkeypatch.setattr("reprieve.app.operations.reviews._MOST_RESET", 2)
    names = [f"shop.example/{letter}" for letter in "abcde"]
    lab.upstream.always(replies.openai.invalid_request())
    for name in names:
        lab.analyze(name)

    async def reset(app, _):
        reviews = app.operations.reviews
        asked = {"actor": "ada", "reason": "the model was wrong"}
        assert await reviews.reset_all(error_type="invalid_api_key", **asked) == ()
        done = await reviews.reset_all(error_type="invalid_request_error", **asked)
        return done, [[entry.event for entry in (await reviews.signature(name)).history] for name in names]

    assert lab.run(reset) == (tuple(names), [["reset"]] * 5)


def test_a_signature_is_shown_with_its_answer_and_one_that_is_not_there_is_refused(lab):
    lab.upstream.always(GOOD)
    lab.analyze("shop.example/N")

    async def look(app, _):
        with pytest.raises(reprieve.UnknownNameError, match="no signature is named 'elsewhere'"):
            await app.operations.reviews.signature("elsewhere")
        return await app.operations.reviews.signature("shop.example/N")

    found = lab.run(look)
    assert (found.signature.status, found.answer, list(found.history)) == ("analyzed", b'{"kind":"article"}', [])


@pytest.fixture
def judged(store_url):
    """Runs a task with an application, a pipeline whose first stage asks a person, and a job of it; that is review 1."""
    pipeline = reprieve.Pipeline("judging")

    @pipeline.stage
    async def judge(job: reprieve.Job[str]) -> int:
        raise reprieve.NeedsReview("who knows")

    @pipeline.stage
    async def tell(job: reprieve.Job[str], score: int) -> str:
        return f"score {score}"

    def run(task):
        async def main():
            async with reprieve.connect(store_url) as app:
                job = await app.submit(pipeline, "text")
                await app.work(pipeline, until_idle=True)
                return await task(app, pipeline, job)

        return asyncio.run(main())

    return run


def test_a_review_of_a_job_that_was_cancelled_is_withdrawn_whoever_reads_it(judged):
    async def cancelled(app, _, job):
        await app.operations.jobs.cancel(job.job_id, actor="bob")
        return await app.operations.reviews.show(1)

    assert judged(cancelled).review.state is ReviewState.WITHDRAWN


def test_a_decision_on_a_job_can_be_undone_until_a_worker_has_gone_on_with_it(judged):
    async def decided(app, pipeline, _):
        reviews = app.operations.reviews
        before = (await reviews.show(1)).can_be_undone
        said = await reviews.verify(1, 5, actor="ada", pipelines={"judging": pipeline})
        await app.work(pipeline, until_idle=True)
        return before, said.can_be_undone, (await reviews.show(1)).can_be_undone

    assert judged(decided) == (False, True, False)
