"""Stages that ask a model, guarded, through the providers' real clients: what becomes of their jobs, on both databases."""

from typing import Literal

import pytest
from pydantic import BaseModel

from reprieve import Job, JobStatus, Pipeline, guarded
from reprieve.models import Anthropic, OpenAI
from reprieve.testing import Reset, replies

KEY = "key-of-a-test-0007"
GOOD, MISFIT = '{"verdict": "good"}', '{"verdict": "fine"}'
ANSWER = {"openai": replies.openai.completion, "anthropic": replies.anthropic.message}


class Verdict(BaseModel):
    verdict: Literal["good", "bad"]


def asking(upstream, provider, profile):
    """A pipeline of one stage that asks the provider's model."""
    pipeline = Pipeline("analysis", profile=profile, breaker=None)

    @pipeline.stage
    async def llm(job: Job[str]) -> Verdict:
        base = upstream.url("/v1" if provider == "openai" else "/")
        model = {"openai": OpenAI, "anthropic": Anthropic}[provider]("m", base_url=base, api_key=KEY)
        try:
            return (await guarded(model, job.payload, schema=Verdict)).value
        finally:
            await model.close()

    return pipeline


def attempts(bench, job):
    return bench.look(lambda reader: reader.attempts(job))


@pytest.mark.parametrize(
    ("provider", "reply", "error_class"),
    [
        pytest.param("openai", replies.openai.invalid_request(), "REQUEST_REJECTED", marks=pytest.mark.spec("LLM-1.1")),
        pytest.param(
            "anthropic",
            replies.anthropic.prompt_too_long(),
            "CONTEXT_LENGTH_EXCEEDED",
            marks=pytest.mark.spec("LLM-1.2"),
        ),
        pytest.param("openai", replies.openai.invalid_api_key(), "AUTH_DENIED", marks=pytest.mark.spec("LLM-1.3")),
        pytest.param(
            "anthropic", replies.anthropic.authentication_error(), "AUTH_DENIED", marks=pytest.mark.spec("LLM-1.4")
        ),
    ],
)
def test_what_no_retry_mends_is_skipped_and_never_sent_again(bench, quickly, flaky_http, provider, reply, error_class):
    flaky_http.always(reply)
    view = bench.job(bench.process(asking(flaky_http, provider, quickly("analysis")), "Which?"))
    assert (view.status, view.reason) == (JobStatus.SKIPPED, error_class)
    assert len(flaky_http.requests) == 1


@pytest.mark.parametrize(
    ("provider", "act", "error_class"),
    [
        pytest.param(
            "openai", replies.openai.rate_limit_exceeded("0.2"), "RATE_LIMITED", marks=pytest.mark.spec("LLM-2.1")
        ),
        pytest.param(
            "anthropic", replies.anthropic.overloaded_error(), "OVERLOADED", marks=pytest.mark.spec("LLM-2.2")
        ),
        pytest.param("openai", replies.openai.server_error(), "UPSTREAM_ERROR", marks=pytest.mark.spec("LLM-2.2")),
        pytest.param("anthropic", Reset(), "CONNECTION_RESET", marks=pytest.mark.spec("LLM-2.2")),
    ],
)
def test_what_passes_is_tried_again_and_the_job_succeeds(bench, quickly, flaky_http, provider, act, error_class):
    flaky_http.next(act, ANSWER[provider](GOOD))
    job = bench.process(asking(flaky_http, provider, quickly("analysis")), "Which?")
    assert bench.job(job).status is JobStatus.SUCCEEDED
    (failed,) = attempts(bench, job)
    assert failed.error_class == error_class
    assert error_class != "RATE_LIMITED" or failed.retry_at - failed.ended_at > 0.199


@pytest.mark.spec("LLM-4.2")
@pytest.mark.parametrize("provider", ANSWER)
def test_a_repair_costs_no_attempt(bench, quickly, flaky_http, provider):
    flaky_http.next(ANSWER[provider](MISFIT), ANSWER[provider](GOOD))
    job = bench.process(asking(flaky_http, provider, quickly("analysis")), "Which?")
    assert bench.job(job).status is JobStatus.SUCCEEDED
    assert attempts(bench, job) == []
    assert len(flaky_http.requests) == 2


@pytest.mark.spec("LLM-1.5", "LLM-4.3")
@pytest.mark.parametrize("profile", ["analysis", "criticizer"])
@pytest.mark.parametrize("provider", ANSWER)
def test_an_answer_that_does_not_fit_after_the_repair_makes_the_job_wait_for_a_person(
    bench, quickly, flaky_http, provider, profile
):
    flaky_http.always(ANSWER[provider](MISFIT))
    job = bench.process(asking(flaky_http, provider, quickly(profile)), "Which?")
    view = bench.job(job)
    assert (view.status, view.waits_on) == (JobStatus.NEEDS_REVIEW, "review")
    assert len(flaky_http.requests) == 2
    (failed,) = attempts(bench, job)
    assert failed.error_class == "OUTPUT_INVALID"
    assert "fine" not in failed.message
