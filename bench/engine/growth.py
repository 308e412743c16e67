"""What becomes of claims and submissions when a million jobs are over, and of a worker's memory when many wait."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from engine import contenders, with_store
from engine.arena import Dialect
from engine.filling import fill
from engine.order import Order
from harness import Figure, take_turns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.arena import Arena
    from engine.fixture import Fixture
    from engine.scale import Scale
    from engine.usage import Meter
    from reprieve.ports.intents import Lease
    from reprieve.ports.store import Store

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
    """Our store on a full database beside an empty one, batch by batch."""
    order = Order(url="", jobs=scale.probed, start=10 * (scale.finished + scale.dead))
    with arena.database("full", dialect, order) as filled:
        contenders.STORE.told("install", filled)
        fill(filled.url, scale.finished, scale.dead)
        rounds = [
            _round(arena, replace(filled, start=order.start + 2 * number * scale.probed), dialect)
            for number in range(scale.rounds)
        ]
    return [
        Figure(
            name=f"{label}, {dialect}, {scale.finished:,} finished jobs and {scale.dead:,} dead letters",
            value=statistics.median(each[action][0] for each in rounds),
            unit="jobs/s",
            peer="an empty database",
            peer_value=statistics.median(each[action][1] for each in rounds),
            at_least=KEEPS,
        )
        for action, label in ACTIONS.items()
    ]


def _round(arena: Arena, filled: Order, dialect: Dialect) -> dict[str, list[float]]:
    """Jobs a second of each action on both, which are brought to rest before each."""
    with arena.database("empty", dialect, filled) as empty:
        contenders.STORE.told("install", empty)
        order = replace(filled, beside=empty.url)
        scattered = replace(order, start=order.start + order.jobs, scattered=True)
        taken = {}
        for action, asked in (("submit", order), ("scatter", scattered)):
            _settle(arena, (filled, empty), dialect)
            taken[action] = contenders.STORE.told("submit", asked)
        _settle(arena, (filled, empty), dialect)
        claimed = contenders.STORE.told("claim_all", order)
    rates = {action: [order.jobs / seconds for seconds in both] for action, both in taken.items()}
    # Both submissions are claimed.
    return rates | {action: [2 * order.jobs / seconds for seconds in both] for action, both in claimed.items()}


def _settle(arena: Arena, orders: Iterable[Order], dialect: Dialect) -> None:
    if dialect is Dialect.POSTGRESQL:
        for order in orders:
            arena.server.settle(order.database)


SAMPLED_STAGES: Final = [with_store.stage_name(0)]


def fill_database(fixture: Fixture, dialect: Dialect, *, finished: int, dead: int) -> str:
    """Return the URL of a database with so many finished jobs and dead letters, brought to rest."""

    def fill_up(url: str) -> None:
        with_store.install(Order(url=url))
        fill(url, finished, dead)

    url = fixture.filled(f"full_{finished}", dialect, fill_up)
    if dialect is Dialect.POSTGRESQL:
        fixture.server.settle(Order(url=url).database)
    return url


def sample_speed(url: str, dialect: Dialect, meter: Meter, probed: int) -> dict[str, float]:
    """Return the processor's microseconds of each action by job, on a database that is full."""
    # Keys of earlier samples are in the database: the clock gives numbers that are new and go up.
    order = Order(url=url, jobs=probed, start=time.time_ns() // 1_000)
    costs = asyncio.run(_sample_actions(order, meter))
    return {f"{ACTIONS[action]}, {dialect}": cost for action, cost in costs.items()}


async def _sample_actions(order: Order, meter: Meter) -> dict[str, float]:
    store = with_store.opened(order.url)
    await store.open()
    try:
        worker = await with_store.register(store, SAMPLED_STAGES)
        scattered = replace(order, start=order.start + order.jobs, scattered=True)
        costs = {}
        for action, asked in (("submit", order), ("scatter", scattered)):
            began = meter.start()
            await with_store.submit_all(store, asked)
            costs[action] = meter.since(began) / order.jobs * 1e6
        began = meter.start()
        claimed = await _claim_all(store, worker, order)
        costs["claim"] = meter.since(began) / len(claimed) * 1e6
        finishing = await with_store.run_stages(store, claimed, SAMPLED_STAGES, order)
        began = meter.start()
        for low in range(0, len(finishing), order.batch):
            await store.apply(finishing[low : low + order.batch])
        costs["finish"] = meter.since(began) / len(finishing) * 1e6
        return costs
    finally:
        await store.close()


async def _claim_all(store: Store, worker: int, order: Order) -> list[Lease]:
    claimed: list[Lease] = []
    while batch := await with_store.claim(store, worker, SAMPLED_STAGES, order, []):
        claimed += batch
    return claimed


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
