"""Exceptions that do whatever they like when they are looked at."""

import concurrent.futures
import json
import types

import litellm
import pytest
import sqlalchemy.exc
from hypothesis import given
from hypothesis import strategies as st

from reprieve.app.judging import classify, classify_response
from reprieve.app.registry import DEFAULT, rule
from reprieve.core.failure import Category, ErrorClass, Failure
from reprieve.errors import NeedsReview, Permanent, Retryable

NOW = 1_800_000_000.0
pytestmark = pytest.mark.spec("CRIT-1.0")


def test_a_leaf_raised_out_of_its_own_group_is_judged():
    for leaf in (RuntimeError("x"), ConnectionError("x")):
        try:
            try:
                raise ExceptionGroup("g", [leaf])
            except ExceptionGroup as group:
                raise group.exceptions[0]  # noqa: B904 - its context is the group that holds it
        except (RuntimeError, ConnectionError) as error:
            assert classify(error).retryable is True


def test_groups_nested_beyond_reason_are_judged():
    exc = TimeoutError()
    for _ in range(2000):
        exc = ExceptionGroup("deeper", [exc])
    assert classify(exc).category in Category


def test_groups_that_are_causes_of_leaves_cost_no_more_than_they_hold():
    exc = TimeoutError()
    for _ in range(60):
        left, right = RuntimeError("l"), RuntimeError("r")
        left.__cause__ = right.__cause__ = exc
        exc = ExceptionGroup("both", [left, right])
    assert classify(exc).category in Category


def test_every_leaf_of_a_wide_group_counts():
    leaves = [TimeoutError() for _ in range(300)] + [KeyError("x")]
    assert classify(ExceptionGroup("wide", leaves)).error_class is ErrorClass.BUG


class Raises:
    def __getattribute__(self, name):
        raise KeyError(name)

    def __bool__(self):
        raise ValueError("no")


class Looks(Exception):
    """Whatever is asked of it, it answers with something odd."""


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.just(10**400), st.floats(), st.text(max_size=20), st.binary(max_size=20),
    st.lists(st.integers(), max_size=3), st.builds(Raises), st.just(Raises), st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
    st.just(lambda: 1 / 0),
)  # fmt: skip
NAMES = [
    "response",
    "status",
    "status_code",
    "code",
    "headers",
    "body",
    "details",
    "retry_after",
    "retryable",
    "error_class",
    "category",
    "sqlstate",
    "errno",
    "orig",
    "reason",
    "cause",
    "args",
    "last_attempt",
    "kwargs",
    "grpc_status_code",
    "smtp_code",
    "recipients",
    "connection_invalidated",
]


@given(
    st.dictionaries(st.sampled_from(NAMES), ODD, max_size=6),
    st.sampled_from(["mine.own", "openai", "grpc", "smtplib", "sqlalchemy"]),
)
def test_no_attribute_breaks_the_classifier(attributes, module):
    kind = type("Odd", (Exception,), {"__module__": module, **attributes})
    failure = classify(kind("x"), now=NOW)
    assert Failure.from_json(failure.to_json()) == failure
    failure.to_json().encode()


@pytest.mark.parametrize(
    "base",
    [
        "openai.APIStatusError",
        "grpc.RpcError",
        "slack_sdk.SlackApiError",
        "botocore.ClientError",
        "sqlalchemy.DBAPIError",
    ],
)
@given(st.dictionaries(st.sampled_from(NAMES), ODD, max_size=6))
def test_no_attribute_breaks_a_reader(base, attributes):
    module, _, name = base.rpartition(".")
    parent = type(name, (Exception,), {"__module__": module})
    assert classify(type("Special", (parent,), {"__module__": module, **attributes})("x"), now=NOW).category in Category


def test_an_error_that_wraps_itself_has_a_message():
    exc = sqlalchemy.exc.OperationalError("s", {}, ValueError("v"))
    exc.orig = exc
    assert classify(exc).message


@pytest.mark.parametrize(
    "body", ['{"retry_after": 1' + "0" * 400 + "}", "[[[[", '{"error": {"error": 7}}', "null", b"\xff", '{"error": []}']
)
def test_no_body_breaks_the_classifier(body):
    assert classify_response(429, None, body, now=NOW).error_class is ErrorClass.RATE_LIMITED


