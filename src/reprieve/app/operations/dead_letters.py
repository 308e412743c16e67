"""Dead letters: look, triage, remediate, approve, replay, verify, resolve, escalate, discard, reopen, note, prune (CRIT 8.5).

A dead letter is named by its id, or as `job:ID`; several by a sequence, whole groups by a `LetterFilter`. A single one
that is refused raises `RefusedError`; of several, the answer says which were refused, and why.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from reprieve.app.operations.asking import (
    AUDIT,
    PATIENCE,
    actor_of,
    everybody,
    reason_of,
    require_known,
    require_pipeline,
)
from reprieve.app.operations.gates import cause_of, steps_of, text_of, words_of
from reprieve.app.operations.selecting import AT_ONCE, Selector, Which
from reprieve.app.operations.tallying import Plans, Tally, unknown, unverified, verified, with_next
from reprieve.app.pipeline import Pipeline
from reprieve.core.backoff import require_number, shown
from reprieve.core.lifecycle import DEAD, LetterEvent, LetterState
from reprieve.errors import RefusedError, UnknownNameError, UsageError
from reprieve.ports.dead_letters import GroupFilter, LetterFilter, LettersPruned
from reprieve.ports.intents import Refused, Remedied, Remedy, Replay, Revision, Step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from reprieve.app.operations.asking import MayOverride, OpenJournal
    from reprieve.app.operations.settling import Settler
    from reprieve.app.operations.tallying import Tell
    from reprieve.core.remedies import RootCause
    from reprieve.ports.clock import Clock
    from reprieve.ports.dead_letters import (
        DeadLetterKeeper,
        DeadLetterReader,
        DeadLetterStats,
        GroupRow,
        LetterDetail,
        LetterRow,
        Verification,
    )
    from reprieve.ports.reader import Reader

_CENTURY: Final = 3_155_760_000.0
_SHORTEST_WINDOW: Final = 60.0
BY_DEFAULT: Final[Mapping[LetterEvent, frozenset[LetterState]]] = {
    LetterEvent.TRIAGE: frozenset({LetterState.OPEN, LetterState.ESCALATED}),
    LetterEvent.REMEDIATE: frozenset({LetterState.TRIAGED}),
    LetterEvent.APPROVE: frozenset({LetterState.REMEDIATED}),
    LetterEvent.REPLAY: DEAD,
    LetterEvent.VERIFY: frozenset({LetterState.REPLAYED}),
    LetterEvent.RESOLVE: frozenset({LetterState.REPLAYED}),
    LetterEvent.ESCALATE: DEAD - {LetterState.ESCALATED},
    LetterEvent.DISCARD: DEAD,
    LetterEvent.REOPEN: frozenset({LetterState.DISCARDED}),
    LetterEvent.NOTE: frozenset(LetterState) - {LetterState.RESOLVED, LetterState.DISCARDED},
}
"""In which states a filter that names none looks for each: those that it takes a step on, none that it would set back."""


class DeadLetterOperations:
    """What an operator can see and do about dead letters."""

    def __init__(
        self,
        reader: Reader,
        letters: DeadLetterReader,
        keeper: DeadLetterKeeper,
        journal: OpenJournal,
        *,
        settle: Settler,
        clock: Clock,
        may_override: MayOverride = everybody,
    ) -> None:
        self._reader, self._letters, self._keeper, self._journal = reader, letters, keeper, journal
        self._settle, self._clock, self._may_override = settle, clock, may_override
        self._select = Selector(letters)

    async def list(self, wanted: LetterFilter = LetterFilter()) -> Sequence[LetterRow]:  # noqa: B008 - frozen
        """A page; go on with `after`, the cursor of its last row. Of a fingerprint, a unique beginning is enough."""
        wanted = await self._select.whole(wanted)
        await self._settle()
        found = await asyncio.to_thread(self._letters.letters, wanted)
        if not found:
            await require_known(self._reader, self._letters, wanted)
            return found
        waiting = await asyncio.to_thread(self._letters.waiting, [row.letter_id for row in found])
        return [replace(row, waits_in=waiting.get(row.letter_id)) for row in found]

    async def groups(self, wanted: GroupFilter = GroupFilter()) -> Sequence[GroupRow]:  # noqa: B008 - frozen
        """A page of groups, each of all dead letters with one fingerprint."""
        if wanted.limit < 1 or wanted.offset < 0:
            raise UsageError(f"limit must be at least 1 and offset 0, not {wanted.limit} and {wanted.offset}")
        await self._settle()
        found = await asyncio.to_thread(self._letters.groups, wanted, now=self._clock.now())
        if not found:
            await require_known(self._reader, self._letters, wanted)
        return found

    async def group(self, fingerprint: str) -> GroupRow:
        """One group; a unique beginning of its fingerprint is enough."""
        whole = await self._select.fingerprint(fingerprint)
        await self._settle()
        found = await asyncio.to_thread(self._letters.group, whole, now=self._clock.now())
        if found is None:
            raise UnknownNameError("group of dead letters", fingerprint)
        return found

    async def show(self, letter: int | str) -> LetterDetail:
        """One, whole, with its history."""
        letter_id = await self._select.one(letter)
        await self._settle()
        found = await asyncio.to_thread(self._letters.letter, letter_id)
        if found is None:
            raise UnknownNameError("dead letter", str(letter))
        waiting = await asyncio.to_thread(self._letters.waiting, [letter_id])
        return replace(found, row=replace(found.row, waits_in=waiting.get(letter_id)))

    async def stats(self, *, window: float = 86_400.0, pipeline: str | None = None) -> DeadLetterStats:
        """The figures over so many seconds up to now (ING-7.1)."""
        require_number("window", window, _SHORTEST_WINDOW, _CENTURY)
        if pipeline is not None:
            await require_pipeline(self._reader, pipeline)
        await self._settle()
        return await asyncio.to_thread(self._letters.stats, now=self._clock.now(), window=window, pipeline=pipeline)

    async def export(self, wanted: LetterFilter = LetterFilter()) -> AsyncIterator[LetterRow]:  # noqa: B008 - frozen
        """All that a filter finds, page after page; `limit` and `after` count for nothing."""
        wanted = await self._select.whole(wanted)
        await self._settle()
        empty = True
        async for rows in self._select.pages(wanted):
            for row in rows:
                empty = False
                yield row
        if empty:
            await require_known(self._reader, self._letters, wanted)

    async def count(self, which: Which, event: LetterEvent) -> int:
        """How many dead letters a change of this kind would be asked for now."""
        found = await self._select.count(which, BY_DEFAULT[event])
        if not found and isinstance(which, LetterFilter):
            await require_known(self._reader, self._letters, which)
        return found

    async def triage(
        self, which: Which, cause: RootCause | str, *, actor: str, note: str = "", tell: Tell | None = None
    ) -> Remedied:
        """Name the cause (CRIT-5.1); also of those that had another one, which then need new evidence."""
        step = Step(event=LetterEvent.TRIAGE, note=reason_of(note), cause=cause_of(cause))
        return await self._take(which, (step,), actor, tell)

    async def remediate(self, which: Which, evidence: str, *, actor: str, tell: Tell | None = None) -> Remedied:
        """Record what was done about the cause (CRIT-5.2), and where that can be seen."""
        step = Step(event=LetterEvent.REMEDIATE, note=text_of("evidence", evidence))
        return await self._take(which, (step,), actor, tell)

    async def approve(self, which: Which, because: str, *, actor: str, tell: Tell | None = None) -> Remedied:
        """Confirm that running them again is idempotent, or does no harm (CRIT-5.3); say why."""
        step = Step(event=LetterEvent.APPROVE, note=text_of("why it is safe", because))
        return await self._take(which, (step,), actor, tell)

    async def escalate(self, which: Which, reason: str, *, actor: str, tell: Tell | None = None) -> Remedied:
        """Hand them to engineering."""
        step = Step(event=LetterEvent.ESCALATE, note=text_of("the reason", reason))
        return await self._take(which, (step,), actor, tell)

    async def discard(self, which: Which, reason: str, *, actor: str, tell: Tell | None = None) -> Remedied:
        """Close them without a replay."""
        step = Step(event=LetterEvent.DISCARD, note=text_of("the reason", reason))
        return await self._take(which, (step,), actor, tell)

    async def reopen(self, which: Which, reason: str, *, actor: str, tell: Tell | None = None) -> Remedied:
        """Open discarded ones again."""
        step = Step(event=LetterEvent.REOPEN, note=text_of("the reason", reason))
        return await self._take(which, (step,), actor, tell)

    async def note(self, which: Which, text: str, *, actor: str, tell: Tell | None = None) -> Remedied:
        """Add a note to their histories."""
        step = Step(event=LetterEvent.NOTE, note=text_of("a note", text))
        return await self._take(which, (step,), actor, tell)

    async def replay(  # noqa: PLR0913 - a table of options, all by keyword
        self,
        which: Which,
        *,
        actor: str,
        cause: RootCause | str | None = None,
        evidence: str | None = None,
        safe: str | bool = False,
        override: str | None = None,
        note: str = "",
        restart: bool = False,
        stage: str | None = None,
        pipeline: Pipeline | None = None,
        payload: object = None,
        tell: Tell | None = None,
    ) -> Remedied:
        """Put their jobs back into the queue, with a fresh budget, at the stage that failed (CRIT-5.4).

        Refused until the cause is named, evidence recorded and safety confirmed; `cause`, `evidence` and `safe` do so in one
        go, for those that have not passed these gates before. `override` passes them by, for a reason that is kept. With
        `restart` from the first stage, with `stage` from that one. With the `pipeline` a `payload` in place of the one that was
        wrong, for a single dead letter: refused where it does not fit; its job starts at the first stage unless `stage` is given.
        """
        actor = actor_of(actor)
        words = words_of(cause=cause, evidence=evidence, safe=safe, override=override, note=note)
        if words.override is not None and not self._may_override(actor):
            raise RefusedError(f"{actor} may not override the gates of a replay: REPRIEVE_MAY_OVERRIDE names who may")
        if restart and stage is not None:
            raise UsageError("restart and stage contradict each other: from the start, or from that stage")
        if pipeline is None and payload is not None:
            raise UsageError("a payload needs its pipeline, which knows what fits")
        await self._settle()
        revision = None if pipeline is None else await self._revision(which, pipeline, payload)
        done = Tally(tell)
        with done.in_parts():
            async for ids in self._select.chunks(which, BY_DEFAULT[LetterEvent.REPLAY]):
                plans = Plans()
                for letter_id, found in await asyncio.to_thread(self._details, ids):
                    plan = unknown(letter_id) if found is None else steps_of(found.row, words)
                    if isinstance(plan, Refused):
                        plans.refuse(plan)
                    else:
                        plans.add(letter_id, plan)
                for steps, some in plans.steps.items():
                    journal = await self._journal()
                    intent = Replay(
                        letters=tuple(some), steps=steps, actor=actor, now=await journal.store.now(), restart=restart,
                        stage=stage, revision=revision, insists=words.override is not None,
                    )  # fmt: skip
                    done.add(await journal.ask(intent, patience=PATIENCE))
                done.add(Remedied(applied=(), refused=tuple(plans.refused.values())))
        return done.answer(which, actor, LetterEvent.REPLAY)

    async def verify(self, which: Which, *, actor: str, note: str = "", tell: Tell | None = None) -> Remedied:
        """Look whether their jobs have succeeded and all recipients were told, and record what was found (CRIT-5.5).

        With a note, those of which that is true are resolved at once; the others are refused.
        """
        kept = reason_of(note)
        closing = (Step(event=LetterEvent.RESOLVE, note=kept),) if kept else ()
        return await self._verified(which, actor, LetterEvent.VERIFY, closing, tell)

    async def resolve(self, which: Which, note: str, *, actor: str, tell: Tell | None = None) -> Remedied:
        """Close them with a note; refused unless their jobs have succeeded and all recipients were told (CRIT-5.5)."""
        closing = (Step(event=LetterEvent.RESOLVE, note=text_of("the resolution note", note)),)
        return await self._verified(which, actor, LetterEvent.RESOLVE, closing, tell)

    async def prune(
        self, older_than: float, *, actor: str, dry: bool = False, tell: Callable[[LettersPruned], None] | None = None
    ) -> LettersPruned:
        """Reduce those that were closed more than so many seconds ago to a summary: texts and histories go."""
        actor = actor_of(actor)
        require_number("older_than", older_than, 0.0, _CENTURY)
        before = self._clock.now() - older_than
        total = LettersPruned(letters=0, more=True)
        while total.more:
            done = await asyncio.to_thread(
                self._keeper.prune_letters, before=before, limit=AT_ONCE, dry=dry, after=total.after
            )
            total = LettersPruned(letters=total.letters + done.letters, more=done.more, after=done.after)
            if tell is not None:
                tell(total)
        if not dry:
            AUDIT.info("%s pruned %d dead letters closed over %.0f s before", actor, total.letters, older_than)
        return total

    async def _take(self, which: Which, steps: tuple[Step, ...], actor: str, tell: Tell | None) -> Remedied:
        """Have the same steps taken by all of a selection."""
        actor, event, done = actor_of(actor), steps[-1].event, Tally(tell)
        await self._settle()
        with done.in_parts():
            async for ids in self._select.chunks(which, BY_DEFAULT[event]):
                done.add(with_next(await self._remedy(ids, steps, actor)))
        return done.answer(which, actor, event)

    async def _verified(
        self, which: Which, actor: str, event: LetterEvent, closing: tuple[Step, ...], tell: Tell | None
    ) -> Remedied:
        actor, done = actor_of(actor), Tally(tell)
        await self._settle()
        with done.in_parts():
            async for ids in self._select.chunks(which, BY_DEFAULT[event]):
                plans = Plans()
                for letter_id, found in await asyncio.to_thread(self._verifications, ids):
                    if found is None:
                        plans.refuse(unknown(letter_id))
                        continue
                    row, verification = found
                    if verification.passed:
                        plans.add(row.letter_id, (verified(verification), *closing))
                        continue
                    plans.refuse(unverified(row, verification))
                    if event is LetterEvent.VERIFY:  # what was found wanting is on record, and refused all the same
                        plans.add(row.letter_id, (verified(verification),))
                for steps, some in plans.steps.items():
                    done.add(await self._remedy(tuple(some), steps, actor), besides=plans.refused)
                done.add(Remedied(applied=(), refused=tuple(plans.refused.values())))
        return done.answer(which, actor, event)

    async def _remedy(self, ids: tuple[int, ...], steps: tuple[Step, ...], actor: str) -> Remedied:
        journal = await self._journal()
        intent = Remedy(letters=ids, steps=steps, actor=actor, now=await journal.store.now())
        return await journal.ask(intent, patience=PATIENCE)

    async def _revision(self, which: Which, pipeline: Pipeline, payload: object) -> Revision:
        """The payload, validated as a submission's is."""
        if not isinstance(pipeline, Pipeline):
            raise UsageError(f"a payload belongs to a reprieve.Pipeline, not to {shown(pipeline)}")
        if isinstance(which, LetterFilter) or not (isinstance(which, int | str) or len(which) == 1):
            raise UsageError("a payload is for one dead letter: say which")
        row = (await self.show(which if isinstance(which, int | str) else which[0])).row
        if row.pipeline != pipeline.name:
            raise UsageError(f"dead letter {row.letter_id} is of pipeline {row.pipeline!r}, not of {pipeline.name!r}")
        revision = Revision(payload=pipeline.encode_payload(payload), payload_type=pipeline.payload.fingerprint)
        before = await asyncio.to_thread(self._reader.payload, row.job_id)
        if before is not None and json.loads(before) == json.loads(revision.payload):
            raise UsageError(f"this is the payload that dead letter {row.letter_id} has already: nothing is corrected")
        return revision

    def _details(self, ids: Iterable[int]) -> Sequence[tuple[int, LetterDetail | None]]:
        return [(letter_id, self._letters.letter(letter_id)) for letter_id in ids]

    def _verifications(self, ids: Iterable[int]) -> Sequence[tuple[int, tuple[LetterRow, Verification] | None]]:
        return [
            (letter_id, None if found is None else (found.row, self._letters.verification(letter_id)))
            for letter_id, found in self._details(ids)
        ]
