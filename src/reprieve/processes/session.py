"""Start a command below a warden, see how it ends, and kill it with everything that it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reprieve.processes import warden

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SECONDS_UNTIL_WARDEN_IS_KILLED: Final = 15.0
"""A warden that was told to kill its tree and is still there (stopped, or hanging in the kernel) is killed itself."""
_SECONDS_BETWEEN_LOOKS: Final = 0.002
_SECONDS_FOR_THE_REST: Final = 2.0
_LONGEST_LINE: Final = 65_536

_PROGRAM: Final = f"import sys; sys.path.append({str(Path(warden.__file__).parent)!r}); from warden import main; main()"
"""Imported and not run as a script: only then is it not compiled at every start."""

_wardens: Final[set[int]] = set()
"""Numbers of the wardens of this process that are not reaped yet: children that were not adopted."""
_is_subreaper = False


@dataclass(frozen=True, slots=True)
class WardenOptions:
    """What a warden does for its command."""

    descriptors: tuple[int, ...] = ()
    """What the command inherits under the numbers that they have here."""
    numbered: tuple[tuple[int, int], ...] = ()
    """What the command inherits: numbers here and there."""
    memory_bytes: int | None = None
    """What the command and its processes may use together: by a control group, else per process by RLIMIT_AS."""
    control_groups: bool = True
    """Put the tree into a control group of its own where one can be made."""
    orphan_grace_seconds: float = 0.0
    """When this process is gone: time between SIGTERM and SIGKILL. 0: SIGKILL at once."""
    clean_up: tuple[str, ...] = ()
    """A command that the warden runs at the end, after `clean_up()` or when this process is gone."""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a process ended."""

    code: int
    """As `subprocess` has it: negative where a signal ended it."""
    out_of_memory: bool = False
    """The system killed it, or a process that it started, for want of memory; false where that cannot be known."""
    leftovers: int = 0
    """How many processes that it had started were still there and were killed."""
    max_rss_bytes: int = 0
    cpu_seconds: float = 0.0
    start_error: str | None = None
    """Why the command could not be executed."""
    is_watched: bool = True
    """False where its warden was killed: then the code is a guess."""


def adopt_orphans() -> None:
    """Have processes whose warden was killed adopted by this process, which then kills them.

    For programs that start processes in no other way: every child that is not a warden is killed then.
    """
    global _is_subreaper  # noqa: PLW0603 - an attribute of the process, as the kernel has it
    _is_subreaper = warden.become_subreaper()


