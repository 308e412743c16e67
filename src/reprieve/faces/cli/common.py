"""What the commands share: their common options, how they reach the services, and how they end."""

from __future__ import annotations

import getpass
import json
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn, TypeVar

import typer

from reprieve.errors import RefusedError, StoreAddressError, StoreUnavailableError, UnknownNameError, UsageError
from reprieve.faces.cli.output import put

if TYPE_CHECKING:
    from reprieve.app.operations import Operations
    from reprieve.app.pipeline import Pipeline

T = TypeVar("T")

DEFAULT_URL: Final = "sqlite:///reprieve.db"
BUILT_IN: Final = "reprieve.review"
"""Where the pipeline of `reprieve review` is; the settings say what it is made of."""
BUILT_IN_NAME: Final = "review"
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_WAITS: Final = (1.0, 2.0, 4.0)
"""Seconds between tries while the database is away."""
_CENTURY: Final = 3_155_760_000.0
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")


def _existing(url: str) -> str:
    """The database of the reviews of this repository, where none is named and this folder holds none."""
    if url != DEFAULT_URL or Path("reprieve.db").exists():
        return url
    from reprieve.review.state import git_state_folder  # noqa: PLC0415 - only where no database is named

    folder = git_state_folder(Path())
    return f"sqlite:///{folder / 'reviews.db'}" if folder is not None and (folder / "reviews.db").exists() else url


NewUrl = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="REPRIEVE_URL",
        help="The database: sqlite:///file.db or postgresql://user@host/name.",
        show_default=True,
    ),
]
"""For commands that may make the database."""
Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="REPRIEVE_URL",
        help="The database: sqlite:///file.db or postgresql://user@host/name. Default: reprieve.db in this folder, "
        "else that of `reprieve review` in this repository.",
        show_default=False,
        callback=_existing,
    ),
]
Home = Annotated[
    str | None,
    typer.Option(
        "--app",
        envvar="REPRIEVE_APP",
        help="Where your pipelines are: module:object, or a module; the current folder can be imported from. That of "
        "`reprieve review` is in reprieve.review.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="For machines; times are seconds since the epoch.")]
Actor = Annotated[
    str | None,
    typer.Option("--actor", envvar="REPRIEVE_ACTOR", help="Who asks for it. Default: you.", show_default=False),
]
Reason = Annotated[str, typer.Option("--reason", help="Why, in a sentence; kept with it.", show_default=False)]
PipelineOption = Annotated[
    str | None, typer.Option("--pipeline", "-p", help="Only of this pipeline.", show_default=False)
]


def say(text: str) -> None:
    """Print a line."""
    put(text)


def say_json(value: object) -> None:
    """Print a value for machines."""
    say_stored(json.dumps(value, indent=2, ensure_ascii=False))


def say_stored(text: str) -> None:
    """Print what others wrote as it is; on a terminal, which might obey it, with what cannot be seen as JSON escapes it."""
    if sys.stdout.isatty():
        text = "".join(each if each.isprintable() or each in "\n\t" else json.dumps(each)[1:-1] for each in text)
    say(text)


def complain(message: str) -> None:
    """Say what is wrong, where errors go."""
    print(f"reprieve: {message}", file=sys.stderr, flush=True)  # noqa: T201 - the command line's way to speak


def fail(message: str) -> NoReturn:
    """End with exit code 1: what was asked about failed, or is not there."""
    complain(message)
    raise typer.Exit(1)


def run(task: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end."""
    import asyncio  # noqa: PLC0415 - who asks for help does not wait for it

    return asyncio.run(task)


async def patiently(task: Callable[[], Awaitable[T]]) -> T:
    """Do it; while the database is away, try again up to three times (ORC-4.2); not where its URL is wrong.

    Nor where it may have been done, all or in part: whoever asks for it again has to look first.
    """
    import asyncio  # noqa: PLC0415 - who asks for help does not wait for it

    for seconds in _WAITS:
        try:
            return await task()
        except StoreAddressError:
            raise
        except StoreUnavailableError as error:
            if error.outcome_unknown:
                raise
            complain(f"{error}; trying again in {seconds:g} s")
            await asyncio.sleep(seconds)
    return await task()


def operate(url: str, task: Callable[[Operations], Awaitable[T]]) -> T:
    """Run a task over the services; a name that nothing is known by, or a refusal, ends it with exit code 1."""

    async def within() -> T:
        from reprieve.wiring import open_operations  # noqa: PLC0415 - who asks for help does not wait for it

        async with open_operations(url) as operations:
            return await task(operations)

    try:
        return run(patiently(within))
    except (UnknownNameError, RefusedError) as error:
        fail(str(error))


def acting(actor: str | None) -> str:
    """Who asks: as given, or as the system knows them."""
    if actor is not None:
        return actor
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        raise UsageError("nobody knows who you are here: say it with --actor") from None


def find_pipelines(home: str | None, names: list[str]) -> list[Pipeline]:
    """The pipelines of these names, or all there are; the one of `reprieve review` is found by its name alone."""
    if home is None and names != [BUILT_IN_NAME]:
        raise UsageError(
            "say where your pipelines are: --app module:object, or REPRIEVE_APP in the environment; "
            f"--app {BUILT_IN} is the one of `reprieve review`"
        )
    if home is None or home == BUILT_IN:
        known = {BUILT_IN_NAME: _built_in()}
    else:
        from reprieve.app.pipeline.finding import load_pipelines  # noqa: PLC0415 - only commands that run pipelines pay for it

        known = load_pipelines(home)
    for name in names:
        if name not in known:
            raise UnknownNameError("pipeline", name, tuple(sorted(known)))
    return [known[name] for name in names or known]


def _built_in() -> Pipeline:
    try:
        from reprieve.review.parts import parts_of  # noqa: PLC0415 - an extra
        from reprieve.review.pipeline import make  # noqa: PLC0415 - the same
        from reprieve.review.settings import load  # noqa: PLC0415 - the same
    except ModuleNotFoundError as error:
        raise UsageError(f"reviews need {error.name}: pip install 'reprieve[review]'") from None
    settings = load()
    return make(settings, parts_of(settings))


def duration(text: str, *, unit: bool = False) -> float:
    """Read `30d`, `12h`, `90m`, `45s`, `2w` or a number of seconds; no bare number where a `unit` is demanded."""
    found = _DURATION.fullmatch(text.strip())
    if found and unit and not found[2]:
        raise UsageError(
            f"{text!r} of what? Write {found[1]}d for days; h, m, s and w are hours, minutes, seconds, weeks"
        )
    seconds = float(found[1]) * _UNITS[found[2] or "s"] if found else -1.0
    if not 0 <= seconds <= _CENTURY:
        bare = "" if unit else " or a number of seconds"
        raise UsageError(f"{text!r} is no length of time: 30d, 12h, 90m, 45s, 2w{bare} would be right")
    return seconds
