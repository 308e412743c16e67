"""The HTTP clients, each as one call that raises for what the address answers."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import httpx
import httpx2
import requests
import urllib3

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


TRUST: Final = ssl.create_default_context()
"""Made once: it is the slow part of a client."""


def by_httpx(url: str, **options: Any) -> object:
    """One GET by httpx."""
    with httpx.Client(**{"timeout": 5, "verify": TRUST, **options}) as client:
        return client.get(url).raise_for_status()


async def by_httpx_async(url: str, **options: Any) -> object:
    """One GET by httpx, awaited."""
    async with httpx.AsyncClient(**{"timeout": 5, "verify": TRUST, **options}) as client:
        return (await client.get(url)).raise_for_status()


def by_httpx2(url: str, **options: Any) -> object:
    """One GET by httpx2."""
    with httpx2.Client(**{"timeout": 5, "verify": TRUST, **options}) as client:
        return client.get(url).raise_for_status()


async def by_httpx2_async(url: str, **options: Any) -> object:
    """One GET by httpx2, awaited."""
    async with httpx2.AsyncClient(**{"timeout": 5, "verify": TRUST, **options}) as client:
        return (await client.get(url)).raise_for_status()


def by_requests(url: str, **options: Any) -> object:
    """One GET by requests."""
    with requests.Session() as session:
        return session.get(url, **{"timeout": 5, **options}).raise_for_status()


async def by_aiohttp(url: str, **options: Any) -> object:
    """One GET by aiohttp, body read."""
    settings = {"timeout": aiohttp.ClientTimeout(total=5), **options}
    async with aiohttp.ClientSession(**settings) as session, session.get(url, allow_redirects=True) as response:
        response.raise_for_status()
        return await response.read()


def by_urllib(url: str, **options: Any) -> object:
    """One GET by the standard library, body read."""
    try:
        with urllib.request.urlopen(url, **{"timeout": 5, **options}) as response:
            return response.read()
    except urllib.error.HTTPError as exc:
        exc.close()
        raise


def by_urllib3(url: str, **options: Any) -> object:
    """One GET by urllib3; statuses do not raise there."""
    with urllib3.PoolManager() as pool:
        return pool.request("GET", url, **{"timeout": 5, "retries": False, **options}).data


CLIENTS: Final[Mapping[str, Callable[..., object]]] = {
    "httpx": by_httpx,
    "httpx2": by_httpx2,
    "requests": by_requests,
    "aiohttp": by_aiohttp,
    "urllib": by_urllib,
}
"""Those that raise for a status."""
