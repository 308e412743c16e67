"""What the tests of the pages share: a page's programs and commands, run as its reader would."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reprieve.adapters.sql.reader import SqlReader

ROOT = Path(__file__).parents[2]
_PATIENCE = 60.0
_ONE_AFTER_ANOTHER = """
import contextlib, io, json, os, sys
from reprieve.faces.cli import main

said = []
for words in json.load(sys.stdin):
    code, output = 0, io.StringIO()
    if words[0] == "export":
        os.environ.update(word.split("=", 1) for word in words[1:])
    else:
        sys.argv = words
        try:
            with contextlib.redirect_stdout(output):
                main()
        except SystemExit as end:
            code = end.code or 0
    said.append((code, output.getvalue()))
json.dump(said, sys.stdout)
"""


class Page:
    """A page of the documentation."""

    def __init__(self, path):
        self.text = (ROOT / path).read_text(encoding="utf-8")

    def blocks(self, language):
        fenced = re.findall(r"^```(\w*)\n(.*?)^```$", self.text, re.DOTALL | re.MULTILINE)
        return [block for written_in, block in fenced if written_in == language]

    @property
    def programs(self):
        return self.blocks("python")

    @property
    def commands(self):
        lines = [line for block in self.blocks("") for line in block.splitlines()]
        return [line for line in lines if line.startswith(("export ", "reprieve "))]

    @property
    def links(self):
        """What it links to in the repository: (path, anchor), either of which may be empty."""
        return re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", self.text)

    @property
    def anchors(self):
        headings = re.findall(r"^#+ (.*)$", self.text, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    def section(self, heading):
        """The same page with one section only."""
        part = Page.__new__(Page)
        (part.text,) = re.findall(rf"^{heading}\n(.*?)(?=^## |\Z)", self.text, re.DOTALL | re.MULTILINE)
        return part


class Reader:
    """Somebody who types commands in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("REPRIEVE_", "COLUMNS"))
        }

    def python(self, *arguments, told=""):
        command = [sys.executable, "-W", "error", *arguments]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            input=told,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def types_all(self, lines):
        """Run these lines one after another in one process, as starting one for each takes most of the time."""
        words = json.dumps([shlex.split(line, comments=True) for line in lines])
        done = self.python("-c", _ONE_AFTER_ANOTHER, told=words)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert [code for code, _ in said] == [0] * len(lines), done.stderr
        return {line: output for line, (_, output) in zip(lines, said, strict=True)}

    def types(self, line):
        """Run one line; the output of a command that ended well. A worker is stopped once nothing is left to do."""
        words = shlex.split(line, comments=True)
        if words[0] == "export":
            self.environment |= dict(word.split("=", 1) for word in words[1:])
            return ""
        command = [sys.executable, "-W", "error", "-m", *words]
        process = subprocess.Popen(
            command, cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with process:
            try:
                if words[1:] == ["work"]:
                    self._await_end_of_all()
                    process.send_signal(signal.SIGTERM)
                output, errors = process.communicate(timeout=_PATIENCE)
            finally:
                process.kill()
        assert process.returncode == 0, f"{line}\n{output}\n{errors}"
        return output

    def _await_end_of_all(self):
        path = self.folder / self.environment["REPRIEVE_URL"].removeprefix("sqlite:///")
        reader = SqlReader(f"sqlite:///{path}")
        try:
            deadline = time.monotonic() + _PATIENCE
            while any(number for status, number in reader.counts().items() if not status.over):
                assert time.monotonic() < deadline, "the worker did not do its work"
                time.sleep(0.05)
        finally:
            reader.close()


@pytest.fixture
def page():
    return Page


@pytest.fixture
def reader(tmp_path):
    return Reader(tmp_path)
