"""What the OpenAI API answers when it fails."""

from __future__ import annotations

import json

from reprieve.testing.acts import Reply, json_reply

_REQUEST = {"x-request-id": "req_openai_0001"}


def error(
    status: int, message: str, *, kind: str, code: str | None = None, headers: dict[str, str] | None = None
) -> Reply:
    """An error in the provider's envelope."""
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return json_reply(body, status, {**_REQUEST, **(headers or {})})


def rate_limit_exceeded(retry_after: str = "2") -> Reply:
    """429: a window is full; says when it opens."""
    headers = {
        "Retry-After": retry_after,
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": f"{retry_after}s",
    }
    message = "Rate limit reached for requests per minute: limit 60, used 60, requested 1."
    return error(429, message, kind="requests", code="rate_limit_exceeded", headers=headers)


def insufficient_quota() -> Reply:
    """429: the account is out of money, which no waiting changes."""
    message = "You exceeded your current quota; check your plan and billing."
    return error(429, message, kind="insufficient_quota", code="insufficient_quota")


def billing_hard_limit_reached() -> Reply:
    """400: the spend limit that the account's owner has set."""
    message = "The billing hard limit has been reached."
    return error(400, message, kind="invalid_request_error", code="billing_hard_limit_reached")


def invalid_api_key() -> Reply:
    """401: the key is wrong; quotes a piece of it, as the provider does."""
    return error(401, "Incorrect API key provided: test**key.", kind="invalid_request_error", code="invalid_api_key")


def permission_denied() -> Reply:
    """403: the key may not do this."""
    message = "This project has no access to that model."
    return error(403, message, kind="invalid_request_error", code="model_not_allowed")


def model_not_found() -> Reply:
    """404: no such model."""
    return error(404, "The model does not exist.", kind="invalid_request_error", code="model_not_found")


def context_length_exceeded() -> Reply:
    """400: the prompt is longer than the model's window."""
    message = "This model's maximum context length is 8192 tokens; the messages came to 9001."
    return error(400, message, kind="invalid_request_error", code="context_length_exceeded")


def content_filter() -> Reply:
    """400: the prompt was refused."""
    message = "The prompt was refused by the content filter."
    return error(400, message, kind="invalid_request_error", code="content_filter")


def invalid_request() -> Reply:
    """400: a parameter is wrong."""
    return error(400, "temperature must be at most 2.", kind="invalid_request_error", code="invalid_value")


def server_error() -> Reply:
    """500: it failed inside."""
    return error(500, "The server had an error while it processed the request.", kind="server_error")


def overloaded() -> Reply:
    """503: too many are asking."""
    return error(503, "The engine is overloaded, try again later.", kind="server_error", headers={"Retry-After": "5"})


def bad_gateway() -> Reply:
    """502 from the proxy in front: HTML, not JSON."""
    return Reply(502, "<html><h1>502 Bad Gateway</h1></html>", {"Content-Type": "text/html", **_REQUEST})


def _stream(*events: dict[str, object]) -> Reply:
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return Reply(200, text, {"Content-Type": "text/event-stream", **_REQUEST})


def _chunk(content: str | None, finish: str | None = None) -> dict[str, object]:
    choice = {"index": 0, "delta": {} if content is None else {"content": content}, "finish_reason": finish}
    return {"id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def stream_error(kind: str = "server_error", code: str | None = None) -> Reply:
    """Status 200, a first piece of the answer, then an error within the stream."""
    failure = {"message": "The server failed in the middle of the answer.", "type": kind, "param": None, "code": code}
    return _stream(_chunk("Hel"), {"error": failure})


def stream(*pieces: str, finish: str | None = "stop", refusal: str = "") -> Reply:
    """Status 200, an answer in pieces and what it took; without a `finish` it ends in the middle."""
    last = _chunk(None, finish)
    usage = {"prompt_tokens": 1, "completion_tokens": len(pieces), "total_tokens": 1 + len(pieces)}
    told: list[dict[str, object]] = [] if finish is None else [last, {**last, "choices": [], "usage": usage}]
    refused: list[dict[str, object]] = []
    if refusal:
        choice = {"index": 0, "delta": {"refusal": refusal}, "finish_reason": None}
        refused = [{**_chunk(None), "choices": [choice]}]
    return _stream(*(_chunk(piece) for piece in pieces), *refused, *told)


def _completion(content: str | None, finish: str, refusal: str | None = None) -> Reply:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    body = {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    return json_reply(body, headers=_REQUEST)


def completion(content: str | None = "hello", finish: str = "stop") -> Reply:
    """200: an answer, which may have ended for any reason."""
    return _completion(content, finish)


def cut_off() -> Reply:
    """200: an answer that the token limit has cut off (`finish_reason: length`)."""
    return _completion('{"verdict": "goo', "length")


def filtered() -> Reply:
    """200: an answer that the content filter has taken away (`finish_reason: content_filter`)."""
    return _completion(None, "content_filter")


def refused() -> Reply:
    """200: the model would not, and says so in a field of its own."""
    return _completion(None, "stop", "I will not help with that.")


def error_with_200(code: str | None = None, kind: str = "server_error") -> Reply:
    """200 that is an error, as gateways send it that promised an answer before they had one."""
    failure = {"message": "The upstream of this gateway failed.", "type": kind, "param": None, "code": code}
    return json_reply({"error": failure}, headers=_REQUEST)
