"""Faults that review found in the first design of the protocol: each has a test on both servers."""

import asyncio
import json
import time

import pytest

import reprieve
from reprieve.streams.connection import BlockingRedisConnection, RedisConnection, parse_address
from reprieve.streams.history import MessageHistory, read_history
from reprieve.streams.keys import CONSUMER_PREFIX, WAITING_CONSUMER
from reprieve.streams.lost_consumers import report_lost_consumers
from reprieve.streams.scripts import (
    ACKNOWLEDGE,
    CLAIM_DUE,
    CLAIM_SUSPECT,
    DEAD_LETTER,
    HEARTBEAT,
    RESCUE,
    RESTORE_DUE_TIMES,
    SCHEDULE_RETRY,
)
from support.stream_groups import LEASE, Group, running

ME, OTHER = f"{CONSUMER_PREFIX}me", f"{CONSUMER_PREFIX}box:7:other"
QUICK = reprieve.Policy(max_attempts=4, backoff=reprieve.Backoff(schedule=(0.05,)))


class Scripts:
    """A group and its scripts, called one by one."""

    def __init__(self, group):
        self.group, self.keys = group, group.keys
        self.connection = BlockingRedisConnection(parse_address(group.server.url))
        group.call("XGROUP", "CREATE", group.queue, group.name, "0", "MKSTREAM")

    def read(self, consumer=ME, count=10):
        return self.group.call(
            "XREADGROUP", "GROUP", self.group.name, consumer, "COUNT", count, "STREAMS", self.group.queue, ">"
        )[0][1]

    def claim(self, consumer=ME, want=10, fewest=0):
        keys = self.keys
        names = [keys.queue, keys.dead_letters, keys.waiting, keys.state, keys.suspects, keys.paused]
        context = ('{"error": "trimmed", "timestamp": "now", "service": "s", "attempts": ', ', "reason": "trimmed"}')
        return self.connection.run(
            CLAIM_DUE, names, self.group.name, consumer, WAITING_CONSUMER, want, fewest, *context
        )

    def claim_suspect(self, consumer=ME):
        keys = self.keys
        names = [keys.queue, keys.suspects, keys.waiting, keys.state, keys.paused]
        return self.connection.run(CLAIM_SUSPECT, names, self.group.name, consumer, WAITING_CONSUMER)

    def retry(self, message_id, deliveries, delay=0, history='{"handler": 1}', consumer=ME):
        names = [self.keys.queue, self.keys.waiting, self.keys.state, self.keys.suspects]
        reply = self.connection.run(
            SCHEDULE_RETRY, names, self.group.name, consumer, WAITING_CONSUMER, message_id, deliveries, delay, history
        )
        return reply[0]

    def dead_letter(self, message_id, deliveries, consumer=ME, pause=""):
        keys = self.keys
        names = [keys.queue, keys.dead_letters, keys.state, keys.paused, keys.replayed]
        return self.connection.run(
            DEAD_LETTER, names, self.group.name, consumer, message_id, deliveries, "{}", "{}", "{}", pause
        )

    def rescue(self, consumer=ME, lease=1000, adopt=0, limit=100):
        keys = self.keys
        names = [keys.queue, keys.waiting, keys.suspects, keys.state, keys.consumers, keys.rescue_hold, keys.lost]
        return self.connection.run(
            RESCUE, names, self.group.name, consumer, WAITING_CONSUMER, CONSUMER_PREFIX, lease, limit, adopt
        )

    def heartbeat(self, consumer=ME, lease=1000, first=0):
        return self.connection.run(HEARTBEAT, [self.keys.consumers, self.keys.rescue_hold], consumer, lease, first)

    def beat_long_ago(self, consumer, seconds=3600):
        now = int(self.group.call("TIME")[0])
        self.group.call("ZADD", self.keys.consumers, (now - seconds) * 1000, consumer)


@pytest.fixture
def scripts(redis_server):
    scripts = Scripts(Group(redis_server))
    yield scripts
    scripts.connection.close()


async def test_fault_1_a_live_consumer_of_another_tool_keeps_its_messages_and_its_name(scripts):
    scripts.group.add({"n": "1"})
    scripts.read("celery@host")
    scripts.heartbeat(first=1)
    for _ in range(3):
        assert (scripts.rescue(lease=1))[:2] == [0, 0]
        await asyncio.sleep(0.01)
    assert scripts.group.call("XPENDING", scripts.group.queue, "workers")[3][0][0] == b"celery@host"
    await asyncio.sleep(0.05)
    assert (scripts.rescue(adopt=20))[:2] == [1, 0]
    names = {row[1] for row in scripts.group.call("XINFO", "CONSUMERS", scripts.group.queue, "workers")}
    assert b"celery@host" in names


