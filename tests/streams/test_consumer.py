"""What a consumer does with messages that succeed, fail, or cannot be parsed; on Valkey 9 and Redis 6.2."""

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from pydantic import BaseModel

import reprieve
from reprieve.streams.consumer import Consumer, ConsumerOptions
from reprieve.streams.dead_letters import decode_dead_letter
from reprieve.streams.group_alerts import GroupAlerts
from reprieve.streams.keys import WAITING_CONSUMER
from reprieve.streams.pause import GroupPause
from reprieve.streams.runner import ConsumerRunner
from reprieve.streams.scripts import CLAIM_NOTIFICATION
from support.stream_groups import LEASE, Group, running

QUICK = reprieve.Policy(max_attempts=4, backoff=reprieve.Backoff(schedule=(0.1, 0.2, 0.1)))


class Task(BaseModel):
    n: int
    project: str = ""


@pytest.fixture
def group(redis_server):
    return Group(redis_server)


@pytest.mark.spec("ORC-4.5")
async def test_a_transient_failure_comes_back_after_its_delay_and_stays_pending_until_then(group):
    starts = []

    async def handle(task, message):
        starts.append((time.time(), message.attempt, message.key))
        if len(starts) < 4:
            raise ConnectionError("glitch")

    (message_id,) = group.add({"n": "1"})
    async with running(group.consumer(handle, profile=QUICK, prefetch=1, concurrency=1), group) as consumer:
        await group.until(lambda: len(starts) == 1)
        await asyncio.sleep(0.05)
        assert group.pending() == 1
        await group.until(lambda: group.pending() == 0)
    waits = [later[0] - earlier[0] for earlier, later in pairwise(starts)]
    for wait, wanted in zip(waits, (0.1, 0.2, 0.1), strict=True):
        assert wanted - 0.002 <= wait <= wanted + 10
    assert [attempt for _, attempt, _ in starts] == [1, 2, 3, 4]
    assert {key for _, _, key in starts} == {f"{group.queue}:{message_id}"}
    assert group.dead_letters() == []
    assert group.call("XLEN", group.queue) == 1  # the entry was never added again
    assert consumer.counts.scheduled == 3
    assert group.call("HLEN", group.keys.state) == 0


@pytest.mark.spec("ORC-4.6", "ORC-5.1", "ORC-5.2", "ORC-5.3")
async def test_a_permanent_failure_is_acknowledged_and_dead_lettered_with_the_error_context(group):
    async def handle(task):
        raise ValueError("Invalid project_id")

    group.add({"n": "1", "project": "Größe"})
    await group.drain(handle)
    ((entry_id, fields),) = group.call("XRANGE", "engineering:queue:dlq", "-", "+")
    values = dict(zip(fields[::2], fields[1::2], strict=True))
    context = json.loads(values[b"error_context"])
    assert list(context)[:4] == ["error", "timestamp", "service", "attempts"]
    assert (context["error"], context["service"], context["attempts"]) == (
        "ValueError: Invalid project_id",
        "langgraph",
        1,
    )
    assert json.loads(values[b"original_message"]) == {"n": "1", "project": "Größe"}
    letter = decode_dead_letter(group.queue, entry_id, fields)
    assert (letter.queue, letter.group, letter.deliveries) == (group.queue, "workers", 1)
    assert group.pending() == 0


@pytest.mark.spec("ORC-5.2")
async def test_spent_retries_are_dead_lettered_once(group):
    async def handle(task):
        raise ConnectionError("down")

    group.add({"n": "1"})
    await group.drain(handle, profile=QUICK, breaker=None)
    (letter,) = group.dead_letters()
    assert (letter.attempts, letter.error_class, letter.reason) == (4, "CONNECTION_RESET", "budget_spent")
    assert len(letter.history["events"]) == 4
    assert group.pending() == 0


@pytest.mark.spec("ORC-5.2")
@pytest.mark.parametrize("bad", [b"nope", b'{"n": "x"}', b"\xff\xfe", b""])
async def test_an_unparseable_message_is_dead_lettered_at_once_and_never_reaches_the_handler(group, bad):
    seen = []

    async def handle(task):
        seen.append(task.n)

    group.call("XADD", group.queue, "*", "data", bad)
    group.add_json({"n": 2})
    await group.drain(handle, model=Task, body="data")
    assert seen == [2]
    (letter,) = group.dead_letters()
    assert (letter.error_class, letter.attempts) == ("SCHEMA_INVALID", 1)
    assert letter.original == [b"data", bad]


