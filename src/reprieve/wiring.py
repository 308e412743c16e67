"""The only place that picks adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprieve.adapters.sql.address import PostgresAddress, parse
from reprieve.app.application import App

if TYPE_CHECKING:
    from reprieve.ports.clock import Clock
    from reprieve.ports.isolation import Isolator
    from reprieve.ports.reader import Keeper, Reader
    from reprieve.ports.store import Store


def connect(url: str, *, clock: Clock | None = None) -> App:
    """An application on a database: `sqlite:///file.db`, or `postgresql://user@host/name`; opened by `async with`."""

    def reader() -> Reader:
        from reprieve.adapters.sql.reader import SqlReader  # noqa: PLC0415 - SQLAlchemy, only for those who look

        return SqlReader(url)

    def keeper() -> Keeper:
        from reprieve.adapters.sql.keeper import SqlKeeper  # noqa: PLC0415 - the same

        return SqlKeeper(url)

    return App(_store(url, clock), reader=reader, keeper=keeper, isolator=_isolator, clock=clock)


def _store(url: str, clock: Clock | None) -> Store:
    if isinstance(parse(url), PostgresAddress):
        from reprieve.adapters.sql.postgres import PostgresStore  # noqa: PLC0415 - an extra: psycopg may not be there

        return PostgresStore(url, clock=clock)
    from reprieve.adapters.sql.sqlite import SqliteStore  # noqa: PLC0415 - only what is used

    return SqliteStore(url, clock=clock)


def _isolator() -> Isolator:
    from reprieve.adapters.process.isolator import ProcessIsolator  # noqa: PLC0415 - only for stages that ask for it

    return ProcessIsolator()
