"""A paused group reads, claims and handles nothing, however often its consumers start; on Valkey 9 and Redis 6.2."""

import asyncio
import logging

import pytest

import reprieve
from reprieve.core.breaker_state import BreakerLimits
from reprieve.streams.keys import WAITING_CONSUMER
from reprieve.streams.pause import GroupPause
from support.stream_groups import Group, running

FATAL = reprieve.Permanent("key revoked", error_class=reprieve.ErrorClass.AUTH_DENIED)


@pytest.fixture
def group(redis_server):
    return Group(redis_server)


def pause(group, reason="maintenance"):
    group.call("SET", group.keys.paused, GroupPause(reason=reason, actor="ada", at=1.0).to_json(), "NX")


async def start_and_stop(group, handle, *, times=3, seconds=0.3, **options):
    for _ in range(times):
        async with running(group.consumer(handle, **options), group):
            await asyncio.sleep(seconds)


@pytest.mark.parametrize("threads", [False, True])
async def test_consumers_that_start_in_a_paused_group_leave_new_messages_unread(group, threads):
    handled = []

    def handle_in_thread(task, message):
        handled.append((message.id, message.attempt))

    async def handle(task, message):
        handled.append((message.id, message.attempt))

    handler = handle_in_thread if threads else handle
    await group.drain(handler)  # creates the group
    pause(group)
    added = group.add(*[{"n": str(n)} for n in range(40)])
    await start_and_stop(group, handler)
    assert handled == []
    assert group.pending() == 0
    assert (await group.status()).lag == 40
    group.call("DEL", group.keys.paused)
    await group.drain(handler)
    assert sorted(handled) == sorted((each, 1) for each in added)
    assert group.dead_letters() == []


async def test_consumers_that_start_in_a_paused_group_leave_waiting_messages_alone(group):
    handled = []

    async def handle(task, message):
        handled.append((message.id, message.attempt, message.deliveries))

    await group.drain(handle)
    added = group.add(*[{"n": str(n)} for n in range(40)])
    group.call("XREADGROUP", "GROUP", group.name, WAITING_CONSUMER, "COUNT", 40, "STREAMS", group.queue, ">")
    for each in added[:39]:
        group.call("ZADD", group.keys.waiting, 1, each)
    group.call("ZADD", group.keys.suspects, 1, added[39])
    pause(group)
    await start_and_stop(group, handle)
    assert handled == []
    assert group.pending() == 40
    assert group.call("ZCARD", group.keys.waiting) + group.call("ZCARD", group.keys.suspects) == 40
    group.call("DEL", group.keys.paused)
    await group.drain(handle)
    assert sorted(handled) == sorted((each, 1, 2) for each in added)


@pytest.mark.parametrize("prefetch", [10, 100])
async def test_restarts_after_a_fatal_failure_write_no_further_dead_letters(group, prefetch):
    calls = []

    async def handle(task):
        calls.append(task["n"])
        await asyncio.sleep(0.01)
        raise FATAL

    group.add(*[{"n": str(n)} for n in range(100)])
    async with running(group.consumer(handle, prefetch=prefetch), group):
        await group.until(lambda: group.call("EXISTS", group.keys.paused))
    at_the_pause, called = len(group.dead_letters()), len(calls)
    assert at_the_pause == called
    await start_and_stop(group, handle, prefetch=prefetch)
    assert (len(group.dead_letters()), len(calls)) == (at_the_pause, called)
    status = await group.status()
    assert status.lag + group.pending() == 100 - at_the_pause


async def test_no_handler_starts_after_the_fatal_failure_was_written(group):
    late = []

    async def handle(task):
        if group.call("EXISTS", group.keys.paused):
            late.append(task["n"])
        if task["n"] == "20":
            raise FATAL
        await asyncio.sleep(0.002)

    group.add(*[{"n": str(n)} for n in range(200)])
    async with running(group.consumer(handle), group):
        await group.until(lambda: group.call("EXISTS", group.keys.paused))
        await asyncio.sleep(0.3)
    assert late == []
    assert len(group.dead_letters()) == 1


async def test_messages_that_a_slow_consumer_holds_are_given_back_when_its_group_is_paused(group):
    handled, slow = [], asyncio.Event()

    async def handle(task):
        handled.append(task["n"])
        if task["n"] == "slow":
            slow.set()
            await asyncio.sleep(0.4)

    # Quick messages make the batch grow, so that slow ones are prefetched behind others.
    group.add(*[{"n": "quick"} for _ in range(300)])
    group.add(*[{"n": "slow"} for _ in range(100)])
    async with running(group.consumer(handle, concurrency=2), group):
        await asyncio.wait_for(slow.wait(), 5)
        pause(group)
        await asyncio.sleep(1.5)
        begun = handled.count("slow")
        await asyncio.sleep(1.0)
        assert handled.count("slow") == begun


async def test_a_pause_is_noticed_before_a_retry_that_is_due_is_claimed(group):
    attempts = []

    async def handle(task, message):
        attempts.append(message.attempt)
        if message.attempt == 1:
            raise ConnectionError("glitch")

    policy = reprieve.Policy(max_attempts=3, backoff=reprieve.Backoff(schedule=(0.3, 0.3)))
    group.add({"n": "1"})
    async with running(group.consumer(handle, profile=policy), group):
        await group.until(lambda: group.call("ZCARD", group.keys.waiting) == 1)
        pause(group)
        await asyncio.sleep(0.6)
        assert attempts == [1]
        group.call("DEL", group.keys.paused)
        await group.until(lambda: attempts == [1, 2])


async def test_a_consumer_says_at_its_start_why_its_group_is_paused(group, caplog):
    async def handle(task):
        raise AssertionError("never called")

    await group.drain(handle)
    pause(group, "the provider is down until noon")
    with caplog.at_level(logging.WARNING, logger="reprieve.streams"):
        await start_and_stop(group, handle, times=1)
    said = [each.getMessage() for each in caplog.records if "paused" in each.getMessage()]
    assert said == [f"{group.queue}: paused: the provider is down until noon"]


async def test_a_consumer_that_starts_during_an_outage_handles_nothing_before_the_probe_is_due(group):
    calls = []

    async def handle(task):
        calls.append(task["n"])
        raise reprieve.Retryable("down", retry_after=60)

    limits = BreakerLimits(failure_threshold=3)
    policy = reprieve.Policy(max_attempts=10, backoff=reprieve.Backoff(schedule=(0.01,)))
    group.add(*[{"n": str(n)} for n in range(20)])
    async with running(group.consumer(handle, breaker=limits, profile=policy, concurrency=3, prefetch=3), group):
        await group.until(lambda: group.call("EXISTS", group.keys.breaker))
        await asyncio.sleep(0.2)
    called = len(calls)
    await start_and_stop(group, handle, breaker=limits, profile=policy, concurrency=3, prefetch=3)
    assert len(calls) == called
