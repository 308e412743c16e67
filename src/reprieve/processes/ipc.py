"""Calls to a child process and their answers: frames, pickles, and functions found by their names."""

from __future__ import annotations

import importlib
import io
import pickle
import struct
import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

HEADER: Final = struct.Struct("!BQ")
"""The kind of a frame and the length of its body."""

NO_MEMORY: Final = 86
"""Exit code of a child that had a MemoryError and no memory left to report it."""

_MAIN: Final = frozenset({"__main__", "__mp_main__"})
_MOST_DECORATORS: Final = 50

Route = tuple[str, str, int]
"""Module, qualified name, and how many times `__wrapped__` is followed from there."""


class FrameKind(IntEnum):
    """What a frame carries."""

    READY = 0
    JUDGE = 1
    WORK = 2
    RETURNED = 3
    FAILED = 4
    REFUSED = 5


def frame(kind: FrameKind, body: bytes = b"") -> bytes:
    """Build a frame."""
    return HEADER.pack(kind, len(body)) + body


def told(error: BaseException) -> str:
    """Describe an exception in one line."""
    return f"{type(error).__name__}: {error}"


def pickled(value: object, what: str) -> bytes:
    """Pickle a value; `UsageError` says which value cannot be pickled."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        raise
    except Exception as error:
        raise UsageError(f"{what} cannot be pickled for another process: {told(error)}") from error


class _Unpickler(pickle.Unpickler):
    """Finds the main module by both of its names. A child loads it only when a pickle refers to it."""

    def __init__(self, data: bytes | bytearray, main: Callable[[], ModuleType]) -> None:
        super().__init__(io.BytesIO(data))
        self._main = main

    def find_class(self, module_name: str, global_name: str, /) -> Any:  # noqa: ANN401 - whatever has that name
        if module_name in _MAIN:
            return _walk(self._main(), global_name)
        return super().find_class(module_name, global_name)


def unpickled(data: bytes | bytearray, main: Callable[[], ModuleType]) -> Any:  # noqa: ANN401 - what was pickled
    """Unpickle a value; `main` loads the main module of the parent."""
    return _Unpickler(data, main).load()


def main_module() -> ModuleType:
    """Return the main module of this process."""
    return sys.modules["__main__"]


def function_path(function: Callable[..., object]) -> Route:
    """Return the path by which a new process finds the function; `UsageError` where it cannot."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    problem = "only a plain function at the top of a module can be run in a process of its own"
    if not isinstance(module, str) or not isinstance(name, str):
        raise UsageError(f"{problem}, not a {type(function).__name__}")
    try:
        found = _walk(sys.modules[module], name)
    except (KeyError, AttributeError):
        raise UsageError(f"{problem}, where it is found by name; {module}.{name} is not") from None
    for depth in range(_MOST_DECORATORS):
        if found is function:
            return module, name, depth
        found = getattr(found, "__wrapped__", None)
    raise UsageError(
        f"{problem}; the name {module}.{name} leads to something else (a decorator that sets no __wrapped__?)"
    )


def import_function(route: Route, main: Callable[[], ModuleType]) -> Callable[..., object]:
    """Import the function at a path."""
    module, name, depth = route
    found = _walk(main() if module in _MAIN else importlib.import_module(module), name)
    for _ in range(depth):
        found = found.__wrapped__
    function: Callable[..., object] = found
    return function


def _walk(module: ModuleType, qualified_name: str) -> Any:  # noqa: ANN401 - whatever has that name
    found: Any = module
    for part in qualified_name.split("."):
        found = getattr(found, part)
    return found
