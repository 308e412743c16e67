"""How fast a campaign goes, by a clock that only the test moves: a rate is kept, also after a pause and a restart."""

import asyncio
import time

import pytest
from campaigns_lab import ALL_STEPS, open_lab, summary

from reprieve.testing.clock import FakeClock


async def sent(lab, campaign_id):
    return summary(await lab.campaigns.show(campaign_id)).get("replaying", 0)


def on_a_campaign(url, main, *, members=100, **options):
    """Run with a clock, a laboratory with a campaign that nobody works on, and its id."""

    async def run():
        clock = FakeClock(now=time.time() + 3600.0)  # after the deaths, which are by the real one
        async with asyncio.timeout(60), open_lab(url) as lab:
            fingerprint = await lab.bury(members)
        async with asyncio.timeout(60), open_lab(url, clock=clock) as lab:
            started = await lab.campaigns.start(fingerprint, actor="ada", **{"waves": ()} | options, **ALL_STEPS)
            await main(clock, lab, started.campaign.campaign_id)

    asyncio.run(run())


def test_a_rate_lets_so_many_through_in_each_slice_of_time(sqlite_url):
    async def main(clock, lab, campaign):
        steward, counts = lab.steward(), []
        for _ in range(9):
            await steward.step()
            counts.append(await sent(lab, campaign))
            clock.advance(0.25)
        assert counts == [0, 6, 11, 16, 21, 26, 31, 36, 41]

    on_a_campaign(sqlite_url, main, rate=20.0)


def test_a_slow_rate_is_kept_too(sqlite_url):
    async def main(clock, lab, campaign):
        steward, counts = lab.steward(), []
        for _ in range(13):
            stepped = await steward.step()
            assert stepped.due is not None
            counts.append(await sent(lab, campaign))
            clock.advance(10.0)
        assert counts == [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3]

    on_a_campaign(sqlite_url, main, rate=1 / 60)


def test_the_first_of_a_campaign_need_not_wait(sqlite_url):
    async def main(clock, lab, campaign):
        await lab.steward().step()
        assert await sent(lab, campaign) == 1

    on_a_campaign(sqlite_url, main, rate=1 / 3600, waves=(1,))


@pytest.mark.parametrize("restarted", [False, True])
def test_no_flood_follows_an_hour_in_which_nobody_looked(sqlite_url, restarted):
    async def main(clock, lab, campaign):
        steward = await one_second_in(clock, lab, campaign)
        clock.advance(3600.0)
        if restarted:
            steward = lab.steward()
        await steward.step()
        # A second's worth at most, and nothing at all for one that has only begun to look.
        assert await sent(lab, campaign) == (10 if restarted else 20)
        clock.advance(0.5)
        await steward.step()
        assert await sent(lab, campaign) == (15 if restarted else 25)

    on_a_campaign(sqlite_url, main, rate=10.0)


def test_no_flood_follows_a_pause(sqlite_url):
    async def main(clock, lab, campaign):
        steward = await one_second_in(clock, lab, campaign)
        await lab.campaigns.pause(campaign, actor="ada", reason="lunch")
        for _ in range(60):
            clock.advance(60.0)
            await steward.step()
        assert await sent(lab, campaign) == 10
        await lab.campaigns.resume(campaign, actor="ada")
        await steward.step()
        assert await sent(lab, campaign) == 10
        clock.advance(1.0)
        await steward.step()
        assert await sent(lab, campaign) == 20

    on_a_campaign(sqlite_url, main, rate=10.0)


async def one_second_in(clock, lab, campaign):
    """A steward that has sent ten within a second."""
    steward = lab.steward()
    await steward.step()
    clock.advance(1.0)
    await steward.step()
    assert await sent(lab, campaign) == 10
    return steward


def test_several_stewards_keep_one_rate_between_them(sqlite_url):
    async def main(clock, lab, campaign):
        stewards, counts = [lab.steward() for _ in range(5)], []
        for _ in range(9):
            for steward in stewards:
                await steward.step()
            counts.append(await sent(lab, campaign))
            clock.advance(0.5)
        assert counts == [0] + [1 + 5 * step for step in range(1, 9)]

    on_a_campaign(sqlite_url, main, rate=10.0)


def test_without_a_rate_no_more_than_two_thousand_are_under_way(sqlite_url):
    async def main(clock, lab, campaign):
        await lab.steward().step()
        assert await sent(lab, campaign) == 2000
        await lab.steward().step()
        assert await sent(lab, campaign) == 2000

    on_a_campaign(sqlite_url, main, members=2300)
