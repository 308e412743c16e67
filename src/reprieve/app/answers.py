"""The form that an answer has to have, from a type or a JSON Schema; the same for models and for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from reprieve.core.repair import MOST_PROBLEMS, Problem, compact, json_texts, shortened, without_thoughts
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")

_LONGEST_INPUT: Final = 80
_MOST_ERRORS: Final = 100
_NOT_JSON: Final = "json_invalid"
_SAYS_NOTHING_OF_VALUES: Final = frozenset({"const", "enum", "default", "examples"})
_TOO_DEEP: Final = Problem("too_deep", "it is nested too deeply")


class UnfitError(Exception):
    """An answer that does not fit; says what is wrong with it."""

    def __init__(self, *problems: Problem) -> None:
        """Take at least one problem."""
        super().__init__("; ".join(problem.kind for problem in problems))
        self.problems = problems


class AnswerSchema(Generic[T]):
    """What fits, and what is wrong with what does not."""

    __slots__ = ("_parse", "json_schema", "key")

    def __init__(self, json_schema: Mapping[str, Any], parse: Callable[[str], T]) -> None:
        """Take the schema as people and models are told it, and what reads a JSON text or raises `UnfitError`."""
        self.json_schema = json_schema
        self._parse = parse
        self.key = json.dumps(json_schema, sort_keys=True, separators=(",", ":"), default=str)
        """The same text for the same schema, in every process."""

    @staticmethod
    def of(schema: object) -> AnswerSchema[Any]:
        """From a pydantic model, any type that pydantic knows, a TypeAdapter, or a JSON Schema (Draft 2020-12)."""
        if isinstance(schema, AnswerSchema):
            return schema
        if schema is None:
            raise UsageError(
                "an answer needs a form: schema= takes a type, a pydantic model or a JSON Schema, not None"
            )
        if isinstance(schema, Mapping):
            return _of_json_schema(compact(dict(schema)))
        try:
            return _of_type(schema)
        except TypeError as error:
            if "unhashable" in str(error):
                return _of_type.__wrapped__(schema)
            raise

    def read(self, text: str) -> T:
        """The one value in an answer that fits; raises `UnfitError` where there is none, or more than one."""
        try:
            text.encode()  # a client may let half a character pass, which no reader of JSON takes
            return self._parse(text)
        except UnicodeEncodeError:
            raise UnfitError(Problem("not_text", "it holds a lone surrogate, which is no character")) from None
        except UnfitError as error:
            whole = _Tried(None, error.problems)
        said = text if whole.is_json else without_thoughts(text)
        if said is not text:
            whole = _Tried.of(self._parse, said)
        if whole.is_json:
            return cast("T", whole.taken())
        fenced, bracketed = json_texts(said)
        found = [_Tried.of(self._parse, each) for each in dict.fromkeys([*fenced, *bracketed])]
        if (chosen := _choose([tried for tried in found if tried.is_json])) is not None:
            return cast("T", chosen.value)
        raise UnfitError(
            *whole.problems
            if said.lstrip()[:1] in {"{", "["}
            else [Problem(_NOT_JSON, "there is no JSON in it" if text.strip() else "it is empty")]
        )

    def check(self, value: object) -> T:
        """A value that came from elsewhere, such as a person, as it would be taken from a model."""
        try:
            text = json.dumps(value, allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise UnfitError(Problem(_NOT_JSON, f"it cannot be written as JSON: {error}")) from None
        return self._parse(text)


class _Tried:
    """A part of an answer, and what came of reading it."""

    __slots__ = ("problems", "value")

    def __init__(self, value: object, problems: tuple[Problem, ...]) -> None:
        self.value, self.problems = value, problems

    @classmethod
    def of(cls, parse: Callable[[str], object], text: str) -> _Tried:
        try:
            return cls(parse(text), ())
        except UnfitError as error:
            return cls(None, error.problems)

    @property
    def is_json(self) -> bool:
        return not self.problems or self.problems[0].kind != _NOT_JSON

    def taken(self) -> object:
        if self.problems:
            raise UnfitError(*self.problems)
        return self.value


def _choose(tried: list[_Tried]) -> _Tried | None:
    """The one that fits; two that differ are no answer, and of those that do not fit the last one is told about."""
    fitting = [each for each in tried if not each.problems]
    if any(each.value != fitting[0].value for each in fitting[1:]):
        raise UnfitError(Problem("ambiguous", f"it holds {len(fitting)} values that fit, and they differ: give one"))
    if fitting:
        return fitting[0]
    if tried:
        raise UnfitError(*tried[-1].problems)
    return None


@lru_cache(maxsize=256)
def _of_type(declared: Any) -> AnswerSchema[Any]:  # noqa: ANN401 - any annotation
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - heavy: not before something is asked
    from pydantic.errors import PydanticUserError  # noqa: PLC0415 - the same

    try:
        adapter: TypeAdapter[Any] = declared if isinstance(declared, TypeAdapter) else TypeAdapter(declared)
        json_schema = adapter.json_schema(mode="validation")
    except (PydanticUserError, NameError) as error:
        raise UsageError(f"no answer can have the form of {declared!r}: {error}") from None

    def parse(text: str) -> object:
        _refuse_constants(text)
        try:
            return adapter.validate_json(text, strict=True)  # a "5" is no number: the schema that was told says so too
        except ValidationError as error:
            problems = tuple(_of_pydantic(error))
        raise UnfitError(*problems)

    return AnswerSchema(json_schema, parse)


def _refuse_constants(text: str) -> None:
    """NaN and the infinities, which JSON does not have and pydantic reads."""
    if "NaN" in text or "Infinity" in text:
        _from_json(text)


def _from_json(text: str) -> object:
    from pydantic_core import from_json  # noqa: PLC0415 - as above

    try:
        return from_json(text, allow_inf_nan=False, cache_strings="none")
    except ValueError as error:
        problem = Problem(_NOT_JSON, f"it is not valid JSON: {error}")
    raise UnfitError(problem)


def _of_pydantic(error: ValidationError) -> Iterator[Problem]:
    for number, found in enumerate(error.errors(include_url=False, include_context=False)):
        kind, message = found["type"], found["msg"]
        if kind == _NOT_JSON:
            yield Problem(kind, f"it is not valid JSON: {message.removeprefix('Invalid JSON: ')}")
        elif kind == "missing" or number >= MOST_PROBLEMS:  # nobody reads what is wrong with the others
            yield Problem(kind, message, found["loc"])
        else:
            yield Problem(kind, f"{message}, not {_quoted(found['input'])}", found["loc"])


def _quoted(value: object) -> str:
    return shortened(compact(value), _LONGEST_INPUT)


@lru_cache(maxsize=256)
def _of_json_schema(text: str) -> AnswerSchema[Any]:
    schema = json.loads(text)
    validator = _validator(schema)

    def parse(answer: str) -> object:
        value = _from_json(answer)
        try:
            problems = [_of_jsonschema(error) for error in islice(validator.iter_errors(value), _MOST_ERRORS)]
        except RecursionError:
            problems = [_TOO_DEEP]
        if problems:
            raise UnfitError(*sorted(problems, key=lambda problem: len(problem.path)))
        return value

    return AnswerSchema(schema, parse)


def _validator(schema: dict[str, Any]) -> Any:  # noqa: ANN401 - jsonschema's own, which is loaded late
    """Checked as a whole before anything is asked; nothing is ever fetched."""
    try:
        import jsonschema  # type: ignore[import-untyped] # noqa: PLC0415 - no stubs; heavy, and only for schemas that are no types
        from referencing import Registry  # noqa: PLC0415 - the same
    except ModuleNotFoundError as error:
        raise ImportError(
            f"a JSON Schema needs {error.name}: pip install 'reprieve[openai]'", name=error.name
        ) from None
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        where = ".".join(str(part) for part in error.absolute_path)
        raise UsageError(f"not a JSON Schema{f', at {where}' if where else ''}: {error.message}") from None
    _check_references(schema)
    kind = jsonschema.Draft202012Validator
    validator = kind(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)  # "tomorrow" is no date
    try:
        validator.is_valid(None)
    except RecursionError:
        raise UsageError("the JSON Schema refers to itself without end") from None
    return validator


def _check_references(schema: dict[str, Any]) -> None:
    from referencing import Registry  # noqa: PLC0415 - heavy
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - the same
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415 - the same

    registry = Registry().with_resource("", DRAFT202012.create_resource(schema))
    for reference in _references(schema):
        if not reference.startswith("#"):
            raise UsageError(f"the JSON Schema refers to {reference!r}, which is never fetched: put it under $defs")
        try:
            registry.resolver().lookup(reference)
        except Unresolvable:
            raise UsageError(f"the JSON Schema refers to {reference!r}, which it does not have") from None


def _references(schema: object) -> Iterator[str]:
    match schema:
        case dict():
            for key, value in schema.items():
                if key in {"$ref", "$dynamicRef"} and isinstance(value, str):
                    yield value
                elif key not in _SAYS_NOTHING_OF_VALUES:
                    yield from _references(value)
        case list():
            for each in schema:
                yield from _references(each)
        case _:
            pass


def _of_jsonschema(error: Any) -> Problem:  # noqa: ANN401 - jsonschema's own, which is loaded late
    return Problem(str(error.validator), _worded(error), tuple(error.absolute_path))


def _worded(error: Any) -> str:  # noqa: ANN401 - the same
    """Its message, unless it begins with a huge value."""
    if len(error.message) <= _LONGEST_INPUT * 3:
        return str(error.message)
    return f"{_quoted(error.instance)} breaks {error.validator} {_quoted(error.validator_value)}"
