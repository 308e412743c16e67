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
_MOST_BYTES: Final = 32 * 1024 * 1024
"""Of payloads and results in a batch, unless it is a single one: servers take no statement of a gigabyte."""
LONGEST_APPLY: Final = 15.0
"""Seconds after which a store that neither answers nor breaks is given up."""
_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 2.0

_SIGNS_OF_LIFE: Final = (i.Renew, i.Register, i.Leave, i.Lost, i.Prolong)
_T = TypeVar("_T")
_WrittenIntent = TypeVar(
    "_WrittenIntent",
    i.Checkpoint, i.Finish, i.Retry, i.Bury, i.SetAside, i.Await, i.Release, i.Remember, i.Complete, i.Stop,
    i.Begin, i.End, i.Correct, i.Conclude, i.Fault, i.LetGo, i.Recall, i.Told,
)  # fmt: skip


class _Entry:
    """Somebody who waits for the answer to one intent, or to several at once."""

    __slots__ = ("answer", "deadline", "held_up", "in_doubt", "intents", "is_one", "size")

    def __init__(
        self, intents: Sequence[i.Intent], answer: Future[Any], deadline: float | None, *, is_one: bool
    ) -> None:
        self.intents, self.answer, self.deadline, self.is_one = intents, answer, deadline, is_one
        self.held_up = False
        """Whether somebody's lock held it up: it is tried alone, when nobody else waits."""
        self.in_doubt = False
        """Whether an earlier try may have taken effect."""
        self.size = (
            _size(intents[0])
            if is_one
            else sum([len(intent.payload) for intent in intents if isinstance(intent, i.Submit)])
        )

    def resolve(self, value: object) -> None:
        if not self.answer.done():
            self.answer.set_result(value)

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # whoever stopped waiting for it need not be warned


