"""One connection to PostgreSQL: opened when needed, dropped when broken, its errors told in our words."""

from __future__ import annotations

import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from reprieve.adapters.sql.postgres.arrays import register
from reprieve.adapters.sql.postgres.statements import SESSION
from reprieve.errors import StoreError, StoreRefusedError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reprieve.adapters.sql.address import PostgresAddress

Cursor = psycopg.AsyncCursor[tuple[Any, ...]]


class Asking(Protocol):
    """What submissions need of a cursor; a connection of another driver can have it too."""

    async def execute(self, query: str, params: Any = None, /) -> Any:  # noqa: ANN401 - as drivers have it
        """Run a statement."""
        ...

    async def fetchone(self) -> tuple[Any, ...] | None:
        """The next row."""
        ...

    async def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows that are left."""
        ...


_CONNECT_SECONDS: Final = 10
_LOCKED: Final = "55P03"
_PASSING: Final = ("08", "53", "57", "40", "55", "25006", "58")
"""SQLSTATEs after which the same batch may go through: nothing of it was written."""


class Link:
    """A connection and its one cursor; used by one caller at a time."""

    def __init__(self, address: PostgresAddress, *, session: str = SESSION) -> None:
        self._address = address
        self._session = session
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None
        self._cursor: Cursor | None = None
        self._may_have_sent = False

    async def cursor(self) -> Cursor:
        """The cursor of a living connection."""
        if self._cursor is None or self._connection is None or self._connection.closed:
            await self.drop()
            timeout: dict[str, Any] = (
                {} if "connect_timeout" in self._address.url else {"connect_timeout": _CONNECT_SECONDS}
            )
            self._connection = await psycopg.AsyncConnection.connect(
                self._address.url, autocommit=True, prepare_threshold=0, row_factory=tuple_row,
                application_name="reprieve", keepalives_idle=10, keepalives_interval=5, keepalives_count=3, tcp_user_timeout=20_000, **timeout,
            )  # fmt: skip
            register(self._connection)
            if self._session:
                await self._connection.execute(self._session, prepare=False)
            self._cursor = self._connection.cursor(binary=True)
        self._may_have_sent = True
        return self._cursor

    async def drop(self) -> None:
        """Close the connection; the next use opens another."""
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            await connection.close()

    @asynccontextmanager
    async def told(self) -> AsyncIterator[None]:
        """Say in our words what goes wrong inside; after any of it, start with a new connection where this one broke."""
        self._may_have_sent = False
        try:
            yield
        except (UnicodeEncodeError, struct.error) as error:
            raise StoreRefusedError(f"PostgreSQL cannot take it: {type(error).__name__}") from None
        except psycopg.Error as error:
            broken = self._connection is None or self._connection.closed or self._connection.broken
            if broken:
                await self.drop()
            unknown = self._may_have_sent and (broken or error.sqlstate is None)
            raise in_our_words(error, self._address, outcome_unknown=unknown) from None
        except BaseException:
            # A caller that was cancelled may have left the connection in the middle of an answer: nobody could use it again.
            if self._connection is not None and self._connection.info.transaction_status is not TransactionStatus.IDLE:
                await self.drop()
            raise


def in_our_words(error: psycopg.Error, address: PostgresAddress, *, outcome_unknown: bool = False) -> StoreError:
    """What the server or the driver said, without anything that was sent to it."""
    state = error.sqlstate
    said = error.diag.message_primary or type(error).__name__
    if state is None and not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        # The driver would not send it: a NUL in a text, a number that is too large.
        return StoreRefusedError(f"PostgreSQL cannot take it: {type(error).__name__}")
    if state is None:
        said = address.clean(str(error)) or type(error).__name__
        return StoreUnavailableError(f"{address.shown} cannot be reached: {said}", outcome_unknown=outcome_unknown)
    if state == _LOCKED:
        problem = f"somebody's open transaction holds what is needed ({said})"
        return StoreUnavailableError(problem, outcome_unknown=outcome_unknown, held_up=True)
    if state.startswith(_PASSING):
        return StoreUnavailableError(f"PostgreSQL said {state}: {said}", outcome_unknown=outcome_unknown)
    return StoreRefusedError(f"PostgreSQL refused it ({state}): {said}")
