"""What the specifications say of each kind of failure, without a profile and by the ingestion policy."""

import asyncio
import concurrent.futures
import errno
import json
import socket
import sqlite3
import ssl

import httpx
import openai
import psycopg
import pydantic
import pytest
import redis

from reprieve.core.failure import Category, ErrorClass, Scope, Severity

REQUEST = httpx.Request("POST", "https://api.example.com/v1/things")


def answer(status, headers=None, **content):
    """The real exception that httpx raises for an answer."""
    response = httpx.Response(status, headers=headers, request=REQUEST, **content)
    try:
        response.raise_for_status()
    except httpx.HTTPStatusError as error:
        return error
    raise AssertionError("the answer was a success")


def model_error(status, code, kind, headers=None):
    """The real exception that the OpenAI client makes of an answer."""
    body = {"error": {"message": "no", "type": kind, "code": code, "param": None}}
    response = httpx.Response(status, headers=headers, json=body, request=REQUEST)
    client = openai.OpenAI(api_key="none", max_retries=0)
    return client._make_status_error_from_response(response)


@pytest.mark.spec("CRIT-1.0")
@pytest.mark.parametrize(
    "exc",
    [Exception(), RuntimeError("?"), type("Odd", (Exception,), {})("?"), ExceptionGroup("g", [RuntimeError("?")]),
     StopIteration(), Warning("w"), OSError(), OSError("no number"), UnicodeDecodeError("utf-8", b"x", 0, 1, "?")],
    ids=lambda exc: type(exc).__name__,
)  # fmt: skip
def test_nothing_escapes_unclassified(judge, exc):
    failure = judge(exc)
    assert failure.category in Category
    assert isinstance(failure.retryable, bool)
    assert failure.evidence
    assert failure.evidence[0].rule


@pytest.mark.spec("CRIT-1.0")
def test_an_exception_that_cannot_be_shown_is_classified_all_the_same(judge):
    class Hostile(Exception):
        def __str__(self):
            raise ValueError("no")

        @property
        def response(self):
            raise KeyError("no")

    assert judge(Hostile()).message == "Hostile"


@pytest.mark.spec("CRIT-1.1", "ORC-1.1")
@pytest.mark.parametrize(
    ("exc", "error_class"),
    [
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), ErrorClass.DNS_FAILURE),
        (TimeoutError("timed out"), ErrorClass.NETWORK_TIMEOUT),
        (httpx.ReadTimeout("", request=REQUEST), ErrorClass.NETWORK_TIMEOUT),
        (ConnectionResetError(errno.ECONNRESET, "reset"), ErrorClass.CONNECTION_RESET),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), ErrorClass.CONNECTION_REFUSED),
        (redis.TimeoutError("Timeout reading from socket"), ErrorClass.NETWORK_TIMEOUT),
        (answer(502), ErrorClass.UPSTREAM_UNAVAILABLE),
        (answer(503), ErrorClass.UPSTREAM_UNAVAILABLE),
        (answer(504), ErrorClass.UPSTREAM_UNAVAILABLE),
    ],
    ids=str,
)
def test_a_passing_network_failure_is_worth_another_try(judge, exc, error_class):
    failure = judge(exc)
    assert (failure.category, failure.error_class, failure.retryable) == (Category.NETWORK, error_class, True)
    assert failure.severity is Severity.TRANSIENT


@pytest.mark.spec("CRIT-1.2", "ORC-1.2")
@pytest.mark.parametrize(
    "exc", [answer(429, {"retry-after": "17"}), model_error(429, "rate_limit_exceeded", "tokens", {"retry-after": "17"})], ids=["http", "code"]
)  # fmt: skip
def test_a_rate_limit_is_retried_after_what_the_upstream_says(judge, exc):
    failure = judge(exc)
    assert (failure.category, failure.retryable, failure.retry_after) == (Category.RATE_LIMIT, True, 17.0)
    assert failure.severity is Severity.UPSTREAM


@pytest.mark.spec("CRIT-1.2")
@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
def test_an_account_without_money_is_no_window_that_passes(judge, code):
    failure = judge(model_error(429, code, "insufficient_quota", {"retry-after": "17"}))
    assert (failure.error_class, failure.retryable, failure.retry_after) == (ErrorClass.QUOTA_EXHAUSTED, False, None)
    assert failure.pages


