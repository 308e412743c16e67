"""`@reprieve.consumer`: a function that handles the messages of a stream, and what it may be told."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar

from reprieve.app.profiles import resolve
from reprieve.core.backoff import LONGEST, require_number, require_whole
from reprieve.core.breaker_state import DEFAULT_BREAKER_LIMITS, BreakerLimits
from reprieve.errors import UsageError
from reprieve.streams.keys import build_keys
from reprieve.streams.message import StreamMessage, build_parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reprieve.app.profiles import ProfileLike
    from reprieve.ports.alerting import Sink
    from reprieve.streams.runner import RunCounts
    from reprieve.streams.status import GroupStatus

P = ParamSpec("P")
R = TypeVar("R")

Retention = Literal["acked"]
MAX_CONCURRENCY = 1000
MAX_PREFETCH = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """How a consumer works; every value has a default that fits most queues."""

    body: str | None = None
    """The field that holds the message as JSON; None: the fields are a mapping."""
    concurrency: int = 10
    """Handlers that run at a time: coroutines, or threads for a handler that is no coroutine function."""
    prefetch: int = 100
    """The most messages that are held at a time. Fewer are held while handlers are slow."""
    lease: float = 30.0
    """Seconds without a heartbeat after which other consumers take over what this one holds."""
    timeout: float = 1800.0
    """Seconds that a handler may take. A thread cannot be stopped: its message is given up, and its result is dropped."""
    shutdown_timeout: float = 30.0
    """Seconds that handlers have to end when the consumer is stopped; then they are cancelled and handed back."""
    retention: Retention | None = None
    """`acked` drops entries that every group has acknowledged; None leaves the stream as it is."""
    wait_replicas: int = 0
    """Replicas that are to confirm each batch of acknowledgements."""
    adopt_idle: float | None = None
    """Take over messages that a consumer of another tool has held for so many seconds; None: never."""
    breaker: BreakerLimits | None = DEFAULT_BREAKER_LIMITS
    """When the group's circuit breaker opens; None: never."""
    idempotent: bool = False
    """Whether handling a message twice is safe: failures that ask for it are retried only then."""

    def __post_init__(self) -> None:
        """Refuse what could not be followed."""
        require_whole("concurrency", self.concurrency, 1, MAX_CONCURRENCY)
        require_whole("prefetch", self.prefetch, self.concurrency, MAX_PREFETCH)
        require_number("lease", self.lease, 0.1, 3600.0)
        require_number("timeout", self.timeout, 0.01, LONGEST)
        require_number("shutdown_timeout", self.shutdown_timeout, 0.0, LONGEST)
        require_whole("wait_replicas", self.wait_replicas, 0, 100)
        if self.adopt_idle is not None:
            require_number("adopt_idle", self.adopt_idle, 0.1, LONGEST)
        if self.retention not in (None, "acked"):
            raise UsageError(f"retention is 'acked' or None, not {self.retention!r}")


class Consumer(Generic[P, R]):
    """A handler with its queue, group, profile and options. Calling it calls the handler."""

    def __init__(
        self,
        function: Callable[P, R],
        queue: str,
        *,
        group: str,
        model: Any = None,  # noqa: ANN401 - any type pydantic knows
        profile: ProfileLike = "orchestrator",
        service: str = "",
        options: ConsumerOptions | None = None,
        sinks: Callable[[], Sequence[Sink]] = tuple,
    ) -> None:
        self.function = function
        self.queue, self.group = queue, group
        self.keys = build_keys(queue, group)
        self.options = options or ConsumerOptions()
        self.profile = resolve(profile)
        self.service = service or group
        self.parse = build_parser(model, self.options.body)
        self.takes_message = _takes_message(function)
        self.is_async = inspect.iscoroutinefunction(function)
        self._sinks = sinks
        update_wrapper(self, function)

    def __call__(self, *arguments: P.args, **options: P.kwargs) -> R:
        """Call the handler."""
        return self.function(*arguments, **options)

    async def run(
        self, url: str, *, stop: asyncio.Event | None = None, until_idle: bool = False, signals: bool = True
    ) -> RunCounts:
        """Consume until `stop` is set or the task is cancelled; with `until_idle` until nothing is left to do.

        With `signals`, SIGTERM and SIGINT stop it too. Handlers that run have `shutdown_timeout` seconds to end. What
        has not started is handed back to the group at once.
        """
        from reprieve.streams.connection import parse_address  # noqa: PLC0415 - redis-py, only where something runs
        from reprieve.streams.lanes import Handler  # noqa: PLC0415 - the same
        from reprieve.streams.runner import ConsumerRunner, RunOptions  # noqa: PLC0415 - the same

        options = self.options
        runner = ConsumerRunner(
            parse_address(url),
            self.keys,
            group=self.group,
            service=self.service,
            handler=Handler(self.function, self.parse, self.takes_message, options.timeout),
            threads=not self.is_async,
            profile=self.profile,
            options=RunOptions(
                concurrency=options.concurrency,
                prefetch=options.prefetch,
                lease=options.lease,
                timeout=options.timeout,
                shutdown_timeout=options.shutdown_timeout,
                trims=options.retention == "acked",
                wait_replicas=options.wait_replicas,
                adopt_idle=options.adopt_idle or 0.0,
                breaker=options.breaker,
                idempotent=options.idempotent,
            ),
            sinks=self._sinks(),
        )
        stop = asyncio.Event() if stop is None else stop
        with _stopped_by_signals(stop) if signals else _nothing():
            await runner.run(stop, until_idle=until_idle)
        return runner.counts

    async def status(self, url: str) -> GroupStatus:
        """Return how the group stands."""
        from reprieve.streams.connection import RedisConnection, parse_address  # noqa: PLC0415 - the same
        from reprieve.streams.status import read_group_status  # noqa: PLC0415 - the same

        connection = RedisConnection(parse_address(url))
        try:
            return await read_group_status(connection, self.keys, self.group)
        finally:
            await connection.close()


def _takes_message(function: Callable[..., Any]) -> bool:
    """Whether the handler has a second parameter, which the StreamMessage is for; refuse other signatures."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise UsageError(f"a handler is a function, not {function!r}") from error
    places = [each for each in parameters if each.kind in _BY_POSITION]
    needed = [each for each in places if each.default is inspect.Parameter.empty]
    others = [
        each
        for each in parameters
        if each.kind is inspect.Parameter.KEYWORD_ONLY and each.default is inspect.Parameter.empty
    ]
    if not places or len(needed) > 2 or others:  # noqa: PLR2004 - the content and the message
        raise UsageError(
            f"a handler takes the message's content, and a StreamMessage if it wants one: "
            f"def {getattr(function, '__name__', 'handle')}(content, message)"
        )
    return len(needed) == 2 or (len(places) > 1 and _is_message(places[1]))  # noqa: PLR2004 - the same


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _is_message(parameter: inspect.Parameter) -> bool:
    return parameter.annotation in (StreamMessage, "StreamMessage", "reprieve.StreamMessage")


@contextmanager
def _stopped_by_signals(stop: asyncio.Event) -> Iterator[None]:
    """Set the event on SIGTERM and SIGINT, where this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextmanager
def _nothing() -> Iterator[None]:
    yield
