"""The last output of a worker: always drained, kept in part, shown without secrets."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Final

from reprieve.app.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_OUTPUT_BYTES: Final = 64 * 1024
_KEPT_BYTES: Final = MAX_OUTPUT_BYTES + 16 * 1024
"""More than is shown, so that a secret of several lines is still found whole at the cut."""
_READ_BYTES: Final = 65_536


class PipeReader:
    """Reads one end of a pipe in the event loop until it is closed, and hands the data on."""

    def __init__(self, receive: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._receive = receive
        self._read_end, self.write_end = os.pipe()
        """The other end is for the process, and is closed by `hand_over`."""
        os.set_blocking(self._read_end, False)
        self._is_open = True
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._read_end, self._read)

    def hand_over(self) -> None:
        """Close our copy of the writing end, once the process has its own."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        """Stop reading."""
        self.hand_over()
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._read_end)
            os.close(self._read_end)
            if not self.closed.done():
                self.closed.set_result(None)

    def drain(self) -> None:
        """Take what is in the pipe now, and stop reading."""
        while self._is_open:
            try:
                data = os.read(self._read_end, _READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                break
            self._receive(data)
        self.close()

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._read_end, _READ_BYTES)
            if data:
                self._receive(data)
            else:
                self.close()


class OutputTail:
    """Keeps the end of what is written."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._is_cut = False

    def receive(self, data: bytes) -> None:
        """Add output, and forget the oldest where there is too much."""
        self._kept += data
        if len(self._kept) > 2 * _KEPT_BYTES:
            del self._kept[:-_KEPT_BYTES]
            self._is_cut = True

    def text(self) -> str:
        """Return the last 64 KiB without secrets. A first line (or word) that was cut is left out."""
        kept, is_cut = bytes(self._kept), self._is_cut
        if len(kept) > _KEPT_BYTES:
            kept, is_cut = kept[-_KEPT_BYTES:], True
        if is_cut:
            whole = kept.find(b"\n") if b"\n" in kept else kept.find(b" ")
            kept = kept[whole + 1 :] if whole >= 0 else b""
        clean = redact(kept.decode("utf-8", errors="replace")).replace("\0", "\ufffd")
        data = clean.encode("utf-8", errors="replace")
        return data[-MAX_OUTPUT_BYTES:].decode("utf-8", errors="ignore")
