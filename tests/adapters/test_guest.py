"""Jobs that are part of the caller's own transaction, on every kind of connection that is taken."""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from reprieve.adapters.sql import schema
from reprieve.adapters.sql.guest import numbered
from reprieve.adapters.sql.postgres import PostgresStore
from reprieve.adapters.sql.reader import SqlReader
from reprieve.adapters.sql.sqlite import SqliteStore
from reprieve.core.lifecycle import JobStatus
from reprieve.errors import StoreUnavailableError, UsageError
from reprieve.ports.intents import KeyTaken, Submit, Submitted, VersionTooLow

NOW = 1_700_000_000.0


def wanted(key: str = "k", **values: Any) -> Submit:
    defaults = {"pipeline": "review", "stage": "fetch", "payload": b'"p"', "payload_type": "any", "created_at": NOW}
    return Submit(idempotency_key=key, **(defaults | values))


@dataclass
class Guest:
    """A connection of the caller's, and how its owner ends a transaction and runs a statement of its own."""

    connection: Any
    commit: Any
    rollback: Any
    execute: Any


def plainly(function):
    async def call(*arguments):
        return function(*arguments)

    return call


@asynccontextmanager
async def sqlite(url):
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        yield Guest(connection, plainly(connection.commit), plainly(connection.rollback), plainly(connection.execute))


@asynccontextmanager
async def psycopg_blocking(url):
    with psycopg.connect(url) as connection:
        yield Guest(connection, plainly(connection.commit), plainly(connection.rollback), plainly(connection.execute))


@asynccontextmanager
async def psycopg_async(url):
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield Guest(connection, connection.commit, connection.rollback, connection.execute)


