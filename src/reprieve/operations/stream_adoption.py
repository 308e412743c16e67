"""Dead letters of a stream, copied into the store for triage, and replayed from there.

The store knows dead letters of jobs only. So each copy is a job of the pipeline `stream-dead-letters`, which
has one stage: `replay` gives the dead letter back to its group. The job is created as one that failed at this
stage with the failure of the message. It is triaged, approved and replayed like any other; a worker of the
pipeline then replays the message:

    reprieve streams adopt engineering:queue
    reprieve dead list --pipeline stream-dead-letters
    reprieve work --app reprieve.operations.stream_adoption

The dead letter stays in its stream until then and is replayed from there, so that it is replayed once, by an
operator or by a worker. A message that fails again is a new dead letter of the stream, which can be adopted too.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.app.judging import classify_facts
from reprieve.app.operations.asking import AUDIT, PATIENCE, actor_of
from reprieve.app.pipeline import Job, Pipeline
from reprieve.app.redaction import redact, redact_mapping
from reprieve.app.submitting import Item
from reprieve.core.failure import Category, ErrorClass
from reprieve.core.policy import Cause
from reprieve.core.record import writable
from reprieve.errors import Permanent, Retryable, StoreUnavailableError, UsageError
from reprieve.operations.streams import StreamDeadLetterFilter, read_letters, replay_dead_letters, time_of
from reprieve.ports.intents import AttemptRecord, Bury, DeadLetterRecord, QueueState, Written
from reprieve.streams.closed_dead_letters import REPLAYED
from reprieve.streams.message import encode_fields
from reprieve.streams.operator_errors import connect_redis
from reprieve.streams.settings import load_stream_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.app.application import App
    from reprieve.app.submitting import Submission
    from reprieve.core.failure import Failure
    from reprieve.ports.reader import JobView
    from reprieve.streams.connection import RedisConnection
    from reprieve.streams.dead_letters import StreamDeadLetter

PIPELINE: Final = "stream-dead-letters"
STAGE: Final = "replay"
MAX_COPIED_BYTES: Final = 262_144
"""A larger message is not copied: it stays in the dead-letter stream alone."""
_BATCH: Final = 100
_NEVER: Final = 10 * 365 * 86_400.0
"""Seconds that a job is put off when it is created. No worker claims it before it is a dead letter."""
_MAX_REASON: Final = 100
_MAX_LENGTHS: Final = {"error_class": 100, "category": 100, "message": 1000, "signature": 200, "fingerprint": 100}
_MAX_NAME: Final = 500
_STATUSES: Final = range(100, 1000)


@dataclass(frozen=True, slots=True)
class AdoptedDeadLetter:
    """The payload of an adopted dead letter's job."""

    queue: str
    dead_letter_id: str
    group: str
    message_id: str
    key: str
    original_message: str | None
    """The message byte for byte, as in the stream; None if it was too large or cannot be read."""


@dataclass(slots=True, kw_only=True)
class AdoptionResult:
    """What became of the dead letters that were to be adopted."""

    adopted: int = 0
    adopted_before: int = 0
    skipped: int = 0
    """Dead letters of integrations: a worker of the pipeline could not replay them."""


stream_dead_letters = Pipeline(PIPELINE, profile="orchestrator")


@stream_dead_letters.stage(idempotent=True, timeout=60)
async def replay(job: Job[AdoptedDeadLetter]) -> str:
    """Give the dead letter back to its group; return the id of the message."""
    wanted = job.payload
    redis = connect_redis(require_redis_url())
    try:
        done = await replay_dead_letters(redis, wanted.queue, [wanted.dead_letter_id], actor=f"job {job.id}")
    except StoreUnavailableError as error:
        raise Retryable(str(error), error_class=ErrorClass.CONNECTION_RESET, category=Category.NETWORK) from error
    finally:
        await redis.close()
    if done.replayed:
        return done.replayed[0].message_id
    (refused,) = done.refused
    if refused.closed is not None and refused.closed.outcome == REPLAYED:
        return refused.closed.message_id
    raise Permanent(refused.why)


def require_redis_url() -> str:
    """Return the Redis that a worker of the pipeline replays into; raise UsageError where none is set."""
    url = load_stream_settings().url
    if url is None:
        raise UsageError("this worker does not know the Redis: set REPRIEVE_STREAMS_URL, or url in [streams]")
    return url.get_secret_value()


async def adopt_dead_letters(
    redis: RedisConnection,
    app: App,
    queue: str,
    wanted: StreamDeadLetterFilter = StreamDeadLetterFilter(),  # noqa: B008 - frozen
    *,
    actor: str,
) -> AdoptionResult:
    """Copy dead letters of a queue into the store, each once by its queue and id. They stay in the stream."""
    who, result = actor_of(actor), AdoptionResult()
    batch: list[StreamDeadLetter] = []
    async for letter, _ in read_letters(redis, queue, wanted, newest_first=False):
        if letter.integration:
            result.skipped += 1
            continue
        batch.append(letter)
        if len(batch) == _BATCH:
            await _adopt(app, queue, batch, result)
            batch = []
    await _adopt(app, queue, batch, result)
    AUDIT.info("%s adopted %d dead letters of %s", who, result.adopted, queue)
    return result


