"""Finds uses of Go names that a change removes.

Uses of a top-level name are looked for in its package and in packages that import it.
Uses of a method are looked for in the other methods of its type.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from reprieve.review.critic.broken_uses import (
    KEEP,
    MAX_CANDIDATES,
    MAX_REMOVED,
    BrokenUse,
    is_ignored,
    renamed_hint,
    text_of,
)
from reprieve.review.critic.source_text import blank_go, line_at, lines_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet

_GO_FILES: Final = ("*.go",)
_NAME: Final = r"[^\W\d]\w*"
_PACKAGE: Final = re.compile(rf"^package[ \t]+({_NAME})", re.MULTILINE)
_TOP: Final = re.compile(rf"^(func|type|var|const)[ \t]+({_NAME}(?:[ \t]*,[ \t]*{_NAME})*)", re.MULTILINE)
_BLOCK: Final = re.compile(r"^(?:type|var|const)[ \t]*\(([^\n]*\n(?:[^)\n][^\n]*\n|\n)*)", re.MULTILINE)
_MEMBER: Final = re.compile(rf"^[ \t]+({_NAME}(?:[ \t]*,[ \t]*{_NAME})*)", re.MULTILINE)
_METHOD: Final = re.compile(
    rf"^func[ \t]*\([ \t]*(?:({_NAME})[ \t]+)?\*?[ \t]*({_NAME})[ \t]*(?:\[[^\]\n]*\])?[ \t]*\)[ \t]*({_NAME})",
    re.MULTILINE,
)
_NEXT_TOP: Final = re.compile(r"^(?:\}|func\b|type\b|var\b|const\b)", re.MULTILINE)
_FIELDS: Final = re.compile(rf"[ \t]*({_NAME}(?:[ \t]*,[ \t]*{_NAME})*)[ \t]+[^\s.]")
_MEMBERLESS: Final = re.compile(r"(?:func|map|chan|\[|u?int\d*|float\d+|string|bool|byte|rune)(?!\w)")
"""Types that have no fields and no methods of their own."""
_MODULE: Final = re.compile(r"^module[ \t]+\"?([^\s\"]+)", re.MULTILINE)
_IMPORT: Final = re.compile(rf"^[ \t]*(?:import[ \t]+)?({_NAME}|\.|_)?[ \t]*\"([^\"\n]+)\"", re.MULTILINE)
_BUILD_LINE: Final = re.compile(r"^//(?:go:build|[ \t]*\+build)\b", re.MULTILINE)
_BUILD_NAME: Final = re.compile(
    r"_(?:linux|windows|darwin|unix|freebsd|openbsd|netbsd|solaris|plan9|js|wasm|amd64|arm64|386|arm)"
    r"(?:_test)?\.go$"
)
_NEARBY: Final = 100
_MAX_USES: Final = 100
"""Uses of one name in one file that are reported."""
_FOREIGN: Final = {"vendor", "testdata"}
_Lost = tuple[str, str]
"""The file that defined a name, and the hint for its users."""
_Method = tuple[str, str]
"""The name of a type, and the name of its method."""


@dataclass(frozen=True, slots=True)
class _Package:
    """A folder that loses names."""

    folder: str
    name: str
    """As the package clause has it."""
    lost: Mapping[str, str]
    """The hint for each lost name."""
    places: Mapping[str, str]
    """The file that each name was removed from."""


def go_breaks(change: ChangeSet) -> Iterable[BrokenUse]:
    """Yield uses of removed functions, types, variables, constants and methods; fields are not read."""
    yield from _broken_method_uses(change)
    for package in _packages_with_losses(change):
        yield from _uses_in_package(change, package)
        exported = {name: hint for name, hint in package.lost.items() if name[0].isupper()}
        module = _import_path(change, package.folder)
        if exported and module:
            yield from _uses_elsewhere(change, package, exported, module)


_NOT_REPORTED: Final = frozenset({
    "_", "init", "main", "min", "max", "clear", "any", "len", "cap", "copy", "delete", "append", "new", "make", "panic", "print", "println",
})  # fmt: skip
"""Names that need no user, and names that the language provides as soon as a package does not."""


def definitions_of(text: str) -> dict[str, int]:
    """The top-level names of a Go file, each with its line; methods are left out."""
    blank = blank_go(text)
    found: dict[str, int] = {}
    for each in _TOP.finditer(blank):
        found.update(dict.fromkeys(_split(each[2]), line_at(blank, each.start())))
    for block in _BLOCK.finditer(blank):
        depth = 0
        for line in re.finditer(r"[^\n]*\n", block[1]):
            member = _MEMBER.match(line[0]) if depth == 0 else None
            if member:
                number = line_at(blank, block.start(1) + line.start())
                found.update(dict.fromkeys(_split(member[1]), number))
            depth += sum(line[0].count(sign) for sign in "({[") - sum(line[0].count(sign) for sign in ")}]")
    return {name: line for name, line in found.items() if name not in _NOT_REPORTED}


def methods_of(text: str) -> dict[_Method, int]:
    """The methods of a Go file by their type and name, each with its line."""
    blank = blank_go(text)
    return lines_at(blank, {(each[2], each[3]): each.start() for each in _METHOD.finditer(blank)})


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


def _packages_with_losses(change: ChangeSet) -> Iterator[_Package]:
    lost: dict[tuple[str, str], dict[str, _Lost]] = defaultdict(dict)
    for file in _go_files(change):
        folder = posixpath.dirname(file.old_path)
        before, after = definitions_of(file.before or ""), definitions_of(_text_in_folder(file))
        for name in before:
            if name not in after:
                hint = _hint(file.before or "", file.after or "", name, before, after)
                lost[folder, _package_of(file.before or "")][name] = (file.old_path, hint)
    left = MAX_REMOVED
    for (folder, package), names in lost.items():
        kept = dict(list(_not_defined(change, folder, names).items())[:left])
        left -= len(kept)
        if kept and package and any(_is_in(path, folder) for path in change.tree.paths):
            hints = {name: hint for name, (_, hint) in kept.items()}
            yield _Package(folder, package, hints, {name: path for name, (path, _) in kept.items()})


def _go_files(change: ChangeSet) -> Iterator[ChangedFile]:
    """Yield the changed files that are built for every system, and that people wrote."""
    for file in change.files:
        is_go = file.old_path.endswith(".go") and not file.is_generated and file.before is not None
        is_read = is_go and not _is_foreign(file.old_path) and not _is_conditional(file.old_path, file.before or "")
        if is_read and not (file.is_deleted and is_ignored(change, file.old_path)):
            yield file


def _text_in_folder(file: ChangedFile) -> str:
    """The new version of a file; empty where it left its folder."""
    stays = not file.is_deleted and posixpath.dirname(file.path) == posixpath.dirname(file.old_path)
    return (file.after or "") if stays else ""


def _broken_method_uses(change: ChangeSet) -> Iterator[BrokenUse]:
    left = MAX_REMOVED
    for file in _go_files(change):
        before, after = methods_of(file.before or ""), methods_of(_text_in_folder(file))
        lost = [each for each in before if each not in after and each[1] != "_"][:left]
        left -= len(lost)
        for owner in dict.fromkeys(owner for owner, _ in lost):
            names = [name for each, name in lost if each == owner]
            for name, path, line in _uses_of_methods(change, file, owner, names):
                fact = f"`{owner}.{name}` is no longer in {file.old_path}"
                yield BrokenUse(path, line, fact, _method_hint(file, owner, name, before, after))


def _uses_of_methods(
    change: ChangeSet, file: ChangedFile, owner: str, names: list[str]
) -> Iterator[tuple[str, str, int]]:
    """Yield the names that methods of a type use on their receiver, where the type has no such member."""
    folder, package = posixpath.dirname(file.old_path), _package_of(file.before or "")
    texts = _texts_with(change, folder, [owner], names)
    defined = {name for text in texts.values() for each, name in methods_of(text) if each == owner}
    wanted = [name for name in names if name not in defined]
    uses = [
        (name, path, line)
        for path, text in texts.items()
        if _package_of(text) == package and not _is_conditional(path, text)
        for name, line in islice(_uses_on_receiver(text, owner, wanted), _MAX_USES)
    ]
    fields = _fields_in(_texts_with(change, folder, [owner]).values(), owner) if uses else None
    if fields is not None:
        yield from (use for use in uses if use[0] not in fields)


def _texts_with(change: ChangeSet, folder: str, *words: list[str]) -> dict[str, str]:
    """The Go files of a folder that contain a word of each list; empty where there are too many."""
    found = set.intersection(*(set(change.tree.containing(each, _GO_FILES)) for each in words))
    paths = sorted(path for path in found if _is_in(path, folder))
    return {} if len(paths) > MAX_CANDIDATES else {path: text_of(change, path) for path in paths}


def _fields_in(texts: Iterable[str], owner: str) -> set[str] | None:
    """The fields of a type; None where they are not known, and where an embedded type may have members."""
    declared = re.compile(
        rf"^(?:type[ \t]+{owner}(?:\[[^\]\n]+\])?(?!\w)[ \t]*"
        rf"|[ \t]+{owner}(?:\[[^\]\n]+\])?[ \t]+(?=struct\b))",
        re.MULTILINE,
    )
    found = [(blank, each.end()) for blank in map(blank_go, texts) for each in declared.finditer(blank)]
    if len(found) != 1:
        return None
    blank, start = found[0]
    return set() if _MEMBERLESS.match(blank, start) else _fields_of(blank, start)


def _fields_of(blank: str, start: int) -> set[str] | None:
    """The fields of a struct; None for another type, and for a struct that embeds a type."""
    opening = re.compile(r"struct[ \t]*\{").match(blank, start)
    if opening is None:
        return None
    fields: set[str] = set()
    depth = 1
    for line in re.finditer(r"[^\n;]+", blank[opening.end() :]):
        text = line[0].partition("}")[0] if depth == 1 else ""
        found = _FIELDS.match(text)
        if found:
            fields.update(_split(found[1]))
        elif text.strip():
            return None
        depth += sum(line[0].count(sign) for sign in "({") - sum(line[0].count(sign) for sign in ")}")
        if depth <= 0:
            return fields
    return None


def _method_hint(
    file: ChangedFile, owner: str, name: str, before: Mapping[_Method, int], after: Mapping[_Method, int]
) -> str:
    old, new = ({key[1]: line for key, line in each.items() if key[0] == owner} for each in (before, after))
    return _hint(file.before or "", file.after or "", name, old, new)


def _uses_on_receiver(text: str, owner: str, names: list[str]) -> Iterator[tuple[str, int]]:
    """Yield names that methods of a type use on their receiver."""
    blank = blank_go(text)
    for method in _METHOD.finditer(blank) if names else ():
        receiver = method[1]
        if method[2] != owner or receiver in {None, "_"}:
            continue
        end = _NEXT_TOP.search(blank, method.end())
        body = blank[method.end() : end.start() if end else len(blank)]
        if _binds_locally(body, receiver):
            continue
        for name in names:
            uses = re.finditer(rf"(?<![\w.)\]]){receiver}\.{name}(?!\w)", body)
            yield from ((name, line_at(blank, method.end() + use.start())) for use in islice(uses, _MAX_USES))


def _hint(before: str, after: str, name: str, old: Mapping[str, int], new: Mapping[str, int]) -> str:
    old_lines, new_lines = before.split("\n"), after.split("\n")
    wanted = old_lines[old[name] - 1].replace(name, "")
    same = [each for each in new if each not in old and new_lines[new[each] - 1].replace(each, "") == wanted]
    return renamed_hint(same[0]) if len(same) == 1 else KEEP


def _not_defined(change: ChangeSet, folder: str, names: Mapping[str, _Lost]) -> dict[str, _Lost]:
    """Without the names that another file of the folder defines, in any package or build."""
    defined: set[str] = set()
    for path in change.tree.containing(sorted(names), _GO_FILES):
        if _is_in(path, folder):
            defined.update(definitions_of(text_of(change, path)))
    return {name: each for name, each in names.items() if name not in defined}


def _uses_in_package(change: ChangeSet, package: _Package) -> Iterator[BrokenUse]:
    found = change.tree.containing(sorted(package.lost), _GO_FILES)
    for path in [path for path in found if _is_in(path, package.folder)][:MAX_CANDIDATES]:
        text = text_of(change, path)
        if _package_of(text) != package.name or _is_conditional(path, text) or _has_dot_import(text):
            continue
        blank = blank_go(text)
        for name in package.lost:
            if not _binds_locally(blank, name):
                uses = re.finditer(rf"(?<=[\s(\[{{=,!&*\]])(?<!func ){name}(?=[({{])", blank)
                found_uses = [use.start() for use in islice(uses, _MAX_USES)]
                lines = [line_at(blank, start) for start in found_uses if not _is_declaration(blank, start)]
                yield from _reported(path, lines, package, name)


def _uses_elsewhere(
    change: ChangeSet, package: _Package, exported: Mapping[str, str], module: str
) -> Iterator[BrokenUse]:
    for path in change.tree.containing(sorted(exported), _GO_FILES)[:MAX_CANDIDATES]:
        text = text_of(change, path)
        if _is_foreign(path) or _is_conditional(path, text):
            continue
        aliases = [alias or package.name for alias, target in _IMPORT.findall(text) if target == module]
        blank = blank_go(text)
        if len(aliases) != 1 or aliases[0] in {".", "_"} or _binds_locally(blank, aliases[0]):
            continue
        for name in exported:
            uses = re.finditer(rf"(?<![\w.)\]]){re.escape(aliases[0])}\.{name}\b", blank)
            lines = [line_at(blank, use.start()) for use in islice(uses, _MAX_USES)]
            yield from _reported(path, lines, package, name)


def _reported(path: str, lines: Iterable[int], package: _Package, name: str) -> Iterator[BrokenUse]:
    fact = f"`{name}` is no longer in {package.places[name]}"
    for line in sorted(set(lines)):
        yield BrokenUse(path, line, fact, package.lost[name])


def _binds_locally(blank: str, name: str) -> bool:
    """Whether a file may bind a name as a variable, a parameter, a field or a method."""
    assigned = rf"\b{name}\b[ \t]*(?:,[^\n=]{{0,200}})?:="
    listed = rf",[ \t]*{name}\b[^\n=]{{0,200}}:="
    declared = rf"\b(?:var|const|type)[ \t]+{name}\b"
    typed = rf"(?<![\w.]){name}[ \t]+(?:\*|\[|func\b|map\b|chan\b|interface\b|struct\b|\.\.\.|[A-Za-z_])"
    return any(re.search(pattern, blank) for pattern in (assigned, listed, declared, typed))


def _is_declaration(blank: str, offset: int) -> bool:
    """Whether a name followed by a parenthesis is a method: of a type, or in the body of an interface."""
    line = blank[blank.rfind("\n", 0, offset) + 1 : offset]
    if line.lstrip().startswith("func"):
        return line.count("(") == line.count(")") and "{" not in line
    if line.strip():
        return False
    opening = blank.rfind("{", 0, offset)
    return blank[max(0, opening - _NEARBY) : opening].rstrip().endswith("interface")


def _import_path(change: ChangeSet, folder: str) -> str:
    """The path by which other packages import a folder, from the nearest go.mod; empty without one."""
    parent = folder
    while True:
        content = change.tree.read(posixpath.join(parent, "go.mod"))
        if content is not None:
            found = _MODULE.search(content.decode("utf-8", "replace"))
            inside = folder.removeprefix(parent).strip("/")
            return "" if found is None else posixpath.join(found[1], inside) if inside else found[1]
        if not parent:
            return ""
        parent = posixpath.dirname(parent)


def _is_in(path: str, folder: str) -> bool:
    return path.endswith(".go") and posixpath.dirname(path) == folder


def _package_of(text: str) -> str:
    found = _PACKAGE.search(blank_go(text))
    return found[1] if found else ""


def _has_dot_import(text: str) -> bool:
    return any(alias == "." for alias, _ in _IMPORT.findall(text))


def _is_conditional(path: str, text: str) -> bool:
    """Whether a file is built for some systems only."""
    return bool(_BUILD_LINE.search(text) or _BUILD_NAME.search(posixpath.basename(path)))


def _is_foreign(path: str) -> bool:
    """Whether a file is a copy of another project's, or data of a test."""
    return not _FOREIGN.isdisjoint(path.split("/"))