class SessionProcess:
    """A process in a session of its own, watched by a warden, so that nothing of it survives its end or ours.

    It belongs to the event loop that it was started in.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        options: WardenOptions | None = None,
        environment: Mapping[str, str] | None = None,
        output: tuple[int | None, int | None] = (None, None),
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        """Start it. Its standard input is empty and its output is ours, unless descriptors are given."""
        options = WardenOptions() if options is None else options
        loop = asyncio.get_running_loop()
        self._loop = loop
        self.started: asyncio.Future[int] = loop.create_future()
        """The process's own number; cancelled where the command could not be executed."""
        self.exited: asyncio.Future[ProcessExit] = loop.create_future()
        """Done when the whole tree is gone and the warden is reaped."""
        self.ended: asyncio.Future[ProcessExit] = loop.create_future()
        """Done when the command ended: earlier than `exited` where there is something to clean up."""
        self.memory_limit = "none"
        """`cgroup` or `rlimit` once it has started with a limit."""
        self._patience_seconds = _SECONDS_UNTIL_WARDEN_IS_KILLED + (
            warden.SECONDS_TO_CLEAN_UP if options.clean_up else 0
        )
        self._pid, self._start_ticks = 0, 0
        self._folders: list[str] = []
        self._received = b""
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)  # noqa: FBT003 - positional only
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - the command is the caller's
                    _warden_command(theirs.fileno(), command, options),
                    stdin=stdin,
                    stdout=output[0],
                    stderr=output[1],
                    env=None if environment is None else dict(environment),
                    pass_fds=(theirs.fileno(), *options.descriptors, *(here for here, _ in options.numbered)),
                    start_new_session=True,
                )
            except BaseException:
                self._control.close()
                raise
        _wardens.add(self._process.pid)
        loop.add_reader(self._control.fileno(), self._read)

    @property
    def pid(self) -> int:
        """The number of the process itself; 0 until its warden has told it."""
        return self._pid

    @property
    def warden_pid(self) -> int:
        """The number of its warden."""
        return self._process.pid

    def terminate(self, *, group: bool = False) -> None:
        """Send SIGTERM to it, or to its whole process group; nothing where it has ended."""
        self._send(warden.SIGTERM_GROUP if group else warden.SIGTERM_LEADER)

    def kill(self) -> None:
        """Kill it now, with everything that it started; nothing where it has ended."""
        if not self.exited.done():
            self._send(warden.KILL)
            self._loop.call_later(self._patience_seconds, self._kill_warden)

    def clean_up(self) -> None:
        """Let the warden run its clean-up and leave."""
        self._send(warden.CLEAN_UP)

    def _send(self, command: bytes) -> None:
        if not self.exited.done():
            with contextlib.suppress(OSError):  # the warden has just left
                self._control.send(command)

    def _kill_warden(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    def _read(self) -> None:
        try:
            data = self._control.recv(_LONGEST_LINE)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace").split(" "))
        if not data:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._reap()

    def _take(self, words: list[str]) -> None:
        match words:
            case ["started", pid, ticks, limit, *folders]:
                self._pid, self._start_ticks, self.memory_limit = int(pid), int(ticks), limit
                self._folders = folders
                if not self.started.done():
                    self.started.set_result(self._pid)
            case ["failed", code, *text]:
                self._end(ProcessExit(int(code), start_error=" ".join(text)))
            case ["ended", code, kills, left, rss, cpu]:
                exit_ = ProcessExit(int(code), kills != "0", int(left), int(rss), float(cpu))
                self._end(exit_)
            case _:
                pass

    def _end(self, exit_: ProcessExit) -> None:
        if not self.ended.done():
            self.ended.set_result(exit_)

    def _reap(self) -> None:
        """Reap the warden, which leaves at once after closing its socket."""
        if self._process.poll() is None:
            self._loop.call_later(_SECONDS_BETWEEN_LOOKS, self._reap)
            return
        _wardens.discard(self._process.pid)
        if self.ended.done():
            self._finish(self.ended.result())
        else:
            self._kill_rest(self._loop.time() + _SECONDS_FOR_THE_REST)

    def _kill_rest(self, deadline: float) -> None:
        """Kill what a killed warden left: the command is killed by the kernel, the rest by its session and groups."""
        rest = _session_of(self._pid, self._start_ticks)
        for pid in rest:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if self._pid and sys.platform != "linux":  # killpg(0) would kill the group of this process
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
        warden.kill_groups(self._folders)
        adopted = _kill_adopted()
        if (rest or adopted) and self._loop.time() < deadline:
            self._loop.call_later(_SECONDS_BETWEEN_LOOKS, self._kill_rest, deadline)
            return
        warden.remove_groups(self._folders)
        self._end(ProcessExit(-signal.SIGKILL, is_watched=False))
        self._finish(self.ended.result())

    def _finish(self, exit_: ProcessExit) -> None:
        if not self.started.done():
            self.started.cancel()
        if not self.exited.done():
            self.exited.set_result(exit_)


def _warden_command(control: int, command: Sequence[str], options: WardenOptions) -> list[str]:
    values = {
        "descriptors": ",".join(
            [*map(str, options.descriptors), *(f"{here}:{there}" for here, there in options.numbered)]
        ),
        "group": _group_name() if options.control_groups else "",
        "memory": str(options.memory_bytes or 0),
        "orphan_grace": str(options.orphan_grace_seconds),
        "clean_up": "\x1f".join(options.clean_up),
    }
    arguments = [f"{name}={value}" for name, value in values.items() if value not in {"", "0", "0.0"}]
    program = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(control), str(os.getpid())]
    return [*program, *arguments, "--", *command]


def _session_of(session: int, start_ticks: int) -> list[int]:
    """The living processes of a session, unless its number was given away again: then all of them are younger."""
    if session == 0:
        return []
    members = [each for each in warden.processes() if each.session == session and each.state != "Z"]
    leader = next((each for each in members if each.pid == session), None)
    return [] if leader is not None and leader.started != start_ticks else [each.pid for each in members]


def _kill_adopted() -> bool:
    """Kill and reap the children that this process adopted; whether there were any."""
    if not _is_subreaper:
        return False
    adopted = [pid for pid in warden.child_pids() if pid not in _wardens]
    for pid in adopted:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return bool(adopted)


# --- control groups that were left behind -----------------------------------------------------------------------------


@cache
def owner_identity(pid: int) -> str:
    """Name a process so that no later one has the same name: its namespace, number and start.

    Returns: `NAMESPACE-PID-TICKS`; the same for every call in one process.
    """
    entry = warden.process_entry(pid)
    return f"{_pid_namespace()}-{pid}-{0 if entry is None else entry.started}"


def is_owner_gone(identity: str) -> bool:
    """Whether the process of an identity has ended. False for those of other namespaces, which cannot be judged."""
    try:
        namespace, pid, ticks = map(int, identity.split("-"))
    except ValueError:
        return False
    if namespace != _pid_namespace():
        return False
    entry = warden.process_entry(pid)
    return entry is None or entry.started != ticks or entry.state == "Z"


def sweep_groups() -> int:
    """Kill and remove the control groups of processes that were killed together with their wardens; how many."""
    swept = 0
    for parent in warden.own_group_folders():
        try:
            names = [each.name for each in Path(parent).iterdir()]
        except OSError:
            continue
        for name in names:
            identity, _, _ = name.removeprefix("reprieve-").rpartition("-")
            if name.startswith("reprieve-") and is_owner_gone(identity):
                warden.kill_groups([f"{parent}/{name}"])
                swept += warden.remove_groups([f"{parent}/{name}"])
    return swept


def _group_name() -> str:
    _sweep_once(os.getpid())
    return f"reprieve-{owner_identity(os.getpid())}-{secrets.token_hex(4)}"


@cache
def _sweep_once(pid: int) -> None:  # noqa: ARG001 - once in every process, forked ones too
    sweep_groups()


@cache
def _pid_namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