class Journal:
    """One writer over a store; belongs to one event loop."""

    def __init__(self, store: Store, *, clock: Clock, longest_apply: float = LONGEST_APPLY) -> None:
        self.store = store
        self.workers: set[int] = set()
        """The ids of the workers that live in this process."""
        self.underway: set[int] = set()
        """The ids of the deliveries that somebody in this process is at: no other here takes them, whatever a clock says."""
        self._clock, self._longest_apply = clock, longest_apply
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
    def ask(
        self,
        intent: i.Register | i.Wake | i.Settle | i.Enlist | i.WakeDelivered | i.Prolong,
        *,
        patience: float | None = None,
    ) -> Future[int]: ...
    @overload
    def ask(
        self, intent: i.StageIntent | i.Leave | i.Lost | i.Steer | i.Acknowledge, *, patience: float | None = None
    ) -> Future[bool]: ...
    @overload
    def ask(self, intent: i.Remedy | i.Replay, *, patience: float | None = None) -> Future[i.Remedied]: ...
    @overload
    def ask(self, intent: i.Prepare, *, patience: float | None = None) -> Future[i.Prepared]: ...
    @overload
    def ask(self, intent: i.Reserve, *, patience: float | None = None) -> Future[i.Reserved]: ...
    @overload
    def ask(self, intent: i.Reset, *, patience: float | None = None) -> Future[i.WasReset]: ...
    @overload
    def ask(self, intent: i.Rule, *, patience: float | None = None) -> Future[i.Ruled]: ...
    @overload
    def ask(self, intent: i.Gather, *, patience: float | None = None) -> Future[int | None]: ...
    @overload
    def ask(self, intent: i.Launch, *, patience: float | None = None) -> Future[i.Launched | None]: ...
    @overload
    def ask(self, intent: i.Raise | i.Weigh, *, patience: float | None = None) -> Future[i.Raised]: ...
    @overload
    def ask(self, intent: i.Resolve, *, patience: float | None = None) -> Future[i.Resolved]: ...
    @overload
    def ask(self, intent: i.TakeNotices, *, patience: float | None = None) -> Future[i.NoticesTaken]: ...
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

    def ask_together(self, fault: i.Fault, *alarms: i.Raise | i.Weigh) -> Future[list[Any]]:
        """The answers to an error and to what it raises, which are written in one transaction."""
        return self._wait((fault, *alarms), None, is_one=False)

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
        size = 0
        while waiting and (
            not batch or (count + len(waiting[0].intents) <= _MOST and size + waiting[0].size <= _MOST_BYTES)
        ):
            entry = waiting.popleft()
            if entry.held_up:
                if not batch and all(other.held_up for other in (*later, *waiting)):
                    batch.append(entry)
                    break
                later.append(entry)
                continue
            count += len(entry.intents)
            size += entry.size
            job_id = getattr(entry.intents[0], "job_id", None) if entry.is_one else None
            if job_id is None:
                batch.append(entry)
            elif job_id in jobs:
                later.append(entry)
            else:
                jobs.add(job_id)
                batch.append(entry)
        waiting.extendleft(reversed([entry for entry in later if not entry.held_up]))
        waiting.extend(entry for entry in later if entry.held_up)
        return batch

    async def _apply(self, batch: list[_Entry], *, again: bool = False) -> None:
        again = again or any(entry.in_doubt for entry in batch)
        while batch:
            try:
                answers = await self._put([intent for entry in batch for intent in entry.intents], again=again)
            except StoreUnavailableError as error:
                _LOG.warning("the store is not there, trying again in %.2g s: %s", self._pause, error)
                again = again or error.outcome_unknown
                batch = self._still_waiting(batch, StoreUnavailableError(str(error), outcome_unknown=again))
                await self._clock.sleep_async(self._pause)
                self._pause = min(2 * self._pause, _LONGEST_WAIT)
                if error.held_up and len(batch) == 1:
                    batch[0].held_up, batch[0].in_doubt = True, again
                    self._waiting.append(batch[0])
                    return
                if error.held_up and batch:
                    await self._in_turn(batch, again=again)
                    return
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

    async def _put(self, intents: Sequence[i.Intent], *, again: bool) -> Sequence[i.Answer]:
        """Apply them, or give up a store that neither answers nor breaks."""
        try:
            async with asyncio.timeout(self._longest_apply) as limit:
                return await self.store.apply(intents, again=again)
        except TimeoutError:
            if not limit.expired():
                raise
            problem = f"the store has not answered for {self._longest_apply:g} s"
            raise StoreUnavailableError(problem, outcome_unknown=True) from None

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

    async def _in_turn(self, batch: list[_Entry], *, again: bool) -> None:
        """One after another, signs of life first; what still cannot be written lines up again, so that others get past it.

        Somebody's open transaction may hold a key or a row that one of them needs.
        """
        batch = sorted(batch, key=lambda entry: not isinstance(entry.intents[0], _SIGNS_OF_LIFE))
        for entry in batch:
            entry.in_doubt = entry.in_doubt or again
        for place, entry in enumerate(batch):
            try:
                answers = await self._put(entry.intents, again=entry.in_doubt)
            except StoreUnavailableError as error:
                entry.in_doubt = entry.in_doubt or error.outcome_unknown
                left = StoreUnavailableError(str(error), outcome_unknown=entry.in_doubt)
                entry.held_up = error.held_up
                kept = self._still_waiting([entry], left)
                self._waiting.extend(kept)
                if not error.held_up:
                    self._waiting.extendleft(reversed(batch[place + 1 :]))
                    return
            except StoreRefusedError as error:
                entry.fail(error)
            else:
                self._pause = _FIRST_WAIT
                entry.resolve(answers[0] if entry.is_one else list(answers))

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


def _size(intent: i.Intent) -> int:
    """Bytes of it that its caller decides on; the rest is small."""
    match intent:
        case i.Submit():
            return len(intent.payload)
        case i.Finish() | i.Checkpoint() | i.Complete():
            return len(intent.result)
        case i.Remember():
            return len(intent.value)
        case i.Conclude():
            return len(intent.answer)
        case _:
            return 0
