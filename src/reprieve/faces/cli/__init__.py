"""The command line: `reprieve`."""

from __future__ import annotations

import sys

import typer

from reprieve.errors import ReprieveError
from reprieve.faces.cli.classify import classify
from reprieve.faces.cli.taxonomy import taxonomy

app = typer.Typer(
    name="reprieve",
    help="Failed work gets a second chance: see what went wrong, and whether another try is worth it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(classify)
app.command()(taxonomy)


@app.callback()
def root() -> None:
    """Keep the commands apart, also while there are few."""


def main() -> None:
    """Run the command line; what a person did wrong is told in a sentence, with exit code 2."""
    try:
        app()
    except ReprieveError as error:
        print(f"reprieve: {error}", file=sys.stderr)  # noqa: T201 - the command line's way to speak
        sys.exit(2)
