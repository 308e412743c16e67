"""Reads Python syntax trees for `failure_patterns` and `python_mistakes`; the parser child runs it."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from reprieve.review.critic.python_scopes import children_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Problem: TypeAlias = "list[Any]"
"""`[rule, line, end_line, detail]`."""
Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES: Final = (*FUNCTIONS, ast.Lambda, ast.ClassDef)
_LONGEST_PATH: Final = 8


class Module:
    """A syntax tree with its imports and the parent of every node."""

    def __init__(self, tree: ast.Module) -> None:
        self.nodes: list[ast.AST] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        self.imports: dict[str, str] = {}
        pending: list[ast.AST] = [tree]
        while pending:
            node = pending.pop()
            self.nodes.append(node)
            children = children_of(node)
            self.parents.update(dict.fromkeys(children, node))
            pending += children
            self._read_import(node)

    def _read_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                self.imports[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                self.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    @cached_property
    def packages(self) -> frozenset[str]:
        """The first part of every imported module."""
        return frozenset(path.partition(".")[0] for path in self.imports.values())

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call of the file."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def sets_default_timeout(self) -> bool:
        """Whether the file sets a timeout for all sockets."""
        return any(last_name(call.func) == "setdefaulttimeout" for call in self.calls)

    @cached_property
    def functions_with_timeouts(self) -> frozenset[Function | None]:
        """The functions that set the timeout of a socket; None is the module."""
        return frozenset(self.function(call) for call in self.calls if last_name(call.func) == "settimeout")

    @cached_property
    def cancels(self) -> bool:
        """Whether the file cancels something."""
        return any(last_name(call.func) == "cancel" for call in self.calls)

    def path(self, node: ast.AST | None) -> str:
        """The dotted path of an imported name; empty for what is not imported."""
        text = dotted(node)
        first, dot, rest = text.partition(".")
        return f"{self.imports[first]}{dot}{rest}" if first in self.imports else ""

    def function(self, node: ast.AST) -> Function | None:
        """The function that a node is in."""
        for each in self.ancestors(node):
            if isinstance(each, FUNCTIONS):
                return each
        return None

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node is in, from the inside to the outside."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent


# Reading trees


def dotted(node: ast.AST | None) -> str:
    """`a.b.c` of a name or an attribute; empty for everything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < _LONGEST_PATH:
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def last_name(node: ast.AST | None) -> str:
    """The name of a name, and the last part of an attribute; empty for everything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def inside(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and everything in them, without the bodies of nested functions and classes."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, SCOPES):
            pending += children_of(node)


def calls_in(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """The calls among these nodes and in them, as `inside` has them."""
    return (node for node in inside(nodes) if isinstance(node, ast.Call))


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument; None where the call has none of this name."""
    return next((each.value for each in call.keywords if each.arg == name), None)


def is_none(node: ast.AST | None) -> bool:
    """Whether a node is the constant None; no node is not."""
    return isinstance(node, ast.Constant) and node.value is None


def is_false(node: ast.AST | None) -> bool:
    """Whether a node is the constant False."""
    return isinstance(node, ast.Constant) and node.value is False


def is_true(node: ast.AST | None) -> bool:
    """Whether a node is the constant True."""
    return isinstance(node, ast.Constant) and node.value is True


def unpacks(call: ast.Call) -> bool:
    """Whether arguments come from `*args` or `**kwargs`, which can hold anything."""
    return any(each.arg is None for each in call.keywords) or any(isinstance(each, ast.Starred) for each in call.args)


def problem(rule: str, node: ast.AST, detail: str = "", *, last: ast.AST | None = None) -> Problem:
    """Build a problem that reaches from one node to the end of it, or of another one."""
    line = getattr(node, "lineno", 0)
    return [rule, line, getattr(last or node, "end_lineno", None) or line, detail[:80]]
