"""Server programs on free loopback ports."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

START_SECONDS = 60.0
TRIES = 5


def free_ports(count: int) -> list[int]:
    """Return loopback ports that no process listens on. Another process may take one at any time."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def start_on_free_ports(
    count: int, command: Callable[[list[int]], Sequence[str]], *, env: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], list[int]]:
    """Start a server and wait until it listens on all its ports.

    A second test run on the machine can take a port between the choice and the start. The server then ends, and other
    ports are tried.
    """
    said = ""
    for _ in range(TRIES):
        ports = free_ports(count)
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(command(ports), env=env, stdout=log, stderr=log)
            if _listens(process, ports):
                return process, ports
            process.kill()
            process.wait()
            log.seek(0)
            said = log.read().decode(errors="replace")[-2000:]
    raise RuntimeError(f"{command([0] * count)[0]} did not start: {said}")


def _listens(process: subprocess.Popen[bytes], ports: list[int]) -> bool:
    deadline = time.monotonic() + START_SECONDS
    missing = list(ports)
    while missing and process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", missing[0]), timeout=5).close()
        except OSError:
            time.sleep(0.02)
        else:
            missing.pop(0)
    return not missing and process.poll() is None
