"""`reprieve review | serve | init | doctor`: the review pipeline, from the first try to the last."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from reprieve.errors import UsageError
from reprieve.faces.cli.common import complain, duration, fail, patiently, run, say

if TYPE_CHECKING:
    from reprieve.app.application import App
    from reprieve.app.pipeline import Pipeline
    from reprieve.review.parts import Parts
    from reprieve.review.reviewing import Asked, Wanted
    from reprieve.review.settings import Settings

SEED: Final = 7
_INTERRUPTED: Final = 130
SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", help="The settings file. Default: reprieve.toml, if it is there.", show_default=False),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="REPRIEVE_URL", help="The database, in place of the settings' own.", show_default=False
    ),
]


class OutputFormat(StrEnum):
    """How reviews are printed."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    SARIF = "sarif"


class FailOn(StrEnum):
    """The least severity that makes a review fail."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


def review(  # noqa: PLR0913 - one parameter an option
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REV]...",
            help="Commits, ranges (main...topic), .patch files, - for a patch on standard input, owner/name#12. "
            "Default: the uncommitted changes.",
            show_default=False,
        ),
    ] = None,
    *,
    staged: Annotated[bool, typer.Option("--staged", help="Review the index: what `git commit` would commit.")] = False,
    repository: Annotated[
        str | None, typer.Option("--repository", "-r", help="A path or a URL. Default: here.", show_default=False)
    ] = None,
    output: Annotated[
        OutputFormat, typer.Option("--format", "-f", help="How the review is printed.")
    ] = OutputFormat.TEXT,
    fail_on: Annotated[
        FailOn | None,
        typer.Option("--fail-on", help="End with 1 if a finding is at least this severe.", show_default=False),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="Ask a model beside the rules: openai:NAME, anthropic:NAME, http://HOST/v1#NAME, a .gguf file, local.",
            show_default=False,
        ),
    ] = None,
    notify: Annotated[
        list[str] | None,
        typer.Option("--notify", help="Send the review to this recipient; may be given again.", show_default=False),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Review the same content anew, as the next version.")] = False,
    changelist_id: Annotated[
        str | None, typer.Option("--id", help="The changelist that it is a version of.", show_default=False)
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(
            help="Which version. Default: the same for the same content, else the next.", min=1, show_default=False
        ),
    ] = None,
    jobs: Annotated[bool, typer.Option("--jobs", help="Show the jobs too: stages, retries, deliveries.")] = False,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules and leave.")] = False,
    chaos: Annotated[
        bool,
        typer.Option("--chaos", help="Inject faults between the stages, to see how they are handled.", hidden=True),
    ] = False,
    seed: Annotated[int, typer.Option(help="Which faults: the same for the same number.", min=0, hidden=True)] = SEED,
    submit_only: Annotated[bool, typer.Option("--submit-only", help="Leave the work to `reprieve serve`.")] = False,
    settings_file: SettingsFile = None,
    url: Database = None,
) -> None:
    """Review a change: print facts that the rules find, and what a model says if one is set. Nothing is sent without --notify.

    Exit codes: 0 done; 1 a finding is at least as severe as --fail-on; 2 the request is wrong; 3 a review was given up, or
    waits for a person.

    Examples:
    reprieve review

    reprieve review HEAD

    reprieve review --staged --fail-on high

    reprieve review main...topic --format sarif

    git diff main | reprieve review -

    reprieve review HEAD --model openai:gpt-5-mini --notify ada@example.org
    """
    if rules:
        say_rules()
        return
    from reprieve.review.reviewing import STANDARD_INPUT, Wanted  # noqa: PLC0415 - `--help` and `--rules` need no pipeline

    if fail_on is not None and notify:
        raise UsageError("--fail-on is for hooks and checks and sends nothing: leave --notify out")
    if staged and names:
        raise UsageError("--staged reviews the index: name no commit beside it")
    settings = load(settings_file, url, chaos=seed if chaos else None, repository=repository, model=model)
    notifies = fail_on is None and (bool(notify) or settings.notify.is_on)
    wanted = Wanted(
        names=tuple(names or ()), staged=staged, repository=settings.repository, changelist_id=changelist_id,
        version=version, again=again, recipients=tuple(notify or ()), notifies=notifies,
        patch=_read_patch() if STANDARD_INPUT in (names or ()) else "",
    )  # fmt: skip
    options = ReviewOptions(output=output, fail_on=fail_on, jobs=jobs, works=not submit_only, replays=chaos)
    try:
        code = run(reviewed(settings, wanted, options))
    except KeyboardInterrupt:
        complain(
            "stopped; what was submitted is kept: `reprieve serve` goes on with them, `reprieve jobs list` has them"
        )
        raise typer.Exit(_INTERRUPTED) from None
    if code:
        raise typer.Exit(code)


def _read_patch() -> str:
    """Read standard input, before the event loop starts: the loop would take the first Ctrl-C."""
    from reprieve.review.reviewing import MAX_PATCH_BYTES  # noqa: PLC0415 - only where a patch is piped

    return "" if sys.stdin is None else sys.stdin.buffer.read(MAX_PATCH_BYTES).decode("utf-8", "replace")


def serve(
    *,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", help="Jobs at a time.", min=1, max=10_000)] = 20,
    lease: Annotated[
        str, typer.Option(help="How long a worker may be silent before others take over its jobs.")
    ] = "30s",
    settings_file: SettingsFile = None,
    url: Database = None,
) -> None:
    """Work on reviews until told to stop: SIGTERM or Ctrl-C lets running stages end, and hands back what does not."""
    from reprieve.faces.cli.work import LogLevel, show_log  # noqa: PLC0415 - who asks for help does not wait for it

    show_log(LogLevel.INFO)
    run(served(load(settings_file, url), concurrency, duration(lease)))


def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("reprieve.toml"),
) -> None:
    """Write a settings file in which everything is explained and nothing is set; one that is there is left alone."""
    from importlib.resources import files  # noqa: PLC0415 - who asks for help does not wait for it

    text = (files("reprieve.review") / "reprieve.toml").read_text(encoding="utf-8")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        fail(f"{path} is there already, and was left as it is")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    say(f"{path} written; `reprieve doctor` looks whether all is there")


def doctor(
    *,
    ask: Annotated[
        bool, typer.Option("--ask", help="Have the model answer something, which may cost a little.")
    ] = False,
    settings_file: SettingsFile = None,
    url: Database = None,
) -> None:
    """Look whether settings, git, database, model and mail are as a review needs them; ends with 1 if something is to do."""
    settings = load(settings_file, url)
    if not run(_examined(settings, ask=ask)):
        raise typer.Exit(1)


async def _examined(settings: Settings, *, ask: bool) -> bool:
    from reprieve.review.checks import look  # noqa: PLC0415 - who asks for help does not wait for it

    say("well     settings    can be read")
    well = True
    async for check in look(settings, ask=ask):
        well = well and check.well
        say(f"{'well' if check.well else 'TO DO':8} {check.name:11} {check.said}")
        if not check.well:
            say(f"{'':21}{check.todo}")
    return well


def load(file: Path | None, url: str | None, **said: Any) -> Settings:  # noqa: ANN401 - whatever can be set
    """The settings, with what the command line says."""
    try:
        from reprieve.review import settings  # noqa: PLC0415 - an extra, and who asks for help does not wait for it
    except ModuleNotFoundError as error:
        raise UsageError(f"reviews need {error.name}: pip install 'reprieve[review]'") from None
    given = {name: value for name, value in said.items() if value is not None}
    return settings.load(file, **given, **({} if url is None else {"database": url}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewOptions:
    """How a call of `reprieve review` works and prints."""

    output: OutputFormat = OutputFormat.TEXT
    fail_on: FailOn | None = None
    jobs: bool = False
    works: bool = True
    replays: bool = False


async def reviewed(settings: Settings, wanted: Wanted, options: ReviewOptions) -> int:
    """Submit the changes, work on them, print the reviews; returns the exit code."""
    from reprieve.faces.cli.review_views import ReviewWatch  # noqa: PLC0415 - `--help` does not wait for it
    from reprieve.review.changes import NothingToReviewError  # noqa: PLC0415 - the same
    from reprieve.review.formats import Format, render  # noqa: PLC0415 - the same
    from reprieve.review.parts import critic_of  # noqa: PLC0415 - the same
    from reprieve.review.reviewing import changes_of, submit_all  # noqa: PLC0415 - the same

    async with AsyncExitStack() as stack:
        pipeline, parts = _made(settings, stack)
        try:
            changes = await changes_of(parts, wanted, people=settings.notify.people)  # a refusal makes no database
        except NothingToReviewError as nothing:
            complain(str(nothing))
            if options.output in {OutputFormat.JSON, OutputFormat.SARIF}:
                say(render([], Format(options.output.value)).rstrip("\n"))
            return 0
        app = await _opened(settings, stack)
        asked = await submit_all(app, pipeline, changes, version=wanted.version, again=wanted.again)
        if options.jobs or not options.works:
            for each in asked:
                say(_submitted(each, wanted.version))
        if not options.works:
            say("`reprieve serve` works on them; nothing works on them here")
            return 0
        watch = ReviewWatch(app, asked, settings, shows_jobs=options.jobs)
        await watch.through(pipeline)
        if options.replays and await watch.replay():
            await watch.through(pipeline)
            await watch.close_replayed()
        return await watch.report(options, parts, made_with=critic_of(settings, parts).made_with)


async def served(settings: Settings, concurrency: int = 20, lease: float = 30.0) -> None:
    """Work until told to stop."""
    async with AsyncExitStack() as stack:
        pipeline, _ = _made(settings, stack)
        app = await _opened(settings, stack)
        print("reprieve: working on reviews; Ctrl-C ends it", file=sys.stderr, flush=True)  # noqa: T201 - the command line's way to speak
        await app.work(pipeline, concurrency=concurrency, lease=lease, signals=True)


def _made(settings: Settings, stack: AsyncExitStack) -> tuple[Pipeline, Parts]:
    from reprieve.review.parts import parts_of  # noqa: PLC0415 - who asks for help does not wait for it
    from reprieve.review.pipeline import make  # noqa: PLC0415 - the same

    parts = parts_of(settings)
    stack.push_async_callback(parts.close)
    return make(settings, parts), parts


async def _opened(settings: Settings, stack: AsyncExitStack) -> App:
    from reprieve.wiring import connect  # noqa: PLC0415 - who asks for help does not wait for it

    settings.state.mkdir(parents=True, exist_ok=True)
    return await patiently(lambda: stack.enter_async_context(connect(settings.database)))


def say_rules() -> None:
    """Print every rule with its severity, the files that it reads, and what it finds."""
    from reprieve.review.critic.registry import RULES  # noqa: PLC0415 - only `--rules` needs it

    for rule in RULES.values():
        say(f"{rule.id:26} {rule.severity:7} {rule.finds} ({rule.languages})")


def _submitted(asked: Asked, given: int | None) -> str:
    made, change = asked.made, asked.change
    settled = made.version if given is None else given
    version = "" if settled is None else f" version {settled}"
    again = ": it was reviewed before, and nothing is done twice" if made.duplicate else ""
    instead = f"; cancelled for it: {', '.join(str(each) for each in made.superseded)}" if made.superseded else ""
    return f"job {made.job_id}: {change.changelist_id}{version}{again}{instead}"
