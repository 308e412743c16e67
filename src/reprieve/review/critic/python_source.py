"""What the critic reads of a Python file: definitions, imports, uses of names, and failure handling.

`read_python` runs in the parser child, so this module and what it imports need the standard library only.
It returns `{"error": [line, message]}` for a text that does not parse, else an object with these members:

    definitions  the names that unconditional statements of the module bind, by name:
        kind        "function", "class", "constant" or "import"
        line        of the first binding
        is_alone    whether the module binds the name once
        body        digests of its lines, without its own name, to recognize it after a rename
        parameters  of a function: [[name, kind, is_optional], ...]; the kind is "positional", "any",
                    "keyword", "positionals" (`*args`) or "keywords" (`**kwargs`)
        is_plain    of a function: whether it has no decorator that could change its parameters
        is_stub     of a function: whether its body does nothing or raises NotImplementedError
        binding     of a method: "instance", "class" or "static"
        methods     of a class: by name, as functions are described; only names that the class binds once
        attributes  of a class: every name that its body binds
        bases       of a class: dotted names, "?" for other expressions
        is_plain    of a class: whether it has no decorator, no metaclass, no `__new__`
        is_open     of a class: whether it defines `__getattr__` or `__getattribute__`
    bound        every name that the module binds, in any way
    is_dynamic   whether the module may have other names: a star import, `__getattr__`, `globals()`
    imports      [kind, dotted path, line, is_guarded, bound name]; the kind is "import" or "from"
    uses         [kind, dotted path, line, is_guarded, call]
        kind        "imported": the path begins with a module, or with dots as in a relative import
                    "own": the path begins with a name of this module, which may be missing
                    "self": the path begins with the top-level class whose method uses `self.name`
                    "cls": the same for `cls.name`
                    "string": as "imported", in a call of `patch`
        call        [number of positional arguments, [keywords]]; null without a call, and with `*` or `**`
    asked        names in `hasattr` and `getattr`
    assigned     names of attributes that are assigned
    problems     what `failure_patterns.find_problems` returns
"""

from __future__ import annotations

import ast
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from reprieve.review.critic.failure_patterns import find_problems
from reprieve.review.critic.python_scopes import FUNCTIONS, bindings_of, imported_names
from reprieve.review.critic.python_uses import UseReader, chain_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_BODY_LINES: Final = 300
_KEEPS_PARAMETERS: Final = {
    "staticmethod", "classmethod", "override", "final", "cache", "lru_cache", "contextmanager",
    "asynccontextmanager", "deprecated",
}  # fmt: skip


def read_python(text: str) -> dict[str, Any]:
    """Read a Python file; see the description of this module for what is returned."""
    try:
        tree = ast.parse(text.removeprefix("\ufeff"))
    except SyntaxError as error:
        return {"error": [error.lineno or 1, error.msg]}
    except ValueError as error:  # a null byte
        return {"error": [1, str(error)]}
    reader = UseReader(tree)
    return {
        "definitions": _definitions(tree, text.split("\n")),
        "bound": sorted(reader.module.names),
        "is_dynamic": reader.is_dynamic or "__getattr__" in reader.module.names,
        "imports": reader.imports,
        "uses": reader.uses,
        "asked": sorted(reader.asked),
        "assigned": sorted(reader.assigned),
        "problems": find_problems(tree),
    }


def _definitions(tree: ast.Module, lines: list[str]) -> dict[str, Any]:
    bound = Counter(name for name, _ in bindings_of(tree.body))
    found: dict[str, Any] = {}
    for node in tree.body:
        for name, definition in _defined_by(node, lines):
            known = found.setdefault(name, {**definition, "line": node.lineno})
            known["is_alone"] = bound[name] == 1
    return found


def _defined_by(node: ast.stmt, lines: list[str]) -> Iterable[tuple[str, dict[str, Any]]]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.name, _function(node, lines)
        case ast.ClassDef():
            yield node.name, _class(node, lines)
        case ast.Assign(targets=targets):
            for name in (each.id for target in targets for each in _stored(target)):
                yield name, {"kind": "constant", "body": _digests(lines, node, name)}
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            yield name, {"kind": "constant", "body": _digests(lines, node, name)}
        case ast.Import() | ast.ImportFrom():
            for _, name, _ in imported_names(node):
                yield name, {"kind": "import", "body": []}


def _stored(target: ast.expr) -> Iterable[ast.Name]:
    if isinstance(target, ast.Name):
        yield target
    elif isinstance(target, (ast.Tuple, ast.List)):
        yield from (each for each in target.elts if isinstance(each, ast.Name))


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> dict[str, Any]:
    decorators = [_decorator_name(each) for each in node.decorator_list]
    binding = next((word for word in ("static", "class") if f"{word}method" in decorators), "instance")
    return {
        "kind": "function",
        "line": node.lineno,
        "body": _digests(lines, node, node.name),
        "parameters": _parameters(node.args),
        "is_plain": all(name in _KEEPS_PARAMETERS for name in decorators),
        "is_stub": all(_does_nothing(each) for each in node.body),
        "binding": "static" if node.name == "__new__" else binding,
    }


def _class(node: ast.ClassDef, lines: list[str]) -> dict[str, Any]:
    names = Counter(name for name, _ in bindings_of(node.body))
    functions = [each for each in node.body if isinstance(each, FUNCTIONS)]
    methods = {each.name: _function(each, lines) for each in functions if names[each.name] == 1}
    return {
        "kind": "class",
        "body": _digests(lines, node, node.name),
        "methods": methods,
        "attributes": sorted(names),
        "bases": [".".join(chain_of(_unsubscripted(each)) or ["?"]) for each in node.bases],
        "is_plain": not node.decorator_list and not node.keywords and "__new__" not in names,
        "is_open": bool({"__getattr__", "__getattribute__"} & set(names)),
    }


def _parameters(arguments: ast.arguments) -> list[list[Any]]:
    """List [name, kind, is_optional] of all parameters, in order."""
    positional = [*arguments.posonlyargs, *arguments.args]
    first_optional = len(positional) - len(arguments.defaults)
    found: list[list[Any]] = []
    for place, each in enumerate(positional):
        kind = "positional" if place < len(arguments.posonlyargs) else "any"
        found.append([each.arg, kind, place >= first_optional])
    if arguments.vararg:
        found.append([arguments.vararg.arg, "positionals", True])
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append([each.arg, "keyword", default is not None])
    if arguments.kwarg:
        found.append([arguments.kwarg.arg, "keywords", True])
    return found


def _decorator_name(node: ast.expr) -> str:
    chain = chain_of(node.func if isinstance(node, ast.Call) else node)
    return chain[-1] if chain else "?"


def _unsubscripted(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _does_nothing(node: ast.stmt) -> bool:
    match node:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Raise(exc=ast.expr() as raised):
            return _decorator_name(raised) == "NotImplementedError"
    return False


def _digests(lines: Sequence[str], node: ast.stmt, name: str) -> list[int]:
    """Digests of the lines of a definition, without indentation, blank lines and its own name."""
    end = min(node.end_lineno or node.lineno, node.lineno + _MAX_BODY_LINES)
    stripped = (line.strip().replace(name, "") for line in lines[node.lineno - 1 : end])
    return [zlib.crc32(line.encode("utf-8", "replace")) for line in stripped if line]
