"""Group commit: whoever wants something of the store waits here, and one writer takes all that wait in one transaction.

So durability costs one fsync a batch, not one a stage. What a caller asked for still happens when the caller is
cancelled: only the answer is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from reprieve.app.redaction import redact_exception
from reprieve.errors import StoreRefusedError, StoreUnavailableError
from reprieve.ports import intents as i

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from reprieve.ports.clock import Clock
    from reprieve.ports.store import Store

_LOG: Final = logging.getLogger("reprieve.journal")
_MOST: Final = 1000
"""Intents in a batch: beyond that a transaction only gets longer."""
_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 2.0

_T = TypeVar("_T")
_WrittenIntent = TypeVar(
    "_WrittenIntent",
    i.Checkpoint, i.Finish, i.Retry, i.Bury, i.SetAside, i.Await, i.Release, i.Remember, i.Complete, i.Stop,
)  # fmt: skip


class _Entry:
    """Somebody who waits for the answer to one intent, or to several at once."""

    __slots__ = ("answer", "deadline", "intents", "is_one")

    def __init__(
        self, intents: Sequence[i.Intent], answer: Future[Any], deadline: float | None, *, is_one: bool
    ) -> None:
        self.intents, self.answer, self.deadline, self.is_one = intents, answer, deadline, is_one

    def resolve(self, value: object) -> None:
        if not self.answer.done():
            self.answer.set_result(value)

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # whoever stopped waiting for it need not be warned


class Journal:
    """One writer over a store; belongs to one event loop."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self.store = store
        self.workers: set[int] = set()
        """The ids of the workers that live in this process."""
        self._clock = clock
        self._waiting: deque[_Entry] = deque()
        self._current: list[_Entry] = []
        self._pause = _FIRST_WAIT
        self._something = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Begin to write."""
        self._writer = self._loop.create_task(self._write(), name="reprieve-journal")
        self._writer.add_done_callback(self._go_on)

    def _go_on(self, writer: asyncio.Task[None]) -> None:
        """When all tasks are cancelled at once, as asyncio does on Ctrl-C, those who clean up still have something to say."""
        if self._writer is writer and self._waiting:
            self.start()

    async def close(self) -> None:
        """Write what waits, then stop; what cannot be written is told to those who wait for it."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        self._something.set()
        await asyncio.wait([writer])
        for entry in self._waiting:
            entry.fail(StoreUnavailableError("the application was closed"))

    @overload
    def ask(
        self, intent: i.Submit, *, patience: float | None = None
    ) -> Future[i.Submitted | i.KeyTaken | i.VersionTooLow]: ...
    @overload
    def ask(self, intent: i.Claim, *, patience: float | None = None) -> Future[i.Claimed]: ...
    @overload
    def ask(self, intent: i.Promote, *, patience: float | None = None) -> Future[i.Promoted]: ...
    @overload
    def ask(self, intent: i.Cancel, *, patience: float | None = None) -> Future[i.Cancelled]: ...
    @overload
    def ask(self, intent: i.Renew, *, patience: float | None = None) -> Future[i.Renewed]: ...
    @overload
    def ask(self, intent: i.Register | i.Wake, *, patience: float | None = None) -> Future[int]: ...
    @overload
    def ask(self, intent: i.StageIntent | i.Leave | i.Lost, *, patience: float | None = None) -> Future[bool]: ...
    @overload
    def ask(self, intent: _WrittenIntent, *, patience: float | None = None) -> Future[i.Written]: ...
    def ask(self, intent: i.Intent, *, patience: float | None = None) -> Future[Any]:
        """The answer, once it is durable; while the store cannot be reached it is tried again, for `patience` seconds if given."""
        return self._wait((intent,), patience, is_one=True)

    def ask_all(
        self, intents: Sequence[i.Submit], *, patience: float | None = None
    ) -> Future[list[i.Submitted | i.KeyTaken | i.VersionTooLow]]:
        """The answers to many at once, which are applied together."""
        return self._wait(intents, patience, is_one=False)

    async def look(self, at: Callable[[], Awaitable[_T]]) -> _T:
        """What a look at the store finds; while the store cannot be reached it is tried again."""
        pause = _FIRST_WAIT
        while True:
            try:
                return await at()
            except StoreUnavailableError as error:
                if self._writer is None:
                    raise
                _LOG.warning("the store is not there, looking again in %.2g s: %s", pause, error)
            await self._clock.sleep_async(pause)
            pause = min(2 * pause, _LONGEST_WAIT)

    def _wait(self, intents: Sequence[i.Intent], patience: float | None, *, is_one: bool) -> Future[Any]:
        if self._writer is None:
            raise StoreUnavailableError("the application is closed")
        if self._writer.done():
            self.start()
        answer: Future[Any] = self._loop.create_future()
        deadline = None if patience is None else self._clock.monotonic() + patience
        self._waiting.append(_Entry(intents, answer, deadline, is_one=is_one))
        self._something.set()
        return answer

    async def _write(self) -> None:
        while self._waiting or self._writer is not None:
            while self._waiting:
                self._current = self._next_batch()
                try:
                    await self._apply(self._current)
                except asyncio.CancelledError:
                    for entry in self._current:
                        entry.fail(StoreUnavailableError("the application was closed", outcome_unknown=True))
                    raise
                self._current = []
            if self._writer is not None:
                self._something.clear()
                await self._something.wait()

    def _next_batch(self) -> list[_Entry]:
        """The oldest that wait, at most one about each job: two about one job keep their order."""
        waiting = self._waiting
        batch: list[_Entry] = []
        later: list[_Entry] = []
        jobs: set[int] = set()
        count = 0
        while waiting and count < _MOST:
            entry = waiting.popleft()
            count += len(entry.intents)
            job_id = getattr(entry.intents[0], "job_id", None) if entry.is_one else None
            if job_id is None:
                batch.append(entry)
            elif job_id in jobs:
                later.append(entry)
            else:
                jobs.add(job_id)
                batch.append(entry)
        waiting.extendleft(reversed(later))
        return batch

    async def _apply(self, batch: list[_Entry], *, again: bool = False) -> None:
        while batch:
            try:
                answers = await self.store.apply([intent for entry in batch for intent in entry.intents], again=again)
            except StoreUnavailableError as error:
                _LOG.warning("the store is not there, trying again in %.2g s: %s", self._pause, error)
                again = again or error.outcome_unknown
                batch = self._still_waiting(batch, StoreUnavailableError(str(error), outcome_unknown=again))
                if not again:
                    batch = self._behind_others(batch)
                await self._clock.sleep_async(self._pause)
                self._pause = min(2 * self._pause, _LONGEST_WAIT)
            except StoreRefusedError as error:
                await self._one_by_one(batch, error, again=again)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
                _LOG.error("a batch failed for a reason nobody expected:\n%s", redact_exception(error))
                for entry in batch:
                    entry.fail(error)
                return
            else:
                self._pause = _FIRST_WAIT
                at = 0
                for entry in batch:
                    entry.resolve(answers[at] if entry.is_one else list(answers[at : at + len(entry.intents)]))
                    at += len(entry.intents)
                return

    def _still_waiting(self, batch: list[_Entry], error: StoreUnavailableError) -> list[_Entry]:
        """Without those whose patience is over, and without claims: a worker has to ask anew for what it may have got.

        When the journal is being closed, only those wait on who said for how long.
        """
        now = self._clock.monotonic()
        if self._writer is None:
            for entry in (*batch, *self._waiting):
                if entry.deadline is None:
                    entry.deadline = now
        self._waiting = deque(_kept(self._waiting, now, StoreUnavailableError(str(error))))
        return _kept(batch, now, error)

    def _behind_others(self, batch: list[_Entry]) -> list[_Entry]:
        """Without submissions, which line up again: somebody's open transaction may hold a key, and heartbeats must not wait for it."""
        submissions = [entry for entry in batch if isinstance(entry.intents[0], i.Submit)]
        others = [entry for entry in batch if not isinstance(entry.intents[0], i.Submit)]
        if not submissions or not (others or self._waiting):
            return batch
        self._waiting.extend(submissions)
        return others

    async def _one_by_one(self, batch: list[_Entry], error: StoreRefusedError, *, again: bool) -> None:
        """One bad intent fails alone."""
        if len(batch) == 1:
            batch[0].fail(error)
            return
        for entry in batch:
            await self._apply([entry], again=again)


def _kept(entries: Iterable[_Entry], now: float, error: StoreUnavailableError) -> list[_Entry]:
    kept = []
    for entry in entries:
        if isinstance(entry.intents[0], i.Claim) or (entry.deadline is not None and now >= entry.deadline):
            entry.fail(error)
        else:
            kept.append(entry)
    return kept
