"""A small HTTP server that answers what it is told to, or misbehaves on the wire."""

from __future__ import annotations

import json
import socket
import socketserver
import struct
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Wire = Callable[[socket.socket, threading.Event], None]


def encode(status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    """One HTTP/1.1 response that ends its connection."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unassigned"
    head = {"Content-Length": str(len(body)), "Connection": "close", **headers}
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def reset(connection: socket.socket, _: threading.Event) -> None:
    """Send a TCP reset instead of an answer."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def hang_up(_connection: socket.socket, _: threading.Event) -> None:
    """Close without a word."""


def stay_silent(_connection: socket.socket, closing: threading.Event) -> None:
    """Never answer: the client's own timeout has to end it."""
    closing.wait(5)


def truncate(connection: socket.socket, _: threading.Event) -> None:
    """Promise more body than is sent."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")


def truncate_chunk(connection: socket.socket, _: threading.Event) -> None:
    """Stop inside a chunk."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nonly this")


def dribble(connection: socket.socket, closing: threading.Event) -> None:
    """Send the head, then stall in the body."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly")
    closing.wait(5)


def garble(connection: socket.socket, _: threading.Event) -> None:
    """Answer something that is no HTTP."""
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")


def broken_gzip(connection: socket.socket, _: threading.Event) -> None:
    """Announce gzip and send plain text."""
    connection.sendall(encode(200, {"Content-Encoding": "gzip"}, b"this was never compressed"))


WIRES: Final[Mapping[str, Wire]] = {
    "reset": reset,
    "hang-up": hang_up,
    "silent": stay_silent,
    "truncated": truncate,
    "truncated-chunk": truncate_chunk,
    "dribble": dribble,
    "garbled": garble,
    "broken-gzip": broken_gzip,
}


@dataclass(slots=True)
class HttpLab:
    """Hands out addresses; each has its own scripted answer for every path below it."""

    host: str = "127.0.0.1"
    port: int = 0
    replies: dict[str, bytes | Wire] = field(default_factory=dict)
    closing: threading.Event = field(default_factory=threading.Event)
    _numbers: count[int] = field(default_factory=count)
    _server: socketserver.ThreadingTCPServer | None = None

    def start(self) -> None:
        """Listen on a free loopback port."""
        lab = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                lab.answer(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 64

        self._server = Server((self.host, 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening and free whoever still waits."""
        self.closing.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def answer(self, connection: socket.socket) -> None:
        """Read one request, then do what its path says."""
        connection.settimeout(10)
        try:
            path = _read_request(connection).partition("?")[0]
            reply = self.replies.get(path.split("/")[1] if "/" in path else "", b"")
            if isinstance(reply, bytes):
                connection.sendall(reply)
            else:
                reply(connection, self.closing)
        except OSError:
            return

    def url(self, status: int = 200, headers: Mapping[str, str] | None = None, body: object = b"") -> str:
        """An address that answers so; a body that is no bytes is sent as JSON."""
        head = dict(headers or {})
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
            head.setdefault("Content-Type", "application/json")
        return self._address(encode(status, head, body))

    def broken(self, wire: str) -> str:
        """An address that misbehaves on the wire."""
        return self._address(WIRES[wire])

    def raw(self, answer: bytes) -> str:
        """An address that answers these very bytes."""
        return self._address(answer)

    def loop(self) -> str:
        """An address that redirects to itself."""
        key = f"r{next(self._numbers)}"
        self.replies[key] = encode(302, {"Location": f"/{key}"}, b"")
        return f"http://{self.host}:{self.port}/{key}"

    def _address(self, reply: bytes | Wire) -> str:
        key = f"r{next(self._numbers)}"
        self.replies[key] = reply
        return f"http://{self.host}:{self.port}/{key}"


def _read_request(connection: socket.socket) -> str:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError("the client left")
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length, chunked = 0, False
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            length = int(value)
        chunked |= name.strip().lower() == b"transfer-encoding" and b"chunked" in value
    while len(body) < length or (chunked and not body.endswith(b"0\r\n\r\n")):
        piece = connection.recv(65536)
        if not piece:
            break
        body += piece
    return head.split(b" ")[1].decode("latin-1")
