"""The one way in: what a batch says about dead letters, burials first, the rest in the order of saying.

Whatever is waited for is waited for at the start, always in the same order: jobs in the queue, campaigns, letters, each by
its id. New groups come after that, and the counts at the very end. So two batches cannot lock each other out.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, assert_never

from reprieve.adapters.sql.dead_letters import burying, campaigning, remedying, replaying
from reprieve.adapters.sql.dead_letters.hand import Hand
from reprieve.adapters.sql.dead_letters.tally import Tally
from reprieve.adapters.sql.talking import on_postgres, on_sqlite
from reprieve.adapters.sql.words import POSTGRES, SQLITE, Ask
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from reprieve.adapters.sql.dead_letters.campaigning import Enlisted
    from reprieve.adapters.sql.postgres.link import Cursor
    from reprieve.adapters.sql.words import Talk, Words

    Other = i.Remedy | i.Replay | i.Settle | i.Gather | i.Enlist | i.Steer | i.Launch


def apply_on_sqlite(connection: sqlite3.Connection, intents: list[i.LetterIntent], again: bool) -> Sequence[i.Answer]:  # noqa: FBT001 - a handler's shape
    """Apply them on SQLite."""
    return on_sqlite(connection, apply(SQLITE, intents, again=again))


async def apply_on_postgres(cursor: Cursor, intents: list[i.LetterIntent], again: bool) -> Sequence[i.Answer]:  # noqa: FBT001 - a handler's shape
    """Apply them on PostgreSQL."""
    return await on_postgres(cursor, apply(POSTGRES, intents, again=again))


def apply(words: Words, intents: Sequence[i.LetterIntent], *, again: bool) -> Talk[list[i.Answer]]:
    """Apply all of them, and write the counts."""
    burials = [each for each in intents if isinstance(each, i.Bury)]
    others = [each for each in intents if not isinstance(each, i.Bury)]
    tally = Tally()
    mine = (yield from burying.hold(words, burials)) if burials else []
    letters = (yield from burying.letters_of(words, mine)) if mine else []
    members = yield from _members(words, others)
    named = (letter_id for each in others for letter_id in _named(each))
    turns = (member.letter_id for member in chain(*members.values()))
    held = yield from _hold(words, frozenset([*letters, *named, *turns]))
    hand = Hand(words=words, tally=tally, held=held, again=again)
    written = (yield from burying.bury(words, mine, letters, tally)) if mine else {}
    if again and len(mine) < len(burials):
        stale = [each for each in burials if each.job_id not in written]
        written |= yield from burying.buried_before(words, stale)
    answers: list[i.Answer] = []
    for each in intents:
        if isinstance(each, i.Bury):
            answers.append(written.get(each.job_id, Written.STALE))
        else:
            answers.append((yield from _other(hand, each, members)))
    yield from tally.write(words)
    return answers


def _named(intent: Other) -> Sequence[int]:
    """The letters that an intent will change."""
    return intent.letters if isinstance(intent, i.Remedy | i.Replay) else ()


def _members(words: Words, others: Sequence[Other]) -> Talk[dict[i.Launch, list[Enlisted]]]:
    """Hold the campaigns that are to change; whose turn it is in those that are launched, one launch for each campaign."""
    steered = {each.campaign_id for each in others if isinstance(each, i.Enlist | i.Steer | i.Launch)}
    if steered:
        yield from campaigning.hold(words, steered)
    launches = {each.campaign_id: each for each in reversed(others) if isinstance(each, i.Launch)}
    members = {}
    for each in launches.values():
        members[each] = yield from campaigning.next_members(words, each)
    return members


def _hold(words: Words, letters: frozenset[int]) -> Talk[frozenset[int]]:
    """Keep others from changing these letters; which there are. One that comes to be from now on is not held."""
    if not words.locks or not letters:
        return letters
    return frozenset([row[0] for row in (yield Ask(_locked(words), {"ids": words.listed(letters)}))])


def _other(hand: Hand, intent: Other, members: Mapping[i.Launch, list[Enlisted]]) -> Talk[Any]:
    answer: Any
    match intent:
        case i.Remedy():
            answer = yield from remedying.remedy(hand, intent)
        case i.Replay():
            answer = yield from replaying.replay(hand, intent)
        case i.Settle():
            answer = yield from remedying.settle(hand, intent)
        case i.Gather():
            answer = yield from campaigning.gather(hand, intent)
        case i.Enlist():
            answer = yield from campaigning.enlist(hand, intent)
        case i.Steer():
            answer = yield from campaigning.steer(hand, intent)
        case i.Launch():
            answer = yield from campaigning.launch(hand, intent, members.get(intent))
        case _:
            assert_never(intent)
    return answer


@cache
def _locked(words: Words) -> str:
    return f"SELECT id FROM dead_letters WHERE id {words.among('ids')} ORDER BY id {words.lock('FOR UPDATE')}"  # noqa: S608 - constants
