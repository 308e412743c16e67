"""Bugs and security holes in Python that ruff finds, limited to those that the change made.

Ruff reads each version from its standard input, without configuration and in an empty folder. A finding is
reported where its line was added and the old version did not have it. Undefined names are reported anywhere.
"""

from __future__ import annotations

import builtins
import json
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from reprieve.review.critic.comparison import only_new, practised
from reprieve.review.critic.findings import Severity
from reprieve.review.critic.rules import CriticCheck, CriticRule, NotCheckedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet
    from reprieve.review.critic.findings import Finding

SUFFIXES: Final = (".py", ".pyi")
TIMEOUT_SECONDS: Final = 10.0
"""For one version of one file."""
MAX_CHARACTERS: Final = 1_000_000
"""Longer files are not checked."""
_MAX_ANSWER_BYTES: Final = 32 << 20
_MAX_PROCESSES: Final = 4
_MAX_LINE: Final = 1_000
"""Characters of a line that are looked at."""
_FILES_OF_HABIT: Final = 4
_CALL_LINES: Final = 12
_HIGH, _MEDIUM, _LOW = Severity.HIGH, Severity.MEDIUM, Severity.LOW


_ANYWHERE: Final = frozenset(
    ["F811", "F821", "F822", "ASYNC210", "ASYNC212", "ASYNC220", "ASYNC221", "ASYNC222", "ASYNC251"]
)
"""Reported on lines that the change did not touch too: a removed import or a new `async` makes them wrong."""

_PRACTICES: Final = frozenset({
    "naive-utc-time", "cache-on-method", "unclosed-file", "code-execution", "unsafe-deserialization", "sql-injection",
    "shell-injection", "insecure-temporary-file",
})  # fmt: skip
"""Rules about what projects do on purpose too; severe cases are reported in any file."""


def _rules(codes: str, name: str, severity: Severity, finds: str, advice: str) -> tuple[CriticRule, ...]:
    """One rule for each code; all of them have the same id and the same advice."""
    return tuple(
        CriticRule(
            id=name,
            code=code,
            severity=severity,
            suffixes=SUFFIXES,
            finds=finds,
            advice=advice,
            is_practice=name in _PRACTICES,
            depends_on_place=code in _ANYWHERE,
        )
        for code in codes.split()
    )


