"""The summary of `make run`: 40 lines of 100 columns. Every word about a review is read from the database."""

from __future__ import annotations

import io
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from reprieve.core.lifecycle import JobStatus
from reprieve.faces.cli.rendering import count, plain
from reprieve.ports.deliveries import DeliveryFilter
from reprieve.ports.reviews import ReviewFilter
from reprieve.testing.chaos import DENIED, FAULTS, PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reprieve.app.application import App
    from reprieve.app.operations.jobs import JobDetail
    from reprieve.app.pipeline import Pipeline
    from reprieve.ports.deliveries import DeliveryDetail
    from reprieve.ports.intents import DeliveryAttempt
    from reprieve.ports.reader import AttemptView, DeadLetterView
    from reprieve.ports.reviews import ReviewView
    from reprieve.review.critic.findings import Finding
    from reprieve.review.critic.review import Report
    from reprieve.review.reviewing import Asked

COLUMNS: Final = 100
_INDENT: Final = " " * 7
_MAX_KINDS: Final = 8
_STYLES: Final = {"high": "red", "medium": "yellow", "low": "cyan"}
_PERSONS_REVIEW: Final = '{"summary": "Take it out.", "severity": "low", "findings": []}'


async def read_summary(
    app: App, pipeline: Pipeline, asked: Sequence[Asked], *, seconds: float, serves: bool
) -> list[Text]:
    """Read what became of the jobs. Returns the lines of the summary."""
    operations = app.operations
    jobs = {each.made.job_id: await operations.jobs.show(each.made.job_id) for each in asked}
    reports = {
        each.made.job_id: (await each.made.result(timeout=10)).report
        for each in asked
        if jobs[each.made.job_id].job.status is JobStatus.SUCCEEDED
    }
    rows = await operations.deliveries.list(DeliveryFilter(limit=1000))
    deliveries = [await operations.deliveries.show(row.delivery_id) for row in reversed(rows)]
    reviews = list(await operations.reviews.list(ReviewFilter(pipeline=pipeline.name)))
    letters = [each.dead_letter for each in jobs.values() if each.dead_letter is not None]
    statuses = Counter(each.job.status for each in jobs.values())
    ended = ", ".join(
        f"{statuses[status]} {word}"
        for status, word in (
            (JobStatus.SUCCEEDED, "reviewed and sent"),
            (JobStatus.DEAD_LETTER, "in the dead-letter queue"),
            (JobStatus.NEEDS_REVIEW, "waiting for a person"),
        )
    )
    lines = [Text(f"{count(len(asked), 'commit')} in {seconds:.0f} s: {ended}", style="bold")]
    for each in asked:
        lines += _commit_lines(each, jobs[each.made.job_id], reports.get(each.made.job_id), reviews)
    lines += [Text(), Text("What failed on the way, and what became of it", style="bold")]
    lines += [Text(line) for line in _failure_lines(jobs, reviews)]
    lines += [Text(), Text("Mail", style="bold"), *(Text(line) for line in _mail_lines(deliveries))]
    lines += [Text(), Text("Try next", style="bold")]
    lines += [Text(line) for line in _commands(letters, reviews, serves=serves)]
    return lines


def save_picture(lines: Sequence[Text], file: Path) -> None:
    """Write the summary as an SVG picture of a terminal."""
    screen = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    screen.print("$ make run ARGS=--once\n...\n")
    for line in lines:
        screen.print(line)
    file.write_text(screen.export_svg(title="make run"), encoding="utf-8")


def _commit_lines(asked: Asked, job: JobDetail, report: Report | None, reviews: Sequence[ReviewView]) -> Iterable[Text]:
    """The commit with its worst finding, or with what keeps its review from being made."""
    findings = [] if report is None else list(report.open_findings)
    if report is not None:
        ended = count(len(findings), "finding") if findings else "no findings"
    elif job.job.status is JobStatus.DEAD_LETTER and job.dead_letter is not None:
        ended = f"dead letter {job.dead_letter.letter_id}"
    else:
        ended = _waiting(job, reviews)
    title = shorten(plain(asked.change.title), COLUMNS - 17 - len(ended) - 2, placeholder="...")
    head = Text(f"job {job.job.job_id}  {asked.change.head[:7]}  {title}")
    yield head.append("  ").append(ended, style="dim" if report is None or not findings else "bold")
    if findings:
        yield _finding_line(findings[0])
    elif report is None and job.attempts:
        last = job.attempts[-1]
        yield Text(f"{_INDENT}no review yet: {describe_attempt(last)} in the stage {last.stage}")


def _finding_line(finding: Finding) -> Text:
    line = Text(f"{_INDENT}{plain(finding.place)}  ")
    line.append(finding.severity.value, style=_STYLES.get(finding.severity.value, ""))
    line.append(f"  {finding.rule}  ")
    left = COLUMNS - len(line)
    comment = plain(finding.comment)
    return line.append(comment if len(comment) <= left else comment[: left - 3].rstrip() + "...", style="dim")


