"""What becomes of claims and submissions when a million jobs are over, and of a worker's memory when many wait."""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from engine import contenders
from engine.arena import Dialect
from engine.filling import fill
from engine.order import Order
from harness import Figure, take_turns

if TYPE_CHECKING:
    from engine.arena import Arena
    from engine.scale import Scale

KEEPS = 0.9
NO_MORE = 1.1
"""Of memory, where it does not grow."""
ACTIONS = {
    "submit": "submit, keys in order",
    "scatter": "submit, scattered keys",
    "claim": "claim",
    "finish": "finish",
}


def speed(arena: Arena, scale: Scale, dialect: Dialect) -> list[Figure]:
    """Our store on a full database beside an empty one, turn by turn."""
    order = Order(url="", jobs=scale.probed, start=10 * (scale.finished + scale.dead))
    with arena.database("full", dialect, order) as filled:
        contenders.STORE.told("install", filled)
        fill(filled.url, scale.finished, scale.dead)
        numbers = iter(range(order.start, 10**12, 2 * scale.probed))

        def on_full() -> dict[str, float]:
            return _probe(arena, replace(filled, start=next(numbers)), dialect)

        def on_empty() -> dict[str, float]:
            with arena.database("empty", dialect, order) as placed:
                contenders.STORE.told("install", placed)
                return _probe(arena, placed, dialect)

        taken = take_turns({"full": on_full, "empty": on_empty}, scale.rounds)
    return [
        Figure(
            name=f"{label}, {dialect}, {scale.finished:,} finished jobs and {scale.dead:,} dead letters",
            value=statistics.median(each[action] for each in taken["full"]),
            unit="jobs/s",
            peer="an empty database",
            peer_value=statistics.median(each[action] for each in taken["empty"]),
            at_least=KEEPS,
        )
        for action, label in ACTIONS.items()
    ]


def _probe(arena: Arena, order: Order, dialect: Dialect) -> dict[str, float]:
    """Jobs a second of each action, the database brought to rest before each."""
    rates = {}
    for action, asked in (
        ("submit", order),
        ("scatter", replace(order, start=order.start + order.jobs, scattered=True)),
    ):
        _settle(arena, order, dialect)
        rates[action] = order.jobs / contenders.STORE.told("submit", asked)
    _settle(arena, order, dialect)
    taken = contenders.STORE.told("claim_all", order)
    return rates | {name: 2 * order.jobs / seconds for name, seconds in taken.items()}


def _settle(arena: Arena, order: Order, dialect: Dialect) -> None:
    if dialect is Dialect.POSTGRESQL:
        arena.server.settle(order.database)


def memory(arena: Arena, scale: Scale) -> list[Figure]:
    """The most that a worker had in memory, with a long queue and with a short one."""
    sizes = {"long": scale.backlog, "short": scale.backlog // 50}
    turns = take_turns(
        {name: partial(arena.turn, contenders.OURS, Order(url="", jobs=jobs)) for name, jobs in sizes.items()}, 1
    )
    return [
        Figure(
            name=f"worker's memory at its peak, {sizes['long']:,} jobs waiting",
            value=turns["long"][0].drain.memory,
            unit="MB",
            peer=f"{sizes['short']:,} jobs waiting",
            peer_value=turns["short"][0].drain.memory,
            at_most=NO_MORE,
        )
    ]
