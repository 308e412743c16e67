#!/usr/bin/env python3
"""Print figures of the code that two commits can be compared by, for each room and in total.

A room is a folder directly below a top-level package, or the package itself for modules directly below it.
Statements are counted besides lines because the formatter does not change them.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import signal
import sys
import tokenize
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MAX_COLUMNS: Final = 110
MAX_FILE_LINES: Final = 900
_EPILOG: Final = f"""\
figures:
  modules            Python files
  lines              lines of all Python files
  statements         ast statements; docstrings and other bare strings left out
  functions          def and async def, nested ones and methods too
  one_importer       modules (no packages) that one module of src imports, be it for TYPE_CHECKING only
  repeated_classes   class names without a leading underscore that are defined twice or more in src
  noqa               comments that switch off a rule
  noqa_s608          those of them that allow SQL made from strings
  fmt_skip           statements that the formatter leaves alone
  public_names       names of __all__ in the __init__ of each top-level package
  long_lines         lines of Python files over {MAX_COLUMNS} columns
  long_files         Python files over {MAX_FILE_LINES} lines

A room's repeated_classes are the repeated names that the room defines. A name counts once in the total, so
the total is not the sum of the rooms.

examples:
  tools/census.py
  tools/census.py --json > after.json
  tools/census.py --lists one_importer repeated_classes
  tools/census.py --root ../other-checkout/src
"""


class CensusError(Exception):
    """The tree cannot be counted; the message says why."""


@dataclass(frozen=True, slots=True)
class Module:
    """A Python file below the root; `comments` has the line and the text of each."""

    name: str
    path: Path
    is_package: bool
    lines: Sequence[str]
    tree: ast.Module
    comments: Sequence[tuple[int, str]]

    @property
    def room(self) -> str:
        """`package.folder` for a module in a folder, `package` for one directly below the package."""
        parts = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        return ".".join(parts[:2]) or self.name


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a figure counts; `weight` is what it adds to the figure."""

    room: str
    label: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with what it counts; with `by_label`, findings of one label count once in the total."""

    name: str
    findings: Sequence[Finding]
    by_label: bool = False

    @property
    def total(self) -> int:
        """The figure over all rooms."""
        if self.by_label:
            return len({finding.label for finding in self.findings})
        return sum(finding.weight for finding in self.findings)

    @property
    def rooms(self) -> dict[str, int]:
        """The figure of each room that has any."""
        counts: Counter[str] = Counter()
        for finding in self.findings:
            counts[finding.room] += finding.weight
        return dict(counts)

    @property
    def labels(self) -> list[str]:
        """What the figure counts, each once."""
        heaviest_first = sorted(self.findings, key=lambda finding: (-finding.weight, finding.label))
        weighted = any(finding.weight != 1 for finding in self.findings)
        labels = (f"{each.weight:6} {each.label}" if weighted else each.label for each in heaviest_first)
        return list(dict.fromkeys(labels))


def read_modules(root: Path) -> list[Module]:
    """All modules of the packages below a folder such as `src`."""
    if not root.is_dir():
        raise CensusError(f"{root} is not a folder: give the folder of the packages, such as --root src")
    if (root / "pyproject.toml").exists():
        raise CensusError(f"{root} is a whole checkout: give the folder of its packages, --root {root / 'src'}")
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        if name:
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text, filename=str(path))
            found.append(
                Module(name, path.relative_to(root), is_package, text.splitlines(), tree, _comments_of(text)),
            )
    if not found:
        raise CensusError(f"{root} holds no Python packages: give their folder, such as --root src")
    return found


def measure(root: Path) -> list[Figure]:
    """All figures of the packages below a folder, in the order in which they are printed."""
    modules = read_modules(root)
    found = {name: list(count(modules)) for name, count in COUNTS.items()}
    return [Figure(name, findings, by_label=name in ONCE_IN_TOTAL) for name, findings in found.items()]


def count_statements(tree: ast.AST) -> int:
    """Count statements at every depth; a bare string, such as a docstring, is none."""
    return sum(isinstance(node, ast.stmt) and not _is_bare_string(node) for node in ast.walk(tree))


def imported_modules(module: Module, known: set[str]) -> set[str]:
    """Which of the known modules a module imports, wherever in the file the import stands."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base_of(module, node)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in known else base)
    return (found & known) - {module.name}


def public_names(tree: ast.Module) -> list[str]:
    """Names of a literal `__all__`; without one, what lazy packages import for type checkers."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        is_all = any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)
        if is_all and isinstance(value, ast.List | ast.Tuple) and value.elts:
            return [str(each.value) for each in value.elts if isinstance(each, ast.Constant)]
    return [
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in node.body
        if isinstance(inner, ast.ImportFrom)
        for alias in inner.names
    ]


def _comments_of(text: str) -> list[tuple[int, str]]:
    """The comments by the tokenizer, so that the same characters inside a string are none."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


