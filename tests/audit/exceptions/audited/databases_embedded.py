"""SQLite's real result codes, bare and through SQLAlchemy, and what SQLAlchemy itself raises."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Final

import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.pool import QueuePool

from audited.case import (
    AWAY,
    CONFIGURATION,
    CONFLICT,
    NOT_FOUND,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    stop,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from audited.lab import Lab

CODE: Final = CONFIGURATION | VALIDATION
TABLE: Final = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, age INT CHECK (age >= 0))"
CHILD: Final = "PRAGMA foreign_keys = ON; CREATE TABLE c (t INTEGER REFERENCES t (id))"
GUARD: Final = "CREATE TRIGGER g BEFORE INSERT ON t BEGIN SELECT RAISE(ABORT, 'not today'); END"
ADA: Final = "INSERT INTO t VALUES (1, 'ada', 1)"


def bare(*statements: str) -> Callable[[Lab], object]:
    """Run these on a database in memory by sqlite3."""

    def provoke(_: Lab) -> object:
        with closing(sqlite3.connect(":memory:")) as connection:
            for statement in statements[:-1]:
                connection.executescript(statement)
            return connection.execute(statements[-1])

    return provoke


def wrapped(*statements: str) -> Callable[[Lab], object]:
    """Run these on a database in memory by SQLAlchemy."""

    def provoke(_: Lab) -> object:
        engine = sqlalchemy.create_engine("sqlite://")
        try:
            with engine.begin() as connection:
                for statement in statements:
                    for part in statement.split("; ") if "TRIGGER" not in statement else [statement]:
                        connection.exec_driver_sql(part)
        finally:
            engine.dispose()

    return provoke


def cases() -> Iterator[Case]:
    """All of them."""
    for library, prefix, run in (("sqlite3", "sqlite3", bare), ("sqlalchemy", "SQLAlchemy sqlite3", wrapped)):
        yield retry(
            library, f"{prefix} UNIQUE", run(TABLE, ADA, "INSERT INTO t VALUES (2, 'ada', 1)"), CONFLICT, "decision 4"
        )
        yield retry(
            library,
            f"{prefix} PRIMARY KEY",
            run(TABLE, ADA, "INSERT INTO t VALUES (1, 'bob', 1)"),
            CONFLICT,
            "decision 4",
        )
        yield stop(library, f"{prefix} NOT NULL", run(TABLE, "INSERT INTO t VALUES (1, NULL, 1)"), VALIDATION, "notes")
        yield stop(library, f"{prefix} CHECK", run(TABLE, "INSERT INTO t VALUES (1, 'a', -1)"), VALIDATION, "notes")
        yield stop(library, f"{prefix} FOREIGN KEY", run(TABLE, CHILD, "INSERT INTO c VALUES (7)"), VALIDATION, "notes")
        yield stop(
            library, f"{prefix} trigger", run(TABLE, GUARD, ADA), VALIDATION, "notes: other CONSTRAINT permanent"
        )
        yield stop(
            library,
            f"{prefix} no such table",
            run("SELECT * FROM nowhere"),
            CODE | NOT_FOUND,
            "a bug or a missing migration",
        )
        yield stop(library, f"{prefix} syntax", run("SELEKT 1"), CODE, "a bug")
        yield stop(
            library, f"{prefix} MISMATCH", run(TABLE, "INSERT INTO t VALUES ('x', 'a', 1)"), VALIDATION, "wrong data"
        )
    yield from _files()
    yield from _interface()
    yield from _sqlalchemy()


def _busy(lab: Lab) -> object:
    path = lab.folder / "busy.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as one, closing(sqlite3.connect(path, timeout=0)) as two:
        one.execute("BEGIN IMMEDIATE")
        return two.execute("BEGIN IMMEDIATE")


def _busy_wrapped(lab: Lab) -> object:
    path = lab.folder / "busy2.db"
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0})
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as one, engine.connect() as two:
            one.execute("BEGIN IMMEDIATE")
            return two.exec_driver_sql("BEGIN IMMEDIATE")
    finally:
        engine.dispose()


def _snapshot(lab: Lab) -> object:
    path = lab.folder / "snapshot.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as one,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as two,
    ):
        one.execute("PRAGMA journal_mode = WAL")
        one.execute("CREATE TABLE IF NOT EXISTS t (id INT)")
        two.execute("BEGIN")
        two.execute("SELECT * FROM t").fetchall()
        one.execute("INSERT INTO t VALUES (1)")
        return two.execute("INSERT INTO t VALUES (2)")


def _locked(_: Lab) -> object:
    name = "file:audit?mode=memory&cache=shared"
    with (
        closing(sqlite3.connect(name, uri=True, isolation_level=None)) as one,
        closing(sqlite3.connect(name, uri=True, timeout=0)) as two,
    ):
        one.execute("CREATE TABLE t (id INT)")
        one.execute("BEGIN IMMEDIATE")
        one.execute("INSERT INTO t VALUES (1)")
        return two.execute("SELECT * FROM t").fetchall()


def _readonly(lab: Lab) -> object:
    path = lab.folder / "readonly.db"
    sqlite3.connect(path).close()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(TABLE)


def _not_a_database(lab: Lab) -> object:
    path = lab.folder / "text.db"
    path.write_text("this is a letter, not a database, and it is long enough to be read as a header " * 20)
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM sqlite_master").fetchall()


def _corrupt(lab: Lab) -> object:
    path = lab.folder / "corrupt.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLE)
        connection.executemany("INSERT INTO t VALUES (?, ?, 1)", [(i, f"name {i}") for i in range(2000)])
        connection.commit()
    data = bytearray(path.read_bytes())
    data[4096:16384] = b"\xff" * (16384 - 4096)
    path.write_bytes(bytes(data))
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM t WHERE age = 1").fetchall()


def _full(_: Lab) -> object:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA max_page_count = 3")
        connection.execute("CREATE TABLE t (x)")
        return connection.executemany("INSERT INTO t VALUES (?)", [("x" * 4000,)] * 50)


def _too_big(_: Lab) -> object:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
        return connection.execute("SELECT ?", ("x" * 5000,)).fetchall()


def _files() -> Iterator[Case]:
    yield retry("sqlite3", "sqlite3 BUSY", _busy, UPSTREAM | CONFLICT, "notes: BUSY retry", error_class="LOCK_TIMEOUT")
    yield retry("sqlalchemy", "SQLAlchemy sqlite3 BUSY", _busy_wrapped, UPSTREAM | CONFLICT, "notes: BUSY retry")
    yield retry("sqlite3", "sqlite3 BUSY_SNAPSHOT", _snapshot, UPSTREAM | CONFLICT, "notes: BUSY retry")
    yield retry("sqlite3", "sqlite3 LOCKED", _locked, UPSTREAM | CONFLICT, "notes: LOCKED retry")
    yield stop("sqlite3", "sqlite3 READONLY", _readonly, CONFIGURATION, "notes: READONLY permanent")
    yield stop("sqlite3", "sqlite3 NOTADB", _not_a_database, CONFIGURATION, "notes", error_class="STORAGE_CORRUPT")
    yield stop("sqlite3", "sqlite3 CORRUPT", _corrupt, CONFIGURATION, "notes", error_class="STORAGE_CORRUPT")
    yield retry("sqlite3", "sqlite3 FULL", _full, UPSTREAM, "as ENOSPC: a resource, retry slowly")
    yield stop("sqlite3", "sqlite3 TOOBIG", _too_big, VALIDATION, "the data is too large")
    yield stop(
        "sqlite3", "sqlite3 CANTOPEN", lambda lab: sqlite3.connect(lab.folder / "no" / "such" / "file.db"),
        CONFIGURATION | NOT_FOUND, "a wrong path",
    )  # fmt: skip


def _closed(_: Lab) -> object:
    connection = sqlite3.connect(":memory:")
    connection.close()
    return connection.execute("SELECT 1")


def _other_thread(_: Lab) -> object:
    caught: list[BaseException] = []
    with closing(sqlite3.connect(":memory:")) as connection:

        def work() -> None:
            try:
                connection.execute("SELECT 1")
            except sqlite3.Error as exc:
                caught.append(exc)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    return caught[0]


def _bind(value: object) -> object:
    with closing(sqlite3.connect(":memory:")) as connection:
        return connection.execute("SELECT ?", value)


def _interface() -> Iterator[Case]:
    yield stop("sqlite3", "sqlite3 closed database", _closed, CONFIGURATION, "illegal state: CRIT-1.9")
    yield stop("sqlite3", "sqlite3 another thread", _other_thread, CONFIGURATION, "illegal state: CRIT-1.9")
    yield stop("sqlite3", "sqlite3 too few bindings", lambda _: _bind(()), CODE, "a bug")
    yield stop("sqlite3", "sqlite3 type without an adapter", lambda _: _bind((object(),)), CODE, "a bug")
    yield stop("sqlite3", "sqlite3 integer too large", lambda _: _bind((2**80,)), CODE, "an OverflowError")


def _pool(lab: Lab) -> object:
    engine = sqlalchemy.create_engine(
        f"sqlite:///{lab.folder / 'pool.db'}", poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.05
    )
    try:
        with engine.connect(), engine.connect():
            return None
    finally:
        engine.dispose()


class Base(orm.DeclarativeBase):
    """The tables of the object mapping below."""


class Page(Base):
    """A row with an optimistic lock."""

    __tablename__ = "page"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    revision: orm.Mapped[int] = orm.mapped_column()
    text: orm.Mapped[str]
    __mapper_args__ = {"version_id_col": revision}  # noqa: RUF012 - as SQLAlchemy reads it


def in_session(work: Callable[[orm.Session], object]) -> Callable[[Lab], object]:
    def provoke(_: Lab) -> object:
        engine = sqlalchemy.create_engine("sqlite://")
        try:
            Base.metadata.create_all(engine)
            with orm.Session(engine) as session:
                return work(session)
        finally:
            engine.dispose()

    return provoke


def _stale(session: orm.Session) -> object:
    page = Page(id=1, text="first")
    session.add(page)
    session.commit()
    session.refresh(page)
    session.execute(sqlalchemy.text("UPDATE page SET revision = 9"))
    page.text = "second"
    return session.commit()


def _two_rows(session: orm.Session) -> object:
    session.add_all([Page(id=1, text="a"), Page(id=2, text="b")])
    session.commit()
    return session.execute(sqlalchemy.select(Page)).one()


def _sqlalchemy() -> Iterator[Case]:
    yield retry("sqlalchemy", "SQLAlchemy pool timeout", _pool, AWAY, "a resource ran out: retry slowly")
    yield retry("sqlalchemy", "SQLAlchemy StaleDataError", in_session(_stale), CONFLICT, "a version conflict: CRIT-1.4")
    yield stop(
        "sqlalchemy",
        "SQLAlchemy NoResultFound",
        in_session(lambda session: session.execute(sqlalchemy.select(Page)).one()),
        NOT_FOUND,
        "CRIT-1.7",
    )
    yield stop(
        "sqlalchemy",
        "SQLAlchemy MultipleResultsFound",
        in_session(_two_rows),
        CODE | CONFLICT,
        "an invariant is broken",
    )
    yield stop(
        "sqlalchemy",
        "SQLAlchemy ArgumentError",
        lambda _: sqlalchemy.create_engine("nonsense"),
        CODE,
        "a wrong address",
    )
    yield stop(
        "sqlalchemy",
        "SQLAlchemy NoSuchModuleError",
        lambda _: sqlalchemy.create_engine("oracular://h/d"),
        CONFIGURATION,
        "a wrong address",
    )
    yield stop(
        "sqlalchemy",
        "SQLAlchemy ObjectNotExecutableError",
        in_session(lambda session: session.connection().execute("SELECT 1")),
        CONFIGURATION,
        "a bug",
    )
    yield stop(
        "sqlalchemy",
        "SQLAlchemy missing bind parameter",
        in_session(lambda session: session.execute(sqlalchemy.text("SELECT :a"))),
        CODE,
        "a bug",
    )
    yield stop(
        "sqlalchemy",
        "SQLAlchemy NoSuchTableError",
        in_session(lambda session: sqlalchemy.Table("gone", sqlalchemy.MetaData(), autoload_with=session.connection())),
        CONFIGURATION | NOT_FOUND,
        "a missing migration",
    )
    yield stop("sqlalchemy", "SQLAlchemy DetachedInstanceError", in_session(_detached), CONFIGURATION, "a bug")


def _detached(session: orm.Session) -> object:
    page = Page(id=1, text="a")
    session.add(page)
    session.commit()
    session.expunge(page)
    return page.text
