"""What an OpenAI-compatible endpoint answered, whole or in pieces; and what is an error though its status is 200."""

from __future__ import annotations

import json
from typing import Any, Final

import openai

from reprieve.ports.modelling import Finish, Reply, Usage

_FINISHES: Final = {
    **dict.fromkeys(
        ("stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete", "completed"), Finish.COMPLETE
    ),
    "length": Finish.TRUNCATED,
    "max_tokens": Finish.TRUNCATED,
    **dict.fromkeys(("content_filter", "safety", "recitation", "sensitive"), Finish.FILTERED),
    "refusal": Finish.REFUSED,
}
"""OpenAI's words, and those of others who are compatible with it; any other is an answer that did not come to its end."""
_FAILURES: Final = frozenset({"error", "abort", "insufficient_system_resource", "network_error"})
"""Words of gateways and servers that failed in the middle."""
_MOST: Final = 10**12
_MILLION: Final = 1_000_000


def reply_of(raw: Any, prices: tuple[float, float] | None) -> Reply:  # noqa: ANN401 - compatible is not equal: nothing is sure to be there
    """The first choice; an answer without one is an error, whatever its status."""
    response = raw.http_response
    try:
        completion = raw.parse()
    except ValueError as error:
        raise unexpected(response, response.content) from error
    choice = _first(completion)
    message = getattr(choice, "message", None)
    if message is None:
        raise unexpected(response, response.content)
    refusal = getattr(message, "refusal", None)
    return Reply(
        text=_text(getattr(message, "content", None)) or _text(refusal),
        finish=_finish(_reason(choice, response), refusal),
        usage=_usage(getattr(completion, "usage", None), prices),
        model=_text(getattr(completion, "model", None)),
        request_id=response.headers.get("x-request-id"),
    )


def is_stream(response: Any) -> bool:  # noqa: ANN401 - of whichever HTTP library the client is built on
    """Whether pieces will come: a gateway may answer with one JSON, or with a page, though a stream was asked for."""
    return "event-stream" in response.headers.get("content-type", "event-stream")


def unexpected(response: Any, content: bytes) -> openai.APIError:  # noqa: ANN401 - the same
    """A body that is no answer: the provider's error in it, as the client has those of streams, or a body out of shape."""
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict):
        return openai.APIError(str(error.get("message") or "an error with status 200"), response.request, body=error)
    return openai.APIResponseValidationError(response, None, message="the answer is no chat completion")


class Pieces:
    """An answer that comes in pieces."""

    def __init__(self, response: Any) -> None:  # noqa: ANN401 - of whichever HTTP library the client is built on
        self._response = response
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._finish = ""
        self._usage: Any = None
        self._model = ""

    def take(self, chunk: Any) -> None:  # noqa: ANN401 - as above
        """Add a piece."""
        self._model = _text(getattr(chunk, "model", None)) or self._model
        self._usage = getattr(chunk, "usage", None) or self._usage
        choice = _first(chunk)
        if choice is not None:
            delta = getattr(choice, "delta", None)
            self._texts.append(_text(getattr(delta, "content", None)))
            self._refusals.append(_text(getattr(delta, "refusal", None)))
            self._finish = _reason(choice, self._response) or self._finish

    def reply(self, prices: tuple[float, float] | None) -> Reply:
        """All of them."""
        if not self._finish:
            raise openai.APIConnectionError(message="the stream ended early", request=self._response.request)
        refusal = "".join(self._refusals)
        return Reply(
            text="".join(self._texts) or refusal,
            finish=_finish(self._finish, refusal),
            usage=_usage(self._usage, prices),
            model=self._model,
            request_id=self._response.headers.get("x-request-id"),
        )


def _first(answer: Any) -> Any:  # noqa: ANN401 - as above
    choices = getattr(answer, "choices", None)
    return choices[0] if isinstance(choices, list) and choices else None


def _reason(choice: Any, response: Any) -> str:  # noqa: ANN401 - as above
    """Why it ended, in lower case; a failure in the middle of an answer is raised as what it is."""
    reason = getattr(choice, "finish_reason", None)
    reason = reason.lower() if isinstance(reason, str) else ""
    if reason in _FAILURES:
        error = getattr(choice, "error", None)
        raise openai.APIError("the answer broke off", response.request, body=error if isinstance(error, dict) else None)
    return reason


def _text(content: object) -> str:
    """Some answer in parts, of which those that are text count."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _finish(reason: str, refusal: object) -> Finish:
    """Where an endpoint does not say, its answer is judged by its form alone."""
    if refusal:
        return Finish.REFUSED
    return _FINISHES.get(reason, Finish.UNFINISHED) if reason else Finish.COMPLETE


def _usage(usage: Any, prices: tuple[float, float] | None) -> Usage:  # noqa: ANN401 - as above
    taken, made = (_count(getattr(usage, name, None)) for name in ("prompt_tokens", "completion_tokens"))
    cost = getattr(usage, "cost", None)  # some gateways say
    if not isinstance(cost, int | float) or not 0 <= cost <= _MOST:
        cost = None
        if prices is not None and taken is not None and made is not None:
            cost = (taken * prices[0] + made * prices[1]) / _MILLION
    return Usage(input_tokens=taken, output_tokens=made, cost=cost)


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST else None
