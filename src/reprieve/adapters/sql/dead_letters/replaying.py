"""Putting jobs back into the queue: from the stage that failed, from the first, or from a chosen one; with a payload that fits."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from reprieve.adapters.sql.dead_letters.entries import tell, told_before
from reprieve.adapters.sql.dead_letters.remedying import answer, cause_of, judge, look
from reprieve.adapters.sql.deliveries.resending import resend
from reprieve.adapters.sql.words import Ask, Put
from reprieve.core.lifecycle import JobStatus, LetterEvent, LetterState
from reprieve.ports.intents import CODEC_JSON, QueueState, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reprieve.adapters.sql.dead_letters.entries import Path
    from reprieve.adapters.sql.dead_letters.hand import Hand
    from reprieve.adapters.sql.dead_letters.remedying import Letter
    from reprieve.adapters.sql.words import Talk, Words
    from reprieve.ports.intents import Remedied, Replay, Revision, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How letters are to be replayed."""

    steps: Sequence[Step]
    actor: str
    now: float
    restart: bool
    stage: str | None
    revision: Revision | None = None
    campaign_id: int | None = None
    insists: bool = False

    @property
    def outdated(self) -> bool:
        """Whether a job is run again also where a later version of its subject came after it."""
        return self.insists or self.steps[-1].event is LetterEvent.OVERRIDE

    @property
    def from_the_first(self) -> bool:
        """Whether nothing that was done before counts; a payload that was wrong was wrong for every stage."""
        return self.stage is None and (self.restart or self.revision is not None)


class Finished(NamedTuple):
    """A stage with a result, by when."""

    finished_at: float
    started_at: float
    stage: str


class Job(NamedTuple):
    """What has to be known of a job to run it again."""

    job_id: int
    known: bool
    first_stage: str
    payload_kept: bool
    newer: int | None
    """A later version of its subject that people have been told of, or will be."""
    status: str
    """How it ended; empty: it did not."""
    fence: int
    failed_stage: str
    finished: list[Finished]


class Turn(NamedTuple):
    """A letter whose job is run again: from where, and what it forgets."""

    letter: Letter
    path: Path
    job: Job
    stage: str
    forgets: tuple[str, ...]
    """Stages whose results and memos go."""


def replay(hand: Hand, wanted: Replay) -> Talk[Remedied]:
    """Replay what can be replayed; why the rest cannot."""
    ids = tuple(dict.fromkeys(wanted.letters))
    done: set[int] = set()
    if hand.again:
        done = yield from told_before(hand.words, ids, wanted.steps, actor=wanted.actor, now=wanted.now)
    order = Order(
        steps=wanted.steps, actor=wanted.actor, now=wanted.now, restart=wanted.restart, stage=wanted.stage,
        revision=wanted.revision, insists=wanted.insists,
    )  # fmt: skip
    new = [each for each in ids if each not in done]
    refused = yield from put_back(hand, new, order, (yield from look(hand, new)))
    return answer(ids, refused)


def put_back(hand: Hand, ids: Sequence[int], order: Order, found: Mapping[int, Letter]) -> Talk[dict[int, Refused]]:
    """Put the jobs of these letters back into the queue, with fresh budgets; those that were refused."""
    words = hand.words
    judged, refused = judge(found, ids, order.steps)
    legal = [letter for _, letters in judged for letter in letters]
    jobs = yield from _jobs(words, [letter.job_id for letter in legal], order) if legal else _nothing()
    turns: list[Turn] = []
    for path, letters in judged:
        for letter in letters:
            turn = _turn(letter, path, jobs[letter.job_id], order)
            if isinstance(turn, str):
                refused[letter.letter_id] = Refused(letter_id=letter.letter_id, state=letter.state, why=turn)
            else:
                turns.append(turn)
    if turns:
        yield from _forget(words, turns)
        revision = order.revision
        number = None if revision is None else (yield from _revise(words, turns[0], order, revision))
        yield from _write(words, turns, order, number)
        for path, _ in judged:
            groups = [turn.letter.group_id for turn in turns if turn.path is path]
            hand.tally.moved(groups, path.before, LetterState.REPLAYING)
    return refused


def _nothing() -> Talk[dict[int, Job]]:
    return {}
    yield  # type: ignore[unreachable]  # a talk in which nothing is asked


