"""What processes have used, read from /proc."""

from __future__ import annotations

import os
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
        _seconds(fields[OWN] + fields[REAPED]) for fields in _stats().values() if int(fields[SESSION]) in leaders
    )


def of_server(pid: int, *, besides: int) -> float:
    """Seconds of a server and its children, those that have ended included, but for one that only serves the bench."""
    stats = _stats()
    children = [own for child, own in stats.items() if int(own[PARENT]) == pid and child != besides]
    return _seconds(stats[pid][OWN] + stats[pid][REAPED]) + sum(_seconds(own[OWN]) for own in children)


def peak_memory(pid: int) -> int:
    """The most bytes that a process has had in memory at once."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)
