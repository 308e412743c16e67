"""Messages of a stream become jobs of the engine."""

import asyncio
import json

import pytest

import reprieve
from reprieve.bridge import build_bridge
from support.stream_groups import Group
from support.trees import until

QUEUE, GROUP = "engineering:queue", "bridge"
reviews = reprieve.Pipeline("bridged-reviews")


@reviews.stage
async def llm(job: reprieve.Job[dict[str, str]]) -> str:
    return job.payload["change"]


@pytest.fixture
def group(redis_servers):
    server = redis_servers("valkey")
    server.call("FLUSHALL")
    return Group(server, QUEUE, GROUP)


@pytest.fixture
def group_of_each(redis_server):
    return Group(redis_server, QUEUE, GROUP)


def submit(group, url, *, times=1, works=False, **options):
    """Run a bridge until nothing is left to do; the jobs by idempotency key, with their results."""

    async def main():
        async with reprieve.connect(url) as app:
            for _ in range(times):
                bridge = build_bridge(app, reviews, QUEUE, group=GROUP, **options)
                await bridge.run(group.server.url, until_idle=True, signals=False)
            if works:
                await app.work(reviews, until_idle=True)
            return {job.idempotency_key: job for job in await app.operations.jobs.list()}

    return asyncio.run(main())


def dead(group):
    entries = group.call("XRANGE", f"{QUEUE}:dlq", "-", "+")
    return [json.loads(dict(zip(each[1][::2], each[1][1::2], strict=True))[b"error_context"]) for each in entries]


def test_a_message_becomes_a_job_with_the_key_of_the_message(group_of_each, sqlite_url):
    (first,) = group_of_each.add({"change": "42"})
    assert set(submit(group_of_each, sqlite_url)) == {f"stream:{QUEUE}:{first}"}
    assert group_of_each.pending() == 0


def test_the_payload_can_be_json_in_one_field_and_hold_the_key(group, sqlite_url):
    group.add_json({"change": "42", "id": "cl-42"}, {"change": "43", "id": "cl-43"})
    jobs = submit(group, sqlite_url, body="data", key_field="id", works=True)
    assert {key: job.status for key, job in jobs.items()} == {"cl-42": "succeeded", "cl-43": "succeeded"}


def test_a_message_that_is_delivered_again_makes_no_second_job(group, sqlite_url):
    (first,) = group.add({"change": "42"})
    submit(group, sqlite_url)
    group.call("XGROUP", "SETID", QUEUE, GROUP, "0")
    assert set(submit(group, sqlite_url)) == {f"stream:{QUEUE}:{first}"}
    assert dead(group) == []


def test_another_payload_under_the_same_key_is_a_dead_letter(group, sqlite_url):
    group.add_json({"change": "42", "id": "cl-42"})
    submit(group, sqlite_url, body="data", key_field="id")
    group.add_json({"change": "43", "id": "cl-42"})
    assert len(submit(group, sqlite_url, body="data", key_field="id")) == 1
    (letter,) = dead(group)
    assert "same idempotency key" in letter["error"]
    assert letter["attempts"] == 1
    assert group.pending() == 0


@pytest.mark.parametrize(
    "message", [{"data": '{"change": "42"}'}, {"data": '["42"]'}, {"data": '{"change": 1'}, {"x": "y"}]
)
def test_a_message_without_payload_or_key_is_a_dead_letter(group, sqlite_url, message):
    group.add(message)
    assert submit(group, sqlite_url, body="data", key_field="id") == {}
    assert [each["error_class"] for each in dead(group)] == ["SCHEMA_INVALID"]


def test_a_payload_that_does_not_fit_the_pipeline_is_a_dead_letter_without_it(group, sqlite_url):
    group.add_json({"change": ["sk-live-abcdefghijklmnop1234567890"], "id": "cl-42"})
    assert submit(group, sqlite_url, body="data", key_field="id") == {}
    (letter,) = dead(group)
    assert letter["error_class"] == "SCHEMA_INVALID"
    assert "sk-live" not in json.dumps(letter)


def test_while_the_database_is_away_messages_wait_and_nothing_is_acknowledged(group, sqlite_url):
    group.add({"change": "42"}, {"change": "43"})

    class Away:
        async def submit(self, *_, **__):
            raise reprieve.StoreUnavailableError("the database does not answer")

    async def main():
        stop = asyncio.Event()
        bridge = build_bridge(Away(), reviews, QUEUE, group=GROUP)
        run = asyncio.create_task(bridge.run(group.server.url, stop=stop, signals=False))
        await asyncio.to_thread(until, lambda: group.call("ZCARD", group.keys.waiting) == 2)
        stop.set()
        return await run

    counts = asyncio.run(main())
    assert (counts.handled, counts.dead_lettered) == (0, 0)
    assert len(submit(group, sqlite_url)) == 2
