"""Isolated work, in real processes: what comes back, what dies, what is killed, and that nothing is left behind."""

import asyncio
import contextlib
import importlib
import os
import pickle
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from reprieve.app.judging import classify
from reprieve.core.failure import ErrorClass
from reprieve.errors import UsageError
from reprieve.ports.isolation import ChildDiedError, IsolatedError
from reprieve.processes.oom import OomWatch
from reprieve.processes.runner import ChildProcessRunner
from reprieve.testing import failure_of

LAB = Path(__file__).parent / "process_lab"
LIMIT = 30.0


@pytest.fixture
def work(monkeypatch):
    monkeypatch.syspath_prepend(str(LAB))
    return importlib.import_module("isolated_work")


def gone(pid):
    """Whether a process has ended; one that nobody reaped yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def until(condition):
    """Wait for what has to come; how long it takes decides nothing."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def text_of(file):
    until(lambda: file.exists() and file.read_text())
    return file.read_text()


def run(*calls, judge, limit=2, timeout=LIMIT, **options):
    """Make the calls one after another in one isolator; the last result, or whatever is raised."""

    async def all_of_them():
        isolator = ChildProcessRunner(limit, **options)
        try:
            for function, *arguments in calls:
                result = await isolator.call(function, tuple(arguments), timeout=timeout, judge=judge)
            return result
        finally:
            await isolator.close()

    return asyncio.run(all_of_them())


def test_a_function_runs_in_another_process_and_its_result_comes_back(work):
    assert run((work.add, 2, 3), judge=work.judge) == 5
    assert run((work.pid,), judge=work.judge) != os.getpid()
    assert run((work.Namespace.inner, 1), judge=work.judge) == 2


def test_arguments_travel_as_copies(work):
    values = ["first"]
    assert run((work.changed, values), judge=work.judge) == ["first", "changed"]
    assert values == ["first"]


def test_ten_megabytes_go_there_and_back(work):
    data = os.urandom(10_000_000)
    assert run((work.add, data, b"!"), judge=work.judge) == data + b"!"
    assert len(run((work.large, 10_000_000), judge=work.judge)) == 10_000_000


def test_a_child_is_kept_warm_and_used_again(work):
    async def pids():
        isolator = ChildProcessRunner()
        found = [await isolator.call(work.pid, (), timeout=LIMIT, judge=work.judge) for _ in range(5)]
        with pytest.raises(IsolatedError):
            await isolator.call(work.raise_connection_refused, (), timeout=LIMIT, judge=work.judge)
        found.append(await isolator.call(work.pid, (), timeout=LIMIT, judge=work.judge))
        assert not gone(found[0])
        await isolator.close()
        assert gone(found[0])
        return set(found)

    assert len(asyncio.run(pids())) == 1


def test_fifty_calls_at_once_share_four_children_and_none_is_mixed_up(work):
    async def fifty():
        isolator = ChildProcessRunner(4)
        numbers = asyncio.gather(
            *(isolator.call(work.add, (number, 1000), timeout=LIMIT, judge=work.judge) for number in range(50))
        )
        pids = asyncio.gather(
            *(isolator.call(work.pid_after, (0.01,), timeout=LIMIT, judge=work.judge) for _ in range(50))
        )
        try:
            return await numbers, set(await pids)
        finally:
            await isolator.close()

    numbers, pids = asyncio.run(fifty())
    assert numbers == [number + 1000 for number in range(50)]
    assert len(pids) <= 4


def test_the_event_loop_goes_on_while_a_child_works(work, tmp_path):
    async def main():
        isolator = ChildProcessRunner()
        call = asyncio.create_task(
            isolator.call(work.wait_for, (tmp_path / "sign", "seen"), timeout=LIMIT, judge=work.judge)
        )
        await asyncio.sleep(0.05)
        (tmp_path / "sign").touch()
        try:
            return await call
        finally:
            await isolator.close()

    assert asyncio.run(main()) == "seen"


