"""What a caller may hand over as a time, a length of time, a job or a pipeline; and what is told where it is none."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest

import reprieve
from reprieve.errors import UsageError
from reprieve.testing import FakeClock

NOW = 1_700_000_000.0

pipeline = reprieve.Pipeline("review")


@pipeline.stage
async def fetch(job: reprieve.Job[dict]) -> int:
    return 1


def scene(url, act):
    async def opened():
        async with reprieve.connect(url, clock=FakeClock(now=NOW)) as app:
            return await act(app)

    return asyncio.run(opened())


@pytest.mark.parametrize(
    ("options", "due"),
    [
        ({"delay": 90}, NOW + 90),
        ({"delay": timedelta(minutes=1.5)}, NOW + 90),
        ({"run_at": NOW + 90}, NOW + 90),
        ({"run_at": datetime.fromtimestamp(NOW + 90, UTC)}, NOW + 90),
        ({"run_at": datetime.fromtimestamp(NOW + 90, timezone(timedelta(hours=9)))}, NOW + 90),
    ],
)
def test_when_a_job_is_due_is_said_in_seconds_or_as_a_time(store_url, options, due):
    async def act(app):
        job = await app.submit(pipeline, {}, **options)
        return (await app.operations.jobs.show(job.job_id)).job.run_at

    assert scene(store_url, act) == due


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"run_at": datetime(2030, 1, 1)}, "run_at has no time zone"),  # noqa: DTZ001 - the very thing that is refused
        ({"run_at": "tomorrow"}, "run_at must be a number"),
        ({"run_at": datetime(1960, 1, 1, tzinfo=UTC)}, "run_at must be from 0"),
        ({"delay": timedelta(seconds=-1)}, "delay must be from 0"),
        ({"delay": "1h"}, "delay must be a number"),
    ],
)
def test_what_is_no_time_is_refused(sqlite_url, options, says):
    async def act(app):
        with pytest.raises(UsageError, match=says):
            await app.submit(pipeline, {}, **options)

    scene(sqlite_url, act)


@pytest.mark.parametrize("other", ["review", None, asyncio, fetch])
def test_what_is_no_pipeline_is_refused(sqlite_url, other):
    async def act(app):
        with pytest.raises(UsageError, match=r"submitted to a reprieve\.Pipeline, not to "):
            await app.submit(other, {})
        for items in ([{}], []):
            with pytest.raises(UsageError, match=r"^jobs are submitted to a reprieve\.Pipeline, not to "):
                await app.submit_many(other, items)

    scene(sqlite_url, act)


@pytest.mark.parametrize("other", ["x", None, 1.5, True, b"1"])
def test_what_is_no_id_of_a_job_is_refused(sqlite_url, other):
    async def act(app):
        jobs = app.operations.jobs
        for asked in (
            app.wait(other), jobs.show(other), jobs.payload(other), jobs.ending(other), jobs.cancel(other, actor="ada"),
        ):  # fmt: skip
            with pytest.raises(UsageError, match=r"a whole number, not "):
                await asked

    scene(sqlite_url, act)


@pytest.mark.parametrize("other", [5, None, b"key"])
def test_what_is_no_key_of_a_job_is_refused(sqlite_url, other):
    async def act(app):
        with pytest.raises(UsageError, match=r"by its key, a text, not by .*: show takes its id"):
            await app.operations.jobs.find(other)

    scene(sqlite_url, act)


@pytest.mark.parametrize("other", [None, 1.5, b"key"])
def test_what_is_neither_an_id_nor_a_key_of_a_job_is_refused(sqlite_url, other):
    async def act(app):
        for report in (app.complete_item(other, "parse"), app.handle_item_failure(other, "a", "parse", "odd")):
            with pytest.raises(UsageError, match=r"by its id or its key, not by "):
                await report

    scene(sqlite_url, act)
