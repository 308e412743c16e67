"""Connections to Redis that never retry by themselves and give replies as the server sent them.

redis-py's clients send a command again after a timeout. A read that is sent again leaves what the first one
delivered pending, and no consumer knows of it. So these connections use redis-py's own connection classes without its
clients: one try, 5 seconds for a reply (ORC-3.1), RESP2, bytes. The consumer's loop is the one retry layer.

An address is a URL of redis-py. Several hosts are tried in order. `redis+sentinel` asks the named hosts where the
primary is. A Redis Cluster is followed by its MOVED replies.

    redis://user:password@host:6379/0          rediss://host:6379/0?ssl_ca_certs=/etc/ca.pem
    unix:///run/redis.sock?db=0                redis://host-a:6379,host-b:6379/0
    redis+sentinel://user:password@host-a:26379,host-b:26379/mymaster/0?sentinel_password=...
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from reprieve.errors import UsageError

try:
    import redis.asyncio.connection as async_redis
    import redis.connection as sync_redis
    from redis.asyncio.retry import Retry as AsyncRetry
    from redis.backoff import NoBackoff
    from redis.exceptions import (
        AskError,
        BusyLoadingError,
        ClusterDownError,
        MasterDownError,
        OutOfMemoryError,
        ReadOnlyError,
        RedisError,
        ResponseError,
        TryAgainError,
    )
    from redis.exceptions import ConnectionError as RedisConnectionError
    from redis.retry import Retry
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] != "redis":
        raise
    raise UsageError("streams need redis-py: pip install 'reprieve[redis]'") from error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reprieve.streams.scripts import Script

COMMAND_TIMEOUT_SECONDS: Final = 5.0
"""How long a command may take (ORC-3.1)."""
_MAX_REDIRECTS: Final = 5
_MOVED: Final = re.compile(r"MOVED \d+ (?P<host>.*):(?P<port>\d+)$")
_SCHEMES: Final = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
_UNREADABLE: Final = (
    "this is no address of a Redis: write redis://user:password@host:port/0 with a port from 1 to 65535, "
    "and percent-encode # / ? @ and : in the password (%23 %2F %3F %40 %3A)"
)

_UNAVAILABLE: Final = (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)
_UNAVAILABLE_WORDS: Final = frozenset({"NOREPLICAS", "MISCONF", "BUSY", "UNBLOCKED", "NOGROUP"})
_REFUSED_IN_SCRIPT: Final = re.compile(r"^Error running script .* -(READONLY|MASTERDOWN|OOM|MISCONF|NOREPLICAS) ")
"""How Redis 6.2 words what a command of a script was refused with."""

UNREACHABLE: Final = (RedisError, OSError)
"""What a command raises that Redis did not carry out, or whose reply was lost."""
Argument = bytes | str | int | float
Command = tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where a Redis is, from its URL; `parse_address` makes one. Its text has no password."""

    hosts: tuple[tuple[str, int], ...]
    """Servers, or sentinels where `service` is set; empty for a socket file."""
    options: dict[str, Any] = field(repr=False, hash=False)
    """What redis-py's connection class takes."""
    path: str = ""
    tls: bool = False
    service: str = ""
    """The name that sentinels know the primary by."""
    sentinel_options: dict[str, Any] = field(default_factory=dict, repr=False, hash=False)

    def __str__(self) -> str:
        return self.path or ",".join(f"{host}:{port}" for host, port in self.hosts)


def parse_address(url: str) -> RedisAddress:
    """Read the URL of a Redis; raise UsageError where it is none. The message shows no password."""
    scheme, _, rest = url.partition("://")
    if scheme not in _SCHEMES or not rest:
        raise UsageError(
            "a Redis is given as redis://host:6379/0, rediss:// for TLS, unix:///path, or "
            "redis+sentinel://host:26379/service-name"
        )
    if scheme == "unix":
        options = _url_options(url)
        path = options.pop("path", "")
        options.pop("connection_class", None)
        return RedisAddress((), options, path=path)
    base, _, sentinel = scheme.partition("+")
    authority, slash, tail = rest.partition("/")
    credentials, at, hosts = authority.rpartition("@")
    parsed = tuple(_host_and_port(each, 26379 if sentinel else 6379) for each in hosts.split(","))
    service = ""
    sentinel_options: dict[str, Any] = {}
    if sentinel:
        tail, service, sentinel_options = _sentinel_part(tail)
    if "@" in tail.partition("?")[0]:
        raise UsageError(_UNREADABLE)  # a password with a slash: its first half would be taken for a host
    options = _url_options(f"{base}://{credentials}{at}localhost{slash}{tail}")
    options.pop("host", None)
    options.pop("connection_class", None)
    return RedisAddress(parsed, options, tls=base == "rediss", service=service, sentinel_options=sentinel_options)


def _url_options(url: str) -> dict[str, Any]:
    try:
        return dict(async_redis.parse_url(url))
    except ValueError:  # its text quotes parts of the password
        raise UsageError(_UNREADABLE) from None


