"""Asking a receiver's status URL: found, absent, more than once, or nothing known."""

from __future__ import annotations

import asyncio

import pytest

import reprieve
from reprieve.core.delivery import Found
from reprieve.ports.sending import Question
from reprieve.senders import Webhook
from reprieve.testing import HangUp, Reply, Reset, Stall, json_reply, nobody_listening

TOKEN = "ab" * 20


def question(timeout=10.0, token=TOKEN, notification_id=None):
    return Question(
        recipient="https://example.org/hook",
        token=token,
        notification_id=notification_id,
        since=1_700_000_000.0,
        timeout=timeout,
    )


def ask(sender, asked):
    async def run():
        try:
            return await sender.look_up(asked)
        finally:
            await sender.close()

    return asyncio.run(run())


def at(upstream, **options):
    return Webhook(allow_private=True, status_url=upstream.url("/deliveries/{token}"), **options)


@pytest.mark.spec("REV-7.1")
@pytest.mark.parametrize(
    ("act", "found", "notification_id"),
    [
        (json_reply({"state": "received", "id": "evt_1"}), Found.FOUND, "evt_1"),
        (json_reply({"status": "Delivered"}), Found.FOUND, None),
        (json_reply({"state": "processing"}), Found.FOUND, None),
        (json_reply({"state": "duplicate", "id": 3}), Found.DUPLICATE, "3"),
        (json_reply({"state": "absent"}), Found.ABSENT, None),
        (json_reply({"error": "no such key"}, 404), Found.ABSENT, None),
        (404, Found.ABSENT, None),
        (json_reply({"state": "failed"}), Found.UNKNOWN, None),
        (json_reply({"state": "who knows"}), Found.UNKNOWN, None),
        (json_reply({"state": None}), Found.UNKNOWN, None),
        (json_reply({}), Found.UNKNOWN, None),
        (json_reply([]), Found.UNKNOWN, None),
        (200, Found.UNKNOWN, None),
        (Reply(200, "<html>received</html>"), Found.UNKNOWN, None),
        (json_reply({"state": "received"}, 202), Found.UNKNOWN, None),
        (204, Found.UNKNOWN, None),
        (302, Found.UNKNOWN, None),
        (401, Found.UNKNOWN, None),
        (403, Found.UNKNOWN, None),
        (410, Found.UNKNOWN, None),
        (429, Found.UNKNOWN, None),
        (500, Found.UNKNOWN, None),
        (503, Found.UNKNOWN, None),
    ],
)
def test_only_a_state_is_found_and_only_a_404_is_absent(flaky_http, act, found, notification_id):
    flaky_http.next(act)
    answer = ask(at(flaky_http), question())
    assert (answer.found, answer.notification_id) == (found, notification_id)
    assert answer.evidence.startswith(f"http://127.0.0.1:{flaky_http.port} ")
    assert TOKEN not in answer.evidence


@pytest.mark.parametrize("act", [Reset(), HangUp(), Stall()])
def test_a_look_up_that_breaks_off_raises_which_counts_as_unknown(flaky_http, act):
    flaky_http.next(act)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - what it is, is judged below
        ask(at(flaky_http), question(timeout=0.3))
    assert reprieve.classify(caught.value).error_class in {"CONNECTION_RESET", "NETWORK_TIMEOUT"}


def test_nobody_at_the_status_url_is_not_absent():
    with nobody_listening() as port, pytest.raises(Exception, match="connection attempts failed"):
        ask(Webhook(allow_private=True, status_url=f"http://127.0.0.1:{port}/{{token}}"), question())


def test_it_asks_with_the_token_and_the_headers_and_sends_nothing(flaky_http):
    ask(at(flaky_http, headers={"Authorization": "Basic eA=="}), question(token="a/b?c"))
    (request,) = flaky_http.requests
    assert (request.method, request.target, request.body) == ("GET", "/deliveries/a%2Fb%3Fc", b"")
    assert request.headers["authorization"] == "Basic eA=="


def test_a_function_may_say_where_to_ask(flaky_http):
    asked = question(notification_id="evt_9")
    sender = Webhook(allow_private=True, status_url=lambda each: flaky_http.url(f"/events/{each.notification_id}"))
    assert sender.capability.looks_up
    ask(sender, asked)
    assert flaky_http.requests[0].target == "/events/evt_9"


def test_where_to_ask_may_not_be_private_either(flaky_http):
    sender = Webhook(status_url=lambda _: f"https://127.0.0.1:{flaky_http.port}/")
    with pytest.raises(reprieve.UsageError, match="not a public address"):
        ask(sender, question())
    assert flaky_http.connections == 0


def test_without_a_status_url_nothing_is_known():
    answer = ask(Webhook(), question())
    assert (answer.found, answer.evidence) == (Found.UNKNOWN, "this receiver has no status URL")
