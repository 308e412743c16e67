"""`make run`, as a person runs it, and the page that explains what is behind it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from reprieve.testing.demo import SHOWN
from reprieve.testing.provoke import catalogue, provoke

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
RUN = "from reprieve.testing.demo import main; raise SystemExit(main())"


def run(code):
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.spec("CRIT-1.0")
def test_the_demonstration_judges_every_failure_that_it_provokes():
    done = run(RUN)
    assert (done.returncode, done.stderr) == (0, "")
    labels = [f"{library}: {situation}" for library, situations in SHOWN.items() for situation in situations]
    assert 30 <= len(labels) <= 50
    assert [label for label in labels if label not in done.stdout] == []
    assert f"{len(labels)} real failures provoked and judged" in done.stdout
    assert "reprieve classify --help" in done.stdout
    assert "\x1b" not in done.stdout, "piped, it has no colours"
    assert max(map(len, done.stdout.splitlines())) <= 120


def test_what_is_not_installed_is_left_out_and_said():
    missing = ["aiohttp", "anthropic", "openai", "trustme"]
    done = run(f"import sys; sys.modules.update(dict.fromkeys({missing})); {RUN}")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Left out, since not installed: {', '.join(missing)}." in done.stdout
    assert "httpx: 429" in done.stdout
    assert [label for label in ("aiohttp: 403", "openai: timeout", "httpx: expired") if label in done.stdout] == []


def test_tls_without_trustme_says_what_to_install():
    code = "import sys; sys.modules['trustme'] = None; from reprieve.testing import FlakyHTTP; FlakyHTTP(certificate='good')"
    assert (
        "ReprieveError: an upstream that speaks TLS needs trustme: pip install 'reprieve[testing]'" in run(code).stderr
    )


def test_the_catalogue_names_each_failure_once():
    labels = [provocation.label for provocation in catalogue()]
    assert len(labels) == len(set(labels))
    assert len(labels) > 400


@pytest.mark.parametrize("wrong", ["httpx: no such thing", "nothing"])
def test_an_unknown_label_is_refused(wrong):
    with pytest.raises(ValueError, match=f"no provocation is named '{wrong}'"):
        provoke(wrong)


def test_an_unknown_library_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"no library is named 'htttpx'.*; there are: httpx, "):
        catalogue({"htttpx"})


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
def test_the_examples_of_the_page_run(block):
    exec(compile(block, str(PAGE), "exec"), {})
