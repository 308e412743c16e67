"""Finds weak failure handling in Python syntax trees; the parser child runs it, with the standard library only.

`find_problems` returns `[rule, line, end_line, detail]` for every problem of a file, old or new.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, TypeAlias

from reprieve.review.critic.python_mistakes import find_mistakes
from reprieve.review.critic.python_tree import (
    FUNCTIONS,
    SCOPES,
    Function,
    Module,
    Problem,
    calls_in,
    dotted,
    inside,
    is_false,
    is_none,
    is_true,
    keyword,
    last_name,
    problem,
    unpacks,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_Try: TypeAlias = "ast.Try | ast.TryStar"
_TRIES: Final = (ast.Try, ast.TryStar)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)

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
_SHORTEST_PACKAGE: Final = 2
_ANNOUNCED: Final = re.compile(r"insecure|unverified|no_?verif|untrusted|self_?signed", re.IGNORECASE)
"""Names of functions that say what they do without."""
_PREDICATE: Final = re.compile(
    r"^_*(?:is|has|have|can|should|supports?|exists?|valid|check|try|test|probe|ping|health)_?"
)


def find_problems(tree: ast.Module) -> list[Problem]:
    """Every problem of a file as `[rule, line, end_line, detail]`, by line."""
    module = Module(tree)
    found: list[Problem] = []
    for find in (_calls, _settings, _handlers, _retries, _gathers, find_mistakes):
        found += find(module)
    return sorted(found, key=lambda each: (each[1], each[0]))


# Calls without a timeout, and connections without verification


def _calls(module: Module) -> Iterator[Problem]:
    sessions = _sessions(module)
    for call in module.calls:
        if _has_no_timeout(module, call) or _session_has_no_timeout(module, call, sessions):
            yield problem("no-timeout", call, dotted(call.func))
        if _skips_verification(module, call):
            yield problem("certificate-not-verified", call)


def _has_no_timeout(module: Module, call: ast.Call) -> bool:
    path = module.path(call.func)
    if path in _TIMEOUT_POSITIONS:
        return not unpacks(call) and _waits_by_default(module, call, path)
    package, _, rest = path.partition(".")
    name = rest.rpartition(".")[2]
    timeout = keyword(call, "timeout")
    if package in {"httpx", "httpx2"}:
        if name == "Timeout":
            return len(call.args) == 1 and is_none(call.args[0]) and not call.keywords
        return is_none(timeout) and name in _HTTP_METHODS | {"Client", "AsyncClient", "stream"}
    if path == "aiohttp.ClientTimeout":
        return is_none(keyword(call, "total")) and len(call.keywords) == 1
    return package == "aiohttp" and name in {"ClientSession", "request"} and is_none(timeout)


def _waits_by_default(module: Module, call: ast.Call, path: str) -> bool:
    """Whether a call of the table of timeouts passes none."""
    position = _TIMEOUT_POSITIONS[path]
    if position is not None and len(call.args) > position:
        return is_none(call.args[position])
    if path in _CONNECTS_LATER and not call.args:
        return False
    if path.startswith(_SOCKET_CALLS) and _sets_socket_timeout(module, call):
        return False
    timeout = keyword(call, "timeout")
    return timeout is None or is_none(timeout)


def _sets_socket_timeout(module: Module, call: ast.Call) -> bool:
    """Whether the function of a call, or the file for all sockets, sets a timeout of sockets elsewhere."""
    return module.sets_default_timeout or module.function(call) in module.functions_with_timeouts


def _sessions(module: Module) -> dict[tuple[str, Function | None], str]:
    """Names of HTTP sessions without a timeout of their own, with the function that they are local to."""
    if any(last_name(call.func) == "mount" for call in module.calls):
        return {}
    found: dict[tuple[str, Function | None], str] = {}
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
        is_pool = path in {"urllib3.PoolManager", "urllib3.ProxyManager"} and keyword(value, "timeout") is None
        if path in {"requests.Session", "requests.session", "requests.sessions.Session"} or (
            is_pool and not unpacks(value)
        ):
            for target in targets:
                found[dotted(target), _owner(module, target)] = path
    for name, owner in [key for key in found if _replaces_request(module, key[0])]:
        del found[name, owner]
    return found


def _owner(module: Module, target: ast.AST) -> Function | None:
    """The function that a name is local to; None for names of the module and for attributes."""
    return None if isinstance(target, ast.Attribute) else module.function(target)


def _replaces_request(module: Module, name: str) -> bool:
    """Whether `session.request = ...` gives a session a default timeout."""
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and dotted(node).startswith(f"{name}.")
        and node.attr in {*_HTTP_METHODS, "timeout"}
        for node in module.nodes
    )  # fmt: skip


def _session_has_no_timeout(module: Module, call: ast.Call, sessions: dict[tuple[str, Function | None], str]) -> bool:
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in _HTTP_METHODS or unpacks(call) or not call.args:
        return False
    timeout = keyword(call, "timeout")
    if timeout is not None and not is_none(timeout):
        return False
    receiver = dotted(func.value)
    if any((receiver, function) in sessions for function in _functions_around(module, call)):
        return True
    return _is_session_argument(module, call, receiver)


def _functions_around(module: Module, node: ast.AST) -> Iterator[Function | None]:
    yield from (each for each in module.ancestors(node) if isinstance(each, FUNCTIONS))
    yield None


def _is_session_argument(module: Module, call: ast.Call, receiver: str) -> bool:
    """Whether the receiver is an argument of the function that is annotated as a session of requests."""
    function = module.function(call)
    if function is None or "requests" not in module.packages:
        return False
    arguments = [*function.args.args, *function.args.kwonlyargs]
    annotation = next((each.annotation for each in arguments if each.arg == receiver), None)
    return module.path(annotation) in {"requests.Session", "requests.sessions.Session"}


def _skips_verification(module: Module, call: ast.Call) -> bool:
    name = last_name(call.func)
    for each in call.keywords:
        is_off = is_false(each.value)
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
    return last_name(node) == "CERT_NONE" or (isinstance(node, ast.Constant) and node.value == "CERT_NONE")


def _settings(module: Module) -> Iterator[Problem]:
    """Assignments that switch the verification of certificates off, but in a function that says so."""
    for node in module.nodes:
        if _is_setting_off(module, node):
            function = module.function(node)
            if function is None or not _ANNOUNCED.search(function.name):
                yield problem("certificate-not-verified", node)


def _is_setting_off(module: Module, node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "_create_unverified_context" and module.path(node).startswith("ssl.")
    if not isinstance(node, ast.Assign) or not isinstance(target := node.targets[0], ast.Attribute):
        return False
    is_off = is_false(node.value)
    is_session = "session" in dotted(target.value).lower() or "client" in dotted(target.value).lower()
    return (
        (is_off and target.attr in {"check_hostname", *_UNVERIFIED_KEYWORDS})
        or (is_off and target.attr == "verify" and (is_session or "requests" in module.packages))
        or (target.attr == "verify_mode" and _is_cert_none(node.value))
    )


# Handlers that hide failures


def _handlers(module: Module) -> Iterator[Problem]:
    for node in module.nodes:
        if isinstance(node, _TRIES):
            for handler in node.handlers:
                yield from _handler_problems(module, node, handler)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if _suppresses_cancellation(module, node, item):
                    yield problem("swallowed-cancellation", item.context_expr, "continues")
                if _suppresses_everything(module, item) and not _is_harmless(module, node, node.body):
                    yield problem("swallowed-exception", item.context_expr)


def _handler_problems(module: Module, node: _Try, handler: ast.ExceptHandler) -> Iterator[Problem]:
    if how := _swallows_cancellation(module, node, handler):
        yield problem("swallowed-cancellation", handler, how)
    elif (
        _is_broad(module, handler)
        and _does_nothing(handler.body)
        and not _is_harmless(module, node, node.body)
        and not _is_answer_of_predicate(module, handler)
        and _retry_loop(module, node) is None
    ):
        yield problem("swallowed-exception", handler)


def _caught(module: Module, handler: ast.ExceptHandler) -> list[str]:
    """The paths of the exceptions that a handler catches; `BaseException` for a bare `except`."""
    if handler.type is None:
        return ["BaseException"]
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return [module.path(kind) or dotted(kind) for kind in kinds]


def _is_broad(module: Module, handler: ast.ExceptHandler) -> bool:
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
    return isinstance(node, ast.Call) and dotted(node.func) in {"list", "dict", "set", "tuple"} and not node.args


def _suppresses_everything(module: Module, item: ast.withitem) -> bool:
    call = item.context_expr
    if not isinstance(call, ast.Call) or module.path(call.func) != "contextlib.suppress":
        return False
    return any(dotted(each) in _BROAD for each in call.args)


def _is_harmless(module: Module, node: ast.stmt, body: list[ast.stmt]) -> bool:
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
    return isinstance(value, ast.Call) and _CLEANUP.fullmatch(last_name(value.func)) is not None


def _is_answer_of_predicate(module: Module, handler: ast.ExceptHandler) -> bool:
    """Whether a handler returns the answer of a yes-or-no question, such as `is_installed`."""
    last = handler.body[-1]
    function = module.function(handler)
    if function is None or not isinstance(last, ast.Return) or not (is_true(last.value) or is_false(last.value)):
        return False
    return _PREDICATE.match(function.name) is not None or dotted(function.returns) == "bool"


# Cancellation


def _swallows_cancellation(module: Module, node: _Try, handler: ast.ExceptHandler) -> str:
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


def _ends_endless_loop(module: Module, node: _Try, handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends the loop of a background task, whose result is never read."""
    last = handler.body[-1]
    leaves = isinstance(last, ast.Break) or (isinstance(last, ast.Return) and last.value is None)
    is_in_loop = any(isinstance(each, ast.While) for each in module.ancestors(node))
    around = any(isinstance(each, ast.While) for each in inside(node.body))
    return (leaves and is_in_loop) or (around and not _does_more(module, node))


