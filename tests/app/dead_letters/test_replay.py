"""Replays: from the stage that failed, from the start, from a chosen one, with another payload; and failing again (CRIT-5.4, 5.6)."""

import asyncio
import json
import logging

import pytest
from dead_shop import GATES, Order, opened

import reprieve
from reprieve.adapters.sql.sqlite import SqliteStore
from reprieve.core.lifecycle import JobStatus, LetterState
from reprieve.errors import PayloadError, RefusedError, StoreUnavailableError, UnknownNameError, UsageError
from reprieve.ports.intents import Cancelled, Replay


async def result(shop, letter):
    job_id = (await shop.letters.show(letter)).row.job_id
    return await shop.app.wait(job_id, timeout=30, pipeline=shop.pipeline)


@pytest.mark.spec("CRIT-5.4")
def test_a_replay_starts_at_the_stage_that_failed_with_the_payload_that_is_stored_and_a_fresh_budget(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury(Order(7, "DE"), trouble=reprieve.Retryable("away"))
            before = await shop.letters.show(letter)
            assert (before.row.attempts, before.row.budget) == (5, 5)
            shop.mend()
            await shop.letters.replay(letter, actor="ada", **GATES)
            await shop.work()
            (run,) = shop.runs
            assert run == ("notify", before.row.job_id, Order(7, "DE"), 1), "no stage before it, and the first attempt"
            assert await result(shop, letter) == "DE 70", "of the results that the finished stages had left"
            after = await shop.letters.show(letter)
            assert (after.row.state, after.job_status) == (LetterState.REPLAYED, JobStatus.SUCCEEDED)
            assert after.sanitized_context == before.sanitized_context
            assert json.loads(after.history[3].detail)["stage"] == "notify"
            detail = await shop.app.operations.jobs.show(before.row.job_id)
            assert [each.number for each in detail.attempts] == [1, 2, 3, 4, 5], "what had failed before is still told"

    asyncio.run(run())


@pytest.mark.spec("CRIT-5.4")
@pytest.mark.parametrize(
    ("options", "ran"),
    [
        ({"restart": True}, ["fetch", "price", "notify"]),
        ({"stage": "price"}, ["price", "notify"]),
        ({"stage": "notify"}, ["notify"]),
    ],
    ids=["from the start", "from a stage that had finished", "from the stage that failed"],
)
def test_a_replay_starts_elsewhere_only_where_that_is_asked_for(store_url, options, ran):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury(Order(3))
            shop.mend()
            await shop.letters.replay(letter, actor="ada", **GATES, **options)
            await shop.work()
            assert shop.stages == ran
            assert await result(shop, letter) == "JP 30"

    asyncio.run(run())


def test_a_stage_that_the_job_has_not_come_to_is_refused(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury(stage="price")
            with pytest.raises(RefusedError, match="fetch, price"):
                await shop.letters.replay(letter, actor="ada", stage="notify", **GATES)
            assert (await shop.state(letter), await shop.events(letter)) == (LetterState.OPEN, []), "all steps or none"

    asyncio.run(run())


@pytest.mark.spec("CRIT-5.4")
def test_an_edited_payload_is_a_revision_that_starts_at_the_first_stage(store_url):
    def trouble(order):
        if order.country == "XX":
            raise reprieve.Permanent("no such country")

    async def run():
        async with opened(store_url) as shop:
            options = {"idempotency_key": "o-4@2", "subject": "o-4", "version": 2}
            job = await shop.app.submit(shop.pipeline, Order(4, "XX"), **options)
            shop.troubles["notify"] = trouble
            await shop.work()
            (row,) = await shop.letters.list()
            shop.runs.clear()
            corrected = {"number": 4, "country": "FR"}
            await shop.letters.replay(row.letter_id, actor="ada", pipeline=shop.pipeline, payload=corrected, **GATES)
            await shop.work()
            assert [(stage, payload) for stage, _, payload, _ in shop.runs] == [
                ("fetch", Order(4, "FR")),
                ("price", Order(4, "FR")),
                ("notify", Order(4, "FR")),
            ]
            assert await result(shop, row.letter_id) == "FR 40"
            view = (await shop.app.operations.jobs.show(job.job_id)).job
            assert (view.idempotency_key, view.subject, view.version) == ("o-4@2", "o-4", 2), "the same version"
            assert json.loads((await shop.letters.show(row.letter_id)).history[-2].detail)["revision"] == 1

    asyncio.run(run())


def test_an_edited_payload_can_start_at_the_stage_that_failed(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury(Order(4, "XX"))
            shop.mend()
            edited = {"pipeline": shop.pipeline, "payload": Order(9, "FR"), "stage": "notify"}
            await shop.letters.replay(letter, actor="ada", **edited, **GATES)
            await shop.work()
            assert shop.stages == ["notify"]
            assert await result(shop, letter) == "FR 40", "what had finished is kept"

    asyncio.run(run())


@pytest.mark.parametrize("payload", [{"number": "many"}, {"country": "FR"}, None, "text"])
def test_a_payload_that_does_not_fit_is_refused_and_nothing_is_changed(store_url, payload):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            before = await shop.whole(letter)
            with pytest.raises(PayloadError):
                await shop.letters.replay(letter, actor="ada", pipeline=shop.pipeline, payload=payload, **GATES)
            assert await shop.whole(letter) == before

    asyncio.run(run())


def test_a_payload_is_for_one_dead_letter_of_its_own_pipeline(sqlite_url):
    async def run():
        async with opened(sqlite_url) as shop:
            letters = await shop.bury(Order(1), Order(2))
            other = reprieve.Pipeline("other")
            revised = {"pipeline": shop.pipeline, "payload": Order(1)}
            with pytest.raises(UsageError, match="one dead letter"):
                await shop.letters.replay(letters, actor="ada", **revised, **GATES)
            with pytest.raises(UsageError, match="is of pipeline 'orders', not of 'other'"):
                await shop.letters.replay(letters[0], actor="ada", pipeline=other, payload=Order(1), **GATES)
            with pytest.raises(UsageError, match=r"a reprieve\.Pipeline"):
                await shop.letters.replay(letters[0], actor="ada", pipeline="orders", payload=Order(1), **GATES)
            with pytest.raises(UnknownNameError):
                await shop.letters.replay(77, actor="ada", **revised, **GATES)
            assert [await shop.events(letter) for letter in letters] == [[], []]

    asyncio.run(run())


@pytest.mark.spec("CRIT-5.6")
def test_an_edited_payload_that_is_still_wrong_fails_again_and_is_escalated_with_an_alert(store_url, caplog):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury(Order(4, "XX"))
            await shop.letters.replay(letter, actor="ada", pipeline=shop.pipeline, payload=Order(4, "YY"), **GATES)
            await shop.work()
            detail = await shop.letters.show(letter)
            assert (detail.row.state, detail.row.escalated) == (LetterState.ESCALATED, True)
            assert detail.job_status is JobStatus.DEAD_LETTER
            assert [row.letter_id for row in await shop.letters.list()] == [letter], (
                "back in the queue, as the same item"
            )
            entry = detail.history[-1]
            assert (entry.event, entry.before, entry.after) == ("relapse", LetterState.REPLAYING, LetterState.ESCALATED)
            (raised,) = await shop.app.operations.alerts.list()
            assert (raised.rule, raised.key) == ("escalation", "orders/notify/DECLARED_PERMANENT")
            return detail.row.job_id

    job_id = asyncio.run(run())
    (alert,) = [record for record in caplog.records if record.name == "reprieve.alerts"]
    assert alert.levelno == logging.ERROR
    for named in (f"job {job_id} of orders", "notify", "DECLARED_PERMANENT", "escalated"):
        assert named in alert.getMessage()


@pytest.mark.spec("CRIT-5.6")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (reprieve.Permanent("a"), reprieve.Permanent("b", error_class="OTHER_CLASS")),
        (reprieve.Retryable("a"), reprieve.Retryable("a")),
    ],
    ids=["another class", "a class that is retryable"],
)
def test_a_replay_that_fails_otherwise_opens_the_dead_letter_again_without_an_alert(store_url, caplog, first, second):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury(trouble=first)
            await shop.letters.replay(letter, actor="ada", **GATES)
            shop.troubles["notify"] = second
            await shop.work()
            detail = await shop.letters.show(letter)
            assert (detail.row.state, detail.row.escalated) == (LetterState.OPEN, False)
            assert detail.history[-1].event == "fail"
            with pytest.raises(RefusedError, match="the cause has to be named anew"):
                await shop.letters.replay(letter, actor="ada")
            assert await shop.app.operations.alerts.list() == []

    asyncio.run(run())
    assert [record for record in caplog.records if record.name == "reprieve.alerts"] == []


def test_the_history_is_one_and_only_grows_over_three_replays(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury(Order(5))
            opened_at = (await shop.letters.show(letter)).row.opened_at
            before = []
            for turn, trouble in enumerate(
                (reprieve.Permanent("b", error_class="B"), reprieve.Permanent("c"), None), 1
            ):
                await shop.letters.replay(letter, actor=f"operator {turn}", **GATES)
                if trouble is None:
                    shop.mend()
                else:
                    shop.troubles["notify"] = trouble
                await shop.work()
                history = list((await shop.letters.show(letter)).history)
                assert history[: len(before)] == before, "what was written stays as it was"
                before = history
            detail = await shop.letters.show(letter)
            gates = ["triage", "remediate", "approve", "replay"]
            assert await shop.events(letter) == [*gates, "fail", *gates, "fail", *gates, "recover"]
            assert (detail.row.replays, detail.row.opened_at, detail.row.state) == (3, opened_at, LetterState.REPLAYED)
            assert [entry.actor for entry in detail.history if entry.event == "replay"] == [
                "operator 1",
                "operator 2",
                "operator 3",
            ]
            assert len(await shop.letters.list()) == 1

    asyncio.run(run())


def test_a_replayed_job_that_is_cancelled_closes_its_dead_letter(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            await shop.letters.replay(letter, actor="ada", **GATES)
            job_id = (await shop.letters.show(letter)).row.job_id
            assert await shop.app.operations.jobs.cancel(job_id, actor="bob", reason="not wanted") is Cancelled.DONE
            detail = await shop.letters.show(letter)
            assert (detail.row.state, detail.history[-1].event) == (LetterState.DISCARDED, "withdraw")
            assert detail.row.closed_at is not None

    asyncio.run(run())


def test_what_is_replaying_or_closed_is_not_replayed_again(store_url):
    async def run():
        async with opened(store_url) as shop:
            first, second, third = await shop.bury(Order(1), Order(2), Order(3))
            await shop.letters.replay(first, actor="ada", **GATES)
            await shop.letters.discard(second, "not wanted", actor="ada")
            done = await shop.letters.replay([first, second, third, 77], actor="ada", **GATES)
            assert done.applied == (third,)
            assert {refused.letter_id: refused.state for refused in done.refused} == {
                first: LetterState.REPLAYING,
                second: LetterState.DISCARDED,
                77: None,
            }
            shop.mend()
            await shop.work()
            assert sorted(order.number for _, _, order, _ in shop.runs) == [1, 3], "each once"

    asyncio.run(run())


def test_a_job_that_was_erased_cannot_be_replayed(store_url):
    async def run():
        async with opened(store_url) as shop:
            shop.troubles["fetch"] = reprieve.Permanent("no")
            await shop.app.submit(shop.pipeline, Order(1), subject="o-1", version=1)
            await shop.work()
            (row,) = await shop.letters.list()
            await shop.app.operations.jobs.erase("o-1", actor="ada")
            assert not (await shop.letters.show(row.letter_id)).payload_kept
            with pytest.raises(RefusedError, match="erased"):
                await shop.letters.replay(row.letter_id, actor="ada", **GATES)

    asyncio.run(run())


@pytest.mark.spec("CRIT-5.6")
def test_a_caller_who_runs_his_own_loop_raises_the_alert_too(store_url, caplog):
    async def run():
        async with opened(store_url) as shop:
            job = await shop.app.submit(shop.pipeline, Order(1))
            failure = reprieve.Permanent("no such country")
            await shop.app.handle_item_failure(job.job_id, "agent", "fetch", failure)
            (row,) = await shop.letters.list()
            await shop.letters.replay(row.letter_id, actor="ada", **GATES)
            await shop.app.handle_item_failure(job.job_id, "agent", "fetch", failure)
            assert await shop.state(row.letter_id) is LetterState.ESCALATED

    asyncio.run(run())
    (alert,) = [record for record in caplog.records if record.name == "reprieve.alerts"]
    assert "job 1 of orders" in alert.getMessage()


def test_a_store_that_goes_away_after_some_were_replayed_says_that_something_was_done(sqlite_url, monkeypatch):
    """Whoever ran all of it again would replay the first ones twice."""
    apply, said = SqliteStore.apply, []

    async def gone(store, intents, *, again=False):
        said.extend(each for each in intents if isinstance(each, Replay))
        if len(said) > 1:
            raise StoreUnavailableError("the disk is gone")
        return await apply(store, intents, again=again)

    async def run():
        async with opened(sqlite_url) as shop:
            first, second = await shop.bury(Order(1), Order(2))
            await shop.letters.triage(second, "data", actor="ada")
            with monkeypatch.context() as patch:
                patch.setattr(SqliteStore, "apply", gone)
                patch.setattr("reprieve.app.operations.dead_letters.PATIENCE", 0.1)
                with pytest.raises(StoreUnavailableError, match="1 dead letters were dealt with before") as error:
                    await shop.letters.replay([first, second], actor="ada", **GATES)
            assert error.value.outcome_unknown

    asyncio.run(run())
