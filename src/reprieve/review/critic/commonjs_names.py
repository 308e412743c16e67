"""Finds uses of CommonJS exports that a change removes: `module.exports = {...}` and `exports.name = ...`.

A module whose exports are written in any other form is left out.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from reprieve.review.critic.broken_uses import MAX_REMOVED, BrokenUse, text_of
from reprieve.review.critic.javascript_names import candidates, loads_of, rename_or_keep, resolve, source_files
from reprieve.review.critic.source_text import blank_javascript, line_at, lines_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet

_MAX_USES: Final = 100
"""Loads of one file, and uses of one name in it, that are read."""
_NAME: Final = r"[A-Za-z_$][\w$]*"
_NEARBY: Final = 20
_MODULE_SYNTAX: Final = re.compile(r"^[ \t]*(?:export|import)\b(?!\s*\()", re.MULTILINE)
_MODULE_WORD: Final = re.compile(
    r"(?<![\w$.])module(?![\w$])(?!\s*\.\s*(?:exports|id|filename|children|parent|paths|loaded)(?![\w$]))"
)
_EXPORTS: Final = re.compile(r"(?<![\w$.])(module\s*\.\s*)?exports(?![\w$])")
_WRITTEN: Final = re.compile(rf"\s*\.\s*({_NAME})\s*=(?![=>])")
_READ: Final = re.compile(rf"\s*\.\s*{_NAME}")
_ALIAS: Final = re.compile(r"\s*=(?=\s*(?:module\s*\.\s*)?exports\s*=\s*\{)")
_LITERAL: Final = re.compile(r"\s*=\s*\{")
_BRACKET: Final = re.compile(r"[{}()\[\],]")
_ENTRY: Final = re.compile(rf"\s*(?:(?:async|get|set)\s+|async\s*\*\s*|\*\s*)?({_NAME})\s*(?=[:(]|\Z)")
_QUOTED_KEY: Final = re.compile(r"(['\"])([^'\"\\\n]{1,200})\1\s*\Z")
_CONTINUED: Final = re.compile(r"\s*[.(\[]")
_REQUIRED: Final = re.compile(
    rf"(?:(?<![\w$.])(?:const|let|var)[ \t]+|,\s*)(?:({_NAME})|\{{([^{{}}]*)\}})\s*=\s*require\s*\("
)
_REQUIRE: Final = re.compile(r"(?<![\w$.])require\s*\(")
_ARGUMENT: Final = re.compile(r"\s*(['\"])(\.{1,2}(?:/[^'\"\n]*)?)\1\s*\)")
_TAKEN: Final = re.compile(rf"({_NAME})\s*(?::\s*{_NAME}\s*)?")
_PARAMETERS: Final = re.compile(r"\(([^()]*)\)\s*(?:=>|\{|:)")
_GUARDED: Final = re.compile(r"\s*(?:\?|&&|\|\||=(?!=))")
_GUARDING: Final = re.compile(r"(?:(?<![\w$])typeof|!|(?<![\w$])if\s*\(|(?<![\w$])delete|&&|\|\|)\s*\Z")
_CALLED: Final = re.compile(r"\s*\(")
_Exports = dict[str, int]


def commonjs_breaks(change: ChangeSet) -> Iterable[BrokenUse]:
    """Yield the uses of names that a module no longer exports."""
    left = MAX_REMOVED
    for file in source_files(change):
        if file.before is None or file.after is None or file.old_path != file.path:
            continue
        before, after = commonjs_exports(file.before), commonjs_exports(file.after)
        if before is None or after is None:
            continue
        lost = [name for name in before if name not in after and name != "default"][:left]
        left -= len(lost)
        hints = {name: rename_or_keep(file, name, before, after) for name in lost}
        for path in candidates(change, [file.path], hints) if hints else ():
            for name, line in _uses(change, path, text_of(change, path), file, lost):
                yield BrokenUse(path, line, f"`{name}` is no longer exported by {file.path}", hints[name])


def commonjs_exports(text: str) -> _Exports | None:
    """The names that a CommonJS module exports, each with its line; None where they are not certain."""
    blank = blank_javascript(text)
    if _MODULE_SYNTAX.search(blank) or any(not _is_compared(blank, each) for each in _MODULE_WORD.finditer(blank)):
        return None
    found: _Exports = {}
    literals = loose = 0
    for each in _EXPORTS.finditer(blank):
        if name := _WRITTEN.match(blank, each.end()):
            found[name[1]] = each.start()
            loose += not each[1]
        elif literal := _LITERAL.match(blank, each.end()):
            names = _literal_names(text, blank, literal.end())
            if names is None or not _is_whole(blank, each):
                return None
            found.update(names)
            literals += 1
        elif not _READ.match(blank, each.end()) and not _ALIAS.match(blank, each.end()):
            return None
    return None if literals > 1 or (literals and loose) else lines_at(blank, found)


def _is_compared(blank: str, found: re.Match[str]) -> bool:
    """Whether a word stands in `require.main === module`."""
    return blank[max(0, found.start() - _NEARBY) : found.start()].rstrip().endswith("==")


def _is_whole(blank: str, found: re.Match[str]) -> bool:
    """Whether a literal is written to `module.exports`, perhaps through `exports` as well."""
    before = blank[max(0, found.start() - _NEARBY) : found.start()].rstrip()
    return found[1] is not None or before.endswith("=")


def _literal_names(text: str, blank: str, start: int) -> _Exports | None:
    """The keys of an object literal with their offsets; None where it has a spread or a computed key."""
    entries = _entries(blank, start)
    if not entries or _CONTINUED.match(blank, entries[-1][1] + 1):
        return None
    found: _Exports = {}
    for begin, end in entries:
        piece = blank[begin:end]
        if not piece.strip():
            continue
        if entry := _ENTRY.match(piece):
            found[entry[1]] = begin + entry.start(1)
            continue
        colon = begin + piece.find(":")
        quoted = _QUOTED_KEY.search(text[begin:colon]) if piece.lstrip().startswith(":") else None
        if quoted is None:
            return None
        found[quoted[2]] = colon
    return found


def _entries(blank: str, start: int) -> list[tuple[int, int]]:
    """Where the entries of a literal begin and end; empty where its brace is not closed."""
    found: list[tuple[int, int]] = []
    depth, begin = 0, start
    for each in _BRACKET.finditer(blank, start):
        if each[0] in "([{":
            depth += 1
        elif each[0] == ",":
            if depth == 0:
                found.append((begin, each.start()))
                begin = each.end()
        elif depth == 0:
            return [*found, (begin, each.start())]
        else:
            depth -= 1
    return []


def _uses(change: ChangeSet, path: str, text: str, file: ChangedFile, lost: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield lost names with the lines that take them: by destructuring, or as a member of the module."""
    blank = blank_javascript(text)
    loads = [each for each in loads_of(text, blank) if resolve(change.tree.paths, path, each.target) == file.path]
    if not loads or any(each.is_mock for each in loads):
        return
    names = set(lost)
    for required in islice(_REQUIRED.finditer(blank), _MAX_USES):
        end = _end_of_load(change, path, text, required.end(), file)
        if end is None or _CONTINUED.match(blank, end):
            continue
        if required[1] is None:
            yield from _destructured(blank, required, names)
        elif _is_bound_once(blank, required[1]):
            for name in sorted(names):
                starts = _members(blank, rf"(?<![\w$.]){re.escape(required[1])}", name)
                yield from ((name, line_at(blank, start)) for start in starts)
    for required in islice(_REQUIRE.finditer(blank), _MAX_USES):
        end = _end_of_load(change, path, text, required.end(), file)
        member = _READ.match(blank, end) if end is not None else None
        name = "" if member is None else member[0].strip().removeprefix(".").strip()
        if member is not None and name in names and not _GUARDED.match(blank, member.end()):
            yield name, line_at(blank, member.end())


