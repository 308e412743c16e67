"""Worker processes that tests start, kill and stop, and what the database and the stages' own file say of them afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func
from sqlalchemy import select as select_from

from reprieve.adapters.sql import tables
from reprieve.adapters.sql.engine import Database

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

PROGRAMS = Path(__file__).parent / "programs"
sys.path.insert(0, str(PROGRAMS))

import engine_pipelines  # noqa: E402 - found only now

import reprieve  # noqa: E402 - the same

LONG = 60.0
"""Seconds after which something that has to happen is taken not to: never reached by a test that passes."""


def until(true: Callable[[], Any], what: str, *, within: float = LONG) -> Any:
    """Wait for something; its value, once that is true."""
    deadline = time.monotonic() + within
    while not (value := true()):
        assert time.monotonic() < deadline, f"{what}: not within {within:g} s"
        time.sleep(0.01)
    return value


class Nursery:
    """A process that has loaded everything, from which workers are forked; tells how they end."""

    def __init__(self, program: Path) -> None:
        self._popen = subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._heard = b""
        self._started: list[int] = []
        self.ended: dict[int, int] = {}

    def start(self, **wanted: Any) -> int:
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(wanted).encode() + b"\n")
        self._popen.stdin.flush()
        while not self._started:
            self.listen(LONG)
        return self._started.pop()

    def listen(self, seconds: float = 0.0) -> None:
        """Hear what there is to hear."""
        assert self._popen.stdout is not None
        readable, _, _ = select.select([self._popen.stdout], [], [], seconds)
        if not readable:
            return
        self._heard += os.read(self._popen.stdout.fileno(), 65536)
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            word, pid, *code = line.split()
            if word == b"started":
                self._started.append(int(pid))
            else:
                self.ended[int(pid)] = int(code[0])

    def close(self) -> None:
        self._popen.communicate(timeout=LONG)


class Process:
    """A worker that runs."""

    def __init__(self, nursery: Nursery, url: str, file: Path, errors: Path, options: dict[str, Any]) -> None:
        self._nursery, self._errors = nursery, errors
        self.pid = nursery.start(url=url, file=str(file), errors=str(errors), options=options)

    @property
    def code(self) -> int | None:
        """How it ended, once it has: negative where a signal did it."""
        self._nursery.listen()
        return self._nursery.ended.get(self.pid)

    def said(self) -> str:
        return self._errors.read_text() if self._errors.exists() else ""

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send(signal.SIGKILL)
        self.wait()

    def stop(self, *, within: float = LONG) -> int:
        """Ask it to end; its exit code."""
        self.send(signal.SIGTERM)
        return self.wait(within=within)

    def wait(self, *, within: float = LONG) -> int:
        """Its exit code, once it has ended."""
        until(lambda: self.code is not None, f"the process {self.pid} ends", within=within)
        return self._nursery.ended[self.pid]


class Lab:
    """A database, the file that the stages write, and the processes that work on both."""

    def __init__(self, nursery: Nursery, url: str, folder: Path) -> None:
        self._nursery = nursery
        self.url = url
        self.folder = folder
        self.file = folder / "runs"
        self.processes: list[Process] = []
        self._database = Database.at(url, writes=False)
        self._opened = [self._database]

    # --- doing

    def start(self, **options: Any) -> Process:
        process = Process(self._nursery, self.url, self.file, self.folder / f"errors-{len(self.processes)}", options)
        self.processes.append(process)
        return process

    def submit(self, *works: engine_pipelines.Work, pipeline: str = "campaign", **options: Any) -> list[int]:
        """Jobs, one for each; their ids."""
        wanted = [reprieve.Item(work, **options) for work in works]
        return asyncio.run(self._submit(engine_pipelines.PIPELINES[pipeline], wanted))

    async def _submit(self, pipeline: reprieve.Pipeline, items: list[reprieve.Item]) -> list[int]:
        async with reprieve.connect(self.url) as app:
            return [made.job_id for made in await app.submit_many(pipeline, items)]

    def operate(self, main: Callable[[Any], Awaitable[Any]]) -> Any:
        """Do something as an operator does it, beside the workers."""

        async def opened() -> Any:
            async with reprieve.connect(self.url) as app:
                return await main(app.operations)

        return asyncio.run(opened())

    def close(self) -> None:
        for process in self.processes:
            if process.code is None:
                process.send(signal.SIGCONT)
                process.kill()
        for database in self._opened:
            database.close()

    def writing(self) -> Any:
        """A transaction behind the engine's back."""
        database = Database.at(self.url, writes=True)
        self._opened.append(database)
        return database.transaction()

    # --- looking

    def until(self, true: Callable[[], Any], what: str, *, within: float = LONG) -> Any:
        """Wait for something; if it does not come, say how things stand."""
        try:
            return until(true, what, within=within)
        except AssertionError as error:
            for name in ("queue", "workers", "stages"):
                error.add_note("\n".join([f"{name}:", *map(str, self.rows(name)[:10])]))
            for process in self.processes:
                error.add_note(f"{process.pid} ({process.code}) said:\n{process.said()[-3000:]}")
            raise

    def lines(self, what: str = "", **where: Any) -> list[engine_pipelines.Line]:
        return [
            line
            for line in engine_pipelines.read(self.file)
            if what in ("", line.what) and all(getattr(line, name) == value for name, value in where.items())
        ]

    def rows(self, table: str, **where: Any) -> list[dict[str, Any]]:
        wanted = tables.metadata.tables[table]
        query = select_from(wanted).filter_by(**where).order_by(*wanted.primary_key.columns)
        with self._database.transaction() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def count(self, table: str, **where: Any) -> int:
        query = select_from(func.count()).select_from(tables.metadata.tables[table]).filter_by(**where)
        with self._database.transaction() as connection:
            return int(connection.execute(query).scalar_one())

    def outcomes(self) -> dict[int, str]:
        return {row["job_id"]: row["status"] for row in self.rows("outcomes")}

    def finish(self, *, within: float = LONG) -> None:
        """Wait until every job is over."""
        self.until(lambda: self.count("queue") == 0, "every job is over", within=within)

    def orphans(self) -> Any:
        from reprieve.adapters.sql.reader import SqlReader  # noqa: PLC0415 - only here

        reader = SqlReader(self.url)
        try:
            return reader.orphans(limit=10)
        finally:
            reader.close()

    def complain(self) -> list[str]:
        """Everything that a process said which nobody should have to read."""
        said = [process.said() for process in self.processes]
        return [text for text in said if "Traceback" in text or "never retrieved" in text]

    def check(self, ids: list[int], *, killed: frozenset[int] = frozenset()) -> None:
        """What has to be true however often processes died."""
        assert sorted(self.outcomes()) == sorted(ids), "every job has ended, once"
        assert self.count("queue") == 0
        self._check_acknowledged()
        self._check_remembered()
        self._check_handler_attempts()
        self._check_deaths(killed)
        assert self.complain() == []

    def _check_acknowledged(self) -> None:
        """The run whose result was kept is the last one of its stage, and the one that the next stage was given."""
        kept = {(row["job_id"], row["stage"]): json.loads(row["result"]) for row in self.rows("checkpoints")}
        for row in self.rows("outcomes", status="succeeded"):
            kept[row["job_id"], row["stage"]] = json.loads(row["result"])
        begun: dict[tuple[int, str], str] = {}
        for line in self.lines("begin"):
            begun[line.job, line.stage] = line.run
            before = {"llm": "fetch", "notify": "llm"}.get(line.stage)
            if before is not None:
                assert line.given == kept[line.job, before], "no acknowledged result was replaced"
        for place, run in kept.items():
            assert begun[place] == run, f"{place} was run again after it was acknowledged"

    def _check_remembered(self) -> None:
        """What was once kept is not made again."""
        kept = set()
        for line in self.lines():
            if line.what == "keep":
                kept.add((line.job, line.stage))
            assert line.what != "make" or (line.job, line.stage) not in kept

    def _check_handler_attempts(self) -> None:
        """Of each attempt that a stage failed there is one row, and of nothing else."""
        recorded = defaultdict(list)
        for row in self.rows("attempts", cause="handler"):
            assert row["counted"]
            recorded[row["job_id"], row["stage"]].append(row["number"])
        failed = defaultdict(set)
        for line in self.lines("fail"):
            failed[line.job, line.stage].add(line.attempt)
        cancelled = {row["job_id"] for row in self.rows("outcomes", status="cancelled")}
        for place in failed.keys() | recorded.keys():
            # Of a job that was cancelled meanwhile the last failure need not be told.
            missing = failed[place] - set(recorded[place])
            assert not missing or (place[0] in cancelled and missing == {max(failed[place])})
            assert sorted(set(recorded[place])) == recorded[place]
            assert set(recorded[place]) <= failed[place]

    def _check_deaths(self, killed: frozenset[int]) -> None:
        """A crash is told of processes that were killed, once a job; and of every stage that was cut off by one."""
        told = defaultdict(list)
        for row in self.rows("attempts", cause="crash"):
            told[int(row["message"].split(":")[1].split()[0])].append(row["job_id"])
        assert set(told) <= killed
        assert all(len(jobs) == len(set(jobs)) for jobs in told.values())
        kept = {
            json.loads(row["result"]) for row in self.rows("checkpoints") + self.rows("outcomes", status="succeeded")
        }
        last: dict[tuple[int, int], engine_pipelines.Line] = {}
        for line in self.lines():
            last[line.job, line.pid] = line
        cancelled = {row["job_id"] for row in self.rows("outcomes", status="cancelled")}
        for (job, pid), line in last.items():
            if line.what in {"begin", "make", "keep"} and line.run not in kept and job not in cancelled:
                assert job in told[pid], f"job {job} was running when {pid} was killed"


