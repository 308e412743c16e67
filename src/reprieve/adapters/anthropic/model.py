"""A model of Anthropic: asked once a call, by the official client with its retries off."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final

import anthropic

from reprieve.core.endpoint import HELD_BACK, is_https, secret_headers, usable_address, usable_key, usable_prices
from reprieve.errors import UsageError
from reprieve.ports.modelling import Finish, Reply, Role, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.ports.modelling import Prompt

_LOG: Final = logging.getLogger("reprieve.models")
_ROLES: Final = {Role.USER: "user", Role.MODEL: "assistant"}
_FINISHES: Final = {
    "end_turn": Finish.COMPLETE,
    "stop_sequence": Finish.COMPLETE,
    "max_tokens": Finish.TRUNCATED,
    "model_context_window_exceeded": Finish.TRUNCATED,
    "refusal": Finish.REFUSED,
}
"""Any other, such as `tool_use` and `pause_turn`, is an answer that did not come to its end."""
_OWN: Final = "https://api.anthropic.com"
_NO_KEY: Final = "none"
"""What endpoints get that want no key: without one the client looks for its own."""
_KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_MOST_TOKENS: Final = 4096
_MILLION: Final = 1_000_000
_MOST: Final = 10**12
_GRACE: Final = 1.0
"""Seconds that the client has to say itself that it took too long; its own limit is for each read, not for all of them."""


class Anthropic:
    """Asks a model of Anthropic.

    Anthropic("claude-haiku-4-5")
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        max_tokens: int = _MOST_TOKENS,
        structured: bool = False,
        stream: bool = False,
        prices: tuple[float, float] | None = None,
    ) -> None:
        """Take the model's name at the provider; the key from the argument, or from where the client finds its own.

        The API wants a limit: `max_tokens` holds where a prompt has none. `structured` says that the model can hold its
        output to a JSON Schema. `stream` and `prices` are as for `OpenAI`.
        """
        if not model:
            raise UsageError("a model needs its name at the provider, such as claude-haiku-4-5")
        self.name = f"anthropic:{model}"
        self._model, self._address = model, (base_url or os.environ.get("ANTHROPIC_BASE_URL") or "").strip()
        usable_address(self._address or _OWN)
        self._key, self._token, self._headers, self.secrets = _access(self._address or _OWN, api_key)
        """The last is what no text may hold."""
        self._held_back = next((name for name in _KEYS if self._key == _NO_KEY and os.environ.get(name)), None)
        self._max_tokens, self._structured, self._stream = max_tokens, structured, stream
        self._prices = usable_prices(prices)
        self._clients: dict[asyncio.AbstractEventLoop, anthropic.AsyncAnthropic] = {}

    async def ask(
        self,
        prompt: Prompt,
        *,
        schema: Mapping[str, object] | None = None,
        timeout: float = 60.0,  # noqa: ASYNC109 - of the call over the network
    ) -> Reply:
        """Ask once; raises the client's own exceptions, also for an error that comes with status 200 or within a stream."""
        request = self._request(prompt, schema)
        async with asyncio.timeout(timeout + _GRACE):
            try:
                if self._stream:
                    return await self._streamed(request, timeout)
                raw: Any = await self._client().messages.with_raw_response.create(**request, timeout=timeout)
            except anthropic.AuthenticationError:
                self._tell_of_the_key()
                raise
            try:
                message = raw.parse()
                message = await message if isawaitable(message) else message  # older clients answer at once
            except ValueError as error:
                raise _unexpected(raw.http_response, raw.http_response.content) from error
        return self._reply(message, raw.http_response, raw.http_response.content)

    def _tell_of_the_key(self) -> None:
        """Say once why the endpoint got none, where there is one."""
        if self._held_back is not None:
            _LOG.warning(HELD_BACK, self._held_back)
            self._held_back = None

    async def _streamed(self, request: dict[str, Any], timeout: float) -> Reply:  # noqa: ASYNC109 - as above
        """The same in pieces; a stream that ends without saying why it ended is a connection that broke."""
        async with self._client().messages.stream(**request, timeout=timeout) as stream:
            response = stream.response
            if "event-stream" not in response.headers.get("content-type", "event-stream"):
                raise _unexpected(response, await response.aread())
            try:
                message = await stream.get_final_message()
            except AssertionError:  # of the client, where no message began
                message = None
            except ValueError as error:
                raise _unexpected(response, b"") from error
        if message is None:
            raise _ended_early(response)
        return self._reply(message, response, b"")

    async def close(self) -> None:
        """Let go of this loop's connections; those of loops that are gone go when it is next asked."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _client(self) -> anthropic.AsyncAnthropic:
        """One a loop: its connections cannot be used from another."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            for gone in [each for each in tuple(self._clients) if each.is_closed()]:
                self._clients.pop(gone, None)
            client = self._clients[loop] = self._made(self._key, self._token)
        return client

    def _made(self, key: str | None, token: str | None) -> anthropic.AsyncAnthropic:
        """With a key of ours; without one with what the client finds by itself, which may have an address of its own."""
        # The client's own would, once its loop is gone, be closed in whichever loop runs then, and fail there.
        http_client = anthropic.DefaultAsyncHttpxClient()
        settings: dict[str, Any] = {"max_retries": 0, "default_headers": self._headers, "http_client": http_client}
        if key or token:
            client = anthropic.AsyncAnthropic(api_key=key, auth_token=token, base_url=self._address or _OWN, **settings)
            client.auth_token = token  # older ones take the environment's beside the key that they are given
            return client
        client = anthropic.AsyncAnthropic(base_url=self._address or None, **settings)
        if getattr(client, "credentials", None) is not None:
            return client
        if not self._address:
            raise UsageError("no key for Anthropic: set ANTHROPIC_API_KEY, or give api_key=")
        return self._made(_NO_KEY, None)

    def _request(self, prompt: Prompt, schema: Mapping[str, object] | None) -> dict[str, Any]:
        limit = self._max_tokens if prompt.max_tokens is None else prompt.max_tokens
        messages = [{"role": _ROLES[turn.role], "content": turn.text} for turn in prompt.turns]
        request: dict[str, Any] = {"model": self._model, "max_tokens": limit, "messages": messages}
        if prompt.system:
            request["system"] = prompt.system
        if prompt.temperature is not None:
            request["extra_body"] = {"temperature": prompt.temperature}  # newer clients have no argument for it
        if schema is not None and self._structured:
            try:
                form = anthropic.transform_schema(dict(schema))  # leaves out what the API does not know
            except (ValueError, AssertionError):  # all of it is what it does not know; we check the answer anyway
                return request
            request["output_config"] = {"format": {"type": "json_schema", "schema": form}}
        return request

    def _reply(self, message: Any, response: Any, body: bytes) -> Reply:  # noqa: ANN401 - what came is not sure to be a message
        content = getattr(message, "content", None)
        if not isinstance(content, list):
            raise _unexpected(response, body)
        if not message.stop_reason:
            raise _ended_early(response)
        texts = [getattr(block, "text", None) for block in content if getattr(block, "type", None) == "text"]
        return Reply(
            text="".join(text for text in texts if isinstance(text, str)),
            finish=_FINISHES.get(message.stop_reason, Finish.UNFINISHED),
            usage=self._usage(getattr(message, "usage", None)),
            model=str(getattr(message, "model", None) or ""),
            request_id=response.headers.get("request-id"),
        )

    def _usage(self, usage: Any) -> Usage:  # noqa: ANN401 - the same
        """Cached tokens are input too."""
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        parts = [count for name in names if (count := _count(getattr(usage, name, None))) is not None]
        taken, made = sum(parts) if parts else None, _count(getattr(usage, "output_tokens", None))
        cost = None
        if self._prices is not None and taken is not None and made is not None:
            cost = (taken * self._prices[0] + made * self._prices[1]) / _MILLION
        return Usage(input_tokens=taken, output_tokens=made, cost=cost)


