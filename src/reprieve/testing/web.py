"""An HTTP upstream that fails on purpose, over a real socket."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, assert_never

from reprieve.errors import UsageError
from reprieve.testing.acts import (
    OK,
    Act,
    Answering,
    Break,
    Drip,
    HangUp,
    Moment,
    Raw,
    Reply,
    Reset,
    Stall,
    WebSocketClose,
    as_act,
)
from reprieve.testing.script import Script
from reprieve.testing.tls import Certificate, server_context
from reprieve.testing.upstream import HOST, Upstream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.testing.wire import Wire

_WEBSOCKET_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BODYLESS: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_BAD_REQUEST: Final = Reply(400, "not an HTTP request")
_KEY_HEADERS: Final = ("idempotency-key", "x-idempotency-key", "x-request-id")
_TLS_RECORD: Final = 0x16
_EARLY: Final = frozenset({Moment.CONNECT, Moment.HANDSHAKE})
_BEFORE_BODY: Final = _EARLY | {Moment.REQUEST}


@dataclass(frozen=True, slots=True)
class Request:
    """A request that an upstream saw; header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def idempotency_key(self) -> str | None:
        """The client's key, from Idempotency-Key or its relatives."""
        return next((self.headers[name] for name in _KEY_HEADERS if name in self.headers), None)

    def json(self) -> object:
        """The body, read as JSON."""
        return json.loads(self.body)


