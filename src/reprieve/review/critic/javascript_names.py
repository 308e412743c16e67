"""Finds imports of JavaScript and TypeScript exports that a change removes.

Only imports from a relative path are read. A name that a build could provide is not reported.
"""

from __future__ import annotations

import posixpath
import re
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
    r"\{([^{}]*)\}[ \t\n]*from[ \t]*(['\"])(\.{1,2}/[^'\"\n]*)\2",
    re.MULTILINE,
)
_FROM: Final = re.compile(
    r"^[ \t]*(?:import|export)\b[^'\"`;=(){}\n]*(?:\{[^{}]*\}[^'\"`;=(){}\n]*)?(['\"])(\.{1,2}/[^'\"\n]*)\1",
    re.MULTILINE,
)
_LISTED: Final = re.compile(rf"(?:type\s+)?({_NAME})(?:\s+as\s+({_NAME}))?")
_DYNAMIC: Final = re.compile(
    r"export\s*\*|\bmodule\s*\.\s*exports\b|\bexports\s*[.\[]|^export\s*=",
    re.MULTILINE,
)
"""Forms in which a module may export more names than `exports_of` reads."""


def javascript_breaks(change: ChangeSet) -> Iterable[BrokenUse]:
    """Yield the imports of exports and files that the change removes."""
    for file, names in _removed_exports(change):
        for path in _candidates(change, file, names):
            text = text_of(change, path)
            yield from _broken_imports(change, path, text, file, names)
    for file in _removed_files(change):
        for path in _candidates(change, file, {}):
            text = text_of(change, path)
            yield from _imports_of_file(change, path, text, file)


def exports_of(text: str) -> dict[str, int]:
    """The names that a module exports, each with its line; a default export is left out."""
    blank = blank_javascript(text)
    found = {each[1]: line_at(blank, each.start(1)) for each in _EXPORT.finditer(blank)}
    for each in _EXPORT_LIST.finditer(blank):
        for name in _listed(each[1]):
            found[name[1]] = line_at(blank, each.start())
    found.pop("default", None)
    return found


def _removed_exports(change: ChangeSet) -> Iterator[tuple[ChangedFile, dict[str, str]]]:
    left = MAX_REMOVED
    for file in _source_files(change):
        if file.before is None or file.after is None or file.old_path != file.path:
            continue
        if _DYNAMIC.search(file.after):
            continue
        before, after = exports_of(file.before), exports_of(file.after)
        lost = [name for name in before if name not in after and not _may_export(file.after, name)][:left]
        left -= len(lost)
        if lost:
            yield file, {name: _hint(file, name, before, after) for name in lost}


def _may_export(text: str, name: str) -> bool:
    """Whether a text may export a name in a form that `exports_of` does not read."""
    word = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
    lines = text.split("\n")
    exporting = [line for line in lines if "export" in line and word.search(line)]
    listed = any(word.search(each[1]) for each in re.finditer(r"export[^{}\n]{0,200}\{([^{}]*)\}", text))
    return bool(exporting) or listed


def _hint(file: ChangedFile, name: str, before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Name the one new export whose line is the old one's but for the name."""
    old_lines, new_lines = (file.before or "").split("\n"), (file.after or "").split("\n")
    wanted = old_lines[before[name] - 1].replace(name, "")
    fresh = [each for each in after if each not in before]
    same = [each for each in fresh if new_lines[after[each] - 1].replace(each, "") == wanted]
    return renamed_hint(same[0]) if len(same) == 1 else KEEP


def _removed_files(change: ChangeSet) -> Iterator[ChangedFile]:
    files = [
        file
        for file in _source_files(change)
        if file.old_path
        and (file.is_deleted or file.old_path != file.path)
        and file.old_path not in change.tree.paths
        and not is_ignored(change, file.old_path)
    ]
    yield from files[:MAX_REMOVED]


def _source_files(change: ChangeSet) -> Iterator[ChangedFile]:
    yield from (file for file in change.files if file.old_path.endswith(SUFFIXES) and not file.is_generated)


def _candidates(change: ChangeSet, file: ChangedFile, names: Mapping[str, str]) -> list[str]:
    """The files that contain a name and the last part of the path that they would import."""
    stem = _stem(file.old_path)
    word = posixpath.basename(posixpath.dirname(stem) if posixpath.basename(stem) == "index" else stem)
    found = set(change.tree.containing([word], _PATTERNS)) if word else set()
    folder = posixpath.dirname(file.old_path)
    near = (path for path in change.tree.paths if posixpath.dirname(path) == folder)
    found |= {path for path in near if path.endswith(SUFFIXES)}
    if names:
        found &= set(change.tree.containing(sorted(names), _PATTERNS))
    return sorted(found - {file.path})[:MAX_CANDIDATES]


def _broken_imports(
    change: ChangeSet, path: str, text: str, file: ChangedFile, names: Mapping[str, str]
) -> Iterator[BrokenUse]:
    blank = blank_javascript(text)
    for each in islice(_IMPORT.finditer(text), _MAX_IMPORTS):
        if not _is_code(blank, each) or resolve(change.tree.paths, path, each[3]) != file.path:
            continue
        start = each.start(1)
        for entry in _LISTED.finditer(blank, start, each.end(1)):
            name = entry[1]
            if name in names:
                fact = f"`{name}` is no longer exported by {file.path}"
                yield BrokenUse(path, line_at(text, entry.start(1)), fact, names[name])


def _imports_of_file(change: ChangeSet, path: str, text: str, file: ChangedFile) -> Iterator[BrokenUse]:
    blank = blank_javascript(text)
    hint = KEEP if file.is_deleted else moved_hint(file.path)
    verb = "removed" if file.is_deleted else "moved"
    for each in islice(_FROM.finditer(text), _MAX_IMPORTS):
        target = each[2]
        was_found = resolve(change.base.paths, path, target) == file.old_path
        if was_found and not _exists(change, path, target) and _is_code(blank, each):
            line = line_at(text, each.start(2))
            yield BrokenUse(path, line, f"the module {file.old_path} was {verb}", hint)


def _is_code(blank: str, found: re.Match[str]) -> bool:
    return blank[found.start() :].lstrip(" \t")[:6] in {"import", "export"}


def resolve(paths: frozenset[str], user: str, target: str) -> str | None:
    """The one file that a relative import refers to; None where there is none, or several could be meant."""
    found = [path for path in _possible(user, target, SUFFIXES) if path in paths]
    return found[0] if len(set(found)) == 1 else None


def _exists(change: ChangeSet, user: str, target: str) -> bool:
    every = (*SUFFIXES, *_OTHER_SOURCES)
    return any(path in change.tree.paths for path in _possible(user, target, every))


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
