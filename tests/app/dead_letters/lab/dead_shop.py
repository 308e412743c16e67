"""A shop whose stages fail as a test wishes, and its dead letters: what the tests of operators' work share."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import reprieve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reprieve.app.operations.dead_letters import DeadLetterOperations
    from reprieve.core.lifecycle import LetterState
    from reprieve.ports.dead_letters import LetterDetail

QUICK = reprieve.load_profiles()["criticizer"].override(backoff=reprieve.Backoff(initial=0.01, maximum=0.02))
GATES = {"cause": "data", "evidence": "INC-1: the source was corrected", "safe": "written by key"}
"""What a replay in one go is told."""


@dataclass
class Order:
    number: int
    country: str = "JP"


@dataclass
class Shop:
    """An application, its pipeline, and what happens in its stages."""

    app: Any
    pipeline: reprieve.Pipeline = field(init=False)
    troubles: dict[str, Any] = field(default_factory=dict)
    """What a stage raises, by its name: an exception, or a function of the payload that raises."""
    runs: list[tuple[str, int, Order, int]] = field(default_factory=list)
    """Every run of a stage: its name, the job, the payload and the attempt."""

    def __post_init__(self) -> None:
        self.pipeline = pipeline = reprieve.Pipeline("orders", profile=QUICK)

        @pipeline.stage
        async def fetch(job: reprieve.Job[Order]) -> int:
            self.meet("fetch", job)
            return job.payload.number

        @pipeline.stage
        async def price(job: reprieve.Job[Order], number: int) -> int:
            self.meet("price", job)
            return 10 * number

        @pipeline.stage
        async def notify(job: reprieve.Job[Order], cents: int) -> str:
            self.meet("notify", job)
            return f"{job.payload.country} {cents}"

    def meet(self, stage: str, job: reprieve.Job[Order]) -> None:
        self.runs.append((stage, job.id, job.payload, job.attempt))
        trouble = self.troubles.get(stage)
        if isinstance(trouble, BaseException):
            raise trouble.with_traceback(None)  # else it grows from job to job, and with it the fingerprint
        if trouble is not None:
            trouble(job.payload)

    @property
    def letters(self) -> DeadLetterOperations:
        letters: DeadLetterOperations = self.app.operations.dead_letters
        return letters

    @property
    def stages(self) -> list[str]:
        """Which stages have run since the last look."""
        ran = [stage for stage, *_ in self.runs]
        self.runs.clear()
        return ran

    async def work(self) -> None:
        await self.app.work(self.pipeline, until_idle=True, poll=0.05)

    async def bury(self, *orders: Order, stage: str = "notify", trouble: Any = None) -> list[int]:
        """Jobs that die at a stage; the ids of their dead letters, in the same order."""
        self.troubles[stage] = reprieve.Permanent("no such country") if trouble is None else trouble
        made = await self.app.submit_many(self.pipeline, orders or [Order(1)])
        await self.work()
        self.runs.clear()
        return [(await self.letters.show(f"job:{each.job_id}")).row.letter_id for each in made]

    def mend(self) -> None:
        """From now on nothing fails."""
        self.troubles.clear()

    async def state(self, letter_id: int) -> LetterState:
        return (await self.letters.show(letter_id)).row.state

    async def events(self, letter_id: int) -> list[str]:
        return [entry.event for entry in (await self.letters.show(letter_id)).history]

    async def whole(self, letter_id: int) -> tuple[LetterDetail, Any, bytes | None]:
        """All that there is of a dead letter and of its job."""
        detail = await self.letters.show(letter_id)
        job_id = detail.row.job_id
        return detail, await self.app.operations.jobs.show(job_id), await self.app.operations.jobs.payload(job_id)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Shop]:
    """A shop on this database."""
    async with reprieve.connect(url) as app:
        yield Shop(app)
