"""What operators see and do about campaigns: the gates before one starts, pausing, resuming, cancelling, watching."""

import asyncio
import logging

import pytest
from campaigns_lab import ALL_STEPS, DONE, broken, open_lab, otherwise, summary

from reprieve.core.canary import CampaignState
from reprieve.errors import RefusedError, UnknownNameError, UsageError
from reprieve.ports.dead_letters import LetterFilter


def on_a_lab(url, main):
    async def run():
        async with asyncio.timeout(120), open_lab(url) as lab:
            await main(lab)

    asyncio.run(run())


@pytest.mark.spec("CRIT-5.1", "CRIT-5.2", "CRIT-5.3")
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"cause": "code"},
        {"cause": "code", "evidence": "the fix is deployed"},
        {"evidence": "the fix is deployed", "safe": True},
        {"safe": True},
    ],
)
def test_a_campaign_is_refused_until_every_gate_is_passed(store_url, given):
    async def main(lab):
        fingerprint = await lab.bury(3)
        with pytest.raises(RefusedError, match=r"none of the 3 dead letters is .* give --cause, --evidence and --safe"):
            await lab.campaigns.start(fingerprint, actor="ada", **given)
        assert lab.rows("campaigns") == []
        assert await lab.states() == {"open": 3}

    on_a_lab(store_url, main)


def test_those_that_are_approved_are_replayed_and_the_others_are_told_of(store_url):
    async def main(lab):
        fingerprint = await lab.bury(5)
        for letter in (2, 3):
            await lab.letters.triage(letter, "code", actor="ada")
            await lab.letters.remediate(letter, "the fix is deployed", actor="ada")
            await lab.letters.approve(letter, "idempotent", actor="ada")
        started = await lab.campaigns.start(fingerprint, actor="ada")
        assert started.aside == 3
        assert [each["letter_id"] for each in lab.rows("campaign_members")] == [2, 3]

    on_a_lab(store_url, main)


def test_evidence_and_safety_are_enough_where_the_cause_is_named(store_url):
    async def main(lab):
        fingerprint = await lab.bury(4)
        await lab.letters.triage([1, 2], "code", actor="ada")
        started = await lab.campaigns.start(fingerprint, actor="ada", evidence="the fix is deployed", safe="by its key")
        assert (started.aside, summary(started.campaign)) == (2, {"waiting": 2})
        await lab.work()
        history = (await lab.letters.show(1)).history
        assert [(entry.event, entry.note) for entry in history[1:4]] == [
            ("remediate", "the fix is deployed"),
            ("approve", "by its key"),
            ("replay", ""),
        ]

    on_a_lab(store_url, main)


def test_an_override_passes_the_gates_by_and_its_reason_is_in_every_history(store_url):
    async def main(lab):
        fingerprint = await lab.bury(3)
        started = await lab.campaigns.start(fingerprint, actor="ada", override="the provider has told us by phone")
        await lab.work()
        assert (await lab.campaigns.show(started.campaign.campaign_id)).state is DONE
        for letter in (1, 2, 3):
            first = (await lab.letters.show(letter)).history[0]
            assert (first.event, first.note) == ("override", "the provider has told us by phone")

    on_a_lab(store_url, main)


def test_who_may_not_override_is_refused(store_url, monkeypatch):
    monkeypatch.setenv("REPRIEVE_MAY_OVERRIDE", "eve")

    async def main(lab):
        fingerprint = await lab.bury(1)
        with pytest.raises(RefusedError, match="ada may not override"):
            await lab.campaigns.start(fingerprint, actor="ada", override="because")
        assert lab.rows("campaigns") == []

    on_a_lab(store_url, main)


def test_what_people_write_is_kept_without_its_secrets(store_url):
    secret = "sk-ant-" + "api03-" + "Zx9" * 15

    async def main(lab):
        fingerprint = await lab.bury(1)
        given = ALL_STEPS | {"evidence": f"rotated {secret}"}
        started = await lab.campaigns.start(fingerprint, actor="ada", **given)
        await lab.campaigns.pause(started.campaign.campaign_id, actor="ada", reason=f"{secret} was wrong")
        for table in ("campaigns", "dead_letter_history"):
            assert secret not in str(lab.rows(table))
        assert "rotated" in lab.rows("campaigns")[0]["steps"]
        assert "was wrong" in lab.rows("campaigns")[0]["reason"]

    on_a_lab(store_url, main)


