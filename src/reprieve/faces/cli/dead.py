"""`reprieve dead`: dead letters; list, groups, show, stats, export, prune, and what is done about them."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from reprieve.core.lifecycle import LetterState
from reprieve.faces.cli import campaigns, dead_acts, dead_views
from reprieve.faces.cli.common import (
    DEFAULT_URL,
    Actor,
    AsJson,
    PipelineOption,
    Url,
    acting,
    duration,
    operate,
    say,
    say_json,
)
from reprieve.faces.cli.dead_replay import replay
from reprieve.faces.cli.dead_selecting import CategoryOption, ClassOption, StageOption, States, filters, takes
from reprieve.faces.cli.rendering import console, count
from reprieve.ports.dead_letters import GroupFilter, LetterFilter, Sort

app = typer.Typer(
    name="dead", help="Dead letters: find them, see to their cause, replay them, and prove that it worked.",
    no_args_is_help=True,
)  # fmt: skip


@app.command("list")
@takes(filters)
def list_letters(
    wanted: LetterFilter,
    *,
    every: Annotated[bool, typer.Option("--all", "-a", help="Closed ones too.")] = False,
    oldest: Annotated[bool, typer.Option("--oldest", help="The oldest first.")] = False,
    after: Annotated[str | None, typer.Option(help="Where the page before ended.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=1000)] = 20,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List dead letters that ask for something, the newest first, each with what comes next.

    Examples:
    reprieve dead list

    reprieve dead list --class AUTH_DENIED --since 24h --state open

    reprieve dead list --text 'customer 17' --all --json
    """
    states = wanted.states or frozenset(state for state in LetterState if every or not state.closed)
    page = replace(wanted, states=states, sort=Sort.OLDEST if oldest else Sort.NEWEST, after=after, limit=limit)
    found = operate(url, lambda operations: operations.dead_letters.list(page))
    following = found[-1].cursor if len(found) == limit else None
    if as_json:
        say_json({"dead_letters": [dead_views.row_as_json(row) for row in found], "after": following})
    elif not found:
        say("no dead letters")
    else:
        console().print(dead_views.letter_list(found, time.time()))
        if following is not None:
            say(f"There may be more: --after {following}")


@app.command()
def groups(  # noqa: PLR0913 - one parameter an option
    *,
    state: States = None,
    pipeline: PipelineOption = None,
    stage: StageOption = None,
    error_class: ClassOption = None,
    category: CategoryOption = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="Count closed ones too.")] = False,
    recent: Annotated[bool, typer.Option("--recent", help="Those seen last first, not the largest.")] = False,
    offset: Annotated[int, typer.Option(help="How many to leave out.", min=0)] = 0,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=1000)] = 20,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List groups of dead letters that failed alike, the largest first, each with what comes next.

    Examples:
    reprieve dead groups

    reprieve dead groups --recent --stage notify
    """
    states = frozenset(state or [each for each in LetterState if every or not each.closed])
    wanted = GroupFilter(
        states=states, pipeline=pipeline, stage=stage, error_class=error_class, category=category, by_count=not recent,
        offset=offset, limit=limit,
    )  # fmt: skip
    found = operate(url, lambda operations: operations.dead_letters.groups(wanted))
    following = offset + limit if len(found) == limit else None
    if as_json:
        say_json({"groups": [dead_views.group_as_json(group) for group in found], "offset": following})
    elif not found:
        say("no dead letters")
    else:
        console().print(dead_views.group_list(found, time.time(), states=states, blocks=_draws()))
        if following is not None:
            say(f"There may be more: --offset {following}")


@app.command()
def show(
    letter: Annotated[
        str, typer.Argument(metavar="ID", help="Its id; job:ID is the one of a job.", show_default=False)
    ],
    *,
    stack: Annotated[bool, typer.Option("--stack", help="Show the stack too.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show a dead letter: what failed, with what evidence, all that has happened since, and what comes next.

    Examples:
    reprieve dead show 7

    reprieve dead show job:42 --stack
    """
    detail = operate(url, lambda operations: operations.dead_letters.show(letter))
    if as_json:
        say_json(dead_views.detail_as_json(detail))
    else:
        console().print(dead_views.letter_page(detail, time.time(), stack=stack))


@app.command()
def stats(
    *,
    window: Annotated[str, typer.Option(help="Over which time rates are taken: 24h, 7d.")] = "24h",
    pipeline: PipelineOption = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the figures: size, inflow, terminal error rate, retry success rate, age of the oldest, time to resolution.

    Examples:
    reprieve dead stats --window 7d
    """
    seconds = duration(window, unit=True)
    found = operate(url, lambda operations: operations.dead_letters.stats(window=seconds, pipeline=pipeline))
    if as_json:
        say_json(asdict(found))
    else:
        console().print(dead_views.stats_page(found, time.time(), blocks=_draws()))


@app.command()
@takes(filters)
def export(
    wanted: LetterFilter,
    *,
    whole: Annotated[bool, typer.Option("--whole", help="With message, stack, context and history of each.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file to write. Default: standard output.", show_default=False),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Write all dead letters that a filter finds as JSON Lines, closed ones too unless --state says otherwise.

    Examples:
    reprieve dead export --pipeline review --since 7d -o week.jsonl

    reprieve dead export --state escalated --whole
    """
    from reprieve.faces.cli.dead_export import write  # noqa: PLC0415 - who asks for help does not wait for it

    written = operate(url, lambda operations: write(operations.dead_letters, wanted, output, whole=whole))
    if output is not None:
        say(f"{count(written, 'dead letter')} written to {output}")


@app.command()
def prune(
    *,
    older_than: Annotated[
        str, typer.Option(help="How long ago they have to have been closed: 90d, 12w.", show_default=False)
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count; change nothing.")] = False,
    actor: Actor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Reduce dead letters that were closed long ago to a summary: their texts and histories go. Never an open one.

    Examples:
    reprieve dead prune --older-than 90d --dry-run
    """
    seconds, who = duration(older_than, unit=True), acting(actor)
    done = operate(url, lambda operations: operations.dead_letters.prune(seconds, actor=who, dry=dry_run))
    if as_json:
        say_json({"dead_letters": done.letters, "dry_run": dry_run})
        return
    say(f"{count(done.letters, 'dead letter')} {'would be reduced' if dry_run else 'reduced'} to a summary")


for each in (
    dead_acts.triage, dead_acts.remediate, dead_acts.approve, replay, dead_acts.verify, dead_acts.resolve, dead_acts.escalate,
    dead_acts.discard, dead_acts.reopen, dead_acts.note,
):  # fmt: skip
    app.command()(each)
app.add_typer(campaigns.app)


def _draws() -> bool:
    """Whether block characters can be written."""
    return "utf" in (sys.stdout.encoding or "").lower()
