"""Finds weak failure handling in Python syntax trees; the parser child runs it, with the standard library only.

`find_problems` returns `[rule, line, end_line, detail]` for every problem of a file, old or new.
"""

from __future__ import annotations

import ast
import builtins
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from reprieve.review.critic.python_scopes import children_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Problem: TypeAlias = "list[Any]"
_Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"
_Try: TypeAlias = "ast.Try | ast.TryStar"
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES: Final = (*_FUNCTIONS, ast.Lambda, ast.ClassDef)
_TRIES: Final = (ast.Try, ast.TryStar)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_LONGEST_PATH: Final = 8

_HTTP_METHODS: Final = frozenset({"get", "post", "put", "patch", "delete", "head", "options", "request"})
_HTTP_LIBRARIES: Final = frozenset({"requests", "httpx", "httpx2", "aiohttp", "urllib3"})
_BROAD: Final = frozenset({"Exception", "BaseException"})
_NETWORK_ERRORS: Final = frozenset({
    "OSError", "SMTPException", "SMTPConnectError", "SMTPServerDisconnected", "ConnectionError", "ConnectionResetError", "ConnectionRefusedError", "RequestException", "HTTPError", "ClientError",
    "ClientConnectionError", "RequestError", "TransportError", "URLError", "OperationalError", "InterfaceError", "DBAPIError",
})  # fmt: skip
"""Without timeouts: a call that timed out has waited already."""
_TIMEOUT_POSITIONS: Final = {
    **{f"requests.{method}": None for method in _HTTP_METHODS},
    **{f"requests.api.{method}": None for method in _HTTP_METHODS},
    "urllib.request.urlopen": 2, "socket.create_connection": 1, "http.client.HTTPConnection": 2,
    "http.client.HTTPSConnection": None, "smtplib.SMTP": 3, "smtplib.SMTP_SSL": 3, "ftplib.FTP": 4, "ftplib.FTP_TLS": None,
    "imaplib.IMAP4": 2, "imaplib.IMAP4_SSL": None, "poplib.POP3": 2, "poplib.POP3_SSL": None, "telnetlib.Telnet": 2,
    "urllib3.request": None,
}  # fmt: skip
"""Calls that wait without limit by default, and the position of their timeout; None where it is a keyword only."""
_CONNECTS_LATER: Final = frozenset({"ftplib.FTP", "ftplib.FTP_TLS", "telnetlib.Telnet"})
_SOCKET_CALLS: Final = ("socket.", "smtplib.", "ftplib.", "imaplib.", "poplib.", "telnetlib.", "urllib.", "http.")
_UNVERIFIED_KEYWORDS: Final = frozenset(
    {"verify_ssl", "ssl_verify", "verify_certs", "validate_certs", "verify_tls", "tls_verify"}
)
_CLIENTS: Final = _HTTP_METHODS | {
    "send", "stream", "Client", "AsyncClient", "Session", "HTTPTransport", "AsyncHTTPTransport", "client", "resource",
    "put_object", "request_raw",
}  # fmt: skip
_CLEANUP: Final = re.compile(
    r"_?(?:(?:a?close|shut_?down|stop|terminate|kill|disconnect|clean_?up|tear_?down|unsubscribe|unregister|dispose)(?:_\w+)?"
    r"|quit|cancel|rollback|unlink|remove|rmtree|rmdir|delete|release|flush|destroy|join|wait|logout|abort|detach|exit|__a?exit__)"
)
"""Names of functions that end something. `cancel_order` is none of them: its failure matters to the caller."""
_EXCEPTION_NAME: Final = re.compile(r"[A-Z]\w*(?:Error|Exception)")
_WORD: Final = re.compile(r"[a-z]{3}|[A-Z]{3}|^\W*\w+[-_.:/]\W*$")
_LOGGING: Final = re.compile(
    r"(?:^|\.)(?:print|warn(?:ing)?|debug|info|error|exception|critical|echo|write|_?log(?:_\w+)?|incr\w*)$|(?:^|[._])log(?:ger|ging)?\.",
    re.IGNORECASE,
)
_PAUSE: Final = re.compile(r"sleep|wait|back_?off|delay|pause|jitter|throttle|retry_?after|cooldown", re.IGNORECASE)
_NO_SERVICE: Final = re.compile(
    r"^(?:input|raw_input|prompt|ask|confirm|getpass|readline|mkdir|makedirs|mkdtemp|symlink|symlink_to|rename|touch)$"
)
"""Questions to a person and names that may be taken: the next attempt needs no pause."""
_REPEATABLE_URL: Final = re.compile(
    r"search|query|graphql|token|oauth|auth|login|completions|embedding|predict|infer|generate|rpc|lookup|validate|webhook",
    re.IGNORECASE,
)
_SAFE_RETRY: Final = re.compile(
    r"ConnectError|ConnectTimeout|ConnectionRefused|NewConnection|429|too_many|RateLimit", re.IGNORECASE
)
_SHUTDOWN: Final = re.compile(
    r"close|stop|shutdown|shut_down|cleanup|clean_up|teardown|tear_down|disconnect|__aexit__|cancel|exit"
)
_PREDICATE: Final = re.compile(
    r"^_*(?:is|has|have|can|should|supports?|exists?|valid|check|try|test|probe|ping|health)_?"
)


