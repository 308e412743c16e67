"""The progress of reviews, the printed reviews, and what is left to do.

Standard output holds the reviews (and the jobs, with `--jobs`); what is to be done next goes to standard error.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Final

from rich.text import Text

from reprieve.core.lifecycle import JobStatus
from reprieve.errors import JobError
from reprieve.faces.cli.common import complain, say, say_stored
from reprieve.faces.cli.rendering import console, count, length, plain, status, table
from reprieve.ports.deliveries import DeliveryFilter
from reprieve.ports.intents import QueueState
from reprieve.ports.reviews import ReviewFilter
from reprieve.review.critic.findings import SECRET_RULE, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.table import Table

    from reprieve.app.application import App
    from reprieve.app.operations.jobs import JobDetail
    from reprieve.app.pipeline import Pipeline
    from reprieve.faces.cli.review import ReviewOptions
    from reprieve.ports.reader import AttemptView
    from reprieve.review.formats import ReviewedChange, Span
    from reprieve.review.parts import Parts
    from reprieve.review.pipeline import Told
    from reprieve.review.reviewing import Asked
    from reprieve.review.settings import Settings

_EVERY: Final = 0.2
_ACTOR: Final = "chaos"
_LONGEST_WHY: Final = 100
_UNFINISHED: Final = 3
"""The exit code where a review was given up, or waits for a person."""
_COLOURS: Final = {
    "high": "bold red", "medium": "yellow", "low": "cyan", "heading": "bold", "place": "bold", "quote": "dim", "muted": "dim",
}  # fmt: skip
_MARKS: Final = {
    JobStatus.SUCCEEDED: "done",
    JobStatus.DEAD_LETTER: "given up",
    JobStatus.NEEDS_REVIEW: "waits for a person",
}


class ReviewWatch:
    """The jobs of one call of `reprieve review`, from their submission to the printed reviews."""

    def __init__(self, app: App, asked: Sequence[Asked], settings: Settings, *, shows_jobs: bool = True) -> None:
        self._app, self._asked, self._settings, self._shows_jobs = app, asked, settings, shows_jobs
        self._began = time.monotonic()
        self._replayed: list[int] = []
        self._looked_up = 0
        """Deliveries with an unknown outcome that the provider was asked about."""

    async def through(self, pipeline: Pipeline) -> None:
        """Work, and show the progress, until no job goes on by itself."""
        logging.getLogger("reprieve").addHandler(logging.NullHandler())  # the printed failures need no log lines beside
        if all(map(_settled, await self._look())):
            return
        working: asyncio.Task[None] | None = None
        is_said = False
        try:
            with _shown(shows_jobs=self._shows_jobs) as show:
                while True:
                    found = await self._look()
                    show(self._asked, found)
                    if all(map(_settled, found)) or (working is not None and working.done()):
                        break
                    # The process that works on the database ends with its own reviews: the next one takes over.
                    if working is None and await self._app.journal.store.lock_for_work():
                        working = asyncio.create_task(self._app.work(pipeline, until_idle=True))
                    elif working is None and not is_said:
                        complain("another process works on this database already: waiting for it")
                        is_said = True
                    await _pause(working)
        finally:
            if working is not None:
                await _ended(working)

    async def replay(self) -> bool:
        """Replay the dead letters that `--chaos` caused. Returns whether there were any."""
        letters = [
            each.dead_letter
            for each in await self._look()
            if each.job.status is JobStatus.DEAD_LETTER and each.dead_letter
        ]
        for letter in letters:
            say(
                f"dead letter {letter.letter_id}: {letter.error_class} at {letter.stage}; the trouble is over, so it is replayed:"
            )
            say(f"  reprieve dead replay {letter.letter_id} --cause transient --evidence 'made on purpose' --safe")
            await self._app.operations.dead_letters.replay(
                letter.letter_id,
                actor=_ACTOR,
                cause="transient",
                evidence="made on purpose, and over",
                safe="its stages are idempotent, and people are told once",
            )
            self._replayed.append(letter.letter_id)
        return bool(letters)

    async def close_replayed(self) -> None:
        """Verify what was replayed, and close what has worked."""
        if self._replayed:
            await self._app.operations.dead_letters.verify(self._replayed, actor=_ACTOR, note="replayed, and it worked")

    async def report(self, options: ReviewOptions, parts: Parts, *, made_with: str) -> int:
        """Print the reviews and what is left to do; returns the exit code."""
        from reprieve.review.formats import Format, ReviewedChange, render, text_lines  # noqa: PLC0415 - an extra
        from reprieve.review.pipeline import facts_alone  # noqa: PLC0415 - an extra

        found = await self._look()
        told = [await _told(each, job) for each, job in zip(self._asked, found, strict=True)]
        alone = [
            each or await facts_alone(self._settings, parts, asked.change)
            for asked, each in zip(self._asked, told, strict=True)
        ]
        reviewed = [
            ReviewedChange(
                changelist_id=asked.change.changelist_id,
                version=job.job.version or 1,
                title=asked.change.title,
                report=each.report,
                left_out=each.left_out,
                forge=each.forge,
                commit=each.commit,
            )
            for asked, job, each in zip(self._asked, found, alone, strict=True)
            if each is not None
        ]
        form = Format(options.output.value)
        if form is Format.TEXT and sys.stdout.isatty():
            for spans in text_lines(reviewed):
                console().print(_styled(spans), soft_wrap=True)
        elif reviewed or form is not Format.TEXT:
            say_stored(render(reviewed, form).rstrip("\n"))
        if options.jobs:
            await self._say_jobs(found, told)
        self._say_repeated(told, made_with)
        await self._say_what_is_left(found, told)
        self._say_unread(reviewed)
        failing = _failing(options, reviewed)
        if failing:
            complain(f"--fail-on {failing.least}: {count(failing.number, 'finding')}{failing.why}")
            return 1
        unfinished = {JobStatus.DEAD_LETTER, JobStatus.NEEDS_REVIEW}
        return _UNFINISHED if any(each.job.status in unfinished for each in found) else 0

    def _say_unread(self, reviewed: Sequence[ReviewedChange]) -> None:
        """Name the text files that no rule read: the result says nothing about them."""
        for each in reviewed:
            number = each.left_out.beyond + each.left_out.too_large
            if number:
                complain(
                    f"{each.title}: {count(number, 'file')} not reviewed, too large or beyond the limit; see [limits] in the settings"
                )

    async def _say_jobs(self, found: Sequence[JobDetail], told: Sequence[Told | None]) -> None:
        ended = Counter(each.job.status for each in found)
        spread = ", ".join(f"{number} {_MARKS.get(name, name.value)}" for name, number in ended.items())
        screen = console()
        screen.print()
        screen.print(
            Text(f"{count(len(found), 'change')} in {length(time.monotonic() - self._began)}: {spread}", style="bold")
        )
        rows = [
            await self._row(asked, each, result) for asked, each, result in zip(self._asked, found, told, strict=True)
        ]
        screen.print(table(["job", "change", "status", "review", "sent", "failed attempts"], rows))
        self._say_failures([attempt for each in found for attempt in each.attempts])

    def _say_repeated(self, told: Sequence[Told | None], made_with: str) -> None:
        """Name the reviews that were made before, and whether a new one may say something else."""
        for asked, each in zip(self._asked, told, strict=True):
            if each is None or not asked.made.duplicate:
                continue
            differs = each.report.made_with != made_with
            why = " by other rules, settings or another version of the program" if differs else ""
            complain(f"{asked.change.title} was reviewed before{why}; --again reviews it anew")

    async def _look(self) -> list[JobDetail]:
        return [await self._app.operations.jobs.show(each.made.job_id) for each in self._asked]

    async def _row(self, asked: Asked, found: JobDetail, told: Told | None) -> tuple[str | Text, ...]:
        review = ""
        if told is not None:
            number = len(told.report.open_findings)
            review = f"{count(number, 'finding')}, {told.report.severity}" if number else "no findings"
        rows = await self._app.operations.deliveries.list(DeliveryFilter(job_id=found.job.job_id))
        sent = [row for row in rows if row.notified_at is not None]
        self._looked_up += sum(1 for row in sent if row.evidence is not None)
        return (
            str(found.job.job_id), asked.change.title or asked.change.changelist_id, status(found.job.status), review,
            f"{len(sent)} of {len(rows)}" if rows else "", str(len(found.attempts) or ""),
        )  # fmt: skip

    def _say_failures(self, attempts: Sequence[AttemptView]) -> None:
        if not attempts:
            say("Nothing failed.")
            return
        kinds = Counter((each.stage, each.error_class, each.decision.replace("_", "-")) for each in attempts)
        examples = {(each.stage, each.error_class): each.message for each in attempts}
        say(f"What failed, {count(len(attempts), 'time')}:")
        for (stage, error_class, decision), number in sorted(kinds.items()):
            why = shorten(plain(examples[stage, error_class]), _LONGEST_WHY, placeholder=" ...")
            say(f"  {number} x {error_class} at {stage}, {'retried' if decision == 'retry' else decision}: {why}")

    async def _say_what_is_left(self, found: Sequence[JobDetail], told: Sequence[Told | None]) -> None:
        if self._looked_up:
            looked_up = "1 delivery" if self._looked_up == 1 else f"{self._looked_up} deliveries"
            complain(f"{looked_up} broke off half-way and was looked up before anything was sent again")
        if self._replayed:
            complain(
                f"replayed and closed: {count(len(self._replayed), 'dead letter')}; `reprieve dead show {self._replayed[0]}` has the history"
            )
        for each, result in zip(found, told, strict=True):
            if each.job.status is JobStatus.DEAD_LETTER and each.dead_letter is not None:
                letter = each.dead_letter
                complain(
                    f"given up: job {each.job.job_id}, {letter.error_class} at {letter.stage}: `reprieve dead show {letter.letter_id}`"
                )
            elif each.job.status is JobStatus.NEEDS_REVIEW:
                asked = await self._app.operations.reviews.list(ReviewFilter(job_id=each.job.job_id))
                command = f"reviews show {asked[-1].review_id}" if asked else f"jobs show {each.job.job_id}"
                complain(f"waits for a person: job {each.job.job_id} at {each.job.stage}: `reprieve {command}`")
            elif result is not None:
                self._say_sent(each.job.job_id, result)

    def _say_sent(self, job_id: int, told: Told) -> None:
        if told.sent:
            mail = self._settings.mail
            where = f" (mail: {mail.folder})" if mail.host is None else ""
            complain(f"job {job_id} sent to {', '.join(plain(each) for each in told.sent)}{where}")
        if told.unknown:
            who = "owner or author has" if told.unknown == 1 else "owners or authors have"
            complain(f"job {job_id}: {told.unknown} {who} no known address; [notify.people] names it")


def jobs_hint(database: str) -> str:
    """How to look at all jobs; the URL of a server may hold a password, wherever in it, so it is not repeated."""
    if database.startswith("sqlite:"):
        return f"`reprieve jobs list --url {database}`"
    return "`reprieve jobs list`, with the database of the settings as REPRIEVE_URL"


async def _told(asked: Asked, found: JobDetail) -> Told | None:
    if found.job.status is JobStatus.SUCCEEDED:
        with suppress(JobError):
            told: Told = await asked.made.result(timeout=10)
            return told
    return None


def _styled(spans: Sequence[Span]) -> Text:
    """A line of a review with colours for a terminal."""
    return Text.assemble(*[(each.text, _COLOURS.get(each.severity or each.role.value, "")) for each in spans])


@dataclass(frozen=True, slots=True)
class _Failing:
    """Why `--fail-on` strikes."""

    least: str
    number: int
    why: str


def _failing(options: ReviewOptions, reviewed: Sequence[ReviewedChange]) -> _Failing | None:
    """The findings that are at least as severe as `--fail-on`; a change cannot allow a secret of its own."""
    if options.fail_on is None:
        return None
    least = Severity(options.fail_on.value)
    severe = [each for change in reviewed for each in change.report.findings if each.severity.rank >= least.rank]
    counted = [each for each in severe if not each.allowed or each.rule == SECRET_RULE]
    why = "; a change cannot allow a secret of its own" if any(each.allowed for each in counted) else ""
    return _Failing(least.value, len(counted), why) if counted else None


async def _pause(working: asyncio.Task[None] | None) -> None:
    """Wait a moment, or until the work ends."""
    if working is None:
        await asyncio.sleep(_EVERY)
    else:
        await asyncio.wait([working], timeout=_EVERY)


def _settled(found: JobDetail) -> bool:
    """Whether it would not go on by itself."""
    job = found.job
    return job.status.over or (job.state is QueueState.WAITING and not (job.waits_on or "").startswith("delivery"))


async def _ended(working: asyncio.Task[None]) -> None:
    """Cancel the worker if it still runs. Its claimed jobs are released."""
    if not working.done():
        working.cancel()
    with suppress(asyncio.CancelledError):
        await working


@contextmanager
def _shown(*, shows_jobs: bool) -> Iterator[Callable[[Sequence[Asked], Sequence[JobDetail]], None]]:
    """How a look is shown: live, or as a line for each change."""
    if not shows_jobs:
        yield lambda asked, found: None  # noqa: ARG005 - nothing is shown
        return
    if sys.stdout.isatty():
        from rich.live import Live  # noqa: PLC0415 - a hook shows no jobs and does not wait for it

        with Live(console=console(), auto_refresh=False) as live:
            yield lambda asked, found: live.update(_picture(asked, found), refresh=True)
        return
    before: dict[int, str] = {}

    def show(asked: Sequence[Asked], found: Sequence[JobDetail]) -> None:
        for change, each in zip(asked, found, strict=True):
            line = _line(each)
            if before.get(each.job.job_id) != line:
                before[each.job.job_id] = line
                say(f"  job {each.job.job_id} {plain(change.change.title)[:40]}: {line}")

    yield show


def _line(found: JobDetail) -> str:
    job = found.job
    failed = f"; {_last(found)}" if found.attempts and not job.status.over else ""
    return f"{job.status.value} at {job.stage}{failed}" if not job.status.over else f"{job.status.value}"


def _last(found: JobDetail) -> str:
    attempt = found.attempts[-1]
    return f"{attempt.error_class} at {attempt.stage}"


def _picture(asked: Sequence[Asked], found: Sequence[JobDetail]) -> Table:
    rows = [
        (
            plain(change.change.title)[:50],
            status(each.job.status),
            each.job.stage,
            str(len(each.attempts) or ""),
            _last(each) if each.attempts else "",
        )
        for change, each in zip(asked, found, strict=True)
    ]
    return table(["change", "status", "stage", "failed", "last failure"], rows)
