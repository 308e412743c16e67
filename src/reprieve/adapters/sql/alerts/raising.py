"""Opening alerts, or counting where they are open: all of a batch in one statement; and weighing whether there are too many."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Final

from reprieve.adapters.sql.words import Ask, rows_as_json
from reprieve.core.alerts import enough_to_tell, too_many
from reprieve.ports.intents import Raised

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reprieve.adapters.sql.words import Talk, Words
    from reprieve.core.alerts import Alarm
    from reprieve.ports.intents import Weigh

    Key = tuple[str, str]

_ALARM: Final = {
    "rule": "text", "key": "text", "level": "text", "summary": "text", "source": "text", "stage": "text", "error_class": "text",
    "over_when": "text", "quiet": "float8", "count": "integer", "first_at": "moment", "last_at": "moment",
}  # fmt: skip
NOT_RAISED: Final = Raised(alert_id=None, opened=False)


def raise_all(words: Words, alarms: Iterable[Alarm], *, again: bool) -> Talk[dict[Key, Raised]]:
    """Open them, or count; what is open now, by rule and key."""
    wanted = sorted(alarms, key=lambda each: (each.rule, each.key, each.at))
    if again and wanted:
        # What an earlier try has written has the same time; a count that is one short does less harm than a second page.
        rows = yield Ask(_counted(words), {"alarms": rows_as_json([(each.rule, each.key, each.at) for each in wanted])})
        # One that counts no more than these was opened by them: nobody has said so yet.
        own = Counter((each.rule, each.key) for each in wanted)
        done = {
            (rule, key): Raised(alert_id=alert_id, opened=count <= own[rule, key])
            for rule, key, alert_id, count in rows
        }
        wanted = [each for each in wanted if (each.rule, each.key) not in done]
    else:
        done = {}
    if not wanted:
        return done
    merged = _merged(wanted)
    given = rows_as_json(list(merged.values()))
    yield Ask(_end_quiet(words), {"alarms": given})
    rows = yield Ask(_raise(words), {"alarms": given})
    for alert_id, rule, key, count in rows:
        done[rule, key] = Raised(alert_id=alert_id, opened=count == merged[rule, key][9])
    return done


def _merged(alarms: Sequence[Alarm]) -> dict[Key, tuple[object, ...]]:
    """One row for a rule and key, in their order; the latest one speaks."""
    several: dict[Key, list[Alarm]] = {}
    for each in alarms:
        several.setdefault((each.rule, each.key), []).append(each)
    return {
        key: (
            last.rule, last.key, last.level.value, last.summary, last.source, last.stage, last.error_class,
            last.until.value, last.quiet, len(many), many[0].at, last.at,
        )
        for key, many in several.items()
        for last in many[-1:]
    }  # fmt: skip


def weigh(words: Words, said: Weigh, *, again: bool) -> Talk[bool]:
    """Whether it is to be raised: it is open already, or too many have come."""
    alarm = said.alarm
    place = {"rule": alarm.rule, "key": alarm.key}
    if said.sighted:
        if words.locks:
            # Two who sight at once would each miss the other's row.
            yield Ask(_LOCK, {"place": f"{alarm.rule}/{alarm.key}"})
        around = {**place, "at": alarm.at, "old": alarm.at - said.within}
        yield Ask(_forget(words), {name: around[name] for name in ("rule", "key", "old")})
        sight = {name: around[name] for name in ("rule", "key", "at")}
        if not again or not (yield Ask(_sighted(words), sight)):
            yield Ask(_sight(words), sight)
    rows = yield Ask(_standing(words), {**place, "at": alarm.at})
    is_open, resolved_at = rows[0]
    if is_open:
        return True
    since = alarm.at - said.within if resolved_at is None else max(alarm.at - said.within, resolved_at)
    times = yield Ask(
        _times(words, attempts=said.attempts, stage=said.stage is not None, classes=bool(said.classes)),
        {
            **place, "since": since, "before": alarm.at + said.within, "limit": enough_to_tell(said.more_than),
            **({"source": alarm.source} if said.attempts else {}),
            **({"stage": said.stage} if said.attempts and said.stage is not None else {}),
            **({"classes": rows_as_json([[each] for each in said.classes])} if said.attempts and said.classes else {}),
        },
    )  # fmt: skip
    return too_many([row[0] for row in times], more_than=said.more_than, within=said.within)


# --- statements -------------------------------------------------------------------------------------------------------

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%(place)s::text, 5))"


@cache
def _raise(words: Words) -> str:
    names = ", ".join(_ALARM)
    return f"""
    INSERT INTO alerts ({names}) SELECT {names} FROM {words.given("alarms", **_ALARM)} WHERE true ORDER BY rule, key
    ON CONFLICT (rule, key) WHERE resolved_at IS NULL DO UPDATE SET count = alerts.count + excluded.count,
      first_at = {words.least}(alerts.first_at, excluded.first_at), last_at = {words.greatest}(alerts.last_at, excluded.last_at),
      summary = excluded.summary, error_class = excluded.error_class
    RETURNING id, rule, key, count
    """  # noqa: S608 - assembled from constants


@cache
def _end_quiet(words: Words) -> str:
    """What has been quiet for long enough is over, though nobody was there to say so: what comes now is news."""
    quiet = f"{words.seconds('alerts.last_at')} + alerts.quiet <= {words.seconds('given.first_at')}"
    return f"""
    UPDATE alerts SET resolved_at = given.first_at, resolved_by = 'reprieve', why = 'nothing for ' || CAST(alerts.quiet AS integer) || ' s'
    FROM {words.given("alarms", **_ALARM)}
    WHERE alerts.rule = given.rule AND alerts.key = given.key AND alerts.resolved_at IS NULL AND alerts.over_when = 'quiet'
      AND {quiet}
    """  # noqa: S608 - assembled from constants


@cache
def _counted(words: Words) -> str:
    return f"""
    SELECT alert.rule, alert.key, alert.id, alert.count
    FROM {words.given("alarms", rule="text", key="text", at="moment")}
    JOIN alerts alert ON alert.rule = given.rule AND alert.key = given.key AND alert.last_at >= given.at
    ORDER BY alert.id
    """  # noqa: S608 - assembled from constants


@cache
def _forget(words: Words) -> str:
    return f"""
    DELETE FROM alert_sightings
    WHERE rule = {words.value("rule")} AND key = {words.value("key")} AND at <= {words.value("old", "moment")}
    """  # noqa: S608 - assembled from constants


@cache
def _sight(words: Words) -> str:
    return f"""
    INSERT INTO alert_sightings (rule, key, at)
    VALUES ({words.value("rule")}, {words.value("key")}, {words.value("at", "moment")})
    """  # noqa: S608 - assembled from constants


@cache
def _sighted(words: Words) -> str:
    return f"""
    SELECT 1 FROM alert_sightings
    WHERE rule = {words.value("rule")} AND key = {words.value("key")} AND at = {words.value("at", "moment")} LIMIT 1
    """  # noqa: S608 - assembled from constants


@cache
def _standing(words: Words) -> str:
    of_key = f"FROM alerts WHERE rule = {words.value('rule')} AND key = {words.value('key')}"
    stale = f"over_when = 'quiet' AND {words.seconds('last_at')} + quiet <= {words.value('at', 'float8')}"
    return f"""
    SELECT EXISTS (SELECT 1 {of_key} AND resolved_at IS NULL AND NOT ({stale})), (SELECT {words.seconds("max(resolved_at)")} {of_key})
    """


# So many that not all have to be read: more would not change the answer.
@cache
def _times(words: Words, *, attempts: bool, stage: bool, classes: bool) -> str:
    since, before = words.value("since", "moment"), words.value("before", "moment")
    sightings = f"""
    SELECT {words.seconds("at")} FROM alert_sightings
    WHERE rule = {words.value("rule")} AND key = {words.value("key")} AND at > {since} AND at < {before}
    """  # noqa: S608 - assembled from constants
    if not attempts:
        return f"{sightings} LIMIT {words.value('limit', 'bigint')}"
    given = words.given("classes", error_class="text")
    return f"""
    SELECT {words.seconds("attempt.ended_at")} FROM attempts attempt JOIN jobs job ON job.id = attempt.job_id
    WHERE attempt.ended_at > {since} AND attempt.ended_at < {before} AND job.pipeline = {words.value("source")}
      {f"AND attempt.stage = {words.value('stage')}" if stage else ""}
      {f"AND attempt.error_class IN (SELECT error_class FROM {given})" if classes else ""}
    UNION ALL {sightings}
    LIMIT {words.value("limit", "bigint")}
    """  # noqa: S608 - assembled from constants
