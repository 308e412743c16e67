"""Scopes of a Python file: which names a module, class or function binds, and to which import a name refers.

It runs in the parser child, so it imports the standard library only.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_OWN_SCOPES: Final = (*FUNCTIONS, ast.ClassDef, ast.Lambda, *COMPREHENSIONS)
_WITHOUT_NODES: Final = {
    "arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "level", "lineno", "module", "op", "ops",
    "rest", "simple", "tag", "type_comment", "type_ignores",
}  # fmt: skip
"""Fields of syntax trees that hold texts, numbers, operators or contexts."""
_NODE_FIELDS: Final[dict[type[ast.AST], tuple[str, ...]]] = {ast.Constant: ()}
"""The other fields of each class, filled as classes are met."""
_BODIES: Final = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(slots=True)
class Scope:
    """The names that one module, class or function binds."""

    kind: str
    """`module`, `class` or `function`; a comprehension is a function."""
    parent: Scope | None = None
    names: dict[str, str | None] = field(default_factory=dict)
    """The dotted path that an import gives a name, None for a name that is bound in another way as well."""
    class_name: str = ""
    """The top-level class that a class or method scope belongs to."""
    self_name: str = ""
    """The first parameter of a method of a top-level class."""

    def find(self, name: str) -> Scope | None:
        """Return the scope that binds a name, as Python looks it up; None where only a builtin can."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names and (scope is self or scope.kind != "class"):
                return scope
            scope = scope.parent
        return None


def children_of(node: ast.AST) -> list[ast.AST]:
    """List the child nodes in order, without operators and contexts: for whole files, `ast.iter_child_nodes` is slow."""
    found: list[ast.AST] = []
    fields = _NODE_FIELDS.get(type(node))
    if fields is None:
        fields = tuple(name for name in node._fields if name not in _WITHOUT_NODES)
        _NODE_FIELDS[type(node)] = fields
    for name in fields:
        value = getattr(node, name, None)
        if value.__class__ is list:
            found += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def global_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names of all `global` statements."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Global):
            yield from node.names
        for name in _BODIES:
            value = getattr(node, name, None)
            if value.__class__ is list:
                pending += value


def bindings_of(body: Iterable[ast.AST]) -> list[tuple[str, str | None]]:
    """List the names that statements bind in their scope, each with the dotted path of its import or None."""
    found: list[tuple[str, str | None]] = []
    outside: set[str] = set()
    pending = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                found.append((node.id, None))
            continue
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            outside.update(node.names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found += [(bound, dotted) for _, bound, dotted in imported_names(node)]
        else:
            found += [(name, None) for name in _bound_by(node)]
        if isinstance(node, _OWN_SCOPES):
            pending += _outer_parts(node)
        else:
            pending += children_of(node)
    return [(name, dotted) for name, dotted in found if name not in outside]


def scope_of(
    kind: str,
    bindings: Iterable[tuple[str, str | None]],
    parent: Scope | None,
    *,
    parameters: Iterable[str] = (),
    class_name: str = "",
) -> Scope:
    """Build a scope from what its body binds; parameters are bound before that."""
    names: dict[str, str | None] = dict.fromkeys(parameters)
    for name, dotted in bindings:
        names[name] = dotted if name not in names or names[name] == dotted else None
    return Scope(kind=kind, parent=parent, names=names, class_name=class_name)


def imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[ast.alias, str, str]]:
    """Yield each alias of an import, the name that it binds, and the dotted path that the name stands for.

    A relative import keeps its leading dots: `from ..a import b` gives `..a.b`. A star import yields nothing.
    """
    for alias in node.names:
        if isinstance(node, ast.Import):
            first = alias.name.partition(".")[0]
            yield (alias, alias.asname, alias.name) if alias.asname else (alias, first, first)
        elif alias.name != "*":
            base = "." * node.level + (f"{node.module}." if node.module else "")
            yield alias, alias.asname or alias.name, base + alias.name


def parameter_names(arguments: ast.arguments) -> list[str]:
    """List the names of all parameters."""
    many = (arguments.vararg, arguments.kwarg)
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *many]
    return [each.arg for each in every if each is not None]


def _outer_parts(node: ast.AST) -> list[ast.AST]:
    """Nodes of an inner scope that bind outer names: assignment expressions in comprehensions."""
    if not isinstance(node, COMPREHENSIONS):
        return []
    return [each.target for each in ast.walk(node) if isinstance(each, ast.NamedExpr)]


def _bound_by(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
        case ast.MatchMapping(rest=str(name)):
            return [name]
    return []
