"""A signature is asked about once; what the provider or the answer's form make of it decides what it is from then on."""

import asyncio
import logging

import pytest
from pydantic import BaseModel
from sqlalchemy import select

import reprieve
from reprieve.adapters.sql.engine import Database
from reprieve.adapters.sql.tables import metadata
from reprieve.core.analysis import AnalysisStatus
from reprieve.core.failure import TAXONOMY, Category, ErrorClass
from reprieve.models import Reply as ModelReply
from reprieve.testing import Answering, HangUp, Reply, replies

ACTIVE, SKIPPED, ANALYZED, REVIEW = AnalysisStatus
GOOD = replies.openai.completion('{"kind": "article"}')
BAD = replies.openai.completion('{"kind": "nonsense"}')


@pytest.mark.spec("LLM-5.1")
def test_the_model_is_asked_once_and_its_answer_is_served_from_then_on(lab):
    lab.upstream.always(GOOD)
    first = lab.analyze("a", "https://a.example/1")
    again = lab.analyze("a", "https://a.example/2")
    assert (first.status, first.value.kind, first.cached) == (ANALYZED, "article", False)
    assert (again.status, again.value.kind, again.cached) == (ANALYZED, "article", True)
    assert lab.asked == ["Which kind is a?\nhttps://a.example/1"]


@pytest.mark.parametrize(
    ("reply", "error_type"),
    [
        pytest.param(replies.openai.invalid_request(), "invalid_request_error", marks=pytest.mark.spec("LLM-1.1")),
        pytest.param(replies.openai.model_not_found(), "invalid_request_error", marks=pytest.mark.spec("LLM-1.1")),
        pytest.param(
            replies.openai.context_length_exceeded(), "context_length_exceeded", marks=pytest.mark.spec("LLM-1.2")
        ),
        pytest.param(replies.openai.invalid_api_key(), "invalid_api_key", marks=pytest.mark.spec("LLM-1.3")),
        pytest.param(
            replies.openai.error(401, "no", kind="authentication_error"),
            "authentication_error",
            marks=pytest.mark.spec("LLM-1.4"),
        ),
    ],
)
@pytest.mark.spec("LLM-5.1", "LLM-6.1")
def test_what_the_provider_will_never_take_is_skipped_at_once_and_never_sent_again(lab, reply, error_type):
    lab.upstream.always(reply)
    first = lab.analyze("a")
    assert (first.status, first.error_type, first.retry_after, first.failure_count) == (SKIPPED, error_type, None, 1)
    assert lab.analyze("a").status is SKIPPED
    assert len(lab.asked) == 1


@pytest.mark.spec("LLM-1.1", "LLM-6.1")
def test_a_profile_that_gives_up_where_the_policy_sets_aside_skips_for_good_too(lab):
    lab.upstream.always(replies.openai.invalid_request())
    found = lab.analyze("a", profile="criticizer")
    assert (found.status, found.retry_after, found.failure_count) == (SKIPPED, None, 1)


@pytest.mark.spec("LLM-1.2")
def test_a_context_that_is_too_long_is_logged_for_investigation(lab, caplog):
    lab.upstream.always(replies.openai.context_length_exceeded())
    with caplog.at_level(logging.ERROR, logger="reprieve.analysis"):
        lab.analyze("a")
    assert "CONTEXT_LENGTH_EXCEEDED, skipped, to be investigated" in caplog.text


