"""A file that was outgrown, brought to a server: everything comes along, and goes on there."""

import asyncio
import contextlib

import pytest
from sqlalchemy import select

import reprieve
from reprieve.adapters.sql import schema, tables
from reprieve.adapters.sql.copying import copy
from reprieve.adapters.sql.engine import Database
from reprieve.errors import RefusedError, UsageError
from reprieve.ports.reader import JobFilter
from reprieve.senders import Maildir

PIPELINE = "moving"


def moving(folder, *, broken):
    made = reprieve.Pipeline(PIPELINE, senders=[Maildir(folder)])

    @made.stage
    async def fetch(job: reprieve.Job[str]) -> str:
        return job.payload.upper()

    @made.stage
    async def check(job: reprieve.Job[str], fetch: str) -> str:
        if broken and job.payload == "bad":
            raise reprieve.Permanent("it is bad")
        return fetch

    @made.stage(delivers=True)
    async def notify(job: reprieve.Job[str], check: str) -> str:
        await reprieve.deliver(
            job, [reprieve.Message(recipient="maildir:ada", subject=check, text=check)], via="maildir"
        )
        return check

    return made


async def busy(url, folder):
    """Some jobs that are over, one that is dead, one that waits."""
    pipeline = moving(folder, broken=True)
    async with reprieve.connect(url) as app:
        for name in ("good", "bad"):
            await app.submit(pipeline, name, idempotency_key=name, subject=name, version=1)
        await app.work(pipeline, until_idle=True)
        await app.submit(pipeline, "later", idempotency_key="later")


def as_kept(value):
    """What the other dialect may keep of it: times to the microsecond."""
    return pytest.approx(value, abs=2e-6, rel=0) if isinstance(value, float) else value


def everything(url):
    database = Database.at(url, writes=False)
    with contextlib.closing(database), database.transaction() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
            for table in tables.metadata.sorted_tables
        }


@pytest.fixture
def file(tmp_path):
    url = f"sqlite:///{tmp_path}/old.db"
    asyncio.run(busy(url, tmp_path / "mail"))
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/new.db"
    return request.getfixturevalue("postgres_databases").make(empty=True)


def test_everything_is_copied_and_goes_on_where_it_was(file, target, tmp_path):
    heard = {}
    counts = copy(file, target, heard.__setitem__)
    there, here = everything(target), everything(file)
    assert {name: len(rows) for name, rows in there.items()} == {name: len(rows) for name, rows in here.items()}
    for name, rows in there.items():
        for copied, row in zip(rows, here[name], strict=True):
            assert copied == tuple(map(as_kept, row)), name
    assert {name: rows for name, rows in counts.items() if rows} == heard
    assert heard["jobs"] == 3

    async def go_on():
        mended = moving(tmp_path / "mail", broken=False)
        async with reprieve.connect(target) as app:
            again = await app.submit(mended, "good", idempotency_key="good", subject="good", version=1)
            assert again.duplicate
            (letter,) = await app.operations.dead_letters.list()
            await app.operations.dead_letters.replay(
                letter.letter_id, cause="code", evidence="mended", safe=True, actor="ann"
            )
            new = await app.submit(mended, "new", idempotency_key="new")
            await app.work(mended, until_idle=True)
            assert (await again.result(), await new.result()) == ("GOOD", "NEW")
            assert {job.status for job in app.reader.jobs(JobFilter())} == {"succeeded"}

    asyncio.run(go_on())
    assert len(list((tmp_path / "mail").rglob("new/*"))) == 4, "nobody is told twice"


def test_what_is_not_empty_is_not_copied_into_and_stays_as_it_is(file, target, tmp_path):
    asyncio.run(busy_elsewhere(target, tmp_path))
    before = everything(target)
    with pytest.raises(RefusedError, match="is not empty: "):
        copy(file, target, lambda *_: None)
    assert everything(target) == before


async def busy_elsewhere(url, folder):
    schema.upgrade(url)
    async with reprieve.connect(url) as app:
        await app.submit(moving(folder / "other", broken=False), "mine")


def test_nothing_is_copied_onto_itself(file):
    with pytest.raises(UsageError, match="onto itself"):
        copy(file, file, lambda *_: None)


def test_a_file_that_is_worked_on_is_not_copied(file, target, tmp_path):
    async def main():
        async with reprieve.connect(file) as app:
            worker = asyncio.create_task(app.work(moving(tmp_path / "mail", broken=True)))
            while not app.reader.workers():  # noqa: ASYNC110 - it is the database that tells
                await asyncio.sleep(0.01)
            with pytest.raises(RefusedError, match="a worker works on"):
                await asyncio.to_thread(copy, file, target, lambda *_: None)
            worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await worker

    asyncio.run(main())


def test_a_copy_that_breaks_leaves_nothing_behind(file, target):
    def breaks(table, rows):
        if table == "outcomes":
            raise OSError("the line is dead")

    with pytest.raises(OSError, match="the line is dead"):
        copy(file, target, breaks)
    assert everything(target)["jobs"] == []
    assert copy(file, target, lambda *_: None)["jobs"] == 3
