"""Times, texts and tables for people; whatever users stored is shown without what a terminal would obey."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reprieve.faces.cli.output import put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import RenderableType

_WIDE: Final = 200
"""Columns where there is no terminal to fit."""
_STEPS: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_STYLES: Final = {
    "succeeded": "green",
    "dead_letter": "red",
    "cancelled": "dim",
    "skipped": "dim",
    "retryable_failed": "yellow",
    "needs_review": "magenta",
    "in_progress": "cyan",
    "open": "red",
    "escalated": "bold red",
    "triaged": "yellow",
    "remediated": "yellow",
    "approved": "cyan",
    "replaying": "cyan",
    "replayed": "magenta",
    "resolved": "green",
    "discarded": "dim",
    "analyzed": "green",
    "active": "cyan",
    "claimed": "cyan",
    "verified": "green",
    "rejected": "dim",
    "withdrawn": "dim",
}


class _Pipe(Console):
    """Where no terminal is: what is printed has no spaces at the ends of its lines, and who reads it may leave."""

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 - what a console prints
        """Print these."""
        before, self.file = self.file, io.StringIO()
        try:
            super().print(*objects, **options)
            text = self.file.getvalue()
        finally:
            self.file = before
        put("\n".join(line.rstrip() for line in text.split("\n")).removesuffix("\n"))


def console() -> Console:
    """Where people read; lines are broken only for a terminal, or where somebody says how wide it is."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return _Pipe(highlight=False, width=None if os.environ.get("COLUMNS") else _WIDE)


def plain(text: str) -> str:
    """A stored text as one line without control characters."""
    return "".join(each if each.isprintable() else " " for each in text)


def count(number: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def length(seconds: float) -> str:
    """A length of time as a number and a unit, at least two of the unit so that little is lost."""
    seconds = abs(seconds)
    for step, unit in _STEPS:
        if seconds >= 2 * step or (step == 1 and seconds >= 1):
            return f"{seconds / step:.0f} {unit}"
    return f"{1000 * seconds:.0f} ms"


def clock(moment: float) -> str:
    """The local time of a moment, with its offset."""
    return datetime.fromtimestamp(moment).astimezone().isoformat(sep=" ", timespec="seconds")


def when(moment: float | None, now: float) -> str:
    """A moment, absolute and relative."""
    if moment is None:
        return ""
    return (
        f"{clock(moment)} ({length(now - moment)} ago)"
        if moment <= now
        else f"{clock(moment)} (in {length(moment - now)})"
    )


def status(value: str) -> Text:
    """A status in its colour."""
    return Text(value, style=_STYLES.get(value, ""))


def table(headings: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A table with a heading; columns that hold nothing are left out."""
    rows = list(rows)
    kept = [place for place in range(len(headings)) if any(str(row[place]) for row in rows)]
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place in kept:
        made.add_column(headings[place], overflow="fold")
    for row in rows:
        made.add_row(*(_cell(row[place]) for place in kept))
    return made


def items(headings: Sequence[str], rows: Sequence[tuple[Sequence[str | Text], Sequence[str]]]) -> RenderableType:
    """Columns, without those that hold nothing, and under each item lines of its own: long ones have the whole width."""
    cells = [[_cell(cell) for cell in each] for each, _ in rows]
    widths = [max(len(heading), *(row[place].cell_len for row in cells)) for place, heading in enumerate(headings)]
    widths = [width if any(row[place].cell_len for row in cells) else 0 for place, width in enumerate(widths)]
    lines = [_line([Text(heading, style="bold") for heading in headings], widths)]
    for row, (_, below) in zip(cells, rows, strict=True):
        lines.append(_line(row, widths))
        for each in below:
            style = "dim" if each.startswith("next: ") else ""
            lines += [Padding(Text(plain(each), style=style), (0, 0, 0, 2))] if each else []
    return Group(*lines)


def _line(cells: Sequence[Text], widths: Sequence[int]) -> RenderableType:
    shown = [(cell, width) for cell, width in zip(cells, widths, strict=True) if width]
    padded = [Text.assemble(cell, " " * (width - cell.cell_len)) for cell, width in shown]
    made = Text("  ").join(padded)
    made.rstrip()
    return made


def bar(done: int, total: int) -> Table:
    """How much of it is done, drawn; a line of its own, which a bar alone would not end."""
    made = Table.grid()
    made.add_row(ProgressBar(total=max(1, total), completed=done, width=60))
    return made


@contextmanager
def counting(what: str) -> Iterator[Callable[[str, int], None]]:
    """Show on a terminal how many of each there are already; yields whom to tell."""
    columns = (SpinnerColumn(), TextColumn(f"{what} {{task.description}}: {{task.completed:,.0f}}"))
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as shown:
        task = shown.add_task("", total=None)
        yield lambda name, done: shown.update(task, description=name, completed=done)


def facts(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """Names and values; those without a value are left out."""
    made = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name, value in rows:
        if str(value):
            made.add_row(Text(name, style="dim"), _cell(value))
    return made


def _cell(value: str | Text) -> Text:
    return value if isinstance(value, Text) else Text(plain(value))
