"""Named timeouts of async code: a block or a function is cancelled when its operation takes too long.

    async with reprieve.timeout_for("redis_command"):
        await redis.xadd(...)

How long it may take, and what follows an expiry, is data of the profile: `classify` calls it transient where
the action is `retry`, and permanent where it is `fail`, `cancel` or `kill`. `stop=` ends work that goes on
elsewhere: a workflow run, a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar, cast

from reprieve.app.profiles import resolve
from reprieve.core.timeouts import mark_timeout, require_outermost
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from reprieve.app.profiles import ProfileLike
    from reprieve.core.timeouts import OperationTimeout
    from reprieve.errors import OperationTimeoutError

F = TypeVar("F", bound="Callable[..., Any]")

DEFAULT_PROFILE: Final = "orchestrator"
STOP_SECONDS: Final = 10.0
"""How long `stop` may take; it is cancelled then."""


def timeout_for(
    operation: str, *, profile: ProfileLike = DEFAULT_PROFILE, stop: Callable[[], object] | None = None
) -> TimeLimit:
    """Limit an async block or function to the time that a profile gives to this operation.

    Raises `OperationTimeoutError` on expiry, after `stop` was called and awaited for at most 10 s. Of nested
    limits that expire together the outermost counts. A cancellation from outside is not an expiry: it passes
    through, and nothing is stopped.
    """
    if stop is not None and not callable(stop):
        raise UsageError(f"stop= takes a function without arguments that ends the work, not {stop!r}")
    return TimeLimit(operation_timeout(operation, profile), stop)


def operation_timeout(operation: str, profile: ProfileLike = DEFAULT_PROFILE) -> OperationTimeout:
    """The timeout of an operation, as a profile has it: seconds and action."""
    return _by_name(operation, profile) if isinstance(profile, str) else resolve(profile).timeout(operation)


# A block names its operation each time that it runs; a name always means the same.
@functools.lru_cache(maxsize=256)
def _by_name(operation: str, profile: str) -> OperationTimeout:
    return resolve(profile).timeout(operation)


class TimeLimit:
    """One use of a named timeout: for `async with`, or as a decorator of an async function."""

    __slots__ = ("_cancel_requests", "_limit", "_stop", "_task", "timeout")

    def __init__(self, timeout: OperationTimeout, stop: Callable[[], object] | None) -> None:
        self.timeout = timeout
        self._stop = stop
        self._limit: asyncio.Timeout | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancel_requests = 0

    def expired(self) -> bool:
        """Whether the time was over before the block was."""
        return self._limit is not None and self._limit.expired()

    def __call__(self, function: F, /) -> F:
        """Limit each call of an async function."""
        name = getattr(function, "__qualname__", None) or repr(function)
        if not inspect.iscoroutinefunction(function):
            raise UsageError(f"{name} is not an async function: {self._remedy()}")
        timeout, stop = self.timeout, self._stop
        require_outermost(f"{name} with the timeout of {timeout.name}", function, timeout.seconds)

        @functools.wraps(function)
        async def limited(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the signature is the wrapped one's
            async with TimeLimit(timeout, stop):
                return await function(*args, **kwargs)

        mark_timeout(limited, timeout)
        return cast("F", limited)

    async def __aenter__(self) -> Self:
        if self._limit is not None:
            raise UsageError("a time limit is used once: call timeout_for again for each block")
        self._task = asyncio.current_task()
        if self._task is None:
            raise UsageError("timeout_for cancels the task that it is used in, and this code runs in none")
        self._cancel_requests = self._task.cancelling()
        self._limit = asyncio.timeout(self.timeout.seconds)
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        assert self._limit is not None  # noqa: S101 - for the type checker: it was entered
        try:
            await self._limit.__aexit__(kind, error, traceback)
        except TimeoutError:
            pass  # raised by the limit alone: ours has expired
        else:
            if not self._failed_while_cancelled(error):
                return
        failure = await self._end_work()
        raise self._expiry(failure) from failure or error

    def _failed_while_cancelled(self, error: BaseException | None) -> bool:
        """Whether the block was cancelled by our expiry alone and raised something else on its way out."""
        assert self._task is not None  # noqa: S101 - for the type checker: it was entered
        by_us_alone = self.expired() and self._task.cancelling() <= self._cancel_requests
        return by_us_alone and isinstance(error, Exception)

    async def _end_work(self) -> Exception | None:
        """Call `stop`; gives back why it failed. A cancellation of this task waits until it is finished."""
        if self._stop is None:
            return None
        task = asyncio.create_task(_call(self._stop))
        give_up_at = asyncio.get_running_loop().time() + STOP_SECONDS
        cancelled: asyncio.CancelledError | None = None
        while not task.done() and (left := give_up_at - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.wait({task}, timeout=left)
            except asyncio.CancelledError as error:
                cancelled = error
        failure = _failure_of(task)
        if cancelled is not None:
            raise cancelled
        return failure

    def _expiry(self, failure: Exception | None) -> OperationTimeoutError:
        if failure is not None:
            return self.timeout.error(
                f"ending the work failed ({_told(failure)}), so it may go on; look, and end it by hand"
            )
        return self.timeout.error(self.timeout.unstopped if self._stop is None else "the work was ended")

    def __enter__(self) -> NoReturn:
        raise UsageError(f"a time limit is for `async with`: {self._remedy()}")

    def __exit__(self, *_: object) -> None:
        """Present so that `with` reaches `__enter__`, which says what to do."""

    def _remedy(self) -> str:
        return (
            f"plain code cannot be stopped from outside. Give its client a timeout of {self.timeout.seconds:g} s,"
            " make the function async, or declare a stage with"
            f' isolate="process" and operation={self.timeout.name!r}, which is killed'
        )


async def _call(stop: Callable[[], object]) -> None:
    called = stop()
    if inspect.isawaitable(called):
        await called


def _failure_of(task: asyncio.Task[None]) -> Exception | None:
    """Why a call of `stop` failed; one that is not over is cancelled, and not waited for."""
    if not task.done():
        task.cancel()
        task.add_done_callback(_retrieve)
        return TimeoutError(f"not done after {STOP_SECONDS:g} s")
    if task.cancelled():
        return RuntimeError("it was cancelled")
    error = task.exception()
    if error is not None and not isinstance(error, Exception):
        raise error
    return error


def _retrieve(task: asyncio.Task[None]) -> None:
    """Look at the end of a task that nothing awaits, which asyncio would report as never retrieved."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()


def _told(failure: Exception) -> str:
    from reprieve.app.redaction import redact  # noqa: PLC0415 - its rules wait for the first failure

    said = str(failure)
    return f"{type(failure).__name__}: {redact(said)}" if said else type(failure).__name__
