"""What a model is: something that is asked once, and says how its answer ended. Retries are ours, never its client's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

_Number = TypeVar("_Number", int, float)


class Finish(StrEnum):
    """How an answer ended."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    """The limit of tokens was reached: whatever it holds, the end is missing."""
    REFUSED = "refused"
    """The model would not."""
    FILTERED = "filtered"
    """The provider's filter stopped it."""
    UNFINISHED = "unfinished"
    """It stopped for something else than being done: a tool that nobody offered, a pause, a reason that is not known."""

    @property
    def repairable(self) -> bool:
        """Whether asking again with what is wrong can help: what was cut off or refused would be so again."""
        return self in {Finish.COMPLETE, Finish.UNFINISHED}


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
    def of(
        cls, text: str, *, system: str = "", max_tokens: int | None = None, temperature: float | None = None
    ) -> Prompt:
        """One question."""
        return cls(turns=(Turn(Role.USER, text),), system=system, max_tokens=max_tokens, temperature=temperature)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What it took; None where the provider did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """In US dollars."""

    def __add__(self, other: Usage) -> Usage:
        """Both together; what only one of them says counts as it is."""
        return Usage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            cost=_sum(self.cost, other.cost),
        )

    def as_dict(self) -> dict[str, float | None]:
        """As JSON has it."""
        return {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens, "cost": self.cost}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model answered."""

    text: str
    finish: Finish = Finish.COMPLETE
    usage: Usage = Usage()
    model: str = ""
    """As the provider names what answered."""
    request_id: str | None = None


def _sum(one: _Number | None, other: _Number | None) -> _Number | None:
    return other if one is None else one if other is None else one + other


class Model(Protocol):
    """Answers prompts.

    It may have `secrets`, a tuple of the credentials that it holds: whoever is handed the model registers them with redaction.
    """

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
