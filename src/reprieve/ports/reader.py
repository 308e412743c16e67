"""What can be looked up, apart from what can be changed; values ready to be shown, sanitized but for those marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reprieve.core.lifecycle import JobStatus
    from reprieve.ports.intents import Counters, QueueState


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job as an operator sees it; no payload, no result."""

    job_id: int
    idempotency_key: str
    pipeline: str
    stage: str
    """The current one, or the one it ended at."""
    status: JobStatus
    subject: str | None
    version: int | None
    priority: int
    created_at: float
    finished_at: float | None
    run_at: float | None
    """When it is due, where it is scheduled."""
    waits_on: str | None
    state: QueueState | None
    """Where it stands in the queue; None once it is over."""
    counters: Counters
    fence: int
    worker_id: int | None
    cancel_requested: bool
    rerun_of: int | None
    reason: str | None
    """Why it was cancelled, skipped or given up."""
    payload_size: int | None
    ended_by: str | None = None
    """Who cancelled it, or asked for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRun:
    """A stage that was acknowledged."""

    stage: str
    attempt: int
    started_at: float
    finished_at: float
    result_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """An attempt that failed."""

    stage: str
    number: int
    cause: str
    counted: bool
    started_at: float
    ended_at: float
    decision: str
    reason: str
    error_class: str
    category: str
    error_type: str
    error_retryable: bool
    status_code: int | None
    message: str
    signature: str
    fingerprint: str
    failure_count: int
    retry_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterView:
    """A dead letter, whole."""

    letter_id: int
    job_id: int
    pipeline: str
    stage: str
    state: str
    error_class: str
    category: str
    fingerprint: str
    signature: str
    message: str
    last_stack: str
    sanitized_context: str
    reason: str
    policy: str
    attempts: int
    budget: int
    status_code: int | None
    pages: bool
    escalated: bool
    first_failure_at: float
    last_failure_at: float
    opened_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a job ended, with its result as it was stored: for its owner, not for show."""

    job_id: int
    status: JobStatus
    stage: str
    result: bytes | None
    result_type: str | None
    reason: str | None
    error_class: str | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """A stage as the whole fleet sees it."""

    pipeline: str
    stage: str
    paused: bool
    paused_by: str | None
    reason: str | None
    held_until: float | None
    opened_at: float | None
    """Since when its breaker is open."""
    error_class: str | None
    probe_until: float | None
    changed_at: float | None
    ready: int = 0
    leased: int = 0
    scheduled: int = 0
    waiting: int = 0
    suspects: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """A worker that has registered."""

    worker_id: int
    name: str
    host: str
    pid: int
    started_at: float
    expires_at: float
    stopping: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs; None: all."""

    pipeline: str | None = None
    status: JobStatus | None = None
    stage: str | None = None
    subject: str | None = None
    after: int | None = None
    """Older than this job id: the cursor, as the newest come first."""
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What a pruning removed, or would remove."""

    jobs: int
    kept_for_dead_letters: int
    kept_for_deliveries: int = 0
    more: bool = False
    after: int = 0
    """Where to go on: the id of the last job that was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """What no state of the engine explains: ids of jobs, the first of each kind."""

    neither: tuple[int, ...] = ()
    """Neither queued nor over."""
    both: tuple[int, ...] = ()
    """Queued and over."""
    jobless: tuple[int, ...] = ()
    """Queued or over, but there is no such job."""
    unleased: tuple[int, ...] = ()
    """Leased to a worker that nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaView:
    """What a database has, and what this version needs."""

    fit: str
    """current, behind, ahead or missing."""
    revision: str | None
    wanted: str


class Reader(Protocol):
    """Everything that is looked up; blocking, for threads: nothing here is on a hot path."""

    def close(self) -> None:
        """Let go of the database."""
        ...

    def job(self, job_id: int) -> JobView | None:
        """The job, or None."""
        ...

    def job_by_key(self, idempotency_key: str) -> JobView | None:
        """The job that was submitted under this key."""
        ...

    def jobs(self, wanted: JobFilter) -> Sequence[JobView]:
        """The newest first; page on with `after`."""
        ...

    def payload(self, job_id: int) -> bytes | None:
        """The payload as it was given: for its owner, not for show; None where there is none, or it was erased."""
        ...

    def stage_runs(self, job_id: int) -> Sequence[StageRun]:
        """The stages that were acknowledged, in order."""
        ...

    def attempts(self, job_id: int) -> Sequence[AttemptView]:
        """What failed, in order."""
        ...

    def dead_letter_of(self, job_id: int) -> DeadLetterView | None:
        """The dead letter of a job; its texts are empty once it was pruned."""
        ...

    def endings(self, job_ids: Sequence[int]) -> Sequence[Ending]:
        """Of those that are over, how each ended; the others are left out."""
        ...

    def counts(self, pipeline: str | None = None) -> dict[JobStatus, int]:
        """How many jobs there are of each status."""
        ...

    def stages(self, *, counted: bool = False) -> Sequence[StageView]:
        """Every stage that a worker has registered; with `counted`, how many jobs stand at each, registered or not."""
        ...

    def workers(self) -> Sequence[WorkerView]:
        """Those that have registered and not left."""
        ...

    def accepted_before(self, job_id: int, stage: str) -> bool:
        """Whether the same payload of the same subject has passed this stage in another version."""
        ...

    def orphans(self, *, limit: int) -> Orphans:
        """Look for what cannot be; reads everything."""
        ...


class Keeper(Protocol):
    """Upkeep of what is stored; blocking, in small transactions, so that nobody waits long for it."""

    def close(self) -> None:
        """Let go of the database."""
        ...

    def prune(self, *, before: float, pipeline: str | None, limit: int, dry: bool, after: int = 0) -> Pruned:
        """Of the next `limit` jobs that are over, remove those that ended before; never one whose dead letter is open."""
        ...

    def erase(self, subject: str, *, pipeline: str | None) -> int:
        """Remove payloads, results and memos of a subject's jobs, which must be over; how many jobs it was."""
        ...

    def schema(self) -> SchemaView:
        """Whether the tables are those that this version needs; changes nothing."""
        ...

    def upgrade(self) -> None:
        """Make the tables, or bring them up to date."""
        ...

    def copy_to(self, url: str, told: Callable[[str, int], None]) -> Mapping[str, int]:
        """Copy everything into another, empty database, all or nothing; how many rows, by table, of which `told` hears.

        `RefusedError` where somebody works here, or something is there.
        """
        ...
