"""The guard, through the providers' real clients: what fits is taken, what does not is mended once, and then a person looks."""

from __future__ import annotations

import asyncio
import json
import pickle
from typing import Literal

import pytest
from pydantic import BaseModel, TypeAdapter

import reprieve
from reprieve import Unusable, classify, guarded
from reprieve.core.lifecycle import JobStatus
from reprieve.errors import UsageError
from reprieve.models import Anthropic, OpenAI, Prompt, Role, Turn, Usage
from reprieve.testing import replies

KEY = "key-of-a-test-0002"


class Verdict(BaseModel):
    verdict: Literal["good", "bad"]
    score: int


GOOD = '{"verdict": "good", "score": 3}'
MISFIT = '{"verdict": "fine", "score": "many"}'
JSON_SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"enum": ["good", "bad"]}, "score": {"type": "integer"}},
    "required": ["verdict", "score"],
}


@pytest.fixture(params=["openai", "anthropic"])
def provider(request):
    return request.param


@pytest.fixture
def answer(provider):
    """A reply of the provider with this text."""
    return {"openai": replies.openai.completion, "anthropic": replies.anthropic.message}[provider]


@pytest.fixture
def ask(flaky_http, provider):
    """Ask the provider's model, guarded."""

    def guard(prompt="Which?", *, schema=Verdict, **settings):
        async def main():
            base = flaky_http.url("/v1" if provider == "openai" else "/")
            model = {"openai": OpenAI, "anthropic": Anthropic}[provider]("m", base_url=base, api_key=KEY)
            try:
                return await guarded(model, prompt, schema=schema, **settings)
            finally:
                await model.close()

        return asyncio.run(main())

    return guard


def said(request):
    """The messages of a request, each as (role, text), without the system's."""
    return [(each["role"], each["content"]) for each in request.json()["messages"] if each["role"] != "system"]


@pytest.mark.parametrize("schema", [Verdict, TypeAdapter(Verdict), JSON_SCHEMA], ids=["model", "adapter", "schema"])
def test_an_answer_that_fits_is_taken_at_the_first_try(flaky_http, ask, answer, schema):
    flaky_http.always(answer(GOOD))
    found = ask(schema=schema)
    value = found.value if schema is JSON_SCHEMA else found.value.model_dump()
    assert value == {"verdict": "good", "score": 3}
    assert (found.repaired, len(found.replies), len(flaky_http.requests)) == (False, 1, 1)
    assert found.usage == Usage(input_tokens=1, output_tokens=1)


@pytest.mark.spec("LLM-4.1", "LLM-4.2")
@pytest.mark.parametrize(
    ("schema", "errors"),
    [
        (
            Verdict,
            ["at verdict: Input should be 'good' or 'bad', not \"fine\"", "at score: Input should be a valid integer"],
        ),
        (
            JSON_SCHEMA,
            ["at verdict: 'fine' is not one of ['good', 'bad']", "at score: 'many' is not of type 'integer'"],
        ),
    ],
    ids=["model", "schema"],
)
def test_a_schema_failure_is_sent_back_once_with_samples_schema_and_the_specific_errors(
    flaky_http, ask, answer, schema, errors
):
    flaky_http.next(answer(MISFIT), answer(GOOD))
    found = ask("Which is it?", schema=schema, samples=["https://a.example/1", {"url": "https://a.example/2"}])
    assert found.repaired
    assert found.usage == Usage(input_tokens=2, output_tokens=2)
    first, second = flaky_http.requests
    assert said(first) == [("user", "Which is it?")]
    *before, (role, request) = said(second)
    assert before == [("user", "Which is it?"), ("assistant", MISFIT)]
    assert role == "user"
    for error in errors:
        assert error in request
    assert "https://a.example/1" in request
    assert '{"url":"https://a.example/2"}' in request
    told = json.loads(request.splitlines()[-1])
    assert told == (schema if schema is JSON_SCHEMA else Verdict.model_json_schema())


@pytest.mark.spec("LLM-4.2")
@pytest.mark.parametrize(
    "text",
    [
        '{"verdict": "good", "score":',
        "It is good.",
        "",
        '{"verdict": "good", "score": NaN}',
        "{'verdict': 1}",
        '{"verdict": "\ud800"}',
        "[" * 9999,
    ],
)
def test_broken_json_is_repaired_like_json_that_does_not_fit(flaky_http, ask, answer, text):
    flaky_http.next(answer(text), answer(GOOD))
    assert ask().value == Verdict(verdict="good", score=3)
    assert len(flaky_http.requests) == 2


