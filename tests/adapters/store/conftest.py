"""A desk at which a test hands intents to a store, one after another, and looks at the rows that they leave."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path
from shutil import copy
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import QueuePool, create_engine, select, text

from reprieve.adapters.sql import schema, tables
from reprieve.adapters.sql.address import SqliteAddress, parse
from reprieve.adapters.sql.postgres import PostgresStore
from reprieve.adapters.sql.sqlite import SqliteStore
from reprieve.core.lifecycle import JobStatus
from reprieve.core.policy import Cause
from reprieve.ports import intents as i
from reprieve.testing import FakeClock
from support.databases import EMPTYING, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

    from sqlalchemy import Engine

    from reprieve.ports.store import Store

sys.path.insert(0, str(Path(__file__).parent / "model"))

from letters_audit import audit
from letters_lab import Letters

NOW = 1_700_000_000.0
ALL_ROWS = {name: select(table).order_by(*table.primary_key.columns) for name, table in tables.metadata.tables.items()}


def engine_of(url: str) -> Engine:
    """For looking at rows, on one connection."""
    address = parse(url)
    if isinstance(address, SqliteAddress):
        path = address.path or ""
        return create_engine("sqlite://", creator=lambda: sqlite3.connect(path, timeout=10), poolclass=QueuePool)
    server = address.url
    return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(server), poolclass=QueuePool)


def plain(value: Any) -> Any:
    """A moment as seconds, whatever the driver gives."""
    return value.timestamp() if hasattr(value, "timestamp") else value


def emptying(url: str) -> list[str]:
    """Statements that leave the tables as they were made."""
    if url.startswith("sqlite"):
        return [*(f"DELETE FROM {name}" for name in TABLES), "DELETE FROM sqlite_sequence"]
    return list(EMPTYING)


def store_at(url: str, clock: FakeClock) -> Store:
    return (SqliteStore if url.startswith("sqlite") else PostgresStore)(url, clock=clock)


class Desk:
    """A store, driven from plain code; every intent is a batch of its own unless `batch` is used."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = FakeClock(now=NOW)
        self._runner = asyncio.Runner()
        self._opened: list[Store] = []
        self._engine = engine_of(url)
        self._tampered = False
        self.store = self.another()

    def another(self) -> Store:
        """One more store on the same database."""
        store = store_at(self.url, self.clock)
        self.run(store.open())
        self._opened.append(store)
        return store

    def audit(self) -> None:
        """Everything about dead letters agrees, unless the test went behind the store's back."""
        if not self._tampered:
            audit(self.everything())

    def close(self) -> None:
        try:
            self.audit()
        finally:
            for store in self._opened:
                self.run(store.close())
            self._runner.close()
            self._engine.dispose()

    def empty(self) -> None:
        """Begin anew, with the same ids."""
        with self._engine.begin() as connection:
            for statement in emptying(self.url):
                connection.execute(text(statement))

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(coroutine)

    # --- doing

    def batch(self, *intents: i.Intent, again: bool = False) -> list[Any]:
        return list(self.run(self.store.apply(intents, again=again)))

    def do(self, intent: i.Intent, *, again: bool = False) -> Any:
        (answer,) = self.batch(intent, again=again)
        return answer

    def submit(self, key: str = "key", **values: Any) -> int:
        """A job that must be new; its id."""
        answer = self.do(submission(key, **values))
        assert isinstance(answer, i.Submitted)
        assert not answer.duplicate
        return answer.job_id

    def register(self, *stages: str, now: float = NOW, expires_at: float = NOW + 60) -> int:
        pairs = tuple(("review", stage) for stage in stages or ("fetch",))
        return self.do(i.Register(name="w", host="h", pid=7, stages=pairs, now=now, expires_at=expires_at))

    def claimed(self, worker_id: int = 1, *stages: str, **values: Any) -> i.Claimed:
        wanted = {("review", stage): 100 for stage in stages or ("fetch",)}
        defaults = {"capacity": 100, "stages": wanted, "now": NOW}
        self.know(worker_id)
        return self.do(i.Claim(worker_id=worker_id, **(defaults | values)))

    def know(self, worker_id: int) -> None:
        """Have a worker of this id, unless there is one: only who is known may claim."""
        with self._engine.begin() as connection:
            if connection.execute(text(f"SELECT 1 FROM workers WHERE id = {worker_id}")).fetchone() is None:
                about = {"name": "w", "host": "h", "pid": 7, "started_at": NOW, "expires_at": NOW + 60}
                connection.execute(tables.workers.insert().values(id=worker_id, **about))
                if self.url.startswith("postgresql"):
                    connection.execute(text("SELECT setval('workers_id_seq', (SELECT max(id) FROM workers))"))

    def claim(self, worker_id: int = 1, *stages: str, **values: Any) -> tuple[i.Lease, ...]:
        return self.claimed(worker_id, *stages, **values).leases

    def lease(self, key: str = "key", worker_id: int = 1, **values: Any) -> i.Lease:
        """A job of its own, submitted and claimed."""
        job_id = self.submit(key, **values)
        return next(lease for lease in self.claim(worker_id) if lease.job_id == job_id)

    def bring(self, state: i.QueueState, key: str = "key", **values: Any) -> int:
        """A job that stands in the queue like this."""
        match state:
            case i.QueueState.READY:
                return self.submit(key, **values)
            case i.QueueState.SCHEDULED:
                return self.submit(key, run_at=NOW + 1000, **values)
            case i.QueueState.LEASED:
                return self.lease(key, **values).job_id
            case i.QueueState.WAITING:
                lease = self.lease(key, **values)
                self.do(i.Await(job_id=lease.job_id, fence=lease.fence, waits_on="deploy:x", now=NOW))
                return lease.job_id
            case i.QueueState.SUSPECT:
                lease = self.lease(key, **values)
                self.do(i.Release(job_id=lease.job_id, fence=lease.fence, counters=i.Counters(crash=1), now=NOW))
                return lease.job_id

    # --- looking

    def rows(self, table: str, **where: Any) -> list[dict[str, Any]]:
        wanted = tables.metadata.tables[table]
        query = select(wanted).order_by(*wanted.primary_key.columns)
        for name, value in where.items():
            query = query.where(wanted.c[name] == value)
        with self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def row(self, table: str, **where: Any) -> dict[str, Any] | None:
        found = self.rows(table, **where)
        assert len(found) <= 1
        return found[0] if found else None

    def queued(self, job_id: int) -> dict[str, Any] | None:
        return self.row("queue", job_id=job_id)

    def state(self, job_id: int) -> i.QueueState | None:
        row = self.queued(job_id)
        return None if row is None else i.QueueState(row["state"])

    def outcome(self, job_id: int) -> dict[str, Any] | None:
        return self.row("outcomes", job_id=job_id)

    def letter(self, job_id: int) -> dict[str, Any] | None:
        """What `dead_letter_queue` shows of a job's dead letter; times as seconds."""
        wanted = text("SELECT * FROM dead_letter_queue WHERE job_id = :job_id")
        with self._engine.connect() as connection:
            found = connection.execute(wanted, {"job_id": job_id}).mappings().all()
        assert len(found) <= 1
        kinds = {"pages": bool, "escalated": bool}
        return {name: kinds.get(name, plain)(value) for name, value in found[0].items()} if found else None

    def history(self, letter_id: int) -> list[dict[str, Any]]:
        """Its entries, the oldest first."""
        return self.rows("dead_letter_history", letter_id=letter_id)

    def stage(self, stage: str = "fetch") -> dict[str, Any] | None:
        return self.row("stages", pipeline="review", stage=stage)

    def everything(self, names: Iterable[str] = ALL_ROWS) -> dict[str, list[dict[str, Any]]]:
        """All rows of these tables, in the order of their keys."""
        with self._engine.connect() as connection:
            return {name: [row._asdict() for row in connection.execute(ALL_ROWS[name])] for name in names}

    def shown(self, job_id: int) -> dict[str, Any]:
        """What `ingestion_queue` shows of a job."""
        with self._engine.connect() as connection:
            (row,) = connection.execute(text("SELECT * FROM ingestion_queue WHERE id = :id"), {"id": job_id}).mappings()
        values = dict(row)
        for name in ("last_error_at", "retry_after"):
            if hasattr(values[name], "timestamp"):
                values[name] = values[name].timestamp()
        return values

    def status(self, job_id: int) -> JobStatus:
        return JobStatus(self.shown(job_id)["status"])

    def write(self, statement: str, **values: Any) -> None:
        """Go behind the store's back."""
        self._tampered = True
        with self._engine.begin() as connection:
            connection.execute(text(statement), values)


