"""What `import reprieve` adds to the start of an interpreter."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from harness import Effort, Figure, overheads, take_turns
from sample import run_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sample import SampleOptions

BARE = "pass"
STANDARD = "import dataclasses, enum, json, re"
OURS = "import reprieve"
ALL = "import reprieve\nfor name in getattr(reprieve, '__all__', ()): getattr(reprieve, name)"
TWICE = 2.0
NAMES = {OURS: "import reprieve", ALL: "import reprieve and touch every public name"}


def start(code: str, environment: dict[str, str]) -> float:
    """Milliseconds of the processor for a fresh interpreter that runs the code."""
    began = _spent()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)
    return (_spent() - began) * 1000


def _spent() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


@contextmanager
def warm_starts(*codes: str) -> Iterator[Mapping[str, Callable[[], float]]]:
    """Fresh interpreters for each code, all of whose sources are compiled and cached."""
    with tempfile.TemporaryDirectory() as bytecode:
        # Everything is compiled once, as where it is installed; some environments forbid that for sources.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        candidates = {code: partial(start, code, environment) for code in codes}
        take_turns(candidates, 2)  # warm up: bytecode is written, files are cached
        yield candidates


def sample(asked: SampleOptions) -> dict[str, float]:
    """Return the milliseconds that ours adds to the interpreter's own start."""
    with warm_starts(BARE, OURS, ALL) as candidates:
        added = overheads(run_turns(candidates, asked.seconds), BARE)
    return {NAMES[code]: cost for code, cost in added.items()}


def run(effort: Effort) -> list[Figure]:
    """Measure against four modules of the standard library; the interpreter's own start is taken off."""
    with warm_starts(BARE, STANDARD, OURS, ALL) as candidates:
        added = overheads(take_turns(candidates, effort.rounds * 3), BARE)
    return [
        Figure(
            name=NAMES[code],
            value=added[code],
            unit="ms",
            peer=STANDARD,
            peer_value=added[STANDARD],
            at_most=target,
        )
        for code, target in ((OURS, TWICE), (ALL, None))
    ]
