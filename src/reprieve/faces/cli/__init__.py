"""The command line: `reprieve`."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import reprieve
from reprieve.errors import ReprieveError, StoreAddressError, StoreUnavailableError
from reprieve.faces.cli import alerts, database, dead, deliveries, jobs, reviews, stages
from reprieve.faces.cli.analyze import analyze
from reprieve.faces.cli.classify import classify
from reprieve.faces.cli.common import complain
from reprieve.faces.cli.review import doctor, init, review, serve
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
app.command()(review)
app.command()(serve)
app.command()(init)
app.command()(doctor)
app.command()(work)
app.command()(submit)
app.add_typer(jobs.app)
app.add_typer(dead.app)
app.add_typer(deliveries.app)
app.add_typer(alerts.app)
app.add_typer(reviews.app)
app.add_typer(stages.app)
app.add_typer(database.app)
app.command()(analyze)
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
    """Run the command line; what went wrong is told in a sentence, with exit code 2."""
    try:
        app()
    except StoreAddressError as error:
        problem = str(error)
    except StoreUnavailableError as error:
        problem = f"System unavailable, try again later: {error}"
        if error.outcome_unknown:
            problem += "; it may have been done, all or in part: look before you ask for it again"
    except ReprieveError as error:
        problem = str(error)
    except Exception as error:  # nobody reads a stack at a prompt, and it may hold secrets
        if os.environ.get("REPRIEVE_DEBUG"):
            raise
        from reprieve.app.redaction import redact  # noqa: PLC0415 - only what nobody expected needs it

        problem = f"nobody expected this: {type(error).__name__}: {redact(str(error))} (REPRIEVE_DEBUG=1 shows where)"
    complain(problem)
    sys.exit(2)
