"""The statements behind the look-ups, and how rows become values; what a job's status is, is said here once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, case, func, literal, null, or_, select, text, union_all

from reprieve.adapters.sql.tables import (
    attempts,
    checkpoints,
    dead_letter_groups,
    dead_letter_texts,
    dead_letters,
    jobs,
    outcomes,
    queue,
    workers,
)
from reprieve.core.lifecycle import JobStatus
from reprieve.ports.intents import Counters, QueueState
from reprieve.ports.reader import Ending, JobFilter, JobView, StageRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, CompoundSelect, Select
    from sqlalchemy.engine import Connection, Row

_LOST: Final = "nothing: it is neither queued nor over; see `reprieve db check`"
_SUCCEEDED: Final = JobStatus.SUCCEEDED.value

_failed = (queue.c.handler + queue.c.crash + queue.c.out_of_memory + queue.c.lost_lease) > 0
_open_status = case(
    (queue.c.state == QueueState.LEASED, JobStatus.IN_PROGRESS.value),
    (
        and_(queue.c.state == QueueState.WAITING, func.substr(queue.c.waits_on, 1, 6) == "review"),
        JobStatus.NEEDS_REVIEW.value,
    ),
    (queue.c.state == QueueState.WAITING, JobStatus.IN_PROGRESS.value),
    (_failed, JobStatus.RETRYABLE_FAILED.value),
    (queue.c.fence == 0, JobStatus.PENDING.value),
    else_=JobStatus.IN_PROGRESS.value,
)
"""What a job that is not over is, from its row of the queue."""
_unsuccessful = text("outcomes.status <> 'succeeded'")
"""In the very words of the partial index: SQLite uses it only then."""

JOB: Final = (
    jobs.c.id.label("job_id"),
    jobs.c.idempotency_key,
    jobs.c.pipeline,
    func.coalesce(outcomes.c.stage, queue.c.stage, jobs.c.first_stage).label("stage"),
    func.coalesce(outcomes.c.status, case((queue.c.job_id.is_not(None), _open_status))).label("status"),
    jobs.c.subject,
    jobs.c.version,
    jobs.c.priority,
    jobs.c.created_at,
    outcomes.c.finished_at,
    queue.c.run_at,
    queue.c.waits_on,
    queue.c.state,
    queue.c.handler,
    queue.c.crash,
    queue.c.out_of_memory,
    queue.c.lost_lease,
    queue.c.deploy,
    func.coalesce(outcomes.c.fence, queue.c.fence, 0).label("fence"),
    queue.c.worker_id,
    queue.c.cancel_requested,
    jobs.c.rerun_of,
    func.coalesce(outcomes.c.reason, queue.c.cancel_reason).label("reason"),
    func.length(jobs.c.payload).label("payload_size"),
    func.coalesce(outcomes.c.ended_by, queue.c.cancelled_by).label("ended_by"),
)
LETTER: Final[Mapping[str, ColumnElement[Any]]] = {
    **{column.name: column for column in dead_letters.c},
    "letter_id": dead_letters.c.id.label("letter_id"),
    **{name: dead_letter_groups.c[name] for name in ("pipeline", "stage", "error_class", "category", "fingerprint")},
    # Pruning takes the texts along.
    **{
        name: func.coalesce(dead_letter_texts.c[name], "").label(name)
        for name in ("message", "last_stack", "sanitized_context", "reason", "policy")
    },
}
"""What there is to be told of a dead letter, by name."""
FROM_LETTERS: Final = dead_letters.join(
    dead_letter_groups, dead_letter_groups.c.id == dead_letters.c.group_id
).outerjoin(dead_letter_texts, dead_letter_texts.c.letter_id == dead_letters.c.id)
FROM_JOBS: Final = jobs.outerjoin(queue, queue.c.job_id == jobs.c.id).outerjoin(
    outcomes, outcomes.c.job_id == jobs.c.id
)
_FROM_QUEUE: Final = queue.join(jobs, queue.c.job_id == jobs.c.id).outerjoin(
    outcomes, outcomes.c.job_id == queue.c.job_id
)
_FROM_OUTCOMES: Final = outcomes.join(jobs, outcomes.c.job_id == jobs.c.id).outerjoin(
    queue, queue.c.job_id == outcomes.c.job_id
)


def wanted_jobs(wanted: JobFilter) -> Select[Any]:
    """The newest that fit, through the table that holds the fewest rows that do not."""
    status = wanted.status
    pipeline: ColumnElement[str] = jobs.c.pipeline
    stage: ColumnElement[str] = func.coalesce(outcomes.c.stage, queue.c.stage, jobs.c.first_stage)
    if status is None:
        key, statement = jobs.c.id, select(*JOB).select_from(FROM_JOBS)
    elif status.over:
        key, stage, statement = outcomes.c.job_id, outcomes.c.stage, select(*JOB).select_from(_FROM_OUTCOMES)
        statement = statement.where(outcomes.c.status == status.value)
        if status is not JobStatus.SUCCEEDED:
            statement = statement.where(_unsuccessful)
    else:
        key, statement = queue.c.job_id, select(*JOB).select_from(_FROM_QUEUE)
        pipeline, stage = queue.c.pipeline, queue.c.stage
        statement = statement.where(_open_status == status.value, outcomes.c.job_id.is_(None))
    if wanted.pipeline is not None:
        statement = statement.where(pipeline == wanted.pipeline)
    if wanted.stage is not None:
        statement = statement.where(stage == wanted.stage)
    if wanted.subject is not None:
        statement = statement.where(key.in_(jobs_of_subject(wanted.subject, wanted.pipeline)))
    if wanted.after is not None:
        statement = statement.where(key < wanted.after)
    return statement.order_by(key.desc()).limit(wanted.limit)


def jobs_of_subject(subject: str, pipeline: str | None) -> Select[Any]:
    """The ids of a subject's jobs, in all pipelines unless one is named; through the index on both."""
    statement = select(jobs.c.id).where(jobs.c.subject == subject)
    if pipeline is not None:
        return statement.where(jobs.c.pipeline == pipeline)
    # The index begins with the pipeline: step from one pipeline to the next in it, however many jobs each has.
    has_subject = jobs.c.subject.is_not(None)
    steps = select(func.min(jobs.c.pipeline).label("name")).where(has_subject).cte("pipelines", recursive=True)
    following = select(func.min(jobs.c.pipeline)).where(has_subject, jobs.c.pipeline > steps.c.name).scalar_subquery()
    steps = steps.union_all(select(following).where(steps.c.name.is_not(None)))
    return statement.where(jobs.c.pipeline.in_(select(steps.c.name)))