@pytest.fixture
def sqlite_url(tmp_path: Path) -> Iterator[str]:
    """A file in memory, where the system has that: no test cuts the power, and processes that die lose nothing there."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="reprieve-", dir=memory if memory.is_dir() else tmp_path) as folder:
        yield f"sqlite:///{folder}/jobs.db"


@pytest.fixture(scope="session")
def open_nursery() -> Iterator[Callable[[Path], Nursery]]:
    """Makes nurseries of programs that are workers."""
    made: list[Nursery] = []

    def make(program: Path) -> Nursery:
        made.append(Nursery(program))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="session")
def nursery(open_nursery: Callable[[Path], Nursery]) -> Nursery:
    """Where workers come from."""
    return open_nursery(PROGRAMS / "engine_worker.py")


@pytest.fixture
def open_lab(nursery: Nursery, tmp_path: Path) -> Iterator[Callable[[str], Lab]]:
    """Makes laboratories on databases that there are."""
    made: list[Lab] = []

    def make(url: str) -> Lab:
        made.append(Lab(nursery, url, tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def lab(store_url: str, open_lab: Callable[[str], Lab]) -> Lab:
    """A laboratory on each of the two databases."""
    return open_lab(store_url)


@pytest.fixture
def postgres_lab(postgres_url: str, open_lab: Callable[[str], Lab]) -> Lab:
    """A laboratory on PostgreSQL."""
    return open_lab(postgres_url)


@pytest.fixture
def sqlite_lab(sqlite_url: str, open_lab: Callable[[str], Lab]) -> Lab:
    """A laboratory on SQLite."""
    return open_lab(sqlite_url)


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Leaves a line in the report, and on the terminal where that is asked for (`-s`)."""

    def say(line: str) -> None:
        request.node.user_properties.append(("figures", line))
        print(f"\n{request.node.name}: {line}")  # noqa: T201 - what was measured is for people

    return say
