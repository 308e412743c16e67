"""A million dead letters: pages by filter, the groups view and the metrics, beside a look-up by primary key."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

import letters
from engine.arena import Arena, Dialect
from engine.fixture import open_fixture
from engine.order import Order
from engine.server import Server
from harness import Effort, Figure, take_turns
from reprieve.adapters.sql import schema
from reprieve.adapters.sql.dead_letters.reading import SqlDeadLetterReader
from reprieve.adapters.sql.engine import Database
from reprieve.adapters.sql.tables import dead_letters
from reprieve.core.lifecycle import LetterState
from reprieve.ports.dead_letters import GroupFilter, LetterFilter, Sort
from sample import median_costs, metered, sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reprieve.ports.dead_letters import LetterRow
    from sample import SampleOptions

LETTERS: Final = 1_000_000
SAMPLED_LETTERS: Final = 50_000
ROUNDS: Final = 5
TARGET: Final = 100.0
"""Milliseconds."""
BY_KEY: Final = "a look-up by primary key"
PAGE: Final = 100
"""Which page is asked for by its cursor."""
OPEN: Final = frozenset({LetterState.OPEN})


def run(effort: Effort) -> list[Figure]:
    """Measure both dialects."""
    quick = effort == Effort.quick()
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder) / "server") as server:
        arena = Arena(server, Path(folder))
        return [
            figure
            for dialect in Dialect
            for figure in _measured(arena, dialect, LETTERS // 200 if quick else LETTERS, 1 if quick else ROUNDS)
        ]


def sample(asked: SampleOptions) -> dict[str, float]:
    """Return the processor's nanoseconds of each question of this process and the server,."""
    count = asked.scale(SAMPLED_LETTERS, 500)
    with open_fixture(asked) as fixture, contextlib.ExitStack() as open_ones:

        def fill(url: str) -> None:
            schema.upgrade(url)
            letters.fill(url, count)

        workloads = {}
        for dialect in Dialect:
            url = fixture.filled(f"letters_{count}", dialect, fill)
            reader, database = SqlDeadLetterReader(url), Database.at(url, writes=False)
            open_ones.callback(reader.close)
            open_ones.callback(database.close)
            for name, ask in _questions(reader, database, count).items():
                if name != BY_KEY:
                    workloads[f"{dialect}: {name}"] = sized(metered(fixture.meter(dialect), ask))
        return median_costs(workloads, asked.seconds)


def _measured(arena: Arena, dialect: Dialect, count: int, rounds: int) -> list[Figure]:
    with arena.database("letters", dialect, Order(url="", jobs=0)) as placed:
        schema.upgrade(placed.url)
        began = time.perf_counter()
        letters.fill(placed.url, count)
        if dialect is Dialect.POSTGRESQL:
            arena.server.settle("letters")
            size = arena.server.size("letters")
        else:
            size = Path(placed.url.removeprefix("sqlite:///")).stat().st_size
        filled = f"{dialect}, {count:,} dead letters"
        figures = [
            Figure(name=f"{filled}: filled in", value=time.perf_counter() - began, unit="s"),
            Figure(name=f"{filled}: size with all that belongs to them", value=size / 1e6, unit="MB"),
        ]
        reader, database = SqlDeadLetterReader(placed.url), Database.at(placed.url, writes=False)
        try:
            questions = _questions(reader, database, count)
            taken = take_turns({name: partial(_timed, ask) for name, ask in questions.items()}, rounds)
            searched = _timed(lambda: reader.letters(LetterFilter(text="nowhere to be found")))
        finally:
            reader.close()
            database.close()
    by_key = statistics.median(taken.pop(BY_KEY))
    figures.append(Figure(name=f"{dialect}: {BY_KEY}", value=by_key, unit="ms"))
    for name, times in taken.items():
        figures += _compared(f"{dialect}: {name}", times, by_key)
    return [*figures, Figure(name=f"{dialect}: search all texts, in vain", value=searched / 1e3, unit="s")]


def _compared(name: str, times: list[float], by_key: float) -> list[Figure]:
    """The middle beside a look-up by key, and the worst against the target."""
    return [
        Figure(name=name, value=statistics.median(times), unit="ms", peer=BY_KEY, peer_value=by_key),
        Figure(name=f"{name}, worst", value=max(times), unit="ms", peer="target", peer_value=TARGET, at_most=1.0),
    ]


def _timed(ask: Callable[[], object]) -> float:
    """Milliseconds by the wall."""
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1e3


def _questions(
    reader: SqlDeadLetterReader,
    database: Database,
    count: int,
) -> dict[str, Callable[[], object]]:
    """What is asked in each round, by name."""
    largest = reader.groups(GroupFilter(), now=letters.NOW)[0].fingerprint
    (*_, before) = islice(_pages(reader, LetterFilter()), PAGE - 1)
    rare = LetterFilter(error_class=letters.RARE[0])
    week_ago = letters.NOW - 7 * letters.DAY
    pages = {
        "the newest": LetterFilter(),
        "the oldest": LetterFilter(sort=Sort.OLDEST),
        "one state": LetterFilter(states=OPEN),
        "a rare class": rare,
        "a rare class, open, older than a week": replace(rare, states=OPEN, before=week_ago),
        "a frequent class": LetterFilter(error_class=letters.CLASSES[0][0]),
        "a frequent class, not seen for two weeks": LetterFilter(error_class=letters.STALE[0]),
        "a pipeline, a quarter of all": LetterFilter(pipeline=letters.PIPELINES[0]),
        "a fingerprint, the largest group": LetterFilter(fingerprint=largest),
        f"page {PAGE}, by cursor": LetterFilter(after=before[-1].cursor),
    }
    return {
        BY_KEY: partial(_by_key, database, count // 2),
        "one, with its history": partial(reader.letter, count // 3),
        **{f"page of 50: {name}": partial(reader.letters, wanted) for name, wanted in pages.items()},
        "groups: the largest": partial(reader.groups, GroupFilter(), now=letters.NOW),
        "groups: open ones, seen last": partial(
            reader.groups, GroupFilter(states=OPEN, by_count=False), now=letters.NOW
        ),
        "metrics: a day": partial(reader.stats, now=letters.NOW, window=letters.DAY),
        "metrics: a day, one pipeline": partial(
            reader.stats, now=letters.NOW, window=letters.DAY, pipeline=letters.PIPELINES[0]
        ),
        "metrics: a week": partial(reader.stats, now=letters.NOW, window=7 * letters.DAY),
    }


def _by_key(database: Database, letter_id: int) -> None:
    with database.transaction() as connection:
        connection.execute(select(dead_letters).where(dead_letters.c.id == letter_id)).one()


def _pages(reader: SqlDeadLetterReader, wanted: LetterFilter) -> Iterator[list[LetterRow]]:
    """One after another; the last one again, where there are no more."""
    page = list(reader.letters(wanted))
    while True:
        yield page
        page = list(reader.letters(replace(wanted, after=page[-1].cursor))) or page
