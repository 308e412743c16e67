"""Databases: SQLSTATE for all who have one, SQLite's own codes, SQLAlchemy's wrapping, Redis."""

from __future__ import annotations

from typing import Final

from reprieve.core.facts import attribute, text_of, words_of
from reprieve.core.failure import ErrorClass, Scope, Severity
from reprieve.core.finding import Finding, Reader, Rules, Weight

_of = ErrorClass
_BUG = Finding(_of.BUG)
_CONFIG = Finding(_of.CONFIG_INVALID, severity=Severity.PERMANENT)
_GONE = Finding(_of.DATABASE_UNAVAILABLE)
_LOST = Finding(_of.DATABASE_UNAVAILABLE, outcome_unknown=True)
_CONFLICT = Finding(_of.WRITE_CONFLICT)
_LOCKED = Finding(_of.LOCK_TIMEOUT)
_CONSTRAINT = Finding(_of.CONSTRAINT_VIOLATED)
_RESOURCE = Finding(_of.RESOURCE_EXHAUSTED)
_DENIED = Finding(_of.PERMISSION_DENIED)

SQLSTATES: Final[dict[str, Finding]] = {
    "08001": _GONE,
    "08004": _GONE,
    "0A000": _BUG,
    "21000": _BUG,
    "23505": _CONFLICT,
    "25006": Finding(_of.DATABASE_UNAVAILABLE, scope=Scope.NEW_CONNECTION),
    "25P02": Finding(_of.BUG),
    "25P03": _LOST,
    "25P04": _LOST,
    "3D000": _CONFIG,
    "3F000": _CONFIG,
    "40000": _CONFLICT,
    "40001": _CONFLICT,
    "40002": _CONSTRAINT,
    "40003": _LOST,
    "40P01": _CONFLICT,
    "42501": _DENIED,
    "53100": _RESOURCE,
    "53200": _RESOURCE,
    "53300": _RESOURCE,
    "53400": _RESOURCE,
    "55006": _LOCKED,
    "55P03": _LOCKED,
    "57014": Finding(_of.NETWORK_TIMEOUT),
    "57P01": _LOST,
    "57P02": _LOST,
    "57P03": _GONE,
    "57P04": _CONFIG,
    "57P05": _LOST,
    "58030": Finding(_of.UPSTREAM_ERROR),
    "P0002": Finding(_of.NOT_FOUND),
    "P0004": _BUG,
    "XX001": Finding(_of.STORAGE_CORRUPT),
    "XX002": Finding(_of.STORAGE_CORRUPT),
}
_SQLSTATE_CLASSES: Final[dict[str, Finding]] = {
    "02": Finding(_of.NOT_FOUND),
    **dict.fromkeys(
        ["03", "09", "0B", "0F", "0L", "0P", "0Z", "20", "21", "24", "26", "27", "2D", "2F", "34", "38", "39", "3B"],
        _BUG,
    ),
    "08": _LOST,
    "10": _CONSTRAINT,
    "72": _LOCKED,
    "0A": _BUG,
    "22": _CONSTRAINT,
    "23": _CONSTRAINT,
    "25": _BUG,
    "28": Finding(_of.AUTH_DENIED),
    "2B": _CONSTRAINT,
    "40": _CONFLICT,
    "42": _BUG,
    "44": _CONSTRAINT,
    "53": _RESOURCE,
    "54": Finding(_of.PAYLOAD_TOO_LARGE),
    "55": _BUG,
    "57": _LOST,
    "58": Finding(_of.UPSTREAM_ERROR),
    "F0": _CONFIG,
    "HV": Finding(_of.UPSTREAM_ERROR),
    "P0": Finding(_of.CONSTRAINT_VIOLATED),
    "XX": Finding(_of.UPSTREAM_ERROR),
}
_CONNECT_WORDS: Final = (
    ("password authentication failed", _of.AUTH_DENIED),
    ("no password supplied", _of.AUTH_DENIED),
    ("authentication failed", _of.AUTH_DENIED),
    ("pg_hba.conf", _of.AUTH_DENIED),
    ('role "', _of.AUTH_DENIED),
    ("certificate verify failed", _of.TLS_INVALID),
    ("does not support ssl", _of.CONFIG_INVALID),
    ("invalid connection option", _of.CONFIG_INVALID),
    ("invalid dsn", _of.CONFIG_INVALID),
    ('missing "="', _of.CONFIG_INVALID),
    ("for connection option", _of.CONFIG_INVALID),
    ("invalid port number", _of.CONFIG_INVALID),
    ("invalid sslmode", _of.CONFIG_INVALID),
    ("too many clients", _of.RESOURCE_EXHAUSTED),
    ("too many connections", _of.RESOURCE_EXHAUSTED),
    ("remaining connection slots", _of.RESOURCE_EXHAUSTED),
    ("translate host name", _of.DNS_FAILURE),
    ("name or service not known", _of.DNS_FAILURE),
    ("failed to resolve host", _of.DNS_FAILURE),
    ("timeout expired", _of.NETWORK_TIMEOUT),
    ("connection timeout", _of.NETWORK_TIMEOUT),
)  # fmt: skip


