"""Values that nobody changes, made by the hundred thousand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def value(kind: type[T]) -> type[T]:
    """A slotted dataclass, by keyword, that type checkers hold to be frozen.

    Freezing it at run time too would make each of its fields cost a call of `object.__setattr__`: more than a
    microsecond for a value of eight, several times a job.
    """
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(kind)