def _host_and_port(text: str, default: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:  # the text can be a part of the password
        raise UsageError(_UNREADABLE) from None
    if not host:
        raise UsageError("a Redis address needs a host, as in redis://localhost:6379/0")
    return host, default if port is None else port


def _sentinel_part(tail: str) -> tuple[str, str, dict[str, Any]]:
    """Take the service name and what concerns sentinels out of a URL's path and query."""
    path, _, query = tail.partition("?")
    service, _, database = path.partition("/")
    if not service:
        raise UsageError("name the service behind the sentinels: redis+sentinel://host:26379/mymaster")
    mine = {name.removeprefix("sentinel_"): value for name, value in parse_qsl(query) if name.startswith("sentinel_")}
    others = urlencode([pair for pair in parse_qsl(query) if not pair[0].startswith("sentinel_")])
    return f"{database}?{others}" if others else database, unquote(service), mine


def is_unavailable(error: BaseException) -> bool:
    """Whether a reply says that this server cannot serve now: loading, failing over, a replica, out of memory."""
    # redis-py takes the first word off the replies that it has a class for.
    if isinstance(error, _UNAVAILABLE) or str(error).partition(" ")[0] in _UNAVAILABLE_WORDS:
        return True
    return _REFUSED_IN_SCRIPT.search(str(error)) is not None


class RedisConnection:
    """One connection for asyncio. It connects when it is first used, and again after an error."""

    def __init__(self, address: RedisAddress, *, timeout: float = COMMAND_TIMEOUT_SECONDS) -> None:
        self.address, self._timeout = address, timeout
        self._connection: Any = None
        self._moved: tuple[str, int] | None = None
        self._turn = asyncio.Lock()

    async def call(self, *command: Argument) -> Any:  # noqa: ANN401 - what the server sent
        """Send one command and return the reply; raise the server's error."""
        return (await self.pipeline([command]))[0]

    async def pipeline(self, commands: Sequence[Command], *, raises: bool = True) -> list[Any]:
        """Send commands in one round trip and return their replies.

        Raises the first error among the replies, or returns errors in their places if `raises` is False. After a
        connection error nothing is known about the commands, and the next call connects anew.
        """
        async with self._turn:
            for _ in range(_MAX_REDIRECTS):
                replies = await self._exchange(commands)
                moved = next((each for each in replies if isinstance(each, ResponseError) and _moved_to(each)), None)
                if moved is None:
                    break
                # A MOVED command was not carried out. All keys are in one slot, so all commands were moved.
                await self._disconnect()
                self._moved = _moved_to(moved)
            if any(isinstance(reply, Exception) and is_unavailable(reply) for reply in replies):
                await self._disconnect()  # the next call finds the server that serves now
        for reply in replies if raises else ():
            if isinstance(reply, Exception):
                raise reply
        return replies

    async def run(self, script: Script, keys: Sequence[str], *arguments: Argument) -> Any:  # noqa: ANN401 - the same
        """Run a script and return its reply."""
        return (await self.run_each(script, keys, [arguments]))[0]

    async def run_each(
        self, script: Script, keys: Sequence[str], calls: Sequence[Command], *, raises: bool = True
    ) -> list[Any]:
        """Run a script once for each list of arguments, in one round trip; errors as in `pipeline`.

        A server that does not know the script refuses it without effect. It is then sent in full.
        """
        replies = await self.pipeline(
            [("EVALSHA", script.sha, len(keys), *keys, *arguments) for arguments in calls], raises=False
        )
        unknown = [index for index, reply in enumerate(replies) if script.is_unknown(reply)]
        if unknown:
            again = await self.pipeline(
                [("EVAL", script.text, len(keys), *keys, *calls[index]) for index in unknown], raises=False
            )
            for index, reply in zip(unknown, again, strict=True):
                replies[index] = reply
        for reply in replies if raises else ():
            if isinstance(reply, Exception):
                raise reply
        return replies

    async def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        task = asyncio.current_task()
        cancelled = 0 if task is None else task.cancelling()
        connection = self._connection or await self._connect()
        try:
            await connection.send_packed_command(connection.pack_commands(commands))
            replies = []
            for _ in commands:
                try:
                    replies.append(await connection.read_response())
                except ResponseError as error:
                    replies.append(error)
            # redis-py sends inside asyncio.wait_for, which until Python 3.12 can swallow a cancellation.
            if task is not None and task.cancelling() > cancelled:
                raise asyncio.CancelledError  # noqa: TRY301 - handled below as the others
        except BaseException:  # also a cancelled read: the reply of this command would answer the next one
            await self._disconnect()
            raise
        return replies

    async def _connect(self) -> Any:  # noqa: ANN401 - redis-py's connection classes have no common public type
        failure: Exception | None = None
        for host, port in await self._targets():
            connection = _async_connection(self.address, host, port, self._timeout)
            try:
                await connection.connect()
            except (RedisError, OSError) as error:
                failure = error
                with suppress(RedisError, OSError):
                    await connection.disconnect()
                continue
            except BaseException:
                await connection.disconnect(nowait=True)
                raise
            self._connection = connection
            return connection
        raise failure or RedisConnectionError(f"no Redis at {self.address}")

    async def _targets(self) -> Sequence[tuple[str, int]]:
        if self.address.path:
            return [("", 0)]
        if self._moved is not None:
            moved, self._moved = self._moved, None
            return [moved, *self.address.hosts]
        if not self.address.service:
            return self.address.hosts
        failure: Exception | None = None
        for host, port in self.address.hosts:
            sentinel = RedisConnection(_sentinel_address(self.address, host, port), timeout=self._timeout)
            try:
                found = await sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.address.service)
            except (RedisError, OSError) as error:
                failure = error
                continue
            finally:
                await sentinel.close()
            if found:
                return [(found[0].decode(), int(found[1]))]
        raise failure or RedisConnectionError(f"no sentinel knows the service {self.address.service!r}")

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(RedisError, OSError):
                await connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Disconnect; the next call connects anew."""
        await self._disconnect()


class BlockingRedisConnection:
    """One connection for a thread, with the same rules."""

    def __init__(self, address: RedisAddress, *, timeout: float = COMMAND_TIMEOUT_SECONDS) -> None:
        self.address, self._timeout = address, timeout
        self._connection: Any = None
        self._moved: tuple[str, int] | None = None

    def call(self, *command: Argument) -> Any:  # noqa: ANN401 - what the server sent
        """Send one command and return the reply; raise the server's error."""
        for _ in range(_MAX_REDIRECTS):
            connection = self._connection or self._connect()
            try:
                connection.send_packed_command(connection.pack_commands([command]))
                return connection.read_response()
            except ResponseError as error:
                self._moved = _moved_to(error)
                if self._moved is None:
                    if is_unavailable(error):
                        self.close()
                    raise
                self.close()
            except BaseException:
                self.close()
                raise
        raise RedisConnectionError("the cluster moved the command again and again")

    def run(self, script: Script, keys: Sequence[str], *arguments: Argument) -> Any:  # noqa: ANN401 - the same
        """Run a script and return its reply."""
        try:
            return self.call("EVALSHA", script.sha, len(keys), *keys, *arguments)
        except ResponseError as error:
            if not script.is_unknown(error):
                raise
        return self.call("EVAL", script.text, len(keys), *keys, *arguments)

    def _connect(self) -> Any:  # noqa: ANN401 - the same
        failure: Exception | None = None
        for host, port in self._targets():
            connection = _sync_connection(self.address, host, port, self._timeout)
            try:
                connection.connect()
            except (RedisError, OSError) as error:
                failure = error
                continue
            self._connection = connection
            return connection
        raise failure or RedisConnectionError(f"no Redis at {self.address}")

    def _targets(self) -> Iterator[tuple[str, int]]:
        if self.address.path:
            yield "", 0
            return
        if self._moved is not None:
            yield self._moved
            self._moved = None
        if not self.address.service:
            yield from self.address.hosts
            return
        for host, port in self.address.hosts:
            sentinel = BlockingRedisConnection(_sentinel_address(self.address, host, port), timeout=self._timeout)
            found = None
            with suppress(RedisError, OSError):
                found = sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.address.service)
            sentinel.close()
            if found:
                yield found[0].decode(), int(found[1])

    def close(self) -> None:
        """Disconnect; the next call connects anew."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(RedisError, OSError):
                connection.disconnect()


def _moved_to(error: ResponseError) -> tuple[str, int] | None:
    # redis-py takes the word MOVED off where it has a class of its own for it.
    host, port = getattr(error, "host", None), getattr(error, "port", None)
    if host and port and type(error).__name__ == "MovedError":
        return str(host), int(port)
    found = _MOVED.match(str(error))
    return (found["host"], int(found["port"])) if found else None


def _sentinel_address(address: RedisAddress, host: str, port: int) -> RedisAddress:
    kept = {name: value for name, value in address.options.items() if name.startswith("ssl")}
    return replace(address, hosts=((host, port),), options=kept | address.sentinel_options, service="")


def _common(address: RedisAddress, timeout: float) -> dict[str, Any]:
    return {
        "protocol": 2,
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry_on_timeout": False,
        "health_check_interval": 0,
        **address.options,
        "decode_responses": False,
    }


def _async_connection(address: RedisAddress, host: str, port: int, timeout: float) -> Any:  # noqa: ANN401 - as above
    options = _common(address, timeout) | {"retry": AsyncRetry(NoBackoff(), 0)}
    if address.path:
        return async_redis.UnixDomainSocketConnection(path=address.path, **options)
    kind = async_redis.SSLConnection if address.tls else async_redis.Connection
    return kind(host=host, port=port, socket_keepalive=True, **options)


def _sync_connection(address: RedisAddress, host: str, port: int, timeout: float) -> Any:  # noqa: ANN401 - as above
    options = _common(address, timeout) | {"retry": Retry(NoBackoff(), 0)}
    if address.path:
        unix: Any = sync_redis.UnixDomainSocketConnection
        return unix(path=address.path, **options)
    kind = sync_redis.SSLConnection if address.tls else sync_redis.Connection
    return kind(host=host, port=port, socket_keepalive=True, **options)