def find_problems(tree: ast.Module) -> list[Problem]:
    """Every problem of a file as `[rule, line, end_line, detail]`, by line."""
    module = _Module(tree)
    found: list[Problem] = []
    for find in (
        _calls,
        _settings,
        _handlers,
        _retries,
        _gathers,
        _dropped_tasks,
        _joined_texts,
        _stripped_words,
        _unawaited,
        _unraised,
    ):
        found += find(module)
    return sorted(found, key=lambda each: (each[1], each[0]))


def _dropped_tasks(module: _Module) -> Iterator[Problem]:
    """Tasks of an event loop that nothing holds; ruff finds those of `asyncio.create_task`."""
    for node in module.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            func = node.value.func
            if (
                isinstance(func, ast.Attribute)
                and func.attr == "create_task"
                and "loop" in _last_name(func.value).lower()
            ):
                yield _problem("lost-task", node)


def _unawaited(module: _Module) -> Iterator[Problem]:
    """Statements that call an async function of the same file, or an async method of the same class, without `await`."""
    functions = {node.name for node in module.nodes if isinstance(node, ast.AsyncFunctionDef) and _is_top(module, node)}
    plain = {node.name for node in module.nodes if isinstance(node, ast.FunctionDef)}
    for node in module.nodes:
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        func = node.value.func
        if isinstance(func, ast.Name) and func.id in functions - plain and func.id not in module.imports:
            yield _problem("call-not-awaited", node)
        elif isinstance(func, ast.Attribute) and _text(func.value) == "self" and func.attr not in plain:
            owner = next((each for each in module.ancestors(node) if isinstance(each, ast.ClassDef)), None)
            if owner is not None and any(_is_async_method(each, func.attr) for each in owner.body):
                yield _problem("call-not-awaited", node)


def _is_top(module: _Module, node: ast.AST) -> bool:
    return isinstance(module.parents.get(node), ast.Module)


def _is_async_method(node: ast.stmt, name: str) -> bool:
    """Whether a statement of a class defines a coroutine; a generator and a decorated method may be something else."""
    if not isinstance(node, ast.AsyncFunctionDef) or node.name != name or node.decorator_list:
        return False
    return not any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in _inside(node.body))


