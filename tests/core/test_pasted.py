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


def test_a_group_with_its_margin_is_read():
    text = "".join(traceback.format_exception(ExceptionGroup("several", [ValueError("a")])))
    margined = '  + Exception Group Traceback (most recent call last):\n  |   File "a.py", line 1, in f\n  | TimeoutError: slow\n'
    assert parse_traceback(text) is None
    assert classify_text(margined).error_class is ErrorClass.NETWORK_TIMEOUT


@pytest.mark.parametrize("text", ["", "just words", "Traceback (most recent call last):\n", "Traceback:\n  File x"])
def test_text_without_a_traceback_is_none(text):
    assert parse_traceback(text) is None


@given(st.text(max_size=300))
def test_any_text_is_survived(text):
    assert classify_text("Traceback (most recent call last):\n" + text).error_class
