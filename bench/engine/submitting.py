"""Bulk submission with deduplicating keys, and the time from a submission to its start."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from engine import contenders
from engine.arena import Dialect
from engine.driving import workers
from engine.order import Order
from harness import Figure, take_turns

if TYPE_CHECKING:
    from pathlib import Path

    from engine.arena import Arena
    from engine.driving import Contender
    from engine.scale import Scale

WARM = 10
PATIENCE = 30.0


def bulk(arena: Arena, scale: Scale) -> list[Figure]:
    """Jobs submitted in a second, a thousand with each call, beside PgQueuer."""
    pgqueuer = contenders.pgqueuer()
    if pgqueuer is None:
        return []
    order = Order(url="", jobs=scale.submitted, keyed=True)

    def submitted(who: Contender) -> float:
        with arena.database(who.module, Dialect.POSTGRESQL, order) as placed:
            return float(order.jobs / who.told("install+submit", placed))

    rates = take_turns({who: partial(submitted, who) for who in (contenders.OURS, pgqueuer)}, scale.rounds)
    ours, theirs = (statistics.median(rates[who]) for who in (contenders.OURS, pgqueuer))
    return [
        Figure(
            name="bulk submit with keys", value=ours, unit="jobs/s", peer=pgqueuer.name, peer_value=theirs, at_least=1
        )
    ]


def latency(arena: Arena, scale: Scale) -> list[Figure]:
    """Milliseconds from before the call that submits to the first line of the stage, beside PgQueuer."""
    pgqueuer = contenders.pgqueuer()
    if pgqueuer is None:
        return []
    taken = take_turns(
        {who: partial(_stamps, arena, who, scale.samples) for who in (contenders.OURS, pgqueuer)}, scale.rounds
    )
    figures = []
    for name, share, target in (("median", 0.5, 1.1), ("99th percentile", 0.99, None)):
        ours, theirs = (
            statistics.median(_percentile(samples, share) for samples in taken[who])
            for who in (contenders.OURS, pgqueuer)
        )
        figures.append(
            Figure(
                name=f"submit to start on an idle worker, {name}",
                value=ours,
                unit="ms",
                peer=pgqueuer.name,
                peer_value=theirs,
                at_most=target,
            )
        )
    return figures


def _percentile(samples: list[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _stamps(arena: Arena, who: Contender, samples: int) -> list[float]:
    stamps = arena.folder / "stamps"
    stamps.unlink(missing_ok=True)
    order = Order(url="", batch=10, stamps=str(stamps))
    with arena.database(who.module, Dialect.POSTGRESQL, order) as placed:
        who.told("install+stamp", replace(placed, jobs=1))
        with workers(who, [placed]):
            _stamped(stamps, 1)
            who.told("stamp", replace(placed, jobs=WARM + samples))
            return _stamped(stamps, 1 + WARM + samples)[-samples:]


def _stamped(stamps: Path, count: int) -> list[float]:
    """Milliseconds, once so many are there."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        lines = stamps.read_text(encoding="ascii").splitlines() if stamps.exists() else []
        if len(lines) >= count:
            return [int(line) / 1e6 for line in lines]
        time.sleep(0.05)
    raise TimeoutError(f"{count} jobs did not all start in {PATIENCE:g} s")
