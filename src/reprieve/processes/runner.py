"""Run functions in child processes that are kept warm and can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reprieve.core.backoff import require_whole
from reprieve.errors import UsageError
from reprieve.ports.isolation import ChildDiedError, IsolatedError
from reprieve.processes import child_main
from reprieve.processes.ipc import (
    HEADER,
    NO_MEMORY,
    FrameKind,
    frame,
    function_path,
    main_module,
    pickled,
    told,
    unpickled,
)
from reprieve.processes.oom import OomWatch
from reprieve.processes.session import SessionProcess, WardenOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from reprieve.ports.isolation import Judgement

_KILLED: Final = -9
_MOST_CHILDREN: Final = 1000
_SECONDS_TO_START: Final = 60.0
_SECONDS_TO_END: Final = 2.0
"""For a child that was asked to leave, or that closed its pipe; then it is killed."""
_SECONDS_TO_DIE: Final = 10.0
"""For a child that was killed; one that hangs in the kernel for longer is left to it."""


class ChildProcessRunner:
    """Runs at most `limit` children at a time; more calls wait. It belongs to the event loop that it is used in."""

    def __init__(self, limit: int = 8, *, memory: OomWatch | None = None) -> None:
        """Start no child yet."""
        require_whole("limit", limit, 1, _MOST_CHILDREN)
        if child_main.loading_main:
            raise UsageError(
                "a script whose stages are isolated is run again in their processes, to find them:"
                " put what it does under `if __name__ == '__main__':`"
            )
        self._slots = asyncio.Semaphore(limit)
        self._memory = OomWatch() if memory is None else memory
        self._children: set[_PooledChild] = set()
        self._idle: list[_PooledChild] = []
        self._closed = False

    async def call(
        self,
        function: Callable[..., object],
        arguments: tuple[object, ...],
        *,
        timeout: float | None,  # noqa: ASYNC109 - the work is killed then, not merely no longer awaited
        judge: Callable[[BaseException], Judgement],
    ) -> object:
        """Call it in a child; see the port."""
        route = function_path(function)
        name = f"{route[0]}.{route[1]}"
        work = pickled((route, arguments), f"what {name} is called with")
        request = frame(FrameKind.JUDGE, pickled(judge, "the judge")) + frame(FrameKind.WORK, work)
        async with self._slots:
            child = await self._take()
            try:
                kind, body = await child.ask(request, timeout)
            except BaseException:
                await self._end(child)
                raise
            if self._closed:
                await self._end(child)
            else:
                self._idle.append(child)
        return _opened(kind, body, name)

    async def close(self) -> None:
        """End all children: the idle ones by closing their pipes, the others by SIGKILL."""
        self._closed = True
        for child in self._idle:
            child.stop()
        for child in self._children.difference(self._idle):
            child.process.kill()
        if self._children:
            await asyncio.wait([child.process.exited for child in self._children], timeout=_SECONDS_TO_END)
        for child in tuple(self._children):
            await self._end(child)
        self._idle.clear()

    async def _take(self) -> _PooledChild:
        while self._idle:
            child = self._idle.pop()
            if child.is_idle():
                return child
            await self._end(child)
        if self._closed:
            raise UsageError("this isolator is closed")
        child = _PooledChild(self._memory)
        self._children.add(child)
        try:
            await child.start()
        except BaseException:
            await self._end(child)
            raise
        return child

    async def _end(self, child: _PooledChild) -> None:
        """Kill it and wait until it is gone, so that a second attempt never runs beside it."""
        child.process.kill()
        try:
            await asyncio.wait([child.process.exited], timeout=_SECONDS_TO_DIE)
        finally:
            self._forget(child)

    def _forget(self, child: _PooledChild) -> None:
        self._children.discard(child)
        child.stop()


class _PooledChild:
    """One process and the pipe to it."""

    def __init__(self, memory: OomWatch) -> None:
        self._memory = memory
        self._pipe, theirs = socket.socketpair()
        self._pipe.setblocking(False)  # noqa: FBT003 - positional only
        with theirs:
            try:
                options = WardenOptions(descriptors=(theirs.fileno(),))
                self.process = SessionProcess(_command(theirs.fileno()), options=options)
            except BaseException:
                self._pipe.close()
                raise
        # A process that it forked may still hold the pipe: then only this shows the end.
        self.process.exited.add_done_callback(self._shut)

    async def start(self) -> None:
        """Wait until it can take a call."""
        await self.ask(b"", _SECONDS_TO_START)

    async def ask(self, request: bytes, timeout: float | None) -> tuple[FrameKind, bytearray]:  # noqa: ASYNC109 - as the port has it
        """Send a call and return the answer."""
        kills_before = self._memory.count()
        try:
            async with asyncio.timeout(timeout):
                await asyncio.get_running_loop().sock_sendall(self._pipe, request)
                kind, size = HEADER.unpack(await self._exactly(HEADER.size))
                return FrameKind(kind), await self._exactly(size)
        except (EOFError, ConnectionError):
            raise await self._death(kills_before) from None

    def is_idle(self) -> bool:
        """Whether it waits for work: it has not ended, also where its warden has not reported that yet."""
        if self.process.exited.done():
            return False
        try:
            self._pipe.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def stop(self) -> None:
        """Close the pipe, which ends an idle child."""
        self._pipe.close()

    async def _exactly(self, size: int) -> bytearray:
        loop = asyncio.get_running_loop()
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            count = await loop.sock_recv_into(self._pipe, view)
            if count == 0:
                raise EOFError
            view = view[count:]
        return buffer

    async def _death(self, kills_before: int | None) -> ChildDiedError | MemoryError:
        """Return how it ended. A child that closed its pipe and still runs is killed."""
        await asyncio.wait([self.process.exited], timeout=_SECONDS_TO_END)
        self.process.kill()
        exit_ = await asyncio.shield(self.process.exited)
        code = exit_.code
        if code == NO_MEMORY:
            return MemoryError("the process of the stage had no memory left, not even to say more")
        by_system = code == _KILLED and self._memory.rose(kills_before)
        return ChildDiedError(code, out_of_memory=exit_.out_of_memory or by_system)

    def _shut(self, _: object) -> None:
        with contextlib.suppress(OSError):  # closed before
            self._pipe.shutdown(socket.SHUT_RDWR)


def _command(descriptor: int) -> list[str]:
    """Build the command of a Python that finds the modules that this one finds, and serves the other end of the pipe."""
    main = main_module()
    name = getattr(getattr(main, "__spec__", None), "name", None)
    path = getattr(main, "__file__", None)
    path = None if path is None else str(Path(path).absolute())
    program = (
        f"import sys; sys.path[:] = {sys.path!r};"
        f" from {child_main.__name__} import serve; serve({descriptor}, {name!r}, {path!r})"
    )
    return [sys.executable, "-P", "-c", program]


def _opened(kind: FrameKind, body: bytearray, name: str) -> object:
    match kind:
        case FrameKind.RETURNED:
            try:
                return unpickled(body, main_module)
            except Exception as error:
                raise UsageError(f"the result of {name} cannot be read back: {told(error)}") from error
        case FrameKind.FAILED:
            raise IsolatedError(*unpickled(body, main_module))
        case _:
            raise UsageError(body.decode())
