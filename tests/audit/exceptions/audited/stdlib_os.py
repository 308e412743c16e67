"""What the operating system says: errno, sockets, DNS, TLS, timeouts of every origin, child processes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import multiprocessing
import os
import queue
import socket
import ssl
import subprocess
import sys
import threading
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    CONFLICT,
    NETWORK,
    NOT_FOUND,
    UNKNOWN,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    stop,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audited.lab import Lab

CODE: Final = CONFIGURATION | VALIDATION
DENIED: Final = AUTH | CONFIGURATION
ERRNOS: Final[dict[int, tuple[bool, Any, str]]] = {
    errno.ECONNRESET: (True, NETWORK, "TCP reset: CRIT-1.1, ING-1.3"),
    errno.ECONNREFUSED: (True, NETWORK, "ING-1.4"),
    errno.ECONNABORTED: (True, NETWORK, "CRIT-1.1"),
    errno.EPIPE: (True, NETWORK, "CRIT-1.1"),
    errno.ETIMEDOUT: (True, NETWORK, "ING-1.3"),
    errno.EHOSTUNREACH: (True, NETWORK, "CRIT-1.1"),
    errno.ENETUNREACH: (True, NETWORK, "CRIT-1.1"),
    errno.ENETDOWN: (True, NETWORK, "CRIT-1.1"),
    errno.EHOSTDOWN: (True, NETWORK, "CRIT-1.1"),
    errno.ENETRESET: (True, NETWORK, "CRIT-1.1"),
    errno.ESHUTDOWN: (True, NETWORK, "CRIT-1.1"),
    errno.ENOTCONN: (True, NETWORK, "CRIT-1.1"),
    errno.ENOSPC: (True, UPSTREAM, "notes: a resource, retry slowly"),
    errno.EMFILE: (True, UPSTREAM, "notes: a resource, retry slowly"),
    errno.ENFILE: (True, UPSTREAM, "as EMFILE"),
    errno.EDQUOT: (True, UPSTREAM, "as ENOSPC"),
    errno.ENOBUFS: (True, UPSTREAM | NETWORK, "a resource"),
    errno.EAGAIN: (True, AWAY, "its very name"),
    errno.EINTR: (True, AWAY | UNKNOWN, "interrupted: again"),
    errno.EACCES: (False, DENIED, "notes: permanent"),
    errno.EPERM: (False, DENIED, "as EACCES"),
    errno.ENOENT: (False, NOT_FOUND | CONFIGURATION, "notes: permanent"),
    errno.ENOTDIR: (False, NOT_FOUND | CONFIGURATION | VALIDATION, "as ENOENT"),
    errno.EISDIR: (False, CODE | NOT_FOUND, "as ENOENT"),
    errno.EROFS: (False, DENIED, "a read-only file system"),
    errno.ENAMETOOLONG: (False, CODE, "a wrong name"),
    errno.EINVAL: (False, CODE, "a wrong argument"),
    errno.EBADF: (False, CONFIGURATION, "a bug"),
    errno.EADDRNOTAVAIL: (False, CONFIGURATION, "a wrong address, or ports ran out"),
    errno.EADDRINUSE: (False, CONFIGURATION | CONFLICT, "somebody else listens there"),
    errno.EEXIST: (False, CONFLICT | CODE, "it is there already"),
    errno.EIO: (True, UPSTREAM | CONFIGURATION, "a sick disk"),
    errno.EBUSY: (True, UPSTREAM | CONFLICT, "in use"),
    errno.ESTALE: (True, AWAY, "a stale file handle"),
    errno.ENOMEM: (True, UPSTREAM | CONFIGURATION, "a resource; or MemoryError's kin"),
}
OPEN: Final = {"EADDRNOTAVAIL", "EADDRINUSE", "EEXIST", "EIO", "EBUSY", "ESTALE", "ENOMEM", "EINTR", "ENOTCONN"}
GAI: Final[tuple[tuple[str, bool, Any, bool], ...]] = (
    ("EAI_AGAIN", True, NETWORK, False),
    ("EAI_NONAME", True, NETWORK | CONFIGURATION, True),
    ("EAI_NODATA", True, NETWORK | CONFIGURATION, True),
    ("EAI_FAIL", True, NETWORK | CONFIGURATION, True),
    ("EAI_SERVICE", False, CODE | NETWORK, True),
    ("EAI_MEMORY", True, NETWORK | UPSTREAM, True),
)


def cases() -> Iterator[Case]:
    """All of them."""
    for code, (retryable, categories, reason) in ERRNOS.items():
        name = errno.errorcode[code]
        yield Case(
            label=f"OSError {name}",
            library="stdlib",
            provoke=lambda _, code=code: OSError(code, os.strerror(code)),
            retryable=retryable,
            categories=categories,
            reason=reason,
            arguable=name in OPEN,
        )
    for name, retryable, categories, arguable in GAI:
        yield Case(
            label=f"gaierror {name}",
            library="stdlib",
            provoke=lambda _, name=name: socket.gaierror(getattr(socket, name), "as the resolver said"),
            retryable=retryable,
            categories=categories,
            reason="notes: DNS",
            arguable=arguable,
        )
    yield from _files()
    yield from _sockets()
    yield from _tls()
    yield from _timeouts()
    yield from _processes()


def _files() -> Iterator[Case]:
    yield stop(
        "stdlib", "a missing file", lambda lab: (lab.folder / "no.txt").open(), NOT_FOUND | CONFIGURATION, "ENOENT"
    )
    yield stop("stdlib", "a folder opened as a file", lambda lab: lab.folder.open(), CODE | NOT_FOUND, "EISDIR")
    yield stop(
        "stdlib", "a file used as a folder", lambda _: Path("/dev/null/x").read_text(), CODE | NOT_FOUND, "ENOTDIR"
    )
    yield retry("stdlib", "a full disk", lambda _: Path("/dev/full").write_text("x"), UPSTREAM, "ENOSPC, really")
    yield stop("stdlib", "a NUL in a path", lambda _: Path("a\x00b").read_text(), CODE, "a ValueError")


def _sockets() -> Iterator[Case]:
    yield retry(
        "stdlib", "socket refused", lambda lab: socket.create_connection(("127.0.0.1", lab.closed_port)), NETWORK, "ING-1.4",
        error_class="CONNECTION_REFUSED",
    )  # fmt: skip
    yield retry("stdlib", "socket timeout", _socket_timeout, NETWORK, "CRIT-1.1", error_class="NETWORK_TIMEOUT")
    yield retry(
        "stdlib", "socket connect timeout", _connect_timeout, NETWORK, "CRIT-1.1", error_class="NETWORK_TIMEOUT"
    )
    yield retry("stdlib", "socket reset", _socket_reset, NETWORK, "CRIT-1.1", error_class="CONNECTION_RESET")
    yield retry("stdlib", "broken pipe", _broken_pipe, NETWORK, "CRIT-1.1")
    yield retry("stdlib", "would block", _would_block, AWAY, "EAGAIN")
    yield retry(
        "asyncio",
        "asyncio refused",
        lambda lab: asyncio.open_connection("127.0.0.1", lab.closed_port),
        NETWORK,
        "ING-1.4",
    )
    yield retry("asyncio", "asyncio IncompleteReadError", _incomplete, NETWORK | UPSTREAM, "the peer left: CRIT-1.1")
    yield stop("asyncio", "asyncio LimitOverrunError", _overrun, CODE, "the peer says more than it may")
    yield retry(
        "stdlib", "EOFError", lambda _: EOFError("connection closed"), AWAY | UNKNOWN, "an early end", arguable=True
    )


def _socket_timeout(lab: Lab) -> object:
    with socket.create_connection(("127.0.0.1", lab.silent_port), timeout=0.05) as connection:
        return connection.recv(1)


def _connect_timeout(lab: Lab) -> object:
    return socket.create_connection(("127.0.0.1", lab.full_port), timeout=0.05)


def _socket_reset(lab: Lab) -> object:
    with socket.create_connection(("127.0.0.1", lab.http.port), timeout=5) as connection:
        path = lab.http.broken("reset").rsplit("/", 1)[1]
        connection.sendall(f"GET /{path} HTTP/1.1\r\n\r\n".encode())
        return connection.recv(1)


def _broken_pipe(_: Lab) -> object:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return os.write(writer, b"x")
    finally:
        os.close(writer)


def _would_block(_: Lab) -> object:
    left, right = socket.socketpair()
    with closing(left), closing(right):
        left.setblocking(False)  # noqa: FBT003 - the socket's own signature
        return left.recv(1)


async def _incomplete(lab: Lab) -> object:
    reader, writer = await asyncio.open_connection("127.0.0.1", lab.http.port)
    path = lab.http.broken("truncated").rsplit("/", 1)[1]
    writer.write(f"GET /{path} HTTP/1.1\r\n\r\n".encode())
    try:
        return await reader.readexactly(5000)
    finally:
        writer.close()


async def _overrun(_: Lab) -> object:
    reader = asyncio.StreamReader(limit=4)
    reader.feed_data(b"much too long for so short a line\n")
    return await reader.readuntil(b"\n")


def _tls() -> Iterator[Case]:
    yield stop(
        "ssl", "SSLCertVerificationError", lambda lab: _handshake("localhost", lab.untrusted_port), CONFIGURATION,
        "notes: permanent", error_class="TLS_INVALID",
    )  # fmt: skip
    yield stop(
        "ssl", "TLS against a plain port", lambda lab: _handshake("127.0.0.1", lab.mail.port), CONFIGURATION | NETWORK,
        "the wrong port stays wrong; a sick proxy does not", arguable=True,
    )  # fmt: skip
    yield retry(
        "ssl",
        "TLS handshake timeout",
        lambda lab: _handshake("127.0.0.1", lab.silent_port, 0.05),
        NETWORK,
        "notes: transient",
    )
    yield retry(
        "ssl",
        "SSLEOFError",
        lambda _: ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
        NETWORK,
        "the peer left",
    )
    yield retry(
        "ssl",
        "SSLZeroReturnError",
        lambda _: ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed"),
        NETWORK,
        "the peer left",
    )
    yield stop(
        "ssl",
        "a missing CA file",
        lambda _: ssl.create_default_context(cafile="/no/such/ca.pem"),
        CONFIGURATION | NOT_FOUND,
        "ORC-1.4",
    )
    yield stop("ssl", "a broken CA", lambda _: ssl.create_default_context(cadata="not a certificate"), CODE, "ORC-1.4")


def _handshake(host: str, port: int, timeout: float = 5) -> object:
    context = ssl.create_default_context()
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as raw:
        return context.wrap_socket(raw, server_hostname=host)


def _timeouts() -> Iterator[Case]:
    late = {"error_class": "NETWORK_TIMEOUT"}
    yield retry(
        "asyncio", "asyncio.wait_for", lambda _: asyncio.wait_for(asyncio.sleep(5), 0.01), NETWORK, "CRIT-1.1", **late
    )
    yield retry(
        "asyncio",
        "asyncio.timeout",
        _asyncio_timeout,
        NETWORK,
        "notes: no cancellation, whatever its chain holds",
        **late,
    )
    yield retry("stdlib", "a bare TimeoutError", lambda _: TimeoutError(), NETWORK, "CRIT-1.1", **late)
    yield retry(
        "stdlib", "TimeoutError with a word", lambda _: TimeoutError("the upstream took too long"), NETWORK, "CRIT-1.1"
    )
    yield retry("concurrent.futures", "future.result timeout", _future_timeout, NETWORK | UPSTREAM, "CRIT-1.1")
    yield retry(
        "stdlib",
        "queue.Empty",
        lambda _: queue.Queue().get(timeout=0.01),
        AWAY | UNKNOWN,
        "nothing came",
        arguable=True,
    )
    yield retry("stdlib", "queue.Full", lambda _: _full_queue(), AWAY | UNKNOWN, "nobody took", arguable=True)
    yield retry(
        "multiprocessing", "multiprocessing.TimeoutError", _pool_timeout, NETWORK | UPSTREAM | UNKNOWN, "a timeout"
    )
    yield stop(
        "stdlib",
        "BrokenBarrierError",
        lambda _: threading.Barrier(2).wait(0.01),
        AWAY | CONFIGURATION | UNKNOWN,
        "who knows",
        arguable=True,
    )


async def _asyncio_timeout(_: Lab) -> object:
    async with asyncio.timeout(0.01):
        await asyncio.sleep(5)


def _future_timeout(_: Lab) -> object:
    return concurrent.futures.Future().result(timeout=0.01)


def _full_queue() -> object:
    line: queue.Queue[int] = queue.Queue(1)
    line.put(1)
    return line.put(2, timeout=0.01)


def _pool_timeout(_: Lab) -> object:
    raise multiprocessing.TimeoutError


def run(*arguments: str, **options: Any) -> object:
    """Run Python with these arguments."""
    return subprocess.run([sys.executable, "-S", "-c", *arguments], check=True, capture_output=True, **options)


def _processes() -> Iterator[Case]:
    yield retry(
        "subprocess", "TimeoutExpired", lambda _: run("import time; time.sleep(9)", timeout=0.1), NETWORK | UPSTREAM | UNKNOWN,
        "a timeout: ORC-3.5",
    )  # fmt: skip
    yield retry(
        "subprocess",
        "exit code 1",
        lambda _: run("raise SystemExit(1)"),
        UNKNOWN | UPSTREAM | CONFIGURATION,
        "who knows why",
        arguable=True,
    )
    yield retry(
        "subprocess",
        "killed by a signal",
        lambda _: run("import os; os.kill(os.getpid(), 9)"),
        UNKNOWN | UPSTREAM | CONFIGURATION,
        "ORC-4.3: crash or OOM",
        arguable=True,
    )
    yield stop(
        "subprocess",
        "no such program",
        lambda _: subprocess.run(["/no/such/program"], check=True),
        NOT_FOUND | CONFIGURATION,
        "ENOENT",
    )
    yield stop("subprocess", "not executable", _not_executable, DENIED, "EACCES")
    yield retry(
        "concurrent.futures",
        "BrokenProcessPool",
        lambda _: BrokenProcessPool("A process in the process pool was terminated abruptly"),
        UNKNOWN | UPSTREAM | CONFIGURATION,
        "a worker died",
    )


def _not_executable(lab: Lab) -> object:
    path = lab.folder / "plain.txt"
    path.write_text("no program")
    return subprocess.run([path], check=True)
