"""How model providers fail, through their own libraries; their retries are off, since they are not the subject."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from reprieve.testing import replies
from reprieve.testing.acts import Act, HangUp, Moment, Reset, Stall
from reprieve.testing.provoke.stage import IMPATIENT, KEY, PATIENT, Provocation, Stage, library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Ask = Callable[[str, float], None]

_MESSAGES: Final = [{"role": "user", "content": "hello"}]
_BROKEN: Final[Mapping[str, tuple[Act, float]]] = {
    "reset": (Reset(), PATIENT),
    "timeout": (Stall(), IMPATIENT),
    "body cut short": (HangUp(at=Moment.BODY), PATIENT),
}


def _openai(url: str, timeout: float, *, mode: str = "create") -> None:
    with library("openai").OpenAI(api_key=KEY, base_url=f"{url}v1", timeout=timeout, max_retries=0) as client:
        match mode:
            case "stream":
                for _ in client.chat.completions.create(model="m", messages=_MESSAGES, stream=True):
                    pass
            case "parse":
                client.chat.completions.parse(model="m", messages=_MESSAGES)
            case _:
                client.chat.completions.create(model="m", messages=_MESSAGES)


def _anthropic(url: str, timeout: float, *, stream: bool = False) -> None:
    with library("anthropic").Anthropic(api_key=KEY, base_url=url, timeout=timeout, max_retries=0) as client:
        answer = client.messages.create(model="m", max_tokens=9, messages=_MESSAGES, stream=stream)
        if stream:
            for _ in answer:
                pass


def _google(url: str, timeout: float) -> None:
    options = {"base_url": url, "timeout": int(timeout * 1000)}
    with library("google.genai").Client(api_key=KEY, http_options=options) as client:
        client.models.generate_content(model="m", contents="hello")


def _litellm(url: str, timeout: float) -> None:
    # Else it fetches its price list over the network while it is imported.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm: Any = library("litellm")
    litellm.suppress_debug_info = True
    options = {"api_base": f"{url}v1", "api_key": KEY, "timeout": timeout, "max_retries": 0, "num_retries": 0}
    # It asks for an event loop even where nothing is asynchronous, and would leave the one that it gets unclosed.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        litellm.completion(model="openai/m", messages=_MESSAGES, **options)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


_OPENAI: Final = {
    "rate_limit_exceeded": replies.openai.rate_limit_exceeded,
    "insufficient_quota": replies.openai.insufficient_quota,
    "billing_hard_limit_reached": replies.openai.billing_hard_limit_reached,
    "invalid_api_key": replies.openai.invalid_api_key,
    "permission denied": replies.openai.permission_denied,
    "model_not_found": replies.openai.model_not_found,
    "context_length_exceeded": replies.openai.context_length_exceeded,
    "content_filter": replies.openai.content_filter,
    "invalid request": replies.openai.invalid_request,
    "server_error": replies.openai.server_error,
    "overloaded": replies.openai.overloaded,
    "bad gateway": replies.openai.bad_gateway,
}
_ANTHROPIC: Final = {
    "rate_limit_error": replies.anthropic.rate_limit_error,
    "overloaded_error": replies.anthropic.overloaded_error,
    "authentication_error": replies.anthropic.authentication_error,
    "billing_error": replies.anthropic.billing_error,
    "credit balance too low": replies.anthropic.credit_balance_too_low,
    "prompt too long": replies.anthropic.prompt_too_long,
    "invalid_request_error": replies.anthropic.invalid_request_error,
    "permission_error": replies.anthropic.permission_error,
    "not_found_error": replies.anthropic.not_found_error,
    "request_too_large": replies.anthropic.request_too_large,
    "api_error": replies.anthropic.api_error,
    "timeout_error": replies.anthropic.timeout_error,
}
_GOOGLE: Final = {
    "RESOURCE_EXHAUSTED": replies.google.resource_exhausted,
    "API_KEY_INVALID": replies.google.api_key_invalid,
    "INVALID_ARGUMENT": replies.google.invalid_argument,
    "FAILED_PRECONDITION": replies.google.failed_precondition,
    "PERMISSION_DENIED": replies.google.permission_denied,
    "NOT_FOUND": replies.google.not_found,
    "INTERNAL": replies.google.internal,
    "UNAVAILABLE": replies.google.unavailable,
    "DEADLINE_EXCEEDED": replies.google.deadline_exceeded,
}
_LITELLM: Final = {
    name: _OPENAI[name]
    for name in (
        "rate_limit_exceeded",
        "insufficient_quota",
        "invalid_api_key",
        "model_not_found",
        "context_length_exceeded",
        "content_filter",
        "server_error",
        "overloaded",
    )
}


def _play(ask: Ask, act: Act, timeout: float, stage: Stage) -> None:
    upstream = stage.web()
    upstream.always(act)
    ask(upstream.url("/"), timeout)


def _refused(ask: Ask, stage: Stage) -> None:
    ask(stage.refusing_url, PATIENT)


def _of(
    name: str, ask: Ask, table: Mapping[str, Callable[[], Act]], packages: tuple[str, ...] = ()
) -> Iterator[Provocation]:
    for situation, reply in table.items():
        yield Provocation(name, situation, partial(_play, ask, reply(), PATIENT), packages)
    for situation, (act, timeout) in _BROKEN.items():
        yield Provocation(name, situation, partial(_play, ask, act, timeout), packages)
    yield Provocation(name, "connection refused", partial(_refused, ask), packages)


def provocations() -> Iterator[Provocation]:
    """Each provider's own errors, and what the network does to its library."""
    yield from _of("openai", _openai, _OPENAI)
    for situation, mode, reply in (
        ("error in a stream", "stream", replies.openai.stream_error()),
        ("rate limit in a stream", "stream", replies.openai.stream_error("requests", "rate_limit_exceeded")),
        ("answer cut off", "parse", replies.openai.cut_off()),
        ("answer filtered", "parse", replies.openai.filtered()),
    ):
        yield Provocation("openai", situation, partial(_play, partial(_openai, mode=mode), reply, PATIENT))
    yield from _of("anthropic", _anthropic, _ANTHROPIC)
    for situation, reply in (
        ("overloaded in a stream", replies.anthropic.stream_error()),
        ("api_error in a stream", replies.anthropic.stream_error("api_error", "Internal server error")),
    ):
        yield Provocation("anthropic", situation, partial(_play, partial(_anthropic, stream=True), reply, PATIENT))
    yield from _of("google-genai", _google, _GOOGLE, ("google.genai",))
    yield from _of("litellm", _litellm, _LITELLM)
