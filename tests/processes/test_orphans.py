"""The orphan matrix: whichever process of ours is killed, no worker, child or escaped grandchild is left."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from reprieve.processes import session, warden
from reprieve.processes.session import ProcessExit, SessionProcess, WardenOptions
from support.effort import size
from support.trees import grow, is_gone, members_of, survivors, until

PARENT = """
import asyncio, json, os, sys
from pathlib import Path
from reprieve.processes import session

folder, options, command = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]

async def main():
    if options.pop("adopts", False):
        session.adopt_orphans()
    forks, stops = options.pop("forks", False), options.pop("stops", False)
    process = session.SessionProcess(command, options=session.WardenOptions(**options))
    if forks and os.fork() == 0:
        import time
        time.sleep(600)  # a copy of this program that holds the socket to the warden
    (folder / "warden.new").write_text(str(process.warden_pid))
    (folder / "warden.new").rename(folder / "warden")
    if stops:
        while not (folder / "worker").exists():
            await asyncio.sleep(0.01)
        process.terminate(group=True)
        (folder / "stopping").touch()
    exit_ = await process.exited
    (folder / "exit").write_text(f"{exit_.code} {exit_.is_watched}")

asyncio.run(main())
"""


@contextlib.contextmanager
def parent(folder, command, **options):
    """A program that starts the command and waits for its end. Yield it and the number of the warden."""
    program = [sys.executable, "-c", PARENT, str(folder), json.dumps(options), *command]
    with subprocess.Popen(program, start_new_session=True) as process:
        try:
            until((folder / "warden").exists)
            yield process, int((folder / "warden").read_text())
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


GROUPS = pytest.mark.parametrize("groups", [True, False], ids=["control groups", "no control groups"])


@GROUPS
@pytest.mark.parametrize("ignores", [False, True], ids=["", "ignoring SIGTERM"])
def test_nothing_is_left_when_the_parent_is_killed(tmp_path, groups, ignores):
    with parent(tmp_path, grow(tmp_path, ignores_sigterm=ignores), control_groups=groups) as (process, guard):
        members = members_of(tmp_path)
        assert not any(is_gone(pid) for pid in members.values())
        process.kill()
        assert survivors(members) == set()
        until(lambda: is_gone(guard))


@GROUPS
def test_nothing_is_left_when_the_parent_is_killed_while_it_stops_the_worker(tmp_path, groups):
    command = grow(tmp_path, ignores_sigterm=True)
    with parent(tmp_path, command, control_groups=groups, stops=True) as (process, _):
        members = members_of(tmp_path)
        until((tmp_path / "stopping").exists)
        process.kill()
        assert survivors(members) == set()


def test_a_fork_of_the_parent_does_not_hide_its_end(tmp_path):
    with parent(tmp_path, grow(tmp_path), forks=True) as (process, _):
        members = members_of(tmp_path)
        process.kill()
        assert survivors(members) == set()


@GROUPS
def test_nothing_is_left_when_the_warden_is_killed_below_a_parent_that_adopts(tmp_path, groups):
    with parent(tmp_path, grow(tmp_path), control_groups=groups, adopts=True) as (_, guard):
        members = members_of(tmp_path)
        os.kill(guard, signal.SIGKILL)
        assert survivors(members) == set()
        until((tmp_path / "exit").exists)
        until(lambda: (tmp_path / "exit").read_text() == f"{-signal.SIGKILL} False")


def own_groups():
    return [folder for folder in warden.own_group_folders() if os.access(folder, os.W_OK)]


needs_groups = pytest.mark.skipif(not own_groups(), reason="no control group can be made here")


@needs_groups
def test_a_parent_that_adopts_nothing_still_kills_the_control_group_of_a_killed_warden(tmp_path):
    with parent(tmp_path, grow(tmp_path)) as (_, guard):
        members = members_of(tmp_path)
        os.kill(guard, signal.SIGKILL)
        assert survivors(members) == set()


@needs_groups
def test_the_next_start_kills_what_is_left_when_parent_and_warden_were_killed_together(tmp_path):
    with parent(tmp_path, grow(tmp_path)) as (process, guard):
        members = members_of(tmp_path)
        os.kill(process.pid, signal.SIGSTOP)  # it cannot act between the two
        os.kill(guard, signal.SIGKILL)
        process.kill()
        process.wait()
        assert survivors(members, 0.2) <= {"child", "escapee"}, "the kernel kills the worker"
        session.sweep_groups()
        assert survivors(members) == set()


def test_a_sweep_leaves_the_groups_of_living_processes(tmp_path):
    with parent(tmp_path, grow(tmp_path)):
        members = members_of(tmp_path)
        session.sweep_groups()
        assert survivors(members, 0.2) == {"worker", "child", "escapee"}


def test_what_a_worker_left_behind_is_killed_when_it_ends(tmp_path):
    program = f"import subprocess, sys, time; exec({grow(tmp_path)[3]!r}.replace('time.sleep(600)\\n', ''))"
    exit_ = run([sys.executable, "-c", program, str(tmp_path)])
    assert exit_.code == 0
    assert exit_.leftovers == 2
    assert survivors(members_of(tmp_path), 0.0) == set()


ISOLATED = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
import isolated_work as work
from reprieve.processes.runner import ChildProcessRunner

async def main():
    await ChildProcessRunner().call(work.grow_a_tree, (sys.argv[2], sys.argv[3]), timeout=None, judge=work.judge)

asyncio.run(main())
"""
POOL = """
import asyncio, sys
from reprieve.app.clock import SystemClock
from reprieve.processes.restarts import supervise_processes
from reprieve.processes.spawner import SubprocessSpawner

async def report(pid, cause): ...

asyncio.run(supervise_processes(
    sys.argv[1:], 1, processes=SubprocessSpawner(), report=report, clock=SystemClock(), shared=True))
"""