@pytest.mark.spec("CRIT-1.3")
@pytest.mark.parametrize(
    "exc", [answer(500), model_error(500, "internal_error", "server_error")], ids=["webhook", "model"]
)
def test_an_upstream_that_failed_inside_is_tried_again(judge, exc):
    failure = judge(exc)
    assert (failure.category, failure.retryable, failure.outcome_unknown) == (Category.UPSTREAM, True, True)


def unique_violation():
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (a text unique)")
    connection.execute("insert into t values ('x')")
    with pytest.raises(sqlite3.IntegrityError) as caught:
        connection.execute("insert into t values ('x')")
    connection.close()
    return caught.value


@pytest.mark.spec("CRIT-1.4")
@pytest.mark.parametrize(
    "exc",
    [answer(409), answer(412), unique_violation(), psycopg.errors.UniqueViolation(), psycopg.errors.SerializationFailure(),
     redis.WatchError("Watched variable changed")],
    ids=lambda exc: type(exc).__name__,
)  # fmt: skip
def test_a_conflict_is_retried_only_where_repeating_is_safe(judge, exc):
    failure = judge(exc)
    assert (failure.category, failure.retryable, failure.requires_idempotent) == (Category.CONFLICT, True, True)
    assert failure.scope is Scope.WHOLE_TRANSACTION


class Model(pydantic.BaseModel):
    amount: int


def invalid_model():
    with pytest.raises(pydantic.ValidationError) as caught:
        Model.model_validate({"amount": "the patient's diagnosis"})
    return caught.value


def broken_json():
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    return caught.value


@pytest.mark.spec("CRIT-1.5", "ORC-1.3")
@pytest.mark.parametrize(
    "exc", [answer(400), answer(422), invalid_model(), broken_json()], ids=lambda exc: type(exc).__name__
)
def test_data_that_does_not_fit_needs_repair_before_replay(judge, exc):
    failure = judge(exc)
    assert (failure.category, failure.retryable, failure.scope) == (Category.VALIDATION, False, Scope.AFTER_REPAIR)
    assert failure.severity is Severity.PERMANENT


def test_a_validation_failure_says_where_but_not_what_was_there(judge):
    failure = judge(invalid_model())
    assert "amount" in failure.message
    assert "diagnosis" not in failure.message


@pytest.mark.spec("CRIT-1.6")
@pytest.mark.parametrize(
    ("exc", "error_class"),
    [(answer(401), ErrorClass.AUTH_DENIED), (answer(403), ErrorClass.PERMISSION_DENIED),
     (model_error(401, "invalid_api_key", "invalid_request_error"), ErrorClass.AUTH_DENIED),
     (redis.AuthenticationError("invalid username-password pair"), ErrorClass.AUTH_DENIED)],
    ids=["401", "403", "key", "redis"],
)  # fmt: skip
def test_what_may_not_needs_a_person(judge, exc, error_class):
    failure = judge(exc)
    assert (failure.category, failure.error_class, failure.retryable) == (Category.AUTH, error_class, False)
    assert failure.scope is Scope.HUMAN


@pytest.mark.spec("ORC-1.4")
@pytest.mark.parametrize(
    "exc", [answer(401), ssl.SSLCertVerificationError(1, "certificate verify failed")], ids=["auth", "certificate"]
)
def test_bad_credentials_and_configuration_are_fatal(judge, exc):
    failure = judge(exc)
    assert failure.severity is Severity.FATAL
    assert failure.pages


@pytest.mark.spec("CRIT-1.7", "ORC-1.3")
@pytest.mark.parametrize(
    "exc", [answer(404), answer(410), FileNotFoundError(2, "No such file")], ids=["404", "410", "file"]
)
def test_what_is_not_there_is_not_looked_for_again(judge, exc):
    failure = judge(exc)
    assert (failure.category, failure.retryable) == (Category.NOT_FOUND, False)


@pytest.mark.spec("CRIT-1.8")
@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
def test_a_moderation_block_is_not_argued_with(judge, code):
    failure = judge(model_error(400, code, "invalid_request_error"))
    assert (failure.category, failure.retryable, failure.scope) == (Category.POLICY, False, Scope.HUMAN)