def job_view(row: Row[Any]) -> JobView:
    """A row of JOB as a value."""
    lost = row.status is None
    status = JobStatus.IN_PROGRESS if lost else JobStatus(row.status)
    return JobView(
        job_id=row.job_id,
        idempotency_key=row.idempotency_key,
        pipeline=row.pipeline,
        stage=row.stage,
        status=status,
        subject=row.subject,
        version=row.version,
        priority=row.priority,
        created_at=row.created_at,
        finished_at=row.finished_at,
        run_at=row.run_at,
        waits_on=_LOST if lost else row.waits_on,
        state=None if row.state is None or status.over else QueueState(row.state),
        counters=Counters()
        if row.state is None
        else Counters(
            handler=row.handler,
            crash=row.crash,
            out_of_memory=row.out_of_memory,
            lost_lease=row.lost_lease,
            deploy=row.deploy,
        ),
        fence=row.fence,
        worker_id=row.worker_id,
        cancel_requested=bool(row.cancel_requested),
        rerun_of=row.rerun_of,
        reason=row.reason,
        payload_size=row.payload_size,
        ended_by=row.ended_by,
    )


def acknowledged(job_id: int) -> Select[Any]:
    """The stages of a job that are done: checkpoints, and the end where it succeeded."""
    earlier = select(
        checkpoints.c.stage,
        checkpoints.c.attempt,
        checkpoints.c.started_at,
        checkpoints.c.finished_at,
        func.coalesce(func.length(checkpoints.c.result), 0).label("result_size"),
        literal(0).label("last"),
    ).where(checkpoints.c.job_id == job_id)
    last = select(
        outcomes.c.stage,
        outcomes.c.attempt,
        func.coalesce(outcomes.c.started_at, outcomes.c.finished_at),
        outcomes.c.finished_at,
        func.coalesce(func.length(outcomes.c.result), 0),
        literal(1),
    ).where(outcomes.c.job_id == job_id, outcomes.c.status == _SUCCEEDED)
    both = union_all(earlier, last).subquery()
    return select(both).order_by(both.c.last, both.c.finished_at)


