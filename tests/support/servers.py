"""Server programs on free loopback ports."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

START_SECONDS = 60.0
MAX_STARTS = 5
LISTENING = "0A"
"""The state in /proc/net/tcp of a socket that accepts connections."""


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

    A second test run on the machine can take a port between the choice and the start. Then the server is
    started on other ports.
    """
    said = ""
    for _ in range(MAX_STARTS):
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
    while process.poll() is None and time.monotonic() < deadline:
        if set(ports) <= listening_ports(process.pid):
            return True
        time.sleep(0.02)
    return False


def listening_ports(pid: int) -> set[int]:
    """Return the TCP ports on which a process itself listens."""
    ports_of = {}
    for table in Path("/proc/net").glob("tcp*"):
        for line in table.read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENING:
                ports_of[f"socket:[{words[9]}]"] = int(words[1].rpartition(":")[2], 16)
    found = set()
    with suppress(FileNotFoundError):  # the process ended
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                found.add(str(file.readlink()))
    return {port for name, port in ports_of.items() if name in found}
