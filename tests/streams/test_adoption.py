"""Dead letters of a stream are copied into the store once, triaged there, and replayed back into their group."""

import json
import subprocess
import sys
import time

import pytest

import reprieve
from reprieve.app.submitting import Item
from reprieve.operations.stream_adoption import _key, _payload, adopt_dead_letters, stream_dead_letters
from reprieve.operations.streams import discard_dead_letters, read_letters, replay_dead_letters
from reprieve.ports.dead_letters import LetterFilter
from support.failed_messages import QUEUE, StreamGroup

SECRET = "sk-live-abcdefghijklmnop1234567890"


@pytest.fixture(autouse=True)
def known_redis(redis_server, monkeypatch, tmp_path):
    """The worker of the pipeline finds the server in its environment."""
    monkeypatch.setenv("REPRIEVE_STREAMS_URL", redis_server.url)
    monkeypatch.chdir(tmp_path)


async def adopt(group, app):
    return await adopt_dead_letters(group.redis, app, QUEUE, actor="ada")


async def replay_all(app):
    """Approve and replay every dead letter of the store, and let a worker do its work."""
    await app.operations.dead_letters.replay(
        LetterFilter(), actor="ada", cause="data", evidence="INC-1", safe="the handler works by key"
    )
    await app.work(stream_dead_letters, until_idle=True, signals=False)
    return await app.operations.dead_letters.list(LetterFilter())


@pytest.mark.spec("ORC-4.7")
async def test_an_adopted_dead_letter_is_triaged_and_replayed_into_its_stream(redis_server, store_url):
    group = StreamGroup(redis_server)
    letter = await group.fail("project", "p-1", error=ValueError(f"token={SECRET} is bad"))
    async with reprieve.connect(store_url) as app:
        done = await adopt(group, app)
        assert (done.adopted, done.adopted_before) == (1, 0)
        (row,) = await app.operations.dead_letters.list(LetterFilter())
        assert (row.pipeline, row.stage, row.error_class, row.state) == ("stream-dead-letters", "replay", "BUG", "open")
        detail = await app.operations.dead_letters.show(row.letter_id)
        assert SECRET not in repr(detail)
        assert json.loads(detail.sanitized_context)["dead_letter_id"] == letter
        (row,) = await replay_all(app)
        assert row.state == "replayed"
    (message,) = await group.claim()
    assert message.fields == [b"project", b"p-1"]
    assert message.history.replays == 1
    assert await group.dead_letters() == []


async def test_the_idempotency_key_of_an_adopted_letter_can_be_read(redis_server):
    group = StreamGroup(redis_server)
    await group.fail()
    async with reprieve.connect("sqlite:///jobs.db") as app:
        await adopt(group, app)
        (row,) = await app.operations.dead_letters.list(LetterFilter())
        context = json.loads((await app.operations.dead_letters.show(row.letter_id)).sanitized_context)
    assert context["idempotency_key"].startswith(f"{QUEUE}:")
    assert "redacted" not in json.dumps(context)


def test_a_worker_that_does_not_know_the_redis_refuses_to_start(monkeypatch, tmp_path):
    monkeypatch.delenv("REPRIEVE_STREAMS_URL")
    command = [sys.executable, "-m", "reprieve", "work", "--app", "reprieve.operations.stream_adoption"]
    command += ["--url", f"sqlite:///{tmp_path}/jobs.db", "--until-idle"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "REPRIEVE_STREAMS_URL" in done.stderr
    assert len(done.stderr.splitlines()) == 1


async def test_adopting_twice_copies_once_also_after_a_replay(redis_server):
    group = StreamGroup(redis_server)
    for _ in range(3):
        await group.fail()
    async with reprieve.connect("sqlite:///jobs.db") as app:
        assert (await adopt(group, app)).adopted == 3
        await group.fail()
        done = await adopt(group, app)
        assert (done.adopted, done.adopted_before) == (1, 3)
        assert len(await app.operations.dead_letters.list(LetterFilter())) == 4


async def test_an_adoption_that_was_killed_half_way_is_finished_by_the_next(redis_server):
    group = StreamGroup(redis_server)
    await group.fail()
    async with reprieve.connect("sqlite:///jobs.db") as app:
        letters = [each async for each, _ in read_letters(group.redis, QUEUE, newest_first=False)]
        items = [
            Item(_payload(each, QUEUE), idempotency_key=_key(each, QUEUE), run_at=time.time() + 3e8) for each in letters
        ]
        await app.submit_many(stream_dead_letters, items)
        assert (await adopt(group, app)).adopted == 1


@pytest.mark.parametrize("how", ["replayed", "discarded"])
async def test_what_was_closed_in_the_stream_meanwhile_is_not_replayed_again(redis_server, how):
    group = StreamGroup(redis_server)
    letter = await group.fail()
    async with reprieve.connect("sqlite:///jobs.db") as app:
        await adopt(group, app)
        if how == "replayed":
            await replay_dead_letters(group.redis, QUEUE, [letter], actor="bob")
        else:
            await discard_dead_letters(group.redis, QUEUE, [letter], actor="bob", reason="old")
        (row,) = await replay_all(app)
        assert row.state == ("replayed" if how == "replayed" else "open")
        if how == "discarded":
            detail = await app.operations.dead_letters.show(row.letter_id)
            assert "was discarded already, by bob: old" in detail.message
    assert len(await group.claim()) == (1 if how == "replayed" else 0)


async def test_dead_letters_of_other_programs_are_adopted_by_what_they_have(redis_server):
    group = await StreamGroup(redis_server).create()
    add = ("XADD", f"{QUEUE}:dlq", "*")
    odd = {
        "error": "x\0y" * 1000,
        "category": "strange",
        "attempts": 10**30,
        "status_code": 5,
        "fingerprint": 7,
        "stack": ["a"],
    }
    await group.redis.call(*add, "reason", "it broke")
    await group.redis.call(*add, "original_message", '{"a": "b"}', "error_context", json.dumps(odd))
    await group.redis.call(*add, "original_message", json.dumps({"a": "b" * 300_000}), "error_context", "[]")
    async with reprieve.connect("sqlite:///jobs.db") as app:
        assert (await adopt(group, app)).adopted == 3
        assert len(await replay_all(app)) == 3
    assert sorted(len(each.fields[1]) for each in await group.read(10)) == [1, 300_000]
