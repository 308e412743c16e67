"""Canary replay of a group, with a real worker: waves, stopping by itself, groups that grow, rates, two who step at once."""

import asyncio
import json
import logging

from campaigns_lab import ALL_STEPS, DONE, STOPPED, broken, open_lab, otherwise, summary

import reprieve
from reprieve.adapters.sql.engine import Database
from reprieve.core.canary import CampaignState


def run(main):
    async def bounded():
        async with asyncio.timeout(120):
            return await main()

    return asyncio.run(bounded())


def test_a_group_is_replayed_wave_after_wave_until_all_are_confirmed(store_url):
    async def main():
        async with open_lab(store_url) as lab:
            fingerprint = await lab.bury(150)
            started = await lab.campaigns.start(fingerprint, actor="ada", **ALL_STEPS)
            assert (started.aside, summary(started.campaign)) == (0, {"waiting": 150})
            await lab.work()
            row = await lab.campaigns.show(started.campaign.campaign_id)
            assert (row.state, summary(row)) == (DONE, {"confirmed": 150})
            assert row.reason == "150 confirmed"
            assert lab.waves(row.campaign_id) == [1, 2, 5, 20, 100, 22]
            assert await lab.states() == {"replayed": 150}
            assert set(lab.replays().values()) == {1}
            members = lab.rows("campaign_members")
            oldest = [letter["id"] for letter in sorted(lab.rows("dead_letters"), key=lambda each: each["id"])]
            assert [each["letter_id"] for each in sorted(members, key=lambda each: each["place"])] == oldest
            assert all(lab.runs["fetch", n] == 1 and lab.runs["llm", n] == 2 for n in range(150))
            history = [entry.event for entry in (await lab.letters.show(oldest[0])).history]
            assert history == ["triage", "remediate", "approve", "replay", "recover"]

    run(main)


def test_a_wave_is_sent_only_when_the_one_before_is_confirmed(store_url):
    async def main():
        async with open_lab(store_url) as lab:
            fingerprint = await lab.bury(10)
            lab.fails = lambda n: None if n != 1 else reprieve.Retryable("not yet", retry_after=3600)
            started = await lab.campaigns.start(fingerprint, actor="ada", waves=(1, 2), **ALL_STEPS)
            working = asyncio.create_task(lab.app.work(lab.pipeline, poll=0.05))
            while lab.runs["llm", 1] < 2:  # noqa: ASYNC110 - another task counts
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)  # long enough for another wave, had there been one
            row = await lab.campaigns.show(started.campaign.campaign_id)
            assert (row.wave, summary(row)) == (1, {"confirmed": 2, "replaying": 1, "waiting": 7})
            working.cancel()
            await asyncio.wait([working])

    run(main)


def test_when_the_same_failure_returns_in_wave_two_it_stops_and_the_rest_stays_approved(store_url, caplog):
    async def main():
        async with open_lab(store_url) as lab:
            fingerprint = await lab.bury(40)
            await lab.approve(fingerprint)
            lab.fails = lambda n: broken(n) if n else None
            started = await lab.campaigns.start(fingerprint, actor="ada")
            with caplog.at_level(logging.INFO, "reprieve.campaigns"):
                await lab.work()
            row = await lab.campaigns.show(started.campaign.campaign_id)
            assert row.state is STOPPED
            assert summary(row) == {"confirmed": 1, "returned": 2, "waiting": 37}
            # It stops with the first that comes back; the other was under way.
            assert row.reason.endswith(f"of 2 in wave 2 came back with DECLARED_PERMANENT again ({fingerprint})")
            assert row.reason in caplog.text
            assert await lab.states() == {"replayed": 1, "escalated": 2, "approved": 37}
            assert sum(lab.replays().values()) == 3
            await lab.work()
            assert sum(lab.replays().values()) == 3, "what was stopped stays stopped"

    run(main)


