"""`reprieve stages`: list, pause, resume."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.errors import UnknownNameError
from reprieve.faces.cli.common import (
    DEFAULT_URL,
    Actor,
    AsJson,
    Home,
    PipelineOption,
    Reason,
    Url,
    acting,
    fail,
    operate,
    say,
    say_json,
)
from reprieve.faces.cli.rendering import console, plain, table, when

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from reprieve.app.operations import Operations
    from reprieve.ports.reader import StageView

app = typer.Typer(name="stages", help="Look at stages, pause and resume them.", no_args_is_help=True)

PipelineName = Annotated[str, typer.Argument(metavar="PIPELINE", help="Its pipeline.", show_default=False)]
StageName = Annotated[
    str | None, typer.Argument(metavar="[STAGE]", help="Its name. Default: all of the pipeline.", show_default=False)
]


@app.command("list")
def list_stages(*, pipeline: PipelineOption = None, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List stages with the jobs that stand at each, and which are paused, or held because their upstream fails.

    Examples:
    reprieve stages list -p review
    """
    found = operate(url, lambda operations: operations.stages.list(pipeline))
    if as_json:
        say_json([asdict(stage) for stage in found])
    elif not found:
        say("no stages: no worker has been here yet, and no job")
    else:
        console().print(_table(found, time.time()))


@app.command()
def pause(
    pipeline: PipelineName,
    stage: StageName = None,
    *,
    reason: Reason = "",
    actor: Actor = None,
    home: Home = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Pause a stage: nobody claims its jobs until it is resumed; what runs goes on to its end.

    Stages are known once a worker has run; before that, by --app, or by name where the pipeline has jobs.

    Examples:
    reprieve stages pause review llm --reason 'the provider is down until noon'
    """
    who = acting(actor)

    async def task(operations: Operations) -> Sequence[StageView]:
        stages = operations.stages
        try:
            return await stages.pause(pipeline, stage, actor=who, reason=reason)
        except UnknownNameError as error:
            declared = _declared(home, pipeline)
            if not declared:
                fail(f"{error}; stages are known once a worker has run, or by --app")
            return await stages.pause(pipeline, stage, actor=who, reason=reason, declared=declared)

    changed = operate(url, task)
    _tell(changed, "paused", "it was paused before")


@app.command()
def resume(pipeline: PipelineName, stage: StageName = None, *, actor: Actor = None, url: Url = DEFAULT_URL) -> None:
    """Resume a stage that is paused, or held because its upstream failed.

    Examples:
    reprieve stages resume review llm
    """
    who = acting(actor)
    changed = operate(url, lambda operations: operations.stages.resume(pipeline, stage, actor=who))
    _tell(changed, "resumed", "it was neither paused nor held")


def _declared(home: str | None, pipeline: str) -> list[str]:
    """The stages of a pipeline, read from its declaration."""
    if home is None:
        return []
    from reprieve.app.pipeline.finding import load_pipelines  # noqa: PLC0415 - runs the user's code: only where it has to be

    found = load_pipelines(home).get(pipeline)
    return [] if found is None else [stage.name for stage in found.stages]


def _tell(changed: Sequence[StageView], done: str, otherwise: str) -> None:
    for stage in changed:
        say(f"{plain(stage.pipeline)}.{plain(stage.stage)} {done}")
    if not changed:
        say(f"nothing to do: {otherwise}")


def _table(stages: Sequence[StageView], now: float) -> Table:
    headings = ("pipeline", "stage", "state", "ready", "running", "scheduled", "waiting", "suspect")
    rows = (
        (
            stage.pipeline,
            stage.stage,
            _state(stage, now),
            *(
                str(number or "")
                for number in (stage.ready, stage.leased, stage.scheduled, stage.waiting, stage.suspects)
            ),
        )
        for stage in stages
    )
    return table(headings, rows)


def _state(stage: StageView, now: float) -> str:
    why = f": {stage.reason}" if stage.reason else ""
    if stage.paused:
        return f"paused by {stage.paused_by}, {when(stage.changed_at, now)}{why}"
    if stage.opened_at is not None:
        return f"held since {when(stage.opened_at, now)}, next try {when(stage.held_until, now)}{why}"
    if stage.held_until is not None and stage.held_until > now:
        return f"held until {when(stage.held_until, now)}{why}"
    return "open"
