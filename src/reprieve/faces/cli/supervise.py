"""`reprieve supervise`: workers for the tasks of a stream; see them, cancel one task."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperGroup

from reprieve.errors import RefusedError, UnknownNameError, UsageError
from reprieve.faces.cli.common import (
    Actor,
    AsJson,
    Reason,
    acting,
    duration,
    fail,
    patiently,
    run,
    say,
    say_json,
)
from reprieve.faces.cli.rendering import console, plain, table
from reprieve.faces.cli.streams import RedisUrl, SettingsFile, target
from reprieve.faces.cli.work import LogLevel, show_log

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from rich.table import Table

    from reprieve.operations.tasks import SupervisorView

T = TypeVar("T")

_SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)i?b?", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


class SuperviseGroup(TyperGroup):
    """`supervise QUEUE ...` is short for `supervise run QUEUE ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - of the click that Typer brings along, which has no public name
        """Put the command in where none is named."""
        if args and args[0] not in {*self.commands, "--help", "-h"}:
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="supervise",
    cls=SuperviseGroup,
    help="Run the tasks of a stream in workers, see what runs, cancel one task.",
    no_args_is_help=True,
)

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The stream of tasks.", show_default=False)]
GroupName = Annotated[str, typer.Option("--group", "-g", help="Its consumer group.", show_default=False)]


@app.command("run")
def run_supervisor(  # noqa: PLR0913 - one parameter an option
    queue: Queue,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="What runs a task; optional with --image.", show_default=False),
    ] = None,
    *,
    group: GroupName,
    redis_url: RedisUrl = None,
    slots: Annotated[int, typer.Option(help="Tasks at a time.", min=1, max=1000)] = 1,
    body: Annotated[
        str | None,
        typer.Option(help="The field that holds the task as JSON. Default: all fields.", show_default=False),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Try again after crashes, timeouts and retryable errors.")
    ] = False,
    output: Annotated[
        str, typer.Option(help="The stream of results. Default: QUEUE:results.", show_default=False)
    ] = "",
    env: Annotated[
        list[str] | None,
        typer.Option("--env", help="A variable that workers get, and no others; repeatable.", show_default=False),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="What a worker may use, as 512m or 2g.", show_default=False)
    ] = None,
    task_timeout: Annotated[
        str | None,
        typer.Option(help="How long a task may take. Default: as the profile says, 30m.", show_default=False),
    ] = None,
    spawn_timeout: Annotated[
        str | None,
        typer.Option(
            help="How long a worker may take to get ready. Default: as the profile says, 60s.", show_default=False
        ),
    ] = None,
    ready: Annotated[
        bool, typer.Option("--ready/--no-ready", help="Workers say when they are ready; else a start is enough.")
    ] = True,
    image: Annotated[
        str | None, typer.Option(help="Run workers in containers of this image.", show_default=False)
    ] = None,
    container_program: Annotated[
        str | None,
        typer.Option(help="docker or podman. Default: container_program of the settings.", show_default=False),
    ] = None,
    container_argument: Annotated[
        list[str] | None,
        typer.Option("--container-argument", help="A further argument of its `run`; repeatable.", show_default=False),
    ] = None,
    profile: Annotated[str, typer.Option(help="Which failures are retried, and how.")] = "orchestrator",
    service: Annotated[str, typer.Option(help="What dead letters name. Default: the group.", show_default=False)] = "",
    max_start_failures: Annotated[
        int, typer.Option(help="Give up after so many workers in a row that could not be started.", min=1)
    ] = 5,
    shutdown_timeout: Annotated[str, typer.Option(help="How long tasks may take to end when told to stop.")] = "30s",
    lease: Annotated[
        str, typer.Option(help="How long a supervisor may be silent before others take over its tasks.")
    ] = "30s",
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when there is nothing left to do.")] = False,
    settings: SettingsFile = None,
    log_level: Annotated[LogLevel, typer.Option(help="How much is said on standard error.")] = LogLevel.INFO,
) -> None:
    """Run each task of a stream in a process or container of its own, until told to stop.

    SIGTERM or Ctrl-C lets running tasks end, and hands back those that do not; a second signal waits for nothing.
    Exit code 1: workers could not be started.

    Examples:
    reprieve supervise engineering:queue --group workers -- python worker.py

    reprieve supervise engineering:queue --group workers --image worker:1 --env OPENAI_API_KEY --memory 2g --retry
    """
    from reprieve.operations.tasks import supervise_tasks  # noqa: PLC0415 - who asks for help does not wait for it
    from reprieve.supervisor import SupervisorOptions, WorkerSpec  # noqa: PLC0415 - the same
    from reprieve.wiring import build_supervisor, read_container  # noqa: PLC0415 - the same

    url = target(redis_url=redis_url, settings=settings).url
    worker = WorkerSpec(
        tuple(command or ()),
        container=read_container(settings, image, container_program, tuple(container_argument or ())),
        env=None if env is None else tuple(env),
        memory_bytes=None if memory is None else size(memory),
        spawn_timeout_seconds=None if spawn_timeout is None else duration(spawn_timeout),
        task_timeout_seconds=None if task_timeout is None else duration(task_timeout),
        waits_for_ready=ready,
    )
    options = SupervisorOptions(
        slots=slots,
        retry=retry,
        output=output,
        lease=duration(lease),
        shutdown_timeout=duration(shutdown_timeout),
        max_start_failures=max_start_failures,
    )
    show_log(log_level)

    async def supervise() -> int:
        supervisor = build_supervisor(
            queue, worker, group=group, body=body, profile=profile, service=service, options=options
        )
        return await supervise_tasks(supervisor, url, until_idle=until_idle)

    code = run(patiently(supervise))
    if code:
        raise typer.Exit(code)


@app.command()
def status(
    queue: Queue,
    *,
    group: GroupName,
    redis_url: RedisUrl = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the supervisors of a queue and the tasks that they run.

    Examples:
    reprieve supervise status engineering:queue --group workers
    """
    from reprieve.operations.tasks import list_supervisors  # noqa: PLC0415 - who asks for help does not wait for it

    url = target(redis_url=redis_url, settings=settings).url
    found = _ask(list_supervisors(url, queue, group))
    if as_json:
        say_json([asdict(each) for each in found])
    elif not found:
        say(f"no supervisor of {queue} in the group {group}")
    else:
        console().print(_supervisors(found))
        if any(each.tasks for each in found):
            console().print(_tasks(found))


@app.command()
def cancel(
    queue: Queue,
    task: Annotated[str, typer.Argument(metavar="TASK", help="Its id: that of its message.", show_default=False)],
    *,
    group: GroupName,
    reason: Reason,
    redis_url: RedisUrl = None,
    settings: SettingsFile = None,
    actor: Actor = None,
) -> None:
    """Cancel one running task: its worker is stopped, its result says so, and it is not tried again.

    Examples:
    reprieve supervise cancel engineering:queue 1795030522774-0 --group workers --reason "wrong input"
    """
    from reprieve.operations.tasks import cancel_task  # noqa: PLC0415 - who asks for help does not wait for it

    url = target(redis_url=redis_url, settings=settings).url
    found = _ask(cancel_task(url, queue, group, task, actor=acting(actor), reason=reason))
    say(f"{task} is being stopped by {found.name}")


def size(text: str) -> int:
    """Read a number of bytes, as `512m` or `2g`."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no size: 512m, 2g or a number of bytes would be right")
    return int(found[1]) * _UNITS[found[2].lower()]


def _ask(task: Coroutine[object, object, T]) -> T:
    """Ask once: an operator who looks at a Redis that is away wants to know that at once."""
    try:
        return run(task)
    except (UnknownNameError, RefusedError) as error:
        fail(str(error))


def _supervisors(found: Sequence[SupervisorView]) -> Table:
    rows = []
    for each in found:
        heard = f"silent for {each.beat_age_seconds:.0f} s" if each.is_silent else f"{each.beat_age_seconds:.0f} s ago"
        workers, up = each.container_program or "processes", f"{each.uptime_seconds:.0f} s"
        rows.append((plain(each.name), plain(workers), str(each.slots), str(len(each.tasks)), up, heard))
    return table(("supervisor", "workers", "slots", "running", "up", "heard of"), rows)


def _tasks(found: Sequence[SupervisorView]) -> Table:
    rows = []
    for each in (task for supervisor in found for task in supervisor.tasks):
        state, pid = "running" if each.is_started else "spawning", str(each.pid or "")
        seconds = f"{each.seconds:.0f} s"
        rows.append((plain(each.id), plain(each.worker), str(each.attempt), pid, state, seconds))
    return table(("task", "worker", "attempt", "pid", "state", "for"), rows)
