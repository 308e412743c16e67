"""Show that nothing became slower: measure our own figures of a base commit and of the working tree in turns.

`make bench-compare BASE=<commit> ONLY="retry redact"`; docs/benchmarks.md describes what the result means.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from checkouts import CompareError, Side, open_sides
from ratios import Ratio, SamplingPlan, Verdict, estimate_pairs, estimate_ratio, judge_ratio, needs_more_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = Path(".run") / "bench-compare"
REPORTS: Final = Path(".reports") / "bench-compare"
SLOWER_EXIT, USAGE_EXIT, UNDECIDED_EXIT, INTERRUPTED_EXIT = 1, 2, 3, 130


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSamples:
    """The samples of a group, pair by pair."""

    group: str
    base: list[dict[str, float]] = field(default_factory=list)
    head: list[dict[str, float]] = field(default_factory=list)

    def ratios(self) -> dict[str, Ratio]:
        """Return the ratio of each figure that every sample of both sides has."""
        samples = [*self.base, *self.head]
        common = [name for name in samples[0] if all(name in sample for sample in samples)] if samples else []
        return {
            name: estimate_ratio([each[name] for each in self.base], [each[name] for each in self.head])
            for name in common
        }

    def unmatched(self) -> list[str]:
        """Return the figures that cannot be compared, since a sample lacks them."""
        named = {name for sample in (*self.base, *self.head) for name in sample}
        return sorted(named - set(self.ratios()))


def measure_pairs(sides: Sequence[Side], samples: GroupSamples, plan: SamplingPlan, folder: Path) -> None:
    """Add pairs to the samples until every interval is narrow enough, or the most pairs are made.

    The side that comes first changes from pair to pair, so that a drift of the machine cancels out. Both
    samples of a pair have the same seed of Python's hashes, and each pair another one. The first sample of
    each side fills its fixture and its caches, and does not count.
    """
    group, began = samples.group, time.monotonic()
    for side in sides:
        _say(f"{group}: warming up {side.name}")
        side.run_sample(group, seconds=plan.seconds, fixture=folder / f"{side.name}-{group}", hash_seed=0)
    warm = time.monotonic()
    while not samples.base or needs_more_pairs(samples.ratios().values(), plan):
        pair = len(samples.base) + 1
        taken = {}
        for side in sides if pair % 2 else reversed(sides):
            taken[side.name] = side.run_sample(
                group, seconds=plan.seconds, fixture=folder / f"{side.name}-{group}", hash_seed=pair
            )
        samples.base.append(taken["base"])
        samples.head.append(taken["head"])
        if not samples.ratios():
            raise CompareError(f"{group}: the two sides have no figure of the same name")
        _say(describe_progress(group, samples.ratios(), plan, (time.monotonic() - warm) / pair))
    _say(f"{group}: done in {(time.monotonic() - began) / 60:.1f} min")


def describe_progress(group: str, ratios: dict[str, Ratio], plan: SamplingPlan, pair_seconds: float) -> str:
    """Return a line about the figures with the highest ratio and the widest interval, and the time left."""
    name, highest = max(ratios.items(), key=lambda item: item[1].median)
    wide_name, widest = max(ratios.items(), key=lambda item: item[1].width)
    wanted = estimate_pairs(ratios.values(), plan)
    left = max(0, wanted - highest.pairs) * pair_seconds / 60
    return (
        f"{group}: pair {highest.pairs} of about {wanted}; "
        f"highest {highest.median:.3f} {_interval(highest)} {name}; "
        f"widest {widest.median:.3f} {_interval(widest)} {wide_name}; about {left:.0f} min left"
    )


def describe_group(samples: GroupSamples, plan: SamplingPlan) -> str:
    """Return the table of a group."""
    ratios = samples.ratios()
    width = max((len(name) for name in ratios), default=0)
    lines = [f"== {samples.group}: {len(samples.base)} pairs of {plan.seconds:g} s"]
    lines += [
        f"{name.ljust(width)}  {ratio.median:.3f}  {_interval(ratio)}  {judge_ratio(ratio)}"
        for name, ratio in ratios.items()
    ]
    lines += [f"{name.ljust(width)}  not compared: a sample lacks it" for name in samples.unmatched()]
    return "\n".join(lines)


def describe_result(measured: Sequence[GroupSamples], plan: SamplingPlan) -> str:
    """Return the groups that became slower, those that are undecided, and what the result is worth."""
    lines = []
    for verdict in (Verdict.SLOWER, Verdict.UNDECIDED, Verdict.FASTER):
        found = [
            (each.group, f"  {each.group}: {name} {ratio.median:.3f} {_interval(ratio)}")
            for each in measured
            for name, ratio in each.ratios().items()
            if judge_ratio(ratio) is verdict
        ]
        if found or verdict is Verdict.SLOWER:
            lines.append(f"{verdict}: {' '.join(dict.fromkeys(group for group, _ in found)) or 'none'}")
        lines += [line for _, line in found]
    if not plan.is_standard:
        standard = f"{SamplingPlan().pairs} pairs of {SamplingPlan().seconds:g} s"
        lines.append(f"below the standard of {standard}: not to be quoted")
    return "\n".join(lines)


def _interval(ratio: Ratio) -> str:
    return f"[{ratio.low:.3f}, {ratio.high:.3f}]"


def choose_exit(measured: Sequence[GroupSamples]) -> int:
    """Return the exit code: a figure became slower, or else a figure is undecided, or else 0."""
    verdicts = {judge_ratio(ratio) for each in measured for ratio in each.ratios().values()}
    if Verdict.SLOWER in verdicts:
        return SLOWER_EXIT
    return UNDECIDED_EXIT if Verdict.UNDECIDED in verdicts else 0


def write_samples(
    path: Path,
    sides: Sequence[Side],
    plan: SamplingPlan,
    measured: Sequence[GroupSamples],
) -> None:
    """Write all raw samples, with what is needed to judge them anew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ratios = {each.group: {name: asdict(ratio) for name, ratio in each.ratios().items()} for each in measured}
    report = {
        "trees": {side.name: side.tree for side in sides},
        "plan": asdict(plan),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "groups": [asdict(each) for each in measured],
        "ratios": ratios,
    }
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def choose_groups(sides: Sequence[Side], wanted: Sequence[str]) -> list[str]:
    """Return the groups to compare: those that are wanted, or all that both sides have."""
    common = [group for group in sides[0].groups if all(group in side.groups for side in sides)]
    if missing := [group for group in wanted if group not in common]:
        raise CompareError(f"no group {', '.join(missing)} on both sides: ONLY takes {' '.join(common)}")
    return list(wanted) or common


