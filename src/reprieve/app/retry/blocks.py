"""The block form: a loop whose turns are attempts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from reprieve.app.retry.decorate import limit, require_plain
from reprieve.app.retry.nesting import place_of_block
from reprieve.app.retry.trial import Trial
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from asyncio import Timeout
    from collections.abc import AsyncIterator, Iterator
    from types import FrameType, TracebackType

    from reprieve.app.retry.settings import Settings
    from reprieve.core.failure import Failure


class Attempts:
    """Iterate over it for attempts; each iteration is a retried call of its own, so it may be kept and shared."""

    __slots__ = ("_checked", "_settings")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._checked = False

    def __iter__(self) -> Iterator[Attempt]:
        """Attempts for `for attempt in ...: with attempt: ...`."""
        if not self._checked:
            require_plain(self._settings, "a block of `for attempt in attempts(...)`")
            self._checked = True
        return Attempt(self._settings)

    def __aiter__(self) -> AsyncIterator[AsyncAttempt]:
        """Attempts for `async for attempt in ...: async with attempt: ...`."""
        return AsyncAttempt(self._settings)


class _Turn:
    """What both kinds of attempt know; the same object serves every turn of its loop."""

    __slots__ = ("_entered", "_over", "_settings", "_started", "_trial", "number")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._started = settings.clock.monotonic()
        self._trial: Trial | None = None
        self._entered = True
        self._over = False
        self.number = 0
        """Which attempt this is, from 1."""

    @property
    def failure(self) -> Failure | None:
        """How the attempt before this one failed; None in the first."""
        return None if self._trial is None else self._trial.failure

    def _next(self) -> bool:
        """Begin another turn unless the loop is over."""
        if self._over:
            return False
        if not self._entered:
            raise UsageError("the loop's body must be inside `with attempt:`, or its failures would not be seen")
        self._entered = False
        self.number += 1
        return True

    def _failing(self, frame: FrameType) -> Trial:
        if self._trial is None:
            self._trial = Trial(self._settings, place_of_block(frame, self._settings.stage), self._started)
        return self._trial


class Attempt(_Turn):
    """One attempt: `with attempt:` around the work."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Self:
        """Wait until the attempt is due."""
        if not self._next():
            raise StopIteration
        if self._trial is not None:
            self._trial.wait()
        return self

    def __enter__(self) -> Self:
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> bool:
        """Swallow a failure that another attempt follows."""
        if isinstance(error, Exception):
            survives = self._failing(sys._getframe(1)).survives(error)  # noqa: SLF001 - the only way to the caller's name
            self._over = not survives
            return survives
        self._over = True
        if error is None and self._trial is not None:
            self._trial.recovered()
        return False


class AsyncAttempt(_Turn):
    """One attempt: `async with attempt:` around the work."""

    __slots__ = ("_limit",)

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._limit: Timeout | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Self:
        """Wait until the attempt is due."""
        if not self._next():
            raise StopAsyncIteration
        if self._trial is not None:
            await self._trial.wait_async()
        return self

    async def __aenter__(self) -> Self:
        self._entered = True
        if self._settings.timeout is not None:
            self._limit = limit(self._settings, self._started)
            await self._limit.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> bool:
        """Swallow a failure that another attempt follows."""
        if self._limit is not None:
            try:
                await self._limit.__aexit__(kind, error, traceback)
            except TimeoutError as expired:
                if await self._survives(expired, sys._getframe(1)):  # noqa: SLF001 - the only way to the caller's name
                    return True
                raise
        if isinstance(error, Exception):
            return await self._survives(error, sys._getframe(1))  # noqa: SLF001 - the same
        self._over = True
        if error is None and self._trial is not None:
            await self._trial.recovered_async()
        return False

    async def _survives(self, error: Exception, frame: FrameType) -> bool:
        survives = await self._failing(frame).survives_async(error)
        self._over = not survives
        return survives
