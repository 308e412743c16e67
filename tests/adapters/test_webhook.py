"""Webhooks over real sockets: what is posted, how it is signed, and how far a send had got when it failed."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import hmac
import logging
from datetime import timedelta

import pytest

import reprieve
from reprieve.core.delivery import Phase
from reprieve.ports.sending import Message, Outgoing
from reprieve.senders import Webhook
from reprieve.testing import (
    UNRESOLVABLE_HOST,
    Answering,
    Certificate,
    Drip,
    FlakyHTTP,
    HangUp,
    Moment,
    Raw,
    Reply,
    Reset,
    Stall,
    json_reply,
    nobody_accepting,
    nobody_listening,
    trusting_context,
)

TOKEN = "0123456789abcdef0123456789abcdef01234567"
KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
PATIENT, IMPATIENT = 10.0, 0.3


def outgoing(recipient, phases=None, *, timeout=PATIENT, token=TOKEN, **changes):
    message = {"subject": "cl-42: für Ádá", "text": "Fine.", "html": "<p>Fine.</p>", "data": {"b": 1, "a": [None, 2.5]}}
    return Outgoing(
        message=Message(recipient=recipient, **(message | changes)),
        token=token,
        timeout=timeout,
        prepared_at=1_700_000_000.0,
        reached=(phases if phases is not None else []).append,
    )


def send(sender, *sends):
    """The ids of these sends, one after another, by one sender."""

    async def run():
        try:
            return [await sender.send(each) for each in sends]
        finally:
            await sender.close()

    return asyncio.run(run())


def fail(sender, recipient, *, timeout=PATIENT):
    """What a send raised, and the phases that it told."""
    phases = []
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it is judged by the test
        send(sender, outgoing(recipient, phases, timeout=timeout))
    return caught.value, phases


@pytest.fixture
def webhook():
    return Webhook(allow_private=True)


def verified(request, key):
    """What a receiver does by the text of Standard Webhooks, written without the sender's code."""
    head = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode()
    expected = base64.b64encode(hmac.new(key, head + request.body, hashlib.sha256).digest()).decode()
    given = [each.split(",", 1) for each in request.headers["webhook-signature"].split(" ")]
    return any(version == "v1" and hmac.compare_digest(signature, expected) for version, signature in given)


@pytest.mark.spec("REV-4.1")
def test_a_message_is_posted_as_json_under_its_token(flaky_http, webhook):
    send(webhook, outgoing(flaky_http.url("/hook?team=7")))
    (request,) = flaky_http.requests
    assert (request.method, request.target) == ("POST", "/hook?team=7")
    assert request.headers["content-type"] == "application/json"
    assert request.headers["host"] == f"127.0.0.1:{flaky_http.port}"
    assert request.headers["idempotency-key"] == TOKEN
    assert request.json() == {
        "token": TOKEN,
        "subject": "cl-42: für Ádá",
        "text": "Fine.",
        "html": "<p>Fine.</p>",
        "data": {"a": [None, 2.5], "b": 1},
    }


@pytest.mark.spec("REV-4.1", "REV-9.2")
def test_every_try_has_the_same_key_and_the_same_bytes_and_its_own_time(flaky_http, monkeypatch):
    flaky_http.next(500)
    with pytest.raises(Exception, match="answered 500"):
        send(Webhook(allow_private=True, secret=SECRET), outgoing(flaky_http.url("/hook")))
    monkeypatch.setattr("time.time", lambda: 1_900_000_000.9)
    send(Webhook(allow_private=True, secret=SECRET), outgoing(flaky_http.url("/hook")))
    first, second = flaky_http.requests
    assert first.body == second.body
    assert first.idempotency_key == second.idempotency_key == TOKEN
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == f"msg_{TOKEN}"
    assert second.headers["webhook-timestamp"] == "1900000000"
    assert first.headers["webhook-timestamp"] != second.headers["webhook-timestamp"]
    assert verified(first, KEY)
    assert verified(second, KEY)


