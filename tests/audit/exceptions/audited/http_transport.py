"""What happens before or below an HTTP status: refused, reset, silent, garbled, untrusted, unresolved."""

from __future__ import annotations

import http.client
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
import httpx
import httpx2
import requests
import urllib3

from audited.case import AWAY, CONFIGURATION, NETWORK, UPSTREAM, VALIDATION, Case, retry, stop
from audited.http_clients import (
    CLIENTS,
    TRUST,
    by_aiohttp,
    by_httpx,
    by_httpx2,
    by_httpx2_async,
    by_httpx_async,
    by_requests,
    by_urllib3,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from audited.lab import Lab

ALL: Final = {**CLIENTS, "httpx awaited": by_httpx_async, "httpx2 awaited": by_httpx2_async, "urllib3": by_urllib3}
WIRES: Final = ("reset", "hang-up", "truncated", "truncated-chunk")
TRANSPORT: Final = AWAY
TIMEOUTS: Final = {"aiohttp": {"timeout": aiohttp.ClientTimeout(sock_read=0.05)}}


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _unreachable()
    yield from _wires()
    yield from _timeouts()
    yield from _wrong_calls()
    yield from _traps()


@contextmanager
def resolver_fails(code: int) -> Iterator[None]:
    """Let name resolution fail as a resolver would."""
    real = socket.getaddrinfo

    def fail(*_: object, **__: object) -> object:
        raise socket.gaierror(code, "as the resolver said")

    socket.getaddrinfo = fail
    try:
        yield
    finally:
        socket.getaddrinfo = real


def unresolved(call: Callable[..., object], code: int) -> Callable[[Lab], object]:
    """A call whose name does not resolve."""

    def provoke(_: Lab) -> object:
        import asyncio  # noqa: PLC0415 - beside its one use

        with resolver_fails(code):
            outcome = call("http://upstream.example/")
            return asyncio.run(outcome) if asyncio.iscoroutine(outcome) else outcome

    return provoke


def _unreachable() -> Iterator[Case]:
    for name, call in ALL.items():
        library = name.split()[0]
        yield retry(
            library,
            f"{name} connection refused",
            lambda lab, call=call: call(lab.refused),
            NETWORK,
            "CRIT-1.1, ING-1.4",
        )
        yield retry(
            library, f"{name} DNS EAI_AGAIN", unresolved(call, socket.EAI_AGAIN), NETWORK, "a DNS timeout: CRIT-1.1"
        )
        yield retry(
            library,
            f"{name} DNS EAI_NONAME",
            unresolved(call, socket.EAI_NONAME),
            NETWORK | CONFIGURATION,
            "notes: open to argument",
            arguable=True,
        )
        yield stop(
            library,
            f"{name} untrusted certificate",
            lambda lab, call=call: call(lab.untrusted),
            CONFIGURATION,
            "notes: a certificate error at the chain's end is permanent",
            error_class="TLS_INVALID",
        )


def _wires() -> Iterator[Case]:
    for name, call in ALL.items():
        library = name.split()[0]
        for wire in WIRES:
            yield retry(
                library,
                f"{name} {wire}",
                lambda lab, call=call, wire=wire: call(lab.http.broken(wire)),
                TRANSPORT,
                "TCP reset or a lost answer: CRIT-1.1",
            )
        yield retry(
            library,
            f"{name} garbled",
            lambda lab, call=call: call(lab.http.broken("garbled")),
            AWAY | VALIDATION | CONFIGURATION,
            "an answer that is no HTTP: a broken gateway, or the wrong port",
            arguable=True,
        )
        if name != "urllib":
            yield retry(
                library,
                f"{name} broken gzip",
                lambda lab, call=call: call(lab.http.broken("broken-gzip")),
                AWAY | VALIDATION,
                "a garbled body may be whole next time, or never",
                arguable=True,
            )


def _timeouts() -> Iterator[Case]:
    for name, call in ALL.items():
        library = name.split()[0]
        options = TIMEOUTS.get(library, {"timeout": 0.05})
        for wire in ("silent", "dribble"):
            yield retry(
                library,
                f"{name} read timeout, {wire}",
                lambda lab, call=call, wire=wire, options=options: call(lab.http.broken(wire), **options),
                NETWORK,
                "a socket timeout: CRIT-1.1",
                error_class="NETWORK_TIMEOUT",
            )
        short = {"timeout": aiohttp.ClientTimeout(sock_connect=0.05)} if library == "aiohttp" else options
        yield retry(
            library,
            f"{name} connect timeout",
            lambda lab, call=call, short=short: call(f"http://127.0.0.1:{lab.full_port}/", **short),
            NETWORK,
            "a socket timeout: CRIT-1.1",
            error_class="NETWORK_TIMEOUT",
        )
        yield retry(
            library,
            f"{name} TLS handshake timeout",
            lambda lab, call=call, short=short: call(f"https://127.0.0.1:{lab.silent_port}/", **short),
            NETWORK,
            "notes: a handshake timeout is transient",
        )
    total = {"timeout": aiohttp.ClientTimeout(total=0.05)}
    yield retry(
        "aiohttp",
        "aiohttp total timeout",
        lambda lab: by_aiohttp(lab.http.broken("silent"), **total),
        NETWORK,
        "notes: a bare TimeoutError with CancelledError in its chain is no cancellation",
        error_class="NETWORK_TIMEOUT",
    )


def _wrong_calls() -> Iterator[Case]:
    bad = CONFIGURATION | VALIDATION
    for name, call in ALL.items():
        library = name.split()[0]
        yield stop(
            library,
            f"{name} unsupported scheme",
            lambda _, call=call: call("gopher://127.0.0.1/"),
            bad,
            "notes: permanent",
        )
    for name, call in (("httpx", by_httpx), ("httpx2", by_httpx2), ("requests", by_requests)):
        yield stop(
            name, f"{name} URL without a scheme", lambda _, call=call: call("127.0.0.1/x"), bad, "notes: permanent"
        )
        yield stop(name, f"{name} URL without a host", lambda _, call=call: call("http:///x"), bad, "a wrong address")
        yield stop(
            name,
            f"{name} header with a newline",
            lambda lab, call=call: _with_header(call, lab.http.url(200)),
            bad,
            "a request that cannot be written",
        )
    yield stop("aiohttp", "aiohttp invalid URL", lambda _: by_aiohttp("http://:80/"), bad, "a wrong address")
    yield stop("urllib3", "urllib3 unparseable URL", lambda _: by_urllib3("http://[::1/"), bad, "a wrong address")
    yield stop("httpx", "httpx LocalProtocolError", lambda lab: _local_protocol(httpx, lab), bad, "notes: permanent")
    yield stop("httpx2", "httpx2 LocalProtocolError", lambda lab: _local_protocol(httpx2, lab), bad, "notes: permanent")


def _with_header(call: Callable[..., object], url: str) -> object:
    return call(url, headers={"X-Trace": "one\r\ntwo"})


def _local_protocol(module: object, lab: Lab) -> object:
    with module.Client() as client:
        return client.get(lab.http.url(200), headers=[(b"Host", b"a b\n"), (b"bad name", b"x")])


def _pool_timeout(module: object, lab: Lab) -> object:
    limits = module.Limits(max_connections=1)
    settings = {"limits": limits, "timeout": module.Timeout(5, pool=0.05), "verify": TRUST}
    with module.Client(**settings) as client, client.stream("GET", lab.http.broken("dribble")):
        return client.get(lab.http.url(200))


def _traps() -> Iterator[Case]:
    for name, module in (("httpx", httpx), ("httpx2", httpx2)):
        yield retry(
            name,
            f"{name} PoolTimeout",
            lambda lab, module=module: _pool_timeout(module, lab),
            AWAY,
            "notes: never sent; a timeout all the same",
        )
    retries = urllib3.Retry(total=1, backoff_factor=0)
    yield retry(
        "urllib3",
        "urllib3 MaxRetryError over NewConnectionError",
        lambda lab: by_urllib3(lab.refused, retries=retries),
        NETWORK,
        "notes: NewConnectionError is a TimeoutError by birth only",
        error_class="CONNECTION_REFUSED",
    )
    yield retry(
        "urllib3",
        "urllib3 MaxRetryError over a read timeout",
        lambda lab: by_urllib3(lab.http.broken("silent"), retries=retries, timeout=0.05),
        NETWORK,
        "CRIT-1.1",
        error_class="NETWORK_TIMEOUT",
    )
    yield stop(
        "urllib3",
        "urllib3 MaxRetryError over an untrusted certificate",
        lambda lab: by_urllib3(lab.untrusted, retries=retries),
        CONFIGURATION,
        "notes: permanent",
        error_class="TLS_INVALID",
    )
    yield retry(
        "requests",
        "requests refused proxy",
        lambda lab: by_requests(lab.http.url(200), proxies={"http": lab.refused}),
        NETWORK,
        "a proxy that is down: CRIT-1.1",
    )
    yield from _plain_client()


def _plain_client() -> Iterator[Case]:
    yield retry(
        "http.client",
        "http.client RemoteDisconnected",
        lambda lab: _plain(lab, "hang-up"),
        TRANSPORT,
        "CRIT-1.1",
    )
    yield retry(
        "http.client", "http.client IncompleteRead", lambda lab: _plain(lab, "truncated"), TRANSPORT, "CRIT-1.1"
    )
    yield retry(
        "http.client",
        "http.client BadStatusLine",
        lambda lab: _plain(lab, "garbled"),
        AWAY | VALIDATION | CONFIGURATION,
        "a broken gateway, or the wrong port",
        arguable=True,
    )
    bug = CONFIGURATION | VALIDATION
    yield stop(
        "http.client", "http.client InvalidURL", lambda _: http.client.HTTPConnection("h:port"), bug, "a wrong address"
    )
    yield stop("http.client", "http.client CannotSendRequest", _out_of_order, CONFIGURATION, "illegal state: CRIT-1.9")
    yield retry(
        "requests",
        "requests ConnectionError that wraps a reset",
        lambda lab: by_requests(lab.http.broken("reset")),
        NETWORK,
        "TCP reset: CRIT-1.1",
        error_class="CONNECTION_RESET",
    )
    yield retry(
        "requests",
        "requests ChunkedEncodingError",
        lambda lab: by_requests(lab.http.broken("truncated-chunk")),
        NETWORK | UPSTREAM,
        "a lost answer",
    )
    yield stop(
        "requests", "requests MissingSchema", lambda _: requests.get("nowhere", timeout=1), bug, "a wrong address"
    )


def _plain(lab: Lab, wire: str) -> object:
    connection = http.client.HTTPConnection("127.0.0.1", lab.http.port, timeout=5)
    try:
        connection.request("GET", "/" + lab.http.broken(wire).rsplit("/", 1)[1])
        return connection.getresponse().read()
    finally:
        connection.close()


def _out_of_order(lab: Lab) -> object:
    connection = http.client.HTTPConnection("127.0.0.1", lab.http.port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.request("GET", "/")
    finally:
        connection.close()
