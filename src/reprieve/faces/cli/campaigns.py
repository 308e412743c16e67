"""`reprieve dead campaigns`: replays of whole groups; and how `reprieve dead replay --group` starts one."""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.live import Live

from reprieve.core.canary import WAVES, CampaignState
from reprieve.errors import UsageError
from reprieve.faces.cli.campaign_views import Seen, as_json, detail, line, list_table, next_step, picture, total
from reprieve.faces.cli.common import DEFAULT_URL, Actor, AsJson, Reason, Url, acting, complain, operate, say, say_json
from reprieve.faces.cli.rendering import console, count, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reprieve.app.operations import Operations
    from reprieve.app.operations.campaigns import Started
    from reprieve.ports.dead_letters import CampaignEntry, CampaignRow

app = typer.Typer(
    name="campaigns",
    help="Look at replays of whole groups, watch, pause, resume and cancel them.",
    no_args_is_help=True,
)

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/\s*([smhd]))?")
_INTERRUPTED: Final = 130
CampaignId = Annotated[int, typer.Argument(metavar="ID", help="Its number.", show_default=False)]
Interval = Annotated[float, typer.Option(help="Seconds between two looks.", min=0.05, max=3600)]


@app.command("list")
def list_campaigns(
    *,
    state: Annotated[
        list[CampaignState] | None, typer.Option("--state", help="Only in this state; may be given again.")
    ] = None,
    limit: Annotated[int, typer.Option(help="How many, the newest first.", min=1, max=10_000)] = 50,
    as_json_: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List campaigns, the newest first, with what has become of their members.

    Examples:
    reprieve dead campaigns list --state running
    """
    found = operate(url, lambda operations: operations.campaigns.list(states=frozenset(state or ()), limit=limit))
    if as_json_:
        say_json([as_json(row) for row in found])
    elif not found:
        say("no campaigns: reprieve dead replay --group FINGERPRINT starts one")
    else:
        console().print(list_table(found, time.time()))


@app.command()
def show(campaign: CampaignId, *, as_json_: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show one campaign: how far it is, what became of its members, who steered it, and what comes next.

    Examples:
    reprieve dead campaigns show 3
    """

    async def task(operations: Operations) -> tuple[CampaignRow, Sequence[CampaignEntry]]:
        return await operations.campaigns.show(campaign), await operations.campaigns.history(campaign)

    row, history = operate(url, task)
    _show(row, history, as_json_=as_json_)


@app.command()
def watch(campaign: CampaignId, *, interval: Interval = 1.0, as_json_: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Watch a campaign until it is over: 0 if it got to its end, 1 if it was stopped or cancelled.

    Live on a terminal; elsewhere a line a look (with --json an object a line). Ctrl-C leaves the campaign running.

    Examples:
    reprieve dead campaigns watch 3
    """
    follow(url, campaign, interval=interval, as_json_=as_json_)


@app.command()
def pause(
    campaign: CampaignId, *, reason: Reason = "", actor: Actor = None, as_json_: AsJson = False, url: Url = DEFAULT_URL
) -> None:
    """Pause a campaign: what is under way goes on, nothing more is replayed until it is resumed.

    Examples:
    reprieve dead campaigns pause 3 --reason 'the provider asks us to wait'
    """
    who = acting(actor)
    row = operate(url, lambda operations: operations.campaigns.pause(campaign, actor=who, reason=reason))
    _show(row, as_json_=as_json_)


@app.command()
def resume(
    campaign: CampaignId, *, reason: Reason = "", actor: Actor = None, as_json_: AsJson = False, url: Url = DEFAULT_URL
) -> None:
    """Let a paused campaign go on.

    Examples:
    reprieve dead campaigns resume 3
    """
    who = acting(actor)
    row = operate(url, lambda operations: operations.campaigns.resume(campaign, actor=who, reason=reason))
    _show(row, as_json_=as_json_)


@app.command()
def cancel(
    campaign: CampaignId, *, reason: Reason = "", actor: Actor = None, as_json_: AsJson = False, url: Url = DEFAULT_URL
) -> None:
    """End a campaign: what is under way goes on, what was not replayed stays as it is.

    Examples:
    reprieve dead campaigns cancel 3 --reason 'the fix was rolled back'
    """
    who = acting(actor)
    row = operate(url, lambda operations: operations.campaigns.cancel(campaign, actor=who, reason=reason))
    _show(row, as_json_=as_json_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wholesale:
    """How a whole group is replayed, where that was asked for."""

    fingerprint: str | None
    waves: tuple[int, ...]
    rate: float | None
    detach: bool


def wholesale(
    *,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", "-g", metavar="FINGERPRINT", help="Replay a whole group, wave after wave.", show_default=False
        ),
    ] = None,
    waves: Annotated[
        str | None,
        typer.Option("--waves", help="How many first: 1,2,5,20,100 unless given; all that are left come last."),
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", help="Replays at most: 20/s, 600/m, 1000/h.", show_default=False)
    ] = None,
    all_at_once: Annotated[bool, typer.Option("--all-at-once", help="No waves.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Do not wait for the end of the group.")] = False,
) -> Wholesale:
    """What the options of a whole group say."""
    if group is None and (waves is not None or rate is not None or all_at_once or detach):
        raise UsageError("--waves, --rate, --all-at-once and --detach are for a whole group: --group FINGERPRINT")
    if all_at_once and waves is not None:
        raise UsageError("--all-at-once and --waves contradict each other")
    sizes = () if all_at_once else WAVES if waves is None else read_waves(waves)
    return Wholesale(fingerprint=group, waves=sizes, rate=None if rate is None else read_rate(rate), detach=detach)


def replay_group(
    url: str, fingerprint: str, how: Wholesale, *, actor: str, as_json_: bool, **gates: str | bool | None
) -> None:
    """Start a campaign over a group, and follow it to its end unless told not to.

    `gates` are what `CampaignOperations.start` takes besides: cause, evidence, safe, override, note, restart, stage.
    """

    async def task(operations: Operations) -> Started:
        return await operations.campaigns.start(
            fingerprint,
            actor=actor,
            waves=how.waves,
            rate=how.rate,
            **gates,  # type: ignore[arg-type]  # by name, checked where they are used
        )

    started = operate(url, task)
    row, tell = started.campaign, complain if as_json_ else say
    tell(f"campaign {row.campaign_id} replays {count(total(row), 'dead letter')}, a few first")
    if started.aside:
        tell(f"{started.aside:,} more of the group stay as they are: they have other gates to pass")
    if how.detach:
        _show(row, as_json_=as_json_)
    else:
        follow(url, row.campaign_id, as_json_=as_json_)


def follow(url: str, campaign: int, *, interval: float = 1.0, as_json_: bool = False) -> None:
    """Look at a campaign until it is over; how it ended is the exit code."""
    seen = Seen()

    async def task(operations: Operations) -> None:
        with _shown(as_json_=as_json_) as shown:
            async for row in operations.campaigns.watch(campaign, interval=interval):
                seen.look(row, time.monotonic())
                shown(seen)

    try:
        operate(url, task)
    except KeyboardInterrupt:
        complain(
            f"campaign {campaign} goes on without you: reprieve dead campaigns watch {campaign} shows it again, "
            f"reprieve dead campaigns pause {campaign} halts it"
        )
        raise typer.Exit(_INTERRUPTED) from None
    if not as_json_:
        say(f"next: {plain(next_step(seen.latest))}")
    if seen.latest.state is not CampaignState.DONE:
        raise typer.Exit(1)


def read_rate(text: str) -> float:
    """`20/s`, `600/m`, `1000/h`, `50/d`, or a number a second."""
    found = _RATE.fullmatch(text.strip())
    rate = float(found[1]) / _UNITS[found[2] or "s"] if found else 0.0
    if rate <= 0:
        raise UsageError(f"{text!r} is no rate: 20/s, 600/m, 1000/h or 50/d would be right")
    return rate


def read_waves(text: str) -> tuple[int, ...]:
    """`1,2,5,20,100`."""
    try:
        return tuple(int(each) for each in text.split(","))
    except ValueError:
        raise UsageError(f"{text!r} are no waves: 1,2,5,20,100 would be right; all that are left come last") from None


@contextmanager
def _shown(*, as_json_: bool) -> Iterator[Callable[[Seen], None]]:
    """How a look is shown: as JSON, live, or as a line."""
    if as_json_:
        yield lambda seen: say(
            json.dumps(as_json(seen.latest) | {"at": time.time(), "per_second": round(seen.rate, 3)})
        )
    elif not sys.stdout.isatty():
        yield lambda seen: say(line(seen))
    else:
        with Live(console=Console(highlight=False), auto_refresh=False) as live:
            yield lambda seen: live.update(picture(seen), refresh=True)


def _show(row: CampaignRow, history: Sequence[CampaignEntry] = (), *, as_json_: bool) -> None:
    if as_json_:
        say_json(as_json(row) | ({"history": [asdict(entry) for entry in history]} if history else {}))
    else:
        console().print(detail(row, time.time(), history))
