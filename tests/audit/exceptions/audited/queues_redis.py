"""A real Redis's error replies through redis-py, and the ways its connection dies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import redis
import redis.asyncio
import redis.sentinel
from redis.backoff import NoBackoff
from redis.retry import Retry

from audited.case import (
    AUTH,
    CONFIGURATION,
    CONFLICT,
    NETWORK,
    NOT_FOUND,
    RATE_LIMIT,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    secret,
    stop,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from audited.lab import Lab

PASSWORD: Final = secret("hunter", "2-but-", "longer-7Qx")
CODE: Final = CONFIGURATION | VALIDATION
SICK: Final = UPSTREAM | NETWORK

REPLIES: Final[tuple[tuple[str, bool, Any, str], ...]] = (
    ("LOADING Redis is loading the dataset in memory", True, SICK, "notes: LOADING retry"),
    ("TRYAGAIN Multiple keys request during rehashing of slot", True, SICK | CONFLICT, "notes: TRYAGAIN retry"),
    ("CLUSTERDOWN The cluster is down", True, SICK, "notes: CLUSTERDOWN retry"),
    ("MASTERDOWN Link with MASTER is down", True, SICK, "a failover"),
    ("READONLY You can't write against a read only replica.", True, SICK, "notes: READONLY retry"),
    ("OOM command not allowed when used memory > 'maxmemory'.", True, SICK, "notes: OOM slow retry"),
    ("BUSY Redis is busy running a script.", True, SICK, "it will end"),
    ("NOPERM this user has no permissions to run the command", False, AUTH, "notes: NOPERM permanent"),
    ("NOAUTH Authentication required.", False, AUTH, "CRIT-1.6"),
    ("WRONGPASS invalid username-password pair or user is disabled.", False, AUTH, "notes: test auth first"),
    ("WRONGTYPE Operation against a key holding the wrong kind of value", False, CODE, "notes: WRONGTYPE permanent"),
    ("CROSSSLOT Keys in request don't hash to the same slot", False, CODE, "a bug"),
    ("NOGROUP No such key 'q' or consumer group 'g'", False, CONFIGURATION | NOT_FOUND | VALIDATION, "a missing group"),
    ("MOVED 3999 127.0.0.1:6381", True, SICK | CONFIGURATION, "the slot is elsewhere now"),
    ("EXECABORT Transaction discarded because of previous errors.", False, CODE | CONFLICT, "a bug in the transaction"),
    ("ERR syntax error", False, CODE, "a bug"),
    ("ERR max number of clients reached", True, SICK | RATE_LIMIT, "a resource ran out"),
    ("MISCONF Redis is configured to save RDB snapshots", True, SICK | CONFIGURATION, "the disk, most often"),
    ("NOREPLICAS Not enough good replicas to write.", True, SICK, "a failover"),
    ("UNKILLABLE Sorry the script already executed write commands", True, SICK, "who knows"),
)
OPEN: Final = {"MISCONF", "UNKILLABLE", "NOGROUP", "MOVED"}


def client(lab: Lab, **options: Any) -> redis.Redis:
    """A client that does not retry by itself."""
    settings = {
        "host": "127.0.0.1",
        "port": lab.redis_port,
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": 3,
        **options,
    }
    return redis.Redis(**settings)


def using(work: Callable[[redis.Redis], object], **options: Any) -> Callable[[Lab], object]:
    """Do this with a client and close it."""

    def provoke(lab: Lab) -> object:
        settings = {name: value(lab) if callable(value) else value for name, value in options.items()}
        with client(lab, **settings) as connection:
            return work(connection)

    return provoke


def awaiting(work: Callable[[redis.asyncio.Redis], Any], **options: Any) -> Callable[[Lab], object]:
    """Do this with an awaited client and close it."""

    async def run(lab: Lab) -> object:
        settings = {name: value(lab) if callable(value) else value for name, value in options.items()}
        connection = redis.asyncio.Redis(
            **{"host": "127.0.0.1", "port": lab.redis_port, "retry": None, "socket_timeout": 3, **settings}
        )
        try:
            return await work(connection)
        finally:
            await connection.aclose()

    return run


def replying(reply: str) -> Callable[[redis.Redis], object]:
    """Let the server answer with this error."""
    return lambda connection: connection.eval(f'return redis.error_reply("{reply}")', 0)


def cases() -> Iterator[Case]:
    """All of them."""
    for reply, retryable, categories, reason in REPLIES:
        word = reply.split()[0]
        label = reply[:20] if word == "ERR" else word
        for name, run in (("redis", using), ("redis awaited", awaiting)):
            yield Case(
                label=f"{name} {label}",
                library="redis",
                provoke=run(replying(reply)),
                retryable=retryable,
                categories=categories,
                reason=reason,
                arguable=word in OPEN,
            )
    yield from _natural()
    yield from _connections()


def _wrong_type(connection: redis.Redis) -> object:
    connection.set("audit:text", "x")
    return connection.lpush("audit:text", "y")


def _watched(connection: redis.Redis) -> object:
    with connection.pipeline() as pipe:
        pipe.watch("audit:watched")
        connection.incr("audit:watched")
        pipe.multi()
        pipe.incr("audit:watched")
        return pipe.execute()


def _locked(connection: redis.Redis) -> object:
    with connection.lock("audit:lock", timeout=5), connection.lock("audit:lock", blocking_timeout=0.05):
        return None


def _lost_lock(connection: redis.Redis) -> object:
    lock = connection.lock("audit:lost", timeout=5)
    lock.acquire()
    connection.delete("audit:lost")
    return lock.release()


def _out_of_memory(connection: redis.Redis) -> object:
    connection.config_set("maxmemory", "1")
    try:
        return connection.set("audit:big", "x" * 100)
    finally:
        connection.config_set("maxmemory", "0")


def _not_a_number(connection: redis.Redis) -> object:
    connection.set("audit:text", "x")
    return connection.incr("audit:text")


def _natural() -> Iterator[Case]:
    yield stop("redis", "redis really WRONGTYPE", using(_wrong_type), CODE, "notes: WRONGTYPE permanent")
    yield stop("redis", "redis really no number", using(_not_a_number), CODE, "data")
    yield stop("redis", "redis unknown command", using(lambda r: r.execute_command("SUMMON")), CODE, "a bug")
    yield stop("redis", "redis wrong arity", using(lambda r: r.execute_command("GET")), CODE, "a bug")
    yield stop("redis", "redis cannot encode", using(lambda r: r.set("k", object())), CODE, "a DataError is a bug")
    yield stop(
        "redis",
        "redis NOSCRIPT",
        using(lambda r: r.evalsha("0" * 40, 0)),
        CODE | NOT_FOUND,
        "not loaded",
        arguable=True,
    )
    yield retry("redis", "redis really OOM", using(_out_of_memory), SICK, "notes: OOM slow retry")
    yield retry("redis", "redis WatchError", using(_watched), CONFLICT, "an optimistic lock: CRIT-1.4")
    yield retry(
        "redis", "redis LockError not acquired", using(_locked), CONFLICT | SICK, "somebody holds it", arguable=True
    )
    yield stop(
        "redis",
        "redis LockNotOwnedError",
        using(_lost_lock),
        CONFLICT | CONFIGURATION,
        "the lease ran out",
        arguable=True,
    )
    yield stop(
        "redis", "redis really NOGROUP", using(lambda r: r.xreadgroup("g", "c", {"audit:none": ">"})),
        CONFIGURATION | NOT_FOUND | VALIDATION, "a missing group", arguable=True,
    )  # fmt: skip
    yield stop(
        "redis", "redis wrong user", using(lambda r: r.ping(), username="nobody", password=PASSWORD), AUTH,
        "notes: test auth first", secrets=(PASSWORD,),
    )  # fmt: skip
    yield stop(
        "redis", "redis awaited wrong user", awaiting(lambda r: r.ping(), username="nobody", password=PASSWORD), AUTH,
        "notes: test auth first",
    )  # fmt: skip


def _pool(lab: Lab) -> object:
    pool = redis.ConnectionPool(host="127.0.0.1", port=lab.redis_port, max_connections=1)
    connection = pool.get_connection()
    try:
        return pool.get_connection()
    finally:
        pool.release(connection)
        pool.disconnect()


def _blocking_pool(lab: Lab) -> object:
    pool = redis.BlockingConnectionPool(host="127.0.0.1", port=lab.redis_port, max_connections=1, timeout=0.05)
    connection = pool.get_connection()
    try:
        return pool.get_connection()
    finally:
        pool.release(connection)
        pool.disconnect()


def _sentinel(lab: Lab) -> object:
    return redis.sentinel.Sentinel(
        [("127.0.0.1", lab.closed_port)], sentinel_kwargs={"retry": Retry(NoBackoff(), 0)}
    ).discover_master("primary")


def _killed(connection: redis.Redis) -> object:
    return (
        connection.execute_command("CLIENT", "KILL", "ID", connection.client_id(), "SKIPME", "no") and connection.ping()
    )


def _connections() -> Iterator[Case]:
    closed: Any = {"port": lambda lab: lab.closed_port}
    silent: Any = {"port": lambda lab: lab.silent_port, "socket_timeout": 0.05}
    for name, run in (("redis", using), ("redis awaited", awaiting)):
        yield retry("redis", f"{name} refused", run(lambda r: r.ping(), **closed), NETWORK, "CRIT-1.1")
        yield retry(
            "redis",
            f"{name} timeout",
            run(lambda r: r.ping(), **silent),
            NETWORK,
            "ORC-1.1",
            error_class="NETWORK_TIMEOUT",
        )
        yield stop(
            "redis",
            f"{name} untrusted certificate",
            run(lambda r: r.ping(), host="localhost", port=lambda lab: lab.untrusted_port, ssl=True),
            CONFIGURATION,
            "notes: surfaces as redis.ConnectionError",
        )
    yield retry(
        "redis", "redis killed", using(_killed, single_connection_client=True), NETWORK, "a lost connection: CRIT-1.1"
    )
    yield retry(
        "redis", "redis pool is empty", _pool, SICK | RATE_LIMIT, "notes: MaxConnectionsError is a ConnectionError"
    )
    yield retry("redis", "redis blocking pool is empty", _blocking_pool, SICK | RATE_LIMIT, "a resource ran out")
    yield retry("redis", "redis sentinel without a master", _sentinel, SICK | NOT_FOUND, "a failover", arguable=True)
    yield stop("redis", "redis wrong URL", lambda _: redis.Redis.from_url("http://h/0"), CODE, "a ValueError: CRIT-1.9")
