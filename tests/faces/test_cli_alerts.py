"""`reprieve alerts`, over a real database and real sinks."""

from __future__ import annotations

import asyncio

import pytest

import reprieve
from reprieve.app.redaction import forget_secrets
from reprieve.core.alerts import Watch
from reprieve.testing import FlakyHTTP, nobody_listening

URL = "sqlite:///reprieve.db"


@pytest.fixture(autouse=True)
def nothing_registered():
    yield
    forget_secrets()


@pytest.fixture
def raised(command):
    """Two alerts that are open."""

    async def run():
        async with reprieve.connect(URL, alerts=[]) as app:
            await app.alerts.saw(Watch.BROKEN_ORDER, source="mail", summary="delivery 1 was marked as sent")
            await app.alerts.saw(Watch.UNPROVEN, source="mail", summary="delivery 2 has no evidence")
            await app.alerts.saw(Watch.UNPROVEN, source="mail", summary="delivery 3 has no evidence")

    asyncio.run(run())
    return command


def test_a_list_shows_what_is_open_the_newest_first(raised):
    shown = raised("alerts", "list")
    assert shown.code == 0
    assert shown.out.index("unproven") < shown.out.index("broken_order")
    rows = raised("alerts", "list", "--json").json
    assert [(row["alert_id"], row["rule"], row["count"]) for row in rows] == [
        (2, "unproven", 2),
        (1, "broken_order", 1),
    ]
    assert [row["alert_id"] for row in raised("alerts", "list", "--rule", "broken_order", "--json").json] == [1]
    assert raised("alerts", "list", "--level", "warning").out == "no alerts\n"
    assert "more: --after 2" in raised("alerts", "list", "--limit", "1").out
    assert [row["alert_id"] for row in raised("alerts", "list", "--after", "2", "--json").json] == [1]


def test_an_alert_is_shown_acknowledged_and_resolved_by_somebody(raised):
    assert "reprieve alerts ack 1" in raised("alerts", "show", "1").out
    acknowledged = raised("alerts", "ack", "1", "--actor", "ann").out
    assert "ann looks after it" in acknowledged
    assert "next: reprieve alerts resolve 1 --reason" in acknowledged
    again = raised("alerts", "ack", "1", "--actor", "ben")
    assert (again.code, "ann looks after alert 1 already" in again.err) == (1, True)
    assert "say why it is over" in raised("alerts", "resolve", "1", "--reason", " ", "--actor", "ann").err
    ended = raised("alerts", "resolve", "1", "--reason", "it was received", "--actor", "ann", "--json").json
    assert (ended["resolved_by"], ended["why"], ended["acked_by"]) == ("ann", "it was received", "ann")
    over = raised("alerts", "resolve", "1", "--reason", "x", "--actor", "ben")
    assert (over.code, "ann resolved it" in over.err) == (1, True)
    assert raised("alerts", "ack", "1", "--actor", "ben").code == 1
    assert [row["alert_id"] for row in raised("alerts", "list", "--json").json] == [2]
    assert len(raised("alerts", "list", "--all", "--json").json) == 2


@pytest.mark.parametrize("number", ["404", "0", str(2**70)])
def test_an_alert_that_is_not_there_is_told_in_a_sentence(raised, number):
    missing = raised("alerts", "show", number)
    assert missing.code != 0
    assert "alert" in missing.err
    assert "Traceback" not in missing.err


def test_a_test_says_which_sinks_work(raised, monkeypatch):
    with FlakyHTTP() as server, nobody_listening() as port:
        good, bad = server.url("/token-abcdefghij", scheme="http"), f"http://127.0.0.1:{port}/token-klmnopqrst"
        monkeypatch.setenv("REPRIEVE_ALERTS", f"{good} {bad}")
        tried = raised("alerts", "test", "--actor", "ann")
        assert tried.code == 1
        assert "NOT reached" in tried.out
        assert "token-" not in tried.out + tried.err
        monkeypatch.setenv("REPRIEVE_ALERTS", good)
        assert raised("alerts", "test").code == 0
        assert [request.json()["data"]["rule"] for request in server.requests] == ["test", "test"]
    assert len(raised("alerts", "list", "--json").json) == 2, "no alert was raised"


def test_without_sinks_a_test_says_how_to_name_them(raised, monkeypatch):
    monkeypatch.delenv("REPRIEVE_ALERTS", raising=False)
    tried = raised("alerts", "test")
    assert (tried.code, "REPRIEVE_ALERTS" in tried.out) == (1, True)


def test_without_sinks_nobody_is_told_and_that_is_said(raised, monkeypatch):
    monkeypatch.delenv("REPRIEVE_ALERTS", raising=False)
    done = raised("alerts", "send")
    assert (done.code, "no sinks: name them in REPRIEVE_ALERTS" in done.out) == (1, True)


@pytest.mark.parametrize("between", [" ", "\n ", ",", ", ", " ,"])
def test_sinks_are_parted_by_blanks_or_commas_and_a_comma_within_a_url_is_part_of_it(raised, monkeypatch, between):
    with FlakyHTTP() as server:
        first, second = server.url("/ann,ben", scheme="http"), server.url("/b", scheme="http")
        monkeypatch.setenv("REPRIEVE_ALERTS", f"{first}{between}{second}")
        assert len(raised("alerts", "test", "--json").json) == 2
        assert sorted(request.path for request in server.requests) == ["/ann,ben", "/b"]


def test_sending_tells_everybody_now(raised, monkeypatch):
    with FlakyHTTP() as server:
        server.next(503)
        monkeypatch.setenv("REPRIEVE_ALERTS", server.url("/hook", scheme="http"))
        first = raised("alerts", "send")
        assert (first.code, "1 told, 1 not reached" in first.out) == (1, True)
        assert "503" in raised("alerts", "show", "1").out + raised("alerts", "show", "2").out


def test_a_url_that_nobody_knows_is_refused_without_showing_it(raised, monkeypatch):
    monkeypatch.setenv("REPRIEVE_ALERTS", "nonsense://user:hunter2hunter2@example.org")
    refused = raised("alerts", "test")
    assert refused.code != 0
    assert "Apprise does not know the nonsense:// URL" in refused.err
    assert "hunter2" not in refused.err


def test_what_ended_long_ago_is_pruned_but_not_before_everybody_has_heard_of_it(raised, monkeypatch):
    with FlakyHTTP() as server:
        monkeypatch.setenv("REPRIEVE_ALERTS", server.url("/hook", scheme="http"))
        raised("alerts", "send")
        for number in ("1", "2"):
            raised("alerts", "resolve", number, "--reason", "it was received")
        kept = raised("alerts", "prune", "--older-than", "0s", "--json").json
        assert kept == {"alerts": 0, "kept_for": {"sinks": 2}, "dry_run": False}
        assert "2 alerts kept for sinks that have yet to be told" in raised("alerts", "prune", "--older-than", "0s").out
        raised("alerts", "send")
    assert raised("alerts", "prune", "--older-than", "90d").out == "0 alerts removed\n"
    assert raised("alerts", "prune", "--older-than", "0s", "--dry-run").out == "2 alerts would be removed\n"
    assert raised("alerts", "prune", "--older-than", "0s", "--actor", "kim").out == "2 alerts removed\n"
    assert raised("alerts", "list", "--all").out == "no alerts\n"
    assert raised("alerts", "prune", "--older-than", "soon").code == 2
