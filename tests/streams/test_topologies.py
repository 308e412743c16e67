"""A failover by sentinels, and a cluster of three nodes, both of real processes."""

import asyncio
import shutil
import time

import pytest

import reprieve
from support.redis_servers import VALKEY, RedisServer
from support.stream_groups import Group, running

QUICK = reprieve.Policy(max_attempts=3, backoff=reprieve.Backoff(schedule=(0.05,)))


@pytest.fixture
def sentinel(tmp_path):
    """A primary, a replica, and a sentinel that watches them."""
    servers = [RedisServer(on_port=True).start()]
    primary = servers[0]
    replica = RedisServer(on_port=True, options=("--replicaof", f"127.0.0.1 {primary.port}")).start()
    servers.append(replica)
    program = tmp_path / "valkey-sentinel"
    shutil.copy(VALKEY, program)
    program.chmod(0o755)
    watcher = SentinelServer(program=program)
    try:
        deadline = time.monotonic() + 10
        while b"master_link_status:up" not in replica.call("INFO", "replication"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        watcher.watch(primary.port)
        servers.append(watcher)
        while b"slaves=1" not in watcher.call("INFO", "sentinel"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield watcher, primary, replica
    finally:
        for each in servers:
            each.stop()


class SentinelServer(RedisServer):
    def watch(self, port):
        config = self.folder / "sentinel.conf"
        config.write_text(
            f"sentinel monitor mine 127.0.0.1 {port} 1\nsentinel down-after-milliseconds mine 300\n"
            "sentinel failover-timeout mine 2000\n"
        )
        self.program, self.on_port = self.start_script(config), True
        self.start()

    def start_script(self, config):
        # The server takes its configuration file as the first argument; the options of RedisServer are not for it.
        script = self.folder / "start"
        script.write_text(
            f'#!/bin/sh\nport=$2\nexec {self.program} {config} --sentinel --port "$port" --bind 127.0.0.1 --dir {self.folder}\n'
        )
        script.chmod(0o755)
        return script


async def test_after_a_failover_the_consumer_follows_to_the_new_primary(sentinel):
    watcher, primary, replica = sentinel
    group = Group(primary)
    seen = []

    async def handle(task):
        seen.append(task["n"])
        if task["n"] == "fails" and seen.count("fails") == 1:
            raise ConnectionError("glitch")

    late = reprieve.Policy(backoff=reprieve.Backoff(schedule=(2.0,)))
    url = f"redis+sentinel://127.0.0.1:{watcher.port}/mine/0"
    async with running(group.consumer(handle, profile=late), group, url=url):
        group.add({"n": "1"}, {"n": "fails"})
        await group.until(lambda: len(seen) == 2)
        await group.until(lambda: replica.call("ZCARD", group.keys.waiting) == 1)
        primary.kill()
        promoted = Group(replica)
        await promoted.until(lambda: replica.call("ROLE")[0] == b"master", within=15)
        promoted.add({"n": "after"})
        await promoted.until(lambda: "after" in seen and seen.count("fails") == 2, within=15)
        await promoted.until(lambda: promoted.pending() == 0)
    assert sorted(set(seen)) == ["1", "after", "fails"]


@pytest.fixture(params=["valkey", "redis62"])
def cluster(request):
    """Three nodes that share the slots."""
    nodes = [RedisServer(request.param, on_port=True, options=("--cluster-enabled", "yes")).start() for _ in range(3)]
    try:
        for index, node in enumerate(nodes):
            first, last = index * 16384 // 3, (index + 1) * 16384 // 3
            node.call("CLUSTER", "ADDSLOTS", *range(first, last))
            node.call("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        for node in nodes[1:]:
            nodes[0].call("CLUSTER", "MEET", "127.0.0.1", node.port)
        deadline = time.monotonic() + 20
        while any(
            b"cluster_state:ok" not in node.call("CLUSTER", "INFO")
            or b"cluster_known_nodes:3" not in node.call("CLUSTER", "INFO")
            for node in nodes
        ):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield nodes
    finally:
        for each in nodes:
            each.stop()


async def test_a_queue_with_a_tag_works_in_a_cluster_and_one_without_is_refused(cluster):
    seen = []

    async def handle(task):
        seen.append(task["n"])
        if task["n"] == "bad":
            raise ValueError("bug")
        if task["n"] == "glitch" and seen.count("glitch") == 1:
            raise ConnectionError("glitch")

    for node in cluster:  # whichever node is named, the one that has the slot is found
        seen.clear()
        group = Group(node, "{engineering:queue}")
        group.add({"n": "1"}, {"n": "bad"}, {"n": "glitch"})
        await group.drain(handle, profile=QUICK)
        assert sorted(seen) == ["1", "bad", "glitch", "glitch"]
    assert len(group.dead_letters()) == 3
    with pytest.raises(reprieve.UsageError, match=r"name the queue '\{plain:queue\}'"):
        await asyncio.wait_for(Group(cluster[0], "plain:queue").drain(handle), 10)
