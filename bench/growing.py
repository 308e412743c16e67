"""What a million finished jobs cost those that are not: our engine on a full database beside an empty one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from engine import growth
from engine.arena import Arena, Dialect
from engine.fixture import open_fixture
from engine.scale import Scale
from engine.server import Server
from sample import repeat_turn

if TYPE_CHECKING:
    from harness import Effort, Figure
    from sample import SampleOptions


def sample(asked: SampleOptions) -> dict[str, float]:
    """Return what our store uses for each action, on a database with a fifth of the jobs that `run` has."""
    finished, dead, probed = asked.scale(200_000, 2_000), asked.scale(20_000, 200), asked.scale(5_000, 300)
    with open_fixture(asked) as fixture:
        urls = {each: growth.fill_database(fixture, each, finished=finished, dead=dead) for each in Dialect}

        def turn() -> dict[str, float]:
            costs: dict[str, float] = {}
            for dialect, url in urls.items():
                costs |= growth.sample_speed(url, dialect, fixture.meter(dialect), probed)
            return costs

        return repeat_turn(turn, asked.seconds)


def run(effort: Effort) -> list[Figure]:
    """Measure both dialects, and a worker's memory."""
    scale = Scale.of(effort)
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder) / "server") as server:
        arena = Arena(server, Path(folder))
        figures = [figure for dialect in Dialect for figure in growth.speed(arena, scale, dialect)]
        return [*figures, *growth.memory(arena, scale)]
