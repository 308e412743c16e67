"""Parses untrusted files in a child process. A file over the limits is skipped, and the review goes on."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import subprocess
import sys
import time
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

MAX_BYTES: Final = 1_000_000
"""Larger files are not parsed."""
TIMEOUT_SECONDS: Final = 2.0
"""For one file, the start of the child left out."""
BUDGET_SECONDS: Final = 60.0
"""For all files of a change together, and those of the tree that use them: many slow files must not keep a worker
busy for hours."""
_START_SECONDS: Final = 10.0
_MAX_ANSWER_BYTES: Final = 32 << 20
_CHILD: Final = Path(__file__).with_name("parser_child.py")
_KINDS: Final = {
    ".py": "python", ".pyi": "python", ".json": "json", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml",
    ".jsonc": "json-with-comments", ".code-workspace": "json-with-comments",
}  # fmt: skip
_WITH_COMMENTS: Final = (
    "tsconfig",
    "jsconfig",
    ".eslintrc",
    "devcontainer",
    "settings",
    "launch",
    "tasks",
    "extensions",
)
"""JSON files by these names may hold comments, as their readers allow."""


def kind_of(path: str) -> str | None:
    """How a file is parsed, by its path; None: it is not."""
    pure = PurePosixPath(path)
    kind = _KINDS.get(pure.suffix.lower())
    if kind == "json" and (pure.name.startswith(_WITH_COMMENTS) or ".vscode" in pure.parts):
        return "json-with-comments"
    return None if kind == "yaml" and _yaml_folder() is None else kind


class ParserChild:
    """The child, started by `start` or when it is first needed; one file at a time."""

    def __init__(self, *, timeout: float = TIMEOUT_SECONDS, budget: float = BUDGET_SECONDS) -> None:
        """`timeout` is for one file, `budget` for all files of one child."""
        self._timeout, self._left = timeout, budget
        self._process: subprocess.Popen[bytes] | None = None
        self._has_answered = False
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the child, which loads what it needs while its parent does something else."""
        with contextlib.suppress(OSError):  # `parse` tries again, and tells
            self._started()

    def parse(self, kind: str, text: str) -> dict[str, Any]:
        """The child's answer; `{"error": None, "gave_up": why}` for a text that is too large or takes too long."""
        if len(text) > MAX_BYTES:
            return {"error": None, "gave_up": "it is larger than 1 MB"}
        if self._left <= 0:
            return {"error": None, "gave_up": "the time for parsing this change is used up"}
        began = time.monotonic()
        try:
            return self._parsed(kind, text)
        finally:
            self._left -= time.monotonic() - began

    def _parsed(self, kind: str, text: str) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None  # noqa: S101 - it is piped
        try:
            process.stdin.write(json.dumps([kind, text]).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process, self._timeout + (0.0 if self._has_answered else _START_SECONDS))
        except (OSError, TimeoutError) as error:
            self.close()
            why = "parsing it took too long" if isinstance(error, TimeoutError) else "the parser ended"
            return {"error": None, "gave_up": why}
        self._has_answered = True
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the child."""
        process, self._process, self._rest, self._has_answered = self._process, None, b"", False
        if process is not None:
            process.kill()
            with contextlib.suppress(OSError):
                process.communicate()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-I", "-S", str(_CHILD), _yaml_folder() or ""]
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}
            )
        return self._process

    def _line(self, process: subprocess.Popen[bytes], seconds: float) -> bytes:
        assert process.stdout is not None  # noqa: S101 - it is piped
        until = time.monotonic() + seconds
        chunks = [self._rest]
        while b"\n" not in chunks[-1]:
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk or sum(map(len, chunks)) > _MAX_ANSWER_BYTES:
                raise BrokenPipeError
            chunks.append(chunk)
        line, _, self._rest = b"".join(chunks).partition(b"\n")
        return line


@cache
def _yaml_folder() -> str | None:
    """The folder that PyYAML is in; None where it is not installed."""
    found = importlib.util.find_spec("yaml")
    return None if found is None or found.origin is None else str(Path(found.origin).parents[1])
