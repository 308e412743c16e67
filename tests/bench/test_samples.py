"""Every group answers the sample protocol, without its peers."""

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "bench" / "run.py"
FIGURES = {
    "retry": "retry, sync, added to a call",
    "classify": "classify to JSON, 10 frames and a cause",
    "redact": "redact, clean tracebacks",
    "import": "import reprieve",
    "engine": "one stage, PostgreSQL: processor by job",
    "growth": "claim, SQLite",
    "dead_letters": "PostgreSQL: groups: the largest",
    "replay": "last wave, PostgreSQL: processor by job",
    "guard": "an answer that fits, the guard alone",
    "analysis": "SQLite, cache hits, 1,000 in a batch",
    "deliveries": "SMTP, SQLite: processor by delivery",
    "streams": "a message is handled",
}
PEERS = (
    "backoff", "tenacity", "stamina", "detect_secrets", "instructor", "dbos", "pgqueuer", "procrastinate",
)  # fmt: skip


def run(*arguments, **environment):
    command = [sys.executable, str(RUN), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **environment)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What all groups answer to one short call, in which every import of a peer fails."""
    peers = tmp_path_factory.mktemp("peers")
    for name in PEERS:
        (peers / f"{name}.py").write_text(f"raise AssertionError('{name} was imported')")
    wanted = [word for group in FIGURES for word in ("--sample", group)]
    done = run(*wanted, "--seconds", "0.01", env={**os.environ, "PYTHONPATH": str(peers)})
    assert done.returncode == 0, done.stderr
    return {answer["group"]: answer for answer in map(json.loads, done.stdout.splitlines())}


def test_the_groups_that_can_be_sampled_are_those_of_the_bench():
    done = run("--protocol")
    assert json.loads(done.stdout) == {"protocol": 1, "groups": list(FIGURES)}


@pytest.mark.parametrize("group", FIGURES)
def test_a_group_answers_with_the_costs_of_its_own_figures(answers, group):
    assert answers[group]["protocol"] == 1
    costs = answers[group]["costs"]
    assert FIGURES[group] in costs
    assert all(math.isfinite(cost) and cost > 0 for cost in costs.values())


def test_an_unknown_group_is_refused():
    done = run("--sample", "nothing")
    assert done.returncode == 2
    assert "invalid choice: 'nothing'" in done.stderr


def test_a_workload_runs_until_its_seconds_are_used(bench_module):
    sample = bench_module("sample")
    calls = []

    def work():
        calls.append(1)
        return 2.0

    assert sample.median_costs({"work": work}, seconds=0.0) == {"work": 2.0}
    assert calls == [1]
    began = time.monotonic()
    sample.median_costs({"work": work}, seconds=0.05)
    assert time.monotonic() - began >= 0.05
    assert len(calls) > 2


def test_a_slice_has_as_many_calls_as_fill_it(bench_module):
    sample = bench_module("sample")
    asked = []

    def measure(calls):
        asked.append(calls)
        return 50_000.0 if len(asked) > 1 else 90_000_000.0  # the first call loads modules

    sample.sized(measure)()
    assert asked[-1] == sample.SLICE_NANOSECONDS / 50_000
