"""Sinks that are down, hang or die under us: nothing is lost, nobody is kept waiting, and each is told once."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import textwrap
import time

import pytest
from alert_lab import Ear, alerts_of, eventually, failing, opened

import reprieve
from reprieve.app.alerts import Alerts, SenderSink
from reprieve.core.alerts import Watch
from reprieve.errors import UsageError
from reprieve.senders import SMTP, Webhook
from reprieve.testing import FakeClock, FlakyHTTP, Reset, Stall

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


async def raise_one(app, source="mail"):
    """As a process does that has no sinks of its own: nobody tells of it yet."""
    await Alerts(app.journal).saw(
        Watch.BROKEN_ORDER, source=source, summary="delivery 1 was marked as sent, and its provider has no record"
    )


def notices(server):
    return [request.json() for request in server.requests]


def test_a_worker_tells_its_sinks_by_itself_and_closes_them(store_url):
    ear = Ear()

    async def run():
        async with opened(store_url, ear) as app:
            pipeline = failing(TypeError("x"))
            await app.submit(pipeline, 1)
            working = asyncio.create_task(app.work(pipeline))
            await eventually(lambda: ear.heard)
            working.cancel()
            await asyncio.wait([working])

    asyncio.run(run())
    assert ear.said() == [("raise", "page", "review/llm/BUG")]
    assert ear.closed == 1


def test_a_worker_that_has_nothing_left_to_do_tells_of_its_last_failure_before_it_goes(store_url):
    ear = Ear()

    async def run():
        async with opened(store_url, ear) as app:
            pipeline = failing(TypeError("x"))
            await app.submit(pipeline, 1)
            await app.work(pipeline, until_idle=True)
            return ear.said()

    assert asyncio.run(run()) == [("raise", "page", "review/llm/BUG")]


def test_what_is_raised_without_a_worker_is_told_while_the_application_is_open(store_url):
    ear = Ear()

    async def run():
        async with opened(store_url, ear) as app:
            await app.alerts.saw(Watch.DUPLICATE, source="mail", summary="twice")
            await eventually(lambda: ear.heard)
            await app.alerts.over("duplicate", "mail", why="it was a test")
            await eventually(lambda: len(ear.heard) == 2)

    asyncio.run(run())
    assert ear.said() == [("raise", "duplicate", "mail"), ("resolve", "duplicate", "mail")]
    assert ear.closed == 1


def test_what_is_raised_with_the_last_breath_is_told_before_the_application_closes(store_url):
    ear = Ear()

    async def run():
        async with opened(store_url, ear) as app:
            await app.submit(failing(TypeError("x")), 1, idempotency_key="k")
            await app.handle_item_failure("k", "agent", "llm", TypeError("x"), "criticizer")

    asyncio.run(run())
    assert ear.said() == [("raise", "page", "review/llm/BUG")]


def test_what_nobody_had_heard_is_told_by_the_next_one_who_raises_the_same(store_url):
    deaf, ear = Ear("ear"), Ear("ear")
    deaf.errors = [ConnectionError("away")] * 9

    async def run():
        for sink in (deaf, ear):
            clock = FakeClock(now=1_700_000_000.0 + (sink is ear) * 60)
            async with opened(store_url, sink, clock=clock) as app:
                await app.alerts.saw(Watch.DUPLICATE, source="mail", summary="twice")

    asyncio.run(run())
    assert (deaf.said(), ear.said()) == ([], [("raise", "duplicate", "mail")])


def test_the_first_alert_of_one_database_is_not_taken_for_the_first_of_another(store_url, tmp_path):
    ear = Ear()

    async def run():
        for url in (store_url, f"sqlite:///{tmp_path / 'other.db'}"):
            async with opened(url, ear) as app:
                await app.alerts.saw(Watch.DUPLICATE, source="mail", summary="twice")

    asyncio.run(run())
    assert len({notice.dedup_key for notice in ear.heard}) == len(ear.heard) == 2


def test_what_ends_without_a_worker_is_told_too(store_url):
    first, second = Ear("ear"), Ear("ear")

    async def run():
        async with opened(store_url, first) as app:
            await app.alerts.batch(source="urls", skipped=30, total=30, profile="analysis")
        async with opened(store_url, second) as app:
            await app.alerts.batch(source="urls", skipped=0, total=30, profile="analysis")

    asyncio.run(run())
    assert (first.said(), second.said()) == ([("raise", "skipped", "urls")], [("resolve", "skipped", "urls")])


def test_who_has_seen_something_goes_on_while_the_store_is_away(store_url, monkeypatch, caplog):
    monkeypatch.setattr("reprieve.app.alerts.raising._PATIENCE", 0.2)

    async def run():
        async with opened(store_url) as app:

            async def away():
                raise reprieve.StoreUnavailableError("away")

            monkeypatch.setattr(app.journal.store, "now", away)
            async with asyncio.timeout(30):
                await app.alerts.batch(source="urls", skipped=30, total=30, profile="analysis")

    asyncio.run(run())
    assert "an alert could not be written" in caplog.text


def test_an_end_whose_beginning_could_not_be_told_yet_keeps_nobody_busy(store_url):
    ear = Ear()
    ear.errors = [ConnectionError("away")]

    async def run():
        async with opened(store_url, ear) as app:
            await raise_one(app)
            await app.operations.alerts.send(actor="ann")
            await app.operations.alerts.resolve(1, actor="ann", reason="over")
            now = await app.journal.store.now()
            return await asyncio.to_thread(app._alert_look_ups.has_to_tell, now, [ear.name])

    assert asyncio.run(run()) is False


def test_a_sink_that_hangs_keeps_nobody_from_closing_for_long_and_is_told_by_the_next(store_url, monkeypatch):
    monkeypatch.setattr("reprieve.app.alerts.herald._LAST_WORDS", 0.2)
    ear = Ear(timeout=30.0)
    ear.hangs = True

    async def run():
        async with opened(store_url, ear) as app:
            await app.alerts.saw(Watch.DUPLICATE, source="mail", summary="twice")
        ear.hangs = False
        async with opened(store_url, ear, clock=FakeClock(now=time.time() + 3600)) as app:
            await app.operations.alerts.send(actor="ann")

    asyncio.run(run())
    assert ear.said() == [("raise", "duplicate", "mail")]


def test_a_server_that_is_down_and_comes_back_is_told_once_and_signed(store_url):
    clock = FakeClock()
    with FlakyHTTP() as server:
        server.next(503, Reset(), 500)
        hook = server.url("/hook", scheme="http")

        async def run():
            sink = SenderSink(Webhook("alerts", secret=SECRET, allow_private=True), hook)
            async with opened(store_url, sink, clock=clock) as app:
                await raise_one(app)
                came = []
                for _ in range(6):
                    came.append(await app.operations.alerts.send(actor="ann"))
                    clock.advance(600)
                (alert,) = await alerts_of(app)
                return came, (await app.operations.alerts.show(alert.alert_id)).notices

        came, told = asyncio.run(run())
        assert [(each.told, each.failed) for each in came[:4]] == [(0, 1), (0, 1), (0, 1), (1, 0)]
        raised = [each for each in notices(server) if each["data"]["kind"] == "raise"]
        assert len({request.headers["webhook-id"] for request in server.requests[:4]}) == 1, (
            "one message, however often"
        )
        key = raised[-1]["data"]["dedup_key"]
        assert key.startswith("reprieve/")
        assert key.endswith("/broken_order/mail/1")
        assert all(request.headers["webhook-signature"].startswith("v1,") for request in server.requests)
        assert told[0].told_at is not None
        assert told[0].attempts == 4
        assert hook not in repr(told)


def test_a_sink_is_tried_again_after_ever_longer_waits(store_url):
    clock, ear = FakeClock(), Ear()
    ear.errors = [ConnectionError("down")] * 3

    async def run():
        waits = []
        async with opened(store_url, ear, clock=clock) as app:
            await raise_one(app)
            while not ear.heard:
                await app.operations.alerts.send(actor="ann")
                (notice,) = (await app.operations.alerts.show(1)).notices
                waits.append(notice.not_before - clock.now())
                clock.advance(max(waits[-1], 0.0) + 0.001)
        return waits

    waits = asyncio.run(run())
    assert [round(wait) for wait in waits[:3]] == [5, 10, 20]


def test_a_sink_that_hangs_keeps_neither_jobs_nor_other_sinks_waiting(store_url):
    deaf, ear = Ear("deaf", timeout=600.0), Ear()
    deaf.hangs = True
    done = []
    pipeline = reprieve.Pipeline("good")

    @pipeline.stage
    async def count(job: reprieve.Job[int]) -> int:
        done.append(job.payload)
        return job.payload

    async def run():
        async with opened(store_url, deaf, ear) as app:
            await raise_one(app)
            await app.submit_many(pipeline, range(20))
            working = asyncio.create_task(app.work(pipeline))
            await eventually(lambda: len(done) == 20 and ear.heard)
            await raise_one(app, source="later")
            await eventually(lambda: len(ear.heard) == 2)
            working.cancel()
            await asyncio.wait([working])

    asyncio.run(run())
    assert (len(ear.heard), deaf.heard) == (2, [])


def test_a_server_that_never_answers_is_given_up_after_its_time(store_url):
    with FlakyHTTP() as server:
        server.always(Stall())
        sink = SenderSink(Webhook("alerts", timeout=0.2, allow_private=True), server.url("/hook", scheme="http"))

        async def run():
            async with opened(store_url, sink) as app:
                await raise_one(app)
                assert (await app.operations.alerts.send(actor="ann")).failed == 1
                (notice,) = (await app.operations.alerts.show(1)).notices
                return notice

        assert asyncio.run(run()).error


def test_what_was_raised_and_ended_while_a_sink_was_down_is_told_in_order(store_url):
    clock, ear = FakeClock(), Ear()
    ear.errors = [ConnectionError("down")]

    async def run():
        async with opened(store_url, ear, clock=clock) as app:
            await raise_one(app)
            await app.operations.alerts.send(actor="ann")
            await app.operations.alerts.resolve(1, actor="ann", reason="it was received")
            for _ in range(3):
                clock.advance(60)
                await app.operations.alerts.send(actor="ann")

    asyncio.run(run())
    assert [kind for kind, _, _ in ear.said()] == ["raise", "resolve"]
    assert ear.heard[1].data["why"] == "it was received"
    assert "resolved by ann: it was received" in ear.heard[1].text


@pytest.mark.spec("LLM-7.2")
def test_an_alert_is_over_once_it_was_quiet_for_long_enough_and_not_before(store_url):
    clock, ear = FakeClock(), Ear()
    limited = reprieve.classify(reprieve.Retryable("429", error_class="RATE_LIMITED"))

    async def run():
        async with opened(store_url, ear, clock=clock) as app:
            for _ in range(11):
                await Alerts(app.journal).failed(limited, source="urls", profile="analysis")
            clock.advance(299.9)
            assert (await app.operations.alerts.send(actor="ann")).resolved == 0
            clock.advance(0.1)
            assert (await app.operations.alerts.send(actor="ann")).resolved == 1

    asyncio.run(run())
    assert [kind for kind, _, _ in ear.said()] == ["raise", "resolve"]


def test_mail_is_a_sink_too(sqlite_url, mail_server):
    sender = SMTP(mail_server.host, mail_server.smtp_port, sender="alerts@example.org", tls="none")
    sink = SenderSink(sender, "mailto:ops@example.org")

    async def run():
        async with opened(sqlite_url, sink) as app:
            await raise_one(app)
            return await app.operations.alerts.send(actor="ann")

    assert asyncio.run(run()).told == 1


def test_two_sinks_of_one_name_are_refused(sqlite_url):
    async def run():
        async with opened(sqlite_url, Ear(), Ear()) as app:
            await app.operations.alerts.send(actor="ann")

    with pytest.raises(UsageError, match="the same name"):
        asyncio.run(run())


KILLED = """
import asyncio, os, signal, sys
import reprieve