def _waiting(job: JobDetail, reviews: Sequence[ReviewView]) -> str:
    found = next((each for each in reviews if each.job_id == job.job.job_id), None)
    return job.job.status.value if found is None else f"review {found.review_id} waits for a person"


def _failure_lines(jobs: Mapping[int, JobDetail], reviews: Sequence[ReviewView]) -> Iterable[str]:
    """One line for each kind of failure and what became of it, the first to happen first."""
    attempts = sorted(
        ((job, attempt) for job in jobs.values() for attempt in job.attempts), key=lambda each: each[1].ended_at
    )
    kinds: dict[tuple[str, str], list[str]] = {}
    for job, attempt in attempts:
        kinds.setdefault((describe_attempt(attempt), _outcome(job, attempt, reviews)), []).append(attempt.stage)
    if not kinds:
        yield "  nothing"
    for (label, outcome), stages in list(kinds.items())[:_MAX_KINDS]:
        yield f"  {len(stages)} x {label:28} {', '.join(dict.fromkeys(stages)):18} {outcome}"
    if len(kinds) > _MAX_KINDS:
        yield f"  and {count(len(kinds) - _MAX_KINDS, 'other kind')}: reprieve jobs list shows the jobs"


def describe_attempt(attempt: AttemptView) -> str:
    """`503 UPSTREAM_UNAVAILABLE`, or what ended the worker."""
    if attempt.cause == "crash":
        return "worker process killed"
    return f"{attempt.status_code} {attempt.error_class}" if attempt.status_code else attempt.error_class


def _outcome(job: JobDetail, attempt: AttemptView, reviews: Sequence[ReviewView]) -> str:
    match attempt.decision:
        case "retry":
            by = "another worker took over" if attempt.cause == "crash" else "retried"
            return f"{by}, stage done" if attempt.stage in {run.stage for run in job.stages} else by
        case "park":
            return _waiting(job, reviews)
        case _:
            letter = job.dead_letter
            return attempt.decision if letter is None else f"dead letter {letter.letter_id}, {letter.state}"


def _mail_lines(deliveries: Sequence[DeliveryDetail]) -> Iterable[str]:
    """What was sent to whom, from the outbox and its attempts."""
    sent = [each.row for each in deliveries if each.row.notified_at is not None]
    per_person = Counter(each.recipient.partition(":")[2] for each in sent)
    spread = ", ".join(f"{number} to {who}" for who, number in sorted(per_person.items()))
    twice = sum(1 for each in deliveries if sum(map(_may_have_arrived, each.attempts)) > 1)
    once = "none was sent twice" if not twice else f"{twice} may have been sent twice"
    yield f"  {count(len(sent), 'message')} in mail/: {spread}; {once}"
    doubtful = [each for each in deliveries if any(attempt.kind == "look_up" for attempt in each.attempts)]
    if doubtful:
        found = sum(1 for each in doubtful if any(attempt.answer == "found" for attempt in each.attempts))
        sends = count(len(doubtful), "send")
        yield f"  {sends} broke off with an unknown outcome; a look-up found {found} of {len(doubtful)} delivered"


def _may_have_arrived(attempt: DeliveryAttempt) -> bool:
    return attempt.kind == "send" and attempt.answer in {"accepted", "doubt"}


def _commands(letters: Sequence[DeadLetterView], reviews: Sequence[ReviewView], *, serves: bool) -> Iterable[str]:
    """The commands that solve what is left, in their order."""
    program = Path(sys.executable).with_name("reprieve")
    yield f"  cd {shlex.quote(str(Path.cwd()))}"
    on_path = shutil.which("reprieve")
    yield f"  export {PARTS}={FAULTS}"
    if on_path is None or Path(on_path).resolve() != program.resolve():
        yield f"  export PATH={shlex.quote(str(program.parent))}:$PATH"
    shows = [f"reprieve dead show {each.letter_id}" for each in letters]
    yield "  " + "; ".join([*shows, *(f"reprieve reviews show {each.review_id}" for each in reviews)])
    waits = " --wait" if serves else ""
    for letter in letters:
        yield f"The server refuses the commit of job {letter.job_id} while state/{DENIED} names it. Remove the file and replay:"
        replay = (
            f"reprieve dead replay {letter.letter_id} --cause auth_config --evidence 'access granted' --safe{waits}"
        )
        yield f"  rm state/{DENIED}; {replay}"
    for review in reviews:
        yield f"Review job {review.job_id} in place of the model, whose answer does not fit:"
        yield f"  reprieve reviews verify {review.review_id} '{_PERSONS_REVIEW}'"
    closes = [f"reprieve dead verify {each.letter_id} --note 'reviewed and sent'" for each in letters]
    if serves:
        yield "Close the dead letter:"
        yield "  " + "; ".join([*closes, "reprieve jobs list"])
    else:
        yield "Run a worker until both jobs are done, and close the dead letter:"
        yield "  " + "; ".join(["reprieve work review --until-idle", *closes])
