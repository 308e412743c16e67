"""A bench to work jobs on: one database, a worker in this process, and what it leaves behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

import reprieve
from reprieve.adapters.sql import tables
from reprieve.adapters.sql.engine import Database

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from reprieve.ports.reader import DeadLetterView, JobView

LONG = 30.0
"""Seconds after which something that has to happen is taken not to: never reached by a test that passes."""
SOON = reprieve.Backoff(initial=0.01, maximum=0.02)
"""Waits that a test can sit through."""


class Holding:
    """The application's own journal, which lets a test hold an intent back until something else has happened."""

    def __init__(self, journal: Any) -> None:
        self._real = journal
        self._asked: list[Any] = []
        self._held: list[tuple[Callable[[Any], bool], asyncio.Event]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def hold(self, matches: Callable[[Any], bool]) -> asyncio.Event:
        """Hold the next such intent back; setting the event lets it go."""
        let_go = asyncio.Event()
        self._held.append((matches, let_go))
        return let_go

    def asked_for(self, kind: type) -> list[Any]:
        """The intents of a kind so far, those that are held back included."""
        return [intent for intent in self._asked if isinstance(intent, kind)]

    def ask(self, intent: Any, **options: Any) -> Any:
        self._asked.append(intent)
        for held in self._held:
            if held[0](intent):
                self._held.remove(held)
                return asyncio.ensure_future(self._later(held[1], intent, options))
        return self._real.ask(intent, **options)

    async def _later(self, let_go: asyncio.Event, intent: Any, options: dict[str, Any]) -> Any:
        await let_go.wait()
        return await self._real.ask(intent, **options)


class Bench:
    """A database, and the engine on it; `app` is there inside `run`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.app: reprieve.App
        self._database = Database.at(url, writes=False)

    def close(self) -> None:
        self._database.close()

    def run(self, main: Callable[[], Awaitable[Any]]) -> Any:
        """Open the application for as long as this coroutine takes."""

        async def opened() -> Any:
            async with reprieve.connect(self.url) as self.app, asyncio.timeout(LONG):
                return await main()

        return asyncio.run(opened())

    def holding(self) -> Holding:
        """Have the application ask through a journal that can be held back."""
        made = self.app._journal = Holding(self.app.journal)  # type: ignore[assignment]  # all that a journal has
        return made

    async def submit(self, pipeline: reprieve.Pipeline, payload: Any = None, **options: Any) -> int:
        return (await self.app.submit(pipeline, payload, **options)).job_id

    async def work(self, *pipelines: reprieve.Pipeline, **options: Any) -> None:
        """Until nothing is left to do."""
        await self.app.work(*pipelines, **{"until_idle": True, "poll": 0.05, "grace": 5.0} | options)

    async def work_until(self, pipeline: reprieve.Pipeline, true: Callable[[], Any], **options: Any) -> None:
        """With a worker that is told to go as soon as something is true."""
        working = asyncio.create_task(self.work(pipeline, **{"until_idle": False, "grace": 0.0} | options))
        await self.until(lambda: true() or working.done())
        working.cancel()
        await asyncio.wait([working])
        if not working.cancelled():
            working.result()

    def process(self, pipeline: reprieve.Pipeline, payload: Any = None, **options: Any) -> int:
        """Submit one job and work until nothing is left to do; its id."""

        async def main() -> int:
            job_id = await self.submit(pipeline, payload, **options)
            await self.work(pipeline)
            return job_id

        return int(self.run(main))

    def job(self, job_id: int) -> JobView:
        """Asked by a reader of its own, so that it can be asked at any time."""
        view = self.look(lambda reader: reader.job(job_id))
        assert view is not None
        return view

    def letter(self, job_id: int) -> DeadLetterView:
        letter = self.look(lambda reader: reader.dead_letter_of(job_id))
        assert letter is not None
        return letter

    def result(self, job_id: int, pipeline: reprieve.Pipeline | None = None) -> Any:
        """What a job that is over returned."""

        async def main() -> Any:
            return await self.app.wait(job_id, timeout=LONG, pipeline=pipeline)

        return self.run(main)

    def look(self, what: Callable[[Any], Any]) -> Any:
        from reprieve.adapters.sql.reader import SqlReader  # noqa: PLC0415 - only here

        reader = SqlReader(self.url)
        try:
            return what(reader)
        finally:
            reader.close()

    def rows(self, table: str, **where: Any) -> list[dict[str, Any]]:
        wanted = tables.metadata.tables[table]
        query = select(wanted).filter_by(**where).order_by(*wanted.primary_key.columns)
        with self._database.transaction() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    async def until(self, true: Callable[[], Any]) -> Any:
        """Wait for something; its value, once that is true."""
        while not (value := true()):  # noqa: ASYNC110 - what it waits for is in a database
            await asyncio.sleep(0.01)
        return value


@pytest.fixture
def bench(store_url: str) -> Iterator[Bench]:
    """A bench on each of the two databases."""
    made = Bench(store_url)
    yield made
    made.close()


@pytest.fixture
def quick() -> reprieve.Profile:
    """The Criticizer's profile, with waits that a test can sit through."""
    return reprieve.load_profiles()["criticizer"].override(backoff=SOON)


@pytest.fixture
def quickly() -> Callable[[str], reprieve.Profile]:
    """Any profile, with such waits."""
    return lambda name: reprieve.load_profiles()[name].override(backoff=SOON, backoff_by_category={})
