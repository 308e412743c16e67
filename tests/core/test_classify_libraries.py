"""Facts that single libraries hide in places of their own."""

import asyncpg
import botocore.exceptions
import httpx
import openai
import psycopg
import pytest
import redis
import requests
import sqlalchemy.exc
import stripe
import urllib3.exceptions

from reprieve.core.failure import Category, ErrorClass


def chained(outer, *behind):
    current = outer
    for inner in behind:
        current.__cause__ = inner
        current = inner
    return outer


def test_a_connection_that_the_driver_finds_closed_is_a_database_that_went_away(judge):
    closed = asyncpg.InterfaceError("cannot call Connection.execute(): connection is closed")
    assert judge(closed).error_class is ErrorClass.DATABASE_UNAVAILABLE
    assert judge(asyncpg.InterfaceError("another operation is in progress")).error_class is ErrorClass.BUG
    invalidated = sqlalchemy.exc.DBAPIError("s", {}, Exception("x"), connection_invalidated=True)
    assert judge(invalidated).error_class is ErrorClass.DATABASE_UNAVAILABLE


@pytest.mark.parametrize(
    ("words", "error_class"),
    [
        ('connection failed: invalid integer value "x" for connection option "port"', ErrorClass.CONFIG_INVALID),
        ("connection failed: FATAL: password authentication failed for user", ErrorClass.AUTH_DENIED),
        ("connection failed: Connection refused", ErrorClass.DATABASE_UNAVAILABLE),
    ],
)
def test_a_failed_connection_to_postgres_is_judged_by_its_words_and_has_sent_nothing(judge, words, error_class):
    failure = judge(psycopg.OperationalError(words))
    assert (failure.error_class, failure.outcome_unknown) == (error_class, False)


@pytest.mark.parametrize(
    ("state", "retryable"),
    [("08P01", True), ("24000", False), ("26000", False), ("34000", False), ("38000", False), ("3B001", False),
     ("22P02", False), ("23502", False), ("23P01", False), ("25006", True), ("40003", True), ("53300", True),
     ("55P03", True), ("57P01", True), ("72000", True), ("42601", False), ("28P01", False)],
)  # fmt: skip
def test_a_sqlstate_means_the_same_through_both_drivers(judge, state, retryable):
    by_psycopg = judge(psycopg.errors.lookup(state)("x"))
    by_asyncpg = judge(asyncpg.PostgresError.get_message_class_for_sqlstate(state)("x"))
    assert (by_psycopg.retryable, by_psycopg.error_class) == (retryable, by_asyncpg.error_class)


def test_a_value_that_did_not_fit_is_not_repeated(judge):
    planted = "someone" + "sprivatevalue"
    exc = psycopg.errors.InvalidTextRepresentation(f'invalid input syntax for type integer: "{planted}"')
    assert planted not in judge(exc).message
    assert planted not in judge(asyncpg.DataError(f"invalid input for query argument $1: '{planted}' (an int)")).message
    assert (
        planted
        not in judge(redis.ResponseError(f"unknown command 'AUTH', with args beginning with: '{planted}'")).message
    )
    assert planted not in judge(httpx.LocalProtocolError(f"Illegal header value b'{planted}\\n'")).message
    assert planted not in judge(ValueError(f"Invalid header value b'{planted}\\n'")).message


def test_redis_tells_connecting_from_talking_in_words(judge):
    assert (
        judge(redis.ConnectionError("Error 111 connecting to 127.0.0.1:1. Connection refused.")).outcome_unknown
        is False
    )
    assert judge(redis.TimeoutError("Timeout connecting to server")).outcome_unknown is False
    assert judge(redis.TimeoutError("Timeout reading from socket")).outcome_unknown is True