def test_one_group_has_one_campaign_at_a_time(store_url):
    async def main(lab):
        fingerprint = await lab.bury(3)
        first = (await lab.campaigns.start(fingerprint, actor="ada", **ALL_STEPS)).campaign.campaign_id
        with pytest.raises(RefusedError, match=f"campaign {first} over this group is running"):
            await lab.campaigns.start(fingerprint, actor="eve", **ALL_STEPS)
        await lab.campaigns.cancel(first, actor="ada", reason="anew")
        second = await lab.campaigns.start(fingerprint, actor="eve", **ALL_STEPS)
        assert summary(second.campaign) == {"waiting": 3}

    on_a_lab(store_url, main)


def test_of_two_who_start_a_campaign_over_one_group_at_once_one_does(store_url):
    async def main(lab):
        fingerprint = await lab.bury(2)
        starts = (lab.campaigns.start(fingerprint, actor=actor, **ALL_STEPS) for actor in ("ada", "bob"))
        started = await asyncio.gather(*starts, return_exceptions=True)
        (refused,) = [each for each in started if isinstance(each, RefusedError)]
        assert "campaign 1 over this group is" in str(refused)
        assert [each["state"] for each in lab.rows("campaigns")] == ["running"]
        await lab.work()
        assert lab.replays() == {1: 1, 2: 1}

    on_a_lab(store_url, main)


def test_a_filter_chooses_members_too(store_url):
    async def main(lab):
        await lab.bury(3)
        lab.fails = otherwise
        await lab.app.submit_many(lab.pipeline, [10, 11])
        await lab.work()
        lab.fails = lambda _: None
        everything = LetterFilter(pipeline="review")
        started = await lab.campaigns.start(everything, actor="ada", **ALL_STEPS)
        assert (started.campaign.fingerprint, summary(started.campaign)) == (None, {"waiting": 5})
        await lab.work()
        assert (await lab.campaigns.show(started.campaign.campaign_id)).state is DONE

    on_a_lab(store_url, main)


