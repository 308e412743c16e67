"""Tracebacks that somebody pasted."""

import traceback

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.app.judging import classify, classify_text
from reprieve.core.failure import ErrorClass
from reprieve.core.pasted import parse_traceback


def connect():
    httpx.get("http://127.0.0.1:1/", timeout=1)


def wrap():
    try:
        connect()
    except httpx.ConnectError as error:
        raise RuntimeError("could not reach it") from error


def decode():
    b"\xff".decode()


def look_up():
    {}["x"]


@pytest.mark.parametrize("function", [connect, wrap, decode, look_up], ids=lambda function: function.__name__)
def test_a_pasted_traceback_is_judged_as_the_live_exception(function):
    try:
        function()
    except Exception as error:  # noqa: BLE001 - whatever it raises
        live, pasted = classify(error), classify_text("log line before\n" + traceback.format_exc())
    assert pasted.error_class == live.error_class
    assert pasted.fingerprint == live.fingerprint
    assert pasted.exception_type == live.exception_type
    assert pasted.message == live.message


def test_what_an_sdk_writes_into_its_message_is_read_as_facts():
    text = (
        'Traceback (most recent call last):\n  File "review.py", line 3, in ask\n    client.chat()\n'
        "openai.RateLimitError: Error code: 429 - {'error': {'message': 'no', 'code': 'insufficient_quota'}}\n"
    )
    assert classify_text(text).error_class is ErrorClass.QUOTA_EXHAUSTED


def slow():
    raise TimeoutError("slow")


def bad():
    raise ValueError("bad")


def several(*functions):
    caught = []
    for function in functions:
        try:
            function()
        except (TimeoutError, ValueError) as error:
            caught.append(error)
    raise ExceptionGroup("several", caught)


@pytest.mark.parametrize("functions", [(slow, bad), (slow, slow), (bad,)], ids=["mixed", "slow", "bad"])
def test_a_pasted_group_is_judged_by_all_its_leaves(functions):
    try:
        several(*functions)
    except ExceptionGroup as group:
        live, pasted = classify(group), classify_text("before\n" + traceback.format_exc())
    assert (pasted.error_class, pasted.retryable) == (live.error_class, live.retryable)
    assert pasted.fingerprint == live.fingerprint


RESET = (
    'Traceback (most recent call last):\n  File "a.py", line 1, in f\nConnectionResetError: [Errno 104] reset by peer\n'
)
WRONG = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: wrong\n'


def test_of_two_failures_in_a_log_the_last_one_counts():
    assert classify_text(WRONG + "INFO going on\n" + RESET).error_class is ErrorClass.CONNECTION_RESET


def test_log_lines_after_a_traceback_are_not_its_message():
    failure = classify_text(RESET + "2026-01-01 10:00:00 INFO going on\n")
    assert failure.message == "[Errno 104] reset by peer"


def test_what_a_logger_puts_before_every_line_is_taken_off():
    prefixed = "".join(f"2026-01-01T10:00:0{n}Z stderr F {line}\n" for n, line in enumerate(RESET.splitlines()))
    assert classify_text(prefixed).error_class is ErrorClass.CONNECTION_RESET


@pytest.mark.parametrize(
    "words", ["ExceptionGroup: x", "OSError: Error code: 400 - {[]: 1}", "StopIteration", "UnicodeDecodeError: x"]
)
def test_every_name_that_can_be_pasted_is_survived(words):
    assert classify_text(f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n{words}\n').error_class


@pytest.mark.parametrize("text", ["", "just words", "Traceback (most recent call last):\n", "Traceback:\n  File x"])
def test_text_without_a_traceback_is_none(text):
    assert parse_traceback(text) is None


@given(st.text(max_size=300))
def test_any_text_is_survived(text):
    assert classify_text("Traceback (most recent call last):\n" + text).error_class
