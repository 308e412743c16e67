"""Providers' own words for a failure: the codes in an error body, and what each means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from reprieve.core import http
from reprieve.core.facts import body_of, headers_of, parse, seconds, status_of, text_of, without_quotes
from reprieve.core.failure import ErrorClass
from reprieve.core.finding import Finding

_of = ErrorClass

# A code that says more than any status does.
STRONG: Final[dict[str, ErrorClass]] = {
    "insufficient_quota": _of.QUOTA_EXHAUSTED,
    "billing_hard_limit_reached": _of.QUOTA_EXHAUSTED,
    "billing_not_active": _of.QUOTA_EXHAUSTED,
    "billing_error": _of.QUOTA_EXHAUSTED,
    "enforced_spend_limit_reached": _of.QUOTA_EXHAUSTED,
    "account_deactivated": _of.AUTH_DENIED,
    "access_terminated": _of.QUOTA_EXHAUSTED,
    "insufficient_balance": _of.QUOTA_EXHAUSTED,
    "rate_limit_exceeded": _of.RATE_LIMITED,
    "rate_limit_error": _of.RATE_LIMITED,
    "rate_limited": _of.RATE_LIMITED,
    "ratelimited": _of.RATE_LIMITED,
    "rate_limit": _of.RATE_LIMITED,
    "rate-limited": _of.RATE_LIMITED,
    "too_many_requests": _of.RATE_LIMITED,
    "ratelimitexceeded": _of.RATE_LIMITED,
    "userratelimitexceeded": _of.RATE_LIMITED,
    "resource_exhausted": _of.RATE_LIMITED,
    "overloaded_error": _of.OVERLOADED,
    "overloaded": _of.OVERLOADED,
    "engine_overloaded": _of.OVERLOADED,
    "server_overloaded": _of.OVERLOADED,
    "slow_down": _of.OVERLOADED,
    "invalid_api_key": _of.AUTH_DENIED,
    "api_key_invalid": _of.AUTH_DENIED,
    "api_key_expired": _of.AUTH_DENIED,
    "authentication_error": _of.AUTH_DENIED,
    "invalid_authentication": _of.AUTH_DENIED,
    "token_expired": _of.AUTH_DENIED,
    "permission_error": _of.PERMISSION_DENIED,
    "unsupported_country_region_territory": _of.PERMISSION_DENIED,
    "api_key_service_blocked": _of.PERMISSION_DENIED,
    "context_length_exceeded": _of.CONTEXT_LENGTH_EXCEEDED,
    "string_above_max_length": _of.CONTEXT_LENGTH_EXCEEDED,
    "request_too_large": _of.PAYLOAD_TOO_LARGE,
    "content_filter": _of.POLICY_REJECTED,
    "content_policy_violation": _of.POLICY_REJECTED,
    "moderation_blocked": _of.POLICY_REJECTED,
    "responsibleaipolicyviolation": _of.POLICY_REJECTED,
    "model_not_found": _of.NOT_FOUND,
    "deploymentnotfound": _of.NOT_FOUND,
    "not_found_error": _of.NOT_FOUND,
    "resource_missing": _of.NOT_FOUND,
    "json_validate_failed": _of.OUTPUT_INVALID,
    "idempotency_key_in_use": _of.WRITE_CONFLICT,
    "lock_timeout": _of.LOCK_TIMEOUT,
    "card_error": _of.POLICY_REJECTED,
}

# A code that only says what its status says; used where there is none (a stream that began with 200).
WEAK: Final[dict[str, ErrorClass]] = {
    "invalid_request_error": _of.REQUEST_REJECTED,
    "invalid_argument": _of.REQUEST_REJECTED,
    "failed_precondition": _of.REQUEST_REJECTED,
    "out_of_range": _of.REQUEST_REJECTED,
    "invalid_prompt": _of.POLICY_REJECTED,
    "api_error": _of.UPSTREAM_ERROR,
    "server_error": _of.UPSTREAM_ERROR,
    "internal_error": _of.UPSTREAM_ERROR,
    "internal_server_error": _of.UPSTREAM_ERROR,
    "internal": _of.UPSTREAM_ERROR,
    "unknown": _of.UPSTREAM_ERROR,
    "service_unavailable": _of.UPSTREAM_UNAVAILABLE,
    "service_unavailable_error": _of.UPSTREAM_UNAVAILABLE,
    "unavailable": _of.UPSTREAM_UNAVAILABLE,
    "timeout_error": _of.NETWORK_TIMEOUT,
    "timeout": _of.NETWORK_TIMEOUT,
    "deadline_exceeded": _of.NETWORK_TIMEOUT,
    "permission_denied": _of.PERMISSION_DENIED,
    "unauthenticated": _of.AUTH_DENIED,
    "unauthorized": _of.AUTH_DENIED,
    "forbidden": _of.PERMISSION_DENIED,
    "not_found": _of.NOT_FOUND,
    "already_exists": _of.WRITE_CONFLICT,
    "aborted": _of.WRITE_CONFLICT,
    "conflict": _of.WRITE_CONFLICT,
    "tokens": _of.RATE_LIMITED,
    "requests": _of.RATE_LIMITED,
    "idempotency_error": _of.REQUEST_REJECTED,
}

# Sentences of model providers that have no code of their own; looked for only in the provider's own words, never in quotes.
_CREDIT = r"credit balance is too low|exceeded your current quota, please check your plan|spend(?:ing)? limit|api usage limits"
_LENGTH = (
    r"prompt is too long|maximum context length|context (?:length|window|limit|size)|input is too long|reduce the length of"
    r"|too many (?:input )?tokens|exceeds the (?:maximum|limit) (?:number )?of tokens|input token count"
    r"|tokens in request more than max tokens|tokens\s*\+.{0,40}must be <="
)
_POLICY = r"content (?:management )?policy|safety (?:system|policy)|content[ _]filter|usage polic(?:y|ies)"
_KEY = r"api key not valid|invalid api key|incorrect api key|invalid x-api-key"
_SENTENCES: Final = (
    ("credit", _of.QUOTA_EXHAUSTED, re.compile(_CREDIT, re.IGNORECASE)),
    ("length", _of.CONTEXT_LENGTH_EXCEEDED, re.compile(_LENGTH, re.IGNORECASE)),
    ("policy", _of.POLICY_REJECTED, re.compile(_POLICY, re.IGNORECASE)),
    ("key", _of.AUTH_DENIED, re.compile(_KEY, re.IGNORECASE)),
)
_LIMIT = re.compile(r"(?:api|you have exceeded an?|.{0,20}secondary|user|project)[\w ]{0,30} rate limit", re.IGNORECASE)
_CODE = re.compile(r"[A-Za-z0-9_.:#/-]{1,64}")  # one word: a code, not a sentence
_SENTENCE_STATUSES = frozenset({None, 200, 400, 403, 413, 422, 429})


def errors_in(body: object) -> Iterator[Mapping[object, object]]:
    """The objects of a body that describe the error, the innermost first."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, Mapping):
        return
    for name in ("error", "Error", "errors"):
        inner = body.get(name)
        if isinstance(inner, list) and inner:
            inner = inner[0]
        if isinstance(inner, Mapping):
            details = inner.get("details")
            for detail in details if isinstance(details, list) else (details,):
                if isinstance(detail, Mapping):
                    yield detail
            for deeper in ("innererror", "inner_error"):
                if isinstance(inner.get(deeper), Mapping):
                    yield inner[deeper]
            yield inner
    yield body


