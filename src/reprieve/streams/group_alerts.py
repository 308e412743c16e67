"""The alerts of a group: one per rule and key over all its consumers, held in Redis.

The rules are those of the profile (`core.alerts`). An alert is a field of the `alerts` hash; it counts what happens
while it is open. What sinks are to be told is queued in the same script that opens or resolves it. Any consumer of the
group tells them, so that a sink that is down is tried again, by another consumer if this one ends.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from reprieve.core.alerts import (
    Alarm,
    Level,
    Rule,
    Seen,
    Until,
    Watch,
    alarm,
    at_once,
    counting,
    enough_to_tell,
    key_of,
    too_many,
)
from reprieve.streams.pause import parse_pause
from reprieve.streams.scripts import CLAIM_NOTIFICATION, UPDATE_ALERT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from reprieve.core.decide import Decision
    from reprieve.core.failure import Failure
    from reprieve.ports.alerting import Notice, Sink
    from reprieve.streams.connection import RedisConnection
    from reprieve.streams.keys import StreamKeys
    from reprieve.streams.pause import GroupPause

ALERTS: Final = logging.getLogger("reprieve.alerts")
_MAX_TRIES: Final = 20
_MARGIN_SECONDS: Final = 10.0
"""How much longer a notification is claimed than its sink may need."""
_FIRST_RETRY_SECONDS: Final = 5.0
_MAX_RETRY_SECONDS: Final = 600.0
_GIVE_UP_SECONDS: Final = 86_400.0
"""A notification that no sink took for so long is dropped: no consumer has that sink any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAlert:
    """An alert as the hash holds it. One that is not open yet only counts events within its rule's window."""

    rule: str
    key: str
    level: str
    summary: str
    error_class: str
    until: str
    quiet: float
    is_open: bool = False
    count: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    times: tuple[float, ...] = ()

    def to_json(self) -> str:
        """Return the value of the field."""
        return json.dumps(asdict(self))


@dataclass(slots=True)
class _Occurrence:
    """What is to be counted: an alarm, how often, and the rule where it takes several."""

    alarm: Alarm
    rule: Rule
    count: int = 1


def parse_alert(text: bytes | None) -> GroupAlert | None:
    """Read an alert; None for what is none."""
    if text is None:
        return None
    try:
        stored = json.loads(text)
        known = {name: stored[name] for name in GroupAlert.__slots__ if name in stored}
        return GroupAlert(**{**known, "times": tuple(known.get("times", ()))})
    except (ValueError, TypeError):
        return None


def next_alert(current: GroupAlert | None, alarm: Alarm, rule: Rule, *, count: int, now: float) -> GroupAlert:
    """Return the alert after something happened so often; it opens at once, or when the rule's window is full."""
    alert = current or GroupAlert(
        rule=alarm.rule,
        key=alarm.key,
        level=alarm.level.value,
        summary=alarm.summary,
        error_class=alarm.error_class,
        until=alarm.until.value,
        quiet=alarm.quiet,
        first_at=now,
    )
    if alert.is_open:
        return replace(alert, count=alert.count + count, last_at=now, summary=alarm.summary)
    if not rule.counts or rule.within is None:
        return replace(alert, is_open=True, count=count, first_at=now, last_at=now, summary=alarm.summary)
    times = (*alert.times, *([now] * count))[-enough_to_tell(rule.more_than) :]
    if not too_many(times, more_than=rule.more_than, within=rule.within):
        return replace(alert, times=times, last_at=now)
    within = [each for each in times if now - each < rule.within]
    return replace(
        alert,
        is_open=True,
        count=len(within),
        first_at=min(within),
        last_at=now,
        times=(),
        summary=f"more than {rule.more_than} within {rule.within:g} s: {alarm.summary}",
    )


def why_resolved(alert: GroupAlert, *, now: float, paused: bool, dead_letters: int) -> str | None:
    """Return why an open alert is over, or None while it is not.

    What waits for dead letters to be settled ends when the dead-letter stream is empty, or when it was quiet.
    """
    match alert.until:
        case Until.HAND:
            return None
        case Until.RESUMED:
            return None if paused else "the group was resumed"
        case Until.SETTLED if dead_letters == 0:
            return "no dead letter is left"
        case _:
            return f"quiet for {alert.quiet:g} s" if now - alert.last_at >= alert.quiet else None


