"""OpenAI's client, its retries off, against answers as the service words them; Azure's too."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import openai
from pydantic import BaseModel

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    CONFLICT,
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
from audited.http_clients import TRUST
from audited.http_transport import resolver_fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audited.lab import Lab

KEY: Final = secret("sk-", "proj-", "Ab12Cd34Ef56Gh78", "Ij90Kl12Mn34Op56Qr78St90")
MONEY: Final = RATE_LIMIT | AUTH | POLICY | CONFIGURATION
SAY: Final[Any] = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "review this"}]}

SETTINGS: Final[Any] = {"api_key": KEY, "max_retries": 0, "timeout": 5}


def error(message: str, kind: str | None = None, code: str | None = None) -> dict[str, object]:
    """An error body as OpenAI writes it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def ask(url: str, **options: Any) -> object:
    """One chat completion."""
    settings = {**SETTINGS, "base_url": url, "http_client": openai.DefaultHttpxClient(verify=TRUST), **options}
    with openai.OpenAI(**settings) as client:
        return client.chat.completions.create(**SAY)


async def ask_async(url: str, **options: Any) -> object:
    """One chat completion, awaited."""
    settings = {**SETTINGS, "base_url": url, "http_client": openai.DefaultAsyncHttpxClient(verify=TRUST), **options}
    async with openai.AsyncOpenAI(**settings) as client:
        return await client.chat.completions.create(**SAY)


def ask_azure(url: str) -> object:
    """One chat completion by way of Azure."""
    with openai.AzureOpenAI(
        api_key=KEY, azure_endpoint=url, api_version="2024-06-01", max_retries=0, timeout=5
    ) as client:
        return client.chat.completions.create(**SAY)


def stream(lab: Lab, body: dict[str, object]) -> object:
    """A stream that breaks off with an error after its 200."""
    import json  # noqa: PLC0415 - beside its one use

    events = f"data: {json.dumps(body)}\n\ndata: [DONE]\n\n".encode()
    url = lab.http.url(200, {"Content-Type": "text/event-stream"}, events)
    with openai.OpenAI(api_key=KEY, base_url=url, max_retries=0, timeout=5) as client:
        return list(client.chat.completions.create(**SAY, stream=True))


class Review(BaseModel):
    """What the model is asked for."""

    verdict: str
    line: int


