"""Pull requests of a GitHub-style HTTP API; its failures are raised as they come, for classify to judge."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from reprieve import Permanent, UsageError

_PUBLIC_API: Final = "https://api.github.com"
_NOT_FOUND: Final = 404
_HERE: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_FORMS: Final = {
    "json": "application/vnd.github+json",
    "diff": "application/vnd.github.diff",
    "raw": "application/vnd.github.raw",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """A pull request as it is now."""

    title: str
    base: str
    head: str


class Hub:
    """Asks the API; no retries of its own."""

    def __init__(self, url: str = _PUBLIC_API, *, token: str | None = None, seconds: float = 30.0) -> None:
        if not _is_trustworthy(url):
            raise UsageError("the API of pull requests is asked over https, by a URL without a user or a query")
        self._url, self._token, self._seconds = url.rstrip("/"), token, seconds

    def page(self, repository: str) -> str:
        """The URL of the page of a repository; empty for any API but that of github.com."""
        return f"https://github.com/{repository}" if self._url == _PUBLIC_API else ""

    async def pull(self, repository: str, number: int) -> Pull:
        """Its title, and between which commits it stands."""
        found = _json(await self._get(f"/repos/{quote(repository)}/pulls/{number}", form="json"))
        try:
            return Pull(title=str(found["title"]), base=str(found["base"]["sha"]), head=str(found["head"]["sha"]))
        except (KeyError, TypeError):
            raise Permanent(
                "the API answered with something else than a pull request", error_class="SCHEMA_INVALID"
            ) from None

    async def diff(self, repository: str, base: str, head: str, *, most: int) -> str:
        """What changes between two commits: by their names, as a pull request may have moved on."""
        path = f"/repos/{quote(repository)}/compare/{quote(base)}...{quote(head)}"
        return (await self._get(path, form="diff", most=most)).decode("utf-8", "replace")

    async def authors(self, repository: str, number: int) -> tuple[str, ...]:
        """The addresses of those who wrote its commits."""
        found = _json(await self._get(f"/repos/{quote(repository)}/pulls/{number}/commits?per_page=100", form="json"))
        addresses = (_address(each) for each in found) if isinstance(found, list) else ()
        return tuple(dict.fromkeys(address for address in addresses if address))

    async def file(self, repository: str, revision: str, path: str) -> str | None:
        """A file's text at a commit; None where there is none, or it is too large."""
        where = f"/repos/{quote(repository)}/contents/{quote(path)}?ref={quote(revision)}"
        import httpx2  # noqa: PLC0415 - the same

        try:
            return (await self._get(where, form="raw")).decode("utf-8", "replace")
        except httpx2.HTTPStatusError as error:
            if error.response.status_code == _NOT_FOUND:
                return None
            raise
        except Permanent as error:
            if error.error_class != "PAYLOAD_TOO_LARGE":
                raise
            return None

    async def _get(self, path: str, *, form: str, most: int = 1 << 20) -> bytes:
        headers = {"Accept": _FORMS[form], "User-Agent": "reprieve", "X-GitHub-Api-Version": "2022-11-28"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        import httpx2  # noqa: PLC0415 - a review of a repository on this machine does not wait for it

        chunks, size = [], 0
        async with (
            httpx2.AsyncClient(timeout=self._seconds, follow_redirects=False) as client,
            client.stream("GET", self._url + path, headers=headers) as answer,
        ):
            if answer.is_error:
                await answer.aread()  # a refusal says in its body whether it is a limit
            answer.raise_for_status()
            async for chunk in answer.aiter_bytes():
                chunks.append(chunk)
                size += len(chunk)
                if size > most:
                    raise Permanent(f"the API answered with more than {most} bytes", error_class="PAYLOAD_TOO_LARGE")
        return b"".join(chunks)


def _is_trustworthy(url: str) -> bool:
    """Whether a token reaches the host that is named, and nobody on the way."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _HERE)


def _json(body: bytes) -> Any:  # noqa: ANN401 - whatever it holds
    return json.loads(body)


def _address(commit: object) -> str | None:
    match commit:
        case {"commit": {"author": {"email": str() as address}}}:
            return address
        case _:
            return None
