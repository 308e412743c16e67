"""A command that takes longer than its operation may is killed, with everything in its process group."""

import asyncio
import sys
import time

import pytest

import reprieve
from reprieve import OperationTimeoutError
from reprieve.app.profiles import resolve
from reprieve.processes.command import run_command
from reprieve.processes.spawner import ProcessExit
from support.loop_time import run_jumping
from support.processes import is_gone

SHORT = resolve("orchestrator").override(timeouts={"provisioning": 2.0})
PLAYBOOK = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
time.sleep(600)
"""


def playbook(file):
    """A command that starts another one, as ansible-playbook does, and hangs."""
    return [sys.executable, "-I", "-S", "-c", PLAYBOOK, str(file)]


def pids_in(file, within=20.0):
    give_up_at = time.monotonic() + within
    while not (file.exists() and len(found := file.read_text().split()) == 2):
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
    return found


@pytest.mark.spec("ORC-3.4")
def test_provisioning_that_takes_too_long_is_killed_with_its_children_and_fails(tmp_path):
    file = tmp_path / "pids"
    with pytest.raises(
        OperationTimeoutError, match=r"provisioning took longer than its timeout of 2 s: the work was ended"
    ) as caught:
        asyncio.run(run_command(playbook(file), profile=SHORT))
    assert [is_gone(pid) for pid in pids_in(file)] == [True, True]
    failure = reprieve.classify(caught.value)
    assert (failure.error_class, failure.severity) == ("OPERATION_TIMEOUT", "permanent")


@pytest.mark.spec("ORC-3.4")
def test_the_specification_gives_provisioning_fifteen_minutes():
    killed = []

    class Hanging:
        def __init__(self):
            self.ended = asyncio.Event()

        async def wait(self):
            await self.ended.wait()
            return ProcessExit(-9)

        def kill(self):
            killed.append(asyncio.get_running_loop().time())
            self.ended.set()

    async def main():
        started = asyncio.get_running_loop().time()
        with pytest.raises(OperationTimeoutError):
            await run_command(["ansible-playbook"], start=lambda _: Hanging())
        return killed[0] - started

    assert run_jumping(main()) == pytest.approx(15 * 60, abs=2)


def test_a_command_that_ends_in_time_gives_its_exit_code():
    code = "raise SystemExit(3)"
    assert asyncio.run(run_command([sys.executable, "-I", "-S", "-c", code])).code == 3


def test_a_command_whose_caller_is_cancelled_is_killed_and_the_caller_is_cancelled(tmp_path):
    file = tmp_path / "pids"

    async def main():
        task = asyncio.create_task(run_command(playbook(file)))
        pids = await asyncio.to_thread(pids_in, file)
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled(), pids

    cancelled, pids = asyncio.run(main())
    assert cancelled
    assert [is_gone(pid) for pid in pids] == [True, True]


def test_a_process_that_cannot_be_killed_is_told(tmp_path):
    class Immortal:
        async def wait(self):
            await asyncio.sleep(86_400)

        def kill(self): ...

    async def main():
        await run_command(["hang"], start=lambda _: Immortal())

    with pytest.raises(OperationTimeoutError, match=r"work failed \(TimeoutError\), so it may go on"):
        run_jumping(main())