def _turn(letter: Letter, path: Path, job: Job, order: Order) -> Turn | str:
    """From where the job is run, or why it cannot be."""
    trouble = _trouble(job, outdated=order.outdated)
    if trouble is not None:
        return trouble
    failed = job.failed_stage
    done = [each.stage for each in sorted(job.finished)]
    if order.from_the_first:
        # Also what the stage that failed remembers, were it the first.
        return Turn(letter, path, job, job.first_stage, (*dict.fromkeys((*done, failed)),))
    chosen = failed if order.stage is None else order.stage
    if chosen in done:
        # Of two that ended at the same time, neither is known to have come after the other: both keep what they have.
        begins = next(each for each in job.finished if each.stage == chosen)
        later = [each.stage for each in job.finished if each[:2] > begins[:2]]
        return Turn(letter, path, job, chosen, (*dict.fromkeys((chosen, *later, failed)),))
    if chosen != failed:
        named = ", ".join((*done, failed))
        return f"it can be replayed from these stages of its job: {named}; not from {chosen!r}"
    return Turn(letter, path, job, failed, () if order.revision is None else (failed,))


def _trouble(job: Job, *, outdated: bool) -> str | None:
    """Why a job cannot be run again, wherever it were to begin."""
    if job.known and job.payload_kept and job.status == JobStatus.DEAD_LETTER and (job.newer is None or outdated):
        return None
    troubles = (
        (not job.known, f"its job {job.job_id} was pruned"),
        (not job.payload_kept, f"the payload of its job {job.job_id} was erased"),
        (not job.status, f"its job {job.job_id} is not over"),
        (
            job.status == JobStatus.SUCCEEDED,
            f"its job {job.job_id} has succeeded: there is nothing to replay, only to verify and to resolve",
        ),
        (job.status != JobStatus.DEAD_LETTER, f"its job {job.job_id} is {job.status}"),
        (
            job.newer is not None and not outdated,
            f"version {job.newer} of its subject came after it, and people would hear of the older one last: give an override",
        ),
    )
    return next((why for applies, why in troubles if applies), None)


def _jobs(words: Words, job_ids: Sequence[int], order: Order) -> Talk[dict[int, Job]]:
    """The jobs, which are kept from being erased or pruned meanwhile; stages they have finished where that matters."""
    these = {"jobs": words.listed(job_ids)}
    known = {row[0]: row for row in (yield Ask(_known(words), these))}
    ended = {row[0]: row for row in (yield Ask(_ended(words), these))}
    finished: dict[int, list[Finished]] = {}
    if order.stage is not None or order.from_the_first:
        for job_id, *stage in (yield Ask(_finished(words), these)):
            finished.setdefault(job_id, []).append(Finished(*stage))
    jobs = {}
    for job_id in job_ids:
        _, first_stage, payload_kept, newer = known.get(job_id, (job_id, "", False, None))
        _, status, fence, failed_stage = ended.get(job_id, (job_id, "", 0, ""))
        jobs[job_id] = Job(
            job_id,
            job_id in known,
            first_stage,
            payload_kept,
            newer,
            status,
            fence,
            failed_stage,
            finished.get(job_id, []),
        )
    return jobs


def _forget(words: Words, turns: Sequence[Turn]) -> Talk[None]:
    """Drop the results and memos of stages that are run again."""
    forgotten = [(turn.job.job_id, stage) for turn in turns for stage in turn.forgets]
    if forgotten:
        yield Put(_drop(words, "checkpoints"), forgotten)
        yield Put(_drop(words, "memos"), forgotten)


def _revise(words: Words, turn: Turn, order: Order, revision: Revision) -> Talk[int]:
    """Keep the payload that was wrong, and put the new one in its place; the number of the kept one."""
    job: dict[str, Any] = {"job": turn.job.job_id}
    ((number,),) = yield Ask(_next_revision(words), job)
    yield Ask(_keep_payload(words), {**job, "number": number, "now": order.now, "actor": order.actor})
    new = {"payload": revision.payload, "payload_type": revision.payload_type, "codec": CODEC_JSON}
    yield Ask(_new_payload(words), {**job, **new})
    return int(number)


def _write(words: Words, turns: Sequence[Turn], order: Order, number: int | None) -> Talk[None]:
    these = [turn.job.job_id for turn in turns]
    for stage in dict.fromkeys(turn.stage for turn in turns):
        alike = words.listed(turn.job.job_id for turn in turns if turn.stage == stage)
        yield Ask(_enqueue(words), {"jobs": alike, "stage": stage, "state": QueueState.READY.value})
    yield Ask(_reopen(words), {"jobs": words.listed(these)})
    yield from resend(words, these, actor=order.actor, now=order.now)
    cause = cause_of(order.steps)
    for path, stage, ids in _alike(turns):
        values = {
            "ids": words.listed(ids), "campaign": order.campaign_id, "cause": None if cause is None else cause.value,
            "escalates": path.escalates, "anew": path.begins_anew,
        }  # fmt: skip
        yield Ask(_move(words), values)
        *first, last = order.steps
        last = replace(last, detail=_detail(last, stage, order, number))
        yield from tell(words, ids, path, [*first, last], actor=order.actor, now=order.now)


