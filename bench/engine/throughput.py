"""How many jobs a worker gets through beside its peers, and what each costs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from engine import contenders, with_reprieve
from engine.arena import Dialect
from engine.driving import drain
from engine.figures import compared, costs, kept, middle
from engine.order import Order
from harness import Figure, take_turns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.arena import Arena, Turn
    from engine.driving import Contender, Drain
    from engine.fixture import Fixture
    from engine.scale import Scale

STAGES = 3
PROCRASTINATE_AT_ONCE = 20
"""Its fastest."""
STAGED_AT_ONCE = 50
"""Of ours; few, so that little is done before the first job is, when the clock begins."""
MILLISECOND = 0.001
BUSY_AT_ONCE = 10
"""Few, so that the clock begins soon after the first job does."""


def staged(arena: Arena, scale: Scale) -> list[Figure]:
    """Pipelines of three stages that do nothing, beside DBOS, on both databases."""
    figures = []
    for dialect, schema in ((Dialect.POSTGRESQL, "dbos."), (Dialect.SQLITE, "")):
        order = Order(url="", jobs=scale.staged, stages=STAGES, batch=STAGED_AT_ONCE)
        peers = {
            peer: Order(url="", jobs=scale.staged, stages=STAGES)
            for peer in (contenders.dbos(schema),)
            if peer is not None
        }
        turns = _rounds(arena, scale, order, peers, dialect)
        for peer in peers:
            figures += _beside(f"three stages, {dialect}", turns, peer, at_least=20)
    return figures


def single(arena: Arena, scale: Scale) -> list[Figure]:
    """Jobs of one stage, beside PgQueuer and procrastinate."""
    order = Order(url="", jobs=scale.single)
    pgqueuer, procrastinate = contenders.pgqueuer(), contenders.procrastinate()
    peers = {} if pgqueuer is None else {pgqueuer: order}
    if procrastinate is not None:
        peers[procrastinate] = Order(url="", jobs=scale.single, batch=PROCRASTINATE_AT_ONCE)
    turns = _rounds(arena, scale, order, peers)
    name = f"one stage, {scale.single:,} waiting"
    figures = [] if pgqueuer is None else _beside(name, turns, pgqueuer, at_least=1)
    return figures if procrastinate is None else [*figures, *_beside(name, turns, procrastinate, at_least=10)]


def backlog(arena: Arena, scale: Scale) -> list[Figure]:
    """The same with many more waiting, beside PgQueuer."""
    order = Order(url="", jobs=scale.backlog)
    pgqueuer = contenders.pgqueuer()
    if pgqueuer is None:
        return []
    turns = _rounds(arena, scale, order, {pgqueuer: order})
    return _beside(f"one stage, {scale.backlog:,} waiting", turns, pgqueuer, at_least=1)


def bare(arena: Arena, scale: Scale) -> list[Figure]:
    """Our engine beside our store alone: what is left to be had."""
    order = Order(url="", jobs=scale.single)
    turns = _rounds(arena, scale, order, {contenders.STORE: order})
    ours, store = (middle([turn.drain for turn in turns[who]]) for who in (contenders.OURS, contenders.STORE))
    name = f"one stage, {scale.single:,} waiting"
    rate = Figure(name=name, value=ours.rate, unit="jobs/s", peer=contenders.STORE.name, peer_value=store.rate)
    return [rate, *costs(name, ours, contenders.STORE.name, store)]


def side_by_side(arena: Arena, scale: Scale) -> list[Figure]:
    """Two worker processes beside one, with stages that use the processor for a millisecond."""
    order = Order(url="", jobs=scale.busy, stages=STAGES, spin=MILLISECOND, batch=BUSY_AT_ONCE)
    counted = take_turns(
        {number: partial(arena.turn, contenders.OURS, order, processes=number) for number in (1, 2)}, scale.rounds
    )
    one, two = (middle([turn.drain for turn in counted[number]]) for number in (1, 2))
    return [
        Figure(
            name="three stages of 1 ms, PostgreSQL, two worker processes",
            value=two.rate,
            unit="jobs/s",
            peer="one worker process",
            peer_value=one.rate,
            at_least=1.6,
        )
    ]


def sample_drain(fixture: Fixture, name: str, order: Order, dialect: Dialect) -> dict[str, float]:
    """Return what our engine uses to run each job; with keys, what it uses to submit each, too."""
    server = fixture.server if dialect is Dialect.POSTGRESQL else None
    with fixture.copied("tables", dialect) as url:
        placed = replace(order, url=url)
        spent = with_reprieve.submit_metered(placed, fixture.meter(dialect))
        if server is not None:
            server.settle(placed.database)
        costs = drain_costs(name, drain(contenders.OURS, placed, server))
    if order.keyed:
        costs["bulk submit with keys: processor by job"] = spent / order.jobs * 1e6
    return costs


def drain_costs(name: str, drained: Drain) -> dict[str, float]:
    """Return what a job took. A database without a server counts neither transactions nor WAL."""
    found = {
        f"{name}: processor by job": drained.worker + drained.server,
        f"{name}: transactions by job": drained.transactions,
        f"{name}: WAL by job": drained.wal,
    }
    return {label: cost for label, cost in found.items() if cost}


def _rounds(
    arena: Arena,
    scale: Scale,
    order: Order,
    peers: Mapping[Contender, Order],
    dialect: Dialect = Dialect.POSTGRESQL,
) -> dict[Contender, list[Turn]]:
    everybody = {contenders.OURS: order, **peers}
    return take_turns({who: partial(arena.turn, who, asked, dialect) for who, asked in everybody.items()}, scale.rounds)


def _beside(name: str, turns: Mapping[Contender, list[Turn]], peer: Contender, *, at_least: float) -> list[Figure]:
    ours, theirs = (middle([turn.drain for turn in turns[who]]) for who in (contenders.OURS, peer))
    figures = compared(name, ours, peer.name, theirs, at_least=at_least)
    left, leaves = turns[contenders.OURS][-1].kept, turns[peer][-1].kept
    return [*figures, *kept(name, left, peer.name, leaves)] if leaves.rows else figures