def parse(lab: Lab, finish: str, content: str | None) -> object:
    """A completion that ended so, parsed into a Review."""
    message = {"role": "assistant", "content": content, "refusal": None}
    body = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini",
        "choices": [{"index": 0, "finish_reason": finish, "logprobs": None, "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }  # fmt: skip
    with openai.OpenAI(api_key=KEY, base_url=lab.http.url(200, {}, body), max_retries=0) as client:
        return client.chat.completions.parse(**SAY, response_format=Review)


TOO_LONG: Final = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9042 tokens."
QUOTA: Final = "You exceeded your current quota, please check your plan and billing details."
TPM: Final = "Rate limit reached for gpt-4o-mini in organization org-1 on tokens per min (TPM): Limit 200000. Please try again in 180ms."
TRAP: Final = "Rate limit reached for gpt-4o-mini. Please retry in 18.403s. Visit the page on limits for 401 things."
QUOTES: Final = "Invalid value for 'content': the text 'rate limit exceeded, 429 too many requests' is not an object."
COUNTRY: Final = "Country, region, or territory not supported"

ROWS: Final[tuple[tuple[str, int, dict[str, object], bool, Any, str, dict[str, Any]], ...]] = (
    ("400 invalid_request_error", 400, error("Missing required parameter", "invalid_request_error", "missing_required_parameter"), False, VALIDATION, "LLM-1.1", {}),
    ("400 context_length_exceeded", 400, error(TOO_LONG, "invalid_request_error", "context_length_exceeded"), False, VALIDATION, "LLM-1.2", {"error_class": "CONTEXT_LENGTH_EXCEEDED"}),
    ("400 content_policy_violation", 400, error("rejected by our safety system", "image_generation_user_error", "content_policy_violation"), False, POLICY, "CRIT-1.8", {"error_class": "POLICY_REJECTED"}),
    ("400 moderation_blocked", 400, error("rejected by the safety system", "image_generation_user_error", "moderation_blocked"), False, POLICY, "CRIT-1.8", {}),
    ("400 quotes a rate limit", 400, error(QUOTES, "invalid_request_error", "invalid_type"), False, VALIDATION, "decision 1", {}),
    ("400 without a body", 400, {}, False, VALIDATION, "CRIT-1.5", {}),
    ("401 invalid_api_key", 401, error(f"Incorrect API key provided: {KEY}.", "invalid_request_error", "invalid_api_key"), False, AUTH, "LLM-1.3", {"secrets": (KEY,), "error_class": "AUTH_DENIED"}),
    ("401 account_deactivated", 401, error("The account was deactivated", "invalid_request_error", "account_deactivated"), False, AUTH, "CRIT-1.6", {}),
    ("403 unsupported country", 403, error(COUNTRY, "request_forbidden", "unsupported_country_region_territory"), False, AUTH | POLICY, "CRIT-1.6", {}),
    ("403 model access denied", 403, error("Project does not have access to model", "invalid_request_error", "model_not_found"), False, AUTH | NOT_FOUND, "CRIT-1.6", {}),
    ("404 model_not_found", 404, error("The model does not exist", "invalid_request_error", "model_not_found"), False, NOT_FOUND | CONFIGURATION, "CRIT-1.7", {}),
    ("408", 408, error("Request timeout", "timeout"), True, AWAY, "decision 4", {}),
    ("409", 409, error("Conflict", "conflict"), True, CONFLICT, "decision 4", {}),
    ("413", 413, error("Request too large", "invalid_request_error"), False, VALIDATION, "CRIT-1.5", {}),
    ("422", 422, error("Unprocessable", "invalid_request_error"), False, VALIDATION, "CRIT-1.5", {}),
    ("429 rate_limit_exceeded", 429, error(TPM, "tokens", "rate_limit_exceeded"), True, RATE_LIMIT, "CRIT-1.2", {}),
    ("429 'retry in 18.403s'", 429, error(TRAP, "requests", "rate_limit_exceeded"), True, RATE_LIMIT, "notes: 18.403s is not a 403", {}),
    ("429 insufficient_quota", 429, error(QUOTA, "insufficient_quota", "insufficient_quota"), False, MONEY, "decision 3", {"error_class": "QUOTA_EXHAUSTED"}),
    ("429 billing_hard_limit_reached", 429, error("Billing hard limit has been reached", "invalid_request_error", "billing_hard_limit_reached"), False, MONEY, "decision 3", {"error_class": "QUOTA_EXHAUSTED"}),
    ("400 billing_hard_limit_reached", 400, error("Billing hard limit has been reached", "invalid_request_error", "billing_hard_limit_reached"), False, MONEY, "decision 3", {}),
    ("500 server_error", 500, error("The server had an error", "server_error"), True, UPSTREAM, "CRIT-1.3", {}),
    ("500 internal_error", 500, error("internal", "internal_error", "internal_error"), True, UPSTREAM, "CRIT-1.3", {}),
    ("502", 502, {}, True, AWAY, "CRIT-1.1", {}),
    ("503 overloaded", 503, error("That model is currently overloaded", "server_error", "overloaded"), True, AWAY, "ORC-1.2", {}),
    ("503 slow_down", 503, error("Slow Down", "slow_down"), True, AWAY | RATE_LIMIT, "a throttle in 503's clothes", {}),
    ("504", 504, {}, True, AWAY, "CRIT-1.1", {}),
)  # fmt: skip


def cases() -> Iterator[Case]:
    """All of them."""
    for label, status, body, retryable, categories, reason, more in ROWS:
        for name, call in (("openai", ask), ("openai awaited", ask_async)):
            if name == "openai" or status in {401, 429, 500}:
                yield Case(
                    label=f"{name} {label}",
                    library="openai",
                    provoke=lambda lab, call=call, status=status, body=body: call(lab.http.url(status, {}, body)),
                    retryable=retryable,
                    categories=categories,
                    reason=reason,
                    **more,
                )
    yield from _waits()
    yield from _azure()
    yield from _streams()
    yield from _transport()
    yield from _outcomes()


def _waits() -> Iterator[Case]:
    limited = error(TPM, "tokens", "rate_limit_exceeded")
    for name, headers, expected in (
        ("ms", {"retry-after-ms": "180", "retry-after": "1"}, 0.18),
        ("seconds", {"retry-after": "20"}, 20.0),
        ("date", {"retry-after": "Tue, 14 Nov 2023 22:14:20 GMT"}, 60.0),
        ("garbage", {"retry-after": "later"}, None),
    ):
        yield retry(
            "openai",
            f"openai 429 Retry-After {name}",
            lambda lab, headers=headers: ask(lab.http.url(429, headers, limited)),
            RATE_LIMIT,
            "LLM-2.1",
            retry_after=expected,
        )
    yield retry(
        "openai",
        "openai 503 Retry-After",
        lambda lab: ask(lab.http.url(503, {"Retry-After": "8"}, {})),
        AWAY,
        "CRIT-2.2",
        retry_after=8.0,
    )
    yield stop(
        "openai",
        "openai insufficient_quota with a Retry-After",
        lambda lab: ask(
            lab.http.url(429, {"Retry-After": "1"}, error(QUOTA, "insufficient_quota", "insufficient_quota"))
        ),
        MONEY,
        "decision 3: no window, whatever the header says",
    )


def _azure() -> Iterator[Case]:
    filtered = {
        "error": {
            "message": "The response was filtered", "type": None, "param": "prompt", "code": "content_filter", "status": 400,
            "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}},
        }
    }  # fmt: skip
    rows = (
        ("400 content_filter", 400, {}, filtered, False, POLICY, "CRIT-1.8", ...),
        ("401", 401, {}, {"error": {"code": "401", "message": "Access denied due to invalid subscription key"}}, False, AUTH, "CRIT-1.6", ...),
        ("404 DeploymentNotFound", 404, {}, {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist"}}, False, NOT_FOUND | CONFIGURATION, "CRIT-1.7", ...),
        ("429", 429, {"retry-after": "37"}, {"error": {"code": "429", "message": "Requests have exceeded call rate limit"}}, True, RATE_LIMIT, "CRIT-1.2", 37.0),
    )  # fmt: skip
    for label, status, headers, body, retryable, categories, reason, wait in rows:
        yield Case(
            label=f"azure {label}",
            library="openai",
            provoke=lambda lab, status=status, headers=headers, body=body: ask_azure(
                lab.http.url(status, headers, body)
            ),
            retryable=retryable,
            categories=categories,
            reason=reason,
            retry_after=wait,
        )


def _streams() -> Iterator[Case]:
    note = "notes: an error inside a stream is a bare APIError without a status"
    rows = (
        ("server_error", error("The server had an error", "server_error"), True, AWAY),
        ("rate_limit_exceeded", error(TPM, "tokens", "rate_limit_exceeded"), True, RATE_LIMIT),
        ("insufficient_quota", error(QUOTA, "insufficient_quota", "insufficient_quota"), False, MONEY),
        (
            "context_length_exceeded",
            error(TOO_LONG, "invalid_request_error", "context_length_exceeded"),
            False,
            VALIDATION,
        ),
        ("invalid_request_error", error("bad image", "invalid_request_error", "invalid_image"), False, VALIDATION),
        ("no type at all", error("something went wrong"), True, AWAY | UNKNOWN),
    )
    for label, body, retryable, categories in rows:
        yield Case(
            label=f"openai stream {label}",
            library="openai",
            provoke=lambda lab, body=body: stream(lab, body),
            retryable=retryable,
            categories=categories,
            reason=note,
        )


def _transport() -> Iterator[Case]:
    yield retry(
        "openai", "openai APITimeoutError", lambda lab: ask(lab.http.broken("silent"), timeout=1.0), NETWORK, "LLM-2.2",
        error_class="NETWORK_TIMEOUT",
    )  # fmt: skip
    yield retry(
        "openai",
        "openai awaited APITimeoutError",
        lambda lab: ask_async(lab.http.broken("silent"), timeout=1.0),
        NETWORK,
        "LLM-2.2",
    )
    yield retry(
        "openai", "openai refused", lambda lab: ask(lab.refused), NETWORK, "LLM-2.2", error_class="CONNECTION_REFUSED"
    )
    yield retry("openai", "openai hung up on", lambda lab: ask(lab.http.broken("hang-up")), AWAY, "LLM-2.2")
    yield retry("openai", "openai reset", lambda lab: ask(lab.http.broken("reset")), NETWORK, "LLM-2.2")
    yield retry("openai", "openai DNS EAI_AGAIN", _unresolved, NETWORK, "CRIT-1.1", error_class="DNS_FAILURE")
    yield stop(
        "openai", "openai untrusted certificate", lambda lab: ask(lab.untrusted), CONFIGURATION,
        "notes: a certificate at the chain's end makes a connection error permanent", error_class="TLS_INVALID",
    )  # fmt: skip
    yield stop(
        "openai",
        "openai without a scheme",
        lambda _: ask("127.0.0.1/v1"),
        CONFIGURATION | VALIDATION,
        "a wrong address",
    )


def _unresolved(_: Lab) -> object:
    with resolver_fails(-3):
        return asyncio.run(ask_async("http://models.example/v1"))


def _outcomes() -> Iterator[Case]:
    yield stop(
        "openai", "openai LengthFinishReasonError", lambda lab: parse(lab, "length", '{"verd'), VALIDATION, "notes"
    )
    yield stop(
        "openai", "openai ContentFilterFinishReasonError", lambda lab: parse(lab, "content_filter", ""), POLICY, "notes"
    )
    yield stop(
        "openai", "openai output that does not fit", lambda lab: parse(lab, "stop", '{"verdict": 1}'), VALIDATION,
        "CRIT-1.5; repair is another matter",
    )  # fmt: skip
    yield stop(
        "openai", "openai output that is no JSON", lambda lab: parse(lab, "stop", "Sure! Here"), VALIDATION, "CRIT-1.5"
    )
    yield stop(
        "openai",
        "openai client without a key",
        lambda _: openai.OpenAI(api_key=None),
        CONFIGURATION | AUTH,
        "ORC-1.4: configuration is missing",
    )
    yield stop(
        "openai",
        "openai webhook signature",
        lambda _: openai.InvalidWebhookSignatureError("The given signature does not match"),
        AUTH | VALIDATION,
        "a forged call stays forged",
    )
    yield stop("openai", "openai call without arguments", _no_arguments, CONFIGURATION, "a TypeError: CRIT-1.9")


def _no_arguments(lab: Lab) -> object:
    with openai.OpenAI(api_key=KEY, base_url=lab.refused, max_retries=0) as client:
        return client.chat.completions.create()
