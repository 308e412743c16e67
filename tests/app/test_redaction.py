"""Redaction with the live credentials of the process, and of exceptions."""

import threading
import traceback

import pytest

from reprieve.app import redaction
from reprieve.app.redaction import (
    forget_secrets,
    redact,
    redact_exception,
    redact_mapping,
    register_environment,
    register_secret,
)
from reprieve.core.redact import RedactionReport
from reprieve.errors import UsageError

GITHUB = "gh" + "p_" + "aB3" * 12


@pytest.fixture(autouse=True)
def _no_live_credentials():
    yield
    forget_secrets()


def test_a_registered_credential_is_found_everywhere_until_it_is_forgotten():
    register_secret("zebra-garden", name="db")
    assert redact("x zebra-garden y") == "x [redacted:live-credential] y"
    assert redact_mapping({"a": "zebra-garden"}) == {"a": "[redacted:live-credential]"}
    assert "zebra" not in redact_exception(ValueError("zebra-garden"))
    assert redaction.scan("zebra-garden") == ("[redacted:live-credential]", (("live-credential", 1),))
    forget_secrets("db")
    assert redact("x zebra-garden y") == "x zebra-garden y"


def test_a_short_credential_is_refused_with_its_reason_and_not_shown():
    with pytest.raises(UsageError, match="'pin' has 3 characters") as caught:
        register_secret("xq7", name="pin")
    assert "xq7" not in str(caught.value)


def test_the_environment_gives_its_secrets_by_their_names_and_inside_urls():
    names = register_environment(
        {
            "DB_PASSWORD": "zebra-garden",
            "SERVICE_TOKEN": "giraffe-lake",
            "DATABASE_URL": "postgresql://app:lion%20hill@db/x",
            "PATH": "/usr/bin:/bin",
            "TOKEN_FILE": "/run/secrets/token",
            "SHORT_SECRET": "abc",
            "HOME": "/home/anna-and-bob",
        }
    )
    assert set(names) == {"DB_PASSWORD", "SERVICE_TOKEN", "DATABASE_URL"}
    clean = redact("zebra-garden giraffe-lake lion%20hill 'lion hill' /home/anna-and-bob /usr/bin")
    assert "zebra" not in clean
    assert "giraffe" not in clean
    assert "lion" not in clean
    assert "/home/anna-and-bob /usr/bin" in clean


def test_bytes_can_be_registered():
    register_secret(b"zebra-garden")
    assert "zebra" not in redact("zebra-garden")


def test_many_threads_may_register_at_once():
    threads = [threading.Thread(target=register_secret, args=(f"zebra-garden-{i}",)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(redaction.DEFAULT.secrets.values) == 40


def fail(message: object):
    secret = "local zebra"  # a local: never shown
    raise ValueError(message) from KeyError(f"cause with password=hunter2 {len(secret)}")


@pytest.mark.spec("CRIT-4.5")
def test_a_stack_shows_frames_and_causes_without_literals_or_locals():
    with pytest.raises(ValueError, match="refused") as caught:
        fail(f"refused: {GITHUB}.")
    caught.value.add_note("tried with token=" + GITHUB)
    report = RedactionReport()
    stack = redact_exception(caught.value, report=report)
    assert "in fail" in stack
    assert "raise ValueError(message) from KeyError" in stack
    assert "The above exception was the direct cause" in stack
    assert "refused: [redacted:git-token]." in stack
    assert "tried with token=[redacted:" in stack
    assert GITHUB not in stack
    assert "hunter2" not in stack.replace('password=hunter2 {len(secret)}")', "")
    assert "local zebra" not in stack
    assert report.total >= 3


def test_groups_are_shown_with_every_leaf():
    group = ExceptionGroup(
        "two", [ValueError("password=hunter2"), ExceptionGroup("deep", [KeyError("api_key=" + GITHUB)])]
    )
    stack = redact_exception(group)
    assert "hunter2" not in stack
    assert GITHUB not in stack
    assert "ExceptionGroup: two" in stack
    assert "KeyError" in stack


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Broken(Exception):
    @property
    def __cause__(self):
        raise RuntimeError("no cause")


def test_an_exception_that_cannot_be_shown_is_survived():
    assert "Mute" in redact_exception(Mute())
    assert "Broken" in redact_exception(Broken("x"))


@pytest.mark.spec("CRIT-4.5")
def test_a_long_stack_is_sanitized_before_it_is_cut_in_the_middle():
    message = "start " + "x" * 3000 + " password=hunter2 " + "y\n" * 3000 + " end"
    for limit in range(2900, 3100, 7):
        stack = redact_exception(ValueError(message), limit=limit)
        assert len(stack) <= limit + 60
        assert "hunter" not in stack
        assert "characters cut" in stack
        assert stack.rstrip().endswith("end")
        assert stack.startswith("ValueError: start")


def test_a_recursion_of_a_thousand_frames_stays_short():
    def down(n: int) -> int:
        return down(n + 1)

    with pytest.raises(RecursionError) as caught:
        down(0)
    assert len(redact_exception(caught.value)) < 20_100


def test_redacting_what_traceback_prints_gives_the_same():
    with pytest.raises(ValueError, match="refused") as caught:
        fail("refused")
    assert redact("".join(traceback.format_exception(caught.value))) == redact_exception(caught.value)


def test_a_stack_can_be_stored_and_shown_whatever_the_message_holds():
    stack = redact_exception(RuntimeError("a\x00b \x1b[2J \ud800"))
    assert not any(character in stack for character in "\x00\x1b\ud800")
    stack.encode()


@pytest.mark.parametrize("odd", [None, b"bytes", 7])
def test_what_is_no_text_is_refused(odd):
    with pytest.raises(UsageError, match="takes text"):
        redact(odd)
