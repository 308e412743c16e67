"""Arrays in PostgreSQL's binary form, written a whole array at a time.

The driver's own way looks at the type of each element, which costs more than all the rest of a batch. These are lists, so
that another driver, or a connection that was not taught, sends them its own way.
"""

from __future__ import annotations

from itertools import chain, repeat
from struct import Struct, pack
from typing import TYPE_CHECKING, Any, Final

from psycopg.adapt import Dumper
from psycopg.pq import Format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection

_HEAD: Final = Struct("!iiiii")
_LENGTH: Final = Struct("!i").pack
_NULL: Final = _LENGTH(-1)


class BigInts(list[int]):
    """`bigint[]`."""


class Ints(list[int]):
    """`int[]`."""


class Floats(list[float]):
    """`float8[]`."""


class MaybeFloats(list["float | None"]):
    """`float8[]` in which some are NULL."""


class Texts(list[str]):
    """`text[]`."""


class MaybeTexts(list["str | None"]):
    """`text[]` in which some are NULL."""


class Blobs(list[bytes]):
    """`bytea[]`."""


def register(connection: AsyncConnection[Any]) -> None:
    """Teach a connection to send them."""
    for kind, dumper in _DUMPERS.items():
        connection.adapters.register_dumper(kind, dumper)


class _ArrayDumper(Dumper):
    format = Format.BINARY


class _BigIntsDumper(_ArrayDumper):
    def dump(self, obj: BigInts) -> bytes:
        return _fixed(20, 8, "q", obj)


class _IntsDumper(_ArrayDumper):
    def dump(self, obj: Ints) -> bytes:
        return _fixed(23, 4, "i", obj)


class _FloatsDumper(_ArrayDumper):
    def dump(self, obj: Floats) -> bytes:
        return _fixed(_FLOAT8, 8, "d", obj)


class _MaybeFloatsDumper(_ArrayDumper):
    def dump(self, obj: MaybeFloats) -> bytes:
        parts = [_NULL if each is None else pack("!id", 8, each) for each in obj]
        return _head(_FLOAT8, len(obj), has_null=True) + b"".join(parts)


class _TextsDumper(_ArrayDumper):
    def dump(self, obj: Texts) -> bytes:
        return _varying(_TEXT, [each.encode() for each in obj])


class _MaybeTextsDumper(_ArrayDumper):
    def dump(self, obj: MaybeTexts) -> bytes:
        encoded = [None if each is None else each.encode() for each in obj]
        parts = [_NULL if each is None else _LENGTH(len(each)) + each for each in encoded]
        return _head(_TEXT, len(obj), has_null=True) + b"".join(parts)


class _BlobsDumper(_ArrayDumper):
    def dump(self, obj: Blobs) -> bytes:
        return _varying(17, obj)


_TEXT: Final = 25
_FLOAT8: Final = 701
_DUMPERS: Final[dict[type, type[Dumper]]] = {
    BigInts: _BigIntsDumper, Ints: _IntsDumper, Floats: _FloatsDumper, MaybeFloats: _MaybeFloatsDumper, Texts: _TextsDumper,
    MaybeTexts: _MaybeTextsDumper, Blobs: _BlobsDumper,
}  # fmt: skip


def _fixed(oid: int, size: int, code: str, values: Sequence[float]) -> bytes:
    elements = pack(f"!{f'i{code}' * len(values)}", *chain.from_iterable(zip(repeat(size), values, strict=False)))
    return _head(oid, len(values)) + elements


def _varying(oid: int, values: Sequence[bytes]) -> bytes:
    return _head(oid, len(values)) + b"".join([part for each in values for part in (_LENGTH(len(each)), each)])


def _head(oid: int, count: int, *, has_null: bool = False) -> bytes:
    """One dimension, whether there are NULLs, the elements' type, how many, the first one's number."""
    return _HEAD.pack(1, has_null, oid, count, 1)