@pytest.mark.parametrize(
    ("fault", "error_type"),
    [
        pytest.param(replies.openai.server_error(), "server_error", marks=pytest.mark.spec("LLM-2.2")),
        pytest.param(Reply(503), "server_error", marks=pytest.mark.spec("LLM-2.2")),
        pytest.param(HangUp(), "network_error", marks=pytest.mark.spec("LLM-2.2")),
        pytest.param(replies.openai.rate_limit_exceeded("0"), "rate_limit_error", marks=pytest.mark.spec("LLM-2.1")),
    ],
)
@pytest.mark.spec("LLM-3.1", "LLM-6.1")
def test_what_may_pass_is_asked_twice_more_with_growing_waits_and_stays_active_once_that_is_spent(
    lab, fault, error_type
):
    lab.upstream.always(fault)
    before = lab.clock.now()
    found = lab.analyze("a")
    assert len(lab.asked) == 3
    assert (found.status, found.error_type, found.failure_count) == (ACTIVE, error_type, 3)
    assert 3.0 <= lab.clock.now() - before < 3.7, "1 s and 2 s, each with up to 300 ms"
    assert found.retry_after is not None
    assert 3.9 <= found.retry_after - lab.clock.now() < 4.4
    assert lab.analyze("a").failure_count == 3
    assert len(lab.asked) == 3, "not before its time"
    lab.clock.advance(5)
    lab.upstream.always(GOOD)
    assert lab.analyze("a").status is ANALYZED
    assert len(lab.asked) == 4


@pytest.mark.spec("LLM-2.1")
def test_a_rate_limit_is_waited_for_as_long_as_the_provider_says(lab):
    lab.upstream.next(replies.openai.rate_limit_exceeded("20"), GOOD)
    before = lab.clock.now()
    assert lab.analyze("a").status is ANALYZED
    assert 20.0 <= lab.clock.now() - before < 21.0


@pytest.mark.spec("LLM-1.5", "LLM-4.3")
def test_an_answer_that_does_not_fit_after_its_repair_waits_for_a_person_with_all_that_was_said(lab):
    lab.upstream.always(BAD)
    found = lab.analyze("a", "https://a.example/1")
    assert (found.status, found.error_type, found.retry_after) == (REVIEW, "json_schema_error", None)
    assert len(lab.asked) == 2
    assert lab.analyze("a").status is REVIEW
    assert len(lab.asked) == 2, "nobody asks the model again"

    async def look(app, _):
        (review,) = await app.operations.reviews.list()
        return await app.operations.reviews.show(review.review_id)

    detail = lab.run(look)
    assert detail.review.url_signature == "a"
    assert b"https://a.example/1" in detail.samples
    assert detail.answers.count(b"nonsense") >= 2
    assert b"Input should be" in detail.answers
    assert b'"article"' in detail.schema


@pytest.mark.spec("LLM-8.2", "LLM-8.3")
def test_what_a_person_verified_is_served_and_never_sent_to_the_model_whatever_is_asked(lab):
    lab.upstream.always(BAD)
    lab.analyze("a")

    async def verify(app, _):
        with pytest.raises(reprieve.UsageError, match="does not fit the schema: at kind"):
            await app.operations.reviews.verify(1, {"kind": "nonsense"}, actor="ada")
        return await app.operations.reviews.verify(1, {"kind": "product"}, actor="ada")

    lab.run(verify)
    sent = len(lab.asked)
    for prompt in ("Which kind is {signature}?\n{samples}", "Another question about {signature}"):
        found = lab.analyze("a", prompt=prompt)
        assert (found.status, found.value.kind, found.is_human_verified) == (ANALYZED, "product", True)
    assert len(lab.asked) == sent


class Wider(BaseModel):
    kind: str
    language: str


@pytest.mark.spec("LLM-8.3")
def test_a_verified_answer_that_does_not_fit_a_new_schema_goes_back_to_a_person(lab):
    lab.upstream.always(BAD)
    lab.analyze("a")
    lab.run(lambda app, _: app.operations.reviews.verify(1, {"kind": "product"}, actor="ada"))
    sent = len(lab.asked)
    recalled = lab.analyze("a", "https://a.example/1", schema=Wider)
    assert (recalled.status, recalled.error_type) == (REVIEW, "json_schema_error")
    assert "does not fit the schema as it is now" in recalled.error_reason
    assert lab.analyze("a", schema=Wider).status is REVIEW

    async def look(app, _):
        (review,) = await app.operations.reviews.list()
        with pytest.raises(reprieve.UsageError, match="'language' is a required"):
            await app.operations.reviews.verify(review.review_id, {"kind": "product"}, actor="ada")
        await app.operations.reviews.verify(review.review_id, {"kind": "product", "language": "en"}, actor="ada")
        return await app.operations.reviews.show(review.review_id)

    detail = lab.run(look)
    assert b"product" in detail.answers, "what was verified before is shown"
    assert b"https://a.example/1" in detail.samples
    assert lab.analyze("a", schema=Wider).value == Wider(kind="product", language="en")
    assert len(lab.asked) == sent


