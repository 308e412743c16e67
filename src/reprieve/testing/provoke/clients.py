"""One call a client library: ask, raise for the status where the library can, read the body as JSON."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from reprieve.testing.provoke.stage import PATIENT, Stage, library
from reprieve.testing.tls import trusting_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BODY: Final = {"note": "a body worth losing"}


@dataclass(frozen=True, slots=True)
class Call:
    """What to ask, and how long to wait."""

    url: str
    method: str = "GET"
    timeout: float = PATIENT

    @property
    def context(self) -> ssl.SSLContext:
        """Trusts our authority where TLS is asked for; an empty one else, which is quick to make."""
        return trusting_context() if self.url.startswith("https") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    @property
    def content(self) -> bytes | None:
        """The body of a POST."""
        return json.dumps(_BODY).encode() if self.method == "POST" else None


def _like_httpx(name: str) -> Callable[[Stage, Call], None]:
    def ask(_: Stage, call: Call) -> None:
        options = {"timeout": call.timeout, "follow_redirects": True, "trust_env": False}
        with library(name).Client(verify=call.context, **options) as client:
            client.request(call.method, call.url, content=call.content).raise_for_status().json()

    return ask


def _requests(stage: Stage, call: Call) -> None:
    with library("requests").Session() as session:
        session.trust_env = False
        verify = stage.authority_file if call.url.startswith("https") else False
        response = session.request(call.method, call.url, data=call.content, timeout=call.timeout, verify=verify)
        response.raise_for_status()
        response.json()


def _aiohttp(_: Stage, call: Call) -> None:
    aiohttp = library("aiohttp")

    async def ask() -> None:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=call.timeout, sock_read=call.timeout)
        session: Any = aiohttp.ClientSession(timeout=timeout, raise_for_status=True)
        async with session, session.request(call.method, call.url, data=call.content, ssl=call.context) as response:
            await response.json()

    asyncio.run(ask())


def _urllib3(_: Stage, call: Call) -> None:
    with library("urllib3").PoolManager(ssl_context=call.context, retries=False, timeout=call.timeout) as pool:
        pool.request(call.method, call.url, body=call.content).json()


def _urllib(_: Stage, call: Call) -> None:
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=call.context))
    request = urllib.request.Request(call.url, data=call.content, method=call.method)  # noqa: S310 - our own address
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=call.timeout) as response:
            json.load(response)
    except urllib.error.HTTPError as error:
        error.close()  # else its socket stays open for as long as somebody keeps the exception
        raise


def _http_client(_: Stage, call: Call) -> None:
    url = urllib.parse.urlsplit(call.url)
    host, port = url.hostname or "", url.port or 80
    connection = (
        http.client.HTTPSConnection(host, port, timeout=call.timeout, context=call.context)
        if url.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=call.timeout)
    )
    try:
        connection.request(call.method, url.path, body=call.content)
        with connection.getresponse() as response:
            json.load(response)
    finally:
        connection.close()


CLIENTS: Final[Mapping[str, Callable[[Stage, Call], None]]] = {
    "httpx": _like_httpx("httpx"),
    "httpx2": _like_httpx("httpx2"),
    "requests": _requests,
    "aiohttp": _aiohttp,
    "urllib3": _urllib3,
    "urllib": _urllib,
    "http.client": _http_client,
}

RAISE_FOR_STATUS: Final = frozenset({"httpx", "httpx2", "requests", "aiohttp", "urllib"})
"""The libraries that raise for a status; the others return it."""
