"""Retries inside retries: five times five attempts is nobody's policy, so the outer one is told of the inner."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from reprieve.core.facts import attribute

if TYPE_CHECKING:
    from types import FrameType

WarningRegistry = dict[str | tuple[str, type[Warning], int], int]

_MARK: Final = "__reprieve_gave_up__"
_DEEPEST_CAUSE: Final = 50


class NestedRetryWarning(UserWarning):
    """A retry stopped because one below it had already given up; said once per place."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a retry stands in the source: a name for people, an identity for marks, a line for warnings."""

    name: str
    identity: int
    file: str
    line: int
    warned: WarningRegistry
    """What the `warnings` module remembers, so that it says a thing once."""


def place_of_function(function: object) -> Place:
    """The place of a decorated function; each decoration is one of its own."""
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None) or "?"
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else (module, 0)
    warned: WarningRegistry = {}
    return Place(f"{module}.{name}", id(warned), file, line, warned)


def place_of_block(frame: FrameType, stage: str) -> Place:
    """The place of a `with attempt:`; the function around it is its name, unless a stage was given."""
    code = frame.f_code
    name = stage or f"{frame.f_globals.get('__name__', '?')}.{code.co_qualname}"
    warned = frame.f_globals.setdefault("__warningregistry__", {})
    return Place(name, hash((id(code), frame.f_lineno)), code.co_filename, frame.f_lineno, warned)


def mark(error: BaseException, place: Place) -> None:
    """Leave word on an exception that this place gave it up."""
    # A number, not the place itself: exceptions are pickled. Some refuse attributes; then nobody is told.
    with suppress(Exception):
        setattr(error, _MARK, place.identity)


def gave_up_below(error: BaseException, place: Place) -> bool:
    """Whether another place gave up this exception, or one that it was raised from.

    A mark of our own is an old one: the same exception object was raised again. What is merely in `__context__` may be
    the failure of a fallback, which nobody has retried yet.
    """
    link: BaseException | None = error
    for _ in range(_DEEPEST_CAUSE):
        if link is None:
            return False
        left_by = attribute(link, _MARK)
        if left_by is not None:
            return bool(left_by != place.identity)
        link = link.__cause__
    return False


def warn_nested(place: Place) -> None:
    """Say once per place that its retry is not alone; where warnings are errors, the failure at hand still goes first."""
    with suppress(NestedRetryWarning):
        warnings.warn_explicit(
            f"{place.name} stopped without retrying: a retry below it had already given up. "
            'Keep one of the two, or say nested="retry" to multiply their attempts.',
            NestedRetryWarning,
            place.file,
            place.line,
            registry=place.warned,
        )
