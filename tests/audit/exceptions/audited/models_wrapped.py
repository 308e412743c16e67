"""Clients that wrap other clients: litellm, instructor, tenacity."""

from __future__ import annotations

import concurrent.futures
import logging
import os
from typing import TYPE_CHECKING, Any, Final

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else its import asks the network

import httpx
import instructor
import litellm
import openai
import tenacity

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
    stop,
)
from audited.http_clients import by_httpx
from audited.models_anthropic import BROKE, LONG
from audited.models_anthropic import error as anthropic_error
from audited.models_openai import KEY, QUOTA, QUOTES, SAY, TOO_LONG, TPM, TRAP, Review, error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audited.lab import Lab

MONEY: Final = RATE_LIMIT | AUTH | POLICY | CONFIGURATION
logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
litellm.suppress_debug_info = True

GATEWAY: Final[tuple[tuple[str, int, Any, bool, Any, str, dict[str, Any]], ...]] = (
    ("400", 400, error("Missing required parameter", "invalid_request_error", "missing"), False, VALIDATION, "LLM-1.1", {}),
    ("400 context window", 400, error(TOO_LONG, "invalid_request_error", "context_length_exceeded"), False, VALIDATION, "LLM-1.2", {"error_class": "CONTEXT_LENGTH_EXCEEDED"}),
    ("400 content policy", 400, error("rejected by our safety system", "invalid_request_error", "content_policy_violation"), False, POLICY, "CRIT-1.8", {}),
    ("400 quotes a rate limit", 400, error(QUOTES, "invalid_request_error", "invalid_type"), False, VALIDATION, "notes: the gateway itself calls this a 429", {"arguable": True}),
    ("401", 401, error(f"Incorrect API key provided: {KEY}", "invalid_request_error", "invalid_api_key"), False, AUTH, "LLM-1.3", {"secrets": (KEY,)}),
    ("403", 403, error("no access to this model", "invalid_request_error", "forbidden"), False, AUTH | VALIDATION, "the gateway makes it a 400; its cause is a 403", {}),
    ("404", 404, error("The model does not exist", "invalid_request_error", "model_not_found"), False, NOT_FOUND | CONFIGURATION, "CRIT-1.7", {}),
    ("408", 408, error("Request timeout", "timeout"), True, AWAY, "decision 4", {}),
    ("422", 422, error("Unprocessable", "invalid_request_error"), False, VALIDATION, "CRIT-1.5", {}),
    ("429", 429, error(TPM, "tokens", "rate_limit_exceeded"), True, RATE_LIMIT, "LLM-2.1", {}),
    ("429 'retry in 18.403s'", 429, error(TRAP, "requests", "rate_limit_exceeded"), True, RATE_LIMIT, "notes: not a 403", {}),
    ("429 insufficient_quota", 429, error(QUOTA, "insufficient_quota", "insufficient_quota"), False, MONEY, "decision 3", {}),
    ("500", 500, error("The server had an error", "server_error"), True, UPSTREAM, "CRIT-1.3", {}),
    ("502", 502, error("Bad gateway", "server_error"), True, AWAY, "CRIT-1.1", {}),
    ("503", 503, error("Overloaded", "server_error"), True, AWAY, "CRIT-1.1", {}),
    ("504", 504, error("Gateway timeout", "server_error"), True, AWAY, "CRIT-1.1", {}),
)  # fmt: skip


def gateway(url: str, model: str = "openai/gpt-4o-mini", **options: Any) -> object:
    """One completion by way of litellm."""
    settings = {"api_base": url, "api_key": KEY, "num_retries": 0, "max_retries": 0, "timeout": 5, **options}
    return litellm.completion(model=model, messages=SAY["messages"], **settings)


def instruct(url: str, tries: int = 1) -> object:
    """One structured completion by way of instructor."""
    with openai.OpenAI(api_key=KEY, base_url=url, max_retries=0, timeout=5) as client:
        return instructor.from_openai(client).chat.completions.create(**SAY, response_model=Review, max_retries=tries)


def cases() -> Iterator[Case]:
    """All of them."""
    for label, status, body, retryable, categories, reason, more in GATEWAY:
        yield Case(
            label=f"litellm {label}",
            library="litellm",
            provoke=lambda lab, status=status, body=body: gateway(lab.http.url(status, {}, body)),
            retryable=retryable,
            categories=categories,
            reason=reason,
            **more,
        )
    yield from _gateway_more()
    yield from _instructor()
    yield from _tenacity()


