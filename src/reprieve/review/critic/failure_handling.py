"""Weak failure handling that a change adds: hidden errors, missing timeouts, unsafe retries, unverified servers.

Python is judged by its syntax tree (`failure_patterns.py`, in the parser child), other languages by their lines.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from reprieve.review.critic import ruff
from reprieve.review.critic.comparison import only_new, practised
from reprieve.review.critic.findings import Severity
from reprieve.review.critic.rules import CriticCheck, CriticRule
from reprieve.review.critic.source_text import blank_go, is_comment, line_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet, Edit
    from reprieve.review.critic.findings import Finding

_PYTHON: Final = (".py", ".pyi")
_BRACES: Final = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".java", ".cs", ".php", ".kt")
_SCRIPTS: Final = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx")
_DOCUMENTS: Final = (".md", ".rst", ".txt", ".adoc", ".html", ".po", ".svg", ".csv", ".ipynb")
_LONGEST_LINE: Final = 2_000

NO_TIMEOUT: Final = CriticRule(
    id="no-timeout",
    severity=Severity.MEDIUM,
    suffixes=(*_PYTHON, *_SCRIPTS, ".go"),
    finds="a call of requests, urllib, urllib3, http.client, smtplib, ftplib, imaplib, poplib or `socket.create_connection` without a timeout, httpx "
    "and aiohttp with `timeout=None`, `http.Get` and clients without `Timeout` in Go; a `timeout` argument that the change removes from a call in "
    "Python, JavaScript or TypeScript; scripts, profiles, examples, programs that ask their own machine, and timeouts of statements of a database left out",
    advice="Without a timeout this call never returns when the other side does not answer: set one.",
)
NOT_VERIFIED: Final = CriticRule(
    id="certificate-not-verified",
    severity=Severity.HIGH,
    finds="`verify=False` and its relatives in clients of Python, Go, Node, Java, .NET, Ruby, PHP and Rust, in settings of git, npm and Ansible, and in "
    "commands of curl, wget, pip and apt; tests and documents left out",
    advice="The connection accepts any certificate, so another machine can read and change the traffic: "
    "verify it, with a CA file of your own if you need one.",
)
SWALLOWED: Final = CriticRule(
    id="swallowed-exception",
    severity=Severity.MEDIUM,
    is_practice=True,
    suffixes=(*_PYTHON, *_BRACES, ".rb", ".go"),
    finds="in Python a broad `except` (or `suppress`) that only passes or returns a constant, in other languages an empty `catch` or `rescue` without a "
    "comment, `.catch(() => {})` of a promise that is awaited or returned and does not only clean up, in Go an empty `if err != nil`, `_ = err`, or a call whose error was handled before; not in a file that does it elsewhere",
    advice="Every error vanishes here, mistakes in the code included, and the program goes on: "
    "catch the expected error only, or log it.",
)
CANCELLATION: Final = CriticRule(
    id="swallowed-cancellation",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="an async function that catches or suppresses `CancelledError` (or `BaseException`) and does not raise it again; functions that cancel or shut "
    "down left out",
    advice="The cancellation of the task ends here, so timeouts and the shutdown do not work: raise it again.",
)
NO_BACKOFF: Final = CriticRule(
    id="retry-without-backoff",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="a loop of attempts around a `try` that catches broad or network errors and never waits; tenacity, retrying, retry and urllib3's `Retry` "
    "without a pause",
    advice="The retry repeats at once and loads a service that already fails: wait between attempts.",
)
NO_LIMIT: Final = CriticRule(
    id="retry-without-limit",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="`while True` or `while not done` around a `try` that waits after broad or network errors and has no other end; tenacity, backoff, retrying, "
    "retry and stamina without a limit",
    advice="The retry never gives up, so a permanent failure hangs here unseen: limit the attempts.",
)
NOT_IDEMPOTENT: Final = CriticRule(
    id="retry-not-idempotent",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="a POST or PATCH request of requests, httpx, aiohttp or urllib3 in such a loop, below such a decorator, or allowed by urllib3's `Retry`, without "
    "an idempotency key nearby",
    advice="The first request may have worked although its answer was lost, so the retry can do it twice: "
    "send an idempotency key with the request.",
)
IGNORED_RESULT: Final = CriticRule(
    id="ignored-gather-result",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="`asyncio.gather(..., return_exceptions=True)` whose result is dropped",
    advice="`return_exceptions=True` returns the errors of the tasks, and this code drops them: "
    "look at the result, or use a TaskGroup.",
)
NOT_IN_SLOTS: Final = CriticRule(
    id="attribute-not-in-slots",
    code="PLE0237",
    severity=Severity.HIGH,
    suffixes=_PYTHON,
    finds="an attribute of `self` that `__slots__` does not list, in a class whose bases stand in the same file",
    advice="The class has no room for this attribute, so the assignment raises AttributeError: add it to `__slots__`.",
)
RESERVED_FIELD: Final = CriticRule(
    id="reserved-log-field",
    code="G101",
    severity=Severity.HIGH,
    suffixes=_PYTHON,
    finds="a key in `extra=` that a log record uses itself, such as `name` or `message`",
    advice="Log records have this attribute already, so the call raises KeyError: choose another key.",
)
FORMATTED_TRANSLATION: Final = CriticRule(
    id="formatted-translation",
    code="INT001",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="an f-string, `%`, `+` or `format` inside of `_()`, `gettext()` or its relatives",
    advice="The text is formatted before it is looked up, so no translation is found: translate first and format the result.",
)
_SHARED_IDS: Final = (
    "lost-task", "strip-of-words", "missing-comma", "call-not-awaited", "missing-raise", "weak-hash", "weak-tls",
    "unsafe-yaml", "shell-injection", "cross-site-scripting",
)  # fmt: skip
_SHARED: Final = tuple({rule.id: rule for rule in reversed(ruff.RULES) if rule.id in _SHARED_IDS}.values())
"""Rules of which ruff finds one half, and the syntax tree the other."""
_PYTHON_RULES: Final[Mapping[str, CriticRule]] = {
    rule.id: rule
    for rule in (
        *_SHARED,
        NO_TIMEOUT,
        NOT_VERIFIED,
        SWALLOWED,
        CANCELLATION,
        NO_BACKOFF,
        NO_LIMIT,
        NOT_IDEMPOTENT,
        IGNORED_RESULT,
        NOT_IN_SLOTS,
        RESERVED_FIELD,
        FORMATTED_TRANSLATION,
    )
}


# Python


_SCRIPT: Final = re.compile(r"(?:^|/)(?:scripts?|extras?|tools?|ci|docker|bin|hack|contrib|profil\w*|bench\w*)/")
"""Folders with programs that a person or a job starts, and ends."""
_EXAMPLE: Final = re.compile(r"(?:^|/)(?:examples?|docs?|samples?|demos?|tutorials?)/")
"""Folders with code that shows one thing and leaves the rest out."""


def check_python(change: ChangeSet) -> Iterator[Finding]:
    """The problems of Python files that touch added lines and that the old version did not have."""
    for file in change.files:
        parsed = change.parsed.get(file.path)
        if (
            parsed is None
            or parsed.after is None
            or file.is_generated
            or file.is_test
            or _EXAMPLE.search(file.path)
            or not (file.added or file.cuts)
        ):
            continue
        lines = (file.after or "").split("\n")
        old_lines = (file.before or "").split("\n")
        old = (parsed.before or {}).get("problems", ())
        new = only_new(
            parsed.after.get("problems", ()),
            key=partial(_key, lines),
            is_touched=partial(_is_touched, file),
            before=[_key(old_lines, each) for each in old],
        )
        habits = practised(
            parsed.after.get("problems", ()), kind=lambda each: str(each[0]), is_touched=partial(_is_touched, file)
        )
        for rule, line, last, detail in new:
            if _PYTHON_RULES[rule].is_practice and rule in habits:
                continue
            lost = any(map(_PYTHON_HANDLES.search, file.removed.values())) and line not in file.added
            if rule == NO_TIMEOUT.id and (_SCRIPT.search(file.path) or _asks_itself(file)):
                continue
            if lost or not _is_explained(rule, lines[line - 1 : last]):
                ends = rule == CANCELLATION.id and detail == "ends"
                yield _PYTHON_RULES[rule].at(file.path, line, severity=Severity.LOW if ends else None)


def _asks_itself(file: ChangedFile) -> bool:
    """Whether a file is a program that a person starts against a server on the same machine."""
    text = file.after or ""
    return "__main__" in text and _LOCAL.search(text) is not None


def _is_touched(file: ChangedFile, problem: Sequence[Any]) -> bool:
    """Whether the change adds a line of a problem, or removes one from its inside."""
    first, last = problem[1], problem[2]
    return any(number in file.added for number in range(first, last + 1)) or any(
        number in file.cuts for number in range(first + 1, last + 1)
    )


def _key(lines: Sequence[str], problem: Sequence[Any]) -> tuple[str, str]:
    rule, line = problem[0], problem[1]
    return rule, lines[line - 1].strip() if 0 < line <= len(lines) else ""


_COMMENT: Final = re.compile(r"#+ *(.*)")
_ACCEPTED: Final = re.compile(
    r"#.*(?:noqa[^#]*(?:BLE001|S110|S112|E722)|pylint: *disable=[\w,-]*(?:broad|bare)-exc)", re.IGNORECASE
)
_MARK: Final = re.compile(r"^(?:noqa|pragma|type:|pylint|nosec|pyright|todo|fixme|xxx)", re.IGNORECASE)
_MIN_WORDS: Final = 8


_PYTHON_HANDLES: Final = re.compile(r"\b(?:log\w*|_?logger)\.(?:exception|error|warning|warn|critical)\(|^\s*raise\b")
"""What a handler did before the change took it out."""


def _is_explained(rule: str, lines: Sequence[str]) -> bool:
    """Whether a comment in a handler says why the error does not matter, or accepts it for a linter."""
    if rule != SWALLOWED.id:
        return False
    lines = [line[:_LONGEST_LINE] for line in lines]
    if any(map(_ACCEPTED.search, lines)):
        return True
    comments = [found[1] for line in lines if (found := _COMMENT.search(line))]
    return any(not _MARK.match(each) and len(each.split()) >= _MIN_WORDS for each in comments)


def check_lost_awaits(change: ChangeSet) -> Iterator[Finding]:
    """Calls that stand alone, and were awaited before the change."""
    for file in change.files:
        if file.suffix not in _PYTHON or file.is_generated:
            continue
        awaited = {
            line.strip().removeprefix("await ") for line in file.removed.values() if line.strip().startswith("await ")
        }
        added = {line.strip() for line in file.added.values()}
        for number, line in file.added.items():
            text = line.strip()
            if text in awaited and f"await {text}" not in added and text.endswith(("(", ")")):
                yield _PYTHON_RULES["call-not-awaited"].at(file.path, number)


# Other languages, by their lines

_ANY_FILE: Final = tuple(
    re.compile(text)
    for text in (
        r"\bInsecureSkipVerify\s*[:=]\s*true\b",
        r"\brejectUnauthorized['\"]?\s*[:=]\s*false\b",
        r"\bNODE_TLS_REJECT_UNAUTHORIZED\b['\"\]]{0,2}\s*[:=]\s*['\"]?0\b",
        r"\bwget\s[^|;&]*--no-check-certificate\b",
        r"\bcurl\s(?:[^|;&]*\s)?(?:--insecure|-[a-zA-Z]{0,12}k[a-zA-Z]{0,12})(?:\s|$)",
        r"\bOpenSSL::SSL::VERIFY_NONE\b",
        r"\bCURLOPT_SSL_VERIFY(?:PEER|HOST)\b['\"]?\s*(?:,|=>)\s*(?:false|0)\b",
        r"\bhttp\.sslVerify['\"]?\s*[= ]\s*['\"]?false\b",
        r"\bsslVerify\s*=\s*false\b",
        r"\bGIT_SSL_NO_VERIFY['\"]?\s*[:=]\s*['\"]?(?:1|true)\b",
        r"\bPYTHONHTTPSVERIFY['\"]?\s*[:=]\s*['\"]?0\b",
        r"\bstrict-ssl[\"']?\s*[= ]\s*[\"']?false\b",
        r"--trusted-host[ =]|\bPIP_TRUSTED_HOST\b|^\s*trusted-host\s*=",
        r"--allow-unauthenticated\b|--allow-insecure-repositories\b|\[[^\]]*\btrusted=yes\b|--no-gpg-check\b",
        r"\bstrictSSL['\"]?\s*[:=]\s*false\b",
        r"--insecure-skip-tls-verify(?:=true|\s|$)|\binsecure-skip-tls-verify:\s*true\b",
        r"\bvalidate_certs:\s*(?:no|false)\b",
        r"\bNoopHostnameVerifier\b|\bTrustAllStrategy\b|\bALLOW_ALL_HOSTNAME_VERIFIER\b",
        r"\b[sS]et(?:Default)?HostnameVerifier\s*\([^)]*\)\s*->\s*true",
        r"\bDangerousAcceptAnyServerCertificateValidator\b",
        r"\bServerCertificate(?:Custom)?ValidationCallback\b[^=]*\+?=[^=]*=>\s*true\b",
        r"\bdanger_accept_invalid_certs\(\s*true\s*\)",
        r"\bcheckServerTrusted\s*\([^)]*\)[^{]*\{\s*\}",
    )
)
_LOCAL: Final = re.compile(r"\blocalhost\b|\b127\.0\.0\.1\b|\[::1\]")


def check_connections(change: ChangeSet) -> Iterator[Finding]:
    """Connections that accept any certificate, in every file but Python and documents."""
    for file in change.files:
        if file.suffix in {*_PYTHON, *_DOCUMENTS} or file.is_generated or file.is_test:
            continue
        removed = {line.strip() for line in file.removed.values()}
        for number, line in _code_lines(file):
            if line.strip() in removed or _LOCAL.search(line):
                continue
            if any(each.search(line) for each in _ANY_FILE):
                yield NOT_VERIFIED.at(file.path, number)


def _code_lines(file: ChangedFile) -> Iterator[tuple[int, str]]:
    """The added lines that are no comments and of a usual length."""
    for number, line in file.added.items():
        if len(line) <= _LONGEST_LINE and not is_comment(line, file.suffix):
            yield number, line


_CATCH: Final = re.compile(r"(?:^|[\s}])catch\s*(?:\([^(){}]{0,200}\)\s*)?\{\s*(\}?)")
_RESCUE: Final = re.compile(
    r"^\s*rescue(?:\s+(?:StandardError|Exception))?(?:\s*=>\s*\w+)?\s*(?:;\s*(?:nil|end)\b.*)?$"
)
_GO_IGNORED: Final = re.compile(r"^\s*_\s*=\s*err\s*$")
_GO_DISCARDS: Final = re.compile(r"^\s*(?:(?:\w+,\s*)?_\s*:?=\s*|(?=[\w.]+\(.*\)\s*$))([\w.]+)\(")
_GO_EMPTY: Final = re.compile(r"^\s*if\s+(?:[^{};]{1,200};\s*)?err\s*!=\s*nil\s*\{\s*(\}?)\s*$")
_NO_CATCH: Final = re.compile(
    r"(?:\bawait\b|\breturn\b|=|=>)\s.*\.catch\(\s*(?:\(\s*\w{0,20}\s*\)|\w{1,20})\s*=>\s*(?:\{\s*\}|null|undefined)\s*\)"
)
_CLEANS_UP: Final = re.compile(
    r"(?:\bawait|\breturn|=|=>)\s+[\w.$?!\[\]]*\b(?:close|clean[uU]p\w{0,20}|unlink|rm|rmdir|destroy|abort|kill|dispose|cancel|teardown|terminate|disconnect)(?:All)?"
    r"\((?:[^()]|\([^()]*\)){0,200}\)\s*\.catch\("
)
"""Calls that free something that is not needed any more: nothing is left to do where they fail."""
_IGNORED_BEFORE: Final = re.compile(
    r"\.catch\(\s*(?:\(\s*\w{0,20}\s*\)|\w{1,20})\s*=>\s*(?:\{\s*(?://[^\n]*\s*){0,5}\}|null|undefined)|\bcatch\s*(?:\([^(){}]{0,200}\)\s*)?\{\s*(?://[^\n]*\s*){0,5}\}"
)
_NOTHING: Final = re.compile(r"^\s*(?:nil|false|true)?\s*$")


def check_dropped_errors(change: ChangeSet) -> Iterator[Finding]:
    """Empty handlers in languages other than Python."""
    for file in change.files:
        if file.is_generated or file.is_test or file.suffix not in {*_BRACES, ".rb", ".go"}:
            continue
        lines = dict(file.added) if file.after is None else _numbered(file.after)
        old_lines = _numbered(file.before or "")
        found = _dropped_errors(file.suffix, lines)
        if practised(found, kind=lambda _: SWALLOWED.id, is_touched=partial(_is_added, file)):
            continue
        new = only_new(
            found,
            key=lambda each: each[1],
            is_touched=partial(_is_added, file),
            before=[text for _, text in _dropped_errors(file.suffix, old_lines)],
            kind=lambda _: SWALLOWED.id,
        )
        yield from (SWALLOWED.at(file.path, number) for number, _ in new if not _was_dropped(file, number))


def _was_dropped(file: ChangedFile, number: int) -> bool:
    """Whether the lines that a script replaces there dropped the error too."""
    edit = next((each for each in file.edits if each.line <= number < each.line + len(each.added)), None)
    if edit is None or file.suffix not in _SCRIPTS:
        return False
    return _IGNORED_BEFORE.search("\n".join(line[:_LONGEST_LINE] for line in edit.removed)) is not None


_GO_TEST: Final = re.compile(r"^\s*(?:\}\s*else\s+)?if\s.{0,200}\berr\s*!=\s*nil\s*\{\s*$")
_GO_IGNORES: Final = re.compile(r"^\s*(?:continue|break|return|return nil)\s*$")
_CATCH_OPENS: Final = re.compile(r"^.{0,200}\bcatch\s*(?:\([^(){}]{0,200}\)\s*)?\{\s*$")
_COMMENT_ALONE: Final = re.compile(r"^\s*(?://.*|/\*.*\*/)\s*$")
_HANDLES: Final = re.compile(
    r"\b(?:return|panic|log\w*|Errorf?|Warn\w*|Fatal\w*|throw|reject|error|warn)\b.{0,300}\b(?:e|ex|err|error|exc|exception)\b"
)


def check_lost_handling(change: ChangeSet) -> Iterator[Finding]:
    """Handlers that returned or logged an error, and leave it out after the change."""
    for file in change.files:
        is_go = file.suffix == ".go"
        if not (is_go or file.suffix in _BRACES) or file.is_test or file.is_generated:
            continue
        opens, ignores = (_GO_TEST, _GO_IGNORES) if is_go else (_CATCH_OPENS, _COMMENT_ALONE)
        lines = _numbered(file.after or "")
        for number, line in file.added.items():
            above, below = lines.get(number - 1, ""), lines.get(number + 1, "")
            discards = _GO_DISCARDS.match(line[:_LONGEST_LINE]) if is_go else None
            if discards and any(
                re.search(rf"\berr\s*:?=\s*{re.escape(discards[1])}\(", each) for each in file.removed.values()
            ):
                yield SWALLOWED.at(file.path, number)
            is_whole_body = opens.match(above[:_LONGEST_LINE]) and below.strip().startswith("}")
            if is_whole_body and ignores.match(line[:_LONGEST_LINE]) and _handled_before(file, number):
                yield SWALLOWED.at(file.path, number - 1)


def _handled_before(file: ChangedFile, number: int) -> bool:
    """Whether the lines that an added line replaces used the error."""
    edit = next(each for each in file.edits if each.line <= number < each.line + len(each.added))
    kept = {_without_space(line) for line in edit.added}
    return any(_HANDLES.search(line[:_LONGEST_LINE]) for line in edit.removed if _without_space(line) not in kept)


def _numbered(text: str) -> dict[int, str]:
    return dict(enumerate(text.split("\n"), start=1))


def _is_added(file: ChangedFile, place: tuple[int, str]) -> bool:
    return place[0] in file.added or place[0] + 1 in file.added or place[0] + 1 in file.cuts


def _dropped_errors(suffix: str, lines: Mapping[int, str]) -> list[tuple[int, str]]:
    """The lines of empty handlers, each with its number."""
    short = (number for number, line in lines.items() if len(line) <= _LONGEST_LINE)
    return [(number, lines[number].strip()) for number in short if _drops_error(suffix, lines, number)]


def _drops_error(suffix: str, lines: Mapping[int, str], number: int) -> bool:
    """Whether the handler that starts at a line is empty."""
    line, following = lines[number], _following(lines, number)
    if is_comment(line, suffix):
        return False
    if suffix == ".rb":
        ends = _NOTHING.match(following) and _following(lines, number + 1) == "end"
        return line.rstrip().endswith(" rescue nil") or bool(_RESCUE.match(line) and (following == "end" or ends))
    if suffix == ".go":
        tested = _GO_EMPTY.match(line)
        return bool(_GO_IGNORED.match(line) or (tested and (tested[1] or following == "}")))
    if suffix in _SCRIPTS and _NO_CATCH.search(line) and not _CLEANS_UP.search(line):
        return True
    caught = _CATCH.search(line)
    return caught is not None and bool(caught[1] or (not line[caught.end() :].strip() and following.startswith("}")))


def _following(lines: Mapping[int, str], number: int) -> str:
    """The line after a line, without spaces; `?` where it is not known."""
    return lines.get(number + 1, "?")[:_LONGEST_LINE].strip()


_GO_CALL: Final = re.compile(r"\bhttp\.(?:Get|Post|PostForm|Head)\(")
_GO_DEFAULT: Final = re.compile(
    r"\bhttp\.DefaultClient\.(?:Do|Get|Post|PostForm|Head)\(|\bnew\(http\.Client\)|\bvar\s+\w+\s+http\.Client\s*$"
)
_GO_CLIENT: Final = re.compile(r"\bhttp\.Client\{([^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)*)\}")
"""The literal of a client, with up to two levels of braces inside."""
_GO_LIMIT: Final = re.compile(r"\.Timeout\s*=|WithContext\(|context\.WithTimeout|context\.WithDeadline")


def check_go_timeouts(change: ChangeSet) -> Iterator[Finding]:
    """HTTP calls and clients of Go that wait without limit."""
    for file in change.files:
        text = file.after or ""
        is_left_out = file.is_test or file.is_generated or _SCRIPT.search(file.path)
        if file.suffix != ".go" or is_left_out or '"net/http"' not in text:
            continue
        removed = {line.strip() for line in file.removed.values()}
        loses_limit = any("Timeout:" in line for line in removed) and "Timeout:" not in "\n".join(file.added.values())
        has_limit = _GO_LIMIT.search(text) is not None and not loses_limit
        for number, line in _code_lines(file):
            waits = _GO_CALL.search(line) or (_GO_DEFAULT.search(line) and not has_limit)
            if waits and line.strip() not in removed:
                yield NO_TIMEOUT.at(file.path, number)
        for client in _GO_CLIENT.finditer(blank_go(text)) if not has_limit else ():
            first, last = line_at(text, client.start()), line_at(text, client.end())
            is_new = first in file.added and text.split("\n")[first - 1].strip() not in removed
            if "Timeout" not in client[1] and (is_new or any(first < cut <= last for cut in file.cuts)):
                yield NO_TIMEOUT.at(file.path, first)


_OF_STATEMENT: Final = re.compile(r"(?:statement|query|lock|transaction|idle\w*)_?timeout", re.IGNORECASE)
_OPTION_ALONE: Final = re.compile(r"\s*timeout:\s*[\w.* ]+,?\s*(?://.*)?$")
_REQUESTS: Final = re.compile(
    r"\b(?:\w*[fF]etch|axios(?:\.\w+)?|got(?:\.\w+)?|ky(?:\.\w+)?|request)(?:<[^<>()]*>)?\((?:.*[,({])?\s*$"
)
_LINES_OF_CALL: Final = 12
_TIMEOUT_ARGUMENT: Final = re.compile(
    r"(?:,\s*)?\b\w*timeout(?:_?(?:ms|seconds|s))?\s*[=:]\s*[\w.]+(?:\([^()]*\))?(?:\s*,)?", re.IGNORECASE
)


def check_lost_timeouts(change: ChangeSet) -> Iterator[Finding]:
    """Calls that stay, and lose the argument that limits how long they wait."""
    for file in change.files:
        if file.suffix not in {*_PYTHON, *_SCRIPTS} or file.is_test or file.is_generated or file.after is None:
            continue
        added = [_without_space(line) for line in file.added.values()]
        if file.suffix in _SCRIPTS and any("timeout" in each.lower() for each in added):
            continue  # it has moved
        for edit in file.edits:
            for line in edit.removed:
                if _OF_STATEMENT.search(line[:_LONGEST_LINE]):
                    continue
                if file.suffix in _SCRIPTS and _OPTION_ALONE.match(line[:_LONGEST_LINE]) and _is_in_request(file, edit):
                    yield NO_TIMEOUT.at(file.path, edit.line)
                    continue
                short = line[:_LONGEST_LINE]
                found = _TIMEOUT_ARGUMENT.search(short) if "(" in short or short.rstrip().endswith(",") else None
                if found is None or _without_space(short) in added:
                    continue
                number = _line_without(edit, short, found)
                if number and not any("timeout" in each.lower() for each in edit.added):
                    yield NO_TIMEOUT.at(file.path, number)


def _is_in_request(file: ChangedFile, edit: Edit) -> bool:
    """Whether the options of a request stand around an edit: its call is open above, and closed below."""
    lines = (file.after or "").split("\n")
    above = [line[:_LONGEST_LINE] for line in lines[max(0, edit.line - 1 - _LINES_OF_CALL) : edit.line - 1]]
    start = next((at for at in range(len(above) - 1, -1, -1) if _REQUESTS.search(above[at])), None)
    if start is None:
        return False
    inside = "".join(above[start:])
    return inside.count("(") > inside.count(")")


def _line_without(edit: Edit, line: str, found: re.Match[str]) -> int:
    """The line that is left of a call after its timeout is gone; 0 where more than the timeout changed."""
    rest = _without_space(line[: found.start()] + line[found.end() :])
    if not rest:
        return edit.line if len(edit.removed) == 1 and not edit.added else 0
    places = (number for number, each in enumerate(edit.added, edit.line) if _without_space(each) == rest)
    return next(places, 0)


def _without_space(line: str) -> str:
    return "".join(line.split()).replace(",)", ")").replace(",}", "}")


CHECKS: Final[tuple[CriticCheck, ...]] = (
    CriticCheck(rules=tuple(_PYTHON_RULES.values()), run=check_python),
    CriticCheck(rules=(_PYTHON_RULES["call-not-awaited"],), run=check_lost_awaits),
    CriticCheck(rules=(NOT_VERIFIED,), run=check_connections),
    CriticCheck(rules=(SWALLOWED,), run=check_dropped_errors),
    CriticCheck(rules=(SWALLOWED,), run=check_lost_handling),
    CriticCheck(rules=(NO_TIMEOUT,), run=check_go_timeouts),
    CriticCheck(rules=(NO_TIMEOUT,), run=check_lost_timeouts),
)
