"""The benchmarks run and say what they promise to say; how fast anything is, no test decides."""

import json
import math
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    "bench",
    [
        "retry",
        "classify",
        "redact",
        "import",
        "engine",
        "growth",
        "dead_letters",
        "replay",
        "guard",
        "deliveries",
        "streams",
    ],
)
def test_a_bench_writes_one_json_object_per_figure(bench, tmp_path):
    command = [sys.executable, str(ROOT / "bench" / "run.py"), "--quick", "--only", bench, "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / f"{bench}.json").read_text(encoding="utf-8"))
    assert figures
    for figure in figures:
        assert set(figure) == {"name", "value", "unit", "peer", "ratio"}
        assert figure["name"] in done.stdout
        assert math.isfinite(figure["value"])
        assert (figure["peer"] is None) == (figure["ratio"] is None)


def test_an_unknown_bench_is_refused():
    command = [sys.executable, str(ROOT / "bench" / "run.py"), "--only", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "invalid choice: 'nothing'" in done.stderr