def test_the_signature_is_that_of_the_published_example(flaky_http):
    from reprieve.adapters.webhook.signing import key_of, signed  # noqa: PLC0415 - only this test looks so far inside

    secret = "MfKQ9r8GKYqrTwjU" + "PD8ILPZIo2LaLaSw"
    headers = signed(
        [key_of(secret)], message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", at=1614265330, body=b'{"test": 2432232314}'
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_while_a_secret_is_changed_both_sign(flaky_http):
    new = bytes(range(100, 132))
    sender = Webhook(allow_private=True, secret=[SECRET, base64.b64encode(new).decode()])
    send(sender, outgoing(flaky_http.url("/hook")))
    (request,) = flaky_http.requests
    assert verified(request, KEY)
    assert verified(request, new)
    assert not verified(request, bytes(32))


def test_a_changed_body_or_time_is_not_verified(flaky_http):
    send(Webhook(allow_private=True, secret=SECRET), outgoing(flaky_http.url("/hook")))
    (request,) = flaky_http.requests
    request.headers["webhook-timestamp"] = str(int(request.headers["webhook-timestamp"]) + 1)
    assert not verified(request, KEY)


@pytest.mark.spec("REV-4.2")
@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (json_reply({"id": "evt_17"}), "evt_17"),
        (json_reply({"id": 17}, 201), "17"),
        (Reply(202, "{}", {"X-Message-Id": "m-1"}), "m-1"),
        (Reply(200, "ok", {"X-Request-Id": "r-1"}), "r-1"),
        (204, TOKEN),
        (Reply(200, "not JSON"), TOKEN),
        (json_reply({"id": "two\nlines"}), TOKEN),
        (json_reply({"id": "x" * 201}), TOKEN),
        (json_reply({"id": True}), TOKEN),
        (json_reply(["id"]), TOKEN),
        (Reply(200, "[" * 60_000), TOKEN),
    ],
)
def test_the_id_is_the_receivers_own_or_else_the_token(flaky_http, webhook, act, expected):
    flaky_http.next(act)
    assert send(webhook, outgoing(flaky_http.url("/hook"))) == [expected]


@pytest.mark.parametrize("act", [HangUp(at=Moment.BODY), Reset(at=Moment.BODY), Stall(at=Moment.BODY), Drip(every=0.2)])
def test_a_success_counts_though_its_body_never_comes(flaky_http, webhook, monkeypatch, act):
    monkeypatch.setattr("reprieve.adapters.webhook.wire._BODY_SECONDS", 0.05)
    flaky_http.next(act)
    assert send(webhook, outgoing(flaky_http.url("/hook"))) == [TOKEN]


def test_of_a_long_answer_only_the_beginning_is_read(flaky_http, webhook):
    flaky_http.next(Reply(200, b"x" * 3_000_000))

    async def run():
        reply = await webhook._wire.exchange("GET", flaky_http.url("/"), headers={}, timeout=PATIENT)
        await webhook.close()
        return reply

    assert len(asyncio.run(run()).body) == 65_536


BEFORE, DURING, REJECTED = Phase.BEFORE, Phase.DURING, Phase.REJECTED


@pytest.mark.parametrize(
    ("act", "phase", "error_class", "retryable"),
    [
        (400, REJECTED, "REQUEST_REJECTED", False),
        (401, REJECTED, "AUTH_DENIED", False),
        (404, REJECTED, "NOT_FOUND", False),
        (410, REJECTED, "NOT_FOUND", False),
        (413, REJECTED, "PAYLOAD_TOO_LARGE", False),
        (408, DURING, "NETWORK_TIMEOUT", True),
        (409, REJECTED, "WRITE_CONFLICT", True),
        (429, REJECTED, "RATE_LIMITED", True),
        (301, REJECTED, "CONFIG_INVALID", False),
        (307, REJECTED, "CONFIG_INVALID", False),
        (304, REJECTED, "CONFIG_INVALID", False),
        (500, DURING, "UPSTREAM_ERROR", True),
        (502, DURING, "UPSTREAM_UNAVAILABLE", True),
        (503, DURING, "UPSTREAM_UNAVAILABLE", True),
        (Reset(at=Moment.REQUEST), DURING, "CONNECTION_RESET", True),
        (Reset(at=Moment.REPLY), DURING, "CONNECTION_RESET", True),
        (HangUp(at=Moment.REQUEST), DURING, "CONNECTION_RESET", True),
        (HangUp(at=Moment.REPLY), DURING, "CONNECTION_RESET", True),
        (HangUp(at=Moment.HEADERS), DURING, "CONNECTION_RESET", True),
        (Raw(b"SSH-2.0-not-http\r\n"), DURING, "CONNECTION_RESET", True),
    ],
)
def test_each_failure_tells_how_far_it_got(flaky_http, webhook, act, phase, error_class, retryable):
    flaky_http.next(act)
    error, phases = fail(webhook, flaky_http.url("/hook"))
    failure = reprieve.classify(error)
    assert (phases[-1], failure.error_class, failure.retryable) == (phase, error_class, retryable)
    assert phases[0] is BEFORE