RULES: Final[tuple[CriticRule, ...]] = (
    # The program fails when it runs this code.
    *_rules(
        "F821", "undefined-name", _HIGH, "a name that the file neither defines nor imports",
        "`{name}` is not defined in this file, so this raises NameError when it runs: define it, "
        "import it, or correct its spelling.",
    ),
    *_rules(
        "F823", "used-before-assignment", _HIGH, "a local variable that is read before it has a value",
        "The function assigns `{name}` later, so it is local and has no value here: this raises "
        "UnboundLocalError.",
    ),
    *_rules(
        "F404 F407 F622 F701 F702 F704 F706 F707 PLE0115 PLE0117 PLE0118 PLE1142 PLE1700", "does-not-compile", _HIGH,
        "a statement at a place where Python does not allow it",
        "Python refuses to compile this, so the whole module cannot be imported: move or correct the "
        "statement.",
    ),
    *_rules(
        "F501 F502 F503 F505 F506 F507 F508 F509 F521 F524 F525 PLE1300 PLE1307", "wrong-format-arguments", _HIGH,
        "a format string that does not fit its arguments",
        "The format string does not fit its arguments, so formatting raises an exception: correct "
        "the one or the other.",
    ),
    *_rules(
        "PLE0100 PLE0101", "value-from-init", _HIGH, "an `__init__` that returns a value or yields",
        "`__init__` must return None, so creating an object raises TypeError: return nothing, or use "
        "a class method.",
    ),
    *_rules(
        "PLE0302 PLE0303 PLE0305 PLE0307 PLE0308 PLE0309", "wrong-special-method", _HIGH,
        "a special method that does not take the arguments, or does not return the type, that Python "
        "expects",
        "Python calls this special method with other arguments, or expects another result type, and "
        "raises TypeError.",
    ),
    *_rules(
        "PLE0643 RUF016", "wrong-index", _HIGH,
        "an index that the sequence does not have, or of the wrong type",
        "This index does not fit the literal that it is applied to, so the expression raises: "
        "correct the index.",
    ),
    *_rules(
        "PLE0604 PLE0605 F822", "wrong-export-list", _MEDIUM,
        "an `__all__` that lists names which do not exist",
        "`__all__` lists something that the module does not define, so a star import raises: correct "
        "the list.",
    ),
    *_rules(
        "PLW1501", "wrong-open-mode", _HIGH, "a mode that `open` does not know",
        "`open` raises ValueError for this mode: correct it.",
    ),
    *_rules(
        "RUF008 B006 B039", "mutable-default", _MEDIUM, "a default value that is a list, a dict or a set",
        "The default is created once and shared by all calls, so changes leak from one call to the next: "
        "use None and create the value inside.",
    ),
    *_rules(
        "F901 B016 PLE0704", "wrong-raise", _MEDIUM, "a `raise` without an exception to raise",
        "This `raise` has no exception to raise, so Python raises TypeError or RuntimeError instead: "
        "name the exception.",
    ),
    *_rules(
        "PLW0245", "super-without-call", _HIGH, "`super` without brackets",
        "`super` without brackets is the class, not the parent of this object: write `super()`.",
    ),
    # The program goes on, and does something else than it says.
    *_rules(
        "F504 F522 F523", "unused-format-argument", _MEDIUM,
        "an argument that the format string does not use",
        "The format string never uses one of its arguments, so the text lacks a value: add the "
        "placeholder.",
    ),
    *_rules(
        "PLE1205 PLE1206", "wrong-log-arguments", _MEDIUM,
        "a log call whose arguments do not fit its message",
        "The message has another number of placeholders than the call has arguments, so the log line "
        "is lost: match them.",
    ),
    *_rules(
        "F631 F634 PLW0129", "condition-always-true", _MEDIUM,
        "a test of a tuple or of a text, which has always the same result",
        "A non-empty tuple or text is always true, so this tests nothing: remove the brackets or "
        "compare the value.",
    ),
    *_rules(
        "SIM220 SIM221 SIM222 SIM223", "constant-condition", _MEDIUM,
        "a condition that has always the same result",
        "This condition has always the same result, often because a comparison after `or` or `and` is incomplete: "
        "write the whole comparison.",
    ),
    *_rules(
        "F632", "identity-comparison", _MEDIUM, "`is` with a text, a number or a tuple",
        "`is` compares identity, and equal values are not always the same object: compare with `==`.",
    ),
    *_rules(
        "PLW0177", "nan-comparison", _MEDIUM, "a comparison with NaN",
        "NaN is unequal to everything, itself included, so this has always the same result: use "
        "`math.isnan`.",
    ),
    *_rules(
        "PLR0124", "self-comparison", _MEDIUM, "a name that is compared with itself",
        "Both sides are the same, so the result never changes: compare with the value that was meant.",
    ),
    *_rules(
        "PLW0127", "self-assignment", _MEDIUM, "a variable that is assigned to itself",
        "The assignment has no effect: the other side is probably another name.",
    ),
    *_rules(
        "B015", "unused-comparison", _MEDIUM, "a comparison whose result is not used",
        "The result of this comparison is dropped: an `assert`, or `=` in place of `==`, was "
        "probably meant.",
    ),
    *_rules(
        "B018", "unused-expression", _LOW, "an expression whose value is not used",
        "The value of this expression is dropped: call it, assign it, or remove it.",
    ),
    *_rules(
        "PLW0133", "missing-raise", _MEDIUM, "an exception that is created and not raised",
        "The exception is created and dropped, so the program goes on: write `raise` before it.",
    ),
    *_rules(
        "F811", "redefinition", _MEDIUM, "a function or class that is defined again before it was used",
        "`{name}` is defined twice and the first definition is lost (a test of this name never "
        "runs): rename one of them.",
    ),
    *_rules(
        "F601", "duplicate-key", _MEDIUM, "a dict literal that has the same key twice",
        "The dict has the key `{name}` twice and only the last value is kept: remove or correct one "
        "of them.",
    ),
    *_rules(
        "B035", "constant-key", _MEDIUM, "a dict comprehension whose key never changes",
        "The key is the same in every round, so the dict keeps only the last value: use the loop "
        "variable in the key.",
    ),
    *_rules(
        "ISC004", "missing-comma", _MEDIUM, "two texts in a list or tuple without a comma between them",
        "Python joins these two texts into one element because the comma is missing: add it.",
    ),
    *_rules(
        "B002", "unary-increment", _MEDIUM, "`++x` or `--x`",
        "Python has no `++` or `--`: this changes nothing. Write `+= 1` or `-= 1`.",
    ),
    *_rules(
        "B003", "environment-replaced", _MEDIUM, "an assignment to `os.environ`",
        "Assigning to `os.environ` does not change the environment of child processes: use "
        "`os.environ.clear()` and `update()`.",
    ),
    *_rules(
        "B008 RUF009", "default-evaluated-once", _MEDIUM,
        "a default that calls for the time or for a random value",
        "The default is calculated once when the module is loaded, not for each call: use None, or "
        "`default_factory`.",
    ),
    *_rules(
        "B012", "return-in-finally", _MEDIUM, "`return`, `break` or `continue` in a `finally` block",
        "Leaving a `finally` block this way drops the exception that is being raised: move the "
        "statement out of it.",
    ),
    *_rules(
        "B022 B025 B029 B030 PLW0711", "exception-not-caught", _MEDIUM,
        "a handler that catches nothing, or less than it says",
        "This handler does not catch what it seems to catch: name the exceptions as one tuple, each "
        "of them once.",
    ),
    *_rules(
        "B023", "loop-variable-capture", _MEDIUM, "a function in a loop that uses the variable of the loop",
        "The function reads `{name}` when it is called, so after the loop it sees the last value: "
        "bind it with a default argument or `functools.partial`.",
    ),
    *_rules(
        "B031", "groupby-used-twice", _MEDIUM, "a group of `itertools.groupby` that is read twice",
        "A group of `itertools.groupby` is empty after the first pass: make a list of it.",
    ),
    *_rules(
        "B032", "annotation-for-assignment", _MEDIUM, "`:` where `=` was meant",
        "This is an annotation and assigns nothing: write `=` in place of `:`.",
    ),
    *_rules(
        "B034", "flags-as-count", _MEDIUM, "flags of a regular expression passed as the count",
        "The positional argument after the text is the count, not the flags: write `flags=`.",
    ),
    *_rules(
        "PLE1310", "strip-of-words", _MEDIUM, "`strip`, `lstrip` or `rstrip` with a word in place of a set of characters",
        "`strip` removes any of these characters, not the word: use `removeprefix` or `removesuffix`.",
    ),
    *_rules(
        "PLE1507", "wrong-environment-name", _HIGH, "an environment variable whose name is no text",
        "`os.getenv` raises TypeError unless the name is a text: correct the first argument.",
    ),
    *_rules(
        "PLW1508", "environment-default-type", _LOW, "True or False as the default of `os.getenv`",
        "The variable is a text where it is set, so `0` and `false` are true: use a text as the default "
        "and convert the result.",
    ),
    *_rules(
        "PLW2101", "lock-without-effect", _MEDIUM,
        "a lock that is created in the `with` statement that takes it",
        "Every run takes a new lock, so it protects nothing: create the lock once and share it.",
    ),
    *_rules(
        "RUF006", "lost-task", _MEDIUM, "a task whose result is dropped",
        "The event loop keeps only a weak reference, so the task can vanish before it ends and its errors are lost: "
        "store it or use a TaskGroup.",
    ),
    *_rules(
        "ASYNC210 ASYNC212 ASYNC220 ASYNC221 ASYNC222 ASYNC230 ASYNC251", "blocking-call-in-async", _MEDIUM,
        "`time.sleep`, requests, urllib, subprocess, `os.system` and `open` in an async function",
        "This call blocks the event loop and with it every other task: use the asynchronous variant "
        "or `asyncio.to_thread`.",
    ),
    *_rules(
        "ASYNC105", "call-not-awaited", _HIGH, "a coroutine of asyncio, trio, the same file or the same class that is not awaited, and a call that loses its `await`",
        "Without `await` this call does nothing: await it.",
    ),
    *_rules(
        "RUF024", "shared-value", _MEDIUM, "`dict.fromkeys` with a list or dict as the value",
        "All keys share one object, so a change of one value changes all: use a dict comprehension.",
    ),
    *_rules(
        "RUF026", "factory-as-key", _MEDIUM, "`defaultdict(default_factory=...)`",
        "`defaultdict` takes the factory by position; this adds a key named `default_factory`: "
        "remove the keyword.",
    ),
    *_rules(
        "RUF032", "decimal-from-float", _MEDIUM, "`Decimal` of a float",
        "The float is inexact before Decimal sees it: write the number as a text.",
    ),
    *_rules(
        "RUF034", "equal-branches", _MEDIUM, "an `if` expression whose branches are equal",
        "Both branches are the same, so the condition decides nothing: correct one of them.",
    ),
    *_rules(
        "RUF064", "wrong-file-mode", _MEDIUM, "a file mode that is not octal",
        "The mode is a decimal number, which sets other permissions than it seems to: write `0o` "
        "before it.",
    ),
    # Security.
    *_rules(
        "S608 S610 S611", "sql-injection", _MEDIUM, "SQL text that is built from values; names of tables, columns and constants left out",
        "A value that becomes part of the SQL text can change the statement: pass values as parameters, "
        "and check names against a fixed list.",
    ),
    *_rules(
        "S602 S605", "shell-injection", _MEDIUM, "a shell command that is built from values",
        "The shell interprets the values in this command: pass a list of arguments without a shell, "
        "or quote with `shlex.quote`.",
    ),
    *_rules(
        "S102 S307", "code-execution", _MEDIUM, "`eval` or `exec`",
        "`eval` and `exec` run any code that reaches them: use `ast.literal_eval`, `json.loads` or a "
        "table of functions.",
    ),
    *_rules(
        "S301 S302", "unsafe-deserialization", _MEDIUM, "`pickle` or `marshal` that reads data",
        "Loading this format runs code that the data names: use JSON unless only this program can "
        "write the data.",
    ),
    *_rules(
        "S506", "unsafe-yaml", _HIGH, "`yaml.load` with a loader that builds any object",
        "This loader runs code that the document names: use `yaml.safe_load`.",
    ),
    *_rules(
        "S202", "unsafe-archive-extraction", _MEDIUM, "a tar archive that is extracted without a filter",
        'Members of an archive can have paths outside the folder: pass `filter="data"`.',
    ),
    *_rules(
        "S324 S303", "weak-hash", _MEDIUM, "MD5 or SHA-1 within three lines of a password, secret, token, salt or signature, or as the digest of something that signs",
        "MD5 and SHA-1 do not protect against forgery: use SHA-256, or a password hash for passwords; "
        "say `usedforsecurity=False` where it does not matter.",
    ),
    *_rules(
        "S304 S305 S505", "weak-encryption", _MEDIUM, "a cipher, mode or key length that can be broken",
        "This cipher, mode or key length can be broken: use AES-GCM, and RSA keys of 2048 bits or more.",
    ),
    *_rules(
        "S502 S503 S504", "weak-tls", _MEDIUM, "an old version of SSL or TLS",
        "This version of SSL or TLS is broken: use `ssl.create_default_context()`.",
    ),
    *_rules(
        "S507", "host-key-not-verified", _MEDIUM, "a client of paramiko that accepts any host key",
        "The client accepts any host key, so another machine can pose as the server: load the known "
        "host keys.",
    ),
    *_rules(
        "S201", "debug-server", _MEDIUM, "Flask that is started with `debug=True`",
        "The debugger of Flask lets visitors run code: switch it on by a setting, never in the source.",
    ),
    *_rules(
        "S701 S704", "cross-site-scripting", _MEDIUM, "text that goes into HTML without escaping",
        "Values in this text go into the page unescaped: use `format_html` or templates with autoescape.",
    ),
    *_rules(
        "S306", "insecure-temporary-file", _MEDIUM, "`tempfile.mktemp`",
        "Another process can create the file between the choice of its name and its use: use "
        "`tempfile.mkstemp`.",
    ),
    *_rules(
        "S103", "world-writable-file", _MEDIUM, "`chmod` with a mode that lets every user write",
        "Every user of the machine may write this file: leave out the write permission of others.",
    ),
    # Smells.
    *_rules(
        "B019", "cache-on-method", _LOW, "`lru_cache` on a method",
        "The cache keeps every object that the method was called on alive: cache outside of the "
        "class, or use `cached_property`.",
    ),
    *_rules(
        "B021", "f-string-docstring", _LOW, "an f-string as a docstring",
        "Python does not treat an f-string as documentation: use a plain text.",
    ),
    *_rules(
        "B033", "duplicate-set-value", _LOW, "a set literal that has the same value twice",
        "The set has the same value twice: one of them is probably another value.",
    ),
    *_rules(
        "DTZ003 DTZ004", "naive-utc-time", _LOW, "`utcnow` or `utcfromtimestamp`",
        "The result has no time zone and is taken for local time by other functions: use "
        "`datetime.now(timezone.utc)`.",
    ),
    *_rules(
        "SIM115", "unclosed-file", _LOW, "a file that is opened and never closed",
        "Nothing closes this file, so it stays open until Python finds it: open it in a `with` "
        "statement, or use `Path`.",
    ),
)  # fmt: skip
"""All rules; the codes that share an id follow one another."""

