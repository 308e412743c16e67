"""What a caller wants of the store: small frozen values, applied in batches, each with an answer of its own.

Every intent that a worker sends about a job carries the fence of its claim. The store applies it only while the job is
leased under that very fence; else it changes nothing and answers `STALE`. All times are seconds since the epoch by the
store's clock; all texts are writable (no NUL, no lone surrogates) and sanitized; all bytes are stored as given.
"""

from __future__ import annotations

from dataclasses import asdict
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.core.value import value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.core.lifecycle import JobStatus
    from reprieve.core.policy import Cause

CODEC_JSON: Final = 1
"""How stored bytes are to be read; another number will mean encrypted."""


class QueueState(IntEnum):
    """Where a job that is not over stands in the queue."""

    READY = 0
    LEASED = 1
    SCHEDULED = 2
    """Not before its `run_at`."""
    WAITING = 3
    """For a person or a deployment; says on what."""
    SUSPECT = 4
    """Ready, but was there when a worker died (its crash or out_of_memory counter is not 0): to be run alone."""


class Written(StrEnum):
    """What became of an intent about a job."""

    APPLIED = "applied"
    STALE = "stale"
    """Nothing was changed: the fence is not the job's."""
    CANCELLED = "cancelled"
    """A checkpoint was written, and somebody asked to cancel the job: it must not go on."""


@value
class Counters:
    """Attempts of the job's current stage by what ended them, since its budget was opened."""

    handler: int = 0
    crash: int = 0
    out_of_memory: int = 0
    lost_lease: int = 0
    deploy: int = 0

    def of(self, cause: Cause) -> int:
        """How many attempts this cause has ended."""
        count: int = getattr(self, cause.value)
        return count

    def plus(self, cause: Cause) -> Counters:
        """One more for this cause."""
        return Counters(**{**asdict(self), cause.value: self.of(cause) + 1})


# --- submitting -------------------------------------------------------------------------------------------------------


@value
class Submit:
    """Create a job, or find the one that has its key or its (pipeline, subject, version)."""

    idempotency_key: str
    pipeline: str
    stage: str
    """The first one."""
    payload: bytes
    payload_type: str
    """Fingerprint of the payload's type."""
    created_at: float
    priority: int = 0
    """Higher ones first."""
    run_at: float | None = None
    """Not before; None: at once."""
    subject: str | None = None
    version: int | None = None
    supersedes: tuple[str, ...] = ()
    """Open jobs of the same subject with a lower version that stand at one of these stages are cancelled."""


@value
class Submitted:
    """The job that there is now."""

    job_id: int
    duplicate: bool = False
    """It was there before; nothing was created."""
    mismatch: bool = False
    """It was there before, with another payload."""
    superseded: tuple[int, ...] = ()


@value
class KeyTaken:
    """Refused: the key belongs to a job of another pipeline."""

    pipeline: str


@value
class VersionTooLow:
    """Refused: the subject has a version that is as high or higher."""

    highest: int


# --- claiming ---------------------------------------------------------------------------------------------------------


@value
class Claim:
    """Lease up to `capacity` jobs: higher priority first, then the lower id; none to a worker that was given up."""

    worker_id: int
    capacity: int
    stages: Mapping[tuple[str, str], int]
    """The (pipeline, stage) pairs that the worker knows, with the most jobs that it can take of each."""
    now: float
    suspects: bool = False
    """Take one suspect, to run it alone, in place of ready ones."""
    probe: bool = False
    """Take it although the stage's breaker is open: the caller holds the probe."""
    holding: frozenset[int] | None = None
    """After a claim whose outcome is unknown: the jobs that the worker knows it has; others leased to it are returned first."""


@value
class StoredResult:
    """What a stage left behind."""

    stage: str
    data: bytes
    type: str
    codec: int = CODEC_JSON


@value
class Lease:
    """A claimed job: all that is needed to run its stage."""

    job_id: int
    fence: int
    pipeline: str
    stage: str
    idempotency_key: str
    payload: bytes | None
    """None once erased."""
    payload_type: str
    created_at: float
    priority: int = 0
    subject: str | None = None
    version: int | None = None
    counters: Counters = Counters()
    opened_at: float | None = None
    """When the first attempt of this stage began; None if this is the first."""
    alone: bool = False
    results: tuple[StoredResult, ...] = ()
    """Of the stages before, in the order they were written."""


