"""Finds imports of JavaScript and TypeScript exports and files that a change removes.

Only relative paths are read. A name that a build could provide is not reported.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from reprieve.review.critic.broken_uses import (
    KEEP,
    MAX_CANDIDATES,
    MAX_REMOVED,
    BrokenUse,
    is_ignored,
    moved_hint,
    renamed_hint,
    text_of,
)
from reprieve.review.critic.source_text import blank_javascript, line_at
from reprieve.review.diffs import is_generated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet

SUFFIXES: Final = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts")
_MAX_IMPORTS: Final = 1000
"""Imports of one file that are read."""
_COMPILED_FROM: Final = {".js": (".ts", ".tsx"), ".jsx": (".tsx",), ".mjs": (".mts",), ".cjs": (".cts",)}
"""TypeScript imports a file by the suffix that the compiler gives it."""
_OTHER_SOURCES: Final = (".d.ts", ".vue", ".svelte", ".json", ".node", ".coffee")
_PATTERNS: Final = tuple(f"*{suffix}" for suffix in SUFFIXES)
_NAME: Final = r"[A-Za-z_$][\w$]*"
_EXPORT: Final = re.compile(
    r"^export[ \t]+(?:declare[ \t]+)?(?:async[ \t]+)?(?:abstract[ \t]+)?"
    r"(?:function[ \t]*\*?|class|const[ \t]+enum|const|let|var|type|interface|enum|namespace)"
    rf"[ \t]*\b({_NAME})",
    re.MULTILINE,
)
_EXPORT_LIST: Final = re.compile(r"^export[ \t]+(?:type[ \t]+)?\{([^{}]*)\}", re.MULTILINE)
_IMPORT: Final = re.compile(
    rf"^[ \t]*(?:import|export)\b[ \t]*(?:type\b[ \t]*)?(?:{_NAME}[ \t]*,[ \t]*)?"
    r"\{([^{}]*)\}[ \t\n]*from[ \t]*(['\"])([@#~.\w][^'\"\n]*)\2",
    re.MULTILINE,
)
_EXPORT_ALL: Final = re.compile(r"^[ \t]*export[ \t]*\*[ \t\n]*from[ \t]*(['\"])([@#~.\w][^'\"\n]*)\1", re.MULTILINE)
_DEFAULT: Final = re.compile(
    r"^export[ \t]+default\b|\bas[ \t]+default\b|\bexport[ \t]*\{[^{}]*\bdefault\b", re.MULTILINE
)
_DEFAULT_IMPORT: Final = re.compile(
    rf"^[ \t]*import[ \t]+(?:type[ \t]+)?{_NAME}[ \t]*(?:,[ \t]*\{{[^{{}}]*\}}[ \t\n]*)?from[ \t]*(['\"])([@#~.\w][^'\"\n]*)\1",
    re.MULTILINE,
)
_MAX_BARRELS: Final = 20
_FROM: Final = re.compile(
    r"^[ \t]*(?:import|export)\b[^'\"`;=(){}\n]*(?:\{[^{}]*\}[^'\"`;=(){}\n]*)?(['\"])(\.{1,2}(?:/[^'\"\n]*)?)\1",
    re.MULTILINE,
)
_LOAD_CALL: Final = re.compile(
    r"(?<![\w$.])(?:require(?:\.resolve)?|import"
    r"|((?:jest|vi)\.(?:mock|doMock|unmock|requireActual|requireMock|importActual|importMock)))"
    r"[ \t]*(?:<[^<>()\n]{0,200}>)?[ \t]*\("
)
_PATH_ARGUMENT: Final = re.compile(r"\s*(?:/\*(?:[^*]|\*(?!/)){0,500}\*/\s*){0,3}(['\"])(\.{1,2}(?:/[^'\"\n]*)?)\1")
_TOLERATED: Final = re.compile(r"\s*\)\s*\.\s*catch\b")
_MOCKED_LENGTH: Final = 1000
"""Characters after the path of a mock in which `virtual: true` is looked for."""
_ALIAS: Final = re.compile(r"^(?:[@~]?/|[@#](?=\w))")
_BINDING: Final = re.compile(rf"(?:(?:const|let|var)[ ]+({_NAME})[ ]*=|import[ ]+({_NAME})[ ]+from\b)")
"""A name that a line binds for the whole file."""
_USED: Final = re.compile(r"[ ]?\(|\.[A-Za-z_$]")
"""Only calls and members: every other use could be a binding of its own."""
_METHOD_BODY: Final = re.compile(r"[ ]?\([^()]{0,300}\)\s*\{")
"""A method or a function of the same name."""
_MAX_BINDING: Final = 500
_DATA_FOLDERS: Final = {"node_modules", "fixtures", "__fixtures__", "testdata"}
"""Folders with files that a program reads but may not run."""
_KEYWORD: Final = re.compile(r"[ \t]*(?:import|export)\b")
_LISTED: Final = re.compile(rf"(?:type\s+)?({_NAME})(?:\s+as\s+({_NAME}))?")
_DYNAMIC: Final = re.compile(
    r"export\s*\*|\bmodule\s*\.\s*exports\b|\bexports\s*[.\[]|^export\s*=",
    re.MULTILINE,
)
"""Forms in which a module may export more names than `exports_of` reads."""


def javascript_breaks(change: ChangeSet) -> Iterable[BrokenUse]:
    """Yield the imports of exports and files that the change removes."""
    for file, names in _removed_exports(change):
        barrels = _barrels(change, file, names)
        for path in candidates(change, [file.path, *barrels], names):
            yield from _broken_imports(change, path, file, names, barrels)
            yield from _broken_default_imports(change, path, file, names)
    yield from _loads_of_removed_files(change)


def exports_of(text: str) -> dict[str, int]:
    """The names that a module exports, each with its line; default exports are read apart."""
    blank = blank_javascript(text)
    found = {each[1]: line_at(blank, each.start(1)) for each in _EXPORT.finditer(blank)}
    for each in _EXPORT_LIST.finditer(blank):
        for name in _listed(each[1]):
            found[name[1]] = line_at(blank, each.start())
    found.pop("default", None)
    return found


def _removed_exports(change: ChangeSet) -> Iterator[tuple[ChangedFile, dict[str, str]]]:
    left = MAX_REMOVED
    for file in source_files(change):
        if file.before is None or file.after is None or file.old_path != file.path:
            continue
        if _DYNAMIC.search(file.after):
            continue
        before, after = exports_of(file.before), exports_of(file.after)
        lost = [name for name in before if name not in after and not _may_export(file.after, name)][:left]
        left -= len(lost)
        names = {name: rename_or_keep(file, name, before, after) for name in lost}
        if _DEFAULT.search(blank_javascript(file.before)) and not _DEFAULT.search(file.after):
            names["default"] = KEEP
        if names:
            yield file, names


def _may_export(text: str, name: str) -> bool:
    """Whether a text may export a name in a form that `exports_of` does not read."""
    word = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
    lines = text.split("\n")
    exporting = [line for line in lines if "export" in line and word.search(line)]
    listed = any(word.search(each[1]) for each in re.finditer(r"export[^{}\n]{0,200}\{([^{}]*)\}", text))
    return bool(exporting) or listed


def rename_or_keep(file: ChangedFile, name: str, before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Name the one new export whose line is the old one's but for the name."""
    old_lines, new_lines = (file.before or "").split("\n"), (file.after or "").split("\n")
    wanted = old_lines[before[name] - 1].replace(name, "")
    fresh = [each for each in after if each not in before]
    same = [each for each in fresh if new_lines[after[each] - 1].replace(each, "") == wanted]
    return renamed_hint(same[0]) if len(same) == 1 else KEEP


