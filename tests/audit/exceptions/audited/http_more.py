"""HTTP clients used wrongly, bodies that are not what they should be, retries spent below us, web sockets."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING, Final

import aiohttp
import httpx
import httpx2
import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    NETWORK,
    NOT_FOUND,
    RATE_LIMIT,
    UNKNOWN,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    stop,
)
from audited.http_clients import TRUST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from audited.lab import Lab

EITHER: Final = CONFIGURATION | VALIDATION
PAGE: Final = b"<html>please wait: rate limit, timeout, 401</html>"


def cases() -> Iterator[Case]:
    """All of them."""
    for name, module in (("httpx", httpx), ("httpx2", httpx2)):
        yield from _httpx(name, module)
    yield from _requests()
    yield from _aiohttp()


def _httpx(name: str, module: ModuleType) -> Iterator[Case]:
    yield stop(name, f"{name} body that is no JSON", lambda lab: _json(module, lab), VALIDATION, "CRIT-1.5")
    yield stop(name, f"{name} ResponseNotRead", lambda lab: _not_read(module, lab), CONFIGURATION, "a bug: CRIT-1.9")
    yield stop(name, f"{name} StreamConsumed", lambda lab: _consumed(module, lab), CONFIGURATION, "a bug: CRIT-1.9")
    yield stop(
        name,
        f"{name} closed client",
        lambda lab: _closed(module, lab),
        CONFIGURATION | UNKNOWN,
        "a bare RuntimeError",
        arguable=True,
    )
    yield stop(
        name, f"{name} InvalidURL", lambda _: module.get("http://[::1/", verify=TRUST), EITHER, "a wrong address"
    )
    yield stop(
        name, f"{name} 404 whose page has every word", lambda lab: _page(module, lab, 404), NOT_FOUND, "decision 1"
    )
    yield stop(
        name, f"{name} 400 whose page has every word", lambda lab: _page(module, lab, 400), VALIDATION, "decision 1"
    )
    yield stop(name, f"{name} 403 whose page has every word", lambda lab: _page(module, lab, 403), AUTH, "decision 1")
    yield retry(
        name, f"{name} 500 whose page has every word", lambda lab: _page(module, lab, 500), UPSTREAM, "decision 1"
    )
    yield retry(
        name, f"{name} 429 whose page says unauthorized", lambda lab: _page(module, lab, 429), RATE_LIMIT, "decision 1"
    )


def _page(module: ModuleType, lab: Lab, status: int) -> object:
    return module.get(lab.http.url(status, {"Content-Type": "text/html"}, PAGE), verify=TRUST).raise_for_status()


def _json(module: ModuleType, lab: Lab) -> object:
    return module.get(lab.http.url(200, {}, b"<html></html>"), verify=TRUST).json()


def _not_read(module: ModuleType, lab: Lab) -> object:
    with module.stream("GET", lab.http.url(200, {}, b"x"), verify=TRUST) as response:
        return response.text


def _consumed(module: ModuleType, lab: Lab) -> object:
    with module.stream("GET", lab.http.url(200, {}, b"x"), verify=TRUST) as response:
        list(response.iter_raw())
        return list(response.iter_raw())


def _closed(module: ModuleType, lab: Lab) -> object:
    client = module.Client(verify=TRUST)
    client.close()
    return client.get(lab.http.url(200))


def _spent(lab: Lab, status: int) -> object:
    rule = Retry(total=1, status_forcelist=[status], backoff_factor=0, respect_retry_after_header=False)
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=rule))
        return session.get(lab.http.url(status), timeout=5)


def _requests() -> Iterator[Case]:
    yield retry(
        "requests",
        "requests RetryError after 503",
        lambda lab: _spent(lab, 503),
        AWAY,
        "the status is in the reason's words",
    )
    yield retry(
        "requests", "requests RetryError after 429", lambda lab: _spent(lab, 429), AWAY | RATE_LIMIT, "the same"
    )
    yield stop(
        "requests",
        "requests InvalidJSONError",
        lambda lab: requests.post(lab.refused, json={"x": float("nan")}, timeout=2),
        EITHER,
        "it cannot be sent",
    )
    yield stop(
        "requests", "requests missing CA bundle", lambda lab: requests.get(lab.untrusted, verify="/no/such/ca.pem", timeout=2),
        CONFIGURATION | NOT_FOUND, "ORC-1.4: an OSError without errno", arguable=True,
    )  # fmt: skip
    yield retry("urllib", "urllib ContentTooShortError", _too_short, NETWORK | UPSTREAM, "a lost answer: CRIT-1.1")
    yield stop(
        "urllib", "urllib unknown url type", lambda _: urllib.request.urlopen("nonsense"), EITHER, "a ValueError"
    )


def _too_short(lab: Lab) -> object:
    return urllib.request.urlretrieve(lab.http.broken("truncated"), lab.folder / "part")


async def _as_json(lab: Lab, status: int) -> object:
    url = lab.http.url(status, {"Content-Type": "text/html"}, PAGE)
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.json()


async def _web_socket(lab: Lab, status: int) -> object:
    async with aiohttp.ClientSession() as session:
        return await session.ws_connect(lab.http.url(status, {"Retry-After": "4"} if status > 403 else {}))


async def _session_closed(lab: Lab) -> object:
    session = aiohttp.ClientSession()
    await session.close()
    return await session.get(lab.http.url(200))


def _aiohttp() -> Iterator[Case]:
    yield retry(
        "aiohttp", "aiohttp ContentTypeError on a 502 page", lambda lab: _as_json(lab, 502), AWAY, "its status is 502"
    )
    yield stop(
        "aiohttp",
        "aiohttp ContentTypeError on a 404 page",
        lambda lab: _as_json(lab, 404),
        NOT_FOUND,
        "its status is 404",
    )
    yield stop(
        "aiohttp",
        "aiohttp ContentTypeError on a 200 page",
        lambda lab: _as_json(lab, 200),
        VALIDATION | UPSTREAM,
        "CRIT-1.5",
        arguable=True,
    )
    for status, retryable, categories in ((401, False, AUTH), (503, True, AWAY), (429, True, RATE_LIMIT)):
        make = retry if retryable else stop
        yield make(
            "aiohttp", f"aiohttp web socket handshake {status}", lambda lab, status=status: _web_socket(lab, status), categories,
            "as the status", retry_after=4.0 if retryable else None,
        )  # fmt: skip
    yield stop(
        "aiohttp",
        "aiohttp session is closed",
        _session_closed,
        CONFIGURATION | UNKNOWN,
        "a bare RuntimeError",
        arguable=True,
    )
