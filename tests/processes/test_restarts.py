"""Worker processes that are kept alive: real ones, that die in every way there is."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from reprieve.adapters.sql.reader import SqlReader
from reprieve.adapters.sql.sqlite import SqliteStore
from reprieve.app.clock import SystemClock
from reprieve.app.journal import Journal
from reprieve.core.policy import Cause
from reprieve.errors import UsageError
from reprieve.ports.intents import Register
from reprieve.processes.oom import OomWatch
from reprieve.processes.restarts import crash_reporter, supervise_processes
from reprieve.processes.spawner import SubprocessSpawner
from reprieve.testing import FakeClock

LIMIT = 60.0


def python(program, *arguments):
    return [sys.executable, "-c", program, *map(str, arguments)]


class Deaths:
    """What was reported, and who is waiting for how many."""

    def __init__(self):
        self.told = []
        self.pids = []

    async def __call__(self, pid, cause):
        self.pids.append(pid)
        self.told.append(cause)


def run(command, count=1, *, clock=None, report=None, memory=None, meanwhile=None):
    """Supervise until it ends, with something done meanwhile."""

    async def main():
        supervising = asyncio.create_task(
            supervise_processes(
                command,
                count,
                processes=SubprocessSpawner(memory=memory),
                report=Deaths() if report is None else report,
                clock=SystemClock() if clock is None else clock,
                shared=True,
            )
        )
        if meanwhile is not None:
            await asyncio.to_thread(meanwhile)
        async with asyncio.timeout(LIMIT):
            return await supervising

    return asyncio.run(main())


def until(condition):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def tell_ourselves(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


DIES_BEFORE_THE_NTH_START = """
import os, signal, sys
from pathlib import Path
starts = Path(sys.argv[1])
with starts.open("a") as file:
    file.write(f"{os.getpid()}\\n")
if len(starts.read_text().split()) < int(sys.argv[2]):
    code = int(sys.argv[3])
    os.kill(os.getpid(), -code) if code < 0 else os._exit(code)
"""
STOPS_WHEN_ASKED = """
import signal, sys, time, os
from pathlib import Path
def stop(*_):
    Path(sys.argv[1], f"stopped-{os.getpid()}").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
Path(sys.argv[1], f"up-{os.getpid()}").touch()
for _ in range(6000):  # a signal just before one long sleep would be heard after it
    time.sleep(0.1)
"""
STOPS_SLOWLY = """
import signal, sys, time
from pathlib import Path
def stop(*_):
    time.sleep(1.5)
    Path(sys.argv[1], "done").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
Path(sys.argv[1], "up").touch()
for _ in range(6000):
    time.sleep(0.1)
"""
NEVER_STOPS = """
import signal, sys, time, os
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: Path(sys.argv[1], f"asked-{os.getpid()}").touch())
Path(sys.argv[1], f"up-{os.getpid()}").touch()
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize("code", [3, 1, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGTERM])
def test_a_process_that_dies_is_told_as_a_crash_and_started_again_until_it_leaves_by_itself(tmp_path, code):
    deaths, clock = Deaths(), FakeClock()
    command = python(DIES_BEFORE_THE_NTH_START, tmp_path / "starts", 3, code)
    assert run(command, clock=clock, report=deaths) == 0
    pids = [int(pid) for pid in (tmp_path / "starts").read_text().split()]
    assert len(pids) == 3
    assert deaths.told == [Cause.CRASH, Cause.CRASH]
    assert deaths.pids == pids[:2], "told under the number that the worker itself has"


def test_the_waits_between_starts_double_up_to_half_a_minute(tmp_path):
    clock = FakeClock()
    run(python(DIES_BEFORE_THE_NTH_START, tmp_path / "starts", 10, 3), clock=clock)
    assert clock.slept == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_a_process_that_lived_for_a_minute_is_started_again_soon(tmp_path):
    clock = FakeClock()

    async def a_minute_passes_in_the_third(pid, cause):
        if len(clock.slept) == 2:
            clock.advance(60.0)

    command = python(DIES_BEFORE_THE_NTH_START, tmp_path / "starts", 6, 3)
    run(command, clock=clock, report=a_minute_passes_in_the_third)
    assert clock.slept == [0.5, 1.0, 0.5, 1.0, 2.0]


