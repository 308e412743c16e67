#!/usr/bin/env python3
"""Measure the critic on real commits: findings for a reader to judge, and planted faults that it has to find.

    tools/critic_figures.py run REPOSITORY --out findings.jsonl      going back from HEAD
    tools/critic_figures.py sample *.jsonl --out sheet.md --key key.json --seed 1
    tools/critic_figures.py recall faults.json

`run` stops at 100 findings or 1,000 commits. `sample` draws findings, mixes them with decoys (noise that the critic never
reports) and writes a sheet for a reader who does not know which is which, and a key that says it. `recall` reviews
commits with a planted fault each: objects with `id`, `repository`, `commit`, `kind`, `file` and `line`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reprieve.errors import ReprieveError
from reprieve.review.changes import change_of, repository_at
from reprieve.review.critic.critic import FactsCritic
from reprieve.review.critic.ruff import find_ruff
from reprieve.review.diffs import Limits
from reprieve.review.fetching import Concern, Fetcher
from reprieve.review.git import Git
from reprieve.review.github import Hub

if TYPE_CHECKING:
    from reprieve.review.critic.facts import FactsReport
    from reprieve.review.critic.findings import Finding
    from reprieve.review.fetching import Diff

MAX_FINDINGS: Final = 100
MAX_COMMITS: Final = 1_000
_CONTEXT: Final = 6
_SLOW: Final = 5.0
_NEAR_LINES: Final = 10
_NOISE: Final = {
    "S101": "Use of assert detected: asserts are removed when compiling to optimised byte code.",
    "PLR2004": "Magic value used in a comparison: consider a constant.",
    "D103": "The public function has no docstring.",
    "ANN201": "The public function has no return type annotation.",
    "S311": "Standard pseudo-random generators are not suitable for cryptographic purposes.",
    "T201": "`print` found.",
    "Q000": "Single quotes found but double quotes preferred.",
    "COM812": "Trailing comma missing.",
    "FBT003": "Boolean positional value in a function call.",
    "ERA001": "Found commented-out code.",
}
_CLAIMS: Final = (
    ("line-length", "The line is long: break it."),
    ("magic-number", "Consider a named constant for this value."),
    ("naming", "The name could be more descriptive."),
    ("missing-comment", "Consider a comment that explains this line."),
)


def main() -> int:
    """Read the arguments and run one of the two commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the critic over the history")
    run.add_argument("repository", type=Path)
    run.add_argument("--head", default="HEAD", help="the newest commit")
    run.add_argument("--out", type=Path, required=True)
    run.add_argument("--findings", type=int, default=MAX_FINDINGS)
    run.add_argument("--commits", type=int, default=MAX_COMMITS)
    sample = commands.add_parser("sample", help="draw findings and decoys for a reader")
    sample.add_argument("results", type=Path, nargs="+")
    sample.add_argument("--out", type=Path, required=True)
    sample.add_argument("--key", type=Path, required=True)
    sample.add_argument("--number", type=int, default=100)
    sample.add_argument("--decoys", type=int, default=20)
    sample.add_argument("--seed", type=int, default=1)
    recall = commands.add_parser("recall", help="count the planted faults that are found")
    recall.add_argument("faults", type=Path)
    given = parser.parse_args()
    match given.command:
        case "run":
            return asyncio.run(_run(given))
        case "recall":
            return asyncio.run(_recall(json.loads(given.faults.read_text(encoding="utf-8"))))
        case _:
            return _sample(given)


async def _run(given: argparse.Namespace) -> int:
    folder = given.repository.resolve()
    names = _git(folder, "rev-list", "--no-merges", given.head).split()
    found = 0
    seconds: list[float] = []
    with given.out.open("w", encoding="utf-8") as out:
        for name in names[: given.commits]:
            began = time.monotonic()
            try:
                diff, report = await _reviewed(folder, name)
            except ReprieveError as error:
                print(f"{name[:12]} not reviewed: {error}", file=sys.stderr)
                continue
            finally:
                seconds.append(time.monotonic() - began)
                if seconds[-1] > _SLOW:
                    print(f"{name[:12]} took {seconds[-1]:.1f} s", file=sys.stderr)
            for each in report.findings:
                row = {"repository": str(folder), "commit": name, "title": diff.title, **each.model_dump(mode="json")}
                out.write(json.dumps(row) + "\n")
            found += len(report.findings)
            if found >= given.findings:
                break
    _summarize(given.out, len(seconds), seconds)
    return 0


async def _reviewed(folder: Path, name: str) -> tuple[Diff, FactsReport]:
    with tempfile.TemporaryDirectory() as state:
        git, hub = Git(Path(state), trusted=[str(folder)]), Hub()
        fetcher = Fetcher(git=git, hub=hub, routes={}, concern=Concern(people={}), limits=Limits())
        change = replace(await change_of(git, repository_at(str(folder)), name), notifies=False)
        diff = await fetcher.fetch(change)
        return diff, await FactsCritic(git, hub).report(change, diff)


async def _recall(planted: list[dict[str, Any]]) -> int:
    found = 0
    for fault in planted:
        _, report = await _reviewed(Path(fault["repository"]), fault["commit"])
        near = [each for each in report.findings if _is_near(fault, each)]
        kinds = sorted({each.rule for each in near})
        found += bool(near)
        result = "found" if fault["kind"] in kinds else f"found as {', '.join(kinds)}" if near else "MISSED"
        print(f"{fault['id']:3}  {result:8}  {fault['kind']:24} {fault['file']}:{fault['line']}")
        for each in report.findings if not near else ():
            print(f"       elsewhere: {each.place} {each.rule}")
    print(f"{found} of {len(planted)} found")
    return 0