async def test_a_validator_that_raises_something_transient_does_not_make_a_message_come_back(group):
    class Strange(BaseModel):
        n: int

        def model_post_init(self, _context):
            raise ConnectionError("validators do not call upstreams")

    async def handle(task):
        raise AssertionError("never called")

    group.add_json({"n": 1})
    await group.drain(handle, model=Strange, body="data")
    (letter,) = group.dead_letters()
    assert letter.error_class == "SCHEMA_INVALID"


@pytest.mark.spec("ORC-1.4")
async def test_a_fatal_failure_is_dead_lettered_pauses_the_group_and_stops_all_its_consumers(group):
    seen = []

    async def handle(task):
        if task["n"] == "fatal":
            raise reprieve.Permanent("key revoked", error_class=reprieve.ErrorClass.AUTH_DENIED)
        seen.append(task["n"])

    async with running(group.consumer(handle), group), running(group.consumer(handle), group):
        group.add({"n": "fatal"})
        await group.until(lambda: group.call("EXISTS", group.keys.paused))
        group.add(*[{"n": str(n)} for n in range(20)])
        await asyncio.sleep(1.2)
        assert seen == []
        status = await group.status()
        assert (status.paused.error_class, status.paused.actor) == ("AUTH_DENIED", "reprieve")
        assert status.pending + status.lag == 20
        group.call("DEL", group.keys.paused)
        await group.until(lambda: len(seen) == 20)
    (letter,) = group.dead_letters()
    assert letter.error_class == "AUTH_DENIED"


async def test_a_consumer_that_runs_until_idle_ends_when_its_group_is_paused(group):
    async def handle(task):
        raise reprieve.Permanent("key revoked", error_class=reprieve.ErrorClass.AUTH_DENIED)

    group.add(*[{"n": str(n)} for n in range(30)])
    counts = await group.drain(handle, concurrency=1, prefetch=1)
    assert counts.dead_lettered == 1
    assert (await group.status()).lag + group.pending() == 29


async def test_many_waiting_messages_cost_an_idle_consumer_next_to_nothing(group):
    async def handle(task):
        raise AssertionError("not due")

    group.call("XGROUP", "CREATE", group.queue, group.name, "0", "MKSTREAM")
    add = "for i = 1, 20000 do redis.call('XADD', KEYS[1], '*', 'n', i) end"
    group.call("EVAL", add, 1, group.queue)
    read = group.call("XREADGROUP", "GROUP", group.name, WAITING_CONSUMER, "COUNT", 20000, "STREAMS", group.queue, ">")
    due = [word for entry in read[0][1] for word in (9e15, entry[0])]
    for start in range(0, len(due), 4000):
        group.call("ZADD", group.keys.waiting, *due[start : start + 4000])
    async with running(group.consumer(handle, lease=3.0), group):
        await asyncio.sleep(0.5)
        before = time.process_time()
        await asyncio.sleep(1.0)
        assert time.process_time() - before < 0.1
    assert group.call("ZCARD", group.keys.waiting) == 20000


async def test_what_a_profile_parks_is_dead_lettered_with_the_state_it_would_have(group):
    async def handle(task):
        raise reprieve.NeedsReview("look at this")

    group.add({"n": "1"})
    await group.drain(handle)
    (letter,) = group.dead_letters()
    assert (letter.error_class, letter.context["park_state"]) == ("NEEDS_REVIEW", "needs_review")


async def test_secrets_in_an_exception_are_not_in_the_dead_letter_context(group):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

    async def handle(task):
        raise ValueError(f"bad token {secret}")

    group.add({"n": "1"})
    await group.drain(handle)
    ((_, fields),) = group.call("XRANGE", group.keys.dead_letters, "-", "+")
    assert secret.encode() not in fields[3] + fields[5]


async def test_any_bytes_come_back_equal_from_the_dead_letter_stream(group):
    async def handle(task):
        raise AssertionError

    fields = [b"a", b"\x00\xff", b"a", b"", b"\xfe", b"x" * 100_000]
    group.call("XADD", group.queue, "*", *fields)
    await group.drain(handle)
    (letter,) = group.dead_letters()
    assert letter.original == fields


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_that_takes_too_long_is_given_up_and_retried(group, is_async):
    runs = []

    async def slow(task):
        runs.append(1)
        if len(runs) == 1:
            await asyncio.sleep(5)

    def slow_thread(task):
        runs.append(1)
        if len(runs) == 1:
            time.sleep(1.0)

    group.add({"n": "1"})
    handler = slow if is_async else slow_thread
    await group.drain(handler, profile=QUICK, timeout=0.2)
    assert len(runs) == 2
    assert group.pending() == 0