def _removed_files(change: ChangeSet) -> Iterator[ChangedFile]:
    files = [
        file
        for file in source_files(change)
        if file.old_path
        and (file.is_deleted or file.old_path != file.path)
        and file.old_path not in change.tree.paths
        and not is_ignored(change, file.old_path)
    ]
    yield from files[:MAX_REMOVED]


def source_files(change: ChangeSet) -> Iterator[ChangedFile]:
    """Yield the changed scripts that people wrote."""
    yield from (file for file in change.files if file.old_path.endswith(SUFFIXES) and not file.is_generated)


def lost_bindings(change: ChangeSet) -> Iterator[BrokenUse]:
    """Uses of a constant, function or import that the same file no longer binds."""
    for file in change.files:
        if not file.path.endswith(SUFFIXES) or file.after is None or file.is_generated or not file.removed:
            continue
        removed = {
            found[1] or found[2] for line in file.removed.values() if (found := _BINDING.match(line[:_MAX_BINDING]))
        }
        blank = blank_javascript(file.after) if removed else ""
        for name in sorted(removed)[:MAX_CANDIDATES]:
            places = list(islice(re.finditer(rf"(?<![\w$.#]){re.escape(name)}(?![\w$])", blank), _MAX_IMPORTS))
            used = [each for each in places if _USED.match(blank, each.end())]
            is_method = any(_METHOD_BODY.match(blank, each.end()) for each in used)
            if used and not is_method and len(used) == len(places):
                fact = f"`{name}` is no longer defined in {file.path}"
                yield BrokenUse(file.path, line_at(file.after, used[0].start()), fact, KEEP)


