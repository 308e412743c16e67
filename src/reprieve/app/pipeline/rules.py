"""What a stage may be: everything that can be refused is refused where it is declared."""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_origin, get_type_hints

from reprieve.app.pipeline.job import Job
from reprieve.app.pipeline.stage import Parameter
from reprieve.app.pipeline.values import TypeCodec
from reprieve.app.pipeline.wording import first_line, shown_type
from reprieve.core.timeouts import require_outermost
from reprieve.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reprieve.app.pipeline.stage import Stage
    from reprieve.core.policy import Profile
    from reprieve.core.timeouts import OperationTimeout

U = TypeVar("U")

PAYLOAD: Final = "payload"
"""Where the payload stands beside the results of stages; so no stage can have this name."""

_LONGEST_NAME: Final = 100
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_EMPTY: Final = inspect.Parameter.empty
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Face:
    """What a function says of itself."""

    payload: Any
    """What stands in `Job[...]`; empty where nothing does."""
    result: Any
    taken: tuple[inspect.Parameter, ...]
    """The parameters after the job, with their annotations resolved."""


def check_name(kind: str, name: object) -> str:
    """Refuse a name that could not stand in a table, a metric or a command."""
    if not isinstance(name, str):
        raise UsageError(f"the name of a {kind} is a string, not {type(name).__name__}")
    if _NAME.fullmatch(name) is None or len(name) > _LONGEST_NAME:
        raise UsageError(
            f"the name of a {kind} has letters, digits, '_', '-' and '.', at most {_LONGEST_NAME} of them; {name[:200]!r} is none"
        )
    return name


def check_count(what: str, value: object) -> int:
    """Refuse what is no number from 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{what} is a whole number from 1 on, not {value!r}")
    return value


def find_timeout(
    where: str, function: Callable[..., Any], *, timeout: object, operation: object, profile: Profile
) -> tuple[float | None, OperationTimeout | None]:
    """The seconds that an attempt may take, and the named timeout that they come from."""
    if operation is None:
        seconds = None if timeout is None else _seconds(where, timeout)
        named = None
    elif timeout is not None:
        raise UsageError(f"{where}: timeout= and operation= both limit an attempt: give one of them")
    elif isinstance(operation, str):
        named = profile.timeout(operation)
        seconds = named.seconds
    else:
        raise UsageError(f"{where}: operation= is the name of a timeout of its profile, not {operation!r}")
    if seconds is not None:
        require_outermost(where, function, seconds)
    return seconds, named


def _seconds(where: str, timeout: object) -> float:
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, int | float)
        or not (timeout > 0 and math.isfinite(timeout))
    ):
        raise UsageError(f"{where}: timeout is a number of seconds, more than 0 and finite, not {timeout!r}")
    return float(timeout)


def check_former(where: str, was: object) -> tuple[str, ...]:
    """The former names of a stage."""
    if not isinstance(was, Iterable):
        raise UsageError(f"{where}: was= takes the stage's former names, not {was!r}")
    former = (was,) if isinstance(was, str) else tuple(was)
    return tuple(check_name("stage", each) for each in former)


def check_names(pipeline: str, names: Sequence[str], taken: Mapping[str, Stage]) -> None:
    """Refuse names that are reserved or that another stage has or had."""
    for position, name in enumerate(names):
        if name == PAYLOAD:
            raise UsageError(f"no stage can be named {PAYLOAD!r}: upgrades of the payload are declared under it")
        if name in taken or name in names[:position]:
            owner = taken[name].name if name in taken else names[0]
            has = "is a stage" if owner == name else f"is a former name of the stage {owner!r}"
            raise UsageError(f"{name!r} already {has} of {pipeline!r}; names and former names are given once")


def check_function(function: object) -> None:
    """Refuse what is no function."""
    if not inspect.isroutine(function):
        hint = ': write @pipeline.stage(name="...")' if isinstance(function, str) else ""
        raise UsageError(f"a stage is a function, not {function!r}{hint}")


def check_upgrade(target: str, function: U) -> U:
    """Refuse what cannot be called, or only awaited."""
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise UsageError(f"the upgrade of {target} is a plain function of the old value, not {function!r}")
    return function


def check_kind(where: str, function: Callable[..., Any], *, timeout: float | None, isolate: object) -> bool:
    """Refuse what cannot run as it is declared; tells whether the function is async."""
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise UsageError(f"{where} is a generator: a stage returns one result; collect the values and return them")
    asynchronous = inspect.iscoroutinefunction(function)
    if isolate not in {None, "process"}:
        raise UsageError(f'{where}: isolate= is "process" or None, not {isolate!r}')
    if isolate is not None:
        if asynchronous:
            raise UsageError(
                f"{where} is async, which a timeout can cancel; only plain functions are isolated in a process"
            )
        _check_importable(where, function)
    elif timeout is not None and not asynchronous:
        raise UsageError(
            f"{where} is a plain function and cannot be stopped from outside, so a timeout would be a lie: make it async, or "
            'declare isolate="process", and it is killed'
        )
    return asynchronous


def _check_importable(where: str, function: Callable[..., Any]) -> None:
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None) or ""
    remedy = "a spawned process finds a function by its module and name, so define it with `def` at the top of a module"
    if "<" in name or inspect.ismethod(function):
        raise UsageError(f"{where} is a lambda, nested or bound and cannot be isolated: {remedy}")
    main = sys.modules.get("__main__")
    if module == "__main__" and getattr(main, "__spec__", None) is None and not hasattr(main, "__file__"):
        raise UsageError(f"{where} was typed in, not read from a file, and cannot be isolated: {remedy}")


def read_face(where: str, function: Callable[..., Any], namespace: Mapping[str, Any]) -> Face:
    """Read a function's signature, its annotations as they are at run time."""
    try:
        hints = get_type_hints(function, localns=dict(namespace), include_extras=True)
    except Exception as error:  # noqa: BLE001 - annotations are users' code
        raise UsageError(
            f"{where}: its annotations cannot be read: {first_line(error)}; what they name must be there at run time, "
            "not only for type checkers"
        ) from None
    parameters = [
        each.replace(annotation=hints.get(each.name, _EMPTY))
        for each in inspect.signature(function).parameters.values()
    ]
    if parameters and parameters[0].name in {"self", "cls"}:
        raise UsageError(
            f"{where} is a method that nobody is bound to: declare it on an instance, `stage(service.method)`"
        )
    if not parameters or parameters[0].kind not in _POSITIONAL:
        raise UsageError(
            f"{where}: its first parameter is the job: write `def {function.__name__}(job: reprieve.Job[...])`"
        )
    return Face(
        payload=_payload(where, parameters[0]), result=hints.get("return", _EMPTY), taken=_taken(where, parameters[1:])
    )


