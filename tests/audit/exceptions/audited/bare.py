"""Bare HTTP answers, without any exception: status, headers and body as a queue or a log would hold them."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import formatdate
from types import EllipsisType
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


ANSWERS: Final = (
    *(Answer(f"a bare {status}", status, {}, b"", verdict[0], verdict[1], None) for status, verdict in STATUSES.items()),
    Answer("no headers at all", 503, None, None, True, AWAY, None),
    Answer("headers as pairs", 429, [("Retry-After", "5")], b"", True, RATE_LIMIT, 5.0),
    Answer("headers as bytes", 429, [(b"retry-after", b"5")], b"", True, RATE_LIMIT, 5.0),
    Answer("a date", 503, {"retry-after": formatdate(NOW + 60, usegmt=True)}, "", True, AWAY, 60.0),
    Answer("milliseconds", 429, {"Retry-After-Ms": "250"}, "", True, RATE_LIMIT, 0.25),
    Answer("a number for a header", 429, {"Retry-After": 7}, "", True, RATE_LIMIT, 7.0),
    Answer("negative", 429, {"Retry-After": "-1"}, "", True, RATE_LIMIT, None),
    Answer("nan", 429, {"Retry-After": "NaN"}, "", True, RATE_LIMIT, None),
    Answer("out of money, as values", 429, {}, QUOTA, False, MONEY),
    Answer("credit exhausted, as values", 400, {}, BROKE, False, MONEY),
    Answer("RetryInfo, as values", 429, {}, DELAY, True, RATE_LIMIT, 53.0),
    Answer("GitHub's limit", 403, RESET, {"message": "API rate limit exceeded for user ID 1."}, True, RATE_LIMIT, 45.0),
    Answer("a 400 that quotes", 400, {}, {"message": "the text 'rate limit 429' is not allowed in a title"}, False, VALIDATION),
    Answer("a 404 that quotes", 404, {}, "no page is named 'timeout'", False, NOT_FOUND),
    Answer("a body that is no JSON", 500, {"Content-Type": "application/json"}, b"{nope", True, UPSTREAM),
    Answer("a body that is no text", 502, {}, b"\xff\xfe\x00", True, AWAY),
    Answer("a redirect", 302, {"Location": "/x"}, b"", False, CONFIGURATION),
    Answer("a conflict with a body", 409, {}, {"code": "version_conflict"}, True, CONFLICT),
)  # fmt: skip
