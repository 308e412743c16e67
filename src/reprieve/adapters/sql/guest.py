"""Submitting through a connection that is the caller's own, as part of the transaction that is open there.

Connections are told by the names of their library and class, so that none is loaded for this. They are neither committed
nor rolled back, and their settings stay; only where one commits each statement by itself does a submission get a
transaction of its own. What a driver raises is raised as it is: it is the caller's transaction that failed.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import asynccontextmanager, contextmanager, suppress
from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableSet, Sequence

    import psycopg

    Values = Sequence[Any] | Mapping[str, Any] | None
    Rows = list[tuple[Any, ...]]

T = TypeVar("T")


class Kind(Enum):
    """What was handed over."""

    SQLITE = auto()
    PSYCOPG = auto()
    PSYCOPG_ASYNC = auto()
    ASYNCPG = auto()
    SQLALCHEMY = auto()
    SQLALCHEMY_ASYNC = auto()
    SESSION = auto()
    SESSION_ASYNC = auto()


_KINDS: Final = {
    ("sqlite3", "Connection"): Kind.SQLITE,
    ("psycopg", "Connection"): Kind.PSYCOPG,
    ("psycopg", "AsyncConnection"): Kind.PSYCOPG_ASYNC,
    ("asyncpg", "Connection"): Kind.ASYNCPG,
    ("asyncpg", "PoolConnectionProxy"): Kind.ASYNCPG,
    ("sqlalchemy", "Connection"): Kind.SQLALCHEMY,
    ("sqlalchemy", "AsyncConnection"): Kind.SQLALCHEMY_ASYNC,
    ("sqlalchemy", "Session"): Kind.SESSION,
    ("sqlalchemy", "scoped_session"): Kind.SESSION,
    ("sqlalchemy", "AsyncSession"): Kind.SESSION_ASYNC,
    ("sqlalchemy", "async_scoped_session"): Kind.SESSION_ASYNC,
}
_ASYNCHRONOUS: Final = frozenset({Kind.PSYCOPG_ASYNC, Kind.ASYNCPG, Kind.SQLALCHEMY_ASYNC, Kind.SESSION_ASYNC})
_ELSEWHERE: Final = (
    "the connection is to another database than the application's, where nobody would find the job; nothing was written"
)


# --- whose connection it is -------------------------------------------------------------------------------------------


async def driver_of(connection: Any) -> tuple[Any, Kind]:  # noqa: ANN401 - any library's
    """The driver's own connection, with a transaction begun wherever its owner would have to end it."""
    kind = _kind(connection)
    match kind:
        case Kind.SESSION:
            return await driver_of(connection.connection())
        case Kind.SESSION_ASYNC:
            return await driver_of(await connection.connection())
        case Kind.SQLALCHEMY:
            # It commits only a transaction that it knows of.
            if not connection.in_transaction():
                connection.begin()
            return await driver_of(connection.connection.driver_connection)
        case Kind.SQLALCHEMY_ASYNC:
            found, driver = await driver_of((await connection.get_raw_connection()).driver_connection)
            # The same; and over asyncpg the transaction begins with the first statement that SQLAlchemy itself runs.
            if not connection.in_transaction() or (driver is Kind.ASYNCPG and not found.is_in_transaction()):
                await connection.exec_driver_sql("SELECT 1")
            return found, driver
        case _:
            return connection, kind


def _kind(connection: object) -> Kind:
    for each in type(connection).__mro__:
        kind = _KINDS.get((each.__module__.partition(".")[0], each.__name__))
        if kind is None:
            continue
        if kind in _ASYNCHRONOUS and not _in_event_loop():
            raise UsageError("an asynchronous connection needs the asynchronous application: `async with ... as app`")
        return kind
    name = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise UsageError(
        "connection= takes a connection of sqlite3, psycopg, asyncpg or SQLAlchemy over one of them, or a Session, "
        f"not {name}"
    )


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


