"""What it costs to judge a failure and to decide on it."""

from __future__ import annotations

import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

from harness import Effort, Figure, medians, per_call, take_turns
from reprieve import History, classify, decide
from reprieve.app.profiles import resolve
from sample import median_costs, sized

if TYPE_CHECKING:
    from collections.abc import Callable

    from sample import SampleOptions

FRAMES = 10
NAMES = {
    "json": f"classify to JSON, {FRAMES} frames and a cause",
    "bare": "classify, a bare TimeoutError",
    "shaped": "classify, an openai rate limit",
    "decide": "decide",
}


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


def candidates_for(deep: Exception) -> dict[str, Callable[[], object]]:
    """Classification, alone and to JSON, and the decision."""
    bare, shaped = TimeoutError("timed out"), openai_shaped()
    profile = resolve("criticizer")
    failure = classify(bare)
    history = History(attempts=2, started=0.0)
    return {
        "json": lambda: classify(deep).to_json(),
        "bare": lambda: classify(bare),
        "shaped": lambda: classify(shaped),
        "decide": lambda: decide(failure, history, profile, now=1.0, draw=0.5),
    }


def sample(asked: SampleOptions) -> dict[str, float]:
    """Return the nanoseconds of each."""
    candidates = candidates_for(deep_exception())
    costs = median_costs(
        {name: sized(partial(per_call, function)) for name, function in candidates.items()}, asked.seconds
    )
    return {NAMES[name]: cost for name, cost in costs.items()}


def run(effort: Effort) -> list[Figure]:
    """Measure ours beside the formatting of a traceback."""
    deep = deep_exception()
    candidates = {**candidates_for(deep), "format": lambda: "".join(traceback.format_exception(deep))}
    calls = max(1, effort.calls // 20)
    turns = {name: lambda function=function: per_call(function, calls) for name, function in candidates.items()}
    take_turns(turns, 1)  # warm up: rules are compiled, source lines are cached
    middle = medians(take_turns(turns, effort.rounds))
    return [
        Figure(
            name=NAMES["json"],
            value=middle["json"],
            unit="ns",
            peer="traceback.format_exception",
            peer_value=middle["format"],
            at_most=1.0,
        ),
        *(Figure(name=NAMES[name], value=middle[name], unit="ns") for name in ("bare", "shaped", "decide")),
    ]
