"""A pipeline that is broken until it is mended, its dead letters, and what a campaign leaves behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

import reprieve
from reprieve.adapters.sql import tables
from reprieve.adapters.sql.engine import Database
from reprieve.app.campaigns import Steward
from reprieve.core.canary import CampaignState
from reprieve.ports.dead_letters import LetterFilter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from reprieve.ports.dead_letters import CampaignRow

ALL_STEPS = {"cause": "code", "evidence": "the fix is deployed", "safe": True}


class Lab:
    """An application, and jobs that die as long as `fails` says so."""

    def __init__(self, url: str, app: reprieve.App) -> None:
        self.url, self.app = url, app
        self.fails: Callable[[int], BaseException | None] = lambda _: None
        self.runs: Counter[tuple[str, int]] = Counter()
        self.campaigns = app.operations.campaigns
        self.letters = app.operations.dead_letters
        self.pipeline = reprieve.Pipeline("review")

        @self.pipeline.stage
        async def fetch(job: reprieve.Job[int]) -> int:
            self.runs["fetch", job.payload] += 1
            return job.payload

        @self.pipeline.stage
        async def llm(job: reprieve.Job[int], n: int) -> int:
            self.runs["llm", n] += 1
            await asyncio.sleep(0)
            if (error := self.fails(n)) is not None:
                raise error
            return n

    def steward(self) -> Steward:
        """One that nobody but the test lets step."""
        app = self.app
        return Steward(app._store, app._journal_aside, app.letters, clock=app._clock)

    async def work(self, *pipelines: reprieve.Pipeline, **options: Any) -> None:
        await self.app.work(*(pipelines or (self.pipeline,)), until_idle=True, poll=0.05, **options)

    async def bury(self, count: int, *, start: int = 0) -> str:
        """So many jobs die of one failure; the fingerprint of their group."""
        before, self.fails = self.fails, broken
        await self.app.submit_many(self.pipeline, list(range(start, start + count)))
        await self.work()
        self.fails = before
        (row,) = await self.letters.list(LetterFilter(limit=1))
        return row.fingerprint

    async def approve(self, fingerprint: str) -> None:
        group = LetterFilter(fingerprint=fingerprint)
        await self.letters.triage(group, "code", actor="ada")
        await self.letters.remediate(group, "the fix is deployed", actor="ada")
        await self.letters.approve(group, "the stage is idempotent", actor="ada")

    async def states(self) -> dict[str, int]:
        """How many dead letters are in which state."""
        return dict(Counter(row["state"] for row in self.rows("dead_letters")))

    def rows(self, table: str, **where: Any) -> list[dict[str, Any]]:
        wanted = tables.metadata.tables[table]
        query = select(wanted).filter_by(**where).order_by(*wanted.primary_key.columns)
        database = Database.at(self.url, writes=False)
        try:
            with database.transaction() as connection:
                return [dict(row) for row in connection.execute(query).mappings()]
        finally:
            database.close()

    def replays(self) -> Counter[int]:
        """How often each dead letter was replayed, by its history."""
        return Counter(
            row["letter_id"] for row in self.rows("dead_letter_history") if row["event"] in {"replay", "override"}
        )

    def waves(self, campaign_id: int) -> list[int]:
        """How many members each wave had, in order."""
        counted = Counter(row["wave"] for row in self.rows("campaign_members", campaign_id=campaign_id))
        return [counted[wave] for wave in sorted(wave for wave in counted if wave is not None)]


def broken(n: int) -> BaseException:
    return reprieve.Permanent(f"{n} cannot be read")


def otherwise(n: int) -> BaseException:
    return KeyError(n)


@asynccontextmanager
async def open_lab(url: str, **options: Any) -> AsyncIterator[Lab]:
    async with reprieve.connect(url, **options) as app:
        yield Lab(url, app)


def summary(row: CampaignRow) -> dict[str, int]:
    """What became of the members, without what there is none of."""
    return {state.value: number for state, number in row.members.items() if number}


DONE, STOPPED = CampaignState.DONE, CampaignState.STOPPED
