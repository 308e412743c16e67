"""What Google's generative API answers when it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprieve.testing.acts import Reply, json_reply

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES = "type.googleapis.com/google.rpc."


def error(status: int, name: str, message: str, *details: Mapping[str, object]) -> Reply:
    """An error in the provider's envelope: the HTTP status, the RPC status and its details."""
    body: dict[str, object] = {"code": status, "message": message, "status": name}
    if details:
        body["details"] = list(details)
    return json_reply({"error": body}, status)


def resource_exhausted(retry_delay: str = "53s") -> Reply:
    """429: a window is full; only the body says when it opens."""
    violation = {"quotaMetric": "generate_requests", "quotaId": "RequestsPerMinutePerProject"}
    return error(
        429,
        "RESOURCE_EXHAUSTED",
        "The quota of requests per minute is used up.",
        {"@type": _TYPES + "QuotaFailure", "violations": [violation]},
        {"@type": _TYPES + "RetryInfo", "retryDelay": retry_delay},
    )


def api_key_invalid() -> Reply:
    """400 that is no bad request: only the reason in its details says that the key is wrong."""
    info = {"@type": _TYPES + "ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
    return error(400, "INVALID_ARGUMENT", "API key not valid.", info)


def invalid_argument() -> Reply:
    """400: a parameter is wrong."""
    return error(400, "INVALID_ARGUMENT", "temperature must be between 0 and 2.")


def failed_precondition() -> Reply:
    """400: not offered to this account or place."""
    return error(400, "FAILED_PRECONDITION", "This location is not supported.")


def permission_denied() -> Reply:
    """403: the key may not do this."""
    return error(403, "PERMISSION_DENIED", "The caller does not have permission.")


def not_found() -> Reply:
    """404: no such model."""
    return error(404, "NOT_FOUND", "models/none is not found.")


def internal() -> Reply:
    """500: it failed inside."""
    return error(500, "INTERNAL", "An internal error has occurred.")


def unavailable() -> Reply:
    """503: too many are asking."""
    return error(503, "UNAVAILABLE", "The model is overloaded.")


def deadline_exceeded() -> Reply:
    """504: it took too long inside."""
    return error(504, "DEADLINE_EXCEEDED", "Deadline expired before the operation could complete.")
