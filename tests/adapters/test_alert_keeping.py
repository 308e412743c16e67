"""What pruning does to alerts, to what their sinks were told, and to sightings, on both dialects."""

import pytest
from sqlalchemy import event

from reprieve.adapters.sql.keeper import SqlKeeper
from reprieve.ports.alerting import AlertsPruned

NOW = 1_700_000_000.0
LATER = NOW + 1000
ENDED = {"resolved_at": NOW + 5, "resolved_by": "ada", "why": "mended"}


@pytest.fixture
def keeper(rows):
    found = SqlKeeper(rows.url)
    yield found
    found.close()


def alert(rows, alert_id, **values):
    defaults = {
        "rule": "page", "key": f"review/{alert_id}", "level": "page", "summary": "BUG", "source": "review", "stage": "llm",
        "error_class": "BUG", "over_when": "hand", "quiet": 60.0, "count": 1, "first_at": NOW, "last_at": NOW,
    }  # fmt: skip
    rows.add("alerts", id=alert_id, **(defaults | values))


def notice(rows, alert_id, kind="raise", *, sink="ear", told=True, **values):
    defaults = {
        "attempts": 1 if told else 0,
        "not_before": NOW,
        "created_at": NOW,
        "told_at": NOW + 1 if told else None,
    }
    rows.add("alert_notices", alert_id=alert_id, kind=kind, sink=sink, **(defaults | values))


def sighting(rows, at, rule="rate_limits", key="urls"):
    rows.add("alert_sightings", rule=rule, key=key, at=at)


def pruned(keeper, **values):
    return keeper.prune_alerts(**({"before": LATER, "now": LATER, "limit": 100, "dry": False} | values))


def ids(rows, table="alerts", column="id"):
    return sorted(row[column] for row in rows.all(table))


def test_an_alert_that_ended_before_goes_with_what_its_sinks_were_told(keeper, rows):
    for alert_id, ended in ((1, ENDED), (2, ENDED | {"resolved_at": LATER}), (3, {})):
        alert(rows, alert_id, **ended)
        notice(rows, alert_id)
        notice(rows, alert_id, sink="other")
    notice(rows, 1, "resolve")
    notice(rows, 1, "resolve", sink="other")
    assert pruned(keeper) == AlertsPruned(alerts=1, kept_for_sinks=0, more=False, after=3)
    assert ids(rows) == [2, 3]
    assert set(ids(rows, "alert_notices", "alert_id")) == {2, 3}


def test_an_open_alert_is_never_removed_however_old(keeper, rows):
    alert(rows, 1)
    assert pruned(keeper, before=LATER * 2).alerts == 0
    assert ids(rows) == [1]


def test_an_alert_stays_until_every_sink_that_heard_of_it_has_heard_of_its_end(keeper, rows):
    alert(rows, 1, **ENDED)
    notice(rows, 1)
    notice(rows, 1, "resolve")
    notice(rows, 1, sink="down")
    notice(rows, 1, "resolve", sink="down", told=False, attempts=40, not_before=NOW)
    assert pruned(keeper) == AlertsPruned(alerts=0, kept_for_sinks=1, more=False, after=1)
    assert len(rows.all("alert_notices")) == 4
    rows.change("alert_notices", told_at=NOW + 9)
    assert pruned(keeper).alerts == 1
    assert rows.all("alert_notices") == rows.all("alerts") == []


def test_a_sink_that_never_heard_of_it_keeps_nothing(keeper, rows):
    """It was away from before it began until long after it ended, and nobody tries any more."""
    alert(rows, 1, **ENDED)
    notice(rows, 1, told=False, attempts=3, error="no answer", not_before=NOW + 600)
    notice(rows, 1, "resolve", told=False)
    assert pruned(keeper).alerts == 1


def test_a_sink_that_is_told_of_its_beginning_just_now_will_have_to_hear_of_its_end(keeper, rows):
    alert(rows, 1, **ENDED)
    notice(rows, 1, told=False, attempts=1, not_before=LATER + 40)
    notice(rows, 1, "resolve", told=False)
    assert pruned(keeper).kept_for_sinks == 1
    assert ids(rows) == [1]


def test_a_dry_run_counts_and_removes_nothing(keeper, rows):
    alert(rows, 1, **ENDED)
    alert(rows, 2, **ENDED)
    notice(rows, 2)
    notice(rows, 2, "resolve", told=False)
    assert pruned(keeper, dry=True) == AlertsPruned(alerts=1, kept_for_sinks=1, more=False, after=2)
    assert ids(rows) == [1, 2]


def test_alerts_are_pruned_in_chunks_by_their_ids(keeper, rows):
    for alert_id in (1, 2, 3, 1000, 1001):
        alert(rows, alert_id, **ENDED)
    asked = []
    event.listen(keeper._database.engine, "before_cursor_execute", lambda *given: asked.append(given[2].lower()))
    done, counts = AlertsPruned(alerts=0, kept_for_sinks=0, more=True), []
    while done.more:
        assert len(counts) < 9
        done = pruned(keeper, limit=2, after=done.after)
        counts.append(done.alerts)
    assert counts == [2, 2, 1]
    looks = [statement for statement in asked if "from alerts" in statement and statement.startswith("select")]
    assert all("alerts.id > " in look and "limit" in look for look in looks)
    assert rows.all("alerts") == []


# --- sightings


def seen(rows):
    return sorted(row["at"] - NOW for row in rows.all("alert_sightings"))


def test_sightings_go_once_no_window_is_long_enough_for_them(keeper, rows):
    for at in (-10, 0, 10):
        sighting(rows, NOW + at)
    assert keeper.prune_sightings(oldest=NOW, limit=100) is None
    assert seen(rows) == [10]


def test_sightings_from_before_the_end_of_their_alert_go_with_it_and_never_count_again(keeper, rows):
    alert(rows, 1, rule="rate_limits", key="urls", **ENDED)
    alert(rows, 2, rule="rate_limits", key="urls")
    for at in (1, 5, 6):
        sighting(rows, NOW + at)
    sighting(rows, NOW + 2, key="others")
    sighting(rows, NOW + 3, rule="others")
    keeper.prune_sightings(oldest=NOW - 10, limit=100)
    assert seen(rows) == [2, 3, 6]


def test_sightings_are_pruned_in_chunks(keeper, rows):
    for at in range(5):
        sighting(rows, NOW - at)
    after, rounds = 0, 0
    while after is not None:
        assert rounds < 9
        after, rounds = keeper.prune_sightings(oldest=NOW, limit=2, after=after), rounds + 1
    assert rounds == 3
    assert seen(rows) == []
