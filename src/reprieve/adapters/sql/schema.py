"""Whether a database has the tables that this version needs, and how it gets them.

The look is one plain query. SQLite is upgraded on every open, without SQLAlchemy, which takes longer to load than a file
to open.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

from reprieve.adapters.sql.address import PostgresAddress, SqliteAddress, parse
from reprieve.adapters.sql.migrations import REVISIONS, statements_after
from reprieve.adapters.sql.sqlite.connection import connect, make_durable, told
from reprieve.errors import SchemaError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from reprieve.adapters.sql.address import Address

_LOOK: Final = "SELECT version_num FROM reprieve_revision"
_NOTE: Final = """
    CREATE TABLE reprieve_revision (
        version_num VARCHAR(32) NOT NULL,
        CONSTRAINT reprieve_revision_pkc PRIMARY KEY (version_num)
    )
"""
_LOCK: Final = 0x7265_7072
"""Which advisory lock an upgrade takes on PostgreSQL."""
_CONNECT_SECONDS: Final = 10


class Fit(StrEnum):
    """How a database's tables relate to what this version needs."""

    CURRENT = "current"
    BEHIND = "behind"
    AHEAD = "ahead"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaState:
    """What a database has, and what this version needs."""

    fit: Fit
    revision: str | None
    wanted: str

    def require(self, shown: str) -> None:
        """Raise with what to do, unless it fits."""
        match self.fit:
            case Fit.CURRENT:
                return
            case Fit.MISSING:
                raise SchemaError(f"{shown} has no tables of Reprieve yet: run `reprieve db upgrade`")
            case Fit.BEHIND:
                raise SchemaError(
                    f"{shown} is behind (revision {self.revision}, this version needs {self.wanted}): run `reprieve db upgrade`"
                )
            case Fit.AHEAD:
                raise SchemaError(
                    f"{shown} was made by a newer version of Reprieve (revision {self.revision}, this one knows "
                    f"{self.wanted}): upgrade Reprieve here"
                )
            case _:
                assert_never(self.fit)


def state_of(revision: str | None, known: tuple[str, ...] = REVISIONS) -> SchemaState:
    """Judge a revision as it stands in the database; None where there is none."""
    if revision is None:
        fit = Fit.MISSING
    elif revision not in known:
        fit = Fit.AHEAD
    else:
        fit = Fit.CURRENT if revision == known[-1] else Fit.BEHIND
    return SchemaState(fit=fit, revision=revision, wanted=known[-1])


def conninfo(url: str) -> str:
    """What libpq takes of a PostgreSQL URL."""
    match parse(url):
        case PostgresAddress() as address:
            return address.url
        case SqliteAddress():
            raise StoreError("this is the URL of a SQLite database, where one of PostgreSQL is needed")
        case never:
            assert_never(never)


def check(url: str) -> SchemaState:
    """Look, and change nothing."""
    match parse(url):
        case SqliteAddress() as address:
            return _check_sqlite(address)
        case PostgresAddress() as address:
            with _postgres(address) as connection:
                return state_of(_postgres_revision(connection))
        case never:
            assert_never(never)


def require(url: str) -> None:
    """Raise `SchemaError`, which says what to do, unless the tables are those that this version needs."""
    check(url).require(parse(url).shown)


def upgrade(url: str) -> None:
    """Bring the tables up to date; two processes may do so at once."""
    match parse(url):
        case SqliteAddress() as address:
            try:
                with closing(connect(address)) as connection:
                    make_durable(connection)
                    upgrade_sqlite(connection, address)
            except sqlite3.Error as error:
                raise told(error, address) from None
        case PostgresAddress() as address:
            _upgrade_postgres(address)
        case never:
            assert_never(never)


