"""The one way in: what a batch says about signatures and reviews, in the order of saying.

Whatever is waited for is waited for at the start, always in the same order: new signatures, reviews, signatures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from reprieve.adapters.sql.analysis import caching, ruling
from reprieve.adapters.sql.talking import on_postgres, on_sqlite
from reprieve.adapters.sql.words import POSTGRES, SQLITE
from reprieve.ports import intents as i

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from reprieve.adapters.sql.postgres.link import Cursor
    from reprieve.adapters.sql.words import Talk, Words


def apply_on_sqlite(connection: sqlite3.Connection, intents: list[i.AnalysisIntent], again: bool) -> Sequence[i.Answer]:  # noqa: FBT001 - a handler's shape
    """Apply them on SQLite."""
    return on_sqlite(connection, apply(SQLITE, intents, again=again))


async def apply_on_postgres(cursor: Cursor, intents: list[i.AnalysisIntent], again: bool) -> Sequence[i.Answer]:  # noqa: FBT001 - a handler's shape
    """Apply them on PostgreSQL."""
    return await on_postgres(cursor, apply(POSTGRES, intents, again=again))


def apply(words: Words, intents: Sequence[i.AnalysisIntent], *, again: bool) -> Talk[list[i.Answer]]:
    """Apply all of them."""
    yield from caching.make(words, [each for each in intents if isinstance(each, i.Reserve)])
    if words.locks:
        ruled = yield from ruling.hold(words, [each.review_id for each in intents if isinstance(each, i.Rule)])
        yield from caching.hold(words, [*ruled, *(signature for each in intents for signature in _named(each))])
    answers: list[i.Answer] = []
    for each in intents:
        answers.append((yield from _one(words, each, again=again)))  # noqa: PERF401 - a talk is not told inside a comprehension
    return answers


def _named(intent: i.AnalysisIntent) -> Sequence[str]:
    """The signatures that an intent may change, as far as it says."""
    if isinstance(intent, i.Rule):
        return ()
    if isinstance(intent, i.Prolong):
        return [signature for signature, _ in intent.holds]
    return intent.signatures if isinstance(intent, i.Reserve | i.Reset) else (intent.signature,)


def _one(words: Words, intent: i.AnalysisIntent, *, again: bool) -> Talk[Any]:
    answer: Any
    match intent:
        case i.Reserve():
            answer = yield from caching.take(words, intent, again=again)
        case i.Prolong():
            answer = yield from caching.prolong(words, intent)
        case i.Conclude():
            answer = yield from caching.conclude(words, intent, again=again)
        case i.Fault():
            answer = yield from caching.fault(words, intent, again=again)
        case i.LetGo():
            answer = yield from caching.let_go(words, intent, again=again)
        case i.Recall():
            answer = yield from caching.recall(words, intent, again=again)
        case i.Reset():
            answer = yield from caching.reset(words, intent, again=again)
        case i.Rule():
            answer = yield from ruling.rule(words, intent, again=again)
        case _:
            assert_never(intent)
    return answer