def test_nothing_of_an_isolated_stage_is_left_when_its_worker_is_killed(tmp_path):
    lab = Path(__file__).parent / "process_lab"
    program = [sys.executable, "-c", ISOLATED, str(lab), grow(tmp_path)[3], str(tmp_path)]
    with subprocess.Popen(program) as process:
        members = members_of(tmp_path)
        process.kill()
    assert survivors(members) == set()


def test_nothing_of_a_pooled_worker_is_left_when_the_pool_is_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", POOL, *grow(tmp_path)]) as process:
        members = members_of(tmp_path)
        process.kill()
    assert survivors(members) == set()


# --- one process ------------------------------------------------------------------------------------------------------


def run(command, *, meanwhile=None, **options):
    """Start a command and return how it ended; `meanwhile` gets the process once it runs."""

    async def main():
        process = SessionProcess(command, options=WardenOptions(**options))
        if meanwhile is not None:
            await process.started
            await asyncio.to_thread(meanwhile, process)
        async with asyncio.timeout(30):
            return await process.exited

    return asyncio.run(main())


def python(program):
    return [sys.executable, "-c", program]


def test_the_end_of_a_process_is_reported_with_what_it_used():
    exit_ = run(python("data = b'x' * 50_000_000; raise SystemExit(7)"))
    assert exit_.code == 7
    assert exit_.is_watched
    assert exit_.max_rss_bytes > 50_000_000
    assert 0 < exit_.cpu_seconds < 30


def test_a_signal_that_ended_it_is_a_negative_code():
    exit_ = run(python("import os; os.abort()"))
    assert (exit_.code, exit_.out_of_memory) == (-signal.SIGABRT, False)


@pytest.mark.parametrize(("name", "code"), [("missing", 127), ("", 126)])
def test_a_command_that_cannot_be_executed_is_told_with_the_systems_words(tmp_path, name, code):
    exit_ = run([str(tmp_path / name)])
    assert exit_.code == code
    assert str(tmp_path) in exit_.start_error


def test_nothing_is_signalled_after_the_end(monkeypatch):
    sent = []

    class RecordingSocket(socket.socket):
        def send(self, *arguments):
            sent.append(arguments[0])
            return super().send(*arguments)

    def pair():
        ours, theirs = socket.socketpair()
        return RecordingSocket(fileno=ours.detach()), theirs

    async def main():
        process = SessionProcess(python("pass"))
        process.terminate()
        await process.exited
        before = list(sent)
        process.kill()
        process.terminate()
        process.clean_up()
        return before

    monkeypatch.setattr(session, "socket", SimpleNamespace(socketpair=pair))
    before = asyncio.run(main())
    assert before == [warden.SIGTERM_LEADER]
    assert sent == before


def test_a_warden_that_ends_before_its_command_starts_does_not_kill_our_own_group(monkeypatch):
    killed = []
    monkeypatch.setattr(session, "_PROGRAM", "raise SystemExit(1)")
    monkeypatch.setattr(session.sys, "platform", "darwin")
    monkeypatch.setattr(os, "killpg", lambda *call: killed.append(call))
    exit_ = run(python("pass"))
    assert not exit_.is_watched
    assert killed == []


