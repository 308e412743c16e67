"""The settings of webhooks: what is refused, and what the record says."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest

import reprieve
from reprieve.app.redaction import forget_secrets
from reprieve.errors import UsageError
from reprieve.senders import Webhook

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def test_what_no_text_may_hold_can_be_asked_for():
    sender = Webhook(secret=SECRET, headers={"Authorization": "Bearer " + "s" * 24, "X-Tenant": "blue"})
    assert sender.secrets == (SECRET, "s" * 24)


def test_a_pipeline_takes_the_credentials_of_its_senders_out_of_every_text():
    credential = "correct-horse-" + "battery"
    told = f"the receiver echoed {credential} to us"
    assert reprieve.redact(told) == told
    try:
        reprieve.Pipeline("told", senders=[Webhook("keyed", headers={"X-Api-Key": credential, "X-Auth-Token": "abc"})])
        assert credential not in reprieve.redact(told)
        assert reprieve.redact("abc") == "abc"
    finally:
        forget_secrets("sender keyed")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"secret": "whsec_" + "!" * 40}, "base64 after it"),
        ({"secret": "whsec_" + base64.b64encode(bytes(23)).decode()}, "has 23 bytes, and 24 are the fewest"),
        ({"headers": {"X-A": "b\r\nX-C: d"}}, "not one line of ASCII: 'X-A'"),
        ({"headers": {"X A": "b"}}, "not one line of ASCII"),
        ({"headers": {"X-A": " b"}}, "not one line of ASCII"),
        ({"headers": {"Idempotency-Key": "mine"}}, "may not set 'Idempotency-Key'"),
        ({"headers": {"webhook-signature": "v1,x"}}, "may not set 'webhook-signature'"),
        ({"status_url": "https://example.org/status"}, r"with \{token\} in it"),
        ({"status_url": "ftp://example.org/{token}"}, "a URL such as"),
        ({"status_url": "https://127.0.0.1/{token}"}, "not a public address"),
        ({"timeout": 0}, "timeout= is above 0 seconds"),
        ({"lag": -1}, "lag= is above 0 seconds"),
        ({"takes_key": timedelta(0)}, "takes_key= is above 0 seconds"),
        ({"retention": float("nan")}, "retention= is above 0 seconds"),
    ],
)
def test_a_wrong_setting_is_refused_without_showing_it(options, message):
    with pytest.raises(UsageError, match=message) as caught:
        Webhook(**options)
    assert "!!!!" not in str(caught.value)


def test_what_receivers_can_do_is_in_the_record():
    plain = Webhook().capability
    assert (plain.key_window, plain.looks_up, plain.send_timeout) == (None, False, 30.0)
    able = Webhook(
        takes_key=timedelta(hours=24), status_url="https://example.org/{token}", lag=2, retention=timedelta(days=3)
    ).capability
    assert (able.key_window, able.looks_up, able.lag, able.retention) == (86_400.0, True, 2, 259_200.0)
