"""What `reprieve review --staged` takes in a hook, from the start of the process to its end.

The repository holds packages of the standard library. Ten of their modules are staged: 100 to 400 lines each, of
which the change adds, removes or rewrites 10 to 60.
"""

from __future__ import annotations

import ast
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness import Effort, Figure, medians, take_turns
from sample import run_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sample import SampleOptions

_PACKAGES: Final = (
    "asyncio", "concurrent", "email", "html", "http", "importlib", "json", "logging", "multiprocessing", "unittest",
    "urllib", "wsgiref", "xml",
)  # fmt: skip
_ADDING: Final = (
    "asyncio/queues.py", "asyncio/runners.py", "asyncio/taskgroups.py", "concurrent/futures/thread.py",
    "email/contentmanager.py", "json/decoder.py", "urllib/robotparser.py",
)  # fmt: skip
"""Modules to which the change adds a function."""
_REMOVING: Final = ("asyncio/subprocess.py", "multiprocessing/queues.py", "unittest/suite.py")
"""Modules from which the change removes one: its name is then searched in all files."""
_FUNCTION_LINES: Final = range(8, 40)
_COMMAND: Final = ("-P", "-m", "reprieve", "review")
_STAGED: Final = ("--staged", "--fail-on", "high")
_NEW, _KNOWN = "a new repository", "a repository with earlier reviews"


@dataclass(frozen=True, slots=True)
class _Taken:
    wall: float
    processor: float
    """Milliseconds, those of child processes included."""


@contextmanager
def hook() -> Iterator[Mapping[str, Callable[[], _Taken]]]:
    """Reviews of the staged change in a repository without and with a database; each ends as it began."""
    with tempfile.TemporaryDirectory(prefix="reprieve-staged-") as name:
        folder, state = Path(name) / "library", Path(name) / "state"
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("REPRIEVE_", "GIT_"))}
        environment |= {"HOME": name, "PYTHONPYCACHEPREFIX": f"{name}/bytecode"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        _fill(folder, environment)
        known = folder / ".git" / "reprieve"
        _review(folder, environment, "HEAD")
        known.rename(state)
        measures = {
            _NEW: partial(_measure, folder, None, environment),
            _KNOWN: partial(_measure, folder, state, environment),
        }
        take_turns(measures, 1)  # warm up: bytecode is written, files are cached
        yield measures


def sample(asked: SampleOptions) -> dict[str, float]:
    """Return the milliseconds of the processor for a review."""
    with hook() as reviews:
        costs = {name: partial(_processor, review) for name, review in reviews.items()}
        taken = run_turns(costs, asked.seconds)
    return {f"{name}: processor": cost for name, cost in medians(taken).items()}


def run(effort: Effort) -> list[Figure]:
    """Measure the wall's time, which a person waits for, and the processor's."""
    with hook() as reviews:
        samples = take_turns(reviews, effort.rounds)
    return [
        Figure(name=f"{name}: {what}", value=statistics.median(getattr(each, attribute) for each in taken), unit="ms")
        for name, taken in samples.items()
        for what, attribute in (("time", "wall"), ("processor", "processor"))
    ]


def _processor(review: Callable[[], _Taken]) -> float:
    return review().processor


def _measure(folder: Path, state: Path | None, environment: dict[str, str]) -> _Taken:
    before = folder / ".git" / "reprieve"
    shutil.rmtree(before, ignore_errors=True)
    if state is not None:
        shutil.copytree(state, before)
    os.sync()  # what was prepared is not written while the review is measured
    began, spent = time.monotonic(), _spent()
    _review(folder, environment, *_STAGED)
    return _Taken((time.monotonic() - began) * 1000, (_spent() - spent) * 1000)


def _review(folder: Path, environment: dict[str, str], *arguments: str) -> None:
    command = [sys.executable, *_COMMAND, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode in {0, 1}, done.stderr
    assert b"rules on" in done.stdout


def _spent() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def _fill(folder: Path, environment: dict[str, str]) -> None:
    """Commit the packages in the old version of the change, and stage the new one."""
    library = Path(sysconfig.get_path("stdlib"))
    for package in _PACKAGES:
        shutil.copytree(library / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "test*"))
    versions = {path: _versions((library / path).read_text(encoding="utf-8")) for path in (*_ADDING, *_REMOVING)}
    versions |= {path: versions[path][::-1] for path in _REMOVING}
    _git(folder, environment, "init", "--quiet")
    for path, (old, _) in versions.items():
        (folder / path).write_text(old, encoding="utf-8")
    _git(folder, environment, "add", "--all")
    _git(folder, environment, "commit", "--quiet", "--message", "Start")
    for path, (_, new) in versions.items():
        (folder / path).write_text(new, encoding="utf-8")
    _git(folder, environment, "add", "--all")


def _git(folder: Path, environment: dict[str, str], *arguments: str) -> None:
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@shop.example", *arguments]
    subprocess.run(command, cwd=folder, env=environment, check=True)


def _versions(text: str) -> tuple[str, str]:
    """Return an old and a new version: the new one has one more function, and other local names in another one."""
    functions = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    last = max(
        (each for each in functions if _length(each) in _FUNCTION_LINES and not each.decorator_list),
        key=lambda each: each.lineno,
    )
    others = [each for each in functions if each.end_lineno is not None and each.end_lineno < last.lineno]
    renamed = max(others, key=lambda each: _length(each) if _length(each) in _FUNCTION_LINES else 0)
    lines = text.splitlines(keepends=True)
    names = {each.id for each in ast.walk(renamed) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    rewritten = list(lines)
    if names:
        pattern = re.compile(rf"(?<![.\w])({'|'.join(sorted(names))})\b(?!=)")
        body = range(renamed.body[0].lineno - 1, renamed.end_lineno or renamed.lineno)
        for row in body:
            rewritten[row] = pattern.sub(r"old_\1", lines[row])
    del rewritten[last.lineno - 1 : last.end_lineno]
    return "".join(rewritten), text


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1
