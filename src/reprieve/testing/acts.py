"""What an upstream can do when it is asked: answer, break off, stall, or talk nonsense."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import UnionType


class Moment(StrEnum):
    """When an upstream breaks off or stalls, in the order in which it comes."""

    CONNECT = "connect"
    """The connection is accepted, nothing was read."""
    HANDSHAKE = "handshake"
    """The client's first TLS message has arrived."""
    REQUEST = "request"
    """The request's head is read, its body is not."""
    REPLY = "reply"
    """The request (or the SMTP command) is read, nothing is answered."""
    HEADERS = "headers"
    """Half of the reply's head is sent."""
    BODY = "body"
    """The reply's head and half of its body are sent."""


_LEAST_STATUS: Final = 100
_GREATEST_STATUS: Final = 999


def check_kind(value: object, kind: type | UnionType, wanted: str) -> None:
    """Refuse a value of another kind, saying what is wanted."""
    if not isinstance(value, kind):
        raise UsageError(f"{wanted}, not {value!r}")


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP reply: any status, any headers, any body.

    Content-Length is added unless the headers have one or a Transfer-Encoding.

        Reply(503, headers={"Retry-After": "2"})
    """

    status: int = 200
    body: bytes | str = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    def __post_init__(self) -> None:
        check_kind(self.status, int, "an HTTP status is a number from 100 to 999")
        check_kind(self.body, bytes | str, "a body is bytes or text (json_reply makes one of JSON)")
        if not _LEAST_STATUS <= self.status <= _GREATEST_STATUS:
            raise UsageError(f"an HTTP status is a number from 100 to 999, not {self.status!r}")
        for name, value in self.headers.items():
            check_kind(value, str, f"header {name!r} is text")
            if any(sign in f"{name}{value}" for sign in "\r\n"):
                raise UsageError(f"header {name!r} must be one line, not {value!r}; use Raw for a broken head")

    @property
    def content(self) -> bytes:
        """The body as bytes."""
        return self.body.encode() if isinstance(self.body, str) else self.body


def json_reply(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A reply whose body is `value` as JSON.

    json_reply({"error": "busy"}, 503)
    """
    return Reply(status, json.dumps(value), {"Content-Type": "application/json", **(headers or {})})


OK: Final = json_reply({"ok": True, "message": "this upstream is well"})


@dataclass(frozen=True, slots=True)
class Reset:
    """Abort the connection with an RST; `reply` is what it had begun to send, where the moment is that late."""

    at: Moment = Moment.REPLY
    reply: Reply = OK


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close the connection properly, too early; at `Moment.BODY` that is a truncated body."""

    at: Moment = Moment.REPLY
    reply: Reply = OK


@dataclass(frozen=True, slots=True)
class Stall:
    """Fall silent: for `seconds` and then go on, or, without them, until the upstream stops or its `longest` is over."""

    at: Moment = Moment.REPLY
    reply: Reply = OK
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise UsageError(f"a stall lasts 0 or more seconds, or None for as long as it may; not {self.seconds!r}")


@dataclass(frozen=True, slots=True)
class Drip:
    """Send the reply's body one byte at a time, `every` so many seconds."""

    reply: Reply = OK
    every: float = 0.05

    def __post_init__(self) -> None:
        if not (math.isfinite(self.every) and self.every > 0):
            raise UsageError(f"a drip comes every so many seconds, above 0; not {self.every!r}")


@dataclass(frozen=True, slots=True)
class Raw:
    """Send these bytes instead of a reply, then close the connection."""

    data: bytes


@dataclass(frozen=True, slots=True)
class WebSocketClose:
    """Accept a WebSocket and close it at once with this code; without one, drop it unsaid."""

    code: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Answering:
    """Do what a function makes of the request, once it is read: for upstreams that remember what they were sent."""

    function: Callable[[Any], Act | int]


_CHOICES: Final = "Reply, Reset, HangUp, Stall, Drip, Raw, WebSocketClose, Answering or an HTTP status"
Break = Reset | HangUp | Stall
Act = Reply | Reset | HangUp | Stall | Drip | Raw | WebSocketClose | Answering


def as_act(value: object) -> Act:
    """Take an act, or an HTTP status as short for a reply; anything else is refused with what would be right."""
    match value:
        case Reply() | Reset() | HangUp() | Stall() | Drip() | Raw() | WebSocketClose() | Answering():
            return value
        case bool():
            pass
        case int():
            return Reply(value)
    raise UsageError(f"an upstream can do a {_CHOICES}, not {value!r}")
