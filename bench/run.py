"""Measure Reprieve beside its peers: `python bench/run.py [--only retry] [--quick]`."""

from __future__ import annotations

import argparse
import importlib
import pathlib
import sys

from harness import Effort, markdown, table, write

HERE = pathlib.Path(__file__).parent
BENCHES = {
    "retry": "retrying",
    "classify": "classifying",
    "redact": "redacting",
    "import": "importing",
    "engine": "engines",
    "growth": "growing",
    "dead_letters": "dead_letters",
    "replay": "replaying",
    "guard": "guarding",
    "analysis": "analyzing",
    "deliveries": "delivering",
}


def main() -> int:
    """Run the benches that are asked for; the exit code says whether all ran, not whether targets are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(BENCHES), help="one bench; may be given again")
    parser.add_argument("--quick", action="store_true", help="a glance: too few rounds to quote")
    parser.add_argument("--results", type=pathlib.Path, help="where the JSON goes: bench/results, or nowhere if quick")
    parser.add_argument("--markdown", action="store_true", help="measure nothing: print what was kept as tables")
    options = parser.parse_args()
    effort = Effort.quick() if options.quick else Effort()
    results = options.results or (None if options.quick else HERE / "results")
    if options.markdown:
        for name in options.only or BENCHES:
            print(f"### {name}\n\n{markdown((options.results or HERE / 'results') / f'{name}.json')}\n")
        return 0
    for name in options.only or BENCHES:
        figures = importlib.import_module(BENCHES[name]).run(effort)
        print(f"== {name}\n{table(figures)}\n", flush=True)
        if results is not None:
            write(figures, results / f"{name}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
