"""What a job remembers in one stage: each key made once, kept durably, and found again by the next attempt."""

from __future__ import annotations

from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from reprieve.errors import Misfit, UsageError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine

    from reprieve.app.pipeline.job import Memory
    from reprieve.app.pipeline.values import TypeCodec

T = TypeVar("T")

_being_made: ContextVar[frozenset[tuple[int, str]]] = ContextVar("_being_made", default=frozenset())
"""Whose keys are being made further up, by the id of their memos."""


class Elsewhere:
    """Stands for the memory of a job that has come from another process."""

    @property
    def loop(self) -> NoReturn:
        """There is none here."""
        raise UsageError("this job was sent to another process, where it can remember nothing: do it in a stage before")

    async def load(self) -> NoReturn:
        """Never called: the loop is asked for first."""
        raise NotImplementedError

    async def keep(self, key: str, value: bytes) -> NoReturn:
        """Never called: the same."""
        raise NotImplementedError


class Memos:
    """The memos of a job at its present stage; everything but `make` in a plain stage happens in the worker's loop."""

    __slots__ = ("_kept", "_loading", "_memory", "_turns")

    def __init__(self, memory: Memory | None, *, fresh: bool) -> None:
        import asyncio  # noqa: PLC0415 - importing the package does not load it

        self._memory = memory
        self._kept: dict[str, bytes] | None = {} if fresh or memory is None else None
        self._loading = asyncio.Lock()
        self._turns: dict[str, asyncio.Lock] = {}

    def require_async(self) -> None:
        """Refuse a caller who could not await."""
        here = _running_loop()
        if here is None:
            raise UsageError("a plain function cannot await job.remember: call job.remember_blocking")
        if self._memory is not None and self._memory.loop is not here:
            raise UsageError("job.remember belongs to the worker's event loop, and this is another one")

    def require_plain(self) -> None:
        """Refuse a caller whose event loop would stand still."""
        if _running_loop() is not None:
            raise UsageError("job.remember_blocking would stop the event loop: await job.remember")
        if self._memory is not None:
            _ = self._memory.loop

    async def remember(self, key: str, make: Callable[[], object], codec: TypeCodec[T]) -> T:
        """Find the memo or make it."""
        turn = await self._take_turn(key)
        try:
            data = await self._find(key)
            if data is None:
                with _Making(self, key):
                    value = make()
                    if isawaitable(value):
                        value = await value
                data = await self._keep(key, codec.encode(value, f"what is remembered as {key!r}"))
        finally:
            turn.release()
        return _read(key, data, codec)

    def remember_blocking(self, key: str, make: Callable[[], object], codec: TypeCodec[T]) -> T:
        """The same from a thread."""
        turn = self._wait(self._take_turn(key))
        try:
            data = self._wait(self._find(key))
            if data is None:
                with _Making(self, key):
                    value = make()
                    if isawaitable(value):
                        value = self._wait(_awaited(value))
                data = self._wait(self._keep(key, codec.encode(value, f"what is remembered as {key!r}")))
        finally:
            if self._memory is None:
                turn.release()
            else:
                self._memory.loop.call_soon_threadsafe(turn.release)
        return _read(key, data, codec)

    async def _take_turn(self, key: str) -> asyncio.Lock:
        import asyncio  # noqa: PLC0415 - the same

        if (id(self), key) in _being_made.get():
            raise UsageError(f"what is remembered as {key!r} asks for itself while it is made")
        turn = self._turns.setdefault(key, asyncio.Lock())
        await turn.acquire()
        return turn

    async def _find(self, key: str) -> bytes | None:
        async with self._loading:
            if self._kept is None:
                self._kept = {} if self._memory is None else dict(await self._memory.load())
        return self._kept.get(key)

    async def _keep(self, key: str, data: bytes) -> bytes:
        if self._memory is not None:
            await self._memory.keep(key, data)
        if self._kept is not None:
            self._kept[key] = data
        return data

    def _wait(self, step: Coroutine[Any, Any, T]) -> T:
        import asyncio  # noqa: PLC0415 - the same

        if self._memory is None:
            return asyncio.run(step)
        return asyncio.run_coroutine_threadsafe(step, self._memory.loop).result()


class _Making:
    """Marks a key as being made, for what is called meanwhile."""

    __slots__ = ("_mark", "_token")

    def __init__(self, memos: Memos, key: str) -> None:
        self._mark = (id(memos), key)

    def __enter__(self) -> None:
        self._token = _being_made.set(_being_made.get() | {self._mark})

    def __exit__(self, *_: object) -> None:
        _being_made.reset(self._token)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    import asyncio  # noqa: PLC0415 - the same

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _awaited(value: Awaitable[T]) -> T:
    return await value


def _read(key: str, data: bytes, codec: TypeCodec[T]) -> T:
    try:
        return codec.decode(data)
    except Misfit as misfit:
        problem = misfit.problem
    raise Misfit("", f"what is remembered as {key!r} {problem}")
