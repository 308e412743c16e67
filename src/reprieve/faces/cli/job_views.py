"""Jobs and their histories, for people and for machines; payloads and results only where they were asked for."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from reprieve.app.next_steps import next_step
from reprieve.core.lifecycle import LetterState
from reprieve.faces.cli.rendering import count, facts, length, plain, status, table, when

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from reprieve.app.next_steps import NextStep
    from reprieve.app.operations.jobs import JobDetail
    from reprieve.ports.reader import AttemptView, DeadLetterView, JobView, StageRun

_UPGRADE: Final = (
    "a stored payload or result does not fit the types that workers have now: start one whose pipeline declares an "
    "upgrade for it (@pipeline.upgrade), or has the former types again; the job then goes on by itself"
)


def as_json(job: JobView) -> dict[str, object]:
    """A job as plain values."""
    return {**asdict(job), "state": None if job.state is None else job.state.name.lower()}


def detail_as_json(detail: JobDetail) -> dict[str, object]:
    """A job with its history as plain values."""
    return {
        **as_json(detail.job),
        "stages": [asdict(each) for each in detail.stages],
        "attempts": [asdict(each) for each in detail.attempts],
        "dead_letter": None
        if detail.dead_letter is None
        else {**asdict(detail.dead_letter), "next": asdict(_step(detail.dead_letter))},
    }


def job_table(jobs: Sequence[JobView], now: float) -> Table:
    """One line a job."""
    headings = ("id", "pipeline", "stage", "status", "subject", "key", "submitted", "note")
    return table(
        headings,
        (
            (
                str(job.job_id),
                job.pipeline,
                job.stage,
                status(job.status),
                _subject(job),
                "" if job.idempotency_key.startswith("auto-") else job.idempotency_key,
                when(job.created_at, now),
                _note(job, now),
            )
            for job in jobs
        ),
    )


def job_page(detail: JobDetail, now: float, *, stack: bool) -> RenderableType:
    """A job with its history."""
    parts: list[RenderableType] = [_headline(detail.job), _facts(detail.job, now)]
    if detail.stages:
        parts += [Text("stages that are done", style="bold"), _stages(detail.stages, now)]
    if detail.attempts:
        parts += [Text("attempts that failed", style="bold"), _attempts(detail.attempts, now)]
    if detail.dead_letter is not None:
        parts += [Text("dead letter", style="bold"), _letter(detail.dead_letter, now)]
        if stack:
            parts.append(Text("\n".join(plain(line) for line in detail.dead_letter.last_stack.splitlines())))
        parts += _next(detail.dead_letter)
    return Group(*parts)


def content(name: str, data: bytes | None) -> RenderableType:
    """A payload or a result that somebody asked for."""
    if data is None:
        return Text(f"{name}: none, or erased", style="dim")
    text = json.dumps(json.loads(data), indent=2, ensure_ascii=False)
    return Group(Text(name, style="bold"), Text("\n".join(plain(line) for line in text.splitlines())))


def _subject(job: JobView) -> str:
    return "" if job.subject is None else f"{job.subject} v{job.version}"


def _note(job: JobView, now: float) -> str:
    if job.waits_on is not None:
        return f"waits on {job.waits_on}"
    if job.status.over:
        return job.reason or ""
    if job.cancel_requested:
        return "to be cancelled"
    return "" if job.run_at is None else f"due {when(job.run_at, now)}"


def _headline(job: JobView) -> Text:
    return Text.assemble((f"job {job.job_id}", "bold"), f" of {plain(job.pipeline)}: ", status(job.status))


def _facts(job: JobView, now: float) -> Table:
    counters = {name.replace("_", " "): value for name, value in asdict(job.counters).items() if value}
    return facts(
        (
            ("stage", job.stage),
            ("key", job.idempotency_key),
            ("subject", _subject(job)),
            ("rerun of", "" if job.rerun_of is None else f"job {job.rerun_of}"),
            ("priority", str(job.priority) if job.priority else ""),
            ("submitted", when(job.created_at, now)),
            ("ended", when(job.finished_at, now)),
            ("due", "" if job.state is None else when(job.run_at, now)),
            ("waits on", job.waits_on or ""),
            ("what to do", _UPGRADE if (job.waits_on or "").startswith("upgrade:") else ""),
            ("worker", "" if job.worker_id is None else str(job.worker_id)),
            ("attempts ended by", ", ".join(f"{name} {value}" for name, value in counters.items())),
            ("cancelled by", job.ended_by or ""),
            ("reason", job.reason or ""),
            ("payload", "none, or erased" if job.payload_size is None else count(job.payload_size, "byte")),
        )
    )


def _stages(runs: Sequence[StageRun], now: float) -> Table:
    headings = ("stage", "attempt", "took", "done", "result")
    rows = (
        (
            run.stage,
            str(run.attempt),
            length(run.finished_at - run.started_at),
            when(run.finished_at, now),
            count(run.result_size, "byte"),
        )
        for run in runs
    )
    return table(headings, rows)


def _attempts(attempts: Sequence[AttemptView], now: float) -> Table:
    headings = ("stage", "attempt", "ended by", "failed", "class", "status", "message", "then")
    rows = (
        (
            each.stage,
            str(each.number) if each.counted else f"{each.number}, at no cost",
            each.cause.replace("_", " "),
            when(each.ended_at, now),
            each.error_class,
            "" if each.status_code is None else str(each.status_code),
            each.message,
            f"{each.decision.replace('_', ' ')} ({each.reason.replace('_', ' ')})",
        )
        for each in attempts
    )
    return table(headings, rows)


def _letter(letter: DeadLetterView, now: float) -> Table:
    return facts(
        (
            ("id", str(letter.letter_id)),
            ("state", f"{letter.state}{', escalated' if letter.escalated else ''}"),
            ("stage", letter.stage),
            ("class", f"{letter.error_class} ({letter.category})"),
            ("message", letter.message),
            ("attempts", f"{letter.attempts} of {letter.budget}, by policy {letter.policy}"),
            ("given up", letter.reason.replace("_", " ")),
            ("status", "" if letter.status_code is None else str(letter.status_code)),
            ("first failure", when(letter.first_failure_at, now)),
            ("last failure", when(letter.last_failure_at, now)),
            ("signature", letter.signature),
            ("fingerprint", letter.fingerprint),
            ("context", letter.sanitized_context),
        )
    )


def _next(letter: DeadLetterView) -> list[Text]:
    """What comes next for the dead letter, and where more is told of it."""
    step = _step(letter)
    command = "" if step.command is None else f": {step.command}"
    return [
        Text(f"next: {step.what}{command}", style="bold"),
        Text(f"all that happened to it: reprieve dead show {letter.letter_id}", style="dim"),
    ]


def _step(letter: DeadLetterView) -> NextStep:
    state = LetterState(letter.state)
    return next_step(state, str(letter.letter_id), category=letter.category, job_id=letter.job_id)
