"""Campaigns for people and for machines: a list, one whole, and how far one is."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final, assert_never

from rich.console import Group
from rich.table import Table
from rich.text import Text

from reprieve.core.canary import CampaignState, MemberState
from reprieve.faces.cli.rendering import bar, clock, count, facts, items, length, plain, table, when

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from reprieve.ports.dead_letters import CampaignEntry, CampaignMember, CampaignRow

_WINDOW: Final = 10
"""Looks over which the rate is taken."""
_SUSPICIOUS: Final = 10.0
"""Seconds without any change after which it is said where to look."""
_STATES: Final = {
    CampaignState.RUNNING: "cyan",
    CampaignState.PAUSED: "yellow",
    CampaignState.STOPPED: "red",
    CampaignState.CANCELLED: "dim",
    CampaignState.DONE: "green",
}
_MEMBERS: Final = {
    MemberState.CONFIRMED: ("confirmed", "green"),
    MemberState.RETURNED: ("came back", "red"),
    MemberState.FAILED: ("failed otherwise", "yellow"),
    MemberState.LEFT_OUT: ("left out", "dim"),
    MemberState.REPLAYING: ("under way", "cyan"),
    MemberState.WAITING: ("waiting", ""),
}
_NOTABLE: Final = (MemberState.RETURNED, MemberState.FAILED, MemberState.LEFT_OUT)
_OVER: Final = (MemberState.CONFIRMED, MemberState.RETURNED, MemberState.FAILED, MemberState.LEFT_OUT)


def as_json(row: CampaignRow) -> dict[str, object]:
    """One for machines: every member state has its number."""
    members = {state.value: row.members.get(state, 0) for state in MemberState}
    in_wave = {state.value: row.in_wave.get(state, 0) for state in MemberState if state is not MemberState.WAITING}
    return asdict(row) | {"selection": json.loads(row.selection), "members": members, "in_wave": in_wave}


def list_table(rows: Sequence[CampaignRow], now: float) -> RenderableType:
    """All of them, each with what it is about and what became of its members under it."""
    headings = ("id", "state", "wave", "members", "started by", "started")
    return items(
        headings,
        [
            (
                (
                    str(row.campaign_id), _state(row), "" if row.state.over else _wave(row), f"{total(row):,}",
                    row.created_by, f"{length(now - row.created_at)} ago",
                ),
                (selection(row), _numbers(row)),
            )
            for row in rows
        ],
    )  # fmt: skip


def detail(
    row: CampaignRow, now: float, history: Sequence[CampaignEntry] = (), members: Sequence[CampaignMember] = ()
) -> RenderableType:
    """One, whole, with who steered it, which members did not get to the end, and what comes next."""
    reason = Text(plain(row.reason), style=_STATES.get(row.state, ""))
    known = facts(
        [
            ("campaign", str(row.campaign_id)),
            ("state", _state(row)),
            ("why", reason if row.reason else ""),
            ("group", selection(row)),
            ("started", f"{when(row.created_at, now)} by {row.created_by}"),
            ("changed", f"{when(row.changed_at, now)} by {row.changed_by}"),
            ("waves", ", ".join([*map(str, row.waves), "all that are left"])),
            ("wave", "" if row.state.over else _wave(row)),
            ("rate", "" if row.rate is None else f"at most {_rate(row.rate)}"),
            ("members", f"{total(row):,}"),
            *((f"  {word}", _number(row, state)) for state, (word, _) in _MEMBERS.items()),
        ]
    )
    entries = ((when(each.at, now), each.actor, each.state.value, plain(each.reason)) for each in history)
    steered: list[RenderableType] = [Text(), table(("when", "by", "state", "why"), entries)] if history else []
    return Group(known, *steered, *_notable(row, members), Text(), Text(f"next: {next_step(row)}"))


def _notable(row: CampaignRow, members: Sequence[CampaignMember]) -> list[RenderableType]:
    """Members that came back, failed or were left out, and what happened to each last."""
    if not members:
        return []
    shown = (
        (
            str(each.letter_id),
            _MEMBERS[each.state][0],
            each.letter_state.value,
            f"{each.last_event} by {each.last_actor}",
        )
        for each in members
    )
    more = sum(row.members.get(state, 0) for state in _NOTABLE) - len(members)
    rest = [Text(f"... and {more:,} more; --json --members {len(members) + more} has all")] if more > 0 else []
    return [Text(), table(("dead letter", "here", "is now", "last"), shown), *rest]


def next_step(row: CampaignRow) -> str:
    """What an operator can do now, with the command."""
    which = f"--group {row.fingerprint}" if row.fingerprint else "ID..."
    match row.state:
        case CampaignState.GATHERING:
            return f"wait until its members are written down; if nobody does: reprieve dead campaigns cancel {row.campaign_id}"
        case CampaignState.RUNNING:
            return f"watch it: reprieve dead campaigns watch {row.campaign_id}"
        case CampaignState.PAUSED:
            return f"let it go on: reprieve dead campaigns resume {row.campaign_id}"
        case CampaignState.STOPPED:
            return f"find out what the remedy missed; what was not replayed is as it was: reprieve dead groups, reprieve dead triage {which} --cause CAUSE"
        case CampaignState.CANCELLED:
            return f"what was not replayed is as it was: reprieve dead {f'list {which}' if row.fingerprint else 'list'}"
        case CampaignState.DONE:
            return f"verify what they did, and close them: reprieve dead verify {which} --note '...'"
        case _:
            assert_never(row.state)


@dataclass(slots=True)
class Seen:
    """What the looks at one campaign have shown so far."""

    looks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_WINDOW + 1))
    latest: CampaignRow = field(init=False)
    changed: float = field(init=False)
    """When it was seen to change."""

    def look(self, row: CampaignRow, at: float) -> None:
        """One more."""
        if not self.looks or (row.members, row.wave, row.state) != (
            self.latest.members,
            self.latest.wave,
            self.latest.state,
        ):
            self.changed = at
        self.latest = row
        self.looks.append((at, over(row)))

    @property
    def rate(self) -> float:
        """Members a second that came to an end, over the last looks."""
        (began, before), (ended, after) = self.looks[0], self.looks[-1]
        return (after - before) / (ended - began) if ended > began else 0.0

    @property
    def hint(self) -> str | None:
        """Where to look, if nothing has moved for long."""
        silent = self.looks[-1][0] - self.changed
        if self.latest.state is not CampaignState.RUNNING or silent < _SUSPICIOUS:
            return None
        return (
            f"nothing has moved for {length(silent)}: is a worker running (reprieve work), "
            "does a stage stand still (reprieve stages list)?"
        )


def line(seen: Seen) -> str:
    """How far it is, in a line."""
    row = seen.latest
    numbers = _numbers(row)
    where = "" if row.state.over else f", wave {_wave(row)}"
    why = f": {plain(row.reason)}" if row.state.over and row.reason else ""
    hint = f"; {seen.hint}" if seen.hint else ""
    return (
        f"{clock(time.time())}  campaign {row.campaign_id} is {row.state}{why}{where}, {_share(seen)}: {numbers}{hint}"
    )


def picture(seen: Seen) -> RenderableType:
    """How far it is, drawn."""
    row = seen.latest
    numbers = Table.grid(padding=(0, 2))
    for state, (word, style) in _MEMBERS.items():
        if _number(row, state):
            numbers.add_row(Text(word, style=style), Text(_number(row, state), justify="right"))
    heading = Text.assemble("campaign ", str(row.campaign_id), " is ", _state(row))
    if row.state.over:
        heading.append(f": {plain(row.reason)}" if row.reason else "")
    else:
        heading.append(f", wave {_wave(row)}")
    hint = [Text(seen.hint, style="yellow")] if seen.hint else []
    return Group(heading, bar(over(row), total(row)), Text(_share(seen)), numbers, *hint)


def total(row: CampaignRow) -> int:
    """How many belong to it."""
    return sum(row.members.values())


def over(row: CampaignRow) -> int:
    """Of how many it is known what became of them."""
    return sum(row.members.get(state, 0) for state in _OVER)


def selection(row: CampaignRow) -> str:
    """What was asked for."""
    chosen = json.loads(row.selection)
    if set(chosen) <= {"fingerprint", "error_class"}:
        return " ".join(filter(None, (chosen.get("error_class"), row.fingerprint))) or "all"
    return ", ".join(
        f"{name} {each if isinstance(each, str | int | float) else '|'.join(each)}" for name, each in chosen.items()
    )


def _share(seen: Seen) -> str:
    row = seen.latest
    left = total(row) - over(row)
    remaining = ""
    if not row.state.over and left and seen.rate:
        remaining = f", {length(left / seen.rate)} left at this rate" if left / seen.rate >= 1 else ""
    limit = "" if row.rate is None else f" of at most {_rate(row.rate)}"
    return f"{over(row):,} of {count(total(row), 'member')}, {seen.rate:.1f} a second{limit}{remaining}"


def _state(row: CampaignRow) -> Text:
    return Text(row.state.value, style=_STATES.get(row.state, ""))


def _wave(row: CampaignRow) -> str:
    """`3 of 6, 5 items`: the last has no size of its own."""
    size = f"{row.waves[row.wave]:,} at most" if row.wave < len(row.waves) else "all that are left"
    return f"{row.wave + 1} of {len(row.waves) + 1} ({size})"


def _numbers(row: CampaignRow) -> str:
    return ", ".join(f"{word} {number}" for state, (word, _) in _MEMBERS.items() if (number := _number(row, state)))


def _number(row: CampaignRow, state: MemberState) -> str:
    number = row.members.get(state, 0)
    return f"{number:,}" if number else ""


def _rate(rate: float) -> str:
    for seconds, unit in ((1, "a second"), (60, "a minute"), (3600, "an hour")):
        if rate * seconds >= 1:
            return f"{rate * seconds:,.10g} {unit}"
    return f"{rate * 86400:,.10g} a day"
