"""Connections never retry by themselves, and a URL says all that is needed."""

import asyncio
from contextlib import suppress

import pytest
from redis._parsers.base import BaseParser
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from reprieve.errors import UsageError
from reprieve.streams.connection import BlockingRedisConnection, RedisConnection, is_unavailable, parse_address
from reprieve.streams.keys import build_keys, require_one_slot, slot_of
from reprieve.streams.scripts import COMPARE_AND_SET


async def test_replies_come_as_the_server_sent_them(redis_server):
    connection = RedisConnection(parse_address(redis_server.url))
    await connection.call("XADD", "s", "1-1", "a", "1", "a", "2")
    assert await connection.call("XRANGE", "s", "-", "+") == [[b"1-1", [b"a", b"1", b"a", b"2"]]]
    await connection.close()


async def test_a_script_that_the_server_forgot_is_sent_again(redis_server):
    connection = RedisConnection(parse_address(redis_server.url))
    for _ in range(2):
        redis_server.call("SCRIPT", "FLUSH")
        done, value, now = await connection.run(COMPARE_AND_SET, ["k"], "", "x", 1000)
        assert (done, value) == (1, b"x")
        assert now > 1_600_000_000_000
        redis_server.call("DEL", "k")
    blocking = BlockingRedisConnection(parse_address(redis_server.url))
    redis_server.call("SCRIPT", "FLUSH")
    assert blocking.run(COMPARE_AND_SET, ["k"], "other", "x", 1000)[0] == 0
    blocking.close()
    await connection.close()


@pytest.mark.spec("ORC-3.1")
async def test_a_command_without_a_reply_is_given_up_after_its_time_and_not_sent_again():
    received = []

    async def serve(reader, writer):
        while command := await reader.read(65536):
            received.append(command)
            if b"XADD" not in command:
                writer.write(b"+OK\r\n" * command.count(b"*"))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = RedisConnection(parse_address(f"redis://127.0.0.1:{port}"), timeout=0.2)
        with pytest.raises(RedisTimeoutError):
            await connection.call("XADD", "s", "*", "a", "1")
        await asyncio.sleep(0.1)
    assert sum(each.count(b"XADD") for each in received) == 1
    assert RedisConnection(parse_address("redis://localhost"))._timeout == 5.0


async def test_a_cancelled_command_leaves_no_reply_to_the_next(redis_server):
    connection = RedisConnection(parse_address(redis_server.url))
    waiting = asyncio.create_task(connection.call("BLPOP", "nothing", 1))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await connection.call("PING") == b"PONG"
    await connection.close()


async def test_a_cancellation_while_a_command_is_sent_is_not_swallowed(redis_server):
    connection = RedisConnection(parse_address(redis_server.url))
    await connection.call("PING")
    for _ in range(20):
        calling = asyncio.create_task(connection.call("PING"))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(calling, 5)
    await connection.close()


async def test_an_error_of_one_command_is_raised_after_all_replies_were_read(redis_server):
    connection = RedisConnection(parse_address(redis_server.url))
    with pytest.raises(ResponseError):
        await connection.pipeline([("SET", "a", 1), ("LPUSH", "a", 1), ("GET", "a")])
    replies = await connection.pipeline([("LPUSH", "a", 1), ("GET", "a")], raises=False)
    assert isinstance(replies[0], ResponseError)
    assert replies[1] == b"1"
    await connection.close()


@pytest.mark.parametrize(
    ("url", "hosts", "service"),
    [
        ("redis://localhost", (("localhost", 6379),), ""),
        ("rediss://u:p%40@a:1,b:2/3?ssl_ca_certs=/ca.pem", (("a", 1), ("b", 2)), ""),
        ("redis+sentinel://:p@a,b:2/mine/1?sentinel_password=x", (("a", 26379), ("b", 2)), "mine"),
    ],
)
def test_an_address_names_hosts_and_what_is_behind_sentinels(url, hosts, service):
    address = parse_address(url)
    assert (address.hosts, address.service) == (hosts, service)
    assert "p" not in str(address).replace("p:", "").replace("/", "")


