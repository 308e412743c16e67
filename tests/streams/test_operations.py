"""What operators see of dead letters of streams is redacted; bulk replays keep their rate and stop."""

import asyncio
import json
import time

import pytest

import reprieve
from reprieve.errors import RefusedError, StoreAddressError, StoreUnavailableError, UnknownNameError, UsageError
from reprieve.operations.streams import (
    StreamDeadLetterFilter,
    compute_stats,
    discard_dead_letters,
    export_dead_letters,
    list_dead_letters,
    pause_stream_group,
    replay_dead_letters,
    replay_in_bulk,
    resume_stream_group,
    show_dead_letter,
)
from reprieve.streams.operator_errors import connect_redis, readable_errors
from reprieve.streams.pause import read_pause
from support.failed_messages import GROUP, QUEUE, StreamGroup

SECRET = "sk-live-abcdefghijklmnop1234567890"


class Outage(ConnectionError):
    """A failure that another try may mend."""


async def ids(group, wanted=StreamDeadLetterFilter(), **options):  # noqa: B008 - frozen
    return [each.dead_letter_id for each in await list_dead_letters(group.redis, [QUEUE], wanted, **options)]


@pytest.mark.spec("ORC-4.7")
async def test_dead_letters_are_listed_newest_first_with_what_comes_next(redis_server):
    group = StreamGroup(redis_server)
    first, second = await group.fail("project", "p-1"), await group.fail(error=Outage("connection reset"))
    newest, oldest = await list_dead_letters(group.redis, [QUEUE])
    assert [newest.dead_letter_id, oldest.dead_letter_id] == [second, first]
    assert oldest.error == "ValueError: Invalid project_id"
    assert (oldest.service, oldest.attempts, oldest.group, oldest.replays) == ("langgraph", 1, GROUP, 0)
    assert oldest.next.command == f"reprieve streams replay {QUEUE} {first}"
    assert "upstream" in newest.next.what
    assert abs(newest.at - time.time()) < 60


async def test_pages_follow_one_another_over_several_queues(redis_server):
    queues = ["a", "b", "c"]
    for name in queues:
        group = StreamGroup(redis_server, queue=name)
        for number in range(1, 6):
            await group.redis.call("XADD", f"{name}:dlq", f"{number}-1", "original_message", "{}")
    for oldest in (True, False):
        found, after = [], None
        while page := await list_dead_letters(group.redis, queues, oldest=oldest, after=after, limit=4):
            found += [(each.dead_letter_id, each.queue) for each in page]
            after = page[-1].cursor
        everything = sorted((f"{number}-1", name) for number in range(1, 6) for name in queues)
        assert found == (everything if oldest else everything[::-1])


async def test_dead_letters_with_large_messages_are_read_in_small_pages(redis_server):
    group = StreamGroup(redis_server)
    add = ("XADD", f"{QUEUE}:dlq")
    commands = [(*add, f"{each}-1", "original_message", b"x" * 300_000) for each in range(1, 61)]
    await group.redis.pipeline(commands)
    await group.redis.pipeline([(*add, f"{each}-1", "original_message", "{}") for each in range(61, 1500)])
    for oldest in (True, False):
        found = await ids(group, oldest=oldest, limit=10_000)
        assert found == [f"{each}-1" for each in range(1, 1500)][:: 1 if oldest else -1]


async def test_dead_letters_are_filtered(redis_server):
    group = StreamGroup(redis_server)
    bad, outage = await group.fail(), await group.fail(error=Outage("connection reset"))
    (of_bad, of_outage) = await list_dead_letters(group.redis, [QUEUE], oldest=True)
    assert await ids(group, StreamDeadLetterFilter(error_class=of_bad.error_class)) == [bad]
    assert await ids(group, StreamDeadLetterFilter(category=of_outage.category)) == [outage]
    assert await ids(group, StreamDeadLetterFilter(group="other")) == []
    assert await ids(group, StreamDeadLetterFilter(service="langgraph")) == [outage, bad]
    assert await ids(group, StreamDeadLetterFilter(since=time.time() + 60)) == []
    assert await ids(group, StreamDeadLetterFilter(before=time.time() + 60, since=1.0)) == [outage, bad]
    assert await ids(group, StreamDeadLetterFilter(before=of_bad.at)) == []
    assert await ids(group, StreamDeadLetterFilter(before=0)) == []


