"""What a reviewer needs of a failure, where it brought something."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from reprieve.errors import Unusable
from reprieve.ports.intents import Material

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_LINKS: Final = 100


def material_of(exc: BaseException) -> Material | None:
    """Of the answers that nobody can use, also where they stand further down in the chain or in a group; None where there are none."""
    found = [unusable.material for unusable in _unusable(exc)]
    if len(found) < 2:  # noqa: PLR2004 - one is shown as it is
        return as_given(found[0]) if found else None
    return as_given({
        "schema": found[0].get("schema"),
        "samples": [each for material in found for each in _listed(material, "samples") or _listed(material, "question")],
        "answers": [each for material in found for each in _listed(material, "answers")],
    })  # fmt: skip


def _unusable(exc: BaseException) -> list[Unusable]:
    """Those in the chain and in its groups, in order; a chain that bites its tail ends."""
    found: list[Unusable] = []
    waiting, seen = [exc], set[int]()
    while waiting and len(seen) < _MOST_LINKS:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        if isinstance(link, Unusable):
            found.append(link)
            continue
        if isinstance(link, BaseExceptionGroup):
            waiting += link.exceptions
        below = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        if below is not None:
            waiting.append(below)
    return found


def _listed(material: Mapping[str, object], name: str) -> list[object]:
    value = material.get(name)
    return value if isinstance(value, list) else [value] if value else []


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