class Executor(Protocol):
    """Runs statements, written as psycopg takes them, on somebody's connection to PostgreSQL."""

    async def run(self, statement: str, values: Values = None) -> Rows:
        """What it returns, as plain tuples; nothing where it returns nothing."""
        ...

    def commits_by_itself(self) -> bool:
        """Whether no transaction is open, nor begins with a statement."""
        ...


class _Psycopg:
    """Its own cursors, whatever cursors and rows the connection is set to make; in a thread, which its lock allows."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    async def run(self, statement: str, values: Values = None) -> Rows:
        # Without an event loop the caller's thread is the one to block.
        if _in_event_loop():
            return await asyncio.to_thread(self._run, statement, values)
        return self._run(statement, values)

    def _run(self, statement: str, values: Values) -> Rows:
        from psycopg import Cursor  # noqa: PLC0415 - loaded by who made the connection
        from psycopg.rows import tuple_row  # noqa: PLC0415 - the same

        with Cursor(self._connection, row_factory=tuple_row) as cursor:
            cursor.execute(statement, values, binary=True)
            return cursor.fetchall() if cursor.description else []

    def commits_by_itself(self) -> bool:
        return self._connection.autocommit and self._connection.info.transaction_status.name == "IDLE"


class _AsyncPsycopg:
    """The same without a thread."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def run(self, statement: str, values: Values = None) -> Rows:
        from psycopg import AsyncCursor  # noqa: PLC0415 - loaded by who made the connection
        from psycopg.rows import tuple_row  # noqa: PLC0415 - the same

        async with AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(statement, values, binary=True)
            return await cursor.fetchall() if cursor.description else []

    def commits_by_itself(self) -> bool:
        return self._connection.autocommit and self._connection.info.transaction_status.name == "IDLE"


