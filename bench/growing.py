"""What a million finished jobs cost those that are not: our engine on a full database beside an empty one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from engine import growth
from engine.arena import Arena, Dialect
from engine.scale import Scale
from engine.server import Server

if TYPE_CHECKING:
    from harness import Effort, Figure


def run(effort: Effort) -> list[Figure]:
    """Measure both dialects, and a worker's memory."""
    scale = Scale.of(effort)
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder) / "server") as server:
        arena = Arena(server, Path(folder))
        figures = [figure for dialect in Dialect for figure in growth.speed(arena, scale, dialect)]
        return [*figures, *growth.memory(arena, scale)]
