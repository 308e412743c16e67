"""Typed values become bytes and come back equal, or are refused by place and type, never by value."""

import dataclasses
import datetime as dt
import enum
import math
import uuid
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from reprieve.app.judging import classify
from reprieve.app.pipeline.values import TypeCodec
from reprieve.errors import Misfit, PayloadError, ResultError


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


@dataclasses.dataclass(frozen=True, slots=True)
class File:
    path: str
    data: bytes = b""
    size: float | None = None


@dataclasses.dataclass
class Change:
    number: int
    files: list[File]
    tags: set[str] = dataclasses.field(default_factory=set)
    parent: "Change | None" = None


class Entry(TypedDict):
    amount: Decimal
    day: dt.date


class Point(NamedTuple):
    left: int
    right: int


class Review(pydantic.BaseModel):
    summary: str = pydantic.Field(alias="summaryText")
    score: float = 0.0
    at: dt.datetime | None = None

    @pydantic.computed_field
    @property
    def length(self) -> int:
        return len(self.summary)


text = st.text(st.characters(exclude_categories=["Cs"]))
zones = st.none() | st.timezones()
files = st.builds(File, path=text, data=st.binary(), size=st.none() | st.floats(allow_nan=False))
changes = st.recursive(
    st.builds(Change, number=st.integers(), files=st.lists(files), tags=st.sets(text)),
    lambda inner: st.builds(Change, number=st.integers(), files=st.lists(files), tags=st.sets(text), parent=inner),
    max_leaves=3,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner) | st.dictionaries(text, inner),
    max_leaves=10,
)
moments = st.datetimes(timezones=zones, allow_imaginary=False).filter(lambda at: _whole_minutes(at.utcoffset()))


def _whole_minutes(offset):
    return offset is None or offset.total_seconds() % 60 == 0


VALUES = {
    "int": (int, st.integers()),
    "bool": (bool, st.booleans()),
    "float": (float, st.floats(allow_nan=False)),
    "str": (str, text),
    "None": (None, st.none()),
    "bytes": (bytes, st.binary()),
    "Decimal": (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    "date": (dt.date, st.dates()),
    "datetime": (dt.datetime, moments),
    "time": (dt.time, st.times()),
    "timedelta": (dt.timedelta, st.timedeltas(dt.timedelta(days=-999_999), dt.timedelta(days=999_999))),
    "UUID": (uuid.UUID, st.uuids()),
    "path": (PurePosixPath, st.lists(text.filter(lambda part: "\0" not in part)).map(lambda parts: PurePosixPath(*parts))),
    "enum": (Colour, st.sampled_from(Colour)),
    "literal": (Literal["a", 1] | None, st.sampled_from(["a", 1, None])),
    "tuple": (tuple[int, ...], st.lists(st.integers()).map(tuple)),
    "pair": (tuple[int, bytes], st.tuples(st.integers(), st.binary())),
    "named tuple": (Point, st.builds(Point, st.integers(), st.integers())),
    "set": (set[int], st.sets(st.integers())),
    "frozenset": (frozenset[str], st.frozensets(text)),
    "dict of ints": (dict[int, str], st.dictionaries(st.integers(), text)),
    "dict of dates": (dict[dt.date, bytes], st.dictionaries(st.dates(), st.binary())),
    "union": (int | str | None, st.integers() | text | st.none()),
    "dataclass": (Change, changes),
    "dataclasses in a list": (list[File], st.lists(files)),
    "TypedDict": (Entry, st.fixed_dictionaries({"amount": st.decimals(allow_nan=False, allow_infinity=False), "day": st.dates()})),
    "model": (Review, st.builds(lambda words, score: Review(summaryText=words, score=score), text, st.floats(allow_nan=False, allow_infinity=False))),
    "annotated": (Annotated[int, pydantic.Field(ge=0)], st.integers(min_value=0)),
    "dict of anything": (dict[str, Any], st.dictionaries(text, json_values)),
    "anything": (Any, json_values),
}  # fmt: skip


@pytest.mark.parametrize(("declared", "values"), VALUES.values(), ids=VALUES)
@given(data=st.data())
def test_a_value_of_its_type_comes_back_equal(declared, values, data):
    value = data.draw(values)
    codec = TypeCodec.of(declared)
    back = codec.decode(codec.encode(value))
    assert back == value
    assert type(back) is type(value)


python_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.dates()
    | st.decimals()
    | files,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.frozensets(st.integers())
    ),
    max_leaves=6,
)


