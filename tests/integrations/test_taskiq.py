"""Taskiq with a real worker: retried when the profile says, dead-lettered once, replayed by the broker."""

import json
import time

import pytest

from support.hosts import check_delays

LATE_SECONDS = 0.5
CLIENT = """
import asyncio, taskiq_shop
from taskiq_shop import broker, failures, work
async def main():
    await broker.startup()
    {code}
    await broker.shutdown()
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def host(start_host):
    host = start_host("taskiq", "worker", "taskiq_shop:broker", "--workers", "1", "--max-async-tasks", "10")
    send(host, "ok", "ready")
    host.wait(lambda: host.events("ready", "done"))
    return host


def client(host, code):
    return host.python(CLIENT.format(code=code))


def send(host, *kinds_and_keys):
    pairs = zip(kinds_and_keys[::2], kinds_and_keys[1::2], strict=True)
    client(host, "; ".join(f"await work.kiq({kind!r}, {key!r})" for kind, key in pairs))


def wait_with_traffic(host, what):
    """Wait while tasks come in: else Taskiq's broker does not look for those of a dead worker."""
    last = 0.0

    def seen():
        nonlocal last
        if time.monotonic() - last > 0.5:
            last = time.monotonic()
            tick = {"task_id": f"tick-{last}", "task_name": "taskiq_shop:work", "labels": {}, "kwargs": {}}
            host.server.call("XADD", "taskiq", "*", "data", json.dumps(tick | {"args": ["ok", "tick"]}))
        return what()

    return host.wait(seen)


def message_of(letter):
    flat = letter.original
    fields = {flat[at].decode(): flat[at + 1] for at in range(0, len(flat), 2)}
    return json.loads(fields["message"]) if "message" in fields else fields


def letters_of(host, key):
    return [each for each in host.dead_letters("taskiq") if key in message_of(each).get("args", [])]


def test_a_transient_failure_is_retried_after_its_delays_and_dead_lettered_when_the_budget_is_spent(host):
    keys = ["spent 1", "spent 2", "spent 3"]
    send(host, *(word for key in keys for word in ("transient", key)))
    for key in keys:
        (letter,) = host.wait(lambda key=key: letters_of(host, key))
    check_delays(host, keys, [0.3, 0.6, 1.2], late=LATE_SECONDS)
    assert (letter.attempts, letter.reason, letter.error_class) == (4, "budget_spent", "CONNECTION_RESET")


def test_a_failure_that_passes_is_over_after_the_retry(host):
    send(host, "once", "once")
    host.wait(lambda: host.events("once", "done"))
    assert host.counts("once") == {"start": 2, "done": 1}
    assert letters_of(host, "once") == []


def test_a_permanent_failure_is_dead_lettered_after_one_attempt_without_its_secrets(host):
    send(host, "permanent", "wrong")
    (letter,) = host.wait(lambda: letters_of(host, "wrong"))
    assert host.counts("wrong") == {"start": 1}
    assert (letter.attempts, letter.reason, letter.service) == (1, "non_retryable", "shop")
    assert "in act" in letter.context["stack"]
    assert "hunter2" not in json.dumps(letter.context)


def test_a_task_that_kills_its_workers_is_dead_lettered_and_its_neighbours_are_not(host):
    send(host, "slow", "beside 1", "poison", "poison", "slow", "beside 2")
    wait_with_traffic(host, lambda: letters_of(host, "poison"))
    for key in ("beside 1", "beside 2"):
        wait_with_traffic(host, lambda key=key: host.events(key, "done"))
        assert letters_of(host, key) == []
    (letter,) = letters_of(host, "poison")
    # The first start was beside others; three more are charged.
    assert host.counts("poison") == {"start": 4}
    assert (letter.error_class, letter.context["origin"], letter.attempts) == ("WORKER_LOST", "crash", 3)
    host.wait(lambda: not host.server.call("KEYS", "*starts*"))


@pytest.mark.parametrize("data", ["{ no json", '{"order": 7}'])
def test_a_message_that_cannot_be_read_is_dead_lettered_and_acknowledged(host, data):
    host.server.call("XADD", "taskiq", "*", "data", data)

    def found():
        letters = host.dead_letters("taskiq")
        return [each for each in letters if message_of(each).get("unreadable") == data.encode()]

    (letter,) = host.wait(found)
    assert (letter.error_class, letter.attempts) == ("SCHEMA_INVALID", 0)
    host.wait(lambda: host.server.call("XPENDING", "taskiq", "taskiq")[0] == 0)


def test_a_message_for_a_task_that_is_gone_is_dead_lettered(host):
    client(host, "await work.kicker().with_task_id('gone').kiq('ok', 'gone')")
    host.wait(lambda: host.events("gone", "done"))
    client(
        host,
        "m = work.kicker()._prepare_message('ok', 'unknown'); m.task_name = 'removed';"
        " await broker.kick(broker.formatter.dumps(m))",
    )
    (letter,) = host.wait(lambda: letters_of(host, "unknown"))
    assert "no task is named 'removed'" in letter.error


def test_a_dead_letter_is_replayed_once_through_the_broker_and_its_history_is_kept(host):
    send(host, "fixed", "again")
    (letter,) = host.wait(lambda: letters_of(host, "again"))
    replay = f"print(await failures.replay('taskiq', {letter.dead_letter_id!r}))"
    assert client(host, replay) == message_of(letter)["task_id"]
    (second,) = host.wait(lambda: [each for each in letters_of(host, "again") if each.replays])
    assert (second.replays, second.history["replayed_from"], second.attempts) == (1, letter.dead_letter_id, 1)
    host.server.call("SET", "fixed:again", 1)
    client(host, replay.replace(letter.dead_letter_id, second.dead_letter_id))
    host.wait(lambda: host.events("again", "done"))
    assert letters_of(host, "again") == []
