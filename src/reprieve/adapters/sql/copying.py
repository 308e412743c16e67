"""Everything of one database into another, empty one: how a file that was outgrown becomes a server's."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, insert, select, text

from reprieve.adapters.sql import schema
from reprieve.adapters.sql.address import PostgresAddress, SqliteAddress, parse
from reprieve.adapters.sql.engine import Database
from reprieve.adapters.sql.sqlite.lock import let_go, take
from reprieve.adapters.sql.tables import meta, metadata, workers
from reprieve.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sqlalchemy import Connection, Table

    from reprieve.adapters.sql.address import Address

_AT_ONCE: Final = 1000
"""Rows in one statement."""
_MADE_WITH_THE_TABLES: Final = frozenset({meta.name})


def copy(source: str, target: str, told: Callable[[str, int], None]) -> Mapping[str, int]:
    """Copy all rows in one transaction, so that the target has all or nothing; how many, by table.

    `told` hears of a table's rows as they come. Nobody may work on the source meanwhile, and the target has to be empty.
    """
    here, there = parse(source), parse(target)
    if here == there:
        raise UsageError("a database cannot be copied onto itself: name another one")
    schema.require(source)
    schema.upgrade(target)
    with ExitStack() as stack:
        stack.enter_context(_nobody_works(here))
        read, write = Database.at(source, writes=False), Database.at(target, writes=True)
        stack.callback(read.close)
        stack.callback(write.close)
        out, into = stack.enter_context(read.transaction()), stack.enter_context(write.transaction())
        if isinstance(here, PostgresAddress):
            out.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            _refuse_workers(out, here)
        _refuse_rows(into, there)
        counts = {table.name: _copy(table, out, into, told) for table in metadata.sorted_tables}
        if isinstance(there, PostgresAddress):
            _count_on(into)
        return counts


def _copy(table: Table, out: Connection, into: Connection, told: Callable[[str, int], None]) -> int:
    if table.name in _MADE_WITH_THE_TABLES:
        into.execute(delete(table))
    done = 0
    rows = out.execution_options(stream_results=True, yield_per=_AT_ONCE).execute(select(table)).mappings()
    for some in rows.partitions(_AT_ONCE):
        into.execute(insert(table), [dict(row) for row in some])
        done += len(some)
        told(table.name, done)
    return done


def _refuse_rows(into: Connection, there: Address) -> None:
    for table in metadata.sorted_tables:
        if (
            table.name not in _MADE_WITH_THE_TABLES
            and into.execute(select(*table.primary_key).limit(1)).first() is not None
        ):
            raise RefusedError(f"{there.shown} is not empty: {table.name} has rows. Copy into a database of its own")


def _refuse_workers(out: Connection, here: Address) -> None:
    working = out.scalar(select(func.count()).select_from(workers).where(text("expires_at > now()")))
    if working:
        raise RefusedError(f"{working} workers work on {here.shown}: stop them first, so that nothing is done twice")


@contextmanager
def _nobody_works(here: Address) -> Iterator[None]:
    """Keep workers off a file while it is copied."""
    if not isinstance(here, SqliteAddress):
        yield
        return
    lock = take(here)
    if lock is None:
        raise RefusedError(f"a worker works on {here.shown}: stop it first, so that nothing is done twice")
    try:
        yield
    finally:
        let_go(lock)


def _count_on(into: Connection) -> None:
    """Have PostgreSQL give out ids above those that were brought along."""
    for table in metadata.sorted_tables:
        column = table.autoincrement_column
        if column is not None:
            into.execute(
                text(
                    f"SELECT setval(pg_get_serial_sequence('{table.name}', '{column.name}'), max({column.name})) "  # noqa: S608 - names of ours
                    f"FROM {table.name} HAVING max({column.name}) IS NOT NULL"
                )
            )