def of_sqlstate(exc: BaseException, _now: float) -> Finding | None:
    """By the five characters that the standard and PostgreSQL give each condition."""
    for name in ("sqlstate", "pgcode"):
        state = text_of(attribute(exc, name))
        if state is not None and len(state) == 5:  # noqa: PLR2004 - the length of a SQLSTATE
            row = SQLSTATES.get(state) or _SQLSTATE_CLASSES.get(state[:2])
            if row is not None:
                return row.but(rule=f"sqlstate.{state}", field=name, value=state, code=state)
    return None


def of_connect_words(exc: BaseException) -> Finding | None:
    """A connection that failed before any SQLSTATE: libpq tells the cause in words only."""
    words = words_of(exc)[:4000].lower()
    if 'database "' in words and "does not exist" in words:
        return _CONFIG.but(rule="libpq.database", field="args", value="does not exist")
    for phrase, error_class in _CONNECT_WORDS:
        if phrase in words:
            severity = Severity.PERMANENT if error_class is _of.CONFIG_INVALID else None
            return Finding(error_class, rule="libpq.words", field="args", value=phrase, severity=severity)
    return None


def of_operational(exc: BaseException, now: float) -> Finding:
    """The server, not the statement: by SQLSTATE, else by the words of a failed connection, else gone."""
    found = of_sqlstate(exc, now) or of_connect_words(exc)
    if found is not None:
        return found
    connecting = words_of(exc).startswith(("connection failed", "connection to server", "could not connect"))
    return (_GONE if connecting else _LOST).but(weight=Weight.TRANSPORT)


def of_interface(exc: BaseException, now: float) -> Finding:
    """A driver that was misused; or one whose connection went away while nobody looked."""
    gone = "closed" in words_of(exc).lower() and "pool" not in words_of(exc).lower()
    return of_sqlstate(exc, now) or (_LOST if gone else _BUG)


def of_sqlalchemy_operational(exc: BaseException, now: float) -> Finding:
    """The same, for the class that means the server."""
    found = of_sqlalchemy(exc, now)
    return _LOST.but(weight=Weight.WRAPPER) if found.weight is Weight.WRAPPER else found


def of_sqlalchemy(exc: BaseException, _now: float) -> Finding:
    """The driver's error decides, unless SQLAlchemy saw that the connection itself is gone."""
    if attribute(exc, "connection_invalidated") is True:
        return _LOST.but(
            rule="sqlalchemy.invalidated", field="connection_invalidated", value="True", weight=Weight.TRANSPORT
        )
    return Finding(_of.BUG, weight=Weight.WRAPPER)


def _or(fallback: Finding) -> Reader:
    def read(exc: BaseException, now: float) -> Finding:
        return of_sqlstate(exc, now) or fallback

    return read


