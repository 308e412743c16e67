"""The program of a child process: take a call, answer it, wait for the next one; end when the pipe closes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

from reprieve.errors import UsageError
from reprieve.processes.ipc import (
    HEADER,
    NO_MEMORY,
    FrameKind,
    frame,
    import_function,
    main_module,
    pickled,
    told,
    unpickled,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType

    Judge = Callable[[BaseException], object]

loading_main = False
"""Whether this child is running its parent's script, to find what is defined there."""


def serve(descriptor: int, main_name: str | None, main_path: str | None) -> None:
    """Answer calls until the parent closes the pipe."""
    own = os.getpid()
    _leave_signals_to_the_parent(own)
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - positional only
    main = _main_of_the_parent(main_name, main_path)
    with socket.socket(fileno=descriptor) as connection:
        connection.sendall(frame(FrameKind.READY))
        while (request := _receive(connection)) is not None:
            answer = _answered(*request, main)
            with contextlib.suppress(OSError, ValueError):  # its reader is gone, or the stage closed it
                sys.stdout.flush()
            if os.getpid() != own:
                os._exit(0)  # a process that the function forked came back too; only one of them may answer
            connection.sendall(answer)
            del request, answer  # an idle child should not hold a large result


def _leave_signals_to_the_parent(own: int) -> None:
    """Ignore SIGINT and SIGTERM: the parent gets them too, and decides what becomes of running work.

    A process that the work forks has to end on these signals, so it starts with the handlers that were there before. A
    handler of Python's own would lose a signal that arrives during the fork.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    put_back: list[signal.Signals] = []

    def ignore(number: int, _: FrameType | None) -> None:
        if os.getpid() != own:  # forked from a thread, where handlers cannot be put back
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def give_back() -> None:
        if threading.current_thread() is threading.main_thread():
            put_back.extend(number for number in before if signal.getsignal(number) is ignore)
            for number in put_back:
                signal.signal(number, before[number])

    def take_again() -> None:
        while put_back:
            signal.signal(put_back.pop(), ignore)

    for number in before:
        signal.signal(number, ignore)
    os.register_at_fork(before=give_back, after_in_parent=take_again)


def _main_of_the_parent(name: str | None, path: str | None) -> Callable[[], ModuleType]:
    """Return what loads the parent's main module. Its script is run here, under another name, at the first use."""

    def load() -> ModuleType:
        global loading_main  # noqa: PLW0603 - asked by those who must not start anything then
        from multiprocessing import spawn  # noqa: PLC0415 - needed for scripts alone

        if name is not None or path is not None:
            loading_main = True
            try:
                spawn.prepare({"init_main_from_name": name} if name is not None else {"init_main_from_path": path})
            finally:
                loading_main = False
        return main_module()

    return load


def _receive(connection: socket.socket) -> tuple[bytearray, bytearray] | None:
    parts = []
    for _ in (FrameKind.JUDGE, FrameKind.WORK):
        header = _exactly(connection, HEADER.size)
        body = None if header is None else _exactly(connection, HEADER.unpack(header)[1])
        if body is None:
            return None
        parts.append(body)
    return parts[0], parts[1]


def _exactly(connection: socket.socket, size: int) -> bytearray | None:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        count = connection.recv_into(view)
        if count == 0:
            return None
        view = view[count:]
    return buffer


def _answered(judge_data: bytearray, work_data: bytearray, main: Callable[[], ModuleType]) -> bytes:
    """Call the function and return a frame with its result, its failure or the refusal."""
    try:
        try:
            judge = unpickled(judge_data, main)
        except Exception as error:
            raise UsageError(f"the judge cannot be loaded in another process: {told(error)}") from error
        return _called(work_data, main, judge)
    except UsageError as refusal:
        return frame(FrameKind.REFUSED, str(refusal).encode(errors="replace"))


def _called(work_data: bytearray, main: Callable[[], ModuleType], judge: Judge) -> bytes:
    try:
        route, arguments = unpickled(work_data, main)
        function = import_function(route, main)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"function or arguments cannot be loaded in another process: {told(error)}") from error
    except Exception as error:  # noqa: BLE001 - the module's own code failed
        return _judged(error, judge)
    try:
        result = function(*arguments)
    except (SystemExit, KeyboardInterrupt):
        raise  # the process ends as it would have anywhere
    except BaseException as error:  # noqa: BLE001 - whatever a stage may raise
        return _judged(error, judge)
    try:
        return frame(FrameKind.RETURNED, pickled(result, f"the result of {route[0]}.{route[1]}"))
    except MemoryError as error:
        return _judged(error, judge)


def _judged(error: BaseException, judge: Judge) -> bytes:
    try:
        return frame(FrameKind.FAILED, pickled(judge(error), "a verdict"))
    except MemoryError:
        os._exit(NO_MEMORY)
    except BaseException as problem:
        raise UsageError(f"a {type(error).__name__} could not be judged: {told(problem)}") from problem
