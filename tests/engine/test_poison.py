"""Jobs that kill their worker are found out and given up; whoever was in the same process is not."""

from collections import Counter
from functools import partial

import pytest
from engine_pipelines import Work

LEASE = 2.0
"""Seconds. A live worker renews it in time even on a busy machine."""

ONCE = {"fetch": ["once"], "llm": ["once"], "notify": ["once"]}
"""Slow, but only the first time that the job is begun at all."""


@pytest.mark.spec("REV-9.1", "CRIT-4.1")
@pytest.mark.parametrize("act", ["segfault", "exit", "kill"])
def test_a_job_that_kills_its_worker_is_dead_lettered_and_its_neighbours_are_not(lab, act):
    """A worker that dies is started again, as a supervisor does it, until nothing is left to do."""
    neighbours = lab.submit(*[Work(seconds=0.02) for _ in range(15)], pipeline="usual")
    (poison,) = lab.submit(Work(acts={"llm": [act] * 9}, seconds=0.01), pipeline="usual")
    neighbours += lab.submit(*[Work(acts={"llm": ["fail"] * 4}, seconds=0.02) for _ in range(15)], pipeline="usual")
    killed = keep_working(lab, pipelines=["usual"], concurrency=20)
    lab.check([poison, *neighbours], killed=killed)
    assert lab.outcomes() == {poison: "dead_letter"} | dict.fromkeys(neighbours, "succeeded")
    (letter,) = lab.rows("dead_letters")
    (group,) = lab.rows("dead_letter_groups")
    assert (letter["job_id"], group["stage"], group["error_class"]) == (poison, "llm", "WORKER_LOST")
    assert (letter["attempts"], letter["budget"], letter["pages"]) == (3, 3, True)
    assert len(killed) == 3
    assert len(lab.lines("begin", job=poison, stage="fetch")) == 1, "what was acknowledged before is not run again"
    # Every attempt of the neighbours that a crash ended is a crash's, and none is the handler's.
    assert lab.count("attempts", cause="crash", job_id=poison) == 3


def keep_working(lab, *, most=20, **options):
    """Start a worker whenever the one before has died; the ids of the dead."""
    dead = set()
    while len(dead) < most:
        process = lab.start(lease=LEASE, **options)
        lab.until(
            lambda process=process: process.code is not None or lab.count("queue") == 0, "it dies, or ends its work"
        )
        if process.code is None:
            assert process.stop() == 0
            return frozenset(dead)
        dead.add(process.pid)
    raise AssertionError(f"{most} workers have died")


@pytest.mark.spec("REV-9.1")
def test_of_a_hundred_claims_in_flight_at_three_deaths_only_the_guilty_one_is_condemned(lab):
    """The first death comes when all hundred have begun; after that the suspects are run one by one."""
    jobs = lab.submit(*[Work(acts=ONCE, seconds=30.0) for _ in range(99)], pipeline="usual")
    (poison,) = lab.submit(Work(acts={"fetch": ["kill"] * 9}, seconds=0.5), pipeline="usual")
    killed = keep_working(lab, pipelines=["usual"], concurrency=100)
    assert len(killed) == 3
    assert len({line.job for line in lab.lines("begin", pid=min(killed))}) == 100
    lab.check([poison, *jobs], killed=killed)
    assert lab.outcomes() == {poison: "dead_letter"} | dict.fromkeys(jobs, "succeeded")
    crashes = Counter(row["job_id"] for row in lab.rows("attempts", cause="crash"))
    assert crashes == dict.fromkeys(jobs, 1) | {poison: 3}


@pytest.mark.spec("REV-9.1")
def test_a_worker_that_is_killed_from_outside_with_a_hundred_claims_three_times_over_condemns_nobody(lab):
    killed, jobs = set(), []
    for _ in range(3):
        jobs += lab.submit(*[Work(acts=ONCE, seconds=30.0) for _ in range(100)], pipeline="usual")
        worker = lab.start(pipelines=["usual"], concurrency=100, lease=LEASE)
        begun = partial(lab.lines, "begin", pid=worker.pid, stage="fetch")
        lab.until(lambda begun=begun: len(begun()) == 100, "all hundred have begun")
        worker.kill()
        killed.add(worker.pid)
        another = lab.start(pipelines=["usual"], concurrency=100, lease=LEASE)
        lab.finish()
        assert another.stop() == 0
    lab.check(jobs, killed=frozenset(killed))
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")
    assert Counter(row["job_id"] for row in lab.rows("attempts", cause="crash")) == dict.fromkeys(jobs, 1)


def test_a_death_in_company_condemns_nobody_even_where_one_death_is_too_many(lab):
    """The budget is a single crash: the guilty one is given up when it was alone, and not before."""
    neighbours = lab.submit(*[Work(acts=ONCE, seconds=30.0) for _ in range(9)], pipeline="strict")
    (poison,) = lab.submit(Work(acts={"fetch": ["kill"] * 9}, seconds=0.5), pipeline="strict")
    killed = keep_working(lab, pipelines=["strict"])
    assert len(killed) == 2
    lab.check([poison, *neighbours], killed=killed)
    assert lab.outcomes() == {poison: "dead_letter"} | dict.fromkeys(neighbours, "succeeded")


def test_a_want_of_memory_that_python_notices_is_the_stages_own_failure(lab):
    (job,) = lab.submit(Work(acts={"llm": ["memory"]}), pipeline="usual")
    lab.start(pipelines=["usual"])
    lab.finish()
    lab.check([job])
    (attempt,) = lab.rows("attempts")
    assert (attempt["cause"], attempt["counted"]) == ("handler", True)
