"""Bare HTTP answers, without any exception: status, headers and body as a queue or a log would hold them."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    CONFLICT,
    NOT_FOUND,
    NOW,
    POLICY,
    RATE_LIMIT,
    UPSTREAM,
    VALIDATION,
)
from audited.http_status import STATUSES

if TYPE_CHECKING:
    from types import EllipsisType

    from reprieve.core.failure import Category

MONEY: Final = RATE_LIMIT | AUTH | POLICY | CONFIGURATION
QUOTA: Final = {
    "error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}
}
DELAY: Final = {
    "error": {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "53s"}],
    }
}
BROKE: Final = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "Your credit balance is too low to access the Anthropic API.",
    },
}
REFUSED: Final = {"ok": False, "error": "channel_not_found"}
RESET: Final = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW) + 45)}


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer and the verdict it should get."""

    label: str
    status: int
    headers: Any
    body: Any
    retryable: bool
    categories: frozenset[Category]
    retry_after: float | EllipsisType | None = ...


def again(label: str, status: int, headers: Any, body: Any, categories: Any, wait: Any = ...) -> Answer:
    """An answer after which another try may help."""
    return Answer(label, status, headers, body, retryable=True, categories=categories, retry_after=wait)


def never(label: str, status: int, headers: Any, body: Any, categories: Any, wait: Any = ...) -> Answer:
    """An answer after which none will."""
    return Answer(label, status, headers, body, retryable=False, categories=categories, retry_after=wait)


ANSWERS: Final = (
    *(Answer(f"a bare {status}", status, {}, b"", verdict[0], verdict[1], None) for status, verdict in STATUSES.items()),
    again("no headers at all", 503, None, None, AWAY, None),
    again("headers as pairs", 429, [("Retry-After", "5")], b"", RATE_LIMIT, 5.0),
    again("headers as bytes", 429, [(b"retry-after", b"5")], b"", RATE_LIMIT, 5.0),
    again("a date", 503, {"retry-after": formatdate(NOW + 60, usegmt=True)}, "", AWAY, 60.0),
    again("milliseconds", 429, {"Retry-After-Ms": "250"}, "", RATE_LIMIT, 0.25),
    again("a number for a header", 429, {"Retry-After": 7}, "", RATE_LIMIT, 7.0),
    again("negative", 429, {"Retry-After": "-1"}, "", RATE_LIMIT, None),
    again("nan", 429, {"Retry-After": "NaN"}, "", RATE_LIMIT, None),
    never("out of money, as values", 429, {}, QUOTA, MONEY),
    never("credit exhausted, as values", 400, {}, BROKE, MONEY),
    again("RetryInfo, as values", 429, {}, DELAY, RATE_LIMIT, 53.0),
    again("GitHub's limit", 403, RESET, {"message": "API rate limit exceeded for user ID 1."}, RATE_LIMIT, 45.0),
    never("a 400 that quotes", 400, {}, {"message": "the text 'rate limit 429' is not allowed in a title"}, VALIDATION),
    never("a 404 that quotes", 404, {}, "no page is named 'timeout'", NOT_FOUND),
    again("a body that is no JSON", 500, {"Content-Type": "application/json"}, b"{nope", UPSTREAM),
    again("a body that is no text", 502, {}, b"\xff\xfe\x00", AWAY),
    never("a redirect", 302, {"Location": "/x"}, b"", CONFIGURATION),
    again("a conflict with a body", 409, {}, {"code": "version_conflict"}, CONFLICT),
)  # fmt: skip
