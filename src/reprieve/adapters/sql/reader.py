"""Look-ups, the same for both dialects: one statement each where it can be, so that an answer is of one moment.

What is not over is found through the narrow queue, what failed through the few rows that did, so that a million finished
jobs cost nothing to who asks for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, select

from reprieve.adapters.sql import views
from reprieve.adapters.sql.engine import Database
from reprieve.adapters.sql.tables import attempts, dead_letters, jobs, queue, stages, workers
from reprieve.core.lifecycle import JobStatus
from reprieve.ports.intents import QueueState
from reprieve.ports.reader import AttemptView, DeadLetterView, Orphans, StageView, WorkerView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement, Table
    from sqlalchemy.sql import Executable

    from reprieve.ports.reader import Ending, JobFilter, JobView, StageRun

_AT_ONCE: Final = 500
"""Ids in one statement."""
_COUNTED: Final[Mapping[QueueState, str]] = {
    QueueState.READY: "ready",
    QueueState.LEASED: "leased",
    QueueState.SCHEDULED: "scheduled",
    QueueState.WAITING: "waiting",
    QueueState.SUSPECT: "suspects",
}


class SqlReader:
    """`ports.reader.Reader` on SQLite and PostgreSQL; safe to use from several threads."""

    def __init__(self, url: str) -> None:
        self._database = Database.at(url, writes=False)

    def close(self) -> None:
        """Let go of the connections; may be called twice."""
        self._database.close()

    def job(self, job_id: int) -> JobView | None:
        """The job, or None."""
        return self._one_job(jobs.c.id == job_id)

    def job_by_key(self, idempotency_key: str) -> JobView | None:
        """The job that was submitted under this key."""
        return self._one_job(jobs.c.idempotency_key == idempotency_key)

    def jobs(self, wanted: JobFilter) -> Sequence[JobView]:
        """The newest first; page on with `after`."""
        return [views.job_view(row) for row in self._rows(views.wanted_jobs(wanted))]

    def payload(self, job_id: int) -> bytes | None:
        """The payload as it was given; None where there is no such job, or it was erased."""
        rows = self._rows(select(jobs.c.payload).where(jobs.c.id == job_id))
        return rows[0].payload if rows else None

    def stage_runs(self, job_id: int) -> Sequence[StageRun]:
        """The stages that were acknowledged, in order."""
        return [views.stage_run(row) for row in self._rows(views.acknowledged(job_id))]

    def attempts(self, job_id: int) -> Sequence[AttemptView]:
        """What failed, in order."""
        of_job = select(*_columns(attempts, AttemptView)).where(attempts.c.job_id == job_id)
        return [AttemptView(**values) for values in self._values(of_job.order_by(attempts.c.id))]

    def dead_letter_of(self, job_id: int) -> DeadLetterView | None:
        """The dead letter of a job; its texts are empty once it was pruned."""
        of_letter = select(*(views.LETTER[name] for name in DeadLetterView.__slots__)).select_from(views.FROM_LETTERS)
        found = self._values(of_letter.where(dead_letters.c.job_id == job_id))
        return DeadLetterView(**found[0]) if found else None

    def endings(self, job_ids: Sequence[int]) -> Sequence[Ending]:
        """Of those that are over, how each ended; the others are left out."""
        found: list[Ending] = []
        with self._database.transaction() as connection:
            for start in range(0, len(job_ids), _AT_ONCE):
                found += views.read_endings(connection, job_ids[start : start + _AT_ONCE])
        return found

    def counts(self, pipeline: str | None = None) -> dict[JobStatus, int]:
        """How many jobs there are of each status."""
        found = dict.fromkeys(JobStatus, 0)
        for status, count in self._rows(views.counting(pipeline)):
            if status is not None:
                found[JobStatus(status)] += count
            else:  # all that are over; the last row
                found[JobStatus.SUCCEEDED] = count - sum(found[each] for each in JobStatus if each.over)
        return found

    def stages(self, *, counted: bool = False) -> Sequence[StageView]:
        """Every stage that a worker has registered; with `counted`, how many jobs stand at each, registered or not."""
        known = {(values["pipeline"], values["stage"]): dict(values) for values in self._values(select(stages))}
        if counted:
            standing = select(queue.c.pipeline, queue.c.stage, queue.c.state, func.count())
            grouped = standing.group_by(queue.c.pipeline, queue.c.stage, queue.c.state)
            for pipeline, stage, state, count in self._rows(grouped):
                unregistered = {**dict.fromkeys(stages.c.keys()), "pipeline": pipeline, "stage": stage, "paused": False}
                known.setdefault((pipeline, stage), unregistered)[_COUNTED[QueueState(state)]] = count
        return [StageView(**known[key]) for key in sorted(known)]

    def workers(self) -> Sequence[WorkerView]:
        """Those that have registered and not left."""
        registered = select(*_columns(workers, WorkerView, id="worker_id")).order_by(workers.c.id)
        return [WorkerView(**values) for values in self._values(registered)]

    def accepted_before(self, job_id: int, stage: str) -> bool:
        """Whether the same payload of the same subject has passed this stage in another version."""
        return bool(self._rows(views.passed_before(job_id, stage)))

    def orphans(self, *, limit: int) -> Orphans:
        """Look for what cannot be; reads everything."""
        found = {
            kind: tuple(row.job_id for row in self._rows(query.limit(limit)))
            for kind, query in views.impossible().items()
        }
        return Orphans(**found)

    def _one_job(self, condition: ColumnElement[bool]) -> JobView | None:
        rows = self._rows(select(*views.JOB).select_from(views.FROM_JOBS).where(condition))
        return views.job_view(rows[0]) if rows else None

    def _rows(self, statement: Executable) -> Sequence[Any]:
        with self._database.transaction() as connection:
            return connection.execute(statement).all()

    def _values(self, statement: Executable) -> Sequence[Mapping[str, Any]]:
        with self._database.transaction() as connection:
            return [
                {str(name): value for name, value in row.items()} for row in connection.execute(statement).mappings()
            ]


def _columns(table: Table, view: type, **renamed: str) -> list[ColumnElement[Any]]:
    """The columns that a value of this type is made of."""
    old = {new: name for name, new in renamed.items()}
    names: tuple[str, ...] = view.__slots__  # type: ignore[attr-defined]  # all views are slotted
    return [table.c[old.get(name, name)].label(name) for name in names]
