"""`make run`: review the commits of a sample repository, with faults on purpose, and print what became of each.

Six commits are reviewed by the real pipeline. Its upstreams fail over real sockets, and its first worker process is killed.
All recovers but two jobs, which are left for the reader: a dead letter, and an answer that waits for a person.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import subprocess
import sys
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reprieve.core.lifecycle import JobStatus
from reprieve.faces.cli.common import say
from reprieve.faces.cli.rendering import console
from reprieve.faces.cli.review import load
from reprieve.review.parts import parts_of
from reprieve.review.pipeline import make
from reprieve.review.reviewing import Wanted, changes_of, submit_all
from reprieve.testing.chaos import FAULTS, PARTS, Fault, write_plan
from reprieve.testing.sample import HISTORY, make_repository
from reprieve.testing.tour_summary import describe_attempt, read_summary, save_picture
from reprieve.wiring import connect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.app.application import App
    from reprieve.app.operations.jobs import JobDetail
    from reprieve.app.pipeline import Pipeline
    from reprieve.review.reviewing import Asked
    from reprieve.review.settings import Settings

LEASE_SECONDS: Final = 2.0
"""How long a job stays with a worker that was killed."""
_POLL_SECONDS: Final = 0.1
_KILL_TIMEOUT_SECONDS: Final = 120.0
_DENIED: Final = 4
"""The commit that the repository's server refuses: its place in the history."""
_SETTINGS: Final = """\
# The settings of this run. `reprieve init` writes a file that explains every setting.
database = "sqlite:///reprieve.db"
repository = "shop"
folder = "state"

[model]
name = "local"            # the embedded toy model: no review shows its answers
part_characters = 500     # how much of a change it is asked about, so that it answers soon
answer_tokens = 60

[notify]
owners = true
authors = true

[mail]
folder = "mail"
"""


def main() -> int:
    """Run the tour. Returns the exit code."""
    asked = argparse.ArgumentParser(prog="make run ARGS=...", description="Review the commits of a sample repository.")
    asked.add_argument("--once", action="store_true", help="end after the summary, without serving")
    asked.add_argument("--folder", type=Path, default=Path(".run"), help="where everything is put; emptied first")
    asked.add_argument("--picture", type=Path, metavar="FILE", help="write the summary as an SVG picture too")
    given = asked.parse_args()
    picture = None if given.picture is None else given.picture.resolve()
    folder = _cleared(given.folder.resolve())
    os.chdir(folder)
    for name in [name for name in os.environ if name.startswith("REPRIEVE_")]:
        del os.environ[name]  # the settings of this run are those of its file
    os.environ[PARTS] = FAULTS
    commits = make_repository(Path("shop"), HISTORY)
    Path("reprieve.toml").write_text(_SETTINGS, encoding="utf-8")
    write_plan(Path("state"), _faults(commits), denied=[commits[_DENIED]])
    with suppress(KeyboardInterrupt):
        return asyncio.run(_tour(commits[1:], serves=not given.once, picture=picture))
    return 130


def _faults(commits: Sequence[str]) -> list[Fault]:
    """What fails on the way; a question to the model is known by a text of its diff."""
    return [
        Fault(stage="fetch", kind="busy", about=commits[1]),
        Fault(stage="fetch", kind="reset", about=commits[5]),
        Fault(stage="llm", kind="limited", about="def run_list("),
        Fault(stage="llm", kind="overloaded", about="def find_by_email("),
        Fault(stage="llm", kind="silent", about="def percent_of("),
        Fault(stage="llm", kind="free", about="only what people read shows euros", stays=True),
        Fault(stage="notify", kind="refused", about=f"ada@shop.example\0{HISTORY[1].subject}"),
        Fault(stage="notify", kind="broken off", about=f"bo@shop.example\0{HISTORY[2].subject}"),
    ]


