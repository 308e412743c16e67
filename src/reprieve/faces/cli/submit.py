"""`reprieve submit`: one job, or many from a file."""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprieve.errors import JobError, UsageError
from reprieve.faces.cli.common import (
    DEFAULT_URL,
    AsJson,
    Home,
    NewUrl,
    duration,
    fail,
    find_pipelines,
    patiently,
    run,
    say,
    say_json,
)
from reprieve.faces.cli.rendering import count

if TYPE_CHECKING:
    from reprieve.app.pipeline import Pipeline
    from reprieve.app.submitting import Submission


def submit(  # noqa: PLR0913 - one parameter an option
    pipeline: Annotated[str, typer.Argument(help="The pipeline's name.", show_default=False)],
    payload: Annotated[
        str | None, typer.Argument(help="The payload as JSON; - reads standard input.", show_default=False)
    ] = None,
    *,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: a second job of this key is not made.", show_default=False)
    ] = None,
    subject: Annotated[str | None, typer.Option(help="What it is about.", show_default=False)] = None,
    version: Annotated[
        str | None,
        typer.Option(
            help="Which version of that, from 1; or next, with a --key that says what is in it.", show_default=False
        ),
    ] = None,
    delay: Annotated[str | None, typer.Option(help="Not before: 30s, 5m, 2h.", show_default=False)] = None,
    priority: Annotated[int | None, typer.Option(help="Higher ones first. Default: 0.", show_default=False)] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end.")] = False,
    result: Annotated[bool, typer.Option("--result", help="Wait for its end and print its result.")] = False,
    timeout: Annotated[str | None, typer.Option(help="How long to wait at most: 30s, 5m.", show_default=False)] = None,
    lines: Annotated[
        Path | None,
        typer.Option(help="A file with one payload a line (JSON Lines); - is standard input.", show_default=False),
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(
            help='The same with {"payload": ..., "idempotency_key": ..., "subject": ...} a line.', show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
    home: Home = None,
    url: NewUrl = DEFAULT_URL,
) -> None:
    """Submit a job; durable when this says so. With --wait, ends with 1 if the job does not succeed.

    Examples:
    reprieve submit review '{"change": 42}' --key cl-42@3 --app reviews:review --wait

    reprieve submit review --items changes.jsonl
    """
    (found,) = find_pipelines(home, [pipeline])
    options: dict[str, Any] = {
        "idempotency_key": key,
        "subject": subject,
        "version": _version(version),
        "priority": priority,
    }
    options = {name: value for name, value in options.items() if value is not None}
    if delay is not None:
        options["delay"] = duration(delay)
    patience = None if timeout is None else duration(timeout)
    if lines is None and items is None:
        if payload is None:
            raise UsageError("give the payload as JSON, or - to read it, or --lines with a file")
        value = _json(sys.stdin.read() if payload == "-" else payload)
        _one(url, found, value, options, waits=wait or result, patience=patience, result=result, as_json=as_json)
    elif payload is not None or options or wait or result or patience is not None or (lines and items):
        raise UsageError("--lines and --items stand alone: what belongs to one job stands in its line of --items")
    else:
        _many(url, found, lines or items or Path("-"), whole=items is not None, as_json=as_json)


def _one(
    url: str,
    pipeline: Pipeline,
    payload: object,
    options: dict[str, Any],
    *,
    waits: bool,
    patience: float | None,
    result: bool,
    as_json: bool,
) -> None:
    made, left, problem = run(_submit(url, pipeline, payload, options, waits=waits, patience=patience))
    if as_json:
        told: dict[str, object] = {
            "job_id": made.job_id,
            "idempotency_key": made.idempotency_key,
            "duplicate": made.duplicate,
            "mismatch": made.mismatch,
            "superseded": made.superseded,
        }
        if made.version is not None:
            told["version"] = made.version
        if waits:
            told["status"] = "succeeded" if problem is None else problem.status
        if result:
            told["result"] = left
        say_json(told)
    else:
        print(_sentence(made), file=sys.stderr if result else sys.stdout)
    if problem is not None:
        fail(str(problem))
    if waits and not as_json:
        say(json.dumps(left, indent=2, ensure_ascii=False) if result else f"job {made.job_id} succeeded")


async def _submit(
    url: str, pipeline: Pipeline, payload: object, options: dict[str, Any], *, waits: bool, patience: float | None
) -> tuple[Submission, object, JobError | None]:
    from reprieve.wiring import connect  # noqa: PLC0415 - who asks for help does not wait for it

    async with AsyncExitStack() as stack:
        app = await patiently(lambda: stack.enter_async_context(connect(url)))
        made = await app.submit(pipeline, payload, **options)
        try:
            return made, await app.wait(made.job_id, timeout=patience) if waits else None, None
        except JobError as error:
            return made, None, error


def _many(url: str, pipeline: Pipeline, source: Path, *, whole: bool, as_json: bool) -> None:
    from reprieve.faces.cli.bulk import submit_lines  # noqa: PLC0415 - the same

    done = run(submit_lines(url, pipeline, source, whole=whole))
    if as_json:
        say_json({"submitted": done.submitted, "duplicates": done.duplicates, "mismatches": done.mismatches})
        return
    again = f"; {count(done.duplicates, 'line')} had been submitted before" if done.duplicates else ""
    other = f", {done.mismatches:,} of them with another payload" if done.mismatches else ""
    say(f"{count(done.submitted, 'job')} submitted{again}{other}")


def _version(text: str | None) -> int | str | None:
    if text is None or text == "next":
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"a version is a number from 1, or the word next; not {text!r}") from None


def _sentence(made: Submission) -> str:
    if made.mismatch:
        return f"job {made.job_id} was there before, with another payload: nothing was submitted"
    if made.duplicate:
        return f"job {made.job_id} was there before: nothing was submitted"
    replaced = f"; cancelled for it: {', '.join(str(each) for each in made.superseded)}" if made.superseded else ""
    which = "" if made.version is None else f" as version {made.version}"
    return f"job {made.job_id} submitted{which}{replaced}"


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"the payload is not JSON: {error.msg}, in line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise UsageError("the payload is nested too deep") from None
