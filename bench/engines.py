"""The engine beside DBOS, PgQueuer and procrastinate: throughput, costs, bulk submission, latency."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from engine import submitting, throughput
from engine.arena import Arena
from engine.scale import Scale
from engine.server import Server

if TYPE_CHECKING:
    from harness import Effort, Figure


def run(effort: Effort) -> list[Figure]:
    """Measure all of it on one server."""
    scale = Scale.of(effort)
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder) / "server") as server:
        arena = Arena(server, Path(folder))
        return [
            server.pace(),
            *throughput.staged(arena, scale),
            *throughput.single(arena, scale),
            *throughput.backlog(arena, scale),
            *throughput.bare(arena, scale),
            *throughput.side_by_side(arena, scale),
            *submitting.bulk(arena, scale),
            *submitting.latency(arena, scale),
        ]
