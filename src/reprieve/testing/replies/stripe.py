"""What Stripe answers when it fails."""

from __future__ import annotations

from reprieve.testing.acts import Reply, json_reply


def error(status: int, kind: str, message: str, *, should_retry: bool | None = None, **fields: str) -> Reply:
    """An error in the provider's envelope, with its own word on whether to retry where it gives one."""
    headers = {"Request-Id": "req_stripe_0001"}
    if should_retry is not None:
        headers["Stripe-Should-Retry"] = "true" if should_retry else "false"
    return json_reply({"error": {"type": kind, "message": message, **fields}}, status, headers)


def card_declined() -> Reply:
    """402: the bank said no."""
    return error(402, "card_error", "Your card was declined.", code="card_declined", decline_code="generic_decline")


def rate_limited() -> Reply:
    """429: too many requests."""
    return error(429, "invalid_request_error", "Too many requests hit the API.", code="rate_limit")


def invalid_key() -> Reply:
    """401: the key is wrong."""
    return error(401, "invalid_request_error", "Invalid API Key provided.")


def missing_resource() -> Reply:
    """404: no such thing."""
    return error(404, "invalid_request_error", "No such customer.", code="resource_missing", param="customer")


def idempotency_mismatch() -> Reply:
    """400: the key was used before with other parameters."""
    return error(
        400, "idempotency_error", "Keys for idempotent requests go with the parameters they were first used with."
    )


def conflict() -> Reply:
    """409: another request with this key is under way; the header asks for a retry."""
    return error(
        409, "invalid_request_error", "Another request holds the lock.", should_retry=True, code="lock_timeout"
    )


def api_error() -> Reply:
    """500: it failed inside; the header rules out a retry."""
    return error(500, "api_error", "Something went wrong on our end.", should_retry=False)
