"""Which dead letters: by id, by job, by group, by filter; looked at page by page, and changed by the group."""

import asyncio
import logging
from dataclasses import replace

import pytest
from dead_shop import GATES, Order, opened

import reprieve
from reprieve.app.operations import selecting
from reprieve.core.lifecycle import LetterEvent, LetterState
from reprieve.errors import RefusedError, UnknownNameError, UsageError
from reprieve.ports.dead_letters import GroupFilter, LetterFilter, LettersPruned

ORDERS = [Order(number) for number in range(1, 6)]


def by_number(order):
    """Odd ones fail in one way, even ones in another."""
    if order.number % 2:
        raise reprieve.Permanent("odd", error_class="ODD")
    raise reprieve.Permanent("even", error_class="EVEN")


def there(counted):
    """The states that there are any of."""
    return {state: number for state, number in counted.by_state.items() if number}


def test_a_dead_letter_is_known_by_its_id_and_by_its_job(store_url):
    async def run():
        async with opened(store_url) as shop:
            await shop.app.submit(shop.pipeline, Order(0))
            await shop.work()
            (letter,) = await shop.bury()
            found = await shop.letters.show(letter)
            assert found.row.job_id != letter
            for named in (str(letter), f"job:{found.row.job_id}"):
                assert await shop.letters.show(named) == found
            assert (found.row.pipeline, found.row.stage, found.finished_stages) == (
                "orders",
                "notify",
                ["fetch", "price"],
            )

    asyncio.run(run())


@pytest.mark.parametrize("named", [0, -1, 77, "77", "job:77", 2**70])
def test_one_that_is_not_there_is_unknown(sqlite_url, named):
    async def run():
        async with opened(sqlite_url) as shop:
            await shop.bury()
            with pytest.raises((UnknownNameError, UsageError), match="dead letter"):
                await shop.letters.show(named)
            with pytest.raises((UnknownNameError, UsageError, RefusedError), match="dead letter"):
                await shop.letters.triage(named, "data", actor="ada")

    asyncio.run(run())


@pytest.mark.parametrize("named", [True, 1.5, None, "", "seven", "jobs:1", "job:", "1 2", "²"])
def test_what_names_none_is_refused(sqlite_url, named):
    async def run():
        async with opened(sqlite_url) as shop:
            await shop.bury()
            with pytest.raises(UsageError, match="known by its id, or as job:ID"):
                await shop.letters.show(named)

    asyncio.run(run())


def test_a_whole_group_is_triaged_remediated_and_approved_at_once(store_url, caplog):
    caplog.set_level(logging.INFO, "reprieve.operations")

    async def run():
        async with opened(store_url) as shop:
            await shop.bury(*ORDERS, trouble=by_number)
            odd, even = await shop.letters.groups()
            assert [(group.error_class, group.count) for group in (odd, even)] == [("ODD", 3), ("EVEN", 2)]
            group = LetterFilter(fingerprint=odd.fingerprint[:8])
            assert await shop.letters.count(group, LetterEvent.TRIAGE) == 3
            told = []
            assert len((await shop.letters.triage(group, "data", actor="ada", tell=told.append)).applied) == 3
            assert told == [3]
            assert await shop.letters.count(group, LetterEvent.TRIAGE) == 0
            await shop.letters.remediate(group, "INC-3", actor="ada")
            await shop.letters.approve(group, "idempotent", actor="ada")
            assert there(await shop.letters.group(odd.fingerprint)) == {LetterState.APPROVED: 3}
            assert there(await shop.letters.group(even.fingerprint)) == {LetterState.OPEN: 2}
            done = await shop.letters.replay(group, actor="ada")
            assert len(done.applied) == 3
            shop.mend()
            await shop.work()
            assert there(await shop.letters.group(odd.fingerprint)) == {LetterState.REPLAYED: 3}
            assert len((await shop.letters.resolve(group, "INC-3 is closed", actor="ada")).applied) == 3

    asyncio.run(run())
    assert "ada: triage of 3 dead letters, 0 refused" in caplog.text


