"""`reprieve db`: upgrade, check, copy."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.faces.cli.common import DEFAULT_URL, Actor, AsJson, Url, acting, operate, say, say_json
from reprieve.faces.cli.rendering import count, counting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reprieve.app.operations.database import Health

app = typer.Typer(
    name="db",
    help="Make the database's tables, bring them up to date, check them, move to another.",
    no_args_is_help=True,
)


@app.command()
def upgrade(*, actor: Actor = None, url: Url = DEFAULT_URL) -> None:
    """Make the tables, or bring them up to date; harmless where nothing is to do.

    SQLite files are upgraded by themselves when they are opened for work; PostgreSQL only by this.

    Examples:
    reprieve db upgrade --url postgresql://jobs@localhost/jobs
    """
    who = acting(actor)
    before, after = operate(url, lambda operations: operations.database.upgrade(actor=who))
    if before == after:
        say(f"up to date: revision {after.revision}")
    elif before.revision is None:
        say(f"tables made: revision {after.revision}")
    else:
        say(f"upgraded from revision {before.revision} to {after.revision}")


@app.command()
def check(*, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Check that the tables are those that this version needs, and that every job is either queued or over.

    Ends with 1 where something is wrong. Reads every job's row: seconds where there are millions.

    Examples:
    reprieve db check --url postgresql://jobs@localhost/jobs
    """
    health = operate(url, lambda operations: operations.database.check())
    if as_json:
        say_json({"sound": health.sound, **asdict(health)})
    else:
        for line in _lines(health):
            say(line)
    if not health.sound:
        raise typer.Exit(1)


@app.command("copy")
def copy_all(
    *,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            envvar="REPRIEVE_TO",
            help="The other database, which has to be empty; its tables are made.",
            show_default=False,
        ),
    ],
    actor: Actor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Copy everything into another, empty database: jobs, results, dead letters with their history, deliveries; all or nothing.

    For moving from a SQLite file to PostgreSQL. Stop the workers first; what is here stays as it is.

    Examples:
    reprieve db copy --url sqlite:///reviews.db --to postgresql://jobs@localhost/jobs
    """
    who = acting(actor)
    with counting("copying") as told:
        counts = operate(url, lambda operations: operations.database.copy(to, actor=who, told=told))
    if as_json:
        say_json(dict(counts))
        return
    for table, rows in counts.items():
        if rows:
            say(f"{table}: {count(rows, 'row')}")
    say(f"{count(sum(counts.values()), 'row')} copied. Point REPRIEVE_URL at the new database, then start the workers")


def _lines(health: Health) -> Iterator[str]:
    schema, orphans = health.schema, health.orphans
    match schema.fit:
        case "current":
            yield f"tables: revision {schema.revision}, as this version needs"
        case "missing":
            yield "tables: none of Reprieve's; run `reprieve db upgrade`"
        case "behind":
            yield f"tables: revision {schema.revision}, this version needs {schema.wanted}; run `reprieve db upgrade`"
        case _:
            yield f"tables: revision {schema.revision}, newer than this version ({schema.wanted}); upgrade Reprieve here"
    if orphans is None:
        return
    problems = (
        ("jobs that are neither queued nor over", orphans.neither),
        ("jobs that are both queued and over", orphans.both),
        ("rows of jobs that are not there", orphans.jobless),
        ("jobs leased to workers that nobody knows", orphans.unleased),
    )
    for problem, ids in problems:
        if ids:
            yield f"{problem}: {', '.join(str(each) for each in ids)}"
    if health.sound:
        yield "jobs: each is queued or over, and every lease has its worker"