class Deadly:
    name, timeout = "ear", 30.0

    async def tell(self, notice):
        os.kill(os.getpid(), signal.SIGKILL)

    async def close(self):
        pass

async def main():
    async with reprieve.connect(sys.argv[1], alerts=[Deadly()]) as app:
        await app.operations.alerts.send(actor="ann")

asyncio.run(main())
"""


def test_what_a_herald_had_taken_that_was_killed_is_told_by_another(store_url):
    ear = Ear()

    async def raised():
        async with opened(store_url) as app:
            await raise_one(app)

    async def told():
        async with opened(store_url, ear) as app:
            assert (await app.operations.alerts.send(actor="ann")).told == 0, "it may be under way"
            notice = (await app.operations.alerts.show(1)).notices[0]
            return notice.attempts, notice.not_before - await app.journal.store.now()

    async def later(seconds):
        clock = FakeClock(now=(await now()) + seconds)
        async with opened(store_url, ear, clock=clock) as app:
            return await app.operations.alerts.send(actor="ann")

    async def now():
        async with opened(store_url) as app:
            return await app.journal.store.now()

    asyncio.run(raised())
    died = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), store_url], check=False, capture_output=True)
    assert died.returncode == -9, died.stderr
    attempts, wait = asyncio.run(told())
    assert (attempts, ear.heard) == (1, [])
    assert 0 < wait <= 40
    assert asyncio.run(later(50)).told == 1
    assert len(ear.heard) == 1


def test_what_a_webhook_is_told_is_json_that_a_program_can_read(sqlite_url):
    with FlakyHTTP() as server:
        sink = SenderSink(Webhook("alerts", allow_private=True), server.url("/hook", scheme="http"))

        async def run():
            async with opened(sqlite_url, sink) as app:
                await raise_one(app)
                await app.operations.alerts.send(actor="ann")

        asyncio.run(run())
        (body,) = notices(server)
    data = body["data"]
    assert (data["rule"], data["level"], data["source"], data["count"], data["kind"]) == (
        "broken_order",
        "page",
        "mail",
        1,
        "raise",
    )
    assert json.dumps(data)
