"""Models behind the providers' real clients: how an answer ended, and what is an error, each told apart from the others."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from reprieve import classify
from reprieve.errors import UsageError
from reprieve.models import Anthropic, Finish, OpenAI, Prompt, Role, Turn, Usage
from reprieve.testing import Drip, HangUp, Moment, Reply, Reset, Stall, replies
from reprieve.testing.acts import json_reply

KEY = "key-of-a-test-0001"
SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string"}},
    "required": ["verdict"],
    "additionalProperties": False,
}


def openai_at(upstream, **settings):
    return OpenAI("gpt", base_url=upstream.url("/v1"), api_key=KEY, **settings)


def anthropic_at(upstream, **settings):
    return Anthropic("claude", base_url=upstream.url("/"), api_key=KEY, **settings)


MAKERS = {"openai": openai_at, "anthropic": anthropic_at}


def ask(model, prompt=None, **settings):
    async def main():
        try:
            return await model.ask(prompt or Prompt.of("hello"), **settings)
        finally:
            await model.close()

    return asyncio.run(main())


def failure_of(model, **settings):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the question
        ask(model, **settings)
    return classify(caught.value)


ENDINGS = [
    ("openai", False, replies.openai.completion("hi"), Finish.COMPLETE, "hi"),
    ("openai", False, replies.openai.cut_off(), Finish.TRUNCATED, '{"verdict": "goo'),
    ("openai", False, replies.openai.filtered(), Finish.FILTERED, ""),
    ("openai", False, replies.openai.refused(), Finish.REFUSED, "I will not help with that."),
    ("openai", True, replies.openai.stream("h", "i"), Finish.COMPLETE, "hi"),
    ("openai", True, replies.openai.stream("h", finish="length"), Finish.TRUNCATED, "h"),
    ("openai", True, replies.openai.stream("h", finish="content_filter"), Finish.FILTERED, "h"),
    ("openai", True, replies.openai.stream(refusal="no"), Finish.REFUSED, "no"),
    ("anthropic", False, replies.anthropic.message("hi"), Finish.COMPLETE, "hi"),
    ("anthropic", False, replies.anthropic.message("h", "max_tokens"), Finish.TRUNCATED, "h"),
    ("anthropic", False, replies.anthropic.message("h", "model_context_window_exceeded"), Finish.TRUNCATED, "h"),
    ("anthropic", False, replies.anthropic.message("", "refusal"), Finish.REFUSED, ""),
    ("anthropic", True, replies.anthropic.stream("h", "i"), Finish.COMPLETE, "hi"),
    ("anthropic", True, replies.anthropic.stream("h", stop_reason="max_tokens"), Finish.TRUNCATED, "h"),
    ("anthropic", True, replies.anthropic.stream("h", stop_reason="refusal"), Finish.REFUSED, "h"),
]


@pytest.mark.parametrize(("provider", "stream", "reply", "finish", "text"), ENDINGS)
def test_an_answer_says_how_it_ended(flaky_http, provider, stream, reply, finish, text):
    flaky_http.always(reply)
    answer = ask(MAKERS[provider](flaky_http, stream=stream))
    assert (answer.finish, answer.text) == (finish, text)
    assert answer.request_id == f"req_{provider}_0001"
    assert answer.model == "m"
    assert answer.usage.input_tokens == 1
    assert answer.usage.output_tokens is not None


ERRORS = [
    ("openai", replies.openai.rate_limit_exceeded(), "RATE_LIMITED", True),
    ("openai", replies.openai.insufficient_quota(), "QUOTA_EXHAUSTED", False),
    ("openai", replies.openai.invalid_api_key(), "AUTH_DENIED", False),
    ("openai", replies.openai.context_length_exceeded(), "CONTEXT_LENGTH_EXCEEDED", False),
    ("openai", replies.openai.content_filter(), "POLICY_REJECTED", False),
    ("openai", replies.openai.invalid_request(), "REQUEST_REJECTED", False),
    ("openai", replies.openai.server_error(), "UPSTREAM_ERROR", True),
    ("openai", replies.openai.overloaded(), "UPSTREAM_UNAVAILABLE", True),
    ("openai", Reset(), "CONNECTION_RESET", True),
    ("openai", HangUp(at=Moment.BODY), "CONNECTION_RESET", True),
    ("openai", replies.openai.error_with_200(), "UPSTREAM_ERROR", True),
    ("openai", replies.openai.error_with_200("rate_limit_exceeded", "requests"), "RATE_LIMITED", True),
    ("openai", replies.web.wrong_content_type(), "UPSTREAM_ERROR", True),
    ("openai", replies.web.malformed_json(), "UPSTREAM_ERROR", True),
    ("openai", json_reply({"choices": []}), "UPSTREAM_ERROR", True),
    ("anthropic", replies.anthropic.rate_limit_error(), "RATE_LIMITED", True),
    ("anthropic", replies.anthropic.overloaded_error(), "OVERLOADED", True),
    ("anthropic", replies.anthropic.authentication_error(), "AUTH_DENIED", False),
    ("anthropic", replies.anthropic.prompt_too_long(), "CONTEXT_LENGTH_EXCEEDED", False),
    ("anthropic", replies.anthropic.credit_balance_too_low(), "QUOTA_EXHAUSTED", False),
    ("anthropic", replies.anthropic.invalid_request_error(), "REQUEST_REJECTED", False),
    ("anthropic", replies.anthropic.api_error(), "UPSTREAM_ERROR", True),
    ("anthropic", Reset(), "CONNECTION_RESET", True),
    ("anthropic", replies.anthropic.error_with_200(), "UPSTREAM_ERROR", True),
    ("anthropic", replies.anthropic.error_with_200("overloaded_error", "Overloaded"), "OVERLOADED", True),
    ("anthropic", replies.web.wrong_content_type(), "UPSTREAM_ERROR", True),
    ("anthropic", replies.web.malformed_json(), "UPSTREAM_ERROR", True),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("provider", "act", "error_class", "retryable"), ERRORS)
def test_an_error_is_told_apart_whatever_its_status(flaky_http, provider, stream, act, error_class, retryable):
    flaky_http.always(act)
    failure = failure_of(MAKERS[provider](flaky_http, stream=stream))
    assert (failure.error_class, failure.retryable) == (error_class, retryable)
    assert len(flaky_http.requests) == 1  # one retry layer, and it is not the client's


IN_STREAMS = [
    ("openai", replies.openai.stream_error(), "UPSTREAM_ERROR"),
    ("openai", replies.openai.stream_error("requests", "rate_limit_exceeded"), "RATE_LIMITED"),
    ("openai", replies.openai.stream("the beginning", finish=None), "CONNECTION_RESET"),
    ("anthropic", replies.anthropic.stream_error(), "OVERLOADED"),
    ("anthropic", replies.anthropic.stream_error("api_error", "Internal server error"), "UPSTREAM_ERROR"),
    ("anthropic", replies.anthropic.stream("the beginning", stop_reason=None), "CONNECTION_RESET"),
]


@pytest.mark.parametrize(("provider", "reply", "error_class"), IN_STREAMS)
def test_an_error_inside_a_stream_is_one_though_its_status_is_200(flaky_http, provider, reply, error_class):
    flaky_http.always(reply)
    failure = failure_of(MAKERS[provider](flaky_http, stream=True))
    assert (failure.error_class, failure.retryable) == (error_class, True)


@pytest.mark.parametrize("provider", MAKERS)
@pytest.mark.parametrize("act", [Stall(), Drip(Reply(200, "x" * 400), every=0.1)], ids=["silent", "drips"])
def test_who_takes_too_long_is_left_also_when_it_never_falls_silent(flaky_http, provider, act):
    flaky_http.always(act)
    failure = failure_of(MAKERS[provider](flaky_http), timeout=0.5)
    assert (failure.error_class, failure.retryable) == ("NETWORK_TIMEOUT", True)


def test_openai_is_asked_with_all_that_the_prompt_says(flaky_http):
    flaky_http.always(replies.openai.completion())
    turns = (Turn(Role.USER, "one"), Turn(Role.MODEL, "two"), Turn(Role.USER, "three"))
    prompt = Prompt(turns=turns, system="Be brief.", max_tokens=7, temperature=0.0)
    ask(openai_at(flaky_http, structured=True), prompt, schema=SCHEMA)
    (request,) = flaky_http.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json() == {
        "model": "gpt",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": "three"},
        ],
        "max_tokens": 7,
        "temperature": 0.0,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
        },
    }


def test_an_endpoint_of_somebody_else_is_not_asked_for_what_it_may_not_know(flaky_http):
    flaky_http.always(replies.openai.completion())
    ask(openai_at(flaky_http), schema=SCHEMA)
    assert flaky_http.requests[0].json().keys() == {"model", "messages"}


def test_openai_itself_is_asked_to_hold_to_the_schema_and_by_its_own_word_for_the_limit(flaky_http, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr("reprieve.adapters.openai.model._OWN", flaky_http.url("/v1"))
    model = OpenAI("gpt", api_key=KEY)
    flaky_http.always(replies.openai.completion())
    ask(model, Prompt.of("hello", max_tokens=7), schema={"type": "object", "properties": {"a": {"type": "integer"}}})
    body = flaky_http.requests[0].json()
    assert body["max_completion_tokens"] == 7
    assert body["response_format"]["json_schema"]["strict"] is False  # it leaves a property out: strict mode refuses it


def test_anthropic_is_asked_with_all_that_the_prompt_says(flaky_http):
    flaky_http.always(replies.anthropic.message())
    prompt = Prompt(turns=(Turn(Role.USER, "one"),), system="Be brief.", max_tokens=7, temperature=0.5)
    ask(anthropic_at(flaky_http, structured=True), prompt, schema=SCHEMA)
    (request,) = flaky_http.requests
    assert any(KEY in value for value in request.headers.values())
    body = request.json()
    assert body["output_config"]["format"]["schema"]["properties"]["verdict"] == {"type": "string"}
    assert (body["system"], body["max_tokens"], body["temperature"]) == ("Be brief.", 7, 0.5)
    assert body["messages"] == [{"role": "user", "content": "one"}]


def test_anthropic_gets_a_limit_also_where_the_prompt_has_none(flaky_http):
    flaky_http.always(replies.anthropic.message())
    ask(anthropic_at(flaky_http, max_tokens=99))
    assert flaky_http.requests[0].json()["max_tokens"] == 99


@pytest.mark.parametrize("provider", MAKERS)
def test_prices_make_a_cost_of_the_tokens(flaky_http, provider):
    flaky_http.always({"openai": replies.openai.completion(), "anthropic": replies.anthropic.message()}[provider])
    usage = ask(MAKERS[provider](flaky_http, prices=(2.0, 10.0))).usage
    assert usage == Usage(input_tokens=1, output_tokens=1, cost=pytest.approx(12e-6))


def test_what_a_gateway_says_of_the_cost_is_believed(flaky_http):
    body = replies.openai.completion().body.replace('"total_tokens": 2', '"total_tokens": 2, "cost": 0.25')
    flaky_http.always(Reply(200, body, {"Content-Type": "application/json"}))
    assert ask(openai_at(flaky_http, prices=(2.0, 10.0))).usage.cost == 0.25


@pytest.mark.parametrize("provider", MAKERS)
def test_a_model_serves_one_loop_after_another_and_after_it_was_closed(flaky_http, provider):
    flaky_http.always(
        {"openai": replies.openai.completion("hi"), "anthropic": replies.anthropic.message("hi")}[provider]
    )
    model = MAKERS[provider](flaky_http)

    async def twice():
        texts = [(await model.ask(Prompt.of("?"))).text for _ in range(2)]
        await model.close()
        await model.close()
        return [*texts, (await model.ask(Prompt.of("?"))).text]

    with asyncio.Runner() as first, asyncio.Runner() as second:
        assert first.run(twice()) == ["hi", "hi", "hi"]
        assert second.run(twice()) == ["hi", "hi", "hi"]  # while the connections of the first are still open
        first.run(model.close())
        second.run(model.close())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("provider", MAKERS)
def test_who_is_asked_while_it_is_closed_fails_for_now(flaky_http, provider, stream):
    flaky_http.always(Stall())

    async def main():
        model = MAKERS[provider](flaky_http, stream=stream)
        waiting = asyncio.create_task(model.ask(Prompt.of("?"), timeout=2.0))
        await asyncio.to_thread(flaky_http.wait_for_requests, 1, within=60)
        await model.close()
        try:
            return await waiting
        finally:
            await model.close()

    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the question
        asyncio.run(main())
    assert classify(caught.value).retryable, caught.value


LOOPS = """
import asyncio, gc, os
from reprieve.models import {kind}, Prompt
from reprieve.testing import FlakyHTTP, replies

def open_files():
    return len(os.listdir("/proc/self/fd"))

async def last(model, before):
    await model.ask(Prompt.of("?"))
    gc.collect()
    print(open_files() - before < 10)
    await asyncio.sleep(0)
    await model.close()

with FlakyHTTP() as upstream:
    upstream.always(replies.{answer}("hi"))
    model, before = {kind}("m", base_url=upstream.url("/"), api_key="{key}"), open_files()
    for _ in range(20):
        asyncio.run(model.ask(Prompt.of("?")))
    asyncio.run(last(model, before))
"""


@pytest.mark.parametrize(("kind", "answer"), [("OpenAI", "openai.completion"), ("Anthropic", "anthropic.message")])
def test_loops_that_ended_without_a_close_leave_no_connections_and_nothing_said(kind, answer):
    program = LOOPS.format(kind=kind, answer=answer, key=KEY)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize("provider", [OpenAI, Anthropic])
def test_a_model_without_a_name_is_refused(provider):
    with pytest.raises(UsageError, match="name at the provider"):
        provider("", api_key=KEY)
