"""Giving jobs up: the dead letter, its texts, its group and the end of the job, for all burials of a batch at once.

A job that was replayed and dies again comes back to the letter it had: one history, however often it dies.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reprieve.adapters.sql.dead_letters.entries import ENGINE
from reprieve.adapters.sql.dead_letters.members import Members
from reprieve.adapters.sql.words import Ask, Put, rows_as_json
from reprieve.core.canary import MemberState
from reprieve.core.decide import FOR_GOOD
from reprieve.core.lifecycle import (
    DEAD_LETTER_STATUS,
    JobStatus,
    LetterEvent,
    LetterState,
    after_another_death,
    letter_after,
)
from reprieve.ports.intents import AttemptRecord, QueueState, Written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reprieve.adapters.sql.dead_letters.tally import Tally
    from reprieve.adapters.sql.words import Talk, Words
    from reprieve.ports.intents import Bury, DeadLetterRecord

    Kind = tuple[str, str, str, str, str]

_ATTEMPT: Final = {field.name: "text" for field in fields(AttemptRecord)} | {
    "number": "integer", "counted": "boolean", "started_at": "moment", "ended_at": "moment", "worker_id": "bigint",
    "error_retryable": "boolean", "status_code": "integer", "failure_count": "integer", "retry_at": "moment",
}  # fmt: skip
_OUTCOME: Final = {
    "job_id": "bigint", "status": "text", "status_code": "smallint", "stage": "text", "fence": "bigint", "attempt": "smallint",
    "started_at": "moment", "finished_at": "moment", "reason": "text",
}  # fmt: skip
_LETTER: Final = {
    "job_id": "bigint", "fence": "bigint", "state": "text", "group_id": "bigint", "signature": "text", "status_code": "integer",
    "attempts": "integer", "budget": "integer", "pages": "boolean", "escalated": "boolean", "last_failure_at": "moment",
    "opened_at": "moment",
}  # fmt: skip
_TEXTS: Final = ("message", "last_stack", "sanitized_context", "failure", "reason", "policy")
_KIND: Final = ("fingerprint", "pipeline", "stage", "error_class", "category")
_ENTRY: Final = {
    "letter_id": "bigint", "at": "moment", "actor": "text", "event": "text", "before": "text", "after": "text", "note": "text",
    "detail": "text",
}  # fmt: skip


class Earlier(NamedTuple):
    """What stands about a job that dies again."""

    letter_id: int
    job_id: int
    state: str
    group_id: int
    campaign_id: int | None
    error_class: str
    stage: str
    fingerprint: str
    message: str | None
    reason: str | None
    attempts: int


@dataclass(frozen=True, slots=True)
class Death:
    """One burial, and what it makes of the letter."""

    said: Bury
    earlier: Earlier | None

    @property
    def event(self) -> LetterEvent | None:
        """What it means for the letter; None for a first death."""
        if self.earlier is None:
            return None
        return after_another_death(
            before=self.earlier.error_class,
            error_class=self.said.letter.error_class,
            # A conflict can be retried; where the stage is not idempotent it is given up at once all the same.
            retryable=self.said.attempt.error_retryable and self.said.letter.reason not in FOR_GOOD,
        )

    @property
    def state(self) -> LetterState:
        """What the letter is now."""
        return LetterState.OPEN if self.event is None else letter_after(LetterState.REPLAYING, self.event)

    @property
    def answer(self) -> Written:
        """What its worker is told."""
        return Written.ESCALATED if self.event is LetterEvent.RELAPSE else Written.APPLIED


def hold(words: Words, burials: Sequence[Bury]) -> Talk[list[Bury]]:
    """Lock the jobs; of the burials, those whose fence is the job's."""
    rows = yield Ask(_standing(words), {"jobs": words.listed(each.job_id for each in burials)})
    standing = {job_id: (fence, state == QueueState.LEASED) for job_id, fence, state in rows}
    return [each for each in burials if standing.get(each.job_id) == (each.fence, not each.unleased)]


