"""Alerts: look, acknowledge, resolve, tell now, and try every sink."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.app.alerts.herald import Herald, told_or_why
from reprieve.app.operations.asking import AUDIT, PATIENCE, actor_of, reason_of
from reprieve.core.alerts import Level
from reprieve.errors import RefusedError, UnknownNameError, UsageError
from reprieve.ports.alerting import AlertFilter, Notice
from reprieve.ports.intents import Acknowledge, Resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reprieve.app.alerts.herald import Heralded
    from reprieve.app.operations.asking import OpenJournal
    from reprieve.ports.alerting import AlertReader, AlertView, NoticeView, Sink
    from reprieve.ports.clock import Clock

_HIGHEST_ID: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDetail:
    """An alert, and who has been told of it."""

    alert: AlertView
    notices: Sequence[NoticeView]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What came of trying one sink."""

    sink: str
    error: str | None
    """Sanitized; None: it has taken it."""


class AlertOperations:
    """What an operator can see and do about alerts."""

    def __init__(
        self,
        reader: Callable[[], AlertReader],
        journal: OpenJournal,
        *,
        sinks: Callable[[], Sequence[Sink]],
        clock: Clock,
    ) -> None:
        """Take how to get at the sinks: they are made only for who tells them something."""
        self._reader, self._journal, self._sinks, self._clock = reader, journal, sinks, clock

    async def list(self, wanted: AlertFilter = AlertFilter()) -> Sequence[AlertView]:  # noqa: B008 - frozen
        """The newest first; page on with `after`."""
        if wanted.limit < 1:
            raise UsageError(f"limit must be at least 1, not {wanted.limit}")
        return await asyncio.to_thread(self._reader().alerts, wanted)

    async def show(self, alert_id: int) -> AlertDetail:
        """One alert, and who has been told of it."""
        alert = None
        if 0 < alert_id <= _HIGHEST_ID:
            alert = await asyncio.to_thread(self._reader().alert, alert_id)
        if alert is None:
            raise UnknownNameError("alert", str(alert_id))
        return AlertDetail(alert=alert, notices=await asyncio.to_thread(self._reader().notices, alert_id))

    async def acknowledge(self, alert_id: int, *, actor: str) -> AlertDetail:
        """Somebody looks after it."""
        actor = actor_of(actor)
        alert = (await self.show(alert_id)).alert
        journal = await self._journal()
        now = await journal.store.now()
        if not await journal.ask(Acknowledge(alert_id=alert_id, actor=actor, now=now), patience=PATIENCE):
            if not alert.is_open:
                raise RefusedError(f"alert {alert_id} is over: {alert.resolved_by} resolved it")
            raise RefusedError(f"{alert.acked_by or 'somebody'} looks after alert {alert_id} already")
        AUDIT.info("%s looks after alert %d", actor, alert_id)
        return await self.show(alert_id)

    async def resolve(self, alert_id: int, *, actor: str, reason: str) -> AlertDetail:
        """It is over; what happens after that is an alert of its own."""
        actor, reason = actor_of(actor), reason_of(reason)
        if not reason:
            raise UsageError("say why it is over: that is kept with the alert, and told to whoever was told of it")
        alert = (await self.show(alert_id)).alert
        journal = await self._journal()
        now = await journal.store.now()
        ended = await journal.ask(
            Resolve(actor=actor, why=reason, now=now, alerts=((alert_id, None),)), patience=PATIENCE
        )
        if not ended.alerts:
            raise RefusedError(f"alert {alert_id} is over: {alert.resolved_by or 'somebody'} resolved it")
        AUDIT.info("%s resolved alert %d", actor, alert_id)
        return await self.show(alert_id)

    async def send(self, *, actor: str) -> Heralded:
        """Tell everybody now what they have to hear, instead of by the next round of a worker."""
        actor = actor_of(actor)
        sinks = self._sinks()
        try:
            done = await Herald(await self._journal(), self._reader(), sinks, clock=self._clock).once()
        finally:
            await _close(sinks)
        AUDIT.info("%s had alerts told: %d told, %d failed", actor, done.told, done.failed)
        return done

    async def test(self, *, actor: str) -> Sequence[Tried]:
        """Send one notice that says it is a test through every sink; no alert is raised."""
        actor = actor_of(actor)
        sinks, now = self._sinks(), self._clock.now()
        notice = Notice(
            kind="raise", dedup_key=f"reprieve/test/{now:.0f}", level=Level.WARNING, title="[test] Reprieve can reach you",
            text=f"This is a test that {actor} asked for: nothing is wrong.", data={"rule": "test", "level": "warning"}, at=now,
        )  # fmt: skip
        try:
            errors = await asyncio.gather(*(told_or_why(sink, notice) for sink in sinks))
        finally:
            await _close(sinks)
        AUDIT.info("%s tried %d sinks of alerts", actor, len(sinks))
        return [Tried(sink=sink.name, error=error) for sink, error in zip(sinks, errors, strict=True)]


async def _close(sinks: Sequence[Sink]) -> None:
    for sink in sinks:
        await sink.close()
