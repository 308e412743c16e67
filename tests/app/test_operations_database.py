"""What operators see and do about the database itself."""

import asyncio
import sqlite3

import pytest

import reprieve
from reprieve.errors import SchemaError, StoreError
from reprieve.ports.reader import Orphans
from reprieve.wiring import open_operations

pipeline = reprieve.Pipeline("review")


@pipeline.stage
async def fetch(job: reprieve.Job[dict]) -> int:
    return 1


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request):
    if request.param == "sqlite":
        return request.getfixturevalue("sqlite_url")
    return request.getfixturevalue("postgres_databases").make(empty=True)


def test_a_database_without_tables_is_told_and_gets_them(empty_url):
    async def run():
        async with open_operations(empty_url) as operations:
            health = await operations.database.check()
            assert (health.schema.fit, health.orphans, health.sound) == ("missing", None, False)
            before, after = await operations.database.upgrade(actor="ada")
            assert (before.fit, after.fit, after.revision) == ("missing", "current", after.wanted)
            assert (await operations.database.upgrade(actor="ada")) == (after, after)
            health = await operations.database.check()
            assert (health.schema.fit, health.orphans, health.sound) == ("current", Orphans(), True)

    asyncio.run(run())


def test_nothing_is_changed_where_there_are_no_tables(empty_url, tmp_path):
    async def run():
        async with open_operations(empty_url) as operations:
            with pytest.raises(SchemaError, match="reprieve db upgrade"):
                await operations.jobs.cancel(1, actor="ada")

    asyncio.run(run())
    assert list(tmp_path.glob("*.db*")) == []


def test_what_a_broken_database_holds_is_found(sqlite_url, tmp_path):
    async def run():
        async with reprieve.connect(sqlite_url) as app:
            for _ in range(3):
                await app.submit(pipeline, {})
            assert (await app.operations.database.check()).sound
            with sqlite3.connect(tmp_path / "jobs.db") as connection:
                connection.execute("DELETE FROM queue WHERE job_id = 2")
                connection.execute("DELETE FROM jobs WHERE id = 3")
            connection.close()
            health = await app.operations.database.check()
            assert (health.orphans, health.sound) == (Orphans(neither=(2,), jobless=(3,)), False)

    asyncio.run(run())


def test_a_folder_that_is_not_there_is_told(tmp_path):
    async def run():
        async with open_operations(f"sqlite:///{tmp_path}/none/jobs.db") as operations:
            with pytest.raises(StoreError, match="no folder"):
                await operations.database.upgrade(actor="ada")

    asyncio.run(run())