def _does_more(module: Module, node: _Try) -> bool:
    """Whether the function has statements after a `try`."""
    function = module.function(node)
    return function is not None and function.body[-1] is not node


def _leaves_with_error(body: list[ast.stmt]) -> bool:
    return any(
        isinstance(each, ast.Raise)
        or (isinstance(each, ast.Call) and last_name(each.func) in {"exit", "_exit", "uncancel"})
        for each in inside(body)
    )


def _suppresses_cancellation(module: Module, node: ast.With | ast.AsyncWith, item: ast.withitem) -> bool:
    """`with suppress(CancelledError)` around an `await` of a function that cancels nothing itself."""
    call, function = item.context_expr, module.function(node)
    if not isinstance(call, ast.Call) or module.path(call.func) != "contextlib.suppress":
        return False
    if not isinstance(function, ast.AsyncFunctionDef) or _SHUTDOWN.search(function.name) or module.cancels:
        return False
    return any((module.path(each) or dotted(each)).endswith("CancelledError") for each in call.args) and _awaits(
        node.body
    )


def _awaits(body: list[ast.stmt]) -> bool:
    return any(isinstance(each, (ast.Await, ast.AsyncFor, ast.AsyncWith)) for each in inside(body))


def _is_cancellation_handled_before(module: Module, node: _Try, handler: ast.ExceptHandler) -> bool:
    before = node.handlers[: node.handlers.index(handler)]
    return any(name.endswith("CancelledError") for each in before for name in _caught(module, each))


