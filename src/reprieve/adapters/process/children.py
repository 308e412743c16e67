"""Commands run as children that are asked to end when we die."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from reprieve.adapters.process import parent
from reprieve.adapters.process.exits import Started
from reprieve.adapters.process.memory import OomWatch
from reprieve.ports.processes import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECONDS_BETWEEN_COUNTS: Final = 1.0
"""The counter of the OOM killer is compared with the last look but one: it rises while the killed process is still
giving its memory back, but may also have risen long before, for another."""


class Children:
    """The `Processes` of this machine."""

    def __init__(self, *, memory: OomWatch | None = None) -> None:
        self._memory = OomWatch() if memory is None else memory

    def start(self, command: Sequence[str]) -> Child:
        """Start one, with our environment and output and an empty input."""
        return Child(Started(_bound_to_us(command)), self._memory)


class Child:
    """One of them."""

    def __init__(self, started: Started, memory: OomWatch) -> None:
        self._started, self._memory = started, memory
        self._killed = False
        self._exit: Exit | None = None

    @property
    def pid(self) -> int:
        """Its number."""
        return self._started.pid

    async def wait(self) -> Exit:
        """How it ended, once it has."""
        older = newer = self._memory.count()
        while self._exit is None:
            await asyncio.wait([self._started.exited], timeout=_SECONDS_BETWEEN_COUNTS)
            if self._started.exited.done():
                code = self._started.exited.result()
                by_others = code == -signal.SIGKILL and not self._killed
                self._exit = Exit(code, out_of_memory=by_others and self._memory.rose(older))
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
    return [sys.executable, "-I", "-S", parent.__file__, str(os.getpid()), *command]
