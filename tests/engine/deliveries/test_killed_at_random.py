"""Worker processes killed at random moments while they tell people, by every kind of sender: nobody is forgotten, nobody told twice."""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import pytest
from delivery_pipelines import BLIND, KINDS

from support import effort

KILLS = effort.size(24, 300)
"""Over both databases."""
SEED = int(os.environ.get("REPRIEVE_SEED", "1"))


class Stream:
    """Jobs that keep coming, and workers that keep dying."""

    def __init__(self, theatre, draw):
        self.theatre, self.draw = theatre, draw
        self.workers = [theatre.start("stream"), theatre.start("stream")]
        self.at = Counter()
        """Where deliveries were that a kill cut off."""

    def submit(self, count):
        self.theatre.submit("stream", [(self.draw.choice(KINDS), self.draw.randint(1, 4)) for _ in range(count)])

    def kill(self, *, start=True):
        """Usually one that is at something; now and then one that only stands by, or is starting."""
        theatre = self.theatre
        busy = [each for each in self.workers if each.pid in theatre.recent()]
        victim = self.draw.choice(busy if busy and self.draw.random() < 0.9 else self.workers)
        victim.kill()
        over = set(theatre.lab.outcomes())
        rows = theatre.rows()
        for number, step in theatre.trail(victim.pid, by_job=True).items():
            if rows[number]["job_id"] not in over and step not in {"left", "ended", "failed", "look ended"}:
                self.at[step] += 1
        self.workers.remove(victim)
        if start:
            self.workers.append(theatre.start("stream"))


@pytest.mark.campaign
@pytest.mark.spec("REV-9.1", "REV-7.1")
def test_everybody_is_told_once_whenever_a_process_is_killed(theatre, tell):
    draw = random.Random(SEED)
    theatre.pipelines.append("stream")
    stream = Stream(theatre, draw)
    for _ in range(KILLS // 2):
        stream.submit(12)
        time.sleep(draw.uniform(0.02, 0.5))
        stream.kill()
    stream.submit(12)
    while stream.workers:
        stream.kill(start=False)
    theatre.recover()
    theatre.check_jobs()
    have = theatre.providers.have()
    rows = theatre.lab.rows("deliveries")
    for row in rows:
        blind = row["sender"].partition(".")[0] in BLIND
        assert row["status"] in ({"sent", "held"} if blind else {"sent"})
        assert have[row["token"]] in ({0, 1} if row["status"] == "held" else {1})
        assert row["status"] == "held" or (row["notified_at"] is not None and row["notification_id"] is not None)
    held = sum(row["status"] == "held" for row in rows)
    kills = len([process for process in theatre.lab.processes if process.code == -9])
    tell(
        f"{kills} kills over {len(rows)} deliveries, {sum(stream.at.values())} of them cut off, {held} held for a person: "
        + ", ".join(f"{number} {step}" for step, number in stream.at.most_common())
    )
    assert stream.at
    theatre.settle()
    theatre.check_settled()
