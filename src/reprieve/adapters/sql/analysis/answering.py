"""What a person's answer does: to a signature, which is settled by it; to a job, which goes on from its next stage."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from reprieve.adapters.sql.words import Ask
from reprieve.core.analysis import ReviewEvent, ReviewState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.adapters.sql.analysis.ruling import Held
    from reprieve.adapters.sql.words import Talk, Words
    from reprieve.ports.intents import Rule


def waits(words: Words, review: Held) -> Talk[bool]:
    """Whether what it is about still waits for a person; held, so that nobody else changes that."""
    if review.job_id is None:
        return bool((yield Ask(_signature_waits(words), {"signature": review.signature})))
    return bool((yield Ask(_job_waits(words), {"job_id": review.job_id})))


def answer(words: Words, review: Held, said: Rule) -> Talk[int | str]:
    """Do what was ruled; the fence that it left behind, or why it was not done."""
    if review.job_id is None:
        return (yield from _of_signature(words, review, said))
    if said.event is ReviewEvent.VERIFY:
        return (yield from _go_on(words, review, said))
    if said.event is ReviewEvent.REJECT:
        return (yield from _skip(words, review, said))
    return (yield from _take_back(words, review, said))


def _of_signature(words: Words, review: Held, said: Rule) -> Talk[int | str]:
    values = {"signature": review.signature, "now": said.now}
    match said.event:
        case ReviewEvent.VERIFY if said.answer is None:
            return "a verification brings an answer"
        case ReviewEvent.VERIFY:
            rows = yield Ask(_verify(words), {**values, "answer": said.answer, "question": review.question})
        case ReviewEvent.REJECT:
            rows = yield Ask(_reject(words), values)
        case _:
            before = "analyzed" if review.state is ReviewState.VERIFIED else "skipped"
            rows = yield Ask(_undo(words), {**values, "before": before, "fence": review.answered_fence})
    return rows[0][0] if rows else "its signature has changed since: look at it again"


def _go_on(words: Words, review: Held, said: Rule) -> Talk[int | str]:
    on = said.continuation
    if on is None or said.answer is None:
        return "the answer of a job says how it goes on"
    values = {
        "job_id": review.job_id, "stage": on.stage, "next_stage": on.next_stage, "result": said.answer,
        "result_type": on.result_type, "now": said.now,
    }  # fmt: skip
    if on.next_stage is None:
        rows = yield Ask(_standing(words), {"job_id": review.job_id})
        yield Ask(_leave(words), {"job_id": review.job_id})
        yield Ask(_finish(words), {**values, "fence": rows[0][0], "attempt": max(1, rows[0][1])})
        return int(rows[0][0])
    rows = yield Ask(_standing(words), {"job_id": review.job_id})
    fence = int(rows[0][0]) + 1
    yield Ask(_keep(words), {**values, "fence": fence, "attempt": max(1, rows[0][1])})
    yield Ask(_ready(words), {**values, "fence": fence})
    return fence


def _skip(words: Words, review: Held, said: Rule) -> Talk[int | str]:
    rows = yield Ask(_standing(words), {"job_id": review.job_id})
    fence, handler = rows[0]
    yield Ask(_leave(words), {"job_id": review.job_id})
    values = {
        "job_id": review.job_id, "stage": review.stage, "fence": fence, "attempt": max(1, handler), "now": said.now,
        "reason": said.note, "actor": said.actor,
    }  # fmt: skip
    yield Ask(_end_skipped(words), values)
    return int(fence)


def _take_back(words: Words, review: Held, said: Rule) -> Talk[int | str]:
    """Only while nobody has gone on with it."""
    values = {"job_id": review.job_id, "fence": review.answered_fence, "stage": review.stage, "now": said.now}
    if review.state is ReviewState.REJECTED:
        return (yield from _reopen(words, review, values))
    rows = yield Ask(_ask_again(words), values)
    if not rows:
        return f"job {review.job_id} has gone on since: what a person said of it cannot be taken back"
    yield Ask(_forget(words), values)
    return int(rows[0][0])


def _reopen(words: Words, review: Held, values: Mapping[str, object]) -> Talk[int | str]:
    """A rejected job waits for a person again; unless a later version of its subject has come, which it must not come after."""
    place = {"job_id": review.job_id}
    later = yield Ask(_later(words), place)
    if later:
        return f"version {later[0][0]} of its subject came after job {review.job_id}: that is the one to look at"
    rows = yield Ask(_requeue(words), values)
    if not rows:
        return f"job {review.job_id} is not as it was left: what a person said of it cannot be taken back"
    yield Ask(_unend(words), place)
    return int(rows[0][0])


# --- statements -------------------------------------------------------------------------------------------------------


@cache
def _signature_waits(words: Words) -> str:
    return f"""
    SELECT 1 FROM analysis_cache WHERE url_signature = {words.value("signature")} AND status = 'needs_review' {words.lock("FOR UPDATE")}
    """  # noqa: S608 - assembled from constants


@cache
def _job_waits(words: Words) -> str:
    return f"""
    SELECT 1 FROM queue WHERE job_id = {words.value("job_id", "bigint")} AND state = 3 AND substr(waits_on, 1, 6) = 'review'
    {words.lock("FOR UPDATE")}
    """  # noqa: S608 - assembled from constants


@cache
def _verify(words: Words) -> str:
    return f"""
    UPDATE analysis_cache SET status = 'analyzed', answer = {words.value("answer", "bytea")}, is_human_verified = true, model = NULL,
      question = COALESCE({words.value("question")}, question), error_type = NULL, error_reason = NULL, failure_count = 0,
      last_error_at = NULL, fence = fence + 1, changed_at = {words.value("now", "moment")}
    WHERE url_signature = {words.value("signature")} AND status = 'needs_review' RETURNING fence
    """  # noqa: S608 - assembled from constants


@cache
def _reject(words: Words) -> str:
    return f"""
    UPDATE analysis_cache SET status = 'skipped', is_human_verified = true, fence = fence + 1,
      changed_at = {words.value("now", "moment")}
    WHERE url_signature = {words.value("signature")} AND status = 'needs_review' RETURNING fence
    """  # noqa: S608 - assembled from constants


@cache
def _undo(words: Words) -> str:
    return f"""
    UPDATE analysis_cache SET status = 'needs_review', is_human_verified = false, answer = NULL, fence = fence + 1,
      changed_at = {words.value("now", "moment")}
    WHERE url_signature = {words.value("signature")} AND status = {words.value("before")} AND is_human_verified
      AND fence = {words.value("fence", "bigint")} RETURNING fence
    """  # noqa: S608 - assembled from constants


@cache
def _standing(words: Words) -> str:
    return f"SELECT fence, handler FROM queue WHERE job_id = {words.value('job_id', 'bigint')}"  # noqa: S608 - constants


@cache
def _leave(words: Words) -> str:
    return f"DELETE FROM queue WHERE job_id = {words.value('job_id', 'bigint')}"  # noqa: S608 - constants


@cache
def _keep(words: Words) -> str:
    now = words.value("now", "moment")
    return f"""
    INSERT INTO checkpoints (job_id, stage, fence, attempt, started_at, finished_at, result_type, result)
    VALUES ({words.value("job_id", "bigint")}, {words.value("stage")}, {words.value("fence", "bigint")},
      {words.value("attempt", "int")}, {now}, {now}, {words.value("result_type")}, {words.value("result", "bytea")})
    ON CONFLICT (job_id, stage) DO UPDATE
    SET fence = excluded.fence, attempt = excluded.attempt, started_at = excluded.started_at,
      finished_at = excluded.finished_at, result_type = excluded.result_type, codec = excluded.codec, result = excluded.result
    """  # noqa: S608 - assembled from constants


@cache
def _ready(words: Words) -> str:
    return f"""
    UPDATE queue SET state = 0, waits_on = NULL, run_at = NULL, stage = {words.value("next_stage")},
      fence = {words.value("fence", "bigint")}, opened_at = {words.value("now", "moment")}, alone = false, handler = 0, crash = 0,
      out_of_memory = 0, lost_lease = 0, deploy = 0
    WHERE job_id = {words.value("job_id", "bigint")}
    """  # noqa: S608 - assembled from constants


@cache
def _finish(words: Words) -> str:
    now = words.value("now", "moment")
    return f"""
    INSERT INTO outcomes (job_id, status, stage, fence, attempt, started_at, finished_at, result_type, result)
    VALUES ({words.value("job_id", "bigint")}, 'succeeded', {words.value("stage")}, {words.value("fence", "bigint")},
      {words.value("attempt", "int")}, {now}, {now}, {words.value("result_type")}, {words.value("result", "bytea")})
    """  # noqa: S608 - assembled from constants


@cache
def _end_skipped(words: Words) -> str:
    return f"""
    INSERT INTO outcomes (job_id, status, stage, fence, attempt, finished_at, reason, ended_by)
    VALUES ({words.value("job_id", "bigint")}, 'skipped', {words.value("stage")}, {words.value("fence", "bigint")},
      {words.value("attempt", "int")}, {words.value("now", "moment")}, {words.value("reason")}, {words.value("actor")})
    """  # noqa: S608 - assembled from constants


@cache
def _ask_again(words: Words) -> str:
    return f"""
    UPDATE queue SET state = 3, waits_on = 'review', stage = {words.value("stage")}, fence = fence + 1,
      opened_at = {words.value("now", "moment")}
    WHERE job_id = {words.value("job_id", "bigint")} AND fence = {words.value("fence", "bigint")} AND state = 0 RETURNING fence
    """  # noqa: S608 - assembled from constants


@cache
def _forget(words: Words) -> str:
    return f"""
    DELETE FROM checkpoints WHERE job_id = {words.value("job_id", "bigint")} AND fence = {words.value("fence", "bigint")}
    """  # noqa: S608 - assembled from constants


@cache
def _later(words: Words) -> str:
    return f"""
    SELECT newer.version FROM jobs JOIN jobs AS newer
      ON newer.pipeline = jobs.pipeline AND newer.subject = jobs.subject AND newer.version > jobs.version
    LEFT JOIN outcomes AS ended ON ended.job_id = newer.id
    WHERE jobs.id = {words.value("job_id", "bigint")} AND (ended.status IS NULL OR ended.status NOT IN ('dead_letter', 'cancelled'))
    ORDER BY newer.version DESC LIMIT 1
    """  # noqa: S608 - assembled from constants


@cache
def _requeue(words: Words) -> str:
    return f"""
    INSERT INTO queue (job_id, pipeline, stage, priority, state, waits_on, opened_at, fence)
    SELECT jobs.id, jobs.pipeline, outcomes.stage, jobs.priority, 3, 'review', {words.value("now", "moment")}, outcomes.fence + 1
    FROM outcomes JOIN jobs ON jobs.id = outcomes.job_id
    WHERE outcomes.job_id = {words.value("job_id", "bigint")} AND outcomes.fence = {words.value("fence", "bigint")}
      AND outcomes.stage = {words.value("stage")} AND outcomes.status = 'skipped' AND jobs.payload IS NOT NULL
    RETURNING fence
    """  # noqa: S608 - assembled from constants


@cache
def _unend(words: Words) -> str:
    return f"DELETE FROM outcomes WHERE job_id = {words.value('job_id', 'bigint')}"  # noqa: S608 - constants
