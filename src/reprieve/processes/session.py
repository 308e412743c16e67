"""Starting processes that lead a session of their own, noticing at once that one has ended, and ending it for sure."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class SessionProcess:
    """A process in a session of its own, so that a terminal's Ctrl-C does not reach it and its helpers end with it.

    It is bound to the event loop that it was started in, and to the thread of that loop: the kernel tells a child of
    its parent's death when that thread ends.
    """

    def __init__(self, command: Sequence[str], *, descriptors: Sequence[int] = ()) -> None:
        """Start it, its standard input empty, its output ours."""
        self._process = subprocess.Popen(  # noqa: S603 - the command is ours
            command, stdin=subprocess.DEVNULL, pass_fds=descriptors, start_new_session=True
        )
        self.pid = self._process.pid
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = loop.create_future()
        """The exit code as `subprocess` has it."""
        # A thread, as it waits the same way on every system; it only looks, so that the number stays the process's own.
        threading.Thread(target=_await_end, args=(self._process, loop, self._ended), daemon=True).start()

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if not self.exited.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it now, with everything in its session's group."""
        if not self.exited.done():
            self._kill_group()

    def _kill_group(self) -> None:
        # PermissionError: macOS says so of a group in which only the ended process is left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _ended(self) -> None:
        self._kill_group()  # before its number is given away
        self.exited.set_result(self._process.wait())


def _await_end(process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
    if hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):  # somebody ignores SIGCHLD: it has ended, and nobody knows how
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
        loop.call_soon_threadsafe(ended)
