"""Which dead letters a command is about: their ids, a group, a filter; the options for it, and asking before many are changed."""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from reprieve.core.failure import Category
from reprieve.core.lifecycle import LetterState
from reprieve.errors import UsageError
from reprieve.faces.cli.common import (
    DEFAULT_URL,
    Actor,
    AsJson,
    PipelineOption,
    Url,
    acting,
    duration,
)
from reprieve.ports.dead_letters import LetterFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
R = TypeVar("R")

States = Annotated[
    list[LetterState] | None, typer.Option("--state", "-s", help="Only in this state; several times for several.")
]
StageOption = Annotated[str | None, typer.Option("--stage", help="Only those that died at this stage.")]
ClassOption = Annotated[str | None, typer.Option("--class", "-c", help="Only of this error class.")]
CategoryOption = Annotated[Category | None, typer.Option("--category", help="Only of this category.")]
Group = Annotated[
    str | None, typer.Option("--group", "-g", help="Only of this group: its fingerprint, or how it begins.")
]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Their ids; job:ID is the one of a job.", show_default=False),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def takes(shared: Callable[..., T]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Give a command the options of `shared` besides its own; what that makes of them is its first argument."""
    theirs = list(inspect.signature(shared, eval_str=True).parameters.values())

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        _, *own = inspect.signature(command, eval_str=True).parameters.values()

        @wraps(command)
        def run(**given: Any) -> R:  # noqa: ANN401 - whatever the options are
            made = shared(**{each.name: given.pop(each.name) for each in theirs})
            return command(made, **given)

        every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *theirs)]
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]  # what inspect looks for
        run.__annotations__ = {each.name: each.annotation for each in every}
        return run

    return decorate


def filters(  # noqa: PLR0913 - one parameter an option
    *,
    state: States = None,
    pipeline: PipelineOption = None,
    stage: StageOption = None,
    error_class: ClassOption = None,
    category: CategoryOption = None,
    group: Group = None,
    text: Annotated[
        str | None,
        typer.Option("--text", help="Only with this in the message, the stack or the context; takes longer."),
    ] = None,
    since: Annotated[str | None, typer.Option("--since", help="Died in the last 2h, 7d, ...")] = None,
    older_than: Annotated[str | None, typer.Option("--older-than", help="Died longer ago than 2h, 7d, ...")] = None,
) -> LetterFilter:
    """What the filter options say."""
    now = time.time()
    return LetterFilter(
        states=frozenset(state or ()),
        pipeline=pipeline,
        stage=stage,
        error_class=error_class,
        category=category,
        fingerprint=group,
        text=text,
        since=None if since is None else now - duration(since, unit=True),
        before=None if older_than is None else now - duration(older_than, unit=True),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What a change is asked for, by whom, and how it is told."""

    which: Sequence[str] | LetterFilter
    actor: str
    sure: bool
    as_json: bool
    url: str

    @property
    def option(self) -> str | None:
        """How the same is said to the next command, where that is short."""
        if isinstance(self.which, LetterFilter):
            group = self.which.fingerprint
            return f"--group {group}" if group and self.which == LetterFilter(fingerprint=group) else None
        return " ".join(self.which)


@takes(filters)
def selection(
    wanted: LetterFilter, *, ids: Ids = None, yes: Yes = False, actor: Actor = None, as_json: AsJson = False, url: Url = DEFAULT_URL
) -> Chosen:  # fmt: skip
    """Ids, or a filter."""
    if ids and wanted != LetterFilter():
        raise UsageError("ids and filters do not go together: give the ids, or --group and the like")
    if not ids and wanted == LetterFilter():
        raise UsageError("say which dead letters: their ids, --group FINGERPRINT, or a filter")
    return Chosen(which=ids or wanted, actor=acting(actor), sure=yes, as_json=as_json, url=url)