def codes_in(body: object) -> Iterator[tuple[str, str]]:
    """Every (field, code) of an error body, the most special first."""
    for error in errors_in(body):
        for name in ("error_code", "reason", "code", "status", "type", "__type", "error", "decline_code"):
            value = text_of(error.get(name))
            if value is not None and _CODE.fullmatch(value):
                yield f"body.{name}", value


def message_in(body: object) -> str:
    """The provider's own message, or nothing."""
    for error in errors_in(body):
        for name in ("message", "Message", "error_description", "detail", "title"):
            value = text_of(error.get(name))
            if value is not None:
                return value
    return ""


def delay_in(body: object) -> float | None:
    """Google's RetryInfo.retryDelay, and the `retry_after` that some put into the body, as seconds."""
    for error in errors_in(body):
        delay = text_of(error.get("retryDelay"))
        if delay is not None and delay.endswith("s"):
            return http.wait_from_text(delay[:-1], 0.0)
        wait = seconds(error.get("retry_after"))
        if wait is not None:
            return http.bounded(wait)
    return None


def of_response(status: int | None, headers: object, body: object, now: float, *, message: str = "") -> Finding | None:
    """The verdict on an answer: its code if that says more, else its status, else what its code says anyhow."""
    by_status = None if status is None else http.of_status(status, headers, now)
    wait = http.retry_after(headers, now)
    wait = delay_in(body) if wait is None else wait
    own = message_in(body) or message
    found = (
        _by_code(body, STRONG, by_status)
        or of_sentence(own, status)
        or (_of_limit(own) if by_status is not None and by_status.error_class is _of.PERMISSION_DENIED else None)
        or _as_the_status(body, by_status)
        or _by_code(body, WEAK, None)
    )
    if found is None:
        return None
    return found.but(status=status, retry_after=found.retry_after if wait is None else wait)