def test_it_stops_in_the_middle_of_a_wave_too(store_url):
    async def main():
        async with open_lab(store_url) as lab:
            fingerprint = await lab.bury(30)
            lab.fails = lambda n: broken(n) if n == 3 else None
            started = await lab.campaigns.start(fingerprint, actor="ada", waves=(), rate=20.0, **ALL_STEPS)
            await lab.work()
            row = await lab.campaigns.show(started.campaign.campaign_id)
            assert row.state is STOPPED
            counted = summary(row)
            assert counted["returned"] == 1
            assert counted["confirmed"] + counted["returned"] + counted["waiting"] == 30
            assert counted["waiting"] > 0
            assert row.wave == 0

    run(main)


def test_other_failures_do_not_stop_it_unless_they_are_more_than_half_of_a_wave(store_url):
    async def main():
        async with open_lab(store_url) as lab:
            fingerprint = await lab.bury(30)
            lab.fails = lambda n: otherwise(n) if n in {1, 4} or n > 20 else None
            started = await lab.campaigns.start(fingerprint, actor="ada", waves=(1, 2, 5, 12), **ALL_STEPS)
            await lab.work()
            row = await lab.campaigns.show(started.campaign.campaign_id)
            assert row.state is STOPPED
            assert row.wave == 4
            assert row.reason == "9 of 10 in wave 5 failed with something else"
            assert summary(row) == {"confirmed": 19, "failed": 11}
            failed = [letter for letter in lab.rows("dead_letters") if letter["state"] == "open"]
            assert len(failed) == 11

    run(main)


def test_a_job_that_is_cancelled_while_it_is_replayed_counts_as_failed(store_url):
    async def main():
        async with open_lab(store_url) as lab:
            fingerprint = await lab.bury(3)
            started = await lab.campaigns.start(fingerprint, actor="ada", waves=(), **ALL_STEPS)
            steward = lab.steward()
            await steward.step()
            await lab.app.operations.jobs.cancel(2, actor="ada", reason="not needed")
            await lab.work()
            row = await lab.campaigns.show(started.campaign.campaign_id)
            assert (row.state, summary(row)) == (DONE, {"confirmed": 2, "failed": 1})
            assert await lab.states() == {"replayed": 2, "discarded": 1}

    run(main)


def test_a_group_that_grows_while_it_is_replayed_does_not_grow_the_campaign(store_url):
    async def main():
        async with open_lab(store_url) as lab:
            fingerprint = await lab.bury(20)
            started = await lab.campaigns.start(fingerprint, actor="ada", waves=(1, 2), **ALL_STEPS)
            lab.fails = lambda n: broken(n) if n >= 1000 else None
            await lab.app.submit_many(lab.pipeline, list(range(1000, 1030)))
            await lab.work()
            row = await lab.campaigns.show(started.campaign.campaign_id)
            assert (row.state, summary(row)) == (DONE, {"confirmed": 20})
            group = await lab.letters.group(fingerprint)
            assert {state.value: count for state, count in group.by_state.items() if count} == {
                "open": 30,
                "replayed": 20,
            }
            assert len(lab.rows("campaign_members")) == 20
            assert all(each["campaign_id"] is None for each in lab.rows("dead_letters") if each["state"] == "open")

    run(main)


def test_members_that_somebody_replays_by_hand_meanwhile_are_left_out(store_url):
    async def main():
        async with open_lab(store_url) as lab:
            fingerprint = await lab.bury(6)
            await lab.approve(fingerprint)
            started = await lab.campaigns.start(fingerprint, actor="ada", waves=(1, 2))
            await lab.letters.replay([1, 2], actor="eve")
            await lab.letters.discard(5, "a duplicate", actor="eve")
            await lab.work()
            row = await lab.campaigns.show(started.campaign.campaign_id)
            assert (row.state, summary(row)) == (DONE, {"confirmed": 3, "left_out": 3})
            assert set(lab.replays().values()) == {1}
            # Who is left out proves nothing: the first wave replays the next one in its place.
            sent = [each for each in lab.rows("campaign_members") if each["state"] != "left_out"]
            assert [each["wave"] for each in sent] == [0, 1, 1]

    run(main)


