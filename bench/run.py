"""Measure Reprieve beside its peers: `python bench/run.py [--only retry] [--quick]`.

`bench/compare.py` calls it with `--protocol`, and with `--sample retry` for samples of our own figures alone.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import signal
import sys
import tempfile
from typing import TYPE_CHECKING

from harness import Effort, markdown, table, write
from sample import PROTOCOL, SampleOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    "streams": "streams",
}


def main() -> int:
    """Run the benches that are asked for; the exit code says whether all ran, not whether targets are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(BENCHES), help="one bench; may be given again")
    parser.add_argument("--quick", action="store_true", help="a glance: too few rounds to quote")
    parser.add_argument("--results", type=pathlib.Path, help="where the JSON goes: bench/results, or nowhere if quick")
    parser.add_argument("--markdown", action="store_true", help="measure nothing: print what was kept as tables")
    protocol = parser.add_argument_group("samples of our own figures, for bench/compare.py")
    protocol.add_argument("--protocol", action="store_true", help="print the version and the groups")
    protocol.add_argument("--sample", action="append", choices=sorted(BENCHES), help="a group; repeatable")
    protocol.add_argument("--seconds", type=float, default=5.0, help="the least time that a sample takes")
    protocol.add_argument("--fixture", type=pathlib.Path, help="where data sets are kept for later samples")
    options = parser.parse_args()
    if options.protocol:
        print(json.dumps({"protocol": PROTOCOL, "groups": list(BENCHES)}))
        return 0
    if options.sample:
        print_samples(options.sample, options.seconds, options.fixture)
        return 0
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


def print_samples(groups: Iterable[str], seconds: float, fixture: pathlib.Path | None) -> None:
    """Measure the groups without their peers and print a line of JSON with the costs of each.

    SIGTERM ends it in order: servers are stopped and temporary folders are removed.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="reprieve-sample-") as folder:
        asked = SampleOptions(seconds=seconds, fixture=fixture or pathlib.Path(folder))
        for group in groups:
            costs = importlib.import_module(BENCHES[group]).sample(asked)
            print(json.dumps({"protocol": PROTOCOL, "group": group, "costs": costs}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