class _Asyncpg:
    """Numbered placeholders, and values in their order."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - asyncpg tells no types
        self._connection = connection

    async def run(self, statement: str, values: Values = None) -> Rows:
        text, names = numbered(statement)
        given: Sequence[Any] = () if values is None else [values[name] for name in names]  # type: ignore[index]  # numbers for a sequence, names for a mapping
        return [tuple(row) for row in await self._connection.fetch(text, *given)]

    def commits_by_itself(self) -> bool:
        return not self._connection.is_in_transaction()


_EXECUTORS: Final[Mapping[Kind, Callable[[Any], Executor]]] = {
    Kind.PSYCOPG: _Psycopg,
    Kind.PSYCOPG_ASYNC: _AsyncPsycopg,
    Kind.ASYNCPG: _Asyncpg,
}
_PLACEHOLDER: Final = re.compile(r"%(?:%|(?:\((\w+)\))?[sb])")


@lru_cache(maxsize=64)
def numbered(statement: str) -> tuple[str, tuple[int | str, ...]]:
    """A statement with $1, $2, ... in place of psycopg's placeholders, and which value goes where."""
    order: list[int | str] = []

    def number(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        name = len(order) if found[1] is None else found[1]
        if name not in order:
            order.append(name)
        return f"${order.index(name) + 1}"

    return _PLACEHOLDER.sub(number, statement), tuple(order)


class GuestCursor:
    """What submissions need of a cursor, over an executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._rows: Iterator[tuple[Any, ...]] = iter(())

    async def execute(self, query: str, params: Any = None, /) -> None:  # noqa: ANN401 - as drivers take them
        """Run it, and keep what it returns."""
        self._rows = iter(await self._executor.run(query, params))

    async def fetchone(self) -> tuple[Any, ...] | None:
        """The next row."""
        return next(self._rows, None)

    async def fetchall(self) -> Rows:
        """The rows that are left."""
        return list(self._rows)


@asynccontextmanager
async def on_postgres(connection: object, *, key: bytes, known: MutableSet[object]) -> AsyncIterator[GuestCursor]:
    """A cursor inside the caller's transaction; `key` tells the database, `known` keeps the connections that were looked at."""
    driver, kind = await driver_of(connection)
    if kind not in _EXECUTORS:
        raise UsageError("the application is on PostgreSQL, and the connection is to SQLite")
    executor = _EXECUTORS[kind](driver)
    async with _own_transaction(executor) if executor.commits_by_itself() else _nothing():
        driver = getattr(driver, "_con", driver)  # what a pool of asyncpg hands out is gone with the transaction
        if driver not in known:
            await _require_ours(executor, key)
            with suppress(TypeError):  # a connection of a class that cannot be remembered
                known.add(driver)
        yield GuestCursor(executor)


async def _require_ours(executor: Executor, key: bytes) -> None:
    # Asked first, since a table that is missing would abort the caller's transaction.
    there = await executor.run(
        "SELECT to_regclass('reprieve_revision') IS NOT NULL AND to_regclass('meta') IS NOT NULL"
    )
    found = await executor.run("SELECT value FROM meta WHERE key = 'digest_key'") if there[0][0] else []
    if found != [(key.hex(),)]:
        raise UsageError(_ELSEWHERE)


@asynccontextmanager
async def _own_transaction(executor: Executor) -> AsyncIterator[None]:
    await executor.run("BEGIN")
    try:
        yield
    except BaseException:
        await executor.run("ROLLBACK")
        raise
    await executor.run("COMMIT")


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


# --- SQLite -----------------------------------------------------------------------------------------------------------


async def on_sqlite(connection: object, work: Callable[[sqlite3.Connection], T], *, key: bytes) -> T:
    """Do this inside the caller's transaction, all or nothing; in this thread, as the connection may not leave it."""
    driver, kind = await driver_of(connection)
    if kind is not Kind.SQLITE:
        raise UsageError("the application is on SQLite, and the connection is to PostgreSQL")
    with _part_of(driver) as plain:
        _require_this_file(plain, key)
        return work(plain)


class _Plainly:
    """A connection whose rows are tuples, whatever its owner has set."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:  # noqa: ANN401 - as sqlite3 takes them
        return sqlite3.Cursor(self._connection).execute(statement, values)

    def executemany(self, statement: str, values: Any) -> sqlite3.Cursor:  # noqa: ANN401 - as sqlite3 takes them
        return sqlite3.Cursor(self._connection).executemany(statement, values)


@contextmanager
def _part_of(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """The connection, holding the right to write: a part of its transaction, or of one that begins here as it would have."""
    factory = connection.text_factory
    if factory is not str and factory(b"a") != "a":
        raise UsageError(
            "the connection's text_factory makes something else than str of texts: use a connection without"
        )
    plain = cast("sqlite3.Connection", _Plainly(connection))  # all that submissions call
    begins = not connection.in_transaction
    ends = begins and _commits_by_itself(connection)
    plain.execute("BEGIN IMMEDIATE" if begins else "SAVEPOINT reprieve")
    try:
        yield plain
        if ends or not begins:
            plain.execute("COMMIT" if ends else "RELEASE reprieve")
    except BaseException:
        if connection.in_transaction:  # some errors have ended it already
            if begins:
                plain.execute("ROLLBACK")
            else:
                plain.execute("ROLLBACK TO reprieve")
                plain.execute("RELEASE reprieve")
        raise


def _commits_by_itself(connection: sqlite3.Connection) -> bool:
    """Whether a statement begins no transaction that stays open; `autocommit` is there since Python 3.12."""
    autocommit = getattr(connection, "autocommit", -1)
    return autocommit is True or (autocommit == -1 and connection.isolation_level is None)


def _require_this_file(connection: sqlite3.Connection, key: bytes) -> None:
    try:
        # Changes nothing, and takes the right to write before anything is read: nobody can write in between.
        connection.execute("UPDATE meta SET value = value WHERE key = ''")
        found = connection.execute("SELECT value FROM meta WHERE key = 'digest_key'").fetchone()
    except sqlite3.OperationalError as error:
        if "no such" not in str(error):
            raise
        found = None
    if found != (key.hex(),):
        raise UsageError(_ELSEWHERE) from None
