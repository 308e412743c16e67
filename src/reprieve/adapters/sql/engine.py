"""How look-ups and upkeep reach a database, and how its failures are told."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from sqlalchemy import create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import QueuePool

from reprieve.adapters.sql.address import Address, PostgresAddress, SqliteAddress, parse
from reprieve.adapters.sql.sqlite.connection import told
from reprieve.errors import SchemaError, StoreError, StoreRefusedError, StoreUnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy.engine import Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection

PATIENCE: Final = 5
"""Seconds that a look-up waits for a lock or a connection."""
_NO_TABLE: Final = frozenset({"42P01", "42703"})
_PASSING_STATES: Final = ("08", "40", "53", "55", "57", "58")
"""SQLSTATE classes that another try may overcome: connections, rollbacks, resources, locks, operators, the system."""


@dataclass(frozen=True, slots=True)
class Database:
    """An engine with a small pool; connects when it is first used, and never creates a file."""

    address: Address
    engine: Engine

    @classmethod
    def at(cls, url: str, *, writes: bool) -> Database:
        """Read the URL; whether the database is there shows when it is used."""
        address = parse(url)
        match address:
            case SqliteAddress(path=None):
                raise UsageError("a database in memory can only be seen by the store that holds it: name a file")
            case SqliteAddress(path=path):
                engine = _engine("sqlite+pysqlite://", lambda: _open_file(str(path), writes=writes))
                begin = "BEGIN IMMEDIATE" if writes else "BEGIN"
                event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
            case PostgresAddress(url=server):
                engine = _engine("postgresql+psycopg://", lambda: _connect(server, writes=writes))
        return cls(address, engine)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction whose failures are told as ours."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except PoolTimeoutError as error:
            raise StoreUnavailableError("all connections to the database are taken; try again") from error
        except SQLAlchemyError as error:
            raise _readable(error, self.address) from error
        except UnicodeEncodeError:
            raise UsageError("a text holds a character that databases do not take") from None
        except OverflowError:
            raise UsageError("a number is larger than databases take") from None

    def close(self) -> None:
        """Let go of the connections."""
        self.engine.dispose()


def _engine(dialect: str, connect: Callable[[], DBAPIConnection]) -> Engine:
    return create_engine(
        dialect,
        creator=connect,
        poolclass=QueuePool,
        pool_size=4,
        max_overflow=4,
        pool_timeout=PATIENCE,
        pool_pre_ping=True,
        hide_parameters=True,
    )


def _open_file(path: str, *, writes: bool) -> DBAPIConnection:
    if not Path(path).exists():
        raise SchemaError(f"there is no database at {path!r}: `reprieve db upgrade` makes one")
    # No isolation level: the driver would begin transactions late, and never for a read; the engine begins them itself.
    connection = sqlite3.connect(
        f"file:{quote(path)}?mode=rw", uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
    )
    if not writes:
        connection.execute("PRAGMA query_only = ON")
    return connection  # type: ignore[return-value]  # SQLAlchemy's protocol asks for attributes to be writable


def _connect(url: str, *, writes: bool) -> DBAPIConnection:
    import psycopg  # noqa: PLC0415 - an extra; `parse` has told where it is missing

    timeout: dict[str, Any] = {} if "connect_timeout" in url else {"connect_timeout": PATIENCE}
    connection = psycopg.connect(url, application_name="reprieve", **timeout)
    connection.read_only = not writes
    return connection  # type: ignore[return-value]  # the same


def _readable(error: SQLAlchemyError, address: Address) -> StoreError:
    """What a person can do about a failure of the database; no statement, no parameter, no password."""
    if not isinstance(error, DBAPIError) or not isinstance(error.orig, Exception):
        return StoreRefusedError(f"{address.shown} cannot be used: {type(error).__name__}")
    state: str | None = getattr(error.orig, "sqlstate", None)
    if state in _NO_TABLE or "no such table" in str(error.orig) or "no such column" in str(error.orig):
        return SchemaError(f"{address.shown} does not have the tables of this version: run `reprieve db upgrade`")
    match address:
        case SqliteAddress():
            return told(error.orig, address)
        case PostgresAddress():
            return _told_by_postgres(error.orig, state, address)


def _told_by_postgres(error: Exception, state: str | None, address: PostgresAddress) -> StoreError:
    import psycopg  # noqa: PLC0415 - an extra; SQLite does without

    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    said = address.clean(str(primary or error).strip().partition("\n")[0])
    if state is None and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        # The connection could not be made, or broke.
        return address.unreachable(said)
    kind = StoreUnavailableError if (state or "").startswith(_PASSING_STATES) else StoreRefusedError
    return kind(f"{address.shown} cannot be used: {said}")
