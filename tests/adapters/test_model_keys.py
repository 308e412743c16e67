"""Which key a model's endpoint gets: the one that it is given, and the environment's only over https."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from reprieve import UsageError, classify, redact
from reprieve.app.redaction import forget_secrets
from reprieve.models import Anthropic, LocalModel, OpenAI, Prompt, model_at
from reprieve.testing import FlakyHTTP, replies
from reprieve.testing.tls import authority_pem

GIVEN = "key-of-a-test-given"
FOUND = "key-of-a-test-found"
ANSWERS = {OpenAI: replies.openai.completion("hi"), Anthropic: replies.anthropic.message("hi")}
VARIABLES = ("API_KEY", "AUTH_TOKEN", "BASE_URL", "CUSTOM_HEADERS", "PROFILE", "CONFIG_DIR")
KEYS = [(OpenAI, "OPENAI_API_KEY"), (Anthropic, "ANTHROPIC_API_KEY"), (Anthropic, "ANTHROPIC_AUTH_TOKEN")]


@pytest.fixture(autouse=True)
def _bare(monkeypatch, tmp_path):
    for variable in VARIABLES:
        monkeypatch.delenv(f"OPENAI_{variable}", raising=False)
        monkeypatch.delenv(f"ANTHROPIC_{variable}", raising=False)
    monkeypatch.delenv("REPRIEVE_MODEL_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def upstream(monkeypatch, tmp_path):
    """One that speaks TLS, with a certificate that is trusted."""
    authority = tmp_path / "authority.pem"
    authority.write_bytes(authority_pem())
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    with FlakyHTTP(certificate="good") as upstream:
        yield upstream


def ask(model):
    async def main():
        try:
            return await model.ask(Prompt.of("hello", max_tokens=1))
        finally:
            await model.close()

    return asyncio.run(main())


def sent(kind, upstream, **settings):
    """The headers that arrived, as one text."""
    upstream.always(ANSWERS[kind])
    model = kind("m", **settings)
    assert ask(model).text == "hi"
    headers = str(dict(upstream.requests[-1].headers))
    assert [each for each in model.secrets if each not in headers] == [], "what is not sent is not held"
    return headers


def prefix(kind):
    return kind.__name__.upper()


def spellings(url):
    return [url, url.replace("http:", "HTTP:"), f" {url}", f"{url}\n"]


@pytest.mark.parametrize(("kind", "variable"), KEYS)
@pytest.mark.parametrize("spelling", range(4), ids=["plain", "capitals", "space before", "line end after"])
@pytest.mark.parametrize("where", ["argument", "environment"])
def test_the_environments_key_never_goes_over_plain_http(flaky_http, monkeypatch, kind, variable, spelling, where):
    monkeypatch.setenv(variable, FOUND)
    url = spellings(flaky_http.url("/v1"))[spelling]
    if where == "environment":
        monkeypatch.setenv(f"{prefix(kind)}_BASE_URL", url)
    assert FOUND not in sent(kind, flaky_http, base_url=url if where == "argument" else None)


@pytest.mark.parametrize(("kind", "variable"), KEYS)
@pytest.mark.parametrize("where", ["argument", "environment"])
def test_a_key_that_is_given_is_sent_wherever_it_goes(flaky_http, monkeypatch, kind, variable, where):
    monkeypatch.setenv(variable, FOUND)
    if where == "environment":
        monkeypatch.setenv(f"{prefix(kind)}_BASE_URL", flaky_http.url("/v1"))
    url = flaky_http.url("/v1") if where == "argument" else None
    headers = sent(kind, flaky_http, base_url=url, api_key=GIVEN)
    assert GIVEN in headers
    assert FOUND not in headers


@pytest.mark.parametrize(("kind", "variable"), KEYS)
@pytest.mark.parametrize("scheme", ["https:", "HTTPS:", " https:"])
def test_over_https_it_is_the_environments_key(upstream, monkeypatch, kind, variable, scheme):
    monkeypatch.setenv(variable, FOUND)
    monkeypatch.setenv(f"{prefix(kind)}_BASE_URL", upstream.url("/v1").replace("https:", scheme))
    assert FOUND in sent(kind, upstream)


@pytest.mark.parametrize(("kind", "variable"), KEYS)
def test_an_address_that_the_environment_gets_after_the_key_was_read_is_not_gone_to(
    flaky_http, monkeypatch, upstream, kind, variable
):
    monkeypatch.setenv(variable, FOUND)
    monkeypatch.setattr(f"reprieve.adapters.{kind.__name__.lower()}.model._OWN", upstream.url("/v1"))
    upstream.always(ANSWERS[kind])
    model = kind("m")
    monkeypatch.setenv(f"{prefix(kind)}_BASE_URL", flaky_http.url("/v1"))
    assert ask(model).text == "hi"
    assert FOUND in str(upstream.requests[0].headers)
    assert not flaky_http.requests


@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
def test_a_key_that_the_environment_gets_after_the_model_was_made_is_not_looked_for(flaky_http, monkeypatch, kind):
    model = kind("m", base_url="https://127.0.0.1:1/v1")
    monkeypatch.setenv(f"{prefix(kind)}_API_KEY", FOUND)
    monkeypatch.setenv(f"{prefix(kind)}_BASE_URL", flaky_http.url("/v1"))
    with pytest.raises(Exception, match="Connection error"):
        ask(model)
    assert not flaky_http.requests


@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
@pytest.mark.parametrize("name", ["Authorization", "authorization", "X-Api-Key"])
def test_headers_of_the_environment_that_hold_a_key_do_not_go_there_either(flaky_http, monkeypatch, kind, name):
    monkeypatch.setenv(f"{prefix(kind)}_CUSTOM_HEADERS", f"{name}: Bearer {FOUND}\nX-Team: blue\nno header")
    headers = sent(kind, flaky_http, base_url=flaky_http.url("/v1"), api_key=GIVEN)
    assert FOUND not in headers
    assert GIVEN in headers
    assert "blue" in headers
    assert kind("m", base_url="https://example.invalid", api_key=GIVEN).secrets == (GIVEN, FOUND)


def test_a_profile_of_the_client_is_not_used_over_plain_http(flaky_http, monkeypatch, tmp_path):
    folder = profile_in(tmp_path)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(folder))
    assert FOUND not in sent(Anthropic, flaky_http, base_url=flaky_http.url("/"))


def test_a_profile_of_the_client_is_a_key_where_there_is_no_other(upstream, monkeypatch, tmp_path):
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(profile_in(tmp_path)))
    assert FOUND in sent(Anthropic, upstream, base_url=upstream.url("/"))


def profile_in(folder):
    """As the client's own program writes one after a login."""
    for name, content in {
        "configs/default.json": {"version": "1.0", "authentication": {"type": "user_oauth"}},
        "credentials/default.json": {"type": "oauth_token", "access_token": FOUND},
    }.items():
        file = folder / name
        file.parent.mkdir()
        file.write_text(json.dumps(content))
        file.chmod(0o600)
    return folder