def _as_the_status(body: object, by_status: Finding | None) -> Finding | None:
    return None if by_status is None else by_status.but(code=next((code for _field, code in codes_in(body)), None))


def _by_code(body: object, table: Mapping[str, ErrorClass], by_status: Finding | None) -> Finding | None:
    for field, code in codes_in(body):
        word = code.rpartition("#")[2].lower()
        found = table.get(word)
        if found is None and table is STRONG and ("content_policy" in word or "content_filter" in word):
            found = _of.POLICY_REJECTED
        if found is not None:
            return _with_code(found, by_status, field, code)
    return None


def _of_limit(message: str) -> Finding | None:
    if _LIMIT.match(message) is None:
        return None
    return Finding(_of.RATE_LIMITED, rule="http.403.limit", field="body.message", value="rate limit")


def _with_code(error_class: ErrorClass, by_status: Finding | None, field: str, code: str) -> Finding:
    if by_status is not None and by_status.error_class is error_class:
        return by_status.but(code=code)
    unknown = by_status is not None and by_status.outcome_unknown
    return Finding(
        error_class, rule=f"code.{code[:40]}", field=field, value=code, code=code, outcome_unknown=unknown,
        retry_after=None if by_status is None else by_status.retry_after,
    )  # fmt: skip


def of_sentence(message: str, status: int | None) -> Finding | None:
    """What a provider's own message says where no code does."""
    if status not in _SENTENCE_STATUSES or not message:
        return None
    own = without_quotes(message[:2000])
    for name, error_class, pattern in _SENTENCES:
        if status == 429 and error_class is not _of.QUOTA_EXHAUSTED:  # noqa: PLR2004 - the rest of a 429 is a limit
            continue
        if pattern.search(own):
            return Finding(error_class, rule=f"model.{name}", field="body.message", value=name)
    return None


def parse_body(body: object) -> object:
    """A body as values: already parsed, or JSON text; None where it is neither."""
    if isinstance(body, str | bytes):
        return parse(body)
    return body if isinstance(body, Mapping | list) else None


def of_exception(exc: object, now: float) -> Finding | None:
    """The verdict on an exception that carries an HTTP answer; None where it carries none."""
    found = status_of(exc)
    status, field = found if found is not None else (None, "")
    body = body_of(exc)
    finding = of_response(status, headers_of(exc), body, now)
    if finding is not None and finding.field == "status":
        finding = finding.but(field=field)
    return finding
