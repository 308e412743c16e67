"""Say how a consumer's process ended, for a supervisor that saw it.

Without a word the group waits for the lease and counts a lost lease. With one it takes over at once, and counts the
cause that is true: what was killed for its memory has a budget of two, a deployment makes no message a suspect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprieve.core.policy import Cause
from reprieve.errors import UsageError
from reprieve.streams.keys import CONSUMER_PREFIX

if TYPE_CHECKING:
    from reprieve.streams.connection import RedisConnection
    from reprieve.streams.keys import StreamKeys

_CAUSES = (Cause.CRASH, Cause.OUT_OF_MEMORY, Cause.DEPLOY)


async def report_lost_consumers(
    connection: RedisConnection, keys: StreamKeys, *, host: str, pid: int, cause: Cause
) -> int:
    """Write down that a process is gone; return how many consumers of the group it was."""
    if cause not in _CAUSES:
        raise UsageError(f"a process ends by {', '.join(_CAUSES)}, not by {cause!r}")
    prefix = f"{CONSUMER_PREFIX}{host}:{pid}:".encode()
    names = [name for name in await connection.call("ZRANGE", keys.consumers, 0, -1) if name.startswith(prefix)]
    if names:
        await connection.call("HSET", keys.lost, *[word for name in names for word in (name, cause.value)])
    return len(names)