@contextlib.contextmanager
def _work_folder() -> Iterator[Path]:
    """A temporary folder that the user of the database server can pass, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="reprieve-compare-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def compare(repository: Path, base: str, wanted: Sequence[str], plan: SamplingPlan) -> int:
    """Compare the working tree with the base, print the result and return the exit code."""
    report = repository / REPORTS / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    measured: list[GroupSamples] = []
    with _work_folder() as folder:
        sides = open_sides(repository, base, folder, repository / CACHE)
        try:
            for group in choose_groups(sides, wanted):
                measured.append(GroupSamples(group=group))
                measure_pairs(sides, measured[-1], plan, folder)
                print(f"{describe_group(measured[-1], plan)}\n", flush=True)
                for side in sides:
                    shutil.rmtree(folder / f"{side.name}-{group}", ignore_errors=True)
        finally:
            if any(each.base for each in measured):
                write_samples(report, sides, plan, measured)
                _say(f"raw samples: {report.relative_to(repository)}")
            for side in sides:  # what the workers of the samples compiled
                shutil.rmtree(side.python.parent.parent / ".bench-bytecode", ignore_errors=True)
    print(describe_result(measured, plan))
    return choose_exit(measured)


def main(arguments: Sequence[str] | None = None, repository: Path = ROOT) -> int:
    """Return 0 if nothing became slower, 1 if something did, 2 if nothing was compared, 3 if undecided."""
    standard = SamplingPlan()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="the commit that the working tree is compared with")
    parser.add_argument("groups", nargs="*", help="what to compare; by default all that both sides have")
    parser.add_argument("--pairs", type=int, default=standard.pairs, help="the least number of pairs")
    parser.add_argument("--max-pairs", type=int, default=standard.max_pairs, help="undecided after so many")
    parser.add_argument("--seconds", type=float, default=standard.seconds, help="the least time of a sample")
    options = parser.parse_args(arguments)
    if not 1 <= options.pairs <= options.max_pairs or options.seconds <= 0:
        parser.error("--pairs must be at least 1 and at most --max-pairs, and --seconds above 0")
    if not options.base:
        parser.error("no base: make bench-compare BASE=<commit> [ONLY='retry redact']")
    plan = SamplingPlan(pairs=options.pairs, max_pairs=options.max_pairs, seconds=options.seconds)
    try:
        return compare(repository, options.base, options.groups, plan)
    except CompareError as error:
        _say(f"error: {error}")
        return USAGE_EXIT
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED_EXIT


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores SIGINT otherwise
        signal.signal(number, _interrupt)
    sys.exit(main())