_BY_CODE: Final[Mapping[str, CriticRule]] = {rule.code: rule for rule in RULES}

_BY_NAME: Final = frozenset({"F821", "F822"})
"""A name that was undefined before is no fault of the change, however often the change uses it."""

_OFF_IN_TESTS: Final = frozenset({
    "blocking-call-in-async", "cache-on-method", "code-execution", "cross-site-scripting",
    "debug-server", "decimal-from-float", "environment-default-type", "host-key-not-verified",
    "insecure-temporary-file", "naive-utc-time", "shell-injection", "sql-injection", "unclosed-file",
    "unsafe-archive-extraction", "unsafe-deserialization", "unsafe-yaml", "unused-expression",
    "unused-import", "unused-variable", "weak-encryption", "weak-hash", "weak-tls",
    "world-writable-file", "wrong-special-method", "self-comparison", "mutable-default",
})  # fmt: skip
"""Tests do these on purpose, or no harm comes from them."""


_INSTALLED_NAMES: Final = frozenset({
    "_", "__", "N_", "_n", "ngettext", "gettext", "get_ipython", "display", "spark", "dbutils",
    "reveal_type", "__path__", "profile", "c", "get_config", "Import", "Return", "Export", "ARGUMENTS",
    "config", "workflow", "snakemake",
})  # fmt: skip
"""Names that programs add to the builtins: translations, notebooks, SCons, Snakemake, profilers."""


