"""What most code does instead: look for a status, then for words; kept here only to compare with."""

from __future__ import annotations

from typing import Final

from reprieve.core.failure import Category

FIELDS: Final = ("status_code", "http_status", "status", "code", "smtp_code")
STATUSES: Final = {
    401: (False, Category.AUTH),
    403: (False, Category.AUTH),
    404: (False, Category.NOT_FOUND),
    408: (True, Category.NETWORK),
    409: (True, Category.CONFLICT),
    410: (False, Category.NOT_FOUND),
    429: (True, Category.RATE_LIMIT),
    500: (True, Category.UPSTREAM),
    502: (True, Category.NETWORK),
    503: (True, Category.NETWORK),
    504: (True, Category.NETWORK),
}
WORDS: Final = (
    (("rate limit", "too many requests"), True, Category.RATE_LIMIT),
    (("timeout", "timed out", "etimedout", "econnreset"), True, Category.NETWORK),
    (("econnrefused", "enotfound", "network", "connection"), True, Category.NETWORK),
    (("unauthorized", "forbidden", "authentication"), False, Category.AUTH),
    (("validation", "invalid", "malformed"), False, Category.VALIDATION),
)


def judge(exc: BaseException) -> tuple[bool, Category]:
    """Retryable or not, and which category, by status and substring alone."""
    status = _status(exc)
    if status in STATUSES:
        return STATUSES[status]
    if status is not None:
        return (status >= 500, Category.UPSTREAM if status >= 500 else Category.VALIDATION)
    text = _words(exc)
    for words, retryable, category in WORDS:
        if any(word in text for word in words):
            return retryable, category
    return True, Category.UNKNOWN


def _status(exc: BaseException) -> int | None:
    for holder in (exc, _get(exc, "response")):
        for field in FIELDS:
            value = _get(holder, field)
            if isinstance(value, int) and 400 <= value < 600:
                return int(value)
    return None


def _get(holder: object, field: str) -> object:
    try:
        return getattr(holder, field, None)
    except Exception:  # noqa: BLE001 - some exceptions in the corpus are ill-behaved on purpose
        return None


def _words(exc: BaseException) -> str:
    try:
        return f"{type(exc).__name__} {exc}".lower()
    except Exception:  # noqa: BLE001 - the same
        return ""
