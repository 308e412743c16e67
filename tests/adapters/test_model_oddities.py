"""Compatible is not equal: answers out of shape are the upstream's failure or no answer, never a bug of ours."""

from __future__ import annotations

import asyncio
import json

import pytest

from reprieve import classify, guarded
from reprieve.models import Anthropic, Finish, OpenAI, Prompt, Usage
from reprieve.testing import Reply, replies
from reprieve.testing.acts import json_reply

KEY = "key-of-a-test-0001"
SAID = {"role": "assistant", "content": "hi"}
MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip


def ask(kind, upstream, act, *, schema=None, **settings):
    upstream.always(act)

    async def main():
        model = kind("m", base_url=upstream.url("/v1"), api_key=KEY, **settings)
        try:
            return await model.ask(Prompt.of("?"), schema=schema)
        finally:
            await model.close()

    return asyncio.run(main())


def choosing(**choice):
    """An answer of OpenAI's form with such a choice."""
    return json_reply({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})


def telling(**changes):
    """An answer of Anthropic's form with such changes; None leaves a field out."""
    return json_reply({name: value for name, value in (MESSAGE | changes).items() if value is not None})


def events(*lines):
    return Reply(200, "".join(f"{line}\n\n" for line in lines), {"Content-Type": "text/event-stream"})


@pytest.mark.parametrize("reason", ["tool_calls", "function_call", "MALFORMED_FUNCTION_CALL", "other", "???"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_reason_of_openais_that_is_no_end_is_none(flaky_http, reason, stream):
    act = replies.openai.stream("hi", finish=reason) if stream else replies.openai.completion("hi", reason)
    assert ask(OpenAI, flaky_http, act, stream=stream).finish is Finish.UNFINISHED


@pytest.mark.parametrize("reason", ["tool_use", "pause_turn", "???"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_reason_of_anthropics_that_is_no_end_is_none(flaky_http, reason, stream):
    act = replies.anthropic.stream("hi", stop_reason=reason) if stream else replies.anthropic.message("hi", reason)
    assert ask(Anthropic, flaky_http, act, stream=stream).finish is Finish.UNFINISHED


@pytest.mark.parametrize(
    ("choice", "finish"),
    [
        ({"message": SAID}, Finish.COMPLETE),
        ({"message": SAID, "finish_reason": None}, Finish.COMPLETE),
        ({"message": SAID, "finish_reason": "STOP"}, Finish.COMPLETE),
        ({"message": SAID, "finish_reason": "eos_token"}, Finish.COMPLETE),
        ({"message": SAID, "finish_reason": "MAX_TOKENS"}, Finish.TRUNCATED),
        ({"message": SAID, "finish_reason": "SAFETY"}, Finish.FILTERED),
        ({"message": {"content": [{"type": "text", "text": "hi"}, {"type": "thinking"}, 7]}}, Finish.COMPLETE),
    ],
)
def test_the_words_of_others_for_the_same_are_known(flaky_http, choice, finish):
    reply = ask(OpenAI, flaky_http, choosing(**choice))
    assert (reply.text, reply.finish) == ("hi", finish)


@pytest.mark.parametrize(
    ("kind", "act"),
    [
        (OpenAI, replies.openai.completion(None)),
        (OpenAI, replies.openai.stream()),
        (Anthropic, telling(content=[])),
        (Anthropic, telling(content=["hi"])),
        (Anthropic, telling(content=[{"type": "text", "text": None}])),
        (Anthropic, telling(content=[{"type": "thinking", "thinking": "hm", "signature": "x"}])),
    ],
)
def test_an_answer_without_text_is_an_empty_one(flaky_http, kind, act):
    reply = ask(kind, flaky_http, act, stream="event" in act.headers["Content-Type"])
    assert (reply.text, reply.finish) == ("", Finish.COMPLETE)


BROKEN = [
    (OpenAI, choosing(message=SAID, finish_reason="error", error={"code": 502, "message": "down"})),
    (OpenAI, choosing(message=SAID, finish_reason="error")),
    (OpenAI, choosing(message=SAID, finish_reason="abort")),
    (OpenAI, replies.openai.stream("h", finish="insufficient_system_resource")),
    (OpenAI, json_reply({"choices": {"a": 1}})),
    (OpenAI, json_reply({"choices": None})),
    (OpenAI, json_reply([1])),
    (OpenAI, json_reply(None)),
    (OpenAI, Reply(200, "", {"Content-Type": "application/json"})),
    (OpenAI, events()),
    (OpenAI, events('data: {"x')),
    (OpenAI, events('data: {"choices": {"a": 1}}')),
    (OpenAI, events("data: null")),
    (Anthropic, telling(content="hi")),
    (Anthropic, telling(stop_reason=None)),
    (Anthropic, json_reply([1])),
    (Anthropic, json_reply(None)),
    (Anthropic, Reply(200, "", {"Content-Type": "application/json"})),
    (Anthropic, events()),
    (Anthropic, events('event: message_start\ndata: {"x')),
    (Anthropic, events('event: content_block_stop\ndata: {"type": "content_block_stop", "index": 0}')),
]


@pytest.mark.parametrize(("kind", "act"), BROKEN)
def test_what_is_out_of_shape_is_the_upstreams_failure(flaky_http, kind, act):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the question
        ask(kind, flaky_http, act, stream="event" in act.headers["Content-Type"])
    failure = classify(caught.value)
    assert failure.error_class in {"UPSTREAM_ERROR", "UPSTREAM_UNAVAILABLE", "CONNECTION_RESET"}
    assert failure.retryable


NOTHING = Usage(input_tokens=None, output_tokens=None, cost=None)


@pytest.mark.parametrize(
    ("kind", "usage"),
    [
        (OpenAI, "many"),
        (OpenAI, {"prompt_tokens": 1.5, "completion_tokens": True, "cost": float("nan")}),
        (OpenAI, {"prompt_tokens": -1, "completion_tokens": 10**400, "cost": 10**400}),
        (Anthropic, "many"),
        (Anthropic, {"input_tokens": "1", "output_tokens": "2"}),
        (Anthropic, {"input_tokens": -1, "output_tokens": 10**400}),
        (Anthropic, None),
    ],
)
def test_a_usage_that_is_none_is_not_known(flaky_http, kind, usage):
    body = MESSAGE if kind is Anthropic else {"choices": [{"message": SAID, "finish_reason": "stop"}]}
    body = {**body, "usage": usage}
    if usage is None:
        del body["usage"]
    act = Reply(200, json.dumps(body), {"Content-Type": "application/json"})
    assert ask(kind, flaky_http, act, prices=(1.0, 1.0)).usage == NOTHING


@pytest.mark.parametrize("schema", [{}, {"type": ["object", "null"]}, {"not": {"type": "null"}}])
def test_a_schema_that_anthropic_cannot_hold_to_is_left_to_us(flaky_http, schema):
    ask(Anthropic, flaky_http, telling(), structured=True, schema=schema)
    assert "output_config" not in flaky_http.requests[0].json()


@pytest.mark.parametrize(
    ("kind", "acts"),
    [
        (OpenAI, (replies.openai.completion("7", "tool_calls"), replies.openai.completion("7"))),
        (Anthropic, (replies.anthropic.message("7", "pause_turn"), replies.anthropic.message("7"))),
    ],
)
def test_what_did_not_come_to_its_end_is_not_taken_though_it_fits_but_asked_for_once_more(flaky_http, kind, acts):
    flaky_http.next(*acts)

    async def main():
        model = kind("m", base_url=flaky_http.url("/v1"), api_key=KEY)
        try:
            return await guarded(model, "?", schema=int)
        finally:
            await model.close()

    answer = asyncio.run(main())
    assert (answer.value, answer.repaired) == (7, True)
    assert "stopped before it was done" in flaky_http.requests[1].json()["messages"][-1]["content"]


@pytest.mark.parametrize("name", [123, {"a": 1}, ["x"], True, None])
def test_a_name_of_a_model_that_is_no_text_is_none(flaky_http, name):
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": name}
    act = json_reply(body | {"choices": [{"index": 0, "finish_reason": "stop", "message": SAID}]})
    assert (ask(OpenAI, flaky_http, act).text, ask(OpenAI, flaky_http, act).model) == ("hi", "")
    assert isinstance(ask(Anthropic, flaky_http, telling(model=name)).model, str)
