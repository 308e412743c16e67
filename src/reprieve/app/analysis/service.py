"""`analyze` and `analyze_many`: what is known is served, what is not is asked once, by whoever reserves it first."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from random import random
from typing import TYPE_CHECKING, Any, Final, Generic, TypedDict, TypeVar

from reprieve.app.alerts import Alerts
from reprieve.app.analysis.asking import Asker, Halt
from reprieve.app.analysis.holding import Holds
from reprieve.app.analysis.looking import MOST, Looker
from reprieve.app.analysis.questions import Question, named
from reprieve.app.analysis.results import Analyzed, Batch, Progress
from reprieve.app.answers import UnfitError
from reprieve.app.material import as_given
from reprieve.app.profiles import resolve
from reprieve.app.worker.time import StoreTime
from reprieve.core import repair
from reprieve.core.analysis import AnalysisStatus, Standing, standing
from reprieve.core.record import writable
from reprieve.errors import UsageError
from reprieve.ports.intents import Recall, Reserve
from reprieve.ports.modelling import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from reprieve.app.analysis.questions import Schema
    from reprieve.app.journal import Journal
    from reprieve.app.profiles import ProfileLike
    from reprieve.ports.clock import Clock
    from reprieve.ports.intents import AnalysisRow
    from reprieve.ports.modelling import Model

T = TypeVar("T")

_FIRST_POLL: Final = 0.02
_LONGEST_POLL: Final = 0.5
_KNOWN: Final = (Standing.SETTLED, Standing.LATER)
"""Nobody has to be asked, or may be, for now."""
_RESYNC: Final = 30.0
"""Seconds after which the store's clock is looked at again."""


class AnalysisOptions(TypedDict, total=False):
    """What an analysis takes besides its question."""

    system: str
    """Instructions for the model; part of the question."""
    max_tokens: int | None
    profile: ProfileLike
    timeout: float
    """Seconds for each call of the model."""
    concurrency: int
    """Questions that a batch asks at a time."""
    lease: float
    """Seconds after which others may ask what a process was asking that died; one that lives holds on for as long as it asks."""
    name: str
    """By which alerts know it."""
    draw: Callable[[], float]
    """Chance, for repeatable runs."""