def test_a_command_that_is_refused_at_once_is_not_started_again(tmp_path):
    assert run(python(DIES_BEFORE_THE_NTH_START, tmp_path / "starts", 9, 2), 2) == 2
    assert len((tmp_path / "starts").read_text().split()) == 2


def test_a_command_that_does_not_exist_is_tried_again_like_one_that_dies(tmp_path):
    def stop_soon():
        time.sleep(0.5)
        tell_ourselves()

    assert run([str(tmp_path / "missing")], meanwhile=stop_soon) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_and_we_leave_when_they_have_left(tmp_path, number):
    deaths = Deaths()

    def stop_when_up():
        until(lambda: len(list(tmp_path.glob("up-*"))) == 3)
        tell_ourselves(number)

    assert run(python(STOPS_WHEN_ASKED, tmp_path), 3, report=deaths, meanwhile=stop_when_up) == 0
    assert len(list(tmp_path.glob("stopped-*"))) == 3
    assert deaths.told == []


def test_a_second_signal_kills_those_that_are_left_after_the_grace_which_costs_jobs_no_crash(tmp_path):
    deaths = Deaths()

    def ask_twice():
        until(lambda: len(list(tmp_path.glob("up-*"))) == 2)
        tell_ourselves()
        until(lambda: len(list(tmp_path.glob("asked-*"))) == 2)
        tell_ourselves()

    # The grace is slept by this clock at once; everything else is real.
    assert run(python(NEVER_STOPS, tmp_path), 2, report=deaths, clock=FakeClock(), meanwhile=ask_twice) == 137
    assert deaths.told == [Cause.DEPLOY, Cause.DEPLOY]
    assert all(gone(pid) for pid in deaths.pids)


def test_one_signal_waits_for_as_long_as_the_work_takes(tmp_path):
    def ask():
        until((tmp_path / "up").exists)
        tell_ourselves()

    assert run(python(STOPS_SLOWLY, tmp_path), clock=FakeClock(), meanwhile=ask) == 0
    assert (tmp_path / "done").exists()


def test_a_stop_while_a_process_waits_for_its_next_start_starts_none(tmp_path):
    def ask():
        until(lambda: (tmp_path / "starts").exists() and len((tmp_path / "starts").read_text().split()) == 2)
        until(lambda: len(deaths.told) == 2)
        time.sleep(0.1)
        tell_ourselves()

    deaths = Deaths()
    assert run(python(DIES_BEFORE_THE_NTH_START, tmp_path / "starts", 99, 3), report=deaths, meanwhile=ask) == 0
    assert len((tmp_path / "starts").read_text().split()) == 2


def test_a_death_that_cannot_be_told_stops_nothing_and_is_logged_without_secrets(tmp_path, caplog):
    password = "-".join(str(number) for number in range(4)) + "zz"

    async def fail(pid, cause):
        raise OSError(f"cannot reach postgresql://app:{password}@db/reviews")

    command = python(DIES_BEFORE_THE_NTH_START, tmp_path / "starts", 2, 3)
    with caplog.at_level(logging.ERROR, logger="reprieve.processes"):
        assert run(command, clock=FakeClock(), report=fail) == 0
    assert "could not be told" in caplog.text
    assert password not in caplog.text


def test_one_that_the_system_killed_for_memory_is_told_so(tmp_path):
    counter = tmp_path / "memory.events"
    counter.write_text("oom_kill 0\n")
    deaths = Deaths()

    def kill_as_the_kernel_does():
        until(lambda: list(tmp_path.glob("up-*")))
        first = next(tmp_path.glob("up-*"))
        time.sleep(0.1)
        counter.write_text("oom_kill 1\n")
        os.kill(int(first.name.removeprefix("up-")), signal.SIGKILL)
        until(lambda: len(list(tmp_path.glob("up-*"))) == 2)
        tell_ourselves()

    run(
        python(STOPS_WHEN_ASKED, tmp_path), report=deaths, memory=OomWatch([counter]), meanwhile=kill_as_the_kernel_does
    )
    assert deaths.told == [Cause.OUT_OF_MEMORY]