# --- what the work raises ---------------------------------------------------------------------------------------------


def test_an_exception_is_judged_where_it_was_raised(work):
    with pytest.raises(IsolatedError) as raised:
        run((work.raise_connection_refused,), judge=work.judge)
    assert raised.value.failure.error_class == ErrorClass.CONNECTION_REFUSED
    assert raised.value.failure.retryable
    assert "ConnectionRefusedError" in raised.value.stack


def test_an_exception_that_cannot_be_pickled_is_judged_all_the_same(work):
    with pytest.raises(IsolatedError) as raised:
        run((work.raise_what_cannot_be_pickled,), judge=work.judge)
    assert raised.value.failure.exception_type == "isolated_work.HoldsALock"


def test_a_memory_error_is_a_failure_of_the_work_and_not_of_the_machine(work):
    with pytest.raises(IsolatedError) as raised:
        run((work.raise_memory_error,), judge=work.judge)
    assert raised.value.failure.error_class == ErrorClass.OUT_OF_MEMORY


def test_without_the_memory_to_judge_one_a_memory_error_is_raised_here(work):
    with pytest.raises(MemoryError, match="no memory left"):
        run((work.raise_memory_error,), judge=work.judge_without_memory)


def test_even_a_group_of_base_exceptions_is_judged(work):
    with pytest.raises(IsolatedError) as raised:
        run((work.raise_a_group,), judge=work.judge)
    assert raised.value.failure.error_class == ErrorClass.CONNECTION_RESET


def test_a_judge_that_fails_is_told_readably(work):
    with pytest.raises(UsageError, match="a ConnectionRefusedError could not be judged: KeyError: 'no verdict'"):
        run((work.raise_connection_refused,), judge=work.judge_that_fails)


# --- children that die ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("segfault", (), -signal.SIGSEGV),
        ("leave", (3,), 3),
        ("leave", (0,), 0),
        ("leave_politely", (5,), 5),
        ("kill_itself", (signal.SIGKILL,), -signal.SIGKILL),
        ("kill_itself", (signal.SIGABRT,), -signal.SIGABRT),
        ("close_every_pipe", (), -signal.SIGKILL),
    ],
)
def test_a_child_that_dies_is_told_by_its_exit_code_and_the_next_call_gets_another(work, name, arguments, code):
    async def main():
        isolator = ChildProcessRunner(1)
        try:
            with pytest.raises(ChildDiedError) as raised:
                await isolator.call(getattr(work, name), arguments, timeout=LIMIT, judge=work.judge)
            assert await isolator.call(work.add, (1, 1), timeout=LIMIT, judge=work.judge) == 2
        finally:
            await isolator.close()
        return raised.value

    died = asyncio.run(main())
    assert (died.exit_code, died.out_of_memory) == (code, False)


def test_a_death_is_noticed_although_a_fork_in_another_session_holds_the_pipe(work, tmp_path):
    with pytest.raises(ChildDiedError) as raised:
        run((work.leave_a_fork_with_the_pipe, tmp_path / "pid"), judge=work.judge)
    assert raised.value.exit_code == 4
    assert gone(int(text_of(tmp_path / "pid"))), "it was killed with the rest of the tree"


def test_a_child_that_died_while_idle_is_replaced(work):
    async def main():
        isolator = ChildProcessRunner(1)
        first = await isolator.call(work.pid, (), timeout=LIMIT, judge=work.judge)
        os.kill(first, signal.SIGKILL)
        await asyncio.to_thread(until, lambda: not os.path.lexists(f"/proc/{first}"))  # so it has been reaped
        second = await isolator.call(work.pid, (), timeout=LIMIT, judge=work.judge)
        await isolator.close()
        return first, second

    first, second = asyncio.run(main())
    assert first != second