@pytest.mark.parametrize(
    "headers",
    [types.MappingProxyType({"Retry-After": "7"}), {"Retry-After": "7"}.items(), iter([("Retry-After", "7")])],
    ids=["proxy", "items", "iterator"],
)  # fmt: skip
def test_headers_of_every_kind_are_read(headers):
    assert classify_response(503, headers, None, now=NOW).retry_after == 7.0


class LedgerClosed(Permanent):
    error_class = "LEDGER_CLOSED"


class Checked(NeedsReview):
    error_class = "CHECK_ME"


class BadLedger(ValueError):
    error_class = "LEDGER_BAD"


def test_a_class_of_ones_own_renames_a_verdict_and_never_turns_it_round():
    closed, checked, bad = classify(LedgerClosed("x")), classify(Checked("x")), classify(BadLedger("x"))
    assert (closed.error_class, closed.retryable) == ("LEDGER_CLOSED", False)
    assert (checked.error_class, checked.retryable) == ("CHECK_ME", False)
    assert (bad.error_class, bad.retryable, bad.category) == ("LEDGER_BAD", False, Category.CONFIGURATION)


def test_a_users_rule_stands_in_every_profile():
    rule(LedgerClosed, answer=Permanent())
    try:
        assert classify(LedgerClosed("x"), profile="ingestion").retryable is False
    finally:
        DEFAULT.forget(LedgerClosed)


@pytest.mark.parametrize("wait", [float("nan"), "5", -1, 10**400, float("inf")])
def test_a_wait_that_cannot_be_meant_is_not_taken_from_a_verdict(wait):
    assert classify(Retryable("x", retry_after=wait)).retry_after is None


def planted():
    return "sk_" + "live_" + "4eC39HqLyjWDarjtT1zdp7dc"


def test_no_short_text_of_a_record_holds_a_secret():
    secret = planted()
    body = {"error": {"code": secret, "message": "no"}}
    kind = type("Odd", (Exception,), {"error_class": secret, "__module__": "mine"})
    named = type(secret, (Exception,), {"__module__": "mine"})
    gateway = litellm.APIConnectionError(message="x", llm_provider="p", model="m")
    gateway.body = body
    gateway.__cause__ = ConnectionRefusedError(111, "refused")
    for failure in (classify_response(400, None, body), classify(kind("x")), classify(named("x")), classify(gateway)):
        assert secret not in failure.to_json()


def test_a_sentence_in_the_place_of_a_code_is_no_code():
    one = classify_response(404, None, {"error": "job 17 of anna not found"})
    two = classify_response(404, None, {"error": "job 18 of bob not found"})
    assert one.code is None
    assert one.fingerprint == two.fingerprint


def test_a_huge_message_that_is_all_prompt_still_says_something():
    body = json.dumps({"messages": [{"role": "user", "content": "word " * 8000}]})
    failure = classify(RuntimeError(f"Error code: 400 - {body}"))
    assert failure.message
    assert failure.signature


@pytest.mark.parametrize("words", ["a\x00b", "\x1b[2Jgone", "half \ud800 pair", "\x1b]0;title\x07"])
def test_what_no_database_or_terminal_takes_is_replaced(words):
    failure = classify(RuntimeError(words))
    assert not any(character in failure.message + failure.signature for character in "\x00\x1b\x07\ud800")


@pytest.mark.parametrize("words", ["query returned 404 rows", "returned 300 rows", "exited with code 401"])
def test_a_number_that_is_no_status_is_not_taken_for_one(words):
    assert classify(RuntimeError(words)).error_class is ErrorClass.UNKNOWN


def test_many_uuids_make_one_signature():
    words = [" ".join(f"{n:08x}-0000-4000-8000-{i:012x}" for i in range(20)) for n in range(5)]
    assert len({classify(RuntimeError(word)).signature for word in words}) == 1


def test_a_cancelled_future_passes_through_alone_and_in_a_group():
    for exc in (concurrent.futures.CancelledError(), ExceptionGroup("g", [concurrent.futures.CancelledError()])):
        with pytest.raises(type(exc)):
            classify(exc)
