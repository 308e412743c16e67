"""Pause and resume a group. While the key exists no consumer of the group reads or claims a message.

A fatal failure pauses its group inside the script that dead-letters the message. An operator pauses by hand.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reprieve.streams.connection import RedisConnection
    from reprieve.streams.keys import StreamKeys

MAX_REASON_LENGTH: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPause:
    """Why a group is paused; sanitized."""

    reason: str
    actor: str
    at: float
    error_class: str = ""
    message_id: str = ""

    def to_json(self) -> str:
        """Return the value of the key."""
        return json.dumps(asdict(self) | {"reason": self.reason[:MAX_REASON_LENGTH]})


async def pause_group(connection: RedisConnection, keys: StreamKeys, pause: GroupPause) -> bool:
    """Pause a group; return False if it was paused already, and leave that as it is."""
    return await connection.call("SET", keys.paused, pause.to_json(), "NX") is not None


async def resume_group(connection: RedisConnection, keys: StreamKeys) -> bool:
    """Let a group go on; return False if it was not paused."""
    return bool(await connection.call("DEL", keys.paused))


async def read_pause(connection: RedisConnection, keys: StreamKeys) -> GroupPause | None:
    """Return why a group is paused, or None if it is not."""
    return parse_pause(await connection.call("GET", keys.paused))


def parse_pause(text: bytes | None) -> GroupPause | None:
    """Read the value of the key; whatever it holds, the group is paused if it exists."""
    if text is None:
        return None
    try:
        stored = json.loads(text)
        known = {name: stored[name] for name in GroupPause.__slots__ if name in stored}
        return GroupPause(**known)
    except (ValueError, TypeError):
        return GroupPause(reason=text.decode(errors="replace")[:MAX_REASON_LENGTH], actor="", at=0.0)
