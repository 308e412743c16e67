"""How reviews go: live on a terminal, a line for each change elsewhere; and what became of all of them."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from textwrap import shorten
from typing import TYPE_CHECKING, Final

from rich.live import Live
from rich.text import Text

from reprieve.core.lifecycle import JobStatus
from reprieve.errors import JobError
from reprieve.faces.cli.common import say
from reprieve.faces.cli.rendering import console, count, length, plain, status, table
from reprieve.ports.deliveries import DeliveryFilter
from reprieve.ports.intents import QueueState
from reprieve.ports.reviews import ReviewFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.table import Table

    from reprieve.app.application import App
    from reprieve.app.operations.jobs import JobDetail
    from reprieve.app.pipeline import Pipeline
    from reprieve.ports.reader import AttemptView
    from reprieve.review.pipeline import Told
    from reprieve.review.reviewing import Asked
    from reprieve.review.settings import Settings

_EVERY: Final = 0.2
_ACTOR: Final = "chaos"
_LONGEST_WHY: Final = 100
_MARKS: Final = {
    JobStatus.SUCCEEDED: "done",
    JobStatus.DEAD_LETTER: "given up",
    JobStatus.NEEDS_REVIEW: "waits for a person",
}


class Watching:
    """The jobs of one call, from their submission to the sum."""

    def __init__(self, app: App, asked: Sequence[Asked], settings: Settings) -> None:
        self._app, self._asked, self._settings = app, asked, settings
        self._began = time.monotonic()
        self._replayed: list[int] = []
        self._doubted = 0
        """Deliveries that were in doubt, and settled by asking the provider."""

    async def through(self, pipeline: Pipeline) -> None:
        """Work, and show how it goes, until none of them would go on by itself."""
        logging.getLogger("reprieve").addHandler(logging.NullHandler())  # what is told here needs no second teller
        working: asyncio.Task[None] | None = None
        if await self._app.journal.store.lock_for_work():
            working = asyncio.create_task(self._app.work(pipeline, until_idle=True))
        else:
            say("another process works on this file already: waiting for it")
        try:
            with _shown() as show:
                while True:
                    found = await self._look()
                    show(self._asked, found)
                    if all(map(_settled, found)) or (working is not None and working.done()):
                        break
                    await asyncio.sleep(_EVERY)
        finally:
            if working is not None:
                await _ended(working)

    async def replay(self) -> bool:
        """What was given up on purpose is replayed from where it failed, as a person would; whether there was anything."""
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
                letter.letter_id, actor=_ACTOR, cause="transient", evidence="made on purpose, and over",
                safe="its stages are idempotent, and people are told once",
            )  # fmt: skip
            self._replayed.append(letter.letter_id)
        return bool(letters)

    async def close_replayed(self) -> None:
        """Verify what was replayed, and close what has worked."""
        if self._replayed:
            await self._app.operations.dead_letters.verify(self._replayed, actor=_ACTOR, note="replayed, and it worked")

    async def sum_up(self) -> bool:
        """Say what was tried, what failed and why, what waits, and where the results are; whether something was given up."""
        found = await self._look()
        ended = Counter(each.job.status for each in found)
        spread = ", ".join(f"{number} {_MARKS.get(name, name.value)}" for name, number in ended.items())
        screen = console()
        screen.print()
        screen.print(
            Text(f"{count(len(found), 'change')} in {length(time.monotonic() - self._began)}: {spread}", style="bold")
        )
        told = {each.made.job_id: await _told(each, job) for each, job in zip(self._asked, found, strict=True)}
        rows = [await self._row(asked, each, told) for asked, each in zip(self._asked, found, strict=True)]
        screen.print(table(["job", "change", "status", "review", "told", "tries that failed"], rows))
        for job_id, result in told.items():
            _say_review(job_id, result)
        self._say_failures([attempt for each in found for attempt in each.attempts])
        await self._say_what_is_left(found)
        return ended[JobStatus.DEAD_LETTER] > 0

    async def _look(self) -> list[JobDetail]:
        return [await self._app.operations.jobs.show(each.made.job_id) for each in self._asked]

    async def _row(self, asked: Asked, found: JobDetail, results: Mapping[int, Told | None]) -> tuple[str | Text, ...]:
        told = results[found.job.job_id]
        review = "" if told is None else f"{told.severity}, {count(told.findings, 'finding')}"
        rows = await self._app.operations.deliveries.list(DeliveryFilter(job_id=found.job.job_id))
        sent = [row for row in rows if row.notified_at is not None]
        self._doubted += sum(1 for row in sent if row.evidence is not None)
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

    async def _say_what_is_left(self, found: Sequence[JobDetail]) -> None:
        if self._doubted:
            doubted = "1 delivery was" if self._doubted == 1 else f"{self._doubted} deliveries were"
            say(f"In doubt: {doubted} broken off half-way, and looked up before anything was sent again.")
        if self._replayed:
            say(
                f"Replayed and closed: {count(len(self._replayed), 'dead letter')}; `reprieve dead show {self._replayed[0]}` has the history."
            )
        for each in found:
            if each.job.status is JobStatus.DEAD_LETTER and each.dead_letter is not None:
                letter = each.dead_letter
                say(
                    f"Given up: job {each.job.job_id}, {letter.error_class} at {letter.stage}: `reprieve dead show {letter.letter_id}`"
                )
            elif each.job.status is JobStatus.NEEDS_REVIEW:
                asked = await self._app.operations.reviews.list(ReviewFilter(job_id=each.job.job_id))
                command = f"reviews show {asked[-1].review_id}" if asked else f"jobs show {each.job.job_id}"
                say(f"Waits for a person: job {each.job.job_id} at {each.job.stage}: `reprieve {command}`")
        mail = self._settings.mail
        where = f"in {mail.folder}" if mail.host is None else f"through {mail.host}"
        say(f"Mail: {where}. Everything else: {jobs_hint(self._settings.database)}.")


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


def _say_review(job_id: int, told: Told | None) -> None:
    """What the model found, and whom nobody could tell."""
    if told is None:
        return
    say(f"Job {job_id}: {plain(told.summary)}")
    for each in told.comments:
        say(f"  {plain(each.file)}:{each.line}: {plain(each.comment)}")
    if told.unknown:
        who = "owner or author" if told.unknown == 1 else "owners or authors"
        say(
            f"  Not told of job {job_id}, as nobody knows their address: {told.unknown} {who}; [notify.people] says it."
        )
    if not told.sent:
        say(f"  Nobody is told of job {job_id}: name somebody with --to, or under [notify].")


def _settled(found: JobDetail) -> bool:
    """Whether it would not go on by itself."""
    job = found.job
    return job.status.over or (job.state is QueueState.WAITING and not (job.waits_on or "").startswith("delivery"))


async def _ended(working: asyncio.Task[None]) -> None:
    """Whoever still works hands back what is not ours; what went wrong is told."""
    if not working.done():
        working.cancel()
    with suppress(asyncio.CancelledError):
        await working


@contextmanager
def _shown() -> Iterator[Callable[[Sequence[Asked], Sequence[JobDetail]], None]]:
    """How a look is shown: live, or as a line for each change."""
    if sys.stdout.isatty():
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
