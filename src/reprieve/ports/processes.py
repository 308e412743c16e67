"""Commands that are started and watched over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended."""

    code: int
    """As `subprocess` has it: negative where a signal ended it."""
    out_of_memory: bool = False
    """The system killed it for want of memory; false where that cannot be known."""


class Process(Protocol):
    """A process that was started, in a session of its own: a terminal's Ctrl-C does not reach it."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    async def wait(self) -> Exit:
        """How it ended, once it has; may be asked again."""
        ...

    def terminate(self) -> None:
        """Ask it to end; nothing where it has."""
        ...

    def kill(self) -> None:
        """End it now, with what it started in its session; nothing where it has ended."""
        ...


class Processes(Protocol):
    """What starts them."""

    def start(self, command: Sequence[str]) -> Process:
        """Start one, to be asked to end when we die; OSError where the system has no room for it."""
        ...
