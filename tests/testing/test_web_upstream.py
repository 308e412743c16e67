"""The HTTP upstream itself: what it does, what it keeps, and what it leaves behind."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
import threading
import time

import pytest

from reprieve.errors import UsageError
from reprieve.testing import (
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
)
from reprieve.testing.wire import ClientGoneError, Wire


@pytest.fixture
def upstream():
    with FlakyHTTP() as upstream:
        yield upstream


@pytest.fixture
def client(upstream):
    connection = http.client.HTTPConnection("127.0.0.1", upstream.port, timeout=10)
    yield connection
    connection.close()


def ask(client, path="/", method="GET", body=None, headers=None):
    client.request(method, path, body=body, headers=headers or {})
    with client.getresponse() as response:
        return response.status, response.read()


def test_it_fails_twice_then_recovers_over_one_connection(upstream, client):
    upstream.next(503, 502)
    assert [ask(client)[0] for _ in range(3)] == [503, 502, 200]
    assert upstream.connections == 1
    assert upstream.pending == ()


def test_a_path_has_a_script_of_its_own_which_speaks_first(upstream, client):
    upstream.next(500)
    upstream.next(404, path="/gone")
    upstream.always(Reply(410, "gone"), path="/gone")
    assert [ask(client, "/gone?x=1")[0] for _ in range(3)] == [404, 410, 410]
    assert [ask(client)[0] for _ in range(2)] == [500, 200]


def test_what_is_settled_holds_until_it_is_forgotten(upstream, client):
    upstream.always(429)
    upstream.next(503)
    assert [ask(client)[0] for _ in range(3)] == [503, 429, 429]
    upstream.forget()
    assert ask(client)[0] == 200
    assert len(upstream.requests) == 1


def test_what_was_not_met_is_pending(upstream, client):
    upstream.next(503, 502)
    ask(client)
    assert upstream.pending == (Reply(502),)


def test_it_keeps_what_was_sent(upstream, client):
    ask(client, "/pay?x=1", "POST", json.dumps({"amount": 3}), {"Idempotency-Key": "order-7"})
    (request,) = upstream.requests
    assert (request.method, request.target, request.path) == ("POST", "/pay?x=1", "/pay")
    assert request.idempotency_key == "order-7"
    assert request.json() == {"amount": 3}


def test_a_chunked_request_is_read_whole_and_the_connection_goes_on(upstream, client):
    assert ask(client, "/", "POST", iter([b"one ", b"two"]))[0] == 200
    assert ask(client)[0] == 200
    assert [request.body for request in upstream.requests] == [b"one two", b""]
    assert upstream.connections == 1


def test_a_request_that_was_broken_off_is_kept_too(upstream, client):
    upstream.next(Reset())
    with pytest.raises(ConnectionResetError):
        ask(client, "/", "POST", b"precious")
    assert [request.body for request in upstream.requests] == [b"precious"]


@pytest.mark.parametrize("moment", [Moment.REQUEST, Moment.REPLY, Moment.HEADERS, Moment.BODY])
def test_a_stall_with_an_end_goes_on_as_if_nothing_had_been(upstream, client, moment):
    upstream.next(Stall(at=moment, seconds=0.01, reply=Reply(201, "late")))
    assert ask(client, "/", "POST", b"body") == (201, b"late")
    assert ask(client)[0] == 200
    assert [request.body for request in upstream.requests] == [b"body", b""]
    assert upstream.connections == 1


def test_a_drip_arrives_whole_piece_by_piece(upstream, client):
    upstream.next(Drip(Reply(200, "slow"), every=0.001))
    assert ask(client) == (200, b"slow")


def test_a_proper_end_is_no_reset_even_when_the_request_was_not_read(upstream, client):
    upstream.next(HangUp(at=Moment.REQUEST))
    with pytest.raises(http.client.RemoteDisconnected):
        ask(client, "/", "POST", b"unread" * 100)


def test_raw_bytes_arrive_as_they_are(upstream):
    upstream.next(Raw(b"\x00\xffanything"))
    with socket.create_connection(("127.0.0.1", upstream.port), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert connection.recv(100) == b"\x00\xffanything"
        assert connection.recv(100) == b""


def test_a_function_of_the_request_may_decide(upstream, client):
    seen = []
    upstream.always(Answering(lambda request: seen.append(request.body) or Reply(200 + len(seen), request.path)))
    assert [ask(client, "/one", "POST", b"a"), ask(client, "/two", "POST", b"b")] == [(201, b"/one"), (202, b"/two")]
    upstream.always(Answering(lambda _: 503))
    assert ask(client)[0] == 503
    upstream.always(Answering(lambda _: HangUp()))
    with pytest.raises(http.client.RemoteDisconnected):
        ask(client)
    assert seen == [b"a", b"b"]


def test_a_head_request_gets_the_head_only(upstream, client):
    upstream.next(Reply(200, "a body"))
    assert ask(client, method="HEAD") == (200, b"")
    assert ask(client)[0] == 200


def test_the_greeting_of_a_tls_client_is_refused_at_once_though_no_line_ends_it(upstream):
    with socket.create_connection(("127.0.0.1", upstream.port), timeout=10) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")


def test_a_client_that_gives_up_can_be_waited_for(upstream):
    upstream.always(Stall())
    with socket.create_connection(("127.0.0.1", upstream.port)) as connection:
        connection.sendall(b"GET /left HTTP/1.1\r\n\r\n")
    assert upstream.wait_for_requests(1, within=60)[0].path == "/left"
    with pytest.raises(TimeoutError, match="1 of 2 requests"):
        upstream.wait_for_requests(2, within=0.01)


def wait_for_a_connection(upstream):
    for _ in range(5000):
        if upstream.connections:
            return
        time.sleep(0.001)
    pytest.fail("nobody was let in")


def connection_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("reprieve-")]


@pytest.mark.parametrize(
    ("certificate", "act"),
    [
        (None, Stall(at=Moment.CONNECT)),
        (None, Stall(at=Moment.REPLY)),
        (None, Stall(at=Moment.BODY)),
        (None, Drip(every=20)),
        (Certificate.GOOD, Stall(at=Moment.HANDSHAKE)),
    ],
)
def test_stopping_ends_every_stall_and_leaves_no_thread(certificate, act):
    before = set(connection_threads())
    with FlakyHTTP(certificate=certificate) as upstream:
        upstream.always(act)
        connection = socket.create_connection(("127.0.0.1", upstream.port))
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        wait_for_a_connection(upstream)
    connection.close()
    assert set(connection_threads()) <= before


def test_stopping_ends_a_handshake_that_never_comes():
    before = set(connection_threads())
    with FlakyHTTP(certificate=Certificate.GOOD) as upstream:
        connection = socket.create_connection(("127.0.0.1", upstream.port))
        wait_for_a_connection(upstream)
    connection.close()
    assert set(connection_threads()) <= before


def test_a_stall_is_bounded_without_stopping():
    with FlakyHTTP(longest=0.05) as upstream:
        upstream.always(Stall())
        with socket.create_connection(("127.0.0.1", upstream.port), timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert connection.recv(100) == b""


def test_it_can_be_started_again_and_stopped_twice():
    upstream = FlakyHTTP()
    for _ in range(2):
        with upstream:
            client = http.client.HTTPConnection("127.0.0.1", upstream.port, timeout=10)
            assert ask(client)[0] == 200
            client.close()
        upstream.stop()


def test_it_serves_an_asynchronous_test():
    async def converse():
        async with FlakyHTTP() as upstream:
            reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
            writer.write(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

    assert asyncio.run(converse()).startswith(b"HTTP/1.1 200 OK")


def test_many_clients_at_once_each_get_one_act(upstream):
    upstream.next(*[503] * 10)
    seen = []

    def visit():
        client = http.client.HTTPConnection("127.0.0.1", upstream.port, timeout=10)
        seen.append(ask(client)[0])
        client.close()

    threads = [threading.Thread(target=visit) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [200] * 10 + [503] * 10


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda upstream: upstream.next(), "at least one act"),
        (lambda upstream: upstream.next("boom"), "an upstream can do a Reply, .* not 'boom'"),
        (lambda upstream: upstream.next(True), "not True"),
        (lambda upstream: upstream.next(99), "from 100 to 999, not 99"),
        (lambda upstream: upstream.next(503, path="x"), "begins with '/': 'x'"),
        (lambda upstream: upstream.next(Reset(at=Moment.CONNECT), path="/x"), "no path is known yet"),
        (lambda upstream: upstream.next(Stall(at=Moment.HANDSHAKE)), "has no handshake"),
        (lambda _: Reply("503"), "a number from 100 to 999, not '503'"),
        (lambda _: Reply(200, {"a": 1}), "json_reply"),
        (lambda _: Reply(200, headers={"A": "b\r\nC: d"}), "must be one line.*use Raw"),
        (lambda _: Reply(429, headers={"Retry-After": 2}), "header 'Retry-After' is text, not 2"),
        (lambda _: Stall(seconds=-1), "0 or more seconds.*not -1"),
        (lambda _: Drip(every=0), "above 0; not 0"),
        (lambda _: FlakyHTTP(longest=0), "above 0 seconds"),
        (lambda _: FlakyHTTP().port, "is not started"),
        (lambda upstream: upstream.start(), "already started"),
    ],
)
def test_a_wrong_script_is_refused_with_what_would_be_right(upstream, wrong, message):
    with pytest.raises(UsageError, match=message):
        wrong(upstream)


def test_a_json_reply_says_that_it_is_json(upstream, client):
    upstream.next(json_reply({"a": [1]}, 418, {"X-Extra": "yes"}))
    client.request("GET", "/")
    with client.getresponse() as response:
        assert (response.status, json.load(response)) == (418, {"a": [1]})
        assert (response.headers["Content-Type"], response.headers["X-Extra"]) == ("application/json", "yes")


def test_a_closed_port_refuses_and_stays_ours():
    with nobody_listening() as port:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=10)
        with pytest.raises(OSError, match="in use"), socket.socket() as other:
            other.bind(("127.0.0.1", port))


def test_connecting_to_a_full_port_times_out():
    with nobody_accepting() as port, pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", port), timeout=0.1)


def test_a_connection_interrupted_between_the_steps_of_a_handshake_does_not_wait_for_it():
    ours, theirs = socket.socketpair()
    wire = Wire(ours, longest=30)

    class Slow:
        """A context in whose wrapping the upstream is stopped."""

        def wrap_socket(self, plain, **options):
            wrapped = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).wrap_socket(plain, **options)
            wire.interrupt()
            return wrapped

    with theirs, pytest.raises(ClientGoneError):
        wire.start_tls(Slow())
    wire.close()
