"""The model error policy through the real clients of both providers, on both databases: what stands in the row."""

from __future__ import annotations

import asyncio
import logging

import pytest
from sqlalchemy import select

import reprieve
from reprieve.adapters.sql.engine import Database
from reprieve.adapters.sql.tables import metadata
from reprieve.models import Anthropic, OpenAI
from reprieve.testing import FakeClock, HangUp, Moment, Reply, Reset, Stall, replies

KEY = "key-of-a-test-0007"
BEGIN = 1_700_000_000.0
SCHEMA = {"type": "object", "properties": {"kind": {"enum": ["article", "other"]}}, "required": ["kind"]}
FITS, MISFIT = '{"kind": "article"}', '{"kind": "nonsense"}'
OPEN, CLAUDE = replies.openai, replies.anthropic
WHOLE, PIECES = False, True
"""How the answer is asked for."""


class Bench:
    """One provider on one database; signatures are asked about, and rows are looked at where they stand."""

    def __init__(self, url, upstream):
        self.url, self.upstream, self.clock = url, upstream, FakeClock(now=BEGIN)

    def analyze(self, kind, *signatures, stream=False, timeout=60.0):
        async def main():
            model = kind("m", base_url=self.upstream.url("/v1"), api_key=KEY, stream=stream)
            async with reprieve.connect(self.url, clock=self.clock) as app:
                try:
                    analysis = app.analysis(
                        model, prompt="Which kind is {signature}?", schema=SCHEMA, timeout=timeout, name="shapes"
                    )
                    return [await analysis.analyze(signature) for signature in signatures or ("a",)]
                finally:
                    await model.close()

        return asyncio.run(main())

    def rows(self, table="analysis_cache"):
        database = Database.at(self.url, writes=False)
        try:
            with database.transaction() as connection:
                return [row._asdict() for row in connection.execute(select(metadata.tables[table]))]
        finally:
            database.close()

    @property
    def calls(self):
        return len(self.upstream.requests)


@pytest.fixture
def bench(store_url, flaky_http):
    return Bench(store_url, flaky_http)


def spec(*values, of):
    return pytest.param(*values, marks=pytest.mark.spec(of))


def answer(kind, text, *, stream=False):
    if kind is OpenAI:
        return OPEN.stream(text) if stream else OPEN.completion(text)
    return CLAUDE.stream(text) if stream else CLAUDE.message(text)


PERMANENT = [
    spec(OpenAI, OPEN.invalid_request(), "invalid_request_error", of="LLM-1.1"),
    spec(Anthropic, CLAUDE.invalid_request_error(), "invalid_request_error", of="LLM-1.1"),
    spec(Anthropic, CLAUDE.not_found_error(), "invalid_request_error", of="LLM-1.1"),
    spec(OpenAI, OPEN.context_length_exceeded(), "context_length_exceeded", of="LLM-1.2"),
    spec(Anthropic, CLAUDE.prompt_too_long(), "context_length_exceeded", of="LLM-1.2"),
    spec(OpenAI, OPEN.invalid_api_key(), "invalid_api_key", of="LLM-1.3"),
    spec(OpenAI, OPEN.error(401, "no", kind="authentication_error"), "authentication_error", of="LLM-1.4"),
    spec(Anthropic, CLAUDE.authentication_error(), "authentication_error", of="LLM-1.4"),
]


@pytest.mark.spec("LLM-5.1", "LLM-6.1")
@pytest.mark.parametrize("stream", [WHOLE, PIECES])
@pytest.mark.parametrize(("kind", "act", "error_type"), PERMANENT)
def test_what_will_never_be_taken_is_skipped_after_one_call_and_stands_so_in_the_row(
    bench, caplog, kind, act, error_type, stream
):
    bench.upstream.always(act)
    with caplog.at_level(logging.ERROR, logger="reprieve.analysis"):
        bench.analyze(kind, stream=stream)
    (row,) = bench.rows()
    assert (row["url_signature"], row["status"], row["error_type"]) == ("a", "skipped", error_type)
    assert (row["failure_count"], row["last_error_at"], row["retry_after"], row["answer"]) == (1, BEGIN, None, None)
    assert row["error_reason"]
    assert KEY not in row["error_reason"]
    bench.analyze(kind)
    assert bench.calls == 1, "never sent again"
    assert ("to be investigated" in caplog.text) == (error_type == "context_length_exceeded")
    alarming = error_type in {"invalid_api_key", "authentication_error"}
    assert [each["level"] for each in bench.rows("alerts")] == (["page"] if alarming else [])


