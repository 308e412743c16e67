"""How many cached answers are served a second, beside a look-up by primary key through the very same library."""

from __future__ import annotations

import asyncio
import json
import pathlib
import sqlite3
import tempfile
import time
from typing import TYPE_CHECKING, Any

import reprieve
from harness import Effort, Figure, medians
from reprieve.models import Reply

if TYPE_CHECKING:
    from reprieve.models import Prompt

SIGNATURES = 1000
SCHEMA = {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}
LOOK = "SELECT answer FROM analysis_cache WHERE url_signature = ?"


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


async def served(app: Any, rounds: int) -> dict[str, list[float]]:  # noqa: ANN401 - the application
    """Hits a second: many in a batch, and callers who each ask for one at the same time."""
    analysis = app.analysis(Instant(), prompt="Which kind is {signature}?", schema=SCHEMA)
    wanted = dict.fromkeys(names(), ())
    await analysis.analyze_many(wanted)
    figures: dict[str, list[float]] = {"batch": [], "callers": []}
    for _ in range(rounds):
        began = time.perf_counter()
        batch = await analysis.analyze_many(wanted)
        figures["batch"].append(SIGNATURES / (time.perf_counter() - began))
        if batch.cached != SIGNATURES:
            raise AssertionError("not all were hits")
        began = time.perf_counter()
        await asyncio.gather(*(analysis.analyze(name) for name in wanted))
        figures["callers"].append(SIGNATURES / (time.perf_counter() - began))
    return figures


def plain(path: pathlib.Path, rounds: int) -> list[float]:
    """The bare driver, one row after another by its key, its JSON read."""
    figures = []
    connection = sqlite3.connect(path)
    for _ in range(rounds):
        began = time.perf_counter()
        for name in names():
            json.loads(connection.execute(LOOK, (name,)).fetchone()[0])
        figures.append(SIGNATURES / (time.perf_counter() - began))
    connection.close()
    return figures


def run(effort: Effort) -> list[Figure]:
    """On SQLite, where the driver is in the same process and every microsecond of ours shows."""

    async def main(path: pathlib.Path) -> dict[str, list[float]]:
        async with reprieve.connect(f"sqlite:///{path}") as app:
            return await served(app, effort.rounds)

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "analysis.db"
        figures = medians({**asyncio.run(main(path)), "bare": plain(path, effort.rounds)})
    peer = "sqlite3 by primary key, one at a time"
    return [
        Figure(name="cache hits, 1,000 in a batch", value=figures["batch"], unit="per s", peer=peer, peer_value=figures["bare"]),
        Figure(name="cache hits, 1,000 callers at once", value=figures["callers"], unit="per s", peer=peer, peer_value=figures["bare"]),
    ]  # fmt: skip