def test_a_session_whose_number_was_given_away_again_is_not_ours():
    own = os.getsid(0)
    entry = warden.process_entry(own)
    if entry is None:
        pytest.skip("the leader of this session has ended")
    assert os.getpid() in session._session_of(own, entry.started)
    assert session._session_of(own, entry.started - 1) == []


def test_a_stopped_warden_is_killed_and_its_tree_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "_SECONDS_UNTIL_WARDEN_IS_KILLED", 0.1)

    async def main():
        process = SessionProcess(grow(tmp_path))
        members = await asyncio.to_thread(members_of, tmp_path)
        os.kill(process.warden_pid, signal.SIGSTOP)
        process.kill()
        async with asyncio.timeout(30):
            exit_ = await process.exited
        return exit_, await asyncio.to_thread(survivors, members)

    exit_, left = asyncio.run(main())
    assert not exit_.is_watched
    assert "worker" not in left
    if own_groups():
        assert left == set()


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.campaign
def test_many_lives_leave_no_zombie_no_descriptor_and_no_control_group():
    async def life():
        await SessionProcess(["/bin/true"]).exited

    async def main():
        await life()
        before = descriptors()
        for _ in range(size(10, 125)):
            await asyncio.gather(*(life() for _ in range(8)))
        return before, descriptors()

    before, after = asyncio.run(main())
    assert after <= before
    zombies = [entry for entry in warden.processes() if entry.parent == os.getpid() and entry.state == "Z"]
    assert zombies == []
    mine = session.owner_identity(os.getpid())
    assert [name for folder in own_groups() for name in Path(folder).iterdir() if mine in str(name)] == []


# --- memory -----------------------------------------------------------------------------------------------------------

MEGABYTES = 1024 * 1024


@needs_groups
def test_a_process_over_its_memory_limit_is_told_from_one_that_was_killed():
    eats = python("held = []\nwhile True: held.append(bytearray(1_000_000))")
    exit_ = run(eats, memory_bytes=64 * MEGABYTES)
    assert (exit_.code, exit_.out_of_memory) == (-signal.SIGKILL, True)
    killed = run(python("import time; time.sleep(60)"), meanwhile=lambda each: os.kill(each.pid, signal.SIGKILL))
    assert (killed.code, killed.out_of_memory) == (-signal.SIGKILL, False)


@needs_groups
def test_a_child_that_ran_out_of_memory_is_seen_although_the_worker_lives_on():
    eats = "held = []\nwhile True: held.append(bytearray(1_000_000))"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {eats!r}]); sys.exit(3)"
    exit_ = run(python(program), memory_bytes=64 * MEGABYTES)
    assert exit_.out_of_memory
    assert exit_.code in {3, -signal.SIGKILL}, "version 2 kills the whole group"


def test_without_control_groups_the_limit_is_on_the_address_space():
    async def main():
        options = WardenOptions(memory_bytes=256 * MEGABYTES, control_groups=False)
        process = SessionProcess(python("bytearray(300_000_000)"), options=options, output=(None, subprocess.DEVNULL))
        return await process.exited, process.memory_limit

    exit_, limit = asyncio.run(main())
    assert limit == "rlimit"
    assert (exit_.code, exit_.out_of_memory) == (1, False), "a MemoryError inside, not a kill"


# --- clean-up ---------------------------------------------------------------------------------------------------------


def test_a_clean_up_runs_when_it_is_asked_for(tmp_path):
    async def main():
        clean_up = ("/bin/touch", str(tmp_path / "cleaned"))
        process = SessionProcess(python("raise SystemExit(3)"), options=WardenOptions(clean_up=clean_up))
        first = await process.ended
        before = (tmp_path / "cleaned").exists()
        process.clean_up()
        await process.exited
        return first, before

    first, before = asyncio.run(main())
    assert isinstance(first, ProcessExit)
    assert first.code == 3
    assert not before
    assert (tmp_path / "cleaned").exists()


def test_a_clean_up_runs_when_the_parent_is_killed(tmp_path):
    clean_up = ["/bin/touch", str(tmp_path / "cleaned")]
    with parent(tmp_path, grow(tmp_path), clean_up=clean_up) as (process, _):
        members = members_of(tmp_path)
        process.kill()
        until((tmp_path / "cleaned").exists)
        assert survivors(members) == set()


def test_an_idle_warden_uses_no_processor_time(tmp_path):
    with parent(tmp_path, grow(tmp_path)) as (_, guard):
        members_of(tmp_path)

        def ticks():
            fields = Path(f"/proc/{guard}/stat").read_text().rpartition(")")[2].split()
            return int(fields[11]) + int(fields[12])

        before = ticks()
        time.sleep(0.5)
        assert ticks() - before <= 1