@pytest.mark.parametrize(("before", "after", "is_memory"), [(3, 4, True), (3, 3, False)])
def test_a_kill_while_the_counter_of_the_oom_killer_rose_is_out_of_memory(work, tmp_path, before, after, is_memory):
    counter = tmp_path / "memory.events"
    counter.write_text(f"oom 0\noom_kill {before}\n")
    with pytest.raises(ChildDiedError) as raised:
        run((work.kill_itself_counted, counter, after), judge=work.judge, memory=OomWatch([counter]))
    assert (raised.value.exit_code, raised.value.out_of_memory) == (-signal.SIGKILL, is_memory)


# --- children that are killed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["write_pid_and_hang", "hang_ignoring_sigterm", "hang_beside_a_helper"])
def test_work_that_hangs_is_killed_at_its_timeout_with_all_that_it_started(work, tmp_path, name):
    with pytest.raises(TimeoutError):
        run((work.pid,), (getattr(work, name), tmp_path / "pids"), judge=work.judge, timeout=2.0)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert gone(pids[0]), "the child itself is gone before anybody hears of the timeout"
    for pid in pids:
        until(lambda pid=pid: gone(pid))


def test_a_timeout_does_not_count_the_wait_for_a_child(work, tmp_path):
    async def main():
        isolator = ChildProcessRunner(1)
        first = isolator.call(work.wait_for, (tmp_path / "sign", "first"), timeout=None, judge=work.judge)
        second = isolator.call(work.add, (1, 1), timeout=2.0, judge=work.judge)
        both = asyncio.gather(first, second)
        await asyncio.sleep(2.5)
        (tmp_path / "sign").touch()
        try:
            return await both
        finally:
            await isolator.close()

    assert asyncio.run(main()) == ["first", 2]