def _uses_error(handler: ast.ExceptHandler) -> bool:
    """Whether a handler passes the error on; a log and the question of its type do not."""
    logged = {
        id(name)
        for call in calls_in(handler.body)
        if _LOGGING.search(dotted(call.func)) or dotted(call.func) in {"isinstance", "type"}
        for name in ast.walk(call)
        if isinstance(name, ast.Name)
    }
    return any(
        isinstance(each, ast.Name) and each.id == handler.name and id(each) not in logged
        for each in inside(handler.body)
    )


def _cancels_itself(module: Module, node: _Try, function: ast.AsyncFunctionDef) -> bool:
    """Whether the cancelled task is another one, which this function cancelled and waits for."""
    if any(isinstance(each, ast.Attribute) and each.attr == "cancel" for each in inside(function.body)):
        return True
    awaited = [each.value for each in inside(node.body) if isinstance(each, ast.Await)]
    is_task = any(re.search(r"task|future|fut$|worker|runner", last_name(each)) for each in awaited)
    return is_task and module.cancels


# Retries


def _loop_around(module: Module, node: ast.AST) -> ast.For | ast.AsyncFor | ast.While | None:
    for each in module.ancestors(node):
        if isinstance(each, _LOOPS):
            return each
        if isinstance(each, SCOPES):
            return None
    return None


def _retry_loop(module: Module, node: _Try) -> ast.For | ast.While | None:
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
    return (
        loop
        if _success_leaves(node, after) or any(_sets_flag(loop, body) for body in (node.body, node.orelse, after))
        else None
    )


def _counts_attempts(loop: ast.For | ast.While, node: _Try) -> bool:
    if isinstance(loop, ast.While):
        compared = isinstance(loop.test, ast.Compare) and isinstance(
            loop.test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
        )
        names = re.compile(r"attempt|retr|tries|count|^i$|^n$|deadline|time", re.IGNORECASE)
        counts = compared and any(
            names.search(last_name(each)) for each in ast.walk(loop.test) if isinstance(each, (ast.Name, ast.Attribute))
        )
        return _is_forever(loop) or counts
    if not isinstance(loop.iter, ast.Call) or dotted(loop.iter.func) not in {"range", "itertools.count", "count"}:
        return False
    used = {each.id for each in inside(node.body) if isinstance(each, ast.Name)}
    return not used & {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}