_OLD_NAMES: Final = frozenset(
    {"unicode", "long", "basestring", "xrange", "raw_input", "unichr", "file", "reduce", "cmp"}
)
_BOTH_PYTHONS: Final = re.compile(r"\bPY[23]\b|\bversion_info\b|\bsix\b|except NameError")


class _RuffError(Exception):
    """Ruff gave no answer about a file."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """One finding of ruff, with the source text that it is about."""

    code: str
    row: int
    end_row: int
    column: int
    message: str
    lines: tuple[str, ...]
    """All lines of the file."""
    text: str
    """The source text from the start of the finding to its end."""

    @property
    def line(self) -> str:
        return _line(self.lines, self.row)[:_MAX_LINE]

    @property
    def last_row(self) -> int:
        """The last line of the call that the finding begins, or of the finding itself."""
        depth = 0
        for row in range(self.row, self.row + _CALL_LINES):
            depth += _line(self.lines, row).count("(") - _line(self.lines, row).count(")")
            if depth <= 0:
                return max(row, self.end_row)
        return self.end_row

    @property
    def name(self) -> str:
        """The first name that ruff's message quotes."""
        found = re.search(r"`([^`]{1,80})`", self.message)
        return found[1] if found else ""

    @property
    def key(self) -> tuple[str, str]:
        """What is equal in both versions when the line only moved."""
        return self.code, self.name if self.code in _BY_NAME else self.line.strip()


