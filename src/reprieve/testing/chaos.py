"""Faults on purpose for the review pipeline, over real sockets.

A gateway before the model and the repository fails, and senders fail before or after they take a message. `troubled` draws
the faults from a seed. `planned` reads them from a file, for `make run`. A file marks each fault that was met, so that a
fault is met once, also by several processes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import httpx2

from reprieve.models import Finish, OpenAI, Prompt, Role, Turn
from reprieve.review.git import Git
from reprieve.testing import replies
from reprieve.testing.acts import Answering, Moment, Reset, Stall, json_reply
from reprieve.testing.places import nobody_listening
from reprieve.testing.web import FlakyHTTP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from reprieve.models import Model, Reply
    from reprieve.review.parts import Parts
    from reprieve.review.settings import Settings
    from reprieve.senders import Answer, Outgoing, Question, Sender
    from reprieve.testing.acts import Act
    from reprieve.testing.web import Request

_WELL: Final = "well"
_SHARES: Final[Mapping[str, tuple[tuple[str, float], ...]]] = {
    "fetch": (("busy", 0.25), ("reset", 0.2), ("denied", 0.2), (_WELL, 0.35)),
    "llm": (("limited", 0.25), ("overloaded", 0.2), ("reset", 0.15), ("filtered", 0.1), (_WELL, 0.3)),
    "notify": (("refused", 0.3), ("broken off", 0.4), (_WELL, 0.3)),
}
"""The faults of each stage, and how often a seed draws each."""
PLAN: Final = "faults.json"
PARTS: Final = "REPRIEVE_REVIEW_PARTS"
"""The variable that puts these faults into the pipeline: a settings file of the folder may not."""
FAULTS: Final = "reprieve.testing.chaos:planned"
DENIED: Final = "denied"
"""Files in the state folder: the planned faults, and the commits that the repository's server refuses."""
_REFUSALS: Final[Mapping[str, Act]] = {
    "limited": replies.openai.rate_limit_exceeded("1"),
    "overloaded": replies.openai.overloaded(),
    "reset": Reset(at=Moment.BODY),
    "silent": Stall(),
    "filtered": replies.openai.content_filter(),
}
"""The gateway's answers in place of the model's."""
_FINISHES: Final = {
    Finish.COMPLETE: "stop",
    Finish.TRUNCATED: "length",
    Finish.REFUSED: "stop",
    Finish.FILTERED: "content_filter",
    Finish.UNFINISHED: "tool_calls",
}
_LONGEST: Final = 600.0
_MODEL: Final = "behind-trouble"


class Faults(Protocol):
    """Says what happens to each request: drawn from a seed, or planned."""

    def meet(self, stage: str, what: str) -> str:
        """Return the fault that this request of a stage meets now, or `well`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A planned fault."""

    stage: str
    kind: str
    about: str
    """A text in the request: the commit, a part of the question to the model, or the recipient and the title."""
    stays: bool = False
    """Whether every such request meets it, and not only the first."""


def troubled(parts: Parts, settings: Settings) -> Parts:
    """Put each part behind faults that the seed `settings.chaos` draws."""
    return _behind(parts, SeededFaults(settings.state / "chaos", settings.chaos or 0))


def planned(parts: Parts, settings: Settings) -> Parts:
    """Put each part behind the faults that the plan in the state folder names."""
    return _behind(parts, PlannedFaults(settings.state))


def write_plan(folder: Path, faults: Sequence[Fault], *, denied: Sequence[str] = ()) -> None:
    """Write the plan that `planned` reads, and the commits that the repository's server refuses."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PLAN).write_text(json.dumps([asdict(each) for each in faults], indent=1), encoding="utf-8")
    (folder / DENIED).write_text("".join(f"{each}\n" for each in denied), encoding="utf-8")


def _behind(parts: Parts, faults: Faults) -> Parts:
    routes = {id(sender): TroubledSender(sender, faults) for sender in parts.senders}
    gateway = Gateway(faults, parts.model)
    return replace(
        parts,
        git=TroubledGit(parts.git, gateway),
        model=None if parts.model is None else gateway,
        routes={scheme: routes[id(sender)] for scheme, sender in parts.routes.items()},
    )


class SeededFaults:
    """Faults drawn from a seed: the same for the same seed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._seed = folder / str(seed), seed

    def meet(self, stage: str, what: str) -> str:
        """Return the fault that this request of a stage meets now, or `well`."""
        digest = hashlib.sha256(f"{self._seed}\0{stage}\0{what}".encode("utf-8", "surrogatepass")).hexdigest()
        draw = int(digest[:12], 16) / 16**12
        kinds = [name for name, share in _SHARES[stage] for _ in range(round(100 * share))]
        kind = kinds[int(draw * len(kinds))]
        return kind if kind != _WELL and _is_first(self._folder, f"{stage}-{digest[:16]}") else _WELL


