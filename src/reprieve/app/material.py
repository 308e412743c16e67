"""What a reviewer needs of a failure, where it brought something."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from reprieve.errors import Unusable
from reprieve.ports.intents import Material

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_CHAIN: Final = 20


def material_of(exc: BaseException) -> Material | None:
    """Of an answer that nobody can use, also where it stands further down in the chain; None where there is none."""
    seen: BaseException | None = exc
    for _ in range(_LONGEST_CHAIN):
        if seen is None:
            return None
        if isinstance(seen, Unusable):
            return as_given(seen.material)
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return None


def as_given(material: Mapping[str, object]) -> Material:
    """The parts of it, each as JSON; without samples, what was asked is what the model was shown."""
    question = material.get("question")
    return Material(
        schema=_json(material.get("schema")),
        samples=_json(material.get("samples") or ([question] if question else [])),
        answers=_json(material.get("answers")),
    )


def _json(value: object) -> bytes | None:
    if value is None:
        return None
    return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace")
