"""What a worker, or a caller with a loop of its own, says about a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprieve.core.value import value

if TYPE_CHECKING:
    from reprieve.core.alerts import Alarm
    from reprieve.core.lifecycle import JobStatus
    from reprieve.core.policy import Cause
    from reprieve.ports.intents.analysing import Material
    from reprieve.ports.intents.states import Counters


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
    alarms: tuple[Alarm, ...] = ()
    """Raised in the same transaction, if it applies."""


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
    material: Material | None = None
    """With `needs_review`: what the reviewer needs, where the failure brought it."""
    alarms: tuple[Alarm, ...] = ()


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
