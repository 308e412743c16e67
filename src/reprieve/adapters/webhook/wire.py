"""One request and what was answered: names are resolved once and checked, and the answer is read only so far."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import httpcore2

from reprieve.adapters.webhook.targets import is_public, not_public, origin_of
from reprieve.errors import Permanent

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Mapping

    from reprieve.adapters.webhook.targets import Address

_MOST_READ: Final = 65_536
_BODY_SECONDS: Final = 2.0
"""How long to wait for the body of an answer whose status, which is what counts, is there."""
_IDLE_SECONDS: Final = 2.0
_REUSED: Final = 20
_NO_BODY: Final = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, TimeoutError)
_leaving: ContextVar[Callable[[], None] | None] = ContextVar("leaving", default=None)
"""To be called before the first byte of this task's request goes."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What was answered, its body as far as it was read; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Wire:
    """Speaks HTTP/1.1 with whatever host a URL names, through no proxy and no redirect."""

    def __init__(self, *, allow_private: bool, reuse: bool, ssl_context: ssl.SSLContext | None) -> None:
        """Take whether a connection may serve again: one that the other side closes meanwhile leaves a request in doubt."""
        self._backend = _CheckedBackend(allow_private=allow_private)
        self._reused = _REUSED if reuse else 0
        self._ssl_context = ssl_context
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, httpcore2.AsyncConnectionPool] = WeakKeyDictionary()

    async def exchange(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes = b"",
        timeout: float,  # noqa: ASYNC109 - the port hands it over; what it ends is told apart below
        leaving: Callable[[], None] = lambda: None,
    ) -> Reply:
        """Ask, and read the answer; `leaving` is called before the first byte of the request goes."""
        parts = urlsplit(url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        length = [("content-length", str(len(body)))] if body else []
        request = httpcore2.Request(
            method,
            httpcore2.URL(scheme=parts.scheme, host=parts.hostname or "", port=parts.port, target=target),
            headers=[("host", parts.netloc), *headers.items(), *length],
            content=body,
            extensions={"timeout": {"connect": timeout}},
        )
        deadline = asyncio.get_running_loop().time() + timeout
        _leaving.set(leaving)
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._pool().handle_async_request(request)
        except TimeoutError:
            raise TimeoutError(f"{origin_of(url)} did not answer within {timeout:g} s") from None
        try:
            read = await _read(response, deadline)
        finally:
            await response.aclose()
        lines = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return Reply(response.status, lines, read)

    async def close(self) -> None:
        """Let go of the connections of this event loop; another request makes new ones."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.aclose()

    def _pool(self) -> httpcore2.AsyncConnectionPool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            if self._ssl_context is None:
                self._ssl_context = httpcore2.default_ssl_context()
            pool = self._pools[loop] = httpcore2.AsyncConnectionPool(
                ssl_context=self._ssl_context,
                max_connections=None,
                max_keepalive_connections=self._reused,
                keepalive_expiry=_IDLE_SECONDS,
                network_backend=self._backend,
            )
        return pool


async def _read(response: httpcore2.Response, deadline: float) -> bytes:
    """The body, as far as it comes in time and is not too long."""
    body = bytearray()
    with suppress(*_NO_BODY):
        async with asyncio.timeout_at(min(deadline, asyncio.get_running_loop().time() + _BODY_SECONDS)):
            async for chunk in response.aiter_stream():
                body += chunk
                if len(body) >= _MOST_READ:
                    break
    return bytes(body[:_MOST_READ])


class _CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to the very addresses that it has checked, so that a name that is resolved anew cannot slip by."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._plain = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's own signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Resolve, check every address, and try them one after another."""
        addresses = await _addresses(host, port)
        for address in addresses:
            if not (self._allow_private or is_public(address)):
                raise Permanent(not_public(f"{host} at {address}"), error_class="POLICY_REJECTED")
        share = None if timeout is None else timeout / len(addresses)
        for address in addresses[:-1]:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return _Stream(await self._plain.connect_tcp(str(address), port, share, local_address, socket_options))
        last = str(addresses[-1])
        return _Stream(await self._plain.connect_tcp(last, port, share, local_address, socket_options))


async def _addresses(host: str, port: int) -> list[Address]:
    with suppress(ValueError):
        return [ip_address(host)]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ip_address(each) for each in dict.fromkeys(str(entry[4][0]) for entry in found)]


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection that tells when a request leaves, and is closed also when its handshake is cancelled."""

    def __init__(self, plain: httpcore2.AsyncNetworkStream) -> None:
        self._plain = plain

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's own signature
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return _Stream(await self._plain.start_tls(ssl_context, server_hostname, timeout))
        except BaseException:
            await self._plain.aclose()
            raise

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the same
        return await self._plain.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the same
        leaving = _leaving.get()
        if leaving is not None:
            _leaving.set(None)
            leaving()
        await self._plain.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._plain.aclose()

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - the same
        return self._plain.get_extra_info(info)