@pytest.mark.parametrize("moment", [Moment.REQUEST, Moment.REPLY, Moment.HEADERS])
def test_silence_after_the_request_began_to_leave_is_doubt(flaky_http, webhook, moment):
    flaky_http.next(Stall(at=moment))
    error, phases = fail(webhook, flaky_http.url("/hook"), timeout=IMPATIENT)
    assert (phases[-1], reprieve.classify(error).error_class) == (DURING, "NETWORK_TIMEOUT")
    assert str(error) == f"http://127.0.0.1:{flaky_http.port} did not answer within 0.3 s"


def test_what_never_connects_was_never_sent(webhook):
    with nobody_listening() as port:
        error, phases = fail(webhook, f"http://127.0.0.1:{port}/")
        assert (phases, reprieve.classify(error).error_class) == ([BEFORE], "CONNECTION_REFUSED")
    with nobody_accepting() as port:
        error, phases = fail(webhook, f"http://127.0.0.1:{port}/", timeout=IMPATIENT)
        assert (phases, reprieve.classify(error).error_class) == ([BEFORE], "NETWORK_TIMEOUT")
    error, phases = fail(webhook, f"http://{UNRESOLVABLE_HOST}/")
    assert (phases, reprieve.classify(error).error_class) == ([BEFORE], "DNS_FAILURE")


def test_a_reset_before_the_request_was_read_is_before_or_in_doubt_but_never_accepted(flaky_http, webhook):
    flaky_http.next(Reset(at=Moment.CONNECT))
    error, phases = fail(webhook, flaky_http.url("/hook"))
    assert phases[-1] in {BEFORE, DURING}
    assert reprieve.classify(error).error_class == "CONNECTION_RESET"


def secure(**options):
    return Webhook(allow_private=True, ssl_context=trusting_context(), **options)


def test_it_speaks_tls_and_sends_the_name_of_its_host(flaky_https):
    recipient = f"https://localhost:{flaky_https.port}/hook"
    send(secure(), outgoing(recipient))
    assert flaky_https.requests[0].headers["host"] == f"localhost:{flaky_https.port}"


@pytest.mark.parametrize("certificate", [each for each in Certificate if each is not Certificate.GOOD])
def test_a_certificate_that_is_not_trusted_ends_it_before_anything_was_sent(certificate):
    with FlakyHTTP(certificate=certificate) as upstream:
        error, phases = fail(secure(), upstream.url("/hook"))
        assert (phases, reprieve.classify(error).error_class) == ([BEFORE], "TLS_INVALID")
        assert upstream.requests == ()


@pytest.mark.parametrize("moment", [Moment.CONNECT, Moment.HANDSHAKE])
@pytest.mark.parametrize("act", [Reset, HangUp, Stall])
def test_a_handshake_that_fails_is_before(flaky_https, act, moment):
    flaky_https.next(act(at=moment))
    error, phases = fail(secure(), flaky_https.url("/hook"), timeout=IMPATIENT if act is Stall else PATIENT)
    assert phases == [BEFORE]
    assert reprieve.classify(error).retryable
    gc.collect()  # a connection that was left open is told now, and that fails this test


def test_plain_http_where_tls_was_meant_is_before(flaky_http):
    _, phases = fail(secure(), flaky_http.url("/hook", scheme="https"))
    assert phases == [BEFORE]


