"""The page about timeouts, run as its reader would, and its table against the profile."""

import re
import subprocess
import sys
from pathlib import Path

import reprieve
from reprieve.app.profiles import resolve

PAGE = Path(__file__).parents[2] / "docs" / "timeouts.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_the_examples_of_the_page_run(tmp_path):
    (profile,) = blocks("toml")
    (tmp_path / "service.toml").write_text(profile, encoding="utf-8")
    checks = """
assert (book["orchestrator"].timeout("redis_command").seconds, short.timeout("worker_spawn").seconds) == (2, 5)
assert book["orchestrator"].timeout("developer_task").retryable
assert (own.timeout("index").seconds, deploys.first.timeout) == (9, 60)
"""
    (tmp_path / "page.py").write_text("\n\n".join([*blocks("python"), checks]), encoding="utf-8")
    command = [sys.executable, "-W", "error", "page.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "1795030522774-0\n")


def test_the_table_is_what_the_profile_says():
    shown = re.findall(r"^\| `(\w+)` \| (\d+) \| `(\w+)`.*\| (\w+)", TEXT, re.MULTILINE)
    timeouts = resolve("orchestrator").timeouts.values()
    assert {row[0] for row in shown} == {timeout.name for timeout in timeouts}
    for name, seconds, action, severity in shown:
        timeout = resolve("orchestrator").timeout(name)
        assert (timeout.seconds, timeout.action) == (float(seconds), action)
        assert reprieve.classify(timeout.error()).severity == severity
