"""How many cached answers are served a second, beside a look-up by primary key through the very same driver."""

from __future__ import annotations

import asyncio
import json
import pathlib
import sqlite3
import tempfile
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

import reprieve
from engine.arena import Dialect
from engine.fixture import Fixture, open_fixture
from engine.server import Server
from harness import Effort, Figure, medians
from reprieve.adapters.sql import schema
from reprieve.models import Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from reprieve.models import Prompt
    from sample import SampleOptions

    Look = Callable[[str], Any]

SIGNATURES = 1000
MORE = 200_000
"""Signatures that nobody asks for in the meantime, for how it grows."""
SCHEMA = {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}
FILLING = "fill"
LABELS = {"batch": "1,000 in a batch", "callers": "1,000 callers at once"}
SLICE_LOOKUPS = 5
"""Look-ups of all signatures that are measured as one."""
ONE_AT_A_TIME = "by primary key, one at a time"
FILL = """
INSERT INTO analysis_cache (url_signature, question, status, answer, created_at, changed_at)
SELECT 'other-' || number || '.example/items/N', 'q', 'analyzed', {answer}, {now}, {now} FROM {numbers}
"""


def fill_statement(dialect: Dialect, more: int) -> str:
    """Return the SQL that inserts so many signatures."""
    if dialect is Dialect.POSTGRESQL:
        numbers = f"generate_series(1, {more}) AS number"
        return FILL.format(answer="""convert_to('{"kind": "x"}', 'UTF8')""", now="now()", numbers=numbers)
    counted = f"SELECT 1 UNION ALL SELECT number + 1 FROM n WHERE number < {more}"
    numbers = f"(WITH RECURSIVE n(number) AS ({counted}) SELECT number FROM n)"
    return FILL.format(answer="""CAST('{"kind": "x"}' AS BLOB)""", now="1.0", numbers=numbers)


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


def lookups_of(app: Any) -> dict[str, Callable[[], Awaitable[None]]]:  # noqa: ANN401 - the application
    """Ways to ask for all signatures; the first one fills the cache."""
    analysis = app.analysis(Instant(), prompt="Which kind is {signature}?", schema=SCHEMA)
    wanted = dict.fromkeys(names(), ())

    async def fill() -> None:
        await analysis.analyze_many(wanted)

    async def batch() -> None:
        if (await analysis.analyze_many(wanted)).cached != SIGNATURES:
            raise AssertionError("not all were hits")

    async def callers() -> None:
        await asyncio.gather(*(analysis.analyze(name) for name in wanted))

    return {FILLING: fill, "batch": batch, "callers": callers}


async def served(
    app: Any,  # noqa: ANN401 - the application
    look: Look,
    rounds: int,
    fill: Callable[[], None],
) -> dict[str, list[float]]:
    """Hits a second: many in a batch, callers who ask for one each, and the bare driver, in turns."""
    lookups = lookups_of(app)
    await lookups[FILLING]()
    batch, callers = lookups["batch"], lookups["callers"]
    figures: dict[str, list[float]] = {"batch": [], "callers": [], "bare": [], "grown": []}

    async def bare() -> None:
        for name in names():
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


def measured(url: str, bare: tuple[Any, Look], rounds: int, dialect: Dialect) -> dict[str, float]:
    """The medians on one database."""
    connection, look = bare

    def fill_up() -> None:
        connection.execute(fill_statement(dialect, MORE))
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
    for what, name in LABELS.items():
        yield Figure(
            name=f"{where}, cache hits, {name}", value=found[what], unit="per s", peer=peer, peer_value=found["bare"]
        )
    yield Figure(
        name=f"{where}, cache hits among {MORE + SIGNATURES:,} signatures", value=found["grown"], unit="per s",
        peer="among 1,000", peer_value=found["batch"], at_least=0.9,
    )  # fmt: skip


def sample(asked: SampleOptions) -> dict[str, float]:
    """Return the processor's microseconds of a hit among many signatures, of this process and the server."""
    more = asked.scale(MORE, 100)
    with open_fixture(asked) as fixture:
        costs: dict[str, float] = {}
        for dialect in Dialect:
            costs |= asyncio.run(_sample_hits(fixture, dialect, more, asked.seconds / len(Dialect)))
        return costs


async def _sample_hits(fixture: Fixture, dialect: Dialect, more: int, seconds: float) -> dict[str, float]:
    meter = fixture.meter(dialect)
    url = await asyncio.to_thread(fixture.filled, f"answers_{more}", dialect, partial(_fill, dialect, more))
    async with reprieve.connect(url) as app:
        lookups = lookups_of(app)
        await lookups[FILLING]()
        samples: dict[str, list[float]] = {f"{dialect}, cache hits, {label}": [] for label in LABELS.values()}
        until = time.monotonic() + seconds
        while not all(samples.values()) or time.monotonic() < until:
            for what, label in LABELS.items():
                began = meter.start()
                for _ in range(SLICE_LOOKUPS):
                    await lookups[what]()
                cost = meter.since(began) / SLICE_LOOKUPS / SIGNATURES * 1e6
                samples[f"{dialect}, cache hits, {label}"].append(cost)
        return medians(samples)


def _fill(dialect: Dialect, more: int, url: str) -> None:
    schema.upgrade(url)
    connect: Any = psycopg.connect if dialect is Dialect.POSTGRESQL else sqlite3.connect
    with closing(connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute(fill_statement(dialect, more))
        connection.commit()


def run(effort: Effort) -> list[Figure]:
    """On both databases; by the wall, since what is measured is mostly a wait for the database."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "analysis.db"
        url = f"sqlite:///{path}"
        schema.upgrade(url)
        found = measured(url, bare_sqlite(path), effort.rounds, Dialect.SQLITE)
        figures = [*figures_of("SQLite", "sqlite3", found)]
        with Server(pathlib.Path(folder) / "postgres") as server:
            url = server.fresh("analysis")
            schema.upgrade(url)
            found = measured(url, bare_postgres(url), effort.rounds, Dialect.POSTGRESQL)
            figures += figures_of("PostgreSQL", "psycopg", found)
    return figures
