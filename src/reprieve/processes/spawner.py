"""Commands that run until they end or are stopped, each below a warden."""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from reprieve.processes.oom import OomWatch
from reprieve.processes.session import ProcessExit, SessionProcess, WardenOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOG: Final = logging.getLogger("reprieve.processes")
_ORPHAN_GRACE_SECONDS: Final = 5.0
"""A worker whose pool was killed can release its claims in this time; then its whole tree is killed."""
_SECONDS_BETWEEN_COUNTS: Final = 1.0
"""The counter of the OOM killer is compared with the last look but one. It rises while the killed process still gives
its memory back, but may also have risen long before, for another process."""


class SubprocessSpawner:
    """Starts commands on this machine."""

    def __init__(self, *, memory: OomWatch | None = None) -> None:
        self._memory = OomWatch() if memory is None else memory

    def start(self, command: Sequence[str]) -> ChildProcess:
        """Start one, with our environment and output and an empty input; OSError where the system has no room for it."""
        options = WardenOptions(orphan_grace_seconds=_ORPHAN_GRACE_SECONDS)
        return ChildProcess(SessionProcess(command, options=options), self._memory)


class ChildProcess:
    """A process that was started, in a session of its own: a terminal's Ctrl-C does not reach it."""

    def __init__(self, process: SessionProcess, memory: OomWatch) -> None:
        self._process, self._memory = process, memory
        self._killed = False
        self._exit: ProcessExit | None = None

    @property
    def pid(self) -> int:
        """Its number; 0 until it runs, or where it could not be executed."""
        return self._process.pid

    async def wait(self) -> ProcessExit:
        """Return how it ended, once it has; may be called again."""
        older = newer = self._memory.count()
        while self._exit is None:
            await asyncio.wait([self._process.exited], timeout=_SECONDS_BETWEEN_COUNTS)
            if self._process.exited.done():
                found = self._process.exited.result()
                if found.start_error is not None:
                    _LOG.error("a process could not be started: %s", found.start_error)
                by_others = found.code == -signal.SIGKILL and not self._killed
                oom = found.out_of_memory or (by_others and self._memory.rose(older))
                self._exit = replace(found, out_of_memory=oom)
            else:
                older, newer = newer, self._memory.count()
        return self._exit

    def terminate(self) -> None:
        """Ask it to end; nothing where it has."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill it now, with everything that it started; nothing where it has ended."""
        self._killed = True
        self._process.kill()
