"""Watch one command, and kill its whole process tree when it ends, when told to, or when the parent is gone.

Run by `python -I -S` with the arguments `CONTROL PARENT [NAME=VALUE]... -- COMMAND...`. CONTROL is the descriptor of
a socket to the parent. Standard library only, and few of its modules: this starts before every worker process and
stays beside it.

The parent sends single bytes: `t` SIGTERM to the command, `g` SIGTERM to its process group, `k` kill the tree,
`c` clean up. The warden sends lines: `started`, `failed` or `ended` with their values.

The tree is found in three ways. The command leads a process group. Processes that leave the group are adopted by
this process (PR_SET_CHILD_SUBREAPER) when their parent ends. Where a control group can be made, all are in it.
The kernel kills the command when this process is killed (PR_SET_PDEATHSIG); the parent then kills the rest.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
import time

SIGTERM_LEADER, SIGTERM_GROUP, KILL, CLEAN_UP = b"t", b"g", b"k", b"c"
COMMAND_NOT_FOUND, COMMAND_NOT_EXECUTABLE = 127, 126
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_RESTORED = (*_IGNORED, signal.SIGPIPE)
_OOM_SCORE = -500
"""Makes the kernel choose the command and not its warden."""
_SECONDS_TO_KILL = 10.0
"""A process that hangs in the kernel, or that may not be signalled, is left after this time."""
_SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_TO_CLEAN_UP = 60.0
_ROOT = "/sys/fs/cgroup"
_RMDIR_TRIES = 100


class Options:
    """What the parent asks for: `NAME=VALUE` arguments and the command after `--`."""

    def __init__(self, arguments: list[str]) -> None:
        mark = arguments.index("--")
        self.control, self.parent = int(arguments[0]), int(arguments[1])
        values = dict(each.split("=", 1) for each in arguments[2:mark])
        self.command = arguments[mark + 1 :]
        pairs = [each.partition(":") for each in values.get("descriptors", "").split(",") if each]
        self.descriptors = {int(given): int(wanted or given) for given, _, wanted in pairs}
        """What the command inherits, and under which numbers."""
        self.group = values.get("group", "")
        """Name of the control group to make; empty: none."""
        self.memory = int(values.get("memory", "0"))
        """Bytes that the tree may use; 0: no limit."""
        self.orphan_grace = float(values.get("orphan_grace", "0"))
        """Seconds between SIGTERM and SIGKILL when the parent is gone; 0: SIGKILL at once."""
        self.clean_up = [each for each in values.get("clean_up", "").split("\x1f") if each]
        """A command that removes what the tree does not hold, such as a container."""


def become_subreaper() -> bool:
    """Have processes whose parent ended adopted by this process. False where the system does not offer it."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - for Linux alone

    return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)


