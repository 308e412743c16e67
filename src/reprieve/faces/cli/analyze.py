"""`reprieve analyze`: what kinds of pages a list of URLs holds, each kind asked of a model once."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from reprieve.app.profiles import SHIPPED, load_profiles
from reprieve.app.redaction import redact
from reprieve.core.analysis import AnalysisStatus
from reprieve.core.url_signature import url_signature
from reprieve.errors import UsageError
from reprieve.faces.cli.common import DEFAULT_URL, AsJson, NewUrl, complain, patiently, run, say, say_json
from reprieve.faces.cli.rendering import console, count, plain, status, table

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from signal import Signals

    from reprieve.app.analysis.results import Batch, Progress
    from reprieve.ports.modelling import Model

_PROMPT: Final = (
    "These URLs have the shape {signature}. Of which kind are the pages, and what do they hold? Answer in a word and a short "
    "sentence.\n{samples}"
)
_SCHEMA: Final = {
    "type": "object",
    "properties": {"kind": {"type": "string"}, "description": {"type": "string"}},
    "required": ["kind", "description"],
    "additionalProperties": False,
}
_SAMPLES: Final = 5
_STOPPED: Final = 3
_STRAYS: Final = 3
"""Lines that are named, of those that are left out."""
_LONGEST: Final = 60


def analyze(  # noqa: PLR0913 - one parameter an option
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="URLs, one a line; - reads the input.", show_default=False)
    ],
    *,
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", envvar="REPRIEVE_MODEL", help="openai:NAME, anthropic:NAME, openai+https://HOST/v1#NAME or local."
        ),
    ] = "local",
    prompt: Annotated[
        Path | None,
        typer.Option("--prompt", help="A file with the question; {signature} and {samples} are replaced.", show_default=False),
    ] = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", help="A file with the JSON Schema of the answer.", show_default=False)
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="What alerts call it, and what stands before its signatures, so that other questions about the same URLs are kept apart.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[str, typer.Option("--profile", "-p", help="The profile whose policies and alerts it follows.")] = "analysis",
    profiles: Annotated[
        Path | None, typer.Option(help="A TOML file with profiles of your own.", show_default=False)
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", help="Questions at a time.", min=1, max=256)] = 4,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds for each call.", min=1.0)] = 60.0,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", help="At most so many in an answer.", min=1, show_default=False)
    ] = None,
    as_json: AsJson = False,
    url: NewUrl = DEFAULT_URL,
) -> None:  # fmt: skip
    """Group URLs by their shape, and ask a model about each shape once; what is known already costs nothing.

    Exit codes: 0 all are analyzed; 1 some are skipped, put off or wait for a person; 3 the provider refuses all of them; 130 or 143
    after Ctrl-C or SIGTERM, which give back what is being asked: the same command goes on from there.

    Examples:
    reprieve analyze urls.txt --model openai:gpt-5-mini
    reprieve analyze urls.txt --name language --prompt language.txt --schema language.json
    """
    groups, strays = _grouped(_lines(file), name)
    question = {
        "name": name or "analysis", "profile": (SHIPPED if profiles is None else load_profiles(profiles)).resolve(profile),
        "prompt": _PROMPT if prompt is None else _read(prompt),
        "schema": _SCHEMA if schema is None else _json(schema),
        "concurrency": concurrency, "timeout": timeout, "max_tokens": max_tokens,
    }  # fmt: skip
    if strays:
        complain(f"{count(len(strays), 'line')} left out, no URL with a host: {_shortly(strays)}")
    if not groups:
        raise UsageError("there is no URL in it: one a line, https://host/path")
    latest: list[Progress] = []
    with _bar(len(groups), latest, quiet=as_json) as progress:
        batch = run(_until_told(_analyze(url, model, question, groups, progress)))
    if isinstance(batch, int):
        _leave(batch, latest)
    if as_json:
        say_json(_plain(batch, len(strays)))
    else:
        _say(batch)
    if batch.stopped is not None:
        raise typer.Exit(_STOPPED)
    if batch.count(AnalysisStatus.ANALYZED) < batch.total:
        raise typer.Exit(1)


async def _analyze(
    url: str,
    name: str,
    question: dict[str, Any],
    groups: dict[str, list[str]],
    progress: Callable[[Progress], None],
) -> Batch[Any]:
    import reprieve  # noqa: PLC0415 - who asks for help does not wait for it

    async def asked() -> Batch[Any]:
        async with reprieve.connect(url) as app:
            return await app.analysis(model, **question).analyze_many(groups, progress=progress)

    model = _model(name)
    try:
        return await patiently(asked)
    finally:
        await model.close()


def _model(name: str) -> Model:
    from reprieve.models import model_at  # noqa: PLC0415 - who asks for help does not wait for it

    try:
        return model_at(name)
    except ImportError as error:
        raise UsageError(str(error)) from error


async def _until_told(work: Coroutine[object, object, Batch[Any]]) -> Batch[Any] | Signals:
    """Ctrl-C and SIGTERM cancel it, so that it gives back what it is asking; a second one waits for nothing."""
    import asyncio  # noqa: PLC0415 - who asks for help does not wait for it
    from signal import SIGINT, SIGTERM  # noqa: PLC0415 - the same

    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    came: list[Signals] = []

    def let_go() -> None:
        for each in (SIGINT, SIGTERM):
            loop.remove_signal_handler(each)

    def stop(number: Signals) -> None:
        came.append(number)
        let_go()
        task.cancel()

    for each in (SIGINT, SIGTERM):
        loop.add_signal_handler(each, stop, each)
    try:
        return await task
    except asyncio.CancelledError:
        if not came:
            raise
        return came[0]
    finally:
        let_go()


def _leave(number: Signals, latest: list[Progress]) -> NoReturn:
    done = "nothing yet" if not latest else f"{latest[0].done:,} of {latest[0].total:,} done: {_so_far(latest[0])}"
    complain(
        f"stopped by {number.name}; {done}. What was being asked is given back: the same command goes on from there"
    )
    raise typer.Exit(128 + number)


def _lines(file: str) -> list[str]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file!r} is no text in UTF-8") from None
    return [line.strip() for line in text.removeprefix("\ufeff").splitlines() if line.strip()]


def _grouped(lines: list[str], name: str | None) -> tuple[dict[str, list[str]], list[str]]:
    """A few URLs of each shape, and which lines are no URL."""
    groups: dict[str, list[str]] = {}
    strays: list[str] = []
    before = "" if name is None else f"{name}:"
    for line in lines:
        try:
            samples = groups.setdefault(f"{before}{url_signature(line)}", [])
        except UsageError:
            strays.append(line)
            continue
        if len(samples) < _SAMPLES and line not in samples:
            samples.append(line)
    return groups, strays


def _shortly(lines: list[str]) -> str:
    """The first few, without secrets and shortened."""
    safe = [plain(redact(line)) for line in lines[:_STRAYS]]
    few = ", ".join(repr(each if len(each) <= _LONGEST else f"{each[:_LONGEST]}...") for each in safe)
    return few if len(lines) <= _STRAYS else f"{few}, ..."


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{str(path)!r} cannot be read as text") from None


def _json(path: Path) -> Any:  # noqa: ANN401 - checked by who takes it
    text = _read(path)
    try:
        found = json.loads(text)
    except ValueError:
        raise UsageError(f"{str(path)!r} is no JSON") from None
    if not isinstance(found, dict):
        raise UsageError(f"{str(path)!r} holds no JSON Schema: an object is wanted")
    return found


@contextmanager
def _bar(total: int, latest: list[Progress], *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A bar where somebody looks at it; how far it is stands in `latest`."""

    def note(now: Progress) -> None:
        latest[:] = [now]

    if quiet or not sys.stderr.isatty():
        yield note
        return
    from rich.console import Console  # noqa: PLC0415 - only where it is drawn
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - the same
    from rich.progress import Progress as Bar  # noqa: PLC0415 - the same

    columns = (
        TextColumn("analyzing"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[told]}"),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, told="")

        def tell(now: Progress) -> None:
            note(now)
            bar.update(task, completed=now.done, told=_so_far(now))

        yield tell


def _so_far(now: Progress) -> str:
    put_off = now.done - now.analyzed - now.skipped - now.needs_review
    return f"{now.analyzed} analyzed, {now.skipped} skipped, {now.needs_review} for review, {put_off} put off; {now.cached} cached"


def _summary(batch: Batch[Any]) -> dict[str, int]:
    return {
        "signatures": batch.total,
        "analyzed": batch.count(AnalysisStatus.ANALYZED),
        "cached": batch.cached,
        "skipped": batch.count(AnalysisStatus.SKIPPED),
        "needs_review": batch.count(AnalysisStatus.NEEDS_REVIEW),
        "active": batch.count(AnalysisStatus.ACTIVE),
    }


def _plain(batch: Batch[Any], left_out: int) -> dict[str, object]:
    results = [
        {
            "signature": each.signature, "status": each.status, "value": each.value, "cached": each.cached,
            "is_human_verified": each.is_human_verified, "model": each.model, "error_type": each.error_type,
            "error_reason": each.error_reason, "retry_after": each.retry_after, "usage": each.usage.as_dict(),
        }
        for each in batch.results.values()
    ]  # fmt: skip
    summary = {**_summary(batch), "left_out": left_out, "usage": batch.usage.as_dict()}
    return {"summary": summary, "stopped": batch.stopped, "results": results}


def _say(batch: Batch[Any]) -> None:
    rows = [
        (each.signature, status(each.status), _told(each.value), "yes" if each.cached else "", each.error_reason or "")
        for each in batch.results.values()
    ]
    console().print(table(("signature", "status", "answer", "cached", "said"), rows))
    numbers = _summary(batch)
    say(
        f"{count(numbers['signatures'], 'signature')}: {numbers['analyzed']} analyzed, {numbers['skipped']} skipped, "
        f"{numbers['needs_review']} for review, {numbers['active']} left; {numbers['cached']} cached{_took(batch)}"
    )
    if batch.stopped is not None:
        complain(f"the batch was stopped: {batch.stopped}")
        error = batch.stopped.partition(":")[0]
        if any(each.status is AnalysisStatus.SKIPPED and each.error_type == error for each in batch.results.values()):
            say(f"next: mend that, then reprieve reviews reset --error {error} --reason '...', and the same again")
        return
    if numbers["needs_review"]:
        say("next: reprieve reviews list")
    if numbers["skipped"]:
        say(
            "next: reprieve reviews signatures --status skipped; reprieve reviews reset SIGNATURE --reason '...' has one asked again"
        )


def _took(batch: Batch[Any]) -> str:
    """What it took, as far as the provider said."""
    usage = batch.usage
    if usage.input_tokens is None and usage.output_tokens is None:
        return ""
    cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
    return f"; {usage.input_tokens or 0:,} tokens in, {usage.output_tokens or 0:,} out{cost}"


def _told(value: object) -> str:
    return "" if value is None else plain(json.dumps(value, ensure_ascii=False))