def test_cancelling_the_caller_kills_the_child_before_the_cancellation_is_seen(work, tmp_path):
    async def main():
        isolator = ChildProcessRunner(1)
        call = asyncio.create_task(
            isolator.call(work.write_pid_and_hang, (tmp_path / "pid",), timeout=None, judge=work.judge)
        )
        pid = int(await asyncio.to_thread(text_of, tmp_path / "pid"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert gone(pid)
        assert await isolator.call(work.add, (1, 1), timeout=LIMIT, judge=work.judge) == 2
        await isolator.close()

    asyncio.run(main())


def test_a_caller_cancelled_while_it_waits_for_a_child_takes_no_place(work, tmp_path):
    async def main():
        isolator = ChildProcessRunner(1)
        first = asyncio.create_task(
            isolator.call(work.wait_for, (tmp_path / "sign", "first"), timeout=LIMIT, judge=work.judge)
        )
        second = asyncio.create_task(isolator.call(work.add, (1, 1), timeout=LIMIT, judge=work.judge))
        await asyncio.sleep(0.05)
        second.cancel()
        (tmp_path / "sign").touch()
        assert await first == "first"
        with contextlib.suppress(asyncio.CancelledError):
            await second
        assert await isolator.call(work.add, (1, 2), timeout=LIMIT, judge=work.judge) == 3
        await isolator.close()

    asyncio.run(main())


def test_closing_ends_idle_and_busy_children_and_may_be_done_twice(work, tmp_path):
    async def main():
        isolator = ChildProcessRunner()
        idle, other = await asyncio.gather(
            *(isolator.call(work.pid_after, (0.2,), timeout=LIMIT, judge=work.judge) for _ in range(2))
        )
        assert idle != other
        call = asyncio.create_task(
            isolator.call(work.write_pid_and_hang, (tmp_path / "pid",), timeout=None, judge=work.judge)
        )
        busy = int(await asyncio.to_thread(text_of, tmp_path / "pid"))
        await isolator.close()
        await isolator.close()
        assert all(gone(pid) for pid in (idle, other, busy))
        with pytest.raises(ChildDiedError):
            await call
        with pytest.raises(UsageError, match="closed"):
            await isolator.call(work.pid, (), timeout=LIMIT, judge=work.judge)

    asyncio.run(main())


PARENT = """
import asyncio, sys
sys.path.insert(0, {lab!r})
import isolated_work as work
from reprieve.processes.runner import ChildProcessRunner

async def main():
    isolator = ChildProcessRunner()
    idle = await isolator.call(work.pid, (), timeout=None, judge=work.judge)
    open({idle!r}, "w").write(str(idle))
    calls = [isolator.call(work.write_pid_and_hang, (file,), timeout=None, judge=work.judge) for file in {busy!r}]
    await asyncio.gather(*calls)

asyncio.run(main())
"""


def test_children_are_gone_when_their_parent_is_killed(tmp_path):
    files = [tmp_path / "first", tmp_path / "second"]
    program = PARENT.format(lab=str(LAB), idle=str(tmp_path / "idle"), busy=[str(file) for file in files])
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        pids = [int(text_of(file)) for file in [tmp_path / "idle", *files]]
        assert len({parent.pid, *pids[1:]}) == 3
        parent.kill()
    for pid in pids:
        until(lambda pid=pid: gone(pid))


def test_nothing_is_left_open_by_children_that_died_or_were_killed(work):
    async def main():
        isolator = ChildProcessRunner(2)

        async def call(function, *arguments, seconds=LIMIT):
            with contextlib.suppress(ChildDiedError, TimeoutError):
                await isolator.call(function, arguments, timeout=seconds, judge=work.judge)

        await call(work.pid)
        before = descriptors()
        for _ in range(5):
            await asyncio.gather(call(work.leave, 3), call(work.segfault), call(work.pid_after, 600.0, seconds=0.1))
        await call(work.pid)
        after = descriptors()
        await isolator.close()
        return before, after

    before, after = asyncio.run(main())
    assert after <= before


# --- what children keep to themselves ---------------------------------------------------------------------------------


def test_signals_of_a_terminal_or_a_service_stop_do_not_end_a_child(work):
    assert run((work.survive_signals,), judge=work.judge) == "alive"


def test_a_pool_that_a_stage_forks_can_be_ended_by_it(work):
    assert run((work.pools_of_forks, 20), judge=work.judge) == [0, 1, 4, 9]


def test_a_process_that_a_thread_of_a_stage_forks_can_be_ended_by_it(work):
    assert run((work.end_a_fork_of_a_thread,), judge=work.judge) == [-signal.SIGTERM]


def test_a_fork_that_comes_back_from_the_function_answers_nothing(work):
    calls = [(work.fork_and_return,), (work.add, 1, 1), (work.add, 2, 2)]
    assert run(calls[0], judge=work.judge) == "first"
    assert run(*calls, judge=work.judge) == 4


def test_standard_input_is_empty(work):
    assert run((work.read_stdin,), judge=work.judge) == ""


# --- what cannot be done ----------------------------------------------------------------------------------------------


def test_a_decorated_function_is_run_itself(work):
    assert run((work.decorated.__wrapped__.__wrapped__, 4), judge=work.judge) == 8
    with pytest.raises(IsolatedError):
        run((work.decorated, 4), judge=work.judge)


def local_function():
    def local():
        return None

    return local


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda: 1, "plain function at the top of a module"),
        (local_function(), "local_function.<locals>.local is not"),
        (contextlib.nullcontext(), "not a nullcontext"),
    ],
)
def test_a_function_that_no_other_process_can_find_is_refused_readably(work, function, told):
    with pytest.raises(UsageError, match=told):
        run((function,), judge=work.judge)


def test_a_name_that_leads_to_something_else_is_refused(work):
    with pytest.raises(UsageError, match="leads to something else"):
        run((work.hidden_original, 1), judge=work.judge)


