"""What a stage that delivers does to its recipients and to its job, with real receivers that misbehave."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import desk as desk_of_lab
import pytest
from post_office import open_office

import reprieve
from reprieve.core.lifecycle import DeliveryStatus, JobStatus
from reprieve.ports.deliveries import DeliveryFilter
from reprieve.senders import Webhook

QUICK = reprieve.load_profiles()["criticizer"].override(backoff=reprieve.Backoff(initial=0.01, maximum=0.02))


@pytest.fixture
def office():
    with open_office() as opened:
        yield opened


def by_look_up(office, **settings):
    return Webhook("hook", status_url=office.url("/status/{token}"), timeout=2.0, allow_private=True, **settings)


def by_key(_):
    return Webhook("hook", takes_key=3600.0, timeout=2.0, allow_private=True)


def by_nothing(_):
    return Webhook("hook", timeout=2.0, allow_private=True)


def notifying(office, sender, names):
    pipeline = reprieve.Pipeline("notices", profile=QUICK, senders=[sender], breaker=None)

    @pipeline.stage(delivers=True)
    async def notify(job: reprieve.Job[str]) -> list[str]:
        messages = [
            reprieve.Message(recipient=office.url(f"/inbox/{name}"), subject=job.payload, text=f"for {name}")
            for name in names
        ]
        done = await reprieve.deliver(job, messages, via="hook")
        return [recipient.rpartition("/")[2] for recipient in done.sent]

    return pipeline


@asynccontextmanager
async def working(url, pipeline, *, subject="cl-1", version=1):
    """The application after it has worked as far as it goes, and the job."""
    async with reprieve.connect(url) as app, asyncio.timeout(40):
        job = await app.submit(pipeline, "hello", subject=subject, version=version)
        await app.work(pipeline, until_idle=True)
        yield app, job.job_id


def statuses(app, job):
    rows = app.deliveries.deliveries(DeliveryFilter(job_id=job))
    return {row.recipient.rpartition("/")[2]: row.status for row in rows}


def run(main):
    return asyncio.run(main())


@pytest.mark.spec("REV-3.1", "REV-4.2", "REV-5.1")
def test_everybody_is_told_once_and_the_job_succeeds(store_url, office):
    pipeline = notifying(office, by_look_up(office), ["ada", "ben", "cy"])

    async def main():
        async with working(store_url, pipeline) as (app, job):
            assert sorted(await app.wait(job)) == ["ada", "ben", "cy"]
            rows = app.deliveries.deliveries(DeliveryFilter(job_id=job))
            assert {row.status for row in rows} == {DeliveryStatus.SENT}
            assert all(row.notification_id == f"po-{row.token[:8]}" and row.notified_at for row in rows)

    run(main)
    assert office.told() == {"ada": 1, "ben": 1, "cy": 1}


@pytest.mark.spec("REV-3.3", "REV-4.4", "REV-4.5")
def test_a_retry_tells_only_who_has_not_been_told(store_url, office):
    office.next("ben", "429", "429")
    pipeline = notifying(office, by_look_up(office), ["ada", "ben"])

    async def main():
        async with working(store_url, pipeline) as (app, job):
            assert app.reader.job(job).status is JobStatus.SUCCEEDED

    run(main)
    assert office.told() == {"ada": 1, "ben": 1}
    assert office.tries.count("ada") == 1
    assert office.tries.count("ben") == 3


@pytest.mark.spec("REV-7.1", "REV-4.7")
@pytest.mark.parametrize("act", ["take and drop", "take and 500"])
def test_what_was_taken_without_an_answer_is_looked_up_and_not_sent_again(store_url, office, act):
    office.next("ada", act)
    pipeline = notifying(office, by_look_up(office), ["ada"])

    async def main():
        async with working(store_url, pipeline) as (app, job):
            assert app.reader.job(job).status is JobStatus.SUCCEEDED
            (row,) = app.deliveries.deliveries(DeliveryFilter(job_id=job))
            assert (row.status, row.attempts) == (DeliveryStatus.SENT, 1)
            detail = app.deliveries.delivery(row.delivery_id)
            assert [(each.kind, each.answer) for each in detail.attempts] == [("send", "doubt"), ("look_up", "found")]

    run(main)
    assert office.told() == {"ada": 1}
    assert office.tries == ["ada"]


def test_what_was_definitely_not_taken_is_sent_again(store_url, office):
    office.next("ada", "drop")
    pipeline = notifying(office, by_look_up(office), ["ada"])

    async def main():
        async with working(store_url, pipeline) as (app, job):
            assert app.reader.job(job).status is JobStatus.SUCCEEDED

    run(main)
    assert office.told() == {"ada": 1}
    assert office.tries == ["ada", "ada"]


@pytest.mark.spec("REV-9.2", "REV-4.1")
def test_a_receiver_that_drops_a_second_one_with_the_same_key_gets_a_second_one(store_url):
    with open_office(drops_second=True) as office:
        office.next("ada", "take and drop")
        pipeline = notifying(office, by_key(office), ["ada"])

        async def main():
            async with working(store_url, pipeline) as (app, job):
                assert app.reader.job(job).status is JobStatus.SUCCEEDED

        run(main)
        assert office.tries == ["ada", "ada"]
        assert office.told() == {"ada": 1}


@pytest.mark.spec("REV-7.1")
@pytest.mark.parametrize("second", ["400", "429"])
def test_a_second_one_that_is_refused_does_not_unmake_the_doubt_about_the_first(store_url, second):
    with open_office(drops_second=True) as office:
        office.next("ada", "take and 500", second)
        pipeline = notifying(office, by_key(office), ["ada"])

        async def main():
            async with working(store_url, pipeline) as (app, job):
                assert app.reader.job(job).status is JobStatus.SUCCEEDED
                (row,) = app.deliveries.deliveries(DeliveryFilter(job_id=job))
                log = [each.answer for each in app.deliveries.delivery(row.delivery_id).attempts]
                assert log == ["doubt", "doubt", "accepted"]

        run(main)
        assert office.told() == {"ada": 1}


def test_where_nothing_can_be_known_the_row_is_held_and_the_job_waits_for_a_person(store_url, office):
    office.next("ada", "take and drop")
    pipeline = notifying(office, by_nothing(office), ["ada", "ben"])

    async def main():
        async with working(store_url, pipeline) as (app, job):
            view = app.reader.job(job)
            assert (view.status, view.waits_on) == (JobStatus.IN_PROGRESS, f"delivery:{job}")
            assert statuses(app, job) == {"ada": DeliveryStatus.HELD, "ben": DeliveryStatus.SENT}
            (held,) = app.deliveries.deliveries(DeliveryFilter(statuses=frozenset({DeliveryStatus.HELD})))
            await app.operations.deliveries.confirm(held.delivery_id, actor="eve", evidence="ada has answered")
            await app.work(pipeline, until_idle=True)
            assert app.reader.job(job).status is JobStatus.SUCCEEDED

    run(main)
    assert office.tries.count("ada") == 1


def test_a_person_may_have_a_held_one_sent_again(store_url, office):
    office.next("ada", "drop")
    pipeline = notifying(office, by_nothing(office), ["ada"])

    async def main():
        async with working(store_url, pipeline) as (app, job):
            (held,) = app.deliveries.deliveries(DeliveryFilter(job_id=job))
            await app.operations.deliveries.resend(held.delivery_id, actor="eve", reason="ada has not got it")
            await app.work(pipeline, until_idle=True)
            assert app.reader.job(job).status is JobStatus.SUCCEEDED

    run(main)
    assert office.told() == {"ada": 1}


@pytest.mark.spec("REV-6.3", "REV-5.1")
def test_who_can_never_be_told_stops_no_other_and_a_replay_serves_only_who_is_missing(store_url, office):
    office.next("ben", "400")
    pipeline = notifying(office, by_look_up(office), ["ada", "ben", "cy"])

    async def main():
        async with working(store_url, pipeline) as (app, job):
            assert app.reader.job(job).status is JobStatus.DEAD_LETTER
            assert statuses(app, job) == {
                "ada": DeliveryStatus.SENT, "ben": DeliveryStatus.FAILED, "cy": DeliveryStatus.SENT,
            }  # fmt: skip
            letter = app.letters.letter_of(job)
            await app.operations.dead_letters.replay(
                [letter], actor="eve", cause="data", evidence="ben has a box again", safe="told by key"
            )
            await app.work(pipeline, until_idle=True)
            assert app.reader.job(job).status is JobStatus.SUCCEEDED

    run(main)
    assert office.told() == {"ada": 1, "ben": 1, "cy": 1}
    assert [office.tries.count(name) for name in ("ada", "ben", "cy")] == [1, 2, 1]


@pytest.mark.spec("REV-6.3")
def test_an_address_that_is_none_fails_alone(store_url, office):
    pipeline = reprieve.Pipeline("notices", profile=QUICK, senders=[by_look_up(office)])

    @pipeline.stage
    async def notify(job: reprieve.Job[str]) -> int:
        recipients = [office.url("/inbox/ada"), "https://evil\r\nX: y/\0", office.url("/inbox/ben")]
        messages = [reprieve.Message(recipient=each, subject="s", text="t") for each in recipients]
        return len((await reprieve.deliver(job, messages, via="hook")).sent)

    async def main():
        async with working(store_url, pipeline) as (app, job):
            assert app.reader.job(job).status is JobStatus.DEAD_LETTER
            letter = app.letters.letter(app.letters.letter_of(job))
            assert (letter.row.error_class, letter.row.stage) == ("RECIPIENT_INVALID", "notify")
            rows = app.deliveries.deliveries(DeliveryFilter(job_id=job))
            assert sorted(row.status for row in rows) == ["failed", "sent", "sent"]
            (failed,) = [row for row in rows if row.status == "failed"]
            assert failed.recipient.startswith("invalid:")
            assert failed.recipient.isprintable()
            assert failed.attempts == 0

    run(main)
    assert office.told() == {"ada": 1, "ben": 1}


@pytest.mark.spec("CRIT-5.5", "CRIT-5.4")
def test_a_replay_with_a_corrected_address_tells_that_one_only_and_can_be_closed(store_url, office):
    pipeline = reprieve.Pipeline("notices", profile=QUICK, senders=[by_look_up(office)])

    @pipeline.stage
    async def notify(job: reprieve.Job[list[str]]) -> int:
        messages = [reprieve.Message(recipient=each, subject="s", text="t") for each in job.payload]
        return len((await reprieve.deliver(job, messages, via="hook")).sent)

    async def main():
        async with reprieve.connect(store_url) as app, asyncio.timeout(40):
            wrong, right = [office.url("/inbox/ada"), "ben"], [office.url("/inbox/ada"), office.url("/inbox/ben")]
            job = (await app.submit(pipeline, wrong, subject="cl-1", version=1)).job_id
            await app.work(pipeline, until_idle=True)
            letters, letter = app.operations.dead_letters, app.letters.letter_of(job)
            await letters.replay(
                [letter], actor="eve", cause="data", evidence="a typing error", safe="told by key", payload=right,
                pipeline=pipeline,
            )  # fmt: skip
            await app.work(pipeline, until_idle=True)
            await letters.resolve([letter], actor="eve", note="ben has been told")
            assert (await letters.show(letter)).row.state == "resolved"

    run(main)
    assert office.told() == {"ada": 1, "ben": 1}


@pytest.mark.spec("REV-2.1")
def test_the_same_version_again_tells_nobody_and_a_higher_one_tells_everybody(store_url, office):
    pipeline = notifying(office, by_look_up(office), ["ada"])

    async def main():
        for version in (1, 1, 2):
            async with working(store_url, pipeline, version=version):
                pass

    run(main)
    assert office.told() == {"ada": 2}
    assert len(office.taken) == 2


@pytest.mark.spec("REV-5.2", "REV-6.2")
def test_while_a_provider_is_busy_the_job_waits_exponentially_longer_and_has_not_succeeded(store_url, office):
    office.next("ada", *["429"] * 4)
    profile = reprieve.load_profiles()["criticizer"].override(
        backoff=reprieve.Backoff(initial=2.0, multiplier=2.0, maximum=60.0)
    )
    pipeline = desk_of_lab.notifying(office, by_look_up(office), ["ada", "ben"], profile=profile)
    waits = []

    async def main():
        async with desk_of_lab.desk(store_url, pipeline) as here:
            job = await here.submit()
            await here.settle()
            while here.job(job).status is not JobStatus.SUCCEEDED:
                assert here.job(job).status is JobStatus.RETRYABLE_FAILED
                assert here.rows()["ben"].status is DeliveryStatus.SENT
                assert here.rows()["ada"].status is DeliveryStatus.PENDING
                waits.append(here.job(job).run_at - here.clock.now())
                here.clock.advance(waits[-1])
                await here.settle()

    run(main)
    assert waits == [pytest.approx(wait, abs=0.01) for wait in (2.0, 4.0, 8.0, 16.0)]
    assert office.told() == {"ada": 1, "ben": 1}


@pytest.mark.spec("REV-5.2")
def test_while_one_is_in_doubt_the_job_is_in_progress_and_spends_nothing(store_url, office):
    office.next("ada", "take and drop")
    office.answers.extend(["500"] * 3)
    pipeline = desk_of_lab.notifying(office, by_look_up(office, lag=5.0), ["ada"])

    async def main():
        async with desk_of_lab.desk(store_url, pipeline) as here:
            job = await here.submit()
            await here.settle()
            assert here.job(job).status is JobStatus.IN_PROGRESS
            assert here.job(job).waits_on == f"delivery:{job}"
            for _ in range(10):
                here.clock.advance(30)
                await here.settle()
            assert here.job(job).status is JobStatus.SUCCEEDED
            assert app_attempts(here, job) == []

    run(main)
    assert office.tries == ["ada"]


def app_attempts(here, job):
    return [attempt for attempt in here.app.reader.attempts(job) if attempt.cause == "handler"]
