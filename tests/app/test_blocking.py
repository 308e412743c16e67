"""Submitting and waiting from plain synchronous code, on both databases."""

import asyncio
import inspect
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import fields

import psycopg
import pytest
import sqlalchemy

import reprieve
from reprieve import DeadLetter, Pipeline, RetryAt
from reprieve.app.application import App
from reprieve.app.blocking import BlockingApp, BlockingSubmission, SubmitOptions
from reprieve.app.submitting import Item, Submission
from reprieve.errors import (
    JobFailedError,
    JobTimeoutError,
    PayloadError,
    StoreError,
    StoreUnavailableError,
    SubmitError,
    UnknownNameError,
    UsageError,
)


def threads_of_ours():
    """Those that do not end: one that is told to is there for a moment more."""
    ours = [each for each in threading.enumerate() if each.name.startswith(("reprieve-blocking", "reprieve-sqlite"))]
    for each in ours:
        each.join(timeout=30)
    return [each for each in ours if each.is_alive()]


@pytest.fixture
def doubling():
    found = Pipeline("doubling")

    @found.stage
    async def double(job: reprieve.Job[int]) -> int:
        if job.payload < 0:
            raise reprieve.Permanent("no negative numbers")
        return 2 * job.payload

    return found


@pytest.fixture
def app(store_url):
    with reprieve.connect(store_url).blocking() as opened:
        yield opened


@contextmanager
def worker(url, pipeline):
    """Works until it is told to stop, in a thread of its own."""
    stop, running = threading.Event(), threading.Event()

    async def work():
        async with reprieve.connect(url) as app:
            task = asyncio.create_task(app.work(pipeline, poll=0.02))
            running.set()
            await asyncio.to_thread(stop.wait)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    thread = threading.Thread(target=asyncio.run, args=(work(),))
    thread.start()
    running.wait(30)
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_plain_code_submits_and_waits_for_the_result(app, store_url, doubling):
    with worker(store_url, doubling):
        job = app.submit(doubling, 21, idempotency_key="half", priority=3)
        assert job.result(timeout=30) == 42
        assert app.wait(job.job_id, timeout=30, pipeline=doubling) == 42
    again = app.submit(doubling, 7, idempotency_key="half")
    assert (again.job_id, again.duplicate, again.mismatch) == (job.job_id, True, True)
    assert (job.duplicate, job.mismatch, job.superseded, job.idempotency_key) == (False, False, (), "half")


def test_failures_are_raised_as_the_application_raises_them(app, store_url, doubling):
    with worker(store_url, doubling):
        with pytest.raises(JobFailedError, match="no negative numbers") as failed:
            app.submit(doubling, -1).result(timeout=30)
        assert failed.value.status == "dead_letter"
    waiting = app.submit(doubling, 1, delay=3600)
    with pytest.raises(JobTimeoutError, match=r"is not over after 0\.05 s"):
        waiting.result(timeout=0.05)
    with pytest.raises(UnknownNameError, match="no job is named '999'"):
        app.wait(999)
    with pytest.raises(PayloadError):
        app.submit(doubling, "many")
    app.submit(doubling, 1, subject="s", version=2)
    with pytest.raises(SubmitError, match="version 1 is not above version 2"):
        app.submit(doubling, 1, subject="s", version=1)


@pytest.mark.spec("REV-1.2")
def test_many_threads_submit_one_key_and_get_one_job(app, doubling):
    with ThreadPoolExecutor(20) as threads:
        jobs = list(threads.map(lambda _: app.submit(doubling, 1, idempotency_key="same"), range(100)))
    assert len({job.job_id for job in jobs}) == 1
    assert sum(not job.duplicate for job in jobs) == 1


def test_many_jobs_are_submitted_at_once(app, doubling):
    def items():  # a generator runs in the thread of who calls
        for number in range(3):
            assert threading.current_thread() is threading.main_thread()
            yield number
        yield Item(3, idempotency_key="third")

    jobs = app.submit_many(doubling, items())
    assert len({job.job_id for job in jobs}) == 4
    assert all(isinstance(job, BlockingSubmission) for job in jobs)
    assert jobs[3].idempotency_key == "third"


def test_items_of_a_callers_own_loop_are_reported(app, doubling):
    job = app.submit(doubling, 1)
    assert isinstance(app.handle_item_failure(job.job_id, "agent", "double", "timeout", "ingestion"), RetryAt)
    app.complete_item(job.job_id, "double", 2)
    assert job.result(timeout=30) == 2
    other = app.submit(doubling, 1, idempotency_key="other")
    assert isinstance(app.handle_item_failure("other", "agent", "double", "unauthorized"), DeadLetter)
    with pytest.raises(JobFailedError, match="dead_letter"):
        other.result(timeout=30)


def test_the_options_are_those_of_the_application():
    assert set(SubmitOptions.__annotations__) == set(inspect.signature(App.submit).parameters) - {
        "self",
        "pipeline",
        "payload",
    }
    assert {each.name for each in fields(BlockingSubmission)} == {each.name for each in fields(Submission)}
    for name in ("submit_many", "wait", "handle_item_failure", "complete_item"):
        ours = set(inspect.signature(getattr(BlockingApp, name)).parameters)
        assert ours == set(inspect.signature(getattr(App, name)).parameters) - {"draw"}


