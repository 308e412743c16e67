"""A model behind an OpenAI-compatible endpoint: asked once a call, by the official client with its retries off."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any, Final

import openai

from reprieve.adapters.openai.replies import Pieces, is_stream, reply_of, unexpected
from reprieve.adapters.openai.schemas import is_strict
from reprieve.core.endpoint import HELD_BACK, is_https, secret_headers, usable_address, usable_key, usable_prices
from reprieve.errors import UsageError
from reprieve.ports.modelling import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.ports.modelling import Prompt, Reply

_LOG: Final = logging.getLogger("reprieve.models")
_ROLES: Final = {Role.USER: "user", Role.MODEL: "assistant"}
_OWN: Final = "https://api.openai.com/v1"
_NO_KEY: Final = "none"
"""What endpoints get that want no key: the client insists on one."""
_GRACE: Final = 1.0
"""Seconds that the client has to say itself that it took too long; its own limit is for each read, not for all of them."""


class OpenAI:
    """Asks a model of OpenAI, or of any endpoint that speaks its chat completions.

    OpenAI("gpt-5-mini")
    OpenAI("qwen3", base_url="http://127.0.0.1:8080/v1")
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        structured: bool | None = None,
        stream: bool = False,
        prices: tuple[float, float] | None = None,
        trust_env: bool = True,
    ) -> None:
        """Take the model's name at the provider; the key from the argument or from OPENAI_API_KEY.

        `structured` says that the endpoint can hold its output to a JSON Schema: by default OpenAI's own does, others do
        not. `stream` has the answer sent in pieces, which keeps long ones from idle connections' limits. `prices` are
        dollars for a million tokens in and out, for providers that do not say what an answer cost. Without `trust_env`
        no proxy is asked.
        """
        if not model:
            raise UsageError("a model needs its name at the provider, such as gpt-5-mini")
        self.name = f"openai:{model}"
        address = (base_url or os.environ.get("OPENAI_BASE_URL") or "").strip()
        own = not address
        self._base_url = usable_address(address or _OWN)
        self._key, self._headers, self.secrets = _access(self._base_url, api_key, own=own)
        """The last is what no text may hold."""
        self._held_back = self._key == _NO_KEY and bool(os.environ.get("OPENAI_API_KEY"))
        self._model, self._trust_env = model, trust_env
        self._structured = own if structured is None else structured
        self._stream, self._prices = stream, usable_prices(prices)
        # OpenAI's newer models refuse the older name, which is the one that everybody else knows.
        self._limit = "max_completion_tokens" if own else "max_tokens"
        self._clients: dict[asyncio.AbstractEventLoop, openai.AsyncOpenAI] = {}

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
                raw = await self._client().chat.completions.with_raw_response.create(**request, timeout=timeout)
            except openai.AuthenticationError:
                self._tell_of_the_key()
                raise
            return reply_of(raw, self._prices)

    def _tell_of_the_key(self) -> None:
        """Say once why the endpoint got none, where there is one."""
        if self._held_back:
            self._held_back = False
            _LOG.warning(HELD_BACK, "OPENAI_API_KEY")

    async def close(self) -> None:
        """Let go of this loop's connections; those of loops that are gone go when it is next asked."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _client(self) -> openai.AsyncOpenAI:
        """One a loop: its connections cannot be used from another."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            for gone in [each for each in tuple(self._clients) if each.is_closed()]:
                self._clients.pop(gone, None)
            # The client's own would, once its loop is gone, be closed in whichever loop runs then, and fail there.
            http_client = openai.DefaultAsyncHttpxClient(trust_env=self._trust_env)
            client = openai.AsyncOpenAI(
                api_key=self._key, base_url=self._base_url, max_retries=0, http_client=http_client,
                default_headers=self._headers,
            )  # fmt: skip
            self._clients[loop] = client
        return client

    def _request(self, prompt: Prompt, schema: Mapping[str, object] | None) -> dict[str, Any]:
        messages = [{"role": _ROLES[turn.role], "content": turn.text} for turn in prompt.turns]
        if prompt.system:
            messages.insert(0, {"role": "system", "content": prompt.system})
        request: dict[str, Any] = {"model": self._model, "messages": messages}
        if prompt.max_tokens is not None:
            request[self._limit] = prompt.max_tokens
        if prompt.temperature is not None:
            request["temperature"] = prompt.temperature
        if schema is not None and self._structured:
            form = {"name": "answer", "schema": dict(schema), "strict": is_strict(schema)}
            request["response_format"] = {"type": "json_schema", "json_schema": form}
        return request

    async def _streamed(self, request: dict[str, Any], timeout: float) -> Reply:  # noqa: ASYNC109 - as above
        """The same in pieces; a stream that ends without saying why it ended is a connection that broke."""
        chunks = await self._client().chat.completions.create(
            **request, stream=True, stream_options={"include_usage": True}, timeout=timeout
        )
        pieces = Pieces(chunks.response)
        async with chunks:
            if not is_stream(chunks.response):
                raise unexpected(chunks.response, await chunks.response.aread())
            try:
                async for chunk in chunks:
                    pieces.take(chunk)
            except ValueError as error:
                raise unexpected(chunks.response, b"") from error
        return pieces.reply(self._prices)


def _access(address: str, given: str | None, *, own: bool) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """The key, headers that are sent instead of the environment's, and all that is secret of what is sent."""
    key = usable_key(given)
    hidden = secret_headers(os.environ.get("OPENAI_CUSTOM_HEADERS"))
    if is_https(address):
        key = key or usable_key(os.environ.get("OPENAI_API_KEY"))
        if key is None and own:
            raise UsageError("no key for OpenAI: set OPENAI_API_KEY, or give api_key=")
        return key or _NO_KEY, {}, tuple(each for each in (key, *hidden.values()) if each)
    headers: dict[str, Any] = dict.fromkeys(hidden, openai.Omit())
    if hidden:  # it may have been the one that is left out
        headers["Authorization"] = f"Bearer {key or _NO_KEY}"
    return key or _NO_KEY, headers, (key,) if key else ()
