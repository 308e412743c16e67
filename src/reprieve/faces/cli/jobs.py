"""`reprieve jobs`: list, show, cancel, watch, prune, erase."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, assert_never

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from reprieve.core.lifecycle import JobStatus, LetterState
from reprieve.errors import UnknownNameError, UsageError
from reprieve.faces.cli import job_views
from reprieve.faces.cli.common import (
    DEFAULT_URL,
    Actor,
    AsJson,
    PipelineOption,
    Reason,
    Url,
    acting,
    duration,
    fail,
    operate,
    say,
    say_json,
)
from reprieve.faces.cli.rendering import console, count
from reprieve.faces.cli.watch import watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.app.operations import Operations
    from reprieve.app.operations.jobs import JobDetail
    from reprieve.ports.reader import JobView, Pruned

app = typer.Typer(name="jobs", help="Look at jobs, cancel, prune and erase them.", no_args_is_help=True)
app.command()(watch)


@app.command("list")
def list_jobs(
    *,
    pipeline: PipelineOption = None,
    status: Annotated[
        JobStatus | None, typer.Option("--status", "-s", help="Only of this status.", show_default=False)
    ] = None,
    stage: Annotated[str | None, typer.Option(help="Only those at this stage.", show_default=False)] = None,
    subject: Annotated[str | None, typer.Option(help="Only of this subject.", show_default=False)] = None,
    after: Annotated[
        int | None, typer.Option(help="Only older than this job: the next page.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=10_000)] = 50,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List jobs, the newest first.

    Examples:
    reprieve jobs list --status dead_letter

    reprieve jobs list -p review --stage llm --json
    """
    from reprieve.ports.reader import JobFilter  # noqa: PLC0415 - who asks for help does not wait for it

    wanted = JobFilter(pipeline=pipeline, status=status, stage=stage, subject=subject, after=after, limit=limit)

    async def task(operations: Operations) -> Sequence[JobView]:
        return await operations.jobs.list(wanted)

    found = operate(url, task)
    following = found[-1].job_id if len(found) == limit else None
    if as_json:
        say_json({"jobs": [job_views.as_json(job) for job in found], "after": following})
    elif not found:
        say("no jobs")
    else:
        console().print(job_views.job_table(found, time.time()))
        if following is not None:
            say(f"There may be older ones: --after {following}")


