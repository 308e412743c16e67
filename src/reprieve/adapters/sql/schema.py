"""Whether a database has the tables that this version needs, and how it gets them.

The look is one plain query without Alembic, which costs more to load than a file to open: SQLite is upgraded on every open.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, assert_never

from reprieve.adapters.sql.address import PostgresAddress, SqliteAddress, parse
from reprieve.adapters.sql.sqlite.connection import connect, make_durable, told
from reprieve.errors import SchemaError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from sqlalchemy import Engine

    from reprieve.adapters.sql.address import Address

REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006")
"""All steps there are, the oldest first; a test compares them with the migrations."""
REVISION_TABLE: Final = "reprieve_revision"
"""A name of our own: the database may be shared with an application that has Alembic too."""
_LOOK: Final = "SELECT version_num FROM reprieve_revision"
_LOCK: Final = 0x7265_7072
"""Which advisory lock an upgrade takes on PostgreSQL."""
_ALEMBIC: Final = Lock()
"""Alembic keeps what it works on in a module."""
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
    from sqlalchemy import StaticPool, create_engine  # noqa: PLC0415 - slow to load, and rarely needed

    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    # The connection is the caller's: it is neither closed nor reset here, so the engine is not disposed of.
    _migrate(engine, "BEGIN IMMEDIATE", address)


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
        row: tuple[str] | None = connection.execute(_LOOK).fetchone()
    except psycopg.errors.UndefinedTable:
        return None
    return None if row is None else row[0]


def _upgrade_postgres(address: PostgresAddress) -> None:
    from sqlalchemy import NullPool, create_engine  # noqa: PLC0415 - slow to load, and rarely needed

    with _postgres(address) as connection:
        state = state_of(_postgres_revision(connection))
    if state.fit is Fit.CURRENT:
        return
    if state.fit is Fit.AHEAD:
        state.require(address.shown)
    engine = create_engine("postgresql+psycopg://", creator=lambda: _postgres(address), poolclass=NullPool)
    _migrate(engine, f"SELECT pg_advisory_xact_lock({_LOCK})", address)


def _migrate(engine: Engine, lock: str, address: Address) -> None:
    """Run the steps that are missing in one transaction, which begins by taking the lock."""
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415 - slow to load, and rarely needed

    try:
        with _ALEMBIC, _quiet(), engine.connect() as connection, connection.begin():
            from alembic import command  # noqa: PLC0415 - the same; says what it loads, too
            from alembic.config import Config  # noqa: PLC0415 - the same

            config = Config()
            config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
            config.set_main_option("path_separator", "os")
            connection.exec_driver_sql(lock)
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except DBAPIError as error:
        raise _told(error.orig, address) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Alembic's progress out of the logs of those who only open a file."""
    loggers = [logging.getLogger(name) for name in ("alembic", "alembic.runtime.migration", "alembic.runtime.plugins")]
    before = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(max(each.getEffectiveLevel(), logging.WARNING))
    try:
        yield
    finally:
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)


def _told(error: BaseException | None, address: Address) -> StoreError:
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
