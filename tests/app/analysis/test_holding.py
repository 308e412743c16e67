"""What is being asked is held for as long as that takes; what was asked is written with all that it raises."""

import asyncio
import base64
import gc
import logging
import os
from contextlib import suppress
from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel

import reprieve
from reprieve.core.analysis import AnalysisStatus
from reprieve.models import OpenAI, Usage
from reprieve.models import Reply as ModelReply
from reprieve.ports import intents as i
from reprieve.testing import replies

GOOD = replies.openai.completion('{"kind": "article"}')
BAD = replies.openai.completion('{"kind": "nonsense"}')
TOKENS = (1, 1)
"""That the provider says each of these took."""


class Slow:
    """A model that makes its callers wait in line for longer than a call may take, as one on this machine does."""

    name = "slow"

    def __init__(self, seconds):
        self.seconds, self.asked = seconds, []

    async def ask(self, prompt, *, schema=None, timeout=60.0):  # noqa: ASYNC109 - as the port has it
        self.asked.append(prompt.turns[0].text)
        await asyncio.sleep(self.seconds)
        return ModelReply(text='{"kind": "article"}')

    async def close(self):
        pass


@pytest.mark.spec("LLM-5.1")
def test_a_model_that_takes_longer_than_a_lease_is_asked_once_whoever_else_wants_to_know(store_url):
    model = Slow(2.0)
    question = {"prompt": "{signature}", "schema": {"type": "object"}, "timeout": 0.1, "lease": 0.6}

    async def main():
        async with reprieve.connect(store_url) as app, reprieve.connect(store_url) as other:
            first = asyncio.create_task(app.analysis(model, **question).analyze_many({"a": [], "b": []}))
            while len(model.asked) < 2:  # noqa: ASYNC110 - of another task
                await asyncio.sleep(0.01)
            second = await other.analysis(model, **question).analyze_many({"a": [], "b": []})
            return await first, second

    first, second = asyncio.run(main())
    assert (first.count(AnalysisStatus.ANALYZED), first.cached) == (2, 0)
    assert (second.count(AnalysisStatus.ANALYZED), second.cached) == (2, 2)
    assert sorted(model.asked) == ["a", "b"]


def test_who_waits_for_another_try_leaves_no_more_than_a_lease_behind(store_url, flaky_http):
    flaky_http.always(replies.openai.rate_limit_exceeded("200"))

    async def main():
        model = OpenAI("m", base_url=flaky_http.url("/v1"), api_key="key-of-a-test-0003")
        async with reprieve.connect(store_url) as app:
            analysis = app.analysis(model, prompt="{signature}", schema={"type": "object"})
            asking = asyncio.create_task(analysis.analyze("a"))
            rows = []
            while not rows or rows[0].last_error_at is None:
                await asyncio.to_thread(flaky_http.wait_for_requests, 1, within=60)
                rows = await app.journal.store.analyses(["a"])
            asking.cancel()
            await model.close()
            return rows[0]

    row = asyncio.run(main())
    assert row.retry_after - row.last_error_at >= 200
    assert row.leased_until < row.retry_after


def strict(value):
    if value == "article":
        raise ValueError("too vague")
    return value


class Before(BaseModel):
    kind: str


class After(BaseModel):
    kind: Annotated[str, AfterValidator(strict)]


After.__name__ = Before.__name__


def test_a_cached_answer_that_the_same_schema_does_not_take_any_more_is_asked_anew_and_ends_no_batch(lab):
    lab.upstream.always(GOOD)
    lab.run(lambda _, analysis: analysis.analyze_many({"a": [], "b": []}), schema=Before)
    lab.upstream.always(replies.openai.completion('{"kind": "essay"}'))
    again = lab.run(lambda _, analysis: analysis.analyze_many({"a": [], "b": [], "c": []}), schema=After)
    assert {each.value.kind for each in again.results.values()} == {"essay"}
    assert (again.count(AnalysisStatus.ANALYZED), again.cached) == (3, 0)
    assert lab.analyze("a", schema=After).cached is True
    assert len(lab.asked) == 5


