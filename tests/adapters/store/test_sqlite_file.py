"""What only a file can do to a store: be locked, be full, be shared between processes, live in memory."""

import asyncio
import resource
import sqlite3
import subprocess
import sys
import threading

import pytest

from reprieve.adapters.sql.sqlite import SqliteStore
from reprieve.errors import StoreError, StoreUnavailableError
from reprieve.ports import intents as i

NOW = 1_700_000_000.0


@pytest.fixture
def desk(sqlite_desk):
    return sqlite_desk


def file_of(desk):
    return desk.url.removeprefix("sqlite:///")


# --- durability ------------------------------------------------------------------------------------------------------------


def test_every_commit_is_synced_to_the_log_and_readers_do_not_block(desk):
    def settings(connection):
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]

    assert desk.run(desk.store._in_thread(lambda: settings(desk.store._opened))) == ["wal", 2]


def test_what_was_acknowledged_survives_the_process(sqlite_url):
    script = """
import asyncio, os, sys
from reprieve.adapters.sql.sqlite import SqliteStore
from reprieve.ports import intents as i
async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    for number in range(20):
        await store.apply([i.Submit(idempotency_key=f"{number}-{n}", pipeline="p", stage="s", payload=b"", payload_type="t",
                                    created_at=1.0) for n in range(10)])
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script, sqlite_url], timeout=60, check=False)
    assert done.returncode == -9
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    assert connection.execute("SELECT count(*) FROM jobs JOIN queue ON queue.job_id = jobs.id").fetchone() == (200,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


# --- locks -----------------------------------------------------------------------------------------------------------------


def test_one_store_at_a_time_has_the_right_to_work_and_it_passes_on(desk):
    first, second = desk.store, desk.another()
    assert desk.run(first.lock_for_work()) is True
    assert desk.run(first.lock_for_work()) is True
    assert desk.run(second.lock_for_work()) is False
    desk.run(first.close())
    assert desk.run(second.lock_for_work()) is True


def test_the_right_to_work_goes_with_a_process_that_is_killed(desk):
    script = """
import asyncio, sys
from reprieve.adapters.sql.sqlite import SqliteStore
async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    print(await store.lock_for_work(), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", script, desk.url], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline().strip() == "True"
        assert desk.run(desk.store.lock_for_work()) is False
        other.kill()
        other.wait(timeout=30)
    assert desk.run(desk.store.lock_for_work()) is True


def test_who_may_not_work_may_submit(desk, submits):
    other = desk.another()
    desk.run(other.lock_for_work())
    assert desk.run(desk.store.lock_for_work()) is False
    assert desk.do(submits()).duplicate is False


def test_a_file_that_somebody_else_locks_is_unavailable_and_known_to_be_unwritten(desk, submits):
    desk.run(desk.store._in_thread(lambda: desk.store._opened.execute("PRAGMA busy_timeout = 50")))
    blocker = sqlite3.connect(file_of(desk), isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StoreUnavailableError, match="locked") as caught:
            desk.do(submits())
        assert caught.value.outcome_unknown is False
    finally:
        blocker.execute("ROLLBACK")
        blocker.close()
    assert desk.do(submits()).duplicate is False


def test_a_batch_waits_for_a_short_lock(desk, submits):
    blocker = sqlite3.connect(file_of(desk), isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, lambda: blocker.execute("ROLLBACK"))
    timer.start()
    try:
        assert desk.do(submits()).duplicate is False
    finally:
        timer.join()
        blocker.close()


# --- full disks ------------------------------------------------------------------------------------------------------------


def many(submits, name, size=20_000):
    return [submits(f"{name}-{number}", payload=bytes(size)) for number in range(20)]


def test_a_full_database_is_unavailable_and_works_again_when_there_is_room(desk, submits):
    desk.do(submits("before"))
    pages = desk.run(desk.store._in_thread(lambda: desk.store._opened.execute("PRAGMA page_count").fetchone()[0]))
    limit = f"PRAGMA max_page_count = {pages + 10}"
    desk.run(desk.store._in_thread(lambda: desk.store._opened.execute(limit).fetchone()))
    before = desk.everything()
    with pytest.raises(StoreUnavailableError, match="full") as caught:
        desk.batch(*many(submits, "too much"))
    assert caught.value.outcome_unknown is False
    assert desk.everything() == before
    desk.run(desk.store._in_thread(lambda: desk.store._opened.execute("PRAGMA max_page_count = 1000000").fetchone()))
    assert not any(answer.duplicate for answer in desk.batch(*many(submits, "too much")))


def test_a_disk_that_takes_no_more_is_unavailable_and_works_again_when_it_does(desk, submits):
    desk.do(submits("before"))
    before = desk.everything()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))  # a file may not grow beyond this, as on a full disk
    try:
        with pytest.raises(StoreUnavailableError) as caught:
            desk.batch(*many(submits, "too much"))
        assert caught.value.outcome_unknown is False
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert desk.everything() == before
    assert not any(answer.duplicate for answer in desk.batch(*many(submits, "too much")))
    assert len(desk.rows("jobs")) == 21