@pytest.mark.parametrize(
    ("exc", "error_class"),
    [
        (stripe.CardError("declined", "number", "incorrect_number"), ErrorClass.POLICY_REJECTED),
        (stripe.PermissionError("x"), ErrorClass.PERMISSION_DENIED),
        (stripe.RateLimitError("x"), ErrorClass.RATE_LIMITED),
        (stripe.APIError("x"), ErrorClass.UPSTREAM_ERROR),
        (stripe.InvalidRequestError("x", "p"), ErrorClass.REQUEST_REJECTED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_stripes_classes_speak_for_themselves_where_no_status_is_kept(judge, exc, error_class):
    assert judge(exc).error_class is error_class


def test_a_declined_card_is_the_customers_matter_and_pauses_no_stage(judge_status):
    failure = judge_status(402, None, {"error": {"type": "card_error", "code": "insufficient_funds"}})
    assert (failure.error_class, failure.pages) == (ErrorClass.POLICY_REJECTED, False)
    assert judge_status(402).error_class is ErrorClass.QUOTA_EXHAUSTED


@pytest.mark.parametrize(
    ("message", "error_class"),
    [
        ("Your credit balance is too low to access the API", ErrorClass.QUOTA_EXHAUSTED),
        ("You have reached your specified API usage limits.", ErrorClass.QUOTA_EXHAUSTED),
        ("prompt is too long: 210000 tokens > 200000 maximum", ErrorClass.CONTEXT_LENGTH_EXCEEDED),
        ("input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000", ErrorClass.CONTEXT_LENGTH_EXCEEDED),
        ("messages.0.content: unexpected value 'Your credit balance is too low'", ErrorClass.REQUEST_REJECTED),
        ("Invalid 'messages[0].content': got 'my prompt is too long: help'", ErrorClass.REQUEST_REJECTED),
    ],
)  # fmt: skip
def test_a_model_providers_sentence_is_heard_but_not_what_it_quotes(judge_status, message, error_class):
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    assert judge_status(400, None, body).error_class is error_class


def test_anthropics_own_error_code_is_read_from_the_details(judge_status):
    error = {"type": "rate_limit_error", "message": "x", "details": {"error_code": "enforced_spend_limit_reached"}}
    assert judge_status(429, None, {"type": "error", "error": error}).error_class is ErrorClass.QUOTA_EXHAUSTED


def test_bedrock_says_too_long_in_words_only(judge):
    response = {
        "Error": {"Code": "ValidationException", "Message": "Input is too long for requested model."},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    exc = botocore.exceptions.ClientError(response, "InvokeModel")
    assert judge(exc).error_class is ErrorClass.CONTEXT_LENGTH_EXCEEDED


def test_an_sdk_timeout_while_connecting_has_sent_nothing(judge):
    request = httpx.Request("POST", "http://127.0.0.1/")
    exc = chained(openai.APITimeoutError(request=request), httpx.ConnectTimeout("x", request=request))
    assert judge(exc).outcome_unknown is False
    exc = chained(openai.APITimeoutError(request=request), httpx.ReadTimeout("x", request=request))
    assert judge(exc).outcome_unknown is True


@pytest.mark.parametrize(
    ("reason", "error_class"),
    [
        ("too many redirects", ErrorClass.CONFIG_INVALID),
        ("too many 429 error responses", ErrorClass.RATE_LIMITED),
        ("too many 503 error responses", ErrorClass.UPSTREAM_UNAVAILABLE),
    ],
)
def test_what_urllib3_gave_up_on_decides_through_requests_too(judge, reason, error_class):
    given_up = urllib3.exceptions.MaxRetryError(None, "/", urllib3.exceptions.ResponseError(reason))
    assert judge(given_up).error_class is error_class
    assert judge(requests.exceptions.RetryError(given_up)).error_class is error_class


@pytest.mark.parametrize(
    ("words", "error_class"),
    [("407 Who Are You", ErrorClass.AUTH_DENIED), ("403 Forbidden", ErrorClass.PERMISSION_DENIED),
     ("502 Bad Gateway", ErrorClass.UPSTREAM_UNAVAILABLE), ("cannot connect to proxy:4070", ErrorClass.CONNECTION_REFUSED)],
)  # fmt: skip
def test_a_proxy_speaks_by_its_status(judge, words, error_class):
    assert judge(httpx.ProxyError(words)).error_class is error_class


@pytest.mark.parametrize(
    "words",
    [
        "invalidate cache for revalidation",
        "see forbidden.txt",
        "networkx failed",
        "TIMEOUT_MS=5",
        "GET /invalid-request",
    ],
)
def test_a_phrase_inside_a_name_or_path_is_not_heard_except_to_the_letter(judge, words):
    assert judge(RuntimeError(words)).category is Category.UNKNOWN
    assert judge(RuntimeError(words), profile="ingestion").category is not Category.UNKNOWN


class TelegramRetryAfter(Exception):
    status_code = 429
    retry_after = 12


def test_the_wait_that_an_unknown_exception_carries_is_taken(judge):
    assert judge(TelegramRetryAfter()).retry_after == 12.0


@pytest.mark.parametrize("status", ["503", 503.0])
def test_a_status_may_come_as_text_or_as_a_whole_number(judge_status, status):
    assert judge_status(status).status_code == 503