def _cleared(folder: Path) -> Path:
    """Empty the folder of an earlier run; a folder with anything else in it is left alone."""
    mark = folder / ".reprieve-tour"
    if folder.exists() and any(folder.iterdir()) and not mark.exists():
        sys.exit(f"{folder} is not empty, and not ours: name another folder with --folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mark.touch()
    return folder


async def _tour(commits: Sequence[str], *, serves: bool, picture: Path | None) -> int:
    began = time.monotonic()
    logging.getLogger("reprieve").addHandler(logging.NullHandler())  # the printed steps need no log lines beside them
    settings = load(None, None)
    async with AsyncExitStack() as stack:
        parts = parts_of(settings)
        stack.push_async_callback(parts.close)
        pipeline = make(settings, parts)
        app = await stack.enter_async_context(connect(settings.database))
        changes = await changes_of(parts, Wanted(names=tuple(commits), repository=settings.repository))
        asked = await submit_all(app, pipeline, changes)
        progress = Progress(app, asked, began)
        say("The repository `shop` has these commits to review:")
        for each in asked:
            say(f"  job {each.made.job_id}  {each.change.head[:7]}  {each.change.title}")
        say("Upstreams fail on purpose, over real sockets, and the first worker process will be killed.")
        await _work_until_killed(settings, progress)
        working = asyncio.create_task(
            app.work(pipeline, concurrency=4, lease=LEASE_SECONDS, poll=0.2, signals=True), name="worker"
        )
        stack.push_async_callback(_stopped, working)
        while not await progress.look() and not working.done():
            await asyncio.wait([working], timeout=_POLL_SECONDS)
        if working.done():
            await working
            return 130
        await _show_summary(app, pipeline, asked, seconds=time.monotonic() - began, serves=serves, picture=picture)
        if serves:
            say("A worker runs here until Ctrl-C. Type the commands in another terminal.")
            while not working.done():
                await progress.look()
                await asyncio.wait([working], timeout=_POLL_SECONDS)
    return 0


async def _work_until_killed(settings: Settings, progress: Progress) -> None:
    """Have a second process work, and kill it while one of its jobs waits for the model."""
    process = _started_worker()
    deadline = time.monotonic() + _KILL_TIMEOUT_SECONDS
    try:
        progress.say(f"worker process {process.pid} started")
        while not list((settings.state / "faults").glob("*-silent")):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit("the worker process did not do its work: its log is worker.log in the folder of the run")
            await progress.look()
            await asyncio.sleep(_POLL_SECONDS)
        await progress.look()
    finally:
        process.kill()
        process.wait()
    progress.say(f"worker process {process.pid} killed with SIGKILL in the middle of a stage; another one takes over")


def _started_worker() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "reprieve", "serve", "--lease", f"{LEASE_SECONDS:g}s", "--concurrency", "1"]
    with Path("worker.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - our own program


async def _stopped(working: asyncio.Task[None]) -> None:
    """Stop the worker, which hands back the jobs that it holds."""
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working


async def _show_summary(
    app: App, pipeline: Pipeline, asked: Sequence[Asked], *, seconds: float, serves: bool, picture: Path | None
) -> None:
    summary = await read_summary(app, pipeline, asked, seconds=seconds, serves=serves)
    screen = console()
    screen.print()
    for line in summary:
        screen.print(line, soft_wrap=True)
    if picture is not None:
        save_picture(summary, picture)


class Progress:
    """Prints a line for each step of a job, as the database has it."""

    def __init__(self, app: App, asked: Sequence[Asked], began: float) -> None:
        self._app, self._asked, self._began = app, asked, began
        self._shown: dict[int, tuple[int, int, JobStatus]] = {}

    def say(self, text: str) -> None:
        """Print a line with the time since the start."""
        say(f"{time.monotonic() - self._began:5.1f} s  {text}")

    async def look(self) -> bool:
        """Print what is new. Returns whether no job goes on by itself."""
        jobs = [await self._app.operations.jobs.show(each.made.job_id) for each in self._asked]
        for each in jobs:
            self._say_news(each)
        return all(each.job.status.over or each.job.status is JobStatus.NEEDS_REVIEW for each in jobs)

    def _say_news(self, job: JobDetail) -> None:
        job_id, status = job.job.job_id, job.job.status
        stages, attempts, before = self._shown.get(job_id, (0, 0, JobStatus.PENDING))
        for run in job.stages[stages:]:
            self.say(f"job {job_id}: {run.stage} done")
        for attempt in job.attempts[attempts:]:
            then = ", will be retried" if attempt.decision == "retry" else ""
            self.say(f"job {job_id}: {attempt.stage} failed, {describe_attempt(attempt)}{then}")
        if status is not before and (status.over or status is JobStatus.NEEDS_REVIEW):
            self.say(f"job {job_id}: {status.value.replace('_', ' ')}")
        self._shown[job_id] = len(job.stages), len(job.attempts), status


if __name__ == "__main__":
    sys.exit(main())