# --- the thread ------------------------------------------------------------------------------------------------------------


def test_what_a_cancelled_caller_asked_for_still_happens(desk, submits):
    async def scenario():
        first = asyncio.create_task(desk.store.apply(many(submits, "first")))
        second = asyncio.create_task(desk.store.apply([submits("second")]))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        return await desk.store.apply([submits("second")])

    assert desk.run(scenario())[0].duplicate is True
    assert len(desk.rows("jobs")) == 21


def test_closing_waits_for_what_is_being_written(desk, submits):
    async def scenario():
        store = SqliteStore(desk.url)
        await store.open()
        writing = asyncio.create_task(store.apply(many(submits, "late")))
        await asyncio.sleep(0)
        await store.close()
        return await writing

    assert len(desk.run(scenario())) == 20
    assert len(desk.rows("jobs")) == 20


def test_a_store_that_is_not_open_says_so(sqlite_url, submits):
    with pytest.raises(StoreError, match="is not open"):
        asyncio.run(SqliteStore(sqlite_url).apply([submits()]))


def test_a_store_that_could_not_be_opened_leaves_no_thread_behind(tmp_path):
    before = threading.active_count()
    with pytest.raises(StoreError, match="there is no folder"):
        asyncio.run(SqliteStore(f"sqlite:///{tmp_path}/none/jobs.db").open())
    deadline = threading.Event()
    for _ in range(100):
        if threading.active_count() <= before:
            break
        deadline.wait(0.02)
    assert threading.active_count() <= before


def test_the_url_of_another_database_is_refused():
    with pytest.raises(StoreError, match="not the URL of a SQLite database"):
        SqliteStore("postgresql://localhost/jobs")


def test_many_callers_at_once_each_get_their_own_answer(desk, submits):
    async def scenario():
        return await asyncio.gather(*[desk.store.apply([submits(f"key-{number}")]) for number in range(50)])

    ids = [answer.job_id for (answer,) in desk.run(scenario())]
    keys = {row["id"]: row["idempotency_key"] for row in desk.rows("jobs")}
    assert [keys[job_id] for job_id in ids] == [f"key-{number}" for number in range(50)]


# --- in memory -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_store_may_live_in_memory(url, submits, say):
    async def scenario():
        store = SqliteStore(url)
        await store.open()
        assert await store.lock_for_work() is True
        (made,) = await store.apply([submits()])
        stages = (("review", "fetch"),)
        (worker,) = await store.apply([i.Register(name="w", host="h", pid=7, stages=stages, now=NOW, expires_at=NOW)])
        (claimed,) = await store.apply(
            [i.Claim(worker_id=worker, capacity=1, stages={("review", "fetch"): 1}, now=NOW)]
        )
        (answer,) = await store.apply([say.finish(made.job_id, 1)])
        key = await store.digest_key()
        await store.close()
        return [lease.job_id for lease in claimed.leases] == [made.job_id], answer, len(key)

    assert asyncio.run(scenario()) == (True, i.Written.APPLIED, 32)


def test_two_stores_in_memory_know_nothing_of_each_other(submits):
    async def scenario():
        stores = [SqliteStore("sqlite://"), SqliteStore("sqlite://")]
        answers = []
        for store in stores:
            await store.open()
            answers += await store.apply([submits()])
            await store.close()
        return [answer.duplicate for answer in answers]

    assert asyncio.run(scenario()) == [False, False]


def test_ids_are_not_given_out_again_when_the_newest_job_is_removed(desk, submits):
    first = desk.submit("one")
    desk.do(i.Cancel(job_id=first, actor="ann", reason="x", now=NOW))
    desk.write("DELETE FROM jobs")
    desk.write("DELETE FROM outcomes")
    assert desk.submit("two") > first
