"""`reprieve streams run | status`: consumers from the command line, and a dead letter's way through one."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from support.failed_messages import GROUP, QUEUE, StreamGroup, close_groups

ORDERS = f"""
import asyncio, os, pathlib
import reprieve

@reprieve.consumer("{QUEUE}", group="{GROUP}", service="langgraph", lease=2.0)
async def handle(order, message):
    if order["project"] == "slow":
        pathlib.Path("started").touch()
        await asyncio.sleep(600)
    if not pathlib.Path("fixed").exists():
        raise reprieve.Permanent("Invalid project_id")
    with open("handled", "a") as file:
        file.write(f"{{message.key}} {{order['project']}}\\n")

number = 7
"""


@pytest.fixture
def on(redis_server):
    """Does something with the group of a test."""

    def act(task):
        async def within():
            try:
                return await task(StreamGroup(redis_server))
            finally:
                await close_groups()

        return asyncio.run(within())

    return act


@pytest.fixture
def streams(command, redis_server, monkeypatch, tmp_path):
    """Runs `reprieve streams ...` in a folder with a consumer."""
    monkeypatch.setenv("REPRIEVE_STREAMS_URL", redis_server.url)
    monkeypatch.setenv("REPRIEVE_ACTOR", "ada")
    monkeypatch.delitem(sys.modules, "orders", raising=False)
    (tmp_path / "orders.py").write_text(ORDERS)
    return lambda *arguments, **options: command("streams", *arguments, **options)


@pytest.mark.spec("ORC-4.7")
def test_a_dead_letter_goes_through_its_consumer_again_and_a_second_failure_shows_the_first(streams, on, tmp_path):
    on(lambda group: group.fail("project", "p-1"))
    (first,) = streams("list", QUEUE, "--json").json["dead_letters"]
    entry = first["message_id"]
    assert streams("replay", QUEUE, first["dead_letter_id"]).code == 0
    assert streams("run", "orders", "--until-idle").code == 0
    (second,) = streams("list", QUEUE, "--json").json["dead_letters"]
    assert (second["message_id"], second["replays"], second["attempts"]) == (entry, 1, 1)
    page = streams("show", QUEUE, second["dead_letter_id"], "--json").json
    assert page["context"]["history"]["replayed_from"] == first["dead_letter_id"]
    assert len(page["events"]) == 2
    (tmp_path / "fixed").touch()
    on(lambda group: group.redis.call("XTRIM", QUEUE, "MAXLEN", 0))  # so that it is added anew
    assert streams("replay", QUEUE, second["dead_letter_id"]).code == 0
    assert streams("run", "orders:handle", "--until-idle").code == 0
    assert (tmp_path / "handled").read_text() == f"{QUEUE}:{entry} p-1\n"
    assert streams("list", QUEUE).out == "no dead letters\n"
    assert on(lambda group: group.pending()) == []


def started(folder, server, *options):
    """A consumer in a process of its own, once it consumes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "reprieve", "streams", "run", "orders:handle", *options],
        cwd=folder,
        env={**os.environ, "REPRIEVE_STREAMS_URL": server.url},
        stderr=subprocess.PIPE,
        text=True,
    )
    while "consumer reprieve:" not in (line := process.stderr.readline()):
        assert line, "it ended without a word"
    return process


@pytest.mark.parametrize("redis_server", ["valkey"], indirect=True)
def test_sigterm_ends_a_consumer_within_its_time_and_its_message_is_handed_back(streams, on, redis_server, tmp_path):
    on(lambda group: group.add("project", "slow"))
    consumer = started(tmp_path, redis_server, "--shutdown-timeout", "0.2s")
    deadline = time.monotonic() + 30
    while not (tmp_path / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "runs" in streams("status", QUEUE).out
    began = time.monotonic()
    consumer.send_signal(signal.SIGTERM)
    _, err = consumer.communicate(timeout=30)
    assert consumer.returncode == 0
    assert time.monotonic() - began < 10
    assert "stopped: 0 messages handled" in err
    ((_, holder, _, _),) = on(lambda group: group.pending())
    assert holder == b"reprieve:waiting"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["orders:handel"], "did you mean 'handle'"),
        (["orders:number"], "is of type int, which is no consumer"),
        (["json"], "json holds no consumer"),
        (["none:handle"], "no module 'none'"),
        (["orders:handle", "--shutdown-timeout", "long"], "is no length of time"),
        (["orders:handle", "--redis-url", "mysql://ada:hunter2pw@host"], "a Redis is given as"),
        (["orders:handle", "--redis-url", "redis://ada:hunter2pw@127.0.0.1:1"], "System unavailable, try again later"),
    ],
)
def test_what_a_person_got_wrong_is_told_in_a_sentence(streams, arguments, says):
    done = streams("run", *arguments, "--until-idle")
    assert done.code == 2
    assert says in done.err
    assert "hunter2pw" not in done.err
    assert "Traceback" not in done.err


def test_the_status_of_groups_is_shown_for_people_and_machines(streams, on):
    on(lambda group: group.fail())
    on(lambda group: group.add("project", "p-2"))
    streams("pause", QUEUE, GROUP, "--reason", "until noon")
    out = streams("status", QUEUE).out
    assert "paused by ada" in out
    assert "until noon" in out
    assert f"next: reprieve streams resume {QUEUE} {GROUP}" in out
    assert f"next: reprieve streams list {QUEUE}" in out
    (group,) = streams("status", QUEUE, "--json").json
    assert (group["lag"], group["dead_letters"], group["paused"]["actor"]) == (1, 1, "ada")
    assert streams("status", "no:queue").code == 1


def test_a_queue_of_the_settings_that_nobody_used_yet_hides_no_other(streams, on, monkeypatch):
    on(lambda group: group.fail())
    monkeypatch.setenv("REPRIEVE_STREAMS_QUEUES", f"no:queue,{QUEUE}")
    done = streams("status")
    assert (done.code, GROUP in done.out) == (0, True)
    assert "no:queue" in done.err
