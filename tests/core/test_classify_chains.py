"""Chains, groups, wrappers, traps: where the facts sit and which of them decide."""

import ssl
import urllib.error
from concurrent.futures import Future

import botocore.exceptions
import httpx
import pytest
import requests
import sqlalchemy.exc
import tenacity
import urllib3.exceptions

from reprieve.core.failure import Category, ErrorClass
from reprieve.errors import NeedsReview, Permanent, Retryable


def chained(outer, inner):
    outer.__cause__ = inner
    return outer


def test_a_bad_certificate_at_the_end_of_the_chain_makes_a_connection_error_permanent(judge):
    bad = ssl.SSLCertVerificationError(1, "certificate verify failed")
    for outer in (
        httpx.ConnectError("x"),
        requests.exceptions.SSLError("x"),
        requests.ConnectionError("x"),
        ConnectionError("x"),
    ):
        failure = judge(chained(outer, bad))
        assert (failure.error_class, failure.retryable) == (ErrorClass.TLS_INVALID, False)
        assert failure.evidence[0].link.endswith("> ssl.SSLCertVerificationError")
        assert len(failure.evidence) == 2


def test_a_connection_that_was_reset_while_connecting_has_sent_nothing(judge):
    reset = ConnectionResetError(104, "reset")
    assert judge(chained(httpx.ConnectError("x"), reset)).outcome_unknown is False
    assert judge(chained(httpx.ReadError("x"), reset)).outcome_unknown is True


def test_a_bug_that_was_being_handled_does_not_explain_a_connection_error(judge):
    try:
        try:
            {}["cache"]
        except KeyError:
            raise httpx.ConnectError("refused")  # noqa: B904 - the implicit context is the point
    except httpx.ConnectError as error:
        assert judge(error).category is Category.NETWORK


def test_a_wrapping_says_nothing_and_its_cause_decides(judge):
    failure = judge(chained(RuntimeError("could not fetch"), TimeoutError()))
    assert failure.error_class is ErrorClass.NETWORK_TIMEOUT
    assert failure.evidence[0].link == "RuntimeError > TimeoutError"


def test_the_outermost_recognised_exception_decides(judge):
    assert judge(chained(KeyError("x"), TimeoutError())).error_class is ErrorClass.BUG


def test_a_suppressed_context_is_not_heard(judge):
    try:
        try:
            raise TimeoutError
        except TimeoutError:
            raise RuntimeError("fresh") from None
    except RuntimeError as error:
        assert judge(error).error_class is ErrorClass.UNKNOWN


def test_a_chain_that_bites_its_tail_ends(judge):
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert judge(first).error_class is ErrorClass.UNKNOWN


def test_a_chain_of_ten_thousand_ends(judge):
    exc = TimeoutError()
    for _ in range(10_000):
        exc = chained(RuntimeError("again"), exc)
    assert judge(exc).error_class is ErrorClass.UNKNOWN


def test_a_group_is_worth_another_try_only_if_every_leaf_is(judge):
    assert judge(ExceptionGroup("g", [TimeoutError(), ConnectionResetError()])).retryable is True
    mixed = judge(ExceptionGroup("g", [TimeoutError(), ExceptionGroup("h", [KeyError("x")])]))
    assert (mixed.retryable, mixed.error_class) == (False, ErrorClass.BUG)


def test_a_group_waits_as_long_as_its_slowest_leaf(judge):
    failure = judge(ExceptionGroup("g", [Retryable("a", retry_after=3), Retryable("b", retry_after=8), TimeoutError()]))
    assert failure.retry_after == 8.0


@pytest.mark.parametrize(
    "exc", [ExceptionGroup("g", [TimeoutError()]), tenacity.RetryError(Future())], ids=["group", "tenacity"]
)
def test_groups_and_wrappers_deep_in_a_chain_are_opened(judge, exc):
    if isinstance(exc, tenacity.RetryError):
        exc.last_attempt.set_exception(TimeoutError())
    assert judge(chained(RuntimeError("x"), exc)).error_class is ErrorClass.NETWORK_TIMEOUT


def test_what_libraries_wrap_in_attributes_and_arguments_is_found(judge):
    reset = ConnectionResetError(104, "reset")
    wrapped = [
        urllib.error.URLError(reset),
        urllib3.exceptions.MaxRetryError(None, "/", reason=urllib3.exceptions.ProtocolError("aborted", reset)),
        requests.ConnectionError(urllib3.exceptions.ProtocolError("aborted", reset)),
        sqlalchemy.exc.OperationalError("select 1", {}, reset),
    ]
    assert {judge(exc).error_class for exc in wrapped} == {ErrorClass.CONNECTION_RESET}


