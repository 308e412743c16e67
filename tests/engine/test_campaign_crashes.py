"""Worker processes killed while they replay a group: every member is replayed exactly once, and none is forgotten."""

import random
from collections import Counter

from engine_pipelines import Work

STEPS = {"cause": "code", "evidence": "the fix is deployed", "safe": True}
BROKEN = Work(acts={"llm": ["unless_mended"]}, seconds=0.01)


class Replay:
    """A group of dead letters, a campaign over it, and workers that are killed meanwhile."""

    def __init__(self, lab, members):
        self.lab = lab
        self.jobs = lab.submit(*[BROKEN] * members)
        worker = lab.start(concurrency=20)
        lab.until(lambda: lab.count("dead_letters") == members, "every job has died")
        worker.stop()
        self.died = len(lab.lines())

    def start(self, **options):
        (self.lab.folder / "runs.mended").touch()

        async def main(operations):
            (group,) = await operations.dead_letters.groups()
            return await operations.campaigns.start(group.fingerprint, actor="ada", **STEPS, **options)

        self.members = self.lab.operate(main).campaign.members

    @property
    def campaign(self):
        (row,) = self.lab.rows("campaigns")
        return row

    @property
    def launched(self):
        return sum(self.replays().values())

    def replays(self):
        """How often each dead letter was replayed, by its history."""
        return Counter(row["letter_id"] for row in self.lab.rows("dead_letter_history", event="replay"))

    def kill_after(self, worker, launched):
        """Kill it when so many have been launched."""
        self.lab.until(lambda: self.launched >= launched, f"{launched} were launched")
        worker.kill()

    def end(self):
        """Wait for the campaign's end, and check that everything has happened once."""
        lab = self.lab
        lab.until(lambda: self.campaign["state"] == "done", "the campaign is done")
        letters = [row["id"] for row in lab.rows("dead_letters")]
        assert self.replays() == dict.fromkeys(letters, 1), "every member was replayed, once"
        assert Counter(row["event"] for row in lab.rows("dead_letter_history")) == dict.fromkeys(
            ("triage", "remediate", "approve", "replay", "recover"), len(letters)
        )
        assert {row["state"] for row in lab.rows("campaign_members")} == {"confirmed"}
        assert {row["state"] for row in lab.rows("dead_letters")} == {"replayed"}
        assert set(lab.outcomes().values()) == {"succeeded"}
        assert lab.count("queue") == 0
        again = lab.lines()[self.died :]
        assert {line.job for line in again if line.stage == "fetch"} == set(), "what had finished was kept"
        assert {line.job for line in again if line.what == "end" and line.stage == "notify"} == set(self.jobs)
        assert [row for row in lab.rows("dead_letter_counts") if row["letters"]] == [
            {"group_id": 1, "state": "replayed", "letters": len(letters)}
        ]
        assert lab.complain() == []

    def waves(self):
        counted = Counter(row["wave"] for row in self.lab.rows("campaign_members"))
        return [counted[wave] for wave in sorted(counted)]


def test_a_worker_that_is_killed_half_way_and_started_again_replays_every_member_exactly_once(lab):
    replay = Replay(lab, 120)
    replay.start()
    worker = lab.start(concurrency=20)
    for launched in (1, 3, 30, 80):
        replay.kill_after(worker, launched)
        worker = lab.start(concurrency=20)
    replay.end()
    assert replay.waves() == [1, 2, 5, 20, 92]


def test_under_a_rate_kills_neither_forget_nor_double(lab):
    replay = Replay(lab, 60)
    replay.start(waves=(1, 5), rate=40.0)
    draw = random.Random(4)
    worker = lab.start(concurrency=20)
    for launched in sorted(draw.sample(range(2, 50), 5)):
        replay.kill_after(worker, launched)
        worker = lab.start(concurrency=20)
    replay.end()
    times = sorted(row["at"] for row in lab.rows("dead_letter_history", event="replay"))
    beyond = max(
        last - first + 1 - 40.0 * (times[last] - began)
        for first, began in enumerate(times)
        for last in range(first, len(times))
    )
    assert beyond <= 41.0, "a second's worth may be saved up, and no more"


def test_several_workers_that_are_killed_in_turn_replay_every_member_exactly_once(postgres_lab):
    replay = Replay(postgres_lab, 250)
    replay.start()
    workers = [postgres_lab.start(concurrency=10) for _ in range(3)]
    for turn, launched in enumerate((1, 8, 28, 60, 128, 150)):
        replay.kill_after(workers[turn % 3], launched)
        workers[turn % 3] = postgres_lab.start(concurrency=10)
    replay.end()
    assert replay.waves() == [1, 2, 5, 20, 100, 122]


def test_a_campaign_that_nobody_works_on_stands_still_and_goes_on_with_the_next_worker(lab):
    replay = Replay(lab, 10)
    replay.start(waves=(1,))
    assert (replay.campaign["state"], replay.launched) == ("running", 0)
    lab.start()
    replay.end()


def test_a_return_is_seen_whoever_looks_next(lab):
    replay = Replay(lab, 30)
    replay.start(waves=(1, 5))
    (lab.folder / "runs.mended").unlink()
    replay.kill_after(lab.start(), 1)
    lab.start()
    lab.until(lambda: replay.campaign["state"] == "stopped", "the campaign is stopped")
    assert replay.launched == 1
    assert "1 of 1 in wave 1 came back with" in replay.campaign["reason"]