@value
class Claimed:
    """What a claim got."""

    leases: tuple[Lease, ...]
    suspects: bool = False
    """There are suspects that this worker could run alone."""


@value
class Promote:
    """Make scheduled jobs ready whose time has come; suspects where a worker died on them."""

    now: float
    limit: int = 1000


@value
class Promoted:
    """How many became ready, and when the next one is due."""

    count: int
    next_due: float | None


# --- what a worker says about its jobs --------------------------------------------------------------------------------


@value
class Checkpoint:
    """A stage is done; the job goes on to the next under the same lease, with a fresh budget."""

    job_id: int
    fence: int
    stage: str
    next_stage: str
    result: bytes
    result_type: str
    attempt: int
    started_at: float
    finished_at: float


@value
class Finish:
    """The last stage is done: the job has succeeded."""

    job_id: int
    fence: int
    stage: str
    result: bytes
    result_type: str
    attempt: int
    started_at: float
    finished_at: float


@value
class AttemptRecord:
    """One attempt that failed, as it is kept: sanitized."""

    stage: str
    number: int
    """Within the budget of its cause."""
    cause: Cause
    counted: bool
    """False where it cost nothing: a probe, a deployment."""
    started_at: float
    ended_at: float
    worker_id: int | None
    decision: str
    """retry, dead_letter, park, abort."""
    reason: str
    error_class: str
    category: str
    error_type: str
    """retryable, terminal or rate_limit (ING-4.1)."""
    error_retryable: bool
    status_code: int | None
    message: str
    signature: str
    fingerprint: str
    failure: str
    """The whole Failure as JSON."""
    failure_count: int
    """In a row on this stage."""
    retry_at: float | None


@value
class Retry:
    """Try again, not before `run_at`."""

    job_id: int
    fence: int
    stage: str
    run_at: float
    counters: Counters
    opened_at: float
    attempt: AttemptRecord
    unleased: bool = False
    """For callers who run their own loop: applies while the fence holds, though nobody has a lease."""


@value
class DeadLetterRecord:
    """What is kept of a job that was given up (CRIT-4); sanitized. The first failure's time is taken from the attempts."""

    pipeline: str
    stage: str
    error_class: str
    category: str
    fingerprint: str
    signature: str
    message: str
    last_stack: str
    sanitized_context: str
    """JSON."""
    failure: str
    """The whole Failure as JSON."""
    reason: str
    policy: str
    attempts: int
    budget: int
    status_code: int | None
    pages: bool
    escalated: bool
    last_failure_at: float


@value
class Bury:
    """Give the job up: dead letter and end of the job in one transaction."""

    job_id: int
    fence: int
    attempt: AttemptRecord
    letter: DeadLetterRecord
    pause: bool = False
    """Pause the stage too: every other job would fail (FATAL)."""
    unleased: bool = False


@value
class SetAside:
    """Neither retried nor dead: `skipped` ends the job, `needs_review` waits for a person."""

    job_id: int
    fence: int
    status: JobStatus
    attempt: AttemptRecord
    counters: Counters
    pause: bool = False
    unleased: bool = False


@value
class Await:
    """Give the lease back and wait, costing nothing, until somebody wakes what waits on this."""

    job_id: int
    fence: int
    waits_on: str
    now: float


@value
class Release:
    """Give the lease back: ready (or suspect, by the counters) again at once, or at `run_at`; the stage stays as it is."""

    job_id: int
    fence: int
    counters: Counters
    now: float
    run_at: float | None = None


@value
class Remember:
    """Keep a durable memo of a stage; the first value under a key stays."""

    job_id: int
    fence: int
    stage: str
    key: str
    value: bytes
    now: float


@value
class Complete:
    """End a job that nobody has leased, as succeeded: for callers who run their own loop."""

    job_id: int
    fence: int
    stage: str
    result: bytes
    result_type: str
    now: float


