"""Anthropic's client, its retries off, against answers as the service words them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import anthropic

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
    retry,
    secret,
    stop,
)
from audited.http_clients import TRUST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audited.lab import Lab

KEY: Final = secret("sk-", "ant-", "api03-", "Zy98Xw76Vu54Ts32", "Rq10Po98Nm76Lk54Ji32Hg10-AA")
MONEY: Final = RATE_LIMIT | AUTH | POLICY | CONFIGURATION
SAY: Final[Any] = {"model": "claude-x", "max_tokens": 8, "messages": [{"role": "user", "content": "review this"}]}
SETTINGS: Final[Any] = {"api_key": KEY, "max_retries": 0, "timeout": 5}
BROKE: Final = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade."
LONG: Final = "prompt is too long: 210429 tokens > 200000 maximum"
BLOCKED: Final = "Output blocked by content filtering policy"
SPENT: Final = "You have reached your specified API usage limits. You will regain access on 2023-12-01 at 00:00 UTC."


def error(kind: str, message: str) -> dict[str, object]:
    """An error body as Anthropic writes it."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}


def ask(url: str, **options: Any) -> object:
    """One message."""
    settings = {**SETTINGS, "base_url": url, "http_client": anthropic.DefaultHttpxClient(verify=TRUST), **options}
    with anthropic.Anthropic(**settings) as client:
        return client.messages.create(**SAY)


async def ask_async(url: str, **options: Any) -> object:
    """One message, awaited."""
    settings = {**SETTINGS, "base_url": url, "http_client": anthropic.DefaultAsyncHttpxClient(verify=TRUST), **options}
    async with anthropic.AsyncAnthropic(**settings) as client:
        return await client.messages.create(**SAY)


def stream(lab: Lab, kind: str, message: str) -> object:
    """A stream that breaks off with an error after its 200."""
    events = f"event: error\ndata: {json.dumps(error(kind, message))}\n\n".encode()
    url = lab.http.url(200, {"Content-Type": "text/event-stream"}, events)
    with anthropic.Anthropic(api_key=KEY, base_url=url, max_retries=0, timeout=5) as client:
        return list(client.messages.create(**SAY, stream=True))


ROWS: Final[tuple[tuple[int, str, str, bool, Any, str, dict[str, Any]], ...]] = (
    (400, "invalid_request_error", "messages.0.content: Field required", False, VALIDATION, "LLM-1.1", {}),
    (400, "invalid_request_error", LONG, False, VALIDATION, "LLM-1.2", {"error_class": "CONTEXT_LENGTH_EXCEEDED"}),
    (400, "invalid_request_error", BROKE, False, MONEY, "notes: credit exhausted is a 400 by message", {"error_class": "QUOTA_EXHAUSTED"}),
    (400, "invalid_request_error", BLOCKED, False, POLICY, "CRIT-1.8", {}),
    (400, "invalid_request_error", "tools.0: the name 'rate limit, 429' does not match", False, VALIDATION, "decision 1", {}),
    (401, "authentication_error", "invalid x-api-key", False, AUTH, "LLM-1.4", {"error_class": "AUTH_DENIED"}),
    (401, "authentication_error", f"invalid x-api-key: {KEY}", False, AUTH, "LLM-1.4", {"secrets": (KEY,)}),
    (402, "billing_error", "Your organization has no payment method", False, MONEY, "notes", {}),
    (403, "permission_error", "Your API key does not have permission", False, AUTH, "CRIT-1.6", {}),
    (404, "not_found_error", "model: claude-x", False, NOT_FOUND | CONFIGURATION, "CRIT-1.7", {}),
    (408, "timeout_error", "Request timed out", True, AWAY, "decision 4", {}),
    (409, "conflict_error", "Conflict", True, CONFLICT, "decision 4", {}),
    (413, "request_too_large", "Request exceeds the maximum size", False, VALIDATION, "CRIT-1.5", {}),
    (422, "invalid_request_error", "Unprocessable", False, VALIDATION, "CRIT-1.5", {}),
    (429, "rate_limit_error", "This request would exceed your organization's rate limit of 40,000 tokens per minute", True, RATE_LIMIT, "LLM-2.1", {}),
    (500, "api_error", "Internal server error", True, UPSTREAM, "CRIT-1.3", {}),
    (502, "api_error", "Bad gateway", True, AWAY, "CRIT-1.1", {}),
    (503, "api_error", "Service unavailable", True, AWAY, "CRIT-1.1", {}),
    (504, "timeout_error", "Gateway timeout", True, AWAY, "CRIT-1.1", {}),
    (529, "overloaded_error", "Overloaded", True, UPSTREAM | RATE_LIMIT, "ORC-1.2", {"error_class": "OVERLOADED"}),
)  # fmt: skip


