"""What a program that reviews does: take what was named, submit it, and say what became of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import reprieve
from reprieve import UsageError
from reprieve.review.changes import Change, change_of, is_pull, patch_of, pull_of, submit
from reprieve.review.git import repository_at
from reprieve.review.recipients import recipients_of
from reprieve.review.work_tree import change_of_work_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reprieve import App, Pipeline, Submission
    from reprieve.review.parts import Parts

_PATCHES: Final = (".patch", ".diff")
STANDARD_INPUT: Final = "-"
MAX_PATCH_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The changes to review, as the caller named them."""

    names: tuple[str, ...]
    """Commits, ranges, files that end with .patch or .diff, `-` for a patch on standard input, pull requests as
    owner/name#12; without one the uncommitted changes."""
    repository: str
    staged: bool = False
    """Whether the uncommitted changes are those of the index."""
    changelist_id: str | None = None
    version: int | None = None
    again: bool = False
    """Whether content that was reviewed before is reviewed anew, as the next version."""
    recipients: tuple[str, ...] = ()
    notifies: bool = True
    """Whether reviews are sent to recipients."""
    patch: str = ""
    """What the name `-` stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A change and the job that reviews it."""

    change: Change
    made: Submission


async def changes_of(parts: Parts, wanted: Wanted, *, people: Mapping[str, str] | None = None) -> list[Change]:
    """What the names stand for now; upstreams that fail for a moment are asked again."""
    recipients_of(wanted.recipients, (), people=people or {}, routes=parts.routes)
    if len(wanted.names) > 1 and (wanted.changelist_id is not None or wanted.version is not None):
        raise UsageError("an id or a version is of one change: name one at a time")
    find = reprieve.retry("transient")(_change)
    changes = []
    for name in wanted.names or ("",):
        try:
            changes.append(await find(parts, wanted, name))
        except reprieve.ReprieveError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the upstream's client raises
            failure = reprieve.classify(error)
            said = f"{failure.error_class}: {failure.message[:200]}. {failure.remedy}"
            raise UsageError(f"{name} cannot be fetched: {said}") from None
    return changes


async def submit_all(
    app: App, pipeline: Pipeline, changes: Sequence[Change], *, version: int | None = None, again: bool = False
) -> list[Asked]:
    """Submit a job for each change; content whose review was given up is reviewed anew, as the next version."""
    asked = []
    for change in changes:
        made = await submit(app, pipeline, change, version=version, again=again)
        if made.duplicate and version is None:
            earlier = await app.operations.jobs.show(made.job_id)
            if earlier.job.status is reprieve.JobStatus.DEAD_LETTER:
                made = await submit(app, pipeline, change, again=True)
        asked.append(Asked(change=change, made=made))
    return asked


async def _change(parts: Parts, wanted: Wanted, name: str) -> Change:
    return replace(await _named(parts, wanted, name), notifies=wanted.notifies and bool(name))


async def _named(parts: Parts, wanted: Wanted, name: str) -> Change:
    if not name:
        return await change_of_work_tree(parts.git, wanted.repository, staged=wanted.staged)
    if is_pull(name):
        return await pull_of(parts.hub, name, changelist_id=wanted.changelist_id, recipients=wanted.recipients)
    if name == STANDARD_INPUT:
        return patch_of(
            "standard input", wanted.patch, changelist_id=wanted.changelist_id, recipients=wanted.recipients
        )  # fmt: skip
    if name.endswith(_PATCHES):
        path = Path(name)
        return patch_of(
            path.name, _text_of(path), place=_place(path), changelist_id=wanted.changelist_id, recipients=wanted.recipients
        )  # fmt: skip
    where = repository_at(wanted.repository)
    return await change_of(parts.git, where, name, changelist_id=wanted.changelist_id, recipients=wanted.recipients)


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_PATCH_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"the patch {str(path)!r} cannot be read: {error.strerror}") from None


def _place(path: Path) -> str:
    return str(path.resolve())
