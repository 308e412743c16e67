"""A tiny harness: candidates take turns, medians are compared, ratios come from one and the same run.

Time is the processor's, not the wall's: nothing here waits, and the neighbours on a shared machine do not count.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from time import process_time_ns
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

Name = TypeVar("Name")
Sample = TypeVar("Sample")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number and, where there is one, the peer that it is held against."""

    name: str
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    at_most: float | None = None
    """The target for the ratio of ours to the peer's."""
    at_least: float | None = None
    """The target where more is better."""

    @property
    def ratio(self) -> float | None:
        """Ours by the peer's."""
        return None if not self.peer_value else self.value / self.peer_value

    @property
    def met(self) -> bool | None:
        """Whether the ratio is within its target; None where there is none."""
        if self.ratio is None or (self.at_most is None and self.at_least is None):
            return None
        below = self.at_most is None or self.ratio <= self.at_most
        return below and (self.at_least is None or self.ratio >= self.at_least)

    def as_dict(self) -> dict[str, object]:
        """What goes to the file of results."""
        ratio = None if self.ratio is None else round(self.ratio, 4)
        return {"name": self.name, "value": round(self.value, 3), "unit": self.unit, "peer": self.peer, "ratio": ratio}


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: rounds, and calls within each."""

    rounds: int = 9
    calls: int = 20_000

    @classmethod
    def quick(cls) -> Effort:
        """Enough to see that it works, too little to quote."""
        return cls(rounds=3, calls=500)


def take_turns(candidates: Mapping[Name, Callable[[], Sample]], rounds: int) -> dict[Name, list[Sample]]:
    """Run every candidate once per round, so that drift of the machine hits all alike."""
    samples: dict[Name, list[Sample]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, measure in candidates.items():
            samples[name].append(measure())
    return samples


def overheads(samples: Mapping[str, list[float]], plain: str) -> dict[str, float]:
    """The median of what each candidate took above the plain one in the same round."""
    bare = samples[plain]
    return {
        name: statistics.median(taken - base for taken, base in zip(values, bare, strict=True))
        for name, values in samples.items()
        if name != plain
    }


def medians(samples: Mapping[str, list[float]]) -> dict[str, float]:
    """The middle of each candidate's rounds."""
    return {name: statistics.median(values) for name, values in samples.items()}


def per_call(function: Callable[[], object], calls: int) -> float:
    """Nanoseconds of one call, the loop's own share included."""
    turns = range(calls)
    began = process_time_ns()
    for _ in turns:
        function()
    return (process_time_ns() - began) / calls


async def per_await(function: Callable[[], Awaitable[object]], calls: int) -> float:
    """Nanoseconds of one awaited call, the loop's own share included."""
    turns = range(calls)
    began = process_time_ns()
    for _ in turns:
        await function()
    return (process_time_ns() - began) / calls


def write(figures: list[Figure], path: Path) -> None:
    """Keep the figures as a list of JSON objects."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"  {json.dumps(figure.as_dict())}" for figure in figures)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def markdown(path: Path) -> str:
    """The figures of a file of results as a table for the documentation; the peer's own is theirs by the ratio."""
    lines = ["| figure | ours | peer | ratio |", "|---|--:|--:|--:|"]
    for figure in json.loads(path.read_text(encoding="utf-8")):
        name, value, unit, ratio = figure["name"], figure["value"], figure["unit"], figure["ratio"]
        peer = f"{figure['peer']} {_number(value / ratio)}" if ratio else figure["peer"] or ""
        lines.append(f"| {name} | {_number(value)} {unit} | {peer} | {'' if ratio is None else f'{ratio:.3g}'} |")
    return "\n".join(lines)


def table(figures: list[Figure]) -> str:
    """Name, ours, the peer's, their ratio, the target, and whether it is met."""
    rows = [("figure", "ours", "unit", "peer", "peer's", "ratio", "target", "met")]
    for figure in figures:
        target = (
            "" if figure.met is None else f"<= {figure.at_most:g}" if figure.at_most else f">= {figure.at_least or 0:g}"
        )
        rows.append(
            (
                figure.name,
                _number(figure.value),
                figure.unit,
                figure.peer or "",
                "" if figure.peer_value is None else _number(figure.peer_value),
                "" if figure.ratio is None else f"{figure.ratio:.3g}",
                target,
                "" if figure.met is None else "yes" if figure.met else "NO",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"  # noqa: PLR2004 - where digits stop to matter
