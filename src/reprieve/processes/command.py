"""A command that is limited by a named timeout and killed with its processes when the time is over."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from reprieve.processes.spawner import SubprocessSpawner
from reprieve.timeouts import DEFAULT_PROFILE, timeout_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reprieve.app.profiles import ProfileLike
    from reprieve.processes.session import ProcessExit

_SECONDS_TO_END: Final = 8.0
"""How long a killed process is waited for: less than a timeout gives to ending its work."""


class RunningCommand(Protocol):
    """A command that was started in a process group of its own."""

    async def wait(self) -> ProcessExit:
        """How it ended, once it has; may be asked again."""
        ...

    def kill(self) -> None:
        """End it now, with its group; nothing where it has ended."""
        ...


async def run_command(
    command: Sequence[str],
    *,
    operation: str = "provisioning",
    profile: ProfileLike = DEFAULT_PROFILE,
    start: Callable[[Sequence[str]], RunningCommand] | None = None,
) -> ProcessExit:
    """Run a command, for at most the time of its operation, with our environment and output and no input.

    Raises `OperationTimeoutError` when the time is over. The command is killed then with its processes, and also
    when the caller is cancelled, before this function raises. `start` replaces how it is started and killed.
    """
    process = (SubprocessSpawner().start if start is None else start)(command)
    try:
        async with timeout_for(operation, profile=profile, stop=partial(_end, process)):
            return await process.wait()
    except asyncio.CancelledError:
        await _end(process)
        raise


async def _end(process: RunningCommand) -> None:
    """Kill it, and go on when it is gone, so that a second try never runs beside it."""
    process.kill()
    async with asyncio.timeout(_SECONDS_TO_END):
        await process.wait()