def test_the_statement_and_its_parameters_are_not_in_the_message(judge):
    exc = sqlalchemy.exc.IntegrityError(
        "insert into people values (%s)", {"name": "Ada Lovelace"}, ValueError("duplicate")
    )
    failure = judge(exc)
    assert "Ada" not in failure.message
    assert "insert" not in failure.message


def test_new_connection_errors_are_refusals_though_they_derive_from_timeouts(judge):
    exc = urllib3.exceptions.NewConnectionError(None, "refused")
    assert judge(exc).error_class is ErrorClass.CONNECTION_REFUSED


@pytest.mark.parametrize(
    "words",
    ["could not parse 'rate limit exceeded'", 'unexpected value "connection timeout"', "bad row, input: 503 unauthorized",
     "retry in 18.403s", "took 1429 ms", "user's account is odd"],
)  # fmt: skip
def test_words_that_merely_quote_or_count_are_not_heard(judge, words):
    assert judge(RuntimeError(words)).error_class is ErrorClass.UNKNOWN


def test_a_bad_request_that_quotes_a_rate_limit_stays_a_bad_request(judge_status):
    failure = judge_status(
        400, None, {"error": {"message": "field 'note' contains rate limit", "type": "invalid_request_error"}}
    )
    assert (failure.error_class, failure.retryable) == (ErrorClass.REQUEST_REJECTED, False)


@pytest.mark.parametrize(
    "words", ["RATE_LIMIT_EXCEEDED", "rate limited, slow down", "Request timeout.", "network: down"]
)
def test_phrases_that_stand_alone_are_heard(judge, words):
    assert judge(RuntimeError(words)).category in (Category.RATE_LIMIT, Category.NETWORK)


class LedgerBusy(Exception):
    retryable = True
    retry_after = 4
    error_class = "LEDGER_BUSY"
    category = "upstream"


def test_attributes_on_an_exception_of_ones_own_are_believed(judge):
    failure = judge(LedgerBusy("busy"))
    assert (failure.error_class, failure.retryable, failure.retry_after) == ("LEDGER_BUSY", True, 4.0)
    assert failure.evidence[0].rule == "declared"


class Gone(Exception):
    status_code = 503
    headers = {"retry-after": "6"}  # noqa: RUF012 - as a library's class would have it


def test_an_unknown_library_that_carries_a_status_is_understood(judge):
    failure = judge(Gone())
    assert (failure.error_class, failure.retry_after) == (ErrorClass.UPSTREAM_UNAVAILABLE, 6.0)


@pytest.mark.parametrize(
    ("name", "error_class"),
    [("KafkaTimeoutError", ErrorClass.NETWORK_TIMEOUT), ("TooManyRequests", ErrorClass.RATE_LIMITED),
     ("OrderNotFound", ErrorClass.NOT_FOUND), ("BrokerUnavailable", ErrorClass.UPSTREAM_UNAVAILABLE),
     ("DuplicateInvoice", ErrorClass.WRITE_CONFLICT)],
)  # fmt: skip
def test_the_name_of_an_unknown_exception_is_evidence(judge, name, error_class):
    failure = judge(type(name, (Exception,), {"__module__": "somebody.elses"})("?"))
    assert (failure.error_class, failure.evidence[0].rule) == (error_class, "type-name")


def test_what_a_stage_says_itself_stands_in_every_profile(judge):
    for profile in (None, "ingestion", "analysis", "orchestrator"):
        again = judge(Retryable("later", retry_after=2.5), profile=profile)
        assert (again.retryable, again.retry_after) == (True, 2.5)
        assert judge(Permanent("never"), profile=profile).retryable is False
        assert judge(NeedsReview("look"), profile=profile).error_class is ErrorClass.NEEDS_REVIEW


def test_a_verdict_may_bring_a_class_and_category_of_its_own(judge):
    failure = judge(chained(Permanent("closed", error_class="LEDGER_CLOSED", category="not_found"), TimeoutError()))
    assert (failure.error_class, failure.category) == ("LEDGER_CLOSED", Category.NOT_FOUND)


def test_attempts_that_a_library_below_has_made_are_evidence(judge):
    throttled = botocore.exceptions.ClientError(
        {"Error": {"Code": "Throttling"}, "ResponseMetadata": {"HTTPStatusCode": 400, "RetryAttempts": 4}}, "PutItem"
    )
    given_up = tenacity.RetryError(tenacity.Future(3))
    given_up.last_attempt.set_exception(TimeoutError())
    for exc, attempts in ((throttled, "5"), (given_up, "3")):
        evidence = judge(chained(RuntimeError("x"), exc)).evidence
        assert [(each.rule, each.value) for each in evidence][-1] == ("already-retried", attempts)
    assert all(each.rule != "already-retried" for each in judge(TimeoutError()).evidence)
