"""Statuses, Retry-After and dates."""

import datetime as dt
import email.utils

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.core import http
from reprieve.core.failure import ErrorClass

NOW = 1_800_000_000.0


def wait(headers):
    return http.retry_after(headers, NOW)


@pytest.mark.spec("CRIT-1.2")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "120"}, 120.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"RETRY-AFTER": b"7"}, 7.0),
        ({"retry-after": " 3 "}, 3.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ([("Retry-After", "11")], 11.0),
        ({"Retry-After": 13}, 13.0),
        ([(b"retry-after", b"12")], 12.0),
    ],
)
def test_retry_after_is_read_from_any_headers(headers, seconds):
    assert wait(headers) == seconds


@pytest.mark.parametrize(
    "value",
    ["nan", "inf", "-1", "-0.5", "1e9", "", "soon", "99999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "0x10", "1_000", "٣",
     "Fri, 99 Foo 2026 00:00:00 GMT", "Mon, 16 Nov 26", "Fri, 30 Feb 2027 00:00:00 GMT", "Thu, 32 Dec 2026 00:00:00 GMT"],
)  # fmt: skip
def test_a_wait_that_cannot_be_meant_is_refused(value):
    assert wait({"retry-after": value}) is None


@pytest.mark.parametrize("headers", [None, {}, [], object(), "retry-after: 3", 7, {"retry-after": None}])
def test_headers_of_any_shape_are_survived(headers):
    assert wait(headers) is None


@given(st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2200, 1, 1)))  # noqa: DTZ001 - zone added below
def test_an_http_date_is_read_as_the_standard_library_reads_it(moment):
    moment = moment.replace(microsecond=0, tzinfo=dt.UTC)
    text = email.utils.format_datetime(moment, usegmt=True)
    assert http.http_date(text) == moment.timestamp()
    assert http.http_date(moment.strftime("%a %b %e %H:%M:%S %Y")) == moment.timestamp()
    assert http.http_date(text.replace("GMT", "-0130")) == moment.timestamp() + 5400
    assert http.http_date(text.removesuffix(" GMT")) == moment.timestamp()


def test_the_obsolete_form_with_two_digits_of_the_year_is_read():
    assert http.http_date("Sunday, 06-Nov-94 08:49:37 GMT") == 784111777.0


def test_a_date_in_the_past_means_now():
    assert wait({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}) == 0.0


def test_a_date_ahead_is_the_time_until_then():
    ahead = email.utils.formatdate(NOW + 90, usegmt=True)
    assert wait({"retry-after": ahead}) == 90.0


@pytest.mark.parametrize(
    ("status", "error_class", "retryable"),
    [
        (301, ErrorClass.CONFIG_INVALID, False),
        (400, ErrorClass.REQUEST_REJECTED, False),
        (408, ErrorClass.NETWORK_TIMEOUT, True),
        (423, ErrorClass.LOCK_TIMEOUT, True),
        (425, ErrorClass.UPSTREAM_UNAVAILABLE, True),
        (451, ErrorClass.POLICY_REJECTED, False),
        (501, ErrorClass.CONFIG_INVALID, False),
        (505, ErrorClass.CONFIG_INVALID, False),
        (520, ErrorClass.UPSTREAM_ERROR, True),
        (529, ErrorClass.OVERLOADED, True),
    ],
)
def test_a_status_has_its_meaning(judge_status, status, error_class, retryable):
    failure = judge_status(status)
    assert (failure.error_class, failure.retryable, failure.status_code) == (error_class, retryable, status)


@pytest.mark.parametrize("status", [200, 204, 101, 99, 600])
def test_success_and_nonsense_are_no_verdict(status):
    assert http.of_status(status, None, NOW) is None


def test_githubs_forbidden_is_a_rate_limit_until_its_reset(judge_status):
    failure = judge_status(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 60)})
    assert (failure.error_class, failure.retryable, failure.retry_after) == (ErrorClass.RATE_LIMITED, True, 60.0)
    assert judge_status(403, {"x-ratelimit-remaining": "57"}).retryable is False


@pytest.mark.parametrize(("said", "retryable"), [("true", True), ("false", False)])
def test_an_upstream_that_says_whether_to_retry_is_believed(judge_status, said, retryable):
    assert judge_status(409, {"stripe-should-retry": said}).retryable is retryable
    assert judge_status(500, {"x-should-retry": said}).retryable is retryable