def candidates(change: ChangeSet, loaded: list[str], names: Mapping[str, str]) -> list[str]:
    """The files that contain a name and the last part of a path that they would import."""
    near, far = _loaders(change, loaded)
    found = near | far
    if "default" not in names:  # which its users do not name
        found &= set(change.tree.containing(sorted(names), _PATTERNS))
    return [path for path in sorted(found - {loaded[0]}) if not _is_data(path)][:MAX_CANDIDATES]


def _barrels(change: ChangeSet, file: ChangedFile, names: Mapping[str, str]) -> dict[str, set[str]]:
    """The files that re-export all of a file, directly or through each other, with the lost names that nothing else gives them."""
    found: dict[str, set[str]] = {}
    pending = [file.path]
    for source in pending:
        near, far = _loaders(change, [source])
        for path in [each for each in (*sorted(near), *sorted(far)) if not _is_data(each)][:MAX_CANDIDATES]:
            text = text_of(change, path)
            if "export" not in text or path in found or path == file.path or len(pending) > _MAX_BARRELS:
                continue
            targets = [resolve(change.tree.paths, path, each[2]) for each in _EXPORT_ALL.finditer(text)]
            if source not in targets:
                continue
            others = [text, *(text_of(change, each) for each in targets if each and each not in {source, file.path})]
            given = {name for each in others for name in exports_of(each)}
            hides_more = any(_EXPORT_ALL.search(each) for each in others[1:])
            found[path] = set() if hides_more else set(names) - given - {"default"}
            pending.append(path)
    return {path: lost for path, lost in found.items() if lost}


def _loaders(change: ChangeSet, loaded: Iterable[str]) -> tuple[set[str], set[str]]:
    """The files in the folders of loaded files, and other files that contain the last part of their paths."""
    stems = [_stem(path) for path in loaded]
    words = {posixpath.basename(posixpath.dirname(each) if _is_index(each) else each) for each in stems} - {""}
    folders = {posixpath.dirname(each) for each in stems}
    near = {path for path in change.tree.paths if posixpath.dirname(path) in folders and path.endswith(SUFFIXES)}
    far = set(change.tree.containing(sorted(words), _PATTERNS)) - near if words else set()
    return near, far


def _is_index(stem: str) -> bool:
    return posixpath.basename(stem) == "index"


def _broken_imports(
    change: ChangeSet, path: str, file: ChangedFile, names: Mapping[str, str], barrels: Mapping[str, set[str]]
) -> Iterator[BrokenUse]:
    text = text_of(change, path)
    blank = blank_javascript(text)
    for each in islice(_IMPORT.finditer(text), _MAX_IMPORTS):
        target = resolve(change.tree.paths, path, each[3]) if _is_code(blank, each) else None
        lost = set(names) if target == file.path else barrels.get(target or "", set())
        for entry in _LISTED.finditer(blank, each.start(1), each.end(1)) if lost else ():
            if entry[1] in lost:
                fact = f"`{entry[1]}` is no longer exported by {file.path}"
                yield BrokenUse(path, line_at(text, entry.start(1)), fact, names[entry[1]])


def _broken_default_imports(
    change: ChangeSet, path: str, file: ChangedFile, names: Mapping[str, str]
) -> Iterator[BrokenUse]:
    text = text_of(change, path) if "default" in names else ""
    blank = blank_javascript(text)
    for each in islice(_DEFAULT_IMPORT.finditer(text), _MAX_IMPORTS):
        if _is_code(blank, each) and resolve(change.tree.paths, path, each[2]) == file.path:
            fact = f"`default` is no longer exported by {file.path}"
            yield BrokenUse(path, line_at(text, each.start(2)), fact, names["default"])


def _loads_of_removed_files(change: ChangeSet) -> Iterator[BrokenUse]:
    removed = {file.old_path: file for file in _removed_files(change)}
    near, far = _loaders(change, removed) if removed else (set(), set())
    paths = [path for path in (*sorted(near), *sorted(far)) if not _is_data(path)]
    for path in paths[:MAX_CANDIDATES]:
        changed = change.by_path.get(path)
        users = {path, changed.old_path or path} if changed else {path}
        text = text_of(change, path)
        for load in loads_of(text, blank_javascript(text)):
            targets = (resolve(change.base.paths, user, load.target) for user in users)
            file = next((removed[target] for target in targets if target in removed), None)
            if file is None or load.is_optional or _exists(change, path, load.target):
                continue
            verb, hint = ("removed", KEEP) if file.is_deleted else ("moved", moved_hint(file.path))
            yield BrokenUse(path, load.line, f"the module {file.old_path} was {verb}", hint)


