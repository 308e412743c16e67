"""A TCP proxy in front of a Redis: cuts connections, drops replies, and can speak TLS to its clients."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator


class RedisProxy:
    """Passes bytes on, until it is told otherwise."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._writers: set[asyncio.StreamWriter] = set()
        self.is_cut = False
        self.drops_reply_to: bytes = b""
        """The reply to the next command that holds this is lost, and its connection is closed."""
        self.dropped = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        if self.is_cut:
            writer.close()
            return
        upstream_reader, upstream_writer = await asyncio.open_unix_connection(self._path)
        self._writers |= {writer, upstream_writer}
        loses = asyncio.Event()

        async def forward() -> None:
            while data := await reader.read(65536):
                if self.drops_reply_to and self.drops_reply_to in data:
                    self.drops_reply_to = b""
                    loses.set()
                upstream_writer.write(data)
                await upstream_writer.drain()

        async def back() -> None:
            while data := await upstream_reader.read(65536):
                if loses.is_set():
                    self.dropped += 1
                    return
                writer.write(data)
                await writer.drain()

        tasks = [asyncio.create_task(forward()), asyncio.create_task(back())]
        with suppress(OSError):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in (writer, upstream_writer):
            self._writers.discard(each)
            each.close()

    def cut(self) -> None:
        """Close every connection and refuse new ones."""
        self.is_cut = True
        for each in list(self._writers):
            each.transport.abort()

    def mend(self) -> None:
        """Let clients connect again."""
        self.is_cut = False


@asynccontextmanager
async def redis_proxy(socket_path: str, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[RedisProxy]:
    """A proxy on a free loopback port."""
    proxy = RedisProxy(socket_path)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    proxy.url = f"redis{'s' if tls else ''}://127.0.0.1:{port}/0"
    try:
        yield proxy
    finally:
        proxy.cut()
        server.close()
        await asyncio.sleep(0.05)
