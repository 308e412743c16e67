"""Alerts in the store: one open per rule and key, raised with what is written, weighed over windows, told through an outbox."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from reprieve.adapters.sql.alerts import applying
from reprieve.core.alerts import DEFAULT_RULES, Level, Seen, Until, Watch, alarm
from reprieve.core.lifecycle import JobStatus
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

NOW = 1_700_000_000.0
WITHIN = 300.0


def bug(at=NOW, *, stage="fetch", summary="review/fetch: BUG", rule="page"):
    seen = Seen(watch=Watch.PAGE, at=at, source="review", stage=stage, error_class="BUG", summary=summary)
    return alarm(DEFAULT_RULES[rule], seen)


def limited(at=NOW, **values):
    rule = DEFAULT_RULES["rate_limits"]
    seen = Seen(watch=Watch.FAILURE, at=at, source="review", stage="fetch", error_class="RATE_LIMITED", summary="429")
    classes = {"more_than": rule.more_than, "within": WITHIN, "attempts": True, "classes": rule.error_classes}
    return i.Weigh(alarm=alarm(rule, seen), **(classes | values))


def sighted(at=NOW):
    return limited(at, attempts=False, sighted=True)


def failed(desk, say, key, at, error_class="RATE_LIMITED"):
    """An attempt of a job of its own that failed then."""
    lease = desk.lease(key)
    attempt = say.attempt(started_at=at, ended_at=at, error_class=error_class, error_type="rate_limit")
    assert desk.do(say.retry(lease.job_id, lease.fence, attempt=attempt)) is Written.APPLIED


def open_alerts(desk):
    return [row for row in desk.rows("alerts") if row["resolved_at"] is None]


# --- raising


def test_the_first_one_opens_an_alert_and_the_next_only_count(desk):
    assert desk.do(i.Raise(alarm=bug())) == i.Raised(alert_id=1, opened=True)
    assert desk.do(i.Raise(alarm=bug(NOW + 5, summary="again"))) == i.Raised(alert_id=1, opened=False)
    (row,) = desk.rows("alerts")
    assert (row["count"], row["first_at"], row["last_at"], row["summary"]) == (2, NOW, NOW + 5, "again")
    assert (row["rule"], row["key"], row["level"], row["over_when"]) == ("page", "review/fetch/BUG", "page", "settled")


def test_many_of_a_batch_are_one_alert_each_by_rule_and_key(desk):
    answers = desk.batch(*[i.Raise(alarm=bug(NOW + n, stage=stage)) for n in range(3) for stage in ("fetch", "llm")])
    assert {answer.alert_id for answer in answers} == {1, 2}
    assert [(row["key"], row["count"]) for row in desk.rows("alerts")] == [
        ("review/fetch/BUG", 3),
        ("review/llm/BUG", 3),
    ]


def quiet(at):
    return replace(bug(at, rule="authentication"), quiet=3600.0)


def test_what_has_been_quiet_for_long_enough_is_over_though_nobody_was_there_to_say_so(desk):
    desk.do(i.Raise(alarm=quiet(NOW)))
    assert desk.do(i.Raise(alarm=quiet(NOW + 3599))).opened is False
    assert desk.do(i.Raise(alarm=quiet(NOW + 3599 + 3600))).opened is True
    first, second = desk.rows("alerts")
    assert (first["resolved_at"], first["why"]) == (NOW + 7199, "nothing for 3600 s")
    assert (second["count"], second["resolved_at"]) == (1, None)


def test_an_alert_of_several_that_has_been_quiet_takes_several_again(desk):
    for n in range(11):
        desk.do(sighted(NOW + n))
    later = NOW + 1000
    answers = [desk.do(sighted(later + n)) for n in range(11)]
    assert [answer.opened for answer in answers] == [False] * 10 + [True]


def test_what_comes_late_does_not_turn_time_back(desk):
    desk.do(i.Raise(alarm=bug(NOW)))
    desk.do(i.Raise(alarm=bug(NOW - 10)))
    (row,) = desk.rows("alerts")
    assert (row["first_at"], row["last_at"]) == (NOW - 10, NOW)


def test_after_an_end_the_next_one_is_an_alert_of_its_own(desk):
    desk.do(i.Raise(alarm=bug()))
    assert desk.do(i.Resolve(actor="ann", why="mended", now=NOW + 1, alerts=((1, None),))) == i.Resolved(alerts=(1,))
    assert desk.do(i.Raise(alarm=bug(NOW + 2))) == i.Raised(alert_id=2, opened=True)
    assert [row["resolved_by"] for row in desk.rows("alerts")] == ["ann", None]


def test_after_an_unknown_outcome_nothing_is_counted_twice_and_who_opened_it_hears_so(desk):
    for _ in range(2):
        assert desk.do(i.Raise(alarm=bug()), again=True) == i.Raised(alert_id=1, opened=True)
    (row,) = desk.rows("alerts")
    assert row["count"] == 1


def test_what_was_sighted_in_an_unknown_outcome_is_sighted_once(desk):
    for again in (False, True, True):
        assert desk.do(sighted(), again=again).opened is False
    assert len(desk.rows("alert_sightings")) == 1
    desk.do(sighted(NOW + 1), again=True)
    assert len(desk.rows("alert_sightings")) == 2


@pytest.mark.spec("CRIT-1.9", "ORC-1.4")
def test_a_burial_raises_its_alert_in_the_same_transaction_and_says_that_it_opened_one(desk, say):
    leases = [desk.lease(f"key-{n}") for n in range(3)]
    burials = [replace(say.bury(each.job_id, each.fence), alarms=(bug(NOW + n),)) for n, each in enumerate(leases)]
    assert desk.batch(*burials[:2]) == [Written.ALERTED, Written.APPLIED]
    assert desk.do(burials[2]) is Written.APPLIED
    (row,) = desk.rows("alerts")
    assert row["count"] == 3


def test_a_stale_burial_raises_nothing(desk, say):
    lease = desk.lease()
    assert desk.do(replace(say.bury(lease.job_id, lease.fence + 1), alarms=(bug(),))) is Written.STALE
    assert desk.rows("alerts") == []


def test_a_burial_whose_outcome_was_unknown_counts_once(desk, say):
    lease = desk.lease()
    burial = replace(say.bury(lease.job_id, lease.fence), alarms=(bug(),))
    assert desk.do(burial) is Written.ALERTED
    assert desk.do(burial, again=True) is Written.ALERTED, "nobody has said so yet"
    (row,) = desk.rows("alerts")
    assert row["count"] == 1


def test_what_is_set_aside_raises_its_alert_too(desk, say):
    lease = desk.lease()
    aside = replace(say.skip(lease.job_id, lease.fence), alarms=(bug(),))
    assert aside.status is JobStatus.SKIPPED
    assert desk.do(aside) is Written.ALERTED
    assert len(open_alerts(desk)) == 1


def test_an_alarm_for_a_relapse_is_not_raised_by_a_first_death(desk, say):
    lease = desk.lease()
    relapse = replace(bug(rule="escalation"), on_relapse=True)
    assert desk.do(replace(say.bury(lease.job_id, lease.fence), alarms=(relapse,))) is Written.APPLIED
    assert desk.rows("alerts") == []


def test_a_hundred_at_once_through_several_connections_are_one_alert(desk):
    stores = [desk.store, *(desk.another() for _ in range(3 if desk.store.exclusive is False else 0))]

    async def all_at_once():
        raises = [store.apply([i.Raise(alarm=bug(NOW + n))]) for n in range(100 // len(stores)) for store in stores]
        return [answer for (answer,) in await asyncio.gather(*raises)]

    answers = desk.run(all_at_once())
    assert sum(answer.opened for answer in answers) == 1
    (row,) = desk.rows("alerts")
    assert row["count"] == len(answers) == 100


def test_what_is_hot_is_not_even_looked_at_for_alerts():
    hot = (i.Finish, i.Checkpoint, i.Claim, i.Submit, i.Promote, i.Renew, i.Retry, i.Release)
    assert not applying.may_be_loud(hot)
    assert applying.may_be_loud((i.Finish, i.LetterIntent))
    assert applying.may_be_loud((i.SetAside,))


# --- weighing


@pytest.mark.spec("LLM-7.2")
@pytest.mark.parametrize(("last", "raised"), [(WITHIN, False), (WITHIN - 0.001, True), (0.0, True)])
def test_eleven_rate_limits_raise_only_if_first_and_last_are_less_than_five_minutes_apart(desk, say, last, raised):
    for n in range(11):
        at = NOW + last * n / 10
        failed(desk, say, f"key-{n}", at)
        answer = desk.do(limited(at))
        assert answer.opened == (raised and n == 10), n
    assert len(open_alerts(desk)) == raised


@pytest.mark.spec("LLM-7.2")
def test_ten_are_not_more_than_ten(desk, say):
    for n in range(10):
        failed(desk, say, f"key-{n}", NOW)
        assert desk.do(limited()) == i.Raised(alert_id=None, opened=False)


def test_attempts_of_other_classes_and_pipelines_do_not_count(desk, say):
    for n in range(12):
        failed(desk, say, f"key-{n}", NOW, error_class="NETWORK_TIMEOUT")
    assert desk.do(limited()).alert_id is None
    elsewhere = replace(limited().alarm, source="other")
    for n in range(12, 24):
        failed(desk, say, f"key-{n}", NOW)
    assert desk.do(replace(limited(), alarm=elsewhere)).alert_id is None
    assert desk.do(limited(stage="llm")).alert_id is None
    assert desk.do(limited(stage="fetch")).opened


def test_a_window_is_found_in_whatever_order_its_attempts_were_written(desk, say):
    times = [NOW + 29.0 * n for n in (10, 3, 0, 7, 1, 9, 2, 8, 4, 6, 5)]
    answers = []
    for n, at in enumerate(times):
        failed(desk, say, f"key-{n}", at)
        answers.append(desk.do(limited(at)))
    assert [answer.opened for answer in answers] == [False] * 10 + [True]


@pytest.mark.spec("LLM-7.2")
def test_what_stands_in_no_table_is_sighted_and_counted(desk):
    answers = [desk.do(sighted(NOW + n)) for n in range(12)]
    assert [answer.opened for answer in answers] == [False] * 10 + [True, False]
    (row,) = desk.rows("alerts")
    assert (row["count"], row["last_at"]) == (2, NOW + 11)


def test_sightings_that_no_window_reaches_any_more_are_forgotten(desk):
    for n in range(5):
        desk.do(sighted(NOW + n))
    desk.do(sighted(NOW + WITHIN + 2))
    assert [row["at"] for row in desk.rows("alert_sightings")] == [NOW + 3, NOW + 4, NOW + WITHIN + 2]


def test_sightings_through_several_connections_at_once_miss_none(desk):
    stores = [desk.store, *(desk.another() for _ in range(3 if desk.store.exclusive is False else 0))]

    async def all_at_once():
        several = [stores[n % len(stores)].apply([sighted(NOW + n / 100)]) for n in range(11)]
        return [answer for (answer,) in await asyncio.gather(*several)]

    assert sum(answer.opened for answer in desk.run(all_at_once())) == 1


def test_what_was_resolved_is_not_raised_again_by_what_came_before(desk):
    for n in range(11):
        desk.do(sighted(NOW + n))
    desk.do(i.Resolve(actor="ann", why="seen", now=NOW + 11, rule="rate_limits", key="review"))
    assert desk.do(sighted(NOW + 12)).alert_id is None
    answers = [desk.do(sighted(NOW + 13 + n)) for n in range(10)]
    assert [answer.opened for answer in answers] == [False] * 9 + [True]


# --- ending


def test_what_happened_since_keeps_an_alert_open(desk):
    desk.do(i.Raise(alarm=bug()))
    desk.do(i.Raise(alarm=bug(NOW + 1)))
    assert desk.do(i.Resolve(actor="reprieve", why="quiet", now=NOW + 2, alerts=((1, NOW),))).alerts == ()
    assert desk.do(i.Resolve(actor="reprieve", why="quiet", now=NOW + 2, alerts=((1, NOW + 1),))).alerts == (1,)
    again = i.Resolve(actor="reprieve", why="quiet", now=NOW + 2, alerts=((1, NOW + 1),))
    assert desk.do(again, again=True).alerts == (1,)
    assert desk.do(again).alerts == ()


def test_an_alert_is_acknowledged_once_and_only_while_it_is_open(desk):
    desk.do(i.Raise(alarm=bug()))
    ack = i.Acknowledge(alert_id=1, actor="ann", now=NOW)
    assert desk.do(ack) is True
    assert desk.do(replace(ack, actor="ben")) is False
    assert desk.do(ack, again=True) is True
    assert desk.do(replace(ack, alert_id=7)) is False


# --- telling


def take(desk, *sinks, now=NOW, until=NOW + 60):
    return desk.do(i.TakeNotices(sinks=sinks or ("mail", "slack"), now=now, until=until)).notices


def test_each_sink_is_told_of_an_open_alert_once(desk):
    desk.do(i.Raise(alarm=bug()))
    first = take(desk)
    assert [(each.sink, each.kind, each.attempts, each.summary) for each in first] == [
        ("mail", "raise", 1, "review/fetch: BUG"), ("slack", "raise", 1, "review/fetch: BUG")
    ]  # fmt: skip
    assert isinstance(first[0].level, Level)
    assert take(desk) == (), "they are taken"
    for each in first:
        assert desk.do(i.Told(notice_id=each.notice_id, fence=each.fence, now=NOW)) is Written.APPLIED
    desk.do(i.Raise(alarm=bug(NOW + 1)))
    assert take(desk, now=NOW + 1000) == ()


def test_a_notice_that_its_taker_never_ended_is_taken_again_and_the_first_taker_is_too_late(desk):
    desk.do(i.Raise(alarm=bug()))
    (lost,) = take(desk, "mail", until=NOW + 60)
    assert take(desk, "mail", now=NOW + 59.9) == ()
    (again,) = take(desk, "mail", now=NOW + 60, until=NOW + 120)
    assert (again.notice_id, again.fence, again.attempts) == (lost.notice_id, lost.fence + 1, 2)
    assert desk.do(i.Told(notice_id=lost.notice_id, fence=lost.fence, now=NOW + 61)) is Written.STALE
    told = i.Told(notice_id=again.notice_id, fence=again.fence, now=NOW + 61)
    assert desk.do(told) is Written.APPLIED
    assert desk.do(told) is Written.STALE
    assert desk.do(told, again=True) is Written.APPLIED


def test_a_sink_that_failed_is_tried_again_not_before_its_time(desk):
    desk.do(i.Raise(alarm=bug()))
    (notice,) = take(desk, "mail")
    put_off = i.Told(notice_id=notice.notice_id, fence=notice.fence, now=NOW, error="refused", not_before=NOW + 5)
    assert desk.do(put_off) is Written.APPLIED
    assert take(desk, "mail", now=NOW + 4.9) == ()
    assert len(take(desk, "mail", now=NOW + 5)) == 1
    assert desk.rows("alert_notices")[0]["error"] == "refused"


def test_an_end_is_told_to_those_who_were_told_of_the_alert_and_after_that(desk):
    desk.do(i.Raise(alarm=bug()))
    (notice,) = take(desk, "mail")
    desk.do(i.Resolve(actor="ann", why="mended", now=NOW + 1, alerts=((1, None),)))
    assert take(desk, now=NOW + 2) == (), "nobody has heard of it yet, and slack never will"
    desk.do(i.Told(notice_id=notice.notice_id, fence=notice.fence, now=NOW + 3))
    (end,) = take(desk, now=NOW + 3)
    assert (end.sink, end.kind, end.resolved_by, end.why, end.alert_id) == ("mail", "resolve", "ann", "mended", 1)


def test_what_came_and_went_before_anybody_looked_is_told_with_its_end(desk):
    assert take(desk, "mail") == (), "known from now on"
    desk.do(i.Raise(alarm=bug(NOW + 1)))
    desk.do(i.Resolve(actor="reprieve", why="quiet", now=NOW + 2, alerts=((1, None),)))
    (notice,) = take(desk, "mail", "slack", now=NOW + 3)
    assert (notice.sink, notice.kind, notice.resolved_at) == ("mail", "raise", NOW + 2), "slack is new"
    desk.do(i.Told(notice_id=notice.notice_id, fence=notice.fence, now=NOW + 3))
    (end,) = take(desk, "mail", "slack", now=NOW + 4)
    assert (end.sink, end.kind, end.why) == ("mail", "resolve", "quiet")
    desk.do(i.Told(notice_id=end.notice_id, fence=end.fence, now=NOW + 4))
    assert take(desk, "mail", "slack", now=NOW + 5) == ()


def test_an_end_that_was_written_while_somebody_made_out_the_beginning_is_told_all_the_same(desk):
    take(desk, "mail")
    desk.do(i.Raise(alarm=bug(NOW + 1)))
    (notice,) = take(desk, "mail", now=NOW + 1)
    desk.do(i.Told(notice_id=notice.notice_id, fence=notice.fence, now=NOW + 1))
    desk.do(i.Resolve(actor="reprieve", why="quiet", now=NOW + 2, alerts=((1, None),)))
    desk.write("DELETE FROM alert_notices WHERE kind = 'resolve'")  # as if it had not seen that there is one to be told
    assert [each.kind for each in take(desk, "mail", now=NOW + 3)] == ["resolve"]


def test_nobody_hears_today_of_what_was_over_the_day_before_yesterday(desk):
    take(desk, "mail")
    desk.do(i.Raise(alarm=bug(NOW + 1)))
    desk.do(i.Resolve(actor="reprieve", why="quiet", now=NOW + 2, alerts=((1, None),)))
    assert take(desk, "mail", now=NOW + 2 * 86_400) == ()


def test_a_sink_that_is_new_hears_of_what_is_open(desk):
    desk.do(i.Raise(alarm=bug()))
    take(desk, "mail")
    assert [each.sink for each in take(desk, "mail", "pager")] == ["pager"]


def test_what_a_row_may_not_be(desk):
    desk.do(i.Raise(alarm=bug()))
    for change in ("level = 'loud'", "over_when = 'never'", "count = 0", "resolved_at = first_at", "acked_by = 'ann'"):
        with pytest.raises(Exception, match=r"(?i)check constraint"):
            desk.write(f"UPDATE alerts SET {change}")
    assert open_alerts(desk)[0]["over_when"] == Until.SETTLED
