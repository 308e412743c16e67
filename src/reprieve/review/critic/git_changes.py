"""Reads a change and its two trees from a git repository."""

from __future__ import annotations

import asyncio
import fnmatch
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from reprieve import ReprieveError
from reprieve.review.critic.change_set import ChangedFile, ChangeSet
from reprieve.review.critic.parsing import MAX_BYTES
from reprieve.review.diffs import is_generated, lines_of

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence
    from pathlib import Path

    from reprieve.review.diffs import FileDiff
    from reprieve.review.git import Git

_MAX_TREE_BYTES: Final = 128 << 20
_MAX_CONTENT_BYTES: Final = 256 << 20
_MAX_SEARCHED: Final = 20_000
"""Files in which a name is looked for; larger trees are searched near the change only."""
_PATHS_PER_COMMAND: Final = 4_000
_MAX_MESSAGES: Final = 20
_TIMEOUT_SECONDS: Final = 60.0
_NO_FILE: Final = "000000"
_BINARY_PREFIX: Final = 8_000
_RAW: Final = ("diff-tree", "-r", "--raw", "-z", "--no-commit-id", "--no-abbrev", "--no-ext-diff", "--find-renames")


class GitTree:
    """One version of a repository; its methods block, and are called from a thread beside the loop."""

    def __init__(self, git: Git, folder: Path, tree: str, loop: asyncio.AbstractEventLoop) -> None:
        self._git, self._folder, self._tree, self._loop = git, folder, tree, loop

    @cached_property
    def paths(self) -> frozenset[str]:
        """Every path of a file in this version."""
        return frozenset(self._blobs)

    @cached_property
    def _blobs(self) -> dict[str, str]:
        """The name of each file's blob by path; empty for links and submodules."""
        said = self._wait(self._git.ask(self._folder, "ls-tree", "-r", "-z", self._tree, most=_MAX_TREE_BYTES))
        rows = (row.partition("\t") for row in said.decode("utf-8", "replace").split("\0") if row)
        return {path: entry.split(" ")[2] if entry.startswith("100") else "" for entry, _, path in rows}

    def read(self, path: str) -> bytes | None:
        """The content of a file; None where it is missing, a link, or too large."""
        blob = self._blobs.get(path)
        text = self._wait(self._git.blob(self._folder, blob, most=MAX_BYTES)) if blob else None
        return None if text is None else text.encode()

    def containing(self, words: Sequence[str], patterns: Sequence[str]) -> tuple[str, ...]:
        """The paths that fit a pattern and contain one of the words."""
        fitting = sorted(path for path in self.paths if any(fnmatch.fnmatchcase(path, each) for each in patterns))
        options = [option for word in words for option in ("-e", word)]
        found: list[str] = []
        for start in range(0, min(len(fitting), _MAX_SEARCHED), _PATHS_PER_COMMAND):
            part = fitting[start : start + _PATHS_PER_COMMAND]
            found += self._matching(options, part)
        return tuple(found)

    def _matching(self, options: list[str], paths: list[str]) -> Iterable[str]:
        command = ("grep", "-l", "-z", "-I", "-w", "-F", "--no-color", *options, self._tree, "--", *paths)
        said = self._wait(self._git.ask(self._folder, *command, most=_MAX_TREE_BYTES))
        prefix = f"{self._tree}:"
        return [line.removeprefix(prefix) for line in said.decode("utf-8", "replace").split("\0") if line]

    def _wait(self, asking: Coroutine[object, object, bytes | str | None]) -> Any:  # noqa: ANN401 - what is asked for
        return asyncio.run_coroutine_threadsafe(asking, self._loop).result(_TIMEOUT_SECONDS)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A row of `git diff-tree --raw`."""

    old_mode: str
    mode: str
    old_blob: str
    blob: str
    status: str
    old_path: str
    path: str


async def read_change(git: Git, folder: Path, base: str, head: str, diffs: Sequence[FileDiff], title: str) -> ChangeSet:
    """The change between two commits or trees, with the content of both versions."""
    said, text = await asyncio.gather(
        git.ask(folder, *_RAW, base, head, most=_MAX_TREE_BYTES), git.file(folder, base, ".gitattributes")
    )
    attributes = lines_of(text or "")
    entries = list(_entries(said.decode("utf-8", "surrogateescape")))
    generated = {each.path for each in entries if is_generated(each.path, attributes)}
    sizes = await _sizes(git, folder, entries)
    wanted = [
        blob
        for each in entries
        if each.path not in generated
        for blob, mode in ((each.old_blob, each.old_mode), (each.blob, each.mode))
        if mode.startswith("100") and sizes.get(blob, 0) <= MAX_BYTES
    ]
    contents = await _contents(git, folder, list(dict.fromkeys(wanted)))
    shown = {each.path: each.text for each in diffs}
    loop = asyncio.get_running_loop()
    message = await _message(git, folder, base, head)
    return ChangeSet(
        files=tuple(_file(each, sizes, contents, shown, is_generated=each.path in generated) for each in entries),
        tree=GitTree(git, folder, head, loop),
        base=GitTree(git, folder, base, loop),
        title=title,
        message=message,
    )


async def _message(git: Git, folder: Path, base: str, head: str) -> str:
    """The messages of the newest commits of a change; empty for uncommitted changes, whose head is no commit."""
    try:
        log = await git.ask(folder, "log", f"--max-count={_MAX_MESSAGES}", "--format=%B", f"{base}..{head}", "--")
    except ReprieveError:
        return ""
    return log.decode("utf-8", "replace")


def _entries(said: str) -> Iterable[_Entry]:
    words = iter(said.split("\0"))
    for row in words:
        if not row.startswith(":"):
            continue
        old_mode, mode, old_blob, blob, status = row[1:].split(" ")
        old_path = next(words)
        path = next(words) if status[0] in "RC" else old_path
        yield _Entry(old_mode, mode, old_blob, blob, status[0], _shown(old_path), _shown(path))


def _shown(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


async def _sizes(git: Git, folder: Path, entries: Sequence[_Entry]) -> dict[str, int]:
    blobs = {blob for each in entries for blob in (each.old_blob, each.blob) if blob.strip("0")}
    given = "".join(f"{blob}\n" for blob in sorted(blobs)).encode()
    said = await git.ask(folder, "cat-file", "--batch-check", given=given, most=_MAX_TREE_BYTES)
    rows = (line.split() for line in said.decode().splitlines())
    return {row[0]: int(row[2]) for row in rows if len(row) > 2 and row[1] == "blob"}  # noqa: PLR2004 - name kind size


async def _contents(git: Git, folder: Path, blobs: Sequence[str]) -> dict[str, bytes]:
    given = "".join(f"{blob}\n" for blob in blobs).encode()
    said = await git.ask(folder, "cat-file", "--batch", given=given, most=_MAX_CONTENT_BYTES)
    found: dict[str, bytes] = {}
    place = 0
    while place < len(said):
        end = said.index(b"\n", place)
        row = said[place:end].split()
        place = end + 1
        if row[-1] == b"missing":
            continue
        size = int(row[2])
        found[row[0].decode()] = said[place : place + size]
        place += size + 1
    return found


def _file(
    entry: _Entry, sizes: dict[str, int], contents: dict[str, bytes], diffs: dict[str, str], *, is_generated: bool
) -> ChangedFile:
    old, new = contents.get(entry.old_blob), contents.get(entry.blob)
    return ChangedFile(
        path=entry.path,
        old_path="" if entry.old_mode == _NO_FILE else entry.old_path,
        is_deleted=entry.mode == _NO_FILE,
        old_mode=entry.old_mode.removeprefix(_NO_FILE),
        mode=entry.mode.removeprefix(_NO_FILE),
        size=sizes.get(entry.blob, 0),
        is_binary=any(each is not None and b"\0" in each[:_BINARY_PREFIX] for each in (old, new)),
        is_generated=is_generated,
        before=_text(old),
        after=_text(new),
        diff=diffs.get(entry.path, ""),
    )


def _text(content: bytes | None) -> str | None:
    if content is None or b"\0" in content[:_BINARY_PREFIX]:
        return None
    return content.decode("utf-8", "replace")
