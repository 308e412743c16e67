"""What one worker knows of the fleet's stages: when somebody else closes a breaker, and when a probe finds nothing."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from reprieve import Breaker, classify
from reprieve.adapters.sql.postgres import PostgresStore
from reprieve.adapters.sql.sqlite import SqliteStore
from reprieve.app.clock import SystemClock
from reprieve.app.journal import Journal
from reprieve.app.worker.gates import Gates
from reprieve.ports.intents import Close, Hold, Register, Resume

KEY = ("review", "llm")
PLACE = {"pipeline": "review", "stage": "llm"}
BREAKER = Breaker(after=3, jobs=2, first_hold=10.0)
DOWN = classify(ConnectionRefusedError("nobody listens"))
NOW = 1_700_000_000.0


class Scene:
    """One worker's gates, the store that it shares with the fleet, and a moment that the test moves."""

    def __init__(self, journal):
        self.journal, self.gates, self.now = journal, Gates(journal), NOW

    async def fail(self, *jobs, probe=False):
        """One failure of each job."""
        return [
            await self.gates.failed(KEY, BREAKER, DOWN, job_id=job, probe=probe, now=self.now, ceiling=60.0)
            for job in jobs
        ]

    async def say(self, intent, **values):
        """As somebody else says it."""
        return await self.journal.ask(intent(**PLACE, **values, now=self.now))

    async def stage(self):
        (view,) = await self.journal.store.stages()
        return view


@pytest.fixture
def run(store_url):
    @asynccontextmanager
    async def opened():
        store = SqliteStore(store_url) if store_url.startswith("sqlite") else PostgresStore(store_url)
        await store.open()
        journal = Journal(store, clock=SystemClock())
        journal.start()
        try:
            scene = Scene(journal)
            await journal.ask(Register(name="w", host="h", pid=1, stages=(KEY,), now=NOW, expires_at=NOW + 1e6))
            await scene.gates.refresh()
            yield scene
        finally:
            await journal.close()
            await store.close()

    def run(test):
        async def main():
            async with opened() as scene, asyncio.timeout(20):
                return await test(scene)

        return asyncio.run(main())

    return run


@pytest.mark.parametrize("closing", [Resume, Close])
def test_what_failed_before_somebody_else_closed_the_breaker_says_nothing_any_more(run, closing):
    """The run of failures is forgotten: one failure more is one, and opens nothing."""

    async def test(scene):
        await scene.fail(1, 2, 3)
        assert (await scene.stage()).opened_at == NOW
        await scene.gates.refresh()
        await scene.say(closing, **({"actor": "ann"} if closing is Resume else {}))
        await scene.gates.refresh()
        scene.now += 60.0
        costs = await scene.fail(4, 5)
        assert [cost.free for cost in costs] == [False, False]
        assert (await scene.stage()).opened_at is None
        await scene.fail(6)
        assert (await scene.stage()).opened_at == scene.now, "a run of its own opens it again"

    run(test)


def test_a_run_goes_on_while_nobody_closes_anything(run):
    async def test(scene):
        await scene.fail(1, 2)
        await scene.gates.refresh()
        assert (await scene.stage()).opened_at is None
        await scene.fail(3)
        assert (await scene.stage()).opened_at == NOW

    run(test)


def test_a_probe_that_finds_nothing_gives_only_its_right_back(run):
    async def test(scene):
        await scene.fail(1, 2, 3)
        before = await scene.stage()
        scene.now += 20.0
        until = scene.now + 30.0
        assert await scene.gates.probe(KEY, until=until, now=scene.now)
        assert not await scene.gates.probe(KEY, until=scene.now + 31.0, now=scene.now), "one at a time"
        await scene.gates.give_back(KEY, until=until, now=scene.now)
        after = await scene.stage()
        assert (after.probe_until, after.held_until, after.opened_at) == (None, before.held_until, before.opened_at)
        assert (after.reason, after.error_class) == (before.reason, before.error_class)
        assert await scene.gates.probe(KEY, until=scene.now + 32.0, now=scene.now), "another may try at once"

    run(test)


@pytest.mark.parametrize("closing", [Resume, Close])
def test_a_probe_that_finds_nothing_does_not_open_again_what_somebody_else_has_closed(run, closing):
    async def test(scene):
        await scene.fail(1, 2, 3)
        scene.now += 20.0
        until = scene.now + 30.0
        assert await scene.gates.probe(KEY, until=until, now=scene.now)
        await scene.say(closing, **({"actor": "ann"} if closing is Resume else {}))
        await scene.gates.give_back(KEY, until=until, now=scene.now)
        after = await scene.stage()
        assert (after.opened_at, after.held_until, after.probe_until) == (None, None, None)

    run(test)


def test_a_right_to_probe_that_is_somebody_elses_by_now_is_not_given_back(run):
    async def test(scene):
        await scene.fail(1, 2, 3)
        scene.now += 20.0
        until = scene.now + 5.0
        assert await scene.gates.probe(KEY, until=until, now=scene.now)
        other = Gates(scene.journal)
        await other.refresh()
        scene.now += 10.0
        assert await other.probe(KEY, until=scene.now + 30.0, now=scene.now), "the first one took too long"
        await scene.gates.give_back(KEY, until=until, now=scene.now)
        assert (await scene.stage()).probe_until == scene.now + 30.0

    run(test)


def test_a_hold_that_was_made_meanwhile_stays(run):
    async def test(scene):
        await scene.fail(1, 2, 3)
        scene.now += 20.0
        until = scene.now + 30.0
        assert await scene.gates.probe(KEY, until=until, now=scene.now)
        await scene.say(Hold, until=scene.now + 50.0, error_class="RATE_LIMITED", reason="retry_after")
        await scene.gates.give_back(KEY, until=until, now=scene.now)
        after = await scene.stage()
        assert (after.held_until, after.error_class, after.probe_until) == (scene.now + 50.0, "RATE_LIMITED", None)

    run(test)
