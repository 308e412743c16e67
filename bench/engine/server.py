"""A throw-away PostgreSQL from its wheel: fsync on, its own defaults otherwise; every contender has a database of its own."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from engine.postgres import Postgres
from harness import Figure

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

PACE_SECONDS = 1.0
PATIENCE = 10.0
"""Seconds for the connections of ended processes to go, and their counts to be added up."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left in a database when all jobs are done, by job."""

    rows: float
    bytes: float


class Server(AbstractContextManager["Server"]):
    """The server that all contenders share."""

    def __init__(self, folder: Path) -> None:
        # Whoever ends the bench ends the server: with an exception, not on the spot.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        self._server = Postgres(folder)
        self.pid = self._server.pid
        try:
            self._admin = psycopg.connect(self._server.url(), autocommit=True)
            self.version = str(self.value("SHOW server_version")).split()[0]
            self._require_durability()
        except BaseException:
            self._server.stop()
            raise

    def _require_durability(self) -> None:
        if self.value("SHOW fsync") != "on" or self.value("SHOW synchronous_commit") != "on":
            raise RuntimeError("this server does not wait for the disk: its figures would mean nothing")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.close()
        self._server.stop()

    def value(self, query: str, *values: object) -> Any:  # noqa: ANN401 - whatever the query selects
        """The first column of the first row."""
        row = self._admin.execute(query.encode(), values).fetchone()
        return None if row is None else row[0]

    def fresh(self, name: str) -> str:
        """The address of an empty database of this name."""
        self.drop(name)
        self._admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def url(self, name: str) -> str:
        """The address of a database."""
        return self._server.url(name)

    def exists(self, name: str) -> bool:
        """Whether there is a database of this name."""
        return bool(self.value("SELECT count(*) FROM pg_database WHERE datname = %s", name))

    def copy(self, source: str, name: str) -> str:
        """The address of a new database with all that the source has; the source must have no connection."""
        self.drop(name)
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self._admin.execute(statement.format(sql.Identifier(name), sql.Identifier(source)))
        return self.url(name)

    def rename(self, name: str, new: str) -> None:
        """Give a database its final name."""
        statement = sql.SQL("ALTER DATABASE {} RENAME TO {}")
        self._admin.execute(statement.format(sql.Identifier(name), sql.Identifier(new)))

    def drop(self, name: str) -> None:
        """Remove a database, so that nothing is left to be vacuumed while others are measured."""
        self._admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def settle(self, name: str) -> None:
        """Bring every contender's database to the same state before the clock runs: vacuumed, analyzed, checkpointed."""
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
        self._admin.execute("CHECKPOINT")

    def size(self, name: str) -> int:
        """Bytes of a database."""
        return int(self.value("SELECT pg_database_size(%s)", name))

    def written(self) -> int:
        """Bytes of WAL since the beginning."""
        return int(self.value("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"))

    def transactions(self, name: str) -> int:
        """Transactions of a database since the beginning, once everybody has left it."""
        until = time.monotonic() + PATIENCE
        # A backend adds its counts at the latest when it ends.
        while time.monotonic() < until and self.value("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", name):
            time.sleep(0.02)
        return int(self.value("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s", name))

    def pace(self) -> Figure:
        """One-row commits a second: what this server's disk allows to those who write job by job."""
        with psycopg.connect(self.fresh("pace"), autocommit=True) as connection:
            connection.execute("CREATE TABLE paced (number bigint PRIMARY KEY)")
            count, until = 0, time.perf_counter() + PACE_SECONDS
            while time.perf_counter() < until:
                connection.execute("INSERT INTO paced VALUES (%s)", (count,))
                count += 1
        self.drop("pace")
        return Figure(
            name=f"PostgreSQL {self.version}, fsync on: one-row commits", value=count / PACE_SECONDS, unit="/s"
        )

    def kept(self, name: str, jobs: int) -> Kept:
        """Rows, and bytes with indexes, of the tables that grew by at least one row for every second job."""
        rows = size = 0
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute("VACUUM")
            tables = connection.execute(
                "SELECT format('%I.%I', schemaname, relname), pg_total_relation_size(relid) FROM pg_stat_user_tables"
            ).fetchall()
            for table, total in tables:
                counted = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
                if counted is not None and counted[0] * 2 >= jobs:
                    rows, size = rows + counted[0], size + total
        return Kept(rows / jobs, size / jobs)