PASSING = [
    spec(OpenAI, OPEN.server_error(), "server_error", WHOLE, of="LLM-2.2"),
    spec(OpenAI, OPEN.bad_gateway(), "server_error", WHOLE, of="LLM-2.2"),
    spec(OpenAI, OPEN.error_with_200(), "server_error", WHOLE, of="LLM-2.2"),
    spec(OpenAI, OPEN.error_with_200(), "server_error", PIECES, of="LLM-2.2"),
    spec(OpenAI, OPEN.stream_error(), "server_error", PIECES, of="LLM-2.2"),
    spec(OpenAI, Reply(529), "server_error", WHOLE, of="LLM-2.2"),
    spec(OpenAI, HangUp(), "network_error", WHOLE, of="LLM-2.2"),
    spec(OpenAI, Reset(), "network_error", PIECES, of="LLM-2.2"),
    spec(OpenAI, HangUp(at=Moment.BODY, reply=OPEN.stream(FITS)), "network_error", PIECES, of="LLM-2.2"),
    spec(OpenAI, OPEN.stream("{", finish=None), "network_error", PIECES, of="LLM-2.2"),
    spec(OpenAI, OPEN.rate_limit_exceeded("0"), "rate_limit_error", WHOLE, of="LLM-2.1"),
    spec(OpenAI, OPEN.stream_error("requests", "rate_limit_exceeded"), "rate_limit_error", PIECES, of="LLM-2.1"),
    spec(OpenAI, OPEN.error_with_200("rate_limit_exceeded"), "rate_limit_error", WHOLE, of="LLM-2.1"),
    spec(Anthropic, CLAUDE.api_error(), "server_error", WHOLE, of="LLM-2.2"),
    spec(Anthropic, CLAUDE.overloaded_error(), "server_error", WHOLE, of="LLM-2.2"),
    spec(Anthropic, CLAUDE.stream_error(), "server_error", PIECES, of="LLM-2.2"),
    spec(Anthropic, CLAUDE.stream_error("api_error", "Internal server error"), "server_error", PIECES, of="LLM-2.2"),
    spec(Anthropic, CLAUDE.error_with_200(), "server_error", WHOLE, of="LLM-2.2"),
    spec(Anthropic, CLAUDE.error_with_200("overloaded_error", "Overloaded"), "server_error", PIECES, of="LLM-2.2"),
    spec(Anthropic, HangUp(), "network_error", WHOLE, of="LLM-2.2"),
    spec(Anthropic, HangUp(at=Moment.BODY, reply=CLAUDE.stream(FITS)), "network_error", PIECES, of="LLM-2.2"),
    spec(Anthropic, CLAUDE.stream("{", stop_reason=None), "network_error", PIECES, of="LLM-2.2"),
    spec(Anthropic, CLAUDE.rate_limit_error("0"), "rate_limit_error", WHOLE, of="LLM-2.1"),
    spec(Anthropic, CLAUDE.stream_error("rate_limit_error", "slow"), "rate_limit_error", PIECES, of="LLM-2.1"),
]


@pytest.mark.spec("LLM-3.1", "LLM-6.1")
@pytest.mark.parametrize(("kind", "act", "error_type", "stream"), PASSING)
def test_what_may_pass_is_asked_three_times_and_waits_in_the_row_for_its_time(bench, kind, act, error_type, stream):
    bench.upstream.always(act)
    bench.analyze(kind, stream=stream)
    (row,) = bench.rows()
    assert bench.calls == 3, "and not by the client"
    assert (row["status"], row["error_type"], row["failure_count"]) == ("active", error_type, 3)
    assert BEGIN + 3.0 <= row["last_error_at"] < row["retry_after"]
    assert row["error_reason"]
    assert row["leased_by"] is None
    bench.clock.advance(row["retry_after"] - bench.clock.now() + 1)
    bench.upstream.always(answer(kind, FITS, stream=stream))
    bench.analyze(kind, stream=stream)
    (row,) = bench.rows()
    assert (row["status"], row["error_type"], row["retry_after"]) == ("analyzed", None, None)
    assert bench.calls == 4


