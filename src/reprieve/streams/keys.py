"""The Redis keys of one consumer group, and the hash slots that a Redis Cluster computes from them."""

from __future__ import annotations

import binascii
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

CONSUMER_PREFIX: Final = "reprieve:"
"""Every consumer of ours has a name with this prefix. Consumers of other tools are left alone."""
WAITING_CONSUMER: Final = "reprieve:waiting"
"""The consumer that owns every message that waits for its retry; no process has this name."""
DEAD_LETTER_SUFFIX: Final = ":dlq"
_SLOTS: Final = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamKeys:
    """The keys of one queue and group; `build_keys` makes them."""

    queue: str
    """The stream itself. Reprieve never rewrites an entry of it."""
    dead_letters: str
    """The stream `{queue}:dlq` (ORC-5.1)."""
    waiting: str
    """Sorted set: message id by the server time in ms at which it is due."""
    suspects: str
    """Sorted set: messages that a lost consumer held, by the time from which it may run. They run alone."""
    state: str
    """Hash with the history of failed messages: `id`, and the counters `id:crash`, `id:out_of_memory`, `id:lost_lease`."""
    consumers: str
    """Sorted set: consumer name by the server time in ms of its last heartbeat."""
    rescue_hold: str
    """Exists for one lease after a heartbeat came late: nothing is taken over while it exists."""
    lost: str
    """Hash: consumer name by the cause of its end, where a supervisor saw it."""
    paused: str
    """Exists while the group is paused; holds JSON with who, why and when."""
    breaker: str
    """The state of the group's circuit breaker as JSON; absent while nothing fails."""
    replayed: str
    """Set: ids of entries that a replay had to add anew. Their history in `state` is read before they run first."""
    alerts: str
    """Hash: open alerts as JSON, by rule and key."""
    notifications: str
    """Sorted set: what a sink is still to be told, by the server time in ms at which it is due."""

    def all(self) -> tuple[str, ...]:
        """Every key."""
        return tuple(getattr(self, each.name) for each in fields(self))


def build_keys(queue: str, group: str) -> StreamKeys:
    """Return the keys of a group; raise UsageError for a name that cannot be one."""
    for kind, name in (("queue", queue), ("group", group)):
        if not name or name != name.strip() or "\n" in name:
            raise UsageError(f"a {kind} is a name without spaces around it, such as 'engineering:queue', not {name!r}")
    if queue.endswith(DEAD_LETTER_SUFFIX):
        raise UsageError(
            f"{queue!r} is a dead-letter stream: a consumer of it would dead-letter into {queue + DEAD_LETTER_SUFFIX!r}; "
            "list and replay dead letters, or consume the queue itself"
        )
    prefix = f"{queue}:reprieve:{group}"
    return StreamKeys(
        queue=queue,
        dead_letters=dead_letter_stream(queue),
        waiting=f"{prefix}:waiting",
        suspects=f"{prefix}:suspects",
        state=f"{prefix}:state",
        consumers=f"{prefix}:consumers",
        rescue_hold=f"{prefix}:rescue_hold",
        lost=f"{prefix}:lost",
        paused=f"{prefix}:paused",
        breaker=f"{prefix}:breaker",
        replayed=f"{prefix}:replayed",
        alerts=f"{prefix}:alerts",
        notifications=f"{prefix}:notifications",
    )


def dead_letter_stream(queue: str) -> str:
    """Return the name of a queue's dead-letter stream."""
    return f"{queue}{DEAD_LETTER_SUFFIX}"


def slot_of(key: str) -> int:
    """Return the hash slot that a Redis Cluster puts a key in: CRC16 of its hash tag, or of the whole key."""
    start = key.find("{")
    end = key.find("}", start + 1) if start >= 0 else -1
    hashed = key[start + 1 : end] if end > start + 1 else key
    return binascii.crc_hqx(hashed.encode(), 0) % _SLOTS


def require_one_slot(keys: Iterable[str], queue: str) -> None:
    """Refuse keys that a Redis Cluster keeps apart, since a script can only change keys of one slot."""
    if len({slot_of(key) for key in keys}) > 1:
        raise UsageError(
            f"in a Redis Cluster name the queue '{{{queue}}}', so that it and its dead letters share a slot; "
            f"{queue!r} and {dead_letter_stream(queue)!r} are in the slots {slot_of(queue)} and "
            f"{slot_of(dead_letter_stream(queue))}"
        )