@pytest.mark.spec("CRIT-1.9")
@pytest.mark.parametrize(
    "exc",
    [AttributeError("'NoneType' object has no attribute 'x'"), TypeError("?"), KeyError("x"), IndexError("?"), ValueError("?"),
     ZeroDivisionError("?"), AssertionError("invariant"), RecursionError("?"), ImportError("?"), NotImplementedError(),
     MemoryError(), UnboundLocalError("?")],
    ids=lambda exc: type(exc).__name__,
)  # fmt: skip
def test_a_bug_is_never_retried_and_pages(judge, exc):
    failure = judge(exc)
    assert (failure.category, failure.retryable) == (Category.CONFIGURATION, False)
    assert failure.pages


@pytest.mark.parametrize(
    "exc", [RuntimeError("boom"), type("PaymentOddity", (Exception,), {})("boom")], ids=["bare", "own"]
)
def test_what_nobody_recognises_is_unknown_and_retried_within_its_budget(judge, exc):
    failure = judge(exc)
    assert (failure.category, failure.error_class, failure.retryable) == (Category.UNKNOWN, ErrorClass.UNKNOWN, True)


@pytest.mark.parametrize(
    "exc", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(401), GeneratorExit(), concurrent.futures.CancelledError()],
    ids=lambda exc: type(exc).__name__,
)  # fmt: skip
def test_leaving_is_not_failing_and_passes_through(judge, exc):
    with pytest.raises(type(exc)) as caught:
        judge(exc)
    assert caught.value is exc


def test_a_timeout_that_was_a_cancellation_inside_is_a_timeout(judge):
    async def slow():
        async with asyncio.timeout(0):
            await asyncio.sleep(1)

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(slow())
    assert isinstance(caught.value.__cause__ or caught.value.__context__, asyncio.CancelledError)
    assert judge(caught.value).error_class is ErrorClass.NETWORK_TIMEOUT


INGESTION = {"profile": "ingestion"}


@pytest.mark.spec("ING-1.1")
@pytest.mark.parametrize(
    "exc",
    [
        answer(429),
        Exception("Rate limit reached"),
        Exception("Too Many Requests"),
        model_error(429, "insufficient_quota", "x"),
    ],
    ids=str,
)
def test_ingestion_waits_for_rate_limits(judge, exc):
    failure = judge(exc, **INGESTION)
    assert (failure.category, failure.retryable) == (Category.RATE_LIMIT, True)


@pytest.mark.spec("ING-1.2")
@pytest.mark.parametrize("status", [500, 501, 502, 503, 505, 511, 599])
def test_ingestion_retries_every_server_error(judge, status):
    assert judge(answer(status), **INGESTION).retryable is True


@pytest.mark.spec("ING-1.3", "ING-1.4")
@pytest.mark.parametrize(
    "words", ["request timeout", "ETIMEDOUT", "ECONNRESET", "ECONNREFUSED", "ENOTFOUND api.local", "network down"]
)
def test_ingestion_retries_what_the_network_did(judge, words):
    failure = judge(Exception(words), **INGESTION)
    assert (failure.category, failure.retryable) == (Category.NETWORK, True)


@pytest.mark.spec("ING-1.5")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 418, 422, 423, 425, 451, 499])
def test_ingestion_gives_up_on_every_other_client_error(judge, status):
    assert judge(answer(status, {"retry-after": "3"}), **INGESTION).retryable is False


@pytest.mark.spec("ING-1.6")
@pytest.mark.parametrize("words", ["Unauthorized", "Forbidden for you", "Authentication failed"])
def test_ingestion_gives_up_where_it_may_not(judge, words):
    failure = judge(Exception(words), **INGESTION)
    assert (failure.category, failure.retryable) == (Category.AUTH, False)


@pytest.mark.spec("ING-1.7")
@pytest.mark.parametrize(
    "exc", [Exception("Validation failed"), ValueError("Invalid input"), Exception("malformed row")], ids=str
)
def test_ingestion_gives_up_on_bad_data(judge, exc):
    failure = judge(exc, **INGESTION)
    assert (failure.category, failure.retryable) == (Category.VALIDATION, False)


@pytest.mark.spec("ING-1.8")
@pytest.mark.parametrize("exc", [Exception("something odd"), KeyError("x"), RuntimeError("?")], ids=str)
def test_ingestion_retries_what_it_does_not_know(judge, exc):
    assert judge(exc, **INGESTION).retryable is True
