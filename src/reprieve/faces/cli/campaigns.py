"""`reprieve dead campaigns`: replays of whole groups; and how `reprieve dead replay --group` starts one."""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.live import Live

from reprieve.core.canary import WAVES, CampaignState, check_rate, check_waves
from reprieve.core.lifecycle import LetterEvent
from reprieve.errors import UsageError
from reprieve.faces.cli.campaign_views import Seen, as_json, detail, line, list_table, next_step, picture, total
from reprieve.faces.cli.common import DEFAULT_URL, Actor, AsJson, Reason, Url, acting, complain, operate, say, say_json
from reprieve.faces.cli.dead_selecting import Yes, filters, takes
from reprieve.faces.cli.rendering import console, count, plain
from reprieve.ports.dead_letters import LetterFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from reprieve.app.operations import Operations
    from reprieve.app.operations.campaigns import Started
    from reprieve.ports.dead_letters import CampaignEntry, CampaignMember, CampaignRow

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
def show(
    campaign: CampaignId,
    *,
    members: Annotated[
        int, typer.Option(help="How many of those that came back, failed or were left out to name.", min=0, max=100_000)
    ] = 20,
    as_json_: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show one campaign: how far it is, who steered it, which members came back, failed or were left out, and what comes next.

    Examples:
    reprieve dead campaigns show 3
    """

    async def task(
        operations: Operations,
    ) -> tuple[CampaignRow, Sequence[CampaignEntry], Sequence[CampaignMember]]:
        campaigns = operations.campaigns
        row, history = await campaigns.show(campaign), await campaigns.history(campaign)
        return row, history, await campaigns.members(campaign, limit=members) if members else ()

    row, history, named = operate(url, task)
    if as_json_:
        more = {"history": [asdict(entry) for entry in history], "notable": [asdict(member) for member in named]}
        say_json(as_json(row) | more)
    else:
        console().print(detail(row, time.time(), history, named))


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

    wanted: LetterFilter
    waves: tuple[int, ...]
    rate: float | None
    detach: bool
    sure: bool

    @property
    def meant(self) -> bool:
        """Whether it was asked for."""
        return self.wanted != LetterFilter()


@takes(filters)
def wholesale(
    wanted: LetterFilter,
    *,
    waves: Annotated[
        str | None,
        typer.Option("--waves", help="How many first: 1,2,5,20,100 unless given; all that are left come last."),
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", help="Replays at most: 20/s, 600/m, 1000/h.", show_default=False)
    ] = None,
    all_at_once: Annotated[bool, typer.Option("--all-at-once", help="No waves.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Do not wait for the end of the group.")] = False,
    yes: Yes = False,
) -> Wholesale:
    """What the options of a whole group say."""
    if wanted == LetterFilter() and (waves is not None or rate is not None or all_at_once or detach):
        raise UsageError("--waves, --rate, --all-at-once and --detach are for many: --group FINGERPRINT, or a filter")
    if all_at_once and waves is not None:
        raise UsageError("--all-at-once and --waves contradict each other")
    sizes = () if all_at_once else WAVES if waves is None else read_waves(waves)
    pace = None if rate is None else read_rate(rate)
    return Wholesale(wanted=wanted, waves=check_waves(sizes), rate=check_rate(pace), detach=detach, sure=yes)


def replay_many(
    url: str,
    how: Wholesale,
    gates: Mapping[str, Any],
    *,
    actor: str,
    as_json_: bool,
    **more: Any,  # noqa: ANN401 - by name
) -> None:
    """Start a campaign over all that a filter finds, once somebody is sure, and follow it to its end unless told not to.

    `gates` are cause, evidence, safe and override as `CampaignOperations.start` takes them; `more` is what else it takes.
    """
    if not how.sure:
        _ask(how, operate(url, lambda operations: _meant(operations, how, gates)), gates)

    async def task(operations: Operations) -> Started:
        if how.sure:
            await _meant(operations, how, gates)
        return await operations.campaigns.start(
            how.wanted, actor=actor, waves=how.waves, rate=how.rate, **gates, **more
        )

    started = operate(url, task)
    row, tell = started.campaign, complain if as_json_ else say
    tell(f"campaign {row.campaign_id} replays {count(total(row), 'dead letter')}{_order(how, total(row))}")
    if started.aside:
        tell(f"{started.aside:,} more stay as they are: they have other gates to pass")
    if how.detach:
        _show(row, as_json_=as_json_)
    else:
        follow(url, row.campaign_id, as_json_=as_json_)


async def _meant(operations: Operations, how: Wholesale, gates: Mapping[str, Any]) -> int:
    """How many a campaign would replay; a filter that can find nothing is refused first."""
    await operations.dead_letters.count(how.wanted, LetterEvent.REPLAY)
    return await operations.campaigns.count(how.wanted, **gates)


def _ask(how: Wholesale, meant: int, gates: Mapping[str, Any]) -> None:
    """Whether so many are to be replayed: they run again, which nobody can take back."""
    past = "" if gates["override"] is None else ", past their gates"
    if not sys.stdin.isatty():
        many = f"{count(meant, 'dead letter')} would be replayed{past}"
        raise UsageError(f"{many}: say --yes where nobody can be asked")
    typer.confirm(
        f"{count(meant, 'dead letter')} will be replayed{past}{_order(how, meant)}. Go on?", abort=True, err=True
    )


def _order(how: Wholesale, meant: int) -> str:
    if meant == 1:
        return ""
    return ", a few first" if how.waves and how.waves[0] < meant else ", all at once"


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
        shown = f"reprieve dead campaigns watch {campaign} shows it again"
        if seen.looks and seen.latest.state is CampaignState.PAUSED:
            complain(
                f"campaign {campaign} stays paused: {shown}, reprieve dead campaigns resume {campaign} lets it go on"
            )
        else:
            complain(
                f"campaign {campaign} goes on without you: {shown}, reprieve dead campaigns pause {campaign} halts it"
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


def _show(row: CampaignRow, *, as_json_: bool) -> None:
    if as_json_:
        say_json(as_json(row))
    else:
        console().print(detail(row, time.time()))
