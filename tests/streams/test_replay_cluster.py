"""On a Redis Cluster everything that a replay changes is in the slot of its queue."""

import time

import pytest

from reprieve.errors import UsageError
from reprieve.operations.streams import discard_dead_letters, replay_dead_letters
from reprieve.streams.closed_dead_letters import closed_keys
from reprieve.streams.keys import build_keys, slot_of
from support.failed_messages import StreamGroup
from support.redis_servers import RedisServer
from support.servers import free_ports

TAGGED = "{engineering:queue}"
MAX_PORT = 50_000
"""A node of a cluster listens on this port plus 10,000 too."""


@pytest.fixture(scope="module")
def cluster():
    """A cluster of one node that has all slots. It takes 2 seconds to serve."""
    port = next(port for _ in range(1000) if (port := free_ports(1)[0]) < MAX_PORT)
    server = RedisServer(options=("--cluster-enabled", "yes"), on_port=True, port=port)
    try:
        server.start()
        server.call("CLUSTER", "ADDSLOTS", *range(16_384))
        while b"cluster_state:ok" not in server.call("CLUSTER", "INFO"):
            time.sleep(0.05)
        yield server
    finally:
        server.stop()


def test_all_keys_of_a_tagged_queue_are_in_one_slot():
    keys = [*build_keys(TAGGED, "workers").all(), *closed_keys(TAGGED)]
    assert len({slot_of(key) for key in keys}) == 1


@pytest.mark.parametrize("gone", [True, False])
async def test_a_tagged_queue_is_replayed_and_discarded_on_a_cluster(cluster, gone):
    cluster.call("FLUSHALL")
    group = StreamGroup(cluster, queue=TAGGED)
    letter, other = await group.fail(), await group.fail()
    if gone:
        await group.redis.call("XTRIM", TAGGED, "MAXLEN", 0)
    assert len((await replay_dead_letters(group.redis, TAGGED, [letter], actor="ada")).replayed) == 1
    assert (await discard_dead_letters(group.redis, TAGGED, [other], actor="ada", reason="old")).discarded == (other,)


async def test_a_queue_without_a_tag_is_refused_with_the_name_that_would_do(cluster):
    group = await StreamGroup(cluster, queue="plain:queue").create()
    entry = await group.redis.call("XADD", "plain:queue:dlq", "*", "original_message", '{"a": "b"}')
    with pytest.raises(UsageError, match=r"name the queue '\{plain:queue\}'"):
        await replay_dead_letters(group.redis, "plain:queue", [entry.decode()], actor="ada")
