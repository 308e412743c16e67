"""Which schemas OpenAI holds its models to, to the letter."""

from __future__ import annotations

from typing import Final

_UNSTRICT: Final = frozenset({
    "allOf", "contains", "dependentRequired", "dependentSchemas", "else", "if", "maxProperties", "minProperties", "not",
    "oneOf", "patternProperties", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
})  # fmt: skip
"""Keywords that its strict mode refuses."""


def is_strict(schema: object) -> bool:
    """Whether strict mode takes it: an object at the top, every object closed and all of its properties required."""
    return isinstance(schema, dict) and schema.get("type") == "object" and _takes(schema)


def _takes(schema: object) -> bool:
    match schema:
        case dict():
            properties = schema.get("properties")
            if schema.get("type") == "object" or isinstance(properties, dict):
                names = set(properties) if isinstance(properties, dict) else set()
                if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != names:
                    return False
            below = [*(properties.values() if isinstance(properties, dict) else ())]
            below += [value for key, value in schema.items() if key not in {"properties", "const", "enum", "examples"}]
            return not (schema.keys() & _UNSTRICT) and all(_takes(each) for each in below)
        case list():
            return all(_takes(each) for each in schema)
        case _:
            return True
