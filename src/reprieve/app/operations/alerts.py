"""Alerts: look, acknowledge, resolve, tell now, try every sink, and prune."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.app.alerts.herald import Herald
from reprieve.app.alerts.sinks import told_or_why
from reprieve.app.operations.asking import AUDIT, PATIENCE, actor_of, reason_of
from reprieve.core.alerts import Level
from reprieve.core.backoff import LONGEST, require_number
from reprieve.errors import RefusedError, UnknownNameError, UsageError
from reprieve.ports.alerting import AlertFilter, AlertsPruned, Notice
from reprieve.ports.intents import Acknowledge, Resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reprieve.app.operations.asking import OpenJournal
    from reprieve.ports.alerting import AlertKeeper, AlertReader, AlertView, NoticeView, Sink
    from reprieve.ports.clock import Clock

_HIGHEST_ID: Final = 2**63 - 1
_PRUNED_AT_ONCE: Final = 500
"""Alerts in one transaction."""
_CENTURY: Final = 3_155_760_000.0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What came of telling everybody."""

    sinks: int
    """How many there are to be told."""
    told: int
    failed: int
    resolved: int


class AlertOperations:
    """What an operator can see and do about alerts."""

    def __init__(
        self,
        reader: Callable[[], AlertReader],
        keeper: AlertKeeper,
        journal: OpenJournal,
        *,
        sinks: Callable[[], Sequence[Sink]],
        clock: Clock,
    ) -> None:
        """Take how to get at the sinks: they are made only for who tells them something."""
        self._reader, self._keeper, self._journal, self._sinks, self._clock = reader, keeper, journal, sinks, clock

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

    async def send(self, *, actor: str) -> Sent:
        """Tell everybody now what they have to hear, instead of by the next round of a worker."""
        actor = actor_of(actor)
        sinks = self._sinks()
        try:
            done = await Herald(await self._journal(), self._reader(), sinks, clock=self._clock).once()
        finally:
            await _close(sinks)
        AUDIT.info("%s had alerts told: %d told, %d failed", actor, done.told, done.failed)
        return Sent(sinks=len(sinks), told=done.told, failed=done.failed, resolved=done.resolved)

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

    async def prune(
        self, older_than: float, *, actor: str, dry: bool = False, tell: Callable[[AlertsPruned], None] | None = None
    ) -> AlertsPruned:
        """Remove alerts that were over more than so many seconds ago, but for those of whose end a sink has yet to be told.

        Keep them for as long as the longest `within` of your rules: failures that led to one that is gone count towards the next.
        `tell` hears after each transaction what has been done so far.
        """
        actor = actor_of(actor)
        require_number("older_than", older_than, 0.0, _CENTURY)
        now = self._clock.now()
        before = now - older_than
        if not dry:
            # First of all: what was sighted before the end of an alert would count again once that is gone.
            await self._prune_sightings(oldest=min(before, now - LONGEST))
        total = AlertsPruned(alerts=0, kept_for_sinks=0, more=True)
        while total.more:
            done = await asyncio.to_thread(
                self._keeper.prune_alerts, before=before, now=now, limit=_PRUNED_AT_ONCE, dry=dry, after=total.after
            )
            total = AlertsPruned(
                alerts=total.alerts + done.alerts, kept_for_sinks=total.kept_for_sinks + done.kept_for_sinks,
                more=done.more, after=done.after,
            )  # fmt: skip
            if tell is not None:
                tell(total)
        if not dry:
            AUDIT.info("%s pruned %d alerts over for more than %.0f s", actor, total.alerts, older_than)
        return total

    async def _prune_sightings(self, *, oldest: float) -> None:
        """No window is longer than the longest that a rule may have."""
        after: int | None = 0
        while after is not None:
            after = await asyncio.to_thread(
                self._keeper.prune_sightings, oldest=oldest, limit=_PRUNED_AT_ONCE, after=after
            )


async def _close(sinks: Sequence[Sink]) -> None:
    for sink in sinks:
        await sink.close()
