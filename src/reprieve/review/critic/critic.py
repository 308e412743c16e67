"""The critic of the stage `llm`: the rules, a model, or both."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from reprieve import UsageError
from reprieve.review.changes import Kind
from reprieve.review.critic.change_set import ChangedFile, ChangeSet, UnknownTree
from reprieve.review.critic.facts import FactsReport, check_change, rules_digest
from reprieve.review.critic.git_changes import read_change
from reprieve.review.critic.parsing import ParserChild, kind_of
from reprieve.review.critic.review import Report, Review, build_report
from reprieve.review.critic.suppression import settings_of
from reprieve.review.git import repository_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve import Job
    from reprieve.review.changes import Change
    from reprieve.review.critic.model import ModelCritic
    from reprieve.review.critic.suppression import CriticSettings
    from reprieve.review.diffs import FileDiff
    from reprieve.review.fetching import Diff
    from reprieve.review.git import Git
    from reprieve.review.github import Hub

SETTINGS_FILE: Final = "reprieve.toml"
_MAX_PULL_FILES: Final = 30
"""Files of a pull request whose content is fetched; two requests for each."""
_REQUESTS_AT_ONCE: Final = 8


class FactsCritic:
    """Collects facts about changes with the rules."""

    def __init__(self, git: Git, hub: Hub, settings: CriticSettings | None = None) -> None:
        self._git, self._hub, self._settings = git, hub, settings

    @property
    def made_with(self) -> str:
        """A digest of the rules and of the settings that replace those of the base."""
        given = "" if self._settings is None else self._settings.model_dump_json()
        return hashlib.sha256(f"{rules_digest()} {given}".encode()).hexdigest()[:16]

    async def report(self, change: Change, diff: Diff) -> FactsReport:
        """Read the change with its trees, and check it by the settings of its base."""
        parser = ParserChild()
        if any(kind_of(each.path) for each in diff.files):
            parser.start()  # it loads what it needs while git reads
        try:
            change_set, text = await self._read(change, diff)
        except BaseException:
            parser.close()
            raise
        settings, problems = settings_of(text)
        if self._settings is not None:
            settings = self._settings
        report = await asyncio.to_thread(check_change, change_set, settings, parser=parser)
        return replace(report, scope=f"{report.scope}; {problems[0]}") if problems else report

    async def _read(self, change: Change, diff: Diff) -> tuple[ChangeSet, str | None]:
        """The change, and the settings file of its base."""
        match change.kind:
            case Kind.GIT:
                folder = await self._git.folder_of(repository_at(change.repository), holding=(change.base, change.head))
                change_set, text = await asyncio.gather(
                    read_change(self._git, folder, change.base, change.head, diff.files, diff.title),
                    self._git.file(folder, change.base, SETTINGS_FILE),
                )
            case Kind.PATCH:
                change_set, text = _patch(diff), None
            case Kind.PULL:
                change_set = await self._pull(change, diff)
                text = await self._hub.file(change.repository, change.base, SETTINGS_FILE)
            case _:
                assert_never(change.kind)
        return change_set, text

    async def _pull(self, change: Change, diff: Diff) -> ChangeSet:
        """Build the change of a pull request: the diff, and the content of its first files."""
        turn = asyncio.Semaphore(_REQUESTS_AT_ONCE)

        async def read(path: str, revision: str) -> str | None:
            async with turn:
                return await self._hub.file(change.repository, revision, path)

        async def filled(file: ChangedFile) -> ChangedFile:
            before, after = await asyncio.gather(
                read(file.old_path, change.base) if file.old_path else _nothing(),
                _nothing() if file.is_deleted else read(file.path, change.head),
            )
            return replace(file, before=before, after=after)

        patch = _patch(diff)
        files = await asyncio.gather(*[filled(each) for each in patch.files[:_MAX_PULL_FILES]])
        return replace(patch, files=(*files, *patch.files[_MAX_PULL_FILES:]))


class Critic:
    """Runs the rules, asks the model, or does both, by the settings."""

    def __init__(self, facts: FactsCritic | None, model: ModelCritic | None) -> None:
        if facts is None and model is None:
            raise UsageError("a review needs a critic: leave the rules on, or set a model")
        self._facts, self._model = facts, model

    @property
    def made_with(self) -> str:
        """Digest of program, rules, settings and model."""
        rules = "" if self._facts is None else self._facts.made_with
        return f"{rules}+{'' if self._model is None else self._model.name}"

    async def review(self, job: Job[Change], diff: Diff) -> Review:
        """Collect the facts, then ask the model with the facts as context."""
        facts = None if self._facts is None else await self._facts.report(job.payload, diff)
        if self._model is None:
            return Review(facts=facts)
        review = await self._model.review(job, diff, () if facts is None else facts.findings)
        return replace(review, facts=facts)

    async def facts_report(self, change: Change, diff: Diff) -> Report:
        """The report of the rules alone, outside of a job."""
        facts = None if self._facts is None else await self._facts.report(change, diff)
        return replace(build_report(Review(facts=facts), facts), made_with=self.made_with)

    async def report(self, job: Job[Change], diff: Diff, review: Review) -> Report:
        """Build the report. If a person answered in place of the model, collect the facts again."""
        facts = review.facts
        if facts is None and self._facts is not None:
            critic = self._facts
            facts = await job.remember("facts", lambda: critic.report(job.payload, diff), type=FactsReport)
        return replace(build_report(review, facts), made_with=self.made_with)


def _patch(diff: Diff) -> ChangeSet:
    """A change of which only the diff is known; the content of new files is in it."""
    return ChangeSet(files=_files_of(diff.files), tree=UnknownTree(), base=UnknownTree(), title=diff.title)


def _files_of(diffs: Sequence[FileDiff]) -> tuple[ChangedFile, ...]:
    made = []
    for each in diffs:
        file = ChangedFile(path=each.path, old_path=each.old_path, is_deleted=each.is_deleted, diff=each.text)
        if file.is_new:
            file = replace(file, after="".join(f"{line}\n" for line in file.added.values()))
        made.append(file)
    return tuple(made)


async def _nothing() -> None:
    return None
