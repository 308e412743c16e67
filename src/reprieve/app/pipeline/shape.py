"""The shape of a type: what its JSON looks like, as a fingerprint that is the same everywhere."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_FOR_READERS: Final = frozenset({"title", "description", "examples", "deprecated", "default"})
"""Keys of a JSON schema that say nothing about which values fit."""
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs"})
"""Keys that hold schemas under names of the user's choice."""
_UNORDERED: Final = frozenset({"required", "anyOf", "oneOf", "allOf", "enum"})


def schema_of(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """The JSON schema of what is written; empty where the type has none."""
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415 - heavy: not before a type is declared

    class Quiet(GenerateJsonSchema):
        def emit_warning(self, kind: Any, detail: str) -> None:  # noqa: ANN401 - pydantic's own
            """Say nothing: a default that JSON does not have is no concern of a shape."""

    try:
        return adapter.json_schema(mode="serialization", by_alias=False, schema_generator=Quiet)
    except Exception:  # noqa: BLE001 - a user's own hooks for the schema run here; the type works without one
        return {}


def fingerprint_of(adapter: TypeAdapter[Any], name: str) -> str:
    """The fingerprint of a type's shape, or of its name where the shape cannot be told."""
    shape = _canonical(schema_of(adapter)) or name
    text = json.dumps(shape, sort_keys=True, separators=(",", ":"), default=repr)
    return f"v1:{sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:16]}"


def names_in(schema: object) -> frozenset[str]:
    """The names of all fields that a type has, at any depth."""
    match schema:
        case dict():
            own = schema.get("properties")
            names = frozenset(own) if isinstance(own, dict) else frozenset[str]()
            return names.union(*(names_in(value) for value in schema.values()))
        case list():
            return frozenset[str]().union(*(names_in(value) for value in schema))
        case _:
            return frozenset()


def _canonical(schema: object) -> Any:  # noqa: ANN401 - JSON
    match schema:
        case dict():
            return {key: _under(key, value) for key, value in schema.items() if key not in _FOR_READERS}
        case list():
            return [_canonical(each) for each in schema]
        case _:
            return schema


def _under(key: str, value: object) -> object:
    if key in _NAMED and isinstance(value, dict):
        return {name: _canonical(each) for name, each in value.items()}
    canonical = _canonical(value)
    if key in _UNORDERED and isinstance(canonical, list):
        return sorted(canonical, key=lambda each: json.dumps(each, sort_keys=True, default=repr))
    return canonical
