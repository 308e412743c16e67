"""The command line: `reprieve`."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer
import typer.main
from typer.core import TyperGroup

import reprieve
from reprieve.errors import ReprieveError, StoreAddressError, StoreUnavailableError
from reprieve.faces.cli.common import complain

_COLLECTED_AFTER: Final = 200_000
"""New objects between two collections: loading the modules of a command makes many that stay."""
_COMMANDS: Final = {
    "review": "review:review",
    "serve": "review:serve",
    "init": "review:init",
    "doctor": "review:doctor",
    "work": "work:work",
    "supervise": "supervise:app",
    "submit": "submit:submit",
    "jobs": "jobs:app",
    "dead": "dead:app",
    "deliveries": "deliveries:app",
    "alerts": "alerts:app",
    "reviews": "reviews:app",
    "stages": "stages:app",
    "streams": "streams:app",
    "db": "database:app",
    "analyze": "analyze:analyze",
    "classify": "classify:classify",
    "taxonomy": "taxonomy:taxonomy",
}
"""Each command and where it is, below this package: a module is loaded when its command is used."""


class CommandGroup(TyperGroup):
    """The commands of `reprieve`; loading all of their modules would take half of the time of a short one."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - of the click that Typer brings along, which has no public name
        """All names, in the order of the help text."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - the same
        """Load one command; None where there is none of this name."""
        return _load(cmd_name) if cmd_name in _COMMANDS else None


@cache
def _load(name: str) -> Any:  # noqa: ANN401 - the same
    module, _, attribute = _COMMANDS[name].partition(":")
    found = getattr(import_module(f"reprieve.faces.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=_HELP)
        single.command(name)(found)
        found = single
    command = typer.main.get_command(found)
    command.name = name
    return command


_HELP: Final = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    name="reprieve",
    cls=CommandGroup,
    help="Failed work gets a second chance: see what went wrong, and whether another try is worth it.",
    invoke_without_command=True,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=_HELP,
)


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
    gc.set_threshold(_COLLECTED_AFTER)
    # Python looks for garbage once more when it ends. Nothing reads its result, and it takes a tenth of a short command.
    atexit.register(gc.freeze)
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