def upgrade_sqlite(connection: sqlite3.Connection, address: SqliteAddress) -> None:
    """Bring an open file, or one in memory, up to date; a few microseconds where nothing is to do."""
    state = state_of(_sqlite_revision(connection))
    if state.fit is Fit.CURRENT:
        return
    if state.fit is Fit.AHEAD:
        state.require(address.shown)
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in _missing(_sqlite_revision(connection), "sqlite", address):
                connection.execute(statement)
        except BaseException:
            connection.rollback()
            raise
        connection.commit()
    except sqlite3.Error as error:
        raise _told(error, address) from None


def _check_sqlite(address: SqliteAddress) -> SchemaState:
    if address.path is None or (not Path(address.path).exists() and Path(address.path).parent.is_dir()):
        return state_of(None)
    try:
        with closing(connect(address, create=False)) as connection:
            return state_of(_sqlite_revision(connection))
    except sqlite3.Error as error:
        raise told(error, address) from None


def _sqlite_revision(connection: sqlite3.Connection) -> str | None:
    try:
        row: tuple[str] | None = connection.execute(_LOOK).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise
    return None if row is None else row[0]


def _postgres(address: PostgresAddress) -> psycopg.Connection[Any]:
    import psycopg  # noqa: PLC0415 - an extra; SQLite does without

    timeout: dict[str, Any] = {} if "connect_timeout" in address.url else {"connect_timeout": _CONNECT_SECONDS}
    try:
        return psycopg.connect(address.url, **timeout)
    except psycopg.OperationalError as error:
        raise address.unreachable(str(error)) from None
    except psycopg.Error as error:
        raise StoreError(f"cannot use {address.shown}: {address.clean(str(error))}") from None


def _postgres_revision(connection: psycopg.Connection[Any]) -> str | None:
    import psycopg  # noqa: PLC0415 - an extra; SQLite does without

    try:
        with connection.transaction():  # inside of another one it is a savepoint
            row: tuple[str] | None = connection.execute(_LOOK).fetchone()
    except psycopg.errors.UndefinedTable:
        return None
    return None if row is None else row[0]


def _upgrade_postgres(address: PostgresAddress) -> None:
    import psycopg  # noqa: PLC0415 - an extra; SQLite does without

    with _postgres(address) as connection:
        state = state_of(_postgres_revision(connection))
        if state.fit is Fit.CURRENT:
            return
        try:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
                for statement in _missing(_postgres_revision(connection), "postgresql", address):
                    connection.execute(statement.encode())
        except psycopg.Error as error:
            raise _told(error, address) from None


def _missing(revision: str | None, dialect: str, address: Address) -> Iterator[str]:
    """Yield the statements that bring the tables up to date. Another process may have done it before the lock was taken."""
    state = state_of(revision)
    if state.fit is Fit.AHEAD:
        state.require(address.shown)
    if state.fit is Fit.CURRENT:
        return
    yield from statements_after(revision, dialect)
    if revision is None:
        yield _NOTE
        yield f"INSERT INTO reprieve_revision (version_num) VALUES ('{state.wanted}')"  # noqa: S608 - digits of ours
    else:
        yield f"UPDATE reprieve_revision SET version_num = '{state.wanted}'"  # noqa: S608 - the same


def _told(error: Exception, address: Address) -> StoreError:
    taken = str(error).partition("\n")[0] if "already exists" in str(error) else ""
    foreign = f"{address.shown} has a table of somebody else's: {taken}; nothing was changed"
    match address:
        case SqliteAddress() if taken:
            return SchemaError(f"{foreign}. Give Reprieve another file")
        case SqliteAddress() if isinstance(error, sqlite3.Error):
            return told(error, address)
        case PostgresAddress() if taken:
            return SchemaError(
                f"{foreign}. Give Reprieve another database, or a schema of its own: CREATE SCHEMA reprieve, and "
                "?options=-csearch_path%3Dreprieve at the end of the URL"
            )
        case PostgresAddress():
            return StoreError(f"{address.shown} could not be upgraded: {address.clean(str(error))}")
        case _:
            return StoreError(f"{address.shown} could not be upgraded: {error}")
