"""Chains, groups and verdicts: which link decides."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import TYPE_CHECKING, Final

import httpx

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    NETWORK,
    NOT_FOUND,
    POLICY,
    RATE_LIMIT,
    UNKNOWN,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    secret,
    stop,
)
from audited.http_clients import by_httpx, by_httpx_async
from reprieve.errors import NeedsReview, Permanent, Retryable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audited.lab import Lab

TOKEN: Final = secret("gh", "p_", "a1B2c3D4e5F6g7H8i9J0", "k1L2m3N4o5P6q7R8")


class FetchError(Exception):
    """Somebody's own class."""


def wrapped(lab: Lab, status: int, how: str, headers: dict[str, str] | None = None) -> object:
    """A status inside somebody's own exception."""
    try:
        return by_httpx(lab.http.url(status, headers))
    except httpx.HTTPStatusError as exc:
        if how == "from":
            raise FetchError("the change could not be fetched") from exc
        if how == "from None":
            raise FetchError("the change could not be fetched") from None
        raise FetchError("the change could not be fetched")  # noqa: B904 - the implicit context is the case


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _chains()
    yield from _groups()
    yield from _verdicts()
    yield from _secrets()


def _chains() -> Iterator[Case]:
    walk = "notes: walk the cause, then the context unless suppressed"
    for how in ("from", "implicit context"):
        yield stop("chain", f"401 by {how}", lambda lab, how=how: wrapped(lab, 401, how), AUTH, walk)
        yield stop("chain", f"404 by {how}", lambda lab, how=how: wrapped(lab, 404, how), NOT_FOUND, walk)
        yield retry(
            "chain", f"429 by {how}", lambda lab, how=how: wrapped(lab, 429, how, {"Retry-After": "9"}), RATE_LIMIT, walk,
            retry_after=9.0,
        )  # fmt: skip
        yield retry("chain", f"503 by {how}", lambda lab, how=how: wrapped(lab, 503, how), AWAY, walk)
    yield retry(
        "chain",
        "401 by from None",
        lambda lab: wrapped(lab, 401, "from None"),
        UNKNOWN,
        "suppressed: nothing is known of it",
    )
    yield stop(
        "chain", "a bug while handling a timeout", _bug_in_handler, CONFIGURATION, "the outermost recognised decides"
    )
    yield stop("chain", "a validation from a KeyError", _validation, VALIDATION | CONFIGURATION, "both ends agree")
    yield stop(
        "chain", "a certificate under three wrappings", _deep_certificate, CONFIGURATION, "notes: a certificate refines"
    )
    yield retry("chain", "a timeout from a cancellation", _timeout_from_cancel, NETWORK, "notes: no cancellation")
    yield retry("chain", "a cycle", _cycle, UNKNOWN, "notes: a cycle guard")
    yield retry("chain", "a hundred deep", _deep, UNKNOWN | NETWORK, "it ends")
    yield retry("chain", "an exception whose str() fails", lambda _: _Unprintable(), UNKNOWN, "CRIT-1.0, decision 5")
    yield retry("chain", "an exception with a lying status", lambda _: _Liar("x"), UNKNOWN, "CRIT-1.0, decision 5")


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class _Liar(Exception):
    status_code = "many"
    headers = 7

    @property
    def response(self) -> object:
        raise RuntimeError("no response")


def _bug_in_handler(_: Lab) -> object:
    try:
        raise TimeoutError("slow")
    except TimeoutError as exc:
        return exc.retry_after_seconds


def _validation(_: Lab) -> object:
    try:
        return {}["verdict"]
    except KeyError as exc:
        raise ValueError("verdict is missing") from exc


def _deep_certificate(_: Lab) -> object:
    try:
        try:
            try:
                raise ssl.SSLCertVerificationError(1, "certificate verify failed: certificate has expired")
            except ssl.SSLError as exc:
                raise httpx.ConnectError("failed") from exc
        except httpx.ConnectError as exc:
            raise ConnectionError("the upstream is gone") from exc
    except ConnectionError as exc:
        raise FetchError("no change") from exc


def _timeout_from_cancel(_: Lab) -> object:
    return asyncio.wait_for(asyncio.Event().wait(), 0.01)


def _cycle(_: Lab) -> object:
    one, two = FetchError("one"), FetchError("two")
    one.__cause__, two.__cause__ = two, one
    return one


def _deep(_: Lab) -> object:
    outer: Exception = ConnectionResetError(104, "Connection reset by peer")
    for number in range(100):
        wrapper = FetchError(f"level {number}")
        wrapper.__cause__ = outer
        outer = wrapper
    return outer


async def _task_group(lab: Lab, *statuses: int) -> object:
    # gathered first: a TaskGroup would cancel the slower ones and the group would vary
    urls = [lab.http.url(status, {"Retry-After": str(status % 100)}) for status in statuses]
    outcomes = await asyncio.gather(*(by_httpx_async(url) for url in urls), return_exceptions=True)
    raise ExceptionGroup("several failed", [o for o in outcomes if isinstance(o, Exception)])


async def _real_task_group(lab: Lab, status: int) -> object:
    async with asyncio.TaskGroup() as group:
        group.create_task(by_httpx_async(lab.http.url(status)))
        group.create_task(asyncio.sleep(5))


