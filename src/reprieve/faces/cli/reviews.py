"""`reprieve reviews`: list, show, claim, release, verify, reject, undo, signatures, reset, prune, erase."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprieve.core.analysis import ReviewState
from reprieve.errors import RefusedError, UsageError
from reprieve.faces.cli.common import (
    BUILT_IN_NAME,
    DEFAULT_URL,
    Actor,
    AsJson,
    Home,
    PipelineOption,
    Url,
    acting,
    duration,
    find_pipelines,
    operate,
    say,
    say_json,
)
from reprieve.faces.cli.people_views import plain_detail, review_table, say_detail
from reprieve.faces.cli.rendering import console, count
from reprieve.faces.cli.signatures import MOST, AsGiven, Why, erase, reset, signatures
from reprieve.ports.reviews import ReviewFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from reprieve.app.operations import Operations
    from reprieve.app.operations.reviews import ReviewOperations
    from reprieve.ports.reviews import ReviewDetail

app = typer.Typer(
    name="reviews", help="What waits for a person: look, claim, verify, reject, undo.", no_args_is_help=True
)

Id = Annotated[int, typer.Argument(metavar="ID", help="The review's number.", show_default=False)]
Note = Annotated[str, typer.Option("--note", help="A note for the history.", show_default=False)]
TakeOver = Annotated[bool, typer.Option("--take-over", help="Though somebody else has claimed it.")]


@app.command("list")
def list_reviews(  # noqa: PLR0913 - one parameter an option
    *,
    state: Annotated[
        list[ReviewState] | None,
        typer.Option("--state", "-s", help="Only so; may be given again. Default: what waits.", show_default=False),
    ] = None,
    pipeline: PipelineOption = None,
    signature: Annotated[
        str | None, typer.Option("--signature", help="Only of this signature.", show_default=False)
    ] = None,
    job: Annotated[int | None, typer.Option("--job", help="Only of this job.", show_default=False)] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only what you have claimed.")] = False,
    after: Annotated[int | None, typer.Option("--after", help="Newer than this number.", show_default=False)] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1, max=MOST)] = 50,
    actor: Actor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List what waits for a person, the oldest first: signatures and jobs.

    Examples:
    reprieve reviews list
    reprieve reviews list --state verified --signature 'shop.example/items/N'
    """
    wanted = ReviewFilter(
        states=frozenset(state or ()), pipeline=pipeline, url_signature=signature, job_id=job, after=after, limit=limit,
        claimed_by=acting(actor) if mine else None,
    )  # fmt: skip
    found = operate(url, lambda operations: operations.reviews.list(wanted))
    if as_json:
        say_json([asdict(review) for review in found])
    elif not found:
        say("nothing waits for a person" if not state else "no reviews")
    else:
        console().print(review_table(found, time.time()))
        if len(found) == limit:
            say(f"more: --after {found[-1].review_id}")
        if not state:
            say(f"next: reprieve reviews show {found[0].review_id}")