# --- intents with values that do not matter --------------------------------------------------------------------------------


def submission(key: str = "key", **values: Any) -> i.Submit:
    defaults = {"pipeline": "review", "stage": "fetch", "payload": b"{}", "payload_type": "Change", "created_at": NOW}
    return i.Submit(idempotency_key=key, **(defaults | values))


def attempt(**values: Any) -> i.AttemptRecord:
    defaults = {
        "stage": "fetch", "number": 1, "cause": Cause.HANDLER, "counted": True, "started_at": NOW, "ended_at": NOW + 1,
        "worker_id": 1, "decision": "retry", "reason": "backoff", "error_class": "NETWORK_TIMEOUT", "category": "network",
        "error_type": "retryable", "error_retryable": True, "status_code": None, "message": "it was slow",
        "signature": "it was slow", "fingerprint": "v1:1", "failure": "{}", "failure_count": 1, "retry_at": NOW + 3,
    }  # fmt: skip
    return i.AttemptRecord(**(defaults | values))


def letter(**values: Any) -> i.DeadLetterRecord:
    defaults = {
        "pipeline": "review", "stage": "fetch", "error_class": "NETWORK_TIMEOUT", "category": "network", "fingerprint": "v1:1",
        "signature": "it was slow", "message": "it was slow", "last_stack": "Traceback", "sanitized_context": "{}",
        "failure": "{}", "reason": "budget_spent", "policy": "criticizer", "attempts": 5, "budget": 5, "status_code": 503,
        "pages": False, "escalated": False, "last_failure_at": NOW + 1,
    }  # fmt: skip
    return i.DeadLetterRecord(**(defaults | values))