@pytest.mark.spec("LLM-1.5", "LLM-4.3")
@pytest.mark.parametrize("schema", [Verdict, JSON_SCHEMA], ids=["model", "schema"])
def test_what_does_not_fit_after_the_repair_is_for_a_person_with_all_that_was_said(flaky_http, ask, answer, schema):
    flaky_http.next(answer(MISFIT), answer("Sorry, I meant bad."))
    with pytest.raises(Unusable) as caught:
        ask(Prompt.of("Which is it?", system="Be fair."), schema=schema, samples=["https://a.example/1"])
    assert len(flaky_http.requests) == 2
    material = caught.value.material
    assert material["question"] == "Which is it?"
    assert material["system"] == "Be fair."
    assert material["samples"] == ["https://a.example/1"]
    assert material["schema"] == (schema if schema is JSON_SCHEMA else Verdict.model_json_schema())
    first, second = material["answers"]
    assert (first["text"], first["finish"], len(first["errors"])) == (MISFIT, "complete", 2)
    assert (second["text"], second["errors"]) == ("Sorry, I meant bad.", ["there is no JSON in it"])
    assert first["usage"] == {"input_tokens": 1, "output_tokens": 1, "cost": None}
    assert json.loads(json.dumps(material)) == material
    failure = classify(caught.value)
    assert (failure.error_class, failure.retryable) == ("OUTPUT_INVALID", False)
    assert "fine" not in str(caught.value)  # what was answered is in the material alone
    assert pickle.loads(pickle.dumps(caught.value)).material == material


@pytest.mark.spec("LLM-1.5", "LLM-4.3")
@pytest.mark.parametrize(
    ("provider", "reply", "finish"),
    [
        ("openai", replies.openai.cut_off(), "truncated"),
        ("openai", replies.openai.filtered(), "filtered"),
        ("openai", replies.openai.refused(), "refused"),
        ("anthropic", replies.anthropic.message(GOOD, "max_tokens"), "truncated"),
        ("anthropic", replies.anthropic.message(GOOD, "refusal"), "refused"),
    ],
    indirect=["provider"],
)
def test_what_was_cut_off_or_refused_is_not_repaired_though_it_may_look_whole(flaky_http, ask, reply, finish):
    flaky_http.always(reply)
    with pytest.raises(Unusable, match=finish) as caught:
        ask()
    assert len(flaky_http.requests) == 1
    (kept,) = caught.value.material["answers"]
    assert kept["finish"] == finish
    assert classify(caught.value).error_class == "OUTPUT_INVALID"


PROVIDERS_WORDS = [
    pytest.param("openai", replies.openai.invalid_request(), "REQUEST_REJECTED", marks=pytest.mark.spec("LLM-1.1")),
    pytest.param(
        "openai", replies.openai.context_length_exceeded(), "CONTEXT_LENGTH_EXCEEDED", marks=pytest.mark.spec("LLM-1.2")
    ),
    pytest.param("openai", replies.openai.invalid_api_key(), "AUTH_DENIED", marks=pytest.mark.spec("LLM-1.3")),
    pytest.param(
        "anthropic", replies.anthropic.authentication_error(), "AUTH_DENIED", marks=pytest.mark.spec("LLM-1.4")
    ),
    pytest.param(
        "anthropic", replies.anthropic.rate_limit_error("7"), "RATE_LIMITED", marks=pytest.mark.spec("LLM-2.1")
    ),
    pytest.param("openai", replies.openai.rate_limit_exceeded("7"), "RATE_LIMITED", marks=pytest.mark.spec("LLM-2.1")),
    pytest.param("openai", replies.openai.server_error(), "UPSTREAM_ERROR", marks=pytest.mark.spec("LLM-2.2")),
    pytest.param("anthropic", replies.anthropic.overloaded_error(), "OVERLOADED", marks=pytest.mark.spec("LLM-2.2")),
]