@app.command()
def show(
    review: Id,
    *,
    as_given: AsGiven = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show one review: samples, what the model answered and what is wrong with it, the schema, the history.

    Examples:
    reprieve reviews show 3
    """
    detail = operate(url, lambda operations: operations.reviews.show(review))
    _say(detail, as_json=as_json, as_given=as_given)


@app.command()
def claim(
    review: Id, *, take_over: TakeOver = False, actor: Actor = None, as_json: AsJson = False, url: Url = DEFAULT_URL
) -> None:
    """Say that you are at it, so that nobody else does the same work.

    Examples:
    reprieve reviews claim 3
    """
    who = acting(actor)
    _act(url, review, lambda reviews: reviews.claim(review, actor=who, take_over=take_over), as_json=as_json)


@app.command()
def release(
    review: Id, *, take_over: TakeOver = False, actor: Actor = None, as_json: AsJson = False, url: Url = DEFAULT_URL
) -> None:
    """Give it back to the queue.

    Examples:
    reprieve reviews release 3
    """
    who = acting(actor)
    _act(url, review, lambda reviews: reviews.release(review, actor=who, take_over=take_over), as_json=as_json)


@app.command()
def verify(
    review: Id,
    answer: Annotated[
        str,
        typer.Argument(metavar="JSON", help="The answer as JSON; @FILE reads a file, - the input.", show_default=False),
    ],
    *,
    note: Note = "",
    take_over: TakeOver = False,
    home: Home = None,
    actor: Actor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Set the answer by hand. A signature is never sent to the model again; a job goes on from its next stage (give --app unless it is one of `reprieve review`).

    Examples:
    reprieve reviews verify 3 '{"kind": "article"}'
    """
    who, value = acting(actor), _value(answer)
    pipelines = {each.name: each for each in find_pipelines(home, [])} if home is not None else None

    async def verified(reviews: ReviewOperations) -> ReviewDetail:
        known, shown = pipelines, (await reviews.show(review)).review
        if known is None and shown.pipeline == BUILT_IN_NAME:
            known = {each.name: each for each in find_pipelines(None, [BUILT_IN_NAME])}
        if not shown.state.closed and shown.pipeline not in {None, *(known or ())}:
            raise UsageError(
                f"the answer becomes the result of a stage: say where the pipeline {shown.pipeline!r} is with --app module:object"
            )
        return await reviews.verify(review, value, actor=who, note=note, take_over=take_over, pipelines=known)

    _act(url, review, verified, as_json=as_json)


@app.command()
def reject(
    review: Id,
    *,
    reason: Why,
    take_over: TakeOver = False,
    actor: Actor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Say that there is no answer: the signature or the job is skipped.

    Examples:
    reprieve reviews reject 3 --reason 'the page is gone'
    """
    who = acting(actor)
    _act(
        url,
        review,
        lambda reviews: reviews.reject(review, actor=who, reason=reason, take_over=take_over),
        as_json=as_json,
    )


@app.command()
def undo(review: Id, *, reason: Why, actor: Actor = None, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Take back what was verified or rejected: a new entry of the history, and it waits for a person again.

    Examples:
    reprieve reviews undo 3 --reason 'that was the other shop'
    """
    who = acting(actor)
    _say(operate(url, lambda operations: operations.reviews.undo(review, actor=who, reason=reason)), as_json=as_json)


app.command()(signatures)
app.command()(reset)


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
    """Take samples, schema and the model's answers out of reviews of signatures that were closed long ago. Never one that waits.

    Who decided what, and when, stays, and answers are served as before; `undo` cannot take such a decision back any more.
    Reviews of jobs go with their jobs: `reprieve jobs prune`.

    Examples:
    reprieve reviews prune --older-than 90d --dry-run
    """
    seconds, who = duration(older_than, unit=True), acting(actor)
    done = operate(url, lambda operations: operations.reviews.prune(seconds, actor=who, dry=dry_run))
    if as_json:
        say_json({"reviews": done.reviews, "dry_run": dry_run})
        return
    say(f"{count(done.reviews, 'review')} {'would be reduced' if dry_run else 'reduced'} to who decided what, and when")


app.command()(erase)


def _act(url: str, review: int, task: Callable[[ReviewOperations], Awaitable[ReviewDetail]], *, as_json: bool) -> None:
    async def acted(operations: Operations) -> ReviewDetail:
        try:
            return await task(operations.reviews)
        except RefusedError as error:
            way = _way_out(await operations.reviews.show(review))
            raise RefusedError(f"{error}{way}") from None

    _say(operate(url, acted), as_json=as_json)


def _way_out(detail: ReviewDetail) -> str:
    """What would make it possible, in the words of the command line."""
    if detail.can_be_undone:
        return f"; take back first what was said: reprieve reviews undo {detail.review.review_id} --reason '...'"
    return ": --take-over" if detail.review.state is ReviewState.CLAIMED else ""


def _say(detail: ReviewDetail, *, as_json: bool, as_given: bool = False) -> None:
    if as_json:
        say_json(plain_detail(detail, as_given=as_given))
    else:
        say_detail(detail, as_given=as_given)


def _value(text: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as error:
        raise UsageError(f"the answer cannot be read from {text[1:]!r}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError('the answer is JSON, such as {"kind": "article"}: that is not') from None
