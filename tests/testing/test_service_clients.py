"""The libraries of Slack, Stripe and WebSockets, and GitHub over plain HTTP, against services that fail."""

from __future__ import annotations

import pytest

from reprieve.testing import replies
from reprieve.testing.provoke import catalogue

# fmt: off
EXPECTED = {
    "github": {
        "rate limit": "httpx.HTTPStatusError",
        "secondary rate limit": "httpx.HTTPStatusError",
        "forbidden": "httpx.HTTPStatusError",
        "bad credentials": "httpx.HTTPStatusError",
        "validation failed": "httpx.HTTPStatusError",
    },
    "slack": {
        "channel_not_found": "slack_sdk.SlackApiError",
        "invalid_auth": "slack_sdk.SlackApiError",
        "missing_scope": "slack_sdk.SlackApiError",
        "msg_too_long": "slack_sdk.SlackApiError",
        "ratelimited": "slack_sdk.SlackApiError",
        "fatal_error": "slack_sdk.SlackApiError",
        "internal_error": "slack_sdk.SlackApiError",
        "reset": "ConnectionResetError",
    },
    "stripe": {
        "card_declined": "stripe.CardError",
        "rate limited": "stripe.RateLimitError",
        "invalid key": "stripe.AuthenticationError",
        "missing resource": "stripe.InvalidRequestError",
        "idempotency mismatch": "stripe.IdempotencyError",
        "conflict": "stripe.APIError",
        "api_error": "stripe.APIError",
        "timeout": "stripe.APIConnectionError",
    },
    "websockets": {
        "403": "websockets.InvalidStatus",
        "503": "websockets.InvalidStatus",
        "reset": "websockets.InvalidMessage",
        "not HTTP": "websockets.InvalidMessage",
        "closed with 1008": "websockets.ConnectionClosedError",
        "closed with 1011": "websockets.ConnectionClosedError",
        "closed with 1013": "websockets.ConnectionClosedError",
        "dropped": "websockets.ConnectionClosedError",
        "timeout": "TimeoutError",
    },
}
# fmt: on

SERVICES = [(item.library, item.situation) for item in catalogue(list(EXPECTED))]


@pytest.mark.parametrize(("library", "situation"), SERVICES)
def test_each_library_raises_its_own_error_for_each_reply(fail, kind_of, library, situation):
    assert kind_of(fail(f"{library}: {situation}")) == EXPECTED[library][situation]


def test_no_situation_is_left_out_of_the_table():
    assert {(library, situation) for library, rows in EXPECTED.items() for situation in rows} == set(SERVICES)


@pytest.mark.parametrize(
    ("situation", "status", "retry_after"),
    [("channel_not_found", 200, None), ("invalid_auth", 200, None), ("ratelimited", 429, "2")],
)
def test_slack_says_what_is_wrong_whatever_the_status(fail, situation, status, retry_after):
    response = fail(f"slack: {situation}").response
    assert (response["ok"], response["error"], response.status_code) == (False, situation, status)
    assert response.headers.get("Retry-After") == retry_after


def test_the_webhook_client_of_slack_returns_what_others_raise(stage):
    webhook = pytest.importorskip("slack_sdk.webhook")
    upstream = stage.web()
    upstream.forget()
    upstream.next(replies.slack.webhook_gone(), replies.slack.webhook_invalid_payload())
    client = webhook.WebhookClient(upstream.url("/services/x"))
    answers = [client.send(text="hello") for _ in range(2)]
    assert [(answer.status_code, answer.body) for answer in answers] == [(404, "no_service"), (400, "invalid_payload")]


@pytest.mark.parametrize(
    ("situation", "status", "code"),
    [
        ("card_declined", 402, "card_declined"),
        ("rate limited", 429, "rate_limit"),
        ("invalid key", 401, None),
        ("missing resource", 404, "resource_missing"),
        ("conflict", 409, "lock_timeout"),
    ],
)
def test_stripe_shows_the_status_and_the_code(fail, situation, status, code):
    error = fail(f"stripe: {situation}")
    assert (error.http_status, error.error.code) == (status, code)


def test_stripe_says_itself_whether_to_retry(fail):
    headers = [fail(f"stripe: {situation}").headers for situation in ("conflict", "api_error")]
    assert [{name.lower(): value for name, value in each.items()}["stripe-should-retry"] for each in headers] == [
        "true",
        "false",
    ]


def test_stripe_sends_an_idempotency_key_which_the_upstream_keeps(stage, fail):
    fail("stripe: api_error")
    (request,) = stage.web().requests
    assert request.method == "POST"
    assert request.idempotency_key


def test_a_rate_limit_of_github_looks_like_a_permission_problem_but_for_its_headers(fail):
    primary, secondary, real = (fail(f"github: {name}").response for name in GITHUB_403)
    assert [response.status_code for response in (primary, secondary, real)] == [403, 403, 403]
    assert [response.headers["x-ratelimit-remaining"] for response in (primary, secondary, real)] == [
        "0",
        "4990",
        "4990",
    ]
    assert [response.headers.get("retry-after") for response in (primary, secondary, real)] == [None, "60", None]


GITHUB_403 = ("rate limit", "secondary rate limit", "forbidden")


@pytest.mark.parametrize("code", [1008, 1011, 1013])
def test_a_websocket_keeps_the_code_that_it_was_closed_with(fail, code):
    assert fail(f"websockets: closed with {code}").rcvd.code == code


def test_a_websocket_that_is_dropped_has_no_code(fail):
    assert fail("websockets: dropped").rcvd is None