def child_pids() -> list[int]:
    """Return the direct children of this process, ended ones included."""
    found = []
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
                found += [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN, or no /proc
        own = os.getpid()
        return [each.pid for each in processes() if each.parent == own]
    return found


class ProcessEntry:
    """What `/proc/PID/stat` says of one process."""

    __slots__ = ("parent", "pid", "session", "started", "state")

    def __init__(self, pid: int, text: str) -> None:
        fields = text.rpartition(")")[2].split()
        self.pid = pid
        self.state = fields[0]
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.started = int(fields[19])


def process_entry(pid: int) -> ProcessEntry | None:
    """Return what the system says of a process; None where there is none of this number."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return ProcessEntry(pid, file.read())
    except (OSError, IndexError):
        return None


def processes() -> list[ProcessEntry]:
    """Return all processes that this one can see; none on a system without /proc."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [entry for pid in pids if (entry := process_entry(pid)) is not None]


def own_group_folders() -> list[str]:
    """Return the folders of this process's control groups: of version 2, and of version 1's memory controller."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            mounts = [_ROOT, f"{_ROOT}/unified"]
        elif "memory" in controllers.split(","):
            mounts = [f"{_ROOT}/memory"]
        else:
            continue
        within = path.strip("/")
        for mount in mounts:
            folder = next((each for each in (f"{mount}/{within}".rstrip("/"), mount) if _holds_us(each)), None)
            if folder is not None:
                found.append(folder)
    return found


def _holds_us(folder: str) -> bool:
    return str(os.getpid()) in (_read(f"{folder}/cgroup.procs") or "").split()


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError:
        return False
    return True


def make_groups(name: str, memory: int) -> tuple[list[str], bool]:
    """Make control groups below our own. Return their folders, and whether one of them limits the memory."""
    folders, limited = [], False
    for parent in own_group_folders():
        folder = f"{parent}/{name}"
        try:
            os.mkdir(folder)
        except OSError:  # not ours to make, or mounted read-only
            continue
        folders.append(folder)
        if memory and _write(f"{folder}/memory.max", str(memory)):
            limited = True
            _write(f"{folder}/memory.swap.max", "0")
            _write(f"{folder}/memory.oom.group", "1")
        elif memory and (_read(f"{folder}/memory.use_hierarchy") or "").strip() == "1":
            limited = _write(f"{folder}/memory.limit_in_bytes", str(memory)) or limited
    return folders, limited


def enter_groups(folders: list[str]) -> None:
    """Move this process into the control groups."""
    for folder in folders:
        _write(f"{folder}/cgroup.procs", str(os.getpid()))


def out_of_memory_kills(folders: list[str]) -> int:
    """Return how many processes of these groups the kernel killed for want of memory."""
    most = 0
    for folder in folders:
        for name in ("memory.events.local", "memory.events", "memory.oom_control"):
            for line in (_read(f"{folder}/{name}") or "").splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill" and value.isdigit():
                    most = max(most, int(value))
    return most


def kill_groups(folders: list[str]) -> None:
    """Kill every process of these groups and of the groups below them."""
    for folder in folders:
        if _write(f"{folder}/cgroup.kill", "1"):
            continue
        for below, _, _ in os.walk(folder):
            for pid in (_read(f"{below}/cgroup.procs") or "").split():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(int(pid), signal.SIGKILL)


def remove_groups(folders: list[str]) -> bool:
    """Remove the folders of empty groups, and those below them; False where one is still in use."""
    done = True
    for folder in folders:
        for below, _, _ in os.walk(folder, topdown=False):
            for _ in range(_RMDIR_TRIES):
                try:
                    os.rmdir(below)
                except FileNotFoundError:
                    break
                except OSError:  # a killed process leaves its group a moment later
                    time.sleep(0.002)
                else:
                    break
            else:
                done = False
    return done


class Warden:
    """One command and what it started."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._folders: list[str] = []
        self._left = 0
        self._status: int | None = None
        """Wait status of the command, once it is reaped."""
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        os.set_inheritable(options.control, False)  # noqa: FBT003 - positional only
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # any handler: only then is the pipe written to
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._oom_score = (_read("/proc/self/oom_score_adj") or "").strip()
        self._oom_score_set = bool(self._oom_score) and _write("/proc/self/oom_score_adj", str(_OOM_SCORE))

    def run(self) -> None:
        """Start the command, watch it, and report its end."""
        options = self._options
        become_subreaper()
        limited = False
        if options.group:
            self._folders, limited = make_groups(options.group, options.memory)
        pid = self._start(use_rlimit=bool(options.memory) and not limited)
        if pid is None:
            remove_groups(self._folders)
            return
        for descriptor in options.descriptors:
            os.close(descriptor)
        entry = process_entry(pid)
        limit = "none" if not options.memory else "cgroup" if limited else "rlimit"
        self._tell("started", pid, entry.started if entry else 0, limit, *self._folders)
        self._watch(pid)
        if options.clean_up:
            self._reap_command(pid)
            self._report()
            self._await_clean_up()
            self._clean_up()
            self._kill_tree(pid)
        else:
            self._kill_tree(pid)
            self._report()
        remove_groups(self._folders)

    def _start(self, *, use_rlimit: bool) -> int | None:
        """Fork and execute the command; None where it cannot be executed."""
        read, write = os.pipe()
        warden = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != warden:
                    os._exit(1)
                for restored in _RESTORED:
                    signal.signal(restored, signal.SIG_DFL)
                enter_groups(self._folders)
                write = _renumber(self._options.descriptors, write)
                if self._oom_score_set:
                    _write("/proc/self/oom_score_adj", self._oom_score)
                if use_rlimit:
                    import resource  # noqa: PLC0415 - only for a limit

                    resource.setrlimit(resource.RLIMIT_AS, (self._options.memory, self._options.memory))
                os.execvp(self._options.command[0], self._options.command)  # noqa: S606 - the parent's command
            except BaseException as error:  # noqa: BLE001 - this copy of the warden must never go on
                number = (error.errno or 0) if isinstance(error, OSError) else 0
                reason = os.strerror(number) if number else str(error)
                os.write(write, f"{number} {self._options.command[0]}: {reason}".encode(errors="replace")[:1000])
            finally:
                os._exit(COMMAND_NOT_FOUND)
        os.close(write)
        problem = os.read(read, 1000)
        os.close(read)
        if not problem:
            return pid
        os.waitpid(pid, 0)
        cause, _, text = problem.decode(errors="replace").partition(" ")
        code = COMMAND_NOT_FOUND if int(cause) == errno.ENOENT else COMMAND_NOT_EXECUTABLE
        self._tell("failed", code, " ".join(text.split()))
        return None

    def _watch(self, pid: int) -> None:
        """Return when the command has ended, or is to be killed."""
        options = self._options
        poller = select.poll()
        poller.register(options.control, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        interval = None if _register_parent(poller, options.parent) else _SECONDS_BETWEEN_LOOKS * 1000
        while not self._has_ended(pid):
            ready = dict(poller.poll(interval))
            if self._wake in ready:
                self._drain_wake()
            orders = _receive(options.control) if options.control in ready else None
            if orders == b"" or os.getppid() != options.parent:
                self._stop_orphan(pid)
                return
            if orders and KILL in orders:
                return
            if orders and SIGTERM_GROUP in orders:
                os.killpg(pid, signal.SIGTERM)
            elif orders and SIGTERM_LEADER in orders:
                os.kill(pid, signal.SIGTERM)

    def _stop_orphan(self, pid: int) -> None:
        """Give the command the time to stop that it has when the parent is gone."""
        grace = self._options.orphan_grace
        deadline = time.monotonic() + grace
        if grace > 0 and not self._has_ended(pid):
            os.kill(pid, signal.SIGTERM)
        while time.monotonic() < deadline and not self._has_ended(pid):
            select.select([self._wake], [], [], _SECONDS_BETWEEN_LOOKS)
            self._drain_wake()

    def _has_ended(self, pid: int) -> bool:
        """Reap adopted processes that ended. The command itself stays unreaped, so that its number stays its own."""
        if not hasattr(os, "waitid"):  # no adopted processes either: only Linux has them
            ended, status = os.waitpid(pid, os.WNOHANG)
            self._status = status if ended == pid else None
            return ended == pid
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return True
            if found is None:
                return False
            if found.si_pid == pid:
                return True
            os.waitpid(found.si_pid, 0)

    def _kill_tree(self, pid: int) -> None:
        """Kill and reap all that is left."""
        if self._status is None or not hasattr(os, "waitid"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        kill_groups([folder for folder in self._folders if os.path.exists(f"{folder}/cgroup.kill")])
        deadline = time.monotonic() + _SECONDS_TO_KILL
        while time.monotonic() < deadline:
            for child in child_pids():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
            try:
                ended, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if ended == 0:
                select.select([self._wake], [], [], 0.05)
                self._drain_wake()
            elif ended == pid:
                self._status = status
            elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
                self._left += 1

    def _reap_command(self, pid: int) -> None:
        """Kill the command if it still runs, and reap it alone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            self._status = os.waitpid(pid, 0)[1]

    def _await_clean_up(self) -> None:
        """Wait until the parent has looked at what is to be removed, or is gone."""
        while os.getppid() == self._options.parent:
            if select.select([self._options.control], [], [], _SECONDS_BETWEEN_LOOKS)[0]:
                command = _receive(self._options.control)
                if command == b"" or CLEAN_UP in command or KILL in command:
                    return
            self._drain_wake()

    def _clean_up(self) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                null = os.open(os.devnull, os.O_RDWR)
                for descriptor in (0, 1, 2):
                    os.dup2(null, descriptor)
                for number in _RESTORED:
                    signal.signal(number, signal.SIG_DFL)
                os.execvp(self._options.clean_up[0], self._options.clean_up)  # noqa: S606 - the parent's command
            finally:
                os._exit(COMMAND_NOT_FOUND)
        deadline = time.monotonic() + SECONDS_TO_CLEAN_UP
        while time.monotonic() < deadline:
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                return
            select.select([self._wake], [], [], _SECONDS_BETWEEN_LOOKS)
            self._drain_wake()

    def _report(self) -> None:
        import resource  # noqa: PLC0415 - not needed while the command runs

        code = -signal.SIGKILL if self._status is None else os.waitstatus_to_exitcode(self._status)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        rss = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        cpu = usage.ru_utime + usage.ru_stime
        self._tell("ended", code, out_of_memory_kills(self._folders), self._left, rss, f"{cpu:.3f}")

    def _tell(self, *words: object) -> None:
        with contextlib.suppress(OSError):  # the parent is gone
            os.write(self._options.control, (" ".join(map(str, words)) + "\n").encode())

    def _drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 1000)


def _renumber(descriptors: dict[int, int], kept: int) -> int:
    """Give descriptors the numbers that the command expects; return the new number of one that closes with it."""
    if all(given == wanted for given, wanted in descriptors.items()):
        return kept
    import fcntl  # noqa: PLC0415 - rarely needed

    above = max(*descriptors, *descriptors.values(), kept) + 1
    kept = fcntl.fcntl(kept, fcntl.F_DUPFD_CLOEXEC, above)
    copies = {fcntl.fcntl(given, fcntl.F_DUPFD_CLOEXEC, above): wanted for given, wanted in descriptors.items()}
    for given in descriptors:
        os.close(given)
    for copy, wanted in copies.items():
        os.dup2(copy, wanted)  # not closed when the command is executed
    return kept


def _register_parent(poller: select.poll, parent: int) -> bool:
    """Have the poll return when the parent ends, whatever else holds its end of the socket."""
    try:
        descriptor = os.pidfd_open(parent)
    except (AttributeError, OSError):
        return False
    poller.register(descriptor, select.POLLIN)
    return True


def _receive(control: int) -> bytes:
    try:
        return os.read(control, 100)
    except ConnectionError:
        return b""


def main() -> None:
    """Run as a program."""
    Warden(Options(sys.argv[1:])).run()
    os._exit(0)


if __name__ == "__main__":
    main()