@pytest.mark.parametrize(("kind", "variable"), KEYS)
def test_a_model_by_address_gets_the_key_that_the_environment_has_for_it(flaky_http, monkeypatch, kind, variable):
    monkeypatch.setenv(variable, FOUND)
    monkeypatch.setenv("REPRIEVE_MODEL_KEY", f"{GIVEN}\n")
    flaky_http.always(ANSWERS[kind])
    try:
        model = model_at(f"{prefix(kind).lower()}+{flaky_http.url('/v1')}#m")
        assert ask(model).text == "hi"
        headers = str(dict(flaky_http.requests[-1].headers))
        assert (GIVEN in headers, FOUND in headers, model.secrets) == (True, False, (GIVEN,))
        assert GIVEN not in redact(f"the {GIVEN} is out")
    finally:
        forget_secrets()


def test_that_key_goes_to_no_other_model_and_one_that_is_given_goes_before_it(monkeypatch):
    monkeypatch.setenv("REPRIEVE_MODEL_KEY", "key-of-a-test-other")
    monkeypatch.setenv("OPENAI_API_KEY", FOUND)
    assert model_at("openai:m").secrets == (FOUND,)
    assert OpenAI("m", base_url="http://127.0.0.1:1/v1").secrets == ()
    assert model_at("openai+http://127.0.0.1:1/v1#m", api_key=GIVEN).secrets == (GIVEN,)
    monkeypatch.setenv("REPRIEVE_MODEL_KEY", "")
    assert model_at("openai+https://127.0.0.1:1/v1#m").secrets == (FOUND,)


