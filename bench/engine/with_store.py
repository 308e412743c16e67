"""Our store alone, without the engine: what the database and the driver allow."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from itertools import pairwise
from typing import TYPE_CHECKING

from engine.order import key, payload, spin
from reprieve.adapters.sql import schema
from reprieve.ports import intents as i

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.order import Order
    from reprieve.ports.store import Store

AT_ONCE = 1000
PIPELINE = "bench"


def opened(url: str) -> Store:
    """The store of this address."""
    if url.startswith("sqlite"):
        from reprieve.adapters.sql.sqlite.store import SqliteStore  # noqa: PLC0415 - only the one that is asked for

        return SqliteStore(url)
    from reprieve.adapters.sql.postgres.store import PostgresStore  # noqa: PLC0415 - the same

    return PostgresStore(url)


def stage_name(number: int) -> str:
    """The name of a stage by its place."""
    return f"stage_{number}"


def submission(number: int, told: Order, now: float) -> i.Submit:
    """A job like every other."""
    return i.Submit(
        idempotency_key=key(number, told),
        pipeline=PIPELINE,
        stage=stage_name(0),
        payload=payload(number),
        payload_type="object",
        created_at=now,
    )


def install(told: Order) -> None:
    """Make our tables."""
    schema.upgrade(told.url)


def submit(told: Order) -> list[float]:
    """Seconds to submit the jobs, a thousand in a batch, here and beside."""

    async def run() -> list[float]:
        stores = await _open_both(told)
        taken = [0.0 for _ in stores]
        for low in range(told.start, told.start + told.jobs, AT_ONCE):
            numbers = range(low, min(told.start + told.jobs, low + AT_ONCE))
            for place in _turns(stores, low // AT_ONCE):
                began = time.perf_counter()
                now = time.time()
                await stores[place].apply([submission(number, told, now) for number in numbers])
                taken[place] += time.perf_counter() - began
        for store in stores:
            await store.close()
        return taken

    return asyncio.run(run())


async def submit_all(store: Store, told: Order) -> None:
    """Submit the jobs, a thousand in a batch."""
    for low in range(told.start, told.start + told.jobs, AT_ONCE):
        now = time.time()
        numbers = range(low, min(told.start + told.jobs, low + AT_ONCE))
        await store.apply([submission(number, told, now) for number in numbers])


def claim_all(told: Order) -> dict[str, list[float]]:
    """Seconds to claim all jobs, and to finish them, in batches that take turns, here and beside."""

    async def run() -> dict[str, list[float]]:
        stores = await _open_both(told)
        workers = [await register(store, [stage_name(0)]) for store in stores]
        taken = {"claim": [0.0 for _ in stores], "finish": [0.0 for _ in stores]}
        left, turn = set(range(len(stores))), 0
        while left:
            for place in _turns(stores, turn):
                began = time.perf_counter()
                leases = await claim(stores[place], workers[place], [stage_name(0)], told, [])
                claimed = time.perf_counter()
                finishing = await run_stages(stores[place], leases, [stage_name(0)], told)
                if not finishing:
                    left.discard(place)
                    continue
                passed = time.perf_counter()
                await stores[place].apply(finishing)
                taken["claim"][place] += claimed - began
                taken["finish"][place] += time.perf_counter() - passed
            turn += 1
        for store in stores:
            await store.close()
        return taken

    return asyncio.run(run())


async def _open_both(told: Order) -> list[Store]:
    stores = [opened(url) for url in (told.url, told.beside) if url]
    for store in stores:
        await store.open()
    return stores


def _turns(stores: Sequence[Store], number: int) -> list[int]:
    """Who comes first changes from batch to batch."""
    places = list(range(len(stores)))
    return places if number % 2 == 0 else places[::-1]


def work(told: Order) -> None:
    """Claim, pass the stages and finish in batches, until told to stop."""
    asyncio.run(_work(told))


async def _work(told: Order) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    store = opened(told.url)
    await store.open()
    names = [stage_name(number) for number in range(told.stages)]
    worker_id = await register(store, names)
    finishing: Sequence[i.Intent] = ()
    while not stopping.is_set():
        leases = await claim(store, worker_id, names, told, finishing)
        if not leases:
            await asyncio.sleep(0.005)
        finishing = await run_stages(store, leases, names, told)
    await store.close()


async def register(store: Store, names: Sequence[str]) -> int:
    """Register a worker for these stages and return its id."""
    now = time.time()
    worker = i.Register(
        name="bench",
        host="localhost",
        pid=os.getpid(),
        stages=tuple((PIPELINE, name) for name in names),
        now=now,
        expires_at=now + 600,
    )
    answers = await store.apply([worker])
    return int(answers[0])  # type: ignore[arg-type]  # what Register is answered with


async def claim(
    store: Store, worker_id: int, names: Sequence[str], told: Order, finishing: Sequence[i.Intent]
) -> Sequence[i.Lease]:
    """Finish what is done and claim more in one transaction."""
    claim = i.Claim(
        worker_id=worker_id,
        capacity=told.batch,
        stages={(PIPELINE, name): told.batch for name in names},
        now=time.time(),
    )
    *_, claimed = await store.apply([*finishing, claim])
    assert isinstance(claimed, i.Claimed)
    return claimed.leases


async def run_stages(
    store: Store,
    leases: Sequence[i.Lease],
    names: Sequence[str],
    told: Order,
) -> Sequence[i.Intent]:
    """Run the stages of claimed jobs side by side, a checkpoint between two; what is left is to finish them."""
    for stage, following in pairwise(names):
        checkpoints = []
        for lease in leases:
            began = time.time()
            spin(told.spin)
            checkpoints.append(
                i.Checkpoint(
                    job_id=lease.job_id,
                    fence=lease.fence,
                    stage=stage,
                    next_stage=following,
                    result=b"1",
                    result_type="int",
                    attempt=1,
                    started_at=began,
                    finished_at=time.time(),
                )
            )
        if checkpoints:
            await store.apply(checkpoints)
    finishing = []
    for lease in leases:
        began = time.time()
        spin(told.spin)
        finishing.append(
            i.Finish(
                job_id=lease.job_id,
                fence=lease.fence,
                stage=names[-1],
                result=b"1",
                result_type="int",
                attempt=1,
                started_at=began,
                finished_at=time.time(),
            )
        )
    return finishing