@value
class Stop:
    """The worker has stopped a job that somebody asked to cancel."""

    job_id: int
    fence: int
    now: float


# --- operators --------------------------------------------------------------------------------------------------------


@value
class Cancel:
    """End a job now, or ask its worker to stop it."""

    job_id: int
    actor: str
    reason: str
    now: float


class Cancelled(StrEnum):
    """What became of it."""

    DONE = "done"
    REQUESTED = "requested"
    """It is running; its worker will stop it."""
    OVER = "over"
    """It had ended before."""
    UNKNOWN = "unknown"


@value
class Wake:
    """Make waiting jobs ready again whose `waits_on` begins so, but for those that wait on exactly `unless`."""

    prefix: str
    unless: str = ""
    stages: tuple[tuple[str, str], ...] = ()
    now: float


@value
class Pause:
    """Let nobody claim this stage until it is resumed."""

    pipeline: str
    stage: str
    actor: str
    reason: str
    now: float


@value
class Resume:
    """Let a paused or held stage go on, its breaker closed."""

    pipeline: str
    stage: str
    actor: str
    now: float


# --- outages ----------------------------------------------------------------------------------------------------------


@value
class Hold:
    """Let nobody claim this stage before `until`; with `opens` only a probe may after that. Never shortens a hold."""

    pipeline: str
    stage: str
    until: float
    error_class: str
    reason: str
    now: float
    opens: bool = False


@value
class Close:
    """The upstream answers again: close the breaker."""

    pipeline: str
    stage: str
    now: float


@value
class Probe:
    """Ask for the right to send one job through an open breaker whose hold is over; one holder at a time."""

    pipeline: str
    stage: str
    until: float
    """When the right lapses, should its holder die."""
    now: float


# --- workers ----------------------------------------------------------------------------------------------------------


@value
class Register:
    """A worker comes: it gets an id of its own, and its stages are known from now on."""

    name: str
    host: str
    pid: int
    stages: tuple[tuple[str, str], ...]
    now: float
    expires_at: float


@value
class Renew:
    """A worker lives; refused once its row is gone."""

    worker_id: int
    now: float
    expires_at: float
    stopping: bool = False


@value
class Renewed:
    """Whether the worker is still known, and which of its jobs are to be cancelled."""

    alive: bool
    cancel: tuple[int, ...] = ()


@value
class Leave:
    """A worker goes; it holds no leases any more."""

    worker_id: int


@value
class Lost:
    """A worker is known to be dead, or its lease to have run out: how it ended. It claims nothing from now on."""

    worker_id: int
    cause: Cause
    now: float


@value
class LostWorker:
    """A worker that no longer renews, and whose jobs have to be taken over."""

    worker_id: int
    name: str
    host: str
    pid: int
    stopping: bool
    cause: Cause | None
    """None where nobody saw it die."""


JobIntent = Checkpoint | Finish | Retry | Bury | SetAside | Await | Release | Remember | Complete | Stop | Cancel
StageIntent = Pause | Resume | Hold | Close | Probe
WorkerIntent = Register | Renew | Leave | Lost
Intent = Submit | Claim | Promote | Wake | JobIntent | StageIntent | WorkerIntent
Answer = (
    Submitted | KeyTaken | VersionTooLow | Claimed | Promoted | Written | Cancelled | Renewed | int | bool
)  # Register: the id; Probe: granted or not; Wake: how many; Pause, Resume, Hold, Close, Leave, Lost: whether anything changed

ANSWERS: Final[Mapping[type, type | tuple[type, ...]]] = {
    Submit: (Submitted, KeyTaken, VersionTooLow),
    Claim: Claimed,
    Promote: Promoted,
    Cancel: Cancelled,
    Renew: Renewed,
    Register: int,
    Wake: int,
    **dict.fromkeys((Pause, Resume, Hold, Close, Probe, Leave, Lost), bool),
    **dict.fromkeys((Checkpoint, Finish, Retry, Bury, SetAside, Await, Release, Remember, Complete, Stop), Written),
}
"""Which answer each intent gets; the conformance suite holds every store to it."""