def _is_near(fault: dict[str, Any], finding: Finding) -> bool:
    """Whether a finding points at a planted fault: a few lines beside it, at the file as a whole, or as the cause."""
    if finding.rule == fault["kind"] and fault["file"] in finding.comment:
        return True
    for place in (finding.place, *finding.also):
        path, _, line = place.rpartition(":")
        if place == fault["file"] or (path == fault["file"] and abs(int(line) - fault["line"]) <= _NEAR_LINES):
            return True
    return False


def _summarize(path: Path, commits: int, seconds: list[float]) -> None:
    rows = _rows([path])
    print(f"{path.name}: {len(rows)} findings in {commits} commits, {100 * len(rows) / max(1, commits):.1f} per 100")
    for rule, number in Counter(row["rule"] for row in rows).most_common():
        print(f"  {number:4d}  {100 * number / max(1, commits):5.2f} per 100  {rule}")
    if len(seconds) > 1:
        print(f"  seconds per commit in this process: median {statistics.median(seconds):.2f},", end=" ")
        print(f"p95 {statistics.quantiles(seconds, n=20)[-1]:.2f}, most {max(seconds):.2f}")


def _sample(given: argparse.Namespace) -> int:
    rows = [row for row in _rows(given.results) if not row["allowed"]]  # a reader of a review sees these apart
    chance = random.Random(given.seed)  # noqa: S311 - a sample of findings, no secret
    chosen = chance.sample(rows, min(given.number, len(rows)))
    decoys = _decoys(rows, given.decoys, chance)
    cards = [(False, row) for row in chosen] + [(True, row) for row in decoys]
    chance.shuffle(cards)
    given.key.write_text(
        json.dumps([{"card": n, "decoy": decoy, **row} for n, (decoy, row) in enumerate(cards, 1)], indent=1),
        encoding="utf-8",
    )
    given.out.write_text("\n".join(_card(n, row) for n, (_, row) in enumerate(cards, 1)), encoding="utf-8")
    print(f"{len(chosen)} findings and {len(decoys)} decoys")
    return 0


def _decoys(rows: list[dict[str, Any]], number: int, chance: random.Random) -> list[dict[str, Any]]:
    """Noise on lines that the same commits add: findings of linter rules that the critic leaves out, and empty claims."""
    found: list[dict[str, Any]] = []
    commits = sorted({(row["repository"], row["commit"], row["title"]) for row in rows})
    chance.shuffle(commits)
    for repository, commit, title in commits:
        if len(found) >= number:
            break
        added = [each for each in _added(Path(repository), commit) if each[2].strip()]
        if not added:
            continue
        path, line, text = chance.choice(added)
        rule, comment = chance.choice(_CLAIMS)
        if path.endswith(".py") and (
            noise := _noise(Path(repository), commit, path, {at for p, at, _ in added if p == path})
        ):
            line, rule, comment = chance.choice(noise)
            text = next(content for p, at, content in added if p == path and at == line)
        found.append(
            {"repository": repository, "commit": commit, "title": title, "file": path, "line": line, "rule": rule,
             "severity": "low", "comment": comment, "quote": text.strip()[:160], "also": []}
        )  # fmt: skip
    return found


def _noise(repository: Path, commit: str, path: str, lines: set[int]) -> list[tuple[int, str, str]]:
    text = _git(repository, "show", f"{commit}:{path}")
    command = [
        find_ruff() or "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--output-format",
        "json",
        "--select",
        ",".join(_NOISE),
    ]
    done = subprocess.run(
        [*command, "--stdin-filename", "x.py", "-"], input=text, capture_output=True, text=True, check=False
    )
    said = json.loads(done.stdout or "[]")
    return [
        (each["location"]["row"], each["code"], _NOISE[each["code"]])
        for each in said
        if each["code"] in _NOISE and each["location"]["row"] in lines
    ]


def _added(repository: Path, commit: str) -> list[tuple[str, int, str]]:
    """The lines that a commit adds: path, number, text."""
    found: list[tuple[str, int, str]] = []
    path, number = "", 0
    for line in _git(repository, "show", "--format=", "--unified=0", "--no-renames", commit).splitlines():
        if line.startswith("+++ "):
            path = line[6:]
        elif line.startswith("@@"):
            number = int(line.split("+")[1].split(",")[0].split(" ")[0])
        elif line.startswith("+"):
            found.append((path, number, line[1:]))
            number += 1
    return found


def _card(number: int, row: dict[str, Any]) -> str:
    also = f"\nAlso at: {', '.join(row['also'][:5])}" if row["also"] else ""
    return (
        f"## Card {number}\nRepository {Path(row['repository']).parent.name}, commit {row['commit'][:12]}: {row['title']}\n\n"
        f"{row['file']}:{row['line']}  {row['severity']}  {row['rule']}\n    {row['quote']}\n{row['comment']}{also}\n\n"
        f"```\n{_excerpt(row)}\n```\n"
    )


def _excerpt(row: dict[str, Any]) -> str:
    """The lines around a finding, in the new version."""
    if not row["line"]:
        return _git(Path(row["repository"]), "show", "--stat", "--format=", row["commit"], "--", row["file"])
    lines = _git(Path(row["repository"]), "show", f"{row['commit']}:{row['file']}").splitlines()
    first = max(0, row["line"] - 1 - _CONTEXT)
    return "\n".join(
        f"{'>' if n == row['line'] else ' '} {n:5d}  {text[:160]}"
        for n, text in enumerate(lines[first : row["line"] + _CONTEXT], first + 1)
    )


def _rows(paths: list[Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", f"safe.directory={folder}", *arguments],  # noqa: S607 - as PATH has it
        cwd=folder,
        capture_output=True,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace")


if __name__ == "__main__":
    sys.exit(main())
