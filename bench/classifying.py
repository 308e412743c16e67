"""What it costs to judge a failure and to decide on it."""

from __future__ import annotations

import traceback
from typing import Any

from harness import Effort, Figure, medians, per_call, take_turns
from reprieve import History, classify, decide
from reprieve.app.profiles import resolve

FRAMES = 10


def deep_exception() -> Exception:
    """Raise through ten frames, from a cause of its own."""

    def dive(depth: int) -> None:
        if depth:
            dive(depth - 1)
            return
        try:
            raise ConnectionResetError(104, "Connection reset by peer")  # noqa: TRY301 - the cause is the point
        except ConnectionResetError as error:
            raise RuntimeError("fetching changelist 41297 of depot main failed after 3.2 s") from error

    try:
        dive(FRAMES - 2)
    except RuntimeError as error:
        return error
    raise AssertionError


class _Response:
    """What an HTTP client hangs on its errors."""

    status_code = 429
    headers: dict[str, str]

    def __init__(self) -> None:
        self.headers = {"retry-after": "20", "x-request-id": "req_011CQ7", "content-type": "application/json"}


class RateLimitError(Exception):
    """Shaped as the openai client shapes it, so that the client need not be installed."""

    __module__ = "openai"

    def __init__(self, message: str, body: dict[str, Any]) -> None:
        super().__init__(message)
        self.message = message
        self.body = body
        self.response = _Response()
        self.status_code = 429
        self.code = body["code"]
        self.type = body["type"]
        self.request_id = "req_011CQ7"


def openai_shaped() -> Exception:
    """A rate limit with its body and headers."""
    body = {
        "message": "Rate limit reached for requests",
        "type": "requests",
        "param": None,
        "code": "rate_limit_exceeded",
    }
    return RateLimitError(f"Error code: 429 - {{'error': {body}}}", body)


def run(effort: Effort) -> list[Figure]:
    """Measure classification, alone and to JSON, and the decision."""
    deep, bare, shaped = deep_exception(), TimeoutError("timed out"), openai_shaped()
    profile = resolve("criticizer")
    failure = classify(bare)
    history = History(attempts=2, started=0.0)
    candidates = {
        "json": lambda: classify(deep).to_json(),
        "format": lambda: "".join(traceback.format_exception(deep)),
        "bare": lambda: classify(bare),
        "shaped": lambda: classify(shaped),
        "decide": lambda: decide(failure, history, profile, now=1.0, draw=0.5),
    }
    calls = max(1, effort.calls // 20)
    turns = {name: lambda function=function: per_call(function, calls) for name, function in candidates.items()}
    take_turns(turns, 1)  # warm up: rules are compiled, source lines are cached
    middle = medians(take_turns(turns, effort.rounds))
    return [
        Figure(
            name=f"classify to JSON, {FRAMES} frames and a cause",
            value=middle["json"],
            unit="ns",
            peer="traceback.format_exception",
            peer_value=middle["format"],
            at_most=1.0,
        ),
        Figure(name="classify, a bare TimeoutError", value=middle["bare"], unit="ns"),
        Figure(name="classify, an openai rate limit", value=middle["shaped"], unit="ns"),
        Figure(name="decide", value=middle["decide"], unit="ns"),
    ]
