"""`reprieve alerts`: list, show, ack, resolve, send, test, prune."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from reprieve.core.alerts import Level  # noqa: TC001 - Typer evaluates annotations at run time
from reprieve.faces.cli.common import DEFAULT_URL, Actor, AsJson, Url, acting, duration, operate, say, say_json
from reprieve.faces.cli.rendering import console, count, facts, plain, table, when
from reprieve.ports.alerting import AlertFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.app.operations.alerts import AlertDetail
    from reprieve.ports.alerting import AlertView

app = typer.Typer(name="alerts", help="What somebody has to hear of, and who was told.", no_args_is_help=True)

_NO_SINKS: Final = "no sinks: name them in REPRIEVE_ALERTS, as URLs with blanks or commas between them"
Id = Annotated[int, typer.Argument(metavar="ID", help="The alert's number.", show_default=False)]


@app.command("list")
def list_alerts(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Those that are over too.")] = False,
    rule: Annotated[str | None, typer.Option("--rule", help="Only of this rule.", show_default=False)] = None,
    level: Annotated[Level | None, typer.Option("--level", help="Only so loud.", show_default=False)] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="Only of this pipeline, analysis or sender.", show_default=False)
    ] = None,
    after: Annotated[int | None, typer.Option("--after", help="Older than this number.", show_default=False)] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1, max=1000)] = 50,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List alerts that are open, the newest first.

    Examples:
    reprieve alerts list --level page
    """
    wanted = AlertFilter(
        is_open=None if everything else True, rule=rule, level=None if level is None else level.value, source=source,
        after=after, limit=limit,
    )  # fmt: skip
    found = operate(url, lambda operations: operations.alerts.list(wanted))
    if as_json:
        say_json([asdict(alert) for alert in found])
    elif not found:
        say("no alerts")
    else:
        console().print(_table(found, time.time()))
        if len(found) == limit:
            say(f"more: --after {found[-1].alert_id}")


