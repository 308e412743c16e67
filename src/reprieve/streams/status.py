"""How a group stands: what waits, who works, and what keeps it from working."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import ResponseError

from reprieve.core.breaker_state import BreakerStatus
from reprieve.errors import UnknownNameError
from reprieve.streams.group_alerts import parse_alert
from reprieve.streams.group_breaker import parse_breaker
from reprieve.streams.keys import CONSUMER_PREFIX, WAITING_CONSUMER
from reprieve.streams.pause import parse_pause
from reprieve.streams.scripts import COUNT_AFTER

if TYPE_CHECKING:
    from reprieve.core.breaker_state import BreakerState
    from reprieve.streams.connection import RedisConnection
    from reprieve.streams.group_alerts import GroupAlert
    from reprieve.streams.keys import StreamKeys
    from reprieve.streams.pause import GroupPause

_MAX_PAGES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatus:
    """One consumer of a group."""

    name: str
    pending: int
    """Messages that it holds."""
    heartbeat_age: float | None
    """Seconds since its last heartbeat; None for a consumer of another tool."""

    @property
    def is_reprieve(self) -> bool:
        """Whether it is a consumer of ours."""
        return self.name.startswith(CONSUMER_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """How a group stands at one moment."""

    queue: str
    group: str
    length: int
    """Entries in the stream, acknowledged ones included."""
    lag: int
    """Entries that were not delivered yet."""
    lag_is_exact: bool
    """False where Redis does not know it and there are too many to count: then it is at least `lag`."""
    pending: int
    """Delivered and not acknowledged: held by consumers, waiting for a retry, or suspects."""
    waiting: int
    """Messages that wait for their retry."""
    suspects: int
    """Messages that a lost consumer held, to be run alone."""
    oldest_seconds: float | None
    """Age of the oldest message that is not done; None if all are."""
    consumers: tuple[ConsumerStatus, ...]
    paused: GroupPause | None
    breaker: BreakerState
    seconds_until_probe: float | None
    """While the breaker is open: until a call is let through."""
    dead_letters: int
    alerts: tuple[GroupAlert, ...]
    """Open alerts, the oldest first."""


async def read_group_status(connection: RedisConnection, keys: StreamKeys, group: str) -> GroupStatus:
    """Return the status of a group; raise UnknownNameError where there is no such queue or group."""
    try:
        found = {
            _text(each[b"name"]): each for each in map(_mapping, await connection.call("XINFO", "GROUPS", keys.queue))
        }
    except ResponseError as error:
        if "no such key" not in str(error):
            raise
        raise UnknownNameError("queue", keys.queue) from None
    if group not in found:
        raise UnknownNameError(f"group of {keys.queue}", group, tuple(found))
    mine = found[group]
    last = _text(mine[b"last-delivered-id"])
    (
        length,
        waiting,
        suspects,
        paused,
        breaker,
        dead_letters,
        alerts,
        summary,
        after,
        rows,
        beats,
        time,
    ) = await connection.pipeline(
        [
            ("XLEN", keys.queue),
            ("ZCARD", keys.waiting),
            ("ZCARD", keys.suspects),
            ("GET", keys.paused),
            ("GET", keys.breaker),
            ("XLEN", keys.dead_letters),
            ("HGETALL", keys.alerts),
            ("XPENDING", keys.queue, group),
            ("XRANGE", keys.queue, f"({last}", "+", "COUNT", 1),
            ("XINFO", "CONSUMERS", keys.queue, group),
            ("ZRANGE", keys.consumers, 0, -1, "WITHSCORES"),
            ("TIME",),
        ]
    )
    now = int(time[0]) + int(time[1]) / 1e6
    lag, exact = await _lag(connection, keys.queue, mine.get(b"lag"), last)
    state = parse_breaker(breaker)
    opened = [alert for alert in map(parse_alert, alerts[1::2]) if alert is not None and alert.is_open]
    return GroupStatus(
        queue=keys.queue,
        group=group,
        length=length,
        lag=lag,
        lag_is_exact=exact,
        pending=summary[0],
        waiting=waiting,
        suspects=suspects,
        oldest_seconds=_oldest(summary, after, now),
        consumers=_consumers(rows, beats, now),
        paused=parse_pause(paused),
        breaker=state,
        seconds_until_probe=None if state.status is BreakerStatus.CLOSED else state.seconds_until_call(now),
        dead_letters=dead_letters,
        alerts=tuple(sorted(opened, key=lambda alert: alert.first_at)),
    )


async def _lag(connection: RedisConnection, queue: str, known: int | None, last: str) -> tuple[int, bool]:
    if known is not None:
        return known, True
    total, cursor = 0, last
    for _ in range(_MAX_PAGES):
        count, after = await connection.run(COUNT_AFTER, [queue], cursor)
        total += count
        if after is None:
            return total, True
        cursor = _text(after)
    return total, False


def _oldest(summary: list[Any], after: list[Any], now: float) -> float | None:
    ids = [each for each in (summary[1], after[0][0] if after else None) if each]
    times = [int(each.partition(b"-")[0]) / 1000 for each in ids]
    return max(0.0, now - min(times)) if times else None


def _consumers(rows: list[Any], beats: list[Any], now: float) -> tuple[ConsumerStatus, ...]:
    last = {_text(beats[index]): float(beats[index + 1]) / 1000 for index in range(0, len(beats), 2)}
    found = []
    for row in map(_mapping, rows):
        name = _text(row[b"name"])
        if name != WAITING_CONSUMER:
            age = max(0.0, now - last[name]) if name in last else None
            found.append(ConsumerStatus(name=name, pending=row[b"pending"], heartbeat_age=age))
    return tuple(found)


def _mapping(row: list[Any]) -> dict[bytes, Any]:
    return dict(zip(row[::2], row[1::2], strict=True))


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
