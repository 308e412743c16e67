"""Deliveries step by step: the real worker and the real sweep on either database, by a clock that a test moves."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

import reprieve
from reprieve.adapters.sql import tables
from reprieve.adapters.sql.engine import Database
from reprieve.app.outbox.sweeping import Sweep, senders_of
from reprieve.app.worker import WorkerSettings
from reprieve.ports.deliveries import DeliveryFilter
from reprieve.senders import Webhook
from reprieve.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

QUICK = reprieve.load_profiles()["criticizer"].override(backoff=reprieve.Backoff(initial=0.01, maximum=0.02))


def by_look_up(office: Any, **settings: Any) -> Webhook:
    wanted = {"status_url": office.url("/status/{token}"), "timeout": 2.0, "allow_private": True} | settings
    return Webhook("hook", **wanted)


def by_key(**settings: Any) -> Webhook:
    return Webhook("hook", **({"takes_key": 3600.0, "timeout": 2.0, "allow_private": True} | settings))


def by_nothing(**settings: Any) -> Webhook:
    return Webhook("hook", **({"timeout": 2.0, "allow_private": True} | settings))


def notifying(
    office: Any, sender: Any, names: Sequence[str], *, optional: Sequence[str] = (), profile: Any = QUICK
) -> reprieve.Pipeline:
    """A pipeline of one stage, which tells these."""
    pipeline = reprieve.Pipeline("notices", profile=profile, senders=[sender], breaker=None)

    @pipeline.stage(delivers=True)
    async def notify(job: reprieve.Job[str]) -> list[list[str]]:
        messages = [
            reprieve.Message(
                recipient=office.url(f"/inbox/{name}"), subject=job.payload, text=f"for {name}",
                required=name not in optional,
            )
            for name in names
        ]  # fmt: skip
        done = await reprieve.deliver(job, messages, via=sender.name)
        return [[name_of(each) for each in some] for some in (done.sent, done.failed)]

    return pipeline


def name_of(recipient: str) -> str:
    return recipient.rpartition("/")[2]


class Desk:
    """An application whose jobs and sweeps go on only when a test says so."""

    def __init__(self, app: reprieve.App, pipelines: Sequence[reprieve.Pipeline], clock: FakeClock, url: str) -> None:
        self.app, self.pipelines, self.clock, self.url = app, pipelines, clock, url
        self.senders = senders_of(pipelines)

    async def submit(self, payload: Any = "hello", *, pipeline: reprieve.Pipeline | None = None, **options: Any) -> int:
        wanted = {"subject": "cl-1", "version": 1} | options
        job = await self.app.submit(self.pipelines[0] if pipeline is None else pipeline, payload, **wanted)
        return job.job_id

    async def work(self) -> int:
        """Run every job that is ready now, one after another; how many runs that were."""
        runs = 0
        worker_of = self.app._worker(self.pipelines, WorkerSettings(concurrency=1), draw=lambda: 0.999)
        async with worker_of as worker:
            await worker.come()
            await worker.promote()
            while leases := await worker.claim(1):
                for lease in leases:
                    runs += 1
                    await worker.run(lease)
            await worker.leave()
        return runs

    async def sweep(self) -> Any:
        """Everything that is due now, once."""
        return await Sweep(self.app.journal, self.app.deliveries, self.senders, clock=self.clock).once()

    async def settle(self, *, rounds: int = 50) -> None:
        """Sweep and work until neither does anything."""
        for _ in range(rounds):
            swept = await self.sweep()
            if not await self.work() and not any((swept.looked_at, swept.given_up, swept.woken)):
                return
        raise AssertionError(f"still not settled after {rounds} rounds")

    def job(self, job_id: int) -> Any:
        return self.app.reader.job(job_id)

    def rows(self, **wanted: Any) -> dict[str, Any]:
        """Deliveries by the last part of their recipients."""
        found = self.app.deliveries.deliveries(DeliveryFilter(**wanted))
        return {name_of(row.recipient): row for row in found}

    def row(self, **wanted: Any) -> Any:
        (only,) = self.rows(**wanted).values()
        return only

    def log(self, name: str) -> list[tuple[str, str]]:
        """What was tried for one, and what came of it."""
        row = self.rows()[name]
        return [(each.kind, each.answer) for each in self.app.deliveries.delivery(row.delivery_id).attempts]

    def change(self, delivery_id: int, **values: Any) -> None:
        """Behind everybody's back."""
        change_row(self.url, delivery_id, **values)


def change_row(url: str, delivery_id: int, **values: Any) -> None:
    database = Database.at(url, writes=True)
    try:
        with database.transaction() as connection:
            table = tables.metadata.tables["deliveries"]
            connection.execute(update(table).where(table.c.id == delivery_id).values(**values))
    finally:
        database.close()


def read_rows(url: str) -> dict[str, dict[str, Any]]:
    """The table itself, as anybody who looks at this moment finds it."""
    database = Database.at(url, writes=False)
    try:
        with database.transaction() as connection:
            found = connection.execute(select(tables.metadata.tables["deliveries"])).mappings()
            return {name_of(row["recipient"]): dict(row) for row in found}
    finally:
        database.close()


@asynccontextmanager
async def desk(url: str, *pipelines: reprieve.Pipeline, clock: FakeClock | None = None) -> AsyncIterator[Desk]:
    """Open it; senders let go of their connections at the end."""
    time = FakeClock() if clock is None else clock
    async with reprieve.connect(url, clock=time) as app, asyncio.timeout(60):
        opened = Desk(app, pipelines, time, url)
        try:
            yield opened
        finally:
            for sender in opened.senders.values():
                await sender.close()