@pytest.mark.parametrize(
    "changed", [{"prompt": "What is {signature}?"}, {"schema": {"type": "object"}}, {"system": "Be brief."}]
)
def test_a_changed_prompt_or_schema_is_asked_anew_once(lab, changed):
    lab.upstream.always(GOOD)
    lab.analyze("a")
    assert lab.analyze("a", **changed).cached is False
    assert lab.analyze("a", **changed).cached is True
    assert len(lab.asked) == 2


def test_an_operators_reset_asks_a_skipped_one_again_and_is_on_record(lab):
    lab.upstream.next(replies.openai.invalid_api_key())
    lab.upstream.always(GOOD)
    assert lab.analyze("a").status is SKIPPED

    async def reset(app, _):
        done = await app.operations.reviews.reset(["a", "b"], actor="ada", reason="the key was wrong")
        return done, await app.operations.reviews.history("a")

    done, (entry,) = lab.run(reset)
    assert done == ("a",)
    assert (entry.actor, entry.event, entry.note) == ("ada", "reset", "the key was wrong")
    assert lab.analyze("a").status is ANALYZED


def test_nothing_secret_of_a_failure_is_written(lab):
    planted = "sk-" + "live-" + "0123456789abcdefghij"
    lab.upstream.always(replies.openai.error(400, f"bad header {planted}", kind="invalid_request_error"))
    found = lab.analyze("a")
    assert found.error_reason
    assert planted not in found.error_reason


@pytest.mark.parametrize(
    "said", ["m\ud800", "m\0", "m\x1b[31m", "m sk-" + "live-" + "0123456789abcdefghij", "m" * 100_000]
)
def test_whatever_a_provider_calls_its_model_is_kept_short_clean_and_without_secrets(lab, said):
    class Naming:
        name = "naming"

        async def ask(self, prompt, *, schema=None, timeout=60.0):  # noqa: ASYNC109 - as the port has it
            return ModelReply(text='{"kind": "article"}', model=said)

        async def close(self):
            pass

    found = lab.run(lambda app, _: app.analysis(Naming(), prompt="x", schema={"type": "object"}).analyze("a"))
    assert found.status is ANALYZED
    assert found.model.startswith("m")
    assert len(found.model) <= 200
    assert "sk-live" not in found.model
    assert "\x1b" not in found.model


# --- batches ----------------------------------------------------------------------------------------------------------


def test_a_batch_tells_what_became_of_each_and_how_far_it_is(lab):
    lab.upstream.always(GOOD)
    lab.analyze("known")
    lab.upstream.next(replies.openai.invalid_request(), BAD, BAD)
    seen = []

    async def batch(_, analysis):
        items = {"known": [], "refused": ["x"], "unfit": ["x"], "fine": ["x"]}
        return await analysis.analyze_many(items, progress=seen.append)

    found = lab.run(batch, concurrency=1)
    assert {each.signature: each.status for each in found.results.values()} == {
        "known": ANALYZED, "refused": SKIPPED, "unfit": REVIEW, "fine": ANALYZED,
    }  # fmt: skip
    assert (found.total, found.cached, found.stopped) == (4, 1, None)
    assert [found.count(status) for status in (ANALYZED, SKIPPED, REVIEW, ACTIVE)] == [2, 1, 1, 0]
    assert [(each.done, each.total) for each in seen] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert (seen[-1].cached, seen[-1].analyzed, seen[-1].skipped, seen[-1].needs_review) == (1, 2, 1, 1)


