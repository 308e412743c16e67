"""When to come back: Retry-After in every form, through every client, and GitHub's and Google's own ways."""

from __future__ import annotations

from email.utils import formatdate
from typing import TYPE_CHECKING, Final

import httpx

from audited.case import AUTH, AWAY, CONFLICT, NOW, RATE_LIMIT, UPSTREAM, VALIDATION, Case, retry, stop
from audited.http_clients import CLIENTS, by_httpx, by_requests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LATER: Final = formatdate(NOW + 30, usegmt=True)
FORMS: Final[tuple[tuple[str, Mapping[str, str], float | None], ...]] = (
    ("seconds", {"Retry-After": "7"}, 7.0),
    ("zero", {"Retry-After": "0"}, 0.0),
    ("float seconds", {"Retry-After": "1.5"}, 1.5),
    ("padded seconds", {"Retry-After": "  12 "}, 12.0),
    ("lower-case name", {"retry-after": "9"}, 9.0),
    ("upper-case name", {"RETRY-AFTER": "9"}, 9.0),
    ("an hour", {"Retry-After": "3600"}, 3600.0),
    ("a week", {"Retry-After": "604800"}, 604800.0),
    ("HTTP-date", {"Retry-After": LATER}, 30.0),
    ("HTTP-date without a zone", {"Retry-After": "Tue, 14 Nov 2023 22:13:50"}, 30.0),
    ("HTTP-date with an offset", {"Retry-After": "Wed, 15 Nov 2023 00:13:50 +0200"}, 30.0),
    ("HTTP-date of RFC 850", {"Retry-After": "Tuesday, 14-Nov-23 22:13:50 GMT"}, 30.0),
    ("HTTP-date of asctime", {"Retry-After": "Tue Nov 14 22:13:50 2023"}, 30.0),
    ("HTTP-date in the past", {"Retry-After": formatdate(NOW - 3600, usegmt=True)}, 0.0),
    ("HTTP-date of this very second", {"Retry-After": formatdate(NOW, usegmt=True)}, 0.0),
    ("absurd year", {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}, None),
    ("garbage", {"Retry-After": "soon"}, None),
    ("a duration with its unit", {"Retry-After": "PT30S"}, None),
    ("empty", {"Retry-After": ""}, None),
    ("negative", {"Retry-After": "-5"}, None),
    ("nan", {"Retry-After": "nan"}, None),
    ("inf", {"Retry-After": "inf"}, None),
    ("overflow", {"Retry-After": "1e999"}, None),
    ("milliseconds", {"retry-after-ms": "1500"}, 1.5),
    ("milliseconds before seconds", {"retry-after-ms": "2500", "Retry-After": "7"}, 2.5),
    ("bad milliseconds, good seconds", {"retry-after-ms": "soon", "Retry-After": "7"}, 7.0),
    ("negative milliseconds, good seconds", {"retry-after-ms": "-1", "Retry-After": "3"}, 3.0),
    ("nan milliseconds, good date", {"retry-after-ms": "nan", "Retry-After": LATER}, 30.0),
)
RESET: Final = {"x-ratelimit-limit": "60", "x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 90)}
LIMITED: Final = {"message": "API rate limit exceeded for user ID 1.", "documentation_url": "https://docs.example/rest"}
SECONDARY: Final = {
    "message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
}
FORBIDDEN: Final = {"message": "Resource not accessible by integration"}


def cases() -> Iterator[Case]:
    """All of them."""
    for name, headers, expected in FORMS:
        yield _form("httpx", 429, name, headers, expected)
    for client in ("httpx2", "requests", "aiohttp", "urllib"):
        for name, headers, expected in FORMS:
            if name in {"seconds", "HTTP-date", "milliseconds", "HTTP-date in the past", "negative", "garbage"}:
                yield _form(client, 429, name, headers, expected)
    for client in CLIENTS:
        yield _form(client, 503, "seconds", {"Retry-After": "11"}, 11.0)
    yield from _statuses()
    yield from _github()


def _form(client: str, status: int, name: str, headers: Mapping[str, str], expected: float | None) -> Case:
    call = CLIENTS[client]
    return retry(
        client,
        f"{client} {status} Retry-After: {name}",
        lambda lab: call(lab.http.url(status, headers, b"slow down")),
        RATE_LIMIT if status == 429 else AWAY,
        "notes: Retry-After",
        retry_after=expected,
    )


def _statuses() -> Iterator[Case]:
    for status, categories in (
        (500, UPSTREAM),
        (502, AWAY),
        (504, AWAY),
        (408, AWAY),
        (409, CONFLICT),
        (529, AWAY | RATE_LIMIT),
    ):
        yield retry(
            "httpx",
            f"httpx {status} with Retry-After",
            lambda lab, status=status: by_httpx(lab.http.url(status, {"Retry-After": "21"})),
            categories,
            "CRIT-2.2",
            retry_after=21.0,
        )
    yield retry(
        "httpx",
        "httpx 413 with Retry-After",
        lambda lab: by_httpx(lab.http.url(413, {"Retry-After": "21"})),
        VALIDATION | UPSTREAM | RATE_LIMIT,
        "RFC 9110 lets a 413 be temporary when it says so; the table does not",
        arguable=True,
    )
    yield retry(
        "httpx",
        "httpx 429 Retry-After: two values",
        lambda lab: by_httpx(lab.http.url(429, {"Retry-After": "120, 60"})),
        RATE_LIMIT,
        "a doubled header has no one meaning",
        arguable=True,
    )
    yield retry(
        "httpx",
        "httpx 429 Retry-After beyond belief",
        lambda lab: by_httpx(lab.http.url(429, {"Retry-After": "99999999999999999999"})),
        RATE_LIMIT,
        "huge: kept or refused, the policy caps it",
        arguable=True,
    )
    yield retry(
        "httpx",
        "httpx 429 wrapped by another exception keeps its Retry-After",
        _wrapped,
        RATE_LIMIT,
        "notes: walk the chain",
        retry_after=13.0,
    )


def _wrapped(lab: object) -> object:
    try:
        return by_httpx(lab.http.url(429, {"Retry-After": "13"}))
    except httpx.HTTPStatusError as exc:
        raise RuntimeError("the model would not answer") from exc


def _github() -> Iterator[Case]:
    for name, call in (("httpx", by_httpx), ("requests", by_requests)):
        yield retry(
            name,
            f"GitHub 403 rate limit by {name}",
            lambda lab, call=call: call(lab.http.url(403, RESET, LIMITED)),
            RATE_LIMIT,
            "ORC-1.2: GitHub's rate limit is upstream; its reset is a time of day",
            retry_after=90.0,
        )
        yield retry(
            name,
            f"GitHub 429 rate limit with reset by {name}",
            lambda lab, call=call: call(lab.http.url(429, RESET, LIMITED)),
            RATE_LIMIT,
            "CRIT-1.2",
            retry_after=90.0,
        )
        yield retry(
            name,
            f"GitHub 403 secondary rate limit by {name}",
            lambda lab, call=call: call(lab.http.url(403, {"Retry-After": "60"}, SECONDARY)),
            RATE_LIMIT,
            "ORC-1.2",
            retry_after=60.0,
        )
        yield stop(
            name,
            f"GitHub 403 without permission by {name}",
            lambda lab, call=call: call(lab.http.url(403, {**RESET, "x-ratelimit-remaining": "4999"}, FORBIDDEN)),
            AUTH,
            "a reset stands on every answer; only an empty remainder is a limit",
        )
        yield stop(
            name,
            f"403 whose body quotes the rate limit page by {name}",
            lambda lab, call=call: call(lab.http.url(403, {}, {"message": "You may not edit the page 'rate limit'"})),
            AUTH,
            "decision 1: quoted text decides nothing",
        )