def _is_bare_string(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _base_of(module: Module, node: ast.ImportFrom) -> str:
    """The absolute name of what `from ... import` names; relative imports start at the module's package."""
    if not node.level:
        return node.module or ""
    package = module.name.split(".") if module.is_package else module.name.split(".")[:-1]
    parts = package[: len(package) - node.level + 1]
    return ".".join([*parts, *filter(None, [node.module])])


def _modules(modules: Sequence[Module]) -> Iterator[Finding]:
    for module in modules:
        yield Finding(module.room, module.name)


def _lines(modules: Sequence[Module]) -> Iterator[Finding]:
    for module in modules:
        yield Finding(module.room, module.name, len(module.lines))


def _statements(modules: Sequence[Module]) -> Iterator[Finding]:
    for module in modules:
        yield Finding(module.room, module.name, count_statements(module.tree))


def _functions(modules: Sequence[Module]) -> Iterator[Finding]:
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield Finding(module.room, f"{module.path}:{node.lineno} {node.name}")


def _modules_with_one_importer(modules: Sequence[Module]) -> Iterator[Finding]:
    known = {module.name for module in modules}
    importers: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules:
        for name in imported_modules(module, known):
            importers[name].append(module.name)
    for module in modules:
        if not module.is_package and len(importers[module.name]) == 1:
            yield Finding(module.room, f"{module.name} <- {importers[module.name][0]}")


def _repeated_classes(modules: Sequence[Module]) -> Iterator[Finding]:
    places: defaultdict[str, list[Module]] = defaultdict(list)
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    for name, where in places.items():
        if len(where) > 1:
            label = f"{name}: {', '.join(sorted(module.name for module in where))}"
            for room in sorted({module.room for module in where}):
                yield Finding(room, label)


def _noqa(modules: Sequence[Module]) -> Iterator[Finding]:
    return _comments(modules, re.compile(r"#\s*noqa\b"))


def _noqa_s608(modules: Sequence[Module]) -> Iterator[Finding]:
    return _comments(modules, re.compile(r"#\s*noqa:[\w\s,]*\bS608\b"))


def _fmt_skip(modules: Sequence[Module]) -> Iterator[Finding]:
    return _comments(modules, re.compile(r"#\s*fmt:\s*skip\b"))


def _comments(modules: Sequence[Module], wanted: re.Pattern[str]) -> Iterator[Finding]:
    for module in modules:
        for line, text in module.comments:
            if wanted.search(text):
                yield Finding(module.room, f"{module.path}:{line} {text}")


def _public_names(modules: Sequence[Module]) -> Iterator[Finding]:
    for module in modules:
        if module.is_package and "." not in module.name:
            for name in public_names(module.tree):
                yield Finding(module.room, f"{module.name}.{name}")


def _long_lines(modules: Sequence[Module]) -> Iterator[Finding]:
    for module in modules:
        for number, line in enumerate(module.lines, start=1):
            if len(line) > MAX_COLUMNS:
                yield Finding(module.room, f"{module.path}:{number} has {len(line)} columns")


def _long_files(modules: Sequence[Module]) -> Iterator[Finding]:
    for module in modules:
        if len(module.lines) > MAX_FILE_LINES:
            yield Finding(module.room, f"{module.path} has {len(module.lines)} lines")


COUNTS: Final[Mapping[str, Callable[[Sequence[Module]], Iterator[Finding]]]] = {
    "modules": _modules,
    "lines": _lines,
    "statements": _statements,
    "functions": _functions,
    "one_importer": _modules_with_one_importer,
    "repeated_classes": _repeated_classes,
    "noqa": _noqa,
    "noqa_s608": _noqa_s608,
    "fmt_skip": _fmt_skip,
    "public_names": _public_names,
    "long_lines": _long_lines,
    "long_files": _long_files,
}
ONCE_IN_TOTAL: Final = frozenset({"repeated_classes"})


def _as_json(figures: Sequence[Figure], listed: Sequence[str]) -> str:
    rooms = {room: {each.name: each.rooms.get(room, 0) for each in figures} for room in _rooms(figures)}
    found: dict[str, object] = {"total": {each.name: each.total for each in figures}, "rooms": rooms}
    if listed:
        found["lists"] = {each.name: each.labels for each in figures if each.name in listed}
    return json.dumps(found, indent=2)


def _as_table(figures: Sequence[Figure]) -> str:
    rooms = _rooms(figures)
    rows = [["", *(each.name for each in figures)]]
    rows += [[room, *(str(each.rooms.get(room, 0)) for each in figures)] for room in rooms]
    rows += [["total", *(str(each.total) for each in figures)]]
    first, *widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join([row[0].ljust(first), *map(str.rjust, row[1:], widths)]) for row in rows)


def _rooms(figures: Sequence[Figure]) -> list[str]:
    return sorted({room for each in figures for room in each.rooms})


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; the exit code."""
    here = Path(__file__).resolve().parents[1] / "src"
    parser = argparse.ArgumentParser(
        prog="tools/census.py",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--root", type=Path, default=here, help="the folder of the packages; default: src")
    parser.add_argument("--json", action="store_true", help="one JSON object, for machines")
    parser.add_argument(
        "--lists",
        nargs="*",
        metavar="FIGURE",
        help="print what these figures count, or all figures without a name",
    )
    given = parser.parse_args(arguments)
    unknown = [name for name in given.lists or () if name not in COUNTS]
    if unknown:
        parser.error(f"there is no figure {unknown[0]!r}: choose from {', '.join(COUNTS)}")
    listed = [] if given.lists is None else given.lists or list(COUNTS)
    try:
        figures = measure(given.root)
    except (CensusError, SyntaxError) as error:
        parser.exit(2, f"{error}\n")
    if given.json:
        print(_as_json(figures, listed))
        return 0
    print(_as_table(figures))
    for figure in figures:
        if figure.name in listed:
            print(f"\n{figure.name}: {figure.total}", *figure.labels, sep="\n  ")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends the tool without a stack
    sys.exit(main())
