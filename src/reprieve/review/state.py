"""The state folder of the review application: inside the git directory, so that `git status` stays the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from reprieve import UsageError
from reprieve.review.git import repository_at

_NAME: Final = "reprieve"
_TIMEOUT_SECONDS: Final = 10.0


def state_folder(repository: str) -> Path:
    """`.git/reprieve` of a repository on this machine; a folder below `$XDG_STATE_HOME` for URLs and other places."""
    try:
        found = repository_at(repository)
    except UsageError:
        return _home()
    folder = None if found.remote else git_state_folder(Path(found.location))
    return _home() if folder is None or not os.access(folder.parent, os.W_OK) else folder


def git_state_folder(folder: Path) -> Path | None:
    """`.git/reprieve` of the repository that a folder is in; None outside of a repository."""
    git_dir = _git_dir(folder)
    return None if git_dir is None else git_dir / _NAME


def _git_dir(folder: Path) -> Path | None:
    """The git directory that all work trees of a repository share; None outside of a repository."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    command = ["git", "-C", str(folder), "rev-parse", "--git-common-dir"]
    try:
        said = subprocess.run(  # noqa: S603 - git, and a folder
            command, env=kept, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = os.fsdecode(said.stdout).rstrip("\n")
    return (folder / text).resolve() if said.returncode == 0 and text else None


def _home() -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    return (Path(given) if given.startswith("/") else Path.home() / ".local" / "state") / _NAME
