"""The page on senders, run as its reader would: its senders are made, and its own sender passes the suite."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "sending.md"


def programs(*headings):
    """The Python of these sections, in one file."""
    found = []
    for heading in headings:
        (section,) = re.findall(
            rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        )
        blocks = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
        assert blocks, heading
        found += blocks
    return "\n\n".join(found)


def run(folder, *arguments):
    secret = "whsec_" + base64.b64encode(b"k" * 32).decode()
    environment = os.environ | {"WEBHOOK_SECRET": secret, "SLACK_TOKEN": "xo" + "xb-" + "3" * 20}
    environment |= {"MAIL_PASSWORD": "m" * 12, "JOURNAL_PASSWORD": "j" * 12}
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("heading", ["Mail", "Maildir", "Webhook", "Slack"])
def test_a_sender_of_the_page_is_made(tmp_path, heading):
    (tmp_path / "page.py").write_text(programs(heading), encoding="utf-8")
    done = run(tmp_path, "page.py")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_pages_own_sender_passes_the_suite(tmp_path):
    (tmp_path / "test_page.py").write_text(programs("Write your own", "Try it"), encoding="utf-8")
    done = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path))
    assert "14 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
