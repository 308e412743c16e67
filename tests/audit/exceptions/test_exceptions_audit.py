"""An audit of the classifier on real exceptions of real libraries; `-s` prints its report."""

import asyncio
import concurrent.futures
import sys

import pytest
from audited.bare import ANSWERS
from audited.case import AWAY, NOW
from audited.verdicts import Audit, instance_of, loaded_classes, run

from reprieve.app.judging import classify, classify_response
from reprieve.core.failure import TAXONOMY, Category

ROWS = (
    pytest.param(AWAY, id="network-transient", marks=pytest.mark.spec("CRIT-1.1")),
    pytest.param({Category.RATE_LIMIT}, id="rate-limit", marks=pytest.mark.spec("CRIT-1.2")),
    pytest.param({Category.UPSTREAM}, id="upstream-internal", marks=pytest.mark.spec("CRIT-1.3")),
    pytest.param({Category.CONFLICT}, id="conflict", marks=pytest.mark.spec("CRIT-1.4")),
    pytest.param({Category.VALIDATION}, id="validation", marks=pytest.mark.spec("CRIT-1.5")),
    pytest.param({Category.AUTH}, id="auth", marks=pytest.mark.spec("CRIT-1.6")),
    pytest.param({Category.NOT_FOUND}, id="not-found", marks=pytest.mark.spec("CRIT-1.7")),
    pytest.param({Category.POLICY}, id="policy", marks=pytest.mark.spec("CRIT-1.8")),
    pytest.param({Category.CONFIGURATION}, id="configuration", marks=pytest.mark.spec("CRIT-1.9")),
    pytest.param({Category.UNKNOWN}, id="unknown", marks=pytest.mark.spec("ING-1.8")),
)


@pytest.fixture(scope="module")
def audit() -> Audit:
    """Every case provoked and judged, once."""
    result = run()
    sys.stdout.write(result.report())
    return result


def test_the_corpus_is_at_least_five_hundred_counted_exceptions_of_thirty_libraries(audit):
    assert len(audit.counted) >= 500
    assert len({verdict.case.library for verdict in audit.counted}) >= 30


@pytest.mark.spec("CRIT-1.0")
def test_every_exception_is_classified_and_none_breaks_the_classifier(audit):
    escaped = [verdict for verdict in audit.verdicts if verdict.failure is None]
    assert not escaped, audit.table(escaped)


@pytest.mark.spec("CRIT-1.0")
@pytest.mark.filterwarnings("ignore")  # making an instance of every class wakes deprecations of others
def test_every_exception_class_that_any_library_has_loaded_gets_a_verdict(audit):
    judged = 0
    for kind in loaded_classes():
        exc = instance_of(kind)
        if exc is not None and not issubclass(kind, concurrent.futures.CancelledError):
            failure = classify(exc, now=NOW)
            row = TAXONOMY.get(failure.error_class)
            assert failure.evidence, kind
            assert row is not None, kind
            assert failure.category is row.category, kind
            judged += 1
    assert judged > 1000


@pytest.mark.spec("CRIT-1.0", "ING-6.1")
def test_fewer_than_one_in_a_hundred_are_wrong_about_another_try(audit):
    assert audit.rate(lambda verdict: verdict.wrong_retryable) < 0.01, audit.table()


@pytest.mark.spec("ING-6.1")
def test_fewer_than_four_in_a_hundred_are_put_in_the_wrong_category(audit):
    assert audit.rate(lambda verdict: verdict.wrong_category) < 0.04, audit.table()


def test_fewer_than_four_in_a_hundred_get_another_error_class_than_the_only_right_one(audit):
    named = [verdict for verdict in audit.counted if verdict.case.error_class]
    assert audit.rate(lambda verdict: verdict.wrong_class, named) < 0.04, audit.table(named)


@pytest.mark.parametrize("categories", ROWS)
def test_each_row_of_the_table_is_judged_as_the_table_says(audit, categories):
    row = [v for v in audit.counted if v.case.categories <= set(categories) and v.case.categories]
    wrong = [v for v in row if v.wrong_retryable or v.wrong_category]
    assert len(row) >= 5
    assert len(wrong) <= 0.04 * len(row), audit.table(wrong)


