"""`make run`: from nothing to reviewed commits of a sample repository, with trouble on the way; then it serves until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from reprieve.faces.cli.common import say
from reprieve.faces.cli.rendering import count
from reprieve.faces.cli.review import load, reviewed, served
from reprieve.review.reviewing import Wanted
from reprieve.testing.sample import HISTORY, make_repository

_SEED: Final = 7


def main() -> int:
    """Show it; gives the exit code."""
    asked = argparse.ArgumentParser(prog="make run ARGS=...", description="Review the commits of a sample repository.")
    asked.add_argument("--once", action="store_true", help="end by itself")
    asked.add_argument("--folder", type=Path, default=Path(".run"), help="where all of it is put; made anew")
    asked.add_argument("--seed", type=int, default=_SEED, help="which trouble there is")
    asked.add_argument("--calm", action="store_true", help="no trouble")
    given = asked.parse_args()
    began = time.monotonic()
    folder = _cleared(given.folder.resolve())
    os.chdir(folder)
    commits = make_repository(Path("shop"), HISTORY)
    say(f"A repository with {len(commits)} commits, most of them wrong in one way or another: {folder / 'shop'}")
    say("The model is the embedded one: it is there to try the pipeline, and its reviews are poor.")
    if not given.calm:
        say(f"There is trouble on purpose (seed {given.seed}): upstreams that fail, a sender that breaks off.")
    settings = load(None, None, chaos=None if given.calm else given.seed)
    wanted = Wanted(names=tuple(commits), repository="shop")
    given_up = asyncio.run(reviewed(settings, wanted, replays=not given.calm))
    _show_mail(settings.mail.folder)
    say(f"All of it is in {folder}, and took {time.monotonic() - began:.0f} s.")
    program = shlex.quote(str(Path(sys.executable).with_name("reprieve")))
    say(f"What is named above is run there: cd {shlex.quote(str(folder))} && {program} jobs list")
    if not given.once:
        say(f"Now it serves until Ctrl-C; in another terminal, in that folder: {program} review HEAD --repository shop")
        asyncio.run(served(settings))
    return int(given_up)


def _cleared(folder: Path) -> Path:
    """A folder of our own, empty; one that we did not make is left alone."""
    mark = folder / ".reprieve-tour"
    if folder.exists() and any(folder.iterdir()) and not mark.exists():
        sys.exit(f"{folder} is there, and not ours: name another with --folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mark.touch()
    return folder


def _show_mail(folder: Path) -> None:
    for box in sorted(folder.iterdir()) if folder.exists() else ():
        say(f"  {box.name} has {count(len(list((box / 'new').iterdir())), 'message')}: {box}/new")


if __name__ == "__main__":
    sys.exit(main())