def check_with_ruff(change: ChangeSet) -> Iterator[Finding]:
    """Run ruff on the Python files of the change, several at a time."""
    files = [each for each in change.files if _is_checked(each)]
    if not files:
        return
    program = find_ruff()
    if program is None:
        raise NotCheckedError("ruff is not installed (`pip install ruff`): its rules were not checked")
    failed: list[str] = []
    version = _target_version(change)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_MAX_PROCESSES) as pool:
        for file, answer in zip(files, pool.map(partial(_findings_of, program, folder, version), files), strict=True):
            if isinstance(answer, _RuffError):
                failed.append(f"{file.path}: {answer}")
            else:
                yield from (each for each in answer if each.rule != "naive-utc-time" or not _uses_naive_times(change))
    if failed:
        raise NotCheckedError(f"ruff did not check {'; '.join(failed)}")


def _uses_naive_times(change: ChangeSet) -> bool:
    """Whether the project keeps times without a zone, and compares them with one another."""
    return len(change.base.containing(("utcnow", "utcfromtimestamp"), ("*.py",))) >= _FILES_OF_HABIT


@cache
def find_ruff() -> str | None:
    """The path of the program; None where the package is not installed."""
    try:
        from ruff import find_ruff_bin  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra without types

        return str(find_ruff_bin())
    except (ImportError, FileNotFoundError):
        return None


def _is_checked(file: ChangedFile) -> bool:
    return (
        file.suffix in SUFFIXES
        and file.after is not None
        and bool(file.added or file.removed)
        and not file.is_generated
    )


def _target_version(change: ChangeSet) -> str:
    """The Python that ruff judges by: from 3.14 on, an annotation may use a name that is defined later."""
    settings = (change.tree.read("pyproject.toml") or b"").decode("utf-8", "replace")
    return _NEWEST if _LAZY_ANNOTATIONS.search(settings) else "py313"


_NEWEST: Final = "py314"
_LAZY_ANNOTATIONS: Final = re.compile(
    r"^requires-python\s*=\s*[\"'][^\"']*(?:[>=~]=|>)\s*3\.(?:1[4-9]|[2-9]\d)", re.MULTILINE
)


def _findings_of(program: str, folder: str, version: str, file: ChangedFile) -> list[Finding] | _RuffError:
    try:
        return list(_new_findings(partial(_run_with_fallback, program, folder, version, _neutral_name(file)), file))
    except _RuffError as error:
        return error


def _new_findings(run: Callable[[str], list[_Problem] | None], file: ChangedFile) -> Iterator[Finding]:
    found = run(file.after or "")
    if not found:
        return
    touched = [each for each in found if _added_row(each, file) is not None]
    elsewhere = [each for each in found if each.code in _ANYWHERE]
    judged = {each: _judge(each, file) for each in (*touched, *elsewhere)}
    if not any(judged.values()):
        return
    before = run(file.before) if file.before is not None else []
    reportable = set(touched) if before is None or file.before is None else {*touched, *elsewhere}
    new = only_new(
        found, key=lambda each: each.key, is_touched=reportable.__contains__, before=[each.key for each in before or []]
    )
    known = {each.key for each in before or []}
    habits = practised(
        (each for each in found if _BY_CODE[each.code].is_practice and _judge(each, file)),
        kind=lambda each: _BY_CODE[each.code].id, is_touched=lambda each: each in reportable,
    )  # fmt: skip
    for each in new:
        if _BY_CODE[each.code].id in habits and judged[each] is not _HIGH:
            continue
        is_old_name = each.code in _BY_NAME and each.key in known
        if (severity := judged[each]) and not is_old_name:
            row = _added_row(each, file) or each.row
            yield _BY_CODE[each.code].at(file.path, row, severity=severity, name=each.name)


def _added_row(problem: _Problem, file: ChangedFile) -> int | None:
    """The added line of a problem: of a text or call that others can get into, the first one with a value in it."""
    if not problem.code.startswith(_CALLS_OF_VALUES):
        return problem.row if problem.row in file.added else None
    rows = [row for row in range(problem.row, problem.last_row + 1) if row in file.added]
    return next((row for row in rows if _VALUE_IN_QUERY.search(file.added[row])), rows[0] if rows else None)


_CALLS_OF_VALUES: Final = ("S608", "S602", "S605")
_VALUE_IN_QUERY: Final = re.compile(r"\{[^}]|%\s*[(\w]|\+|\.format\(")

# Running


def _neutral_name(file: ChangedFile) -> str:
    """The name that ruff sees. Names of the repository could be options or pick a configuration."""
    return "__init__.py" if file.name == "__init__.py" else f"changed{file.suffix}"


def _run_with_fallback(program: str, folder: str, version: str, name: str, text: str) -> list[_Problem] | None:
    """What ruff finds. A text that is not valid in this version of Python is read as the newest one."""
    found = _run(program, folder, version, name, text)
    return _run(program, folder, _NEWEST, name, text) if found is None and version != _NEWEST else found


