"""tools/versions.py with a stub `make` that prints its arguments."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLAIMED = [
    found[1]
    for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    if (found := re.fullmatch(r".*:: Python :: (3\.\d+)", each))
]


@pytest.fixture
def versions(tmp_path):
    """Runs the tool where no Python is found but one that claims to be each of these versions."""

    def run(*found, make="exit 0", arguments=()):
        folder = tmp_path / "bin"
        folder.mkdir()
        for version in found:
            program(folder / f"python{version}", f'echo "{version} /opt/python{version}"')
        program(folder / "make", f'echo "make $1 $2"; {make}')
        done = subprocess.run(
            [sys.executable, ROOT / "tools/versions.py", *arguments], capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "PATH": str(folder), "PYENV_ROOT": str(tmp_path)},
        )  # fmt: skip
        return done.returncode, done.stdout.splitlines()

    return run


def program(path, line):
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def test_the_target_runs_on_each_claimed_version_that_is_found(versions):
    code, lines = versions("3.11", "3.13", "3.99")
    assert code == 0
    assert [line for line in lines if line.startswith("make")] == [
        "make check PYTHON=/opt/python3.11",
        "make check PYTHON=/opt/python3.13",
    ]
    assert lines[-len(CLAIMED) :] == [
        "Python 3.11: passed",
        "Python 3.12: not found on this machine",
        "Python 3.13: passed",
    ]


def test_a_failure_on_one_version_fails_and_the_others_still_run(versions):
    code, lines = versions(*CLAIMED, make="case $2 in *3.11) exit 1;; esac", arguments=["test"])
    assert code == 1
    assert [line for line in lines if line.startswith("make test")] == [
        f"make test PYTHON=/opt/python{version}" for version in CLAIMED
    ]
    assert lines[-len(CLAIMED) :] == ["Python 3.11: FAILED", "Python 3.12: passed", "Python 3.13: passed"]


def test_no_version_at_all_is_a_failure(versions):
    assert versions()[0] == 1
