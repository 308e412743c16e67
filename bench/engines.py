"""The engine beside DBOS, PgQueuer and procrastinate: throughput, costs, bulk submission, latency."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from engine import submitting, throughput
from engine.arena import Arena
from engine.scale import Scale
from engine.server import Server

if TYPE_CHECKING:
    from harness import Effort, Figure


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
