"""Uses of names in a Python file, each with the module path that it refers to through imports and scopes.

It runs in the parser child, so it imports the standard library only. It walks the tree with its own stack,
because a file may be nested more deeply than Python allows calls to be.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from reprieve.review.critic.python_scopes import (
    FUNCTIONS,
    Scope,
    bindings_of,
    children_of,
    global_names,
    imported_names,
    parameter_names,
    scope_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAME_ERRORS: Final = {"ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "TypeError"}
_BROAD_ERRORS: Final = {"Exception", "BaseException", "StandardError"}
_EXPECTING: Final = {"raises", "assertRaises", "assertRaisesRegex", "assertRaisesMessage", "warns"}
_BUILTINS: Final = frozenset(dir(builtins)) | {
    "__file__", "__path__", "__class__", "WindowsError", "reveal_type", "unicode", "xrange", "basestring",
}  # fmt: skip
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_LONGEST_STRING: Final = 300
_READ: Final = frozenset({
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp,
    ast.DictComp, ast.GeneratorExp, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.If, ast.Call, ast.Name, ast.Attribute,
    ast.Assign,
})  # fmt: skip
"""Nodes of which more is read than their children."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node stands."""

    scope: Scope
    is_guarded: bool = False
    """Whether a failure of an import, a name or a call is expected here."""
    is_tolerant: bool = False
    """Whether any exception is caught here."""


class UseReader:
    """Collects the imports and uses of one module; `imports` and `uses` are as in `python_source`."""

    def __init__(self, tree: ast.Module) -> None:
        self.imports: list[list[Any]] = []
        self.uses: list[list[Any]] = []
        self.asked: set[str] = set()
        self.assigned: set[str] = set()
        self.is_dynamic = False
        self.module = scope_of("module", bindings_of(tree.body), None)
        self._top = {id(node) for node in tree.body}
        self._pending: list[tuple[ast.AST, _Place]] = [(node, _Place(self.module)) for node in tree.body]
        self.module.names.update(dict.fromkeys(global_names(tree)))
        while self._pending:
            self._visit(*self._pending.pop())
        self.imports.sort(key=lambda each: each[2])
        self.uses.sort(key=lambda each: each[2])

    def _visit(self, node: ast.AST, place: _Place) -> None:
        if node.__class__ not in _READ:
            self._push(children_of(node), place)
            return
        match node:
            case ast.Import() | ast.ImportFrom():
                self._read_import(node, place)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._enter_function(node, place)
            case ast.ClassDef():
                self._enter_class(node, place)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                bound = bindings_of(each.target for each in node.generators)
                inner = Scope("function", place.scope, dict.fromkeys(name for name, _ in bound))
                self._push(children_of(node), replace(place, scope=inner))
            case ast.Try() | ast.TryStar():
                self._enter_try(node, place)
            case _:
                self._visit_in_scope(node, place)

    def _visit_in_scope(self, node: ast.AST, place: _Place) -> None:
        match node:
            case ast.With(items=items) | ast.AsyncWith(items=items) if any(map(_expects_failure, items)):
                self._push(children_of(node), replace(place, is_guarded=True))
            case ast.If(test=test) if _asks_version(test):
                self._push(children_of(node), replace(place, is_guarded=True))
            case ast.Call():
                self._read_call(node, place)
            case ast.Name() | ast.Attribute():
                self._read_chain(node, place, None)
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() | ast.Tuple() as value):
                self._read_exported(value.elts)
            case _:
                self._push(children_of(node), place)

    def _push(self, nodes: Iterable[ast.AST | None], place: _Place) -> None:
        self._pending += [(node, place) for node in nodes if node is not None]

    def _read_import(self, node: ast.Import | ast.ImportFrom, place: _Place) -> None:
        if any(alias.name == "*" for alias in node.names):
            self.is_dynamic = True
        kind = "import" if isinstance(node, ast.Import) else "from"
        is_guarded = place.is_guarded or place.is_tolerant
        for alias, bound, dotted in imported_names(node):
            full = alias.name if kind == "import" else dotted
            self.imports.append([kind, full, alias.lineno, is_guarded, bound])

    def _enter_function(self, node: _Function, place: _Place) -> None:
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        names = parameter_names(node.args)
        bindings = bindings_of(body)
        scope = scope_of("function", bindings, place.scope, parameters=names, class_name=place.scope.class_name)
        is_method = place.scope.kind == "class" and isinstance(node, FUNCTIONS)
        if is_method and place.scope.class_name and names and names[0] in {"self", "cls"}:
            is_bound_again = any(name == names[0] for name, _ in bindings)
            scope.self_name = "" if is_bound_again else names[0]
        self._push(body, replace(place, scope=scope))
        if isinstance(node, FUNCTIONS):
            self._push([*node.decorator_list, node.args, node.returns], place)
        else:
            self._push([node.args], place)

    def _enter_class(self, node: ast.ClassDef, place: _Place) -> None:
        name = node.name if id(node) in self._top else ""
        scope = scope_of("class", bindings_of(node.body), place.scope, class_name=name)
        self._push(node.body, replace(place, scope=scope))
        self._push([*node.decorator_list, *node.bases, *node.keywords], place)

    def _enter_try(self, node: ast.Try | ast.TryStar, place: _Place) -> None:
        caught = {name for handler in node.handlers for name in _caught(handler)}
        guarded = _Place(
            place.scope,
            place.is_guarded or bool(caught & _NAME_ERRORS),
            place.is_tolerant or bool(caught & _BROAD_ERRORS),
        )
        self._push([*node.body, *node.handlers], guarded)
        self._push([*node.orelse, *node.finalbody], place)

    def _read_call(self, node: ast.Call, place: _Place) -> None:
        arguments = [*node.args, *(each.value for each in node.keywords)]
        self._push(arguments, place)
        chain = chain_of(node.func)
        if chain is None:
            self._push([node.func], place)
            return
        self._note_reflection(chain, node)
        self._read_patched(chain, node, place)
        is_open = any(isinstance(each, ast.Starred) for each in node.args)
        is_open = is_open or any(each.arg is None for each in node.keywords)
        call = None if is_open else [len(node.args), [each.arg for each in node.keywords]]
        self._read_chain(node.func, place, call)

    def _note_reflection(self, chain: list[str], node: ast.Call) -> None:
        if chain[-1] in {"globals", "exec", "recreate_module"}:
            self.is_dynamic = True
        if chain[-1] in {"hasattr", "getattr", "setattr", "delattr"} and len(node.args) > 1:
            name = _text_of(node.args[1])
            self.asked.add(name)
            is_module = chain_of(_unsubscripted(node.args[0])) == ["sys", "modules"]
            self.is_dynamic = self.is_dynamic or (chain[-1] == "setattr" and is_module)

    def _read_patched(self, chain: list[str], node: ast.Call, place: _Place) -> None:
        """Record `patch("package.module.name")` and `patch.object(module, "name")`: both need the name."""
        if any(each.arg in {"create", "raising"} for each in node.keywords) or not node.args:
            return
        is_setattr = chain == ["monkeypatch", "setattr"]
        first = _text_of(node.args[0])
        if first and (chain[-1] == "patch" or is_setattr):
            if "." in first and all(part.isidentifier() for part in first.split(".")):
                self.uses.append(["string", first, node.args[0].lineno, place.is_guarded, None])
            return
        name = _text_of(node.args[1]) if len(node.args) > 1 else ""
        owner = chain_of(node.args[0])
        if name.isidentifier() and owner and (is_setattr or chain[-2:] == ["patch", "object"]):
            self._record([*owner, name], node.args[1].lineno, place, None, "string")

    def _read_exported(self, elements: list[ast.expr]) -> None:
        for each in elements:
            name = _text_of(each)
            if name and name not in self.module.names:
                self.uses.append(["own", name, each.lineno, False, None])

    def _read_chain(self, node: ast.expr, place: _Place, call: list[Any] | None) -> None:
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            self.assigned.add(node.attr)
            self._push([node.value], place)
            return
        chain = chain_of(node)
        if chain is None:
            self._push(children_of(node), place)
        elif isinstance(_root_of(node).ctx, ast.Load):
            self._record(chain, node.end_lineno or node.lineno, place, call, "")

    def _record(self, chain: list[str], line: int, place: _Place, call: list[Any] | None, kind: str) -> None:
        scope = place.scope.find(chain[0])
        if kind and (scope is None or scope.names[chain[0]] is None):
            return  # a string names an attribute of an imported module only
        if scope is not None and scope.self_name == chain[0] and len(chain) > 1:
            dotted = ".".join([scope.class_name, *chain[1:]])
            self.uses.append([chain[0], dotted, line, place.is_guarded, call])
            return
        if scope is not None and (target := scope.names[chain[0]]) is not None:
            dotted = ".".join([target, *chain[1:]])
            self.uses.append([kind or "imported", dotted, line, place.is_guarded, call])
            return
        is_missing = scope is None and chain[0] not in _BUILTINS
        if is_missing or (scope is self.module and (call is not None or len(chain) > 1)):
            self.uses.append(["own", ".".join(chain), line, place.is_guarded, call])


