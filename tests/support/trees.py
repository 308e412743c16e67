"""Process trees that tests start and kill: a worker, its child, and a grandchild that left session and parent."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 30.0

GROW = """
import os, signal, subprocess, sys, time
from pathlib import Path

folder = Path(sys.argv[1])
if len(sys.argv) > 2:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(SLEEP)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        (folder / "escapee.new").write_text(str(os.getpid()))
        (folder / "escapee.new").rename(folder / "escapee")
        os.execv(SLEEP[0], SLEEP)
    os._exit(0)
os.wait()
(folder / "child").write_text(str(child.pid))
while not (folder / "escapee").exists():
    time.sleep(0.001)
(folder / "worker.new").write_text(str(os.getpid()))
(folder / "worker.new").rename(folder / "worker")
time.sleep(600)
"""
"""Arguments: a folder for the numbers of the processes, and anything to ignore SIGTERM."""

MEMBERS = ("worker", "child", "escapee")


def grow(folder: Path, *, ignores_sigterm: bool = False) -> list[str]:
    """Return the command of a worker that starts a child and an escaped grandchild."""
    return [sys.executable, "-S", "-c", GROW, str(folder), *(["ignore"] if ignores_sigterm else [])]


def until(condition: Callable[[], object], seconds: float = LIMIT) -> None:
    """Wait for what has to come. How long it takes decides nothing."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    """Return whether a process has ended; one that is not reaped yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def members_of(folder: Path) -> dict[str, int]:
    """Return the numbers of the tree's processes, once all of them run."""
    until((folder / "worker").exists)
    return {name: int((folder / name).read_text(encoding="utf-8")) for name in MEMBERS}


def survivors(members: dict[str, int], seconds: float = 5.0) -> set[str]:
    """Return the members that are still there after a while."""
    end = time.monotonic() + seconds
    while (left := {name for name, pid in members.items() if not is_gone(pid)}) and time.monotonic() < end:
        time.sleep(0.01)
    return left
