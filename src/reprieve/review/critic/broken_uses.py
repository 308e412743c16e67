"""Types and helpers that the rules about removed names share: a use that breaks, its explanation, ignored files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.review.patterns import Pattern

if TYPE_CHECKING:
    from reprieve.review.critic.change_set import ChangeSet

MAX_REMOVED: Final = 30
"""Removed names that are looked for in the tree."""
MAX_CANDIDATES: Final = 200
"""Files that are searched for uses."""
KEEP: Final = "keep it, or remove this use too"
_MAX_IGNORE_LINES: Final = 1000


@dataclass(frozen=True, slots=True)
class BrokenUse:
    """A place that uses a name that no longer exists."""

    path: str
    line: int
    fact: str
    """A clause that says what was removed and where it was."""
    hint: str
    """A clause that says what to do."""


def renamed_hint(name: str) -> str:
    """Say which name probably replaces the removed one."""
    return f"use `{name}`, which looks like its new name"


def moved_hint(path: str) -> str:
    """Say which file defines the name now."""
    return f"take it from {path}, where it is now"


def is_ignored(change: ChangeSet, path: str) -> bool:
    """Whether git ignores a path in the new tree, as it does with files that a build writes.

    Only `.gitignore` at the top and those that the change touches are read.
    """
    touched = {each.path: each.after for each in change.files if each.name == ".gitignore"}
    top = change.tree.read(".gitignore")
    texts = {".gitignore": "" if top is None else top.decode("utf-8", "replace"), **touched}
    for ignore_path, text in texts.items():
        folder = ignore_path.removesuffix(".gitignore")
        lines = (text or "").splitlines()[:_MAX_IGNORE_LINES]
        wanted = [line.strip() for line in lines if line.strip() and not line.startswith(("#", "!"))]
        if path.startswith(folder) and any(Pattern(line).fits(path.removeprefix(folder)) for line in wanted):
            return True
    return False


def text_of(change: ChangeSet, path: str) -> str:
    """Return a file of the new tree; empty where it is missing or not a text."""
    file = change.by_path.get(path)
    if file is not None:
        return file.after or ""
    return (change.tree.read(path) or b"").decode("utf-8", "replace")
