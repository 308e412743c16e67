"""Live credentials are found by their exact value in every spelling."""

import base64
import json
import random
import string
from urllib.parse import quote, quote_plus

import pytest

from reprieve.core.redact import NONE, Secrets, redact, scan
from reprieve.core.redact.secrets import variants

VALUE = 'tr0ub4dor & "3"/é'
SECRETS = Secrets.of({"db": VALUE, "plain": "correct-horse"})


def spellings(value: str):
    raw = value.encode()
    yield value
    yield json.dumps(value)
    yield json.dumps(json.dumps(value))
    yield json.dumps(json.dumps(json.dumps(value)))
    yield json.dumps(value, ensure_ascii=False)
    yield repr(value)
    yield repr(repr(value))
    yield repr(raw)
    yield quote(value, safe="")
    yield quote_plus(value)
    yield raw.hex()
    yield raw.hex().upper()
    yield base64.b64encode(raw).decode()
    yield base64.urlsafe_b64encode(raw).decode().rstrip("=")


def windows(text: str, width: int = 8):
    return {text[i : i + width] for i in range(len(text) - width + 1)}


def test_every_spelling_of_a_live_credential_is_found():
    for spelling in spellings(VALUE):
        core = spelling.strip("\"'b\\")
        clean = redact(f"<< {spelling} >>", secrets=SECRETS)
        assert "[redacted:live-credential]" in clean
        assert not windows(core) & windows(clean)


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "x", "xy", "xyz"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_of_something_around_it_gives_it_away_too(before, after, encode):
    value = "s3cr?t~value>9"
    encoded = encode(f"{before}{value}{after}".encode()).decode()
    clean = redact(f"[{encoded}]", secrets=Secrets.of([value]))
    assert "[redacted:live-credential]" in clean
    exact = encode(value.encode()).decode()[4:-4]
    assert exact not in clean


def test_the_longer_of_two_credentials_is_taken_whole():
    secrets = Secrets.of(["hunter2", "hunter2-and-more"])
    assert redact("x hunter2-and-more y hunter2 z", secrets=secrets) == (
        "x [redacted:live-credential] y [redacted:live-credential] z"
    )


def test_short_values_are_left_out_because_they_would_be_found_in_words():
    assert not Secrets.of(["abc", "12345"])
    assert redact("the abc of 12345", secrets=Secrets.of(["abc", "12345"])) == "the abc of 12345"


def test_values_are_never_shown_by_repr():
    assert repr(SECRETS) == "Secrets(2 values)"
    assert repr(NONE) == "Secrets(0 values)"


def test_many_hundred_credentials_are_one_search():
    rng = random.Random(7)
    values = ["".join(rng.choices(string.ascii_letters + string.digits, k=32)) for _ in range(600)]
    secrets = Secrets.of({f"key{i}": value for i, value in enumerate(values)})
    text = " ".join(f"a{i}={value}" for i, value in enumerate(values[::7]))
    clean, counts = scan(text, secrets)
    assert not any(value in clean for value in values)
    assert sum(count for _, count in counts) == len(values[::7])
    untouched = "HTTP 503 from https://api.example.com/v1/jobs/42"
    assert scan(untouched, secrets)[0] is untouched


def test_variants_of_a_value_are_never_shorter_than_what_is_refused():
    assert all(len(variant) >= 6 for variant in variants("hunter2"))
