"""Pipelines by `module:object`, as a command line names them."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from reprieve.app.pipeline.declare import Pipeline
from reprieve.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator


def load_pipelines(target: str) -> dict[str, Pipeline]:
    """The pipelines that `module:object` holds (one, several, or those of a whole module), by their names."""
    found = load_object(target, example="reviews:review")
    pipelines: dict[str, Pipeline] = {}
    for pipeline in _held(found, target):
        if pipelines.setdefault(pipeline.name, pipeline) is not pipeline:
            raise UsageError(f"{target} holds two pipelines that are named {pipeline.name!r}; give one another name")
    if not pipelines:
        kind = "a module without one" if isinstance(found, ModuleType) else f"of type {type(found).__name__}"
        raise UsageError(
            f"{target} holds no pipeline: it is {kind}; name a reprieve.Pipeline, a list of them, or their module"
        )
    return pipelines


def load_object(target: str, *, example: str) -> object:
    """Import what `module:object` names, or the module; the current folder can be imported from."""
    module_name, _, path = target.partition(":")
    if not module_name:
        raise UsageError(f"{target!r} names no module: write module:object, as in {example}")
    return _follow(_imported(module_name), module_name, path)


def _imported(name: str) -> ModuleType:
    if "/" in name or name.endswith(".py"):
        dotted = ".".join(Path(name).with_suffix("").parts).lstrip("./")
        raise UsageError(f"{name!r} is a file: name its module, as in {dotted}:review")
    here = str(Path.cwd())
    if not {here, ""} & set(sys.path):
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(
                f"there is no module {error.name!r} to import, neither installed nor in the current folder"
            ) from None
        problem = f"it imports {error.name!r}, which is not installed"
    except SyntaxError as error:
        problem = f"{error.msg}, in line {error.lineno} of {Path(error.filename or '').name}"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module of users runs here
        problem = _told(error)
    raise UsageError(f"the module {name!r} cannot be imported: {problem}")


def _told(error: BaseException) -> str:
    from reprieve.app.redaction import redact  # noqa: PLC0415 - only a mistake needs it

    if isinstance(error, SystemExit):
        return 'it ends the program; put what it runs under `if __name__ == "__main__":`'
    message = redact(str(error).strip().partition("\n")[0])
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _follow(module: ModuleType, name: str, path: str) -> object:
    found: object = module
    reached = name
    for part in filter(None, path.split(".")):
        try:
            found = getattr(found, part)
        except AttributeError:
            near = [each for each in dir(found) if not each.startswith("_")]
            raise UsageError(f"{reached} has no attribute {part!r}{did_you_mean(part, near)}") from None
        reached = f"{reached}.{part}"
    return found


def _held(found: object, target: str) -> Iterator[Pipeline]:
    match found:
        case Pipeline():
            yield found
        case ModuleType():
            yield from (value for value in vars(found).values() if isinstance(value, Pipeline))
        case list() | tuple() | dict():
            for value in found.values() if isinstance(found, dict) else found:
                if not isinstance(value, Pipeline):
                    raise UsageError(f"{target} holds a {type(value).__name__}, which is no pipeline")
                yield value