async def test_fault_2_a_stale_run_cannot_decide_about_a_later_delivery_to_the_same_consumer(scripts):
    (message_id,) = scripts.group.add({"n": "1"})
    scripts.read(ME)
    scripts.beat_long_ago(ME)
    scripts.heartbeat(OTHER, first=1)
    scripts.rescue(OTHER)
    row = scripts.claim_suspect(ME)
    assert row[2] == 2
    assert scripts.dead_letter(message_id, 1) is None
    assert scripts.retry(message_id, 1) == 0
    assert scripts.dead_letter(message_id, 2) is not None


async def test_fault_3_a_replayed_message_keeps_its_history_and_its_key(scripts):
    group = scripts.group
    (replayed,) = group.add({"n": "1"})
    history = MessageHistory(replays=1, replayed_from="9-9", original_id="1-1")
    group.call("HSET", group.keys.state, replayed, history.to_json())
    group.call("SADD", group.keys.replayed, replayed)
    keys = []

    async def handle(task, message):
        keys.append((message.key, message.attempt))
        raise ConnectionError("again")

    await group.drain(handle, profile=QUICK)
    assert keys == [(f"{group.queue}:1-1", attempt) for attempt in (1, 2, 3, 4)]
    (letter,) = group.dead_letters()
    assert (letter.replays, letter.history["replayed_from"], letter.key) == (1, "9-9", f"{group.queue}:1-1")
    assert group.call("EXISTS", group.keys.replayed) == 0


async def test_fault_3_a_replayed_message_keeps_its_key_while_the_breaker_is_open(scripts):
    group = scripts.group
    keys = []

    async def handle(task, message):
        keys.append(message.key)
        if task["n"] == "down":
            raise reprieve.Retryable("overloaded", error_class=reprieve.ErrorClass.OVERLOADED)

    limits = reprieve.BreakerLimits(open_seconds=0.1, full_calls=1)
    patient = reprieve.Policy(max_attempts=100, backoff=reprieve.Backoff(schedule=(60.0,)))
    group.add(*[{"n": "down"} for _ in range(5)])
    async with running(group.consumer(handle, profile=patient, breaker=limits), group):
        await group.until(lambda: b'"open"' in (group.call("GET", group.keys.breaker) or b""))
        group.call("SADD", group.keys.replayed, "9-9", *(replayed := ["99999999999999-1"]))
        group.call("HSET", group.keys.state, *replayed, MessageHistory(replays=1, original_id="1-1").to_json())
        group.call("XADD", group.queue, *replayed, "n", "1")
        await group.until(lambda: len(keys) == 6)
        await group.until(lambda: group.running() == 0)
    assert keys[5] == f"{group.queue}:1-1"
    assert group.call("SMEMBERS", group.keys.replayed) == [b"9-9"]


@pytest.mark.parametrize("end", ["acknowledged", "dead-lettered"])
async def test_fault_3_the_end_of_a_message_takes_it_from_the_replayed(scripts, end):
    group, keys = scripts.group, scripts.keys
    (message_id,) = group.add({"n": "1"})
    group.call("SADD", keys.replayed, message_id)
    scripts.read()
    if end == "acknowledged":
        names = [keys.queue, keys.state, keys.replayed]
        assert scripts.connection.run(ACKNOWLEDGE, names, group.name, message_id) == 1
    else:
        assert scripts.dead_letter(message_id, 1) is not None
    assert group.call("EXISTS", keys.replayed) == 0


async def test_fault_3_a_replay_by_claim_with_the_old_deliveries_reaches_only_its_own_group(scripts):
    group = scripts.group
    group.call("XGROUP", "CREATE", group.queue, "other", "0")
    (message_id,) = group.add({"n": "1"})
    scripts.read(ME)
    dead = scripts.dead_letter(message_id, 1)
    assert dead is not None
    group.call("XREADGROUP", "GROUP", "other", "c", "STREAMS", group.queue, ">")
    group.call("XACK", group.queue, "other", message_id)
    group.call("XCLAIM", group.queue, group.name, WAITING_CONSUMER, 0, message_id, "RETRYCOUNT", 1, "FORCE", "JUSTID")
    group.call("ZADD", group.keys.waiting, 0, message_id)
    claimed, *_ = scripts.claim()
    assert [(row[0].decode(), row[2]) for row in claimed] == [(message_id, 2)]
    assert scripts.dead_letter(message_id, 1) is None  # the run before the replay decides nothing
    assert group.call("XREADGROUP", "GROUP", "other", "c", "STREAMS", group.queue, ">") is None