def test_a_module_that_only_this_process_has_is_told_readably(work, monkeypatch):
    module = types.ModuleType("made_up_here")
    exec("def function(): return 1", module.__dict__)
    monkeypatch.setitem(sys.modules, "made_up_here", module)
    with pytest.raises(UsageError, match=r"cannot be loaded in another process: ModuleNotFoundError.*made_up_here"):
        run((module.function,), judge=work.judge)


def test_a_module_whose_own_code_fails_there_is_judged(work, tmp_path, monkeypatch):
    (tmp_path / "fails_in_children.py").write_text(
        "import os\n"
        "def function(): return 1\n"
        "if os.environ.get('IN_A_CHILD'): raise ConnectionRefusedError(111, 'Connection refused')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("fails_in_children")
    monkeypatch.setenv("IN_A_CHILD", "1")
    with pytest.raises(IsolatedError) as raised:
        run((module.function,), judge=work.judge)
    assert raised.value.failure.error_class == ErrorClass.CONNECTION_REFUSED


def test_what_cannot_be_pickled_is_told_readably_and_is_no_reason_to_try_again(work):
    generator = (number for number in range(3))
    with pytest.raises(UsageError, match=r"what isolated_work.add is called with cannot be pickled") as raised:
        run((work.add, generator, 1), judge=work.judge)
    assert not classify(raised.value).retryable
    with pytest.raises(UsageError, match=r"the result of isolated_work.return_a_lock cannot be pickled"):
        run((work.return_a_lock,), judge=work.judge)
    with pytest.raises(UsageError, match="the judge cannot be pickled"):
        run((work.add, 1, 1), judge=lambda error: None)


def test_a_result_that_cannot_be_read_back_is_told_readably(work):
    with pytest.raises(UsageError, match=r"the result of .* cannot be read back: ValueError: broken when read"):
        run((work.return_what_cannot_be_read,), judge=work.judge)


@pytest.mark.parametrize("limit", [0, 1.5, True])
def test_a_limit_that_is_none_is_refused(limit):
    with pytest.raises(UsageError, match=r"^limit"):
        ChildProcessRunner(limit)


SCRIPT = """
import asyncio, sys
from dataclasses import dataclass
sys.path.insert(0, {lab!r})
import isolated_work
from reprieve.processes.runner import ChildProcessRunner

@dataclass
class Point:
    x: int

def moved(point):
    return Point(point.x + 1)

async def main():
    isolator = ChildProcessRunner(1)
    for _ in range(2):
        result = await isolator.call(moved, (Point(1),), timeout=None, judge=isolated_work.judge)
    await isolator.close()
    print(type(result) is Point, result.x)

{guard}asyncio.run(main())
"""


@pytest.mark.parametrize("as_module", [False, True])
def test_functions_and_classes_of_a_script_are_found_in_its_children(tmp_path, as_module):
    script = tmp_path / "the_script.py"
    script.write_text(SCRIPT.format(lab=str(LAB), guard="if __name__ == '__main__': "))
    command = [sys.executable, "-m", "the_script"] if as_module else [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("True 2\n", "", 0)


def test_a_script_that_would_start_itself_again_in_every_child_is_told_so(tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(SCRIPT.format(lab=str(LAB), guard=""))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "put what it does under `if __name__ == '__main__':`" in done.stderr


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ChildDiedError(3), "the process exited with code 3 before its work was done"),
        (ChildDiedError(-11), "the process was ended by SIGSEGV before its work was done"),
        (ChildDiedError(-63), "the process was ended by signal 63 before its work was done"),
        (
            ChildDiedError(-9, out_of_memory=True),
            "the process was ended by SIGKILL as the machine was out of memory before its work was done",
        ),
        (IsolatedError(failure_of("OVERLOADED", message="busy"), "stack"), "OVERLOADED: busy"),
    ],
)
def test_the_errors_read_as_sentences_and_survive_pickling(error, text):
    again = pickle.loads(pickle.dumps(error))
    assert (str(error), str(again), vars(again)) == (text, text, vars(error))