@asynccontextmanager
async def asyncpg_alone(url):
    connection = await asyncpg.connect(url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        yield Guest(connection, transaction.commit, transaction.rollback, connection.execute)
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(url):
    async with asyncpg.create_pool(url, min_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Guest(connection, transaction.commit, transaction.rollback, connection.execute)


def engine_for(url, driver):
    scheme, rest = url.split("://", 1)
    return sqlalchemy.create_engine(f"{scheme}+{driver}://{rest}", poolclass=NullPool)


def async_engine_for(url, driver):
    if driver == "asyncpg":
        host = url.partition("host=")[2]
        url = url.partition("?")[0]
        return create_async_engine(
            url.replace("postgresql://", "postgresql+asyncpg://"), connect_args={"host": host}, poolclass=NullPool
        )
    return create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)


def sqlalchemy_connection(driver):
    @asynccontextmanager
    async def opened(url):
        with engine_for(url, driver).connect() as connection:
            yield Guest(
                connection,
                plainly(connection.commit),
                plainly(connection.rollback),
                plainly(connection.exec_driver_sql),
            )

    return opened


def sqlalchemy_session(driver, make=Session):
    @asynccontextmanager
    async def opened(url):
        engine = engine_for(url, driver)
        with make(engine) as session:
            execute = plainly(lambda statement: session.execute(sqlalchemy.text(statement)))
            yield Guest(session, plainly(session.commit), plainly(session.rollback), execute)

    return opened


@asynccontextmanager
async def scoped(url):
    session = scoped_session(sessionmaker(engine_for(url, "psycopg")))
    execute = plainly(lambda statement: session.execute(sqlalchemy.text(statement)))
    yield Guest(session, plainly(session.commit), plainly(session.rollback), execute)
    session.remove()


def sqlalchemy_async_connection(driver):
    @asynccontextmanager
    async def opened(url):
        async with async_engine_for(url, driver).connect() as connection:
            yield Guest(connection, connection.commit, connection.rollback, connection.exec_driver_sql)

    return opened


def sqlalchemy_async_session(driver):
    @asynccontextmanager
    async def opened(url):
        async with AsyncSession(async_engine_for(url, driver)) as session:
            yield Guest(
                session,
                session.commit,
                session.rollback,
                lambda statement: session.execute(sqlalchemy.text(statement)),
            )

    return opened


@asynccontextmanager
async def async_scoped(url):
    session = async_scoped_session(async_sessionmaker(async_engine_for(url, "psycopg")), asyncio.current_task)
    execute = lambda statement: session.execute(sqlalchemy.text(statement))  # noqa: E731 - one of many alike
    yield Guest(session, session.commit, session.rollback, execute)
    await session.remove()


ON_SQLITE = {
    "sqlite3": sqlite,
    "SQLAlchemy connection over sqlite3": sqlalchemy_connection("pysqlite"),
    "SQLAlchemy session over sqlite3": sqlalchemy_session("pysqlite"),
}
ON_POSTGRES = {
    "psycopg": psycopg_blocking,
    "psycopg, asynchronous": psycopg_async,
    "asyncpg": asyncpg_alone,
    "asyncpg, from a pool": asyncpg_pool,
    "SQLAlchemy connection over psycopg": sqlalchemy_connection("psycopg"),
    "SQLAlchemy session over psycopg": sqlalchemy_session("psycopg"),
    "SQLAlchemy scoped session": scoped,
    "SQLAlchemy asynchronous connection over psycopg": sqlalchemy_async_connection("psycopg"),
    "SQLAlchemy asynchronous connection over asyncpg": sqlalchemy_async_connection("asyncpg"),
    "SQLAlchemy asynchronous session over psycopg": sqlalchemy_async_session("psycopg"),
    "SQLAlchemy asynchronous session over asyncpg": sqlalchemy_async_session("asyncpg"),
    "SQLAlchemy asynchronous scoped session": async_scoped,
}


@pytest.fixture(params=[*ON_SQLITE, *ON_POSTGRES])
def kind(request):
    return request.param


@pytest.fixture
def opened(kind):
    """How a connection of this kind is opened."""
    return (ON_SQLITE | ON_POSTGRES)[kind]


@pytest.fixture(scope="module")
def servers(postgres_databases):
    """Databases on PostgreSQL: one for all tests, another that nobody is connected to, and one without our tables."""
    found = {
        "own": postgres_databases.make(),
        "another": postgres_databases.make(empty=True),
        "bare": postgres_databases.make(empty=True),
    }
    schema.upgrade(found["another"])
    for url in (found["own"], found["bare"]):
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE orders (id int)")
    return found


@pytest.fixture
def files(tmp_path):
    """The same as files."""
    found = {name: f"sqlite:///{tmp_path}/{name}.db" for name in ("own", "another", "bare")}
    for name, url in found.items():
        if name != "bare":
            schema.upgrade(url)
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute("CREATE TABLE orders (id int)")
    return found


@pytest.fixture
def databases(kind, request):
    if kind in ON_SQLITE:
        return request.getfixturevalue("files")
    found = request.getfixturevalue("servers")
    with psycopg.connect(found["own"]) as connection:
        connection.execute("TRUNCATE jobs, queue, outcomes, orders")
    return found


@pytest.fixture
def url(databases):
    """A database for it, which has a table of the caller's own."""
    return databases["own"]


@asynccontextmanager
async def store_at(url):
    store = SqliteStore(url) if url.startswith("sqlite") else PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
def look(url):
    """What others can see: how many orders there are, and the jobs, oldest first."""
    reader = SqlReader(url)

    def count():
        return len(reader._rows(sqlalchemy.text("SELECT id FROM orders")))

    def jobs():
        from reprieve.ports.reader import JobFilter  # noqa: PLC0415 - only here

        return list(reversed(reader.jobs(JobFilter())))

    yield lambda: (count(), jobs())
    reader.close()


# --- the transaction --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["the order", "the job"])
@pytest.mark.spec("REV-1.1")
def test_a_job_is_there_if_and_only_if_the_callers_transaction_commits(opened, url, look, first):
    async def scene():
        async with store_at(url) as store:
            for end in ("rollback", "commit"):
                async with opened(url) as guest:
                    if first == "the order":
                        await guest.execute("INSERT INTO orders VALUES (1)")
                    (answer,) = await store.submit_through(guest.connection, [wanted()])
                    if first == "the job":
                        await guest.execute("INSERT INTO orders VALUES (1)")
                    assert look() == (0, [])
                    await getattr(guest, end)()
                    if end == "rollback":
                        assert look() == (0, [])
            return answer

    answer = asyncio.run(scene())
    orders, (job,) = look()
    assert orders == 1
    assert (job.job_id, job.idempotency_key, job.stage, job.status) == (answer.job_id, "k", "fetch", JobStatus.PENDING)
    assert not answer.duplicate


@pytest.mark.spec("REV-1.2")
def test_a_duplicate_of_a_job_elsewhere_or_in_the_same_transaction_creates_nothing(opened, url, look):
    async def scene():
        async with store_at(url) as store:
            (before,) = await store.apply([wanted("old")])
            async with opened(url) as guest:
                answers = await store.submit_through(
                    guest.connection,
                    [wanted("old"), wanted("old", payload=b'"q"'), wanted("old", pipeline="other"), wanted("new")],
                )
                answers = [
                    *answers,
                    *await store.submit_through(guest.connection, [wanted("new"), wanted("late", run_at=NOW + 60)]),
                ]
                await guest.commit()
            return before.job_id, answers

    old, (same, other_payload, other_pipeline, new, again, late) = asyncio.run(scene())
    assert same == Submitted(job_id=old, duplicate=True)
    assert other_payload == Submitted(job_id=old, duplicate=True, mismatch=True)
    assert other_pipeline == KeyTaken(pipeline="review")
    assert again == Submitted(job_id=new.job_id, duplicate=True)
    _, jobs = look()
    assert [(job.idempotency_key, job.run_at) for job in jobs] == [("old", None), ("new", None), ("late", NOW + 60)]
    assert late.job_id == jobs[-1].job_id


def test_versions_are_judged_and_older_ones_give_way_only_if_the_transaction_commits(opened, url, look):
    async def versions(store, guest):
        newer = wanted("v2", subject="cl-1", version=2, supersedes=("fetch",))
        (first,) = await store.submit_through(guest.connection, [newer])
        rest = await store.submit_through(
            guest.connection,
            [wanted("low", subject="cl-1", version=1, pipeline="other"), wanted("v2-again", subject="cl-1", version=2)],
        )
        (low,) = await store.submit_through(guest.connection, [wanted("v0", subject="cl-2", version=3)])
        return [first, *rest, low]

    async def scene():
        async with store_at(url) as store:
            (old,) = await store.apply([wanted("v1", subject="cl-1", version=1)])
            await store.apply([wanted("high", subject="cl-2", version=7)])
            async with opened(url) as guest:
                await versions(store, guest)
                await guest.rollback()
            assert [job.status for job in look()[1]] == [JobStatus.PENDING, JobStatus.PENDING]
            async with opened(url) as guest:
                answers = await versions(store, guest)
                await guest.commit()
            return old.job_id, answers

    old, (newer, elsewhere, again, too_low) = asyncio.run(scene())
    assert newer.superseded == (old,)
    assert not elsewhere.duplicate
    assert again == Submitted(job_id=newer.job_id, duplicate=True)
    assert too_low == VersionTooLow(highest=7)
    states = {job.idempotency_key: (job.status, job.rerun_of) for job in look()[1]}
    assert states == {
        "v1": (JobStatus.CANCELLED, None),
        "v2": (JobStatus.PENDING, old),
        "low": (JobStatus.PENDING, None),
        "high": (JobStatus.PENDING, None),
    }


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_along(opened, url, look):
    async def scene():
        async with store_at(url) as store, opened(url) as guest:
            await guest.execute("INSERT INTO orders VALUES (1)")
            await guest.execute("SAVEPOINT mine")
            await store.submit_through(guest.connection, [wanted("gone")])
            await guest.execute("ROLLBACK TO SAVEPOINT mine")
            await store.submit_through(guest.connection, [wanted("kept")])
            await guest.commit()

    asyncio.run(scene())
    orders, jobs = look()
    assert (orders, [job.idempotency_key for job in jobs]) == (1, ["kept"])


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_database_that_is_not_the_applications_is_refused_and_the_callers_transaction_goes_on(
    opened, databases, look
):
    async def scene(guests, home):
        async with store_at(databases[home]) as store, opened(databases[guests]) as guest:
            await guest.execute("INSERT INTO orders VALUES (1)")
            with pytest.raises(UsageError, match="another database than the application's"):
                await store.submit_through(guest.connection, [wanted()])
            await guest.commit()

    asyncio.run(scene("bare", "own"))
    assert look() == (0, [])
    asyncio.run(scene("own", "another"))
    assert look() == (1, [])


def test_a_file_without_tables_is_refused_and_left_as_it_was(tmp_path, sqlite_url):
    async def scene():
        with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
            async with store_at(sqlite_url) as store:
                with pytest.raises(UsageError, match="another database"):
                    await store.submit_through(connection, [wanted()])
            assert not connection.in_transaction
            assert connection.execute("SELECT * FROM sqlite_master").fetchall() == []

    asyncio.run(scene())


def test_another_kind_of_database_is_refused(sqlite_url, postgres_url):
    async def scene():
        async with store_at(sqlite_url) as file, store_at(postgres_url) as server, psycopg_async(postgres_url) as guest:
            with pytest.raises(UsageError, match="the application is on SQLite, and the connection is to PostgreSQL"):
                await file.submit_through(guest.connection, [wanted()])
            with closing(sqlite3.connect(":memory:")) as memory:
                with pytest.raises(UsageError, match="on PostgreSQL, and the connection is to SQLite"):
                    await server.submit_through(memory, [wanted()])
                assert not memory.in_transaction

    asyncio.run(scene())


@pytest.mark.parametrize("thing", [object(), "sqlite:///file.db", sqlalchemy.create_engine("sqlite://")])
def test_what_is_no_connection_is_refused_by_its_name(sqlite_url, thing):
    async def scene():
        async with store_at(sqlite_url) as store:
            with pytest.raises(UsageError, match=f"connection= takes a connection of sqlite3.*{type(thing).__name__}"):
                await store.submit_through(thing, [wanted()])

    asyncio.run(scene())


def test_connections_are_told_without_loading_a_library():
    script = (
        "import sys, asyncio, reprieve.adapters.sql.guest as guest\n"
        "try: asyncio.run(guest.driver_of(3))\n"
        "except ValueError as error: print(error)\n"
        "print(sorted({'psycopg', 'asyncpg', 'sqlalchemy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    said, loaded = done.stdout.splitlines()
    assert said.endswith("not builtins.int")
    assert loaded == "[]"


# --- connections that commit by themselves ----------------------------------------------------------------------------


def test_a_connection_that_commits_by_itself_gets_the_whole_submission_or_nothing(sqlite_url, postgres_url):
    newer = [wanted("v1", subject="s", version=1), wanted("v2", subject="s", version=2, supersedes=("fetch",))]

    async def submitted(url, connection):
        async with store_at(url) as store:
            first, second = await store.submit_through(connection, newer)
            assert second.superseded == (first.job_id,)
            bad = wanted("bad", payload=object(), subject="t", version=1)
            with pytest.raises((sqlite3.Error, psycopg.Error, asyncpg.DataError)):
                await store.submit_through(connection, [wanted("good"), bad])
        reader = SqlReader(url)
        assert [reader.job(answer.job_id).status for answer in (first, second)] == [
            JobStatus.CANCELLED,
            JobStatus.PENDING,
        ]
        assert reader.job_by_key("good") is None
        reader.close()

    async def scene():
        with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            await submitted(sqlite_url, connection)
            assert not connection.in_transaction
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
            await submitted(postgres_url, connection)
            assert connection.info.transaction_status.name == "IDLE"
            await connection.execute("TRUNCATE jobs, queue, outcomes")
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            await submitted(postgres_url, connection)
            assert connection.info.transaction_status.name == "IDLE"
            connection.execute("TRUNCATE jobs, queue, outcomes")
        connection = await asyncpg.connect(postgres_url)
        await submitted(postgres_url, connection)
        assert not connection.is_in_transaction()
        await connection.execute("TRUNCATE jobs, queue, outcomes")
        await connection.close()
        engine = async_engine_for(postgres_url, "asyncpg")
        async with engine.connect() as opened:
            await submitted(postgres_url, await opened.execution_options(isolation_level="AUTOCOMMIT"))

    asyncio.run(scene())


# --- settings of the guest --------------------------------------------------------------------------------------------


def test_whatever_rows_and_cursors_a_connection_makes_it_is_used_and_stays_as_it_was(sqlite_url, postgres_url):
    async def scene():
        async with store_at(sqlite_url) as store:
            with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection:
                connection.row_factory = factory = lambda cursor, row: {"only": row[0]}
                first, second = await store.submit_through(connection, [wanted(), wanted()])
                assert second == Submitted(job_id=first.job_id, duplicate=True)
                assert (connection.row_factory, connection.isolation_level) == (factory, "")
                connection.text_factory = bytes
                with pytest.raises(UsageError, match="text_factory"):
                    await store.submit_through(connection, [wanted()])
        async with store_at(postgres_url) as store:
            for cursors in (psycopg.ClientCursor, psycopg.RawCursor):
                with psycopg.connect(postgres_url, row_factory=dict_row, cursor_factory=cursors) as connection:
                    key = cursors.__name__
                    first, second = await store.submit_through(connection, [wanted(key), wanted(key)])
                    assert second == Submitted(job_id=first.job_id, duplicate=True)
                    assert (connection.row_factory, connection.cursor_factory) == (dict_row, cursors)

    asyncio.run(scene())


# --- SQLite -----------------------------------------------------------------------------------------------------------


def test_a_submission_that_fails_halfway_leaves_the_callers_transaction_as_it_was(sqlite_url):
    async def scene():
        async with store_at(sqlite_url) as store:
            with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection:
                connection.execute("CREATE TABLE orders (id int)")
                connection.execute("INSERT INTO orders VALUES (1)")
                with pytest.raises(sqlite3.Error):
                    await store.submit_through(connection, [wanted("good"), wanted("bad", payload=object())])
                connection.commit()
                assert connection.execute("SELECT count(*) FROM orders").fetchone() == (1,)
                assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (0,)

    asyncio.run(scene())


def test_a_guest_that_began_without_reading_never_meets_a_snapshot_that_has_moved_on(sqlite_url):
    async def scene():
        async with store_at(sqlite_url) as store:
            with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
                others = asyncio.create_task(keep_writing(store))
                guests = 0
                while guests < 100 or len(written) < 20:
                    connection.execute("BEGIN")
                    await store.submit_through(connection, [wanted(f"guest-{guests}")])
                    connection.execute("COMMIT")
                    guests += 1
                    await asyncio.sleep(0.001)  # the store's thread waits for the lock of the file
                others.cancel()
                with suppress(asyncio.CancelledError):
                    await others
                jobs = connection.execute("SELECT count(*) FROM jobs JOIN queue ON queue.job_id = jobs.id").fetchone()[
                    0
                ]
                return jobs, connection.execute("SELECT count(*) FROM jobs").fetchone()[0]

    written = []

    async def keep_writing(store):
        while True:
            await store.apply([wanted(f"store-{len(written)}")])
            written.append(None)

    queued, made = asyncio.run(scene())
    assert queued == made >= 120


def test_a_snapshot_that_has_moved_on_is_told_as_sqlite_tells_it(sqlite_url):
    async def scene():
        async with store_at(sqlite_url) as store:
            with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
                connection.execute("BEGIN")
                assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
                await store.apply([wanted("other")])
                with pytest.raises(sqlite3.OperationalError, match="locked"):
                    await store.submit_through(connection, [wanted()])
                connection.execute("ROLLBACK")
                await store.submit_through(connection, [wanted()])

    asyncio.run(scene())


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("REV-1.2")
def test_of_many_guests_with_one_key_one_creates_the_job_and_the_others_wait_for_it(postgres_url):
    async def one(store):
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            (answer,) = await store.submit_through(connection, [wanted()])
            await asyncio.sleep(0.01)
            return answer

    async def scene():
        async with store_at(postgres_url) as store:
            return await asyncio.gather(*[one(store) for _ in range(20)])

    answers = asyncio.run(scene())
    assert len({answer.job_id for answer in answers}) == 1
    assert sorted(answer.duplicate for answer in answers) == [False] + [True] * 19


def test_guests_with_versions_of_one_subject_take_turns(postgres_url):
    async def one(store, version):
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            intent = wanted(f"v{version}", subject="s", version=version, supersedes=("fetch",))
            (answer,) = await store.submit_through(connection, [intent])
            await asyncio.sleep(0.01)
            return answer

    async def scene():
        async with store_at(postgres_url) as store:
            return await asyncio.gather(*[one(store, version) for version in range(1, 11)])

    answers = asyncio.run(scene())
    reader = SqlReader(postgres_url)
    made = [answer for answer in answers if isinstance(answer, Submitted)]
    statuses = {answer.job_id: reader.job(answer.job_id).status for answer in made}
    reader.close()
    assert list(statuses.values()).count(JobStatus.PENDING) == 1
    assert statuses[answers[-1].job_id] is JobStatus.PENDING
    assert {each for answer in made for each in answer.superseded} == set(statuses) - {answers[-1].job_id}


@pytest.mark.parametrize("values", [{}, {"subject": "s", "version": 1}], ids=["plain", "of a subject"])
def test_a_guest_that_does_not_end_its_transaction_holds_up_nobody_else_for_ever(postgres_url, values):
    async def scene():
        async with store_at(postgres_url) as store, psycopg_async(postgres_url) as guest:
            (answer,) = await store.submit_through(guest.connection, [wanted(**values)])
            with pytest.raises(StoreUnavailableError, match="lock timeout"):
                await asyncio.wait_for(store.apply([wanted(**values)]), 30)
            await store.apply([wanted("another")])
            await guest.commit()
            assert await store.apply([wanted(**values)]) == [Submitted(job_id=answer.job_id, duplicate=True)]

    asyncio.run(scene())


@pytest.mark.parametrize("values", [{}, {"subject": "s", "version": 1}], ids=["plain", "of a subject"])
def test_workers_are_told_when_the_transaction_commits_and_not_before(postgres_url, values):
    async def scene():
        async with store_at(postgres_url) as store, psycopg_async(postgres_url) as guest:
            told = asyncio.Event()
            store.subscribe(told.set)
            await asyncio.wait_for(told.wait(), 30)  # it listens
            told.clear()
            await store.submit_through(guest.connection, [wanted(**values)])
            await asyncio.sleep(0.2)
            before = told.is_set()
            await guest.commit()
            await asyncio.wait_for(told.wait(), 30)
            return before

    assert asyncio.run(scene()) is False


def test_placeholders_become_numbers_and_a_name_keeps_its_own():
    assert numbered("SELECT %s, %b::text[], '%%'") == ("SELECT $1, $2::text[], '%'", (0, 1))
    assert numbered("a = %(a)s AND b = %(b)b OR a > %(a)s") == ("a = $1 AND b = $2 OR a > $1", ("a", "b"))