@app.command()
def show(
    *,
    job_id: Annotated[int | None, typer.Argument(help="The job's id.", show_default=False)] = None,
    key: Annotated[
        str | None, typer.Option(help="Its idempotency key, in place of the id.", show_default=False)
    ] = None,
    payload: Annotated[bool, typer.Option("--payload", help="Show its payload too, as it was given.")] = False,
    result: Annotated[bool, typer.Option("--result", help="Show its result too, as it was stored.")] = False,
    stack: Annotated[bool, typer.Option("--stack", help="Show the stack of its dead letter too.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show a job: where it stands, the stages that it has passed, what failed, and its dead letter.

    Examples:
    reprieve jobs show 42

    reprieve jobs show --key cl-42@3 --payload
    """
    if (job_id is None) == (key is None):
        raise UsageError("give the job's id or its --key")

    async def task(operations: Operations) -> tuple[JobDetail, bytes | None, bytes | None]:
        jobs = operations.jobs
        found = await (jobs.show(job_id) if job_id is not None else jobs.find(key or ""))
        given = await jobs.payload(found.job.job_id) if payload else None
        ending = await jobs.ending(found.job.job_id) if result else None
        return found, given, None if ending is None else ending.result

    detail, given, left = operate(url, task)
    asked = {name: data for name, data, wanted in (("payload", given, payload), ("result", left, result)) if wanted}
    if as_json:
        say_json({**job_views.detail_as_json(detail), **{name: _read(data) for name, data in asked.items()}})
        return
    screen = console()
    screen.print(job_views.job_page(detail, time.time(), stack=stack))
    for name, data in asked.items():
        screen.print(job_views.content(name, data))


def _read(data: bytes | None) -> object:
    return None if data is None else json.loads(data)


@app.command()
def cancel(
    job_ids: Annotated[
        list[int] | None, typer.Argument(metavar="[ID]...", help="Their ids.", show_default=False)
    ] = None,
    *,
    keys: Annotated[
        list[str] | None, typer.Option("--key", help="An idempotency key, in place of an id.", show_default=False)
    ] = None,
    reason: Reason = "",
    actor: Actor = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Cancel jobs: at once where they wait; one that runs is stopped by its worker.

    Ends with 1 where a job had ended before or is not there; the others are cancelled all the same.

    Examples:
    reprieve jobs cancel 42 43 --reason 'submitted by mistake'
    """
    who = acting(actor)
    if not (job_ids or keys):
        raise UsageError("say which jobs: their ids, or --key")
    for job_id in job_ids or ():
        if job_id < 1:
            raise UsageError(f"a job's id is a number from 1, not {job_id}")

    async def task(operations: Operations) -> bool:
        ids = [*(job_ids or ()), *[(await operations.jobs.find(key)).job.job_id for key in keys or ()]]
        return all([await _cancel(operations, job_id, who, reason) for job_id in ids])

    if not operate(url, task):
        raise typer.Exit(1)


async def _cancel(operations: Operations, job_id: int, actor: str, reason: str) -> bool:
    from reprieve.ports.intents import Cancelled  # noqa: PLC0415 - who asks for help does not wait for it

    try:
        answer = await operations.jobs.cancel(job_id, actor=actor, reason=reason)
    except UnknownNameError:
        answer = Cancelled.UNKNOWN
    match answer:
        case Cancelled.DONE:
            letter = (await operations.jobs.show(job_id)).dead_letter
            closed = letter is not None and letter.state == LetterState.DISCARDED
            say(
                f"job {job_id}: cancelled{f'; dead letter {letter.letter_id} is discarded with it' if letter and closed else ''}"
            )
        case Cancelled.REQUESTED:
            say(f"job {job_id}: running; its worker will stop it")
        case Cancelled.OVER:
            say(f"job {job_id}: had ended before")
        case Cancelled.UNKNOWN:
            say(f"job {job_id}: is not there")
        case _:
            assert_never(answer)
    return answer in {Cancelled.DONE, Cancelled.REQUESTED}


@app.command()
def prune(
    *,
    older_than: Annotated[
        str, typer.Option(help="How long ago they have to have ended: 30d, 12h, 90m, 2w.", show_default=False)
    ],
    pipeline: PipelineOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count; remove nothing.")] = False,
    actor: Actor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Remove jobs that ended long ago, with their results and attempts; never one that a dead letter or delivery needs.

    Removed in small transactions, so that workers go on meanwhile. A key that is removed can be submitted anew, and a
    subject starts again from any version: keep jobs for as long as duplicates can come.

    Examples:
    reprieve jobs prune --older-than 30d --dry-run

    reprieve jobs prune --older-than 12w -p review
    """
    seconds, who = duration(older_than, unit=True), acting(actor)
    done = operate(url, lambda operations: _prune(operations, seconds, who, pipeline, dry=dry_run))
    if as_json:
        kept_for = {"dead_letters": done.kept_for_dead_letters, "deliveries": done.kept_for_deliveries}
        say_json({"jobs": done.jobs, "kept_for": kept_for, "dry_run": dry_run})
        return
    verb = "would be removed" if dry_run else "removed"
    kept = (
        f"; {count(done.kept_for_dead_letters, 'job')} kept for open dead letters" if done.kept_for_dead_letters else ""
    )
    if done.kept_for_deliveries:
        kept += f"; {count(done.kept_for_deliveries, 'job')} kept for deliveries that are not settled"
    say(f"{count(done.jobs, 'job')} {verb}{kept}")


async def _prune(operations: Operations, seconds: float, actor: str, pipeline: str | None, *, dry: bool) -> Pruned:
    from reprieve.ports.reader import JobFilter  # noqa: PLC0415 - the same

    newest = await operations.jobs.list(JobFilter(limit=1))
    columns = (TextColumn("looking at job {task.completed:,.0f} of {task.total:,.0f}"), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as shown:
        bar = shown.add_task("", total=newest[0].job_id if newest else 1)

        def tell(pruned: Pruned) -> None:
            shown.update(bar, completed=pruned.after, description=count(pruned.jobs, "job"))

        return await operations.jobs.prune(seconds, actor=actor, pipeline=pipeline, dry=dry, tell=tell)


@app.command()
def erase(
    subject: Annotated[str, typer.Argument(help="Whose jobs.", show_default=False)],
    *,
    pipeline: PipelineOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    actor: Actor = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Erase what a subject's jobs were given and gave: payloads, results, memos, and the names of both subject and keys.

    The jobs must be over. That they ran, when, and what failed (sanitized) stays. It cannot be undone.

    Examples:
    reprieve jobs erase customer-17 --yes
    """
    who = acting(actor)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("erasing cannot be undone: say --yes where nobody can be asked")
        typer.confirm("Erase the contents of all jobs of this subject? It cannot be undone.", abort=True, err=True)
    erased = operate(url, lambda operations: operations.jobs.erase(subject, actor=who, pipeline=pipeline))
    if not erased:
        fail("no job has that subject, or it was erased before")
    say(f"the contents of {count(erased, 'job')} erased")