class Analysis(Generic[T]):
    """One question about many signatures; belongs to one event loop."""

    def __init__(  # noqa: PLR0913 - a table of options, nearly all by keyword
        self,
        journal: Journal,
        model: Model,
        *,
        prompt: str,
        schema: Schema,
        system: str = "",
        max_tokens: int | None = None,
        profile: ProfileLike = "analysis",
        timeout: float = 60.0,
        concurrency: int = 8,
        lease: float = 30.0,
        clock: Clock,
        draw: Callable[[], float] = random,
        name: str = "analysis",
        alerts: Alerts | None = None,
    ) -> None:
        """Check the question at once; nothing is asked yet."""
        if concurrency < 1 or timeout <= 0 or lease <= 0:
            raise UsageError("concurrency is at least 1; timeout and lease are more than 0 seconds")
        self._journal, self._clock, self._concurrency = journal, clock, concurrency
        self._question: Question[T] = Question(prompt, schema, system=system, max_tokens=max_tokens)
        self._time, self._synchronized = StoreTime(journal.store, clock), -_RESYNC
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(6)}"
        self._alerts, self._name = Alerts(journal) if alerts is None else alerts, name
        self._asker = Asker(
            journal=journal, model=model, question=self._question, profile=resolve(profile), timeout=timeout, clock=clock,
            time=self._time, draw=draw, alerts=self._alerts, holds=Holds(journal, self._time, lease), source=name,
        )  # fmt: skip
        self._looker = Looker(journal)
        self._flights: dict[str, _Flight[T]] = {}

    @property
    def question(self) -> str:
        """The version of the question: another prompt or schema has another."""
        return self._question.version

    async def analyze(self, signature: str, samples: Sequence[object] = ()) -> Analyzed[T]:
        """What is known of a signature; where nothing is, the model is asked, once for all who ask meanwhile.

        What the provider refuses, or no answer fits, is told by the status, not raised. A signature that somebody else asks
        about is waited for.
        """
        signature = named(signature)
        if signature not in self._flights:
            # Most are known: nothing is set up for them.
            row = await self._looker.one(signature)
            if row is not None and self._stands(row) is Standing.SETTLED:
                found = await self._told(row, samples)
                if found is not None:
                    return found
        return await self._fly(signature, samples, Halt())

    async def analyze_many(
        self,
        items: Mapping[str, Sequence[object]] | Iterable[tuple[str, Sequence[object]]],
        *,
        progress: Callable[[Progress], None] | None = None,
    ) -> Batch[T]:
        """The same for many: signatures with their samples. The first failure that all would meet stops the batch."""
        wanted = _gathered(items)
        tally: _Tally[T] = _Tally(len(wanted), progress)
        await self._synchronize()
        names = list(wanted)
        for start in range(0, len(names), MOST):
            part = names[start : start + MOST]
            found = await self._looker.many(part)
            for signature in part:
                row = found.get(signature)
                if (
                    row is not None
                    and self._stands(row) in _KNOWN
                    and (told := await self._told(row, wanted[signature])) is not None
                ):
                    tally.add(told)
        left = [signature for signature in names if signature not in tally.results]
        halt = Halt()
        queue = iter(left)

        async def work() -> None:
            for signature in queue:
                if halt.why is not None:
                    return
                tally.add(await self._fly(signature, wanted[signature], halt))

        await _all([work() for _ in range(min(self._concurrency, len(left)))])
        batch = Batch(total=len(wanted), results=tally.results, stopped=halt.why)
        if batch.stopped is None:  # else most of it was not judged, which says nothing
            skipped = batch.count(AnalysisStatus.SKIPPED)
            await self._alerts.batch(source=self._name, skipped=skipped, total=batch.total, profile=self._asker.profile)
        return batch

    # --- one signature ------------------------------------------------------------------------------------------------

    async def _fly(self, signature: str, samples: Sequence[object], halt: Halt) -> Analyzed[T]:
        """Together with all in this process who ask the same; ends where nobody waits any more."""
        flight = self._flights.get(signature)
        joins = flight is not None
        if flight is None:
            task = asyncio.ensure_future(self._settle(signature, samples, halt))
            flight = self._flights[signature] = _Flight(task)
            task.add_done_callback(partial(self._land, signature))
        flight.waiting += 1
        try:
            found = await asyncio.shield(flight.task)
            return replace(found, usage=Usage()) if joins else found  # it is paid for once
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._flights.pop(signature, None)
                flight.task.cancel()

    def _land(self, signature: str, task: asyncio.Future[Analyzed[T]]) -> None:
        flight = self._flights.get(signature)
        if flight is not None and flight.task is task:
            del self._flights[signature]

    async def _settle(self, signature: str, samples: Sequence[object], halt: Halt) -> Analyzed[T]:
        pause = _FIRST_POLL
        await self._synchronize()
        while True:
            row = await self._looker.one(signature)
            stands = Standing.FREE if row is None else self._stands(row)
            if stands is Standing.BUSY:
                await self._clock.sleep_async(pause)
                pause = min(2 * pause, _LONGEST_POLL)
                continue
            unfit = None
            if row is not None and stands in _KNOWN:
                found = await self._told(row, samples)
                if found is not None:
                    return found
                unfit = row.fence
            mine = await self._reserved(signature, unfit)
            took = None if mine is None else await self._asker.ask(mine, samples, halt)
            if took is not None:
                row = await self._looker.one(signature)
                found = None if row is None else await self._told(row, samples)
                if found is not None:
                    return replace(found, cached=False, usage=took)

    async def _reserved(self, signature: str, unfit: int | None) -> AnalysisRow | None:
        """The row, held by this one; None where somebody else was faster. `unfit` is the fence of an answer that does not fit any more."""
        await self._synchronize()
        now = self._time.now()
        wanted = Reserve(
            signatures=(signature,), question=self.question, owner=self._owner, until=now + self._asker.holds.lease,
            now=now, unfit=() if unfit is None else ((signature, unfit),),
        )  # fmt: skip
        answer = await self._journal.ask(wanted)
        return answer.rows[0] if answer.mine else None

    async def _synchronize(self) -> None:
        if self._clock.monotonic() - self._synchronized >= _RESYNC:
            self._synchronized = self._clock.monotonic()
            await self._journal.look(self._time.synchronize)

    def _stands(self, row: AnalysisRow) -> Standing:
        return standing(
            row.status, same_question=row.question == self.question, by_hand=row.is_human_verified,
            leased_until=row.leased_until, retry_after=row.retry_after, now=self._time.now(),
        )  # fmt: skip

    async def _told(self, row: AnalysisRow, samples: Sequence[object]) -> Analyzed[T] | None:
        """What is known, as it is served; None where it has to be asked anew.

        An answer that does not fit any more goes back to a person where a person verified it, and else to the model: what
        checks it has changed, though the schema has not.
        """
        status, value = row.status, None
        if row.answer is not None:
            try:
                value = self._value(row, row.answer)
            except UnfitError as error:
                if not row.is_human_verified:
                    return None
                status, row = AnalysisStatus.NEEDS_REVIEW, await self._recalled(row, error, samples)
        return Analyzed(
            signature=row.signature, status=status, value=value, cached=True, model=row.model, error_type=row.error_type,
            is_human_verified=row.is_human_verified and status is AnalysisStatus.ANALYZED, error_reason=row.error_reason,
            failure_count=row.failure_count, retry_after=row.retry_after,
        )  # fmt: skip

    def _value(self, row: AnalysisRow, answer: bytes) -> T:
        if row.question == self.question and not row.is_human_verified:
            return self._question.kept(answer)
        return self._question.form.read(answer.decode())

    async def _recalled(self, row: AnalysisRow, error: UnfitError, samples: Sequence[object]) -> AnalysisRow:
        kinds = ", ".join(dict.fromkeys(problem.kind for problem in error.problems))
        material = {
            "schema": self._question.form.json_schema,
            "samples": [writable(each if isinstance(each, str) else repair.compact(each)) for each in samples],
            "answers": [{
                "text": (row.answer or b"").decode(), "finish": "verified", "errors": list(repair.told(error.problems)),
            }],
        }  # fmt: skip
        await self._synchronize()
        recall = Recall(
            signature=row.signature, fence=row.fence, question=self.question, now=self._time.now(),
            reason=f"what a person verified does not fit the schema as it is now ({kinds})", material=as_given(material),
        )  # fmt: skip
        await self._journal.ask(recall)
        return await self._looker.one(row.signature) or row


