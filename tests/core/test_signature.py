"""Two names for a kind of failure."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.app.redaction import forget_secrets, register_secret
from reprieve.core.failure import ErrorClass
from reprieve.core.signature import signature


@pytest.mark.spec("ING-8.1")
def test_a_signature_masks_uuids_and_numbers_and_is_short():
    one = signature(f"Order {uuid.uuid4()} failed after 37 tries at 10.5 s " + "x" * 200)
    two = signature(f"Order {uuid.uuid4()} failed after 4 tries at 0.25 s " + "x" * 200)
    assert one == two
    assert one.startswith("Order UUID failed after N tries at N s xxx")
    assert len(one) == 100


@pytest.mark.spec("ING-8.1")
@given(st.text(max_size=500))
def test_no_text_makes_a_signature_long_or_leaves_an_ascii_digit(text):
    masked = signature(text)
    assert len(masked) <= 100
    assert not any(character in "0123456789" for character in masked)


def fail_here(message="a"):
    raise TimeoutError(message)


def fail_there(message="a"):
    raise TimeoutError(message)


def caught(function, *args):
    try:
        function(*args)
    except TimeoutError as error:
        return error


def test_a_fingerprint_is_versioned_and_does_not_depend_on_message_or_line(judge):
    first = judge(caught(fail_here, "order 1"))
    second = judge(caught(fail_here, "quite another"))
    assert first.fingerprint.startswith("v1:")
    assert first.fingerprint == second.fingerprint


def test_stage_place_class_and_code_each_make_another_fingerprint(judge, judge_status):
    prints = [
        judge(caught(fail_here)).fingerprint,
        judge(caught(fail_there)).fingerprint,
        judge(caught(fail_here), stage="fetch").fingerprint,
        judge_status(503).fingerprint,
        judge_status(520).fingerprint,
        judge_status(429).fingerprint,
        judge_status(429, None, {"error": {"code": "slow_down"}}).fingerprint,
    ]
    assert len(set(prints)) == len(prints)


def test_the_message_is_cut_after_it_is_sanitized(judge):
    secret = "hunter" + "2" * 8
    failure = judge(RuntimeError("x" * 990 + f" password={secret} " + "y" * 5000))
    assert len(failure.message) <= 1000
    assert secret[:6] not in failure.message


def test_a_message_of_megabytes_is_survived_and_its_torn_end_dropped(judge):
    failure = judge(RuntimeError("word " * 1_000_000))
    assert len(failure.message) <= 1000
    assert failure.error_class is ErrorClass.UNKNOWN


def test_a_live_credential_is_taken_out_of_a_message_however_it_is_spelled(judge):
    value = "plain" + "words" + "only"
    register_secret(value, name="ledger")
    try:
        failure = judge(RuntimeError(f"ledger said no to {value}"))
    finally:
        forget_secrets("ledger")
    assert value not in failure.message
    assert failure.redactions
