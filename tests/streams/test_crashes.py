"""Consumers that are killed, frozen or cut off: nothing is lost, and nothing is decided twice."""

import asyncio
import signal
import time

import pytest

from reprieve.streams.keys import CONSUMER_PREFIX
from support.stream_groups import LEASE, Group, read_ledger, running, workers


@pytest.fixture
def group(redis_server):
    return Group(redis_server)


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "ledger"


def starts(ledger, message_id=None):
    return [line for line in read_ledger(ledger) if line[0] == "start" and message_id in (None, line[1])]


async def test_what_a_killed_consumer_held_is_handled_by_another_after_the_lease(group, ledger):
    group.add(*[{"do": "slow", "seconds": "30"} for _ in range(5)])
    with workers(group, ledger, concurrency=5) as (worker,):
        await group.until(lambda: len(starts(ledger)) == 5)
        worker.kill()
        killed_at = time.monotonic()
        seen = []

        async def handle(task, message):
            seen.append((message.id, message.attempt, message.history.lost_lease))

        async with running(group.consumer(handle), group):
            await group.until(lambda: group.pending() == 0)
    assert time.monotonic() - killed_at < LEASE + 5.0
    assert sorted(seen) == [(message_id, 1, 1) for message_id in sorted({each[0] for each in seen})]
    assert len(seen) == 5
    assert group.call("HLEN", group.keys.state) == 0


@pytest.mark.spec("ORC-5.2")
async def test_one_poison_message_among_many_is_dead_lettered_and_no_neighbour_is(group, ledger):
    ids = group.add(*[{"do": "poison" if n == 30 else "ok"} for n in range(100)])
    with workers(group, ledger, concurrency=4, lease=0.4) as started:
        deadline = time.monotonic() + 25
        while sum(line[0] == "end" for line in read_ledger(ledger)) < 99 or group.pending():
            assert time.monotonic() < deadline
            for index, worker in enumerate(started):
                if worker.process.poll() is not None:
                    started[index] = type(worker)(group, ledger, concurrency=4, lease=0.4)
            await asyncio.sleep(0.02)
    (letter,) = group.dead_letters()
    assert (letter.message_id, letter.error_class, letter.reason) == (ids[30], "WORKER_LOST", "budget_spent")
    assert letter.context["origin"] == "crash"
    assert len(starts(ledger, ids[30])) == 4  # one in a batch, where nothing was charged, and three alone
    ended = {line[1] for line in read_ledger(ledger) if line[0] == "end"}
    assert ended == set(ids) - {ids[30]}


@pytest.mark.parametrize("do", ["slow", "slow_failure"])
async def test_a_frozen_consumer_loses_its_message_and_cannot_decide_about_it_later(group, ledger, do):
    (message_id,) = group.add({"do": do, "seconds": "0.4"})
    with workers(group, ledger) as (worker,):
        await group.until(lambda: starts(ledger))
        worker.signal(signal.SIGSTOP)
        handled = []

        async def handle(task, message):
            handled.append(message.id)
            if len(handled) == 1:
                worker.signal(signal.SIGCONT)  # the first run goes on while this one runs
                await asyncio.sleep(0.8)

        async with running(group.consumer(handle), group):
            await group.until(lambda: handled)
            await group.until(lambda: group.pending() == 0)
            await asyncio.sleep(0.2)
    assert set(handled) == {message_id}
    assert group.dead_letters() == []


async def test_many_lives_of_consumers_leave_few_names(group):
    async def handle(task):
        pass

    group.call("XGROUP", "CREATE", group.queue, group.name, "0", "MKSTREAM")
    for index in range(100):  # killed before they had done anything
        group.call("XGROUP", "CREATECONSUMER", group.queue, group.name, f"{CONSUMER_PREFIX}host:{index}:x")
        group.call("ZADD", group.keys.consumers, 1, f"{CONSUMER_PREFIX}host:{index}:x")
    async with running(group.consumer(handle), group):
        await group.until(lambda: len(group.call("XINFO", "CONSUMERS", group.queue, group.name)) < 5)


async def test_the_server_restarts_empty_and_work_goes_on(redis_server):
    group = Group(redis_server)
    seen = []

    async def handle(task):
        seen.append(task["n"])

    async with running(group.consumer(handle), group):
        group.add({"n": "1"})
        await group.until(lambda: seen == ["1"])
        group.call("FLUSHALL")
        await asyncio.sleep(0.1)
        group.add({"n": "2"})
        await group.until(lambda: seen == ["1", "2"])
