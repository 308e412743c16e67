"""The ready-made replies, as a client and the classifier read them."""

from __future__ import annotations

import inspect
import json

import pytest

from reprieve import classify
from reprieve.testing import FlakyHTTP, Reply, replies

NOW = 1_800_000_000.0
FORMS = replies.web.retry_after_forms(NOW)
NOT_THIRTY_SECONDS = {
    "past date": 0.0,
    "zero": 0.0,
    "absurd year": None,
    "negative": None,
    "not a number": None,
    "infinite": None,
    "word": None,
    "empty": None,
}


@pytest.fixture(scope="module")
def httpx():
    return pytest.importorskip("httpx")


@pytest.fixture(scope="module")
def upstream():
    with FlakyHTTP() as upstream:
        yield upstream


@pytest.mark.spec("CRIT-1.2", "LLM-2.1")
@pytest.mark.parametrize("form", FORMS)
def test_retry_after_is_read_in_every_form_and_nonsense_is_not_believed(httpx, upstream, form):
    upstream.next(Reply(429, headers=FORMS[form]))
    with pytest.raises(httpx.HTTPStatusError) as caught:
        httpx.get(upstream.url(), trust_env=False).raise_for_status()
    failure = classify(caught.value, now=NOW)
    assert failure.retryable
    assert failure.retry_after == NOT_THIRTY_SECONDS.get(form, 30.0)


LIES = {"web.malformed_json", "web.not_gzip"}


def json_replies():
    """Each ready-made reply that says it is JSON, by name."""
    made = {
        f"{provider}.{name}": make()
        for provider in replies.__all__
        for name, make in inspect.getmembers(getattr(replies, provider), inspect.isfunction)
        if make.__module__ == f"reprieve.testing.replies.{provider}"
        and not name.startswith("_")
        and all(each.default is not each.empty for each in inspect.signature(make).parameters.values())
    }
    is_json = {"Content-Type": "application/json"}.items()
    return {name: act for name, act in made.items() if isinstance(act, Reply) and is_json <= act.headers.items()}


@pytest.mark.parametrize("name", sorted(json_replies()))
def test_what_says_that_it_is_json_is_json_unless_it_lies_on_purpose(name):
    body = json_replies()[name].content
    if name in LIES:
        with pytest.raises(ValueError, match="Expecting"):
            json.loads(body)
    else:
        assert isinstance(json.loads(body), dict)


def test_a_rate_limit_of_github_ends_when_its_header_says(httpx, upstream):
    upstream.next(replies.github.rate_limit(int(NOW) + 60))
    with pytest.raises(httpx.HTTPStatusError) as caught:
        httpx.get(upstream.url(), trust_env=False).raise_for_status()
    failure = classify(caught.value, now=NOW)
    assert (failure.error_class, failure.retry_after) == ("RATE_LIMITED", 60.0)
