"""Campaigns: replay a whole group, a few first, then ever more; start, look, watch, pause, resume, cancel.

Who belongs to a campaign is written down when it starts: a group that grows meanwhile does not make it grow. Workers do
the rest, whoever started it: see `reprieve.app.campaigns`.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from reprieve.app.operations.asking import AUDIT, PATIENCE, actor_of, everybody, reason_of
from reprieve.app.operations.gates import words_of
from reprieve.app.operations.selecting import Selector
from reprieve.core.backoff import require_number, shown
from reprieve.core.canary import (
    CAMPAIGN_TRANSITIONS,
    OVER,
    WAVES,
    CampaignEvent,
    CampaignState,
    MemberState,
    check_rate,
    check_waves,
)
from reprieve.core.lifecycle import DEAD, LetterEvent, LetterState, letter_after
from reprieve.errors import (
    IllegalTransitionError,
    RefusedError,
    StoreUnavailableError,
    UnknownNameError,
    UsageError,
)
from reprieve.ports.dead_letters import LetterFilter, Sort
from reprieve.ports.intents import Enlist, Gather, Steer, Step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from reprieve.app.journal import Journal
    from reprieve.app.operations.asking import MayOverride, OpenJournal
    from reprieve.app.operations.gates import Words
    from reprieve.app.operations.settling import Settler
    from reprieve.core.remedies import RootCause
    from reprieve.ports.clock import Clock
    from reprieve.ports.dead_letters import CampaignEntry, CampaignMember, CampaignRow, DeadLetterReader

    Tell = Callable[[int], None]
    """Hears how many members have been written down so far."""

GATES: Final = (LetterEvent.TRIAGE, LetterEvent.REMEDIATE, LetterEvent.APPROVE)
NOTABLE: Final = frozenset({MemberState.RETURNED, MemberState.FAILED, MemberState.LEFT_OUT})
_OPEN: Final = frozenset(CampaignState) - OVER
_HIGHEST_ID: Final = 2**63 - 1
_SHORTEST_INTERVAL: Final = 0.01
_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A campaign that has begun."""

    campaign: CampaignRow
    aside: int
    """How many of the dead letters that were asked for are not part of it: they have other gates to pass."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be done with each member, and which dead letters it can be done with."""

    steps: tuple[Step, ...]
    states: frozenset[LetterState]