@pytest.mark.parametrize(("provider", "reply", "error_class"), PROVIDERS_WORDS, indirect=["provider"])
@pytest.mark.parametrize("while_repairing", [False, True])
def test_what_the_provider_says_passes_as_it_is(flaky_http, ask, answer, reply, error_class, while_repairing):
    if while_repairing:
        flaky_http.next(answer(MISFIT))
    flaky_http.always(reply)
    too_long = while_repairing and error_class == "CONTEXT_LENGTH_EXCEEDED"
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the question
        ask()
    failure = classify(caught.value)
    if too_long:  # the question was not too long: its answer did not fit, and nobody can ask to mend it
        assert isinstance(caught.value, Unusable)
        assert failure.error_class == "OUTPUT_INVALID"
        assert len(caught.value.material["answers"]) == 1
        return
    assert not isinstance(caught.value, reprieve.ReprieveError)
    assert failure.error_class == error_class
    if error_class == "RATE_LIMITED":
        assert failure.retry_after == 7.0


def test_the_form_of_the_answer_is_told_unless_the_prompt_does_that_itself(flaky_http, ask, answer, provider):
    def system(request):
        body = request.json()
        return (
            body.get("system", "")
            if provider == "anthropic"
            else "".join(each["content"] for each in body["messages"] if each["role"] == "system")
        )

    flaky_http.always(answer(GOOD))
    ask(Prompt.of("Which?", system="Be fair."))
    ask(Prompt.of("Which?", system="Be fair."), tell_schema=False)
    told, untold = (system(request) for request in flaky_http.requests)
    assert told.startswith("Be fair.\n\n")
    assert '"enum":["good","bad"]' in told
    assert untold == "Be fair."


def test_what_no_database_takes_is_not_in_the_material(flaky_http, ask, answer):
    flaky_http.always(answer("half a character \ud800 and a \x00"))
    with pytest.raises(Unusable) as caught:
        ask(samples=["\x00", {"half": "\ud800"}])
    text = json.dumps(caught.value.material, ensure_ascii=False)
    assert text.encode()
    assert "\\u0000" not in text


@pytest.mark.parametrize(
    ("model", "words"), [("local", "model_at"), (None, "a NoneType"), (OpenAI, "the class OpenAI")]
)
def test_what_is_no_model_is_refused_with_what_would_be(model, words, tmp_path):
    with pytest.raises(UsageError, match=f"a model is wanted, .*{words}"):
        asyncio.run(guarded(model, "Which?", schema=Verdict))

    async def analysis():
        async with reprieve.connect(f"sqlite:///{tmp_path}/a.db") as app:
            app.analysis(model, prompt="Which?", schema=Verdict)

    with pytest.raises(UsageError, match=f"a model is wanted, .*{words}"):
        asyncio.run(analysis())


def test_nobody_is_asked_for_nothing(flaky_http, ask):
    with pytest.raises(UsageError, match="an answer needs a form"):
        ask(schema=None)
    assert not flaky_http.requests


def test_what_was_thought_aloud_costs_no_repair_and_a_reviewer_sees_it(flaky_http, ask, answer):
    flaky_http.next(answer(f"<think>maybe {MISFIT}</think>{GOOD}"))
    assert ask().repaired is False
    thought = f"<think>is it {GOOD}?"
    flaky_http.always(answer(thought))
    with pytest.raises(Unusable) as caught:
        ask()
    assert [each["text"] for each in caught.value.material["answers"]] == [thought, thought]


def test_a_prompt_that_does_not_end_with_the_user_is_refused_before_anybody_is_asked(flaky_http, ask):
    with pytest.raises(UsageError, match="ends with what the user says"):
        ask(Prompt(turns=(Turn(Role.USER, "one"), Turn(Role.MODEL, "two"))))
    assert flaky_http.requests == ()


def test_the_key_is_taken_out_of_every_text_once_the_model_was_asked(flaky_http, ask, answer):
    flaky_http.always(answer(GOOD))
    ask()
    assert KEY not in reprieve.redact(f"it said {KEY} to everybody")


def test_a_stage_whose_model_cannot_be_used_waits_for_a_person(flaky_http, reprieve_inline):
    flaky_http.always(replies.openai.completion(MISFIT))
    pipeline = reprieve.Pipeline("analysis", profile="analysis")

    @pipeline.stage
    async def llm(job: reprieve.Job[str]) -> Verdict:
        model = OpenAI("m", base_url=flaky_http.url("/v1"), api_key=KEY)
        try:
            return (await guarded(model, job.payload, schema=Verdict)).value
        finally:
            await model.close()

    assert reprieve_inline(pipeline, "Which?").status is JobStatus.NEEDS_REVIEW
    assert len(flaky_http.requests) == 2  # the question and its repair: one attempt
