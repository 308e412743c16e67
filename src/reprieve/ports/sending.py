"""What a sender is: two methods and a record of what its provider can do. `reprieve.testing` has a suite that tries one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from reprieve.core.delivery import Found

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reprieve.core.delivery import Capability, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What somebody is to be told; frozen with its delivery before anything is sent."""

    recipient: str
    """A URI with its channel: `mailto:ada@example.org`, `slack:C024BE91L`, `https://example.org/hook`, `maildir:ada`."""
    subject: str
    text: str
    html: str | None = None
    data: Mapping[str, object] = field(default_factory=dict)
    """For receivers that are programs: what a webhook sends as JSON beside the text."""
    required: bool = True
    """Whether its job may not succeed before this one is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message on its way: the same bytes on every try."""

    message: Message
    token: str
    """Derived from (changelist_id, recipient, review_version): the provider's idempotency key, a part of the Message-ID."""
    timeout: float
    """Seconds within which it has to be done."""
    prepared_at: float
    """When its row was written: for a Date that is the same on every try."""
    reached: Callable[[Phase], None]
    """To be called as the send gets on: a sender that never does is taken to have got as far as it may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which message a look-up is about."""

    recipient: str
    token: str
    notification_id: str | None
    since: float
    """When the first send of it was begun."""
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a look-up found; `evidence` is for people, and sanitized before it is kept."""

    found: Found
    notification_id: str | None = None
    sent_at: float | None = None
    evidence: str = ""

    @classmethod
    def unknown(cls, evidence: str = "") -> Answer:
        """The provider did not say."""
        return cls(found=Found.UNKNOWN, evidence=evidence)


class Sender(Protocol):
    """Hands messages to a provider."""

    @property
    def name(self) -> str:
        """By which rows know it, also after a restart: stable."""
        ...

    @property
    def capability(self) -> Capability:
        """What its provider can do about duplicates."""
        ...

    def address(self, recipient: str) -> str:
        """The recipient in its one normal form; `UsageError` where it is none of this sender's, or not safe."""
        ...

    async def send(self, outgoing: Outgoing) -> str:
        """Hand it over, and return the provider's id of it; raises what went wrong."""
        ...

    async def look_up(self, question: Question) -> Answer:
        """Ask the provider; what goes wrong counts as unknown."""
        ...

    async def close(self) -> None:
        """Let go of connections; may be called twice, and be used again after."""
        ...