async def test_fault_4_a_dead_letter_stream_of_a_wrong_type_loses_no_message(scripts):
    group = scripts.group
    trimmed, waiting = group.add({"n": "1"}, {"n": "2"})
    scripts.read()
    for message_id in (trimmed, waiting):
        scripts.retry(message_id, 1)
    group.call("XDEL", group.queue, trimmed)
    group.call("SET", group.keys.dead_letters, "no stream")
    claimed, _, _, dead, error, _ = scripts.claim()
    assert ([row[0].decode() for row in claimed], dead) == ([waiting], [])
    assert b"WRONGTYPE" in error
    assert group.call("ZCARD", group.keys.waiting) == 1
    group.call("DEL", group.keys.dead_letters)
    group.call("ZADD", group.keys.waiting, 0, trimmed)
    assert (scripts.claim())[3] == [trimmed.encode()]
    (letter,) = group.dead_letters()
    assert (letter.original, letter.attempts, letter.service, letter.timestamp) == (None, 1, "s", "now")
    assert group.pending() == 1


async def test_fault_4_a_message_whose_dead_letter_is_refused_stays_pending(scripts, monkeypatch):
    group = scripts.group
    monkeypatch.setattr("reprieve.streams.failure_writer._DEAD_LETTER_RETRY_SECONDS", 0.2)

    async def handle(task):
        if group.call("EXISTS", group.keys.dead_letters) == 0:
            group.call("SET", group.keys.dead_letters, "no stream")
        raise ValueError("bug")

    group.add({"n": "1"})
    async with running(group.consumer(handle), group):
        await group.until(lambda: group.call("ZCARD", group.keys.waiting) == 1)
        assert group.pending() == 1
        await group.until(lambda: b"CONFIG_INVALID" in b"".join(group.call("HVALS", group.keys.alerts)))
        group.call("DEL", group.keys.dead_letters)
        group.call("XADD", group.keys.dead_letters, "1-0", "a", "b")
        await group.until(lambda: len(group.dead_letters()) == 2)
    assert group.pending() == 0


async def test_fault_4_a_poison_message_whose_dead_letter_is_refused_stays_a_suspect(scripts, monkeypatch):
    group, keys = scripts.group, scripts.keys
    monkeypatch.setattr("reprieve.streams.failure_writer._DEAD_LETTER_RETRY_SECONDS", 0.5)
    seen = []

    async def handle(task):
        seen.append(task)

    (message_id,) = group.add({"n": "1"})
    scripts.read(WAITING_CONSUMER)
    group.call("ZADD", keys.suspects, 1, message_id)
    group.call("HSET", keys.state, f"{message_id}:crash", 3)
    group.call("XADD", keys.dead_letters, "18446744073709551615-18446744073709551615", "full", "1")
    async with running(group.consumer(handle), group):
        await group.until(lambda: group.call("HLEN", keys.alerts))
        await group.until(lambda: group.call("ZSCORE", keys.suspects, message_id))
        assert group.call("HGET", keys.state, f"{message_id}:crash") == b"3"
        group.call("DEL", keys.dead_letters)
        await group.until(group.dead_letters)
    (letter,) = group.dead_letters()
    assert (letter.context["origin"], seen, group.pending()) == ("crash", [], 0)


async def test_fault_5_the_pause_is_set_by_the_script_that_dead_letters(scripts):
    (message_id,) = scripts.group.add({"n": "1"})
    scripts.read()
    scripts.dead_letter(message_id, 1, pause='{"reason": "x", "actor": "reprieve", "at": 1}')
    assert (await scripts.group.status()).paused.reason == "x"
    assert scripts.keys.paused == "engineering:queue:reprieve:workers:paused"


async def test_fault_6_a_rescue_charges_the_lost_lease_and_a_spent_budget_ends_the_message(scripts):
    group = scripts.group
    (message_id,) = group.add({"n": "1"})
    group.call("HSET", group.keys.state, f"{message_id}:lost_lease", 9)
    scripts.read(ME)
    scripts.beat_long_ago(ME)
    seen = []

    async def handle(task):
        seen.append(task)

    await group.drain(handle)
    (letter,) = group.dead_letters()
    assert (letter.context["origin"], letter.attempts, seen) == ("lost_lease", 10, [])


async def test_fault_6_a_supervisor_that_saw_the_end_says_which_budget_is_charged(scripts):
    group = scripts.group
    group.add({"n": "1"})
    scripts.read(ME)
    scripts.beat_long_ago(ME)
    scripts.heartbeat(OTHER, first=1)
    scripts.rescue(OTHER)
    scripts.claim_suspect(OTHER)
    connection = RedisConnection(parse_address(group.server.url))
    found = await report_lost_consumers(connection, group.keys, host="box", pid=7, cause=reprieve.Cause.OUT_OF_MEMORY)
    await connection.close()
    assert found == 1
    third = f"{CONSUMER_PREFIX}third"
    scripts.heartbeat(third, first=1)
    assert (scripts.rescue(third))[:2] == [1, 1]
    row = scripts.claim_suspect(third)
    assert row[5:] == [0, 1]
    assert group.call("HEXISTS", group.keys.lost, OTHER) == 0


