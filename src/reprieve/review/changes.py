"""What is reviewed: a commit, a range, a patch or a pull request; and which version of which changelist it is."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from reprieve import UsageError
from reprieve.review.git import check_revision, digest, repository_at

if TYPE_CHECKING:
    from pathlib import Path

    import reprieve
    from reprieve.review.git import Git, Repository
    from reprieve.review.github import Hub

_CHANGE_ID: Final = re.compile(r"^Change-Id:\s*(I[0-9a-f]{8,40})\s*$", re.MULTILINE)
_HUNK: Final = re.compile(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", re.MULTILINE)
_RANGE: Final = re.compile(r"(.*?)(\.{2,3})(.*)", re.DOTALL)
_PULL: Final = re.compile(r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)#(?P<number>[1-9]\d{0,9})")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LONGEST_ID: Final = 400
_LONGEST_PATCH: Final = 900_000
"""Bytes; a payload takes a little more."""


class NothingToReviewError(UsageError):
    """The change is empty: for a hook or a check this is no failure."""


class Kind(StrEnum):
    """Where a change is found."""

    GIT = "git"
    PATCH = "patch"
    PULL = "pull"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A job's payload: what is to be reviewed, by what it holds and not by a name that moves."""

    changelist_id: str
    kind: Kind
    repository: str = ""
    """A path or URL; `owner/name` of a pull request."""
    base: str = ""
    head: str = ""
    number: int = 0
    patch: str = ""
    title: str = ""
    recipients: tuple[str, ...] = ()
    """Those named with the change, who get the review beside the recipients of the settings."""
    notifies: bool = True
    """Whether the review is sent at all; never that of a work tree or an index."""

    def __post_init__(self) -> None:
        """Refuse what git or an API could take for something else: anybody who can submit writes payloads."""
        if self.kind is not Kind.PATCH and not all(_COMMIT.fullmatch(each) for each in (self.base, self.head)):
            raise UsageError("base and head are each the whole name of a commit: 40 or 64 hexadecimal digits")

    @property
    def content(self) -> str:
        """A digest of what is reviewed and for whom: the same content is the same version."""
        whole = f"{self.kind}\0{self.base}\0{self.head}\0{self.patch}"
        if self.notifies:
            whole += f"\0{' '.join(sorted(self.recipients))}"
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:24]


async def submit(
    app: reprieve.App,
    pipeline: reprieve.Pipeline,
    change: Change,
    *,
    version: int | None = None,
    again: bool = False,
) -> reprieve.Submission:
    """One job for a version: the same content is the same version, and new content the next one, unless one is given.

    `again` makes a next version of the same content.
    """
    changelist_id = change.changelist_id
    settled: int | Literal["next"] = "next" if version is None else version
    mark = f"#{change.content}" if version is None else f"@{version}"
    if again:
        mark = f"{mark}+{secrets.token_hex(8)}"
    return await app.submit(
        pipeline,
        change,
        idempotency_key=f"{pipeline.name}:{changelist_id}{mark}",
        subject=changelist_id,
        version=settled,
    )


async def change_of(
    git: Git,
    repository: Repository,
    revision: str,
    *,
    changelist_id: str | None = None,
    recipients: tuple[str, ...] = (),
) -> Change:
    """A commit or a range of a repository, as it is now; a Change-Id in a commit's message names its changelist."""
    folder = await git.folder_of(repository, fresh=True)
    place = await git.whole(folder, repository)
    found = _RANGE.fullmatch(check_revision(revision))
    if found:
        first, last = await git.commit(folder, found[1] or "HEAD"), await git.commit(folder, found[3] or "HEAD")
        base = first
        if found[2] == "...":
            base = (await git.ask(folder, "merge-base", "--end-of-options", first, last)).decode().strip()
        name, title = revision, f"{place.name} {revision}"
    else:
        last = await git.commit(folder, revision)
        base = await parent_of(git, folder, last)
        message = (await git.ask(folder, "show", "-s", "--format=%B", "--end-of-options", last)).decode(
            "utf-8", "replace"
        )
        given = _CHANGE_ID.findall(message)
        name = given[-1] if given else last[:12]
        title = message.strip().partition("\n")[0]
    if await git.tree(folder, base) == await git.tree(folder, last):
        raise NothingToReviewError(f"nothing to review: {revision!r} changes nothing")
    return Change(
        changelist_id=check_id(changelist_id or f"{place.label}:{name}"), kind=Kind.GIT, repository=repository.location, base=base, head=last,
        title=_one_line(title), recipients=recipients,
    )  # fmt: skip


async def parent_of(git: Git, folder: Path, commit: str) -> str:
    """The first parent; for a commit without one the tree that holds nothing."""
    parents = (await git.ask(folder, "rev-list", "--parents", "-n1", "--end-of-options", commit)).decode().split()[1:]
    if parents:
        return parents[0]
    return (await git.ask(folder, "hash-object", "-t", "tree", "--stdin")).decode().strip()


def patch_of(
    name: str, text: str, *, place: str = "", changelist_id: str | None = None, recipients: tuple[str, ...] = ()
) -> Change:
    """A patch that was handed over as a text; another text from the same place is the next version of it."""
    if len(text.encode("utf-8", "surrogatepass")) > _LONGEST_PATCH:
        raise UsageError(
            f"the patch has more than {_LONGEST_PATCH} bytes: put it into a repository, and name the commit"
        )
    if _HUNK.search(text) is None:
        raise UsageError(
            f"{_one_line(name)!r} holds no change that can be read: a patch has lines such as @@ -1,2 +1,3 @@"
        )
    return Change(
        changelist_id=check_id(changelist_id or f"patch:{_one_line(name)}-{digest(place or text)}"), kind=Kind.PATCH, patch=text, title=_one_line(name),
        recipients=recipients,
    )  # fmt: skip


async def pull_of(hub: Hub, text: str, *, changelist_id: str | None = None, recipients: tuple[str, ...] = ()) -> Change:
    """A pull request, `owner/name#12`, as it is now."""
    found = _PULL.fullmatch(text)
    if found is None:
        raise UsageError(f"{text[:80]!r} is no pull request: owner/name#12 would be one")
    repository, number = f"{found['owner']}/{found['name']}", int(found["number"])
    pull = await hub.pull(repository, number)
    return Change(
        changelist_id=check_id(changelist_id or text), kind=Kind.PULL, repository=repository, number=number, base=pull.base,
        head=pull.head, title=_one_line(pull.title), recipients=recipients,
    )  # fmt: skip


def is_pull(text: str) -> bool:
    """Whether it is written as a pull request is."""
    return _PULL.fullmatch(text) is not None


def check_id(text: str) -> str:
    """A changelist's id, unless it cannot be one."""
    if not text or len(text) > _LONGEST_ID or not text.isprintable():
        raise UsageError(f"a changelist's id is a line of at most {_LONGEST_ID} characters")
    return text


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)[:200].strip()


__all__ = [
    "Change",
    "Kind",
    "change_of",
    "check_id",
    "is_pull",
    "parent_of",
    "patch_of",
    "pull_of",
    "repository_at",
    "submit",
]