class _Flight(Generic[T]):
    """A question under way, and how many wait for it."""

    __slots__ = ("task", "waiting")

    def __init__(self, task: asyncio.Future[Analyzed[T]]) -> None:
        self.task, self.waiting = task, 0


class _Tally(Generic[T]):
    """What came of a batch so far, and who is told."""

    def __init__(self, total: int, progress: Callable[[Progress], None] | None) -> None:
        self._total, self._progress = total, progress
        self.results: dict[str, Analyzed[T]] = {}
        self._counts = dict.fromkeys(AnalysisStatus, 0)
        self._cached = 0

    def add(self, result: Analyzed[T]) -> None:
        self.results[result.signature] = result
        self._counts[result.status] += 1
        self._cached += result.cached
        if self._progress is not None:
            self._progress(
                Progress(
                    done=len(self.results), total=self._total, cached=self._cached,
                    analyzed=self._counts[AnalysisStatus.ANALYZED], skipped=self._counts[AnalysisStatus.SKIPPED],
                    needs_review=self._counts[AnalysisStatus.NEEDS_REVIEW],
                )
            )  # fmt: skip


def _gathered(items: Any) -> dict[str, list[object]]:  # noqa: ANN401 - checked here
    """Signatures with all of their samples, each signature once."""
    wanted: dict[str, list[object]] = {}
    for signature, samples in items.items() if isinstance(items, Mapping) else items:
        if isinstance(samples, str | bytes):
            raise UsageError("the samples of a signature are a list, not one text")
        wanted.setdefault(named(signature), []).extend(samples)
    return wanted


async def _all(tasks: Sequence[Any]) -> None:
    """All of them; the first that raises ends the others."""
    try:
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(task)
    except BaseExceptionGroup as several:
        error: BaseException = several
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
