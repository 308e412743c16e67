"""What people and the engine do about dead letters short of replaying them: steps of triage, and settling what was replayed."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from reprieve.adapters.sql.dead_letters.entries import ENGINE, Path, move, tell, told_before
from reprieve.adapters.sql.dead_letters.members import Members
from reprieve.adapters.sql.words import Ask
from reprieve.core.canary import MemberState
from reprieve.core.lifecycle import JobStatus, LetterEvent, LetterState
from reprieve.errors import IllegalTransitionError
from reprieve.ports.intents import Refused, Remedied, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reprieve.adapters.sql.dead_letters.hand import Hand
    from reprieve.adapters.sql.words import Talk, Words
    from reprieve.core.remedies import RootCause
    from reprieve.ports.intents import Remedy, Settle


class Letter(NamedTuple):
    """What has to be known of a letter to judge what is wanted of it."""

    letter_id: int
    state: LetterState
    group_id: int
    job_id: int
    replays: int


class Judged(NamedTuple):
    """Letters that all can go the same way."""

    path: Path
    letters: list[Letter]


_STATES: Final = {state.value: state for state in LetterState}


def look(hand: Hand, ids: Iterable[int]) -> Talk[dict[int, Letter]]:
    """Those of these letters that are held, as they are."""
    words = hand.words
    rows = yield Ask(_look(words), {"ids": words.listed(each for each in ids if each in hand.held)})
    return {row[0]: Letter(row[0], _STATES[row[1]], *row[2:]) for row in rows}


def judge(
    found: Mapping[int, Letter], wanted: Iterable[int], steps: Sequence[Step], *, replays: bool = True
) -> tuple[list[Judged], dict[int, Refused]]:
    """Which letters can take these steps, by the state they are in; why the others cannot."""
    paths: dict[LetterState, Judged | str] = {}
    refused: dict[int, Refused] = {}
    for letter_id in wanted:
        letter = found.get(letter_id)
        if letter is None:
            refused[letter_id] = Refused(letter_id=letter_id, state=None, why=f"there is no dead letter {letter_id}")
            continue
        if letter.state not in paths:
            paths[letter.state] = _way(letter.state, steps, replays=replays)
        way = paths[letter.state]
        if isinstance(way, str):
            refused[letter_id] = Refused(letter_id=letter_id, state=letter.state, why=way)
        else:
            way.letters.append(letter)
    return [way for way in paths.values() if isinstance(way, Judged)], refused


_ENGINES: Final = frozenset({LetterEvent.RECOVER, LetterEvent.FAIL, LetterEvent.RELAPSE, LetterEvent.WITHDRAW})
_REPLAYS: Final = frozenset({LetterEvent.REPLAY, LetterEvent.OVERRIDE})


def _way(state: LetterState, steps: Sequence[Step], *, replays: bool) -> Judged | str:
    events = [step.event for step in steps]
    strays = [event for event in (events[:-1] if replays else events) if event in _ENGINES | _REPLAYS]
    if replays and (not events or events[-1] not in _REPLAYS):
        return "the last step of a replay is the replay"
    if strays:
        return f"{strays[0]} is not a step that is taken by itself"
    try:
        return Judged(Path.of(state, events), [])
    except IllegalTransitionError as error:
        return str(error)


def cause_of(steps: Sequence[Step]) -> RootCause | None:
    """What the last of these that names a cause names."""
    return next((step.cause for step in reversed(steps) if step.cause is not None), None)


def remedy(hand: Hand, wanted: Remedy) -> Talk[Remedied]:
    """Take the steps, for all letters that are in one state at once."""
    words = hand.words
    ids = tuple(dict.fromkeys(wanted.letters))
    done: set[int] = set()
    if hand.again:
        done = yield from told_before(words, ids, wanted.steps, actor=wanted.actor, now=wanted.now)
    found = yield from look(hand, ids)
    judged, refused = judge(found, [each for each in ids if each not in done], wanted.steps, replays=False)
    for path, letters in judged:
        these = [letter.letter_id for letter in letters]
        yield from move(words, these, path, cause=cause_of(wanted.steps), now=wanted.now)
        yield from tell(words, these, path, wanted.steps, actor=wanted.actor, now=wanted.now)
        hand.tally.moved([letter.group_id for letter in letters], path.before, path.after)
    return answer(ids, refused)


def answer(ids: Sequence[int], refused: dict[int, Refused]) -> Remedied:
    """What was done, in the order in which it was asked for."""
    return Remedied(
        applied=tuple([each for each in ids if each not in refused]),
        refused=tuple([refused[each] for each in ids if each in refused]),
    )


_ENDS: Final = {
    JobStatus.SUCCEEDED: (LetterEvent.RECOVER, MemberState.CONFIRMED),
    JobStatus.CANCELLED: (LetterEvent.WITHDRAW, MemberState.FAILED),
    JobStatus.SKIPPED: (LetterEvent.WITHDRAW, MemberState.FAILED),
}
"""What the end of a replayed job means for its letter, and for the campaign that replayed it."""


def settle(hand: Hand, wanted: Settle) -> Talk[int]:
    """Write down which replayed jobs are over."""
    words = hand.words
    rows = yield Ask(_over(words), {"limit": wanted.limit})
    members = Members()
    for status, (event, member) in _ENDS.items():
        ended = [row for row in rows if row[2] == status]
        if not ended:
            continue
        ids = [row[0] for row in ended]
        path = Path.of(LetterState.REPLAYING, [event])
        step = Step(event=event, note="", detail=json.dumps({"status": status.value}))
        yield from move(words, ids, path, cause=None, now=wanted.now)
        yield from tell(words, ids, path, [step], actor=ENGINE, now=wanted.now)
        hand.tally.moved([row[1] for row in ended], path.before, path.after)
        for letter_id, _, _, campaign_id in ended:
            if campaign_id is not None:
                members.add(campaign_id, letter_id, member)
    yield from members.write(words, hand.tally)
    return len(rows)


@cache
def _look(words: Words) -> str:
    return f"SELECT id, state, group_id, job_id, replays FROM dead_letters WHERE id {words.among('ids')}"  # noqa: S608 - constants


# What somebody else has locked is being settled, or buried again, by them.
@cache
def _over(words: Words) -> str:
    return f"""
    SELECT letter.id, letter.group_id, ended.status, letter.campaign_id
    FROM dead_letters letter JOIN outcomes ended ON ended.job_id = letter.job_id
    WHERE letter.state = 'replaying' AND ended.status IN ('succeeded', 'cancelled', 'skipped')
    ORDER BY letter.last_failure_at, letter.id LIMIT {words.value("limit", "bigint")}
    {words.lock("FOR UPDATE OF letter SKIP LOCKED")}
    """  # noqa: S608 - assembled from constants
