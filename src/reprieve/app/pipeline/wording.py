"""What is wrong with a value, in words that hold none of it.

Of a place only the names of fields and the numbers of items are shown; the key of a mapping is the user's data, and shown
as `*`. Of pydantic's messages those are shown that are made from the type alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_PROBLEMS: Final = 3
_DEEPEST: Final = 10
_PLAIN_CONTEXT: Final = frozenset({
    "actual_length", "class", "class_name", "decimal_places", "discriminator", "expected", "expected_schemes", "expected_tags",
    "field_type", "ge", "gt", "le", "lt", "max_digits", "max_length", "min_length", "multiple_of", "pattern", "tz_expected",
    "whole_digits",
})  # fmt: skip
"""What pydantic puts into a message from the type; all else may come from the value."""
_MODULES: Final = re.compile(r"\b(?:\w+\.(?:<locals>\.)?)+(?=\w)")
_UNKNOWN_TYPE: Final = re.compile(r"Unable to serialize unknown type: <class '([\w.<>]+)'>")
_REASONS: Final = {
    "UnicodeEncodeError": "text with a lone surrogate, which UTF-8 cannot carry",
    "Circular reference": "a value that holds itself",
    "depth exceeded": "too many values inside one another",
    "invalid utf-8": "bytes that are not UTF-8 in a model whose ser_json_bytes and val_json_bytes are not 'base64'",
}

Path = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Wording:
    """Speaks of the values of one type; each answer continues a sentence: "the payload ..."."""

    type_name: str
    field_names: frozenset[str]

    def misfit(self, failure: Exception, value: object) -> str:
        """Why a value does not fit its type."""
        _ = value
        return f"does not fit {self.type_name}: {self._told(failure)}"

    def unreadable(self, failure: Exception, value: object) -> str:
        """Why what was written could not be read back."""
        _ = value
        return f"fits {self.type_name}, but could not be read back from its JSON: {self._told(failure)}"

    def unwritable(self, failure: Exception, value: object) -> str:
        """Why a value cannot be written as JSON."""
        text = str(failure)
        if (unknown := _UNKNOWN_TYPE.search(text)) is not None:
            reason = f"something of class {unknown[1]}, which has no form in JSON"
        else:
            reason = next((words for sign, words in _REASONS.items() if sign in text), type(failure).__name__)
        return f"cannot be written as the JSON of {self.type_name}: it holds {reason}{self._at(_culprit(value))}"

    def change(self, given: object, back: object) -> str | None:
        """What would come back from JSON as something else; None where nothing would."""
        found = _difference(given, back, ())
        if found is None:
            return None
        path, was, becomes = found
        kinds = type(was).__name__, type(becomes).__name__
        words = f"a {kinds[0]} as a {kinds[1]}" if kinds[0] != kinds[1] else f"a {kinds[0]} as another one"
        return (
            f"fits {self.type_name}, but would come back changed from JSON: {words}{self._at(path)}; declare its type"
        )

    def _told(self, failure: Exception) -> str:
        from pydantic import ValidationError  # noqa: PLC0415 - heavy, and loaded by now

        if not isinstance(failure, ValidationError):
            return f"{type(failure).__name__} in a validator"
        errors = failure.errors(include_url=False, include_input=False)
        told = [
            self._problem(error["loc"], error["type"], error["msg"], error.get("ctx", {}))
            for error in errors[:_MOST_PROBLEMS]
        ]
        more = len(errors) - len(told)
        return "; ".join(told) + (f"; and {more} more" if more > 0 else "")

    def _problem(self, path: Path, kind: str, message: str, context: dict[str, Any]) -> str:
        from pydantic_core.core_schema import ErrorType  # noqa: PLC0415 - the same

        plain = kind in get_args(ErrorType) and context.keys() <= _PLAIN_CONTEXT
        return f"{message if plain else kind.replace('_', ' ')}{self._at(path)}"

    def _at(self, path: Path) -> str:
        shown = ".".join(str(part) if isinstance(part, int) or part in self.field_names else "*" for part in path)
        return f" (at {shown})" if shown else ""


def shown_type(annotation: Any) -> str:  # noqa: ANN401 - any annotation
    """A type as it is written in a program, without the modules."""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    return _MODULES.sub("", str(annotation))


def first_line(failure: Exception) -> str:
    """What an exception about a type says, in one line."""
    return str(failure).partition("\n")[0] or type(failure).__name__


def _culprit(value: object, deepest: int = _DEEPEST) -> Path:
    """Where the first part of a value is that JSON refuses."""
    from pydantic_core import to_json  # noqa: PLC0415 - the same

    for key, part in _parts(value) if deepest else ():
        try:
            to_json(part, bytes_mode="base64")
        except Exception:  # noqa: BLE001 - whatever it is: here it is
            return (key, *_culprit(part, deepest - 1))
    return ()


def _parts(value: object) -> Iterable[tuple[int | str, object]]:
    match value:
        case dict():
            return [(_key(key), part) for key, part in value.items()]
        case list() | tuple():
            return list(enumerate(value))
        case _:
            return [(name, getattr(value, name, None)) for name in _fields(value) or ()]


def _fields(value: object) -> tuple[str, ...] | None:
    """The fields that are written of a dataclass or a model."""
    if is_dataclass(value):
        return tuple(field.name for field in fields(value))
    own = getattr(type(value), "model_fields", None)
    return None if own is None else tuple(name for name, field in own.items() if not field.exclude)


def _difference(given: object, back: object, path: Path) -> tuple[Path, object, object] | None:
    """The first place at which two values differ, NaN being itself, and what is there."""
    pairs: list[tuple[int | str, object, object]]
    match given, back:
        case dict() as left, dict() as right if left.keys() == right.keys():
            pairs = [(_key(key), part, right[key]) for key, part in left.items()]
        case (list() as left, list() as right) | (tuple() as left, tuple() as right) if len(left) == len(right):
            pairs = [(index, *both) for index, both in enumerate(zip(left, right, strict=True))]
        case float() as left, float() as right if left != left and right != right:  # noqa: PLR0124 - only NaN is not itself
            return None
        case _ if isinstance(given, type(back)) and (names := _fields(back)) is not None:
            pairs = [(name, getattr(given, name, None), getattr(back, name, None)) for name in names]
        case _:
            return None if _equal(given, back) else (path, given, back)
    differences = (_difference(mine, theirs, (*path, key)) for key, mine, theirs in pairs)
    return next((found for found in differences if found is not None), None)


def _key(key: object) -> str:
    return key if isinstance(key, str) else "*"


def _equal(left: object, right: object) -> bool:
    try:
        return bool(left == right)
    except Exception:  # noqa: BLE001 - a comparison of a user's own
        return False
