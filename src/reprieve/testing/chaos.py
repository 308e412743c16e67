"""Trouble on purpose for the review pipeline, the same for the same seed.

A gateway before the model and the repository fails over real sockets; senders are refused, and break off after a message
was taken. What was met once is over, also for other processes.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import httpx2

from reprieve.models import Finish, OpenAI, Prompt, Role, Turn
from reprieve.review.git import Git
from reprieve.testing import replies
from reprieve.testing.acts import Answering, Moment, Reset, json_reply
from reprieve.testing.places import nobody_listening
from reprieve.testing.web import FlakyHTTP

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reprieve.models import Model, Reply
    from reprieve.review.parts import Parts
    from reprieve.review.settings import Settings
    from reprieve.senders import Answer, Outgoing, Question, Sender
    from reprieve.testing.acts import Act
    from reprieve.testing.web import Request

_WELL: Final = "well"
_FETCHING: Final = (("busy", 0.25), ("reset", 0.2), ("denied", 0.2), (_WELL, 0.35))
_ASKING: Final = (("limited", 0.25), ("overloaded", 0.2), ("reset", 0.15), ("filtered", 0.1), (_WELL, 0.3))
_SENDING: Final = (("refused", 0.3), ("broken off", 0.4), (_WELL, 0.3))
"""What happens the first time, and how often."""
_FINISHES: Final = {
    Finish.COMPLETE: "stop",
    Finish.TRUNCATED: "length",
    Finish.REFUSED: "stop",
    Finish.FILTERED: "content_filter",
    Finish.UNFINISHED: "tool_calls",
}
_LONGEST: Final = 600.0
_MODEL: Final = "behind-trouble"


def troubled(parts: Parts, settings: Settings) -> Parts:
    """The same parts, each behind trouble."""
    troubles = Troubles(settings.state / "chaos", settings.chaos or 0)
    routes = {id(sender): TroubledSender(sender, troubles) for sender in parts.senders}
    gateway = Gateway(troubles, parts.model)
    return replace(
        parts,
        git=TroubledGit(parts.git, gateway),
        model=gateway,
        routes={scheme: routes[id(sender)] for scheme, sender in parts.routes.items()},
    )


class Troubles:
    """What goes wrong where, drawn from a seed; that it was met is a file, so that it is met once whoever is killed meanwhile."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._seed = folder / str(seed), seed

    def meet(self, place: str, what: str, among: tuple[tuple[str, float], ...]) -> str:
        """What happens to this one now."""
        digest = hashlib.sha256(f"{self._seed}\0{place}\0{what}".encode("utf-8", "surrogatepass")).hexdigest()
        draw = int(digest[:12], 16) / 16**12
        kinds = [name for name, share in among for _ in range(round(100 * share))]
        kind = kinds[int(draw * len(kinds))]
        if kind == _WELL:
            return _WELL
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            os.close(os.open(self._folder / f"{place}-{digest[:16]}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return _WELL
        return kind


class Gateway:
    """A model behind an HTTP gateway that speaks OpenAI's protocol and fails; asked by the real client over a real socket."""

    def __init__(self, troubles: Troubles, model: Model) -> None:
        self.name = model.name
        self._troubles, self._model = troubles, model
        self._upstream: FlakyHTTP | None = None
        self._client: OpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ask(
        self,
        prompt: Prompt,
        *,
        schema: Mapping[str, object] | None = None,
        timeout: float = 60.0,  # noqa: ASYNC109 - as a model is asked
    ) -> Reply:
        """Ask through it."""
        self._loop = asyncio.get_running_loop()
        self.url("/")
        assert self._client is not None  # noqa: S101 - made with the gateway
        return await self._client.ask(prompt, schema=schema, timeout=timeout)

    def url(self, path: str) -> str:
        """Where it is; it begins to listen when it is first needed."""
        if self._upstream is None:
            self._upstream = FlakyHTTP(longest=_LONGEST).start()
            self._upstream.always(Answering(self._answer))
            self._client = OpenAI(
                _MODEL,
                base_url=self._upstream.url("/v1"),
                api_key="no-key-of-anybody",
                structured=True,
                trust_env=False,
            )
        return self._upstream.url(path)

    async def close(self) -> None:
        """End the gateway, and what is behind it."""
        upstream, client, self._upstream, self._client = self._upstream, self._client, None, None
        if client is not None:
            await client.close()
        if upstream is not None:
            await asyncio.to_thread(upstream.stop)
        await self._model.close()

    def _answer(self, request: Request) -> Act | int:
        if request.method == "GET":
            return _fetched(self._troubles.meet("fetch", request.path, _FETCHING))
        body = cast("dict[str, Any]", request.json())
        asked = str(body["messages"])
        match self._troubles.meet("llm", asked, _ASKING):
            case "limited":
                return replies.openai.rate_limit_exceeded("1")
            case "overloaded":
                return replies.openai.overloaded()
            case "reset":
                return Reset(at=Moment.BODY)
            case "filtered":
                return replies.openai.content_filter()
            case _:
                return self._from_behind(body)

    def _from_behind(self, body: dict[str, Any]) -> Act:
        """What the model says, as the protocol has it."""
        assert self._loop is not None  # noqa: S101 - who asks has a loop
        form = body.get("response_format", {}).get("json_schema", {}).get("schema")
        asking = self._model.ask(_prompt(body), schema=form, timeout=_LONGEST)
        reply = asyncio.run_coroutine_threadsafe(asking, self._loop).result(_LONGEST)
        message = {"role": "assistant", "content": reply.text, "refusal": None}
        usage = {
            "prompt_tokens": reply.usage.input_tokens or 0,
            "completion_tokens": reply.usage.output_tokens or 0,
            "total_tokens": 0,
        }
        choice = {"index": 0, "message": message, "finish_reason": _FINISHES[reply.finish], "logprobs": None}
        return json_reply(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 0,
                "model": _MODEL,
                "choices": [choice],
                "usage": usage,
            }
        )


def _fetched(kind: str) -> Act | int:
    match kind:
        case "busy":
            return replies.web.unavailable()
        case "reset":
            return Reset()
        case "denied":
            return replies.github.forbidden()
        case _:
            return 200


def _prompt(body: Mapping[str, Any]) -> Prompt:
    said = [(str(each["role"]), str(each["content"])) for each in body["messages"]]
    system = "\n".join(text for role, text in said if role in {"system", "developer"})
    turns = tuple(
        Turn(Role.MODEL if role == "assistant" else Role.USER, text)
        for role, text in said
        if role in {"user", "assistant"}
    )
    most = body.get("max_tokens") or body.get("max_completion_tokens")
    return Prompt(turns=turns, system=system, max_tokens=most)


class TroubledGit(Git):
    """Git whose repository is behind the gateway: a diff is had only when that lets it through."""

    def __init__(self, git: Git, gateway: Gateway) -> None:
        self._git, self._gateway = git, gateway

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever git has
        return getattr(self._git, name)

    async def ask(
        self,
        folder: Path,
        *arguments: str,
        most: int = 1 << 20,
        given: bytes = b"",
        options: tuple[str, ...] = (),
        extra: Mapping[str, str] | None = None,
    ) -> bytes:
        """The same, once the gateway has let it through."""
        if "--numstat" in arguments:
            url = await asyncio.to_thread(partial(self._gateway.url, f"/repository/{arguments[-1]}"))
            async with httpx2.AsyncClient(timeout=30.0, trust_env=False) as client:
                (await client.get(url)).raise_for_status()
        return await self._git.ask(folder, *arguments, most=most, given=given, options=options, extra=extra)


class TroubledSender:
    """A sender that is refused before, or breaks off after, its message was taken; what it can be asked is the sender's own."""

    def __init__(self, sender: Sender, troubles: Troubles) -> None:
        self._sender, self._troubles = sender, troubles
        self.name, self.capability = sender.name, sender.capability
        self.secrets: tuple[str, ...] = getattr(sender, "secrets", ())

    def address(self, recipient: str) -> str:
        """As the sender has it."""
        return self._sender.address(recipient)

    async def send(self, outgoing: Outgoing) -> str:
        """Hand it over, unless it comes to nothing."""
        match self._troubles.meet("notify", _about(outgoing), _SENDING):
            case "refused":
                with nobody_listening() as port:
                    await asyncio.open_connection("127.0.0.1", port)
            case "broken off":
                quiet = replace(outgoing, reached=lambda _: None)
                await self._sender.send(quiet)
                raise ConnectionResetError(104, "Connection reset by peer")
        return await self._sender.send(outgoing)

    async def look_up(self, question: Question) -> Answer:
        """As the sender answers."""
        return await self._sender.look_up(question)

    async def close(self) -> None:
        """As the sender does."""
        await self._sender.close()


def _about(outgoing: Outgoing) -> str:
    """The same wherever the repository is: its token holds the place."""
    said = outgoing.message.data or {}
    return f"{outgoing.message.recipient}\0{said.get('title')}\0{said.get('review_version')}"
