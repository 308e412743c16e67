"""Workers that stood still and do not know it: two believe that they own a job, and the fence lets one write."""

import signal
import time

import pytest
from engine_pipelines import Work


def dead_letters_and_losses(lab):
    return lab.count("dead_letters"), [row for row in lab.rows("attempts") if row["cause"] != "lost_lease"]


@pytest.mark.spec("REV-9.1")
def test_of_two_workers_that_both_believe_they_own_a_job_the_fence_lets_one_write(postgres_lab):
    """The first is stopped in the middle of its stages until the second has taken over, and then goes on as if nothing were."""
    lab = postgres_lab
    jobs = lab.submit(*[Work(seconds=0.4) for _ in range(5)])
    first = lab.start()
    lab.until(lambda: len(lab.lines("begin")) == len(jobs), "all have begun")
    first.send(signal.SIGSTOP)
    second = lab.start()
    lab.until(lambda: len(lab.lines("begin", pid=second.pid)) >= len(jobs), "the other has taken over")
    first.send(signal.SIGCONT)
    lab.finish()
    assert (first.stop(), second.stop()) == (0, 0)
    lab.check(jobs)
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")
    # The process was there all the time: a lease was lost, and nobody crashed.
    assert dead_letters_and_losses(lab) == (0, [])
    assert {row["job_id"] for row in lab.rows("attempts")} == set(jobs)


@pytest.mark.spec("REV-9.1")
def test_what_a_worker_finishes_after_it_was_given_up_counts_for_nothing(postgres_lab):
    """Stages that take no notice of being cancelled end after another worker has begun them anew."""
    lab = postgres_lab
    jobs = lab.submit(*[Work(acts={"fetch": ["stubborn"]}, seconds=2.0) for _ in range(3)])
    first = lab.start()
    lab.until(lambda: len(lab.lines("begin")) == len(jobs), "all have begun")
    first.send(signal.SIGSTOP)
    second = lab.start()
    lab.until(lambda: len(lab.lines("begin", pid=second.pid)) == len(jobs), "the other has taken over")
    first.send(signal.SIGCONT)
    lab.until(lambda: len(lab.lines("end", pid=first.pid, stage="fetch")) == len(jobs), "the first ends them, in vain")
    lab.until(lambda: "is not this worker's any more" in first.said(), "and is told so")
    before = {row["stage"] for row in lab.rows("queue")}
    assert before == {"fetch"} or lab.lines("end", pid=second.pid), "nothing of it was written"
    lab.finish()
    assert (first.stop(), second.stop()) == (0, 0)
    lab.check(jobs)
    assert lab.lines("begin", pid=first.pid, stage="llm") == [], "nobody told it that this was written"
    kept = {row["result"].decode().strip('"').split(".")[0] for row in lab.rows("checkpoints", stage="fetch")}
    assert kept == {str(second.pid)}


def test_a_worker_that_was_given_up_begins_anew_and_works_on(postgres_lab):
    """Nobody else is left when it comes to itself; what it claims from then on is claimed under a new name."""
    lab = postgres_lab
    jobs = lab.submit(Work(acts={stage: ["block_once"] for stage in ("fetch", "llm", "notify")}, seconds=6.0))
    first = lab.start()
    lab.until(lambda: lab.lines("begin"), "it blocks its event loop")
    second = lab.start()
    lab.until(lambda: lab.lines("begin", pid=second.pid), "the other has taken over")
    assert second.stop() == 0
    jobs += lab.submit(*[Work() for _ in range(5)])
    lab.finish()
    assert first.stop() == 0
    lab.check(jobs)
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")
    assert "begins anew" in first.said()


def test_a_stage_that_blocks_the_event_loop_costs_its_neighbours_nothing_where_nobody_took_over(lab):
    """Longer than the lease, and several times: the worker looks whether it is still the owner before it stops anything."""
    neighbours = lab.submit(*[Work(seconds=1.2) for _ in range(4)], pipeline="usual")
    blocker = lab.submit(Work(acts={stage: ["block"] for stage in ("fetch", "llm", "notify")}), pipeline="usual")
    worker = lab.start(pipelines=["usual"])
    lab.finish()
    assert worker.stop() == 0
    lab.check([*neighbours, *blocker])
    assert lab.outcomes() == dict.fromkeys([*neighbours, *blocker], "succeeded")
    assert [(row["job_id"], row["stage"], row["message"]) for row in lab.rows("attempts")] == []
    assert len(lab.lines("begin")) == 15


def test_a_process_that_stood_still_does_not_take_others_for_dead(postgres_lab):
    """Both stood still, as in a virtual machine that was moved; on different hosts, so that neither can see the other."""
    lab = postgres_lab
    jobs = lab.submit(*[Work(seconds=0.5) for _ in range(20)])
    workers = [lab.start(host="ash"), lab.start(host="birch")]
    lab.until(lambda: len({line.pid for line in lab.lines("begin")}) == 2, "both work")
    for worker in workers:
        worker.send(signal.SIGSTOP)
    time.sleep(2.5)
    for worker in workers:
        worker.send(signal.SIGCONT)
    lab.finish()
    assert [worker.stop() for worker in workers] == [0, 0]
    lab.check(jobs)
    assert lab.count("attempts", cause="crash") == 0


def test_a_worker_on_another_machine_gets_the_time_of_a_lease_to_be_back_before_it_counts_as_dead(postgres_lab):
    """Whoever has just come cannot know whether the store was there for the other in the meantime."""
    lab = postgres_lab
    (job,) = lab.submit(Work(acts={"fetch": ["once"]}, seconds=30.0), pipeline="usual")
    first = lab.start(pipelines=["usual"], host="ash", lease=0.5)
    lab.until(lambda: lab.lines("begin"), "it has begun")
    first.kill()
    (row,) = lab.rows("workers")
    lab.until(lambda: time.time() > row["expires_at"], "its lease is over")
    second = lab.start(pipelines=["usual"], host="birch", lease=3.0)
    lab.until(lambda: lab.lines("begin", pid=second.pid), "the other takes over")
    (came,) = [row["started_at"] for row in lab.rows("workers") if row["pid"] == second.pid]
    (attempt,) = lab.rows("attempts", job_id=job)
    assert attempt["cause"] == "crash"
    assert attempt["ended_at"] >= came + 3.0 - 0.1