@pytest.mark.spec("CRIT-1.2", "LLM-2.1")
def test_every_retry_after_is_read_to_the_second(audit):
    asked = [verdict for verdict in audit.counted if verdict.case.retry_after is not ...]
    wrong = [verdict for verdict in asked if verdict.wrong_wait]
    assert len(asked) > 60
    assert not wrong, audit.table(wrong)


def test_no_planted_secret_comes_back_in_the_record(audit):
    planted = [verdict for verdict in audit.verdicts if verdict.case.secrets]
    leaking = [verdict.case.label for verdict in planted if verdict.leaks]
    assert len(planted) >= 10
    assert not leaking


def test_every_verdict_carries_its_evidence_and_survives_json(audit):
    for verdict in audit.verdicts:
        if (failure := verdict.failure) is not None:
            assert failure.evidence, verdict.case.label
            assert len(failure.message) <= 1000, verdict.case.label
            assert len(failure.signature) <= 100, verdict.case.label
            assert type(failure).from_json(failure.to_json().encode()) == failure, verdict.case.label


def test_the_judgement_beats_one_by_status_and_words(audit):
    plain = audit.rate(lambda verdict: verdict.plain[0] is not verdict.case.retryable)
    assert audit.rate(lambda verdict: verdict.wrong_retryable) < plain


@pytest.mark.spec("CRIT-1.0", "CRIT-1.2")
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.label)
def test_a_bare_answer_is_judged_as_the_exception_would_be(answer):
    failure = classify_response(answer.status, answer.headers, answer.body, now=NOW)
    assert failure.retryable is answer.retryable
    assert failure.category in answer.categories
    if answer.retry_after is not ...:
        assert failure.retry_after == pytest.approx(answer.retry_after)


@pytest.mark.parametrize(
    "signal",
    [
        asyncio.CancelledError(),
        concurrent.futures.CancelledError(),
        KeyboardInterrupt(),
        SystemExit(401),
        SystemExit("429 rate limit"),
        GeneratorExit(),
    ],
    ids=repr,
)
def test_what_is_no_failure_passes_through_as_it_was(signal):
    with pytest.raises(type(signal)) as passed:
        classify(signal, now=NOW)
    assert passed.value is signal


def test_a_cancellation_below_a_failure_does_not_make_it_one():
    exc = RuntimeError("it did not work")
    exc.__context__ = asyncio.CancelledError()
    assert classify(exc, now=NOW).error_class == "UNKNOWN"


def test_a_group_with_a_cancellation_in_it_passes_through():
    group = BaseExceptionGroup("stopping", [asyncio.CancelledError(), TimeoutError("slow")])
    with pytest.raises(BaseExceptionGroup) as passed:
        classify(group, now=NOW)
    assert passed.value is group


def test_the_same_grpc_status_gets_the_same_verdict_through_both_libraries(audit):
    found = {verdict.case.label: verdict.failure for verdict in audit.verdicts}
    codes = [label.removeprefix("grpc ") for label in found if label.startswith("grpc ")]
    differing = [
        code
        for code in codes
        if (wrapped := found.get(f"api_core over grpc {code}")) is not None
        and (bare := found[f"grpc {code}"]) is not None
        and (bare.retryable, bare.category) != (wrapped.retryable, wrapped.category)
    ]
    assert not differing


MAY_HAVE_HAPPENED = (
    "openai APITimeoutError",
    "openai awaited APITimeoutError",
    "anthropic APITimeoutError",
    "openai reset",
    "psycopg 40003",
)
NEVER_HAPPENED = (
    "openai refused",
    "openai DNS EAI_AGAIN",
    "openai untrusted certificate",
    "openai 401 invalid_api_key",
    "openai 429 rate_limit_exceeded",
    "httpx connect timeout",
    "httpx PoolTimeout",
    "httpx2 PoolTimeout",
    "requests connect timeout",
    "requests connection refused",
    "urllib3 connect timeout",
    "aiohttp connect timeout",
    "psycopg 23505",
    "asyncpg refused",
)


@pytest.mark.parametrize("label", MAY_HAVE_HAPPENED)
def test_a_request_whose_answer_was_lost_may_have_taken_effect(audit, label):
    assert audit.failure(label).outcome_unknown


@pytest.mark.parametrize("label", NEVER_HAPPENED)
def test_a_request_that_was_never_sent_or_was_refused_took_no_effect(audit, label):
    assert not audit.failure(label).outcome_unknown