def test_a_failure_that_returns_stops_a_filters_campaign_too(store_url):
    async def main(lab):
        await lab.bury(3)
        lab.fails = broken
        started = await lab.campaigns.start(LetterFilter(pipeline="review"), actor="ada", **ALL_STEPS)
        await lab.work()
        row = await lab.campaigns.show(started.campaign.campaign_id)
        assert row.reason == "1 of 1 in wave 1 came back with the failure they had before"

    on_a_lab(store_url, main)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"waves": (0,)}, "a wave must be from 1"),
        ({"rate": 0.0}, "rate must be from"),
        ({"restart": True, "stage": "llm"}, "contradict"),
        ({"cause": "magic"}, "no cause is named 'magic'"),
        ({"evidence": " "}, "evidence must not be empty"),
        ({"override": ""}, "must not be empty"),
        ({"actor": ""}, "needs an actor"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(sqlite_url, given, problem):
    async def main(lab):
        fingerprint = await lab.bury(1)
        with pytest.raises(UsageError, match=problem):
            await lab.campaigns.start(fingerprint, **{"actor": "ada"} | ALL_STEPS | given)
        assert lab.rows("campaigns") == []

    on_a_lab(sqlite_url, main)


def test_names_that_nothing_is_known_by_are_refused(sqlite_url):
    async def main(lab):
        await lab.bury(1)
        with pytest.raises(UnknownNameError, match="no group of dead letters"):
            await lab.campaigns.start("v1:nothing", actor="ada", **ALL_STEPS)
        for each in (7, 0, -1, 2**70):
            with pytest.raises(UnknownNameError, match=f"no campaign is named '{each}'"):
                await lab.campaigns.show(each)
        with pytest.raises(UnknownNameError, match="no campaign"):
            await lab.campaigns.pause(7, actor="ada")
        with pytest.raises(UsageError, match="whole number"):
            await lab.campaigns.show("1")

    on_a_lab(sqlite_url, main)


def test_a_paused_campaign_launches_nothing_until_it_is_resumed(store_url):
    async def main(lab):
        fingerprint = await lab.bury(10)
        campaign = (await lab.campaigns.start(fingerprint, actor="ada", **ALL_STEPS)).campaign.campaign_id
        steward = lab.steward()
        await steward.step()
        row = await lab.campaigns.pause(campaign, actor="eve", reason="the provider asks us to wait")
        assert (row.state, row.changed_by, row.reason) == (CampaignState.PAUSED, "eve", "the provider asks us to wait")
        await lab.work()
        assert summary(await lab.campaigns.show(campaign)) == {"confirmed": 1, "waiting": 9}
        with pytest.raises(RefusedError, match="is paused: nothing to pause"):
            await lab.campaigns.pause(campaign, actor="eve")
        assert (await lab.campaigns.resume(campaign, actor="eve")).state is CampaignState.RUNNING
        await lab.work()
        row = await lab.campaigns.show(campaign)
        assert (row.state, summary(row)) == (DONE, {"confirmed": 10})
        by_hand = [each for each in await lab.campaigns.history(campaign) if each.actor != "reprieve"]
        assert [(each.actor, each.state.value, each.reason) for each in by_hand] == [
            ("ada", "running", ""),
            ("eve", "paused", "the provider asks us to wait"),
            ("eve", "running", ""),
        ]

    on_a_lab(store_url, main)


def test_a_return_while_it_is_paused_stops_it_when_it_is_resumed(store_url):
    async def main(lab):
        fingerprint = await lab.bury(10)
        campaign = (await lab.campaigns.start(fingerprint, actor="ada", **ALL_STEPS)).campaign.campaign_id
        lab.fails = broken
        await lab.steward().step()
        await lab.campaigns.pause(campaign, actor="eve")
        await lab.work()
        await lab.campaigns.resume(campaign, actor="eve")
        await lab.work()
        row = await lab.campaigns.show(campaign)
        assert (row.state, summary(row)) == (CampaignState.STOPPED, {"returned": 1, "waiting": 9})

    on_a_lab(store_url, main)


def test_cancelling_leaves_what_was_not_launched_as_it_was(store_url, caplog):
    async def main(lab):
        fingerprint = await lab.bury(10)
        await lab.approve(fingerprint)
        campaign = (await lab.campaigns.start(fingerprint, actor="ada")).campaign.campaign_id
        steward = lab.steward()
        await steward.step()
        with caplog.at_level(logging.INFO, "reprieve.operations"):
            await lab.campaigns.cancel(campaign, actor="eve", reason="rolled back")
        await lab.work()
        await steward.step()
        row = await lab.campaigns.show(campaign)
        assert (row.state, row.reason) == (CampaignState.CANCELLED, "rolled back")
        assert summary(row) == {"confirmed": 1, "waiting": 9}
        assert await lab.states() == {"replayed": 1, "approved": 9}
        for steer in (lab.campaigns.pause, lab.campaigns.resume, lab.campaigns.cancel):
            with pytest.raises(RefusedError, match="is cancelled, since rolled back"):
                await steer(campaign, actor="eve")

    on_a_lab(store_url, main)
    assert "eve: cancel of campaign 1" in caplog.text


def test_watching_ends_when_the_campaign_is_over(store_url):
    async def main(lab):
        fingerprint = await lab.bury(30)
        campaign = (await lab.campaigns.start(fingerprint, actor="ada", **ALL_STEPS)).campaign.campaign_id
        working = asyncio.create_task(lab.work())
        seen = [row async for row in lab.campaigns.watch(campaign, interval=0.02)]
        await working
        assert seen[-1].state is DONE
        assert all(not row.state.over for row in seen[:-1])
        confirmed = [summary(row).get("confirmed", 0) for row in seen]
        assert confirmed == sorted(confirmed)
        assert confirmed[-1] == 30

    on_a_lab(store_url, main)


def test_campaigns_are_listed_the_newest_first(store_url):
    async def main(lab):
        fingerprint = await lab.bury(2)
        for _ in range(3):
            started = await lab.campaigns.start(fingerprint, actor="ada", **ALL_STEPS)
            await lab.campaigns.cancel(started.campaign.campaign_id, actor="ada")
        running = await lab.campaigns.start(fingerprint, actor="ada", **ALL_STEPS)
        assert [row.campaign_id for row in await lab.campaigns.list()] == [4, 3, 2, 1]
        assert [row.campaign_id for row in await lab.campaigns.list(limit=2)] == [4, 3]
        only = await lab.campaigns.list(states=frozenset({CampaignState.RUNNING}))
        assert [row.campaign_id for row in only] == [running.campaign.campaign_id]
        with pytest.raises(UsageError, match="limit"):
            await lab.campaigns.list(limit=0)

    on_a_lab(store_url, main)


def test_one_that_cannot_be_begun_is_cancelled(store_url):
    async def main(lab):
        fingerprint = await lab.bury(3)

        def tell(_):
            raise RuntimeError("the caller has gone")

        with pytest.raises(RuntimeError, match="the caller has gone"):
            await lab.campaigns.start(fingerprint, actor="ada", tell=tell, **ALL_STEPS)
        (row,) = await lab.campaigns.list()
        assert (row.state, row.reason) == (CampaignState.CANCELLED, "it could not be begun")

    on_a_lab(store_url, main)