async def test_fault_7_a_handler_that_blocks_a_thread_does_not_keep_the_heartbeat_from_beating(scripts):
    group = scripts.group
    ended = []

    def handle(task):
        time.sleep(2.5 * LEASE)
        ended.append(task["n"])

    group.add({"n": "1"})
    async with running(group.consumer(handle), group), running(group.consumer(handle), group):
        await group.until(lambda: ended)
        await group.until(lambda: group.pending() == 0)
    assert ended == ["1"]


async def test_fault_7_after_a_late_heartbeat_nothing_is_rescued_for_one_lease(scripts):
    group = scripts.group
    group.add({"n": "1"})
    scripts.heartbeat(first=1)
    scripts.heartbeat(OTHER, first=1)
    scripts.read(OTHER)
    for name in (ME, OTHER):
        scripts.beat_long_ago(name)  # the server's clock jumped
    assert (scripts.rescue(lease=300))[:2] == [0, 0]
    assert scripts.heartbeat(lease=300) > 300
    assert (scripts.rescue(lease=300))[:2] == [0, 0]
    scripts.heartbeat(lease=300)
    await asyncio.sleep(0.35)
    scripts.heartbeat(lease=10_000)
    assert (scripts.rescue(lease=10_000))[:2] == [1, 1]


async def test_fault_7_an_event_loop_that_hangs_stops_the_heartbeat_so_that_others_take_over(scripts):
    group = scripts.group
    runs = []

    async def handle(task):
        runs.append(time.monotonic())
        if len(runs) == 1:
            await asyncio.sleep(0)
            time.sleep(3.0)  # noqa: ASYNC251 - the fault itself

    group.add({"n": "1"})
    first = group.consumer(handle, lease=0.3, timeout=0.3, shutdown_timeout=0.1)
    second = group.consumer(handle, lease=0.3)
    loop = asyncio.get_running_loop()

    def in_thread():
        return asyncio.run(first.run(group.server.url, signals=False, stop=None, until_idle=True))

    blocked = loop.run_in_executor(None, in_thread)
    await group.until(lambda: runs)
    async with running(second, group):
        await group.until(lambda: len(runs) >= 2, within=2.9)
    await blocked


async def test_fault_8_lost_due_times_are_found_although_ghosts_make_the_sizes_equal(scripts):
    group = scripts.group
    ids = group.add(*[{"n": str(n)} for n in range(5)])
    scripts.read()
    for message_id in ids:
        scripts.retry(message_id, 1, delay=60_000)
    group.call("DEL", group.keys.waiting)
    group.call("ZADD", group.keys.waiting, *[word for n in range(10) for word in (n, f"1-{n}")])
    names = [group.keys.queue, group.keys.waiting, group.keys.suspects]
    restored, cursor = scripts.connection.run(RESTORE_DUE_TIMES, names, group.name, WAITING_CONSUMER, "-")
    assert (restored, cursor) == (5, b"-")
    claimed, *_ = scripts.claim(want=20)
    assert len(claimed) == 5
    assert group.call("ZCARD", group.keys.waiting) == 0


async def test_fault_8_a_deleted_waiting_key_of_many_messages_is_rebuilt_a_page_at_a_time(scripts):
    group = scripts.group
    total = 2500
    seen = set()

    async def handle(task, message):
        seen.add(message.id)

    for _ in range(total // 500):
        ids = group.add(*[{"n": "1"} for _ in range(500)])
    scripts.read(WAITING_CONSUMER, count=total)
    assert ids
    async with running(group.consumer(handle), group):
        await group.until(lambda: len(seen) == total)


async def test_fault_10_a_trimmed_message_that_fails_is_dead_lettered_with_its_content(scripts):
    group = scripts.group

    async def handle(task, message):
        group.call("XDEL", group.queue, message.id)
        raise ConnectionError("retry me")

    group.add({"n": "1"})
    await group.drain(handle, profile=QUICK)
    (letter,) = group.dead_letters()
    assert letter.original == [b"n", b"1"]
    assert group.pending() == 0


async def test_fault_11_the_keys_carry_the_words_of_the_code(scripts):
    names = {key.removeprefix("engineering:queue:reprieve:workers:") for key in scripts.keys.all()}
    assert {"waiting", "state", "consumers", "paused", "breaker", "suspects"} <= names


def test_a_damaged_history_is_read_as_far_as_it_goes():
    assert read_history(None) is None
    assert read_history(b"{").handler == 0
    assert read_history(b"[1]", lost_lease=2).lost_lease == 2
    assert read_history(json.dumps({"handler": 2, "later": 1}).encode()).handler == 2
