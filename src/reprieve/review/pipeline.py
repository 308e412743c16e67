"""The three stages: fetch -> llm -> notify."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import reprieve
from reprieve import Job, Permanent, Pipeline
from reprieve.review.asking import Finding, Review, Severity
from reprieve.review.changes import Change
from reprieve.review.fetching import Diff
from reprieve.review.messages import messages_of
from reprieve.review.parts import critic_of, fetcher_of
from reprieve.review.recipients import sender_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reprieve.review.parts import Parts
    from reprieve.review.settings import Settings
    from reprieve.senders import Message

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
        sent = await _tell(job, messages_of(job.subject, job.version, fetch, llm), parts)
        return Told(
            sent=sent, severity=llm.severity, findings=len(llm.findings), dropped=llm.dropped, summary=llm.summary,
            comments=llm.findings, unknown=fetch.unknown,
        )  # fmt: skip

    return pipeline


async def _tell(job: Job[Change], messages: Sequence[Message], parts: Parts) -> tuple[str, ...]:
    """Everybody by their own sender; what one cannot do stops no other."""
    by_sender: dict[str, list[Message]] = {}
    for message in messages:
        by_sender.setdefault(sender_of(message.recipient, parts.routes).name, []).append(message)
    went = await asyncio.gather(
        *[reprieve.deliver(job, some, via=name) for name, some in by_sender.items()], return_exceptions=True
    )
    problems = [each for each in went if isinstance(each, BaseException)]
    if problems:
        raise _worst(problems)
    return tuple(who for each in went if not isinstance(each, BaseException) for who in each.sent)


def _worst(problems: Iterable[BaseException]) -> BaseException:
    """What another try may mend comes first: a job is given up only when nobody is left to be told."""
    return min(problems, key=lambda each: isinstance(each, Permanent))