class CampaignOperations:
    """What an operator can see and do about campaigns."""

    def __init__(
        self,
        letters: DeadLetterReader,
        journal: OpenJournal,
        *,
        settle: Settler,
        clock: Clock,
        may_override: MayOverride = everybody,
    ) -> None:
        self._letters, self._journal, self._settle, self._clock = letters, journal, settle, clock
        self._may_override = may_override
        self._select = Selector(letters)

    async def list(self, *, states: frozenset[CampaignState] = frozenset(), limit: int = 50) -> Sequence[CampaignRow]:
        """The newest first; in these states, if any are named."""
        if limit < 1:
            raise UsageError(f"limit must be at least 1, not {limit}")
        await self._settle()
        return await asyncio.to_thread(self._letters.campaigns, states=states, limit=limit)

    async def show(self, campaign_id: int) -> CampaignRow:
        """One, with what has become of its members so far."""
        await self._settle()
        return await self._known(campaign_id)

    async def history(self, campaign_id: int) -> Sequence[CampaignEntry]:
        """Who let it run, paused, resumed or ended it, and why; the oldest first."""
        await self._known(campaign_id)
        return await asyncio.to_thread(self._letters.campaign_history, campaign_id)

    async def members(
        self, campaign_id: int, states: frozenset[MemberState] = NOTABLE, *, limit: int = 50
    ) -> Sequence[CampaignMember]:
        """The first members of which this became: unless said, those that did not get to the end that was hoped for."""
        await self._known(campaign_id)
        return await asyncio.to_thread(self._letters.members, campaign_id, states, limit=limit)

    async def watch(self, campaign_id: int, *, interval: float = 1.0) -> AsyncIterator[CampaignRow]:
        """The same again and again, until the campaign is over."""
        require_number("interval", interval, _SHORTEST_INTERVAL, _HOUR)
        while True:
            row = await self.show(campaign_id)
            yield row
            if row.state.over:
                return
            await self._clock.sleep_async(interval)

    async def count(
        self,
        which: str | LetterFilter,
        *,
        cause: RootCause | str | None = None,
        evidence: str | None = None,
        safe: str | bool = False,
        override: str | None = None,
    ) -> int:
        """How many `start` would replay now; refused as it would be where there are none."""
        plan = _plan(words_of(cause=cause, evidence=evidence, safe=safe, override=override))
        wanted = await self._select.whole(LetterFilter(fingerprint=which) if isinstance(which, str) else which)
        await self._refuse_another(wanted.fingerprint)
        await self._settle()
        states = (wanted.states & plan.states) if wanted.states else plan.states
        found = await self._select.count(replace(wanted, states=states), states) if states else 0
        if not found:
            raise RefusedError(await self._why_nobody(wanted, plan))
        return found

    async def start(  # noqa: PLR0913 - a table of options, all by keyword
        self,
        which: str | LetterFilter,
        *,
        actor: str,
        waves: Sequence[int] = WAVES,
        rate: float | None = None,
        cause: RootCause | str | None = None,
        evidence: str | None = None,
        safe: str | bool = False,
        override: str | None = None,
        note: str = "",
        restart: bool = False,
        stage: str | None = None,
        tell: Tell | None = None,
    ) -> Started:
        """Replay a group, given by its fingerprint, or all that a filter finds; the oldest first, wave after wave.

        `waves` says how many come first; all that are left come last, or at once where no wave is named. `rate` is the most that are
        replayed in a second. Its members are those that are approved now; with `cause`, `evidence` and `safe` for all of them in one
        go, or an `override`, also those that are not. Each takes these steps when its turn comes.
        """
        actor = actor_of(actor)
        waves, rate = check_waves(waves), check_rate(rate)
        words = words_of(cause=cause, evidence=evidence, safe=safe, override=override, note=note)
        if words.override is not None and not self._may_override(actor):
            raise RefusedError(f"{actor} may not override the gates of a replay: REPRIEVE_MAY_OVERRIDE names who may")
        if restart and stage is not None:
            raise UsageError("restart and stage contradict each other: from the start, or from that stage")
        wanted = await self._select.whole(LetterFilter(fingerprint=which) if isinstance(which, str) else which)
        await self._refuse_another(wanted.fingerprint)
        await self._settle()
        plan = _plan(words)
        journal = await self._journal()
        members = await self._members(wanted, plan, journal)
        gather = Gather(
            actor=actor, now=await journal.store.now(), selection=await self._selection(wanted), fingerprint=wanted.fingerprint,
            steps=plan.steps, waves=waves, rate=rate, restart=restart, stage=stage,
        )  # fmt: skip
        campaign_id = await journal.ask(gather, patience=PATIENCE)
        if campaign_id is None:  # somebody was faster
            await self._refuse_another(wanted.fingerprint)
            raise RefusedError("another campaign over this group has just ended: look what it has done, then start")
        await self._enlist(journal, campaign_id, members, actor, tell)
        row = await self._known(campaign_id)
        AUDIT.info("%s started campaign %d over %d dead letters", actor, campaign_id, sum(row.members.values()))
        return Started(campaign=row, aside=await self._aside(wanted, plan))

    async def pause(self, campaign_id: int, *, actor: str, reason: str = "") -> CampaignRow:
        """Launch nothing more until it is resumed; what is under way goes on."""
        return await self._steer(campaign_id, CampaignEvent.PAUSE, actor, reason)

    async def resume(self, campaign_id: int, *, actor: str, reason: str = "") -> CampaignRow:
        """Let a paused one go on."""
        return await self._steer(campaign_id, CampaignEvent.RESUME, actor, reason)

    async def cancel(self, campaign_id: int, *, actor: str, reason: str = "") -> CampaignRow:
        """End it: what is under way goes on, what has not been launched stays as it is."""
        return await self._steer(campaign_id, CampaignEvent.CANCEL, actor, reason)

    async def _known(self, campaign_id: int) -> CampaignRow:
        if isinstance(campaign_id, bool) or not isinstance(campaign_id, int):
            raise UsageError(f"a campaign's id is a whole number, not {shown(campaign_id)}")
        found = None
        if 0 < campaign_id <= _HIGHEST_ID:
            found = await asyncio.to_thread(self._letters.campaign, campaign_id)
        if found is None:
            raise UnknownNameError("campaign", str(campaign_id))
        return found

    async def _steer(self, campaign_id: int, event: CampaignEvent, actor: str, reason: str) -> CampaignRow:
        actor, reason = actor_of(actor), reason_of(reason)
        journal = await self._journal()
        row = await self._known(campaign_id)
        while (after := CAMPAIGN_TRANSITIONS.get((row.state, event))) is not None:
            steer = Steer(
                campaign_id=campaign_id, fence=row.fence, expects=(row.state,), state=after, actor=actor, reason=reason,
                now=await journal.store.now(),
            )  # fmt: skip
            if await journal.ask(steer, patience=PATIENCE):
                AUDIT.info("%s: %s of campaign %d", actor, event, campaign_id)
                return await self._known(campaign_id)
            row = await self._known(campaign_id)  # somebody was faster, perhaps with the next wave
        why = f", since {row.reason}" if row.state.over and row.reason else ""
        raise RefusedError(f"campaign {campaign_id} is {row.state}{why}: nothing to {event}")

    async def _refuse_another(self, fingerprint: str | None) -> None:
        """Two campaigns over one group would only take each other's members away."""
        if fingerprint is None:
            return
        for row in await asyncio.to_thread(self._letters.campaigns, states=_OPEN, limit=1000):
            if row.fingerprint == fingerprint:
                raise RefusedError(
                    f"campaign {row.campaign_id} over this group is {row.state}: wait for it, or end it with "
                    f"`reprieve dead campaigns cancel {row.campaign_id}`"
                )

    async def _members(self, wanted: LetterFilter, plan: _Plan, journal: Journal) -> AsyncIterator[tuple[int, ...]]:
        """The ids of those that are there now, the oldest first, in chunks; refused where there are none."""
        now = await journal.store.now()
        states = (wanted.states & plan.states) if wanted.states else plan.states
        before = now if wanted.before is None else min(now, wanted.before)
        frozen = replace(wanted, states=states, before=before, sort=Sort.OLDEST, after=None)
        pages = self._select.pages(frozen)
        first = await anext(pages, None) if states else None
        if first is None:
            raise RefusedError(await self._why_nobody(wanted, plan))

        async def chunks() -> AsyncIterator[tuple[int, ...]]:
            yield tuple(row.letter_id for row in first)
            async for rows in pages:
                yield tuple(row.letter_id for row in rows)

        return chunks()

    async def _enlist(
        self, journal: Journal, campaign_id: int, members: AsyncIterator[tuple[int, ...]], actor: str, tell: Tell | None
    ) -> None:
        """Write the members down, and let it run; where that fails, nothing of it will."""
        count = 0
        try:
            async for ids in members:
                count += await journal.ask(Enlist(campaign_id=campaign_id, letters=ids), patience=PATIENCE)
                if tell is not None:
                    tell(count)
            await self._set_off(journal, campaign_id, CampaignState.RUNNING, actor, "")
        except BaseException:
            ending = self._set_off(journal, campaign_id, CampaignState.CANCELLED, actor, "it could not be begun")
            with suppress(StoreUnavailableError):  # nobody runs one that is gathering; whoever sees it can cancel it
                await asyncio.shield(asyncio.ensure_future(ending))
            raise

    async def _set_off(self, journal: Journal, campaign_id: int, state: CampaignState, actor: str, reason: str) -> None:
        steer = Steer(
            campaign_id=campaign_id, fence=0, expects=(CampaignState.GATHERING,), state=state, actor=actor, reason=reason,
            now=await journal.store.now(),
        )  # fmt: skip
        await journal.ask(steer, patience=PATIENCE)

    async def _selection(self, wanted: LetterFilter) -> str:
        """What was asked for, for show; a group also by the class of its failures."""
        usual = asdict(LetterFilter())
        chosen = {name: each for name, each in asdict(wanted).items() if each != usual[name]}
        chosen = {name: sorted(each) if isinstance(each, frozenset) else each for name, each in chosen.items()}
        if wanted.fingerprint is not None:
            group = await asyncio.to_thread(self._letters.group, wanted.fingerprint, now=self._clock.now())
            chosen |= {} if group is None else {"error_class": group.error_class}
        return json.dumps(chosen)

    async def _aside(self, wanted: LetterFilter, plan: _Plan) -> int:
        """How many are dead and have other gates to pass."""
        others = (wanted.states or DEAD) & (DEAD - plan.states)
        return await self._select.count(replace(wanted, states=others), others) if others else 0

    async def _why_nobody(self, wanted: LetterFilter, plan: _Plan) -> str:
        others = await self._aside(wanted, plan)
        if not others:
            return "there is nothing to replay: no dead letter that was asked for waits for that"
        way = f"--group {wanted.fingerprint}" if wanted.fingerprint else "with the same filter"
        which = " or ".join(sorted(plan.states))
        return (
            f"none of the {others:,} dead letters is {which}, which these steps need: give --cause, --evidence and --safe for "
            f"all of them, or pass the gates first: reprieve dead triage, remediate, approve {way}"
        )


def _plan(words: Words) -> _Plan:
    """The steps that were spoken of, and the states from which they lead to a replay."""
    given = tuple(words.given[gate] for gate in GATES if gate in words.given)
    if words.override is None or len(given) == len(GATES):
        last = Step(event=LetterEvent.REPLAY, note=words.override or words.note)
    else:
        last = Step(event=LetterEvent.OVERRIDE, note=words.override)
    steps = (*given, last)
    return _Plan(steps, frozenset(state for state in DEAD if _leads(state, steps)))


def _leads(state: LetterState, steps: tuple[Step, ...]) -> bool:
    try:
        letter_after(state, *(step.event for step in steps))
    except IllegalTransitionError:
        return False
    return True
