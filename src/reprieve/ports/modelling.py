"""What a model is: something that is asked once, and says how its answer ended. Retries are ours, never its client's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Finish(StrEnum):
    """How an answer ended."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    """The limit of tokens was reached: whatever it holds, the end is missing."""
    REFUSED = "refused"
    """The model would not."""
    FILTERED = "filtered"
    """The provider's filter stopped it."""


class Role(StrEnum):
    """Who said it."""

    USER = "user"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing that was said."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model is asked: its instructions, and what was said so far, the last by the user."""

    turns: tuple[Turn, ...]
    system: str = ""
    max_tokens: int | None = None
    """At most so many in the answer; None: as the model is set up."""
    temperature: float | None = None

    @classmethod
    def of(cls, text: str, *, system: str = "", max_tokens: int | None = None) -> Prompt:
        """One question."""
        return cls(turns=(Turn(Role.USER, text),), system=system, max_tokens=max_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What it took; None where the provider did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """In US dollars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model answered."""

    text: str
    finish: Finish = Finish.COMPLETE
    usage: Usage = Usage()
    model: str = ""
    """As the provider names what answered."""
    request_id: str | None = None


class Model(Protocol):
    """Answers prompts."""

    @property
    def name(self) -> str:
        """For people and rows: `openai:gpt-5-mini`; holds no key."""
        ...

    async def ask(self, prompt: Prompt, *, schema: Mapping[str, object] | None = None, timeout: float = 60.0) -> Reply:  # noqa: ASYNC109 - of the call over the network
        """Ask once, without a retry; raises what the client library raises, which `classify` knows.

        With a JSON schema, a provider that can hold its output to one is asked to.
        """
        ...

    async def close(self) -> None:
        """Let go of connections; may be called twice, and be used again after."""
        ...