@app.command()
def show(alert: Id, *, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show one alert, who was told of it and who was not, and what comes next.

    Examples:
    reprieve alerts show 3
    """
    _say_detail(operate(url, lambda operations: operations.alerts.show(alert)), as_json=as_json)


@app.command()
def ack(alert: Id, *, actor: Actor = None, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Say that you look after an alert.

    Examples:
    reprieve alerts ack 3
    """
    who = acting(actor)
    _say_detail(operate(url, lambda operations: operations.alerts.acknowledge(alert, actor=who)), as_json=as_json)


@app.command()
def resolve(
    alert: Id,
    *,
    reason: Annotated[
        str,
        typer.Option("--reason", help="Why it is over; kept, and told to whoever was told of it.", show_default=False),
    ],
    actor: Actor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """End an alert that does not end by itself; what happens after that is an alert of its own.

    Examples:
    reprieve alerts resolve 3 --reason 'the key was renewed'
    """
    who = acting(actor)
    found = operate(url, lambda operations: operations.alerts.resolve(alert, actor=who, reason=reason))
    _say_detail(found, as_json=as_json)


@app.command()
def send(*, actor: Actor = None, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Tell everybody now what they have to hear, as every worker does by itself; exit code 1 where somebody was not reached, or there is nobody to tell.

    REPRIEVE_ALERTS names the sinks, as URLs with blanks or commas between them.

    Examples:
    reprieve alerts send
    """
    who = acting(actor)
    done = operate(url, lambda operations: operations.alerts.send(actor=who))
    if as_json:
        say_json(asdict(done))
    else:
        say(f"{done.told} told, {done.failed} not reached, {done.resolved} over" if done.sinks else _NO_SINKS)
    if done.failed or not done.sinks:
        raise typer.Exit(1)


@app.command("test")
def try_sinks(*, actor: Actor = None, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Send a test through every sink and say which worked; exit code 1 where one did not. No alert is raised.

    REPRIEVE_ALERTS names the sinks, as URLs with blanks or commas between them.

    Examples:
    reprieve alerts test
    """
    who = acting(actor)
    tried = operate(url, lambda operations: operations.alerts.test(actor=who))
    if as_json:
        say_json([asdict(each) for each in tried])
    elif not tried:
        say(_NO_SINKS)
    else:
        rows = [
            (each.sink, "reached" if each.error is None else "NOT reached", plain(each.error or "")) for each in tried
        ]
        console().print(table(("sink", "test", "why"), rows))
    if not tried or any(each.error is not None for each in tried):
        raise typer.Exit(1)


@app.command()
def prune(
    *,
    older_than: Annotated[
        str, typer.Option(help="How long ago they have to have ended: 90d, 12w.", show_default=False)
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count; remove nothing.")] = False,
    actor: Actor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Remove alerts that ended long ago, with what was told of them. Never an open one, nor one of whose end a sink has yet to hear.

    Keep them for as long as the longest `within` of your rules: failures that led to one that is gone count towards the next.

    Examples:
    reprieve alerts prune --older-than 90d --dry-run
    """
    seconds, who = duration(older_than, unit=True), acting(actor)
    done = operate(url, lambda operations: operations.alerts.prune(seconds, actor=who, dry=dry_run))
    if as_json:
        say_json({"alerts": done.alerts, "kept_for": {"sinks": done.kept_for_sinks}, "dry_run": dry_run})
        return
    kept = (
        f"; {count(done.kept_for_sinks, 'alert')} kept for sinks that have yet to be told"
        if done.kept_for_sinks
        else ""
    )
    say(f"{count(done.alerts, 'alert')} {'would be removed' if dry_run else 'removed'}{kept}")


def _state(alert: AlertView) -> str:
    if not alert.is_open:
        return "over"
    return "open" if alert.acked_by is None else f"open, {alert.acked_by} looks after it"


def _table(rows: Sequence[AlertView], now: float) -> object:
    return table(
        ("id", "level", "rule", "about", "times", "first", "last", "state", "what"),
        [
            (
                str(row.alert_id), row.level, row.rule, row.key, f"{row.count:,}", when(row.first_at, now),
                when(row.last_at, now), _state(row), plain(row.summary),
            )
            for row in rows
        ],
    )  # fmt: skip


def _say_detail(found: AlertDetail, *, as_json: bool) -> None:
    row, now = found.alert, time.time()
    if as_json:
        say_json({**asdict(row), "notices": [asdict(notice) for notice in found.notices]})
        return
    screen = console()
    screen.print(
        facts([
            ("alert", str(row.alert_id)), ("state", _state(row)), ("level", row.level), ("rule", row.rule),
            ("about", row.key), ("what", plain(row.summary)), ("times", f"{row.count:,}"), ("first", when(row.first_at, now)),
            ("last", when(row.last_at, now)), ("ends", _ends(row)), ("acknowledged", when(row.acked_at, now)),
            ("over since", when(row.resolved_at, now)), ("ended by", row.resolved_by or ""), ("why", plain(row.why or "")),
        ])
    )  # fmt: skip
    if found.notices:
        screen.print(
            table(
                ("sink", "told that it is", "when", "tries", "next", "went wrong"),
                [
                    (
                        each.sink, "open" if each.kind == "raise" else "over", when(each.told_at, now), str(each.attempts),
                        "" if each.told_at is not None else when(each.not_before, now), plain(each.error or ""),
                    )
                    for each in found.notices
                ],
            )
        )  # fmt: skip
    if row.is_open:
        say(f"next: {_next(row)}")


def _ends(row: AlertView) -> str:
    return {
        "quiet": f"after {row.quiet:g} s without another one",
        "resumed": "when the stage is resumed",
        "settled": "when no dead letter of it is left",
        "released": "when the sender has no delivery that is held",
        "hand": "by hand",
    }[row.over_when]


def _next(row: AlertView) -> str:
    match row.over_when:
        case "resumed":
            return f"mend the cause, then reprieve stages resume {row.source} {row.stage}"
        case "settled":
            return f"reprieve dead list --pipeline {row.source} --stage {row.stage} --class {row.error_class}"
        case "released":
            return f"reprieve deliveries list --status held --sender {row.source}"
        case _:
            ack = "" if row.acked_by is not None else f"reprieve alerts ack {row.alert_id}; "
            return f"{ack}reprieve alerts resolve {row.alert_id} --reason '...' once it is mended"