@pytest.mark.spec("LLM-2.2", "LLM-6.1")
@pytest.mark.parametrize("stream", [WHOLE, PIECES])
@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
def test_an_answer_that_takes_too_long_is_a_timeout(bench, kind, stream):
    bench.upstream.always(Stall(at=Moment.BODY, reply=answer(kind, FITS, stream=stream)))
    bench.analyze(kind, stream=stream, timeout=0.2)
    (row,) = bench.rows()
    assert bench.calls == 3
    assert (row["status"], row["error_type"], row["failure_count"]) == ("active", "timeout", 3)
    assert row["retry_after"] > row["last_error_at"]


@pytest.mark.spec("LLM-2.1", "LLM-6.1")
@pytest.mark.parametrize(("kind", "limit"), [(OpenAI, OPEN.rate_limit_exceeded), (Anthropic, CLAUDE.rate_limit_error)])
def test_a_rate_limit_is_waited_for_as_long_as_the_provider_says(bench, kind, limit):
    bench.upstream.next(limit("20"), answer(kind, FITS))
    bench.analyze(kind)
    assert 20.0 <= bench.clock.now() - BEGIN < 21.0
    (row,) = bench.rows()
    assert (row["status"], bench.calls) == ("analyzed", 2)
    bench.upstream.always(limit("70"))
    bench.analyze(kind, "b")
    (row,) = [each for each in bench.rows() if each["url_signature"] == "b"]
    assert (row["status"], row["error_type"]) == ("active", "rate_limit_error")
    assert row["retry_after"] >= row["last_error_at"] + 70.0


ENDED = [
    (OpenAI, OPEN.cut_off(), WHOLE, "truncated"),
    (OpenAI, OPEN.stream(FITS, finish="length"), PIECES, "truncated"),
    (OpenAI, OPEN.refused(), WHOLE, "refused"),
    (OpenAI, OPEN.stream(refusal="no"), PIECES, "refused"),
    (OpenAI, OPEN.filtered(), WHOLE, "filtered"),
    (OpenAI, OPEN.stream(FITS, finish="content_filter"), PIECES, "filtered"),
    (Anthropic, CLAUDE.message(FITS, "max_tokens"), WHOLE, "truncated"),
    (Anthropic, CLAUDE.message(FITS, "model_context_window_exceeded"), WHOLE, "truncated"),
    (Anthropic, CLAUDE.stream(FITS, stop_reason="max_tokens"), PIECES, "truncated"),
    (Anthropic, CLAUDE.message("", "refusal"), WHOLE, "refused"),
    (Anthropic, CLAUDE.stream(FITS, stop_reason="refusal"), PIECES, "refused"),
]


def in_review(bench):
    """The row and its review, which agree."""
    (row,), (review,) = bench.rows(), bench.rows("reviews")
    assert (row["status"], row["retry_after"], row["answer"]) == ("needs_review", None, None)
    assert (row["failure_count"], row["last_error_at"] is not None) == (1, True)
    assert (review["url_signature"], review["state"], review["error_type"]) == ("a", "open", row["error_type"])
    return row


@pytest.mark.spec("LLM-1.5", "LLM-6.1")
@pytest.mark.parametrize(("kind", "act", "stream", "finish"), ENDED)
def test_what_was_cut_off_refused_or_filtered_is_for_a_person_after_one_call(bench, kind, act, stream, finish):
    bench.upstream.always(act)
    bench.analyze(kind, stream=stream)
    assert finish in in_review(bench)["error_reason"]
    bench.analyze(kind, stream=stream)
    assert bench.calls == 1


@pytest.mark.spec("LLM-1.5", "LLM-4.3", "LLM-6.1")
@pytest.mark.parametrize("stream", [WHOLE, PIECES])
@pytest.mark.parametrize("text", [MISFIT, ""])
@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
def test_what_does_not_fit_is_for_a_person_after_exactly_two_calls(bench, kind, text, stream):
    bench.upstream.always(answer(kind, text, stream=stream))
    bench.analyze(kind, stream=stream)
    assert in_review(bench)["error_type"] == "json_schema_error"
    bench.analyze(kind, stream=stream)
    assert bench.calls == 2
