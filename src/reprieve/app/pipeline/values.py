"""How typed values become bytes and come back.

A value is validated against its declared type (as pydantic does by default: a dict becomes a dataclass, "5" an int), written
as JSON and read back at once. What would not come back equal is refused while its maker can still be told, and not found out
by the next stage. So, of what JSON itself does not have:

- a declared type brings it back: tuples, sets, dates, bytes (as base64), Decimals, enums, dataclasses, models;
- under `Any`, or without an annotation, only what JSON has is taken: no tuple, no date, no dict whose keys are not strings;
- NaN and the infinities are written as Python's own json module writes them;
- a lone surrogate, which UTF-8 cannot carry, a value that holds itself and one that is nested too deeply are refused;
- of an instance of a subclass only what the declared class has is kept.

A pydantic model keeps its own configuration; its field names are written, its aliases are read too.
"""

from __future__ import annotations

from functools import lru_cache
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Final, Generic, NewType, TypeVar, cast

from reprieve.app.pipeline.shape import fingerprint_of, names_in, schema_of
from reprieve.app.pipeline.wording import Wording, first_line, shown_type
from reprieve.errors import Misfit, PayloadError, ResultError, UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
Refusal = type[ResultError] | type[PayloadError]

ANY: Final = "any"
"""The fingerprint of what has no declared type."""


class TypeCodec(Generic[T]):
    """The values of one type as JSON bytes, both ways."""

    __slots__ = ("_adapter", "_error", "_read", "_validate", "_write", "declared", "fingerprint", "name")

    def __init__(self, adapter: TypeAdapter[T], declared: Any, error: Refusal) -> None:  # noqa: ANN401 - any annotation
        self.declared = declared
        """The annotation."""
        self.name = shown_type(declared)
        self.fingerprint = ANY if declared is Any else fingerprint_of(adapter, self.name)
        """The same in every process and on every machine; made from the type's JSON schema."""
        self._adapter = adapter
        self._error = error
        self._validate = adapter.validator.validate_python
        # By name and without computed fields, so that what is written can be read, whatever the aliases are.
        self._write = adapter.serializer.to_json
        self._read = adapter.validator.validate_json

    @staticmethod
    def of(annotation: Any, *, error: Refusal = ResultError) -> TypeCodec[Any]:  # noqa: ANN401 - any annotation
        """The codec of a type, which raises `error` for what it refuses; a type that JSON cannot carry is a UsageError."""
        if annotation is Parameter.empty or annotation is object:
            annotation = Any
        try:
            hash(annotation)
        except TypeError:  # metadata of an Annotated may be anything
            return _build(annotation, error)
        return _built(annotation, error)  # type: ignore[arg-type]  # mypy takes no union of classes for hashable

    def encode(self, value: object, what: str = "") -> bytes:
        """Validate and write; a refusal names `what` it was, the type and the place, never the value."""
        told = Wording.misfit
        try:
            checked = self._validate(value)
            told = Wording.unwritable
            data: bytes = self._write(checked, round_trip=True, warnings=False, by_alias=False)
            told = Wording.unreadable
            back = self._read(data, by_alias=True, by_name=True)
            if back == checked:
                return data
        except Exception as failure:  # noqa: BLE001 - users' validators and serializers raise anything; it is told below
            problem = told(self._wording(), failure, value)
        else:
            changed = self._wording().change(checked, back)
            if changed is None:
                return data
            problem = changed
        # Not inside the handler: a pydantic error quotes the value, and would come along as the context.
        raise self._error(f"{what or self._what()} {problem}")

    def decode(self, data: bytes) -> T:
        """Read what was stored; what does not fit the type is a `Misfit`."""
        try:
            return cast("T", self._read(data, by_alias=True, by_name=True))
        except Exception as failure:  # noqa: BLE001 - the same
            problem = self._wording().misfit(failure, None)
        raise Misfit("", problem)

    def adopt(self, value: object) -> T:
        """Take what an upgrade made of a stored value: of the type itself, or as JSON has it."""
        from pydantic_core import to_json  # noqa: PLC0415 - heavy, and loaded by now

        try:
            data = to_json(value, by_alias=False, round_trip=True, bytes_mode="base64", inf_nan_mode="constants")
        except Exception as failure:  # noqa: BLE001 - the same
            problem = self._wording().unwritable(failure, value)
        else:
            return self.decode(data)
        raise Misfit("", problem)

    def _wording(self) -> Wording:
        return Wording(self.name, names_in(schema_of(self._adapter)))

    def _what(self) -> str:
        return "the payload" if self._error is PayloadError else "the result"


def _build(annotation: Any, error: Refusal) -> TypeCodec[Any]:  # noqa: ANN401 - any annotation
    from pydantic import ConfigDict, TypeAdapter  # noqa: PLC0415 - heavy: not before a type is declared
    from pydantic.errors import PydanticUserError  # noqa: PLC0415 - the same

    config = ConfigDict(
        ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="constants", revalidate_instances="always"
    )
    name = shown_type(annotation)
    # pydantic takes a configuration for a dataclass or TypedDict only where another type stands around it.
    wrapped: Any = annotation if annotation is Any else NewType(name, annotation)
    problem = "it names a type that is not defined"
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(wrapped, config=config)
        if adapter.pydantic_complete:
            return TypeCodec(adapter, annotation, error)
    except (PydanticUserError, TypeError, NameError) as failure:
        problem = first_line(failure)
    raise UsageError(f"{name} cannot be stored as JSON: {problem}")


_built = lru_cache(maxsize=1024)(_build)
