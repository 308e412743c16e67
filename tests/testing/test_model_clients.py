"""The model providers' own libraries against replies shaped as their providers shape them."""

from __future__ import annotations

import os

import pytest

from reprieve.testing import HangUp, Moment, Reset, Stall, replies
from reprieve.testing.provoke import catalogue, provoke

# fmt: off
EXPECTED = {
    "anthropic": {
        "rate_limit_error": "anthropic.RateLimitError",
        "overloaded_error": "anthropic.OverloadedError",
        "authentication_error": "anthropic.AuthenticationError",
        "billing_error": "anthropic.APIStatusError",
        "credit balance too low": "anthropic.BadRequestError",
        "prompt too long": "anthropic.BadRequestError",
        "invalid_request_error": "anthropic.BadRequestError",
        "permission_error": "anthropic.PermissionDeniedError",
        "not_found_error": "anthropic.NotFoundError",
        "request_too_large": "anthropic.ContentTooLargeError",
        "api_error": "anthropic.InternalServerError",
        "timeout_error": "anthropic.GatewayTimeoutError",
        "reset": "anthropic.APIConnectionError",
        "timeout": "anthropic.APITimeoutError",
        "body cut short": "anthropic.APIConnectionError",
        "connection refused": "anthropic.APIConnectionError",
        "overloaded in a stream": "anthropic.APIStatusError",
        "api_error in a stream": "anthropic.APIStatusError",
    },
    "google-genai": {
        "RESOURCE_EXHAUSTED": "google.ClientError",
        "API_KEY_INVALID": "google.ClientError",
        "INVALID_ARGUMENT": "google.ClientError",
        "FAILED_PRECONDITION": "google.ClientError",
        "PERMISSION_DENIED": "google.ClientError",
        "NOT_FOUND": "google.ClientError",
        "INTERNAL": "google.ServerError",
        "UNAVAILABLE": "google.ServerError",
        "DEADLINE_EXCEEDED": "google.ServerError",
        "reset": "httpx2.ReadError",
        "timeout": "httpx2.ReadTimeout",
        "body cut short": "httpx2.RemoteProtocolError",
        "connection refused": "httpx2.ConnectError",
    },
    "litellm": {
        "rate_limit_exceeded": "litellm.RateLimitError",
        "insufficient_quota": "litellm.RateLimitError",
        "invalid_api_key": "litellm.AuthenticationError",
        "model_not_found": "litellm.NotFoundError",
        "context_length_exceeded": "litellm.ContextWindowExceededError",
        "content_filter": "litellm.BadRequestError",
        "server_error": "litellm.InternalServerError",
        "overloaded": "litellm.ServiceUnavailableError",
        "reset": "litellm.InternalServerError",
        "timeout": "litellm.Timeout",
        "body cut short": "litellm.InternalServerError",
        "connection refused": "litellm.InternalServerError",
    },
    "openai": {
        "rate_limit_exceeded": "openai.RateLimitError",
        "insufficient_quota": "openai.RateLimitError",
        "billing_hard_limit_reached": "openai.BadRequestError",
        "invalid_api_key": "openai.AuthenticationError",
        "permission denied": "openai.PermissionDeniedError",
        "model_not_found": "openai.NotFoundError",
        "context_length_exceeded": "openai.BadRequestError",
        "content_filter": "openai.BadRequestError",
        "invalid request": "openai.BadRequestError",
        "server_error": "openai.InternalServerError",
        "overloaded": "openai.InternalServerError",
        "bad gateway": "openai.InternalServerError",
        "reset": "openai.APIConnectionError",
        "timeout": "openai.APITimeoutError",
        "body cut short": "openai.APIConnectionError",
        "connection refused": "openai.APIConnectionError",
        "error in a stream": "openai.APIError",
        "rate limit in a stream": "openai.APIError",
        "answer cut off": "openai.LengthFinishReasonError",
        "answer filtered": "openai.ContentFilterFinishReasonError",
    },
}
# fmt: on

MODELS = [(item.library, item.situation) for item in catalogue(list(EXPECTED))]


@pytest.mark.parametrize(("library", "situation"), MODELS)
def test_each_library_raises_its_own_error_for_each_reply(fail, kind_of, library, situation):
    assert kind_of(fail(f"{library}: {situation}")) == EXPECTED[library][situation]


def test_no_situation_is_left_out_of_the_table():
    assert {(library, situation) for library, rows in EXPECTED.items() for situation in rows} == set(MODELS)


@pytest.mark.parametrize(
    ("situation", "status", "code", "kind"),
    [
        ("rate_limit_exceeded", 429, "rate_limit_exceeded", "requests"),
        ("insufficient_quota", 429, "insufficient_quota", "insufficient_quota"),
        ("billing_hard_limit_reached", 400, "billing_hard_limit_reached", "invalid_request_error"),
        ("invalid_api_key", 401, "invalid_api_key", "invalid_request_error"),
        ("context_length_exceeded", 400, "context_length_exceeded", "invalid_request_error"),
        ("content_filter", 400, "content_filter", "invalid_request_error"),
        ("server_error", 500, None, "server_error"),
        ("overloaded", 503, None, "server_error"),
    ],
)
def test_openai_shows_the_code_and_type_of_the_body(fail, situation, status, code, kind):
    error = fail(f"openai: {situation}")
    assert (error.status_code, error.code, error.type) == (status, code, kind)
    assert error.request_id == "req_openai_0001"


def test_openai_shows_when_a_rate_limit_ends(fail):
    assert fail("openai: rate_limit_exceeded").response.headers["retry-after"] == "2"


def test_an_error_within_a_stream_of_openai_has_no_status_but_its_code(fail):
    error = fail("openai: rate limit in a stream")
    assert not hasattr(error, "status_code")
    assert error.code == "rate_limit_exceeded"


def test_the_html_of_a_gateway_is_the_body_of_an_openai_error(fail):
    error = fail("openai: bad gateway")
    assert (error.status_code, error.code, error.type) == (502, None, None)


@pytest.mark.parametrize(
    ("situation", "status", "kind"),
    [
        ("rate_limit_error", 429, "rate_limit_error"),
        ("overloaded_error", 529, "overloaded_error"),
        ("authentication_error", 401, "authentication_error"),
        ("billing_error", 402, "billing_error"),
        ("credit balance too low", 400, "invalid_request_error"),
        ("prompt too long", 400, "invalid_request_error"),
        ("permission_error", 403, "permission_error"),
        ("not_found_error", 404, "not_found_error"),
        ("request_too_large", 413, "request_too_large"),
        ("api_error", 500, "api_error"),
        ("timeout_error", 504, "timeout_error"),
        ("overloaded in a stream", 200, "overloaded_error"),
        ("api_error in a stream", 200, "api_error"),
    ],
)
def test_anthropic_shows_the_status_and_the_type_of_the_body(fail, situation, status, kind):
    error = fail(f"anthropic: {situation}")
    assert (error.status_code, error.type) == (status, kind)
    assert error.body["error"]["type"] == kind
    assert error.request_id == "req_anthropic_0001"


@pytest.mark.parametrize(
    ("situation", "status", "name"),
    [
        ("RESOURCE_EXHAUSTED", 429, "RESOURCE_EXHAUSTED"),
        ("API_KEY_INVALID", 400, "INVALID_ARGUMENT"),
        ("PERMISSION_DENIED", 403, "PERMISSION_DENIED"),
        ("UNAVAILABLE", 503, "UNAVAILABLE"),
    ],
)
def test_google_shows_the_rpc_status(fail, situation, status, name):
    error = fail(f"google-genai: {situation}")
    assert (error.code, error.status) == (status, name)


def test_google_says_when_to_retry_and_why_a_key_is_refused_in_the_details(fail):
    details = [
        detail
        for situation in ("RESOURCE_EXHAUSTED", "API_KEY_INVALID")
        for detail in fail(f"google-genai: {situation}").details["error"]["details"]
    ]
    assert {detail.get("retryDelay") for detail in details} >= {"53s"}
    assert {detail.get("reason") for detail in details} >= {"API_KEY_INVALID"}


def test_litellm_calls_a_refused_connection_an_error_of_the_server(fail):
    assert fail("litellm: connection refused").status_code == 500


@pytest.mark.parametrize("library", ["openai", "anthropic", "google-genai", "litellm"])
def test_no_library_retries_behind_our_back(stage, fail, library):
    situation = {"google-genai": "UNAVAILABLE", "anthropic": "overloaded_error"}.get(library, "overloaded")
    fail(f"{library}: {situation}")
    assert len(stage.web().requests) == 1


@pytest.mark.parametrize("library", ["openai", "anthropic", "google-genai"])
def test_a_proxy_in_the_environment_is_not_asked_for_the_upstream(monkeypatch, refusing_port, kind_of, library):
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{refusing_port}")
    situation = {"openai": "overloaded", "anthropic": "overloaded_error", "google-genai": "UNAVAILABLE"}[library]
    assert kind_of(provoke(f"{library}: {situation}")) == EXPECTED[library][situation]
    assert "NO_PROXY" not in os.environ


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (replies.openai.stream_error(), "openai.APIError"),
        (Reset(at=Moment.BODY, reply=replies.openai.stream_error()), "httpx2.ReadError|openai.APIConnectionError"),
        (HangUp(at=Moment.BODY, reply=replies.openai.stream_error()), "httpx2.RemoteProtocolError"),
        (Stall(at=Moment.BODY, reply=replies.openai.stream_error()), "httpx2.ReadTimeout"),
    ],
)
def test_a_stream_of_openai_that_breaks_raises_what_lies_below_the_library(stage, kind_of, act, kind):
    openai = pytest.importorskip("openai")
    upstream = stage.web()
    upstream.forget()
    upstream.next(act)
    timeout = 0.15 if isinstance(act, Stall) else 10
    with openai.OpenAI(api_key="test-key", base_url=upstream.url("/v1"), timeout=timeout, max_retries=0) as client:
        stream = client.chat.completions.create(model="m", messages=[], stream=True)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the question
            list(stream)
    assert kind_of(caught.value) in kind.split("|")