def _payload(where: str, job: inspect.Parameter) -> Any:  # noqa: ANN401 - any annotation
    annotation = job.annotation
    if annotation in (_EMPTY, Any, Job):
        return _EMPTY
    if get_origin(annotation) is not Job:
        raise UsageError(
            f"{where}: its first parameter is the job, a reprieve.Job[...] of the payload's type, not {shown_type(annotation)}"
        )
    (payload,) = get_args(annotation)
    return _EMPTY if payload is Any else payload


def _taken(where: str, parameters: Sequence[inspect.Parameter]) -> tuple[inspect.Parameter, ...]:
    for each in parameters:
        if each.kind not in _POSITIONAL and each.default is _EMPTY:
            raise UsageError(f"{where}: {each} can get no result; name each result that the stage takes as a parameter")
    return tuple(each for each in parameters if each.kind in _POSITIONAL)


def find_sources(where: str, face: Face, earlier: Sequence[Stage]) -> tuple[Parameter, ...]:
    """Which earlier stage each parameter gets its value from."""
    known = {name: stage for stage in earlier for name in stage.names}
    wanted = [each for each in face.taken if each.name in known or each.default is _EMPTY]
    if wanted != list(face.taken[: len(wanted)]):
        raise UsageError(f"{where}: parameters with defaults of their own stand behind those that get a result")
    found = []
    for each in wanted:
        if each.name in known:
            source = known[each.name]
        elif not earlier:
            raise UsageError(f"{where} is the first stage and takes only the job, not {each.name!r}")
        elif len(wanted) == 1:
            source = earlier[-1]
        else:
            raise UsageError(
                f"{where}: no stage before it is named {each.name!r}{did_you_mean(each.name, known)}; a stage that takes several "
                f"results names them as their stages are named: {', '.join(known)}"
            )
        found.append(_matched(where, each, source))
    return tuple(found)


def _matched(where: str, parameter: inspect.Parameter, source: Stage) -> Parameter:
    wanted, made = parameter.annotation, source.result
    if made.declared is Any and wanted is not _EMPTY:
        return Parameter(parameter.name, source, codec_of(where, f"the parameter {parameter.name}", wanted))
    if _contradict(made.declared, wanted):
        raise UsageError(
            f"{where} takes {parameter.name} as {shown_type(wanted)}, but the stage {source.name!r} returns {made.name}"
        )
    return Parameter(parameter.name, source, made)


def codec_of(where: str, what: str, annotation: Any) -> TypeCodec[Any]:  # noqa: ANN401 - any annotation
    """The codec of an annotation; the refusal says whose it is."""
    try:
        return TypeCodec.of(annotation)
    except UsageError as error:
        raise UsageError(f"{where}: {what}: {error}") from None


def _contradict(made: Any, wanted: Any) -> bool:  # noqa: ANN401 - annotations
    """Whether two types are plain classes, none of which can stand for the other; a type checker knows more."""
    if wanted in (_EMPTY, Any) or not (isinstance(made, type) and isinstance(wanted, type)):
        return False
    try:
        return not (issubclass(made, wanted) or (wanted is float and issubclass(made, int)))
    except TypeError:  # a protocol or a TypedDict
        return False
