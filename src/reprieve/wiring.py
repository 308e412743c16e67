"""The only place that reads settings and picks adapters."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from reprieve.adapters.sql.address import PostgresAddress, parse
from reprieve.app.application import App
from reprieve.app.clock import SystemClock
from reprieve.app.journal import Journal
from reprieve.app.operations import Operations
from reprieve.app.operations.asking import everybody
from reprieve.app.secrecy import keep_secrets
from reprieve.core.breaker_state import DEFAULT_BREAKER_LIMITS
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from reprieve.app.operations.asking import MayOverride, Upkeep
    from reprieve.app.profiles import ProfileLike
    from reprieve.core.breaker_state import BreakerLimits
    from reprieve.core.policy import Cause
    from reprieve.ports.alerting import AlertReader, Sink
    from reprieve.ports.clock import Clock
    from reprieve.ports.dead_letters import DeadLetterReader
    from reprieve.ports.deliveries import DeliveryReader
    from reprieve.ports.isolation import Isolator
    from reprieve.ports.reader import Reader
    from reprieve.ports.reviews import ReviewReader
    from reprieve.ports.store import Store
    from reprieve.streams.consumer import Consumer
    from reprieve.supervisor import ContainerSpec, Supervisor, SupervisorOptions, WorkerSpec

P = ParamSpec("P")
R = TypeVar("R")


def connect(url: str, *, clock: Clock | None = None, alerts: Sequence[str | Sink] | None = None) -> App:
    """An application on a database: `sqlite:///file.db`, or `postgresql://user@host/name`; opened by `async with`.

    `alerts` are URLs of those who are to be told of alerts, or sinks; None: those that REPRIEVE_ALERTS names.
    """
    return App(
        _store(url, clock), reader=lambda: _reader(url), letters=lambda: _letters(url), deliveries=lambda: _deliveries(url), reviews=lambda: _reviews(url), keeper=lambda: _keeper(url),
        alerts=lambda: _alerts(url), sinks=_sinks(alerts), isolator=_isolator, clock=clock, may_override=_may_override(),
        another=(lambda: _store(url, clock)) if isinstance(parse(url), PostgresAddress) else None,
    )  # fmt: skip


def consumer(  # noqa: PLR0913 - a table of settings, by keyword
    queue: str,
    *,
    group: str,
    model: Any = None,  # noqa: ANN401 - any type pydantic knows
    body: str | None = None,
    profile: ProfileLike = "orchestrator",
    service: str = "",
    alerts: Sequence[str | Sink] | None = None,
    concurrency: int = 10,
    prefetch: int = 100,
    lease: float = 30.0,
    timeout: float = 1800.0,
    shutdown_timeout: float = 30.0,
    retention: Literal["acked"] | None = None,
    wait_replicas: int = 0,
    adopt_idle: float | None = None,
    breaker: BreakerLimits | None = DEFAULT_BREAKER_LIMITS,
    idempotent: bool = False,
) -> Callable[[Callable[P, R]], Consumer[P, R]]:
    """Make a function, sync or async, the handler of a Redis stream.

        @reprieve.consumer("engineering:queue", group="workers", model=Task, service="langgraph")
        async def handle(task: Task) -> None: ...

        await handle.run("redis://localhost:6379/0")

    No database is needed. `alerts` are URLs of those who are to be told, or sinks; None: those that REPRIEVE_ALERTS
    names. The other settings are explained in `reprieve.streams.consumer.ConsumerOptions`.
    """
    from reprieve.streams.consumer import Consumer, ConsumerOptions  # noqa: PLC0415 - only for those who consume

    options = ConsumerOptions(
        body=body,
        concurrency=concurrency,
        prefetch=max(prefetch, concurrency),
        lease=lease,
        timeout=timeout,
        shutdown_timeout=shutdown_timeout,
        retention=retention,
        wait_replicas=wait_replicas,
        adopt_idle=adopt_idle,
        breaker=breaker,
        idempotent=idempotent,
    )

    def declare(function: Callable[P, R]) -> Consumer[P, R]:
        return Consumer(
            function,
            queue,
            group=group,
            model=model,
            profile=profile,
            service=service,
            options=options,
            sinks=lambda: _sinks(alerts),
        )

    return declare


@asynccontextmanager
async def open_operations(url: str, *, clock: Clock | None = None) -> AsyncIterator[Operations]:
    """What an operator can see and do, without an application; the store is opened only when something is to be changed."""
    here = SystemClock() if clock is None else clock
    turn = asyncio.Lock()
    journals: list[Journal] = []
    async with AsyncExitStack() as stack:
        reader, letters, deliveries, reviews = _reader(url), _letters(url), _deliveries(url), _reviews(url)
        keeper = _keeper(url)
        stack.callback(reader.close)
        stack.callback(letters.close)
        stack.callback(deliveries.close)
        stack.callback(reviews.close)
        stack.callback(keeper.close)
        alerts: list[AlertReader] = []

        def looking() -> AlertReader:
            if not alerts:
                alerts.append(_alerts(url))
                stack.callback(alerts[0].close)
            return alerts[0]

        async def opened() -> Journal:
            async with turn:
                if not journals:
                    await asyncio.to_thread(_require_tables, url)  # a store on SQLite would make the file
                    store = _store(url, clock)
                    await store.open()
                    stack.push_async_callback(store.close)
                    journals.append(Journal(store, clock=here))
                    journals[0].start()
                    stack.push_async_callback(journals[0].close)
            return journals[0]

        yield Operations.over(
            reader, letters, deliveries, reviews, keeper, opened, alerts=looking, sinks=lambda: _sinks(None), clock=here,
            may_override=_may_override(),
        )  # fmt: skip


def build_supervisor(  # noqa: PLR0913 - a table of settings, by keyword
    queue: str,
    worker: WorkerSpec,
    *,
    group: str,
    body: str | None = None,
    model: Any = None,  # noqa: ANN401 - any type pydantic knows
    profile: ProfileLike = "orchestrator",
    service: str = "",
    options: SupervisorOptions | None = None,
    alerts: Sequence[str | Sink] | None = None,
) -> Supervisor:
    """Build a supervisor of a queue. `alerts` are as `consumer` takes them."""
    from reprieve.supervisor.supervisor import Supervisor  # noqa: PLC0415 - only for those who supervise

    return Supervisor(
        queue,
        worker,
        group=group,
        body=body,
        model=model,
        profile=profile,
        service=service,
        options=options,
        sinks=lambda: _sinks(alerts),
    )


def read_container(
    settings: Path | None, image: str | None, program: str | None, arguments: tuple[str, ...]
) -> ContainerSpec | None:
    """Return which container workers run in: the image as given, the program as given or as `[supervisor]` says."""
    from reprieve.supervisor.containers import ContainerSpec, require_program  # noqa: PLC0415 - the same

    section = _supervisor_section(settings)
    if image is None:
        if program is not None or arguments:
            raise UsageError("--container-program and --container-argument need an --image")
        return None
    chosen = require_program(section.get("container_program") if program is None else program)
    return ContainerSpec(chosen, image, (*section.get("container_arguments", ()), *arguments))


def _supervisor_section(settings: Path | None) -> dict[str, Any]:
    """Read `[supervisor]` of the settings file; one that is named has to be there."""
    import tomllib  # noqa: PLC0415 - the same

    path = Path("reprieve.toml") if settings is None else settings
    if not path.is_file():
        if settings is not None:
            raise UsageError(f"there is no settings file {str(path)!r}")
        return {}
    try:
        section = tomllib.loads(path.read_text(encoding="utf-8")).get("supervisor", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    known = {"container_program", "container_arguments"}
    if not isinstance(section, dict) or not set(section) <= known:
        raise UsageError(f"[supervisor] in {path} has {' and '.join(sorted(known))}, and nothing else")
    listed = section.get("container_arguments", [])
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise UsageError(f'container_arguments in {path} is a list of texts, as ["--network=none"]')
    return section


def _may_override() -> MayOverride:
    """Who may replay past the gates: those whom the environment names; everybody where it names nobody."""
    named = os.environ.get("REPRIEVE_MAY_OVERRIDE")
    if named is None:
        return everybody
    allowed = frozenset(name.strip() for name in named.split(",") if name.strip())
    return allowed.__contains__


async def supervise_workers(url: str, command: Sequence[str], count: int) -> int:
    """Keep so many worker processes of this command alive until told to stop; an exit code."""
    from reprieve.app.worker.recovery import HOST  # noqa: PLC0415 - the same
    from reprieve.processes.restarts import crash_reporter, supervise_processes  # noqa: PLC0415 - the same
    from reprieve.processes.session import adopt_orphans  # noqa: PLC0415 - the same
    from reprieve.processes.spawner import SubprocessSpawner  # noqa: PLC0415 - only for those who run several

    adopt_orphans()
    if not isinstance(parse(url), PostgresAddress):
        # The next worker on a file takes over by itself: nobody has to be told of a death.
        return await supervise_processes(
            command, count, processes=SubprocessSpawner(), report=_tell_nobody, clock=SystemClock(), shared=False
        )
    async with connect(url) as app:
        report = crash_reporter(app.journal, app.reader, HOST)
        return await supervise_processes(
            command, count, processes=SubprocessSpawner(), report=report, clock=SystemClock(), shared=True
        )


async def _tell_nobody(pid: int, cause: Cause) -> None:
    _ = pid, cause


def _require_tables(url: str) -> None:
    from reprieve.adapters.sql import schema  # noqa: PLC0415 - only for those who operate

    schema.require(url)


def _reader(url: str) -> Reader:
    from reprieve.adapters.sql.reader import SqlReader  # noqa: PLC0415 - SQLAlchemy, only for those who look

    return SqlReader(url)


def _letters(url: str) -> DeadLetterReader:
    from reprieve.adapters.sql.dead_letters.reading import SqlDeadLetterReader  # noqa: PLC0415 - the same

    return SqlDeadLetterReader(url)


def _deliveries(url: str) -> DeliveryReader:
    from reprieve.adapters.sql.deliveries.reading import SqlDeliveryReader  # noqa: PLC0415 - the same

    return SqlDeliveryReader(url)


def _alerts(url: str) -> AlertReader:
    from reprieve.adapters.sql.alerts.reading import SqlAlertReader  # noqa: PLC0415 - the same

    return SqlAlertReader(url)


def _sinks(wanted: Sequence[str | Sink] | None) -> Sequence[Sink]:
    """Who is told of alerts: those that are given, or whom the environment names; whoever sees one has it in the log anyway."""
    if wanted is None:
        # A comma parts them as well where another URL follows: within a URL it may be part of it.
        wanted = list(filter(None, re.split(r"\s+|,\s*(?=[A-Za-z][\w+.-]*://)", os.environ.get("REPRIEVE_ALERTS", ""))))
    return [_sink(each) if isinstance(each, str) else each for each in wanted]


def _sink(url: str) -> Sink:
    """By its URL: a webhook of ours, or whatever Apprise reaches. It may hold secrets, which no text shows from here on."""
    if url.startswith(("https://", "http://")):
        from reprieve.app.alerts.sinks import SenderSink  # noqa: PLC0415 - only for those who are to be told
        from reprieve.senders import Webhook  # noqa: PLC0415 - the same

        secret = os.environ.get("REPRIEVE_ALERTS_SECRET") or ()
        # Whoever names the place is the operator: alert managers live in private networks.
        return SenderSink(Webhook("alerts", secret=secret, allow_private=True), url)
    try:
        from reprieve.adapters.apprise import AppriseSink  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if str(error.name) != "apprise":
            raise
        raise UsageError(
            "alerts to anything but https:// go through Apprise: pip install 'reprieve[alerts]'"
        ) from error
    sink = AppriseSink(url)
    keep_secrets(sink, "sink")
    return sink


def _reviews(url: str) -> ReviewReader:
    from reprieve.adapters.sql.analysis.reading import SqlReviewReader  # noqa: PLC0415 - the same

    return SqlReviewReader(url)


def _keeper(url: str) -> Upkeep:
    from reprieve.adapters.sql.keeper import SqlKeeper  # noqa: PLC0415 - the same

    return SqlKeeper(url)


def _store(url: str, clock: Clock | None) -> Store:
    if isinstance(parse(url), PostgresAddress):
        from reprieve.adapters.sql.postgres import PostgresStore  # noqa: PLC0415 - an extra: psycopg may not be there

        return PostgresStore(url, clock=clock)
    from reprieve.adapters.sql.sqlite import SqliteStore  # noqa: PLC0415 - only what is used

    return SqliteStore(url, clock=clock)


def _isolator() -> Isolator:
    from reprieve.processes.runner import ChildProcessRunner  # noqa: PLC0415 - only for stages that ask for it

    return ChildProcessRunner()
