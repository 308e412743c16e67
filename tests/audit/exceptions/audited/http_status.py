"""Every status that matters, through every HTTP client that raises for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from urllib3.util.retry import Retry

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    CONFLICT,
    NETWORK,
    NOT_FOUND,
    POLICY,
    RATE_LIMIT,
    UPSTREAM,
    VALIDATION,
    Case,
)
from audited.http_clients import CLIENTS, by_httpx, by_httpx2_async, by_httpx_async, by_requests, by_urllib3

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audited.lab import Lab
    from reprieve.core.failure import Category

CALL: Final = VALIDATION | CONFIGURATION
MONEY: Final = RATE_LIMIT | AUTH | POLICY | CONFIGURATION

STATUSES: Final[dict[int, tuple[bool, frozenset[Category], str]]] = {
    400: (False, VALIDATION, "CRIT-1.5"),
    401: (False, AUTH, "CRIT-1.6"),
    402: (False, MONEY, "decision 3: out of money is no window"),
    403: (False, AUTH, "CRIT-1.6"),
    404: (False, NOT_FOUND, "CRIT-1.7"),
    405: (False, CALL, "a wrong call; ING-1.5"),
    406: (False, CALL, "a wrong call; ING-1.5"),
    407: (False, AUTH | CONFIGURATION, "the proxy wants a credential"),
    408: (True, AWAY, "decision 4"),
    409: (True, CONFLICT, "decision 4"),
    410: (False, NOT_FOUND, "gone: CRIT-1.7"),
    411: (False, CALL, "a wrong call; ING-1.5"),
    413: (False, VALIDATION, "the payload is too large: CRIT-1.5"),
    414: (False, CALL, "a wrong call; ING-1.5"),
    415: (False, CALL, "a wrong call; ING-1.5"),
    416: (False, CALL, "a wrong call; ING-1.5"),
    422: (False, VALIDATION, "CRIT-1.5"),
    423: (True, CONFLICT | AWAY, "notes: locked, retry slowly"),
    425: (True, AWAY, "decision 4"),
    426: (False, CALL, "a wrong call; ING-1.5"),
    428: (False, CALL | CONFLICT, "a wrong call; ING-1.5"),
    429: (True, RATE_LIMIT, "CRIT-1.2"),
    431: (False, CALL, "a wrong call; ING-1.5"),
    451: (False, POLICY | AUTH | NOT_FOUND, "refused by law: CRIT-1.8"),
    500: (True, UPSTREAM, "CRIT-1.3"),
    501: (False, CALL | UPSTREAM, "decision 4"),
    502: (True, AWAY, "CRIT-1.1"),
    503: (True, AWAY, "CRIT-1.1"),
    504: (True, AWAY, "CRIT-1.1"),
    505: (False, CALL | UPSTREAM, "decision 4"),
    507: (True, UPSTREAM, "notes: other 5xx retry"),
    520: (True, AWAY, "notes: other 5xx retry"),
    521: (True, AWAY, "notes: other 5xx retry"),
    522: (True, AWAY, "notes: other 5xx retry"),
    524: (True, AWAY, "notes: other 5xx retry"),
    529: (True, UPSTREAM | RATE_LIMIT, "overloaded: notes"),
    599: (True, AWAY, "notes: other 5xx retry"),
}
ARGUABLE: Final[dict[int, tuple[bool, frozenset[Category], str]]] = {
    412: (True, CONFLICT, "an If-Match that lost is an optimistic lock; a bare 412 may be a wrong call"),
    421: (True, AWAY, "a new connection may land right"),
    424: (False, VALIDATION | UPSTREAM, "depends on what the dependency was"),
    508: (True, UPSTREAM, "other 5xx retry, yet a loop stays a loop"),
    511: (False, AUTH | CONFIGURATION, "a captive portal"),
}


def cases() -> Iterator[Case]:
    """All of them."""
    for client in CLIENTS:
        for status in STATUSES:
            yield _case(client, status)
    for status in ARGUABLE:
        yield _case("httpx", status, arguable=True)
    yield from _redirects()
    yield from _spent()
    yield from _awaited()


def _case(client: str, status: int, *, arguable: bool = False) -> Case:
    retryable, categories, reason = (STATUSES | ARGUABLE)[status]
    call = CLIENTS[client]

    def provoke(lab: Lab) -> object:
        return call(lab.http.url(status, {}, b"see the documentation"))

    return Case(
        label=f"{client} {status}",
        library=client,
        provoke=provoke,
        retryable=retryable,
        categories=categories,
        reason=reason,
        arguable=arguable,
        retry_after=None,
    )


def _redirects() -> Iterator[Case]:
    for status in (301, 302, 307, 308):
        yield Case(
            label=f"httpx {status} not followed",
            library="httpx",
            provoke=lambda lab, status=status: by_httpx(lab.http.url(status, {"Location": "/elsewhere"})),
            retryable=False,
            categories=CONFIGURATION,
            reason="notes: a 3xx that reaches us is a configuration error",
        )
    followed = {"httpx": {"follow_redirects": True}, "httpx2": {"follow_redirects": True}}
    for client, call in CLIENTS.items():
        yield Case(
            label=f"{client} redirect loop",
            library=client,
            provoke=lambda lab, call=call, client=client: call(lab.http.loop(), **followed.get(client, {})),
            retryable=False,
            categories=CONFIGURATION | VALIDATION,
            reason="notes: redirects are a configuration error",
        )


def _spent() -> Iterator[Case]:
    for status, categories in ((500, AWAY), (503, AWAY), (429, AWAY | RATE_LIMIT)):
        spent = Retry(total=1, status_forcelist=[status], backoff_factor=0, respect_retry_after_header=False)
        yield Case(
            label=f"urllib3 MaxRetryError after {status}",
            library="urllib3",
            provoke=lambda lab, status=status, spent=spent: by_urllib3(lab.http.url(status), retries=spent),
            retryable=True,
            categories=categories,
            reason="the reason is a ResponseError that names the status",
        )


def _awaited() -> Iterator[Case]:
    for name, call in (("httpx", by_httpx_async), ("httpx2", by_httpx2_async)):
        for status in (401, 404, 409, 422, 429, 500, 503):
            retryable, categories, reason = STATUSES[status]
            yield Case(
                label=f"{name} awaited {status}",
                library=name,
                provoke=lambda lab, call=call, status=status: call(lab.http.url(status)),
                retryable=retryable,
                categories=categories,
                reason=reason,
            )
    yield Case(
        label="requests 200 with a JSON body that is none",
        library="requests",
        provoke=_json_of,
        retryable=False,
        categories=VALIDATION,
        reason="notes: requests.JSONDecodeError is an OSError; CRIT-1.5",
    )
    yield Case(
        label="requests 404 hides behind a raised-from RuntimeError",
        library="requests",
        provoke=_wrapped,
        retryable=False,
        categories=NOT_FOUND,
        reason="notes: the outermost recognised exception decides",
    )
    yield Case(
        label="httpx ReadTimeout on a 200",
        library="httpx",
        provoke=lambda lab: by_httpx(lab.http.broken("silent"), timeout=0.05),
        retryable=True,
        categories=NETWORK,
        reason="CRIT-1.1",
    )


def _json_of(lab: Lab) -> object:
    import requests  # noqa: PLC0415 - beside its one use

    return requests.get(lab.http.url(200, {}, b"<html>not json</html>"), timeout=5).json()


def _wrapped(lab: Lab) -> object:
    try:
        return by_requests(lab.http.url(404))
    except OSError as exc:
        raise RuntimeError("could not fetch the change") from exc
