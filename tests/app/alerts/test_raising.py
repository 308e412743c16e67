"""What failures, batches and deliveries raise, from the database, by the process that saw them."""

from __future__ import annotations

import asyncio

import pytest
from alert_lab import Ear, alerts_of, failing, opened

import reprieve
from reprieve.app.profiles import SHIPPED
from reprieve.core.alerts import Watch
from reprieve.core.lifecycle import JobStatus
from reprieve.ports.alerting import AlertFilter

ORCHESTRATOR = SHIPPED["orchestrator"].override("upstream", max_attempts=1)
ONCE = SHIPPED["criticizer"].override(max_attempts=1)
ANALYSIS_ONCE = SHIPPED["analysis"].override(max_attempts=1)


class Refused(Exception):
    """What a wrong key looks like."""

    status_code = 401


def work(url, pipeline, *, jobs=1, then=None, ear=None):
    """Run so many jobs to their ends; the alerts that are there then."""

    async def run():
        async with opened(url, *([ear] if ear else [])) as app:
            await app.submit_many(pipeline, range(jobs))
            await app.work(pipeline, until_idle=True)
            if ear is not None:
                await app.operations.alerts.send(actor="ann")
            if then is not None:
                await then(app)
            return await alerts_of(app)

    return asyncio.run(run())


@pytest.mark.spec("CRIT-1.9")
def test_a_bug_pages_at_once_and_says_where(store_url, caplog):
    ear = Ear()
    (alert,) = work(store_url, failing(TypeError("no such attribute")), ear=ear)
    assert (alert.rule, alert.key, alert.level, alert.count) == ("page", "review/llm/BUG", "page", 1)
    assert "job 1 dead-lettered" in alert.summary
    assert "no such attribute" in alert.summary
    assert ear.said() == [("raise", "page", "review/llm/BUG")]
    assert [record.getMessage() for record in caplog.records if record.name == "reprieve.alerts"] == [alert.summary]


@pytest.mark.spec("ORC-1.4")
def test_a_fatal_failure_pages_says_that_its_stage_is_paused_and_is_over_when_that_is_resumed(store_url):
    ear = Ear()

    async def resume(app):
        await app.operations.stages.resume("review", actor="ann")
        await app.operations.alerts.send(actor="ann")

    (alert,) = work(store_url, failing(Refused("401 Unauthorized"), profile="orchestrator"), ear=ear, then=resume)
    assert (alert.rule, alert.key, alert.level) == ("fatal", "review/llm", "page")
    assert "the stage is paused" in alert.summary
    assert (alert.resolved_by, alert.why) == ("reprieve", "the stage goes on")
    assert [kind for kind, _, _ in ear.said()] == ["raise", "resolve"]
    assert ear.heard[0].dedup_key == ear.heard[1].dedup_key


@pytest.mark.spec("ORC-2.2")
def test_spent_upstream_retries_notify_the_admin_and_spent_transient_ones_do_not(store_url):
    glitch = reprieve.Retryable("a glitch", error_class="CONNECTION_RESET")
    assert work(store_url, failing(glitch, profile=SHIPPED["orchestrator"].override(max_attempts=1))) == []
    sick = reprieve.Retryable("overloaded", error_class="OVERLOADED")
    (alert,) = work(store_url, failing(sick, profile=ORCHESTRATOR))
    assert (alert.rule, alert.key) == ("spent", "review/llm/OVERLOADED")


def test_a_failure_that_nobody_has_to_hear_of_raises_nothing(store_url):
    glitch = reprieve.Retryable("a glitch", error_class="CONNECTION_RESET")
    assert work(store_url, failing(glitch, profile=ONCE), jobs=3) == []


@pytest.mark.spec("LLM-7.1", "LLM-1.3", "LLM-1.4")
def test_an_authentication_error_of_a_model_pages_at_once_though_its_job_is_only_skipped(store_url):
    async def skipped(app):
        assert (await app.operations.jobs.show(1)).job.status is JobStatus.SKIPPED

    (alert,) = work(store_url, failing(Refused("401 Unauthorized"), profile="analysis"), then=skipped)
    assert (alert.level, alert.error_class) == ("page", "AUTH_DENIED")


def test_a_hundred_failures_at_once_are_one_alert_that_is_told_once(store_url):
    ear = Ear()
    (alert,) = work(store_url, failing(TypeError("x")), jobs=100, ear=ear)
    assert alert.count == 100
    assert len(ear.heard) == 1


@pytest.mark.spec("LLM-7.2")
@pytest.mark.parametrize(("jobs", "raised"), [(10, 0), (11, 1)])
def test_more_than_ten_rate_limits_in_five_minutes_are_a_warning(store_url, jobs, raised):
    limited = reprieve.Retryable("429 Too Many Requests", error_class="RATE_LIMITED")
    alerts = work(store_url, failing(limited, profile=ANALYSIS_ONCE), jobs=jobs)
    assert [(alert.rule, alert.key, alert.level) for alert in alerts] == [("rate_limits", "review", "warning")] * raised


