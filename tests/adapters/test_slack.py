"""Slack through its own library, over real sockets: what is posted, how failures are told apart, and how a message is found."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import parse_qs, urlsplit

import pytest

import reprieve
from reprieve.core.delivery import Found, Phase
from reprieve.errors import UsageError
from reprieve.ports.sending import Message, Outgoing, Question
from reprieve.senders import Slack
from reprieve.testing import (
    Certificate,
    FlakyHTTP,
    HangUp,
    Moment,
    Reply,
    Reset,
    Stall,
    json_reply,
    nobody_accepting,
    nobody_listening,
    replies,
    trusting_context,
)

TOKEN = "0123456789abcdef0123456789abcdef01234567"
CREDENTIAL = "xo" + "xb-" + "1" * 12 + "-" + "s" * 24
SINCE = 1_700_000_000.0
BEFORE, DURING, REJECTED = Phase.BEFORE, Phase.DURING, Phase.REJECTED
POSTED = json_reply({"ok": True, "channel": "C024BE91L", "ts": "1700000001.000100"})


def outgoing(phases=None, *, recipient="slack:C024BE91L", timeout=10.0, **changes):
    message = {"subject": "cl-42", "text": "Looks fine."} | changes
    return Outgoing(
        message=Message(recipient=recipient, **message),
        token=TOKEN,
        timeout=timeout,
        prepared_at=SINCE,
        reached=(phases if phases is not None else []).append,
    )


def slack(upstream, **options):
    return Slack(CREDENTIAL, base_url=upstream.url("/api/"), **options)


def send(sender, message):
    return asyncio.run(sender.send(message))


def fail(sender, *, timeout=10.0):
    phases = []
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it is judged by the test
        send(sender, outgoing(phases, timeout=timeout))
    return caught.value, phases


@pytest.mark.spec("REV-4.1", "REV-4.2")
def test_a_message_is_posted_with_its_token_as_metadata_and_known_by_channel_and_time(flaky_http):
    flaky_http.next(POSTED)
    assert send(slack(flaky_http), outgoing()) == "C024BE91L/1700000001.000100"
    (request,) = flaky_http.requests
    assert (request.method, request.path) == ("POST", "/api/chat.postMessage")
    assert request.headers["authorization"] == f"Bearer {CREDENTIAL}"
    assert request.json() == {
        "channel": "C024BE91L",
        "text": "*cl-42*\nLooks fine.",
        "metadata": {"event_type": "reprieve_delivery", "event_payload": {"token": TOKEN}},
        "unfurl_links": False,
        "unfurl_media": False,
    }


def test_a_thread_is_answered_in(flaky_http):
    flaky_http.next(POSTED)
    send(slack(flaky_http), outgoing(recipient="slack:C024BE91L/1699999999.000200"))
    assert flaky_http.requests[0].json()["thread_ts"] == "1699999999.000200"


@pytest.mark.spec("REV-4.1")
def test_every_try_is_the_same_bytes(flaky_http):
    flaky_http.next(POSTED, POSTED)
    for _ in range(2):
        send(slack(flaky_http), outgoing())
    first, second = flaky_http.requests
    assert first.body == second.body


def test_nothing_in_a_text_calls_people_or_makes_links(flaky_http):
    flaky_http.next(POSTED)
    send(slack(flaky_http), outgoing(subject="a\n<!here>", text="<!channel> & <https://evil.example|ours>"))
    assert flaky_http.requests[0].json()["text"] == (
        "*a &lt;!here&gt;*\n&lt;!channel&gt; &amp; &lt;https://evil.example|ours&gt;"
    )


@pytest.mark.parametrize(
    ("act", "phase", "error_class", "retryable"),
    [
        (replies.slack.channel_not_found(), REJECTED, "RECIPIENT_INVALID", False),
        (replies.slack.not_ok("is_archived"), REJECTED, "RECIPIENT_INVALID", False),
        (replies.slack.invalid_auth(), REJECTED, "AUTH_DENIED", False),
        (replies.slack.not_ok("not_in_channel"), REJECTED, "PERMISSION_DENIED", False),
        (replies.slack.missing_scope(), REJECTED, "PERMISSION_DENIED", False),
        (replies.slack.message_too_long(), REJECTED, "PAYLOAD_TOO_LARGE", False),
        (replies.slack.not_ok("a_word_of_next_year"), REJECTED, "REQUEST_REJECTED", False),
        (replies.slack.ratelimited("3"), REJECTED, "RATE_LIMITED", True),
        (Reply(429, "", {"Retry-After": "3"}), REJECTED, "RATE_LIMITED", True),
        (replies.slack.not_ok("ratelimited"), REJECTED, "RATE_LIMITED", True),
        (Reply(403, "forbidden"), REJECTED, "PERMISSION_DENIED", False),
        (replies.slack.fatal_error(), DURING, "UPSTREAM_ERROR", True),
        (replies.slack.not_ok("service_unavailable"), DURING, "UPSTREAM_UNAVAILABLE", True),
        (replies.slack.internal_error(), DURING, "UPSTREAM_ERROR", True),
        (replies.slack.not_ok("channel_not_found", 503), DURING, None, None),
        (Reply(408), DURING, None, None),
        (Reply(503, "<html>", {"Content-Type": "text/html"}), DURING, "UPSTREAM_UNAVAILABLE", True),
        (Reply(200, "{cut", {"Content-Type": "application/json"}), DURING, None, None),
        (Reply(200, "fine", {"Content-Type": "text/plain"}), DURING, None, None),
        (json_reply({}), DURING, None, None),
        (Reset(at=Moment.REQUEST), DURING, "CONNECTION_RESET", True),
        (Reset(), DURING, "CONNECTION_RESET", True),
        (HangUp(), DURING, "CONNECTION_RESET", True),
        (HangUp(at=Moment.BODY, reply=POSTED), DURING, "CONNECTION_RESET", True),
    ],
)
def test_each_failure_tells_how_far_it_got(flaky_http, act, phase, error_class, retryable):
    flaky_http.always(act)
    error, phases = fail(slack(flaky_http))
    assert (phases[0], phases[-1]) == (BEFORE, phase)
    if error_class is not None:  # where it is in doubt for want of an answer, nobody judges by the class
        failure = reprieve.classify(error)
        assert (failure.error_class, failure.retryable) == (error_class, retryable)


@pytest.mark.parametrize("act", [503, Reset(), replies.slack.ratelimited("0"), HangUp()])
def test_one_send_is_one_request(flaky_http, act):
    flaky_http.always(act)
    fail(slack(flaky_http))
    assert len(flaky_http.requests) == 1


def test_how_long_to_wait_is_kept(flaky_http):
    flaky_http.next(replies.slack.ratelimited("30"))
    assert reprieve.classify(fail(slack(flaky_http))[0]).retry_after == 30.0


def test_silence_is_doubt_once_a_connection_was_there(flaky_http):
    flaky_http.next(Stall())
    error, phases = fail(slack(flaky_http), timeout=0.3)
    assert phases[-1] is DURING
    assert str(error) == "Slack did not answer within 0.3 s"


def test_what_never_connects_was_never_sent():
    with nobody_listening() as port:
        _, phases = fail(Slack(CREDENTIAL, base_url=f"http://127.0.0.1:{port}/"))
        assert phases == [BEFORE]
    with nobody_accepting() as port:
        _, phases = fail(Slack(CREDENTIAL, base_url=f"http://127.0.0.1:{port}/"), timeout=0.3)
        assert phases == [BEFORE]


def test_it_speaks_tls_and_a_certificate_that_is_not_trusted_is_before(flaky_https):
    flaky_https.next(POSTED)
    assert send(slack(flaky_https, ssl_context=trusting_context()), outgoing()) == "C024BE91L/1700000001.000100"
    with FlakyHTTP(certificate=Certificate.UNKNOWN_ISSUER) as stranger:
        error, phases = fail(slack(stranger, ssl_context=trusting_context()))
        assert (phases, reprieve.classify(error).error_class) == ([BEFORE], "TLS_INVALID")


@pytest.mark.parametrize(
    "act", [replies.slack.invalid_auth(), 503, Reset(), Reply(200, "{cut", {"Content-Type": "application/json"})]
)
def test_an_error_and_the_log_do_not_show_the_token(flaky_http, caplog, act):
    flaky_http.next(act)
    sender = slack(flaky_http)
    with caplog.at_level(logging.DEBUG):
        error, _ = fail(sender)
    assert CREDENTIAL not in f"{error!s}{error!r}{sender!r}{caplog.text}"
    assert sender.secrets == (CREDENTIAL,)


@pytest.mark.parametrize(
    ("recipient", "normal"),
    [
        ("slack:C024BE91L", "slack:C024BE91L"),
        ("Slack:C024BE91L", "slack:C024BE91L"),
        ("slack:D024BE91L", "slack:D024BE91L"),
        ("slack:G024BE91L/1699999999.000200", "slack:G024BE91L/1699999999.000200"),
    ],
)
def test_a_channel_has_one_normal_form(recipient, normal):
    assert Slack(CREDENTIAL).address(recipient) == normal


@pytest.mark.parametrize(
    "recipient",
    ["", "slack:", "slack:#general", "slack:general", "slack:c024be91l", "C024BE91L", "mailto:a@example.org", "slack:U024BE91L",
     "slack:C024BE91L/", "slack:C024BE91L/x", "slack:C024BE91L/1.2/3", "slack:C024BE91L\n", "slack:C024BE91L&text=x"],
)  # fmt: skip
def test_what_is_no_channel_is_refused(recipient):
    with pytest.raises(UsageError, match=r"a channel's id, such as slack:C024BE91L"):
        Slack(CREDENTIAL).address(recipient)


def message(ts, token=TOKEN, event_type="reprieve_delivery", **payload):
    marked = {"event_type": event_type, "event_payload": {"token": token, **payload} if token else payload}
    return {"type": "message", "ts": ts, "text": "x", "metadata": marked}


def history(*messages, cursor="", **changes):
    page = {
        "ok": True,
        "messages": list(messages),
        "has_more": bool(cursor),
        "response_metadata": {"next_cursor": cursor},
    }
    return json_reply(page | changes)


PLAIN = {"type": "message", "ts": "1700000009.000100", "text": "hello"}


def look_up(sender, *, recipient="slack:C024BE91L", timeout=10.0):
    question = Question(recipient=recipient, token=TOKEN, notification_id=None, since=SINCE, timeout=timeout)
    return asyncio.run(sender.look_up(question))


def test_its_record_says_that_it_looks_up_and_takes_no_key():
    can = Slack(CREDENTIAL).capability
    assert (can.looks_up, can.key_window, can.retention) == (True, None, 90 * 86_400.0)


@pytest.mark.spec("REV-7.1")
@pytest.mark.parametrize(
    ("pages", "found", "notification_id"),
    [
        ([history(PLAIN, message("1700000002.000100"))], Found.FOUND, "C024BE91L/1700000002.000100"),
        ([history(PLAIN, cursor="next"), history(message("1700000002.000100"))], Found.FOUND, "C024BE91L/1700000002.000100"),
        ([history()], Found.ABSENT, None),
        ([history(PLAIN, message("1700000002.000100", "another"))], Found.ABSENT, None),
        ([history(message("1700000002.000100", event_type="somebody_elses"))], Found.ABSENT, None),
        ([history(message("1700000005.000100"), message("1700000002.000100"))], Found.DUPLICATE, "C024BE91L/1700000002.000100"),
        ([history(message("1700000005.000100"), cursor="next"), history(message("1700000002.000100"))], Found.DUPLICATE,
         "C024BE91L/1700000002.000100"),
        ([history(message("1700000002.000100", token=None))], Found.UNKNOWN, None),
        ([history(PLAIN, has_more=True)], Found.UNKNOWN, None),
        ([json_reply({"ok": True, "messages": []})], Found.UNKNOWN, None),
        ([history(PLAIN, messages=None, has_more=False)], Found.ABSENT, None),
    ],
)  # fmt: skip
def test_a_message_is_found_by_its_token_and_absent_only_if_all_was_read_and_nothing_hidden(
    flaky_http, pages, found, notification_id
):
    flaky_http.next(*pages)
    answer = look_up(slack(flaky_http))
    assert (answer.found, answer.notification_id) == (found, notification_id)
    if found in {Found.FOUND, Found.DUPLICATE}:
        assert answer.sent_at == 1700000002.0001
    assert "C024BE91L" in answer.evidence
    assert flaky_http.pending == ()


def test_a_channel_is_read_since_before_the_first_send_with_its_metadata(flaky_http):
    flaky_http.next(history(PLAIN, cursor="the next page="), history())
    look_up(slack(flaky_http))
    first, second = (parse_qs(urlsplit(each.target).query) for each in flaky_http.requests)
    assert flaky_http.requests[0].path == "/api/conversations.history"
    assert first["channel"] == ["C024BE91L"]
    assert first["include_all_metadata"] == ["1"]
    assert float(first["oldest"][0]) == SINCE - 3600
    assert "cursor" not in first
    assert second == first | {"cursor": ["the next page="]}


def test_a_thread_is_read_where_it_was_answered_in(flaky_http):
    flaky_http.next(history(message("1700000002.000100")))
    answer = look_up(slack(flaky_http), recipient="slack:C024BE91L/1699999999.000200")
    assert answer.found is Found.FOUND
    (request,) = flaky_http.requests
    assert request.path == "/api/conversations.replies"
    assert parse_qs(urlsplit(request.target).query)["ts"] == ["1699999999.000200"]


def test_a_channel_that_never_ends_is_given_up_and_unknown(flaky_http):
    flaky_http.always(history(PLAIN, cursor="more"))
    answer = look_up(slack(flaky_http))
    assert (answer.found, len(flaky_http.requests)) == (Found.UNKNOWN, 15)


@pytest.mark.parametrize(
    "act", [replies.slack.channel_not_found(), replies.slack.ratelimited(), 503, Reset(), Stall(), Reply(200, "{cut")]
)
def test_a_look_up_that_fails_raises_which_counts_as_unknown(flaky_http, act):
    flaky_http.always(act)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - what it is, is judged below
        look_up(slack(flaky_http), timeout=0.3)
    assert CREDENTIAL not in str(caught.value)
    assert reprieve.classify(caught.value).error_class in {
        "RECIPIENT_INVALID",
        "RATE_LIMITED",
        "UPSTREAM_UNAVAILABLE",
        "CONNECTION_RESET",
        "NETWORK_TIMEOUT",
        "REQUEST_REJECTED",
    }


def test_a_page_that_fails_spoils_the_whole_look_up(flaky_http):
    flaky_http.next(history(PLAIN, cursor="next"), replies.slack.internal_error())
    with pytest.raises(Exception, match="status: 500"):
        look_up(slack(flaky_http))
