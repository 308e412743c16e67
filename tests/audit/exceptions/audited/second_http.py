"""A second draw, written after the first was judged: lesser statuses, stranger waits, providers behind one client."""

from __future__ import annotations

import xmlrpc.client
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    NOT_FOUND,
    NOW,
    POLICY,
    RATE_LIMIT,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    stop,
)
from audited.http_clients import CLIENTS, by_aiohttp, by_httpx, by_requests
from audited.models_anthropic import ask as ask_anthropic
from audited.models_anthropic import error as anthropic_error
from audited.models_google import ask as ask_google
from audited.models_google import error as google_error
from audited.models_google import why
from audited.models_openai import ask, error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audited.lab import Lab

CALL: Final = VALIDATION | CONFIGURATION
MONEY: Final = RATE_LIMIT | AUTH | POLICY | CONFIGURATION

STATUSES: Final[tuple[tuple[int, bool, Any, str, bool], ...]] = (
    (418, False, CALL | POLICY, "a wrong call; ING-1.5", False),
    (420, True, RATE_LIMIT, "a rate limit of old", True),
    (440, False, AUTH, "a login that expired", True),
    (444, True, AWAY, "the proxy hung up", True),
    (449, True, AWAY | CALL, "retry with", True),
    (460, True, AWAY, "the client hung up", True),
    (494, False, CALL, "headers too large", False),
    (495, False, CONFIGURATION | AUTH | VALIDATION, "a bad client certificate", False),
    (496, False, CONFIGURATION | AUTH | VALIDATION, "no client certificate", False),
    (497, False, CALL, "plain HTTP to a TLS port", False),
    (506, True, UPSTREAM | CONFIGURATION, "other 5xx retry", True),
    (509, True, RATE_LIMIT | UPSTREAM, "notes: 509 is a throttle", False),
    (523, True, AWAY, "other 5xx retry", False),
    (525, True, AWAY | CONFIGURATION, "a handshake behind the proxy", True),
    (526, False, CONFIGURATION, "a certificate behind the proxy", True),
    (527, True, AWAY, "other 5xx retry", False),
    (530, True, AWAY, "other 5xx retry", False),
    (561, False, AUTH | UPSTREAM, "a load balancer's login failed", True),
    (598, True, AWAY, "other 5xx retry", False),
)
WAITS: Final[tuple[tuple[str, dict[str, str], float | None], ...]] = (
    ("leading zeros", {"Retry-After": "0007"}, 7.0),
    ("underscores", {"Retry-After": "1_000"}, None),
    ("hexadecimal", {"Retry-After": "0x10"}, None),
    ("a unit", {"Retry-After": "5s"}, None),
    ("minus zero date zone", {"Retry-After": "Tue, 14 Nov 2023 22:13:50 -0000"}, 30.0),
    ("a negative offset", {"Retry-After": "Tue, 14 Nov 2023 17:13:50 -0500"}, 30.0),
    ("a month ahead", {"Retry-After": formatdate(NOW + 30 * 86400, usegmt=True)}, 2592000.0),
    ("the thirtieth of February", {"Retry-After": "Fri, 30 Feb 2024 00:00:00 GMT"}, None),
    ("the year 1601", {"Retry-After": "Mon, 01 Jan 1601 00:00:00 GMT"}, 0.0),
    ("quoted", {"Retry-After": '"7"'}, None),
    ("infinity in full", {"Retry-After": "Infinity"}, None),
    ("minus infinity", {"Retry-After": "-inf"}, None),
    ("zero milliseconds", {"retry-after-ms": "0"}, 0.0),
    ("float milliseconds", {"retry-after-ms": "12.5"}, 0.0125),
    ("empty milliseconds, good seconds", {"retry-after-ms": "", "Retry-After": "4"}, 4.0),
    ("good milliseconds, garbage seconds", {"retry-after-ms": "900", "Retry-After": "soon"}, 0.9),
)
OPEN_WAITS: Final = {"the year 1601", "quoted"}
PROVIDERS: Final[tuple[tuple[str, int, Any, bool, Any, str], ...]] = (
    ("402 Insufficient Balance", 402, error("Insufficient Balance", "unknown_error", "invalid_request_error"), False, MONEY, "decision 3"),
    ("429 billing_not_active", 429, error("Your account is not active, please check your billing details", "billing_not_active", "billing_not_active"), False, MONEY, "decision 3"),
    ("429 without a code", 429, error("Too many concurrent requests"), True, RATE_LIMIT, "CRIT-1.2"),
    ("429 as plain text", 429, b"slow down please", True, RATE_LIMIT, "CRIT-1.2"),
    ("429 whose error is a word", 429, {"error": "rate limited"}, True, RATE_LIMIT, "CRIT-1.2"),
    ("400 invalid_prompt", 400, error("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", "invalid_request_error", "invalid_prompt"), False, POLICY | VALIDATION, "CRIT-1.8"),
    ("400 string_above_max_length", 400, error("Invalid 'input': string too long.", "invalid_request_error", "string_above_max_length"), False, VALIDATION, "LLM-1.1"),
    ("400 unsupported_parameter", 400, error("Unsupported parameter: 'timeout'", "invalid_request_error", "unsupported_parameter"), False, VALIDATION, "LLM-1.1"),
    ("400 error is a list", 400, [{"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}], False, VALIDATION, "LLM-1.1"),
    ("401 as a page", 401, b"<html>401 Authorization Required</html>", False, AUTH, "LLM-1.4"),
    ("403 challenge page", 403, b"<html><title>Just a moment...</title></html>", False, AUTH, "CRIT-1.6"),
    ("404 page", 404, b"<html>404 page not found</html>", False, NOT_FOUND | CONFIGURATION, "CRIT-1.7"),
    ("502 page", 502, b"<html>502 Bad Gateway</html>", True, AWAY, "CRIT-1.1"),
    ("520 page", 520, b"<html>Web server is returning an unknown error</html>", True, AWAY, "other 5xx"),
    ("500 that mentions a key", 500, error("internal error while checking the invalid_api_key cache", "server_error"), True, UPSTREAM, "decision 1"),
    ("503 that mentions authentication", 503, error("The authentication service is down", "server_error"), True, AWAY, "decision 1"),
)  # fmt: skip


def cases() -> Iterator[Case]:
    """All of them."""
    for status, retryable, categories, reason, arguable in STATUSES:
        for name, call in (("requests", by_requests), ("aiohttp", by_aiohttp)):
            yield Case(
                label=f"{name} {status}, second draw",
                library=name,
                provoke=lambda lab, call=call, status=status: call(lab.http.url(status)),
                retryable=retryable,
                categories=categories,
                reason=reason,
                arguable=arguable,
                retry_after=None,
            )
    for name, headers, expected in WAITS:
        client = ("httpx", "requests", "aiohttp", "urllib", "httpx2")[len(name) % 5]
        yield retry(
            client, f"{client} 503 Retry-After: {name}",
            lambda lab, client=client, headers=headers: CLIENTS[client](lab.http.url(503, headers)), AWAY,
            "notes: Retry-After", retry_after=expected, arguable=name in OPEN_WAITS,
        )  # fmt: skip
    for label, status, body, retryable, categories, reason in PROVIDERS:
        yield Case(
            label=f"openai {label}, second draw",
            library="openai",
            provoke=lambda lab, status=status, body=body: ask(lab.http.url(status, {}, body)),
            retryable=retryable,
            categories=categories,
            reason=reason,
        )
    yield from _other_models()
    yield from _remote_calls()


def _other_models() -> Iterator[Case]:
    rows: tuple[tuple[str, Any, int, Any, bool, Any, str], ...] = (
        ("anthropic 400 image", ask_anthropic, 400, anthropic_error("invalid_request_error", "image exceeds 5 MB maximum"), False, VALIDATION, "LLM-1.1"),
        ("anthropic 403 as text", ask_anthropic, 403, b"Request not allowed", False, AUTH, "CRIT-1.6"),
        ("anthropic 429 as text", ask_anthropic, 429, b"error code: 1015", True, RATE_LIMIT, "CRIT-1.2"),
        ("anthropic 500 as a page", ask_anthropic, 500, b"<html>oops</html>", True, UPSTREAM, "CRIT-1.3"),
        ("anthropic 404 not_found", ask_anthropic, 404, anthropic_error("not_found_error", "Not Found"), False, NOT_FOUND | CONFIGURATION, "CRIT-1.7"),
        ("google expired key", ask_google, 400, google_error(400, "INVALID_ARGUMENT", "API key expired. Please renew the API key.", why("API_KEY_INVALID")), False, AUTH, "CRIT-1.6"),
        ("google leaked key", ask_google, 403, google_error(403, "PERMISSION_DENIED", "Your API key was reported as leaked."), False, AUTH, "CRIT-1.6"),
        ("google unsupported model", ask_google, 404, google_error(404, "NOT_FOUND", "no longer available"), False, NOT_FOUND | CONFIGURATION, "CRIT-1.7"),
        ("google 429 without details", ask_google, 429, {"error": {"code": 429, "message": "Too Many Requests"}}, True, RATE_LIMIT, "CRIT-1.2"),
        ("google 500 that quotes a limit", ask_google, 500, google_error(500, "INTERNAL", "rate limit table corrupt"), True, UPSTREAM, "decision 1"),
    )  # fmt: skip
    for label, call, status, body, retryable, categories, reason in rows:
        yield Case(
            label=f"{label}, second draw",
            library="anthropic" if label.startswith("anthropic") else "google-genai",
            provoke=lambda lab, call=call, status=status, body=body: call(lab.http.url(status, {}, body)),
            retryable=retryable,
            categories=categories,
            reason=reason,
        )


def _remote(lab: Lab, status: int) -> object:
    with xmlrpc.client.ServerProxy(lab.http.url(status, {"Retry-After": "5"} if status == 503 else {})) as proxy:
        return proxy.changes()


def _remote_calls() -> Iterator[Case]:
    yield retry("xmlrpc", "xmlrpc 503", lambda lab: _remote(lab, 503), AWAY, "a status by another name", arguable=True)
    yield stop("xmlrpc", "xmlrpc 401", lambda lab: _remote(lab, 401), AUTH, "a status by another name", arguable=True)
    yield stop(
        "xmlrpc",
        "xmlrpc Fault",
        lambda _: xmlrpc.client.Fault(1, "no such method"),
        CALL | UPSTREAM,
        "a refusal",
        arguable=True,
    )
    yield stop(
        "httpx", "httpx 401 with a Retry-After", lambda lab: by_httpx(lab.http.url(401, {"Retry-After": "9"})), AUTH,
        "waiting mends no credential",
    )  # fmt: skip
    yield stop(
        "httpx", "httpx 404 with a Retry-After", lambda lab: by_httpx(lab.http.url(404, {"Retry-After": "9"})), NOT_FOUND,
        "waiting does not bring it back",
    )  # fmt: skip
    yield stop(
        "httpx", "httpx 422 with a reset", lambda lab: by_httpx(lab.http.url(422, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000099"})),
        VALIDATION, "an empty remainder does not make every answer a limit",
    )  # fmt: skip
    yield retry(
        "httpx", "httpx 500 with an empty remainder",
        lambda lab: by_httpx(lab.http.url(500, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000099"})),
        UPSTREAM | RATE_LIMIT, "it failed inside",
    )  # fmt: skip
