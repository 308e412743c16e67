"""A worker that is cancelled, stopped or cut off at awkward moments: nothing stays leased that nobody runs."""

import asyncio

import engine_pipelines
import pytest
from engine_pipelines import Work

import reprieve

LONG = 30.0


@pytest.fixture
def here(lab):
    """Runs a coroutine function with an application on the laboratory's database; stages write to its file."""
    engine_pipelines.write_to(str(lab.file))

    def run(main):
        async def opened():
            async with reprieve.connect(lab.url) as app:
                return await main(app)

        return asyncio.run(asyncio.wait_for(opened(), LONG))

    return run


async def cancelled_when(app, moment, **options):
    """Work until so many claims were asked for, and be cancelled just then."""
    asked = asyncio.Event()
    ask, claims = app.journal.ask, 0

    def listening(intent, **more):
        nonlocal claims
        answer = ask(intent, **more)
        if type(intent).__name__ == "Claim":
            claims += 1
            if claims == moment:
                asked.set()
        return answer

    app.journal.ask = listening
    settings = {"lease": 2.0, "poll": 0.05, "grace": 0.5} | options
    working = asyncio.create_task(app.work(engine_pipelines.campaign, **settings))
    await asyncio.wait_for(asked.wait(), LONG)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    app.journal.ask = ask


def test_a_worker_that_is_cancelled_while_it_claims_leaves_no_lease_behind(lab, here):
    jobs = lab.submit(*[Work() for _ in range(20)])

    async def main(app):
        for moment in (1, 2, 3):
            await cancelled_when(app, moment, concurrency=4)
            assert lab.orphans().unleased == ()
        await app.work(engine_pipelines.campaign, until_idle=True)

    here(main)
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")


def test_a_worker_that_works_until_nothing_is_left_leaves_nothing(lab, here):
    jobs = lab.submit(*[Work(acts={"fetch": ["fail"] * 4, "llm": ["fail"] * 4}) for _ in range(3)])
    here(lambda app: app.work(engine_pipelines.campaign, until_idle=True, lease=0.5))
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")


def test_a_worker_that_is_woken_and_cancelled_in_the_same_moment_ends(lab, here):
    async def main(app):
        wakes = []
        subscribe = app.journal.store.subscribe
        app.journal.store.subscribe = lambda wake: (wakes.append(wake), subscribe(wake))[1]
        working = asyncio.create_task(app.work(engine_pipelines.campaign, poll=5.0))
        await asyncio.sleep(0.5)  # it has found nothing and rests
        wakes[0]()
        working.cancel()
        done, _ = await asyncio.wait([working], timeout=5.0)
        working.cancel()
        await asyncio.wait([working])
        return bool(done)

    assert here(main)


def test_a_stage_that_leaves_the_program_ends_the_worker_and_not_the_job(lab):
    """SystemExit ends a worker, as it ends any program; its jobs are handed back."""
    (leaver,) = lab.submit(Work(acts={"llm": ["leave"]}), pipeline="usual")
    others = lab.submit(*[Work(seconds=0.05) for _ in range(20)], pipeline="usual")
    process = lab.start(pipelines=["usual"], grace=0.2)
    assert process.wait(within=20) == 4
    assert lab.complain() == []
    assert lab.count("workers") == 0
    assert lab.count("queue", job_id=leaver, state=0) == 1
    assert lab.count("attempts") == 0
    assert sorted([*lab.outcomes(), *(row["job_id"] for row in lab.rows("queue", state=0))]) == sorted(
        [leaver, *others]
    )


@pytest.mark.parametrize("more", [0, 50])
def test_what_is_being_written_when_the_application_is_closed_is_written(lab, more):
    """Some of it has been handed to the store by then, and some waits, or none."""

    def submit(app, count):
        return [asyncio.ensure_future(app.submit(engine_pipelines.campaign, Work())) for _ in range(count)]

    async def main():
        async with reprieve.connect(lab.url) as app:
            submits = submit(app, 50)
            while not app.journal._current:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0)
            submits += submit(app, more)
            await asyncio.sleep(0)
        return await asyncio.gather(*submits)

    made = asyncio.run(main())
    assert len(made) == 50 + more
    assert sorted(each.job_id for each in made) == [row["id"] for row in lab.rows("jobs")]
