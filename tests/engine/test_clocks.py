"""Clocks that are set while workers run: their time is the store's, and goes on with a clock that nobody can set."""

import time

from engine_pipelines import Work


def some_jobs(lab):
    return lab.submit(*[Work(acts={"llm": ["fail"] * (number % 4)}, seconds=0.02) for number in range(60)])


def test_a_worker_whose_wall_clock_jumps_about_loses_and_doubles_nothing(postgres_lab):
    """Beside one whose clock is right: neither takes the other for dead, and every row has the server's time."""
    lab = postgres_lab
    began = time.time()
    jobs = some_jobs(lab)
    workers = [lab.start(jumpy=True, lease=10.0), lab.start(lease=10.0)]
    lab.finish()
    assert len({line.pid for line in lab.lines()}) == 2
    assert [worker.stop() for worker in workers] == [0, 0]
    lab.check(jobs)
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")
    moments = [row["finished_at"] for row in lab.rows("outcomes") + lab.rows("checkpoints")]
    moments += [row["retry_at"] for row in lab.rows("attempts")]
    assert all(began - 1 <= moment <= time.time() + 1 for moment in moments)
    assert {row["cause"] for row in lab.rows("attempts")} == {"handler"}


def test_a_worker_on_a_file_goes_on_while_the_machines_clock_is_set(sqlite_lab):
    lab = sqlite_lab
    jobs = some_jobs(lab)
    worker = lab.start(jumpy=True, lease=10.0)
    lab.finish()
    assert worker.stop() == 0
    lab.check(jobs)
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")
    assert {row["cause"] for row in lab.rows("attempts")} == {"handler"}
    assert all(row["started_at"] <= row["finished_at"] for row in lab.rows("outcomes") + lab.rows("checkpoints"))