def _run(program: str, folder: str, version: str, name: str, text: str) -> list[_Problem] | None:
    """What ruff finds in a text; None where the text is not valid Python."""
    if len(text) > MAX_CHARACTERS:
        raise _RuffError("it is larger than 1 MB")
    command = [
        program, "check", "--isolated", "--no-cache", "--ignore-noqa", "--quiet", "--output-format", "json",
        "--stdin-filename", name, "--target-version", version, "--select", ",".join(_BY_CODE), "-",
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603 - a program of our own environment
            command, input=text.encode("utf-8", "replace"), capture_output=True, cwd=folder, env={},
            timeout=TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _RuffError(f"it took longer than {TIMEOUT_SECONDS:g} seconds") from None
    except OSError as error:
        raise _RuffError(f"ruff did not start: {error.strerror}") from None
    if done.returncode not in {0, 1} or len(done.stdout) > _MAX_ANSWER_BYTES:
        raise _RuffError(f"ruff ended with {done.returncode}")
    return _problems(json.loads(done.stdout), text)


def _problems(answers: Iterable[dict[str, Any]], text: str) -> list[_Problem] | None:
    lines = tuple(text.split("\n"))
    problems = []
    for answer in answers:
        if answer["code"] in {None, "invalid-syntax"}:
            return None
        start, end = answer["location"], answer["end_location"]
        if answer["code"] in _BY_CODE:
            problems.append(
                _Problem(
                    code=answer["code"],
                    row=start["row"],
                    end_row=end["row"],
                    column=start["column"],
                    message=answer["message"],
                    lines=lines,
                    text=_between(lines, (start["row"], start["column"]), (end["row"], end["column"])),
                )
            )
    return problems


def _between(lines: Sequence[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    (row, column), (end_row, end_column) = start, end
    chosen = list(lines[row - 1 : end_row])
    if chosen:
        chosen[-1] = chosen[-1][: end_column - 1]
        chosen[0] = chosen[0][column - 1 :]
    return "\n".join(chosen)


def _line(lines: Sequence[str], row: int) -> str:
    return lines[row - 1] if 0 < row <= len(lines) else ""


# Judging: which of ruff's findings are worth reading, and how severe they are


def _judge(problem: _Problem, file: ChangedFile) -> Severity | None:
    """The severity of a finding; None where it is probably no fault."""
    rule = _BY_CODE[problem.code]
    if file.is_test and rule.id in _OFF_IN_TESTS:
        return None
    judge = _JUDGES.get(problem.code)
    return rule.severity if judge is None else judge(problem, file)


def _undefined_name(problem: _Problem, file: ChangedFile) -> Severity | None:
    _ = file
    if problem.name in _INSTALLED_NAMES or (
        problem.name in _OLD_NAMES and any(map(_BOTH_PYTHONS.search, problem.lines))
    ):
        return None
    before = problem.line[: problem.column - 1]
    is_quoted = before.count('"') % 2 == 1 or before.count("'") % 2 == 1
    return None if is_quoted else _HIGH


def _redefinition(problem: _Problem, file: ChangedFile) -> Severity | None:
    # an argument of a test has the name of the imported fixture; a decorator that registers keeps the first
    _ = file
    before = problem.line[: problem.column - 1].strip()
    above = _line(problem.lines, problem.row - 1).strip()
    is_kept = above.startswith(("@", ")")) and not above.startswith(
        ("@pytest", "@unittest", "@staticmethod", "@property")
    )
    return _MEDIUM if before in {"def", "async def", "class"} and not is_kept else None


def _only(
    pattern: str, severity: Severity, *, besides: str | None = None
) -> Callable[[_Problem, ChangedFile], Severity | None]:
    """Report a problem only where its line fits one pattern and does not fit another."""
    wanted, unwanted = re.compile(pattern), None if besides is None else re.compile(besides)

    def judge(problem: _Problem, file: ChangedFile) -> Severity | None:
        _ = file
        is_meant = wanted.search(problem.line) and not (unwanted and unwanted.search(problem.line))
        return severity if is_meant else None

    return judge


def _said(text: str, severity: Severity) -> Callable[[_Problem, ChangedFile], Severity | None]:
    """Report a problem only where ruff's message has a text."""
    return lambda problem, _: severity if text in problem.message else None


def _unused_comparison(problem: _Problem, file: ChangedFile) -> Severity | None:
    # a test that expects the operator to raise
    above = _line(problem.lines, problem.row - 1)
    expects = file.is_test and re.search(r"raises|Raises|warns|suppress", above)
    return None if expects else _MEDIUM


def _unused_expression(problem: _Problem, file: ChangedFile) -> Severity | None:
    # an attribute or an item can be read for its effect, and a cell of a notebook shows its last value
    _ = file
    is_read = "attribute" in problem.message or re.fullmatch(r"[\w.\[\]\"'() ]+", problem.text) is not None
    return None if is_read or any("# %%" in line for line in problem.lines[:200]) else _LOW


_WORD: Final = re.compile(r"""\(?\s*["'][\w./:@-]+["']\s*\)?$""")


_OPENS: Final = re.compile(r"\s*(?:(?:async\s+)?(def)\s+(\w+)\(|(for|while|async for)\b|(class)\b)")


def _loop_capture(problem: _Problem, file: ChangedFile) -> Severity | None:
    # a function that the loop only calls, and never passes on, runs before the variable changes
    _ = file
    name = ""
    indent = len(problem.line) - len(problem.line.lstrip())
    for line in () if "lambda" in problem.line else reversed(problem.lines[: problem.row - 1]):
        depth = len(line) - len(line.lstrip())
        if not line.strip() or depth >= indent:
            continue
        indent = depth
        opens = _OPENS.match(line)
        if opens and opens[3] and name:
            uses = re.findall(rf"(?<!def )\b{name}\b(\(?)", "\n".join(problem.lines))
            return None if uses and all(uses) else _MEDIUM
        if opens and (opens[1] or opens[4]):
            if name:
                break
            name = opens[2] or ""
    return _MEDIUM


def _missing_comma(problem: _Problem, file: ChangedFile) -> Severity | None:
    # sentences and regular expressions are split on purpose; words are not
    _ = file
    pieces = problem.text.split("\n")
    return _MEDIUM if len(pieces) > 1 and all(_WORD.match(each.strip()) for each in pieces) else None


def _wrong_raise(problem: _Problem, file: ChangedFile) -> Severity | None:
    # a function that a handler calls raises the error that is being handled
    _ = file
    indent = len(problem.line) - len(problem.line.lstrip())
    for line in reversed(problem.lines[: problem.row - 1]):
        if re.match(r"\s*(?:async\s+)?def\s", line) and len(line) - len(line.lstrip()) < indent:
            return None if re.search(r"err|exc|handle|hook|fail|raise|recover", line.lower()) else _MEDIUM
    return _MEDIUM


def _self_assignment(problem: _Problem, file: ChangedFile) -> Severity | None:
    # `str = str` makes a name of another scope one of this module or class
    _ = file
    is_plain = re.fullmatch(r"\s*(\w+)\s*=\s*\1\s*(?:#.*)?", problem.line) is not None
    return None if is_plain and (problem.column == 1 or hasattr(builtins, problem.name)) else _MEDIUM


def _self_comparison(problem: _Problem, file: ChangedFile) -> Severity | None:
    # `value != value` is how NaN is recognized
    _ = file
    after = problem.line[problem.column - 1 + len(problem.text) :].lstrip()
    return None if after.startswith(("==", "!=")) else _MEDIUM


def _environment_default(problem: _Problem, file: ChangedFile) -> Severity | None:
    # a number is converted by most callers; `False` becomes a text that is true
    _ = file
    is_converted = problem.line[: problem.column - 1].rstrip().endswith("(")
    return None if is_converted or not re.search(r",\s*(?:True|False)\b", problem.line) else _LOW


def _unclosed_file(problem: _Problem, file: ChangedFile) -> Severity | None:
    # a file that has a name is often closed later; one without a name never is
    _ = file
    before = problem.line[: problem.column - 1].rstrip()
    after = _after_arguments(problem.line[problem.column - 1 + len(problem.text) :])
    is_argument = re.search(r"\b(?:json|yaml|pickle|toml|tomllib|csv)\.\w+\($", before[-40:]) is not None
    return _LOW if is_argument or after.startswith((".read", ".write")) else None


def _permission(problem: _Problem, file: ChangedFile) -> Severity | None:
    _ = file
    found = re.search(r"0o([0-7]{1,6})`", problem.message)
    return _MEDIUM if found and int(found[1], 8) & 0o002 else None


def _shell(problem: _Problem, file: ChangedFile) -> Severity | None:
    _ = file
    if "seems safe" in problem.message:
        return None
    call = " ".join(problem.lines[problem.row - 1 : problem.last_row])
    return _HIGH if re.search(r"""\bf["']|\.format\(|["']\s*[%+]|[+]\s*["']""", call) else _MEDIUM


def _pickle(problem: _Problem, file: ChangedFile) -> Severity | None:
    """Data whose signature is verified in the same file is the program's own."""
    _ = file
    is_signed = any("hmac" in line or "compare_digest" in line for line in problem.lines)
    return None if is_signed or "dumps(" in problem.line else _MEDIUM


def _weak_hash(problem: _Problem, file: ChangedFile) -> Severity | None:
    _ = file
    near = " ".join(problem.lines[max(0, problem.row - 4) : problem.row + 3]).lower()
    return _MEDIUM if re.search(r"passw|secret|token|signature|\bsalt|credential|api_?key", near) else None


def _blocking_open(problem: _Problem, file: ChangedFile) -> Severity | None:
    _ = problem, file
    return _LOW


def _after_arguments(text: str) -> str:
    """The rest of a line after the brackets that it starts with."""
    depth = 0
    for position, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return text[position + 1 :]
    return ""


# SQL

_TEXT: Final = re.compile(
    r"""([A-Za-z]{0,2})(\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""",
    re.DOTALL,
)
_MAX_QUERY: Final = 5_000
_NEAR: Final = 200
_STATEMENT: Final = re.compile(
    r"^\W*(?:SELECT\b.*?\bFROM|INSERT\s+(?:OR\s+\w+\s+|IGNORE\s+)?INTO|REPLACE\s+INTO|UPDATE\b.*?\bSET|DELETE\s+FROM|MERGE\s+INTO"
    r"|WITH\b.*?\bAS|(?:CREATE|DROP|ALTER|TRUNCATE)\s+(?:\w+\s+){0,3}?(?:TABLE|INDEX|VIEW|DATABASE|SCHEMA|USER|ROLE))\b",
    re.DOTALL | re.IGNORECASE,
)
_BRACES: Final = re.compile(r"\{([^{}]{1,200})\}")
_PLACEHOLDER: Final = re.compile(r"\{\w{0,60}\}|%s|%\(\w{1,60}\)s")
_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")
_CONSTANT: Final = re.compile(r"(?:\w+\.)*_?[A-Z][A-Z0-9_]*$|.*\b__\w+__$")
_HARMLESS: Final = re.compile(
    r"placeholder|\?|%s|bind|param|question|\bmarks?\b|qmark|quote|escape|identifier|literal|literal_column|sql\.|\bint\(|\bfloat\(|\blen\("
    r"|_meta\.|db_table|_sql\b|\bsql_|clause|\bprefix",
    re.IGNORECASE,
)
_SCHEMA_NAME: Final = re.compile(
    r"(?:^|[._])(?:table|tbl|schema|columns?|cols?|fields?|db|database|view|index)(?:_?names?)?s?$", re.IGNORECASE
)
_BEFORE_VALUE: Final = re.compile(r"(?:[=<>']|\b(?:LIKE|BETWEEN)|\bVALUES\s*\([^)]*|\bIN\s*\()\s*['%]*$", re.IGNORECASE)
_NO_QUERY: Final = re.compile(
    r"\b(?:log|logger|logging|_LOG|LOG)\.\w+\(|\braise\b|\bprint\(|\bhelp=|warn\(|\bmessage\b"
)


def _sql(problem: _Problem, file: ChangedFile) -> Severity | None:
    """Judge a query by what is put into it: names of tables, columns and constants are no fault."""
    _ = file
    text = problem.text[:_MAX_QUERY]
    before = problem.line[: problem.column - 1]
    query = " ".join(found[2].strip("\"'") for found in _TEXT.finditer(text)).strip()
    is_sentence = query[:1].isupper() and query[1:2].islower()
    if is_sentence or not _STATEMENT.search(query) or _NO_QUERY.search(before):
        return None
    severities = [_interpolation_severity(*each) for each in _interpolations(text)]
    return max(filter(None, severities), key=lambda each: each.rank, default=None)


def _interpolations(text: str) -> Iterator[tuple[str, str]]:
    """What is put into the query, each with the text of the query before it."""
    query, position = "", 0
    for found in _TEXT.finditer(text):
        yield from _values(text[position : found.start()], query)
        body = found[2].strip("\"'")
        if "f" in found[1].lower():
            plain = body.replace("{{", "  ").replace("}}", "  ")
            for place in _BRACES.finditer(plain):
                yield query + plain[: place.start()], place[1].partition("!")[0].partition(":")[0]
        query, position = query + body, found.end()
    yield from _values(text[position:], query)


def _values(between: str, query: str) -> Iterator[tuple[str, str]]:
    """The names in the code between two texts: `+ name +`, `% (name, name)`, `.format(name)`."""
    if ".format(" in between or between.lstrip(" )\n").startswith("%"):
        query = query[: place.start()] if (place := _PLACEHOLDER.search(query)) else query
    for part in re.split(r"[+%,]|\.(?:format|join)\(", between):
        value = part.strip(" ()\n\\").rpartition("=")[2]
        if _NAME.match(value):
            yield query, value


def _interpolation_severity(before: str, value: str) -> Severity | None:
    if _CONSTANT.match(value.strip()) or _HARMLESS.search(value):
        return None
    if _BEFORE_VALUE.search(before[-_NEAR:].rstrip()):
        return _HIGH
    return None if _SCHEMA_NAME.search(value.strip()) else _MEDIUM


_JUDGES: Final[Mapping[str, Callable[[_Problem, ChangedFile], Severity | None]]] = {
    "ASYNC230": _blocking_open,
    "B008": _only(r"\b(?:now|utcnow|today|time|monotonic|uuid[14]|random|randint|token_hex|token_urlsafe)\(", _MEDIUM),
    "RUF009": _only(
        r"\b(?:now|utcnow|today|time|monotonic|uuid[14]|random|randint|token_hex|token_urlsafe)\(", _MEDIUM
    ),
    "B015": _unused_comparison,
    "PLE0704": _wrong_raise,
    "PLR0124": _self_comparison,
    "PLW0127": _self_assignment,
    "PLW1508": _environment_default,
    "SIM115": _unclosed_file,
    "B018": _unused_expression,
    "B023": _loop_capture,
    "B030": _only(r"except\s*\(?\s*[\"'\d]|except\b.*\b(?:or|and)\b", _MEDIUM),
    "B034": _only(r"\bre\.[A-Z]+\b", _MEDIUM, besides=r",\s*\d+\s*,|(?:count|flags)="),
    "F811": _redefinition,
    "F821": _undefined_name,
    "ISC004": _missing_comma,
    "S103": _permission,
    "S503": _only(r"SSLv[23]\b|SSLv[23]_|TLSv1(?:_1)?\b", _MEDIUM, besides=r"SSLv23"),
    "S502": _only(r"SSLv[23]\b|SSLv[23]_|TLSv1(?:_1)?\b", _MEDIUM, besides=r"SSLv23"),
    "S301": _pickle,
    "S324": _weak_hash,
    "S602": _shell,
    "S605": _shell,
    "S608": _sql,
    "S610": _only(r"\b(?:select|where|tables|order_by)=", _MEDIUM),
    "S701": _said("`autoescape=False`", _MEDIUM),
}

CHECKS: Final[tuple[CriticCheck, ...]] = (CriticCheck(rules=RULES, run=check_with_ruff, runs_beside=True),)
