"""The rows that a failure leaves: sanitized, every one of their texts."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from reprieve.app.ingestion import fields_after
from reprieve.app.redaction import redact_mapping
from reprieve.core.decide import Abort, Decision, Park, RetryAt
from reprieve.ports.intents import AttemptRecord, DeadLetterRecord

if TYPE_CHECKING:
    from reprieve.core.decide import DeadLetter
    from reprieve.core.failure import Failure
    from reprieve.core.policy import Cause
    from reprieve.ports.intents import Counters

_DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An attempt that ended badly: whose, when, of what."""

    job_id: int
    pipeline: str
    stage: str
    cause: Cause
    counters: Counters
    """As they stood before it."""
    started_at: float
    ended_at: float
    worker_id: int | None
    idempotency_key: str = ""
    subject: str | None = None
    version: int | None = None
    payload: bytes | None = None
    request_ids: tuple[str, ...] = ()


def attempt_record(ended: Ended, failure: Failure, decision: Decision, *, number: int, counted: bool) -> AttemptRecord:
    """The attempt as it is kept."""
    fields = fields_after(failure, decision, step=ended.stage, count=number, now=ended.ended_at)
    match decision:
        case RetryAt():
            word = "retry"
        case Park():
            word = "park"
        case Abort():
            word = "abort"
        case _:
            word = "dead_letter"
    return AttemptRecord(
        stage=ended.stage, number=number, cause=ended.cause, counted=counted, started_at=ended.started_at,
        ended_at=ended.ended_at, worker_id=ended.worker_id, decision=word, reason=decision.reason,
        error_class=failure.error_class, category=failure.category, error_type=fields.error_type,
        error_retryable=fields.error_retryable, status_code=failure.status_code, message=failure.message,
        signature=failure.signature, fingerprint=failure.fingerprint, failure=failure.to_json(), failure_count=number,
        retry_at=decision.at if isinstance(decision, RetryAt) else None,
    )  # fmt: skip


def letter_record(
    ended: Ended, failure: Failure, decision: DeadLetter | Abort, *, stack: str, key: bytes
) -> DeadLetterRecord:
    """The dead letter as it is written (CRIT-4)."""
    return DeadLetterRecord(
        pipeline=ended.pipeline, stage=ended.stage, error_class=failure.error_class, category=failure.category,
        fingerprint=failure.fingerprint, signature=failure.signature, message=failure.message, last_stack=stack,
        sanitized_context=json.dumps(_context(ended, failure, decision, key), ensure_ascii=False), failure=failure.to_json(),
        reason=decision.reason, policy=decision.policy, attempts=decision.attempts, budget=decision.budget,
        status_code=failure.status_code, pages=decision.pages, escalated=getattr(decision, "escalates", False),
        last_failure_at=ended.ended_at,
    )  # fmt: skip


def _context(ended: Ended, failure: Failure, decision: DeadLetter | Abort, key: bytes) -> dict[str, object]:
    """What an operator may know (CRIT-4.3); of a payload, a key and a subject only keyed digests."""
    return {
        "job_id": ended.job_id,
        "pipeline": ended.pipeline,
        "stage": ended.stage,
        "attempts": {**asdict(ended.counters), ended.cause.value: decision.attempts},
        "budget": decision.budget,
        "cause": ended.cause.value,
        "upstream_status": failure.status_code,
        "upstream_code": failure.code,
        "request_ids": list(redact_mapping({"ids": list(ended.request_ids)})["ids"])  # type: ignore[call-overload]  # a list of texts
        if ended.request_ids
        else [],
        "version": ended.version,
        "idempotency_key_digest": digest(key, ended.idempotency_key.encode("utf-8", "surrogatepass")),
        "subject_digest": None if ended.subject is None else digest(key, ended.subject.encode("utf-8", "surrogatepass")),
        "payload_digest": None if ended.payload is None else digest(key, ended.payload),
        "payload_size": None if ended.payload is None else len(ended.payload),
        "redactions": dict(failure.redactions),
    }  # fmt: skip


def digest(key: bytes, data: bytes) -> str:
    """The same for the same data within one database, and of no use outside it."""
    return hmac.new(key, data, hashlib.sha256).hexdigest()[:_DIGEST_LENGTH]
