"""Who is asked, and what a model of your own is made of; each is loaded when it is first used.

from reprieve.models import Anthropic, LocalModel, OpenAI, Prompt, model_at
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, cast

from reprieve.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reprieve.adapters.anthropic import Anthropic
    from reprieve.adapters.localmodel import LocalModel
    from reprieve.adapters.openai import OpenAI
    from reprieve.ports.modelling import Finish, Model, Prompt, Reply, Role, Turn, Usage

_HOMES: Final = {
    "adapters.anthropic": "Anthropic",
    "adapters.localmodel": "LocalModel",
    "adapters.openai": "OpenAI",
    "ports.modelling": "Finish Model Prompt Reply Role Turn Usage",
}
_HOME_OF: Final = {name: f"reprieve.{home}" for home, names in _HOMES.items() for name in names.split()}
_EXTRA_OF: Final = {"Anthropic": "anthropic", "LocalModel": "local", "OpenAI": "openai"}
_HOLD_KEYS: Final = frozenset({"Anthropic", "OpenAI"})
_CLASS_OF: Final = {"openai": "OpenAI", "anthropic": "Anthropic"}
_KEY: Final = "REPRIEVE_MODEL_KEY"
"""The key of an endpoint that is named by its address: whoever sets it means that endpoint."""
_FORMS: Final = ("openai:NAME", "anthropic:NAME", "openai+https://HOST/v1#NAME", "local", "local:/path/to/model.gguf")

__all__ = [  # written out for type checkers and readers; a test keeps it equal to the homes above
    "Anthropic",
    "Finish",
    "LocalModel",
    "Model",
    "OpenAI",
    "Prompt",
    "Reply",
    "Role",
    "Turn",
    "Usage",
    "model_at",
]


def model_at(text: str, **settings: Any) -> Model:  # noqa: ANN401 - what the model's own class takes
    """The model that a setting names; `settings` go to its class.

    `openai:gpt-5-mini`, `anthropic:claude-haiku-4-5`, `openai+http://127.0.0.1:8080/v1#qwen3` (any endpoint that speaks
    OpenAI's protocol), `local` (the embedded model), `local:/path/to/model.gguf`.
    """
    if not isinstance(text, str):
        raise UsageError(f"a model is named by a text, such as openai:NAME or local, not by a {type(text).__name__}")
    text = text.strip()
    scheme, colon, rest = text.partition(":")
    kind, plus, transport = scheme.partition("+")
    if kind == "local" and not plus:
        if colon and not rest:
            raise UsageError("after local: comes the path of a .gguf file; `local` alone is the embedded model")
        return _class_of("LocalModel")(*([rest] if rest else []), **settings)
    if kind not in _CLASS_OF or (not colon and kind):
        raise UnknownNameError("model", _without_secrets(text), _forms_near(kind, rest))
    if not plus:
        if not rest or rest.startswith("//"):
            raise UsageError(
                f"after {kind}: comes the model's name at the provider; an address is {kind}+https://...#NAME"
            )
        return _class_of(_CLASS_OF[kind])(rest, **settings)
    return _at_address(kind, transport, rest, settings)


def _at_address(kind: str, transport: str, rest: str, settings: dict[str, Any]) -> Model:
    address, _, name = rest.partition("#")
    if transport not in {"http", "https"} or not address.startswith("//") or not address.strip("/"):
        raise UsageError(f"a model's address is {kind}+http://HOST/...#NAME or {kind}+https://HOST/...#NAME")
    if "@" in address:
        raise UsageError("a model's address holds no user or password: set the provider's variable, or give api_key=")
    if "?" in rest:
        raise UsageError("a model's address has no ?...: set REPRIEVE_MODEL_KEY or give api_key= if it wants a key")
    if not name:
        raise UsageError("which model at that address? Add its name: #NAME")
    if settings.get("api_key") is None:
        settings["api_key"] = os.environ.get(_KEY)
    return _class_of(_CLASS_OF[kind])(name, base_url=f"{transport}:{address}", **settings)


def _forms_near(kind: str, rest: str) -> tuple[str, ...]:
    """The forms that there are; the one that was meant, if one is near, with the name that was given."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    near = get_close_matches(kind.casefold(), _CLASS_OF, n=1)
    if not near or not rest or rest.startswith("//"):
        return _FORMS
    return tuple(f"{near[0]}:{rest}" if form == f"{near[0]}:NAME" else form for form in _FORMS)


def _without_secrets(text: str) -> str:
    """Without a user and password, and without a query, which may hold a key."""
    before, at, after = text.partition("?")[0].rpartition("@")
    return f"...@{after}" if at and before else f"{before}{at}{after}"


def _class_of(name: str) -> Callable[..., Model]:
    return cast("Callable[..., Model]", globals().get(name) or __getattr__(name))


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'reprieve.models' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only when a name is first used

    try:
        value: object = getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if name not in _EXTRA_OF or str(error.name).partition(".")[0] == "reprieve":
            raise
        raise ImportError(
            f"{name} needs {error.name}: pip install 'reprieve[{_EXTRA_OF[name]}]'", name=error.name
        ) from error
    if name in _HOLD_KEYS:
        from reprieve.app.secrecy import keeping_secrets  # noqa: PLC0415 - the same

        value = keeping_secrets(cast("type", value), "model")
    return globals().setdefault(name, value)  # another thread may have been here at the same time


def __dir__() -> list[str]:
    return sorted(__all__)