def letters_of(words: Words, burials: Sequence[Bury]) -> Talk[list[int]]:
    """The letters of those that have died before."""
    rows = yield Ask(_letters(words), {"jobs": words.listed(each.job_id for each in burials)})
    return [row[0] for row in rows]


def bury(words: Words, burials: Sequence[Bury], letters: Sequence[int], tally: Tally) -> Talk[dict[int, Written]]:
    """Give these jobs up, whose fences hold; the answers, by job."""
    earlier: dict[int, Earlier] = {}
    if letters:
        rows = yield Ask(_earlier(words), {"ids": words.listed(letters)})
        earlier = {found.job_id: found for found in map(Earlier._make, rows)}
    deaths = [Death(each, earlier.get(each.job_id)) for each in burials]
    groups = yield from _groups(words, burials)
    yield from _end(words, burials)
    yield from _write_letters(words, deaths, groups)
    again = [(death, death.earlier) for death in deaths if death.earlier is not None]
    yield from _tell(words, again, tally)
    yield from _pause(words, burials)
    for death in deaths:
        group_id = groups[_kind(death.said.letter)]
        if death.earlier is not None:
            tally.went(death.earlier.group_id, death.earlier.state)
        tally.came(group_id, death.state)
        tally.died(group_id, death.said.attempt.ended_at)
    return {death.said.job_id: death.answer for death in deaths}


def buried_before(words: Words, burials: Sequence[Bury]) -> Talk[dict[int, Written]]:
    """Which of these an earlier try, whose outcome was unknown, has buried, and what it answered."""
    rows = yield Ask(_before(words), {"jobs": words.listed(each.job_id for each in burials)})
    found = {(job_id, fence, decision): event for job_id, fence, decision, event in rows}
    answers = {}
    for each in burials:
        key = (each.job_id, each.fence, each.attempt.decision)
        if key in found:
            answers[each.job_id] = Written.ESCALATED if found[key] == LetterEvent.RELAPSE else Written.APPLIED
    return answers


def _kind(letter: DeadLetterRecord) -> Kind:
    return (letter.fingerprint, letter.pipeline, letter.stage, letter.error_class, letter.category)


def _groups(words: Words, burials: Sequence[Bury]) -> Talk[Mapping[Kind, int]]:
    """The ids of the groups, those that are new made in the order of their keys."""
    first: dict[Kind, Bury] = {}
    for each in sorted(burials, key=lambda said: said.attempt.ended_at):
        first.setdefault(_kind(each.letter), each)
    found = yield from _groups_there_are(words, list(first))
    missing = sorted(kind for kind in first if kind not in found)
    if missing:
        new = [(*kind, first[kind].letter.signature, first[kind].attempt.ended_at) for kind in missing]
        yield Put(_make_groups(words), new)
        found |= yield from _groups_there_are(words, missing)
    return found


def _groups_there_are(words: Words, kinds: Sequence[Kind]) -> Talk[dict[Kind, int]]:
    rows = yield Ask(_find_groups(words), {"kinds": rows_as_json(kinds)})
    return {(row[1], row[2], row[3], row[4], row[5]): row[0] for row in rows}


def _end(words: Words, burials: Sequence[Bury]) -> Talk[None]:
    """Take the jobs out of the queue; write how they ended, and their last attempts."""
    yield Ask(_drop(words), {"jobs": words.listed(each.job_id for each in burials)})
    status, code = JobStatus.DEAD_LETTER.value, DEAD_LETTER_STATUS
    outcomes = [
        (each.job_id, status, code, each.attempt.stage, each.fence, each.attempt.number, each.attempt.started_at,
         each.attempt.ended_at, each.letter.reason)
        for each in burials
    ]  # fmt: skip
    yield Put(_outcomes(words), outcomes)
    attempts = [(each.job_id, each.fence, *[getattr(each.attempt, name) for name in _ATTEMPT]) for each in burials]
    yield Put(_attempts(words), attempts)


