"""Fingerprints of types: the same everywhere, another where another value fits; and types that cannot be stored."""

import dataclasses
import datetime as dt
import enum
import inspect
import subprocess
import sys
import uuid
from typing import Annotated, Any, Literal

import pydantic
import pytest
from typing_extensions import TypedDict

from reprieve.app.pipeline.values import TypeCodec
from reprieve.errors import ResultError, UsageError


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


@dataclasses.dataclass
class File:
    path: str
    data: bytes = b""
    size: float | None = None


@dataclasses.dataclass
class Change:
    number: int
    files: list[File]
    parent: "Change | None" = None


class Entry(TypedDict):
    day: dt.date


class Review(pydantic.BaseModel):
    summary: str


def test_one_type_has_one_codec():
    assert TypeCodec.of(list[File]) is TypeCodec.of(list[File])
    unhashable = Annotated[int, pydantic.Field(json_schema_extra={"x": 1}), []]
    assert TypeCodec.of(unhashable).encode(3) == b"3"


def test_no_annotation_and_object_are_any():
    assert {TypeCodec.of(each).fingerprint for each in (Any, object, inspect.Parameter.empty)} == {"any"}


def test_a_fingerprint_is_short_and_carries_its_version():
    assert TypeCodec.of(Change).fingerprint.startswith("v1:")
    assert len(TypeCodec.of(Change).fingerprint) == len("v1:") + 16


def test_different_shapes_have_different_fingerprints():
    kinds = [int, str, bool, float, None, bytes, dt.date, dt.datetime, uuid.UUID, Colour, Change, File, Entry, Review]
    kinds += [
        list[int],
        set[int],
        dict[str, int],
        tuple[int, bytes],
        int | str,
        int | None,
        list[Change],
        Literal["a"],
        Any,
    ]
    assert len({TypeCodec.of(each).fingerprint for each in kinds}) == len(kinds)


def _record(fields, namespace=None, name="Record", **options):
    return dataclasses.make_dataclass(name, fields, namespace=namespace, **options)


def test_what_is_only_for_readers_does_not_change_a_fingerprint():
    plain = TypeCodec.of(_record([("left", int), ("right", str)])).fingerprint
    documented = _record([("left", int), ("right", str)])
    documented.__doc__ = "Now with words."
    assert TypeCodec.of(documented).fingerprint == plain
    assert TypeCodec.of(_record([("right", str), ("left", int)])).fingerprint == plain, "the order of fields"
    described = _record([("left", Annotated[int, pydantic.Field(description="x", title="y")]), ("right", str)])
    assert TypeCodec.of(described).fingerprint == plain
    assert TypeCodec.of(_record([("left", int), ("title", str)])).fingerprint != plain, "a field may be named title"
    assert TypeCodec.of(_record([("left", int)])).fingerprint != plain
    assert TypeCodec.of(_record([("left", int), ("right", bytes)])).fingerprint != plain


def test_the_order_of_a_union_does_not_change_a_fingerprint():
    assert TypeCodec.of(list[File | Entry]).fingerprint == TypeCodec.of(list[Entry | File]).fingerprint


def test_a_fingerprint_is_the_same_in_every_process():
    program = (
        "import dataclasses\nfrom reprieve.app.pipeline.values import TypeCodec\n"
        "@dataclasses.dataclass\nclass File:\n    path: str\n    data: bytes = b''\n    size: float | None = None\n"
        "print(TypeCodec.of(File).fingerprint, TypeCodec.of(set[str] | dict[str, list[int]]).fingerprint)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True, timeout=60
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    here = f"{TypeCodec.of(File).fingerprint} {TypeCodec.of(set[str] | dict[str, list[int]]).fingerprint}\n"
    assert outputs == {here}


def test_a_type_without_a_json_schema_goes_by_its_name():
    class Silent(pydantic.BaseModel):
        value: int

        @classmethod
        def __get_pydantic_json_schema__(cls, schema, handler):
            raise RuntimeError("no schema")

    codec = TypeCodec.of(Silent)
    assert codec.fingerprint.startswith("v1:")
    assert codec.decode(codec.encode(Silent(value=1))) == Silent(value=1)
    with pytest.raises(ResultError, match=r"\(at \*\)"):
        codec.encode({"value": "x"})


def test_a_default_that_json_does_not_have_is_no_hindrance():
    @dataclasses.dataclass
    class WithDefault:
        colour: Any = object

    assert TypeCodec.of(WithDefault).fingerprint.startswith("v1:")


class Unfinished(pydantic.BaseModel):
    other: "NowhereDefined"  # noqa: F821 - that is the point


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (type("Socket", (), {}), "Socket cannot be stored as JSON: Unable to generate pydantic-core schema"),
        (list[type("Socket", (), {})], "cannot be stored as JSON"),
        ("Nowhere", "Nowhere cannot be stored as JSON: it names a type that is not defined"),
        (Unfinished, "Unfinished cannot be stored as JSON: it names a type that is not defined"),
    ],
    ids=["class", "inside", "name", "forward"],
)
def test_a_type_that_json_cannot_carry_is_refused_at_once(declared, message):
    with pytest.raises(UsageError, match=message):
        TypeCodec.of(declared)
