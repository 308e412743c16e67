"""Finds Python code that does something else than it says; the parser child runs it, with the standard library only."""

from __future__ import annotations

import ast
import builtins
import re
from typing import TYPE_CHECKING, Final, TypeGuard

from reprieve.review.critic.python_tree import (
    FUNCTIONS,
    Function,
    Module,
    Problem,
    dotted,
    inside,
    keyword,
    last_name,
    problem,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXCEPTION_NAME: Final = re.compile(r"[A-Z]\w*(?:Error|Exception)")
_SUFFIX: Final = re.compile(r"\.[a-z]{2,}")
_WORD: Final = re.compile(r"[a-z]{3}|[A-Z]{3}|^\W*\w+[-_.:/]\W*$")


_MAX_BASES: Final = 8
_LOG_METHODS: Final = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical", "fatal", "log"})
_RECORD_FIELDS: Final = frozenset({
    "name", "msg", "args", "levelname", "levelno", "pathname", "filename", "module", "exc_info", "exc_text", "stack_info",
    "lineno", "funcName", "created", "msecs", "relativeCreated", "thread", "threadName", "process", "processName", "message",
    "asctime", "taskName",
})  # fmt: skip
_TRANSLATES: Final = frozenset({
    "_", "gettext", "ngettext", "pgettext", "npgettext", "ugettext", "ungettext", "gettext_lazy", "ngettext_lazy",
    "pgettext_lazy", "lazy_gettext", "lazy_ngettext", "lazy_pgettext",
})  # fmt: skip
_WEAK_DIGESTS: Final = frozenset({"hashlib.md5", "hashlib.sha1"})
_COROUTINES: Final = frozenset({
    "asyncio.sleep", "asyncio.wait", "asyncio.wait_for", "asyncio.to_thread", "asyncio.open_connection",
    "asyncio.start_server", "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell",
})  # fmt: skip
_OLD_VERSIONS: Final = ("SSLv2", "SSLv3", "TLSv1", "TLSv1_1")
_DANGEROUS: Final = {
    **{f"ssl.PROTOCOL_{version}": "weak-tls" for version in _OLD_VERSIONS},
    **{f"ssl.TLSVersion.{version}": "weak-tls" for version in _OLD_VERSIONS},
    "yaml.unsafe_load": "unsafe-yaml",
    "yaml.unsafe_load_all": "unsafe-yaml",
}
_DANGEROUS_TEXTS: Final = {
    "asyncio.create_subprocess_shell": "shell-injection",
    "django.utils.safestring.mark_safe": "cross-site-scripting",
    "django.utils.safestring.SafeString": "cross-site-scripting",
}
_DIGEST: Final = re.compile(r"digest|hash|algorithm", re.IGNORECASE)
_SIGNS: Final = re.compile(r"sign|token|passw|secret|salt|hmac|serializer|auth|credential", re.IGNORECASE)


def find_mistakes(module: Module) -> Iterator[Problem]:
    """Every mistake of a file."""
    for find in (
        _dropped_tasks,
        _joined_texts,
        _stripped_words,
        _unawaited,
        _unraised,
        _attributes_without_slot,
        _reserved_log_fields,
        _formatted_translations,
        _weak_digests,
        _dangerous_names,
        _dangerous_texts,
    ):
        yield from find(module)


def _dropped_tasks(module: Module) -> Iterator[Problem]:
    """Tasks of an event loop that nothing holds; ruff finds those of `asyncio.create_task`."""
    for node in module.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            func = node.value.func
            if (
                isinstance(func, ast.Attribute)
                and func.attr == "create_task"
                and "loop" in last_name(func.value).lower()
            ):
                yield problem("lost-task", node)


def _unawaited(module: Module) -> Iterator[Problem]:
    """Statements that call an async function of the same file, or an async method of the same class, without `await`."""
    functions = {node.name for node in module.nodes if isinstance(node, ast.AsyncFunctionDef) and _is_top(module, node)}
    plain = {node.name for node in module.nodes if isinstance(node, ast.FunctionDef)}
    for node in module.nodes:
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        func = node.value.func
        if module.path(func) in _COROUTINES or (
            isinstance(func, ast.Name) and func.id in functions - plain and func.id not in module.imports
        ):
            yield problem("call-not-awaited", node)
        elif isinstance(func, ast.Attribute) and dotted(func.value) == "self" and func.attr not in plain:
            owner = next((each for each in module.ancestors(node) if isinstance(each, ast.ClassDef)), None)
            if owner is not None and any(_is_async_method(each, func.attr) for each in owner.body):
                yield problem("call-not-awaited", node)


def _is_top(module: Module, node: ast.AST) -> bool:
    return isinstance(module.parents.get(node), ast.Module)


def _is_async_method(node: ast.stmt, name: str) -> bool:
    """Whether a statement of a class defines a coroutine; a generator and a decorated method may be something else."""
    if not isinstance(node, ast.AsyncFunctionDef) or node.name != name or node.decorator_list:
        return False
    return not any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in inside(node.body))


