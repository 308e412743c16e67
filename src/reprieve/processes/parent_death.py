"""Dying with the parent, however it dies; standard library only, as it runs before anything else does.

As a script, `parent.py PID COMMAND...`, it becomes the command, which is then sent SIGTERM when the parent is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_SECONDS_BETWEEN_LOOKS = 0.5


def exit_with_parent(parent: int, signal_number: int) -> None:
    """Have this process sent the signal when its parent is gone; at once if it already is."""
    if sys.platform != "linux" or not _ask_the_kernel(signal_number):
        threading.Thread(target=_look_out_for, args=(parent, signal_number), daemon=True).start()
    elif os.getppid() != parent:
        os.kill(os.getpid(), signal_number)


def _ask_the_kernel(signal_number: int) -> bool:
    import ctypes  # noqa: PLC0415 - costs milliseconds, and is for Linux alone

    return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0) == 0)


def _look_out_for(parent: int, signal_number: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os.kill(os.getpid(), signal_number)


if __name__ == "__main__":
    exit_with_parent(int(sys.argv[1]), signal.SIGTERM)
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - the command is the caller's own
