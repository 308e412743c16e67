"""Whether a database fits, how it is brought up to date, and what a person is told where that cannot be."""

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine

import reprieve
from reprieve.adapters.sql import address, migrations, schema, tables
from reprieve.adapters.sql.schema import Fit
from reprieve.errors import SchemaError, StoreAddressError, StoreError, StoreUnavailableError

MIGRATIONS = Path(schema.__file__).parent / "migrations"


def run_sql(url, *statements):
    where = address.parse(url)
    if isinstance(where, address.SqliteAddress):
        with sqlite3.connect(where.path) as connection:
            rows = [connection.execute(statement).fetchall() for statement in statements]
        connection.close()
    else:
        with psycopg.connect(where.url) as connection:
            cursors = [connection.execute(statement) for statement in statements]
            rows = [cursor.fetchall() if cursor.description else [] for cursor in cursors]
    return rows[-1]


@pytest.fixture(params=["sqlite", "postgresql"])
def bare_url(request):
    """A database without tables."""
    if request.param == "sqlite":
        return request.getfixturevalue("sqlite_url")
    return request.getfixturevalue("postgres_databases").make(empty=True)


def test_a_database_without_tables_is_missing_them_and_says_what_to_do(bare_url):
    assert schema.check(bare_url).fit is Fit.MISSING
    with pytest.raises(SchemaError, match="run `reprieve db upgrade`"):
        schema.require(bare_url)


def test_looking_makes_no_file(sqlite_url, tmp_path):
    schema.check(sqlite_url)
    assert list(tmp_path.iterdir()) == []


def test_an_upgraded_database_fits_and_upgrading_again_changes_nothing(bare_url):
    schema.upgrade(bare_url)
    key = run_sql(bare_url, "SELECT value FROM meta WHERE key = 'digest_key'")
    schema.upgrade(bare_url)
    schema.require(bare_url)
    assert schema.check(bare_url) == schema.SchemaState(fit=Fit.CURRENT, revision="0006", wanted="0006")
    assert run_sql(bare_url, "SELECT value FROM meta WHERE key = 'digest_key'") == key
    assert len(bytes.fromhex(key[0][0])) == 32


def test_a_database_of_a_newer_version_is_left_alone(bare_url):
    schema.upgrade(bare_url)
    run_sql(bare_url, "UPDATE reprieve_revision SET version_num = '9999'")
    assert schema.check(bare_url).fit is Fit.AHEAD
    for touch in (schema.require, schema.upgrade):
        with pytest.raises(SchemaError, match="made by a newer version of Reprieve"):
            touch(bare_url)
    assert run_sql(bare_url, "SELECT version_num FROM reprieve_revision") == [("9999",)]


def test_a_database_that_is_behind_says_so():
    state = schema.state_of("0001", known=("0001", "0002"))
    assert state.fit is Fit.BEHIND
    with pytest.raises(SchemaError, match=r"revision 0001, this version needs 0002.*run `reprieve db upgrade`"):
        state.require("the database")


def test_every_step_is_a_file_that_is_known():
    steps = sorted(path.stem for path in (MIGRATIONS / "versions").glob("r*.py"))
    assert [name.partition("_")[0].removeprefix("r") for name in steps] == list(schema.REVISIONS)


