"""The process of a local model: started when it is first needed, and again where it was lost."""

from __future__ import annotations

import contextlib
import json
import secrets
import select
import subprocess
import sys
import threading
import time
import urllib.request
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from reprieve.adapters.localmodel import child
from reprieve.errors import Permanent, Retryable

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST_START: Final = 120.0
_LONGEST_LOOK: Final = 5.0
_LONGEST_END: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What the process may take."""

    slots: int
    """So many are answered at a time."""
    context: int
    """Tokens of question and answer together, for each of them."""
    threads: int


@dataclass(frozen=True, slots=True)
class Running:
    """A process that serves."""

    process: subprocess.Popen[bytes]
    address: str
    key: str

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None


class Server:
    """One process at a time; may be used from any thread."""

    def __init__(self, file: Path, size: Size) -> None:
        self._file, self._size = file, size
        self._lock = threading.Lock()
        self._running: Running | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None

    @property
    def running(self) -> Running | None:
        """The process, if it is there."""
        found = self._running
        return found if found is not None and found.alive else None

    def ensure(self) -> Running:
        """The process, started if it is not there; waits until the model is loaded."""
        with self._lock:
            if (found := self.running) is None:
                self._let_go()
                found = self._running = self._started()
                self._finalizer = weakref.finalize(self, end, found.process)
            return found

    def check(self) -> None:
        """End a process that does not answer, so that the next who asks gets a new one."""
        found = self.running
        if found is not None and not is_well(found):
            with self._lock:
                if self._running is found:
                    self._let_go()

    def stop(self) -> None:
        """End the process; it is started again when it is needed."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        self._running = None
        if self._finalizer is not None:
            self._finalizer()

    def _started(self) -> Running:
        key = secrets.token_urlsafe(24)  # so that nobody else on this machine asks through it
        settings = {
            "file": str(self._file), "name": self._file.name, "key": key, "slots": self._size.slots, "context": self._size.context,
            "threads": self._size.threads,
        }  # fmt: skip
        process = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-P", child.__file__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
        )  # fmt: skip
        try:
            said = _first_words(process, settings)
        except BaseException:
            end(process)
            raise
        return Running(process, said["address"], key)


def _first_words(process: subprocess.Popen[bytes], settings: dict[str, object]) -> dict[str, str]:
    """What it says once the model is loaded."""
    assert process.stdin is not None  # noqa: S101 - piped above
    assert process.stdout is not None  # noqa: S101 - the same
    with contextlib.suppress(BrokenPipeError):  # it is gone: told below
        process.stdin.write(json.dumps(settings).encode() + b"\n")
    line, deadline = b"", time.monotonic() + _LONGEST_START
    while not line.endswith(b"\n"):
        if not select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise Retryable(f"the local model was not ready within {_LONGEST_START:g} s", error_class="NETWORK_TIMEOUT")
        piece = process.stdout.read(65_536)
        if not piece:
            code = process.wait()
            raise Retryable(f"the local model's process ended with {code} at its start", error_class="WORKER_LOST")
        line += piece
    said: dict[str, str] = json.loads(line)
    if "address" not in said:
        raise Permanent(f"the local model's file cannot be loaded: {said.get('error')}", error_class="CONFIG_INVALID")
    return said


def is_well(running: Running) -> bool:
    """Whether it says so; it does also while all of its slots are taken."""
    try:
        with _DIRECT.open(f"{running.address}/health", timeout=_LONGEST_LOOK) as answer:
            return bool(answer.status == 200)  # noqa: PLR2004 - RFC 9110
    except OSError:
        return False


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it and leave nothing behind; it has nothing to finish."""
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_LONGEST_END)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
