"""The application: submit, wait, work; everything a program says to Reprieve goes through here."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from random import random
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from reprieve.app.alerts.herald import Herald
from reprieve.app.alerts.raising import Alerts
from reprieve.app.campaigns import Steward
from reprieve.app.clock import SystemClock
from reprieve.app.journal import Journal
from reprieve.app.looking import Looks
from reprieve.app.outbox.sweeping import Sweep, senders_of
from reprieve.app.submitting import Item, Submission, chunks, intent_of, intents_of, replies_to
from reprieve.app.waiting import Waiter
from reprieve.app.worker import Worker, WorkerSettings
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
    from datetime import datetime, timedelta
    from types import TracebackType

    from reprieve.app.analysis import Analysis
    from reprieve.app.analysis.questions import Schema
    from reprieve.app.analysis.service import AnalysisOptions
    from reprieve.app.blocking import BlockingApp
    from reprieve.app.items import Items
    from reprieve.app.operations import Operations
    from reprieve.app.operations.asking import MayOverride, Upkeep
    from reprieve.app.pipeline import Pipeline
    from reprieve.app.profiles import ProfileLike
    from reprieve.core.decide import Decision
    from reprieve.core.failure import Failure
    from reprieve.ports.alerting import AlertReader, Sink
    from reprieve.ports.clock import Clock
    from reprieve.ports.dead_letters import DeadLetterReader
    from reprieve.ports.deliveries import DeliveryReader
    from reprieve.ports.isolation import Isolator
    from reprieve.ports.modelling import Model
    from reprieve.ports.reader import Reader
    from reprieve.ports.reviews import ReviewReader
    from reprieve.ports.store import Store

SUBMIT_PATIENCE = 10.0
"""Seconds for which a submission waits for a store that is away."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class App:
    """A connection to one database of jobs; used as `async with reprieve.connect(url) as app`."""

    def __init__(  # noqa: PLR0913 - a table of parts, nearly all by keyword
        self,
        store: Store,
        *,
        reader: Callable[[], Reader],
        letters: Callable[[], DeadLetterReader],
        deliveries: Callable[[], DeliveryReader],
        reviews: Callable[[], ReviewReader],
        keeper: Callable[[], Upkeep],
        alerts: Callable[[], AlertReader] | None = None,
        sinks: Sequence[Sink] = (),
        isolator: Callable[[], Isolator] | None = None,
        another: Callable[[], Store] | None = None,
        clock: Clock | None = None,
        may_override: MayOverride | None = None,
    ) -> None:
        self._store = store
        self._make_another = another
        self._clock = SystemClock() if clock is None else clock
        self._make_reader, self._make_letters, self._make_keeper = reader, letters, keeper
        self._make_deliveries, self._make_reviews = deliveries, reviews
        self._make_alerts, self._sinks = alerts, sinks
        self._alert_reader: AlertReader | None = None
        self._closing: asyncio.Event | None = None
        """Set for who tells of alerts where no worker does; None where nobody has to."""
        self._make_isolator, self._may_override = isolator, may_override
        self._letters: DeadLetterReader | None = None
        self._deliveries: DeliveryReader | None = None
        self._stack: AsyncExitStack | None = None
        self._journal: Journal | None = None
        self._aside: Journal | None = None
        self._setting_aside = asyncio.Lock()
        self._waiter: Waiter | None = None
        self._operations: Operations | None = None
        self._looks = Looks()
        self._working: dict[Worker, asyncio.Event] = {}
        """Who works here, and what tells that they have left."""
        self._digest_key = b""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._store.open()
            stack.push_async_callback(self._store.close)
            self._digest_key = await self._store.digest_key()
            self._reader = self._make_reader()
            stack.callback(self._reader.close)
            stack.push_async_callback(self._looks.close)
            self._journal = Journal(self._store, clock=self._clock)
            self._journal.start()
            stack.push_async_callback(self._journal.close)
            self._waiter = Waiter(self._reader, self._looks)
            stack.push_async_callback(self._waiter.close)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._working:
            worker.stop()
        for gone in tuple(self._working.values()):
            await gone.wait()
        stack, self._stack, self._journal, self._aside = self._stack, None, None, None
        self._operations = self._letters = self._deliveries = self._alert_reader = self._closing = None
        if stack is not None:
            await stack.__aexit__(kind, error, trace)

    @property
    def journal(self) -> Journal:
        """Where intents go; for services built on the same store."""
        if self._journal is None:
            raise UsageError("the application is not open: use `async with reprieve.connect(url) as app`")
        return self._journal

    async def _journal_aside(self) -> Journal:
        """For who writes much at once: no job waits for that, where a database takes more than one writer."""
        journal, stack = self.journal, self._stack
        if self._make_another is None or stack is None:
            return journal
        async with self._setting_aside:
            if self._aside is None:
                store = self._make_another()
                await store.open()
                stack.push_async_callback(store.close)
                self._aside = Journal(store, clock=self._clock)
                self._aside.start()
                stack.push_async_callback(self._aside.close)
        return self._aside

    @property
    def reader(self) -> Reader:
        """What can be looked up."""
        _ = self.journal
        return self._reader

    @property
    def letters(self) -> DeadLetterReader:
        """What can be looked up about dead letters and campaigns."""
        _ = self.journal
        if self._letters is None:
            self._letters = self._make_letters()
            if self._stack is not None:
                self._stack.callback(self._letters.close)
        return self._letters

    @property
    def deliveries(self) -> DeliveryReader:
        """What can be looked up about deliveries."""
        _ = self.journal
        if self._deliveries is None:
            self._deliveries = self._make_deliveries()
            if self._stack is not None:
                self._stack.callback(self._deliveries.close)
        return self._deliveries

    @property
    def alerts(self) -> Alerts:
        """For whoever sees something that somebody may have to hear of."""
        return Alerts(self.journal, news=self._tell_meanwhile)

    def _tell_meanwhile(self) -> None:
        """Have the sinks told of what there is to hear, from now on until the application is closed; beside a worker somebody does."""
        if self._stack is None or not self._sinks or self._closing is not None or self._working:
            return
        herald = self._herald()
        if herald is not None:
            self._closing = asyncio.Event()
            telling = asyncio.create_task(_tell_until(herald, self._closing), name="reprieve-telling")
            self._stack.push_async_callback(self._close_sinks)
            self._stack.push_async_callback(lambda: telling)
            self._stack.callback(self._closing.set)

    async def _close_sinks(self) -> None:
        for sink in self._sinks:
            await sink.close()

    def _herald(self) -> Herald | None:
        """Who tells the sinks, and ends what is over."""
        if self._make_alerts is None:
            return None
        return Herald(self.journal, self._alert_look_ups, self._sinks, clock=self._clock)

    @property
    def _alert_look_ups(self) -> AlertReader:
        if self._make_alerts is None:
            raise UsageError("this application was made without alerts")
        if self._alert_reader is None:
            self._alert_reader = self._make_alerts()
            if self._stack is not None:
                self._stack.callback(self._alert_reader.close)
        return self._alert_reader

    @property
    def operations(self) -> Operations:
        """What an operator can see and do."""
        journal = self.journal
        if self._operations is None:
            from reprieve.app.operations import Operations  # noqa: PLC0415 - only for those who operate

            keeper, reviews = self._make_keeper(), self._make_reviews()
            if self._stack is not None:
                self._stack.callback(keeper.close)
                self._stack.callback(reviews.close)

            async def opened() -> Journal:
                return journal

            self._operations = Operations.over(
                self._reader,
                self.letters,
                self.deliveries,
                reviews,
                keeper,
                opened,
                alerts=lambda: self._alert_look_ups,
                sinks=lambda: self._sinks,
                clock=self._clock,
                may_override=self._may_override,
            )
        return self._operations

    async def submit(  # noqa: PLR0913 - a table of options, all by keyword
        self,
        pipeline: Pipeline,
        payload: object,
        *,
        idempotency_key: str | None = None,
        subject: str | None = None,
        version: int | Literal["next"] | None = None,
        priority: int = 0,
        delay: float | timedelta | None = None,
        run_at: float | datetime | None = None,
        connection: object = None,
    ) -> Submission:
        """Create a job, durable when this returns; or find the one that has its key, or its subject and version.

        `delay` (seconds) or `run_at` (seconds since the epoch, or a datetime with a zone) put it off. With `connection`, a connection of yours to the
        same database, the job becomes part of the transaction that is open there. With `version="next"` it becomes the version above all
        that its subject has had, unless its key, which says what is in it, has one already.
        """
        item = Item(
            payload, idempotency_key=idempotency_key, subject=subject, version=version, priority=priority, delay=delay,
            run_at=run_at,
        )  # fmt: skip
        journal, intent = self.journal, intent_of(pipeline, item, now=self._clock.now())
        if connection is not None:
            answer = (await self._store.submit_through(connection, [intent]))[0]
        else:
            answer = await journal.ask(intent, patience=SUBMIT_PATIENCE)
        return replies_to([intent], [answer], app=self, pipeline=pipeline)[0]

    async def submit_many(
        self, pipeline: Pipeline, items: Iterable[object], *, connection: object = None
    ) -> list[Submission]:
        """Create many jobs at once: payloads, or `Item(payload, idempotency_key=..., ...)`; all are validated first.

        Where the store refuses one, the others are created all the same, and the error says which it was.
        """
        journal, intents = self.journal, intents_of(pipeline, items, now=self._clock.now())
        if connection is not None:
            answers = await self._store.submit_through(connection, intents)
            return replies_to(intents, answers, app=self, pipeline=pipeline, first=0)
        asked = [(chunk, journal.ask_all(chunk, patience=SUBMIT_PATIENCE)) for chunk in chunks(intents)]
        made: list[Submission] = []
        for chunk, answer in asked:
            made += replies_to(chunk, await answer, app=self, pipeline=pipeline, first=len(made))
        return made

    async def wait(self, job_id: int, *, timeout: float | None = None, pipeline: Pipeline | None = None) -> Any:  # noqa: ANN401, ASYNC109 - the job's own result; the job is not cancelled
        """The job's result, once it has succeeded; `JobFailedError` if it ended otherwise, `JobTimeoutError` if it has not."""
        if self._waiter is None:
            raise UsageError("the application is not open")
        return await self._waiter.result(job_id, timeout=timeout, pipeline=pipeline)

    async def handle_item_failure(
        self,
        job: int | str,
        agent_name: str,
        step_name: str,
        error: object,
        config: ProfileLike | None = None,
        *,
        draw: float | None = None,
    ) -> Decision:
        """For callers who run their own loop: classify, decide, write and log what becomes of a job whose step failed.

        The job is given by its id or its idempotency key; a job that a worker runs is refused. `error` is an exception, a
        message, or a mapping or object with a message and a status; `config` a profile, `ingestion` unless given. Failures
        in a row on one step are counted; another step starts a count of its own.
        """
        return await self._items().failed(job, agent_name, step_name, error, config, draw=draw)

    async def complete_item(self, job: int | str, step_name: str, result: object = None) -> None:
        """For callers who run their own loop: the job has succeeded with this step, which ends it."""
        await self._items().completed(job, step_name, result)

    def _items(self) -> Items:
        from reprieve.app.items import Items  # noqa: PLC0415 - only for those who run their own loop

        return Items(journal=self.journal, reader=self._reader, digest_key=self._digest_key, alerts=self.alerts)

    def analysis(
        self, model: Model, *, prompt: str, schema: Schema, **options: Unpack[AnalysisOptions]
    ) -> Analysis[Any]:
        """A question to be asked of a model about signatures, each once; `analyze` and `analyze_many` serve what is known.

        `{signature}` and `{samples}` in the prompt are replaced.
        """
        from reprieve.app.analysis import Analysis  # noqa: PLC0415 - only for those who analyze
        from reprieve.app.guarding import checked_model  # noqa: PLC0415 - the same

        return Analysis(
            self.journal,
            checked_model(model),
            prompt=prompt,
            schema=schema,
            clock=self._clock,
            alerts=self.alerts,
            **options,
        )

    def blocking(self) -> BlockingApp:
        """The same for plain synchronous code: `with reprieve.connect(url).blocking() as app`."""
        from reprieve.app.blocking import BlockingApp  # noqa: PLC0415 - only for those who block

        if self._journal is not None:
            raise UsageError("the application is open in an event loop: connect anew for plain code")
        return BlockingApp(self)

    async def work(
        self,
        *pipelines: Pipeline,
        concurrency: int = 100,
        lease: float = 30.0,
        grace: float = 30.0,
        poll: float = 1.0,
        until_idle: bool = False,
        signals: bool = False,
    ) -> None:
        """Run a worker for these pipelines: for ever, or until nothing is left; cancelling it hands its jobs back.

        With `signals`, SIGTERM and SIGINT stop it: what runs has `grace` seconds to end, and is handed back after that.
        """
        if not pipelines:
            raise UsageError("work needs a pipeline, or several")
        settings = WorkerSettings(concurrency=concurrency, lease=lease, grace=grace, poll=poll)
        steward = Steward(self._store, self._journal_aside, self.letters, clock=self._clock)
        senders = senders_of(pipelines)
        sweep = Sweep(self.journal, self.deliveries, senders, clock=self._clock)
        herald = self._herald()

        async def more() -> bool:
            return await steward.has_more() or (bool(senders) and await sweep.has_more())

        async with self._worker(pipelines, settings, more=more) as worker:
            gone = self._working[worker] = asyncio.Event()
            try:
                async with (
                    steward.beside(),
                    sweep.beside() if senders else nullcontext(),
                    nullcontext() if herald is None else herald.beside(),
                ):
                    with _signals(worker) if signals else nullcontext():
                        await worker.work(until_idle=until_idle)
            finally:
                del self._working[worker]
                gone.set()
                for sender in senders.values():
                    await sender.close()
                await self._close_sinks()

    @asynccontextmanager
    async def _worker(
        self,
        pipelines: Sequence[Pipeline],
        settings: WorkerSettings,
        *,
        draw: Callable[[], float] = random,
        watch: Callable[[int, BaseException, Failure], None] | None = None,
        more: Callable[[], Awaitable[bool]] | None = None,
    ) -> AsyncIterator[Worker]:
        """A worker for these pipelines that has not come yet, with processes where a stage of theirs needs them."""
        by_name = {pipeline.name: pipeline for pipeline in pipelines}
        if len(by_name) < len(pipelines):
            raise UsageError("two of the pipelines have the same name")
        for pipeline in pipelines:
            _ = pipeline.first  # refuses one without stages
        isolator = None
        if self._make_isolator is not None and any(stage.isolated for each in pipelines for stage in each.stages):
            isolator = self._make_isolator()
        try:
            yield Worker(
                self.journal, by_name, settings=settings, clock=self._clock, digest_key=self._digest_key, isolator=isolator,
                accepted_before=lambda job_id, stage: self._looks(self._reader.accepted_before, job_id, stage),
                standing=lambda: self._looks(self._reader.stages, counted=True), draw=draw, watch=watch, more=more,
            )  # fmt: skip
        finally:
            if isolator is not None:
                await isolator.close()


async def _tell_until(herald: Herald, closing: asyncio.Event) -> None:
    async with herald.beside():
        await closing.wait()


@contextmanager
def _signals(worker: Worker) -> Iterator[None]:
    """The first one stops the worker, the next one hurries it."""
    loop = asyncio.get_running_loop()
    seen = False

    def stop() -> None:
        nonlocal seen
        if seen:
            worker.hurry()
        seen = True
        worker.stop()

    for each in _SIGNALS:
        loop.add_signal_handler(each, stop)
    try:
        yield
    finally:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
