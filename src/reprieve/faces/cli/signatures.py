"""`reprieve reviews signatures | reset | erase`: what is known of signatures, asked again, or forgotten."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from reprieve.core.analysis import AnalysisStatus
from reprieve.errors import UnknownNameError, UsageError
from reprieve.faces.cli.common import DEFAULT_URL, Actor, AsJson, Url, acting, fail, operate, say, say_json
from reprieve.faces.cli.people_views import plain_signature, say_signature, signature_table
from reprieve.faces.cli.rendering import console, count, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.app.operations.reviews import ReviewOperations

MOST: Final = 1000
Why = Annotated[str, typer.Option("--reason", help="Why, in a sentence; kept in the history.", show_default=False)]
AsGiven = Annotated[
    bool, typer.Option("--as-given", help="Samples and answers as they are, secrets and people's data included.")
]
_NAMED: Final = 20
"""Signatures in one message."""
_LEFT: Final = {
    AnalysisStatus.ACTIVE: "is to be asked anyway",
    AnalysisStatus.ANALYZED: "is analyzed",
    AnalysisStatus.NEEDS_REVIEW: "waits for a person",
    AnalysisStatus.SKIPPED: "was skipped again meanwhile",
    None: "is not known",
}


def signatures(
    name: Annotated[
        str | None, typer.Argument(metavar="[SIGNATURE]", help="Everything known of this one.", show_default=False)
    ] = None,
    *,
    status: Annotated[
        AnalysisStatus | None, typer.Option("--status", "-s", help="Only so.", show_default=False)
    ] = None,
    error: Annotated[str | None, typer.Option("--error", help="Only of this error.", show_default=False)] = None,
    after: Annotated[str | None, typer.Option("--after", help="After this one.", show_default=False)] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1, max=MOST)] = 50,
    as_given: AsGiven = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List what is known of signatures, without their answers; or show one of them, with its answer and its history.

    Examples:
    reprieve reviews signatures --status skipped
    reprieve reviews signatures 'shop.example/items/N'
    """
    if name is not None:
        detail = operate(url, lambda operations: operations.reviews.signature(name))
        if as_json:
            say_json(plain_signature(detail, as_given=as_given))
        else:
            say_signature(detail, as_given=as_given)
        return
    found = operate(
        url, lambda operations: operations.reviews.signatures(status, limit=limit, after=after, error_type=error)
    )
    if as_json:
        say_json([asdict(each) for each in found])
    elif not found:
        say("no signatures")
    else:
        console().print(signature_table(found, time.time()))
        if len(found) == limit:
            say(f"more: --after {shlex.quote(plain(found[-1].url_signature))}")


def reset(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SIGNATURE]...", help="Skipped ones.", show_default=False)
    ] = None,
    *,
    reason: Why,
    error: Annotated[
        str | None,
        typer.Option(
            "--error", help="All that were skipped for this error, but for what a person rejected.", show_default=False
        ),
    ] = None,
    actor: Actor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Have skipped signatures asked of the model again; it is kept who asked for that, and why.

    Examples:
    reprieve reviews reset 'shop.example/items/N' --reason 'the page is back'
    reprieve reviews reset --error invalid_api_key --reason 'the key was wrong'
    """
    who = acting(actor)
    if (error is None) == (not names):
        raise UsageError("which ones? Name signatures, or an error with --error, such as invalid_api_key")
    if error is not None:
        done = operate(url, lambda operations: operations.reviews.reset_all(error_type=error, actor=who, reason=reason))
        left: dict[str, AnalysisStatus | None] = {}
    else:
        done, left = operate(url, lambda operations: _reset(operations.reviews, names or [], who, reason))
    if as_json:
        say_json({"reset": list(done), "left": left})
    else:
        say(f"{count(len(done), 'signature')} will be asked again")
    if left:
        told = [f"{plain(name)} {_LEFT[status]}" for name, status in list(left.items())[:_NAMED]]
        more = [f"{len(left) - _NAMED:,} more"] if len(left) > _NAMED else []
        fail(f"not skipped, so left as they are: {'; '.join(told + more)}")


async def _reset(
    reviews: ReviewOperations, names: Sequence[str], actor: str, reason: str
) -> tuple[tuple[str, ...], dict[str, AnalysisStatus | None]]:
    """Those that were, and of the others what they are; None: nothing is known of them."""
    done = await reviews.reset(names, actor=actor, reason=reason)
    left: dict[str, AnalysisStatus | None] = {}
    for name in dict.fromkeys(names):
        if name not in done:
            try:
                left[name] = (await reviews.signature(name)).signature.status
            except UnknownNameError:
                left[name] = None
    return done, left


def erase(
    names: Annotated[list[str], typer.Argument(metavar="SIGNATURE...", help="Which ones.", show_default=False)],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    actor: Actor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Erase all that is known of signatures: answers, a person's too, reviews that wait, and the history.

    All or nothing: refused while the model is being asked about one of them. Whoever asks about it after that asks the model
    anew. It cannot be undone.

    Examples:
    reprieve reviews erase 'people.example/ada-lovelace' --yes
    """
    who = acting(actor)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("erasing cannot be undone: say --yes where nobody can be asked")
        typer.confirm("Erase all that is known of these signatures? It cannot be undone.", abort=True, err=True)
    done = operate(url, lambda operations: operations.reviews.erase(names, actor=who))
    if as_json:
        say_json({"erased": list(done)})
    elif done:
        say(f"all that was known of {count(len(done), 'signature')} erased")
    if len(done) < len(set(names)):
        fail(f"nothing is known of {count(len(set(names)) - len(done), 'signature')}, or it was erased before")