async def test_a_queue_without_dead_letters_has_none(redis_server):
    group = StreamGroup(redis_server)
    assert await ids(group) == []
    assert (await compute_stats(group.redis, QUEUE)).depth == 0
    assert (await replay_in_bulk(group.redis, QUEUE, actor="ada")).replayed == 0


@pytest.mark.spec("ORC-4.7")
async def test_secrets_of_a_message_are_shown_nowhere_but_in_export(redis_server):
    group = StreamGroup(redis_server)
    body = json.dumps({"api_key": SECRET, "nested": {"mail": "ada@example.org"}, "n": 3})
    fields = ["data", body, "password", "hunter2-and-more", "note", f"Bearer {SECRET}"]
    letter = await group.fail(*fields, error=ValueError(f"token={SECRET} was refused"))
    forged = {
        "error": f"api_key={SECRET}",
        "service": "ada@example.org",
        "error_class": SECRET,
        "x": {"password": "p-123456"},
    }
    await group.redis.call("XADD", f"{QUEUE}:dlq", "*", "original_message", "{}", "error_context", json.dumps(forged))
    rows = await list_dead_letters(group.redis, [QUEUE])
    detail = await show_dead_letter(group.redis, QUEUE, letter)
    other = await show_dead_letter(group.redis, QUEUE, rows[0].dead_letter_id)
    shown = repr((rows, detail, other, await compute_stats(group.redis, QUEUE)))
    for secret in (SECRET, "hunter2", "ada@example.org", "p-123456"):
        assert secret not in shown
    assert detail.message["data"]["n"] == 3
    assert detail.raw is None
    whole = await show_dead_letter(group.redis, QUEUE, letter, raw=True)
    assert json.loads(whole.raw)["data"] == body
    lines = [line async for line in export_dead_letters(group.redis, [QUEUE])]
    assert json.loads(lines[0]["original_message"])["data"] == body
    assert SECRET not in repr([line["error_context"] for line in lines])


async def test_the_export_has_the_original_message_byte_for_byte(redis_server):
    group = StreamGroup(redis_server)
    await group.fail("b", b"\xff\x00", "b", "2")
    await group.redis.call("XADD", f"{QUEUE}:dlq", "*", "original_message", b"\xff")
    ((_, fields), _) = await group.dead_letters()
    lines = [line async for line in export_dead_letters(group.redis, [QUEUE])]
    assert lines[0]["original_message"].encode() == fields[1]
    assert lines[1]["original_message"] == {"base64": "/w=="}


async def test_a_message_that_is_long_binary_or_repeats_a_name_can_be_shown(redis_server):
    group = StreamGroup(redis_server)
    letter = await group.fail("big", "word " * 50_000, "b", b"\xff\xfe", "b", "[" * 100_000)
    detail = await show_dead_letter(group.redis, QUEUE, letter)
    assert detail.message[1] == ["b", "<2 bytes that are no text>"]
    assert "characters cut" in detail.message[0][1]
    assert len(repr(detail.message)) < 10_000


async def test_discarding_keeps_who_and_why(redis_server):
    group = StreamGroup(redis_server)
    letter, kept = await group.fail(), await group.fail()
    done = await discard_dead_letters(group.redis, QUEUE, [letter, "7-7"], actor="ada", reason=f"token={SECRET} is old")
    assert done.discarded == (letter,)
    assert [each.dead_letter_id for each in done.refused] == ["7-7"]
    closed = await show_dead_letter(group.redis, QUEUE, letter)
    assert (closed.outcome, closed.actor) == ("discarded", "ada")
    assert "is old" in closed.reason
    assert SECRET not in closed.reason
    assert await ids(group) == [kept]
    (again,) = (await replay_dead_letters(group.redis, QUEUE, [letter], actor="bob")).refused
    assert "was discarded already" in again.why
    with pytest.raises(UsageError, match="reason"):
        await discard_dead_letters(group.redis, QUEUE, [kept], actor="ada", reason=" ")
    with pytest.raises(UnknownNameError):
        await show_dead_letter(group.redis, QUEUE, "7-7")


