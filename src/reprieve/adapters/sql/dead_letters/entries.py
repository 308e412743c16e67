"""The history of dead letters, to which entries are only ever added, and what letters are after a row of steps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from reprieve.adapters.sql.words import Ask
from reprieve.core.lifecycle import LetterState, letter_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reprieve.adapters.sql.words import Talk, Words
    from reprieve.core.lifecycle import LetterEvent
    from reprieve.core.remedies import RootCause
    from reprieve.ports.intents import Step

ENGINE: Final = "reprieve"
"""Who does what nobody did by hand."""


@dataclass(frozen=True, slots=True)
class Path:
    """The states that a letter goes through when these events happen to it."""

    states: tuple[LetterState, ...]

    @classmethod
    def of(cls, state: LetterState, events: Iterable[LetterEvent]) -> Path:
        """Raises `IllegalTransitionError` where a state does not lead on."""
        states = [state]
        for event in events:
            states.append(letter_after(states[-1], event))
        return cls(tuple(states))

    @property
    def before(self) -> LetterState:
        """Where it begins."""
        return self.states[0]

    @property
    def after(self) -> LetterState:
        """Where it ends."""
        return self.states[-1]

    @property
    def moves(self) -> bool:
        """Whether the letter leaves its state at all."""
        return len(set(self.states)) > 1

    @property
    def escalates(self) -> bool:
        """Whether the letter comes to engineering on the way."""
        return any(after is LetterState.ESCALATED is not before for before, after in pairwise(self.states))

    @property
    def begins_anew(self) -> bool:
        """Whether what was found out before counts no more: the letter is opened again on the way."""
        return any(after is LetterState.OPEN is not before for before, after in pairwise(self.states))


def move(words: Words, ids: Sequence[int], path: Path, *, cause: RootCause | None, now: float) -> Talk[None]:
    """Write what letters are after their steps."""
    if not path.moves and cause is None:
        return
    values = {
        "ids": words.listed(ids), "state": path.after.value, "cause": None if cause is None else cause.value,
        "escalates": path.escalates, "anew": path.begins_anew, "moves": path.moves, "closed_at": now if path.after.closed else None,
    }  # fmt: skip
    yield Ask(_move(words), values)


def tell(words: Words, ids: Sequence[int], path: Path, steps: Sequence[Step], *, actor: str, now: float) -> Talk[None]:
    """Add an entry for each step to the history of these letters, which all go the same way."""
    for (before, after), step in zip(pairwise(path.states), steps, strict=True):
        values = {
            "now": now, "actor": actor, "event": step.event.value, "before": before.value, "after": after.value,
            "note": step.note,
        }  # fmt: skip
        alike = {step.detail: ids} if step.cause is None else (yield from _confirmed(words, ids, step, step.cause))
        for detail, some in alike.items():
            yield Ask(_tell(words), {**values, "ids": words.listed(some), "detail": detail})


def _confirmed(words: Words, ids: Sequence[int], step: Step, cause: RootCause) -> Talk[dict[str, list[int]]]:
    """What is confirmed with the naming of a cause (CRIT-5.1), as the entry's detail; of which letters."""
    alike: dict[tuple[str, str, int, int], list[int]] = {}
    for letter_id, *failed in (yield Ask(_failed(words), {"ids": words.listed(ids)})):
        alike.setdefault((*failed,), []).append(letter_id)
    said = json.loads(step.detail)
    details: dict[str, list[int]] = {}
    for (error_class, stage, attempts, budget), some in alike.items():
        confirmed = {
            "cause": cause.value, "error_class": error_class, "stage": stage, "attempts": attempts, "budget": budget,
            "exhausted": attempts >= budget,
        }  # fmt: skip
        details[json.dumps({**said, **confirmed}, ensure_ascii=False)] = some
    return details


def told_before(words: Words, ids: Sequence[int], steps: Sequence[Step], *, actor: str, now: float) -> Talk[set[int]]:
    """Of which letters the history tells these steps already, by the same person at the same time."""
    rows = yield Ask(_told(words), {"ids": words.listed(ids), "now": now, "actor": actor})
    told: dict[int, list[tuple[str, str]]] = {}
    for letter_id, event, note in rows:
        told.setdefault(letter_id, []).append((event, note))
    wanted = [(step.event.value, step.note) for step in steps]
    return {
        letter_id
        for letter_id, entries in told.items()
        if any(entries[at : at + len(wanted)] == wanted for at in range(len(entries) - len(wanted) + 1))
    }


@cache
def _move(words: Words) -> str:
    return f"""
    UPDATE dead_letters SET state = {words.value("state")},
      cause = COALESCE({words.value("cause")}, CASE WHEN NOT {words.value("anew", "boolean")} THEN cause END),
      escalated = escalated OR {words.value("escalates", "boolean")},
      closed_at = CASE WHEN {words.value("moves", "boolean")} THEN {words.value("closed_at", "moment")} ELSE closed_at END
    WHERE id {words.among("ids")}
    """  # noqa: S608 - assembled from constants


@cache
def _tell(words: Words) -> str:
    names = ("actor", "event", "before", "after", "note", "detail")
    return f"""
    INSERT INTO dead_letter_history (letter_id, at, {", ".join(names)})
    SELECT id, {words.value("now", "moment")}, {", ".join(words.value(name) for name in names)}
    FROM dead_letters WHERE id {words.among("ids")} ORDER BY id
    """  # noqa: S608 - assembled from constants


@cache
def _failed(words: Words) -> str:
    return f"""
    SELECT letter.id, kind.error_class, kind.stage, letter.attempts, letter.budget
    FROM dead_letters letter JOIN dead_letter_groups kind ON kind.id = letter.group_id WHERE letter.id {words.among("ids")}
    """  # noqa: S608 - assembled from constants


@cache
def _told(words: Words) -> str:
    return f"""
    SELECT letter_id, event, note FROM dead_letter_history
    WHERE letter_id {words.among("ids")} AND at = {words.value("now", "moment")} AND actor = {words.value("actor")} ORDER BY id
    """  # noqa: S608 - assembled from constants
