"""What an OpenAI-compatible endpoint answered, whole or in pieces; and what is an error though its status is 200."""

from __future__ import annotations

import json
from typing import Any, Final

import openai

from reprieve.ports.modelling import Finish, Reply, Usage

_FINISHES: Final = {
    "length": Finish.TRUNCATED,
    "max_tokens": Finish.TRUNCATED,
    "content_filter": Finish.FILTERED,
    "refusal": Finish.REFUSED,
}
"""Any other word is an answer that came to its end."""
_MILLION: Final = 1_000_000


def reply_of(raw: Any, prices: tuple[float, float] | None) -> Reply:  # noqa: ANN401 - compatible is not equal: nothing is sure to be there
    """The first choice; an answer without one is an error, whatever its status."""
    response = raw.http_response
    try:
        completion = raw.parse()
    except ValueError as error:
        raise unexpected(response, response.content) from error
    choices = getattr(completion, "choices", None)
    if not choices or getattr(choices[0], "message", None) is None:
        raise unexpected(response, response.content)
    message = choices[0].message
    return Reply(
        text=message.content or getattr(message, "refusal", None) or "",
        finish=_finish(choices[0].finish_reason, getattr(message, "refusal", None)),
        usage=_usage(getattr(completion, "usage", None), prices),
        model=getattr(completion, "model", None) or "",
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
        self._finish: str | None = None
        self._usage: Any = None
        self._model = ""

    def take(self, chunk: Any) -> None:  # noqa: ANN401 - as above
        """Add a piece."""
        self._model = getattr(chunk, "model", None) or self._model
        self._usage = getattr(chunk, "usage", None) or self._usage
        for choice in (getattr(chunk, "choices", None) or ())[:1]:
            delta = choice.delta
            self._texts.append(getattr(delta, "content", None) or "")
            self._refusals.append(getattr(delta, "refusal", None) or "")
            self._finish = choice.finish_reason or self._finish

    def reply(self, prices: tuple[float, float] | None) -> Reply:
        """All of them."""
        if self._finish is None:
            raise openai.APIConnectionError(message="the stream ended early", request=self._response.request)
        refusal = "".join(self._refusals)
        return Reply(
            text="".join(self._texts) or refusal,
            finish=_finish(self._finish, refusal),
            usage=_usage(self._usage, prices),
            model=self._model,
            request_id=self._response.headers.get("x-request-id"),
        )


def _finish(reason: str | None, refusal: str | None) -> Finish:
    return Finish.REFUSED if refusal else _FINISHES.get(reason or "", Finish.COMPLETE)


def _usage(usage: Any, prices: tuple[float, float] | None) -> Usage:  # noqa: ANN401 - as above
    taken, made = (_count(getattr(usage, name, None)) for name in ("prompt_tokens", "completion_tokens"))
    cost = getattr(usage, "cost", None)  # some gateways say
    if not isinstance(cost, int | float):
        cost = None
        if prices is not None and taken is not None and made is not None:
            cost = (taken * prices[0] + made * prices[1]) / _MILLION
    return Usage(input_tokens=taken, output_tokens=made, cost=cost)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None
