"""The three stages: fetch -> llm -> notify."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import reprieve
from reprieve import Job, Pipeline
from reprieve.review.changes import Change
from reprieve.review.critic.review import Report, Review
from reprieve.review.diffs import NOTHING, LeftOut
from reprieve.review.fetching import Diff
from reprieve.review.messages import messages_of
from reprieve.review.parts import critic_of, fetcher_of

if TYPE_CHECKING:
    from reprieve.review.parts import Parts
    from reprieve.review.settings import Settings

NAME: Final = "review"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A job's result: the report, and the recipients that it was sent to."""

    report: Report
    sent: tuple[str, ...] = ()
    unknown: int = 0
    """Owners and authors without an address."""
    left_out: LeftOut = NOTHING
    forge: str = ""
    """The page of the repository at its forge; empty where it is not known."""
    commit: str = ""


async def facts_alone(settings: Settings, parts: Parts, change: Change) -> Told | None:
    """What the rules say of a change whose review has no result, as of one whose model failed; None without rules."""
    try:
        critic = critic_of(settings, replace(parts, model=None))
        diff = await fetcher_of(settings, parts).fetch(change)
        report = await critic.facts_report(change, diff)
    except (reprieve.ReprieveError, reprieve.Permanent, reprieve.Retryable):
        return None
    return Told(report=report, left_out=diff.left_out, forge=diff.forge, commit=diff.commit)


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
        report = await critic.report(job, fetch, llm)
        messages = messages_of(job.subject, job.version, fetch, report)
        went = await reprieve.deliver(job, messages, via=parts.routes)
        return Told(
            report=report,
            sent=went.sent,
            unknown=fetch.unknown,
            left_out=fetch.left_out,
            forge=fetch.forge,
            commit=fetch.commit,
        )

    return pipeline
