"""Finds uses of Python names that a change removes, through imports, in the same module, and on `self`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from reprieve.review.critic.broken_uses import (
    KEEP,
    MAX_CANDIDATES,
    MAX_REMOVED,
    BrokenUse,
    is_ignored,
    moved_hint,
    renamed_hint,
)
from reprieve.review.critic.module_index import MAX_PARTS, ModuleIndex, module_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet
    from reprieve.review.critic.parsing import ParserChild

    Module = Mapping[str, Any]

_MAX_REEXPORTS: Final = 3
_SIMILAR: Final = 0.6
"""The share of equal lines from which a new definition counts as the old one renamed."""
_OTHER_SOURCES: Final = (".pyx", ".pyi", ".so", ".py.in", ".py.tmpl")
"""Files that can provide a module in place of a `.py` file."""
_PYTHON: Final = ("*.py",)


class PythonTree:
    """The Python modules of the new tree, parsed when they are first needed."""

    def __init__(self, change: ChangeSet, child: ParserChild) -> None:
        self.change = change
        self._child = child
        self._modules: dict[str, Module | None] = {}
        self._left = MAX_CANDIDATES + len(change.files)

    @cached_property
    def index(self) -> ModuleIndex:
        """The modules of the new tree."""
        return ModuleIndex(self.change.tree.paths)

    @cached_property
    def base_index(self) -> ModuleIndex:
        """The modules of the old tree."""
        return ModuleIndex(self.change.base.paths)

    def changed_modules(self) -> Iterable[tuple[ChangedFile, Module]]:
        """Yield each changed Python file that people wrote, with its old version."""
        for file in self.change.files:
            parsed = self.change.parsed.get(file.path)
            if file.old_path.endswith(".py") and not file.is_generated and parsed and _is_read(parsed.before):
                yield file, parsed.before or {}

    def new_modules(self) -> Iterable[tuple[str, Module]]:
        """Yield the path and the new version of each changed or added Python file that people wrote."""
        for file in self.change.files:
            parsed = self.change.parsed.get(file.path)
            if file.path.endswith(".py") and not file.is_generated and parsed and _is_read(parsed.after):
                yield file.path, parsed.after or {}

    def module(self, path: str) -> Module | None:
        """The new version of a module; None where it is missing, or was not parsed."""
        if path not in self._modules:
            self._modules[path] = self._parse(path)
        return self._modules[path]

    def candidates(
        self,
        names: Iterable[str],
        paths: Iterable[str],
        *,
        with_reexports: bool = False,
    ) -> list[str]:
        """List the files that may use names of these modules; the modules and their packages come first.

        A file that uses a name contains the name and the module's own name, or the package's for a re-export.
        """
        words, modules = sorted(set(names)), set(paths)
        if not words:
            return []
        depth = 2 if with_reexports else 1
        stems = {part for path in modules for part in module_parts(path)[-depth:]}
        packages = tuple(f"{PurePosixPath(path).parent}/" for path in modules if path.endswith("__init__.py"))
        with_name = set(self.change.tree.containing(words, _PYTHON))
        with_module = set(self.change.tree.containing(sorted(stems), _PYTHON)) if stems else set()
        near = {path for path in with_name if path in modules or path.startswith(packages)}
        far = (with_name & with_module) - near
        return [*sorted(near), *sorted(far)][:MAX_CANDIDATES]

    def origin(self, user: str, dotted: str) -> tuple[str, tuple[str, ...]] | None:
        """Return the module that defines what a path refers to, and the names behind it.

        Names that a module imports from another one are followed to that module.
        """
        for _ in range(_MAX_REEXPORTS):
            found = self.index.find(user, dotted)
            if found is None or not found[1]:
                return None
            path, names = found
            module = self.module(path)
            if module is None:
                return None
            definition = module["definitions"].get(names[0])
            if definition is None or definition["kind"] != "import":
                return found
            sources = [each[1] for each in module["imports"] if each[0] == "from" and each[4] == names[0]]
            if len(sources) != 1:
                return None
            user, dotted = path, ".".join([sources[0], *names[1:]])
        return None

    def _parse(self, path: str) -> Module | None:
        parsed = self.change.parsed.get(path)
        if parsed is not None:
            return parsed.after if _is_read(parsed.after) else None
        content = self.change.tree.read(path) if self._left > 0 else None
        if content is None:
            return None
        self._left -= 1
        answer = self._child.parse("python", content.decode("utf-8", "replace"))
        return answer if _is_read(answer) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Removed:
    """The names that a change takes out of one module."""

    path: str
    """In the old tree."""
    new_path: str
    """In the new tree; empty where the module is gone."""
    is_gone: bool = False
    hint: str = KEEP
    """For a module that is gone."""
    names: dict[str, str] = field(default_factory=dict)
    """The hint for each name: top-level names, and `Class.method`."""
    own: frozenset[str] = frozenset()
    """The names that the module defined itself; of a module that is gone, its imports too."""


_ByPath = dict[str, _Removed]


def removed_uses(tree: PythonTree) -> Iterable[BrokenUse]:
    """Yield the uses of names and modules that the change removes."""
    removed = _limited(list(_find_removed(tree)))
    names = [name for each in removed for name in _searched_names(each)]
    by_path = {each.path: each for each in removed if each.is_gone or each.path == each.new_path}
    words = set(names)
    paths = {path for each in removed for path in (each.path, each.new_path) if path}
    modules = {path: tree.module(path) for path in tree.candidates(names, paths)}
    inherited = {name for module in modules.values() if module for name in _derived_attributes(module)}
    for path, module in modules.items():
        if module is None:
            continue
        yield from _uses_elsewhere(tree, path, module, by_path, words)
        for each in removed:
            if each.new_path == path:
                yield from _own_uses(path, module, each, inherited)


def _derived_attributes(module: Module) -> Iterable[str]:
    """The attributes of classes that have bases: a method of a base may use them."""
    for definition in module["definitions"].values():
        if definition["kind"] == "class" and definition["bases"]:
            yield from definition["attributes"]


def _searched_names(removed: _Removed) -> Iterable[str]:
    if removed.is_gone:
        yield module_parts(removed.path)[-1]
    yield from (name.rpartition(".")[2] for name in removed.names)


def _find_removed(tree: PythonTree) -> Iterable[_Removed]:
    for file, before in tree.changed_modules():
        if file.is_deleted or file.path != file.old_path:
            yield from _gone_module(tree, file, before)
        after = None if file.is_deleted else tree.module(file.path)
        if after is None or after["is_dynamic"]:
            continue
        bound = set(after["bound"])
        names = {
            name: _hint_for(tree, file, name, before, after)
            for name in before["definitions"]
            if name not in bound and not tree.index.provides(file.path, name)
        }
        own = {name for name in names if before["definitions"][name]["kind"] != "import"}
        for name, definition in before["definitions"].items():
            methods = _removed_methods(definition, after["definitions"].get(name), after)
            names.update({f"{name}.{method}": hint for method, hint in methods.items()})
        if names:
            yield _Removed(path=file.old_path, new_path=file.path, names=names, own=frozenset(own))


def _gone_module(tree: PythonTree, file: ChangedFile, before: Module) -> Iterable[_Removed]:
    stem = file.old_path.removesuffix(".py")
    is_still_there = file.old_path in tree.change.tree.paths or any(
        f"{stem}{suffix}" in tree.change.tree.paths for suffix in _OTHER_SOURCES
    )
    if is_still_there or not module_parts(file.old_path) or is_ignored(tree.change, file.old_path):
        return
    hint = KEEP if file.is_deleted else moved_hint(file.path)
    own = frozenset(before["definitions"])
    yield _Removed(path=file.old_path, new_path="", is_gone=True, hint=hint, own=own)


def _removed_methods(old: Module, new: Module | None, after: Module) -> dict[str, str]:
    """The methods that a class loses, where no base, metaclass, decorator or assignment can provide them."""
    if new is None or old["kind"] != "class" or new["kind"] != "class":
        return {}
    is_open = not new["is_plain"] or not new["is_alone"] or new["is_open"]
    if is_open or any(base != "object" for base in new["bases"]):
        return {}
    provided = {*new["attributes"], *after["assigned"], *after["asked"]}
    lost = [name for name in old["methods"] if name not in provided and not name.startswith("__")]
    fresh = {name: each for name, each in new["methods"].items() if name not in old["methods"]}
    found = {name: _similar(old["methods"][name], fresh) for name in lost}
    return {name: renamed_hint(new) if new else KEEP for name, new in found.items()}


def _hint_for(tree: PythonTree, file: ChangedFile, name: str, before: Module, after: Module) -> str:
    old = before["definitions"][name]
    if old["kind"] == "import":
        return _source_hint(tree, file, [each for each in before["imports"] if each[4] == name])
    fresh = {key: each for key, each in after["definitions"].items() if key not in before["definitions"]}
    if new := _similar(old, fresh):
        return renamed_hint(new)
    for other in tree.change.files:
        parsed = tree.change.parsed.get(other.path)
        if other.path == file.path or parsed is None or not _is_read(parsed.after):
            continue
        found = (parsed.after or {})["definitions"].get(name)
        known = _is_read(parsed.before) and name in (parsed.before or {})["definitions"]
        if found is not None and not known and _similar(old, {name: found}):
            return moved_hint(other.path)
    return KEEP


def _source_hint(tree: PythonTree, file: ChangedFile, imports: Sequence[Sequence[Any]]) -> str:
    """Say where a module took a name from that it no longer imports."""
    if len(imports) != 1 or imports[0][0] != "from":
        return KEEP
    source = imports[0][1]
    found = tree.index.find(file.path, source)
    if found is not None:
        return f"take it from {found[0]}" if _provides(tree, *found) else KEEP
    return KEEP if source.startswith(".") else f"take it from `{source.rpartition('.')[0]}`"


def _similar(old: Module, fresh: Mapping[str, Module]) -> str:
    """The name of the one new definition with nearly the same lines; empty without one."""
    same_kind = {name: each for name, each in fresh.items() if each["kind"] == old["kind"]}
    similar = [name for name, each in same_kind.items() if _similarity(old["body"], each["body"]) >= _SIMILAR]
    return similar[0] if len(similar) == 1 else ""


def _similarity(old: Sequence[int], new: Sequence[int]) -> float:
    if not old or not new:
        return 0.0
    common = sum((Counter(old) & Counter(new)).values())
    return 2 * common / (len(old) + len(new))


def _limited(removed: list[_Removed]) -> list[_Removed]:
    """Keep the first modules and names up to the limit."""
    kept: list[_Removed] = []
    left = MAX_REMOVED
    for each in removed:
        names = dict(list(each.names.items())[:left])
        left -= len(names) + each.is_gone
        if left < 0:
            break
        kept.append(replace(each, names=names))
    return kept


def _uses_elsewhere(
    tree: PythonTree, path: str, module: Module, removed: _ByPath, words: set[str]
) -> Iterable[BrokenUse]:
    """Yield uses through imports; only paths that contain one of the words are looked up."""
    imported: list[str] = []
    for kind, dotted, line, is_guarded, *_ in module["imports"]:
        if kind == "from":
            imported.append(dotted)
        if not is_guarded and (found := _removed_at(tree, path, dotted, removed)):
            yield BrokenUse(path, line, *found)
    known = set(imported)
    for kind, dotted, line, is_guarded, _ in module["uses"]:
        if is_guarded or kind not in {"imported", "string"} or words.isdisjoint(dotted.split(".")):
            continue
        found = _removed_at(tree, path, dotted, removed, is_import=kind == "string")
        if found is None or dotted.rpartition(".")[2] in module["asked"]:
            continue
        if kind == "string" or not _is_reported(tree, path, dotted, known, removed):
            yield BrokenUse(path, line, *found)


def _is_reported(tree: PythonTree, user: str, dotted: str, imported: set[str], removed: _ByPath) -> bool:
    """Whether a use begins with a name whose import is itself broken: the import alone is reported."""
    names = dotted.split(".", MAX_PARTS)[:MAX_PARTS]
    prefixes = (".".join(names[:length]) for length in range(1, len(names) + 1))
    return any(prefix in imported and _removed_at(tree, user, prefix, removed) for prefix in prefixes)


def _removed_at(
    tree: PythonTree, user: str, dotted: str, removed: _ByPath, *, is_import: bool = True
) -> tuple[str, str] | None:
    """The fact and the hint, where a path refers to something that is gone."""
    old = tree.base_index.find(user, dotted)
    each = removed.get(old[0]) if old else None
    if old is None or each is None:
        return None
    new = tree.index.find(user, dotted)
    if each.is_gone:
        if not is_import or (new is not None and _provides(tree, *new)):
            return None
        is_replaced = new is not None and new[1] == old[1]
        if is_replaced and old[1][0] not in each.own:  # the old module did not define it either
            return None
        verb = "was removed" if each.hint == KEEP else "was moved"
        return f"the module {each.path} {verb}", each.hint
    if new is None or new != old:
        return None
    name = next((key for key in (".".join(old[1][:1]), ".".join(old[1][:2])) if key in each.names), None)
    return None if name is None else (_fact(each, name), each.names[name])


def _provides(tree: PythonTree, path: str, names: tuple[str, ...]) -> bool:
    """Whether a module of the new tree has the name; also where that is not known."""
    if not names:
        return True
    module = tree.module(path)
    if module is None or module["is_dynamic"]:
        return True
    return names[0] in module["bound"] or tree.index.provides(path, names[0])


def _own_uses(path: str, module: Module, removed: _Removed, inherited: set[str]) -> Iterable[BrokenUse]:
    """Yield uses in the module itself; a method that any derived class defines is left out."""
    members = {name for name in removed.names if "." in name and name.rpartition(".")[2] not in inherited}
    for kind, dotted, line, is_guarded, _ in module["uses"]:
        names = dotted.split(".")
        is_top = kind == "own" and names[0] in removed.own
        name = names[0] if is_top else ".".join(names[:2])
        is_lost = is_top or (kind in {"own", "self", "cls"} and name in members)
        if is_lost and not is_guarded and names[-1] not in module["asked"]:
            yield BrokenUse(path, line, _fact(removed, name), removed.names[name])


def _fact(removed: _Removed, name: str) -> str:
    return f"`{name}` is no longer in {removed.path}"


def _is_read(answer: Module | None) -> bool:
    return answer is not None and not answer.get("error") and "definitions" in answer