_SQLITE: Final[dict[str, Finding]] = {
    "SQLITE_BUSY": _LOCKED, "SQLITE_LOCKED": _LOCKED, "SQLITE_PROTOCOL": _LOCKED,
    "SQLITE_CONSTRAINT_UNIQUE": _CONFLICT, "SQLITE_CONSTRAINT_PRIMARYKEY": _CONFLICT, "SQLITE_CONSTRAINT_ROWID": _CONFLICT,
    "SQLITE_CONSTRAINT": _CONSTRAINT, "SQLITE_MISMATCH": _CONSTRAINT, "SQLITE_RANGE": _BUG, "SQLITE_TOOBIG": _CONSTRAINT,
    "SQLITE_READONLY": _CONFIG, "SQLITE_CANTOPEN": _CONFIG, "SQLITE_AUTH": _DENIED, "SQLITE_PERM": _DENIED,
    "SQLITE_CORRUPT": Finding(_of.STORAGE_CORRUPT), "SQLITE_NOTADB": Finding(_of.STORAGE_CORRUPT),
    "SQLITE_FULL": _RESOURCE, "SQLITE_NOMEM": _RESOURCE, "SQLITE_IOERR": Finding(_of.UPSTREAM_ERROR),
    "SQLITE_INTERRUPT": Finding(_of.NETWORK_TIMEOUT), "SQLITE_ABORT": _CONFLICT, "SQLITE_SCHEMA": _LOCKED,
    "SQLITE_ERROR": _BUG, "SQLITE_MISUSE": _BUG, "SQLITE_NOLFS": _CONFIG, "SQLITE_EMPTY": _BUG,
}  # fmt: skip
_SQLITE_NUMBERS: Final = {
    1: "ERROR", 3: "PERM", 4: "ABORT", 5: "BUSY", 6: "LOCKED", 7: "NOMEM", 8: "READONLY", 9: "INTERRUPT", 10: "IOERR",
    11: "CORRUPT", 13: "FULL", 14: "CANTOPEN", 15: "PROTOCOL", 17: "SCHEMA", 18: "TOOBIG", 19: "CONSTRAINT",
    20: "MISMATCH", 21: "MISUSE", 22: "NOLFS", 23: "AUTH", 25: "RANGE", 26: "NOTADB",
}  # fmt: skip


def of_sqlite(exc: BaseException, _now: float) -> Finding | None:
    """By SQLite's extended code, else its primary one."""
    name = text_of(attribute(exc, "sqlite_errorname"))
    number = attribute(exc, "sqlite_errorcode")
    if name is None and isinstance(number, int):
        name = f"SQLITE_{_SQLITE_NUMBERS.get(number & 0xFF, 'ERROR')}"
    if name is None:
        return None
    row = _SQLITE.get(name)
    while row is None and "_" in name[7:]:
        name = name.rpartition("_")[0]
        row = _SQLITE.get(name)
    return (
        None
        if row is None
        else row.but(rule=name.lower().replace("_", ".", 1), field="sqlite_errorname", value=name, code=name)
    )


def of_sqlite_words(exc: BaseException, now: float) -> Finding:
    """sqlite3.OperationalError without a code: made by hand or by an older driver."""
    words = words_of(exc).lower()
    if "locked" in words or "busy" in words:
        return of_sqlite(exc, now) or _LOCKED.but(field="args", value="locked")
    if "disk is full" in words or "disk full" in words:
        return of_sqlite(exc, now) or _RESOURCE.but(field="args", value="full")
    if "disk i/o error" in words:
        return of_sqlite(exc, now) or Finding(_of.UPSTREAM_ERROR)
    return of_sqlite(exc, now) or _BUG


def of_sqlite_integrity(exc: BaseException, now: float) -> Finding:
    """The same for constraints: a unique one is a conflict."""
    words = words_of(exc)
    unique = words.startswith("UNIQUE constraint failed") or "is not unique" in words
    return of_sqlite(exc, now) or (_CONFLICT if unique else _CONSTRAINT)


def _sqlite_or(fallback: Finding) -> Reader:
    def read(exc: BaseException, now: float) -> Finding:
        return of_sqlite(exc, now) or fallback

    return read


_REDIS_WORDS: Final[dict[str, Finding]] = {
    "LOADING": _GONE, "TRYAGAIN": _LOCKED, "CLUSTERDOWN": _GONE, "READONLY": _GONE, "MASTERDOWN": _GONE, "BUSY": _LOCKED,
    "NOREPLICAS": _GONE, "MISCONF": _RESOURCE, "OOM": _RESOURCE, "MOVED": _GONE, "ASK": _GONE, "UNBLOCKED": _GONE,
    "NOPERM": _DENIED, "NOAUTH": Finding(_of.AUTH_DENIED), "WRONGPASS": Finding(_of.AUTH_DENIED),
    "WRONGTYPE": _BUG, "NOSCRIPT": _BUG, "CROSSSLOT": _BUG, "EXECABORT": _BUG, "BUSYGROUP": _CONFLICT,
    "NOGROUP": Finding(_of.NOT_FOUND), "BUSYKEY": _CONFLICT, "NOTBUSY": _BUG, "UNKILLABLE": _LOCKED, "ERR": _BUG, "NOPROTO": _CONFIG,
}  # fmt: skip