def _groups() -> Iterator[Case]:
    rule = "notes: a group is retryable only if every leaf is"
    yield retry(
        "group", "503 and 429", lambda lab: _task_group(lab, 503, 429), AWAY | RATE_LIMIT, rule, retry_after=29.0
    )
    yield retry("group", "429 twice", lambda lab: _task_group(lab, 429, 429), RATE_LIMIT, rule, retry_after=29.0)
    yield stop("group", "503 and 401", lambda lab: _task_group(lab, 503, 401), AUTH, rule)
    yield stop("group", "404 and 503", lambda lab: _task_group(lab, 404, 503), NOT_FOUND, rule)
    yield stop(
        "group",
        "a bug among timeouts",
        lambda _: ExceptionGroup("g", [TimeoutError(), KeyError("k")]),
        CONFIGURATION,
        rule,
    )
    yield retry("group", "timeouts, nested", lambda _: _nested(TimeoutError()), NETWORK, rule)
    yield stop("group", "a bug, nested", lambda _: _nested(TypeError("no")), CONFIGURATION, rule)
    yield stop("group", "of a TaskGroup: 403", lambda lab: _real_task_group(lab, 403), AUTH, rule)
    yield retry("group", "of a TaskGroup: 503", lambda lab: _real_task_group(lab, 503), AWAY, rule)
    yield stop(
        "group",
        "wrapped by somebody's own",
        _wrapped_group,
        AUTH | CONFIGURATION | VALIDATION,
        f"{rule}; and walk the chain",
    )
    yield stop("group", "JSON and a refusal", _mixed, VALIDATION | CONFIGURATION, rule)


def _nested(leaf: Exception) -> object:
    return ExceptionGroup("outer", [TimeoutError("a"), ExceptionGroup("inner", [leaf])])


def _wrapped_group(_: Lab) -> object:
    try:
        raise ExceptionGroup("g", [TimeoutError(), KeyError("k")])
    except ExceptionGroup as exc:
        raise FetchError("several failed") from exc


def _mixed(_: Lab) -> object:
    try:
        json.loads("{")
    except ValueError as exc:
        return ExceptionGroup("g", [exc, ConnectionRefusedError(111, "Connection refused")])


def _verdicts() -> Iterator[Case]:
    yield retry(
        "reprieve",
        "Retryable",
        lambda _: Retryable("again"),
        UPSTREAM | UNKNOWN,
        "the author says so",
        error_class="DECLARED_RETRYABLE",
    )
    yield retry(
        "reprieve",
        "Retryable after 12 s",
        lambda _: Retryable("again", retry_after=12),
        UPSTREAM | UNKNOWN,
        "the author says so",
        retry_after=12.0,
    )
    yield stop(
        "reprieve",
        "Permanent",
        lambda _: Permanent("no"),
        POLICY | VALIDATION,
        "the author says so",
        error_class="DECLARED_PERMANENT",
    )
    yield stop(
        "reprieve", "Permanent from a timeout", _permanent, POLICY | VALIDATION | NETWORK, "the author knows better"
    )
    yield stop(
        "reprieve",
        "NeedsReview",
        lambda _: NeedsReview("look"),
        VALIDATION,
        "the author says so",
        error_class="NEEDS_REVIEW",
    )
    yield stop(
        "reprieve",
        "Permanent with a class",
        lambda _: Permanent("no", error_class="CARD_STOLEN"),
        POLICY | VALIDATION,
        "the author says so",
        error_class="CARD_STOLEN",
    )


def _permanent(_: Lab) -> object:
    try:
        raise TimeoutError("slow")
    except TimeoutError as exc:
        raise Permanent("it will never be faster") from exc


def _secrets() -> Iterator[Case]:
    kept = {"secrets": (TOKEN,)}
    yield stop(
        "httpx",
        "a token in the address",
        lambda lab: by_httpx(f"{lab.http.url(404)}?access_token={TOKEN}"),
        NOT_FOUND,
        "CRIT-4.4",
        **kept,
    )
    yield retry(
        "chain",
        "a token in the words",
        lambda _: RuntimeError(f"git push https://ci:{TOKEN}@host.example failed"),
        UNKNOWN,
        "CRIT-4.4",
        **kept,
    )
    yield retry(
        "chain",
        "a bearer in the words",
        lambda _: ConnectionError(f"refused; sent Authorization: Bearer {TOKEN}"),
        NETWORK,
        "CRIT-4.4",
        **kept,
    )
    yield stop("chain", "a token as a key", lambda _: KeyError(TOKEN), CONFIGURATION, "CRIT-4.4", **kept)
    yield stop(
        "chain",
        "a token in bad JSON",
        lambda _: ValueError(f'{{"api_key": "{TOKEN}"'),
        VALIDATION | CONFIGURATION,
        "CRIT-4.4",
        **kept,
    )
    yield retry("chain", "a token in the cause only", _in_the_cause, NETWORK, "CRIT-4.4", **kept)


def _in_the_cause(_: Lab) -> object:
    try:
        raise ConnectionResetError(104, f"reset while sending token={TOKEN}")
    except ConnectionResetError as exc:
        raise FetchError("no change") from exc
