"""Providers for the bench of deliveries, in a process of their own: `python bench/providers.py` is a receiver of webhooks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE: Final = 30.0
_ANSWER: Final = b'{"id": "1"}'
_TAKEN: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(_ANSWER), _ANSWER)
)  # fmt: skip


async def _receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take whatever is posted, one request after another."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            (length,) = (int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
            await reader.readexactly(length)
            writer.write(_TAKEN)
            await writer.drain()
    writer.close()


async def _serve(port: int) -> None:
    server = await asyncio.start_server(_receive, "127.0.0.1", port, backlog=1000)
    await server.serve_forever()


@contextlib.contextmanager
def receiver() -> Iterator[str]:
    """The address of a receiver of webhooks that takes everything."""
    (port,) = _free_ports(1)
    with _running([sys.executable, __file__, str(port)], [port]):
        yield f"http://127.0.0.1:{port}/inbox"


@contextlib.contextmanager
def mail_server(folder: Path) -> Iterator[int]:
    """The port of an SMTP server that keeps what it takes."""
    smtp, smtps, imap = ports = _free_ports(3)
    del smtps, imap
    options = dict(zip(("smtp-port", "smtps-port", "imap-port"), map(str, ports), strict=True))
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    command = [sys.executable, "-m", "mail_devel", "--no-http", "--host", "127.0.0.1", "--user", "bench", *words]
    with _running(command, [smtp], folder / "mail.log"):
        yield smtp


@contextlib.contextmanager
def _running(command: list[str], ports: list[int], log: Path | None = None) -> Iterator[None]:
    with Path(os.devnull if log is None else log).open("wb") as said:
        environment = {**os.environ, "MAIL_PASSWORD": secrets.token_hex(8)}
        process = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
    try:
        for port in ports:
            _wait_for(port, process)
        yield
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} does not answer")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