async def test_statistics_count_by_class_and_remember_what_was_closed(redis_server):
    group = StreamGroup(redis_server)
    letters = [await group.fail() for _ in range(3)]
    await group.fail(error=Outage("connection reset"))
    await replay_dead_letters(group.redis, QUEUE, letters[:1], actor="ada")
    await discard_dead_letters(group.redis, QUEUE, letters[1:2], actor="ada", reason="old")
    (message,) = await group.claim()
    await group.dead_letter(message, ValueError("Invalid project_id"))
    stats = await compute_stats(group.redis, QUEUE)
    assert (stats.depth, stats.failed_again) == (3, 1)
    assert sorted(stats.by_error_class.values()) == [1, 2]
    assert (stats.inflow_last_hour, stats.replayed, stats.discarded) == (5, 1, 1)
    assert stats.by_group == {GROUP: 3}
    assert abs(stats.oldest_at - time.time()) < 60
    assert stats.bytes > 0


async def test_a_bulk_replay_keeps_its_rate(redis_server):
    group = StreamGroup(redis_server)
    for _ in range(6):
        await group.fail()
    began = time.monotonic()
    done = await replay_in_bulk(group.redis, QUEUE, actor="ada", rate=20.0)
    assert time.monotonic() - began >= 5 / 20
    assert (done.meant, done.replayed, done.stopped, done.refused) == (6, 6, "", [])
    assert len(await group.claim()) == 6


async def test_a_bulk_replay_stops_when_failures_return_and_goes_on_when_called_again(redis_server):
    group, consumer = StreamGroup(redis_server), StreamGroup(redis_server)
    for number in range(12):
        await group.fail("n", str(number))

    async def fail_whatever_comes():
        while True:
            for message in await consumer.claim():
                await consumer.dead_letter(message, ValueError("Invalid project_id"))
            await asyncio.sleep(0.01)

    failing = asyncio.create_task(fail_whatever_comes())
    done = await replay_in_bulk(group.redis, QUEUE, actor="ada", rate=20.0)
    failing.cancel()
    assert "failed again" in done.stopped
    assert "Invalid project_id" in done.stopped
    assert 1 <= done.replayed < 12
    assert done.failed_again >= 1
    assert await group.redis.call("XLEN", f"{QUEUE}:dlq") + len(await group.claim()) == 12
    rest = await replay_in_bulk(group.redis, QUEUE, actor="ada", rate=1000.0)
    assert await group.dead_letters() == []
    assert rest.replayed == rest.meant


async def test_a_bulk_replay_into_a_running_consumer_stops_when_failures_return(redis_server):
    group = StreamGroup(redis_server)
    for number in range(20):
        await group.fail("n", str(number))

    @reprieve.consumer(QUEUE, group=GROUP, alerts=[])
    async def handle(content):
        raise reprieve.Permanent(f"still no {content['n']}")

    stop = asyncio.Event()
    running = asyncio.create_task(handle.run(redis_server.url, stop=stop, signals=False))
    done = await replay_in_bulk(group.redis, QUEUE, actor="ada", rate=20.0)
    stop.set()
    await running
    assert "failed again" in done.stopped
    assert done.replayed < 20
    assert len(await group.dead_letters()) + len(await group.pending()) == 20


async def test_two_bulk_replays_at_once_replay_each_message_once(redis_server):
    one, other = StreamGroup(redis_server), StreamGroup(redis_server)
    for number in range(10):
        await one.fail("n", str(number))
    runs = [replay_in_bulk(each.redis, QUEUE, actor="ada", rate=1000.0) for each in (one, other)]
    done = await asyncio.gather(*runs)
    assert sum(each.replayed for each in done) == 10
    assert [each.refused for each in done] == [[], []]
    assert len(await one.claim(20)) == 10


async def test_a_bulk_replay_leaves_out_what_cannot_be_replayed(redis_server):
    group = StreamGroup(redis_server)
    await group.redis.call("XADD", f"{QUEUE}:dlq", "*", "original_message", "null")
    await group.fail()
    done = await replay_in_bulk(group.redis, QUEUE, actor="ada", rate=1000.0)
    assert (done.meant, done.replayed, len(done.refused)) == (2, 1, 1)


