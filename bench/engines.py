"""The engine beside DBOS, PgQueuer and procrastinate: throughput, costs, bulk submission, latency."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from engine import submitting, throughput
from engine.arena import Arena, Dialect
from engine.fixture import Fixture, open_fixture
from engine.order import Order
from engine.scale import Scale
from engine.server import Server
from sample import repeat_turn

if TYPE_CHECKING:
    from harness import Effort, Figure
    from sample import SampleOptions


PARTS = (
    throughput.staged,
    throughput.single,
    throughput.backlog,
    throughput.bare,
    throughput.side_by_side,
    submitting.bulk,
    submitting.latency,
)
"""What is measured, the slowest first."""


def sample(asked: SampleOptions) -> dict[str, float]:
    """Return what our engine uses for each job that it submits and runs."""
    with open_fixture(asked) as fixture:
        return repeat_turn(lambda: _sample_turn(fixture, asked), asked.seconds)


def _sample_turn(fixture: Fixture, asked: SampleOptions) -> dict[str, float]:
    single = Order(url="", jobs=asked.scale(20_000, 300), keyed=True)
    jobs, at_once = asked.scale(8_000, 100), throughput.STAGED_AT_ONCE
    staged = Order(url="", jobs=jobs, stages=throughput.STAGES, batch=at_once)
    costs = throughput.sample_drain(fixture, "one stage, PostgreSQL", single, Dialect.POSTGRESQL)
    for dialect in Dialect:
        costs |= throughput.sample_drain(fixture, f"three stages, {dialect}", staged, dialect)
    return costs


def run(effort: Effort) -> list[Figure]:
    """Measure all of it on one server."""
    scale = Scale.of(effort)
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder) / "server") as server:
        arena = Arena(server, Path(folder))
        figures = [server.pace()]
        for part in PARTS:
            print(f"  {part.__name__.replace('_', ' ')} ...", file=sys.stderr, flush=True)
            figures += part(arena, scale)
        return figures