def _is_forever(loop: ast.AST) -> bool:
    if not isinstance(loop, ast.While):
        return False
    return bool(_flag_of(loop)) or (isinstance(loop.test, ast.Constant) and bool(loop.test.value))


def _flag_of(loop: ast.AST) -> str:
    """The name in `while not connected`; empty for other loops."""
    test = loop.test if isinstance(loop, ast.While) else None
    return dotted(test.operand) if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else ""


def _sets_flag(loop: ast.AST, body: list[ast.stmt]) -> bool:
    flag = _flag_of(loop)
    stored = [target for each in body if isinstance(each, ast.Assign) for target in each.targets]
    return bool(flag) and any(dotted(target) == flag for target in stored)


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether the loop goes on after a handler, without any condition that ends it."""
    return not isinstance(handler.body[-1], (ast.Raise, ast.Return, ast.Break))


def _success_leaves(node: _Try, after: list[ast.stmt]) -> bool:
    """Whether the loop ends after the first success."""
    bodies = [node.body, node.orelse, after]
    if after and isinstance(after[-1], ast.If):
        bodies.append(after[-1].body)
    return any(body and isinstance(body[-1], (ast.Return, ast.Break)) for body in bodies)


def _retries(module: Module) -> Iterator[Problem]:
    for node in module.nodes:
        if isinstance(node, _TRIES):
            loop = _retry_loop(module, node)
            if loop is not None:
                yield from _loop_problems(module, loop, node)
        elif isinstance(node, FUNCTIONS):
            yield from _decorator_problems(module, node)
        elif isinstance(node, ast.Call):
            yield from _policy_problems(module, node)


def _loop_problems(module: Module, loop: ast.For | ast.While, node: _Try) -> Iterator[Problem]:
    handlers = [each for each in node.handlers if _goes_on(each)]
    broad = [each for each in handlers if _is_broad(module, each) or _is_network_error(module, each)]
    pauses = any(_PAUSE.search(dotted(call.func) or last_name(call.func)) for call in calls_in([loop]))
    calls = list(calls_in(node.body))
    needs_no_pause = any(_NO_SERVICE.match(last_name(call.func)) for call in calls_in(loop.body))
    if broad and calls and not needs_no_pause:
        handler = broad[0]
        is_short = _is_forever(loop) and _has_limit(loop, node)  # most of these try a second time, and no more
        if not pauses and not is_short and not _repairs(handler, node):
            yield problem("retry-without-backoff", loop)
        elif pauses and _is_forever(loop) and not _repairs(handler, node) and not _has_limit(loop, node):
            yield problem("retry-without-limit", loop)
    for call in calls:
        if handlers and _is_unsafe_post(module, call):
            yield problem("retry-not-idempotent", call)


def _is_network_error(module: Module, handler: ast.ExceptHandler) -> bool:
    return any(
        name.rpartition(".")[2] in _NETWORK_ERRORS or _is_error_of_client(name) for name in _caught(module, handler)
    )


def _is_error_of_client(name: str) -> bool:
    """Whether a path is that of the error that a package names after itself: `redis.RedisError`."""
    package, _, rest = name.partition(".")
    last = rest.rpartition(".")[2].lower()
    return len(package) > _SHORTEST_PACKAGE and last.removesuffix("error").removesuffix("exception") == package.lower()


def _repairs(handler: ast.ExceptHandler, node: _Try) -> bool:
    """Whether a handler changes something before the next attempt, such as the connection or an argument."""
    raised = {call for each in inside(handler.body) if isinstance(each, ast.Raise) for call in calls_in([each])}
    for call in calls_in(handler.body):
        name = dotted(call.func) or last_name(call.func)
        if call not in raised and not _LOGGING.search(name) and not _PAUSE.search(name) and not _is_plain(call):
            return True
    read = {each.id for each in inside(node.body) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    written = {
        each.id for each in inside(handler.body) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    return bool(read & written)


def _is_plain(call: ast.Call) -> bool:
    return dotted(call.func) in {
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
        if any(isinstance(each, (ast.Raise, ast.Return, ast.Break)) for each in inside(handler.body)):
            return True
    for statement in getattr(loop, "body", []):
        if isinstance(statement, ast.If) and any(
            isinstance(each, (ast.Raise, ast.Return, ast.Break)) for each in inside([statement])
        ):
            return True
    return any(isinstance(each, ast.Raise) for each in inside(getattr(loop, "body", [])))


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


def _decorator_problems(module: Module, function: Function) -> Iterator[Problem]:
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        library = _DECORATORS.get(module.path(called))
        if library is None:
            continue
        if not isinstance(decorator, ast.Call) and library in {"tenacity", "retrying"}:
            yield problem("retry-without-limit", decorator, library)
            yield problem("retry-without-backoff", decorator, library)
        if not _SAFE_RETRY.search(_names_in(decorator)):
            for call in calls_in(function.body):
                if _is_unsafe_post(module, call):
                    yield problem("retry-not-idempotent", call)


def _policy_problems(module: Module, call: ast.Call) -> Iterator[Problem]:
    path = module.path(call.func)
    if path.endswith(".Retry") and path.startswith(_RETRY_CLASSES):
        yield from _urllib3_problems(call)
    library = _DECORATORS.get(path, "")
    if unpacks(call):
        return
    names = {each.arg for each in call.keywords}
    if library == "stamina":
        if is_none(keyword(call, "attempts")) and is_none(keyword(call, "timeout")):
            yield problem("retry-without-limit", call, library)
    elif library in _LIMITS and not (call.args and library != "backoff"):
        limits, pauses = _LIMITS[library]
        if not names & limits:
            yield problem("retry-without-limit", call, library)
        if pauses and not names & pauses:
            yield problem("retry-without-backoff", call, library)


def _urllib3_problems(call: ast.Call) -> Iterator[Problem]:
    if unpacks(call):
        return
    total = keyword(call, "total") or (call.args[0] if call.args else None)
    factor = keyword(call, "backoff_factor")
    repeats = isinstance(total, ast.Constant) and isinstance(total.value, int) and total.value > 1
    if repeats and (factor is None or (isinstance(factor, ast.Constant) and factor.value == 0)):
        yield problem("retry-without-backoff", call, "urllib3")
    for name in ("allowed_methods", "method_whitelist"):
        methods = keyword(call, name)
        named = (
            {each.value for each in ast.walk(methods) if isinstance(each, ast.Constant)}
            if methods is not None
            else set()
        )
        if is_none(methods) or is_false(methods) or named & {"POST", "PATCH"}:
            yield problem("retry-not-idempotent", call, "urllib3")


def _names_in(node: ast.AST) -> str:
    """Every name and constant in a node, for searching."""
    parts = []
    for each in ast.walk(node):
        if isinstance(each, ast.Constant):
            parts.append(str(each.value)[:200])
        elif isinstance(each, (ast.Name, ast.Attribute)):
            parts.append(last_name(each))
        elif isinstance(each, ast.keyword) and each.arg:
            parts.append(each.arg)
    return " ".join(parts)


def _is_unsafe_post(module: Module, call: ast.Call) -> bool:
    """Whether a call sends a POST or PATCH that can have an effect twice."""
    func = call.func
    if not isinstance(func, ast.Attribute) or not module.packages & _HTTP_LIBRARIES:
        return False
    method = func.attr
    if method == "request" and call.args and isinstance(call.args[0], ast.Constant):
        method = str(call.args[0].value).lower()
    path = module.path(func.value)
    is_client = path.partition(".")[0] in _HTTP_LIBRARIES or re.search(
        r"session|client|http", dotted(func.value), re.IGNORECASE
    )
    if method not in {"post", "patch"} or not is_client or _REPEATABLE_URL.search(_names_in(call)):
        return False
    function = module.function(call)
    around = _names_in(function) if function is not None else _names_in(call)
    return "idempot" not in around.lower()


# Results of tasks


def _gathers(module: Module) -> Iterator[Problem]:
    for call in module.calls:
        if module.path(call.func) != "asyncio.gather" or not is_true(keyword(call, "return_exceptions")):
            continue
        function = module.function(call)
        waiting = module.parents.get(call)
        statement = module.parents.get(waiting) if isinstance(waiting, ast.Await) else None
        if function is None or statement is None or _SHUTDOWN.search(function.name) or _reads_results(function):
            continue
        if isinstance(statement, ast.Expr) or _is_never_read(statement, function):
            yield problem("ignored-gather-result", statement)


def _reads_results(function: Function) -> bool:
    """Whether a function cancels the tasks before, or reads the results of the tasks themselves."""
    return any(last_name(call.func) in {"cancel", "exception", "result"} for call in calls_in(function.body))


def _is_never_read(statement: ast.AST, function: Function) -> bool:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or target.id.startswith("_"):
        return False
    return not any(
        isinstance(each, ast.Name) and each.id == target.id and isinstance(each.ctx, ast.Load)
        for each in ast.walk(function)
    )
