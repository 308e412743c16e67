"""What the Anthropic API answers when it fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from reprieve.testing.acts import Reply, json_reply

if TYPE_CHECKING:
    from collections.abc import Mapping

_REQUEST = {"request-id": "req_anthropic_0001"}


def error(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> Reply:
    """An error in the provider's envelope."""
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": _REQUEST["request-id"]}
    return json_reply(body, status, {**_REQUEST, **(headers or {})})


def rate_limit_error(retry_after: str = "2") -> Reply:
    """429: a window is full; says when it opens."""
    headers = {"retry-after": retry_after, "anthropic-ratelimit-requests-remaining": "0"}
    return error(429, "rate_limit_error", "This would exceed the rate limit of requests a minute.", headers)


def overloaded_error() -> Reply:
    """529: too many are asking."""
    return error(529, "overloaded_error", "Overloaded")


def authentication_error() -> Reply:
    """401: the key is wrong."""
    return error(401, "authentication_error", "invalid x-api-key")


def billing_error() -> Reply:
    """402: the payment details need a person."""
    return error(402, "billing_error", "There is an issue with the billing of this organization.")


def credit_balance_too_low() -> Reply:
    """400 that is no bad request: only the message says that the money is gone."""
    message = "Your credit balance is too low to access the API. Go to Plans & Billing to buy credits."
    return error(400, "invalid_request_error", message)


def prompt_too_long() -> Reply:
    """400 for a prompt longer than the model's window: only the message says so."""
    return error(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum")


def invalid_request_error() -> Reply:
    """400: a parameter is wrong."""
    return error(400, "invalid_request_error", "max_tokens: must be greater than or equal to 1")


def permission_error() -> Reply:
    """403: the key may not do this."""
    return error(403, "permission_error", "This key may not use the resource.")


def not_found_error() -> Reply:
    """404: no such model."""
    return error(404, "not_found_error", "model: no-such-model")


def request_too_large() -> Reply:
    """413: more bytes than the API takes."""
    return error(413, "request_too_large", "Request exceeds the maximum size")


def api_error() -> Reply:
    """500: it failed inside."""
    return error(500, "api_error", "Internal server error")


def timeout_error() -> Reply:
    """504: it took too long inside."""
    return error(504, "timeout_error", "Request timed out")


def _message(text: str | None, stop_reason: str | None) -> dict[str, object]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [] if text is None else [{"type": "text", "text": text}],
        "model": "m",
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def message(text: str = "hello", stop_reason: str = "end_turn") -> Reply:
    """200: an answer; `max_tokens` cut it off, `refusal` is the model's no."""
    return json_reply(_message(text, stop_reason), headers=_REQUEST)


def error_with_200(kind: str = "api_error", message: str = "Internal server error") -> Reply:
    """200 that is an error, as gateways send it that promised an answer before they had one."""
    return json_reply({"type": "error", "error": {"type": kind, "message": message}}, headers=_REQUEST)


def _stream(*events: Mapping[str, object]) -> Reply:
    text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Reply(200, text, {"Content-Type": "text/event-stream; charset=utf-8", **_REQUEST})


def stream(*pieces: str, stop_reason: str | None = "end_turn") -> Reply:
    """Status 200, an answer in pieces; without a `stop_reason` it ends in the middle."""
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}} for piece in pieces
    ]
    end: list[Mapping[str, object]] = [
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": None},
            "usage": {"output_tokens": len(pieces)},
        },
        {"type": "message_stop"},
    ]
    return _stream(
        {"type": "message_start", "message": _message(None, None)},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *deltas,
        *(end if stop_reason is not None else ()),
    )


def stream_error(kind: str = "overloaded_error", message: str = "Overloaded") -> Reply:
    """Status 200, the beginning of an answer, then an error within the stream."""
    failure = {"type": "error", "error": {"type": kind, "message": message}}
    return _stream({"type": "message_start", "message": _message(None, None)}, failure)
