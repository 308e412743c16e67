"""What GitHub answers when it limits or refuses."""

from __future__ import annotations

from reprieve.testing.acts import Reply, json_reply


def rate_limit(reset_at: int, status: int = 403) -> Reply:
    """403 (or 429) that is no permission problem: nothing remains until `reset_at`, in seconds since the epoch."""
    headers = {
        "x-ratelimit-limit": "60",
        "x-ratelimit-remaining": "0",
        "x-ratelimit-used": "60",
        "x-ratelimit-reset": str(reset_at),
        "x-ratelimit-resource": "core",
    }
    return json_reply({"message": "API rate limit exceeded for 192.0.2.1."}, status, headers)


def secondary_rate_limit(retry_after: str = "60") -> Reply:
    """403 of the secondary limit: requests remain, Retry-After says when to go on."""
    headers = {"Retry-After": retry_after, "x-ratelimit-remaining": "4990"}
    return json_reply({"message": "You have exceeded a secondary rate limit."}, 403, headers)


def forbidden() -> Reply:
    """403 that means it."""
    return json_reply({"message": "Resource not accessible by integration"}, 403, {"x-ratelimit-remaining": "4990"})


def bad_credentials() -> Reply:
    """401: the token is wrong."""
    return json_reply({"message": "Bad credentials"}, 401)


def not_found() -> Reply:
    """404: gone, or hidden from this token."""
    return json_reply({"message": "Not Found"}, 404)


def validation_failed() -> Reply:
    """422: the request is understood and refused."""
    issue = {"resource": "PullRequest", "field": "head", "code": "invalid"}
    return json_reply({"message": "Validation Failed", "errors": [issue]}, 422)