def _alike(turns: Iterable[Turn]) -> list[tuple[Path, str, list[int]]]:
    """The letters whose history tells the same."""
    alike: dict[tuple[int, str], tuple[Path, str, list[int]]] = {}
    for turn in turns:
        # By identity: all that were in one state share a path, and a path is not hashed for each of thousands.
        key = (id(turn.path), turn.stage)
        if key not in alike:
            alike[key] = (turn.path, turn.stage, [])
        alike[key][2].append(turn.letter.letter_id)
    return list(alike.values())


def _detail(last: Step, stage: str, order: Order, number: int | None) -> str:
    detail = {**json.loads(last.detail), "stage": stage, "restart": order.restart}
    if number is not None:
        detail["revision"] = number
    if order.campaign_id is not None:
        detail["campaign"] = order.campaign_id
    return json.dumps(detail, ensure_ascii=False)


# --- statements -------------------------------------------------------------------------------------------------------


@cache
def _known(words: Words) -> str:
    return f"""
    SELECT id, first_stage, payload IS NOT NULL, (
      SELECT max(newer.version) FROM jobs AS newer LEFT JOIN outcomes AS ended ON ended.job_id = newer.id
      WHERE newer.pipeline = jobs.pipeline AND newer.subject = jobs.subject AND newer.version > jobs.version
        AND (ended.status IS NULL OR ended.status NOT IN ('dead_letter', 'cancelled')))
    FROM jobs WHERE id {words.among("jobs")}
    ORDER BY id {words.lock("FOR KEY SHARE")}
    """  # noqa: S608 - assembled from constants


@cache
def _ended(words: Words) -> str:
    return f"SELECT job_id, status, fence, stage FROM outcomes WHERE job_id {words.among('jobs')}"  # noqa: S608 - constants


@cache
def _finished(words: Words) -> str:
    return f"SELECT job_id, finished_at, started_at, stage FROM checkpoints WHERE job_id {words.among('jobs')}"  # noqa: S608 - constants


@cache
def _drop(words: Words, table: str) -> str:
    given = words.each(job_id="bigint", stage="text")
    return f"DELETE FROM {table} WHERE (job_id, stage) IN (SELECT job_id, stage FROM {given})"  # noqa: S608 - constants


@cache
def _next_revision(words: Words) -> str:
    return f"SELECT COALESCE(max(number), 0) + 1 FROM revisions WHERE job_id = {words.value('job', 'bigint')}"  # noqa: S608 - constants


@cache
def _keep_payload(words: Words) -> str:
    return f"""
    INSERT INTO revisions (job_id, number, replaced_at, replaced_by, payload_type, codec, payload)
    SELECT id, {words.value("number", "integer")}, {words.value("now", "moment")}, {words.value("actor")}, payload_type, codec, payload
    FROM jobs WHERE id = {words.value("job", "bigint")}
    """  # noqa: S608 - assembled from constants


@cache
def _new_payload(words: Words) -> str:
    return f"""
    UPDATE jobs SET payload = {words.value("payload", "bytea")}, payload_type = {words.value("payload_type")},
      codec = {words.value("codec", "smallint")}
    WHERE id = {words.value("job", "bigint")}
    """  # noqa: S608 - assembled from constants


@cache
def _reopen(words: Words) -> str:
    return f"DELETE FROM outcomes WHERE job_id {words.among('jobs')}"  # noqa: S608 - constants


# Before the outcomes go, which know the last fence.
@cache
def _enqueue(words: Words) -> str:
    return f"""
    INSERT INTO queue (job_id, pipeline, stage, priority, state, fence)
    SELECT jobs.id, jobs.pipeline, {words.value("stage")}, jobs.priority, {words.value("state", "smallint")}, outcomes.fence + 1
    FROM outcomes JOIN jobs ON jobs.id = outcomes.job_id WHERE outcomes.job_id {words.among("jobs")} ORDER BY outcomes.job_id
    """  # noqa: S608 - assembled from constants


@cache
def _move(words: Words) -> str:
    return f"""
    UPDATE dead_letters SET state = 'replaying', replays = replays + 1, campaign_id = {words.value("campaign", "bigint")},
      cause = COALESCE({words.value("cause")}, CASE WHEN NOT {words.value("anew", "boolean")} THEN cause END), escalated = escalated OR {words.value("escalates", "boolean")},
      closed_at = NULL
    WHERE id {words.among("ids")}
    """  # noqa: S608 - assembled from constants