def test_an_outage_stops_the_batch_once_ten_in_a_row_have_spent_their_retries_and_nobody_is_skipped(lab):
    lab.upstream.always(Reply(503))
    found = lab.run(lambda _, analysis: analysis.analyze_many({f"s{each}": [] for each in range(40)}), concurrency=1)
    assert len(lab.asked) == 30
    assert (found.count(ACTIVE), found.count(SKIPPED), len(found.results)) == (40, 0, 10)
    assert found.stopped is not None
    assert found.stopped.startswith("server_error: ")


def test_trouble_with_some_does_not_stop_a_batch(lab):
    def mostly_down(request):
        return GOOD if b"s9" in request.body or b"s19" in request.body else Reply(503)

    lab.upstream.always(Answering(mostly_down))
    found = lab.run(lambda _, analysis: analysis.analyze_many({f"s{each}": [] for each in range(28)}), concurrency=1)
    assert (found.count(ACTIVE), found.count(ANALYZED), found.stopped) == (26, 2, None)


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.spec("LLM-1.3")
def test_the_first_authentication_error_stops_the_batch_and_only_that_signature_is_skipped(lab, concurrency):
    lab.upstream.always(replies.openai.invalid_api_key())
    names = [f"s{number}" for number in range(40)]

    async def batch(app, analysis):
        found = await analysis.analyze_many({name: [] for name in names})
        skipped = await app.operations.reviews.signatures(SKIPPED)
        return found, [each.url_signature for each in skipped]

    found, skipped = lab.run(batch, concurrency=concurrency)
    assert len(skipped) == 1
    assert (found.count(SKIPPED), found.count(ACTIVE)) == (1, 39)
    assert found.stopped is not None
    assert found.stopped.startswith("invalid_api_key: ")
    assert len(lab.asked) <= concurrency
    lab.upstream.always(GOOD)
    again = lab.run(lambda _, analysis: analysis.analyze_many({name: [] for name in names}))
    assert (again.count(ANALYZED), again.count(SKIPPED)) == (39, 1)


@pytest.mark.spec("LLM-1.4", "LLM-7.1")
@pytest.mark.parametrize("kind", [each for each in ErrorClass if TAXONOMY[each].category is Category.AUTH])
def test_whatever_is_recorded_as_an_authentication_error_stops_the_batch_and_pages(lab, kind):
    async def batch(app, _):
        refusing = Refusing(kind)
        analysis = app.analysis(refusing, prompt="x", schema={"type": "object"}, name="shapes", concurrency=1)
        return await analysis.analyze_many({f"s{number}": [] for number in range(5)}), refusing.asked

    found, asked = lab.run(batch)
    assert (found.count(SKIPPED), asked) == (1, 1)
    assert found.stopped is not None
    assert found.stopped.startswith("authentication_error: ")
    (alert,) = alerts_of(lab)
    assert (alert["level"], alert["source"], alert["error_class"]) == ("page", "shapes", kind)


class Refusing:
    name = "refusing"

    def __init__(self, kind):
        self.kind, self.asked = kind, 0

    async def ask(self, prompt, *, schema=None, timeout=60.0):  # noqa: ASYNC109 - as the port has it
        self.asked += 1
        raise reprieve.Permanent("no", error_class=self.kind)

    async def close(self):
        pass


@pytest.mark.spec("CRIT-1.9")
def test_a_page_of_an_analysis_stays_open_until_it_has_been_quiet(lab):
    lab.upstream.always(replies.openai.insufficient_quota())

    async def several(app, analysis):
        for number in range(3):
            await analysis.analyze(f"s{number}")
            await app.operations.alerts.send(actor="ada")

    lab.run(several)
    (alert,) = alerts_of(lab)
    assert (alert["level"], alert["count"], alert["resolved_at"]) == ("page", 3, None)


def test_an_account_without_money_stops_the_batch_and_skips_nobody(lab):
    lab.upstream.always(replies.openai.insufficient_quota())
    found = lab.run(lambda _, analysis: analysis.analyze_many({"a": [], "b": []}), concurrency=1)
    assert (found.count(ACTIVE), found.count(SKIPPED)) == (2, 0)
    assert found.stopped is not None
    assert len(lab.asked) == 1


