"""`reprieve work`: a worker, or several processes of them that are kept alive."""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from reprieve.faces.cli.common import BUILT_IN, DEFAULT_URL, Home, NewUrl, duration, find_pipelines, patiently, run

if TYPE_CHECKING:
    from reprieve.app.pipeline import Pipeline
    from reprieve.app.worker.settings import WorkerSettings

ADOPTED: Final = "stream-dead-letters"
"""The pipeline of `reprieve.operations.stream_adoption`, which cannot be loaded without redis-py."""


class LogLevel(StrEnum):
    """From which level on log messages are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def work(  # noqa: PLR0913 - one parameter an option
    pipelines: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PIPELINE]...", help="Which pipelines. Default: all of --app.", show_default=False),
    ] = None,
    *,
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", help="Jobs at a time, in each process.", min=1, max=10_000)
    ] = 100,
    processes: Annotated[
        int, typer.Option(help="Worker processes, kept alive; more than one needs PostgreSQL.", min=1, max=1000)
    ] = 1,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when there is nothing left to do.")] = False,
    grace: Annotated[str, typer.Option(help="How long running stages may take to end when told to stop.")] = "30s",
    lease: Annotated[
        str, typer.Option(help="How long a worker may be silent before others take over its jobs.")
    ] = "30s",
    poll: Annotated[str, typer.Option(help="How long between two looks at an empty queue, at most.")] = "1s",
    log_level: Annotated[LogLevel, typer.Option(help="How much is said on standard error.")] = LogLevel.INFO,
    home: Home = None,
    url: NewUrl = DEFAULT_URL,
) -> None:
    """Work on jobs until told to stop: SIGTERM or Ctrl-C lets running stages end, and hands back what does not.

    A second signal waits for nothing.

    Examples:
    reprieve work --app reviews --url sqlite:///reviews.db

    reprieve work review --app reviews:pipelines --url postgresql://jobs@localhost/jobs --processes 4
    """
    from reprieve.app.worker.settings import WorkerSettings  # noqa: PLC0415 - who asks for help does not wait for it

    found = find_pipelines(home, pipelines or [])
    _require_redis(found)
    settings = WorkerSettings(
        concurrency=concurrency, lease=duration(lease), grace=duration(grace), poll=duration(poll)
    )
    show_log(log_level)
    if processes == 1:
        run(_work(url, found, settings, until_idle=until_idle))
        return
    os.environ["REPRIEVE_URL"] = url  # not on the command line of a child, where everybody could read a password
    command = [sys.executable, "-m", "reprieve", "work", *(pipelines or []), "--app", home or BUILT_IN]
    command += ["--concurrency", str(concurrency), "--lease", lease, "--grace", grace, "--poll", poll]
    command += ["--log-level", log_level, *(["--until-idle"] if until_idle else [])]
    code = run(_supervise(url, command, processes))
    if code:
        raise typer.Exit(code)


def _require_redis(pipelines: list[Pipeline]) -> None:
    """Refuse to start without the Redis that adopted dead letters are replayed into: each would fail and page."""
    if any(pipeline.name == ADOPTED for pipeline in pipelines):
        from reprieve.operations.stream_adoption import require_redis_url  # noqa: PLC0415 - needs redis-py

        require_redis_url()


def show_log(level: LogLevel) -> None:
    """Show messages from this level on; of other libraries only warnings: some tell of every call, with its whole URL."""
    import logging  # noqa: PLC0415 - who asks for help does not wait for it

    number = logging.getLevelNamesMapping()[level.name]
    everybody = max(number, logging.WARNING)
    logging.basicConfig(level=everybody, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("reprieve").setLevel(number)


async def _work(url: str, pipelines: list[Pipeline], settings: WorkerSettings, *, until_idle: bool) -> None:
    import logging  # noqa: PLC0415 - who asks for help does not wait for it

    from reprieve.wiring import connect  # noqa: PLC0415 - the same

    async with AsyncExitStack() as stack:
        app = await patiently(lambda: stack.enter_async_context(connect(url)))
        if await app.journal.store.lock_for_work():  # else `work` says why not
            names = ", ".join(pipeline.name for pipeline in pipelines)
            logging.getLogger("reprieve.work").info("working on %s, %d jobs at a time", names, settings.concurrency)
        await app.work(*pipelines, **asdict(settings), until_idle=until_idle, signals=True)


async def _supervise(url: str, command: list[str], processes: int) -> int:
    from reprieve.wiring import supervise_workers  # noqa: PLC0415 - who asks for help does not wait for it

    return await supervise_workers(url, command, processes)
