"""Questions about processes that are not children of the test."""

import time
from pathlib import Path


def is_gone(pid, within=5.0):
    """Whether a process ends within so many seconds; a zombie has ended."""
    give_up_at = time.monotonic() + within
    while _is_running(pid):
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.01)
    return True


def _is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
