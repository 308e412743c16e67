"""The three stages: fetch -> llm -> notify."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import reprieve
from reprieve import Job, Pipeline
from reprieve.review.asking import Finding, Review, Severity
from reprieve.review.changes import Change
from reprieve.review.fetching import Diff
from reprieve.review.messages import messages_of
from reprieve.review.parts import critic_of, fetcher_of

if TYPE_CHECKING:
    from reprieve.review.parts import Parts
    from reprieve.review.settings import Settings

NAME: Final = "review"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A job's result: who was told what."""

    sent: tuple[str, ...]
    severity: Severity
    findings: int
    dropped: int
    summary: str = ""
    comments: tuple[Finding, ...] = ()
    """The findings themselves."""
    unknown: int = 0
    """Owners and authors whom nobody can reach."""


def make(settings: Settings, parts: Parts) -> Pipeline:
    """The pipeline, by the settings; a newer version ends an older one that has not begun to deliver."""
    fetcher, critic = fetcher_of(settings, parts), critic_of(settings, parts)
    pipeline = Pipeline(NAME, profile="criticizer", supersede=True, senders=list(parts.senders))

    @pipeline.stage(idempotent=True)
    async def fetch(job: Job[Change]) -> Diff:
        return await fetcher.fetch(job.payload)

    @pipeline.stage(idempotent=True)
    async def llm(job: Job[Change], fetch: Diff) -> Review:
        return await critic.review(job, fetch)

    @pipeline.stage(idempotent=True, delivers=True)
    async def notify(job: Job[Change], fetch: Diff, llm: Review) -> Told:
        messages = messages_of(job.subject, job.version, fetch, llm)
        went = await reprieve.deliver(job, messages, via=parts.routes)
        return Told(
            sent=went.sent, severity=llm.severity, findings=len(llm.findings), dropped=llm.dropped, summary=llm.summary,
            comments=llm.findings, unknown=fetch.unknown,
        )  # fmt: skip

    return pipeline