class FlakyHTTP(Upstream):
    """An HTTP server that does what the script says, and is well when the script says nothing.

        with FlakyHTTP() as upstream:
            upstream.next(503, 503)                          # fail twice, then 200
            upstream.next(Reset(at=Moment.BODY), path="/big")
            upstream.always(Reply(429, headers={"Retry-After": "2"}), path="/limited")
            httpx.get(upstream.url("/big"))
            assert upstream.requests[0].method == "GET"

    With `certificate` it speaks TLS. Each connection has a thread; all end with the `with` block.
    """

    def __init__(self, *, certificate: Certificate | str | None = None, longest: float = 30.0) -> None:
        """Speak TLS with such a certificate, or plain HTTP without one."""
        super().__init__(longest=longest)
        self._context = None if certificate is None else server_context(Certificate(certificate))
        self._script: Script[Act] = Script(OK)
        self._requests: list[Request] = []

    def url(self, path: str = "/", *, scheme: str = "") -> str:
        """Its address; `scheme="https"` on a plain upstream is a TLS client that meets plain HTTP."""
        return f"{scheme or ('http' if self._context is None else 'https')}://{HOST}:{self.port}{_checked_path(path)}"

    def next(self, *acts: Act | int, path: str | None = None) -> None:
        """Do these next, once each, in this order: for requests of this path, or for any."""
        if not acts:
            raise UsageError("next() wants at least one act, such as Reply(503)")
        self._script.append([self._checked(act, path) for act in acts], path)

    def always(self, act: Act | int, *, path: str | None = None) -> None:
        """Do this whenever nothing is queued: for requests of this path, or for any."""
        self._script.settle(self._checked(act, path), path)

    def forget(self) -> None:
        """Drop the script and the requests seen so far."""
        self._script.clear()
        with self._changed:
            self._requests.clear()

    @property
    def pending(self) -> tuple[Act, ...]:
        """What `next` queued and no request has met."""
        return self._script.pending()

    @property
    def requests(self) -> tuple[Request, ...]:
        """The requests seen so far, also those that were broken off."""
        with self._changed:
            return tuple(self._requests)

    def wait_for_requests(self, count: int, *, within: float = 5.0) -> tuple[Request, ...]:
        """The requests, once there are so many: for clients that give up before the upstream has read them."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= count, within):
                raise TimeoutError(f"{len(self._requests)} of {count} requests arrived within {within} s")
            return tuple(self._requests)

    def _checked(self, value: Act | int, path: str | None) -> Act:
        act = as_act(value)
        if path is not None:
            _checked_path(path)
        if isinstance(act, Break) and act.at in _EARLY:
            if path is not None:
                raise UsageError(f"at {act.at.value!r} no path is known yet: script it without path={path!r}")
            if act.at is Moment.HANDSHAKE and self._context is None:
                raise UsageError("a plain HTTP upstream has no handshake: give it a certificate, or use Moment.CONNECT")
        return act

    def _serve(self, wire: Wire) -> None:
        if (early := self._script.take_if(_is_early)) is not None and not self._break_early(wire, early):
            return
        if self._context is not None:
            wire.start_tls(self._context)
        while self._serve_request(wire):
            pass

    def _break_early(self, wire: Wire, act: Act) -> bool:
        if isinstance(act, Break) and act.at is Moment.HANDSHAKE:
            wire.wait_for_handshake()
        return self._interrupt(wire, act)

    def _serve_request(self, wire: Wire) -> bool:
        # A TLS client's greeting may hold no line end to wait for.
        line = b"" if wire.first_byte() == _TLS_RECORD else wire.read_line()
        try:
            method, target, _ = line.decode("latin-1").split(" ")
        except ValueError:
            wire.send(_head(_BAD_REQUEST) + _BAD_REQUEST.content)
            wire.hang_up()
            return False
        headers = _read_headers(wire)
        act = self._script.take(target.partition("?")[0])
        if isinstance(act, Break) and act.at in _BEFORE_BODY:
            if not (isinstance(act, Stall) and act.seconds is not None):
                self._record(Request(method, target, headers))
            if headers.get("content-length", "0") != "0":
                wire.first_byte()  # so that the break comes while the body is on its way, not before
            if not self._interrupt(wire, act):
                return False
        request = Request(method, target, headers, _read_body(wire, headers))
        self._record(request)
        return self._perform(wire, request, act) and headers.get("connection", "").lower() != "close"

    def _record(self, request: Request) -> None:
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()

    def _perform(self, wire: Wire, request: Request, act: Act) -> bool:
        """Do it; says whether the connection can carry another request."""
        match act:
            case Reply():
                wire.send(_head(act) + _content(act, request))
                return True
            case Reset() | HangUp() | Stall():
                return self._send_broken(wire, request, act)
            case Drip():
                wire.send(_head(act.reply))
                for byte in _content(act.reply, request):
                    wire.wait(act.every)
                    wire.send(bytes([byte]))
                return True
            case Raw():
                wire.send(act.data)
                wire.hang_up()
                return False
            case WebSocketClose():
                _close_websocket(wire, request, act)
                return False
            case Answering():
                return self._perform(wire, request, as_act(act.function(request)))
            case _:
                assert_never(act)

    def _send_broken(self, wire: Wire, request: Request, act: Break) -> bool:
        head, body = _head(act.reply), _content(act.reply, request)
        middle, half = len(head) // 2, len(body) // 2
        pieces = (
            (Moment.REPLY, head[:middle]),
            (Moment.HEADERS, head[middle:] + body[:half]),
            (Moment.BODY, body[half:]),
        )
        for moment, data in pieces:
            if act.at is moment and not self._interrupt(wire, act):
                return False
            wire.send(data)
        return True

    def _interrupt(self, wire: Wire, act: Act) -> bool:
        """Break off or stall; says whether to go on."""
        match act:
            case Reset():
                wire.reset()
                return False
            case Stall(seconds=float() | int() as seconds):
                wire.wait(seconds)
                return True
            case Stall():
                wire.wait(self.longest)
        wire.hang_up()
        return False


def _is_early(act: Act) -> bool:
    return isinstance(act, Break) and act.at in _EARLY


def _checked_path(path: str) -> str:
    if not path.startswith("/"):
        raise UsageError(f"a path begins with '/': {path!r}")
    return path


def _head(reply: Reply) -> bytes:
    try:
        reason = reply.reason or HTTPStatus(reply.status).phrase
    except ValueError:
        reason = "Unnamed"
    headers = dict(reply.headers)
    framed = {name.lower() for name in headers} & {"content-length", "transfer-encoding"}
    if not framed and reply.status not in _BODYLESS:
        headers["Content-Length"] = str(len(reply.content))
    lines = [f"HTTP/1.1 {reply.status} {reason}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def _content(reply: Reply, request: Request) -> bytes:
    return b"" if request.method == "HEAD" or reply.status in _BODYLESS else reply.content


def _read_headers(wire: Wire) -> dict[str, str]:
    headers: dict[str, str] = {}
    while line := wire.read_line():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers


def _read_body(wire: Wire, headers: Mapping[str, str]) -> bytes:
    if headers.get("expect", "").lower() == "100-continue":
        wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = bytearray()
        while size := int(wire.read_line().partition(b";")[0], 16):
            body += wire.read_exactly(size)
            wire.read_line()
        _read_headers(wire)  # the trailers
        return bytes(body)
    return wire.read_exactly(int(headers.get("content-length") or 0))


def _close_websocket(wire: Wire, request: Request, act: WebSocketClose) -> None:
    key = request.headers.get("sec-websocket-key", "").encode()
    accept = base64.b64encode(hashlib.sha1(key + _WEBSOCKET_GUID, usedforsecurity=False).digest()).decode()
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accept}
    wire.send(_head(Reply(101, headers={**upgrade, "Content-Length": "0"})))
    if act.code is not None:
        payload = act.code.to_bytes(2, "big") + act.reason.encode()
        wire.send(bytes([0x88, len(payload)]) + payload)
    wire.hang_up()