def test_a_database_of_an_older_version_gets_the_steps_that_it_lacks(bare_url, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(migrations, "REVISIONS", migrations.REVISIONS[:-1])
        older.setattr(schema.state_of, "__defaults__", (migrations.REVISIONS,))
        schema.upgrade(bare_url)
    assert schema.check(bare_url).fit is Fit.BEHIND
    schema.upgrade(bare_url)
    schema.require(bare_url)
    assert run_sql(bare_url, "SELECT version_num FROM reprieve_revision") == [(schema.REVISIONS[-1],)]


def test_several_processes_may_upgrade_at_once(bare_url):
    script = "import sys; from reprieve.adapters.sql import schema; schema.upgrade(sys.argv[1])"
    running = [
        subprocess.Popen([sys.executable, "-c", script, bare_url], stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    failures = [process.communicate(timeout=60)[1] for process in running if process.communicate(timeout=60)[1]]
    assert [process.returncode for process in running] == [0] * 4, failures
    assert len(run_sql(bare_url, "SELECT * FROM reprieve_revision")) == 1
    assert len(run_sql(bare_url, "SELECT * FROM meta")) == 1


@pytest.mark.parametrize("is_new", [True, False])
def test_a_file_is_opened_and_made_without_loading_sqlalchemy(sqlite_url, is_new):
    if not is_new:
        schema.upgrade(sqlite_url)
    script = (
        "import asyncio, sys; from reprieve.adapters.sql.sqlite.store import SqliteStore; store = SqliteStore(sys.argv[1])\n"
        "async def main(): await store.open(); await store.close()\n"
        "asyncio.run(main()); print('sqlalchemy' in sys.modules)"
    )
    command = [sys.executable, "-c", script, sqlite_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
    schema.require(sqlite_url)


def test_look_ups_on_sqlite_load_no_dialect_of_postgresql():
    script = "import reprieve.adapters.sql.reader, sys; print([name for name in sys.modules if 'dialects.postgresql' in name])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


# --- one schema, told twice ----------------------------------------------------------------------------------------------


def without_spaces(text):
    """A statement as it is read: layout and quotes around names do not count."""
    return re.sub(r"\s*([(),])\s*", r"\1", " ".join(text.replace('"', "").split()))


def parts_of(create):
    """The members of a CREATE TABLE but for its columns, and what follows it."""
    body, _, rest = create.partition("(")[2].rpartition(")")
    depth, parts, current = 0, [], ""
    for letter in body:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
    members = {without_spaces(part) for part in [*parts, current]}
    inline = {name for member in members for name in re.findall("PRIMARY KEY AUTOINCREMENT", member)}
    return {member for member in members if member.startswith("CONSTRAINT")} | inline, rest.strip()


def sqlite_shape(path):
    shape = {}
    connection = sqlite3.connect(path)
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"):
        if kind == "table" and name in tables.metadata.tables:
            columns = {row[1:] for row in connection.execute(f"SELECT * FROM pragma_table_info('{name}')")}
            shape[name] = (columns, parts_of(sql))
        elif kind == "index":
            shape[name] = without_spaces(sql)
    connection.close()
    return shape


def postgres_shape(url):
    ours = f"ANY(ARRAY[{', '.join(repr(name) for name in tables.metadata.tables)}])"
    columns = f"""
        SELECT table_name, column_name, data_type, is_nullable,
               CASE WHEN is_identity = 'YES' OR column_default LIKE 'nextval%%' THEN 'given out' ELSE column_default END
        FROM information_schema.columns WHERE table_name = {ours}"""
    constraints = f"""
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE conrelid::regclass::text = {ours} AND contype <> 'n'"""
    indexes = f"SELECT tablename, indexname, indexdef FROM pg_indexes WHERE tablename = {ours}"
    return [sorted(map(repr, run_sql(url, query))) for query in (columns, constraints, indexes)]


def test_the_steps_and_the_tables_make_the_same_schema_on_sqlite(tmp_path):
    schema.upgrade(f"sqlite:///{tmp_path}/migrated.db")
    engine = create_engine(f"sqlite:///{tmp_path}/declared.db")
    tables.metadata.create_all(engine)
    engine.dispose()
    migrated, declared = sqlite_shape(tmp_path / "migrated.db"), sqlite_shape(tmp_path / "declared.db")
    assert sorted(migrated) == sorted(declared)
    for name, shape in declared.items():
        assert migrated[name] == shape


def test_the_steps_and_the_tables_make_the_same_schema_on_postgresql(postgres_databases):
    migrated, declared = postgres_databases.make(), postgres_databases.make(empty=True)
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(declared))
    tables.metadata.create_all(engine)
    engine.dispose()
    for ours, theirs in zip(postgres_shape(migrated), postgres_shape(declared), strict=True):
        assert ours == theirs


def test_the_queue_is_vacuumed_early_on_postgresql(postgres_url):
    options = run_sql(postgres_url, "SELECT reloptions FROM pg_class WHERE relname = 'queue'")[0][0]
    assert {"autovacuum_vacuum_scale_factor=0.01", "autovacuum_vacuum_threshold=1000"} <= set(options)


# --- what a person is told -----------------------------------------------------------------------------------------------

SECRET = "correct" + "horse" * 2


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "not the URL of a database"),
        ("jobs.db", "not the URL of a database"),
        ("mysql://localhost/jobs", "mysql:// is not a database that Reprieve can use"),
        ("sqlite://jobs.db", "third slash"),
        ("sqlite:///jobs.db?mode=ro", "no options"),
        ("sqlite:////no/such/folder/jobs.db", "there is no folder '/no/such/folder'"),
        (f"sqlite:///{Path(__file__).parent}", "is a folder"),
        ("postgresql://localhost:port/jobs", "cannot be read"),
        ("postgresql://localhost/jobs?nonsense", "cannot be read"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_readably(url, said):
    for use in (schema.check, schema.upgrade):
        with pytest.raises(StoreError, match=re.escape(said)):
            use(url)


@pytest.mark.parametrize(
    "template",
    [
        "postgresql://me:{secret}@127.0.0.1:1/jobs",
        "postgres://me:{secret}@127.0.0.1:1/jobs",
        "postgresql+psycopg://me:{secret}@127.0.0.1:1/jobs",
        "postgresql://127.0.0.1:1/jobs?user=me&password={secret}",
        "postgresql://me:x@{secret}@127.0.0.1:1/jobs",
        "postgresql://me:x/{secret}@127.0.0.1:1/jobs",
        "postgresql://me:x?{secret}@127.0.0.1:1/jobs",
        "postgresql://me:%zz{secret}@127.0.0.1:1/jobs",
        "postgresql://me:x:{secret}@127.0.0.1:1/jobs",
        "mysql://me:{secret}@localhost/jobs",
        "sqlite://me:{secret}@localhost/jobs",
    ],
)
def test_no_message_shows_a_password(template):
    for use in (schema.check, schema.upgrade, schema.require):
        with pytest.raises(StoreError) as caught:
            use(template.format(secret=SECRET))
        assert SECRET not in str(caught.value)
        assert SECRET not in repr(caught.value.__context__)


def test_a_server_that_does_not_answer_is_unavailable():
    with pytest.raises(StoreUnavailableError, match=r"postgresql://me@127\.0\.0\.1:1/jobs cannot be reached"):
        schema.check("postgresql://me@127.0.0.1:1/jobs")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('FATAL:  password authentication failed for user "me"', StoreAddressError),
        (
            'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "me", database "jobs", no encryption',
            StoreAddressError,
        ),
        ("fe_sendauth: no password supplied", StoreAddressError),
        ("failed to resolve host 'db': [Errno -2] Name or service not known", StoreAddressError),
        ("failed to resolve host 'db': [Errno -3] Temporary failure in name resolution", StoreUnavailableError),
        ("FATAL:  the database system is starting up", StoreUnavailableError),
        ("FATAL:  sorry, too many clients already", StoreUnavailableError),
    ],
)
def test_what_waiting_does_not_mend_is_told_apart(said, kind):
    assert type(address.parse("postgresql://me@db/jobs").unreachable(said)) is kind


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear reader, this is not a database. " * 50)
    for use in (schema.check, schema.upgrade):
        with pytest.raises(StoreError, match="is not a SQLite database"):
            use(f"sqlite:///{tmp_path}/letter.txt")


def test_a_relative_and_an_absolute_path_are_read_as_users_write_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    schema.upgrade("sqlite:///here.db")
    assert (tmp_path / "here.db").exists()
    schema.require(f"sqlite:///{tmp_path}/here.db")


def test_a_path_with_strange_letters_is_taken_as_it_is(tmp_path):
    url = f"sqlite:///{tmp_path}/a #% ü.db"
    schema.upgrade(url)
    schema.require(url)
    assert (tmp_path / "a #% ü.db").exists()


def test_a_table_of_somebody_else_is_not_touched(bare_url):
    run_sql(bare_url, "CREATE TABLE jobs (mine TEXT)")
    remedy = "another file" if bare_url.startswith("sqlite") else "options=-csearch_path"
    with pytest.raises(SchemaError, match=f"a table of somebody else's: .*jobs.* already exists.*{remedy}"):
        schema.upgrade(bare_url)
    assert schema.check(bare_url).fit is Fit.MISSING
    assert run_sql(bare_url, "SELECT * FROM jobs") == []


def test_a_schema_of_its_own_keeps_reprieve_apart_from_a_table_of_somebody_else(postgres_databases):
    url = postgres_databases.make(empty=True)
    run_sql(url, "CREATE TABLE jobs (mine TEXT)", "CREATE SCHEMA reprieve")
    own = f"{url}&options=-csearch_path%3Dreprieve"
    schema.upgrade(own)
    pipeline = reprieve.Pipeline("apart")

    @pipeline.stage
    async def only(job: reprieve.Job[int]) -> int:
        return 2 * job.payload

    async def run():
        async with reprieve.connect(own) as app:
            job = await app.submit(pipeline, 21)
            await app.work(pipeline, until_idle=True)
            return await job.result()

    assert asyncio.run(run()) == 42
    assert run_sql(url, "SELECT * FROM jobs") == []


def test_a_folder_that_cannot_be_written_is_said_to_be_so():
    folder = Path(tempfile.mkdtemp())
    me = os.geteuid()
    try:
        folder.chmod(0o555)
        if me == 0:
            os.seteuid(65534)  # root may write everywhere
        with pytest.raises(StoreError, match="cannot be written; its folder has to be writable too"):
            schema.upgrade(f"sqlite:///{folder}/jobs.db")
    finally:
        os.seteuid(me)
        folder.rmdir()