async def test_sync_handlers_run_in_threads_side_by_side(group):
    running_now, most = set(), []

    def handle(task):
        running_now.add(task["n"])
        most.append(len(running_now))
        time.sleep(0.05)
        running_now.discard(task["n"])

    group.add(*[{"n": str(n)} for n in range(40)])
    counts = await group.drain(handle, concurrency=8)
    assert counts.handled == 40
    assert max(most) > 4


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit()])
async def test_an_end_that_nothing_asked_for_is_a_failure_of_the_handler(group, error):
    async def handle(task):
        if task["n"] == "1":
            raise error

    group.add({"n": "1"}, {"n": "2"})
    counts = await group.drain(handle, profile=reprieve.Policy(max_attempts=1))
    assert counts.handled == 1
    (letter,) = group.dead_letters()
    assert letter.attempts == 1
    assert type(error).__name__ in letter.error


async def test_stopping_gives_back_what_has_not_started_at_once_and_costs_no_attempt(group):
    started, release = [], asyncio.Event()

    async def handle(task, message):
        started.append(message.id)
        await release.wait()

    group.add(*[{"n": str(n)} for n in range(50)])
    consumer = group.consumer(handle, concurrency=2, prefetch=50, lease=30.0, shutdown_timeout=20.0)
    async with running(consumer, group) as run:
        await group.until(lambda: len(started) == 2)
        run.stop.set()
        await group.until(lambda: group.running() == 2, within=10)
        release.set()
    assert group.pending() == group.call("ZCARD", group.keys.waiting)
    assert group.call("HLEN", group.keys.state) == 0
    assert group.call("ZCARD", group.keys.consumers) == 0
    seen = []

    async def count(task, message):
        seen.append((message.id, message.attempt))

    await group.drain(count)
    assert len(seen) == 48
    assert {attempt for _, attempt in seen} == {1}


async def test_a_handler_cancelled_by_a_stop_is_charged_to_the_deploy_budget_alone(group):
    async def forever(task):
        await asyncio.sleep(60)

    group.add({"n": "1"})
    async with running(group.consumer(forever, shutdown_timeout=0.1), group) as run:
        await group.until(lambda: group.running() == 1)
        await asyncio.sleep(0.05)
        run.stop.set()
    (state,) = group.call("HVALS", group.keys.state)
    assert json.loads(state)["deploy"] == 1
    assert json.loads(state)["handler"] == 0
    attempts = []

    async def handle(task, message):
        attempts.append(message.attempt)

    await group.drain(handle)
    assert attempts == [1]


async def test_a_handler_that_swallows_its_cancellation_leaves_no_trace_in_its_lane(group):
    left = []

    async def handle(task):
        try:
            await asyncio.sleep(30 if task["n"] == "slow" else 0)
        except asyncio.CancelledError:
            return
        if task["n"] == "next":
            left.append(asyncio.current_task().cancelling())
            raise asyncio.CancelledError

    group.add({"n": "slow"})
    consumer = group.consumer(handle, concurrency=1, timeout=0.2, profile=reprieve.Policy(max_attempts=1))
    async with running(consumer, group):
        await group.until(lambda: group.running() == 1)
        group.add({"n": "next"})
        await group.until(group.dead_letters)
    assert left == [0]
    assert "CancelledError" in group.dead_letters()[0].error


async def test_a_handler_that_ignores_its_cancellation_does_not_keep_a_consumer_from_ending(group):
    ends = asyncio.Event()

    async def handle(task):
        while not ends.is_set():
            with suppress(asyncio.CancelledError):
                await ends.wait()

    group.add({"n": "1"})
    async with running(group.consumer(handle, shutdown_timeout=0.1), group):
        await group.until(lambda: group.running() == 1)
    ends.set()
    assert group.pending() == 1


async def test_no_heartbeat_comes_after_a_consumer_has_left(group, monkeypatch):
    release = ConsumerRunner._release

    async def release_slowly(runner, *, leave=False):
        await release(runner, leave=leave)
        if leave:
            await asyncio.sleep(LEASE)

    async def handle(task):
        pass

    monkeypatch.setattr(ConsumerRunner, "_release", release_slowly)
    group.add({"n": "1"})
    await group.drain(handle)
    assert group.call("EXISTS", group.keys.consumers) == 0