async def _adopt(app: App, queue: str, letters: Sequence[StreamDeadLetter], result: AdoptionResult) -> None:
    """Create the jobs, then their dead letters. A crash in between leaves jobs that the next call finishes."""
    if not letters:
        return
    now = await app.journal.store.now()
    items = [
        Item(_payload(letter, queue), idempotency_key=_key(letter, queue), run_at=now + _NEVER) for letter in letters
    ]
    for letter, submission in zip(letters, await app.submit_many(stream_dead_letters, items), strict=True):
        view = await _unfinished(app, submission, now)
        if view is None:
            result.adopted_before += 1
            continue
        answer = await app.journal.ask(_dead_letter(letter, queue, view), patience=PATIENCE)
        if answer is Written.STALE:
            result.adopted_before += 1  # another call did it meanwhile
        else:
            result.adopted += 1


async def _unfinished(app: App, submission: Submission, now: float) -> JobView | None:
    """Return the job if it is no dead letter yet; None if an earlier call has finished it."""
    view = await asyncio.to_thread(app.reader.job, submission.job_id)
    if view is None or view.state is not QueueState.SCHEDULED or view.run_at is None:
        return None
    return view if view.run_at > now + _NEVER / 2 else None


def _key(letter: StreamDeadLetter, queue: str) -> str:
    return f"stream:{queue}:dlq:{letter.dead_letter_id}"


def _payload(letter: StreamDeadLetter, queue: str) -> AdoptedDeadLetter:
    text = None if letter.original is None else encode_fields(letter.original)
    return AdoptedDeadLetter(
        queue=queue,
        dead_letter_id=letter.dead_letter_id,
        group=writable(letter.group)[:_MAX_NAME],
        message_id=writable(letter.message_id)[:_MAX_NAME],
        key=writable(letter.key)[:_MAX_NAME],
        original_message=text if text is not None and len(text.encode()) <= MAX_COPIED_BYTES else None,
    )


def _dead_letter(letter: StreamDeadLetter, queue: str, view: JobView) -> Bury:
    failure, at = _failure(letter), time_of(letter.dead_letter_id)
    known = _known(letter, failure)
    reason = writable(redact(letter.reason))[:_MAX_REASON] or "adopted"
    attempts = min(max(1, letter.attempts), 10_000)
    first = letter.history.get("first_failure_at")
    started = first if isinstance(first, int | float) and 0 <= first <= at else at
    attempt = AttemptRecord(
        stage=STAGE,
        number=attempts,
        cause=Cause.HANDLER,
        counted=True,
        started_at=started,
        ended_at=at,
        worker_id=None,
        decision="dead_letter",
        reason=reason,
        error_type="retryable" if failure.retryable else "terminal",
        error_retryable=failure.retryable,
        status_code=failure.status_code,
        failure=failure.to_json(),
        failure_count=attempts,
        retry_at=None,
        **known,
    )
    record = DeadLetterRecord(
        pipeline=PIPELINE,
        stage=STAGE,
        last_stack=writable(redact(str(letter.context.get("stack", "")))),
        sanitized_context=json.dumps(_context(letter, queue), ensure_ascii=False),
        failure=failure.to_json(),
        reason=reason,
        policy="stream",
        attempts=attempts,
        budget=attempts,
        status_code=failure.status_code,
        pages=False,
        escalated=False,
        last_failure_at=at,
        **known,
    )
    return Bury(job_id=view.job_id, fence=view.fence, attempt=attempt, letter=record, unleased=True)


def _failure(letter: StreamDeadLetter) -> Failure:
    """Judge the text of the error anew; its class and category as they were written go before."""
    status = letter.context.get("status_code")
    return classify_facts(
        message=writable(redact(letter.error)),
        status=status if isinstance(status, int) and status in _STATUSES else None,
        profile="orchestrator",
        stage=STAGE,
    )


def _known(letter: StreamDeadLetter, failure: Failure) -> dict[str, str]:
    """What both records hold, as the consumer wrote it; what another program left out is taken from the text."""
    written = {
        "error_class": letter.error_class,
        "category": letter.category if letter.category in set(Category) else "",
        "message": letter.error,
        "signature": letter.context.get("signature"),
        "fingerprint": letter.context.get("fingerprint"),
    }
    return {
        name: writable(redact(value))[: _MAX_LENGTHS[name]]
        if isinstance(value, str) and value
        else getattr(failure, name)
        for name, value in written.items()
    }


def _context(letter: StreamDeadLetter, queue: str) -> dict[str, object]:
    left_out = {"error", "error_class", "category", "stack", "signature", "fingerprint", "evidence"}
    context: dict[object, object] = {
        "queue": queue,
        "group": letter.group,
        "message_id": letter.message_id,
        "dead_letter_id": letter.dead_letter_id,
        "idempotency_key": letter.key,  # redaction takes a field named `key` for a secret
    }
    context |= {name: value for name, value in letter.context.items() if name not in left_out}
    return redact_mapping(context)
