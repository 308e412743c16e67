"""What `reprieve review --staged` loads and starts in a hook: the causes of the time that it takes."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PROGRAM = """
import atexit, gc, json, sys
started = []
sys.addaudithook(lambda event, given: started.append([str(each) for each in given[1]]) if event == "subprocess.Popen" else None)
atexit.register(lambda: print(json.dumps({
    "modules": sorted(sys.modules), "started": started, "frozen": gc.get_freeze_count(),
}), file=sys.stderr))
from reprieve.faces.cli import main
sys.argv = ["reprieve", "review", "--staged", "--fail-on", "high"]
main()
"""
"""Runs the command and reports about its process when it ends. What is registered first runs last."""


def git(folder, *arguments):
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@shop.example", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture
def hook(tmp_path, monkeypatch):
    """Stages a change of three modules, one of which loses a function that a fourth one uses; runs the review of it."""
    for name in [name for name in os.environ if name.startswith(("REPRIEVE_", "GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for name in ("cart", "pay", "ship"):
        (folder / f"{name}.py").write_text(
            f"def {name}_total(items):\n    return sum(items)\n\n\ndef label():\n    return 1\n"
        )
    (folder / "main.py").write_text("from cart import cart_total\n\nprint(cart_total([]))\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Start")
    (folder / "cart.py").write_text("def label():\n    return 2\n")
    for name in ("pay", "ship"):
        (folder / f"{name}.py").write_text(
            f"def {name}_total(items):\n    return sum(items) or 0\n\n\ndef label():\n    return 2\n"
        )
    git(folder, "add", "--all")

    def run(comment=""):
        if comment:
            with (folder / "pay.py").open("a") as file:
                file.write(f"# {comment}\n")
            git(folder, "add", "--all")
        done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        assert "main.py:1  high  removed-name" in done.stdout
        return json.loads(done.stderr.splitlines()[-1])

    return run


def is_loaded(report, *names):
    return [each for each in report["modules"] if each in names or each.startswith(tuple(f"{name}." for name in names))]


def programs(report):
    """How often each program is started; git by its command."""
    found = Counter()
    for command in report["started"]:
        words = [word for word in command if not word.startswith("-") and "=" not in word]
        found[f"git {words[2]}" if words[0] == "git" else Path(command[0]).name] += 1
    return found


@pytest.mark.parametrize("is_known", [False, True], ids=["new", "reviewed before"])
def test_what_a_review_without_a_model_and_a_receiver_does_not_need_is_not_loaded(hook, is_known):
    if is_known:
        hook()
    report = hook("another content")
    unneeded = (
        "httpx2",
        "httpx",
        "openai",
        "anthropic",
        "aiosmtplib",
        "psycopg",
        "yaml",
        "pygments",
        "alembic",
        "mako",
    )
    assert is_loaded(report, *unneeded, "sqlalchemy.dialects.postgresql", "reprieve.testing") == []


def test_a_review_starts_one_parser_and_asks_git_a_few_times(hook):
    found = programs(hook())
    assert found.pop(Path(sys.executable).name) == 1
    assert found.pop("ruff") == 3
    assert all(name.startswith("git ") for name in found), found
    assert found["git rev-parse"] == 2
    assert found.total() <= 22, found


def test_a_review_does_not_look_for_garbage_when_it_ends(hook):
    assert hook()["frozen"] > 0
