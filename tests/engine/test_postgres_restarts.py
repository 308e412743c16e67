"""PostgreSQL restarted, stopped and frozen under working processes: nothing is lost, doubled or charged to a job."""

import asyncio
import signal
import time

import engine_pipelines
import pytest
from engine_pipelines import Work

import reprieve
from reprieve.adapters.sql import schema
from support.postgres import start_postgres

LONG = 60.0
ONCE = {"fetch": ["once"], "llm": ["once"], "notify": ["once"]}
"""Slow, but only the first time that the job is begun at all."""


@pytest.fixture(scope="module")
def server():
    made = start_postgres()
    schema.upgrade(made.url())
    yield made
    made.remove()


@pytest.fixture
def own_lab(server, open_lab):
    lab = open_lab(server.url())
    with lab.writing() as connection:
        for table in ("jobs", "queue", "outcomes", "checkpoints", "attempts", "dead_letters", "workers", "stages"):
            connection.exec_driver_sql(f"TRUNCATE {table}")
    return lab


def some_jobs(lab, count, seconds=0.01):
    works = [Work(acts={"llm": ["fail"] * (number % 3)}, seconds=seconds) for number in range(count)]
    return lab.submit(*works)


@pytest.mark.spec("REV-9.1")
def test_jobs_survive_restarts_of_the_database_under_load(server, own_lab):
    jobs = some_jobs(own_lab, 400)
    workers = [own_lab.start(), own_lab.start()]
    for number, mode in enumerate(("fast", "immediate", "fast", "immediate")):
        own_lab.until(lambda number=number: own_lab.count("outcomes") > 60 * number, "jobs end")
        server.stop(mode)
        time.sleep(0.2 * number)
        server.start()
    own_lab.finish()
    assert [worker.stop() for worker in workers] == [0, 0]
    own_lab.check(jobs)
    assert own_lab.outcomes() == dict.fromkeys(jobs, "succeeded")


def test_an_outage_longer_than_the_lease_makes_no_worker_a_crashed_one(server, own_lab):
    """Two machines that both could not renew: neither takes the other for dead before it had the time to say otherwise."""
    jobs = some_jobs(own_lab, 60, seconds=0.3)
    workers = [own_lab.start(host="ash"), own_lab.start(host="birch")]
    own_lab.until(lambda: own_lab.count("outcomes") > 0, "jobs end")
    server.stop("fast")
    time.sleep(2.5)
    server.start()
    own_lab.finish()
    assert [worker.stop() for worker in workers] == [0, 0]
    own_lab.check(jobs)
    assert own_lab.outcomes() == dict.fromkeys(jobs, "succeeded")


def test_a_worker_stops_its_stages_when_the_database_is_silent_for_longer_than_its_lease(server, own_lab):
    jobs = some_jobs(own_lab, 5, seconds=60.0)
    own_lab.start()
    own_lab.until(lambda: len(own_lab.lines("begin")) == len(jobs), "all have begun")
    with server.suspended():
        deadline = time.monotonic() + LONG
        while len(own_lab.lines("cancel")) < len(jobs):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_worker_without_its_database_goes_when_it_is_told_to(server, own_lab):
    jobs = some_jobs(own_lab, 5, seconds=60.0)
    worker = own_lab.start(grace=0.2)
    own_lab.until(lambda: len(own_lab.lines("begin")) == 5, "all have begun")
    server.stop("fast")
    try:
        assert worker.stop(within=20) == 0
    finally:
        server.start()
    assert own_lab.complain() == []
    own_lab.start()
    own_lab.until(lambda: len(own_lab.lines("begin")) > len(jobs), "another worker takes over")


@pytest.mark.parametrize("word", [signal.SIGTERM, signal.SIGKILL], ids=["told to go", "killed"])
def test_how_a_worker_ended_while_its_database_was_away_nobody_can_know_and_no_job_is_suspected(server, own_lab, word):
    """It could not say that it was told to go; it lost its lease, which has a budget of its own."""
    jobs = own_lab.submit(*[Work(acts=ONCE, seconds=60.0) for _ in range(5)], pipeline="usual")
    worker = own_lab.start(pipelines=["usual"], grace=0.2)
    own_lab.until(lambda: len(own_lab.lines("begin")) == 5, "all have begun")
    server.stop("fast")
    try:
        worker.send(word)
        assert worker.wait(within=20) == (0 if word == signal.SIGTERM else -word)
        time.sleep(1.0)  # longer than what was left of its lease
    finally:
        server.start()
    own_lab.start(pipelines=["usual"])
    own_lab.finish()
    assert own_lab.complain() == []
    assert own_lab.outcomes() == dict.fromkeys(jobs, "succeeded")
    charged = [(row["job_id"], row["cause"], row["number"]) for row in own_lab.rows("attempts")]
    assert sorted(charged) == [(job, "lost_lease", 1) for job in jobs]


def test_a_worker_that_is_killed_before_its_database_goes_has_crashed(server, own_lab):
    """The lease was still good when the database came back: whoever lived would have said so."""
    jobs = own_lab.submit(*[Work(acts=ONCE, seconds=60.0) for _ in range(2)], pipeline="usual")
    worker = own_lab.start(pipelines=["usual"], lease=6.0)
    own_lab.until(lambda: len(own_lab.lines("begin")) == 2, "all have begun")
    worker.kill()
    server.stop("fast")
    server.start()
    own_lab.start(pipelines=["usual"])
    own_lab.finish()
    own_lab.check(jobs, killed=frozenset({worker.pid}))
    assert {row["cause"] for row in own_lab.rows("attempts")} == {"crash"}


def test_a_job_that_is_submitted_while_the_database_is_away_is_created_once(server, own_lab):
    async def main():
        async with reprieve.connect(own_lab.url) as app:
            await asyncio.to_thread(server.stop, "immediate")
            submits = [
                asyncio.create_task(app.submit(engine_pipelines.campaign, Work(), idempotency_key=f"key-{number % 10}"))
                for number in range(20)
            ]
            await asyncio.sleep(0.5)
            await asyncio.to_thread(server.start)
            return [(await submit).job_id for submit in submits]

    ids = asyncio.run(main())
    assert sorted(set(ids)) == sorted(row["id"] for row in own_lab.rows("jobs"))
    assert ids[:10] == ids[10:]
