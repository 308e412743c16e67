"""What is to be done about the dead letters of a selection, and what became of it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from reprieve.app.next_steps import next_step, next_step_of
from reprieve.app.operations.asking import AUDIT
from reprieve.core.lifecycle import LetterEvent
from reprieve.errors import RefusedError, StoreUnavailableError
from reprieve.ports.intents import Refused, Remedied, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from reprieve.app.operations.selecting import Which
    from reprieve.ports.dead_letters import LetterRow, Verification

    Tell = Callable[[int], None]
    """Hears how many have been dealt with so far."""


class Plans:
    """Which steps are to be taken by whom; those with the same steps go together."""

    __slots__ = ("refused", "steps")

    def __init__(self) -> None:
        self.steps: dict[tuple[Step, ...], list[int]] = {}
        self.refused: dict[int, Refused] = {}

    def add(self, letter_id: int, steps: tuple[Step, ...]) -> None:
        """One more."""
        self.steps.setdefault(steps, []).append(letter_id)

    def refuse(self, refused: Refused) -> None:
        """One that is refused before the store is asked."""
        self.refused[refused.letter_id] = refused


class Tally:
    """What became of a selection so far."""

    __slots__ = ("applied", "refused", "tell")

    def __init__(self, tell: Tell | None) -> None:
        self.applied: list[int] = []
        self.refused: list[Refused] = []
        self.tell = tell

    def add(self, some: Remedied, *, besides: Collection[int] = ()) -> None:
        """What became of some; those `besides` are counted elsewhere."""
        self.applied += [each for each in some.applied if each not in besides]
        self.refused += [each for each in some.refused if each.letter_id not in besides]
        if self.tell is not None:
            self.tell(len(self.applied) + len(self.refused))

    @contextmanager
    def in_parts(self) -> Iterator[None]:
        """While parts are dealt with one after another: if the store goes away after the first, something has been done."""
        try:
            yield
        except StoreUnavailableError as error:
            if not self.applied or error.outcome_unknown:
                raise
            done = f"{error}; {len(self.applied):,} dead letters were dealt with before"
            raise StoreUnavailableError(done, outcome_unknown=True, held_up=error.held_up) from error

    def answer(self, which: Which, actor: str, event: LetterEvent) -> Remedied:
        """All of it; a single one that was refused is an error."""
        AUDIT.info("%s: %s of %d dead letters, %d refused", actor, event, len(self.applied), len(self.refused))
        if isinstance(which, int | str) and self.refused:
            raise RefusedError(f"dead letter {self.refused[0].letter_id}: {self.refused[0].why}")
        return Remedied(applied=tuple(self.applied), refused=tuple(self.refused))


def unknown(letter_id: int) -> Refused:
    """There is none of that id."""
    return Refused(letter_id=letter_id, state=None, why="there is no such dead letter")


def with_next(done: Remedied) -> Remedied:
    """The same, in which those whose state does not allow it are told what comes next for them."""
    if not done.refused:
        return done
    told = [
        each
        if each.state is None
        else replace(each, why=f"{each.why}; next: {next_step(each.state, str(each.letter_id), category='')}")
        for each in done.refused
    ]
    return replace(done, refused=tuple(told))


def verified(found: Verification) -> Step:
    """What was found, for the record."""
    detail = {"job_status": found.job_status, "undelivered": found.undelivered, "passed": found.passed}
    return Step(event=LetterEvent.VERIFY, note="", detail=json.dumps(detail))


def unverified(row: LetterRow, found: Verification) -> Refused:
    """Why it cannot be closed as resolved."""
    if found.job_status is None:
        why = "nothing can be verified: its job was removed"
    elif found.undelivered:
        why = f"not everybody has been told: {found.undelivered} deliveries are not notified"
    else:
        why = f"its job has not succeeded, it is {found.job_status}; next: {next_step_of(row)}"
    return Refused(letter_id=row.letter_id, state=row.state, why=why)
