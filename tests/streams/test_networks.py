"""Lost replies, cut networks, TLS, users with few rights, and a server that is killed."""

import asyncio

import pytest

import reprieve
from reprieve.streams.connection import RedisConnection, parse_address
from reprieve.testing import authority_pem
from reprieve.testing.tls import Certificate, server_context
from support.redis_proxy import redis_proxy
from support.redis_servers import RedisServer
from support.stream_groups import LEASE, Group, running

QUICK = reprieve.Policy(max_attempts=4, backoff=reprieve.Backoff(schedule=(0.05,)))


@pytest.fixture
def group(redis_server):
    return Group(redis_server)


def socket_of(group):
    return f"{group.server.folder}/redis.sock"


@pytest.mark.parametrize("command", [b"XREADGROUP", b"XACK"])
async def test_messages_come_back_after_the_reply_that_brought_them_was_lost(group, command):
    seen = []

    async def handle(task):
        seen.append(task["n"])

    async with redis_proxy(socket_of(group)) as proxy, running(group.consumer(handle), group, url=proxy.url):
        group.add({"n": "first"})
        await group.until(lambda: seen == ["first"])
        await group.until(lambda: group.pending() == 0)
        proxy.drops_reply_to = command
        group.add(*[{"n": str(n)} for n in range(20)])
        await group.until(lambda: proxy.dropped)
        await group.until(lambda: len(set(seen)) == 21)
        await group.until(lambda: group.pending() == 0)
    assert sorted(seen) == sorted(set(seen))  # none was handled twice: what was handled is acknowledged again


@pytest.mark.parametrize("action", ["retry", "dead letter"])
async def test_a_decision_whose_reply_was_lost_is_made_once(group, action):
    runs = []

    async def handle(task, message):
        runs.append(message.attempt)
        if action == "dead letter" or len(runs) == 1:
            raise ValueError("bug") if action == "dead letter" else ConnectionError("glitch")

    async with (
        redis_proxy(socket_of(group)) as proxy,
        running(group.consumer(handle, profile=QUICK), group, url=proxy.url),
    ):
        await group.until(lambda: group.call("ZCARD", group.keys.consumers) == 1)
        proxy.drops_reply_to = b"no such thing"
        group.add({"n": "warm"})
        await group.until(lambda: runs)
        await group.until(lambda: group.pending() == 0)
        before = len(group.dead_letters())
        runs.clear()
        proxy.drops_reply_to = b"EVALSHA"
        group.add({"n": "1"})
        await group.until(lambda: runs)
        await group.until(lambda: proxy.dropped)
        await group.until(lambda: group.pending() == 0)
    assert len(group.dead_letters()) - before == (1 if action == "dead letter" else 0)
    assert runs[:2] == ([1] if action == "dead letter" else [1, 2])


async def test_a_consumer_that_is_cut_off_for_longer_than_the_lease_drops_what_it_holds(group):
    runs = []

    async def handle(task, message):
        runs.append(message.id)
        if len(runs) == 1:
            try:
                await asyncio.sleep(30)
            finally:
                await asyncio.sleep(0.3)

    async with redis_proxy(socket_of(group)) as proxy:
        (message_id,) = group.add({"n": "1"})
        async with running(group.consumer(handle), group, url=proxy.url) as cut_off:
            await group.until(lambda: runs)
            proxy.cut()
            async with running(group.consumer(handle), group):
                await group.until(lambda: len(runs) == 2)
                await group.until(lambda: group.pending() == 0)
            proxy.mend()
            group.add({"n": "2"})
            await group.until(lambda: len(runs) == 3)
    assert runs[:2] == [message_id, message_id]
    assert cut_off.counts.lost >= 1
    assert group.pending() == 0


