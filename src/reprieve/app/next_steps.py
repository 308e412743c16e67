"""What comes next for a dead letter, with the command that does it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from reprieve.core.lifecycle import DEAD, LetterState
from reprieve.core.remedies import NEXT_STEPS, REMEDIES, RootCause, likely_cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.ports.dead_letters import LetterRow

_COMMANDS: Final[Mapping[LetterState, str | None]] = {
    LetterState.OPEN: "dead triage {which} --cause {cause}",
    LetterState.TRIAGED: "dead remediate {which} --evidence '...'",
    LetterState.REMEDIATED: "dead approve {which} --because '...'",
    LetterState.APPROVED: "dead replay {which}",
    LetterState.REPLAYING: "jobs {job}",
    LetterState.REPLAYED: "dead verify {which} --note '...'",
    LetterState.RESOLVED: None,
    LetterState.ESCALATED: "dead triage {which} --cause {cause}",
    LetterState.DISCARDED: "dead reopen {which} --reason '...'",
}


_ANEW: Final = frozenset({LetterState.OPEN, LetterState.ESCALATED})
"""No gate is passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """What to do, how, and what to bear in mind."""

    what: str
    command: str | None
    """None where there is nothing to do."""
    hint: str | None = None

    def __str__(self) -> str:
        return self.what if self.command is None else f"{self.what} ({self.command})"


def next_step(
    state: LetterState, which: str, *, category: str, cause: str | None = None, job_id: int | None = None
) -> NextStep:
    """What comes next for the dead letters that `which` selects on a command line: an id, or `--group FINGERPRINT`."""
    template = _COMMANDS[state]
    job = "watch" if job_id is None else f"show {job_id}"
    likely = likely_cause(category)
    command = None if template is None else template.format(which=which, cause=cause or likely or "CAUSE", job=job)
    return NextStep(
        what=NEXT_STEPS[state],
        command=None if command is None else f"reprieve {command}",
        hint=_hint(state, category, likely, cause),
    )


def next_step_of(row: LetterRow) -> NextStep:
    """What comes next for this one."""
    if row.waits_in is not None and row.state in DEAD:
        return NextStep(
            what=f"wait: campaign {row.waits_in} will replay it",
            command=f"reprieve dead campaigns show {row.waits_in}",
            hint="what is done to it meanwhile can make the campaign leave it out",
        )
    step = next_step(row.state, str(row.letter_id), category=row.category, cause=row.cause, job_id=row.job_id)
    if row.replays and row.state in _ANEW:
        hint = "it came back after a replay: cause, evidence and safety are asked for anew"
        return replace(step, hint=hint if step.hint is None else f"{hint}; {step.hint}")
    return step


def _hint(state: LetterState, category: str, likely: RootCause | None, cause: str | None) -> str | None:
    if state in _ANEW:
        return None if likely is None else f"with {category} it usually is {likely}: {REMEDIES[likely]}"
    if state is LetterState.TRIAGED and cause is not None:
        return REMEDIES[RootCause(cause)]
    if state is LetterState.REMEDIATED:
        return "its stage is idempotent, or what it does twice does no harm"
    return None
