"""Worker processes killed at random moments: no job lost, no acknowledged stage run again, no attempt miscounted."""

import os
import random
import time

import pytest
from engine_pipelines import Work

from support import effort

KILLS = effort.size(60, 500)
"""Over both databases."""
SEED = int(os.environ.get("REPRIEVE_SEED", "1"))
STAGES = ("fetch", "llm", "notify")
LEASE = 2.0
"""Seconds. A live worker renews it in time even on a busy machine."""


def a_job(draw):
    """Most succeed at once; some fail now and then; some are given up."""
    kind = draw.random()
    acts = {}
    if kind < 0.25:
        acts = {stage: ["fail"] * draw.randrange(4) for stage in STAGES}
    elif kind < 0.3:
        acts = {draw.choice(STAGES): ["fail"] * 5}
    elif kind < 0.35:
        acts = {draw.choice(STAGES): ["refuse"]}
    return Work(acts=acts, remembers=draw.random() < 0.3, seconds=draw.choice((0.0, 0.005, 0.02, 0.05)))


def is_given_up(work):
    return any("refuse" in acts or len(acts) == 5 for acts in work.acts.values())


class Campaign:
    """Kills workers, and starts others in their place."""

    def __init__(self, lab, seed, *, workers):
        self.lab, self.draw = lab, random.Random(seed)
        self.working = [lab.start(lease=LEASE, concurrency=20) for _ in range(workers)]
        self.killed = set()
        self.jobs = {}
        self.cancelled = set()

    def submit(self, count):
        works = [a_job(self.draw) for _ in range(count)]
        self.jobs.update(zip(self.lab.submit(*works), works, strict=True))

    def cancel(self, count):
        """Ask for some jobs that are not over to be cancelled, whatever they are doing."""
        chosen = self.draw.sample(rows := self.lab.rows("queue"), min(count, len(rows)))

        async def main(operations):
            for row in chosen:
                await operations.jobs.cancel(row["job_id"], actor="ann", reason="not needed")

        self.lab.operate(main)
        self.cancelled |= {row["job_id"] for row in chosen}

    def kill(self):
        """Usually one that has begun a stage not long ago; now and then one that is only starting."""
        recent = {line.pid for line in self.lab.lines("begin")[-30:]}
        busy = [process for process in self.working if process.pid in recent]
        victim = self.draw.choice(busy if busy and self.draw.random() < 0.9 else self.working)
        victim.kill()
        self.killed.add(victim.pid)
        self.working[self.working.index(victim)] = self.lab.start(lease=LEASE, concurrency=20)

    def end(self):
        self.lab.finish()
        assert [process.code for process in self.working] == [None] * len(self.working)
        self.lab.check(list(self.jobs), killed=frozenset(self.killed))
        outcomes = self.lab.outcomes()
        expected = {job: "dead_letter" if is_given_up(work) else "succeeded" for job, work in self.jobs.items()}
        # Who was asked to stop may have been over by then, or almost.
        expected |= {job: "cancelled" for job in self.cancelled if outcomes[job] == "cancelled"}
        assert outcomes == expected


@pytest.mark.campaign
@pytest.mark.spec("REV-9.1", "CRIT-3.5")
def test_jobs_survive_workers_that_are_killed_at_random_moments(lab, tell):
    campaign = Campaign(lab, SEED, workers=3)
    campaign.submit(100)
    began = time.monotonic()
    for number in range(KILLS // 2):
        time.sleep(campaign.draw.uniform(0.05, 0.35))
        if lab.count("queue") < 60:
            campaign.submit(40)
        if number % 5 == 4:
            campaign.cancel(3)
        campaign.kill()
    killed_after = time.monotonic() - began
    campaign.end()
    interrupted = lab.count("attempts", cause="crash")
    tell(
        f"{len(campaign.killed)} kills in {killed_after:.1f} s, {interrupted} stages cut off, {len(campaign.jobs)} jobs",
    )
    assert interrupted > 0


def test_an_attempt_that_a_death_ended_began_when_its_stage_did_and_not_with_the_first_attempt(lab):
    """One is in its second attempt, the other in a second stage."""
    again, further = lab.submit(
        Work(acts={"fetch": ["fail", "hang"]}), Work(acts={"llm": ["hang"]}, seconds=0.3), pipeline="usual"
    )
    worker = lab.start(pipelines=["usual"])
    (second,) = lab.until(lambda: lab.lines("begin", job=again, attempt=2), "the second attempt begins")
    (inside,) = lab.until(lambda: lab.lines("begin", job=further, stage="llm"), "the second stage begins")
    worker.kill()
    lab.start(pipelines=["usual"])
    lab.until(lambda: lab.count("attempts", cause="crash") == 2, "both are taken over")
    (failed,) = lab.rows("attempts", job_id=again, cause="handler")
    (crashed,) = lab.rows("attempts", job_id=again, cause="crash")
    assert failed["ended_at"] <= crashed["started_at"] <= second.moment + 0.05
    (before,) = lab.rows("checkpoints", job_id=further)
    (crashed,) = lab.rows("attempts", job_id=further, cause="crash")
    assert before["finished_at"] <= crashed["started_at"] <= inside.moment + 0.05
