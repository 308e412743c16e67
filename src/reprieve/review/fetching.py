"""The first stage: the diff of a change, and whom it concerns."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from email.utils import parseaddr
from typing import TYPE_CHECKING, Final, assert_never

from reprieve import Permanent
from reprieve.review import owners
from reprieve.review.changes import Change, Kind
from reprieve.review.diffs import NOTHING, FileDiff, LeftOut, Limits, is_generated, lines_of, parse
from reprieve.review.forge import forge_of
from reprieve.review.git import EMPTY_TREES, repository_at
from reprieve.review.recipients import Recipients, recipients_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reprieve.review.git import Git, Repository
    from reprieve.review.github import Hub
    from reprieve.senders import Sender

_ATTRIBUTES: Final = ".gitattributes"
_MOST_AUTHORS: Final = 20
_FROM: Final = re.compile(r"^From: (.{1,500})$", re.MULTILINE)
"""Who wrote a patch that is written as a mail; a line of the diff itself begins with another sign."""
_LINES_OF_A_DIFF: Final = (
    "diff-tree",
    "-r",
    "--no-commit-id",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--find-renames",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What the first stage found."""

    title: str
    files: tuple[FileDiff, ...]
    left_out: LeftOut
    recipients: tuple[str, ...]
    unknown: int
    """Owners and authors whom nobody can reach."""
    forge: str = ""
    """The base URL of the repository at its forge, as `forge.py` writes it; empty where it is not known."""
    commit: str = ""
    """The commit that links point to; empty where the forge is unknown, and for a work tree or an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """Who is told, by the settings."""

    recipients: tuple[str, ...] = ()
    people: Mapping[str, str]
    owners: bool = True
    authors: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A change as its source has it."""

    text: str
    attributes: str = ""
    owners: str = ""
    authors: tuple[str, ...] = ()
    left_out: LeftOut = NOTHING
    paths: tuple[str, ...] = ()
    forge: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetcher:
    """Fetches changes."""

    git: Git
    hub: Hub
    routes: Mapping[str, Sender]
    concern: Concern
    limits: Limits
    forge: str = ""
    """The forge that the settings name, in place of the one that the remote `origin` has."""

    async def fetch(self, change: Change) -> Diff:
        """The diff and the recipients of a change."""
        found = await self._found(change)
        parsed = await asyncio.to_thread(parse, found.text, attributes=found.attributes, limits=self.limits)
        paths = dict.fromkeys((*found.paths, *parsed.paths))
        concerned: list[str] = []
        if self.concern.owners:
            concerned += await asyncio.to_thread(lambda: owners.owners_of_all(paths, owners.parse(found.owners)))
        if self.concern.authors:
            concerned += found.authors
        people = Recipients(told=())
        if change.notifies:
            named = (*self.concern.recipients, *change.recipients)
            people = recipients_of(named, concerned, people=self.concern.people, routes=self.routes)
        return Diff(
            title=change.title or change.changelist_id, files=parsed.files, left_out=found.left_out + parsed.left_out,
            recipients=people.told, unknown=people.unknown, forge=found.forge, commit=found.commit,
        )  # fmt: skip

    async def _found(self, change: Change) -> _Found:
        match change.kind:
            case Kind.PATCH:
                return _Found(text=change.patch, authors=_authors_of(change.patch))
            case Kind.GIT:
                return await self._of_git(change)
            case Kind.PULL:
                return await self._of_pull(change)
        assert_never(change.kind)

    async def _of_pull(self, change: Change) -> _Found:
        where = change.repository
        text = await self.hub.diff(where, change.base, change.head, most=self.limits.diff_bytes)
        attributes = await self.hub.file(where, change.base, _ATTRIBUTES)
        found = None
        for place in owners.PLACES:
            found = await self.hub.file(where, change.base, place)
            if found is not None:
                break
        authors = await self.hub.authors(where, change.number) if self.concern.authors else ()
        named = self.forge if self.forge.endswith(f"/{where}") else ""  # it may name another repository
        forge = forge_of(self.hub.page(where)) or named
        return _Found(
            text=text, attributes=attributes or "", owners=found or "", authors=authors, forge=forge,
            commit=change.head if forge else "",
        )  # fmt: skip

    async def _of_git(self, change: Change) -> _Found:
        repository = repository_at(change.repository)
        folder = await self.git.folder_of(repository, holding=(change.base, change.head))
        attributes, listed, forge = await asyncio.gather(
            self.git.file(folder, change.base, _ATTRIBUTES),  # a change may not hide itself
            self._listed(folder, change),
            self._forge(folder, repository),
        )
        attributes = attributes or ""
        paths, kept, left_out = await asyncio.to_thread(_sorted_out, listed, attributes, self.limits.files)
        text, too_large = await self._diff(folder, change, kept)
        left_out += LeftOut(too_large=too_large)
        return _Found(
            text=text.decode("utf-8", "replace"), attributes=attributes, owners=await self._owners(folder, change),
            authors=await self._authors(folder, change), left_out=left_out, paths=paths, forge=forge,
            commit=change.head if forge and await self._is_commit(folder, change.head) else "",
        )  # fmt: skip

    async def _forge(self, folder: Path, repository: Repository) -> str:
        """The forge that the settings name, or the one of the URL that the repository was cloned from."""
        if self.forge or repository.remote:
            return self.forge or forge_of(repository.location)
        said = await self.git.ask(folder, "config", "--get", "remote.origin.url")
        return forge_of(said.decode("utf-8", "replace").strip())

    async def _is_commit(self, folder: Path, name: str) -> bool:
        """Whether an object is a commit; the head of a work tree or an index is a tree."""
        return (await self.git.ask(folder, "cat-file", "-t", name)).strip() == b"commit"

    async def _diff(self, folder: Path, change: Change, kept: list[str]) -> tuple[bytes, int]:
        """The diff, and how many files are left out of it: the largest ones, until the rest is within the limit."""
        left = list(kept)
        while left:
            try:
                command = (*_LINES_OF_A_DIFF, "-p", change.base, change.head, "--", *left)
                return await self.git.ask(folder, *command, most=self.limits.diff_bytes), len(kept) - len(left)
            except Permanent as error:
                if error.error_class != "PAYLOAD_TOO_LARGE":
                    raise
            sizes = await self._changed_lines(folder, change, left)
            left.sort(key=lambda path: sizes.get(path, 0))
            del left[-max(1, len(left) // 4) :]
        return b"", len(kept)

    async def _changed_lines(self, folder: Path, change: Change, paths: list[str]) -> dict[str, int]:
        said = await self.git.ask(
            folder,
            *_LINES_OF_A_DIFF,
            "--no-renames",
            "--numstat",
            "-z",
            change.base,
            change.head,
            "--",
            *paths,
            most=8 << 20,
        )
        rows = (row.split("\t", 2) for row in said.decode("utf-8", "surrogateescape").split("\0") if row)
        return {row[2]: int(row[0]) + int(row[1]) for row in rows if row[0].isdigit()}

    async def _listed(self, folder: Path, change: Change) -> bytes:
        """All paths with the number of their changed lines: a lock file of megabytes is not even read."""
        return await self.git.ask(
            folder, *_LINES_OF_A_DIFF, "--no-renames", "--numstat", "-z", change.base, change.head, most=8 << 20
        )

    async def _owners(self, folder: Path, change: Change) -> str:
        """As they were before the change, which may not choose its own readers; of a first commit, as it has them."""
        revision = change.head if change.base in EMPTY_TREES else change.base
        for place in owners.PLACES if self.concern.owners else ():
            found = await self.git.file(folder, revision, place)
            if found is not None:
                return found
        return ""

    async def _authors(self, folder: Path, change: Change) -> tuple[str, ...]:
        if not self.concern.authors:
            return ()
        kinds = await self.git.ask(
            folder, "cat-file", "--batch-check", given=f"{change.base}\n{change.head}\n".encode()
        )
        base_is_commit, head_is_commit = (b" commit " in row for row in kinds.splitlines())
        if not head_is_commit:  # a work tree or an index has no authors yet
            return ()
        span = (f"{change.base}..{change.head}",) if base_is_commit else (change.head,)
        said = await self.git.ask(
            folder,
            "log",
            f"-n{_MOST_AUTHORS}",
            "--no-show-signature",
            "--no-decorate",
            "--format=%ae",
            "--end-of-options",
            *span,
        )
        return tuple(dict.fromkeys(said.decode("utf-8", "replace").split()))


def _authors_of(patch: str) -> tuple[str, ...]:
    addresses = (parseaddr(line.strip())[1] for line in _FROM.findall(patch))
    return tuple(dict.fromkeys(address for address in addresses if "@" in address))[:_MOST_AUTHORS]


def _sorted_out(said: bytes, attributes: str, most: int) -> tuple[tuple[str, ...], list[str], LeftOut]:
    """What git lists: all paths, those worth a diff, and how many are not."""
    lines = lines_of(attributes)
    paths: list[str] = []
    kept: list[str] = []
    binary = generated = beyond = 0
    for row in said.decode("utf-8", "surrogateescape").split("\0"):
        added, _, path = (*row.split("\t", 2), "", "")[:3]
        if not path:
            continue
        paths.append(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
        if added == "-":
            binary += 1
        elif is_generated(path, lines):
            generated += 1
        elif len(kept) >= most:
            beyond += 1
        else:
            kept.append(path)
    return tuple(paths), kept, LeftOut(binary=binary, generated=generated, beyond=beyond)
