"""What a consumer checks before it starts: is the server right for it, and what can it lose."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from redis.exceptions import NoPermissionError, ResponseError

from reprieve.errors import UsageError
from reprieve.streams.keys import require_one_slot

if TYPE_CHECKING:
    from reprieve.streams.connection import RedisConnection
    from reprieve.streams.keys import StreamKeys

_LOG: Final = logging.getLogger("reprieve.streams")
_OLDEST: Final = (6, 2)


async def ensure_group(connection: RedisConnection, queue: str, group: str) -> None:
    """Make the group if it is missing, from the beginning of the stream: what was sent before it counts too."""
    try:
        await connection.call("XGROUP", "CREATE", queue, group, "0", "MKSTREAM")
    except ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise


async def check_server(connection: RedisConnection, keys: StreamKeys, *, wants_replicas: int = 0) -> None:
    """Refuse a server on which messages would be lost or stuck; warn about settings that can lose them."""
    kinds = await connection.pipeline([("TYPE", keys.queue), ("TYPE", keys.dead_letters)], raises=False)
    for name, kind in zip((keys.queue, keys.dead_letters), kinds, strict=True):
        if isinstance(kind, bytes | str) and _text(kind) not in {"none", "stream"}:
            raise UsageError(f"{name!r} is a {_text(kind)} in Redis, not a stream: choose another queue")
    try:
        info = parse_info(await connection.call("INFO"))
    except (NoPermissionError, ResponseError):
        _LOG.warning("this user may not ask for INFO: persistence and eviction are not checked")
        return
    version = tuple(int(part) for part in info.get("redis_version", "7.0").split(".")[:2])
    if version < _OLDEST:
        raise UsageError(f"Redis 6.2 or newer is needed, this is {info['redis_version']}")
    if info.get("cluster_enabled") == "1":
        require_one_slot(keys.all(), keys.queue)
    if info.get("maxmemory_policy", "noeviction") != "noeviction" and info.get("maxmemory", "0") != "0":
        _LOG.warning(
            "maxmemory-policy is %s: Redis may evict the queue or its state; set it to noeviction",
            info["maxmemory_policy"],
        )
    if info.get("aof_enabled") != "1":
        _LOG.warning("appendonly is off: a restart of Redis loses what came after its last snapshot")
    if wants_replicas > int(info.get("connected_slaves", "0")):
        _LOG.warning("%d replicas are to confirm, %s are connected", wants_replicas, info.get("connected_slaves", "0"))


async def check_appendable(connection: RedisConnection, stream: str) -> None:
    """Raise UsageError for a key that is no stream, or that this user may not append to."""
    # An entry with the id 0-0 is refused always, and only after the permission was checked: nothing is written.
    probe = ("XADD", stream, "0-0", "probe", "")
    kind, refusal = await connection.pipeline([("TYPE", stream), probe], raises=False)
    if isinstance(kind, bytes | str) and _text(kind) not in {"none", "stream"}:
        raise UsageError(f"{stream!r} is a {_text(kind)} in Redis, not a stream: choose another name or delete it")
    if isinstance(refusal, NoPermissionError):
        raise UsageError(f"this user may not append to {stream!r}: grant it ~{stream} and +xadd")


def parse_info(text: bytes) -> dict[str, str]:
    """Return the lines of an INFO reply."""
    lines = (line.partition(":") for line in text.decode(errors="replace").splitlines() if not line.startswith("#"))
    return {name: value for name, separator, value in lines if separator}


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