def _write_letters(words: Words, deaths: Sequence[Death], groups: Mapping[Kind, int]) -> Talk[None]:
    rows, texts = [], []
    for death in deaths:
        said, letter = death.said, death.said.letter
        escalated = letter.escalated or death.event is LetterEvent.RELAPSE
        rows.append(
            (said.job_id, said.fence, death.state.value, groups[_kind(letter)], letter.signature, letter.status_code,
             letter.attempts, letter.budget, letter.pages, escalated, letter.last_failure_at, said.attempt.ended_at,
             said.attempt.stage)
        )  # fmt: skip
        texts.append((said.job_id, *[getattr(letter, name) for name in _TEXTS]))
    yield Put(_write(words), rows)
    yield Put(_say(words), texts)


def _tell(words: Words, again: Sequence[tuple[Death, Earlier]], tally: Tally) -> Talk[None]:
    """What is written where somebody has died before: an entry of the history, and what became of the campaign's member."""
    entries, members = [], Members()
    for death, earlier in again:
        event = LetterEvent.FAIL if death.event is None else death.event
        entries.append(
            (earlier.letter_id, death.said.attempt.ended_at, ENGINE, event.value, earlier.state, death.state.value, "",
             _detail(death.said.letter, earlier))
        )  # fmt: skip
        if earlier.campaign_id is not None:
            same = death.said.letter.fingerprint == earlier.fingerprint
            state = MemberState.RETURNED if same else MemberState.FAILED
            members.add(earlier.campaign_id, earlier.letter_id, state)
    if entries:
        yield Put(_tell_of(words), entries)
    yield from members.write(words, tally)


def _detail(letter: DeadLetterRecord, earlier: Earlier) -> str:
    """What it has failed with, and what it had failed with before."""
    names = ("error_class", "stage", "fingerprint", "message", "reason", "attempts")
    detail: dict[str, Any] = {name: getattr(letter, name) for name in names}
    return json.dumps({**detail, "before": {name: getattr(earlier, name) for name in names}}, ensure_ascii=False)


def _pause(words: Words, burials: Sequence[Bury]) -> Talk[None]:
    """Pause the stages of failures that every other job would meet too; the first one says why."""
    pauses: dict[tuple[str, str], tuple[str, float]] = {}
    for each in burials:
        if each.pause:
            attempt = each.attempt
            pauses.setdefault((each.letter.pipeline, attempt.stage), (attempt.error_class, attempt.ended_at))
    if pauses:
        yield Put(_paused(words), [(*place, ENGINE, *why) for place, why in sorted(pauses.items())])


# --- statements -------------------------------------------------------------------------------------------------------


@cache
def _standing(words: Words) -> str:
    return f"""
    SELECT job_id, fence, state FROM queue WHERE job_id {words.among("jobs")} ORDER BY job_id {words.lock("FOR UPDATE")}
    """  # noqa: S608 - assembled from constants


@cache
def _letters(words: Words) -> str:
    return f"SELECT id FROM dead_letters WHERE job_id {words.among('jobs')}"  # noqa: S608 - constants


@cache
def _earlier(words: Words) -> str:
    return f"""
    SELECT letter.id, letter.job_id, letter.state, letter.group_id, letter.campaign_id, kind.error_class, kind.stage,
      kind.fingerprint, said.message, said.reason, letter.attempts
    FROM dead_letters letter JOIN dead_letter_groups kind ON kind.id = letter.group_id
    LEFT JOIN dead_letter_texts said ON said.letter_id = letter.id
    WHERE letter.id {words.among("ids")}
    """  # noqa: S608 - assembled from constants


@cache
def _before(words: Words) -> str:
    return f"""
    SELECT attempt.job_id, attempt.fence, attempt.decision, entry.event
    FROM attempts attempt JOIN dead_letters letter ON letter.job_id = attempt.job_id
    LEFT JOIN dead_letter_history entry
      ON entry.letter_id = letter.id AND entry.at = attempt.ended_at AND entry.event IN ('fail', 'relapse')
    WHERE attempt.job_id {words.among("jobs")} AND attempt.decision IN ('dead_letter', 'abort')
    """  # noqa: S608 - assembled from constants