def _joined_texts(module: Module) -> Iterator[Problem]:
    """`["port" "user"]`: two texts of a list without a comma between them, beside texts that stand alone."""
    for node in module.nodes:
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)) and len(node.elts) > 1:
            texts = [each for each in node.elts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            joined = [each for each in texts if _is_joined(each)]
            if len(texts) == len(node.elts) and 0 < len(joined) < len(texts):
                yield problem("missing-comma", joined[0])


def _is_joined(node: ast.Constant) -> bool:
    """Whether a short text takes more room than it has letters: it is written as two."""
    text = str(node.value)
    room = (node.end_col_offset or 0) - node.col_offset
    return node.lineno == node.end_lineno and text.isidentifier() and text.isascii() and room > len(text) + 3


def _stripped_words(module: Module) -> Iterator[Problem]:
    """`lstrip` and `rstrip` with a word: they remove any of its characters."""
    for call in module.calls:
        func, argument = call.func, call.args[0] if len(call.args) == 1 else None
        if (
            isinstance(func, ast.Attribute)
            and func.attr in {"lstrip", "rstrip", "strip"}
            and isinstance(argument, ast.Constant)
        ):
            text = argument.value
            if isinstance(text, str) and _WORD.search(text) and (_SUFFIX.fullmatch(text) or list(text) != sorted(text)):
                yield problem("strip-of-words", call)


def _unraised(module: Module) -> Iterator[Problem]:
    """Exceptions that are created and not raised; ruff finds those that Python itself defines."""
    for node in module.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = last_name(node.value.func)
            if _EXCEPTION_NAME.fullmatch(name) and not hasattr(builtins, name):
                yield problem("missing-raise", node)


# Attributes that a class has no room for


def _attributes_without_slot(module: Module) -> Iterator[Problem]:
    """Attributes of `self` that no `__slots__` of the class or of its bases lists; other bases have a `__dict__`."""
    classes = {node.name: node for node in module.nodes if isinstance(node, ast.ClassDef)}
    for owner in classes.values():
        allowed = _slots_of(owner, classes)
        if allowed is None:
            continue
        for method in owner.body:
            if isinstance(method, FUNCTIONS) and method.args.args and not _has_no_self(method):
                for node in inside(method.body):
                    if _is_stored(node, method.args.args[0].arg) and node.attr not in allowed:
                        yield problem("attribute-not-in-slots", node)


def _slots_of(owner: ast.ClassDef, classes: dict[str, ast.ClassDef], depth: int = 0) -> set[str] | None:
    """What instances can hold; None where it is not known, or is anything."""
    if owner.keywords or owner.decorator_list or depth > _MAX_BASES:
        return None
    found = _own_slots(owner)
    if found is None or "__setattr__" in found:
        return None
    for base in owner.bases:
        if dotted(base) == "object":
            continue
        known = classes.get(dotted(base))
        inherited = None if known is None or known is owner else _slots_of(known, classes, depth + 1)
        if inherited is None:
            return None
        found |= inherited
    return found


def _own_slots(owner: ast.ClassDef) -> set[str] | None:
    """The slots that a class lists, with the methods and attributes of its body; None where it lists none."""
    found = {node.name for node in owner.body if isinstance(node, FUNCTIONS)}
    slots: set[str] | None = None
    for node in owner.body:
        if isinstance(node, ast.Assign):
            found |= {last_name(target) for target in node.targets}
            if last_name(node.targets[0]) == "__slots__":
                slots = _texts_of(node.value)
    return None if slots is None or "__dict__" in slots else found | slots


def _texts_of(node: ast.expr) -> set[str] | None:
    """The texts of a literal; None where it has anything else."""
    values = (
        node.elts
        if isinstance(node, (ast.Tuple, ast.List, ast.Set))
        else node.keys
        if isinstance(node, ast.Dict)
        else [node]
    )
    texts = [each.value for each in values if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return set(texts) if len(texts) == len(values) else None


def _has_no_self(method: Function) -> bool:
    return any(last_name(each) in {"staticmethod", "classmethod"} for each in method.decorator_list)


def _is_stored(node: ast.AST, owner: str) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == owner
    )


# Calls whose arguments do not fit what they call


def _reserved_log_fields(module: Module) -> Iterator[Problem]:
    """`logger.info(..., extra={"name": ...})`: the log record has this attribute already."""
    for call in module.calls:
        given = keyword(call, "extra")
        if given is None or last_name(call.func) not in _LOG_METHODS or "log" not in dotted(call.func).lower():
            continue
        if isinstance(given, ast.Name):
            given = _only_value(module, call, given.id)
        names = (
            {each.arg for each in given.keywords}
            if isinstance(given, ast.Call) and dotted(given.func) == "dict"
            else set()
        )
        if isinstance(given, ast.Dict):
            names = {
                each.value for each in given.keys if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
        if names & _RECORD_FIELDS:
            yield problem("reserved-log-field", given or call, last=call)


def _only_value(module: Module, call: ast.Call, name: str) -> ast.expr | None:
    """What the one assignment of a name in the function of a call assigns."""
    function = module.function(call)
    values = [
        node.value
        for node in inside(function.body if function is not None else ())
        if isinstance(node, ast.Assign) and any(dotted(target) == name for target in node.targets)
    ]
    return values[0] if len(values) == 1 else None


def _formatted_translations(module: Module) -> Iterator[Problem]:
    """`_(f"...")`: the text that is looked up has values in it, so no catalog has it."""
    for call in module.calls:
        if last_name(call.func) in _TRANSLATES and any(map(_is_formatted, call.args)):
            yield problem("formatted-translation", call)


def _is_formatted(node: ast.expr) -> bool:
    """Whether values are put into a text: by an f-string, `%`, `+` or `format`."""
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(each, ast.FormattedValue) for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.Add)):
        left, right = _is_text(node.left), _is_text(node.right)
        return left if isinstance(node.op, ast.Mod) else left != right
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "format" and _is_text(func.value)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _weak_digests(module: Module) -> Iterator[Problem]:
    """MD5 and SHA-1 that are not called here, and given to a class or function that signs; ruff finds the calls."""
    for node in module.nodes if module.packages & {"hashlib", "hmac"} else ():
        is_text = (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.lower() in {"md5", "sha1"}
        )
        if not is_text and not (isinstance(node, ast.Attribute) and module.path(node) in _WEAK_DIGESTS):
            continue
        parent = module.parents.get(node)
        role = ""
        if isinstance(parent, ast.keyword):
            role = parent.arg or ""
        elif isinstance(parent, (ast.Assign, ast.AnnAssign)):
            role = last_name(parent.targets[0] if isinstance(parent, ast.Assign) else parent.target)
        elif isinstance(parent, ast.Call) and parent.func is not node and module.path(parent.func).startswith("hmac."):
            role = "digestmod"
        around = [each.name for each in module.ancestors(node) if isinstance(each, (*FUNCTIONS, ast.ClassDef))]
        call = module.parents.get(parent) if isinstance(parent, ast.keyword) else parent
        around.append(dotted(call.func) if isinstance(call, ast.Call) else role)
        if _DIGEST.search(role) and _SIGNS.search(" ".join(around)):
            yield problem("weak-hash", node)


def _dangerous_names(module: Module) -> Iterator[Problem]:
    """Names that are dangerous wherever they are read, but in a comparison or a table."""
    for node in module.nodes if module.packages & {"ssl", "yaml"} else ():
        rule = _DANGEROUS.get(module.path(node)) if isinstance(node, ast.Attribute) else None
        if rule and not isinstance(module.parents.get(node), (ast.Compare, ast.Dict)):
            yield problem(rule, node)


def _dangerous_texts(module: Module) -> Iterator[Problem]:
    """Functions that get a text with values in it, and trust it."""
    for call in module.calls:
        rule = _DANGEROUS_TEXTS.get(module.path(call.func))
        if rule and any(map(_is_formatted, call.args)):
            yield problem(rule, call)