def _end_of_load(change: ChangeSet, path: str, text: str, start: int, file: ChangedFile) -> int | None:
    """Where a call of `require` ends that loads the file; None where it loads something else."""
    found = _ARGUMENT.match(text, start)
    if found is None or resolve(change.tree.paths, path, found[2]) != file.path:
        return None
    return found.end()


def _destructured(blank: str, required: re.Match[str], names: set[str]) -> Iterator[tuple[str, int]]:
    place = required.start(2)
    for entry in required[2].split(","):
        taken = _TAKEN.fullmatch(entry.strip())
        if taken and taken[1] in names:
            yield taken[1], line_at(blank, place + len(entry) - len(entry.lstrip()))
        place += len(entry) + 1


def _members(blank: str, owner: str, name: str) -> list[int]:
    """Where a member is used; empty where any use of the file checks or writes it."""
    found = re.compile(rf"{owner}\s*\.\s*{re.escape(name)}(?![\w$])")
    starts: list[int] = []
    for use in islice(found.finditer(blank), _MAX_USES):
        before = blank[max(0, use.start() - _NEARBY) : use.start()]
        is_called = _CALLED.match(blank, use.end()) is not None
        if _GUARDED.match(blank, use.end()) or (not is_called and _GUARDING.search(before)):
            return []
        starts.append(use.end())
    return starts


def _is_bound_once(blank: str, name: str) -> bool:
    """Whether nothing but one declaration can bind a name in a file."""
    word = rf"(?<![\w$.]){re.escape(name)}(?![\w$])"
    alone = re.compile(rf"{word}(?!\s*[.\[(])")
    in_parameters = any(alone.search(each[1]) for each in _PARAMETERS.finditer(blank))
    in_pattern = re.search(rf"[{{,\[:]\s*{word}\s*[,}}\]]", blank)
    assigned = re.findall(rf"{word}\s*(?:=(?!=)|(?:in|of)\b)", blank)
    named = re.search(rf"(?<![\w$.])(?:function|class|catch)\s*\*?\s*\(?\s*{word}", blank)
    return len(assigned) == 1 and not in_parameters and in_pattern is None and named is None
