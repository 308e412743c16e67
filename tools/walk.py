#!/usr/bin/env python3
"""Print the files of Reprieve in which a function runs while a job goes from one point to another.

Three walks run on SQLite with real parts. Each runs in a process of its own, on an application just opened.
  dead-letter  from the call of `submit` to the dead letter of the job, whose first attempt fails for good
  replay       from the call of `replay` on that dead letter, to the end of `verify` after the job's success
  deliver      from the call of `deliver` in a stage to the finished job, with a Maildir as the provider
The first and the last end when the worker has nothing left to do and has returned.

A file counts when a function, method, lambda, generator or comprehension of it is entered or resumed, in any
thread. Left out are: module bodies, class bodies and what they call while a module is imported; opening the
database with its schema, which comes before the walk; and methods that dataclasses generate, which belong to
no file.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
    from types import CodeType, FrameType

HERE: Final = Path(__file__).resolve()
PACKAGE: Final = "reprieve"


class Recorder:
    """Notes the files below a folder in which a function runs, in all threads, between `start` and `stop`."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root}/"
        self._recording = False
        self._known: set[CodeType] = set()
        """Code that was judged: noted, or never to be noted."""
        self.files: set[str] = set()

    def start(self) -> None:
        """Note from here on."""
        self._recording = True

    def stop(self) -> None:
        """Note nothing more."""
        self._recording = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Watch this thread and all that start inside the block."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if not self._recording or event != "call" or code in self._known:
            return
        if not code.co_filename.startswith(self._root) or not code.co_flags & inspect.CO_OPTIMIZED:
            self._known.add(code)  # code of others, or the body of a module or class
        elif not self._is_importing(frame):
            self._known.add(code)
            self.files.add(code.co_filename.removeprefix(self._root))

    def _is_importing(self, frame: FrameType) -> bool:
        caller = frame.f_back
        while caller is not None:
            if caller.f_code.co_name == "<module>" and caller.f_code.co_filename.startswith(self._root):
                return True
            caller = caller.f_back
        return False


# Everything that this tool uses of Reprieve stands from here to WALKS.


async def walk_to_dead_letter(recorder: Recorder, folder: Path) -> None:
    """Submit a job whose stage fails for good, and work until its dead letter is written."""
    import reprieve  # noqa: PLC0415 - the recorder is installed before the import, as in each walk

    pipeline = reprieve.Pipeline("walk")

    @pipeline.stage
    async def parse(job: reprieve.Job[str]) -> int:
        return int(job.payload)

    async with reprieve.connect(f"sqlite:///{folder}/walk.db") as app:
        recorder.start()
        await app.submit(pipeline, "no number")
        await app.work(pipeline, until_idle=True)
        recorder.stop()
        found = await app.operations.dead_letters.show(1)
        require(condition=found.row.state == "open", why=f"it is {found.row.state}, not open")


async def walk_to_verified(recorder: Recorder, folder: Path) -> None:
    """Replay the dead letter of the first walk with the stage corrected, work, and verify it."""
    import reprieve  # noqa: PLC0415

    pipeline = reprieve.Pipeline("walk")

    @pipeline.stage
    async def parse(job: reprieve.Job[str]) -> int:
        return len(job.payload)

    async with reprieve.connect(f"sqlite:///{folder}/walk.db") as app:
        letters = app.operations.dead_letters
        recorder.start()
        await letters.replay(1, actor="walk", cause="code", evidence="the fix is deployed", safe=True)
        await app.work(pipeline, until_idle=True)
        await letters.verify(1, actor="walk")
        recorder.stop()
        found = await letters.show(1)
        require(condition=found.row.state == "replayed", why=f"it is {found.row.state}, not replayed")


async def walk_to_finish(recorder: Recorder, folder: Path) -> None:
    """Deliver one message from a stage, and work until the job has succeeded."""
    import reprieve  # noqa: PLC0415
    from reprieve.senders import Maildir  # noqa: PLC0415

    pipeline = reprieve.Pipeline("walk", senders=[Maildir(folder / "outgoing")])

    @pipeline.stage(delivers=True)
    async def notify(job: reprieve.Job[str]) -> int:
        message = reprieve.Message(recipient=job.payload, subject="A walk", text="It arrived.")
        recorder.start()
        return len((await reprieve.deliver(job, [message], via="maildir")).sent)

    async with reprieve.connect(f"sqlite:///{folder}/walk.db") as app:
        job = await app.submit(pipeline, "mailto:ada@example.org", subject="walk", version=1)
        await app.work(pipeline, until_idle=True)
        recorder.stop()
        require(condition=await job.result() == 1, why="the message was not delivered")