@cache
def _find_groups(words: Words) -> str:
    same = " AND ".join(f"kind.{name} = given.{name}" for name in _KIND)
    return f"""
    SELECT kind.id, {", ".join(f"kind.{name}" for name in _KIND)}
    FROM {words.given("kinds", **dict.fromkeys(_KIND, "text"))} JOIN dead_letter_groups kind ON {same}
    """  # noqa: S608 - assembled from constants


@cache
def _make_groups(words: Words) -> str:
    given = words.each(**dict.fromkeys((*_KIND, "signature"), "text"), at="moment")
    return f"""
    INSERT INTO dead_letter_groups ({", ".join(_KIND)}, signature, first_seen, last_seen)
    SELECT {", ".join(_KIND)}, signature, at, at FROM {given} WHERE true
    ON CONFLICT DO NOTHING
    """  # noqa: S608 - assembled from constants


@cache
def _drop(words: Words) -> str:
    return f"DELETE FROM queue WHERE job_id {words.among('jobs')}"  # noqa: S608 - constants


def _insertion(table: str, words: Words, kinds: Mapping[str, str]) -> str:
    names = ", ".join(kinds)
    return f"INSERT INTO {table} ({names}) SELECT {names} FROM {words.each(**kinds)}"  # noqa: S608 - names of ours


@cache
def _outcomes(words: Words) -> str:
    return _insertion("outcomes", words, _OUTCOME)


@cache
def _attempts(words: Words) -> str:
    return _insertion("attempts", words, {"job_id": "bigint", "fence": "bigint", **_ATTEMPT})


@cache
def _tell_of(words: Words) -> str:
    return _insertion("dead_letter_history", words, _ENTRY)


# The first failure is the earliest attempt at the stage, and stays what it was when the job dies again.
@cache
def _write(words: Words) -> str:
    first = (
        "(SELECT min(ended_at) FROM attempts WHERE attempts.job_id = given.job_id AND attempts.stage = given.at_stage)"
    )
    kept = {"job_id", "opened_at", "last_failure_at"}
    changes = ", ".join(f"{name} = excluded.{name}" for name in _LETTER if name not in kept)
    return f"""
    INSERT INTO dead_letters ({", ".join(_LETTER)}, first_failure_at)
    SELECT {", ".join(_LETTER)}, {words.least}(last_failure_at, {first})
    FROM {words.each(**_LETTER, at_stage="text")} WHERE true
    ON CONFLICT (job_id) DO UPDATE SET {changes},
      cause = CASE WHEN excluded.state = 'open' THEN NULL ELSE dead_letters.cause END,
      last_failure_at = {words.greatest}(excluded.last_failure_at, dead_letters.first_failure_at)
    """  # noqa: S608 - assembled from constants


@cache
def _say(words: Words) -> str:
    texts = ", ".join(_TEXTS)
    return f"""
    INSERT INTO dead_letter_texts (letter_id, {texts})
    SELECT letter.id, {texts} FROM {words.each(job_id="bigint", **dict.fromkeys(_TEXTS, "text"))}
    JOIN dead_letters letter ON letter.job_id = given.job_id WHERE true
    ON CONFLICT (letter_id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _TEXTS)}
    """  # noqa: S608 - assembled from constants


@cache
def _paused(words: Words) -> str:
    names = {"pipeline": "text", "stage": "text", "paused_by": "text", "reason": "text", "changed_at": "moment"}
    return f"""
    INSERT INTO stages (paused, {", ".join(names)}) SELECT true, {", ".join(names)} FROM {words.each(**names)} WHERE true
    ON CONFLICT (pipeline, stage) DO UPDATE
    SET paused = true, paused_by = excluded.paused_by, reason = excluded.reason, changed_at = excluded.changed_at
    WHERE NOT stages.paused
    """  # noqa: S608 - assembled from constants
