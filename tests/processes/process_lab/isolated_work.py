"""What the tests of isolated stages run in child processes: well-behaved, hostile and dying functions."""

import ctypes
import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

from reprieve.app.judging import classify


def judge(error):
    return classify(error, stage="isolated"), "".join(traceback.format_exception_only(error))


def judge_that_fails(error):
    raise KeyError("no verdict")


def judge_without_memory(error):
    raise MemoryError


def add(first, second):
    return first + second


def pid():
    return os.getpid()


def changed(values):
    values.append("changed")
    return values


def pid_after(seconds):
    time.sleep(seconds)
    return os.getpid()


def write_pid_and_hang(file):
    Path(file).write_text(str(os.getpid()))
    time.sleep(600)


def hang_ignoring_sigterm(file):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write_pid_and_hang(file)


def hang_beside_a_helper(file):
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(file).write_text(f"{os.getpid()} {helper.pid}")
    helper.wait()


def wait_for(file, answer):
    while not Path(file).exists():
        time.sleep(0.01)
    return answer


def segfault():
    ctypes.string_at(0)


def leave(code):
    os._exit(code)


def leave_politely(code):
    sys.exit(code)


def kill_itself(number):
    os.kill(os.getpid(), number)
    time.sleep(600)


def kill_itself_counted(file, count):
    Path(file).write_text(f"oom_kill {count}\n")
    os.kill(os.getpid(), signal.SIGKILL)


def survive_signals():
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), number)
        time.sleep(0.01)
    return "alive"


def leave_a_fork_with_the_pipe(file):
    """Die while another process, of a session of its own, still holds the pipe."""
    if os.fork() == 0:
        os.setsid()
        Path(file).write_text(str(os.getpid()))
        time.sleep(600)
        os._exit(0)
    while not Path(file).exists() or not Path(file).read_text():
        time.sleep(0.01)
    os._exit(4)


def grow_a_tree(program, folder):
    """Become a worker with a child and an escaped grandchild."""
    sys.argv = ["-c", folder]
    exec(program, {})


def fork_and_return():
    return "forked" if os.fork() == 0 else "first"


def _square(number):
    return number * number


def pools_of_forks(count):
    """Forks that are told to end while they are still being born."""
    for _ in range(count):
        with multiprocessing.get_context("fork").Pool(4) as pool:
            squares = pool.map(_square, range(4))
    return squares


def end_a_fork_of_a_thread():
    """How a process ended that a thread forked and that was told to end once it was up."""
    ended = []

    def fork_and_end():
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, b"up")
            time.sleep(600)
        os.read(reading, 2)
        os.kill(child, signal.SIGTERM)
        ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    thread = threading.Thread(target=fork_and_end)
    thread.start()
    thread.join()
    return ended


def close_every_pipe():
    os.closerange(3, 256)
    time.sleep(600)


def large(size):
    return b"x" * size


def read_stdin():
    return sys.stdin.read()


class HoldsALock(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def raise_what_cannot_be_pickled():
    raise HoldsALock("held")


def raise_connection_refused():
    raise ConnectionRefusedError(111, "Connection refused")


def raise_memory_error():
    raise MemoryError


def raise_a_group():
    raise BaseExceptionGroup("several", [ConnectionResetError(104, "reset")])


def return_a_lock():
    return threading.Lock()


class CannotBeRead:
    def __reduce__(self):
        return (_fail_to_read, ())


def _fail_to_read():
    raise ValueError("broken when read")


def return_what_cannot_be_read():
    return CannotBeRead()


def wrapping(function):
    @functools.wraps(function)
    def wrapped(*arguments):
        raise AssertionError("the function itself was asked for, not this")

    return wrapped


@wrapping
@wrapping
def decorated(value):
    return value * 2


def hiding(function):
    def hidden(*arguments):
        return function(*arguments)

    return hidden


def _hidden(value):
    return value


hidden_original = _hidden
_hidden = hiding(_hidden)


class Namespace:
    @staticmethod
    def inner(value):
        return value + 1