# --- the caller's own transaction -------------------------------------------------------------------------------------


@contextmanager
def opened(url):
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            yield connection
    else:
        with psycopg.connect(url) as connection:
            yield connection


def test_a_job_in_the_callers_transaction_is_there_if_and_only_if_it_commits(app, store_url, doubling):
    with opened(store_url) as connection:
        job = app.submit(doubling, 1, connection=connection)
        with pytest.raises(UnknownNameError):
            app.wait(job.job_id, timeout=0)
        connection.rollback()
        with pytest.raises(UnknownNameError):
            app.wait(job.job_id, timeout=0)
        job, other = app.submit_many(doubling, [1, 2], connection=connection)
        connection.commit()
    for each in (job, other):
        with pytest.raises(JobTimeoutError):
            each.result(timeout=0)


def test_a_connection_may_belong_to_any_thread(app, store_url, doubling):
    def submit(number):
        with opened(store_url) as connection:
            job = app.submit(doubling, number, connection=connection)
            connection.commit()
            return job.job_id

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(submit, range(20)))) == 20


def test_an_asynchronous_connection_is_refused(postgres_url, doubling):
    async def connect():
        return await psycopg.AsyncConnection.connect(postgres_url)

    connection = asyncio.run(connect())
    with reprieve.connect(postgres_url).blocking() as app:
        with pytest.raises(UsageError, match="asynchronous connection needs the asynchronous application"):
            app.submit(doubling, 1, connection=connection)
        with pytest.raises(UsageError, match="connection= takes"):
            app.submit(doubling, 1, connection=sqlalchemy.create_engine("sqlite://"))
    asyncio.run(connection.close())


# --- opening and closing ----------------------------------------------------------------------------------------------


def test_closing_twice_is_harmless_and_use_after_it_is_told(store_url, doubling):
    app = reprieve.connect(store_url).blocking()
    uses = [
        lambda: app.submit(doubling, 1),
        lambda: app.submit_many(doubling, [1]),
        lambda: app.wait(1),
        lambda: app.submit(doubling, 1, connection=object()),
    ]
    for use in uses:
        with pytest.raises(UsageError, match=r"not open: use `with reprieve\.connect"):
            use()
    with app:
        job = app.submit(doubling, 1)
    app.close()
    for use in (*uses, job.result):
        with pytest.raises(UsageError, match=r"not open: use `with reprieve\.connect"):
            use()
    with pytest.raises(UsageError, match="opened once: connect anew"):
        app.__enter__()
    assert not threads_of_ours()


def test_closing_what_was_never_opened_is_harmless(sqlite_url):
    reprieve.connect(sqlite_url).blocking().close()


def test_a_failure_to_open_is_raised_to_the_caller(tmp_path):
    for url in (f"sqlite:///{tmp_path}/no/such/folder/jobs.db", f"postgresql:///nobody?host={tmp_path}"):
        with pytest.raises(StoreError), reprieve.connect(url).blocking():
            pytest.fail("it was opened")
    assert not threads_of_ours()


def test_an_error_in_the_block_is_the_callers_own(app, sqlite_url):
    with pytest.raises(ZeroDivisionError), reprieve.connect(sqlite_url).blocking():
        raise ZeroDivisionError


def test_whoever_waits_while_another_thread_closes_is_told(store_url, doubling):
    with reprieve.connect(store_url).blocking() as app, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(app.submit(doubling, 1).result)
        time.sleep(0.1)
        app.close()
        with pytest.raises((StoreUnavailableError, UsageError), match=r"the application was closed|not open"):
            waiting.result(timeout=30)


def test_inside_an_event_loop_it_is_refused(app, store_url, doubling):
    job = app.submit(doubling, 1)

    async def scene():
        for use in (
            reprieve.connect(store_url).blocking().__enter__,
            job.result,
            lambda: app.submit(doubling, 1),
            lambda: app.submit(doubling, 1, connection=object()),
        ):
            with pytest.raises(UsageError, match="would block the event loop that runs here: use `async with"):
                use()
        async with reprieve.connect(store_url) as other:
            with pytest.raises(UsageError, match="open in an event loop"):
                other.blocking()

    asyncio.run(scene())


SCRIPT = """
import asyncio, sys, time, reprieve
from reprieve import Pipeline
pipeline = Pipeline("idle")
@pipeline.stage
async def nothing(job: reprieve.Job[int]) -> None: ...
with reprieve.connect(sys.argv[1]).blocking() as app:
    job = app.submit(pipeline, 1)
    tasks = len(asyncio.all_tasks(app._life._loop))
    print("waiting", flush=True)
    try:
        job.result()
    except KeyboardInterrupt:
        print("interrupted", app.submit(pipeline, 2).job_id > job.job_id, flush=True)
    for _ in range(100):
        if len(asyncio.all_tasks(app._life._loop)) == tasks:
            print("nobody waits", flush=True)
            break
        time.sleep(0.1)
"""


def test_ctrl_c_ends_the_waiting_and_not_the_application(store_url):
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, store_url], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.read() == "interrupted True\nnobody waits\n"
    assert process.returncode == 0
