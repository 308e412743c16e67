"""What every upstream shares: a loopback port, a thread a connection, and an end that leaves nothing behind."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import TYPE_CHECKING, Self

from reprieve.errors import ReprieveError, UsageError
from reprieve.testing.wire import ClientGoneError, Wire

if TYPE_CHECKING:
    from types import TracebackType

HOST = "127.0.0.1"
_JOIN_SECONDS = 5.0


class Upstream:
    """A server on a loopback port of its own, for `with` and `async with`; subclasses say what it speaks."""

    def __init__(self, *, longest: float = 30.0) -> None:
        """Take the longest time in seconds that any wait on a connection may last."""
        if longest <= 0:
            raise UsageError(f"longest must be above 0 seconds, not {longest!r}")
        self.longest = longest
        self._listener: socket.socket | None = None
        self._waker: socket.socket | None = None
        self._acceptor: threading.Thread | None = None
        self._changed = threading.Condition()
        self._wires: dict[threading.Thread, Wire] = {}
        self._accepted = 0

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._listener is None:
            raise UsageError(f"this {type(self).__name__} is not started: use it in a `with` block or call start()")
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def connections(self) -> int:
        """How many connections were accepted so far."""
        with self._changed:
            return self._accepted

    def start(self) -> Self:
        """Listen; returns itself."""
        if self._listener is not None:
            raise UsageError(f"this {type(self).__name__} is already started")
        self._listener = socket.create_server((HOST, 0), backlog=128)
        woken, self._waker = socket.socketpair()
        self._acceptor = threading.Thread(
            target=self._accept, args=(self._listener, woken), name="reprieve-upstream", daemon=True
        )
        self._acceptor.start()
        return self

    def stop(self) -> None:
        """Close the port and every connection, and wait until their threads have ended; safe to call twice."""
        if self._listener is None or self._waker is None or self._acceptor is None:
            return
        self._waker.close()
        self._acceptor.join(_JOIN_SECONDS)
        self._listener.close()
        self._listener = None
        with self._changed:
            remaining = dict(self._wires)
        for wire in remaining.values():
            wire.interrupt()
        for thread in remaining:
            thread.join(_JOIN_SECONDS)
            if thread.is_alive():
                raise ReprieveError(f"{thread.name} did not end within {_JOIN_SECONDS} s of being stopped")

    def _accept(self, listener: socket.socket, woken: socket.socket) -> None:
        with woken, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            while all(key.fileobj is not woken for key, _ in selector.select()):
                with contextlib.suppress(ConnectionError):  # the client left before it was accepted
                    self._begin(listener.accept()[0])

    def _begin(self, connection: socket.socket) -> None:
        wire = Wire(connection, longest=self.longest)
        thread = threading.Thread(target=self._run, args=(wire,), name="reprieve-connection", daemon=True)
        with self._changed:
            self._accepted += 1
            self._wires[thread] = wire
        thread.start()

    def _run(self, wire: Wire) -> None:
        try:
            self._serve(wire)
        except (ClientGoneError, OSError):
            # The client left, or refused our certificate: its side of the story is the one that tests assert.
            pass
        finally:
            wire.close()
            with self._changed:
                self._wires.pop(threading.current_thread(), None)
                self._changed.notify_all()

    def _serve(self, wire: Wire) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
