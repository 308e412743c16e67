"""Who drives a talk: asks the database what it yields, and sends it the rows, until it comes to its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from reprieve.adapters.sql.words import Put, rows_as_json

if TYPE_CHECKING:
    import sqlite3

    from reprieve.adapters.sql.postgres.link import Cursor
    from reprieve.adapters.sql.words import Rows, Talk

T = TypeVar("T")


def on_sqlite(connection: sqlite3.Connection, talk: Talk[T]) -> T:
    """Drive it on SQLite, in words of `SQLITE`."""
    rows: Rows = []
    try:
        asked = next(talk)
        while True:
            if isinstance(asked, Put):
                connection.executemany(asked.statement, asked.rows)
            else:
                rows = connection.execute(asked.statement, asked.values).fetchall()
            asked = talk.send(rows)
    except StopIteration as end:
        answer: T = end.value
        return answer


async def on_postgres(cursor: Cursor, talk: Talk[T]) -> T:
    """Drive it on PostgreSQL, in words of `POSTGRES`."""
    rows: Rows = []
    try:
        asked = next(talk)
        while True:
            values = {"rows": rows_as_json(asked.rows)} if isinstance(asked, Put) else asked.values
            await cursor.execute(asked.statement, values)
            rows = await cursor.fetchall() if cursor.description else []
            asked = talk.send(rows)
    except StopIteration as end:
        answer: T = end.value
        return answer
