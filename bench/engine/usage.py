"""What processes have used, read from /proc."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
PARENT, SESSION, OWN, REAPED = 1, 3, slice(11, 13), slice(13, 15)
"""Where it stands after the name: `man 5 proc`."""


def _stats() -> dict[int, list[str]]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has just ended
            continue
        found[int(path.parent.name)] = text.rpartition(")")[2].split()
    return found


def _seconds(fields: list[str]) -> float:
    return sum(int(field) for field in fields) / TICK


def of_sessions(leaders: set[int]) -> float:
    """Seconds of the processor of these sessions' processes, and of children that have ended."""
    return sum(
        _seconds(fields[REAPED]) + _of_process(pid, fields)
        for pid, fields in _stats().items()
        if int(fields[SESSION]) in leaders
    )


def of_server(pid: int, *, besides: int) -> float:
    """Seconds of a server and its children, those that have ended included, but for one that only serves the bench."""
    stats = _stats()
    running = [child for child, own in stats.items() if int(own[PARENT]) == pid and child != besides]
    return _seconds(stats[pid][REAPED]) + sum(_of_process(each, stats[each]) for each in (pid, *running))


def _of_process(pid: int, fields: list[str]) -> float:
    """Seconds of a process: to the nanosecond for threads that still run, or in ticks.

    Neither number is too large: ticks leave out the last part of a tick, nanoseconds leave out ended threads.
    """
    nanoseconds = 0
    try:
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            nanoseconds += int(path.read_text(encoding="ascii").split()[0])
    except OSError:  # it has just ended
        pass
    return max(nanoseconds / 1e9, _seconds(fields[OWN]))


@dataclass(frozen=True, slots=True)
class Reading:
    """Seconds of the processor up to a moment."""

    server: float
    own: float


@dataclass(frozen=True, slots=True)
class Meter:
    """Counts the processor's seconds of this process, and of a PostgreSQL server if one is given."""

    server_pid: int | None = None

    def start(self) -> Reading:
        """Read both; the server first, since reading it costs this process time."""
        server = self._server()
        return Reading(server, time.process_time())

    def since(self, start: Reading) -> float:
        """Return the seconds of both since then."""
        own = time.process_time() - start.own
        return own + self._server() - start.server

    def _server(self) -> float:
        return 0.0 if self.server_pid is None else of_server(self.server_pid, besides=0)


def peak_memory(pid: int) -> int:
    """The most bytes that a process has had in memory at once."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)
