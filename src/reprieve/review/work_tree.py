"""Writes the work tree or the index of a repository as a git tree, in a folder of objects of our own.

The repository itself stays as it is: its index is copied, and new objects go to the state folder.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reprieve import Permanent, Retryable, UsageError
from reprieve.review.changes import Change, Kind, NothingToReviewError
from reprieve.review.git import Repository, repository_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reprieve.review.git import Git

_MAX_NEW_FILE_BYTES: Final = 5_000_000
"""Larger files that git does not track are left out: they are hardly meant to be committed."""
_MAX_LIST_BYTES: Final = 64 << 20
_KEEP_SECONDS: Final = 14 * 86_400
"""How long written objects stay, as with those that `git gc` finds unused."""
_PLACES: Final = ("--show-toplevel", "--git-common-dir", "--git-path", "objects", "--git-path", "index")
_FILTER: Final = ("config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.(clean|smudge|process|required)$")


async def change_of_work_tree(git: Git, location: str, *, staged: bool) -> Change:
    """The uncommitted changes of a repository: of the index with `staged`, else of all files that are not ignored."""
    repository = repository_at(location)
    if repository.remote:
        raise UsageError(
            "uncommitted changes are in a repository on this machine: name a commit of one that is elsewhere"
        )
    folder = await git.folder_of(repository)
    places = await _places(git, folder)
    top, place = places.top, places.repository
    (base, tree), options = await asyncio.gather(_head(git, top), _without_filters(git, top))
    head = await _written(git, places, options, staged=staged)
    if tree == head:
        what = "the index holds nothing that HEAD does not" if staged else "the work tree is as HEAD is"
        raise NothingToReviewError(f"nothing to review: {what}; `reprieve review HEAD` reviews the last commit")
    name = "index" if staged else "work tree"
    return Change(
        changelist_id=f"{place.label}:{name.replace(' ', '-')}", kind=Kind.GIT, repository=place.location, base=base,
        head=head, title=f"{name} of {top.name}", notifies=False,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Where the parts of a repository are."""

    top: Path
    """The folder of the work tree."""
    repository: Repository
    """The same for all folders and work trees of it."""
    objects: Path
    index: Path


async def _places(git: Git, folder: Path) -> _Places:
    try:
        said = await git.ask(folder, "rev-parse", "--path-format=absolute", *_PLACES)
    except Permanent as error:
        if "not a git repository" in str(error):
            raise UsageError(
                f"{folder} is not in a git repository: give --repository, a .patch file, or owner/name#12"
            ) from None
        raise UsageError(f"{folder} has no work tree: name a commit") from None
    top, common, objects, index = map(os.fsdecode, said.rstrip(b"\n").split(b"\n"))
    common = os.path.realpath(common)  # noqa: ASYNC240 - one look
    return _Places(
        top=Path(top), repository=Repository(common, remote=False), objects=Path(objects), index=Path(index)
    )  # fmt: skip


async def _head(git: Git, top: Path) -> tuple[str, str]:
    """The commit that is checked out and its tree; before the first commit, the empty tree for both."""
    said = await git.ask(top, "cat-file", "--batch-check", given=b"HEAD\nHEAD^{tree}\n")
    (name, kind, *_), (tree, *_) = (line.split(" ") for line in said.decode().splitlines())
    if kind == "commit":
        return name, tree
    empty = (await git.ask(top, "hash-object", "-t", "tree", "--stdin")).decode().strip()
    return empty, empty


async def _written(git: Git, places: _Places, options: tuple[str, ...], *, staged: bool) -> str:
    """Write the tree; returns its name."""
    assert git.objects is not None  # noqa: S101 - the settings name the state folder
    await asyncio.to_thread(_prepare, git.objects)
    top, index = places.top, places.index
    given = os.environ.get("GIT_INDEX_FILE")
    if given:  # a hook of `git commit -a` or `git commit PATH` has an index of its own
        index = top / given
    with tempfile.TemporaryDirectory(dir=git.objects.parent) as folder:
        copy = Path(folder) / "index"
        if await asyncio.to_thread(index.exists):
            await asyncio.to_thread(shutil.copy2, index, copy)  # git compares the time of the index with that of files
        extra = {
            "GIT_INDEX_FILE": str(copy),
            "GIT_OBJECT_DIRECTORY": str(git.objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(places.objects),
        }
        if not staged:
            await _add_work_tree(git, top, extra, options)
        try:
            return (await git.ask(top, "write-tree", extra=extra, options=options)).decode().strip()
        except Retryable as error:
            raise UsageError(f"the index has no tree yet: resolve the conflicts of the merge first ({error})") from None


async def _add_work_tree(git: Git, top: Path, extra: dict[str, str], options: tuple[str, ...]) -> None:
    """Put changed, deleted and new files into the copied index."""
    # `git add` would run `git status` inside submodules, with the filters of their own configuration.
    changed = await git.ask(
        top,
        "diff-files",
        "--ignore-submodules=dirty",
        "--name-only",
        "-z",
        most=_MAX_LIST_BYTES,
        extra=extra,
        options=options,
    )
    listed = await git.ask(
        top, "ls-files", "--others", "--exclude-standard", "-z", most=_MAX_LIST_BYTES, extra=extra, options=options
    )
    new = await asyncio.to_thread(_without_large_files, top, listed.split(b"\0"))
    await git.ask(
        top,
        "update-index",
        "--add",
        "--remove",
        "-z",
        "--stdin",
        given=changed + b"".join(new),
        extra=extra,
        options=options,
    )


async def _without_filters(git: Git, top: Path) -> tuple[str, ...]:
    """Options that switch off every filter of the repository's configuration: a filter is a program."""
    said = await git.ask(top, *_FILTER)
    options: list[str] = []
    for name in said.decode("utf-8", "surrogateescape").split("\0"):
        if name:
            options += ["-c", f"{name}={'false' if name.endswith('.required') else ''}"]
    return tuple(options)


def _without_large_files(top: Path, names: Iterable[bytes]) -> list[bytes]:
    """The names of files that are not too large, each ended by a NUL."""
    found = []
    for name in names:
        path = top / os.fsdecode(name)
        if name and not name.endswith(b"/") and os.path.lexists(path) and path.lstat().st_size <= _MAX_NEW_FILE_BYTES:
            found.append(name + b"\0")
    return found


def _prepare(objects: Path) -> None:
    """Make the folder, and remove objects that were written long ago."""
    objects.mkdir(parents=True, exist_ok=True)
    oldest = time.time() - _KEEP_SECONDS
    for path in objects.glob("??/*"):
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
