"""Databases with rows of a test's own making, on both dialects."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import and_, insert, select, update

from reprieve.adapters.sql import schema, tables
from reprieve.adapters.sql.engine import Database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import Connection, Table

NOW = 1_700_000_000.0


class Rows:
    """A database that tests put rows into, and look at what became of them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._database = Database.at(url, writes=True)

    def close(self) -> None:
        self._database.close()

    def add(self, table: str, **values: Any) -> None:
        with self._database.transaction() as connection:
            connection.execute(insert(tables.metadata.tables[table]).values(**values))

    def change(self, table: str, **values: Any) -> None:
        with self._database.transaction() as connection:
            connection.execute(update(tables.metadata.tables[table]).values(**values))

    def all(self, table: str) -> list[dict[str, Any]]:
        wanted = tables.metadata.tables[table]
        with self._database.transaction() as connection:
            return [dict(row) for row in connection.execute(select(wanted)).mappings()]

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with self._database.transaction() as connection:
            result = connection.exec_driver_sql(statement)
            return [tuple(row) for row in result] if result.returns_rows else []

    def job(self, job_id: int, **values: Any) -> None:
        defaults = {
            "id": job_id,
            "idempotency_key": f"key-{job_id}",
            "pipeline": "review",
            "first_stage": "fetch",
            "created_at": NOW + job_id,
            "payload_type": "Change",
            "payload": b"{}",
        }
        self.add("jobs", **(defaults | values))

    def queued(self, job_id: int, state: int = 0, *, job: dict[str, Any] | None = None, **values: Any) -> None:
        self.job(job_id, **(job or {}))
        needed = {1: {"worker_id": 1, "leased_at": NOW}, 2: {"run_at": NOW + 60}, 3: {"waits_on": "review"}}.get(
            state, {}
        )
        defaults = {"job_id": job_id, "pipeline": "review", "stage": "fetch", "priority": 0, "state": state, **needed}
        self.add("queue", **(defaults | values))

    def ended(
        self, job_id: int, status: str = "succeeded", *, job: dict[str, Any] | None = None, **values: Any
    ) -> None:
        self.job(job_id, **(job or {}))
        defaults = {
            "job_id": job_id,
            "status": status,
            "status_code": 599 if status == "dead_letter" else None,
            "stage": "notify",
            "fence": 1,
            "attempt": 1,
            "started_at": NOW + job_id + 1,
            "finished_at": NOW + job_id + 2,
            "result_type": "Review" if status == "succeeded" else None,
            "result": b'"done"' if status == "succeeded" else None,
        }
        self.add("outcomes", **(defaults | values))

    def checkpoint(self, job_id: int, stage: str = "fetch", **values: Any) -> None:
        defaults = {
            "job_id": job_id,
            "stage": stage,
            "fence": 1,
            "attempt": 1,
            "started_at": NOW,
            "finished_at": NOW + 1,
            "result_type": "Diff",
            "result": b'"diff"',
        }
        self.add("checkpoints", **(defaults | values))

    def memo(self, job_id: int, key: str = "part") -> None:
        self.add("memos", job_id=job_id, stage="llm", key=key, created_at=NOW, value=b"1")

    def revision(self, job_id: int, number: int = 1) -> None:
        values = {"replaced_at": NOW, "replaced_by": "ada", "payload_type": "Change", "payload": b"earlier"}
        self.add("revisions", job_id=job_id, number=number, **values)

    def attempt(self, job_id: int, **values: Any) -> None:
        defaults = {
            "job_id": job_id,
            "fence": 1,
            "stage": "fetch",
            "number": 1,
            "cause": "handler",
            "counted": True,
            "started_at": NOW,
            "ended_at": NOW + 1,
            "decision": "retry",
            "reason": "backoff",
            "error_class": "NETWORK_TIMEOUT",
            "category": "network",
            "error_type": "retryable",
            "error_retryable": True,
            "message": "slow",
            "signature": "slow",
            "fingerprint": "v1:1",
            "failure": "{}",
            "failure_count": 1,
            "retry_at": NOW + 3,
        }
        self.add("attempts", **(defaults | values))

    def letter(self, job_id: int, state: str = "open", **values: Any) -> int:
        """A dead letter with its texts, its group and what is counted of it; its id."""
        (letter_id,) = self.letters([{"job_id": job_id, "state": state} | values])
        return letter_id

    def letters(self, many: Iterable[dict[str, Any]]) -> list[int]:
        """Several, in one transaction; each says at least its job and its state."""
        with self._database.transaction() as connection:
            return add_letters(connection, [self.letter_values(**values) for values in many])

    def deaths(self, many: Iterable[dict[str, Any]]) -> list[int]:
        """Letters, with the attempts that buried their jobs."""
        letters = list(many)
        for values in letters:
            self.attempt(values["job_id"], decision="dead_letter", ended_at=values["last_failure_at"], retry_at=None)
        return self.letters(letters)

    @staticmethod
    def letter_values(job_id: int, state: str = "open", **values: Any) -> dict[str, Any]:
        defaults = {
            "job_id": job_id,
            "fence": 1,
            "state": state,
            "pipeline": "review",
            "stage": "notify",
            "error_class": "AUTH_DENIED",
            "category": "auth",
            "fingerprint": "v1:2",
            "signature": "denied",
            "message": "denied",
            "last_stack": "Traceback",
            "sanitized_context": "{}",
            "failure": "{}",
            "reason": "non_retryable",
            "policy": "criticizer",
            "attempts": 1,
            "budget": 5,
            "pages": False,
            "escalated": False,
            "replays": 1 if state in {"replaying", "replayed"} else 0,
            "first_failure_at": NOW,
            "last_failure_at": NOW + 1,
            "opened_at": NOW + 1,
            "closed_at": NOW + 2 if state in {"resolved", "discarded"} else None,
        }
        return defaults | values

    def entry(self, letter_id: int, event: str, before: str, after: str, **values: Any) -> None:
        defaults = {"at": NOW + 2, "actor": "ada", "note": "", "detail": "{}"}
        self.add(
            "dead_letter_history", letter_id=letter_id, event=event, before=before, after=after, **(defaults | values)
        )

    def worker(self, worker_id: int = 1, **values: Any) -> None:
        defaults = {"id": worker_id, "name": "w", "host": "h", "pid": 7, "started_at": NOW, "expires_at": NOW + 30}
        self.add("workers", **(defaults | values))

    def stage(self, stage: str, **values: Any) -> None:
        self.add("stages", **({"pipeline": "review", "stage": stage} | values))


