"""A receiver of webhooks over a real socket: it keeps what it takes, and misbehaves as a test wishes."""

from __future__ import annotations

import json
import sys
import threading
from collections import defaultdict, deque
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_TAKEN = frozenset({"ok", "take and drop", "take and 500", "stall"})


class PostOffice:
    """What it has taken, by key; how it behaves next, by the last part of the path.

    Acts on a message: `ok`, `drop` (nothing is taken), `take and drop`, `take and 500`, `stall` (taken, no answer until
    `release`), or a status: `400`, `429`, `503`. Acts on a question: `ok`, `404` (it lies), `500`, `drop`.
    """

    def __init__(self, *, drops_second: bool) -> None:
        self.drops_second = drops_second
        self.taken: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.tries: list[str] = []
        self.heard: list[tuple[str, bytes]] = []
        """Who, and the bytes of every message, taken or not."""
        self.questions: list[str] = []
        self.acts: dict[str, deque[str]] = defaultdict(deque)
        self.answers: deque[str] = deque()
        self.port = 0
        self.lock = threading.Lock()
        self.arrived: Callable[[str], object] | None = None
        """Called with who it is for while a message waits for its answer."""
        self.says: Callable[[Mapping[str, str]], str] | None = None
        """What an error answers, by the headers of the request."""
        self.release = threading.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def next(self, who: str, *acts: str) -> None:
        self.acts[who].extend(acts)

    def told(self) -> dict[str, int]:
        """How often each recipient has been told."""
        with self.lock:
            count: dict[str, int] = defaultdict(int)
            for messages in self.taken.values():
                for message in messages:
                    count[message["who"]] += 1
            return dict(count)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def office(self) -> PostOffice:
        return self.server.office  # type: ignore[attr-defined]

    def do_POST(self) -> None:
        office, who = self.office, self.path.rpartition("/")[2]
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:  # whoever sent it is gone
            self.close_connection = True
            return
        key = self.headers["Idempotency-Key"]
        with office.lock:
            office.tries.append(who)
            office.heard.append((who, body))
            act = office.acts[who].popleft() if office.acts[who] else "ok"
            if act in _TAKEN and not (office.drops_second and office.taken[key]):
                office.taken[key].append({"who": who, "body": json.loads(body)})
        if office.arrived is not None:
            office.arrived(who)
        if act == "stall":
            office.release.wait(30)
        if act in {"drop", "take and drop", "stall"}:
            self._break_off()
        elif act == "ok":
            self._reply(200, {"id": f"po-{key[:8]}"})
        else:
            said = act if office.says is None else office.says(self.headers)
            self._reply(500 if act == "take and 500" else int(act), {"error": said})

    def do_GET(self) -> None:
        office, token = self.office, self.path.rpartition("/")[2]
        with office.lock:
            office.questions.append(token)
            act = office.answers.popleft() if office.answers else "ok"
            known = bool(office.taken.get(token))
        if act == "drop":
            self._break_off()
        elif act == "ok":
            self._reply(
                *((200, {"state": "received", "id": f"po-{token[:8]}"}) if known else (404, {"state": "absent"}))
            )
        else:
            self._reply(int(act), {"state": "absent"} if act == "404" else {})

    def _break_off(self) -> None:
        self.close_connection = True
        with suppress(OSError):  # whoever sent it may be gone
            self.connection.shutdown(2)

    def _reply(self, status: int, value: dict[str, str]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError):  # senders may be killed
            super().handle_error(*_)


@contextmanager
def open_office(*, drops_second: bool = False) -> Iterator[PostOffice]:
    """A post office on loopback, until the block ends."""
    office = PostOffice(drops_second=drops_second)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.office = office  # type: ignore[attr-defined]
    office.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield office
    finally:
        office.release.set()
        server.shutdown()
        thread.join()
        server.server_close()
