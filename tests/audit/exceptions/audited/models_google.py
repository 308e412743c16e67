"""Google's client against answers as the service words them; RetryInfo sits in the body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google import genai
from google.genai import types

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
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

KEY: Final = secret("AI", "za", "SyD4f6G8h0J2k4L6m8", "N0p2Q4r6S8t0U2v4W")
QUICK: Final[Any] = {"client_args": {"verify": TRUST}, "async_client_args": {"verify": TRUST}}
RPC: Final = "type.googleapis.com/google.rpc."


def error(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, object]:
    """An error body as Google writes it."""
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def wait(delay: str) -> dict[str, Any]:
    """The detail that says when to come back."""
    return {"@type": f"{RPC}RetryInfo", "retryDelay": delay}


def why(reason: str) -> dict[str, Any]:
    """The detail that says what is wrong."""
    return {"@type": f"{RPC}ErrorInfo", "reason": reason, "domain": "googleapis.com"}


def ask(url: str, **options: Any) -> object:
    """One generation."""
    with genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=url, **QUICK, **options)) as client:
        return client.models.generate_content(model="gemini-x", contents="review this")


async def ask_async(url: str) -> object:
    """One generation, awaited."""
    async with genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=url, **QUICK)).aio as client:
        return await client.models.generate_content(model="gemini-x", contents="review this")


PER_DAY: Final = {
    "@type": f"{RPC}QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "50"}],
}
QUOTED: Final = "contents: the text 'RESOURCE_EXHAUSTED 429 rate limit' is not a part"
BAD_KEY: Final = "API key not valid. Please pass a valid API key."

ROWS: Final[tuple[tuple[str, dict[str, Any], bool, Any, str, dict[str, Any]], ...]] = (
    ("INVALID_ARGUMENT", error(400, "INVALID_ARGUMENT", "contents is required"), False, VALIDATION, "LLM-1.1", {}),
    ("INVALID_ARGUMENT that quotes", error(400, "INVALID_ARGUMENT", QUOTED), False, VALIDATION, "decision 1", {}),
    ("API_KEY_INVALID", error(400, "INVALID_ARGUMENT", BAD_KEY, why("API_KEY_INVALID")), False, AUTH, "notes: a bad key is INVALID_ARGUMENT with a reason", {}),
    ("token count", error(400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."), False, VALIDATION, "LLM-1.2", {}),
    ("FAILED_PRECONDITION location", error(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), False, VALIDATION | AUTH | POLICY | CONFIGURATION, "stays so", {}),
    ("UNAUTHENTICATED", error(401, "UNAUTHENTICATED", "Request had invalid authentication credentials."), False, AUTH, "CRIT-1.6", {}),
    ("PERMISSION_DENIED", error(403, "PERMISSION_DENIED", "The caller does not have permission"), False, AUTH, "CRIT-1.6", {}),
    ("PERMISSION_DENIED disabled API", error(403, "PERMISSION_DENIED", "The API has not been used in project 1 before or it is disabled.", why("SERVICE_DISABLED")), False, AUTH | CONFIGURATION, "CRIT-1.6", {}),
    ("NOT_FOUND", error(404, "NOT_FOUND", "models/gemini-x is not found for API version v1beta"), False, NOT_FOUND | CONFIGURATION, "CRIT-1.7", {}),
    ("RESOURCE_EXHAUSTED", error(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."), True, RATE_LIMIT, "CRIT-1.2", {"retry_after": None}),
    ("RESOURCE_EXHAUSTED 53s", error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota. Please retry in 53.1s.", wait("53s")), True, RATE_LIMIT, "notes: RetryInfo", {"retry_after": 53.0}),
    ("RESOURCE_EXHAUSTED 18.403s", error(429, "RESOURCE_EXHAUSTED", "Please retry in 18.403s.", wait("18.403s")), True, RATE_LIMIT, "notes: not a 403", {"retry_after": 18.403}),
    ("RESOURCE_EXHAUSTED per day", error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", PER_DAY, wait("41s")), True, RATE_LIMIT, "a daily quota is a window: CRIT-1.2", {"retry_after": 41.0}),
    ("RESOURCE_EXHAUSTED bad delay", error(429, "RESOURCE_EXHAUSTED", "Slow down", wait("later")), True, RATE_LIMIT, "notes: RetryInfo", {"retry_after": None}),
    ("INTERNAL", error(500, "INTERNAL", "An internal error has occurred"), True, UPSTREAM, "CRIT-1.3", {}),
    ("UNAVAILABLE", error(503, "UNAVAILABLE", "The model is overloaded. Please try again later."), True, AWAY, "ORC-1.2", {}),
    ("UNAVAILABLE 4s", error(503, "UNAVAILABLE", "overloaded", wait("4s")), True, AWAY, "notes: RetryInfo", {"retry_after": 4.0}),
    ("DEADLINE_EXCEEDED", error(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."), True, AWAY, "CRIT-1.1", {}),
    ("CANCELLED", error(499, "CANCELLED", "The operation was cancelled."), True, AWAY, "whoever cancelled it", {"arguable": True}),
    ("UNIMPLEMENTED", error(501, "UNIMPLEMENTED", "not implemented"), False, VALIDATION | CONFIGURATION | UPSTREAM, "decision 4", {}),
)  # fmt: skip


def cases() -> Iterator[Case]:
    """All of them."""
    for label, body, retryable, categories, reason, more in ROWS:
        for name, call in (("google-genai", ask), ("google-genai awaited", ask_async)):
            if name == "google-genai" or label in {
                "API_KEY_INVALID",
                "RESOURCE_EXHAUSTED 53s",
                "INTERNAL",
                "NOT_FOUND",
            }:
                status = body["error"]["code"]
                yield Case(
                    label=f"{name} {label}",
                    library="google-genai",
                    provoke=lambda lab, call=call, status=status, body=body: call(lab.http.url(status, {}, body)),
                    retryable=retryable,
                    categories=categories,
                    reason=reason,
                    **more,
                )
    yield retry(
        "google-genai",
        "google-genai 429 Retry-After header",
        lambda lab: ask(lab.http.url(429, {"Retry-After": "6"}, error(429, "RESOURCE_EXHAUSTED", "slow"))),
        RATE_LIMIT,
        "LLM-2.1",
        retry_after=6.0,
    )
    yield retry("google-genai", "google-genai refused", lambda lab: ask(lab.refused), NETWORK, "LLM-2.2")
    yield retry(
        "google-genai",
        "google-genai timeout",
        lambda lab: ask(lab.http.broken("silent"), timeout=100),
        NETWORK,
        "LLM-2.2",
    )
    yield retry("google-genai", "google-genai hung up on", lambda lab: ask(lab.http.broken("hang-up")), AWAY, "LLM-2.2")
    yield stop(
        "google-genai", "google-genai untrusted certificate", lambda lab: ask(lab.untrusted), CONFIGURATION,
        "notes: permanent", error_class="TLS_INVALID",
    )  # fmt: skip
    yield stop(
        "google-genai",
        "google-genai 404 that is an HTML page",
        lambda lab: ask(lab.http.url(404, {"Content-Type": "text/html"}, b"<h1>404</h1>")),
        NOT_FOUND | CONFIGURATION,
        "CRIT-1.7",
    )
    yield retry(
        "google-genai",
        "google-genai 502 that is an HTML page",
        lambda lab: ask(lab.http.url(502, {"Content-Type": "text/html"}, b"<h1>Bad gateway</h1>")),
        AWAY,
        "CRIT-1.1",
    )