def chain_of(node: ast.AST) -> list[str] | None:
    """Return the names of `a.b.c`; None for any other expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def _root_of(node: ast.expr) -> ast.Name:
    while isinstance(node, ast.Attribute):
        node = node.value
    assert isinstance(node, ast.Name)  # noqa: S101 - callers have asked chain_of
    return node


def _text_of(node: ast.AST) -> str:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) and len(value) <= _LONGEST_STRING else ""


def _unsubscripted(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _caught(handler: ast.ExceptHandler) -> list[str]:
    if handler.type is None:
        return ["BaseException"]
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return [chain[-1] for each in types if (chain := chain_of(each))]


def _expects_failure(item: ast.withitem) -> bool:
    """Whether a context manager expects an exception, as `pytest.raises` and `suppress(ImportError)` do."""
    node = item.context_expr
    chain = chain_of(node.func) if isinstance(node, ast.Call) else None
    if chain is None or not isinstance(node, ast.Call):
        return False
    names = {names[-1] for each in node.args if (names := chain_of(each))}
    is_suppressed = chain[-1] == "suppress" and not names.isdisjoint(_NAME_ERRORS | _BROAD_ERRORS)
    return is_suppressed or chain[-1] in _EXPECTING


def _asks_version(test: ast.expr) -> bool:
    names = (
        each.id if isinstance(each, ast.Name) else each.attr if isinstance(each, ast.Attribute) else ""
        for each in ast.walk(test)
    )
    return any("version" in name.lower() for name in names)