def test_an_alert_about_dead_letters_is_over_when_none_is_left(store_url):
    async def discard(app):
        letters = app.operations.dead_letters
        first, second = await letters.list()
        await letters.discard(first.letter_id, actor="ann", reason="not needed")
        await app.operations.alerts.send(actor="ann")
        (alert,) = await alerts_of(app)
        assert alert.is_open, "one is left"
        await letters.discard(second.letter_id, actor="ann", reason="not needed")
        await app.operations.alerts.send(actor="ann")

    (alert,) = work(store_url, failing(TypeError("x")), jobs=2, then=discard)
    assert (alert.resolved_by, alert.why) == ("reprieve", "no dead letter of it is left")


def test_a_rule_of_the_profile_is_followed(store_url):
    book = SHIPPED.extended(
        '[mine]\nextends = "criticizer"\n[mine.alerts.page]\noff = true\n[mine.alerts.bugs]\nwatches = "failure"\n'
        'error_class = "BUG"\nmore_than = 2\nwithin = 60\nlevel = "warning"\nby = "class"\n', source="mine.toml",
    )  # fmt: skip
    assert work(store_url, failing(TypeError("x"), profile=book["mine"]), jobs=2) == []
    (alert,) = work(store_url, failing(TypeError("x"), profile=book["mine"]))
    assert (alert.rule, alert.key, alert.level) == ("bugs", "review/llm/BUG", "warning")


# --- outside the engine


@pytest.mark.spec("LLM-7.1")
def test_an_authentication_error_outside_the_engine_is_one_call(store_url):
    async def run():
        async with opened(store_url) as app:
            for _ in range(2):
                await app.alerts.failed(
                    reprieve.classify(Refused("401 Unauthorized")), source="urls", profile="analysis"
                )
            return await alerts_of(app)

    (alert,) = asyncio.run(run())
    assert (alert.rule, alert.key, alert.level, alert.count) == ("authentication", "urls/AUTH_DENIED", "page", 2)


@pytest.mark.spec("LLM-7.2")
def test_rate_limits_outside_the_engine_are_sighted(store_url):
    limited = reprieve.classify(reprieve.Retryable("429", error_class="RATE_LIMITED"))

    async def run():
        async with opened(store_url) as app:
            for _ in range(10):
                await app.alerts.failed(limited, source="urls", profile="analysis")
            assert await alerts_of(app) == []
            await app.alerts.failed(limited, source="other", profile="analysis")
            assert await alerts_of(app) == []
            await app.alerts.failed(limited, source="urls", profile="analysis")
            return await alerts_of(app)

    (alert,) = asyncio.run(run())
    assert (alert.rule, alert.key, alert.level) == ("rate_limits", "urls", "warning")


@pytest.mark.spec("LLM-7.3")
def test_a_batch_with_too_many_skipped_is_a_warning_that_the_next_good_one_ends(store_url):
    async def run():
        async with opened(store_url) as app:

            async def batch(skipped, total):
                await app.alerts.batch(source="urls", skipped=skipped, total=total, profile="analysis")
                return [(each.rule, each.level, each.count) for each in await app.operations.alerts.list()]

            assert await batch(1, 20) == []
            assert await batch(5, 10) == [], "too small to say anything"
            assert await batch(2, 20) == [("skipped", "warning", 1)]
            assert await batch(0, 3) == [("skipped", "warning", 1)]
            assert await batch(6, 100) == [("skipped", "warning", 2)]
            assert await batch(5, 100) == []
            return await alerts_of(app)

    (alert,) = asyncio.run(run())
    assert alert.why == "urls: 5 of 100 in a batch were skipped"


@pytest.mark.spec("REV-7.2")
def test_a_broken_order_pages_and_held_deliveries_warn_once_for_a_sender(store_url):
    async def run():
        async with opened(store_url) as app:
            await app.alerts.saw(Watch.BROKEN_ORDER, source="mail", summary="delivery 1 was marked as sent")
            for number in (2, 3):
                await app.alerts.saw(Watch.HELD, source="mail", summary=f"delivery {number} waits for a person")
            return await alerts_of(app)

    broken, held = asyncio.run(run())
    assert (broken.rule, broken.key, broken.level) == ("broken_order", "mail", "page")
    assert (held.rule, held.level, held.count) == ("held", "warning", 2)


# --- secrets


def test_no_secret_gets_into_an_alert_a_notice_or_a_sink(store_url):
    planted = "sk-" + "proj-" + "Zm9vYmFyYmF6cXV4" * 3
    ear = Ear()

    async def broken(app):
        ear.errors.append(ConnectionError(f"refused the key {planted}"))
        await app.alerts.saw(Watch.HELD, source="mail", summary=f"the key {planted} is wrong")
        await app.operations.alerts.send(actor="ann")
        for alert in await app.operations.alerts.list(AlertFilter(is_open=None)):
            detail = await app.operations.alerts.show(alert.alert_id)
            assert planted not in repr(detail)
            assert "sk-" not in repr(detail)

    work(store_url, failing(TypeError(f"Authorization: Bearer {planted}")), ear=ear, then=broken)
    assert len(ear.heard) == 1
    assert planted not in repr(ear.heard)
