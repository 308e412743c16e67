"""Input of the checks: the changed files in both versions, and the two trees."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reprieve.review.critic.parsing import ParserChild

_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_TEST_NAME: Final = re.compile(
    r"(^|/)(tests?|testing|spec|specs|__tests__|testdata|test_data|fixtures|e2e)/"
    r"|(^|/)(test_[^/]*|conftest)\.py$|_test\.[a-z]+$|\.(test|spec)\.[cm]?[jt]sx?$|Tests?\.(java|kt|cs|swift)$|_spec\.rb$"
)


class SourceTree(Protocol):
    """All files of one version of a repository."""

    @property
    def paths(self) -> frozenset[str]:
        """Every path; empty where the tree is not known, as of a patch."""

    def read(self, path: str) -> bytes | None:
        """The content of a file; None where it is missing, a link, or too large."""

    def containing(self, words: Sequence[str], patterns: Sequence[str]) -> tuple[str, ...]:
        """The paths that fit one of the glob patterns (`*.py`) and contain one of the words as a whole word."""


@dataclass(frozen=True, slots=True)
class UnknownTree:
    """The tree of a patch: nothing is known but the patch."""

    paths: frozenset[str] = frozenset()

    def read(self, path: str) -> bytes | None:
        """Nothing is known."""
        _ = path
        return None

    def containing(self, words: Sequence[str], patterns: Sequence[str]) -> tuple[str, ...]:
        """Nothing is known."""
        _ = words, patterns
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Lines next to each other that the change replaces, adds or removes."""

    old_line: int
    """The first removed line in the old version, or the line before which lines are added."""
    line: int
    """The same in the new version."""
    removed: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ChangedFile:
    """One file of a change."""

    path: str
    """In the new version; of a deleted file in the old one."""
    old_path: str
    """In the old version; the same unless the file was renamed. Empty for a new file."""
    is_deleted: bool = False
    old_mode: str = ""
    mode: str = ""
    """As git has them: 100644, 100755, 120000; empty where the file is not there."""
    size: int = 0
    """Bytes of the new version."""
    is_binary: bool = False
    is_generated: bool = False
    """Written by a machine: lock files, minified files, vendored folders."""
    before: str | None = None
    """The text of the old version; None where there is none, it is binary, or larger than is read."""
    after: str | None = None
    diff: str = ""
    """The hunks of the unified diff, without file headers; empty where nothing is shown."""

    @property
    def is_new(self) -> bool:
        """Whether the change adds the file."""
        return not self.old_path

    @property
    def suffix(self) -> str:
        """In lower case, with its dot: `.py`."""
        return PurePosixPath(self.path).suffix.lower()

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path).name

    @cached_property
    def added(self) -> Mapping[int, str]:
        """The lines that the change adds, by their number in the new version."""
        return {number: line for each in self.edits for number, line in enumerate(each.added, each.line)}

    @cached_property
    def removed(self) -> Mapping[int, str]:
        """The lines that the change removes, by their number in the old version."""
        return {number: line for each in self.edits for number, line in enumerate(each.removed, each.old_line)}

    @cached_property
    def cuts(self) -> frozenset[int]:
        """The lines of the new version before which the change removes something."""
        return frozenset(each.line for each in self.edits if each.removed)

    @cached_property
    def is_test(self) -> bool:
        """Whether the path is a test's, or of something that tests use."""
        return is_test(self.path)

    @cached_property
    def edits(self) -> tuple[Edit, ...]:
        """The places that the change edits, in order."""
        found: list[Edit] = []
        removed: list[str] = []
        added: list[str] = []
        old = new = 0
        for line in [*self.diff.split("\n"), " "]:
            if line.startswith("-"):
                removed.append(line[1:].rstrip("\r"))
            elif line.startswith("+"):
                added.append(line[1:].rstrip("\r"))
            elif line.startswith("\\"):
                continue
            else:
                if removed or added:
                    found.append(Edit(old_line=old, line=new, removed=tuple(removed), added=tuple(added)))
                old, new = old + len(removed), new + len(added)
                removed, added = [], []
                if hunk := _HUNK.match(line):
                    old, new = int(hunk[1]), int(hunk[2])
                elif line.startswith(" "):
                    old, new = old + 1, new + 1
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class ChangeSet:
    """A change as the checks see it."""

    files: tuple[ChangedFile, ...]
    tree: SourceTree
    """The new version."""
    base: SourceTree
    """The old version."""
    parsed: Mapping[str, ParsedFile] = field(default_factory=dict)
    """What the parser child read of the changed files, by path."""
    parser: ParserChild | None = None
    """The parser child, for further files of the tree; None: a check starts its own."""
    title: str = ""
    message: str = ""
    """What its commits say, titles included; empty where it is not committed, or not known."""

    @cached_property
    def by_path(self) -> Mapping[str, ChangedFile]:
        """The changed files by their path in the new version."""
        return {each.path: each for each in self.files}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedFile:
    """What the parser child says of a changed file."""

    before: Mapping[str, Any] | None = None
    """The answer about the old version; None where there is none, or it was not parsed."""
    after: Mapping[str, Any] | None = None


def is_test(path: str) -> bool:
    """Whether a path is a test's, or of something that tests use."""
    return _TEST_NAME.search(path) is not None
