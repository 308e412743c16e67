"""Supervisors that are killed again and again: no task is lost, and no process is left."""

import json
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from reprieve.processes import warden
from support.effort import size
from support.stream_groups import Group
from support.tasks import serve
from support.trees import until

QUEUE = "engineering:queue"
PROGRAM = """
import asyncio, sys
from reprieve.operations.tasks import supervise_tasks
from reprieve.supervisor import Supervisor, SupervisorOptions, WorkerSpec
options = SupervisorOptions(lease=1.0, shutdown_timeout=5.0, slots=3)
supervisor = Supervisor("engineering:queue", WorkerSpec(tuple(sys.argv[2:])), group="workers", options=options)
sys.exit(asyncio.run(supervise_tasks(supervisor, sys.argv[1])))
"""
WORK = """
import subprocess
subprocess.Popen(["sleep", "586"], start_new_session=True)
time.sleep(0.05)
if int(task["n"]) % 7 == 0: os._exit(3)
return int(task["n"])
""".strip()


def entries(group, stream):
    rows = group.call("XRANGE", stream, "-", "+")
    return [{row[1][i].decode(): row[1][i + 1].decode() for i in range(0, len(row[1]), 2)} for row in rows]


def sleepers():
    """Processes that only a worker of this test starts."""
    found = []
    for entry in warden.processes():
        try:
            with open(f"/proc/{entry.pid}/cmdline", "rb") as file:  # noqa: PTH123 - many small reads
                if file.read() == b"sleep\x00586\x00" and entry.state != "Z":
                    found.append(entry.pid)
        except OSError:
            continue
    return found


@pytest.mark.campaign
def test_no_task_is_lost_and_no_process_left_when_supervisors_are_killed(redis_servers):
    server = redis_servers("valkey")
    server.call("FLUSHALL")
    group, seed = Group(server, QUEUE, "workers"), random.randrange(10**6)
    print("seed", seed)  # noqa: T201 - to repeat a failure
    chance = random.Random(seed)
    tasks = group.add(*[{"n": str(number)} for number in range(size(28, 2000))])

    def start():
        return subprocess.Popen([sys.executable, "-c", PROGRAM, server.url, *serve(WORK)])

    with ExitStack() as stack:
        running = [start(), start()]
        stack.callback(lambda: [each.kill() for each in running])
        for _ in range(size(3, 200)):
            time.sleep(chance.uniform(0.4, 1.0))
            victim = chance.choice(running)
            victim.kill()
            victim.wait()
            running.remove(victim)
            running.append(start())
        until(lambda: group.call("XLEN", QUEUE) == len(tasks) and settled(group, tasks), size(60, 1800))
        until(lambda: group.pending() == 0, 60)
        for each in running:
            each.terminate()
        # One that was started last may get the signal before it handles signals.
        assert {each.wait(30) for each in running} <= {0, -signal.SIGTERM}
    until(lambda: sleepers() == [])
    results = entries(group, f"{QUEUE}:results")
    letters = [json.loads(each["origin"])["id"] for each in entries(group, f"{QUEUE}:dlq")]
    assert len(letters) == len(set(letters)), "each dead letter once"
    for task, number in zip(tasks, range(len(tasks)), strict=True):
        ends = {each["status"] for each in results if each["task"] == task}
        if number % 7 == 0:
            assert task in letters
        else:
            assert ends == {"finished"} or task in letters


def settled(group, tasks):
    done = {each["task"] for each in entries(group, f"{QUEUE}:results")}
    done |= {json.loads(each["origin"])["id"] for each in entries(group, f"{QUEUE}:dlq")}
    return done >= set(tasks)
