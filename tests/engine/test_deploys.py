"""Workers that are told to go: what runs may end, the rest is handed back, and no attempt is spent on it."""

import signal

import pytest
from engine_pipelines import Work


def charged(lab):
    return [(row["job_id"], row["cause"]) for row in lab.rows("attempts")]


@pytest.mark.spec("REV-9.1")
def test_a_worker_that_is_told_to_stop_lets_its_stages_end_and_hands_the_rest_back(lab):
    jobs = lab.submit(*[Work(seconds=0.5) for _ in range(30)], pipeline="usual")
    worker = lab.start(pipelines=["usual"], lease=10.0)
    lab.until(lambda: len(lab.lines("begin")) == 10, "it is busy")
    assert worker.stop() == 0
    assert {line.what for line in lab.lines()} == {"begin", "end"}, "no stage was broken off"
    assert len(lab.lines("begin")) == 10, "and none was begun"
    assert lab.count("checkpoints") == 10, "what they made was kept"
    assert lab.count("queue", state=0) == len(jobs)
    assert lab.count("workers") == 0
    assert charged(lab) == []
    lab.start(pipelines=["usual"], concurrency=30, lease=10.0)
    lab.finish()
    lab.check(jobs)
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")
    assert charged(lab) == []


@pytest.mark.spec("REV-9.1")
def test_stages_that_outlast_the_grace_are_cancelled_and_handed_back_at_no_cost(lab):
    jobs = lab.submit(*[Work(acts={"fetch": ["hang"]}) for _ in range(5)], pipeline="usual")
    for number in range(1, 8):  # more often than any stage may fail
        worker = lab.start(pipelines=["usual"], grace=0.1, lease=10.0)
        lab.until(lambda number=number: len(lab.lines("begin")) == 5 * number, "all have begun")
        assert worker.stop() == 0
        assert {row["deploy"] for row in lab.rows("queue", state=0)} == {number}
    assert len(lab.lines("cancel")) == 35
    assert [line.attempt for line in lab.lines("begin")] == [1] * 35
    assert len(lab.rows("queue", state=0, handler=0, crash=0, lost_lease=0)) == len(jobs)
    assert charged(lab) == []


@pytest.mark.spec("REV-9.1")
def test_a_worker_that_is_killed_while_it_goes_was_deployed_and_did_not_crash(lab):
    """SIGTERM, and SIGKILL before the grace is over, as impatient machines do it."""
    jobs = lab.submit(*[Work(acts={"fetch": ["once"]}, seconds=30.0) for _ in range(5)], pipeline="usual")
    worker = lab.start(pipelines=["usual"], grace=60.0)
    lab.until(lambda: len(lab.lines("begin")) == 5, "all have begun")
    worker.send(signal.SIGTERM)
    lab.until(lambda: lab.count("workers", stopping=True) == 1, "the others can know")
    worker.kill()
    lab.start(pipelines=["usual"])
    lab.until(lambda: len(lab.lines("begin", stage="fetch")) == 10, "all have begun again")
    assert charged(lab) == []
    lab.until(lambda: lab.count("queue", crash=0, deploy=0) == len(jobs), "they are past that stage")


def test_a_stage_that_takes_no_notice_of_being_cancelled_is_not_handed_to_another(lab):
    """What it comes to in the end is kept, as long as the worker waits for it."""
    (job,) = lab.submit(Work(acts={"fetch": ["stubborn"]}, seconds=1.5), pipeline="usual")
    worker = lab.start(pipelines=["usual"], grace=0.1, lease=5.0)
    lab.until(lambda: lab.lines("begin"), "it has begun")
    assert worker.stop() == 0
    assert len(lab.lines("end")) == 1
    assert lab.count("checkpoints", job_id=job) == 1
    assert charged(lab) == []


def test_a_plain_function_that_outlasts_the_grace_is_waited_for_and_not_run_beside_itself(lab):
    """It cannot be interrupted: the worker stays for as long as its lease lasts, and keeps what it makes."""
    (job,) = lab.submit(Work(acts={"block": ["deaf"]}, seconds=1.5), pipeline="plain")
    worker = lab.start(pipelines=["plain"], grace=0.1, lease=5.0)
    lab.until(lambda: lab.lines("begin"), "it has begun")
    worker.send(signal.SIGTERM)
    lab.start(pipelines=["plain"], lease=5.0)
    assert worker.wait() == 0
    lab.finish()
    assert [line.what for line in lab.lines()] == ["begin", "end"]
    assert lab.outcomes() == {job: "succeeded"}
    assert charged(lab) == []