@dataclass(frozen=True, slots=True)
class Load:
    """A place where a file loads another one by a relative path."""

    target: str
    """The path as the file has it."""
    line: int
    is_optional: bool = False
    """Whether the file expects that the load can fail."""
    is_mock: bool = False
    """Whether a test replaces the module."""


def loads_of(text: str, blank: str) -> Iterator[Load]:
    """Yield the imports, re-exports and calls of `require`, `import` and `jest.mock` with a relative path."""
    for each in islice(_FROM.finditer(text), _MAX_IMPORTS):
        if _is_code(blank, each):
            yield Load(each[2], line_at(text, each.start(2)))
    tried = _tried_ranges(blank)
    for call in islice(_LOAD_CALL.finditer(blank), _MAX_IMPORTS):
        found = _PATH_ARGUMENT.match(text, call.end())
        if found is None:
            continue
        is_tried = any(start < call.start() < end for start, end in tried)
        is_virtual = call[1] is not None and "virtual" in blank[found.end() : found.end() + _MOCKED_LENGTH]
        is_optional = is_tried or is_virtual or _TOLERATED.match(blank, found.end()) is not None
        yield Load(found[2], line_at(text, found.start(2)), is_optional, call[1] is not None)


def _tried_ranges(blank: str) -> list[tuple[int, int]]:
    """Where the blocks of `try` begin and end."""
    found: list[tuple[int, int]] = []
    opened: list[int | None] = []
    for brace in re.finditer(r"[{}]", blank):
        at = brace.start()
        if brace[0] == "{":
            is_try = re.search(r"(?<![\w$.])try\s*$", blank[max(0, at - 20) : at])
            opened.append(at if is_try else None)
        elif opened and (start := opened.pop()) is not None:
            found.append((start, at))
    return found[:_MAX_IMPORTS]


def _is_data(path: str) -> bool:
    return not _DATA_FOLDERS.isdisjoint(path.split("/")) or is_generated(path)


def _is_code(blank: str, found: re.Match[str]) -> bool:
    return _KEYWORD.match(blank, found.start()) is not None


def resolve(paths: frozenset[str], user: str, target: str) -> str | None:
    """The one file that an import refers to; None where there is none, or several could be meant."""
    if not target.startswith("."):
        return _resolve_alias(paths, target)
    found = [path for path in _possible(user, target, SUFFIXES) if path in paths]
    return found[0] if len(set(found)) == 1 else None


def _resolve_alias(paths: frozenset[str], target: str) -> str | None:
    """The one file whose path ends like `@/services/query`, `#services/query` or `layout/Page`.

    The configuration of the build is not read.
    """
    wanted = _ALIAS.sub("", target.partition("?")[0])
    if "/" not in wanted:
        return None
    stems = [wanted, f"{wanted}/index"]
    names = {f"{posixpath.basename(stem)}{suffix}" for stem in stems for suffix in ("", *SUFFIXES)}
    ends = tuple(f"/{stem}{suffix}" for stem in stems for suffix in ("", *SUFFIXES))
    found = [path for name in names for path in _by_name(paths).get(name, ()) if f"/{path}".endswith(ends)]
    return found[0] if len(found) == 1 else None


@lru_cache(maxsize=4)
def _by_name(paths: frozenset[str]) -> Mapping[str, list[str]]:
    """The scripts of a tree by the last part of their paths."""
    found: dict[str, list[str]] = {}
    for path in paths:
        if path.endswith(SUFFIXES) and not _is_data(path):
            found.setdefault(posixpath.basename(path), []).append(path)
    return found


def _exists(change: ChangeSet, user: str, target: str) -> bool:
    every = (*SUFFIXES, *_OTHER_SOURCES)
    return any(path in change.tree.paths for path in (*_possible(user, target, every), _manifest(user, target)))


def _manifest(user: str, target: str) -> str:
    """The package.json that can name the module of a folder."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(user), target, "package.json"))


def _possible(user: str, target: str, suffixes: tuple[str, ...]) -> list[str]:
    target = target.partition("?")[0]
    base = posixpath.normpath(posixpath.join(posixpath.dirname(user), target))
    stems = [base]
    for compiled, sources in _COMPILED_FROM.items():
        if base.endswith(compiled):
            stems += [base.removesuffix(compiled) + suffix for suffix in sources]
    return [*stems, *(f"{base}{index}{suffix}" for index in ("", "/index") for suffix in suffixes)]


def _stem(path: str) -> str:
    return next(path.removesuffix(suffix) for suffix in SUFFIXES if path.endswith(suffix))


def _listed(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names of `a, b as c` with the names that they are known by."""
    for entry in text.split(","):
        if found := _LISTED.fullmatch(entry.strip()):
            yield found[1], found[2] or found[1]
