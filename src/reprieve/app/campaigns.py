"""The steward beside a worker: settles what was replayed, and takes campaigns from wave to wave.

Every worker has one. All of them may try the same: the store lets one launch, and the others see that and slow down.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, assert_never

from reprieve.app.looking import Looks
from reprieve.app.redaction import redact_exception
from reprieve.app.worker.time import StoreTime
from reprieve.core.canary import (
    CampaignState,
    Done,
    MemberState,
    NextWave,
    Pace,
    Send,
    Standing,
    Stop,
    Wait,
    decide,
)
from reprieve.core.lifecycle import LetterState
from reprieve.core.value import value
from reprieve.errors import StoreUnavailableError
from reprieve.ports.dead_letters import LetterFilter
from reprieve.ports.intents import Launch, Settle, Steer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from reprieve.app.journal import Journal
    from reprieve.core.canary import Move
    from reprieve.ports.clock import Clock
    from reprieve.ports.dead_letters import CampaignRow, DeadLetterReader
    from reprieve.ports.store import Store

ACTOR: Final = "reprieve"
"""Who steers a campaign when nobody does."""
_LOG: Final = logging.getLogger("reprieve.campaigns")
_RUNNING: Final = frozenset({CampaignState.RUNNING})
_REPLAYING: Final = LetterFilter(states=frozenset({LetterState.REPLAYING}), limit=1)
_SETTLED_AT_ONCE: Final = 1000
_MOST_CAMPAIGNS: Final = 100
_MOST_MOVES: Final = 20
"""Of one campaign before the others get their turn."""
_QUICK: Final = 0.03
"""Seconds between two looks while this steward moves a campaign, or settles many; after others, ever more."""
_MANY: Final = 100
_STEADY: Final = 1.0
"""While something is replayed, and the least between two looks when nothing is."""
_IDLE: Final = 5.0
_SYNCHRONIZED: Final = 60.0


@value
class Stepped:
    """What a step did."""

    acted: bool
    """Whether it changed anything."""
    much: bool = False
    """Whether it moved a campaign, or settled many: then there is more to do soon."""
    busy: bool
    """Whether something is being replayed, or will be."""
    due: float | None = None
    """Seconds until a rate allows for more; None where nothing waits for that."""


class Steward:
    """Looks after campaigns, and after everything that is replayed."""

    def __init__(
        self, store: Store, journal: Callable[[], Awaitable[Journal]], letters: DeadLetterReader, *, clock: Clock
    ) -> None:
        self._store, self._letters, self._clock = store, letters, clock
        self._journal = journal
        """Asked for only when something is to be written: one that others do not wait for, where there is such a one."""
        self._look = Looks()
        self._time = StoreTime(store, clock)
        self._synchronized: float | None = None
        self._paces: dict[int, Pace] = {}
        self._campaigning = False
        """Whether a campaign ran at the last step: then something is replayed, and nobody need look."""
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[Steward]:
        """At work while something else is; whatever happens here, that is not hurt."""
        task = asyncio.create_task(self._work(), name="reprieve-steward")
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])
            await self._look.close()

    async def has_more(self) -> bool:
        """Step now; whether that put something into the queue, or time alone will."""
        try:
            stepped = await self.step()
        except StoreUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - told where it is tried again; a worker's end does not hang on it
            _LOG.debug("nobody knows whether campaigns have more to do: %s", redact_exception(error))
            return False
        return stepped.acted or stepped.due is not None

    async def _work(self) -> None:
        leave = self._store.subscribe(self._wake.set)
        rest = _QUICK
        try:
            while True:
                try:
                    stepped = await self.step()
                except StoreUnavailableError as error:
                    _LOG.warning("campaigns have to wait: %s", error)
                    stepped = Stepped(acted=False, busy=True)
                except Exception as error:  # noqa: BLE001 - whatever it is, the worker beside goes on
                    _LOG.error("a step of the campaigns failed:\n%s", redact_exception(error))
                    stepped = Stepped(acted=False, busy=False)
                rest = _QUICK if stepped.much else min(2 * rest, _STEADY if stepped.busy else _IDLE)
                await self._rest(rest, stepped)
        finally:
            leave()

    async def _rest(self, seconds: float, stepped: Stepped) -> None:
        if stepped.due is not None:
            await self._clock.sleep_async(min(seconds, stepped.due))
        elif stepped.busy:
            await self._clock.sleep_async(seconds)
        else:
            # There is news whenever anybody submits something: no reason to look more often than this.
            await self._clock.sleep_async(min(seconds, _STEADY))
            if seconds > _STEADY:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds - _STEADY):
                        await self._wake.wait()
        self._wake.clear()

    async def step(self) -> Stepped:
        """Settle what is over, and let every campaign that runs do what it can do now."""
        async with self._turn:
            await self._synchronize()
            replaying = self._campaigning or bool(await self._look(self._letters.letters, _REPLAYING))
            settled = await self._settle() if replaying else 0
            running = await self._campaigns()
            self._campaigning = bool(running)
            self._paces = {row.campaign_id: self._paces[row.campaign_id] for row in running if row.campaign_id in self._paces}  # fmt: skip
            steps = [await self._run(row) for row in running]
        moved = any(step.acted for step in steps)
        return Stepped(
            acted=settled > 0 or moved,
            much=settled >= _MANY or moved,
            busy=replaying or bool(steps),
            due=min((step.due for step in steps if step.due is not None), default=None),
        )

    async def _campaigns(self) -> list[CampaignRow]:
        """Those that run, the oldest first."""
        rows = await self._look(self._letters.campaigns, states=_RUNNING, limit=_MOST_CAMPAIGNS)
        return sorted(rows, key=lambda row: row.campaign_id)

    async def _synchronize(self) -> None:
        now = self._clock.monotonic()
        if self._synchronized is None or now > self._synchronized + _SYNCHRONIZED:
            await self._time.synchronize()
            self._synchronized = now

    async def _settle(self) -> int:
        """How many dead letters have heard that their job is over."""
        total, journal = 0, await self._journal()
        while True:
            settled = await journal.ask(Settle(now=self._time.now(), limit=_SETTLED_AT_ONCE))
            total += settled
            if settled < _SETTLED_AT_ONCE:
                return total

    async def _run(self, row: CampaignRow) -> Stepped:
        """Let one campaign do what it can do now."""
        acted = False
        for _ in range(_MOST_MOVES):
            move: Move = decide(standing_of(row), rate=row.rate, pace=self._pace(row))
            if isinstance(move, Wait):
                return Stepped(acted=acted, busy=True, due=move.seconds)
            if not await self._make(move, row):
                break  # somebody else has moved it, and will see to it
            acted = True
            seen = await self._look(self._letters.campaign, row.campaign_id)
            if seen is None or seen.state is not CampaignState.RUNNING:
                break
            row = seen
        return Stepped(acted=acted, busy=True)

    def _pace(self, row: CampaignRow) -> Pace | None:
        if row.rate is None:
            return None
        now = self._time.now()
        sent = (
            sum(row.members.values()) - _of(row.members, MemberState.WAITING) - _of(row.members, MemberState.LEFT_OUT)
        )
        before = self._paces.get(row.campaign_id)
        pace = Pace.start(now=now, sent=sent) if before is None else before.later(row.rate, now=now, sent=sent)
        self._paces[row.campaign_id] = pace
        return pace

    async def _make(self, move: Send | NextWave | Stop | Done, row: CampaignRow) -> bool:
        """Write it down; False where the campaign is no longer where it was seen."""
        match move:
            case Send():
                launch = Launch(
                    campaign_id=row.campaign_id, wave=row.wave, launched=row.launched, count=move.count,
                    now=self._time.now(),
                )  # fmt: skip
                return await (await self._journal()).ask(launch) is not None
            case NextWave():
                return await self._steer(row, CampaignState.RUNNING, f"wave {row.wave + 2} begins", wave=row.wave + 1)
            case Stop():
                return await self._steer(row, CampaignState.STOPPED, move.reason)
            case Done():
                return await self._steer(row, CampaignState.DONE, told(row))
            case _:
                assert_never(move)

    async def _steer(self, row: CampaignRow, state: CampaignState, reason: str, *, wave: int | None = None) -> bool:
        steer = Steer(
            campaign_id=row.campaign_id, fence=row.fence, expects=(CampaignState.RUNNING,), state=state, actor=ACTOR, reason=reason,
            now=self._time.now(), wave=wave,
        )  # fmt: skip
        done = await (await self._journal()).ask(steer)
        if done:
            level = logging.WARNING if state is CampaignState.STOPPED else logging.INFO
            _LOG.log(level, "campaign %d is %s: %s", row.campaign_id, state, reason)
        return done


def standing_of(row: CampaignRow) -> Standing:
    """A campaign in the numbers that are decided by."""
    return Standing(
        waves=row.waves, wave=row.wave, launched=row.launched, waiting=_of(row.members, MemberState.WAITING),
        replaying=_of(row.in_wave, MemberState.REPLAYING), confirmed=_of(row.in_wave, MemberState.CONFIRMED),
        failed=_of(row.in_wave, MemberState.FAILED), left_out=_of(row.in_wave, MemberState.LEFT_OUT),
        returned=_of(row.members, MemberState.RETURNED), failure=_failure(row),
    )  # fmt: skip


def told(row: CampaignRow) -> str:
    """What became of the members, in words."""
    words = {
        MemberState.CONFIRMED: "confirmed",
        MemberState.RETURNED: "came back",
        MemberState.FAILED: "failed otherwise",
        MemberState.LEFT_OUT: "left out",
        MemberState.REPLAYING: "under way",
        MemberState.WAITING: "not replayed",
    }
    return ", ".join(f"{number:,} {word}" for state, word in words.items() if (number := _of(row.members, state)))


def _failure(row: CampaignRow) -> str:
    """What a campaign's members had failed with, for people."""
    if row.fingerprint is None:
        return "the failure they had before"
    error_class = json.loads(row.selection).get("error_class")
    return row.fingerprint if error_class is None else f"{error_class} again ({row.fingerprint})"


def _of(counts: Mapping[MemberState, int], state: MemberState) -> int:
    return counts.get(state, 0)