class GroupAlerts:
    """Raises, resolves and sends the alerts of one group."""

    def __init__(
        self,
        connection: RedisConnection,
        keys: StreamKeys,
        *,
        group: str,
        rules: Mapping[str, Rule],
        sinks: Sequence[Sink],
        now: Callable[[], float],
    ) -> None:
        self._connection, self._keys, self._group = connection, keys, group
        self._rules, self._sinks, self._now = rules, sinks, now
        self._pending: dict[tuple[str, str], _Occurrence] = {}

    @property
    def has_sinks(self) -> bool:
        """Whether there are sinks to notify."""
        return bool(self._sinks)

    def failed(self, failure: Failure, decision: Decision, summary: str) -> None:
        """Note what a failure raises; `flush` writes it."""
        from reprieve.app.alerts.raising import watch_of  # noqa: PLC0415 - it loads more than a failure needs

        seen = self._seen(watch_of(decision), summary, failure.error_class)
        rule = at_once(self._rules, seen)
        for each in (*((rule,) if rule is not None else ()), *counting(self._rules, failure.error_class)):
            self._note(each, seen)

    def happened(self, watch: Watch, summary: str, *, error_class: str = "") -> None:
        """Note anything else that a rule watches."""
        seen = self._seen(watch, summary, error_class)
        rule = at_once(self._rules, seen)
        if rule is not None:
            self._note(rule, seen)

    def _seen(self, watch: Watch, summary: str, error_class: str) -> Seen:
        return Seen(
            watch=watch,
            at=time.time(),
            source=self._keys.queue,
            stage=self._group,
            error_class=error_class,
            summary=summary,
        )

    def _note_pause(self, pause: GroupPause | None, known: Collection[bytes], *, now: float) -> None:
        """Note a fatal failure whose consumer ended after it had paused the group and before it wrote the alert."""
        if pause is None or not pause.message_id or now - pause.at < _MARGIN_SECONDS:
            return
        summary = f"{self._keys.queue}/{self._group}: {pause.error_class}, message {pause.message_id} paused the group"
        seen = self._seen(Watch.PAUSE, f"{summary}: {pause.reason}", pause.error_class)
        rule = at_once(self._rules, seen)
        if rule is None:
            return
        noted = alarm(rule, seen)
        if noted.until is Until.RESUMED and f"{noted.rule}/{noted.key}".encode() not in known:
            self._note(rule, seen)

    def _note(self, rule: Rule, seen: Seen) -> None:
        place = (rule.name, key_of(rule, seen))
        known = self._pending.get(place)
        if known is None:
            self._pending[place] = _Occurrence(alarm(rule, seen), rule)
        else:
            known.count += 1
            known.alarm = alarm(rule, seen)

    async def flush(self) -> None:
        """Write what was noted; what cannot be written now is kept for the next time."""
        while self._pending:
            place, noted = self._pending.popitem()
            try:
                await self._write(noted)
            except BaseException:
                later = self._pending.setdefault(place, noted)
                if later is not noted:
                    later.count += noted.count
                raise

    async def _write(self, noted: _Occurrence) -> None:
        field = f"{noted.alarm.rule}/{noted.alarm.key}"
        text = b""
        for _ in range(_MAX_TRIES):
            current = parse_alert(text or None)
            wanted = next_alert(current, noted.alarm, noted.rule, count=noted.count, now=self._now())
            opens = wanted.is_open and not (current is not None and current.is_open)
            told = [self._notification(sink, "raise", wanted) for sink in self._sinks] if opens else []
            done, stored, _ = await self._connection.run(
                UPDATE_ALERT, [self._keys.alerts, self._keys.notifications], field, text, wanted.to_json(), *told
            )
            if done:
                if opens:
                    level = logging.ERROR if wanted.level == Level.PAGE else logging.WARNING
                    ALERTS.log(level, "%s", wanted.summary)
                return
            text = stored or b""

    async def resolve(self) -> None:
        """End the alerts whose condition is over."""
        alerts, paused, dead_letters = await self._connection.pipeline(
            [
                ("HGETALL", self._keys.alerts),
                ("GET", self._keys.paused),
                ("XLEN", self._keys.dead_letters),
            ]
        )
        now = self._now()
        self._note_pause(parse_pause(paused), alerts[::2], now=now)
        await self.flush()
        for index in range(0, len(alerts), 2):
            field, text = alerts[index], alerts[index + 1]
            alert = parse_alert(text)
            if alert is None:
                continue
            if not alert.is_open:
                if now - alert.last_at > _MAX_RETRY_SECONDS + alert.quiet:  # it counts nothing that is in a window
                    await self._remove(field, text, [])
                continue
            why = why_resolved(alert, now=now, paused=paused is not None, dead_letters=dead_letters)
            if why is not None:
                told = [self._notification(sink, "resolve", alert, why=why) for sink in self._sinks]
                if await self._remove(field, text, told):
                    ALERTS.info("%s of %s is over: %s", alert.rule, alert.key, why)

    async def _remove(self, field: bytes, text: bytes, told: Sequence[str]) -> bool:
        keys = [self._keys.alerts, self._keys.notifications]
        return bool((await self._connection.run(UPDATE_ALERT, keys, field, text, b"", *told))[0])

    def _notification(self, sink: Sink, kind: str, alert: GroupAlert, *, why: str = "") -> str:
        return json.dumps({"sink": sink.name, "kind": kind, "at": self._now(), "why": why, "alert": asdict(alert)})

    async def notify(self) -> int:
        """Tell every sink what is due for it; return how many were told."""
        from reprieve.app.alerts.sinks import told_or_why  # noqa: PLC0415 - only where something may be told

        told = 0
        for sink in self._sinks:
            lease = round(1000 * (sink.timeout + _MARGIN_SECONDS))
            while True:
                member = await self._connection.run(
                    CLAIM_NOTIFICATION, [self._keys.notifications], sink.name, lease, _GIVE_UP_SECONDS
                )
                if member is None:
                    break
                entry = json.loads(member)
                error = await told_or_why(sink, build_notice(entry, queue=self._keys.queue, group=self._group))
                age = self._now() - entry["at"]
                if error is None or age > _GIVE_UP_SECONDS:
                    await self._connection.call("ZREM", self._keys.notifications, member)
                    told += error is None
                    continue
                ALERTS.warning("the sink %s could not be told of %s: %s", sink.name, entry["alert"]["key"], error)
                wait = min(max(age, _FIRST_RETRY_SECONDS), _MAX_RETRY_SECONDS)
                await self._connection.call(
                    "ZADD", self._keys.notifications, round(1000 * (self._now() + wait)), member
                )
        return told

    async def close(self) -> None:
        """Close the sinks."""
        for sink in self._sinks:
            await sink.close()


def build_notice(entry: Mapping[str, Any], *, queue: str, group: str) -> Notice:
    """Return what a sink is told, in words and in fields."""
    from reprieve.ports.alerting import Notice  # noqa: PLC0415 - only where something is told

    alert, ended = entry["alert"], entry["kind"] == "resolve"
    loud = "resolved" if ended else {"page": "PAGE"}.get(alert["level"], "warning")
    lines = [alert["summary"], f"rule {alert['rule']}, {alert['key']}, {alert['count']:,} times"]
    lines.append(f"resolved: {entry['why']}" if ended else f"reprieve streams status {queue} --group {group}")
    return Notice(
        kind=entry["kind"],
        dedup_key=f"reprieve/streams/{alert['rule']}/{alert['key']}/{alert['first_at']:.3f}",
        level=Level(alert["level"]),
        title=f"[{loud}] {alert['rule']}: {alert['key']}",
        text="\n".join(lines),
        data={**alert, "queue": queue, "group": group, "why": entry["why"] or None},
        at=entry["at"],
    )
