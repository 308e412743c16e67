"""`reprieve.senders`: every name has a home, is loaded when it is first used, and says what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import reprieve
import reprieve.senders
from reprieve.app.redaction import forget_secrets
from reprieve.senders import SMTP, Slack, Webhook

HEAVY = ("asyncio", "aiohttp", "aiosmtplib", "httpcore2", "httpx2", "slack_sdk", "re2", "sqlalchemy")


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_the_public_names_are_those_that_have_a_home():
    assert sorted(reprieve.senders.__all__) == sorted(reprieve.senders._HOME_OF) == dir(reprieve.senders)


@pytest.mark.parametrize("name", reprieve.senders.__all__)
def test_a_public_name_can_be_used(name):
    assert getattr(reprieve.senders, name).__name__ == name


def test_a_name_that_does_not_exist_is_refused_as_by_any_module():
    with pytest.raises(AttributeError, match="has no attribute 'Carrier'"):
        reprieve.senders.Carrier  # noqa: B018


def test_importing_it_loads_no_client():
    done = run(f"import sys, reprieve.senders; print([name for name in {HEAVY!r} if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [("Webhook", "httpcore2", "webhook"), ("Slack", "slack_sdk", "slack"), ("SMTP", "aiosmtplib", "mail")],
)
def test_a_library_that_is_not_there_is_named_with_what_brings_it(name, library, extra):
    done = run(f"import sys; sys.modules[{library!r}] = None\nfrom reprieve.senders import {name}")
    assert done.returncode != 0
    assert f"pip install 'reprieve[{extra}]'" in done.stderr.splitlines()[-1]


MAKE = {
    "Webhook": lambda secret: Webhook(headers={"X-Api-Key": secret}),
    "Slack": Slack,
    "SMTP": lambda secret: SMTP("mail.example.invalid", sender="a@example.invalid", username="a", password=secret),
}


@pytest.mark.parametrize("name", MAKE)
def test_what_a_sender_holds_is_known_to_redaction_the_moment_it_is_made(name):
    secret = f"correct-{name}-battery"
    try:
        assert isinstance(MAKE[name](secret), getattr(reprieve.senders, name))
        assert secret not in reprieve.redact(f"the server echoed {secret} to us")
    finally:
        forget_secrets()
