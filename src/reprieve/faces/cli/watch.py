"""`reprieve jobs watch`: how far all jobs are, live; a line at a time where there is no terminal."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reprieve.core.lifecycle import JobStatus
from reprieve.faces.cli.common import DEFAULT_URL, AsJson, PipelineOption, Url, complain, operate, say
from reprieve.faces.cli.rendering import bar, clock, length, plain, status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import RenderableType

    from reprieve.app.operations import Operations
    from reprieve.app.operations.jobs import Progress
    from reprieve.ports.reader import StageView

_WINDOW: Final = 10
"""Looks over which the rate is taken."""
_COST: Final = 10
"""A look may take at most so small a part of the time: counting millions is not done every second."""


def watch(
    *,
    pipeline: PipelineOption = None,
    until_done: Annotated[
        bool, typer.Option("--until-done", help="End when nothing is left that would go on by itself.")
    ] = False,
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.05, max=3600)] = 1.0,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Watch the jobs: how many are done since now, how fast, how the others stand, and which stages stand still.

    Live on a terminal; elsewhere a line a look (with --json an object a line). Ends on Ctrl-C, or by itself with
    --until-done: then with 1 if a job was dead-lettered meanwhile.

    Examples:
    reprieve jobs watch -p review

    reprieve jobs watch --until-done > progress.log
    """
    seen = _Seen()

    async def task(operations: Operations) -> None:
        import asyncio  # noqa: PLC0415 - who asks for help does not wait for it

        with _shown(as_json=as_json) as show:
            while True:
                began = time.monotonic()
                seen.look(await operations.jobs.progress(pipeline), began)
                show(seen)
                if until_done and seen.latest.settled:
                    if len(seen.looks) == 1:
                        complain(f"nothing to wait for: {_settled(seen)}")
                    return
                await asyncio.sleep(max(interval, _COST * (time.monotonic() - began)))

    try:
        operate(url, task)
    except KeyboardInterrupt:
        return
    if seen.since(JobStatus.DEAD_LETTER):
        raise typer.Exit(1)


def _settled(seen: _Seen) -> str:
    return "no job would go on by itself" if seen.total else "no job is open"


@dataclass(slots=True)
class _Seen:
    """What the looks have shown so far."""

    first: Mapping[JobStatus, int] = field(default_factory=dict)
    latest: Progress = field(init=False)
    looks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_WINDOW + 1))

    def look(self, progress: Progress, at: float) -> None:
        """One more."""
        if not self.first:
            self.first = progress.counts
        self.latest = progress
        self.looks.append((at, self.done))

    def since(self, ended: JobStatus) -> int:
        """How many have ended so since the first look; pruning takes away older ones."""
        return max(0, self.latest.counts[ended] - self.first[ended])

    @property
    def done(self) -> int:
        """How many have ended since the first look."""
        return sum(self.since(ended) for ended in JobStatus if ended.over)

    @property
    def total(self) -> int:
        """Those, and the ones that have not ended."""
        return self.done + self.latest.total - self.latest.over

    @property
    def rate(self) -> float:
        """Jobs a second over the last looks."""
        (began, before), (ended, after) = self.looks[0], self.looks[-1]
        return (after - before) / (ended - began) if ended > began else 0.0

    def numbers(self) -> dict[str, int]:
        """The open ones by status, and the others since the first look; what there is none of is left out."""
        counts = {each: self.since(each) if each.over else self.latest.counts[each] for each in JobStatus}
        return {each.value: number for each, number in counts.items() if number}


@contextmanager
def _shown(*, as_json: bool) -> Iterator[Callable[[_Seen], None]]:
    """How a look is shown: as JSON, live, or as a line."""
    if as_json:
        yield lambda seen: say(json.dumps(_as_json(seen)))
    elif not sys.stdout.isatty():
        yield lambda seen: say(_line(seen))
    else:
        with Live(console=Console(highlight=False), auto_refresh=False) as live:
            yield lambda seen: live.update(_picture(seen), refresh=True)


def _as_json(seen: _Seen) -> dict[str, object]:
    return {
        "at": time.time(),
        "done": seen.done,
        "total": seen.total,
        "rate": round(seen.rate, 3),
        "jobs": {each.value: number for each, number in seen.latest.counts.items()},
        "stopped": [
            {"pipeline": stage.pipeline, "stage": stage.stage, "paused": stage.paused, "held_until": stage.held_until}
            for stage in seen.latest.stopped
        ],
    }


def _line(seen: _Seen) -> str:
    numbers = ", ".join(f"{name} {number:,}" for name, number in seen.numbers().items())
    stopped = "".join(f"; {_stopped(stage)}" for stage in seen.latest.stopped)
    return f"{clock(time.time())}  {_share(seen)}{': ' if numbers else ''}{numbers}{stopped}"


def _share(seen: _Seen) -> str:
    seconds = (seen.total - seen.done) / seen.rate if seen.rate else 0.0
    remaining = f", {length(seconds)} left" if seconds >= 1 else ""
    return f"{seen.done:,} of {seen.total:,} done, {seen.rate:.1f} a second{remaining}"


def _stopped(stage: StageView) -> str:
    name = f"{plain(stage.pipeline)}.{plain(stage.stage)}"
    why = f" ({plain(stage.reason)})" if stage.reason else ""
    if stage.paused:
        return f"{name} paused by {plain(stage.paused_by or 'somebody')}{why}"
    until = "" if stage.held_until is None else f" until {clock(stage.held_until)}"
    return f"{name} held{until}{why}"


def _picture(seen: _Seen) -> RenderableType:
    numbers = Table.grid(padding=(0, 2))
    for name, number in seen.numbers().items():
        numbers.add_row(status(name), Text(f"{number:,}", justify="right"))
    return Group(
        bar(seen.done, seen.total),
        Text(_share(seen)),
        numbers,
        *(Text(_stopped(stage), style="yellow") for stage in seen.latest.stopped),
    )