def test_a_filter_leaves_alone_what_is_further_along_unless_it_names_the_state(store_url):
    async def run():
        async with opened(store_url) as shop:
            first, second, third = await shop.bury(*ORDERS[:3])
            await shop.letters.triage(first, "code", actor="ada")
            await shop.letters.remediate(first, "deployed", actor="ada")
            await shop.letters.escalate(second, "odd", actor="ada")
            everything = LetterFilter(pipeline="orders")
            done = await shop.letters.triage(everything, "data", actor="bob")
            assert sorted(done.applied) == [second, third], "one is not set back"
            assert await shop.state(first) is LetterState.REMEDIATED
            remediated = replace(everything, states=frozenset({LetterState.REMEDIATED}))
            assert (await shop.letters.triage(remediated, "data", actor="bob")).applied == (first,)

    asyncio.run(run())


def test_a_group_that_grows_while_it_is_worked_on_is_taken_as_it_was(store_url, monkeypatch):
    monkeypatch.setattr(selecting, "AT_ONCE", 2)

    async def run():
        async with opened(store_url) as shop:
            ids = await shop.bury(*ORDERS)
            fingerprint = (await shop.letters.show(ids[0])).row.fingerprint
            group, found, late = LetterFilter(fingerprint=fingerprint), [], []
            async for some in selecting.Selector(shop.app.letters).chunks(group, frozenset({LetterState.OPEN})):
                found += some
                await shop.letters.triage(list(some), "data", actor="ada")
                late += await shop.bury(Order(99))
            assert sorted(found) == ids
            assert len(late) == 3, "one for each page"
            assert {await shop.state(newcomer) for newcomer in late} == {LetterState.OPEN}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, 5),
        ({"error_class": "ODD"}, 3),
        ({"error_class": "ODD", "stage": "notify", "pipeline": "orders", "category": "policy"}, 3),
        ({"error_class": "ODD", "stage": "fetch"}, 0),
        ({"text": "EVEN"}, 2),
        ({"since": 0.0}, 5),
        ({"before": 0.0}, 0),
        ({"fingerprint": "ODD"}, 3),
        ({"fingerprint": "ODD", "stage": "notify"}, 3),
        ({"fingerprint": "ODD", "stage": "fetch"}, 0),
        ({"states": frozenset({LetterState.DISCARDED})}, 1),
        ({"error_class": "EVEN", "limit": 1}, 2),
    ],
)
def test_it_is_counted_beforehand_how_many_will_be_changed(store_url, monkeypatch, wanted, expected):
    monkeypatch.setattr(selecting, "_GROUPS", 1)
    monkeypatch.setattr(selecting, "AT_ONCE", 2)

    async def run():
        async with opened(store_url) as shop:
            *_, last = await shop.bury(*ORDERS, Order(6), trouble=by_number)
            await shop.letters.discard(last, "no", actor="ada")
            odd = (await shop.letters.list(LetterFilter(error_class="ODD")))[0].fingerprint
            given = {name: odd if value == "ODD" and name == "fingerprint" else value for name, value in wanted.items()}
            chosen = LetterFilter(**given)
            assert await shop.letters.count(chosen, LetterEvent.ESCALATE) == expected
            if not chosen.states:
                done = await shop.letters.escalate(chosen, "all of them", actor="ada")
                assert (len(done.applied), done.refused) == (expected, ())

    asyncio.run(run())


def test_several_ids_are_done_as_far_as_they_can_be(store_url):
    async def run():
        async with opened(store_url) as shop:
            first, second = await shop.bury(*ORDERS[:2])
            await shop.letters.discard(first, "no", actor="ada")
            done = await shop.letters.triage([first, f"job:{second}", second, 77], "data", actor="ada")
            assert done.applied == (second,)
            assert [(refused.letter_id, refused.state) for refused in done.refused] == [
                (first, LetterState.DISCARDED),
                (77, None),
            ]
            assert await shop.events(second) == ["triage"], "once, though it was named twice"
            with pytest.raises(UsageError, match="say which"):
                await shop.letters.triage([], "data", actor="ada")

    asyncio.run(run())