def _joined_texts(module: _Module) -> Iterator[Problem]:
    """`["port" "user"]`: two texts of a list without a comma between them, beside texts that stand alone."""
    for node in module.nodes:
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)) and len(node.elts) > 1:
            texts = [each for each in node.elts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            joined = [each for each in texts if _is_joined(each)]
            if len(texts) == len(node.elts) and 0 < len(joined) < len(texts):
                yield _problem("missing-comma", joined[0])


def _is_joined(node: ast.Constant) -> bool:
    """Whether a short text takes more room than it has letters: it is written as two."""
    text = str(node.value)
    room = (node.end_col_offset or 0) - node.col_offset
    return node.lineno == node.end_lineno and text.isidentifier() and text.isascii() and room > len(text) + 3


def _stripped_words(module: _Module) -> Iterator[Problem]:
    """`lstrip` and `rstrip` with a word: they remove any of its characters."""
    for call in module.calls:
        func, argument = call.func, call.args[0] if len(call.args) == 1 else None
        if isinstance(func, ast.Attribute) and func.attr in {"lstrip", "rstrip"} and isinstance(argument, ast.Constant):
            text = argument.value
            if isinstance(text, str) and _WORD.search(text) and list(text) != sorted(text):
                yield _problem("strip-of-words", call)


def _unraised(module: _Module) -> Iterator[Problem]:
    """Exceptions that are created and not raised; ruff finds those that Python itself defines."""
    for node in module.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = _last_name(node.value.func)
            if _EXCEPTION_NAME.fullmatch(name) and not hasattr(builtins, name):
                yield _problem("missing-raise", node)


class _Module:
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
        return any(_last_name(call.func) == "setdefaulttimeout" for call in self.calls)

    @cached_property
    def functions_with_timeouts(self) -> frozenset[_Function | None]:
        """The functions that set the timeout of a socket; None is the module."""
        return frozenset(self.function(call) for call in self.calls if _last_name(call.func) == "settimeout")

    @cached_property
    def cancels(self) -> bool:
        """Whether the file cancels something."""
        return any(_last_name(call.func) == "cancel" for call in self.calls)

    def path(self, node: ast.AST | None) -> str:
        """The dotted path of an imported name; empty for what is not imported."""
        text = _text(node)
        first, dot, rest = text.partition(".")
        return f"{self.imports[first]}{dot}{rest}" if first in self.imports else ""

    def function(self, node: ast.AST) -> _Function | None:
        """The function that a node is in."""
        for each in self.ancestors(node):
            if isinstance(each, _FUNCTIONS):
                return each
        return None

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node is in, from the inside to the outside."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent


# Reading trees


def _text(node: ast.AST | None) -> str:
    """`a.b.c` of a name or an attribute; empty for everything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < _LONGEST_PATH:
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _last_name(node: ast.AST | None) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _inside(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and everything in them, without the bodies of nested functions and classes."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _SCOPES):
            pending += children_of(node)


def _calls_in(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    return (node for node in _inside(nodes) if isinstance(node, ast.Call))


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == name), None)


def _is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_false(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _is_true(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _unpacks(call: ast.Call) -> bool:
    """Whether arguments come from `*args` or `**kwargs`, which can hold anything."""
    return any(each.arg is None for each in call.keywords) or any(isinstance(each, ast.Starred) for each in call.args)


def _problem(rule: str, node: ast.AST, detail: str = "", *, last: ast.AST | None = None) -> Problem:
    line = getattr(node, "lineno", 0)
    return [rule, line, getattr(last or node, "end_lineno", None) or line, detail[:80]]


# Calls without a timeout, and connections without verification


def _calls(module: _Module) -> Iterator[Problem]:
    sessions = _sessions(module)
    for call in module.calls:
        if _has_no_timeout(module, call) or _session_has_no_timeout(module, call, sessions):
            yield _problem("no-timeout", call, _text(call.func))
        if _skips_verification(module, call):
            yield _problem("certificate-not-verified", call)


def _has_no_timeout(module: _Module, call: ast.Call) -> bool:
    path = module.path(call.func)
    if path in _TIMEOUT_POSITIONS:
        return not _unpacks(call) and _waits_by_default(module, call, path)
    package, _, rest = path.partition(".")
    name = rest.rpartition(".")[2]
    timeout = _keyword(call, "timeout")
    if package in {"httpx", "httpx2"}:
        if name == "Timeout":
            return len(call.args) == 1 and _is_none(call.args[0]) and not call.keywords
        return _is_none(timeout) and name in _HTTP_METHODS | {"Client", "AsyncClient", "stream"}
    if path == "aiohttp.ClientTimeout":
        return _is_none(_keyword(call, "total")) and len(call.keywords) == 1
    return package == "aiohttp" and name in {"ClientSession", "request"} and _is_none(timeout)


def _waits_by_default(module: _Module, call: ast.Call, path: str) -> bool:
    """Whether a call of the table of timeouts passes none."""
    position = _TIMEOUT_POSITIONS[path]
    if position is not None and len(call.args) > position:
        return _is_none(call.args[position])
    if path in _CONNECTS_LATER and not call.args:
        return False
    if path.startswith(_SOCKET_CALLS) and _sets_socket_timeout(module, call):
        return False
    timeout = _keyword(call, "timeout")
    return timeout is None or _is_none(timeout)


def _sets_socket_timeout(module: _Module, call: ast.Call) -> bool:
    """Whether the function of a call, or the file for all sockets, sets a timeout of sockets elsewhere."""
    return module.sets_default_timeout or module.function(call) in module.functions_with_timeouts


def _sessions(module: _Module) -> dict[tuple[str, _Function | None], str]:
    """Names of HTTP sessions without a timeout of their own, with the function that they are local to."""
    if any(_last_name(call.func) == "mount" for call in module.calls):
        return {}
    found: dict[tuple[str, _Function | None], str] = {}
    for node in module.nodes:
        targets: list[ast.expr] = []
        value: ast.expr | None = None
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign):
            targets, value = [node.target], node.value
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            targets, value = [node.optional_vars], node.context_expr
        if not isinstance(value, ast.Call):
            continue
        path = module.path(value.func)
        is_pool = path in {"urllib3.PoolManager", "urllib3.ProxyManager"} and _keyword(value, "timeout") is None
        if path in {"requests.Session", "requests.session", "requests.sessions.Session"} or (
            is_pool and not _unpacks(value)
        ):
            for target in targets:
                found[_text(target), _owner(module, target)] = path
    for name, owner in [key for key in found if _replaces_request(module, key[0])]:
        del found[name, owner]
    return found


def _owner(module: _Module, target: ast.AST) -> _Function | None:
    """The function that a name is local to; None for names of the module and for attributes."""
    return None if isinstance(target, ast.Attribute) else module.function(target)


def _replaces_request(module: _Module, name: str) -> bool:
    """Whether `session.request = ...` gives a session a default timeout."""
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _text(node).startswith(f"{name}.")
        and node.attr in {*_HTTP_METHODS, "timeout"}
        for node in module.nodes
    )  # fmt: skip


def _session_has_no_timeout(module: _Module, call: ast.Call, sessions: dict[tuple[str, _Function | None], str]) -> bool:
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in _HTTP_METHODS or _unpacks(call) or not call.args:
        return False
    timeout = _keyword(call, "timeout")
    if timeout is not None and not _is_none(timeout):
        return False
    receiver = _text(func.value)
    if any((receiver, function) in sessions for function in _functions_around(module, call)):
        return True
    return _is_session_argument(module, call, receiver)


def _functions_around(module: _Module, node: ast.AST) -> Iterator[_Function | None]:
    yield from (each for each in module.ancestors(node) if isinstance(each, _FUNCTIONS))
    yield None


def _is_session_argument(module: _Module, call: ast.Call, receiver: str) -> bool:
    """Whether the receiver is an argument of the function that is annotated as a session of requests."""
    function = module.function(call)
    if function is None or "requests" not in module.packages:
        return False
    arguments = [*function.args.args, *function.args.kwonlyargs]
    annotation = next((each.annotation for each in arguments if each.arg == receiver), None)
    return module.path(annotation) in {"requests.Session", "requests.sessions.Session"}


def _skips_verification(module: _Module, call: ast.Call) -> bool:
    name = _last_name(call.func)
    for each in call.keywords:
        is_off = _is_false(each.value)
        if is_off and each.arg == "verify" and name in _CLIENTS:
            return True
        if is_off and each.arg in _UNVERIFIED_KEYWORDS:
            return True
        if (
            is_off
            and each.arg == "ssl"
            and "aiohttp" in module.packages
            and name in {*_HTTP_METHODS, "TCPConnector", "ws_connect"}
        ):
            return True
        if each.arg in {"cert_reqs", "ssl_cert_reqs"} and _is_cert_none(each.value):
            return True
    return False


def _is_cert_none(node: ast.AST) -> bool:
    return _last_name(node) == "CERT_NONE" or (isinstance(node, ast.Constant) and node.value == "CERT_NONE")


def _settings(module: _Module) -> Iterator[Problem]:
    """Assignments that switch the verification of certificates off."""
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and module.path(node) == "ssl._create_unverified_context":
            yield _problem("certificate-not-verified", node)
        if not isinstance(node, ast.Assign) or not isinstance(target := node.targets[0], ast.Attribute):
            continue
        is_off = _is_false(node.value)
        is_session = "session" in _text(target.value).lower() or "client" in _text(target.value).lower()
        if (
            (is_off and target.attr in {"check_hostname", *_UNVERIFIED_KEYWORDS})
            or (is_off and target.attr == "verify" and (is_session or "requests" in module.packages))
            or (target.attr == "verify_mode" and _is_cert_none(node.value))
        ):
            yield _problem("certificate-not-verified", node)


# Handlers that hide failures


def _handlers(module: _Module) -> Iterator[Problem]:
    for node in module.nodes:
        if isinstance(node, _TRIES):
            for handler in node.handlers:
                yield from _handler_problems(module, node, handler)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if _suppresses_everything(module, item) and not _is_harmless(module, node, node.body):
                    yield _problem("swallowed-exception", item.context_expr)


def _handler_problems(module: _Module, node: _Try, handler: ast.ExceptHandler) -> Iterator[Problem]:
    if how := _swallows_cancellation(module, node, handler):
        yield _problem("swallowed-cancellation", handler, how)
    elif (
        _is_broad(module, handler)
        and _does_nothing(handler.body)
        and not _is_harmless(module, node, node.body)
        and not _is_answer_of_predicate(module, handler)
        and _retry_loop(module, node) is None
    ):
        yield _problem("swallowed-exception", handler)


def _caught(module: _Module, handler: ast.ExceptHandler) -> list[str]:
    """The paths of the exceptions that a handler catches; `BaseException` for a bare `except`."""
    if handler.type is None:
        return ["BaseException"]
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return [module.path(kind) or _text(kind) for kind in kinds]


def _is_broad(module: _Module, handler: ast.ExceptHandler) -> bool:
    return any(name.removeprefix("builtins.") in _BROAD for name in _caught(module, handler))


def _does_nothing(body: list[ast.stmt]) -> bool:
    """Whether a handler only passes, continues, or returns a constant."""
    return all(
        isinstance(each, (ast.Pass, ast.Continue, ast.Break))
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        or (isinstance(each, ast.Return) and _is_constant(each.value))
        for each in body
    )


def _is_constant(node: ast.expr | None) -> bool:
    if node is None or isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Dict):
        return not node.keys
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return all(isinstance(each, ast.Constant) for each in node.elts)
    return isinstance(node, ast.Call) and _text(node.func) in {"list", "dict", "set", "tuple"} and not node.args


def _suppresses_everything(module: _Module, item: ast.withitem) -> bool:
    call = item.context_expr
    if not isinstance(call, ast.Call) or module.path(call.func) != "contextlib.suppress":
        return False
    return any(_text(each) in _BROAD for each in call.args)


def _is_harmless(module: _Module, node: ast.stmt, body: list[ast.stmt]) -> bool:
    """Whether hiding a failure is accepted: in cleanup, optional imports, and methods that must not raise."""
    function = module.function(node)
    name = function.name if function is not None else ""
    if name in {"__del__", "__repr__", "__str__"} or "excepthook" in name or _CLEANUP.fullmatch(name):
        return True
    if all(isinstance(each, (ast.Import, ast.ImportFrom)) for each in body):
        return True
    return all(isinstance(each, ast.Pass) or _is_cleanup(each) for each in body)


def _is_cleanup(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return all(map(_is_cleanup, statement.body))
    value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    if isinstance(value, ast.Await):
        value = value.value
    return isinstance(value, ast.Call) and _CLEANUP.fullmatch(_last_name(value.func)) is not None


def _is_answer_of_predicate(module: _Module, handler: ast.ExceptHandler) -> bool:
    """Whether a handler returns the answer of a yes-or-no question, such as `is_installed`."""
    last = handler.body[-1]
    function = module.function(handler)
    if function is None or not isinstance(last, ast.Return) or not (_is_true(last.value) or _is_false(last.value)):
        return False
    return _PREDICATE.match(function.name) is not None or _text(function.returns) == "bool"


# Cancellation


def _swallows_cancellation(module: _Module, node: _Try, handler: ast.ExceptHandler) -> str:
    """How a handler hides a cancellation: the task `continues` or `ends`; empty if it hides none."""
    function = module.function(handler)
    if not isinstance(function, ast.AsyncFunctionDef) or _leaves_with_error(handler.body):
        return ""
    caught = _caught(module, handler)
    names = [name for name in caught if name.endswith("CancelledError") and not name.startswith("concurrent")]
    is_base = (
        "BaseException" in caught and _awaits(node.body) and not _is_cancellation_handled_before(module, node, handler)
    )
    if not names and not is_base:
        return ""
    if _uses_error(handler) or _ends_endless_loop(module, node, handler):
        return ""
    if _SHUTDOWN.search(function.name) or "KeyboardInterrupt" in caught or _cancels_itself(module, node, function):
        return ""
    last = handler.body[-1]
    hides = isinstance(last, ast.Return) and last.value is not None
    ends = isinstance(last, (ast.Return, ast.Break))
    return "continues" if hides or (not ends and _loop_around(module, node) is not None) else "ends"


def _ends_endless_loop(module: _Module, node: _Try, handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends the loop of a background task, whose result is never read."""
    last = handler.body[-1]
    leaves = isinstance(last, ast.Break) or (isinstance(last, ast.Return) and last.value is None)
    inside = any(isinstance(each, ast.While) for each in module.ancestors(node))
    around = any(isinstance(each, ast.While) for each in _inside(node.body))
    return (leaves and inside) or (around and not _does_more(module, node))


def _does_more(module: _Module, node: _Try) -> bool:
    """Whether the function has statements after a `try`."""
    function = module.function(node)
    return function is not None and function.body[-1] is not node


def _leaves_with_error(body: list[ast.stmt]) -> bool:
    return any(
        isinstance(each, ast.Raise)
        or (isinstance(each, ast.Call) and _last_name(each.func) in {"exit", "_exit", "uncancel"})
        for each in _inside(body)
    )


def _awaits(body: list[ast.stmt]) -> bool:
    return any(isinstance(each, (ast.Await, ast.AsyncFor, ast.AsyncWith)) for each in _inside(body))


def _is_cancellation_handled_before(module: _Module, node: _Try, handler: ast.ExceptHandler) -> bool:
    before = node.handlers[: node.handlers.index(handler)]
    return any(name.endswith("CancelledError") for each in before for name in _caught(module, each))


def _uses_error(handler: ast.ExceptHandler) -> bool:
    """Whether a handler passes the error on, other than to a log."""
    logged = {
        id(name)
        for call in _calls_in(handler.body)
        if _LOGGING.search(_text(call.func))
        for name in ast.walk(call)
        if isinstance(name, ast.Name)
    }
    return any(
        isinstance(each, ast.Name) and each.id == handler.name and id(each) not in logged
        for each in _inside(handler.body)
    )


def _cancels_itself(module: _Module, node: _Try, function: ast.AsyncFunctionDef) -> bool:
    """Whether the cancelled task is another one, which this function cancelled and waits for."""
    if any(isinstance(each, ast.Attribute) and each.attr == "cancel" for each in _inside(function.body)):
        return True
    awaited = [each.value for each in _inside(node.body) if isinstance(each, ast.Await)]
    is_task = any(re.search(r"task|future|fut$|worker|runner", _last_name(each)) for each in awaited)
    return is_task and module.cancels


# Retries


def _loop_around(module: _Module, node: ast.AST) -> ast.For | ast.AsyncFor | ast.While | None:
    for each in module.ancestors(node):
        if isinstance(each, _LOOPS):
            return each
        if isinstance(each, _SCOPES):
            return None
    return None


def _retry_loop(module: _Module, node: _Try) -> ast.For | ast.While | None:
    """The loop that repeats a `try` until it succeeds; None where the loop does something else.

    Such a loop counts attempts or has no end, and its `try` is a statement of its body. Success leaves the loop,
    failure goes on to the next attempt.
    """
    loop = _loop_around(module, node)
    if not isinstance(loop, (ast.For, ast.While)) or not _counts_attempts(loop, node):
        return None
    parent = module.parents.get(node)
    if parent is not loop and not (
        isinstance(parent, (ast.With, ast.AsyncWith)) and module.parents.get(parent) is loop
    ):
        return None
    if not any(_goes_on(handler) for handler in node.handlers):
        return None
    after = loop.body[loop.body.index(node) + 1 :] if node in loop.body else []
    return loop if _success_leaves(node, after) else None


def _counts_attempts(loop: ast.For | ast.While, node: _Try) -> bool:
    if isinstance(loop, ast.While):
        compared = isinstance(loop.test, ast.Compare) and isinstance(
            loop.test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
        )
        names = re.compile(r"attempt|retr|tries|count|^i$|^n$|deadline|time", re.IGNORECASE)
        counts = compared and any(
            names.search(_last_name(each))
            for each in ast.walk(loop.test)
            if isinstance(each, (ast.Name, ast.Attribute))
        )
        return _is_forever(loop) or counts
    if not isinstance(loop.iter, ast.Call) or _text(loop.iter.func) not in {"range", "itertools.count", "count"}:
        return False
    used = {each.id for each in _inside(node.body) if isinstance(each, ast.Name)}
    return not used & {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}


def _is_forever(loop: ast.AST) -> bool:
    return isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and bool(loop.test.value)


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether the loop goes on after a handler, without any condition that ends it."""
    return not isinstance(handler.body[-1], (ast.Raise, ast.Return, ast.Break))


def _success_leaves(node: _Try, after: list[ast.stmt]) -> bool:
    """Whether the loop ends after the first success."""
    bodies = [node.body, node.orelse, after]
    if after and isinstance(after[-1], ast.If):
        bodies.append(after[-1].body)
    return any(body and isinstance(body[-1], (ast.Return, ast.Break)) for body in bodies)


def _retries(module: _Module) -> Iterator[Problem]:
    for node in module.nodes:
        if isinstance(node, _TRIES):
            loop = _retry_loop(module, node)
            if loop is not None:
                yield from _loop_problems(module, loop, node)
        elif isinstance(node, _FUNCTIONS):
            yield from _decorator_problems(module, node)
        elif isinstance(node, ast.Call):
            yield from _policy_problems(module, node)


def _loop_problems(module: _Module, loop: ast.For | ast.While, node: _Try) -> Iterator[Problem]:
    handlers = [each for each in node.handlers if _goes_on(each)]
    broad = [each for each in handlers if _is_broad(module, each) or _is_network_error(module, each)]
    pauses = any(_PAUSE.search(_text(call.func) or _last_name(call.func)) for call in _calls_in([loop]))
    calls = list(_calls_in(node.body))
    needs_no_pause = any(_NO_SERVICE.match(_last_name(call.func)) for call in _calls_in(loop.body))
    if broad and calls and not needs_no_pause:
        handler = broad[0]
        is_short = _is_forever(loop) and _has_limit(loop, node)  # most of these try a second time, and no more
        if not pauses and not is_short and not _repairs(handler, node):
            yield _problem("retry-without-backoff", loop)
        elif pauses and _is_forever(loop) and not _repairs(handler, node) and not _has_limit(loop, node):
            yield _problem("retry-without-limit", loop)
    for call in calls:
        if handlers and _is_unsafe_post(module, call):
            yield _problem("retry-not-idempotent", call)


def _is_network_error(module: _Module, handler: ast.ExceptHandler) -> bool:
    return any(name.rpartition(".")[2] in _NETWORK_ERRORS for name in _caught(module, handler))


def _repairs(handler: ast.ExceptHandler, node: _Try) -> bool:
    """Whether a handler changes something before the next attempt, such as the connection or an argument."""
    raised = {call for each in _inside(handler.body) if isinstance(each, ast.Raise) for call in _calls_in([each])}
    for call in _calls_in(handler.body):
        name = _text(call.func) or _last_name(call.func)
        if call not in raised and not _LOGGING.search(name) and not _PAUSE.search(name) and not _is_plain(call):
            return True
    read = {each.id for each in _inside(node.body) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    written = {
        each.id for each in _inside(handler.body) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    return bool(read & written)


def _is_plain(call: ast.Call) -> bool:
    return _text(call.func) in {
        "str",
        "repr",
        "len",
        "int",
        "float",
        "type",
        "isinstance",
        "getattr",
        "format",
        "min",
        "max",
    }


def _has_limit(loop: ast.AST, node: _Try) -> bool:
    """Whether something besides success ends a loop: a raise, or a return or break under a condition."""
    for handler in node.handlers:
        if any(isinstance(each, (ast.Raise, ast.Return, ast.Break)) for each in _inside(handler.body)):
            return True
    for statement in getattr(loop, "body", []):
        if isinstance(statement, ast.If) and any(
            isinstance(each, (ast.Raise, ast.Return, ast.Break)) for each in _inside([statement])
        ):
            return True
    return any(isinstance(each, ast.Raise) for each in _inside(getattr(loop, "body", [])))


# Libraries of retries

_LIMITS: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    "tenacity": (frozenset({"stop"}), frozenset({"wait"})),
    "backoff": (frozenset({"max_tries", "max_time"}), frozenset()),
    "retrying": (
        frozenset({"stop", "stop_max_attempt_number", "stop_max_delay", "stop_func"}),
        frozenset(
            {
                "wait",
                "wait_fixed",
                "wait_random_min",
                "wait_exponential_multiplier",
                "wait_func",
                "wait_incrementing_start",
            }
        ),
    ),
    "retry": (frozenset({"tries"}), frozenset({"delay"})),
}
"""For each library: the keywords that limit attempts, and those that set a pause; the default is none."""
_DECORATORS: Final = {
    "tenacity.retry": "tenacity", "tenacity.Retrying": "tenacity", "tenacity.AsyncRetrying": "tenacity",
    "backoff.on_exception": "backoff", "backoff.on_predicate": "backoff", "retrying.retry": "retrying",
    "retrying.Retrying": "retrying", "retry.retry": "retry", "retry.api.retry": "retry",
    "stamina.retry": "stamina", "stamina.retry_context": "stamina", "reprieve.retry": "reprieve", "reprieve.attempts": "reprieve",
}  # fmt: skip
_RETRY_CLASSES: Final = ("urllib3", "requests.packages.urllib3", "requests.adapters")


def _decorator_problems(module: _Module, function: _Function) -> Iterator[Problem]:
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        library = _DECORATORS.get(module.path(called))
        if library is None:
            continue
        if not isinstance(decorator, ast.Call) and library in {"tenacity", "retrying"}:
            yield _problem("retry-without-limit", decorator, library)
            yield _problem("retry-without-backoff", decorator, library)
        if not _SAFE_RETRY.search(_names_in(decorator)):
            for call in _calls_in(function.body):
                if _is_unsafe_post(module, call):
                    yield _problem("retry-not-idempotent", call)


def _policy_problems(module: _Module, call: ast.Call) -> Iterator[Problem]:
    path = module.path(call.func)
    if path.endswith(".Retry") and path.startswith(_RETRY_CLASSES):
        yield from _urllib3_problems(call)
    library = _DECORATORS.get(path, "")
    if _unpacks(call):
        return
    names = {each.arg for each in call.keywords}
    if library == "stamina":
        if _is_none(_keyword(call, "attempts")) and _is_none(_keyword(call, "timeout")):
            yield _problem("retry-without-limit", call, library)
    elif library in _LIMITS and not (call.args and library != "backoff"):
        limits, pauses = _LIMITS[library]
        if not names & limits:
            yield _problem("retry-without-limit", call, library)
        if pauses and not names & pauses:
            yield _problem("retry-without-backoff", call, library)


def _urllib3_problems(call: ast.Call) -> Iterator[Problem]:
    if _unpacks(call):
        return
    total = _keyword(call, "total") or (call.args[0] if call.args else None)
    factor = _keyword(call, "backoff_factor")
    repeats = isinstance(total, ast.Constant) and isinstance(total.value, int) and total.value > 1
    if repeats and (factor is None or (isinstance(factor, ast.Constant) and factor.value == 0)):
        yield _problem("retry-without-backoff", call, "urllib3")
    for name in ("allowed_methods", "method_whitelist"):
        methods = _keyword(call, name)
        named = (
            {each.value for each in ast.walk(methods) if isinstance(each, ast.Constant)}
            if methods is not None
            else set()
        )
        if _is_none(methods) or _is_false(methods) or named & {"POST", "PATCH"}:
            yield _problem("retry-not-idempotent", call, "urllib3")


def _names_in(node: ast.AST) -> str:
    """Every name and constant in a node, for searching."""
    parts = []
    for each in ast.walk(node):
        if isinstance(each, ast.Constant):
            parts.append(str(each.value)[:200])
        elif isinstance(each, (ast.Name, ast.Attribute)):
            parts.append(_last_name(each))
        elif isinstance(each, ast.keyword) and each.arg:
            parts.append(each.arg)
    return " ".join(parts)


def _is_unsafe_post(module: _Module, call: ast.Call) -> bool:
    """Whether a call sends a POST or PATCH that can have an effect twice."""
    func = call.func
    if not isinstance(func, ast.Attribute) or not module.packages & _HTTP_LIBRARIES:
        return False
    method = func.attr
    if method == "request" and call.args and isinstance(call.args[0], ast.Constant):
        method = str(call.args[0].value).lower()
    path = module.path(func.value)
    is_client = path.partition(".")[0] in _HTTP_LIBRARIES or re.search(
        r"session|client|http", _text(func.value), re.IGNORECASE
    )
    if method not in {"post", "patch"} or not is_client or _REPEATABLE_URL.search(_names_in(call)):
        return False
    function = module.function(call)
    around = _names_in(function) if function is not None else _names_in(call)
    return "idempot" not in around.lower()


# Results of tasks


def _gathers(module: _Module) -> Iterator[Problem]:
    for call in module.calls:
        if module.path(call.func) != "asyncio.gather" or not _is_true(_keyword(call, "return_exceptions")):
            continue
        function = module.function(call)
        waiting = module.parents.get(call)
        statement = module.parents.get(waiting) if isinstance(waiting, ast.Await) else None
        if function is None or statement is None or _SHUTDOWN.search(function.name) or _reads_results(function):
            continue
        if isinstance(statement, ast.Expr) or _is_never_read(statement, function):
            yield _problem("ignored-gather-result", statement)


def _reads_results(function: _Function) -> bool:
    """Whether a function cancels the tasks before, or reads the results of the tasks themselves."""
    return any(_last_name(call.func) in {"cancel", "exception", "result"} for call in _calls_in(function.body))


def _is_never_read(statement: ast.AST, function: _Function) -> bool:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or target.id.startswith("_"):
        return False
    return not any(
        isinstance(each, ast.Name) and each.id == target.id and isinstance(each.ctx, ast.Load)
        for each in ast.walk(function)
    )