def cases() -> Iterator[Case]:
    """All of them."""
    for status, kind, message, retryable, categories, reason, more in ROWS:
        body = error(kind, message)
        for name, call in (("anthropic", ask), ("anthropic awaited", ask_async)):
            if name == "anthropic" or status in {400, 429, 529}:
                yield Case(
                    label=f"{name} {status} {kind}: {message[:20] if KEY not in message else 'quoting the key'}",
                    library="anthropic",
                    provoke=lambda lab, call=call, status=status, body=body: call(lab.http.url(status, {}, body)),
                    retryable=retryable,
                    categories=categories,
                    reason=reason,
                    **more,
                )
    yield from _streams()
    yield from _waits()
    yield from _rest()


def _streams() -> Iterator[Case]:
    rows = (
        ("overloaded_error", "Overloaded", True, UPSTREAM | RATE_LIMIT),
        ("rate_limit_error", "Number of requests has exceeded your rate limit", True, RATE_LIMIT),
        ("api_error", "Internal server error", True, UPSTREAM),
        ("timeout_error", "Request timed out", True, AWAY),
        ("invalid_request_error", LONG, False, VALIDATION),
        ("invalid_request_error", BROKE, False, MONEY),
        ("authentication_error", "invalid x-api-key", False, AUTH),
        ("permission_error", "not allowed", False, AUTH),
        ("not_found_error", "model: claude-x", False, NOT_FOUND | CONFIGURATION),
    )
    for kind, message, retryable, categories in rows:
        yield Case(
            label=f"anthropic stream {kind}: {message[:12]}",
            library="anthropic",
            provoke=lambda lab, kind=kind, message=message: stream(lab, kind, message),
            retryable=retryable,
            categories=categories,
            reason="notes: inside a stream the status is 200 and the type decides",
        )


def _waits() -> Iterator[Case]:
    limited = error("rate_limit_error", "slow down")
    yield retry(
        "anthropic", "anthropic 429 Retry-After", lambda lab: ask(lab.http.url(429, {"retry-after": "42"}, limited)),
        RATE_LIMIT, "LLM-2.1", retry_after=42.0,
    )  # fmt: skip
    yield retry(
        "anthropic", "anthropic 529 Retry-After",
        lambda lab: ask(lab.http.url(529, {"retry-after": "5"}, error("overloaded_error", "Overloaded"))),
        UPSTREAM | RATE_LIMIT, "LLM-2.1", retry_after=5.0,
    )  # fmt: skip
    yield retry(
        "anthropic", "anthropic 429 Retry-After in the past",
        lambda lab: ask(lab.http.url(429, {"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, limited)),
        RATE_LIMIT, "notes: a date in the past is 0", retry_after=0.0,
    )  # fmt: skip
    yield stop(
        "anthropic",
        "anthropic 400 usage limit that the owner set",
        lambda lab: ask(lab.http.url(400, {}, error("invalid_request_error", SPENT))),
        MONEY | VALIDATION,
        "decision 3: over its spend limit",
    )


def _rest() -> Iterator[Case]:
    yield retry(
        "anthropic", "anthropic APITimeoutError", lambda lab: ask(lab.http.broken("silent"), timeout=1.0), NETWORK,
        "LLM-2.2", error_class="NETWORK_TIMEOUT",
    )  # fmt: skip
    yield retry(
        "anthropic",
        "anthropic refused",
        lambda lab: ask(lab.refused),
        NETWORK,
        "LLM-2.2",
        error_class="CONNECTION_REFUSED",
    )
    yield retry("anthropic", "anthropic reset", lambda lab: ask(lab.http.broken("reset")), NETWORK, "LLM-2.2")
    yield retry("anthropic", "anthropic hung up on", lambda lab: ask_async(lab.http.broken("hang-up")), AWAY, "LLM-2.2")
    yield stop(
        "anthropic", "anthropic untrusted certificate", lambda lab: ask(lab.untrusted), CONFIGURATION,
        "notes: permanent", error_class="TLS_INVALID",
    )  # fmt: skip
    yield stop(
        "anthropic",
        "anthropic client without a key",
        lambda lab: ask(lab.refused, api_key=None),
        CONFIGURATION | AUTH,
        "ORC-1.4: configuration is missing",
        arguable=True,
    )
