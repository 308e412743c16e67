"""The links of an exception: what it wraps, what caused it, what was being handled; a cycle ends the walk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reprieve.core.facts import attribute, item, qualified, type_names

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST = 64
_MOST_LINKS = 2_000
_DEEPEST_GROUP = 40
_WRAPPED_IN = ("orig", "reason", "os_error", "original_exception", "cause", "last_exception", "inner_exception")


@dataclass(frozen=True, slots=True)
class Link:
    """One exception of a chain and the way that leads to it."""

    exc: BaseException
    names: tuple[str, ...]
    """`package.Class` over the MRO, the most special first."""
    path: str


class Walk:
    """How far one judgement has come: what it has seen, and how deep in groups it is."""

    __slots__ = ("_depth", "_seen")

    def __init__(self) -> None:
        self._seen: dict[int, BaseException] = {}
        self._depth = 0

    def is_new(self, exc: BaseException) -> bool:
        """Whether an exception has not been looked at yet and there is room to do so."""
        return id(exc) not in self._seen and len(self._seen) < _MOST_LINKS

    def enter(self, exc: BaseException) -> None:
        """Remember an exception; holding it keeps its id its own."""
        self._seen[id(exc)] = exc

    def descend(self) -> bool:
        """Go into a group, unless groups are nested beyond reason."""
        if self._depth >= _DEEPEST_GROUP:
            return False
        self._depth += 1
        return True

    def ascend(self) -> None:
        """Come out of it."""
        self._depth -= 1


def links(exc: BaseException, walk: Walk) -> Iterator[Link]:
    """The exception and all behind it, outermost first; cancellations and exits in the chain are no failures."""
    waiting = [(exc, "")]
    for _ in range(_LONGEST):
        if not waiting:
            return
        current, path = waiting.pop()
        if not isinstance(current, Exception) or not walk.is_new(current):
            continue
        walk.enter(current)
        kind: type = type(current)
        path = f"{path} > {qualified(kind)}" if path else qualified(kind)
        yield Link(current, type_names(kind), path)
        waiting.extend((behind, path) for behind in reversed(_readable(current)))


def _readable(exc: BaseException) -> list[BaseException]:
    try:
        return list(_behind(exc))
    except Exception:  # noqa: BLE001 - a foreign object may do anything when it is looked at; then nothing is behind it
        return []


def _behind(exc: BaseException) -> Iterator[BaseException]:
    yield from _wrapped(exc)
    cause = exc.__cause__
    if cause is not None:
        yield cause
    if exc.__context__ is not None and not exc.__suppress_context__:
        yield exc.__context__


def _wrapped(exc: BaseException) -> Iterator[BaseException]:
    if type(exc).__module__ == "builtins":  # Python's own wrap nothing, and are by far the most
        return
    for name in _WRAPPED_IN:
        found = attribute(exc, name)
        if isinstance(found, BaseException):
            yield found
    last = attribute(exc, "last_attempt")
    if last is not None:
        yield from _outcome(last)
    attempts = attribute(exc, "failed_attempts")
    if (
        isinstance(attempts, list)
        and attempts
        and isinstance(found := attribute(attempts[-1], "exception"), BaseException)
    ):
        yield found
    inner = item(attribute(exc, "kwargs"), "error")
    if isinstance(inner, BaseException):
        yield inner
    args = attribute(exc, "args")
    if isinstance(args, tuple):  # a group's are its message and a list
        yield from (arg for arg in args if isinstance(arg, BaseException))


def _outcome(attempt: object) -> Iterator[BaseException]:
    """A finished future, as tenacity keeps its last attempt."""
    done, exception = attribute(attempt, "done"), attribute(attempt, "exception")
    try:
        found = exception() if callable(exception) and callable(done) and done() else None
    except BaseException:  # noqa: BLE001 - a cancelled future raises here; it has no outcome to tell
        return
    if isinstance(found, BaseException):
        yield found