async def test_a_message_comes_back_whose_handler_cleans_up_for_longer_than_the_lease_was_lost(group):
    runs, cancels, cleaned = [], [], asyncio.Event()

    async def handle(task):
        runs.append(task["n"])
        if runs == ["1"]:
            while not cleaned.is_set():
                try:
                    await cleaned.wait()
                except asyncio.CancelledError:
                    cancels.append(1)
            raise asyncio.CancelledError

    async with redis_proxy(socket_of(group)) as proxy, running(group.consumer(handle), group, url=proxy.url) as run:
        group.add({"n": "1"})
        await group.until(lambda: runs)
        proxy.cut()
        await group.until(lambda: cancels)
        await asyncio.sleep(0.2)
        proxy.mend()
        group.add({"n": "2"})
        await group.until(lambda: "2" in runs)  # it reads again, so it has swept
        cleaned.set()
        await group.until(lambda: group.pending() == 0)
    assert runs == ["1", "2", "1"]
    assert len(cancels) == 1
    assert run.counts.lost == 1


@pytest.mark.parametrize("kind", ["valkey", "redis62"])
async def test_a_server_with_an_append_only_file_that_is_killed_loses_nothing_acknowledged(kind):
    server = RedisServer(kind, options=("--appendonly", "yes", "--appendfsync", "always")).start()
    try:
        group = Group(server)
        seen = []

        async def handle(task):
            seen.append(task["n"])
            if task["n"] == "fails" and seen.count("fails") == 1:
                raise ConnectionError("glitch")

        late = reprieve.Policy(backoff=reprieve.Backoff(schedule=(1.5,)))
        async with running(group.consumer(handle, profile=late), group):
            group.add(*[{"n": str(n)} for n in range(20)], {"n": "fails"})
            await group.until(lambda: group.call("ZCARD", group.keys.waiting) == 1 and len(seen) == 21)
            await group.until(lambda: group.pending() == 1)
            server.kill()
            await asyncio.sleep(0.1)
            server.start()
            group = Group(server)
            group.add({"n": "after"})
            await group.until(lambda: seen.count("fails") == 2 and "after" in seen)
            await group.until(lambda: group.pending() == 0)
        assert len(seen) == 23
    finally:
        server.stop()


async def test_tls_is_spoken_to_a_server_whose_authority_is_named_and_refused_otherwise(redis_servers, tmp_path):
    server = redis_servers("valkey")
    server.call("FLUSHALL")
    group = Group(server)
    (tmp_path / "ca.pem").write_bytes(authority_pem())
    seen = []

    async def handle(task):
        seen.append(task["n"])

    async with redis_proxy(socket_of(group), tls=server_context(Certificate.GOOD)) as proxy:
        group.add({"n": "1"})
        url = f"{proxy.url}?ssl_ca_certs={tmp_path}/ca.pem"
        async with running(group.consumer(handle), group, url=url):
            await group.until(lambda: seen == ["1"])
        connection = RedisConnection(parse_address(proxy.url))
        with pytest.raises(Exception, match="certificate"):
            await connection.call("PING")
        await connection.close()


async def test_a_user_with_the_documented_rights_can_run_a_consumer(group):
    group.call(
        "ACL",
        "SETUSER",
        "worker",
        "on",
        ">pass",
        "resetkeys",
        "~engineering:queue*",
        "-@all",
        "+@stream",
        "+@sortedset",
        "+@hash",
        "+@set",
        "+@string",
        "+@connection",
        "+eval",
        "+evalsha",
        "+exists",
        "+del",
        "+type",
        "+time",
        "+info",
        "+wait",
    )
    seen = []

    async def handle(task):
        seen.append(task["n"])
        if task["n"] == "bad":
            raise ValueError("bug")

    group.add({"n": "1"}, {"n": "bad"})
    url = f"unix://worker:pass@{socket_of(group)}?db=0"
    async with running(group.consumer(handle, retention="acked"), group, url=url):
        await group.until(lambda: len(group.dead_letters()) == 1)
        await group.until(lambda: group.pending() == 0)
        await asyncio.sleep(LEASE)
    group.call("ACL", "DELUSER", "worker")
    assert sorted(seen) == ["1", "bad"]


async def test_acknowledgements_are_confirmed_by_replicas_where_that_is_asked_for(group):
    async def handle(task):
        pass

    group.add({"n": "1"})
    counts = await group.drain(handle, wait_replicas=1)
    assert counts.replicas_missed == 1