WALKS: Final[Mapping[str, Callable[[Recorder, Path], Coroutine[None, None, None]]]] = {
    "dead-letter": walk_to_dead_letter,
    "replay": walk_to_verified,
    "deliver": walk_to_finish,
}
PRECEDING: Final[Mapping[str, str]] = {"replay": "dead-letter"}
"""The walk that leaves in the database what another one starts from."""


class WalkError(Exception):
    """A walk did not reach its end."""


def require(*, condition: bool, why: str) -> None:
    """Raise `WalkError` unless the condition holds."""
    if not condition:
        raise WalkError(f"the walk did not reach its end: {why}")


@dataclass(frozen=True, slots=True)
class Walk:
    """The files of one walk, as paths below the package; `core` is the folder that is counted apart."""

    name: str
    files: Sequence[str]
    core: str

    @property
    def folders(self) -> dict[str, int]:
        """How many files of each folder directly below the package; `.` has those in no folder."""
        return dict(sorted(Counter(_folder_of(file) for file in self.files).items()))

    @property
    def in_core(self) -> int:
        """How many of the files are in the folder that is counted apart."""
        return self.folders.get(self.core, 0)

    def as_dict(self, *, lists: bool) -> dict[str, object]:
        """The walk for machines."""
        counts = {"files": len(self.files), self.core: self.in_core, "others": len(self.files) - self.in_core}
        return counts | {"folders": self.folders} | ({"lists": list(self.files)} if lists else {})

    def as_text(self, *, lists: bool) -> str:
        """The walk for people."""
        folders = ", ".join(f"{folder} {count}" for folder, count in self.folders.items())
        others = len(self.files) - self.in_core
        lines = [
            f"{self.name}: {len(self.files)} files, {self.in_core} of them {self.core}, {others} others",
            folders,
        ]
        return "\n  ".join([*lines, *(self.files if lists else [])])


def _folder_of(file: str) -> str:
    folder, slash, _ = file.partition("/")
    return folder if slash else "."


def record(name: str, src: Path, folder: Path) -> list[str]:
    """Run a walk in this process on a database in this folder; the files, as paths below `src`."""
    sys.path.insert(0, str(src))
    recorder = Recorder(src)
    with recorder.installed():
        asyncio.run(WALKS[name](recorder, folder))
    return sorted(recorder.files)


def run(name: str, src: Path, core: str) -> Walk:
    """Run a walk in a process of its own, which has no caches that are filled already."""
    with tempfile.TemporaryDirectory(prefix="walk-") as folder:
        for each in filter(None, [PRECEDING.get(name), name]):
            command = [sys.executable, str(HERE), "--src", str(src), "--record", each, folder]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise WalkError(f"the walk {each} failed:\n{done.stderr}")
    files = [file.removeprefix(f"{PACKAGE}/") for file in json.loads(done.stdout)]
    return Walk(name, files, core)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the walks and print what they found; the exit code."""
    parser = argparse.ArgumentParser(
        prog="tools/walk.py",
        description=__doc__,
        epilog="Reprieve's requirements must be installed: .venv/bin/python tools/walk.py",
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("walks", nargs="*", metavar="WALK", help=f"{', '.join(WALKS)}; default: all")
    parser.add_argument("--json", action="store_true", help="one JSON object, for machines")
    parser.add_argument("--lists", action="store_true", help="print the files too")
    parser.add_argument("--core", default="core", help="the folder that is counted apart; default: core")
    parser.add_argument("--src", type=Path, default=HERE.parents[1] / "src", help="the folder of the package")
    parser.add_argument("--record", nargs=2, metavar=("WALK", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    src = given.src.resolve()
    if given.record:
        name, folder = given.record
        print(json.dumps(record(name, src, Path(folder))))
        return 0
    if not (src / PACKAGE).is_dir():
        parser.error(f"{given.src} holds no package {PACKAGE}: give the folder of the package, such as --src src")
    if not (src / PACKAGE / given.core).is_dir():
        parser.error(f"there is no folder {given.core!r} in {src / PACKAGE}")
    unknown = [name for name in given.walks if name not in WALKS]
    if unknown:
        parser.error(f"there is no walk {unknown[0]!r}: choose from {', '.join(WALKS)}")
    try:
        with ThreadPoolExecutor() as pool:
            walks = list(pool.map(lambda name: run(name, src, given.core), given.walks or WALKS))
    except WalkError as error:
        parser.exit(1, f"{error}\n")
    if given.json:
        print(json.dumps({each.name: each.as_dict(lists=given.lists) for each in walks}, indent=2))
    else:
        print(*(each.as_text(lists=given.lists) for each in walks), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