async def test_new_messages_flow_during_a_storm_of_retries_and_the_reverse(group):
    order = []

    async def handle(task):
        order.append(task["n"])
        if task["n"].startswith("old"):
            raise ConnectionError("again")

    storm = reprieve.Policy(max_attempts=1000, backoff=reprieve.Backoff(schedule=(0.001,)))
    group.add(*[{"n": f"old{n}"} for n in range(50)])
    consumer = group.consumer(handle, profile=storm, breaker=None, concurrency=5, prefetch=20)
    async with running(consumer, group):
        await group.until(lambda: len(order) > 100)
        group.add(*[{"n": f"new{n}"} for n in range(300)])
        mark = len(order)
        await group.until(lambda: sum(each.startswith("new") for each in order) == 300, within=10)
    assert any(each.startswith("old") for each in order[mark : order.index("new299")])


async def test_the_breaker_of_a_group_holds_calls_back_and_lets_one_probe_through(group):
    calls, down = [], True

    async def handle(task):
        calls.append(time.time())
        if down:
            raise reprieve.Retryable("overloaded", error_class=reprieve.ErrorClass.OVERLOADED)

    limits = reprieve.BreakerLimits(open_seconds=0.4, full_calls=4)
    patient = reprieve.Policy(max_attempts=100, backoff=reprieve.Backoff(schedule=(0.05,)))
    group.add(*[{"n": str(n)} for n in range(30)])
    options = {"profile": patient, "breaker": limits, "concurrency": 5, "prefetch": 5}
    async with running(group.consumer(handle, **options), group), running(group.consumer(handle, **options), group):
        await group.until(
            lambda: group.call("GET", group.keys.breaker) and b'"open"' in group.call("GET", group.keys.breaker)
        )
        await group.until(lambda: group.running() == 0, within=10)  # what ran when it opened has ended
        opened = len(calls)
        assert opened <= 15
        await group.until(lambda: len(calls) > opened, within=10)  # a probe
        down = False
        await group.until(lambda: group.call("XPENDING", group.queue, "workers")[0] == 0, within=10)
    assert group.dead_letters() == []
    assert group.call("EXISTS", group.keys.breaker) == 0


async def test_an_alert_is_one_for_all_consumers_with_a_count_and_is_resolved(group):
    notices = []

    class ListSink:
        name, timeout = "list", 5.0

        async def tell(self, notice):
            notices.append(notice)

        async def close(self):
            pass

    async def handle(task):
        raise KeyError("bug")

    group.add(*[{"n": str(n)} for n in range(30)])
    consumers = [group.consumer(handle, sinks=[ListSink()]) for _ in range(2)]
    async with running(consumers[0], group), running(consumers[1], group):
        await group.until(lambda: len(group.dead_letters()) == 30)
        await group.until(lambda: len(notices) == 1)
        (alert,) = (await group.status()).alerts
        assert (alert.rule, alert.key, alert.count) == ("page", "engineering:queue/workers/BUG", 30)
        group.call("DEL", group.keys.dead_letters)
        await group.until(lambda: len(notices) == 2)
    assert [each.kind for each in notices] == ["raise", "resolve"]
    assert notices[0].dedup_key == notices[1].dedup_key
    assert (await group.status()).alerts == ()


async def test_the_alert_of_a_fatal_failure_is_written_after_an_error_of_redis(group, monkeypatch):
    write, errors = GroupAlerts._write, []

    async def fail_once(alerts, noted):
        if not errors:
            errors.append(ConnectionError("Redis is away"))
            raise errors[0]
        await write(alerts, noted)

    async def handle(task):
        raise reprieve.Permanent("key revoked", error_class=reprieve.ErrorClass.AUTH_DENIED)

    monkeypatch.setattr(GroupAlerts, "_write", fail_once)
    group.add({"n": "1"})
    async with running(group.consumer(handle), group):
        await group.until(lambda: group.call("HLEN", group.keys.alerts) == 1)
    (alert,) = (await group.status()).alerts
    assert (alert.rule, alert.count) == ("fatal", 1)


async def test_a_pause_whose_consumer_ended_before_it_wrote_the_alert_raises_it_once(group):
    async def handle(task):
        raise AssertionError("paused")

    pause = GroupPause(reason="key revoked", actor="reprieve", at=time.time() - 60, error_class="AUTH_DENIED")
    group.call("SET", group.keys.paused, replace(pause, message_id="1-1").to_json())
    async with running(group.consumer(handle), group):
        await group.until(lambda: group.call("HLEN", group.keys.alerts) == 1)
        await asyncio.sleep(LEASE)
        (alert,) = (await group.status()).alerts
    assert (alert.rule, alert.error_class, alert.count) == ("fatal", "AUTH_DENIED", 1)


