"""From what went wrong to what is written: classify, decide, record; the one place where a worker does so."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from reprieve.app.alerts.raising import alarms_of
from reprieve.app.judging import classify
from reprieve.app.material import material_of
from reprieve.app.redaction import redact_exception
from reprieve.app.worker.records import Ended, attempt_record, letter_record
from reprieve.core.decide import Abort, DeadLetter, History, Park, Reason, RetryAt, decide
from reprieve.core.failure import ErrorClass
from reprieve.core.lifecycle import JobStatus
from reprieve.core.policy import Cause, ParkState
from reprieve.core.request_ids import request_ids
from reprieve.errors import Retryable
from reprieve.ports.intents import Bury, Retry, SetAside
from reprieve.ports.isolation import ChildDiedError, IsolatedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reprieve.core.decide import Decision
    from reprieve.core.failure import Failure
    from reprieve.core.policy import Profile
    from reprieve.ports.intents import Counters, Lease, Material


_LOG: Final = logging.getLogger("reprieve.worker")
_KILLERS: Final = frozenset({Cause.CRASH, Cause.OUT_OF_MEMORY})
"""What takes a process down, and with it the jobs beside the one that did it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What went wrong, and whose doing it was."""

    failure: Failure
    stack: Callable[[], str]
    """Made only where it is kept: in a dead letter."""
    cause: Cause = Cause.HANDLER
    request_ids: tuple[str, ...] = ()
    material: Material | None = None
    """What a reviewer needs, where the failure brought it."""


def judge(exc: BaseException, profile: Profile, stage: str, now: float) -> Judged:
    """What a stage raised."""
    match exc:
        case IsolatedError():
            return Judged(failure=exc.failure, stack=lambda: exc.stack, material=exc.material)
        case ChildDiedError():
            cause = Cause.OUT_OF_MEMORY if exc.out_of_memory else Cause.CRASH
            return lost(str(exc), cause, stage)
        case _:
            failure = classify(exc, profile=profile, stage=stage, now=now)
            return Judged(
                failure=failure, stack=partial(redact_exception, exc), request_ids=request_ids(exc), material=material_of(exc)
            )  # fmt: skip


def judge_apart(exc: BaseException, *, profile: Profile, stage: str) -> tuple[Failure, str, Material | None]:
    """The same inside a process of its own, for what cannot travel."""
    return classify(exc, profile=profile, stage=stage), redact_exception(exc), material_of(exc)


def lost(message: str, cause: Cause, stage: str) -> Judged:
    """A process that ended under a stage."""
    failure = classify(Retryable(message, error_class=ErrorClass.WORKER_LOST), stage=stage)
    return Judged(failure=failure, stack=lambda: f"{message}\n", cause=cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One attempt at a stage: all that deciding about its failure needs."""

    lease: Lease
    stage: str
    profile: Profile
    counters: Counters
    opened_at: float
    started_at: float
    worker_id: int | None
    idempotent: bool = False
    accepted_before: bool = False
    proven: bool = True
    """Whether the job was alone when its process died: a neighbour is never condemned."""
    unleased: bool = False


def verdict(
    trial: Trial, judged: Judged, *, now: float, draw: float, key: bytes, free: bool = False, not_before: float = 0.0
) -> tuple[Decision, Retry | Bury | SetAside]:
    """What is decided, and the intent that makes it so; `free` says that no attempt is to be spent."""
    attempts = trial.counters.of(judged.cause) + 1
    history = History(
        attempts=attempts, started=trial.opened_at, cause=judged.cause, idempotent=trial.idempotent,
        accepted_before=trial.accepted_before,
    )  # fmt: skip
    if free:
        history = replace(history, attempts=1, started=now)
    decision = decide(judged.failure, history, trial.profile, now=now, draw=draw)
    unproven = judged.cause in _KILLERS and not trial.proven
    if isinstance(decision, DeadLetter | Abort) and (free or unproven):
        policy = trial.profile.policy_for(judged.failure).name
        decision = RetryAt(reason=Reason.RESUME, at=now, delay=0.0, attempt=attempts, budget=attempts, policy=policy)
    if isinstance(decision, RetryAt) and decision.at < not_before:
        decision = replace(decision, at=not_before, delay=not_before - now)
    return decision, _intent(trial, judged, decision, now=now, number=attempts, key=key, counted=not free)


def _intent(
    trial: Trial, judged: Judged, decision: Decision, *, now: float, number: int, key: bytes, counted: bool
) -> Retry | Bury | SetAside:
    lease = trial.lease
    ended = Ended(
        job_id=lease.job_id, pipeline=lease.pipeline, stage=trial.stage, cause=judged.cause, counters=trial.counters,
        started_at=trial.started_at, ended_at=max(now, trial.started_at), worker_id=trial.worker_id,
        idempotency_key=lease.idempotency_key, subject=lease.subject, version=lease.version, payload=lease.payload,
        request_ids=judged.request_ids,
    )  # fmt: skip
    attempt = attempt_record(ended, judged.failure, decision, number=number, counted=counted)
    counters = trial.counters.plus(judged.cause) if counted else trial.counters
    match decision:
        case RetryAt():
            return Retry(
                job_id=lease.job_id, fence=lease.fence, stage=trial.stage, run_at=decision.at, counters=counters,
                opened_at=trial.opened_at, attempt=attempt, unleased=trial.unleased,
            )  # fmt: skip
        case Park():
            status = JobStatus.SKIPPED if decision.state is ParkState.SKIPPED else JobStatus.NEEDS_REVIEW
            return SetAside(
                job_id=lease.job_id, fence=lease.fence, status=status, attempt=attempt, counters=counters,
                pause=decision.halts, unleased=trial.unleased,
                alarms=alarms_of(trial.profile, lease.pipeline, lease.job_id, decision, attempt),
                material=judged.material if status is JobStatus.NEEDS_REVIEW else None,
            )  # fmt: skip
        case DeadLetter() | Abort():
            letter = letter_record(ended, judged.failure, decision, stack=judged.stack(), key=key)
            return Bury(
                job_id=lease.job_id, fence=lease.fence, attempt=attempt, letter=letter,
                pause=isinstance(decision, Abort), unleased=trial.unleased,
                alarms=alarms_of(trial.profile, lease.pipeline, lease.job_id, decision, attempt),
            )  # fmt: skip


def log_decision(trial: Trial, judged: Judged, decision: Decision) -> None:
    """One line a failure; sanitized words only."""
    error_class, message = judged.failure.error_class, judged.failure.message
    where = f"{trial.lease.pipeline}/{trial.stage} job {trial.lease.job_id}"
    match decision:
        case RetryAt():
            _LOG.info("%s: %s, retry in %.1f s: %r", where, error_class, decision.delay, message)
        case Park():
            _LOG.warning("%s: %s, %s: %r", where, error_class, decision.state, message)
        case DeadLetter():
            _LOG.error("%s: %s, dead-lettered (%s): %r", where, error_class, decision.reason, message)
        case _:
            _LOG.critical("%s: %s, dead-lettered and its stage paused: %r", where, error_class, message)