class Reports:
    """What a worker can say about a job that it holds; each by its name."""

    attempt = staticmethod(attempt)
    letter = staticmethod(letter)

    @staticmethod
    def checkpoint(job_id: int, fence: int, **values: Any) -> i.Checkpoint:
        defaults = {
            "stage": "fetch", "next_stage": "llm", "result": b'"diff"', "result_type": "Diff", "attempt": 1,
            "started_at": NOW, "finished_at": NOW + 1,
        }  # fmt: skip
        return i.Checkpoint(job_id=job_id, fence=fence, **(defaults | values))

    @staticmethod
    def finish(job_id: int, fence: int, **values: Any) -> i.Finish:
        defaults = {
            "stage": "fetch", "result": b'"done"', "result_type": "Review", "attempt": 1, "started_at": NOW,
            "finished_at": NOW + 1,
        }  # fmt: skip
        return i.Finish(job_id=job_id, fence=fence, **(defaults | values))

    @staticmethod
    def retry(job_id: int, fence: int, **values: Any) -> i.Retry:
        defaults = {
            "stage": "fetch", "run_at": NOW + 3, "counters": i.Counters(handler=1), "opened_at": NOW, "attempt": attempt(),
        }  # fmt: skip
        return i.Retry(job_id=job_id, fence=fence, **(defaults | values))

    @staticmethod
    def bury(job_id: int, fence: int, **values: Any) -> i.Bury:
        defaults = {"attempt": attempt(decision="dead_letter", retry_at=None, number=5), "letter": letter()}
        return i.Bury(job_id=job_id, fence=fence, **(defaults | values))

    @staticmethod
    def skip(job_id: int, fence: int, **values: Any) -> i.SetAside:
        return Reports.review(job_id, fence, **({"status": JobStatus.SKIPPED} | values))

    @staticmethod
    def review(job_id: int, fence: int, **values: Any) -> i.SetAside:
        defaults = {
            "status": JobStatus.NEEDS_REVIEW, "attempt": attempt(decision="park", retry_at=None),
            "counters": i.Counters(handler=1),
        }  # fmt: skip
        return i.SetAside(job_id=job_id, fence=fence, **(defaults | values))

    @staticmethod
    def wait(job_id: int, fence: int, **values: Any) -> i.Await:
        return i.Await(job_id=job_id, fence=fence, **({"waits_on": "deploy:Diff", "now": NOW + 1} | values))

    @staticmethod
    def release(job_id: int, fence: int, **values: Any) -> i.Release:
        return i.Release(job_id=job_id, fence=fence, **({"counters": i.Counters(deploy=1), "now": NOW + 1} | values))

    @staticmethod
    def remember(job_id: int, fence: int, **values: Any) -> i.Remember:
        defaults = {"stage": "fetch", "key": "part", "value": b"1", "now": NOW + 1}
        return i.Remember(job_id=job_id, fence=fence, **(defaults | values))

    @staticmethod
    def complete(job_id: int, fence: int, **values: Any) -> i.Complete:
        defaults = {"stage": "fetch", "result": b'"done"', "result_type": "Review", "now": NOW + 1}
        return i.Complete(job_id=job_id, fence=fence, **(defaults | values))

    @staticmethod
    def stop(job_id: int, fence: int, **values: Any) -> i.Stop:
        return i.Stop(job_id=job_id, fence=fence, **({"now": NOW + 1} | values))

    @staticmethod
    def cancel(job_id: int, **values: Any) -> i.Cancel:
        return i.Cancel(job_id=job_id, **({"actor": "ann", "reason": "not needed", "now": NOW + 1} | values))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with our tables, to be copied: faster than making them."""
    path = tmp_path_factory.mktemp("template") / "jobs.db"
    schema.upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    """A desk at each of the two stores."""
    if request.param == "sqlite":
        url = f"sqlite:///{copy(request.getfixturevalue('template'), tmp_path / 'jobs.db')}"
    else:
        url = request.getfixturevalue("postgres_url")
    desk = Desk(url)
    yield desk
    desk.close()


@pytest.fixture
def sqlite_desk(sqlite_url: str) -> Iterator[Desk]:
    """A desk at SQLite alone."""
    desk = Desk(sqlite_url)
    yield desk
    desk.close()


@pytest.fixture
def postgres_desk(postgres_url: str) -> Iterator[Desk]:
    """A desk at PostgreSQL alone."""
    desk = Desk(postgres_url)
    yield desk
    desk.close()


@pytest.fixture(scope="session")
def say() -> type[Reports]:
    """What a worker can say."""
    return Reports


@pytest.fixture
def lab(desk: Desk) -> Letters:
    """Dead letters in any state, at each of the two stores."""
    return Letters(desk, Reports)


@pytest.fixture
def postgres_lab(postgres_desk: Desk) -> Letters:
    """The same at PostgreSQL alone."""
    return Letters(postgres_desk, Reports)


@pytest.fixture(scope="session")
def submits() -> Callable[..., i.Submit]:
    """Submissions with values that do not matter."""
    return submission