@given(python_values)
def test_what_has_no_declared_type_comes_back_equal_or_is_refused(value):
    codec = TypeCodec.of(Any)
    try:
        data = codec.encode(value)
    except ResultError:
        return
    assert _same(codec.decode(data), value)


def _same(left, right):
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    return left == right


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
@pytest.mark.parametrize("declared", [float, Any, list[float], dict[str, Any]], ids=str)
def test_what_is_no_number_comes_back(declared, value):
    given_value = {"x": value} if declared == dict[str, Any] else [value] if declared == list[float] else value
    codec = TypeCodec.of(declared)
    assert _same(codec.decode(codec.encode(given_value)), given_value)


@dataclasses.dataclass
class Measure:
    value: float


@dataclasses.dataclass(eq=False)
class Identity:
    value: int


def test_what_is_not_equal_to_itself_is_compared_by_its_parts():
    codec = TypeCodec.of(Measure)
    assert math.isnan(codec.decode(codec.encode(Measure(math.nan))).value)
    other = TypeCodec.of(list[Identity])
    assert other.decode(other.encode([Identity(3)]))[0].value == 3


def test_a_value_is_brought_to_its_type_before_it_is_written():
    codec = TypeCodec.of(Change)
    given_value = {"number": "7", "files": [{"path": "a.py"}]}
    assert codec.decode(codec.encode(given_value)) == Change(7, [File("a.py")])


def test_an_instance_is_validated_too():
    with pytest.raises(ResultError, match=r"does not fit Change: Input should be a valid integer.* \(at number\)"):
        TypeCodec.of(Change).encode(Change(number="seven", files=[]))


def test_of_a_subclass_the_declared_part_is_kept():
    @dataclasses.dataclass
    class Signed(Measure):
        unit: str = "m"

    codec = TypeCodec.of(Measure)
    assert codec.decode(codec.encode(Signed(1.5))) == Measure(1.5)


def test_the_aliases_of_a_model_are_read_and_its_names_are_written():
    codec = TypeCodec.of(Review)
    assert codec.decode(b'{"summaryText": "fine"}') == Review(summaryText="fine")
    assert codec.encode(Review(summaryText="fine")) == b'{"summary":"fine","score":0.0,"at":null}'


SECRET = "hidden-value"


class Strict(pydantic.BaseModel):
    name: str
    kind: Literal["a", "b"] = "a"
    flag: float = 0.0

    @pydantic.field_validator("name")
    @classmethod
    def refuse(cls, value: str) -> str:
        if value.startswith("key"):
            raise KeyError(value)
        if value.startswith("custom"):
            raise pydantic_core_custom(value)
        if value != "good":
            raise ValueError(f"{value} is not good")
        return value


def pydantic_core_custom(value):
    return PydanticCustomError("own_kind", "refused {value}", {"value": value})


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"


Pet = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]
circle: list[Any] = []
circle.append(circle)
deep: list[Any] = []
for _ in range(1000):
    deep = [deep]

REFUSED = [
    (int, SECRET, "does not fit int: Input should be a valid integer, unable to parse string as an integer"),
    (Change, {"number": 1, "files": [{"data": "x"}]}, "does not fit Change: Field required (at files.0.path)"),
    (Change, {"number": SECRET, "files": SECRET, "tags": SECRET, "parent": SECRET}, "and 1 more"),
    (dict[str, int], {SECRET: 1, "other": SECRET}, "does not fit dict[str, int]: Input should be a valid integer, unable to parse string as an integer (at *)"),
    (Strict, {"name": SECRET}, "does not fit Strict: value error (at name)"),
    (Strict, {"name": f"key{SECRET}"}, "does not fit Strict: KeyError in a validator"),
    (Strict, {"name": f"custom{SECRET}"}, "does not fit Strict: own kind (at name)"),
    (Strict, {"name": "good", "kind": SECRET}, "does not fit Strict: Input should be 'a' or 'b' (at kind)"),
    (Strict, Strict(name="good", flag=math.nan), "fits Strict, but could not be read back from its JSON: Input should be a valid number (at flag)"),
    (Pet, {"kind": SECRET}, "union tag invalid"),
    (uuid.UUID, SECRET, "does not fit UUID: uuid parsing"),
    (str, "\ud800", "cannot be written as the JSON of str: it holds text with a lone surrogate, which UTF-8 cannot carry"),
    (Any, {"fine": 1, "a": [0, {"b": "\udfff"}]}, "it holds text with a lone surrogate, which UTF-8 cannot carry (at *.1.*)"),
    (Any, circle, "it holds a value that holds itself"),
    (Any, deep, "it holds too many values inside one another"),
    (Any, 10**5000, "could not be read back from its JSON"),
    (Any, object(), "it holds something of class object, which has no form in JSON"),
    (list[Any], [1, object()], "of list[Any]: it holds something of class object, which has no form in JSON (at 1)"),
    (Any, (1, 2), "fits Any, but would come back changed from JSON: a tuple as a list; declare its type"),
    (Any, File(SECRET), "a File as a dict; declare its type"),
    (Any, {1: 2}, "a dict as another one; declare its type"),
    (dict[str, Any], {"when": dt.date(2020, 1, 1)}, "a date as a str (at *); declare its type"),
    (Change | dict[str, Any], {"deep": [{1}]}, "a set as a list (at *.0); declare its type"),
    (dict[tuple[int, int], str], {(1, 2): SECRET}, "could not be read back from its JSON"),
    (pydantic.SecretStr, pydantic.SecretStr(SECRET), "a SecretStr as another one"),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "value", "message"), REFUSED, ids=[str(index) for index in range(len(REFUSED))])