def _access(address: str, given: str | None) -> tuple[str | None, str | None, dict[str, Any], tuple[str, ...]]:
    """The key or the token, headers that are sent instead of the environment's, and all that is secret of what is sent."""
    key, token = usable_key(given), None
    hidden = secret_headers(os.environ.get("ANTHROPIC_CUSTOM_HEADERS"))
    if is_https(address):
        key = key or usable_key(os.environ.get("ANTHROPIC_API_KEY"))
        token = None if key else usable_key(os.environ.get("ANTHROPIC_AUTH_TOKEN"))
        return key, token, {}, tuple(each for each in (key, token, *hidden.values()) if each)
    headers: dict[str, Any] = dict.fromkeys(hidden, anthropic.Omit())
    if hidden:  # it may have been the one that is left out
        headers["Authorization"] = f"Bearer {key or _NO_KEY}"
    return key or _NO_KEY, None, headers, (key,) if key else ()


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST else None


def _ended_early(response: Any) -> anthropic.APIConnectionError:  # noqa: ANN401 - as above
    return anthropic.APIConnectionError(message="the answer ended early", request=response.request)


def _unexpected(response: Any, content: bytes) -> anthropic.APIError:  # noqa: ANN401 - as above
    """A body that is no message: the provider's error in it, as the client has those of streams, or a body out of shape."""
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict):
        return anthropic.APIStatusError(str(error.get("message") or "an error"), response=response, body=body)
    return anthropic.APIResponseValidationError(response, None, message="the answer is no message")
