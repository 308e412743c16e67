"""What a submission reads on PostgreSQL, and what may happen between its statements."""

import psycopg
import pytest

from reprieve.adapters.sql.postgres import submitting
from reprieve.ports import intents as i

NOW = 1_700_000_000.0


class Watched:
    """A cursor that keeps all it has read, and calls somebody before the second statement."""

    def __init__(self, cursor, before_the_second=None):
        self._cursor = cursor
        self._before_the_second = before_the_second
        self._run = 0
        self.read = []

    async def execute(self, query, params=None, /):
        self._run += 1
        if self._run == 2 and self._before_the_second is not None:
            await self._before_the_second()
        return await self._cursor.execute(query, params)

    async def fetchone(self):
        row = await self._cursor.fetchone()
        self.read += [] if row is None else [row]
        return row

    async def fetchall(self):
        rows = await self._cursor.fetchall()
        self.read += rows
        return rows


def submitted(desk, *intents, before_the_second=None):
    """The answers to submissions in a transaction that is committed, and all rows that they read."""

    async def submit():
        async with await psycopg.AsyncConnection.connect(desk.url) as connection:
            watched = Watched(connection.cursor(binary=True), before_the_second)
            return await submitting.submit(watched, list(intents), again=False), watched.read

    return desk.run(submit())


def test_a_rerun_reads_no_payload_of_the_versions_before(postgres_desk, submits):
    desk = postgres_desk
    for version in (1, 2, 3):
        desk.submit(f"v{version}", subject="cl-42", version=version, payload=b"large")
    (answer,), read = submitted(desk, submits("v9", subject="cl-42", version=9))
    assert isinstance(answer, i.Submitted)
    assert not any(b"large" in row for row in read)
    assert len(read) < 5


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_version_that_is_there_is_compared_with_its_own_payload_alone(postgres_desk, submits, version):
    desk = postgres_desk
    made = [desk.submit(f"v{each}", subject="cl-42", version=each, payload=b"%d" % each) for each in (1, 2, 3)]
    wanted = submits("another key", subject="cl-42", version=version, payload=b"%d" % version)
    (answer,), read = submitted(desk, wanted)
    assert answer == i.Submitted(job_id=made[version - 1], duplicate=True)
    assert {value for row in read for value in row if isinstance(value, bytes)} == {b"%d" % version}


def test_a_key_that_is_forgotten_while_it_is_looked_up_makes_a_new_job(postgres_desk, submits):
    desk = postgres_desk
    forgotten, kept = desk.submit("forgotten"), desk.submit("kept")

    async def forget():
        async with await psycopg.AsyncConnection.connect(desk.url) as other:
            await other.execute("DELETE FROM queue WHERE job_id = %s", (forgotten,))
            await other.execute("DELETE FROM jobs WHERE id = %s", (forgotten,))

    wanted = [submits(key) for key in ("new", "forgotten", "kept", "forgotten")]
    (new, again, there, twice), _ = submitted(desk, *wanted, before_the_second=forget)
    assert there == i.Submitted(job_id=kept, duplicate=True)
    assert not again.duplicate
    assert twice == i.Submitted(job_id=again.job_id, duplicate=True)
    assert {row["id"]: row["idempotency_key"] for row in desk.rows("jobs")} == {
        kept: "kept",
        new.job_id: "new",
        again.job_id: "forgotten",
    }
    assert {row["job_id"] for row in desk.rows("queue")} == {kept, new.job_id, again.job_id}
