"""One accepted connection, and the ways to treat it badly."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl

_ABORT: Final = struct.pack("ii", 1, 0)
_LONGEST_LINE: Final = 65_536
_DRAIN_SECONDS: Final = 1.0


class ClientGoneError(Exception):
    """The client closed its side; there is nobody left to misbehave to."""


class Wire:
    """A connection's socket with a read buffer; every wait on it ends when the upstream stops."""

    def __init__(self, connection: socket.socket, *, longest: float) -> None:
        self._socket = connection
        self._buffer = bytearray()
        self._longest = longest
        self._interrupted = False
        connection.settimeout(longest)

    def start_tls(self, context: ssl.SSLContext) -> None:
        """Shake hands as a TLS server; whatever was buffered in the clear is dropped, as it must be."""
        self._buffer.clear()
        # In two steps, so that `interrupt` finds the new socket while the handshake still waits.
        connection = context.wrap_socket(self._socket, server_side=True, do_handshake_on_connect=False)
        self._socket = connection
        if self._interrupted:  # between the two steps: the old socket was woken, which nobody waits on any more
            raise ClientGoneError
        connection.do_handshake()

    def wait_for_handshake(self) -> None:
        """Block until the client has sent something, leaving it for the handshake."""
        if not self._socket.recv(1, socket.MSG_PEEK):
            raise ClientGoneError

    def first_byte(self) -> int:
        """The first byte of what comes next, which stays to be read."""
        if not self._buffer:
            self._fill()
        return self._buffer[0]

    def read_line(self) -> bytes:
        """One line without its end; a line that never ends is cut at 64 KiB."""
        while b"\n" not in self._buffer and len(self._buffer) < _LONGEST_LINE:
            self._fill()
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer[:] = rest
        return line.rstrip(b"\r")

    def read_exactly(self, count: int) -> bytes:
        """So many bytes."""
        while len(self._buffer) < count:
            self._fill()
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _fill(self) -> None:
        received = self._socket.recv(65_536)
        if not received:
            raise ClientGoneError
        self._buffer += received

    def send(self, data: bytes) -> None:
        """All of it."""
        if data:
            self._socket.sendall(data)

    def wait(self, seconds: float) -> None:
        """Say nothing for so long, dropping what comes in; ends early when the client or the upstream goes."""
        deadline = time.monotonic() + seconds
        try:
            while (left := deadline - time.monotonic()) > 0:
                self._socket.settimeout(left)
                if not self._socket.recv(65_536):
                    raise ClientGoneError
        except TimeoutError:
            pass
        finally:
            self._socket.settimeout(self._longest)

    def reset(self) -> None:
        """Abort the connection: the client sees an RST, not an end of file."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        self._socket.close()

    def hang_up(self) -> None:
        """End the connection properly: unread bytes are drained first, since closing over them would send an RST."""
        socket.socket.shutdown(self._socket, socket.SHUT_WR)
        with contextlib.suppress(ClientGoneError):
            self.wait(_DRAIN_SECONDS)
        self._socket.close()

    def interrupt(self) -> None:
        """Wake the thread that waits on this connection; called from another one."""
        self._interrupted = True
        # Not SSLSocket.shutdown, which would turn the socket back into a plain one under that thread's feet.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close()
