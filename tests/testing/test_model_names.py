"""`reprieve.models`: every name has a home, is loaded when it is first used, and says what it needs; and `model_at`."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

import reprieve
import reprieve.models
from reprieve.app.redaction import forget_secrets
from reprieve.errors import UnknownNameError, UsageError
from reprieve.models import Anthropic, OpenAI, model_at

HEAVY = ("anthropic", "asyncio", "httpx2", "jsonschema", "openai", "pydantic", "re2", "xllamacpp")
KEY = "key-of-a-test-0003"


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_the_public_names_are_those_that_have_a_home():
    assert sorted(reprieve.models.__all__) == sorted([*reprieve.models._HOME_OF, "model_at"]) == dir(reprieve.models)


@pytest.mark.parametrize("name", reprieve.models.__all__)
def test_a_public_name_can_be_used(name):
    assert getattr(reprieve.models, name).__name__ == name


def test_a_name_that_does_not_exist_is_refused_as_by_any_module():
    with pytest.raises(AttributeError, match="has no attribute 'Oracle'"):
        reprieve.models.Oracle  # noqa: B018


def test_importing_it_loads_no_client():
    done = run(f"import sys, reprieve.models; print([name for name in {HEAVY!r} if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("text", "library", "extra"),
    [("openai:gpt", "openai", "openai"), ("anthropic:c", "anthropic", "anthropic"), ("local", "xllamacpp", "local")],
)
def test_a_library_that_is_not_there_is_named_with_what_brings_it(text, library, extra):
    done = run(f"import sys; sys.modules[{library!r}] = None\nfrom reprieve.models import model_at\nmodel_at({text!r})")
    assert done.returncode != 0
    assert f"pip install 'reprieve[{extra}]'" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("openai:gpt-5-mini", "OpenAI", "openai:gpt-5-mini"),
        (" anthropic:claude-haiku-4-5 ", "Anthropic", "anthropic:claude-haiku-4-5"),
        ("openai+http://127.0.0.1:8080/v1#org/qwen3:4b", "OpenAI", "openai:org/qwen3:4b"),
        ("anthropic+https://models.example.invalid#claude", "Anthropic", "anthropic:claude"),
        ("local", "LocalModel", "local:SmolLM2-135M-Instruct.Q4_1.gguf"),
    ],
)
def test_a_model_is_chosen_by_its_name_or_its_address(text, kind, name):
    model = model_at(text)
    assert (type(model).__name__, model.name) == (kind, name)


def test_an_address_is_where_the_model_is_asked_and_settings_go_to_its_class():
    model = model_at("openai+http://127.0.0.1:8080/v1#qwen3", api_key=KEY, structured=True)
    assert (model._base_url, model._structured, model.secrets) == ("http://127.0.0.1:8080/v1", True, (KEY,))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("opnai:gpt", "no model is named 'opnai:gpt'"),
        ("opanai:gpt-5", r"no model is named 'opanai:gpt-5' \(did you mean 'openai:gpt-5'\?\)"),
        ("Anthropic:claude", r"did you mean 'anthropic:claude'\?"),
        ("locl", r"did you mean 'local'\?"),
        ("gpt-5-mini", "there are: openai:NAME"),
        ("openai", "no model is named 'openai'"),
        ("", "no model is named ''"),
        ("openai:", "comes the model's name"),
        ("openai://host/v1", r"an address is openai\+https://...#NAME"),
        ("openai+ftp://host/v1#m", r"openai\+http://HOST/...#NAME"),
        ("openai+https:#m", r"openai\+http://HOST/...#NAME"),
        ("openai+https://host/v1", "Add its name: #NAME"),
        ("openai+https://me:hunter22@host/v1#m", "holds no user or password"),
        ("openai+http:///v1#q", "a model's address is http://HOST"),
        ("openai+http://:8080/v1#q", "a model's address is http://HOST"),
        ("anthropic+http://host:65536/v1#q", "a port from 1 to 65535"),
        ("openai+https://host/v1?api_key=hunter22#m", r"has no \?\.\.\.: set REPRIEVE_MODEL_KEY"),
        ("openai+https://host/v1#m?api_key=hunter22", r"has no \?\.\.\.: set REPRIEVE_MODEL_KEY"),
        ("mystery+https://host/v1?api_key=hunter22", "no model is named 'mystery\\+https://host/v1'"),
        ("local:", "the path of a .gguf file"),
        ("local:/nowhere/to/be/found.gguf", "cannot be read: No such file"),
        (f"local:{__file__}", "is no .gguf file"),
    ],
)
def test_what_names_no_model_is_refused_with_what_would_be_right(text, words):
    with pytest.raises(UsageError, match=words) as caught:
        model_at(text)
    assert "hunter22" not in str(caught.value)


def test_a_password_in_a_name_that_is_not_known_is_not_repeated():
    with pytest.raises(UnknownNameError) as caught:
        model_at("mystery+https://me:hunter22@host/v1#m")
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
@pytest.mark.parametrize(
    "address",
    ["nope", "ftp://host/v1", "http:///v1", "http://", "http://host:65536/v1", "http://host:0/v1", "http://[broken/v1",
     "https://host/v1?api_key=hunter22", "https://host/v1#hunter22", "http://ho st/hunter22", "http://host/a\x00b"],
)  # fmt: skip
def test_an_address_that_leads_nowhere_is_refused_when_the_model_is_made(monkeypatch, kind, address):
    with pytest.raises(UsageError, match="a model's address") as caught:
        kind("m", base_url=address)
    assert "hunter22" not in str(caught.value)
    if "\0" not in address:
        monkeypatch.setenv(f"{kind.__name__.upper()}_BASE_URL", address)
        with pytest.raises(UsageError, match="a model's address"):
            kind("m")


@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
@pytest.mark.parametrize("prices", [1, (1,), (1, 2, 3), (-1, 2), (1, -0.5), ("1", "2"), "12", (float("nan"), 1), {}])
def test_prices_that_are_not_two_amounts_are_refused_when_the_model_is_made(kind, prices):
    with pytest.raises(UsageError, match="prices are two numbers"):
        kind("m", prices=prices)


@pytest.mark.parametrize("prices", [None, (0, 0), (1.0, 5.0), [1, 5], (10**400, 1)])
def test_other_prices_are_taken(prices):
    assert OpenAI("m", prices=prices)._prices == (None if prices is None else tuple(prices))


def test_what_is_no_text_names_no_model():
    with pytest.raises(UsageError, match="not by a NoneType"):
        model_at(None)


@pytest.mark.parametrize("make", [OpenAI, Anthropic, lambda name, **keys: model_at(f"openai:{name}", **keys)])
def test_a_key_is_known_to_redaction_the_moment_the_model_is_made(make):
    key = "key-of-a-test-0004"
    try:
        make("m", api_key=key)
        assert key not in reprieve.redact(f"the {key} is out")
    finally:
        forget_secrets()


def test_so_is_the_key_of_the_environment(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "key-of-a-test-0005")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    try:
        OpenAI("m"), Anthropic("m")
        assert reprieve.redact(f"{KEY}, key-of-a-test-0005").count("key-of-a-test") == 0
    finally:
        forget_secrets()


@pytest.mark.parametrize("kind", [OpenAI, Anthropic])
def test_the_class_that_registers_is_the_one_for_all_who_look_at_it(kind):
    made = getattr(importlib.import_module(f"reprieve.adapters.{kind.__name__.lower()}"), kind.__name__)
    assert repr(kind) == f"<class 'reprieve.models.{kind.__name__}'>"
    assert inspect.signature(kind) == inspect.signature(made)
    assert (kind.__doc__, kind.__init__.__doc__) == (made.__doc__, made.__init__.__doc__)
    assert isinstance(model_at(f"{kind.__name__.lower()}:m"), kind)
    assert isinstance(kind("m"), made)
    assert getattr(reprieve.models, kind.__name__) is kind


def test_importing_a_class_loads_no_rules_of_redaction():
    done = run("import sys\nfrom reprieve.models import OpenAI\nprint('re2' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr
