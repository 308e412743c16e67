"""Alerts that were over long ago: they go, unless somebody who heard of one has yet to hear of its end."""

from __future__ import annotations

import asyncio
import logging

import pytest
from alert_lab import Ear, alerts_of, opened

import reprieve
from reprieve.app.alerts import Alerts
from reprieve.app.profiles import SHIPPED
from reprieve.core.alerts import Watch
from reprieve.testing import FakeClock

DAY = 86_400.0
PATIENT = SHIPPED.extended(
    '[patient]\nextends = "analysis"\nalerts.rate_limits = { more_than = 2, within = 8640000 }\n', source="patient.toml"
)["patient"]


@pytest.fixture
def clock():
    return FakeClock()


def run(url, clock, task, *sinks):
    async def main():
        async with opened(url, *sinks, clock=clock) as app:
            return await task(app)

    return asyncio.run(main())


async def ended(app):
    """An alert that is over, though not everybody has heard that."""
    await Alerts(app.journal).saw(Watch.UNPROVEN, source="mail", summary="delivery 2 has no evidence")
    await app.operations.alerts.send(actor="ann")
    await app.operations.alerts.resolve(1, actor="ann", reason="it was received")


def test_an_alert_of_whose_end_everybody_has_heard_goes(store_url, clock, caplog):
    ear = Ear()

    async def task(app):
        await ended(app)
        await app.operations.alerts.send(actor="ann")
        await Alerts(app.journal).saw(Watch.BROKEN_ORDER, source="mail", summary="delivery 1 was marked as sent")
        assert (await app.operations.alerts.prune(DAY, actor="kim")).alerts == 0, "it is not old enough"
        clock.advance(2 * DAY)
        assert (await app.operations.alerts.prune(DAY, actor="kim", dry=True)).alerts == 1
        done = await app.operations.alerts.prune(DAY, actor="kim")
        return done, await alerts_of(app)

    with caplog.at_level(logging.INFO, "reprieve.operations"):
        done, left = run(store_url, clock, task, ear)
    assert (done.alerts, done.kept_for_sinks) == (1, 0)
    assert [alert.rule for alert in left] == ["broken_order"]
    assert "kim pruned 1 alerts over for more than 86400 s" in caplog.messages
    assert [kind for kind, rule, _ in ear.said() if rule == "unproven"] == ["raise", "resolve"]


def test_a_sink_that_was_away_at_the_end_is_told_of_it_and_then_the_alert_goes(store_url, clock):
    ear = Ear()

    async def task(app):
        await ended(app)
        ear.errors.append(OSError("away"))
        await app.operations.alerts.send(actor="ann")
        clock.advance(2 * DAY)
        first = await app.operations.alerts.prune(DAY, actor="kim")
        await app.operations.alerts.send(actor="ann")
        return first, await app.operations.alerts.prune(DAY, actor="kim")

    first, second = run(store_url, clock, task, ear)
    assert (first.alerts, first.kept_for_sinks) == (0, 1)
    assert (second.alerts, second.kept_for_sinks) == (1, 0)
    assert [kind for kind, _, _ in ear.said()] == ["raise", "resolve"]


async def limited(app):
    failure = reprieve.classify(reprieve.Retryable("429 Too Many Requests", error_class="RATE_LIMITED"))
    await Alerts(app.journal).failed(failure, source="urls", profile=PATIENT)


def test_what_led_to_an_alert_that_is_pruned_does_not_lead_to_the_next_however_long_the_window(store_url, clock):
    async def task(app):
        for _ in range(3):
            await limited(app)
        await app.operations.alerts.resolve(1, actor="ann", reason="the quota was raised")
        clock.advance(2 * DAY)
        assert (await app.operations.alerts.prune(DAY, actor="kim")).alerts == 1
        await limited(app)
        return await alerts_of(app)

    assert run(store_url, clock, task) == []


def test_what_is_counted_towards_an_alert_is_counted_after_a_pruning_too(store_url, clock):
    async def task(app):
        for _ in range(2):
            await limited(app)
        clock.advance(50 * DAY)  # half of the window
        await app.operations.alerts.prune(0.0, actor="kim")
        await limited(app)
        return await alerts_of(app)

    (alert,) = run(store_url, clock, task)
    assert (alert.rule, alert.key) == ("rate_limits", "urls")


@pytest.mark.parametrize(("older_than", "actor"), [(-1.0, "kim"), (float("inf"), "kim"), (DAY, "")])
def test_a_pruning_that_cannot_be_meant_is_refused(store_url, clock, older_than, actor):
    with pytest.raises(reprieve.UsageError):
        run(store_url, clock, lambda app: app.operations.alerts.prune(older_than, actor=actor))
