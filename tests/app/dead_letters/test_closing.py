"""Proof that a replay worked, and the other ways in which a dead letter is closed (CRIT-5.5)."""

import asyncio
import json

import pytest
from dead_shop import GATES, Order, opened

from reprieve.core.lifecycle import LetterState
from reprieve.errors import RefusedError, UsageError
from reprieve.ports.dead_letters import LetterFilter


@pytest.mark.spec("CRIT-5.5")
def test_resolving_is_refused_until_the_replayed_job_has_succeeded(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            with pytest.raises(RefusedError, match="its job has not succeeded, it is dead_letter"):
                await shop.letters.resolve(letter, "all well", actor="ada")
            await shop.letters.replay(letter, actor="ada", **GATES)
            with pytest.raises(RefusedError, match="its job has not succeeded, it is "):
                await shop.letters.resolve(letter, "all well", actor="ada")
            assert "resolve" not in await shop.events(letter)
            shop.mend()
            await shop.work()
            with pytest.raises(UsageError, match="resolution note must not be empty"):
                await shop.letters.resolve(letter, " ", actor="ada")
            assert await shop.state(letter) is LetterState.REPLAYED
            await shop.letters.resolve(letter, "INC-1 is closed", actor="bob")
            detail = await shop.letters.show(letter)
            assert detail.row.state is LetterState.RESOLVED
            assert detail.row.closed_at is not None
            looked, closed = detail.history[-2:]
            assert (looked.event, closed.event, closed.actor, closed.note) == (
                "verify", "resolve", "bob", "INC-1 is closed",
            )  # fmt: skip
            assert json.loads(looked.detail) == {"job_status": "succeeded", "undelivered": 0, "passed": True}

    asyncio.run(run())


@pytest.mark.spec("CRIT-5.5")
def test_verifying_records_what_was_found_and_closes_only_with_a_note(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            shop.mend()
            await shop.letters.replay(letter, actor="ada", **GATES)
            await shop.work()
            assert (await shop.letters.verify(letter, actor="ada")).applied == (letter,)
            assert await shop.state(letter) is LetterState.REPLAYED
            await shop.letters.verify(letter, actor="ada", note="INC-1 is closed")
            assert await shop.state(letter) is LetterState.RESOLVED
            assert (await shop.events(letter))[-3:] == ["verify", "verify", "resolve"]

    asyncio.run(run())


@pytest.mark.spec("CRIT-5.5")
def test_a_verification_that_finds_something_wanting_is_on_record_and_closes_nothing(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            await shop.letters.escalate(letter, "fails for all", actor="ada")
            with pytest.raises(RefusedError, match="its job has not succeeded, it is dead_letter"):
                await shop.letters.verify(letter, actor="ada", note="all well?")
            detail = await shop.letters.show(letter)
            assert (detail.row.state, detail.history[-1].event) == (LetterState.ESCALATED, "verify")
            assert json.loads(detail.history[-1].detail)["passed"] is False

    asyncio.run(run())


def test_of_several_those_that_are_not_proven_are_named_and_the_others_closed(store_url):
    async def run():
        async with opened(store_url) as shop:
            first, second = await shop.bury(Order(1), Order(2))
            shop.mend()
            await shop.letters.replay(first, actor="ada", **GATES)
            await shop.work()
            done = await shop.letters.verify([first, second, 77], actor="ada", note="done")
            assert done.applied == (first,)
            assert [refused.letter_id for refused in done.refused] == [second, 77]
            assert (await shop.state(first), await shop.state(second)) == (LetterState.RESOLVED, LetterState.OPEN)

    asyncio.run(run())


def test_a_replayed_one_that_was_wrong_after_all_is_escalated_and_can_still_be_resolved(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            shop.mend()
            await shop.letters.replay(letter, actor="ada", **GATES)
            await shop.work()
            await shop.letters.escalate(letter, "succeeded with a wrong price", actor="ada")
            assert (await shop.letters.show(letter)).row.escalated
            await shop.letters.resolve(letter, "the price was right", actor="eng")
            assert await shop.state(letter) is LetterState.RESOLVED

    asyncio.run(run())


@pytest.mark.spec("CRIT-5.5")
def test_one_that_is_worked_on_once_more_after_its_job_has_succeeded_can_be_closed_all_the_same(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            shop.mend()
            await shop.letters.replay(letter, actor="ada", **GATES)
            await shop.work()
            await shop.letters.escalate(letter, "the customer says that nothing came", actor="ada")
            await shop.letters.triage(letter, "code", actor="eng")
            await shop.letters.remediate(letter, "it had come: INC-2", actor="eng")
            await shop.letters.approve(letter, "nothing to repeat", actor="eng")
            with pytest.raises(RefusedError, match="has succeeded: there is nothing to replay, only to verify"):
                await shop.letters.replay(letter, actor="eng")
            await shop.letters.resolve(letter, "it was in her spam", actor="eng")
            assert await shop.state(letter) is LetterState.RESOLVED

    asyncio.run(run())


def test_a_discarded_one_leaves_the_queue_and_can_be_reopened(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            dead = LetterFilter(states=frozenset(state for state in LetterState if state.dead))
            await shop.letters.discard(letter, "the customer withdrew", actor="ada")
            assert await shop.letters.list(dead) == []
            with pytest.raises(RefusedError, match=rf"reprieve dead reopen {letter} --reason"):
                await shop.letters.triage(letter, "data", actor="ada")
            await shop.letters.reopen(letter, "she did not", actor="bob")
            assert [row.letter_id for row in await shop.letters.list(dead)] == [letter]
            assert await shop.events(letter) == ["discard", "reopen"]

    asyncio.run(run())


def test_a_note_can_be_added_at_any_time_and_changes_nothing_else(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            before = (await shop.letters.show(letter)).row
            await shop.letters.note(letter, "asked the provider", actor="ada")
            await shop.letters.discard(letter, "no", actor="ada")
            await shop.letters.note(letter, "they answered", actor="bob")
            detail = await shop.letters.show(letter)
            assert [(entry.event, entry.note) for entry in detail.history] == [
                ("note", "asked the provider"),
                ("discard", "no"),
                ("note", "they answered"),
            ]
            assert detail.row.last_failure_at == before.last_failure_at

    asyncio.run(run())