@pytest.mark.parametrize(("kind", "variable"), KEYS)
@pytest.mark.parametrize("stream", [False, True])
def test_an_endpoint_that_wants_a_key_which_was_held_back_is_explained_once(
    flaky_http, monkeypatch, caplog, kind, variable, stream
):
    monkeypatch.setenv(variable, FOUND)
    flaky_http.always(replies.openai.invalid_api_key() if kind is OpenAI else replies.anthropic.authentication_error())
    model = kind("m", base_url=flaky_http.url("/v1"), stream=stream)
    for _ in range(2):
        with caplog.at_level(logging.WARNING, "reprieve.models"), pytest.raises(Exception, match="401"):
            ask(model)
    (record,) = [each for each in caplog.records if each.name == "reprieve.models"]
    assert f"{variable} was not sent" in record.getMessage()
    assert FOUND not in record.getMessage()


@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
def test_nothing_is_explained_where_nothing_was_held_back(flaky_http, monkeypatch, caplog, kind):
    flaky_http.always(replies.openai.invalid_api_key() if kind is OpenAI else replies.anthropic.authentication_error())
    with pytest.raises(Exception, match="401"):
        ask(kind("m", base_url=flaky_http.url("/v1")))
    monkeypatch.setenv(f"{prefix(kind)}_API_KEY", FOUND)
    with pytest.raises(Exception, match="401"):
        ask(kind("m", base_url=flaky_http.url("/v1"), api_key=GIVEN))
    assert not [each for each in caplog.records if each.name == "reprieve.models"]


@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
def test_without_a_key_a_model_says_what_to_set(kind):
    with pytest.raises(UsageError, match=f"no key for {kind.__name__}: set {prefix(kind)}_API_KEY, or give api_key="):
        ask(kind("m"))


@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
def test_an_endpoint_of_somebody_else_needs_no_key(flaky_http, monkeypatch, kind):
    monkeypatch.setenv(f"{prefix(kind)}_BASE_URL", flaky_http.url("/v1"))
    assert "none" in sent(kind, flaky_http)


@pytest.mark.parametrize(("kind", "variable"), KEYS)
def test_a_line_end_after_a_key_is_not_part_of_it(flaky_http, monkeypatch, kind, variable):
    assert f"{GIVEN}'" in sent(kind, flaky_http, base_url=flaky_http.url("/v1"), api_key=f" {GIVEN}\n")
    monkeypatch.setenv(variable, f"{FOUND}\n")
    assert kind("m").secrets == (FOUND,)


@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
@pytest.mark.parametrize("key", ["key-of-\n-a-test", "k\xe9y-of-a-test", "key-of-a-test-\ud800", "key\0of-a-test"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_repeated(monkeypatch, kind, key):
    with pytest.raises(UsageError, match="a header cannot hold") as caught:
        kind("m", api_key=key)
    assert "of-" not in str(caught.value)
    assert classify(caught.value).retryable is False


def test_the_local_model_is_asked_with_its_own_key_whatever_the_environment_holds(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", FOUND)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"Authorization: Bearer {FOUND}")

    assert ask(LocalModel(context=256, slots=1, threads=1)).usage.output_tokens == 1