def of_redis_reply(exc: BaseException, _now: float) -> Finding:
    """An error reply, by its first word."""
    words = words_of(exc)
    first = words.partition(" ")[0].rstrip(":")
    if (
        "invalid password" in words.lower()
        or "without any password" in words.lower()
        or "authentication required" in words.lower()
    ):
        return Finding(_of.AUTH_DENIED, rule="redis.auth", field="args", value="password")
    if "max number of clients" in words:
        return _RESOURCE.but(rule="redis.clients", field="args", value="max clients")
    row = _REDIS_WORDS.get(first)
    if row is None:
        return _BUG.but(rule="redis.reply")
    return row.but(rule=f"redis.{first}", field="args", value=first, code=first)


def of_redis_connection(exc: BaseException, _now: float) -> Finding:
    """A Redis connection that failed; a server that is full says so while connecting."""
    if "max number of clients" in words_of(exc):
        return _RESOURCE.but(rule="redis.clients", field="args", value="max clients")
    if "no connection available" in words_of(exc).lower():
        return _RESOURCE.but(rule="redis.pool", field="args", value="no connection")
    connecting = " connecting to " in words_of(exc)
    return (_GONE if connecting else _LOST).but(weight=Weight.TRANSPORT)


def of_redis_timeout(exc: BaseException, _now: float) -> Finding:
    """A Redis command or connection that took too long."""
    return Finding(_of.NETWORK_TIMEOUT, outcome_unknown="connecting" not in words_of(exc))


_MYSQL: Final[dict[int, Finding]] = {
    1040: _RESOURCE, 1044: _DENIED, 1045: Finding(_of.AUTH_DENIED), 1049: _CONFIG, 1053: _LOST, 1062: _CONFLICT,
    1142: _DENIED, 1146: _BUG, 1064: _BUG, 1205: _LOCKED, 1213: _CONFLICT, 1290: _GONE, 1792: _GONE, 1836: _GONE,
    2002: _GONE, 2003: _GONE, 2006: _LOST, 2013: _LOST, 1317: Finding(_of.NETWORK_TIMEOUT), 3024: Finding(_of.NETWORK_TIMEOUT),
    1048: _CONSTRAINT, 1406: _CONSTRAINT, 1264: _CONSTRAINT, 1451: _CONSTRAINT, 1452: _CONSTRAINT,
}  # fmt: skip


def of_mysql(exc: BaseException, _now: float) -> Finding:
    """By MySQL's own number, the first argument."""
    number = exc.args[0] if exc.args and isinstance(exc.args[0], int) else attribute(exc, "errno")
    row = _MYSQL.get(number) if isinstance(number, int) else None
    if row is None:
        return Finding(_of.UPSTREAM_ERROR, field="args", value=str(number)[:8])
    return row.but(rule=f"mysql.{number}", field="args", value=str(number), code=str(number))


def _dbapi(package: str) -> Rules:
    """A driver that follows PEP 249 and tells the SQLSTATE."""
    return {
        f"{package}.OperationalError": of_operational,
        f"{package}.InterfaceError": of_interface,
        f"{package}.IntegrityError": _or(_CONSTRAINT),
        f"{package}.DataError": _or(_CONSTRAINT),
        f"{package}.ProgrammingError": _or(_BUG),
        f"{package}.NotSupportedError": _or(_BUG),
        f"{package}.InternalError": _or(Finding(_of.UPSTREAM_ERROR)),
        f"{package}.DatabaseError": _or(Finding(_of.UPSTREAM_ERROR, weight=Weight.TRANSPORT)),
        f"{package}.Error": _or(Finding(_of.UPSTREAM_ERROR, weight=Weight.TRANSPORT)),
    }