def test_a_renewal_that_fails_is_followed_by_the_next(store_url):
    model = Slow(2.0)
    question = {"prompt": "{signature}", "schema": {"type": "object"}, "lease": 0.6}

    async def main():
        async with reprieve.connect(store_url) as app, reprieve.connect(store_url) as other:
            apply, failed = app.journal.store.apply, []

            async def once_broken(intents, *, again=False):
                if not failed and any(isinstance(each, i.Prolong) for each in intents):
                    failed.append(1)
                    raise ValueError("a bug")
                return await apply(intents, again=again)

            app.journal.store.apply = once_broken
            first = asyncio.create_task(app.analysis(model, **question).analyze("a"))
            while not model.asked:  # noqa: ASYNC110 - of another task
                await asyncio.sleep(0.01)
            await other.analysis(model, **question).analyze("a")
            await first
            return failed

    assert asyncio.run(main()) == [1]
    assert model.asked == ["a"]


def test_who_leaves_gives_the_signature_back_long_before_its_lease_is_over(store_url):
    question = {"prompt": "{signature}", "schema": {"type": "object"}, "lease": 3600.0}

    async def main():
        async with reprieve.connect(store_url) as app:
            model = Slow(3600.0)
            analysis = app.analysis(model, **question)
            leaving = asyncio.create_task(analysis.analyze("a"))
            while not model.asked:  # noqa: ASYNC110 - of another task
                await asyncio.sleep(0.01)
            leaving.cancel()
            await asyncio.wait([leaving])
            async with asyncio.timeout(60):
                return await app.analysis(Slow(0.0), **question).analyze("a")

    assert asyncio.run(main()).status is AnalysisStatus.ANALYZED


def test_whoever_joins_a_question_that_is_being_asked_pays_nothing(lab):
    lab.upstream.always(GOOD)
    found = lab.run(lambda _, analysis: asyncio.gather(*(analysis.analyze("a") for _ in range(10))))
    assert sum((each.usage for each in found), Usage()) == Usage(input_tokens=TOKENS[0], output_tokens=TOKENS[1])


def test_a_look_that_fails_is_told_to_who_looked_and_to_nobody_else(lab, caplog):
    async def main(app, analysis):
        async def refused(signatures):
            raise reprieve.StoreRefusedError("no")

        app.journal.store.analyses = refused
        with pytest.raises(reprieve.StoreRefusedError):
            await analysis.analyze("a")
        gc.collect()

    lab.run(main)
    assert "never retrieved" not in caplog.text


def test_a_batch_that_was_stopped_says_nothing_about_how_many_are_skipped(lab):
    lab.upstream.always(replies.openai.invalid_request())
    lab.run(lambda _, analysis: analysis.analyze_many({f"s{each}": [] for each in range(30)}))
    lab.upstream.always(replies.openai.invalid_api_key())
    lab.run(lambda _, analysis: analysis.analyze_many({f"t{each}": [] for each in range(30)}), concurrency=1)

    async def look(app, _):
        return {alert.rule: alert.is_open for alert in await app.operations.alerts.list()}

    assert lab.run(look) == {"skipped": True, "authentication": True}


def test_who_is_cancelled_while_its_failure_is_written_does_not_keep_others_from_hearing_of_it(lab, caplog):
    lab.upstream.always(replies.openai.invalid_api_key())

    async def main(app, analysis):
        apply, asking = app.journal.store.apply, None

        async def cancelled(intents, *, again=False):
            if any(isinstance(each, i.Fault) for each in intents):
                asking.cancel()
                await asyncio.sleep(0)
            return await apply(intents, again=again)

        app.journal.store.apply = cancelled
        asking = asyncio.create_task(analysis.analyze("a"))
        await asyncio.wait([asking])

    with caplog.at_level(logging.ERROR, "reprieve.alerts"):
        lab.run(main)
    assert [each.name for each in caplog.records if each.name == "reprieve.alerts"] == ["reprieve.alerts"]


