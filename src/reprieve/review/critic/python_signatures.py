"""Finds calls that do not fit Python functions, methods and classes that a change edits or adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reprieve.review.critic.python_names import PythonTree

    Definition = Mapping[str, Any]

_MAX_SIGNATURES: Final = 30
_UNUSUAL_BASES: Final = ("Enum", "Flag", "Meta", "type", "NamedTuple", "TypedDict")
"""Bases by these names change what a call of the class does."""
_NO_PARAMETERS: Final = [["self", "any", False]]


@dataclass(frozen=True, slots=True)
class BrokenCall:
    """A call that does not fit."""

    path: str
    line: int
    callee: str
    place: str
    fact: str
    """A clause that says what the change did to the callee."""
    reason: str


@dataclass(frozen=True, slots=True)
class _Changed:
    """A callable that a change adds, or whose parameters it edits."""

    path: str
    name: str
    """`function`, `Class` or `Class.method`."""
    before: Sequence[Sequence[Any]] | None
    """The old parameters; None for a callable that is new."""
    after: Sequence[Sequence[Any]]
    binding: str = "static"
    """What the first parameter takes: nothing, the `class`, or the `instance`."""


def broken_calls(tree: PythonTree) -> Iterable[BrokenCall]:
    """Yield the calls that fitted the old parameters and do not fit the new ones.

    Calls of new callables are looked for in the changed files alone.
    """
    edited = list(_find_changed(tree))[:_MAX_SIGNATURES]
    changed = [*edited, *_find_new(tree)]
    by_place = {(each.path, each.name): each for each in changed}
    last_names = {each.name.rpartition(".")[2] for each in changed}
    names, paths = {each.name.rpartition(".")[2] for each in edited}, {each.path for each in edited}
    users = [*tree.candidates(names, paths, with_reexports=True), *(path for path, _ in tree.new_modules())]
    for path in dict.fromkeys(users):
        module = tree.module(path)
        for kind, dotted, line, is_guarded, call in () if module is None else module["uses"]:
            if call is None or is_guarded or dotted.rpartition(".")[2] not in last_names:
                continue
            place = _called(tree, path, kind, dotted)
            each = by_place.get(place) if place else None
            if each and (reason := _why_broken(each, call, is_through_instance=kind == "self")):
                fact = "is new" if each.before is None else "has new parameters"
                yield BrokenCall(path, line, each.name, each.path, fact, reason)


def _called(tree: PythonTree, path: str, kind: str, dotted: str) -> tuple[str, str] | None:
    if kind in {"own", "self", "cls"}:
        return path, dotted
    origin = tree.origin(path, dotted) if kind == "imported" else None
    return None if origin is None else (origin[0], ".".join(origin[1]))


def _find_changed(tree: PythonTree) -> Iterable[_Changed]:
    for file, before in tree.changed_modules():
        after = tree.module(file.path) if file.path == file.old_path else None
        if after is None:
            continue
        for name, old in before["definitions"].items():
            new = after["definitions"].get(name)
            if new is None or not (old["is_alone"] and new["is_alone"]) or old["kind"] != new["kind"]:
                continue
            if new["kind"] == "function":
                yield from _edited_function(file.path, name, old, new)
            elif new["kind"] == "class":
                yield from _edited_class(file.path, name, old, new, set(after["assigned"]))


def _find_new(tree: PythonTree) -> Iterator[_Changed]:
    """Yield the functions, methods and constructors that the change adds, without those that it only moves."""
    known: dict[str, set[str]] = {}
    moved: set[tuple[str, str]] = set()
    for file, before in tree.changed_modules():
        after = {each.name for each in _callables(file.path, tree.module(file.path) or {"definitions": {}})}
        old = list(_callables(file.path, before))
        known[file.path] = {each.name for each in old}
        moved.update(_moved_key(each) for each in old if each.name not in after)
    for path, module in tree.new_modules():
        if module["is_dynamic"]:
            continue
        for each in _callables(path, module):
            last_name = each.name.rpartition(".")[2]
            is_known = each.name in known.get(path, ()) or _moved_key(each) in moved
            if not is_known and not last_name.startswith("__") and last_name not in module["assigned"]:
                yield each


def _callables(path: str, module: Definition) -> Iterator[_Changed]:
    """Yield the functions, methods and constructors that nothing else can replace."""
    for name, each in module["definitions"].items():
        if each["kind"] == "function" and each["is_alone"] and each["is_plain"] and not each["is_stub"]:
            yield _Changed(path, name, None, each["parameters"])
        if each["kind"] != "class" or not _is_closed(each):
            continue
        for method, found in each["methods"].items():
            if found["is_plain"] and not found["is_stub"]:
                yield _Changed(path, f"{name}.{method}", None, found["parameters"], found["binding"])
        if parameters := _constructor(each):
            yield _Changed(path, name, None, parameters, "constructor")


def _moved_key(callable_: _Changed) -> tuple[str, str]:
    """What a function keeps that a change only moves."""
    return callable_.name.rpartition(".")[2], repr(callable_.after)


def _is_closed(definition: Definition) -> bool:
    """Whether no base, decorator or other statement can provide or replace members of a class."""
    is_closed = definition["is_alone"] and definition["is_plain"] and not definition["is_open"]
    return is_closed and all(base == "object" for base in definition["bases"])


def _edited_function(
    path: str, name: str, old: Definition, new: Definition, binding: str = "static"
) -> Iterator[_Changed]:
    is_known = old["is_plain"] and new["is_plain"] and not old["is_stub"] and not new["is_stub"]
    if is_known and old["parameters"] != new["parameters"]:
        yield _Changed(path, name, old["parameters"], new["parameters"], binding)


def _edited_class(
    path: str,
    name: str,
    old: Definition,
    new: Definition,
    assigned: set[str],
) -> Iterator[_Changed]:
    """Yield its methods and its constructor; methods that an assignment may replace are left out."""
    for method, after in new["methods"].items():
        before = old["methods"].get(method)
        is_same_kind = before is not None and before["binding"] == after["binding"]
        if before is not None and is_same_kind and not method.startswith("__") and method not in assigned:
            yield from _edited_function(path, f"{name}.{method}", before, after, after["binding"])
    if not _has_usual_call(old) or not _has_usual_call(new):
        return
    parameters = [_constructor(each) for each in (old, new)]
    if parameters[0] and parameters[1] and parameters[0] != parameters[1]:
        yield _Changed(path, name, parameters[0], parameters[1], "constructor")


def _has_usual_call(definition: Definition) -> bool:
    unusual = any(word in base for base in definition["bases"] for word in _UNUSUAL_BASES)
    return bool(definition["is_plain"]) and not unusual and "?" not in definition["bases"]


def _constructor(definition: Definition) -> Sequence[Sequence[Any]] | None:
    """The parameters of `__init__`; None where they are not known."""
    method = definition["methods"].get("__init__")
    if method is not None:
        return method["parameters"] if method["is_plain"] and not method["is_stub"] else None
    is_bare = not definition["bases"] and "__init__" not in definition["attributes"]
    return _NO_PARAMETERS if is_bare else None


def _why_broken(changed: _Changed, call: Sequence[Any], *, is_through_instance: bool) -> str:
    """Why a call does not fit; empty where it fits, or where it did not fit the old parameters either."""
    always_bound = changed.binding in {"constructor", "class"}
    is_bound = always_bound or (changed.binding == "instance" and is_through_instance)
    after = _without_first(changed.after) if is_bound else changed.after
    if after is None:
        return ""
    if changed.before is not None:
        before = _without_first(changed.before) if is_bound else changed.before
        if before is None or misfit(before, call):
            return ""
    return misfit(after, call)


def _without_first(parameters: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]] | None:
    """The parameters without `self`; None where a method takes `self` through `*args`."""
    is_usual = bool(parameters) and parameters[0][1] in {"positional", "any"}
    return parameters[1:] if is_usual else None


def misfit(parameters: Sequence[Sequence[Any]], call: Sequence[Any]) -> str:
    """Say why a call does not fit parameters; empty where it does."""
    passed, keywords = call
    positional = [name for name, kind, _ in parameters if kind in {"positional", "any"}]
    kinds = {kind for _, kind, _ in parameters}
    if passed > len(positional) and "positionals" not in kinds:
        return f"it passes {passed} positional arguments where {len(positional)} are accepted"
    named = {name for name, kind, _ in parameters if kind in {"any", "keyword"}}
    unknown = [keyword for keyword in keywords if keyword not in named]
    if unknown and "keywords" not in kinds:
        return f"there is no parameter `{unknown[0]}`"
    given = set(positional[:passed])
    twice = [keyword for keyword in keywords if keyword in given and keyword in named]
    if twice:
        return f"it passes `{twice[0]}` twice"
    given.update(each for each in keywords if each in named)
    missing = [
        name
        for name, kind, is_optional in parameters
        if kind in {"positional", "any", "keyword"} and not is_optional and name not in given
    ]
    return f"the required argument `{missing[0]}` is missing" if missing else ""
