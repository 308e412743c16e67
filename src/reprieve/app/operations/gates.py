"""The gates before a replay (CRIT-5.1 to 5.3): the cause is named, evidence recorded, safety confirmed; or somebody overrides.

What an operator says becomes the steps that a dead letter has not taken yet; what is missing is told, with the command
that supplies it. Nothing that a person wrote is lost: words for a gate that was passed before are kept as a note.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from reprieve.app.next_steps import next_step_of
from reprieve.app.operations.asking import reason_of
from reprieve.core.lifecycle import LetterEvent, LetterState
from reprieve.core.remedies import REMEDIES, RootCause, likely_cause
from reprieve.core.value import value
from reprieve.errors import UnknownNameError, UsageError
from reprieve.ports.intents import Refused, Step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.ports.dead_letters import LetterRow

_LONGEST_TEXT: Final = 4000
SAFE: Final = "confirmed: running it again does no harm"
"""What is kept where somebody confirms it and says no more."""
_GATES: Final = (LetterEvent.TRIAGE, LetterEvent.REMEDIATE, LetterEvent.APPROVE)
_PASSED: Final[Mapping[LetterState, int]] = {
    LetterState.OPEN: 0,
    LetterState.ESCALATED: 0,
    LetterState.TRIAGED: 1,
    LetterState.REMEDIATED: 2,
    LetterState.APPROVED: 3,
}
"""How many of the gates are behind a dead letter in each state from which it can be replayed."""


@value
class Words:
    """What an operator says for a replay; sanitized."""

    given: Mapping[LetterEvent, Step]
    """For each gate that is spoken of, the step through it."""
    note: str = ""
    override: str | None = None
    """Why a gate need not be passed."""


def cause_of(cause: RootCause | str) -> RootCause:
    """One of the causes there are."""
    try:
        return RootCause(cause)
    except ValueError:
        raise UnknownNameError("cause", str(cause), tuple(RootCause)) from None


def text_of(name: str, text: str) -> str:
    """A text that has to be given, as it is kept."""
    kept = reason_of(text, longest=_LONGEST_TEXT)
    if not kept:
        raise UsageError(f"{name} must not be empty: it is what others will read later")
    return kept


def words_of(
    *, cause: RootCause | str | None, evidence: str | None, safe: str | bool, override: str | None, note: str = ""
) -> Words:
    """What was said, checked; each part may be missing."""
    given: dict[LetterEvent, Step] = {}
    if cause is not None:
        given[LetterEvent.TRIAGE] = Step(event=LetterEvent.TRIAGE, note="", cause=cause_of(cause))
    if evidence is not None:
        given[LetterEvent.REMEDIATE] = Step(event=LetterEvent.REMEDIATE, note=text_of("evidence", evidence))
    if safe is not False:
        why = SAFE if safe is True else text_of("why it is safe", safe)
        given[LetterEvent.APPROVE] = Step(event=LetterEvent.APPROVE, note=why)
    reason = None if override is None else text_of("the reason of an override", override)
    return Words(given=given, note=reason_of(note, longest=_LONGEST_TEXT), override=reason)


def steps_of(row: LetterRow, words: Words) -> tuple[Step, ...] | Refused:
    """The steps that take this one to its replay; or why it cannot be replayed."""
    if row.state not in _PASSED:
        return Refused(letter_id=row.letter_id, state=row.state, why=_why_never(row))
    steps: list[Step] = []
    missing: list[LetterEvent] = []
    passed = _PASSED[row.state]
    named = words.given.get(LetterEvent.TRIAGE)
    if named is not None and passed and named.cause != row.cause:
        passed = 0  # another cause needs evidence of its own
    for place, gate in enumerate(_GATES):
        step = words.given.get(gate)
        if step is None:
            missing += [gate] if place >= passed else []
        elif place < passed or missing:
            steps += _noted(step)
        else:
            steps.append(step)
    if not missing:
        return (*steps, Step(event=LetterEvent.REPLAY, note=words.override or words.note))
    if words.override is None:
        return Refused(letter_id=row.letter_id, state=row.state, why=_why_not(row, missing))
    detail = json.dumps({"not_passed": missing})
    return (*steps, Step(event=LetterEvent.OVERRIDE, note=words.override, detail=detail))


def _noted(step: Step) -> list[Step]:
    """Words for a gate that is not passed with them."""
    if step.event is LetterEvent.TRIAGE:
        return []
    text = f"{'evidence' if step.event is LetterEvent.REMEDIATE else 'safe to run again'}: {step.note}"
    return [Step(event=LetterEvent.NOTE, note=text)]


def _why_never(row: LetterRow) -> str:
    return f"it is {row.state}; next: {next_step_of(row)}"


def _why_not(row: LetterRow, missing: list[LetterEvent]) -> str:
    cause = likely_cause(row.category) if row.cause is None else row.cause
    unnamed = (
        "the cause has to be named anew, as it came back after a replay" if row.replays else "the cause is not named"
    )
    told = {
        LetterEvent.TRIAGE: f"{unnamed} (reprieve dead triage {row.letter_id} --cause {cause or 'CAUSE'})",
        LetterEvent.REMEDIATE: f"no evidence of a remedy is recorded{_to_show(row)} (reprieve dead remediate "
        f"{row.letter_id} --evidence '...')",
        LetterEvent.APPROVE: "nobody has confirmed that running it again does no harm (reprieve dead approve "
        f"{row.letter_id} --because '...')",
    }
    return "; ".join(told[gate] for gate in missing)


def _to_show(row: LetterRow) -> str:
    return "" if row.cause is None else f", which has to show this: {REMEDIES[RootCause(row.cause)]}"