@pytest.mark.parametrize(
    ("reply", "number", "rule"),
    [
        pytest.param(replies.openai.invalid_api_key(), 1, "authentication", marks=pytest.mark.spec("LLM-7.1")),
        pytest.param(replies.openai.rate_limit_exceeded("0"), 11, "rate_limits", marks=pytest.mark.spec("LLM-7.2")),
    ],
)
def test_whoever_is_cut_off_after_a_failure_was_written_has_raised_its_alert(lab, reply, number, rule):
    lab.upstream.always(reply)

    async def main(app, analysis):
        store, apply, faults = app.journal.store, app.journal.store.apply, 0

        async def until_cut_off(intents, *, again=False):
            nonlocal faults
            if faults >= number:
                raise reprieve.StoreRefusedError("cut off")
            answers = await apply(intents, again=again)
            faults += sum(isinstance(each, i.Fault) for each in intents)
            return answers

        store.apply = until_cut_off
        with suppress(reprieve.StoreRefusedError):
            await analysis.analyze_many({f"s{each}": [] for each in range(4)})
        store.apply = apply
        assert faults == number
        return await app.operations.alerts.list()

    (alert,) = lab.run(main, concurrency=1)
    assert (alert.rule, alert.is_open) == (rule, True)


def test_what_asking_took_is_told_to_who_asked_and_added_up_in_the_row(lab):
    lab.upstream.next(BAD, GOOD)
    lab.upstream.always(GOOD)
    asked, known = lab.analyze("a"), lab.analyze("a")
    assert (asked.usage.input_tokens, asked.usage.output_tokens) == (2 * TOKENS[0], 2 * TOKENS[1])
    assert known.usage == Usage()
    again = lab.run(
        lambda _, analysis: analysis.analyze_many({"a": [], "b": []}), prompt="Another question about {signature}"
    )
    assert again.usage == Usage(input_tokens=2 * TOKENS[0], output_tokens=2 * TOKENS[1])

    async def look(app, _):
        return await app.operations.reviews.signatures()

    found = {each.url_signature: (each.input_tokens, each.output_tokens, each.cost) for each in lab.run(look)}
    assert found == {"a": (3 * TOKENS[0], 3 * TOKENS[1], None), "b": (*TOKENS, None)}


def test_what_a_question_took_that_came_to_nothing_is_in_the_row_too(lab):
    lab.upstream.always(BAD)
    assert lab.analyze("a").usage.output_tokens == 2 * TOKENS[1]


@pytest.mark.spec("LLM-4.2")
def test_an_answer_is_mended_once_also_where_the_request_to_mend_it_had_to_be_tried_again(lab):
    lab.upstream.next(BAD, replies.openai.rate_limit_exceeded("0"), replies.openai.server_error(), GOOD)
    found = lab.analyze("a")
    assert found.status is AnalysisStatus.ANALYZED
    assert ["could not be used" in text for text in lab.asked] == [False, True, True, True]
    assert found.usage == Usage(input_tokens=2 * TOKENS[0], output_tokens=2 * TOKENS[1])
    lab.upstream.always(BAD)
    lab.upstream.next(BAD, replies.openai.rate_limit_exceeded("0"))
    assert lab.analyze("b").status is AnalysisStatus.NEEDS_REVIEW
    assert len(lab.asked) == 4 + 3


def test_a_signature_is_measured_in_bytes_and_the_longest_is_kept(lab):
    lab.upstream.always(GOOD)
    name = base64.b64encode(os.urandom(1500)).decode()
    assert len(name) == 2000
    assert lab.analyze(name).status is AnalysisStatus.ANALYZED
    with pytest.raises(reprieve.UsageError, match="at most 2000 bytes"):
        lab.analyze("\N{SNOWMAN}" * 667)