async def test_notifications_of_a_removed_sink_hide_none_of_another(group):
    def claim():
        keys = [group.keys.notifications]
        return group._connection.run(CLAIM_NOTIFICATION, keys, "mine", 1000, 60.0)

    now = time.time()
    for n in range(300):
        text = json.dumps({"sink": "removed", "n": n, "at": now - (3600 if n < 150 else 0)})
        group.call("ZADD", group.keys.notifications, n, text)
    mine = json.dumps({"sink": "mine", "at": now})
    group.call("ZADD", group.keys.notifications, 1000, mine)
    assert claim() == mine.encode()
    assert claim() is None
    assert group.call("ZCARD", group.keys.notifications) == 151


async def test_upstream_failures_page_when_spent_and_rate_limits_warn_when_they_are_many(group):
    quick = reprieve.load_profiles()["orchestrator"].override("upstream", backoff=reprieve.Backoff(schedule=(0.01,)))

    async def handle(task):
        raise reprieve.Retryable("slow down", error_class=reprieve.ErrorClass.RATE_LIMITED)

    group.add({"n": "1"}, {"n": "2"})
    await group.drain(handle, profile=quick, breaker=None)
    status = await group.status()
    assert {alert.rule for alert in status.alerts} == {"spent", "rate_limits"}
    assert [letter.attempts for letter in group.dead_letters()] == [6, 6]


async def test_the_status_counts_lag_waiting_pending_and_age_on_both_servers(group):
    release = asyncio.Event()

    async def handle(task):
        if task["n"] == "0":
            raise ConnectionError("later")
        await release.wait()

    group.add(*[{"n": str(n)} for n in range(10)])
    later = reprieve.Policy(backoff=reprieve.Backoff(schedule=(60.0,)))
    async with running(group.consumer(handle, concurrency=2, prefetch=2, profile=later), group):
        await group.until(lambda: group.call("ZCARD", group.keys.waiting) == 1 and group.running() == 2)
        status = await group.status()
        release.set()
    assert (status.length, status.lag, status.waiting, status.pending) == (10, 7, 1, 3)
    assert status.lag_is_exact
    assert len(status.consumers) == 1
    assert status.consumers[0].is_reprieve
    assert status.consumers[0].heartbeat_age < 1
    assert 0 <= status.oldest_seconds < 30
    with pytest.raises(reprieve.UnknownNameError):
        await Consumer(handle, "nowhere", group="g").status(group.server.url)
    with pytest.raises(reprieve.UnknownNameError):
        await Consumer(handle, group.queue, group="nobody").status(group.server.url)


async def test_retention_drops_what_every_group_has_acknowledged_and_keeps_what_one_needs(group):
    async def handle(task):
        pass

    group.call("CONFIG", "SET", "stream-node-max-entries", "10")
    group.call("XGROUP", "CREATE", group.queue, "other", "0", "MKSTREAM")
    ids = group.add(*[{"n": str(n)} for n in range(200)])
    group.call("XREADGROUP", "GROUP", "other", "c", "COUNT", 100, "STREAMS", group.queue, ">")
    group.call("XACK", group.queue, "other", *ids[:50])
    async with running(group.consumer(handle, retention="acked"), group):
        await group.until(lambda: group.call("XLEN", group.queue) <= 160)
        await asyncio.sleep(0.3)
    first = group.call("XRANGE", group.queue, "-", "+", "COUNT", 1)[0][0]
    assert first <= ids[50].encode()
    group.call("CONFIG", "SET", "stream-node-max-entries", "100")


@pytest.mark.parametrize(
    "wrong",
    [lambda: None, lambda a, b, c: None, "handler", lambda a, *, b: None],
)
def test_a_handler_with_another_signature_is_refused(wrong):
    with pytest.raises(reprieve.UsageError, match="a handler"):
        Consumer(wrong, "q", group="g")


def test_options_that_cannot_be_followed_are_refused():
    for wrong in ({"concurrency": 0}, {"lease": 0}, {"retention": "all"}, {"prefetch": 1}, {"adopt_idle": 0.0}):
        with pytest.raises(reprieve.UsageError):
            ConsumerOptions(**wrong)
    with pytest.raises(reprieve.UnknownNameError):
        Consumer(lambda task: None, "q", group="g", profile="nobody")


def test_the_decorator_leaves_the_function_callable():
    @reprieve.consumer("q", group="g")
    def double(task: dict) -> int:
        """Double it."""
        return 2 * task["n"]

    assert double({"n": 2}) == 4
    assert (double.__name__, double.__doc__, double.service) == ("double", "Double it.", "g")


async def test_a_queue_of_another_type_is_refused_before_anything_is_written(group):
    group.call("SET", group.queue, "x")
    with pytest.raises(reprieve.UsageError, match="not a stream"):
        await group.drain(lambda task: None)
