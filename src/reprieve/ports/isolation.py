"""Work that runs in a process of its own, where it can be killed for real and can take nothing down with it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Protocol

from reprieve.errors import ReprieveError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reprieve.core.failure import Failure
    from reprieve.ports.intents import Material

    Judgement = tuple[Failure, str] | tuple[Failure, str, Material | None]


class IsolatedError(ReprieveError):
    """The work raised, in its own process, where its exception was judged; nothing of that exception travels but this."""

    def __init__(self, failure: Failure, stack: str, material: Material | None = None) -> None:
        """Keep the verdict, the sanitized stack, and what a reviewer needs where there is something."""
        super().__init__(f"{failure.error_class}: {failure.message}")
        self.failure = failure
        self.stack = stack
        self.material = material

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, which calls the constructor with `args` otherwise."""
        return (IsolatedError, (self.failure, self.stack, self.material))


class ChildDiedError(ReprieveError):
    """The process ended before the work did, and not because we ended it."""

    def __init__(self, exit_code: int, *, out_of_memory: bool = False) -> None:
        """Take the code as `subprocess` has it: negative where a signal ended it."""
        cause = " as the machine was out of memory" if out_of_memory else ""
        super().__init__(f"the process {ended(exit_code)}{cause} before its work was done")
        self.exit_code = exit_code
        self.out_of_memory = out_of_memory

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, which knows no keywords otherwise."""
        return (_rebuild_child_died, (self.exit_code, self.out_of_memory))


def _rebuild_child_died(exit_code: int, out_of_memory: bool) -> ChildDiedError:  # noqa: FBT001 - pickling has no keywords
    return ChildDiedError(exit_code, out_of_memory=out_of_memory)


def ended(exit_code: int) -> str:
    """How a process ended, as a clause for a message."""
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    try:
        return f"was ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was ended by signal {-exit_code}"


class Isolator(Protocol):
    """Runs plain functions in child processes that are spawned, never forked."""

    async def call(
        self,
        function: Callable[..., object],
        arguments: tuple[object, ...],
        *,
        timeout: float | None,  # noqa: ASYNC109 - the work is killed then, not merely no longer awaited
        judge: Callable[[BaseException], Judgement],
    ) -> object:
        """Call it there and return what it returns; arguments and result travel as copies, made by pickle.

        The function is found by its module and qualified name, also behind decorators that set `__wrapped__`. `judge`
        has to be picklable; it turns an exception into its verdict, its sanitized stack and what a reviewer needs where it was
        raised, which are raised here as `IsolatedError`. A process that dies is a `ChildDiedError`, or a MemoryError where not even
        judging one was possible; what cannot travel or be found is a `UsageError`. After `timeout` seconds, counted
        from when a process has the work, or when the caller is cancelled, the process is killed together with all that
        it started in its session; only then does this raise TimeoutError or CancelledError.
        """
        ...

    async def close(self) -> None:
        """End all processes, also those that have work; may be called twice."""
        ...