def test_a_death_is_told_to_the_store_for_the_workers_of_that_process_and_for_no_other(tmp_path):
    url = f"sqlite:///{tmp_path / 'jobs.db'}"

    async def main():
        clock = SystemClock()
        store = SqliteStore(url)
        await store.open()
        journal, reader = Journal(store, clock=clock), SqlReader(url)
        journal.start()
        try:
            now = await store.now()
            ids = [
                await journal.ask(Register(name=name, host=host, pid=pid, stages=(), now=now, expires_at=now + 600))
                for name, host, pid in [
                    ("dead", "here", 71),
                    ("alive", "here", 72),
                    ("elsewhere", "there", 71),
                    ("dead too", "here", 71),
                ]
            ]
            report = crash_reporter(journal, reader, "here")
            assert await store.lost_workers(now, besides=0) == []
            await report(71, Cause.OUT_OF_MEMORY)
            await report(99, Cause.CRASH)
            return ids, await store.lost_workers(now, besides=0)
        finally:
            await journal.close()
            reader.close()
            await store.close()

    ids, lost = asyncio.run(main())
    assert [(worker.worker_id, worker.cause) for worker in lost] == [
        (ids[0], Cause.OUT_OF_MEMORY),
        (ids[3], Cause.OUT_OF_MEMORY),
    ]


def test_cancelling_the_supervisor_leaves_nobody_behind(tmp_path):
    async def main():
        command = python(NEVER_STOPS, tmp_path)
        supervising = asyncio.create_task(
            supervise_processes(
                command, 2, processes=SubprocessSpawner(), report=Deaths(), clock=SystemClock(), shared=True
            )
        )
        await asyncio.to_thread(until, lambda: len(list(tmp_path.glob("up-*"))) == 2)
        supervising.cancel()
        with pytest.raises(asyncio.CancelledError):
            await supervising
        return [int(file.name.removeprefix("up-")) for file in tmp_path.glob("up-*")]

    assert all(gone(pid) for pid in asyncio.run(main()))


SUPERVISOR = """
import asyncio, sys
from reprieve.processes.spawner import SubprocessSpawner
from reprieve.app.clock import SystemClock
from reprieve.app.journal import Journal
from reprieve.processes.restarts import crash_reporter, supervise_processes

async def report(pid, cause): ...

command = [sys.executable, "-c", sys.argv[2], sys.argv[1]]
sys.exit(asyncio.run(supervise_processes(command, 2, processes=SubprocessSpawner(), report=report, clock=SystemClock(), shared=True)))
"""


@contextmanager
def supervisor(folder):
    with subprocess.Popen(python(SUPERVISOR, folder, STOPS_WHEN_ASKED)) as process:
        try:
            until(lambda: len(list(folder.glob("up-*"))) == 2)
            yield process
        finally:
            process.kill()


def test_workers_are_asked_to_stop_when_their_supervisor_is_killed(tmp_path):
    with supervisor(tmp_path) as process:
        process.kill()
    until(lambda: len(list(tmp_path.glob("stopped-*"))) == 2)
    until(lambda: all(gone(file.name.removeprefix("up-")) for file in tmp_path.glob("up-*")))


def test_a_supervisor_that_is_asked_to_stop_exits_with_zero(tmp_path):
    with supervisor(tmp_path) as process:
        process.terminate()
        assert process.wait(LIMIT) == 0


@pytest.mark.parametrize(("count", "shared"), [(2, False), (0, True), (1001, True), (1.5, True)])
def test_a_number_of_processes_that_cannot_be_is_refused(count, shared):
    with pytest.raises(UsageError, match="process"):
        asyncio.run(
            supervise_processes(
                ["true"], count, processes=SubprocessSpawner(), report=Deaths(), clock=SystemClock(), shared=shared
            )
        )


def test_one_process_may_work_on_a_file_of_its_own():
    supervising = supervise_processes(
        python("pass"), 1, processes=SubprocessSpawner(), report=Deaths(), clock=SystemClock(), shared=False
    )
    assert asyncio.run(supervising) == 0
