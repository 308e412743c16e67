"""Which stages may run: paused ones, held ones, and the breakers that hold them.

What the fleet knows is in the store; a worker keeps a copy that is at most a tick old, and its own run of failures.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from reprieve.core.breaker import Run, concerns, free, hold
from reprieve.ports.intents import Close, GiveBack, Hold, Probe
from reprieve.ports.reader import StageView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reprieve.app.journal import Journal
    from reprieve.core.breaker import Breaker
    from reprieve.core.failure import Failure

_LOG: Final = logging.getLogger("reprieve.worker")
Key = tuple[str, str]
_SHORTEST_HOLD = 0.05
"""Seconds; a Retry-After below that is not worth telling the fleet."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a failure costs its job, as far as the upstream is to blame."""

    free: bool = False
    """It was an outage: no attempt is spent."""
    not_before: float = 0.0


class Gates:
    """The stages of one worker."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._views: dict[Key, StageView] = {}
        self._runs: dict[Key, Run] = {}
        self._empty: set[Key] = set()
        """Stages whose last probe found no job."""

    async def refresh(self) -> None:
        """Learn what the fleet knows."""
        views = {(view.pipeline, view.stage): view for view in await self._journal.store.stages()}
        for key, before in self._views.items():
            if before.opened_at is not None and (key not in views or views[key].opened_at is None):
                self._runs.pop(key, None)  # somebody has closed it: what failed before says nothing any more
        self._views = views

    def is_closed(self, key: Key, now: float) -> bool:
        """Whether nothing may start there now."""
        view = self._views.get(key)
        if view is None:
            return False
        held = view.held_until is not None and view.held_until > now
        return view.paused or held or view.opened_at is not None

    def is_quiet(self, key: Key) -> bool:
        """Whether a success there changes nothing."""
        view = self._views.get(key)
        return key not in self._runs and (view is None or view.opened_at is None)

    def to_probe(self, keys: Iterable[Key], now: float) -> list[Key]:
        """Stages whose breaker is open and whose hold is over."""
        return [
            key
            for key in keys
            if (view := self._views.get(key)) is not None
            and view.opened_at is not None
            and not view.paused
            and (view.held_until is None or view.held_until <= now)
            and (view.probe_until is None or view.probe_until <= now)
        ]

    def openings(self, keys: Iterable[Key], now: float) -> list[float]:
        """When the holds of these stages end; a paused stage waits for a person."""
        views = [view for key in keys if (view := self._views.get(key)) is not None and not view.paused]
        return [view.held_until for view in views if view.held_until is not None and view.held_until > now]

    def keep_waiting(self, keys: Iterable[Key], now: float) -> bool:
        """Whether jobs may be behind one of these gates that will open by itself."""
        return any(
            not view.paused and (view.opened_at is not None or (view.held_until is not None and view.held_until > now))
            for key in keys
            if key not in self._empty and (view := self._views.get(key)) is not None
        )

    async def probe(self, key: Key, *, until: float, now: float) -> bool:
        """Ask for the one right to try."""
        self._empty.discard(key)
        self._set(key, probe_until=until)
        return await self._journal.ask(Probe(pipeline=key[0], stage=key[1], until=until, now=now))

    async def give_back(self, key: Key, *, until: float, now: float) -> None:
        """There was nothing to try it with: the right goes back."""
        self._empty.add(key)
        self._set(key, probe_until=None)
        await self._journal.ask(GiveBack(pipeline=key[0], stage=key[1], until=until, now=now))

    async def succeeded(self, key: Key, now: float) -> None:
        """The upstream answers: whatever was held because of it goes on."""
        self._runs.pop(key, None)
        view = self._views.get(key)
        if view is not None and view.opened_at is not None:
            self._set(key, opened_at=None, held_until=None, probe_until=None)
            _LOG.warning("%s/%s: the upstream answers again, the stage goes on", *key)
            await self._journal.ask(Close(pipeline=key[0], stage=key[1], now=now))

    async def failed(
        self,
        key: Key,
        breaker: Breaker | None,
        failure: Failure,
        *,
        job_id: int,
        probe: bool,
        now: float,
        ceiling: float,
    ) -> Cost:
        """Hold the stage where its upstream asks for it or is down; says whether the job pays."""
        if not concerns(failure):
            await self._answered(key, failure, now)
            return Cost()
        wait = min(failure.retry_after or 0.0, ceiling)
        if breaker is None:
            if wait > _SHORTEST_HOLD:
                await self._hold(key, failure, until=now + wait, now=now, opens=False)
            return Cost()
        view = self._views.get(key)
        opened_at = None if view is None else view.opened_at
        run = self._runs.get(key, Run()).failed(failure.error_class, job_id)
        self._runs[key] = run
        if opened_at is None and run.trips(breaker):
            await self._hold(key, failure, until=now + max(wait, breaker.first_hold), now=now, opens=True)
        elif opened_at is not None:
            if probe:
                await self._hold(
                    key, failure, until=now + max(wait, hold(breaker, opened_at, now)), now=now, opens=True
                )
            return Cost(free=free(breaker, opened_at, now), not_before=self._views[key].held_until or now)
        elif wait > _SHORTEST_HOLD:
            await self._hold(key, failure, until=now + wait, now=now, opens=False)
        return Cost()

    async def _answered(self, key: Key, failure: Failure, now: float) -> None:
        """A failure that is the job's own shows that the upstream is there."""
        if failure.status_code is not None:
            await self.succeeded(key, now)

    async def _hold(self, key: Key, failure: Failure, *, until: float, now: float, opens: bool) -> None:
        view = self._views.get(key) or _unknown(key)
        opened_at = view.opened_at if view.opened_at is not None else (now if opens else None)
        if view.held_until is not None and view.held_until >= until and opened_at == view.opened_at:
            return
        self._views[key] = replace(
            view, held_until=max(until, view.held_until or 0.0), opened_at=opened_at, probe_until=None
        )
        reason = "outage" if opens else "retry_after"
        if opens and view.opened_at is None:
            _LOG.error(
                "%s/%s: %s again and again, the stage is held until its upstream answers", *key, failure.error_class
            )
        await self._journal.ask(
            Hold(pipeline=key[0], stage=key[1], until=until, error_class=failure.error_class, reason=reason, now=now, opens=opens)
        )  # fmt: skip

    def _set(self, key: Key, **changes: float | None) -> None:
        self._views[key] = replace(self._views.get(key) or _unknown(key), **changes)  # type: ignore[arg-type]  # only times


def _unknown(key: Key) -> StageView:
    return StageView(
        pipeline=key[0], stage=key[1], paused=False, paused_by=None, reason=None, held_until=None, opened_at=None,
        error_class=None, probe_until=None, changed_at=None,
    )  # fmt: skip
