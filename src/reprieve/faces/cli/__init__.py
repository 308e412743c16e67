"""The command line: `reprieve`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import reprieve
from reprieve.errors import ReprieveError
from reprieve.faces.cli import database, jobs, stages
from reprieve.faces.cli.classify import classify
from reprieve.faces.cli.submit import submit
from reprieve.faces.cli.taxonomy import taxonomy
from reprieve.faces.cli.work import work

app = typer.Typer(
    name="reprieve",
    help="Failed work gets a second chance: see what went wrong, and whether another try is worth it.",
    invoke_without_command=True,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(work)
app.command()(submit)
app.add_typer(jobs.app)
app.add_typer(stages.app)
app.add_typer(database.app)
app.command()(classify)
app.command()(taxonomy)


@app.callback()
def root(
    *, version: Annotated[bool, typer.Option("--version", help="Show the version and leave.", is_eager=True)] = False
) -> None:
    """Failed work gets a second chance: see what went wrong, and whether another try is worth it."""
    if version:
        print(f"reprieve {reprieve.__version__}")  # noqa: T201 - the command line's way to speak
        raise typer.Exit


def main() -> None:
    """Run the command line; what a person did wrong is told in a sentence, with exit code 2."""
    try:
        app()
    except ReprieveError as error:
        print(f"reprieve: {error}", file=sys.stderr)  # noqa: T201 - the command line's way to speak
        sys.exit(2)
