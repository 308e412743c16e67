"""What Slack answers when it fails; most of it with HTTP 200."""

from __future__ import annotations

from reprieve.testing.acts import Reply, json_reply


def not_ok(error: str, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    """`ok: false` with this word for it."""
    return json_reply({"ok": False, "error": error}, status, headers)


def channel_not_found() -> Reply:
    """200: no such channel."""
    return not_ok("channel_not_found")


def invalid_auth() -> Reply:
    """200: the token is wrong."""
    return not_ok("invalid_auth")


def missing_scope() -> Reply:
    """200: the token may not do this."""
    return json_reply({"ok": False, "error": "missing_scope", "needed": "chat:write", "provided": "users:read"})


def message_too_long() -> Reply:
    """200: the text is too long."""
    return not_ok("msg_too_long")


def ratelimited(retry_after: str = "2") -> Reply:
    """429: too many messages; says when to go on."""
    return not_ok("ratelimited", 429, {"Retry-After": retry_after})


def fatal_error() -> Reply:
    """200: it failed inside, perhaps after the message was posted."""
    return not_ok("fatal_error")


def internal_error() -> Reply:
    """500: it failed inside."""
    return not_ok("internal_error", 500)


def webhook_invalid_payload() -> Reply:
    """400 of an incoming webhook: a word, not JSON."""
    return Reply(400, "invalid_payload", {"Content-Type": "text/html"})


def webhook_gone() -> Reply:
    """404 of an incoming webhook that was removed."""
    return Reply(404, "no_service", {"Content-Type": "text/html"})
