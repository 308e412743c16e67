"""`reprieve dead triage | remediate | approve | verify | resolve | escalate | discard | reopen | note`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from reprieve.app.next_steps import next_step, next_step_of
from reprieve.core.lifecycle import DEAD, LetterEvent, LetterState
from reprieve.core.remedies import RootCause  # noqa: TC001 - Typer evaluates annotations at run time
from reprieve.errors import UsageError
from reprieve.faces.cli.common import complain, operate, say, say_json
from reprieve.faces.cli.dead_selecting import Chosen, selection, takes
from reprieve.faces.cli.rendering import count, plain
from reprieve.ports.dead_letters import LetterFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from reprieve.app.operations import Operations
    from reprieve.app.operations.dead_letters import DeadLetterOperations
    from reprieve.ports.dead_letters import LetterRow
    from reprieve.ports.intents import Refused, Remedied

    Act = Callable[[DeadLetterOperations, Callable[[int], None]], Awaitable[Remedied]]

_TOLD: Final = 20
"""So many are told one by one."""
_DONE: Final[Mapping[LetterEvent, str]] = {
    LetterEvent.TRIAGE: "triaged",
    LetterEvent.REMEDIATE: "remediated",
    LetterEvent.APPROVE: "approved",
    LetterEvent.REPLAY: "put back into the queue",
    LetterEvent.VERIFY: "verified",
    LetterEvent.RESOLVE: "resolved",
    LetterEvent.ESCALATE: "escalated",
    LetterEvent.DISCARD: "discarded",
    LetterEvent.REOPEN: "reopened",
    LetterEvent.NOTE: "annotated",
}
Why = Annotated[str, typer.Option("--reason", help="Why, in a sentence; kept with it.", show_default=False)]


@takes(selection)
def triage(
    chosen: Chosen,
    *,
    cause: Annotated[RootCause, typer.Option("--cause", help="What the cause is.", show_default=False)],
    note: Annotated[str, typer.Option("--note", help="More about it.", show_default=False)] = "",
) -> None:
    """Name the cause: transient, data, auth_config or code.

    Of a group or a filter, those that are open or escalated are meant, unless --state says otherwise. Another cause for one
    that was further along takes it back: it needs new evidence.

    Examples:
    reprieve dead triage 7 --cause data

    reprieve dead triage --group v1:4c07 --cause transient --note 'the provider was down from 9 to 10'
    """
    act(chosen, LetterEvent.TRIAGE, lambda letters, tell: letters.triage(
        chosen.which, cause, note=note, actor=chosen.actor, tell=tell,
    ))  # fmt: skip


@takes(selection)
def remediate(
    chosen: Chosen,
    *,
    evidence: Annotated[
        str, typer.Option("--evidence", help="What was done, and where that can be seen.", show_default=False)
    ],
) -> None:
    """Record what was done about the cause: the ticket, the deployment, the corrected source.

    Examples:
    reprieve dead remediate 7 --evidence 'INC-12: the mapping was corrected, checked with the sample'
    """
    act(chosen, LetterEvent.REMEDIATE, lambda letters, tell: letters.remediate(
        chosen.which, evidence, actor=chosen.actor, tell=tell,
    ))  # fmt: skip


@takes(selection)
def approve(
    chosen: Chosen,
    *,
    because: Annotated[str, typer.Option("--because", help="Why running it again does no harm.", show_default=False)],
) -> None:
    """Confirm that running it again is idempotent, or safe for duplicate effects.

    Examples:
    reprieve dead approve 7 --because 'the stage writes by key'
    """
    act(chosen, LetterEvent.APPROVE, lambda letters, tell: letters.approve(
        chosen.which, because, actor=chosen.actor, tell=tell,
    ))  # fmt: skip


@takes(selection)
def verify(
    chosen: Chosen,
    *,
    note: Annotated[str, typer.Option("--note", help="Close it with this, if all is well.", show_default=False)] = "",
) -> None:
    """See whether a replayed job has succeeded and everybody was told, and record it; with --note, close it.

    Ends with 1 where something is missing, which is then on record too.

    Examples:
    reprieve dead verify 7

    reprieve dead verify --group v1:4c07 --note 'INC-12 is closed'
    """
    act(chosen, LetterEvent.VERIFY, lambda letters, tell: letters.verify(
        chosen.which, note=note, actor=chosen.actor, tell=tell,
    ))  # fmt: skip


@takes(selection)
def resolve(
    chosen: Chosen,
    *,
    note: Annotated[str, typer.Option("--note", help="How it was resolved.", show_default=False)],
) -> None:
    """Close it with a note; refused unless its job has succeeded and everybody was told.

    Examples:
    reprieve dead resolve 7 --note 'INC-12 is closed'
    """
    act(chosen, LetterEvent.RESOLVE, lambda letters, tell: letters.resolve(
        chosen.which, note, actor=chosen.actor, tell=tell,
    ))  # fmt: skip


@takes(selection)
def escalate(chosen: Chosen, *, reason: Why) -> None:
    """Hand it to engineering.

    Examples:
    reprieve dead escalate 7 --reason 'fails for every customer in Japan'
    """
    act(chosen, LetterEvent.ESCALATE, lambda letters, tell: letters.escalate(
        chosen.which, reason, actor=chosen.actor, tell=tell,
    ))  # fmt: skip


@takes(selection)
def discard(chosen: Chosen, *, reason: Why) -> None:
    """Close it without a replay; it can be reopened.

    Examples:
    reprieve dead discard 7 --reason 'the customer has withdrawn the order'
    """
    act(chosen, LetterEvent.DISCARD, lambda letters, tell: letters.discard(
        chosen.which, reason, actor=chosen.actor, tell=tell,
    ))  # fmt: skip


@takes(selection)
def reopen(chosen: Chosen, *, reason: Why) -> None:
    """Open a discarded one again.

    Examples:
    reprieve dead reopen 7 --reason 'discarded by mistake'
    """
    act(chosen, LetterEvent.REOPEN, lambda letters, tell: letters.reopen(
        chosen.which, reason, actor=chosen.actor, tell=tell,
    ))  # fmt: skip


@takes(selection)
def note(
    chosen: Chosen,
    *,
    words: Annotated[str, typer.Option("--note", help="What others should know.", show_default=False)],
) -> None:
    """Add a note to its history.

    Examples:
    reprieve dead note 7 --note 'asked the provider, INC-12'
    """
    act(chosen, LetterEvent.NOTE, lambda letters, tell: letters.note(
        chosen.which, words, actor=chosen.actor, tell=tell,
    ))  # fmt: skip


def act(chosen: Chosen, event: LetterEvent, do: Act) -> None:
    """Do it, after asking where many are meant; tell what became of it, and what comes next."""
    meant = None
    if isinstance(chosen.which, LetterFilter):
        meant = operate(chosen.url, lambda operations: operations.dead_letters.count(chosen.which, event))
        if not _sure(chosen, event, meant):
            return

    finished: list[Remedied] = []

    async def task(operations: Operations) -> tuple[Remedied, Sequence[LetterRow]]:
        letters = operations.dead_letters
        if not finished:  # the database may have been away just when what was done was to be looked at
            with _progress(meant) as tell:
                finished.append(await do(letters, tell))
        (done,) = finished
        shown = done.applied[: _TOLD if meant is None else 1]
        return done, [(await letters.show(letter_id)).row for letter_id in shown]

    done, rows = operate(chosen.url, task)
    if chosen.as_json:
        say_json({"applied": done.applied, "refused": [refusal(each) for each in done.refused]})
    else:
        _tell(chosen, event, done, rows, one_by_one=meant is None)
    if done.refused:
        raise typer.Exit(1)


def refusal(refused: Refused) -> dict[str, object]:
    """Why one was refused, as plain values."""
    return {"letter_id": refused.letter_id, "state": refused.state, "why": refused.why}


def tell_refusals(refused: Sequence[Refused]) -> None:
    """Say why, of the first few."""
    for each in refused[:_TOLD]:
        complain(f"dead letter {each.letter_id}: {plain(each.why)}")
    if len(refused) > _TOLD:
        complain(f"... and {len(refused) - _TOLD:,} more; --json has all")


def left_out(row: LetterRow) -> str:
    """A clause for one that a campaign would have replayed, and now will not."""
    if row.waits_in is None or row.state in DEAD - {LetterState.ESCALATED}:
        return ""
    return f"; campaign {row.waits_in}, in which it waited for its turn, will leave it out"


def tell_next(rows: Sequence[LetterRow], which: str | None = None) -> None:
    """Say what comes next for these, and the command for it; for all in the same state at once."""
    kinds: dict[tuple[LetterState, int | None], list[LetterRow]] = {}
    for row in rows:
        kinds.setdefault((row.state, row.waits_in), []).append(row)
    for (state, _), some in kinds.items():
        first = some[0]
        named = which or " ".join(str(row.letter_id) for row in some)
        if len(some) == 1 and which is None:
            step = next_step_of(first)
        else:
            step = next_step(state, named, category=first.category, cause=first.cause, job_id=first.job_id)
        say(f"  next: {step.what}")
        if step.command is not None:
            say(f"  {plain(step.command)}{'' if step.hint is None else f'    # {step.hint}'}")


def _sure(chosen: Chosen, event: LetterEvent, meant: int) -> bool:
    """Whether so many are to be changed."""
    if not meant:
        if chosen.as_json:
            say_json({"applied": [], "refused": []})
        else:
            say("no dead letter is meant by that: nothing to do")
        return False
    if chosen.sure:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{count(meant, 'dead letter')} would be {_DONE[event]}: say --yes where nobody can be asked")
    typer.confirm(f"{count(meant, 'dead letter')} will be {_DONE[event]}. Go on?", abort=True, err=True)
    return True


@contextmanager
def _progress(meant: int | None) -> Iterator[Callable[[int], None]]:
    """How far it is, where somebody watches and it can take a while."""
    columns = (TextColumn("dead letters"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = meant is None or not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as shown:
        bar = shown.add_task("", total=meant)
        yield lambda done: shown.update(bar, completed=done)


def _tell(chosen: Chosen, event: LetterEvent, done: Remedied, rows: Sequence[LetterRow], *, one_by_one: bool) -> None:
    closed = event is LetterEvent.VERIFY and all(row.state is LetterState.RESOLVED for row in rows)
    what = "verified and resolved" if closed else _DONE[event]
    for row in rows if one_by_one else ():
        say(f"dead letter {row.letter_id}: {what}{left_out(row)}")
    if not one_by_one or len(rows) < len(done.applied):
        say(f"{count(len(done.applied), 'dead letter')} {what}")
    if event is LetterEvent.VERIFY and not closed and chosen.option and done.applied:
        say("  next: close it with a note")
        say(f"  reprieve dead resolve {' '.join(map(str, done.applied)) if one_by_one else chosen.option} --note '...'")
    elif one_by_one or chosen.option:
        tell_next(rows, None if one_by_one else chosen.option)
    tell_refusals(done.refused)
