"""What sinks have to be told: made out, taken, told; and the ends of alerts, of which they have to be told too."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from reprieve.adapters.sql.words import Ask, rows_as_json
from reprieve.core.alerts import Level
from reprieve.ports.intents import NoticeRecord, NoticesTaken, Resolved, Written

if TYPE_CHECKING:
    from reprieve.adapters.sql.words import Talk, Words
    from reprieve.ports.intents import Acknowledge, Resolve, TakeNotices, Told

LONG_OVER: Final = 86_400.0
"""Seconds after which nobody wants to hear any more that something came and went."""
_OF_NOTICE: Final = ("notice_id", "fence", "sink", "kind", "attempts")
_MOMENTS: Final = ("first_at", "last_at", "resolved_at")


def take(words: Words, said: TakeNotices) -> Talk[NoticesTaken]:
    """Make out what these sinks have not been told of yet, and take what is due."""
    sinks = rows_as_json([[name] for name in said.sinks])
    if said.makes_out:
        yield Ask(_make_out(words), {"sinks": sinks, "now": said.now})
        missed = {"sinks": sinks, "now": said.now, "recent": said.now - LONG_OVER}
        yield Ask(_make_out_missed(words), missed)
        yield Ask(_make_out_missed_ends(words), missed)
        yield Ask(_know(words), {"sinks": sinks, "now": said.now})
    rows = yield Ask(_due(words), {"sinks": sinks, "now": said.now, "limit": said.limit})
    if not rows:
        return NoticesTaken(notices=())
    ids = words.listed(row[0] for row in rows)
    yield Ask(_lease(words), {"ids": ids, "until": said.until})
    rows = yield Ask(_notices(words), {"ids": ids})
    return NoticesTaken(notices=tuple(_record(row) for row in rows))


def _record(row: tuple[Any, ...]) -> NoticeRecord:
    values = dict(zip((field.name for field in fields(NoticeRecord)), row, strict=True))
    return NoticeRecord(**{**values, "level": Level(values["level"])})


def told(words: Words, said: Told, *, again: bool) -> Talk[Written]:
    """Write what came of it, unless somebody else has taken it meanwhile."""
    values = {"id": said.notice_id, "fence": said.fence, "error": said.error}
    if said.error is None:
        rows = yield Ask(_heard(words), {**values, "now": said.now})
    else:
        at = said.now if said.not_before is None else said.not_before
        rows = yield Ask(_put_off(words), {**values, "not_before": at})
    if not rows and again:
        rows = yield Ask(_ended(words), {"id": said.notice_id, "fence": said.fence})
    return Written.APPLIED if rows else Written.STALE


def resolve(words: Words, said: Resolve, *, again: bool) -> Talk[Resolved]:
    """End those that are open, and make out whom to tell: who was told, or is being told, that they are."""
    values = {"now": said.now, "actor": said.actor, "why": said.why}
    rows = []
    if said.alerts:
        given = {"alerts": rows_as_json(said.alerts)}
        rows = yield Ask(_end(words), {**values, **given})
        if again:
            rows += yield Ask(_ended_before(words), {**given, "now": said.now, "actor": said.actor})
    elif said.rule is not None and said.key is not None:
        rows = yield Ask(_end_of_key(words), {**values, "rule": said.rule, "key": said.key})
    ids = tuple(sorted({row[0] for row in rows}))
    if ids:
        yield Ask(_make_out_ends(words), {"ids": words.listed(ids), "now": said.now})
    return Resolved(alerts=ids)


def acknowledge(words: Words, said: Acknowledge, *, again: bool) -> Talk[bool]:
    """Write who looks after it."""
    values = {"id": said.alert_id, "actor": said.actor, "now": said.now}
    rows = yield Ask(_acknowledge(words), values)
    if not rows and again:
        rows = yield Ask(_acknowledged(words), values)
    return bool(rows)


# --- statements -------------------------------------------------------------------------------------------------------


@cache
def _make_out(words: Words) -> str:
    now = words.value("now", "moment")
    return f"""
    INSERT INTO alert_notices (alert_id, sink, kind, not_before, created_at)
    SELECT alert.id, given.sink, 'raise', {now}, {now} FROM alerts alert CROSS JOIN {words.given("sinks", sink="text")}
    WHERE alert.resolved_at IS NULL AND NOT EXISTS (
      SELECT 1 FROM alert_notices notice WHERE notice.alert_id = alert.id AND notice.sink = given.sink AND notice.kind = 'raise')
    ORDER BY alert.id, given.sink
    ON CONFLICT DO NOTHING
    """  # noqa: S608 - assembled from constants


@cache
def _make_out_missed(words: Words) -> str:
    """What came and went before anybody who tells a sink had looked; a sink that is new does not hear of it."""
    now = words.value("now", "moment")
    return f"""
    INSERT INTO alert_notices (alert_id, sink, kind, not_before, created_at)
    SELECT alert.id, known.sink, 'raise', {now}, {now} FROM {words.given("sinks", sink="text")}
    JOIN alert_sinks known ON known.sink = given.sink JOIN alerts alert ON alert.resolved_at > known.since
    WHERE alert.resolved_at IS NOT NULL AND alert.resolved_at > {words.value("recent", "moment")} AND NOT EXISTS (
      SELECT 1 FROM alert_notices notice WHERE notice.alert_id = alert.id AND notice.sink = known.sink AND notice.kind = 'raise')
    ORDER BY alert.id, known.sink
    ON CONFLICT DO NOTHING
    """  # noqa: S608 - assembled from constants


@cache
def _make_out_missed_ends(words: Words) -> str:
    """Of those, and of what ended while somebody was making out its beginning."""
    now = words.value("now", "moment")
    return f"""
    INSERT INTO alert_notices (alert_id, sink, kind, not_before, created_at)
    SELECT alert.id, given.sink, 'resolve', {now}, {now} FROM {words.given("sinks", sink="text")} CROSS JOIN alerts alert
    JOIN alert_notices notice ON notice.alert_id = alert.id AND notice.sink = given.sink AND notice.kind = 'raise'
    WHERE alert.resolved_at IS NOT NULL AND alert.resolved_at > {words.value("recent", "moment")} AND NOT EXISTS (
      SELECT 1 FROM alert_notices ended WHERE ended.alert_id = alert.id AND ended.sink = given.sink AND ended.kind = 'resolve')
    ORDER BY alert.id, given.sink
    ON CONFLICT DO NOTHING
    """  # noqa: S608 - assembled from constants


@cache
def _know(words: Words) -> str:
    return f"""
    INSERT INTO alert_sinks (sink, since)
    SELECT given.sink, {words.value("now", "moment")} FROM {words.given("sinks", sink="text")} WHERE true ORDER BY given.sink
    ON CONFLICT (sink) DO NOTHING
    """  # noqa: S608 - assembled from constants


@cache
def _due(words: Words) -> str:
    return f"""
    SELECT notice.id FROM alert_notices notice
    WHERE notice.told_at IS NULL AND notice.not_before <= {words.value("now", "moment")}
      AND notice.sink IN (SELECT sink FROM {words.given("sinks", sink="text")})
      AND (notice.kind = 'raise' OR EXISTS (
        SELECT 1 FROM alert_notices first
        WHERE first.alert_id = notice.alert_id AND first.sink = notice.sink AND first.kind = 'raise' AND first.told_at IS NOT NULL))
    ORDER BY notice.not_before, notice.id LIMIT {words.value("limit", "bigint")} {words.lock("FOR UPDATE OF notice SKIP LOCKED")}
    """  # noqa: S608 - assembled from constants


@cache
def _lease(words: Words) -> str:
    return f"""
    UPDATE alert_notices SET fence = fence + 1, attempts = attempts + 1, not_before = {words.value("until", "moment")}
    WHERE id {words.among("ids")}
    """  # noqa: S608 - assembled from constants


@cache
def _notices(words: Words) -> str:
    columns = []
    for field in fields(NoticeRecord):
        of = "notice" if field.name in _OF_NOTICE else "alert"
        name = {"notice_id": "id", "alert_id": "id"}.get(field.name, field.name)
        columns.append(words.seconds(f"{of}.{name}") if field.name in _MOMENTS else f"{of}.{name}")
    return f"""
    SELECT {", ".join(columns)} FROM alert_notices notice JOIN alerts alert ON alert.id = notice.alert_id
    WHERE notice.id {words.among("ids")} ORDER BY notice.id
    """  # noqa: S608 - assembled from constants


@cache
def _heard(words: Words) -> str:
    return f"""
    UPDATE alert_notices SET told_at = {words.value("now", "moment")}, error = {words.value("error")}
    WHERE id = {words.value("id", "bigint")} AND fence = {words.value("fence", "bigint")} AND told_at IS NULL RETURNING id
    """  # noqa: S608 - assembled from constants


@cache
def _put_off(words: Words) -> str:
    return f"""
    UPDATE alert_notices SET not_before = {words.value("not_before", "moment")}, error = {words.value("error")}
    WHERE id = {words.value("id", "bigint")} AND fence = {words.value("fence", "bigint")} AND told_at IS NULL RETURNING id
    """  # noqa: S608 - assembled from constants


@cache
def _ended(words: Words) -> str:
    return f"""
    SELECT id FROM alert_notices
    WHERE id = {words.value("id", "bigint")} AND fence = {words.value("fence", "bigint")} AND told_at IS NOT NULL
    """  # noqa: S608 - assembled from constants


def _ending(words: Words) -> str:
    return f"""
    UPDATE alerts SET resolved_at = {words.value("now", "moment")}, resolved_by = {words.value("actor")}, why = {words.value("why")}
    WHERE resolved_at IS NULL AND
    """  # noqa: S608 - assembled from constants


@cache
def _end(words: Words) -> str:
    given = words.given("alerts", id="bigint", last_at="moment")
    return f"""
    {_ending(words)} EXISTS (
      SELECT 1 FROM {given} WHERE given.id = alerts.id AND (given.last_at IS NULL OR given.last_at = alerts.last_at))
    RETURNING id
    """  # noqa: S608 - assembled from constants


@cache
def _end_of_key(words: Words) -> str:
    return f"{_ending(words)} rule = {words.value('rule')} AND key = {words.value('key')} RETURNING id"


@cache
def _ended_before(words: Words) -> str:
    given = words.given("alerts", id="bigint", last_at="moment")
    return f"""
    SELECT alert.id FROM alerts alert JOIN {given} ON given.id = alert.id
    WHERE alert.resolved_at = {words.value("now", "moment")} AND alert.resolved_by = {words.value("actor")}
    """  # noqa: S608 - assembled from constants


@cache
def _make_out_ends(words: Words) -> str:
    now = words.value("now", "moment")
    return f"""
    INSERT INTO alert_notices (alert_id, sink, kind, not_before, created_at)
    SELECT alert_id, sink, 'resolve', {now}, {now} FROM alert_notices
    WHERE alert_id {words.among("ids")} AND kind = 'raise' ORDER BY alert_id, sink
    ON CONFLICT DO NOTHING
    """  # noqa: S608 - assembled from constants


@cache
def _acknowledge(words: Words) -> str:
    return f"""
    UPDATE alerts SET acked_by = {words.value("actor")}, acked_at = {words.value("now", "moment")}
    WHERE id = {words.value("id", "bigint")} AND resolved_at IS NULL AND acked_at IS NULL RETURNING id
    """  # noqa: S608 - assembled from constants


@cache
def _acknowledged(words: Words) -> str:
    return f"""
    SELECT id FROM alerts WHERE id = {words.value("id", "bigint")} AND acked_by = {words.value("actor")}
      AND acked_at = {words.value("now", "moment")}
    """  # noqa: S608 - assembled from constants