RULES: Rules = {
    **_dbapi("psycopg"),
    **_dbapi("psycopg2"),
    "psycopg.ConnectionTimeout": Finding(_of.NETWORK_TIMEOUT),
    "psycopg.PipelineAborted": Finding(_of.BUG),
    "psycopg_pool.PoolTimeout": _RESOURCE,
    "psycopg_pool.TooManyRequests": _RESOURCE,
    "psycopg_pool.PoolClosed": _BUG,
    "asyncpg.PostgresError": of_sqlstate,
    "asyncpg.ConnectionDoesNotExistError": _LOST,
    "asyncpg.InternalClientError": _BUG,
    "asyncpg.ClientConfigurationError": _CONFIG,
    "asyncpg.TargetServerAttributeNotMatched": _GONE,
    "asyncpg.DataError": _CONSTRAINT,
    "asyncpg.UnsupportedClientFeatureError": _CONFIG,
    "asyncpg.OutdatedSchemaCacheError": _LOCKED,
    "asyncpg.ProtocolError": _LOST,
    "asyncpg.UnsupportedServerFeatureError": _CONFIG,
    "asyncpg.InterfaceError": of_interface,
    "asyncpg.PostgresConnectionError": _LOST,
    "sqlite3.OperationalError": of_sqlite_words,
    "sqlite3.IntegrityError": of_sqlite_integrity,
    "sqlite3.DataError": _sqlite_or(_CONSTRAINT),
    "sqlite3.ProgrammingError": _sqlite_or(_BUG),
    "sqlite3.InterfaceError": _sqlite_or(_BUG),
    "sqlite3.NotSupportedError": _sqlite_or(_BUG),
    "sqlite3.InternalError": _sqlite_or(Finding(_of.UPSTREAM_ERROR)),
    "sqlite3.DatabaseError": _sqlite_or(Finding(_of.STORAGE_CORRUPT)),
    "sqlite3.Error": _sqlite_or(_BUG),
    "sqlalchemy.IntegrityError": Finding(_of.CONSTRAINT_VIOLATED, weight=Weight.WRAPPER),
    "sqlalchemy.OperationalError": of_sqlalchemy_operational,
    "sqlalchemy.InternalError": Finding(_of.UPSTREAM_ERROR, weight=Weight.WRAPPER),
    "sqlalchemy.DBAPIError": of_sqlalchemy,
    "sqlalchemy.StatementError": Finding(_of.BUG, weight=Weight.WRAPPER),
    "sqlalchemy.TimeoutError": _RESOURCE,
    "sqlalchemy.DisconnectionError": _LOST,
    "sqlalchemy.PendingRollbackError": _BUG,
    "sqlalchemy.NoResultFound": Finding(_of.NOT_FOUND),
    "sqlalchemy.StaleDataError": _CONFLICT,
    "sqlalchemy.NoSuchModuleError": _CONFIG,
    "sqlalchemy.NoDBAPILoaded": _CONFIG,
    "sqlalchemy.NoSuchTableError": _CONFIG,
    "sqlalchemy.SQLAlchemyError": _BUG,
    "redis.AuthenticationError": Finding(_of.AUTH_DENIED),
    "redis.AuthorizationError": _DENIED,
    "redis.NoPermissionError": _DENIED,
    "redis.AuthenticationWrongNumberOfArgsError": Finding(_of.AUTH_DENIED),
    "redis.MaxConnectionsError": _RESOURCE,
    "redis.BusyLoadingError": _GONE,
    "redis.ReadOnlyError": _GONE,
    "redis.ClusterDownError": _GONE,
    "redis.MasterDownError": _GONE,
    "redis.MovedError": _GONE,
    "redis.AskError": _GONE,
    "redis.TryAgainError": _LOCKED,
    "redis.OutOfMemoryError": _RESOURCE,
    "redis.LockError": _LOCKED,
    "redis.LockNotOwnedError": _CONFLICT,
    "redis.WatchError": _CONFLICT,
    "redis.NoScriptError": _BUG,
    "redis.ExecAbortError": _BUG,
    "redis.ResponseError": of_redis_reply,
    "redis.InvalidResponse": Finding(_of.UPSTREAM_ERROR, outcome_unknown=True),
    "redis.TimeoutError": of_redis_timeout,
    "redis.ConnectionError": of_redis_connection,
    "redis.DataError": _BUG,
    "redis.PubSubError": _BUG,
    "redis.CrossSlotTransactionError": _BUG,
    "redis.ClusterError": _GONE,
    "redis.RedisClusterException": _GONE,
    "redis.RedisError": of_redis_reply,
    "pymongo.DuplicateKeyError": _CONFLICT,
    "pymongo.AutoReconnect": _LOST,
    "pymongo.ConnectionFailure": _LOST,
    "pymongo.ExecutionTimeout": Finding(_of.NETWORK_TIMEOUT, outcome_unknown=True),
    "pymongo.ConfigurationError": _CONFIG,
    "pymongo.InvalidOperation": _BUG,
    **{
        f"{package}.{name}": of_mysql
        for package in ("MySQLdb", "pymysql", "aiomysql", "mysql")
        for name in ("Error", "MySQLError")
    },
}