def test_an_address_keeps_user_database_and_options():
    address = parse_address("rediss://ada:p%40ss@a:1,b:2/3?ssl_ca_certs=/ca.pem")
    assert address.options["username"] == "ada"
    assert address.options["password"] == "p@ss"
    assert address.options["db"] == 3
    assert address.options["ssl_ca_certs"] == "/ca.pem"
    assert "p@ss" not in repr(address)
    behind = parse_address("redis+sentinel://:p@a/mine/1?sentinel_password=x")
    assert (behind.options["db"], behind.options["password"]) == (1, "p")
    assert behind.sentinel_options == {"password": "x"}


@pytest.mark.parametrize("url", ["http://a", "redis://", "redis://a:b", "redis+sentinel://a", "redis://a:1:2", "x"])
def test_what_is_no_address_is_refused_with_what_would_be_right(url):
    with pytest.raises(UsageError):
        parse_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:hunter2#x@h",
        "redis://:hunter2/et@host",
        "redis://user:12/hunter2@host",
        "redis://:p@[hunter2",
        "unix://user:hunter2[@/run/redis.sock",
        "redis://h/0?socket_timeout=hunter2",
        "redis+sentinel://:hunter2/x@a/mine",
    ],
)
def test_what_is_no_address_is_refused_without_a_part_of_its_password(url):
    with pytest.raises(UsageError, match="percent-encode") as refused:
        parse_address(url)
    assert "hunter2" not in str(refused.value)


def test_slots_are_computed_as_a_cluster_does():
    assert (slot_of("engineering:queue"), slot_of("engineering:queue:dlq")) == (5551, 5463)
    assert slot_of("{user1000}.following") == slot_of("user1000") == 3443
    assert slot_of("foo{}{bar}") == 8363
    require_one_slot(build_keys("{engineering:queue}", "g").all(), "{engineering:queue}")
    require_one_slot(build_keys("jobs:{eu}", "{us}").all(), "jobs:{eu}")
    with pytest.raises(UsageError, match=r"name the queue '\{engineering:queue\}'"):
        require_one_slot(build_keys("engineering:queue", "g").all(), "engineering:queue")
    with pytest.raises(UsageError):
        require_one_slot(build_keys("a{}", "g").all(), "a{}")  # braces, but no hash tag


@pytest.mark.parametrize(("queue", "group"), [("", "g"), ("q", " g"), ("q\n", "g"), ("q:dlq", "g")])
def test_names_that_cannot_be_a_queue_or_group_are_refused(queue, group):
    with pytest.raises(UsageError):
        build_keys(queue, group)


async def test_a_server_that_became_a_replica_is_recognized(redis_server):
    connection = RedisConnection(parse_address(redis_server.url))
    await connection.call("REPLICAOF", "127.0.0.1", 1)
    try:
        with pytest.raises(ResponseError) as told:
            await connection.call("SET", "a", 1)
        assert is_unavailable(told.value)
    finally:
        redis_server.call("REPLICAOF", "NO", "ONE")
        await connection.close()


@pytest.mark.parametrize("way", ["pipeline", "run", "run_each"])
async def test_a_connection_to_a_server_that_became_a_replica_is_closed(redis_server, way):
    connection = RedisConnection(parse_address(redis_server.url))
    before = await connection.call("CLIENT", "ID")
    await connection.call("REPLICAOF", "127.0.0.1", 1)
    try:
        with suppress(ResponseError):
            if way == "pipeline":
                await connection.pipeline([("SET", "a", 1)], raises=False)
            elif way == "run":
                await connection.run(COMPARE_AND_SET, ["k"], "", "x", 1000)
            else:
                await connection.run_each(COMPARE_AND_SET, ["k"], [("", "x", 1000)], raises=False)
        assert await connection.call("CLIENT", "ID") != before
    finally:
        redis_server.call("REPLICAOF", "NO", "ONE")
        await connection.close()


@pytest.mark.parametrize(
    "reply",
    [
        "READONLY You can't",
        "CLUSTERDOWN The cluster",
        "MASTERDOWN Link",
        "TRYAGAIN Multiple",
        "OOM command",
        "MISCONF x",
    ],
)
def test_replies_of_a_server_that_cannot_serve_now_are_recognized(reply):
    assert is_unavailable(BaseParser.parse_error(reply))
    assert not is_unavailable(BaseParser.parse_error("WRONGTYPE Operation"))