class PlannedFaults:
    """Faults of a plan; commits that the file `denied` names are refused until they are taken out of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._faults = [Fault(**each) for each in json.loads((folder / PLAN).read_text(encoding="utf-8"))]

    def meet(self, stage: str, what: str) -> str:
        """Return the fault that this request of a stage meets now, or `well`."""
        if stage == "fetch" and any(commit in what for commit in self._denied()):
            return "denied"
        for number, fault in enumerate(self._faults):
            fits = fault.stage == stage and fault.about in what
            if fits and (fault.stays or _is_first(self._folder / "faults", f"{number}-{fault.kind}")):
                return fault.kind
        return _WELL

    def _denied(self) -> list[str]:
        try:
            return (self._folder / DENIED).read_text(encoding="utf-8").split()
        except FileNotFoundError:
            return []


def _is_first(folder: Path, mark: str) -> bool:
    """Whether no process has met this fault before; marks it as met."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(folder / mark.replace(" ", "-"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


class Gateway:
    """An HTTP gateway that fails: the repository's server and the model are behind it.

    It speaks OpenAI's protocol, and the real client asks it over a real socket.
    """

    def __init__(self, faults: Faults, model: Model | None) -> None:
        self.name = "no model" if model is None else model.name
        self._faults, self._model = faults, model
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
        """Ask the model through the gateway."""
        self._loop = asyncio.get_running_loop()
        self.url("/")
        assert self._client is not None  # noqa: S101 - made with the gateway
        return await self._client.ask(prompt, schema=schema, timeout=timeout)

    def url(self, path: str) -> str:
        """The URL of a path of the gateway, which listens from the first call on."""
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
        """Stop the gateway and close the model."""
        upstream, client, self._upstream, self._client = self._upstream, self._client, None, None
        if client is not None:
            await client.close()
        if upstream is not None:
            await asyncio.to_thread(upstream.stop)
        if self._model is not None:
            await self._model.close()

    def _answer(self, request: Request) -> Act | int:
        if request.method == "GET":
            return _fetched(self._faults.meet("fetch", request.path))
        body = cast("dict[str, Any]", request.json())
        kind = self._faults.meet("llm", str(body["messages"]))
        if kind in _REFUSALS:
            return _REFUSALS[kind]
        if kind == "free":
            return self._from_model(body, form=None, finish="stop")
        return self._from_model(body, form=body.get("response_format", {}).get("json_schema", {}).get("schema"))

    def _from_model(self, body: dict[str, Any], *, form: dict[str, Any] | None, finish: str = "") -> Act:
        """The model's answer in OpenAI's protocol; without a form the model writes freely."""
        assert self._loop is not None  # noqa: S101 - set by `ask`, which made the request
        assert self._model is not None  # noqa: S101 - only a model's client posts
        asking = self._model.ask(_prompt(body), schema=form, timeout=_LONGEST)
        reply = asyncio.run_coroutine_threadsafe(asking, self._loop).result(_LONGEST)
        message = {"role": "assistant", "content": reply.text, "refusal": None}
        usage = {
            "prompt_tokens": reply.usage.input_tokens or 0,
            "completion_tokens": reply.usage.output_tokens or 0,
            "total_tokens": 0,
        }
        choice = {"index": 0, "message": message, "finish_reason": finish or _FINISHES[reply.finish], "logprobs": None}
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
    return Prompt(turns=turns, system=system, max_tokens=most, temperature=body.get("temperature"))


class TroubledGit(Git):
    """Git whose repository is behind the gateway: a diff is read only after the gateway has answered 200."""

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
        """Ask the gateway first where a diff is read, then git."""
        if "--numstat" in arguments:
            url = await asyncio.to_thread(partial(self._gateway.url, f"/repository/{arguments[-1]}"))
            async with httpx2.AsyncClient(timeout=30.0, trust_env=False) as client:
                (await client.get(url)).raise_for_status()
        return await self._git.ask(folder, *arguments, most=most, given=given, options=options, extra=extra)


class TroubledSender:
    """A sender whose connection is refused before, or breaks after, the message was taken; look-ups reach the sender itself."""

    def __init__(self, sender: Sender, faults: Faults) -> None:
        self._sender, self._faults = sender, faults
        self.name, self.capability = sender.name, sender.capability
        self.secrets: tuple[str, ...] = getattr(sender, "secrets", ())

    def address(self, recipient: str) -> str:
        """Return the sender's address of a recipient."""
        return self._sender.address(recipient)

    async def send(self, outgoing: Outgoing) -> str:
        """Send the message, unless a fault keeps it from being sent."""
        match self._faults.meet("notify", _about(outgoing)):
            case "refused":
                with nobody_listening() as port:
                    await asyncio.open_connection("127.0.0.1", port)
            case "broken off":
                quiet = replace(outgoing, reached=lambda _: None)
                await self._sender.send(quiet)
                raise ConnectionResetError(104, "Connection reset by peer")
        return await self._sender.send(outgoing)

    async def look_up(self, question: Question) -> Answer:
        """Return the sender's answer."""
        return await self._sender.look_up(question)

    async def close(self) -> None:
        """Close the sender."""
        await self._sender.close()


def _about(outgoing: Outgoing) -> str:
    """The recipient, title and version: the same wherever the repository is, unlike the message's token."""
    said = outgoing.message.data or {}
    return f"{outgoing.message.recipient}\0{said.get('title')}\0{said.get('review_version')}"
