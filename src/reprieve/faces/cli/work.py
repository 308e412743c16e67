"""`reprieve work`: a worker, or several processes of them that are kept alive."""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.faces.cli.common import DEFAULT_URL, Home, Url, duration, find_pipelines, patiently, run

if TYPE_CHECKING:
    from reprieve.app.pipeline import Pipeline


def work(
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
    home: Home = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Work on jobs until told to stop: SIGTERM or Ctrl-C lets running stages end, and hands back what does not.

    Examples:
    reprieve work --app reviews --url sqlite:///reviews.db

    reprieve work review --app reviews:pipelines --url postgresql://jobs@localhost/jobs --processes 4
    """
    import logging  # noqa: PLC0415 - who asks for help does not wait for it

    found = find_pipelines(home, pipelines or [])
    seconds = duration(grace)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    if processes == 1:
        run(_work(url, found, concurrency=concurrency, grace=seconds, until_idle=until_idle))
        return
    os.environ["REPRIEVE_URL"] = url  # not on the command line of a child, where everybody could read a password
    command = [sys.executable, "-m", "reprieve", "work", *(pipelines or []), "--app", str(home)]
    command += ["--concurrency", str(concurrency), "--grace", grace, *(["--until-idle"] if until_idle else [])]
    code = run(_supervise(url, command, processes))
    if code:
        raise typer.Exit(code)


async def _work(url: str, pipelines: list[Pipeline], *, concurrency: int, grace: float, until_idle: bool) -> None:
    import logging  # noqa: PLC0415 - who asks for help does not wait for it

    from reprieve.wiring import connect  # noqa: PLC0415 - the same

    async with AsyncExitStack() as stack:
        app = await patiently(lambda: stack.enter_async_context(connect(url)))
        if await app.journal.store.lock_for_work():  # else `work` says why not
            names = ", ".join(pipeline.name for pipeline in pipelines)
            logging.getLogger("reprieve.work").info("working on %s, %d jobs at a time", names, concurrency)
        await app.work(*pipelines, concurrency=concurrency, grace=grace, until_idle=until_idle, signals=True)


async def _supervise(url: str, command: list[str], processes: int) -> int:
    from reprieve.wiring import keep_workers  # noqa: PLC0415 - who asks for help does not wait for it

    return await keep_workers(url, command, processes)