def stage_run(row: Row[Any]) -> StageRun:
    """A row of `acknowledged` as a value."""
    return StageRun(
        stage=row.stage,
        attempt=row.attempt,
        started_at=row.started_at,
        finished_at=row.finished_at,
        result_size=row.result_size,
    )


def counting(pipeline: str | None) -> CompoundSelect[Any]:
    """(status, how many), in one statement so that the sum is right; (None, n) counts all that are over."""
    standing = select(_open_status.label("status"), func.count().label("jobs")).group_by(_open_status)
    if pipeline is not None:
        ended = (
            select(outcomes.c.status, func.count())
            .join(jobs, jobs.c.id == outcomes.c.job_id)
            .where(jobs.c.pipeline == pipeline)
            .group_by(outcomes.c.status)
        )
        return union_all(standing.where(queue.c.pipeline == pipeline), ended)
    failed = select(outcomes.c.status, func.count()).where(_unsuccessful).group_by(outcomes.c.status)
    return union_all(standing, failed, select(null(), func.count(outcomes.c.job_id)))


def read_endings(connection: Connection, job_ids: Sequence[int]) -> Iterator[Ending]:
    """How each job ended that did; of those that failed, with what."""
    columns = (outcomes.c[name] for name in ("job_id", "status", "stage", "fence", "result", "result_type", "reason"))
    rows = connection.execute(select(*columns).where(outcomes.c.job_id.in_(job_ids)).order_by(outcomes.c.job_id)).all()
    dead = [row.job_id for row in rows if row.status == JobStatus.DEAD_LETTER]
    skipped = [row.job_id for row in rows if row.status == JobStatus.SKIPPED]
    failures: dict[int, tuple[str, str]] = {}
    buried = select(LETTER["job_id"], LETTER["error_class"], LETTER["message"]).select_from(FROM_LETTERS)
    tried = select(attempts.c.job_id, attempts.c.error_class, attempts.c.message).order_by(attempts.c.id)
    for ids, told, job_id in ((dead, buried, dead_letters.c.job_id), (skipped, tried, attempts.c.job_id)):
        if ids:  # the last one stays in the mapping
            found = connection.execute(told.where(job_id.in_(ids)))
            failures |= {row.job_id: (row.error_class, row.message) for row in found}
    for row in rows:
        error_class, message = failures.get(row.job_id, (None, None))
        yield Ending(
            job_id=row.job_id,
            status=JobStatus(row.status),
            stage=row.stage,
            result=row.result,
            result_type=row.result_type,
            reason=row.reason,
            error_class=error_class,
            message=message,
        )


def passed_before(job_id: int, stage: str) -> Select[Any]:
    """A job with the same payload and subject but another version that passed this stage."""
    this, other = jobs.alias("this"), jobs.alias("other")
    kept = select(checkpoints.c.job_id).where(checkpoints.c.job_id == other.c.id, checkpoints.c.stage == stage)
    ended = select(outcomes.c.job_id).where(
        outcomes.c.job_id == other.c.id, outcomes.c.stage == stage, outcomes.c.status == _SUCCEEDED
    )
    same = and_(
        other.c.pipeline == this.c.pipeline,
        other.c.subject == this.c.subject,
        other.c.version != this.c.version,
        other.c.payload == this.c.payload,
    )
    found = select(other.c.id).join_from(this, other, same)
    return found.where(this.c.id == job_id, or_(kept.exists(), ended.exists())).limit(1)


def impossible() -> dict[str, Select[Any]]:
    """Ids of jobs that no state of the engine explains, by the fields of `Orphans`."""
    queued = queue.c.job_id == jobs.c.id
    over = outcomes.c.job_id == jobs.c.id
    rows = union_all(select(queue.c.job_id), select(outcomes.c.job_id)).subquery("rows")
    return {
        "neither": select(jobs.c.id.label("job_id"))
        .where(~select(queue.c.job_id).where(queued).exists(), ~select(outcomes.c.job_id).where(over).exists())
        .order_by(jobs.c.id),
        "both": select(queue.c.job_id).join(outcomes, outcomes.c.job_id == queue.c.job_id).order_by(queue.c.job_id),
        "jobless": select(rows.c.job_id)
        .where(~select(jobs.c.id).where(jobs.c.id == rows.c.job_id).exists())
        .order_by(rows.c.job_id),
        "unleased": select(queue.c.job_id)
        .where(queue.c.worker_id.is_not(None), ~select(workers.c.id).where(workers.c.id == queue.c.worker_id).exists())
        .order_by(queue.c.job_id),
    }