def test_a_send_that_is_cancelled_leaves_nothing_open(flaky_https):
    flaky_https.next(Stall(at=Moment.HANDSHAKE), Stall(at=Moment.REPLY))

    async def run():
        sender = secure()
        for number in (1, 2):
            phases = []
            task = asyncio.create_task(sender.send(outgoing(flaky_https.url("/hook"), phases)))
            while flaky_https.connections < number or (number == 2 and not flaky_https.requests):  # noqa: ASYNC110 - threads of an upstream
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert phases[-1] is (BEFORE if number == 1 else DURING)
        await sender.close()

    asyncio.run(run())
    gc.collect()


def test_how_long_to_wait_is_kept(flaky_http, webhook):
    flaky_http.next(Reply(429, "slow down", {"Retry-After": "7"}))
    error, _ = fail(webhook, flaky_http.url("/hook"))
    assert reprieve.classify(error).retry_after == 7.0


def test_what_a_receiver_says_of_a_refusal_is_heard(flaky_http, webhook):
    flaky_http.next(json_reply({"error": {"code": "insufficient_quota", "message": "pay first"}}, 429))
    error, _ = fail(webhook, flaky_http.url("/hook"))
    assert reprieve.classify(error).error_class == "QUOTA_EXHAUSTED"


def test_a_redirect_is_not_followed(flaky_http, webhook):
    with FlakyHTTP() as elsewhere:
        flaky_http.next(Reply(307, "", {"Location": elsewhere.url("/inside")}))
        error, _ = fail(webhook, flaky_http.url("/hook"))
        assert "redirects are not followed" in str(error)
        assert elsewhere.connections == 0
    assert len(flaky_http.requests) == 1


def test_a_conflict_is_doubt_where_keys_are_taken_for_an_earlier_try_is_being_worked_on(flaky_http):
    flaky_http.next(409)
    _, phases = fail(Webhook(allow_private=True, takes_key=timedelta(hours=24)), flaky_http.url("/hook"))
    assert phases[-1] is DURING


def test_connections_are_used_again_only_where_doubt_can_be_settled(flaky_http, webhook):
    send(webhook, *[outgoing(flaky_http.url("/hook"))] * 3)
    assert flaky_http.connections == 3
    send(Webhook(allow_private=True, takes_key=60.0), *[outgoing(flaky_http.url("/hook"))] * 3)
    assert flaky_http.connections == 4


def test_no_proxy_of_the_environment_stands_between(flaky_http, webhook, monkeypatch):
    with nobody_listening() as port:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        assert send(webhook, outgoing(flaky_http.url("/hook"))) == [TOKEN]


def test_an_error_and_the_log_show_the_host_and_none_of_the_credentials(flaky_http, caplog):
    path, value = "/services/" + "T0" + "9" * 20, "Bearer " + "s" * 24
    sender = Webhook(allow_private=True, secret=SECRET, headers={"Authorization": value})
    flaky_http.next(json_reply({"error": "busy"}, 503))
    with caplog.at_level(logging.DEBUG):
        error, _ = fail(sender, flaky_http.url(path))
    told = f"{error!s}{error!r}{error.request!r}{error.request.headers!r}{error.response!r}{sender!r}{caplog.text}"
    assert str(error) == f"http://127.0.0.1:{flaky_http.port} answered 503"
    assert flaky_http.requests[0].headers["authorization"] == value
    for credential in (path, value, SECRET, SECRET.removeprefix("whsec_")):
        assert credential not in told


@pytest.mark.spec("REV-9.2")
@pytest.mark.parametrize("act", [500, Reset(), HangUp(), Stall()])
def test_a_receiver_that_fails_after_it_stored_the_message_is_in_doubt_and_can_drop_the_second_by_its_key(
    flaky_http, act
):
    stored = {}

    def store(request):
        first = request.idempotency_key not in stored
        stored.setdefault(request.idempotency_key, request.body)
        return act if first else json_reply({"id": "kept"})

    flaky_http.always(Answering(store))
    sender = Webhook(allow_private=True, takes_key=3600.0)
    _, phases = fail(sender, flaky_http.url("/hook"), timeout=IMPATIENT if act == Stall() else PATIENT)
    assert phases[-1] is DURING
    assert send(sender, outgoing(flaky_http.url("/hook"))) == ["kept"]
    assert list(stored) == [TOKEN]
    assert {request.body for request in flaky_http.requests} == set(stored.values())