def test_a_job_is_replayed_from_the_start_or_a_stage_where_that_was_asked_for(store_url):
    async def main():
        async with open_lab(store_url) as lab:
            fingerprint = await lab.bury(5)
            started = await lab.campaigns.start(fingerprint, actor="ada", restart=True, **ALL_STEPS)
            await lab.work()
            row = await lab.campaigns.show(started.campaign.campaign_id)
            assert row.state is DONE
            assert [lab.runs["fetch", n] for n in range(5)] == [2] * 5

    run(main)


def test_two_stewards_at_once_replay_every_member_exactly_once(store_url):
    async def main():
        async with open_lab(store_url) as lab, open_lab(store_url) as other:
            fingerprint = await lab.bury(300)
            started = await lab.campaigns.start(fingerprint, actor="ada", waves=(1, 40), **ALL_STEPS)
            stewards = [each.steward() for each in (lab, other, lab, other)]
            working = asyncio.create_task(lab.app.work(lab.pipeline, poll=0.05))
            while not (row := await lab.campaigns.show(started.campaign.campaign_id)).state.over:
                await asyncio.gather(*(steward.step() for steward in stewards))
            working.cancel()
            await asyncio.wait([working])
            assert (row.state, summary(row)) == (DONE, {"confirmed": 300})
            assert lab.waves(row.campaign_id) == [1, 40, 259]
            assert set(lab.replays().values()) == {1}
            assert [lab.runs["llm", n] for n in range(300)] == [2] * 300

    run(main)


def test_a_worker_of_other_pipelines_does_not_stay_for_a_campaign_that_it_cannot_serve(store_url):
    async def main():
        async with open_lab(store_url) as lab:
            other = reprieve.Pipeline("other")

            @other.stage
            async def only(job: reprieve.Job[int]) -> int:
                return job.payload

            fingerprint = await lab.bury(10)
            started = await lab.campaigns.start(fingerprint, actor="ada", **ALL_STEPS)
            job = await lab.app.submit(other, 1)
            await lab.work(other)
            assert await job.result() == 1
            row = await lab.campaigns.show(started.campaign.campaign_id)
            assert (row.state, summary(row)) == (CampaignState.RUNNING, {"replaying": 1, "waiting": 9})
            await lab.work()
            assert (await lab.campaigns.show(row.campaign_id)).state is DONE

    run(main)


def test_a_single_replay_is_settled_by_the_steward_beside_the_worker(store_url):
    async def main():
        async with open_lab(store_url) as lab:
            await lab.bury(1)
            await lab.letters.replay(1, actor="ada", **ALL_STEPS)
            await lab.work()
            assert [letter["state"] for letter in lab.rows("dead_letters")] == ["replayed"]

    run(main)


def test_a_steward_that_fails_does_not_hurt_the_worker(store_url, caplog):
    async def main():
        async with open_lab(store_url) as lab:
            await lab.work()
            database = Database.at(store_url, writes=True)
            with database.transaction() as connection:
                connection.exec_driver_sql("DROP TABLE campaigns")
            database.close()
            job = await lab.app.submit(lab.pipeline, 7)
            await lab.work()
            assert await job.result() == 7

    run(main)
    assert any(record.name == "reprieve.campaigns" for record in caplog.records)


def test_what_was_asked_for_is_kept_for_show(store_url):
    async def main():
        async with open_lab(store_url) as lab:
            fingerprint = await lab.bury(2)
            started = await lab.campaigns.start(fingerprint, actor="ada", rate=5.0, waves=(1,), **ALL_STEPS)
            row = started.campaign
            assert json.loads(row.selection) == {"fingerprint": fingerprint, "error_class": "DECLARED_PERMANENT"}
            assert (row.created_by, row.rate, tuple(row.waves), row.wave) == ("ada", 5.0, (1,), 0)

    run(main)
