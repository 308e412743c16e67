"""The one way in: what a batch says about alerts, and what its burials and set-asides raise in the same transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

from reprieve.adapters.sql.alerts import noticing, raising
from reprieve.adapters.sql.talking import on_postgres, on_sqlite
from reprieve.adapters.sql.words import POSTGRES, SQLITE
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from reprieve.adapters.sql.postgres.link import Cursor
    from reprieve.adapters.sql.words import Talk, Words
    from reprieve.core.alerts import Alarm

_LOUD: Final = (i.Bury, i.SetAside)
"""What may raise an alert with what it writes."""


def apply_on_sqlite(connection: sqlite3.Connection, intents: list[i.AlertIntent], again: bool) -> Sequence[i.Answer]:  # noqa: FBT001 - a handler's shape
    """Apply them on SQLite."""
    return on_sqlite(connection, apply(SQLITE, intents, again=again))


async def apply_on_postgres(cursor: Cursor, intents: list[i.AlertIntent], again: bool) -> Sequence[i.Answer]:  # noqa: FBT001 - a handler's shape
    """Apply them on PostgreSQL."""
    return await on_postgres(cursor, apply(POSTGRES, intents, again=again))


def apply(words: Words, intents: Sequence[i.AlertIntent], *, again: bool) -> Talk[list[i.Answer]]:
    """Weigh first, raise all at once, then the rest in the order of saying."""
    weighed = sorted((each for each in intents if isinstance(each, i.Weigh)), key=lambda said: (said.alarm.rule, said.alarm.key))  # fmt: skip
    alarms = {id(each): each.alarm for each in intents if isinstance(each, i.Raise)}
    for said in weighed:
        if (yield from raising.weigh(words, said, again=again)):
            alarms[id(said)] = said.alarm
    raised = yield from raising.raise_all(words, alarms.values(), again=again)
    answers: list[i.Answer] = []
    for each in intents:
        if isinstance(each, i.Raise | i.Weigh):
            alarm = alarms.get(id(each))
            answers.append(raising.NOT_RAISED if alarm is None else raised[alarm.rule, alarm.key])
        else:
            answers.append((yield from _other(words, each, again=again)))
    return answers


def _other(words: Words, intent: i.Resolve | i.Acknowledge | i.TakeNotices | i.Told, *, again: bool) -> Talk[Any]:
    answer: Any
    match intent:
        case i.Resolve():
            answer = yield from noticing.resolve(words, intent, again=again)
        case i.Acknowledge():
            answer = yield from noticing.acknowledge(words, intent, again=again)
        case i.TakeNotices():
            answer = yield from noticing.take(words, intent)
        case i.Told():
            answer = yield from noticing.told(words, intent, again=again)
        case _:
            assert_never(intent)
    return answer


# --- with burials and set-asides --------------------------------------------------------------------------------------


def may_be_loud(kinds: Iterable[object]) -> bool:
    """Whether a batch has anything that raises alerts with what it writes; asked of every batch, so it looks at kinds only."""
    return not _KINDS.isdisjoint(kinds)


_KINDS: Final = frozenset({i.LetterIntent, i.SetAside})


def raise_with(words: Words, intents: Sequence[i.Intent], answers: list[Any], *, again: bool) -> Talk[None]:
    """Raise what the burials and set-asides of a batch ask for that were applied; `ALERTED` where that opened an alert."""
    loud: dict[int, list[Alarm]] = {}
    for place, (intent, answer) in enumerate(zip(intents, answers, strict=True)):
        if isinstance(intent, _LOUD) and intent.alarms and answer in (Written.APPLIED, Written.ESCALATED):
            escalated = answer is Written.ESCALATED
            wanted = [each for each in intent.alarms if escalated or not each.on_relapse]
            if wanted:
                loud[place] = wanted
    if not loud:
        return
    raised = yield from raising.raise_all(words, [each for several in loud.values() for each in several], again=again)
    opened = {key for key, each in raised.items() if each.opened}
    for place, several in loud.items():
        mine = {(each.rule, each.key) for each in several} & opened
        if mine and answers[place] is Written.APPLIED:
            answers[place] = Written.ALERTED
        opened -= mine


def raise_on_sqlite(
    connection: sqlite3.Connection, intents: Sequence[i.Intent], answers: list[Any], *, again: bool
) -> None:
    """Raise them on SQLite."""
    on_sqlite(connection, raise_with(SQLITE, intents, answers, again=again))


async def raise_on_postgres(cursor: Cursor, intents: Sequence[i.Intent], answers: list[Any], *, again: bool) -> None:
    """Raise them on PostgreSQL."""
    await on_postgres(cursor, raise_with(POSTGRES, intents, answers, again=again))
