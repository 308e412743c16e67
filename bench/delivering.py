"""Deliveries through the outbox beside the same sender called bare: the ratio is what telling everybody once costs."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import providers
import reprieve
from engine.arena import Arena, Dialect
from engine.fixture import Fixture, open_fixture
from engine.order import Order
from engine.server import Server
from engine.usage import Meter
from harness import Effort, Figure, take_turns
from reprieve.adapters.sql import schema
from reprieve.senders import SMTP, Maildir, Message, Outgoing, Webhook
from sample import repeat_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reprieve.senders import Sender
    from sample import SampleOptions

DELIVERIES: Final = 2_000
RECIPIENTS: Final = 10
"""Of one job; `deliver` serves as many at once."""
JOBS_AT_ONCE: Final = 10
ROUNDS: Final = 5
BARE: Final = "called bare"
TEXT: Final = "All is well, as far as can be told from here.\n" * 40


@dataclass(frozen=True, slots=True)
class Turn:
    """What one candidate did in one round, by delivery."""

    rate: float
    processor: float
    """Seconds."""
    transactions: float = 0.0


@dataclass(frozen=True, slots=True)
class Channel:
    """A kind of sender, and how its recipients are called."""

    name: str
    open: Callable[[], Sender]
    recipient: Callable[[int], str]


def run(effort: Effort) -> list[Figure]:
    """Measure every kind of sender on both dialects, and bare."""
    quick = effort == Effort.quick()
    deliveries, rounds = (DELIVERIES // 20, 1) if quick else (DELIVERIES, ROUNDS)
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder) / "server") as server:
        arena = Arena(server, Path(folder))
        return [
            figure
            for channel in _channels(Path(folder))
            for figure in _compared(channel, _measured(arena, channel, deliveries, rounds))
        ]


def sample(asked: SampleOptions) -> dict[str, float]:
    """Return the processor's microseconds of a delivery, for every kind of sender.

    Transactions are not among the costs: their number follows the provider's timing and varies fivefold.
    """
    deliveries = asked.scale(200, 20)
    with tempfile.TemporaryDirectory() as folder, open_fixture(asked) as fixture:
        return repeat_turn(lambda: _sample_turn(fixture, Path(folder), deliveries), asked.seconds)


def _sample_turn(fixture: Fixture, folder: Path, deliveries: int) -> dict[str, float]:
    costs = {}
    for channel in _channels(folder):
        for dialect in Dialect:
            meter = fixture.meter(dialect)
            with fixture.copied("tables", dialect) as url:
                asyncio.run(_through_the_outbox(url, channel, RECIPIENTS, meter))  # warm up
                turn = asyncio.run(_through_the_outbox(url, channel, deliveries, meter))
            costs[f"{channel.name}, {dialect}: processor by delivery"] = turn.processor * 1e6
    return costs


def _channels(folder: Path) -> Iterator[Channel]:
    """One after another, each with its provider."""
    numbers = count()
    yield Channel(
        "Maildir", lambda: Maildir(folder / f"outgoing-{next(numbers)}", name="bench"), lambda n: f"maildir:r{n}"
    )
    with providers.receiver() as url:
        hooks = partial(Webhook, "bench", takes_key=3600.0, allow_private=True)
        yield Channel("webhook", hooks, lambda n: f"{url}/r{n}")
    with providers.mail_server(folder) as port:
        mail = partial(SMTP, "127.0.0.1", port, sender="reviews@example.org", tls="none", name="bench")
        yield Channel("SMTP", mail, lambda n: f"mailto:r{n}@example.org")


def _measured(arena: Arena, channel: Channel, deliveries: int, rounds: int) -> dict[str, list[Turn]]:
    def through(dialect: Dialect) -> Turn:
        with arena.database("deliveries", dialect, Order(url="")) as placed:
            schema.upgrade(placed.url)
            return asyncio.run(_through_the_outbox(placed.url, channel, deliveries, Meter()))

    candidates: dict[str, Callable[[], Turn]] = {BARE: lambda: asyncio.run(_bare(channel, deliveries))}
    candidates |= {dialect.value: partial(through, dialect) for dialect in Dialect}
    return take_turns(candidates, rounds)


async def _bare(channel: Channel, deliveries: int) -> Turn:
    """As many at once as jobs and recipients are."""
    sender, turn = channel.open(), asyncio.Semaphore(JOBS_AT_ONCE * RECIPIENTS)
    messages = [_message(channel.recipient(number)) for number in range(deliveries)]
    tokens = iter([f"{time.time_ns():x}{number:024x}"[-40:] for number in range(deliveries)])

    async def send(message: Message) -> None:
        async with turn:
            await sender.send(
                Outgoing(message=message, token=next(tokens), timeout=30.0, prepared_at=time.time(), reached=_ignore)
            )

    with _timed(deliveries, Meter()) as took:
        await asyncio.gather(*(send(message) for message in messages))
    await sender.close()
    return took()


async def _through_the_outbox(url: str, channel: Channel, deliveries: int, meter: Meter) -> Turn:
    sender, done, all_done = channel.open(), 0, asyncio.Event()
    pipeline = reprieve.Pipeline("bench", senders=[sender])

    @pipeline.stage(delivers=True)
    async def notify(job: reprieve.Job[list[str]]) -> int:
        nonlocal done
        told = await reprieve.deliver(job, [_message(each) for each in job.payload], via="bench")
        done += len(told.sent)
        if done == deliveries:
            all_done.set()
        return len(told.sent)

    recipients = [channel.recipient(number) for number in range(deliveries)]
    items = [
        reprieve.Item(recipients[start : start + RECIPIENTS], subject=f"{time.time_ns()}-{start}", version=1)
        for start in range(0, deliveries, RECIPIENTS)
    ]
    async with reprieve.connect(url) as app:
        await app.submit_many(pipeline, items)
        counted = _count_transactions(app.journal.store)
        with _timed(deliveries, meter) as took:
            worker = asyncio.create_task(app.work(pipeline, concurrency=JOBS_AT_ONCE, until_idle=True))
            await asyncio.wait([asyncio.ensure_future(all_done.wait()), worker], return_when=asyncio.FIRST_COMPLETED)
        measured = took()
        await worker
    return Turn(measured.rate, measured.processor, len(counted) / deliveries)


def _message(recipient: str) -> Message:
    return Message(recipient=recipient, subject=f"For {recipient}", text=TEXT)


def _ignore(_: object) -> None:
    pass


def _count_transactions(store: Any) -> Sequence[None]:  # noqa: ANN401 - of either kind
    apply = store.apply
    counted: list[None] = []

    async def watched(intents: Any, **options: Any) -> Any:  # noqa: ANN401 - as it is
        counted.append(None)
        return await apply(intents, **options)

    store.apply = watched
    return counted


@contextlib.contextmanager
def _timed(deliveries: int, meter: Meter) -> Iterator[Callable[[], Turn]]:
    """By the wall, and by the meter."""
    ended: list[Turn] = []
    used, began = meter.start(), time.perf_counter()
    yield lambda: ended[0]
    took = time.perf_counter() - began
    ended.append(Turn(deliveries / took, meter.since(used) / deliveries))


def _compared(channel: Channel, turns: dict[str, list[Turn]]) -> list[Figure]:
    figures = []
    bare = turns.pop(BARE)
    rate = statistics.median(turn.rate for turn in bare)
    for database, measured in turns.items():
        of = f"{channel.name}, {database}"
        figures += [
            Figure(
                name=f"{of}: deliveries", value=statistics.median(turn.rate for turn in measured), unit="/s", peer=BARE,
                peer_value=rate,
            ),
            Figure(
                name=f"{of}: processor of the worker by delivery",
                value=1e6 * statistics.median(turn.processor for turn in measured), unit="us", peer=BARE,
                peer_value=1e6 * statistics.median(turn.processor for turn in bare),
            ),
            Figure(
                name=f"{of}: transactions by delivery",
                value=statistics.median(turn.transactions for turn in measured), unit="",
            ),
        ]  # fmt: skip
    return figures
