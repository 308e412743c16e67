"""Consumers and the server are killed, the network is cut, messages are poison: the ledger has to agree in the end."""

import asyncio
import logging
import random
import time
from collections import Counter

import pytest
from redis.exceptions import RedisError

from support import effort
from support.redis_proxy import redis_proxy
from support.redis_servers import RedisServer
from support.stream_groups import Group, Worker, read_ledger

LOG = logging.getLogger(__name__)
SECONDS = 60
CAMPAIGN_SECONDS = 600
CONSUMERS = 3
OPTIONS = {"lease": 1.0, "concurrency": 4, "prefetch": 20, "schedule": [0.3, 0.6, 0.9]}
KINDS = ["ok"] * 86 + ["transient"] * 5 + ["permanent"] * 4 + ["spent"] * 2 + ["slow"] * 3


class Chaos:
    """A server, consumers behind a proxy, and what happens to them."""

    def __init__(self, server, ledger, seconds, seed):
        self.server, self.ledger, self.seconds = server, ledger, seconds
        self.random = random.Random(seed)
        self.group = Group(server)
        self.sent = {}
        self.kills = Counter()
        self.workers = []

    async def call(self, *command):
        while True:
            try:
                return await asyncio.to_thread(self.group.call, *command)
            except (RedisError, OSError):
                await asyncio.sleep(0.05)

    async def send(self, until):
        poison_at = [time.monotonic() + self.seconds * share for share in (0.2, 0.5)]
        while time.monotonic() < until:
            do = self.random.choice(KINDS)
            if poison_at and time.monotonic() > poison_at[0]:
                poison_at.pop(0)
                do = "poison"
            token = f"{len(self.sent)}"
            # A reply that a kill of the server swallowed may stand for an entry: then the entry is sent for.
            sent = await self.call("XADD", self.group.queue, "*", "do", do, "token", token, "seconds", "0.1")
            self.sent[sent.decode()] = do
            await asyncio.sleep(0.01)

    def start(self, url):
        self.workers.append(Worker(self.group, self.ledger, url=url, **OPTIONS))

    async def disturb(self, until, proxy):
        server_kills = [time.monotonic() + self.seconds * share for share in (0.3, 0.6)]
        while time.monotonic() < until:
            await asyncio.sleep(self.random.uniform(0.5, 1.5))
            dead = [worker for worker in self.workers if worker.process.poll() is not None]
            for worker in dead:  # killed by poison
                self.workers.remove(worker)
                self.start(proxy.url)
            if server_kills and time.monotonic() > server_kills[0]:
                server_kills.pop(0)
                self.kills["server"] += 1
                self.server.kill()
                await asyncio.sleep(0.2)
                await asyncio.to_thread(self.server.start)
            elif self.random.random() < 0.2:
                self.kills["network"] += 1
                proxy.cut()
                await asyncio.sleep(self.random.uniform(0.1, 1.5))
                proxy.mend()
            elif self.random.random() < 0.4:
                self.kills["consumer"] += 1
                worker = self.random.choice(self.workers)
                worker.kill()
                self.workers.remove(worker)
                self.start(proxy.url)

    async def settle(self, proxy):
        deadline = time.monotonic() + 60
        while True:
            for worker in [each for each in self.workers if each.process.poll() is not None]:
                self.workers.remove(worker)
                self.start(proxy.url)
            status = await self.group.status()
            if not (status.pending or status.lag or status.waiting or status.suspects):
                return status
            assert time.monotonic() < deadline, f"not done: {status}"
            await asyncio.sleep(0.2)

    async def run(self):
        async with redis_proxy(f"{self.server.folder}/redis.sock") as proxy:
            try:
                for _ in range(CONSUMERS):
                    self.start(proxy.url)
                until = time.monotonic() + self.seconds
                await asyncio.gather(self.send(until), self.disturb(until, proxy))
                return await self.settle(proxy)
            finally:
                for worker in self.workers:
                    worker.stop()


@pytest.mark.campaign
@pytest.mark.timeout(CAMPAIGN_SECONDS + 300)
@pytest.mark.parametrize("kind", ["valkey", "redis62"])
async def test_nothing_is_lost_and_nothing_is_dead_lettered_twice(kind, tmp_path):
    if kind != "valkey" and not effort.CAMPAIGN:
        pytest.skip("only in campaigns")
    seed = random.randrange(10**6)
    LOG.info("seed %d", seed)
    server = RedisServer(kind, options=("--appendonly", "yes", "--appendfsync", "always")).start()
    try:
        chaos = Chaos(server, tmp_path / "ledger", effort.size(SECONDS, CAMPAIGN_SECONDS), seed)
        await chaos.run()
        judge(chaos)
    finally:
        server.stop()


def judge(chaos):
    group = chaos.group
    ledger = read_ledger(chaos.ledger)
    ended = {line[1] for line in ledger if line[0] == "end"}
    acknowledged = {}
    for word, message, _, _ in ledger:
        if word == "acknowledged":
            acknowledged[message] = True
        assert not (word == "start" and message in acknowledged), f"{message} ran after its acknowledgement"
    dead = Counter(letter.message_id for letter in group.dead_letters())
    assert [message for message, count in dead.items() if count > 1] == []
    wanted = {"permanent": "dead", "spent": "dead", "poison": "dead"}
    wrong = [
        (message, do)
        for message, do in chaos.sent.items()
        if (message in dead) != (wanted.get(do) == "dead") or (wanted.get(do) is None and message not in ended)
    ]
    assert wrong == [], f"{len(wrong)} of {len(chaos.sent)}: {wrong[:5]}; {chaos.kills}"
    assert group.call("HLEN", group.keys.state) == 0
    assert len(group.call("XINFO", "CONSUMERS", group.queue, group.name)) <= 6
    LOG.info("%d messages, %s, %d dead letters", len(chaos.sent), dict(chaos.kills), len(dead))
    assert chaos.kills["consumer"] >= 3
    assert chaos.kills["server"] == 2
