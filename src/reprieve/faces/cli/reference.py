"""The pages of reference, made from what they are about: commands, profiles, settings; `make docs` runs this module."""

from __future__ import annotations

import inspect
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import typer
from typer.core import TyperGroup

from reprieve.app.profiles import SHIPPED_NAMES
from reprieve.faces.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from reprieve.review.critic.rules import CriticRule

    Command = Any  # of the click that Typer brings along, which has no public name

_COMMANDS: Final = """\
# Commands

<!-- made by `make docs` from the commands themselves; a test keeps it true -->

Exit codes: 0 done; 1 what was asked about failed or is not there; 2 the command, a setting or the database is wrong. What is wrong is one sentence on
standard error. `--json` is for machines: times are seconds since the epoch.
"""


_PROFILES: Final = """\
# The profiles that come along

<!-- made by `make docs` from the profiles themselves; a test keeps it true -->

Every number names the requirement behind it. How to change them, or to write your own: [profiles](profiles.md).
"""
_RULES: Final = """\
# Rules of the critic

<!-- made by `make docs` from the rules themselves; a test keeps it true -->

What [`reprieve review`](reviewing.md) finds. A rule reads only what a change adds or touches. `[critic]` in
`reprieve.toml` switches rules off and changes severities, by the id or by the code.

| rule | severity | files | finds | code of ruff |
|---|---|---|---|---|"""
_SETTINGS: Final = """\
# Settings of the review pipeline

<!-- made by `make docs` from the file that `reprieve init` writes; a test keeps it true -->

They are read from `reprieve.toml` in the current folder, or from the file that `--settings` names (`[critic]` is read from the base of
each change, so that a change cannot switch its own review off). Each can be given in the environment too, which goes before the file:
`REPRIEVE_REVIEW_` and its name, sections parted by two underscores, as in `REPRIEVE_REVIEW_MODEL__NAME=openai:gpt-5-mini`. Secrets belong there. Nothing has to be set.

The engine itself has no settings file; its commands take options and these variables:

| variable | |
|---|---|
| `REPRIEVE_URL`, `REPRIEVE_APP`, `REPRIEVE_ACTOR` | the database, where your pipelines are, who you are: `--url`, `--app`, `--actor` |
| `REPRIEVE_MODEL` | which model `reprieve analyze` asks: `--model`; see [models](models.md) |
| `REPRIEVE_MODEL_KEY` | the key of a model that is named by its address (`openai+http://...`) |
| `REPRIEVE_TO` | where `reprieve db copy` copies to: `--to` |
| `REPRIEVE_ALERTS`, `REPRIEVE_ALERTS_SECRET` | who is told of [alerts](alerts.md), and what webhooks among them are signed with |
| `REPRIEVE_MAY_OVERRIDE` | who may replay past the gates of [dead letters](dead-letters.md) |
| `REPRIEVE_STREAMS_URL` | the Redis of `reprieve streams` and `reprieve supervise`: `--redis-url`; it goes before `url` in `[streams]` |
| `REPRIEVE_STREAMS_QUEUES`, `REPRIEVE_STREAMS_GROUPS` | names with commas between them; they go before `queues` and `groups` in `[streams]` |
| `REPRIEVE_REVIEW_PARTS` | replaces parts of the review pipeline; `parts` in a settings file of the current folder is not read |
| `REPRIEVE_TASK_ID`, `REPRIEVE_TASK_ATTEMPT`, `REPRIEVE_TASK_FILE`, `REPRIEVE_READY_FD`, `REPRIEVE_READY_FILE`, `REPRIEVE_RESULT_FD`, `REPRIEVE_RESULT_FILE` | set by a supervisor for [its workers](supervisor.md) |
| `REPRIEVE_DEBUG` | set, an error that nobody expected shows where it came from; that may hold secrets |

The section `[streams]` of `reprieve.toml` is for `reprieve streams`: [dead letters of streams](stream-dead-letters.md).
[`reprieve supervise`](supervisor.md) takes its `url` too.

`reprieve supervise` reads one section of the settings file, which the review leaves alone:

```toml
[supervisor]
container_program = "podman"                # or "docker"; needed with --image
container_arguments = ["--network=none"]    # further arguments of its `run`
```
"""


def commands() -> str:
    """All commands."""
    root = typer.main.get_command(app)
    return "\n".join([_COMMANDS, *(line for each in _commands(root, "reprieve") for line in each)])


def profiles() -> str:
    """All profiles that come along, as they are."""
    texts = {name: (files("reprieve.profiles") / f"{name}.toml").read_text(encoding="utf-8") for name in SHIPPED_NAMES}
    return "\n".join([_PROFILES, *(f"## {name}\n\n```toml\n{text.strip()}\n```\n" for name, text in texts.items())])


def settings() -> str:
    """The settings file that everything is explained in."""
    text = (files("reprieve.review") / "reprieve.toml").read_text(encoding="utf-8")
    return f"{_SETTINGS}\n```toml\n{text.strip()}\n```\n"


def rules() -> str:
    """All rules of the critic."""
    from reprieve.review.critic.registry import CHECKS  # noqa: PLC0415 - an extra

    merged: dict[str, list[CriticRule]] = {}
    for rule in (rule for check in CHECKS for rule in check.rules):
        merged.setdefault(rule.id, []).append(rule)
    rows = [_rule_row(name, merged[name]) for name in sorted(merged)]
    return "\n".join([_RULES, *rows, ""])


def _rule_row(name: str, rules: list[CriticRule]) -> str:
    codes = ", ".join(sorted({rule.code for rule in rules if rule.code}))
    finds = "; ".join(dict.fromkeys(rule.finds for rule in rules)).replace("|", "\\|")
    severities = ", ".join(dict.fromkeys(rule.severity.value for rule in rules))
    return f"| `{name}` | {severities} | {rules[0].languages} | {finds} | {codes} |"


PAGES: Final = {"commands": commands, "profile-values": profiles, "rules": rules, "settings": settings}


def _commands(command: Command, path: str) -> Iterator[list[str]]:
    """Every command that does something, in the order of the help."""
    if isinstance(command, TyperGroup):
        context = typer.Context(command, info_name=path)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from _commands(inner, f"{path} {name}")
        return
    yield _section(command, path)


def _section(command: Command, path: str) -> list[str]:
    text, _, examples = inspect.cleandoc(command.help or "").partition("Examples:\n")
    context = typer.Context(command, info_name=path)
    records = [each.get_help_record(context) for each in command.params if each.name != "help"]
    lines = [f"## {path}", "", text.strip(), ""]
    # Help texts are markup of rich, in which a bracket is escaped.
    if told := [f"- `{name}`: {what}".replace("\\[", "[") for name, what in filter(None, records)]:
        lines += [*told, ""]
    if examples.strip():
        lines += ["```", *(line.strip() for line in examples.strip().splitlines()), "```", ""]
    return lines


if __name__ == "__main__":
    print(PAGES[sys.argv[1]](), end="")  # noqa: T201 - redirected into the page