def test_a_fingerprint_is_found_by_its_beginning_where_that_is_of_one_only(store_url):
    async def run():
        async with opened(store_url) as shop:
            await shop.bury(*ORDERS, trouble=by_number)
            odd, even = await shop.letters.groups()
            assert odd.fingerprint != even.fingerprint
            for beginning in (odd.fingerprint, odd.fingerprint[:10], odd.fingerprint.removeprefix("v1:")[:7]):
                assert (await shop.letters.group(beginning)).fingerprint == odd.fingerprint
            with pytest.raises(UsageError, match="more than one group begins with 'v1:'") as several:
                await shop.letters.group("v1:")
            assert odd.fingerprint in str(several.value)
            with pytest.raises(UsageError, match="more than one group begins with 'v1'"):
                await shop.letters.group("v1")
            for nothing in ("v1:zz", "", "%", "v1:_"):
                with pytest.raises(UnknownNameError):
                    await shop.letters.group(nothing)
            with pytest.raises(UnknownNameError):
                await shop.letters.list(LetterFilter(fingerprint="zz"))

    asyncio.run(run())


def test_pages_follow_one_another_and_an_export_has_them_all(store_url, monkeypatch):
    monkeypatch.setattr(selecting, "AT_ONCE", 2)

    async def run():
        async with opened(store_url) as shop:
            ids = await shop.bury(*ORDERS)
            first = await shop.letters.list(LetterFilter(limit=3))
            second = await shop.letters.list(LetterFilter(limit=3, after=first[-1].cursor))
            assert sorted(row.letter_id for row in [*first, *second]) == ids
            exported = [row async for row in shop.letters.export()]
            assert exported == [*first, *second]

    asyncio.run(run())


def test_what_cannot_be_looked_up_is_refused(sqlite_url):
    async def run():
        async with opened(sqlite_url) as shop:
            await shop.bury()
            letters = shop.letters
            for wanted in (LetterFilter(limit=0), LetterFilter(after="seven"), LetterFilter(after="1:2:3")):
                with pytest.raises(UsageError):
                    await letters.list(wanted)
            with pytest.raises(UsageError):
                await letters.groups(GroupFilter(limit=0))
            with pytest.raises(UsageError, match="window"):
                await letters.stats(window=1)
            for look in (
                letters.list(LetterFilter(pipeline="order")),
                letters.groups(GroupFilter(pipeline="order")),
                letters.stats(pipeline="order"),
            ):
                with pytest.raises(UnknownNameError, match="did you mean 'orders'"):
                    await look

    asyncio.run(run())


@pytest.mark.spec("ING-7.1")
def test_the_figures_are_those_of_now(store_url):
    async def run():
        async with opened(store_url) as shop:
            first, *_ = await shop.bury(*ORDERS[:3], trouble=reprieve.Permanent("no"))
            shop.mend()
            await shop.letters.replay(first, actor="ada", **GATES)
            await shop.work()
            stats = await shop.letters.stats()
            assert (stats.size, stats.inflow_last_hour) == (2, 3)
            assert (stats.errors, stats.terminal_error_rate) == (3, 1.0)
            assert there(stats) == {LetterState.OPEN: 2, LetterState.REPLAYED: 1}
            assert stats.median_resolution is None
            await shop.letters.resolve(first, "done", actor="ada")
            stats = await shop.letters.stats()
            assert stats.resolved == 1
            assert stats.median_resolution > 0

    asyncio.run(run())


def test_a_job_shows_its_dead_letter_as_it_is_by_now(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            await shop.letters.replay(letter, actor="ada", **GATES)
            jobs = shop.app.operations.jobs
            job_id = (await shop.letters.show(letter)).row.job_id
            assert (await jobs.show(job_id)).dead_letter.state == "replaying"
            await jobs.cancel(job_id, actor="ada")
            assert (await jobs.show(job_id)).dead_letter.state == "discarded", "though no worker was there to settle it"

    asyncio.run(run())


def test_pruning_reduces_what_was_closed_long_ago_to_a_summary(store_url):
    async def run():
        async with opened(store_url) as shop:
            first, second = await shop.bury(*ORDERS[:2])
            await shop.letters.discard(first, "not wanted", actor="ada")
            assert (await shop.letters.prune(3600, actor="ada")).letters == 0
            told = []
            assert (await shop.letters.prune(0, actor="ada", dry=True, tell=told.append)).letters == 1
            assert isinstance(told[-1], LettersPruned)
            assert (await shop.letters.show(first)).history != []
            assert (await shop.letters.prune(0, actor="ada")).letters == 1
            detail = await shop.letters.show(first)
            assert (detail.history, detail.last_stack) == ([], "")
            assert "not wanted" in detail.summary
            assert (await shop.letters.show(second)).summary is None
            with pytest.raises(UsageError):
                await shop.letters.prune(-1, actor="ada")

    asyncio.run(run())
