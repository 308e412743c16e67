"""A replay that is killed at any moment loses nothing and repeats nothing."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.effort import size
from support.failed_messages import QUEUE, StreamGroup

PROGRAM = Path(__file__).with_name("replayer.py")
SEED = int(os.environ.get("REPRIEVE_SEED", "1"))


@pytest.fixture
def forker(redis_server):
    """A process that forks one that replays everything, whenever it is told to."""
    command = [sys.executable, PROGRAM, QUEUE, redis_server.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()


@pytest.mark.campaign
@pytest.mark.spec("ORC-4.7")
async def test_kill_9_during_replays_leaves_each_message_in_one_place(redis_server, forker):
    chance = random.Random(SEED)
    group = StreamGroup(redis_server)
    number = size(60, 600)
    for each in range(number):
        await group.fail("n", str(each))
    entries = await group.redis.call("XRANGE", QUEUE, "-", "+")
    for entry_id, _ in entries[::3]:  # these are added anew
        await group.redis.call("XDEL", QUEUE, entry_id)
    starts = 0
    while await group.dead_letters():
        await asyncio.to_thread(_kill_one, forker, chance.uniform(0.0, 0.03))
        starts += 1
    found = [each.fields[1] for each in [*await group.read(number), *await group.claim(number)]]
    assert sorted(map(int, found)) == list(range(number))
    assert starts > 1, "no replay was killed"


def _kill_one(forker, seconds):
    """Start a replay and kill it after so many seconds."""
    forker.stdin.write("go\n")
    forker.stdin.flush()
    pid = int(forker.stdout.readline())
    time.sleep(seconds)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    assert forker.stdout.readline() == "ended\n"