async def test_a_group_is_paused_and_resumed_by_name(redis_server):
    group = await StreamGroup(redis_server).create()
    assert await pause_stream_group(group.redis, QUEUE, GROUP, actor="ada", reason=f"token={SECRET}")
    assert not await pause_stream_group(group.redis, QUEUE, GROUP, actor="bob")
    pause = await read_pause(group.redis, group.keys)
    assert pause.actor == "ada"
    assert SECRET not in pause.reason
    assert await resume_stream_group(group.redis, QUEUE, GROUP, actor="ada")
    assert not await resume_stream_group(group.redis, QUEUE, GROUP, actor="ada")
    for act in (pause_stream_group, resume_stream_group):
        with pytest.raises(UnknownNameError, match="did you mean 'workers'"):
            await act(group.redis, QUEUE, "worker", actor="ada")
        with pytest.raises(UnknownNameError):
            await act(group.redis, "no:queue", GROUP, actor="ada")


async def test_a_dead_letter_stream_of_the_wrong_type_is_told(redis_server):
    group = await StreamGroup(redis_server).create()
    await group.redis.call("SET", f"{QUEUE}:dlq", "x")
    for act in (
        list_dead_letters(group.redis, [QUEUE]),
        show_dead_letter(group.redis, QUEUE, "1-1"),
        compute_stats(group.redis, QUEUE),
        replay_in_bulk(group.redis, QUEUE, actor="ada"),
    ):
        with pytest.raises(RefusedError, match="is no stream: another program uses that name"):
            await act


async def test_a_refused_password_is_told_without_it(redis_server):
    redis = connect_redis("unix:///nowhere/redis.sock")
    with pytest.raises(StoreUnavailableError, match=r"/nowhere/redis\.sock does not answer"):
        await list_dead_letters(redis, [QUEUE])
    server = redis_server
    server.call("CONFIG", "SET", "requirepass", SECRET)
    try:
        group = StreamGroup(server)
        with pytest.raises(StoreAddressError, match="refused the user or password"):
            await list_dead_letters(group.redis, [QUEUE])
        wrong = connect_redis(server.url.replace("unix://", "unix://:wrong-password@"))
        with pytest.raises(StoreAddressError) as told:
            await list_dead_letters(wrong, [QUEUE])
        assert "wrong-password" not in str(told.value)
        await wrong.close()
    finally:
        with_password = connect_redis(server.url.replace("unix://", f"unix://:{SECRET}@"))
        await with_password.call("CONFIG", "SET", "requirepass", "")
        await with_password.close()


async def test_a_user_without_the_right_is_told_and_nothing_is_changed(redis_server):
    group = StreamGroup(redis_server)
    letter = await group.fail()
    redis_server.call("ACL", "SETUSER", "reader", "on", ">reads-only", "~*", "+@read", "+@connection")
    redis = connect_redis(redis_server.url.replace("unix://", "unix://reader:reads-only@"))
    try:
        assert len(await list_dead_letters(redis, [QUEUE])) == 1
        (refused,) = (await replay_dead_letters(redis, QUEUE, [letter], actor="ada")).refused
        assert "permissions" in refused.why
        assert len(await group.dead_letters()) == 1
    finally:
        redis_server.call("ACL", "DELUSER", "reader")
        await redis.close()


async def test_the_password_of_a_url_is_redacted_everywhere():
    connect_redis("redis://ada:quite-a-password@127.0.0.1:1/0")
    connect_redis("redis+sentinel://:of-the-server@a/mine?sentinel_password=of-the-sentinel")
    shown = reprieve.redact("quite-a-password of-the-server of-the-sentinel")
    assert not any(each in shown for each in ("quite-a-password", "of-the-server", "of-the-sentinel"))


@pytest.mark.parametrize(
    "url", ["localhost", "redis://h:99999", "unix:///x?db=abc", "redis://[::1", "http://:hunter2@h", ""]
)
async def test_a_wrong_url_is_told_without_its_password(url):
    with pytest.raises(UsageError) as told:
        connect_redis(url)
    assert "hunter2" not in str(told.value)


async def test_an_unknown_option_of_a_url_is_told(redis_server):
    redis = connect_redis(f"{redis_server.url}&socket_tiemout=3")
    with pytest.raises(UsageError, match="socket_tiemout"), readable_errors(redis.address):
        await redis.call("PING")
