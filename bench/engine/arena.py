"""Where contenders take their turns: a fresh database each time, removed afterwards."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from engine.driving import Contender, Drain, drain
from engine.server import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.order import Order
    from engine.server import Server


class Dialect(StrEnum):
    """Which database."""

    POSTGRESQL = "PostgreSQL"
    SQLITE = "SQLite"


@dataclass(frozen=True, slots=True)
class Turn:
    """What one contender did in one round."""

    drain: Drain
    kept: Kept


@dataclass(frozen=True, slots=True)
class Arena:
    """One server and one folder for all."""

    server: Server
    folder: Path

    @contextmanager
    def database(self, name: str, dialect: Dialect, order: Order) -> Iterator[Order]:
        """The order with the address of a new database, which has no tables yet."""
        match dialect:
            case Dialect.POSTGRESQL:
                placed = replace(order, url=self.server.fresh(name))
                try:
                    yield placed
                finally:
                    self.server.drop(name)
            case Dialect.SQLITE:
                place = self.folder / name
                place.mkdir()
                placed = replace(order, url=f"sqlite:///{place / 'jobs.db'}")
                try:
                    yield placed
                finally:
                    shutil.rmtree(place)

    def turn(
        self, contender: Contender, order: Order, dialect: Dialect = Dialect.POSTGRESQL, *, processes: int = 1
    ) -> Turn:
        """Submit all jobs while no worker runs, bring the database to rest, then drain it."""
        with self.database(contender.module, dialect, order) as placed:
            contender.told("install+submit", placed)
            if dialect is Dialect.SQLITE:
                return Turn(drain(contender, placed, None, processes=processes), Kept(0, 0))
            self.server.settle(contender.module)
            drained = drain(contender, placed, self.server, processes=processes)
            return Turn(drained, self.server.kept(contender.module, placed.jobs))