def test_a_bug_on_the_way_to_the_model_is_raised_and_leaves_the_signature_as_it_was(lab):
    class Broken:
        name = "broken"

        async def ask(self, prompt, *, schema=None, timeout=60.0):  # noqa: ASYNC109 - as the port has it
            raise TypeError("a bug")

        async def close(self):
            pass

    async def main(app, analysis):
        broken = app.analysis(Broken(), prompt="x", schema={"type": "object"})
        with pytest.raises(TypeError, match="a bug"):
            await broken.analyze("a")
        with pytest.raises(TypeError, match="a bug"):
            await broken.analyze_many({"b": []})
        return await analysis.analyze("a")

    lab.upstream.always(GOOD)
    assert lab.run(main).status is ANALYZED


def test_a_caller_who_leaves_gives_the_signature_back(lab):
    lab.upstream.always(GOOD)

    async def main(_, analysis):
        lab.upstream.next(reprieve.testing.Stall())
        caller = asyncio.ensure_future(analysis.analyze("a"))
        while not lab.upstream.requests:  # noqa: ASYNC110 - of another thread
            await asyncio.sleep(0.01)
        caller.cancel()
        await asyncio.wait([caller])
        return await analysis.analyze("a")

    assert lab.run(main).status is ANALYZED


@pytest.mark.parametrize("name", ["", 7, "a\0b", "\ud800", "x" * 2001])
def test_a_signature_that_cannot_be_kept_is_refused_before_anything_is_asked(lab, name):
    with pytest.raises(reprieve.UsageError, match="a signature is"):
        lab.analyze(name)
    assert lab.asked == []


@pytest.mark.spec("LLM-5.1")
def test_a_thousand_callers_at_once_for_a_hundred_signatures_are_a_hundred_calls(lab):
    lab.upstream.always(GOOD)

    async def main(_, analysis):
        return await asyncio.gather(*(analysis.analyze(f"s{number % 100}") for number in range(1000)))

    found = lab.run(main, clock=reprieve.testing.FakeClock(now=1_700_000_000.0))
    assert {each.status for each in found} == {ANALYZED}
    assert len(lab.asked) == 100


# --- alerts -----------------------------------------------------------------------------------------------------------


def alerts_of(lab):
    database = Database.at(lab.url, writes=False)
    try:
        with database.transaction() as connection:
            return [row._asdict() for row in connection.execute(select(metadata.tables["alerts"]))]
    finally:
        database.close()


@pytest.mark.spec("LLM-1.3", "LLM-7.1")
def test_a_key_that_is_refused_raises_an_alert_at_once(lab):
    lab.upstream.always(replies.openai.invalid_api_key())
    lab.analyze("a", name="shapes")
    (alert,) = alerts_of(lab)
    assert (alert["source"], alert["error_class"]) == ("shapes", "AUTH_DENIED")


@pytest.mark.spec("LLM-7.3")
def test_a_batch_of_which_too_many_are_skipped_raises_an_alert(lab):
    lab.upstream.always(replies.openai.invalid_request())
    lab.run(lambda _, analysis: analysis.analyze_many({f"s{number}": [] for number in range(30)}))
    assert len(alerts_of(lab)) == 1


@pytest.mark.spec("LLM-7.2")
def test_more_than_ten_rate_limits_within_five_minutes_raise_a_warning_and_ten_do_not(lab):
    lab.upstream.always(replies.openai.rate_limit_exceeded("0"))
    lab.run(lambda _, analysis: analysis.analyze_many({f"s{number}": [] for number in range(3)}), concurrency=1)
    assert alerts_of(lab) == [], "nine so far"
    lab.upstream.next(replies.openai.rate_limit_exceeded("0"), GOOD)
    lab.analyze("ten")
    assert alerts_of(lab) == []
    lab.upstream.next(replies.openai.rate_limit_exceeded("0"), GOOD)
    lab.analyze("eleven")
    (alert,) = alerts_of(lab)
    assert (alert["level"], alert["error_class"]) == ("warning", "RATE_LIMITED")