def add_letters(connection: Connection, many: list[dict[str, Any]]) -> list[int]:
    """Insert dead letters with their texts, groups and counts. Return their ids."""
    letters, texts = tables.dead_letters, tables.dead_letter_texts
    groups = add_groups(connection, many)
    rows = [{"group_id": groups[kind_of(values)]} | values for values in many]
    adding = insert(letters).returning(letters.c.id, sort_by_parameter_order=True)
    ids = list(connection.scalars(adding, [only(letters, values) for values in rows]))
    connection.execute(
        insert(texts), [only(texts, values | {"letter_id": each}) for each, values in zip(ids, rows, strict=True)]
    )
    states = Counter((values["group_id"], values["state"]) for values in rows)
    for (group_id, state), number in states.items():
        _count(connection, tables.dead_letter_counts, "letters", {"group_id": group_id, "state": state}, number)
    deaths = Counter((int(values["last_failure_at"] // 3600), values["group_id"]) for values in rows)
    for (hour, group_id), number in deaths.items():
        _count(connection, tables.dead_letter_hours, "deaths", {"hour": hour, "group_id": group_id}, number)
    return ids


KIND = ("fingerprint", "pipeline", "stage", "error_class", "category")


def kind_of(values: dict[str, Any]) -> tuple[str, ...]:
    return tuple(values[name] for name in KIND)


def only(table: Table, values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in table.c}


def add_groups(connection: Connection, many: list[dict[str, Any]]) -> dict[tuple[str, ...], int]:
    """Insert or widen the groups of these dead letters. Return the ids of the groups by kind."""
    groups, ids = tables.dead_letter_groups, {}
    of_kind: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for values in many:
        of_kind.setdefault(kind_of(values), []).append(values)
    for kind, members in of_kind.items():
        times = [values["last_failure_at"] for values in members]
        named = dict(zip(KIND, kind, strict=True))
        same = and_(*(groups.c[name] == value for name, value in named.items()))
        group = connection.execute(select(groups).where(same)).one_or_none()
        if group is None:
            seen = {"signature": members[0]["signature"], "first_seen": min(times), "last_seen": max(times)}
            ids[kind] = connection.scalar(insert(groups).values(**named, **seen).returning(groups.c.id)) or 0
        else:
            ids[kind] = group.id
            seen = {"first_seen": min(group.first_seen, *times), "last_seen": max(group.last_seen, *times)}
            connection.execute(update(groups).where(same).values(**seen))
    return ids


def _count(connection: Connection, table: Table, column: str, key: dict[str, Any], number: int) -> None:
    here = and_(*(table.c[name] == value for name, value in key.items()))
    if not connection.execute(update(table).where(here).values({column: table.c[column] + number})).rowcount:
        connection.execute(insert(table).values(**key, **{column: number}))


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest) -> str:
    """A database without tables."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_url"))
    return str(request.getfixturevalue("postgres_databases").make(empty=True))


@pytest.fixture(params=["sqlite", "postgresql"])
def rows(request: pytest.FixtureRequest) -> Iterator[Rows]:
    """A database with our tables, and nothing in them."""
    if request.param == "sqlite":
        url = request.getfixturevalue("sqlite_url")
        schema.upgrade(url)
    else:
        url = request.getfixturevalue("postgres_url")
    database = Rows(url)
    yield database
    database.close()
