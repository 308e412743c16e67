"""Commands run as children that are asked to end when we die."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.processes import parent_death
from reprieve.processes.oom import OomWatch
from reprieve.processes.session import SessionProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECONDS_BETWEEN_COUNTS: Final = 1.0
"""The counter of the OOM killer is compared with the last look but one: it rises while the killed process is still
giving its memory back, but may also have risen long before, for another."""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a process ended."""

    code: int
    """As `subprocess` has it: negative where a signal ended it."""
    out_of_memory: bool = False
    """The system killed it for want of memory; false where that cannot be known."""


class SubprocessSpawner:
    """Starts commands on this machine."""

    def __init__(self, *, memory: OomWatch | None = None) -> None:
        self._memory = OomWatch() if memory is None else memory

    def start(self, command: Sequence[str]) -> ChildProcess:
        """Start one, with our environment and output and an empty input."""
        return ChildProcess(SessionProcess(_bound_to_us(command)), self._memory)


class ChildProcess:
    """One of them."""

    def __init__(self, started: SessionProcess, memory: OomWatch) -> None:
        self._started, self._memory = started, memory
        self._killed = False
        self._exit: ProcessExit | None = None

    @property
    def pid(self) -> int:
        """Its number."""
        return self._started.pid

    async def wait(self) -> ProcessExit:
        """How it ended, once it has."""
        older = newer = self._memory.count()
        while self._exit is None:
            await asyncio.wait([self._started.exited], timeout=_SECONDS_BETWEEN_COUNTS)
            if self._started.exited.done():
                code = self._started.exited.result()
                by_others = code == -signal.SIGKILL and not self._killed
                self._exit = ProcessExit(code, out_of_memory=by_others and self._memory.rose(older))
            else:
                older, newer = newer, self._memory.count()
        return self._exit

    def terminate(self) -> None:
        """Ask it to end."""
        self._started.signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it now."""
        self._killed = True
        self._started.kill()


def _bound_to_us(command: Sequence[str]) -> list[str]:
    """The same, preceded by asking the kernel for SIGTERM when we die; what it is asked for survives the exec."""
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", parent_death.__file__, str(os.getpid()), *command]
