"""Databases that later samples use again: filled once for each checkout, in a folder that is kept."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.arena import Dialect
from engine.server import Server
from engine.usage import Meter
from reprieve.adapters.sql import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sample import SampleOptions

    Fill = Callable[[str], None]
    """Fills the database of this address."""


@dataclass(frozen=True, slots=True)
class Fixture:
    """The databases of one folder and the server that has half of them."""

    folder: Path
    server: Server

    def meter(self, dialect: Dialect) -> Meter:
        """Return what counts the processor for work on a dialect: of the server, too, where there is one."""
        return Meter(self.server.pid if dialect is Dialect.POSTGRESQL else None)

    def filled(self, name: str, dialect: Dialect, fill: Fill) -> str:
        """Return the URL of the database of this name. It is filled first unless an earlier sample did so."""
        if dialect is Dialect.POSTGRESQL:
            if not self.server.exists(name):
                fill(self.server.fresh(f"{name}_new"))
                self.server.settle(f"{name}_new")
                self.server.rename(f"{name}_new", name)
            return self.server.url(name)
        file = self.folder / f"{name}.db"
        if not file.exists():
            new = self.folder / f"{name}.new.db"
            _remove_sqlite(new)
            fill(f"sqlite:///{new}")
            with closing(sqlite3.connect(new)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            new.rename(file)
        return f"sqlite:///{file}"

    @contextmanager
    def copied(self, name: str, dialect: Dialect, fill: Fill = schema.upgrade) -> Iterator[str]:
        """The URL of a copy of such a database, removed afterwards. By default its tables are empty."""
        source, copy = self.filled(name, dialect, fill), f"{name}_copy"
        if dialect is Dialect.POSTGRESQL:
            try:
                yield self.server.copy(name, copy)
            finally:
                self.server.drop(copy)
            return
        file = self.folder / f"{copy}.db"
        _remove_sqlite(file)
        try:
            shutil.copyfile(source.removeprefix("sqlite:///"), file)
            yield f"sqlite:///{file}"
        finally:
            _remove_sqlite(file)


@contextmanager
def open_fixture(asked: SampleOptions) -> Iterator[Fixture]:
    """Start the server of the sample's folder, and stop it afterwards."""
    with Server(asked.fixture / "server") as server:
        yield Fixture(asked.fixture, server)


def _remove_sqlite(file: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{file}{suffix}").unlink(missing_ok=True)
