#!/usr/bin/env python3
"""Run a target of the Makefile on each Python that pyproject.toml claims and that is found on this machine.

Looks for `pythonX.Y` on PATH and in pyenv's folder. Exits 1 if the target fails on a version, or if no
version is found.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def claimed_versions() -> list[str]:
    """Return the versions that the classifiers of pyproject.toml name."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    return [found[1] for each in classifiers if (found := re.fullmatch(r".*:: Python :: (\d+\.\d+)", each))]


def interpreter(version: str) -> str | None:
    """Return the path of an interpreter of this version that starts, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for program in [
        f"python{version}",
        *map(str, sorted(pyenv.glob(f"{version}.*/bin/python"), key=_numbers, reverse=True)),
    ]:
        ask = [program, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"]
        try:
            done = subprocess.run(ask, capture_output=True, text=True, check=False)
        except OSError:
            continue
        said, _, path = done.stdout.strip().partition(" ")
        if said == version:
            return path
    return None


def _numbers(path: Path) -> list[int]:
    """Return the numbers of a path for sorting: 3.11.10 is newer than 3.11.9."""
    return [int(each) for each in re.findall(r"\d+", str(path))]


def main() -> int:
    """Run the target on each version and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", default="check", help="a target of the Makefile (default: check)")
    target = parser.parse_args().target
    results = {}
    for version in claimed_versions():
        path = interpreter(version)
        if path is None:
            results[version] = "not found on this machine"
            continue
        print(f"== make {target} on Python {version}", flush=True)
        make = shutil.which("make") or "make"
        done = subprocess.run([make, target, f"PYTHON={path}"], cwd=ROOT, check=False)
        results[version] = "passed" if done.returncode == 0 else "FAILED"
    for version, result in results.items():
        print(f"Python {version}: {result}")
    return 0 if "passed" in results.values() and "FAILED" not in results.values() else 1


if __name__ == "__main__":
    sys.exit(main())