def test_a_refusal_says_type_and_place_and_never_the_value(declared, value, message):
    with pytest.raises(ResultError) as caught:
        TypeCodec.of(declared).encode(value)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None, "what pydantic says quotes the value"
    assert str(caught.value).startswith("the result ")


def test_bytes_of_a_model_need_its_own_configuration():
    class Blob(pydantic.BaseModel):
        data: bytes

    with pytest.raises(ResultError, match="bytes that are not UTF-8 in a model whose ser_json_bytes"):
        TypeCodec.of(Blob).encode(Blob(data=b"\xff"))


def test_a_comparison_that_fails_refuses():
    class Odd(str):
        __slots__ = ()

        def __eq__(self, other):
            raise TypeError("not comparable")

        __hash__ = str.__hash__

    with pytest.raises(ResultError, match="the result"):
        TypeCodec.of(Any).encode(["x", Odd("y")])


def test_the_refusal_is_the_one_that_was_asked_for():
    with pytest.raises(PayloadError, match=r"^the payload does not fit int: "):
        TypeCodec.of(int, error=PayloadError).encode("x")
    with pytest.raises(ResultError, match=r"^what came does not fit int: "):
        TypeCodec.of(int).encode("x", "what came")


@pytest.mark.spec("CRIT-1.5")
def test_a_refused_result_is_judged_as_data_that_no_retry_mends():
    with pytest.raises(ResultError) as caught:
        TypeCodec.of(int).encode("x")
    failure = classify(caught.value)
    assert (failure.error_class, failure.category, failure.retryable) == ("SCHEMA_INVALID", "validation", False)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"not json", "does not fit Change: json invalid"),
        (b'{"number": 1}', "does not fit Change: Field required (at files)"),
        (b'{"number": 1, "files": [{"path": 3}]}', "does not fit Change: Input should be a valid string (at files.0.path)"),
        (b"", "does not fit Change: json invalid"),
        (b"\xff\xfe", "does not fit Change: json invalid"),
    ],
)  # fmt: skip
def test_what_does_not_fit_when_read_is_a_misfit(data, problem):
    with pytest.raises(Misfit) as caught:
        TypeCodec.of(Change).decode(data)
    assert caught.value.problem == problem
    assert caught.value.__context__ is None


def test_fields_that_are_not_known_any_more_are_passed_over():
    assert TypeCodec.of(Measure).decode(b'{"value": 1.0, "unit": "m"}') == Measure(1.0)


@pytest.mark.parametrize(
    "made", [File("a", b"\xff"), {"path": "a", "data": "_w=="}, {"path": "a", "data": b"\xff"}], ids=str
)
def test_an_upgraded_value_is_taken_as_the_type_or_as_its_json(made):
    assert TypeCodec.of(File).adopt(made) == File("a", b"\xff")


@pytest.mark.parametrize("made", [{"path": 3}, object(), "\ud800"], ids=["type", "object", "surrogate"])
def test_an_upgraded_value_that_does_not_fit_is_a_misfit(made):
    with pytest.raises(Misfit):
        TypeCodec.of(File).adopt(made)