def _gateway_more() -> Iterator[Case]:
    model = "anthropic/claude-3-haiku-20240307"
    limited = error(TPM, "tokens", "rate_limit_exceeded")
    yield retry(
        "litellm", "litellm 429 Retry-After", lambda lab: gateway(lab.http.url(429, {"retry-after": "23"}, limited)),
        RATE_LIMIT, "LLM-2.1", retry_after=23.0,
    )  # fmt: skip
    yield retry("litellm", "litellm refused", lambda lab: gateway(lab.refused), AWAY, "LLM-2.2")
    yield retry(
        "litellm", "litellm timeout", lambda lab: gateway(lab.http.broken("silent"), timeout=0.05), NETWORK, "LLM-2.2"
    )
    yield stop("litellm", "litellm without a provider", lambda _: litellm.completion(model="nobody", messages=[]),
        VALIDATION | CONFIGURATION | NOT_FOUND, "a wrong call")  # fmt: skip
    rows = (
        ("529", 529, "overloaded_error", "Overloaded", True, AWAY | RATE_LIMIT, {}),
        ("401", 401, "authentication_error", "invalid x-api-key", False, AUTH, {}),
        ("400 too long", 400, "invalid_request_error", LONG, False, VALIDATION, {}),
        ("400 credit", 400, "invalid_request_error", BROKE, False, MONEY | VALIDATION, {}),
        ("429", 429, "rate_limit_error", "slow down", True, RATE_LIMIT, {}),
    )
    for label, status, kind, message, retryable, categories, more in rows:
        body = anthropic_error(kind, message)
        yield Case(
            label=f"litellm anthropic {label}",
            library="litellm",
            provoke=lambda lab, status=status, body=body: gateway(lab.http.url(status, {}, body), model),
            retryable=retryable,
            categories=categories,
            reason="as the provider's own client",
            **more,
        )


def completion(content: str) -> dict[str, object]:
    """A completion whose tool call carries these arguments."""
    call = {"id": "c1", "type": "function", "function": {"name": "Review", "arguments": content}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }  # fmt: skip


def _instructor() -> Iterator[Case]:
    for name, content in (("wrong types", '{"verdict": [], "line": "x"}'), ("broken JSON", '{"verdict": ')):
        for tries in (1, 2):
            yield stop(
                "instructor",
                f"instructor output with {name}, {tries} tries",
                lambda lab, content=content, tries=tries: instruct(lab.http.url(200, {}, completion(content)), tries),
                VALIDATION,
                "LLM-1.5",
            )
    yield retry(
        "instructor",
        "instructor around a 429",
        lambda lab: instruct(lab.http.url(429, {"retry-after": "19"}, error(TPM, "tokens", "rate_limit_exceeded"))),
        RATE_LIMIT,
        "notes: unwrap the cause",
        retry_after=19.0,
    )
    yield retry(
        "instructor", "instructor around a 503", lambda lab: instruct(lab.http.url(503, {}, {})), AWAY, "notes: unwrap"
    )
    yield stop(
        "instructor",
        "instructor around a 401",
        lambda lab: instruct(lab.http.url(401, {}, error("bad key", "invalid_request_error", "invalid_api_key"))),
        AUTH,
        "notes: unwrap",
    )
    yield retry(
        "instructor", "instructor around a refusal", lambda lab: instruct(lab.refused), NETWORK, "notes: unwrap"
    )


def _spent(lab: Lab, status: int) -> object:
    url = lab.http.url(status, {"Retry-After": "4"})

    @tenacity.retry(stop=tenacity.stop_after_attempt(2), wait=tenacity.wait_none())
    def call() -> object:
        return by_httpx(url)

    return call()


def _never_good() -> object:
    @tenacity.retry(
        stop=tenacity.stop_after_attempt(2),
        wait=tenacity.wait_none(),
        retry=tenacity.retry_if_result(lambda x: x is None),
    )
    def call() -> None:
        return None

    return call()


def _in_a_thread(lab: Lab, status: int) -> object:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(by_httpx, lab.http.url(status)).result()


def _tenacity() -> Iterator[Case]:
    rows = ((429, True, RATE_LIMIT, 4.0), (503, True, AWAY, 4.0), (401, False, AUTH, ...), (404, False, NOT_FOUND, ...))
    for status, retryable, categories, wait in rows:
        yield Case(
            label=f"tenacity RetryError over {status}",
            library="tenacity",
            provoke=lambda lab, status=status: _spent(lab, status),
            retryable=retryable,
            categories=categories,
            reason="notes: unwrap last_attempt",
            retry_after=wait,
        )
        yield Case(
            label=f"a future's {status}",
            library="concurrent.futures",
            provoke=lambda lab, status=status: _in_a_thread(lab, status),
            retryable=retryable,
            categories=categories,
            reason="the exception of a future is the exception",
        )
    yield retry(
        "tenacity",
        "tenacity RetryError over a result",
        lambda _: _never_good(),
        UNKNOWN | UPSTREAM,
        "nothing is known of it",
    )
    yield stop(
        "tenacity", "tenacity RetryError over a bug", lambda _: _spent_bug(), CONFIGURATION, "notes: unwrap; CRIT-1.9"
    )
    yield retry(
        "httpx", "an httpx exception without a request", lambda _: httpx.ReadTimeout("timed out"), NETWORK, "CRIT-1.1"
    )


def _spent_bug() -> object:
    @tenacity.retry(stop=tenacity.stop_after_attempt(2), wait=tenacity.wait_none())
    def call() -> object:
        return [].pop()

    return call()
