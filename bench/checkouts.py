"""The two sides of a comparison: copies of two trees of the repository, each with the environment it pins.

Both copies lie side by side in a temporary folder under names of the same length, since tracebacks with
longer paths cost more to redact. They are plain files that git does not know, so a killed run leaves nothing
to prune.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sample import PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Mapping

SAMPLE_TIMEOUT_SECONDS: Final = 1800.0
STOP_SECONDS: Final = 60.0
ERROR_CHARACTERS: Final = 2000


class CompareError(Exception):
    """The comparison cannot be made; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A checkout that can be measured."""

    name: str
    tree: str
    folder: Path
    groups: tuple[str, ...]
    python: Path

    def run_sample(self, group: str, *, seconds: float, fixture: Path, hash_seed: int) -> dict[str, float]:
        """Measure a group in a fresh process and return its costs."""
        fixture.mkdir(exist_ok=True)
        program = self.folder / "bench" / "run.py"
        options = ["--sample", group, "--seconds", str(seconds), "--fixture", str(fixture)]
        # A session of its own: Ctrl-C reaches this process alone, which then stops the sample in order.
        process = subprocess.Popen(
            [str(self.python), str(program), *options],
            cwd=self.folder,
            env=self._environment(hash_seed),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            output, errors = process.communicate(timeout=SAMPLE_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            _stop(process)
            limit = f"{SAMPLE_TIMEOUT_SECONDS:g} s"
            raise CompareError(f"{self.name}: a sample of {group} took over {limit}") from None
        except BaseException:
            _stop(process)
            raise
        if process.returncode:
            raise CompareError(f"{self.name}: the sample of {group} failed:\n{errors[-ERROR_CHARACTERS:]}")
        return _read_costs(self.name, group, output)

    def _environment(self, hash_seed: int) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, "PYTHONPATH": str(self.folder / "src"), "PYTHONHASHSEED": str(hash_seed)}


def _read_costs(name: str, group: str, output: str) -> dict[str, float]:
    try:
        answer: dict[str, Any] = json.loads(output.splitlines()[-1])
        costs = {str(figure): float(cost) for figure, cost in answer["costs"].items()}
    except (IndexError, KeyError, ValueError, AttributeError, TypeError):
        printed = output[-ERROR_CHARACTERS:]
        raise CompareError(f"{name}: the sample of {group} printed no costs: {printed!r}") from None
    if answer.get("protocol") != PROTOCOL:
        raise CompareError(f"{name}: the sample of {group} is not of protocol {PROTOCOL}")
    if not costs or not all(math.isfinite(cost) and cost > 0 for cost in costs.values()):
        raise CompareError(f"{name}: the sample of {group} has a cost that is not positive: {costs}")
    return costs


def _stop(process: subprocess.Popen[str]) -> None:
    """Stop a sample and the server it started. Kill its session if it does not end."""
    process.terminate()
    try:
        process.communicate(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def find_commit(repository: Path, name: str) -> str:
    """Return the full id of a commit."""
    try:
        return _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except subprocess.CalledProcessError:
        advice = "give BASE=<commit>, a tag or a branch"
        raise CompareError(f"{name!r} is no commit of this repository: {advice}") from None


def snapshot_tree(repository: Path) -> str:
    """Return the tree of the working tree: with uncommitted changes and new files, without ignored files."""
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        _git(repository, "read-tree", "HEAD", **index)
        _git(repository, "add", "--all", **index)
        return _git(repository, "write-tree", **index)


def extract_tree(repository: Path, tree: str, folder: Path) -> None:
    """Write the files of a commit or a tree into a new folder."""
    folder.mkdir()
    with tempfile.TemporaryDirectory() as other:
        index = {"GIT_INDEX_FILE": str(Path(other) / "index")}
        _git(repository, "read-tree", tree, **index)
        _git(repository, "checkout-index", "--all", f"--prefix={folder}/", **index)


def _git(repository: Path, *arguments: str, **environment: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    variables = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
    return done.stdout.strip()


def find_groups(name: str, folder: Path) -> tuple[str, ...]:
    """Ask a checkout for its groups. This needs no environment, so an unsuitable base is refused at once."""
    command = [sys.executable, str(folder / "bench" / "run.py"), "--protocol"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    try:
        answer = json.loads(done.stdout)
        version, groups = answer["protocol"], tuple(answer["groups"])
    except (ValueError, KeyError, TypeError):
        raise CompareError(
            f"the bench of {name} cannot be sampled: its `bench/run.py --protocol` gave no answer. "
            "Choose a commit that has bench/sample.py, or add the commits that made it to a branch from the "
            "base and compare with that branch"
        ) from None
    if version != PROTOCOL:
        raise CompareError(
            f"the bench of {name} speaks protocol {version}, this program {PROTOCOL}: "
            "choose a base whose bench speaks the same protocol"
        )
    return groups


def build_environment(folder: Path, cache: Path) -> Path:
    """Return the interpreter of the environment that a checkout pins. Checkouts with the same pins share it.

    The checkout's own Makefile builds it. A later run finds it by a digest of the pins.
    """
    pins = [folder / "pyproject.toml", *sorted((folder / "requirements").glob("*.txt"))]
    digest = hashlib.sha256(sys.version.encode())
    for path in pins:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    environment = cache / digest.hexdigest()[:16]
    stamp = environment / ".stamps" / "bench"
    if not stamp.exists():
        print(f"building the environment of {folder.name} (a minute or two)", file=sys.stderr, flush=True)
        cache.mkdir(parents=True, exist_ok=True)
        command = ["make", "-C", str(folder), f"VENV={environment}", f"PYTHON={_plain_python()}", str(stamp)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr)[-ERROR_CHARACTERS:]
            raise CompareError(f"`{' '.join(command)}` failed:\n{said}")
    return environment / "bin" / "python"


def _plain_python() -> str:
    """Return the interpreter below this environment, so that both sides run the same Python."""
    return getattr(sys, "_base_executable", sys.executable)


def open_sides(repository: Path, base: str, folder: Path, cache: Path) -> tuple[Side, Side]:
    """Copy the base and the working tree, and build their environments."""
    trees: Mapping[str, str] = {"base": find_commit(repository, base), "head": snapshot_tree(repository)}
    groups = {}
    for name, tree in trees.items():
        extract_tree(repository, tree, folder / name)
        groups[name] = find_groups(name if name == "head" else f"base {base}", folder / name)
    found = [
        Side(
            name=name, tree=tree, folder=folder / name, groups=groups[name],
            python=build_environment(folder / name, cache),
        )
        for name, tree in trees.items()
    ]  # fmt: skip
    return found[0], found[1]
