"""Weak failure handling that a change adds: hidden errors, missing timeouts, unsafe retries, unverified servers.

Python is judged by its syntax tree (`failure_patterns.py`, in the parser child), other languages by their lines.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from reprieve.review.critic.comparison import only_new
from reprieve.review.critic.findings import Severity
from reprieve.review.critic.rules import CriticCheck, CriticRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet
    from reprieve.review.critic.findings import Finding

_PYTHON: Final = (".py", ".pyi")
_BRACES: Final = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".java", ".cs", ".php", ".kt")
_SCRIPTS: Final = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx")
_DOCUMENTS: Final = (".md", ".rst", ".txt", ".adoc", ".html", ".po", ".svg", ".csv", ".ipynb")
_LONGEST_LINE: Final = 2_000

NO_TIMEOUT: Final = CriticRule(
    id="no-timeout",
    severity=Severity.MEDIUM,
    suffixes=(*_PYTHON, ".go"),
    finds="a network call without a timeout: requests, urllib, http.client, sockets, mail and FTP in Python, `http.Client` in Go; "
    "a timeout that the change removes",
    advice="Without a timeout this call never returns when the other side does not answer: set one.",
)
NOT_VERIFIED: Final = CriticRule(
    id="certificate-not-verified",
    severity=Severity.HIGH,
    finds="a connection that accepts any certificate",
    advice="The connection accepts any certificate, so another machine can read and change the traffic: "
    "verify it, with a CA file of your own if you need one.",
)
SWALLOWED: Final = CriticRule(
    id="swallowed-exception",
    severity=Severity.MEDIUM,
    suffixes=(*_PYTHON, *_BRACES, ".rb", ".go"),
    finds="an error that is caught and dropped: a broad `except` that does nothing, an empty `catch`, an ignored `err` of Go",
    advice="Every error vanishes here, mistakes in the code included, and the program goes on: "
    "catch the expected error only, or log it.",
)
CANCELLATION: Final = CriticRule(
    id="swallowed-cancellation",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="an async function that catches its own cancellation and does not raise it again",
    advice="The cancellation of the task ends here, so timeouts and the shutdown do not work: raise it again.",
)
NO_BACKOFF: Final = CriticRule(
    id="retry-without-backoff",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="a loop around `try`, or a retry library, that repeats a failed call at once",
    advice="The retry repeats at once and loads a service that already fails: wait between attempts.",
)
NO_LIMIT: Final = CriticRule(
    id="retry-without-limit",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="a loop around `try`, or a retry library, that repeats a failed call without end",
    advice="The retry never gives up, so a permanent failure hangs here unseen: limit the attempts.",
)
NOT_IDEMPOTENT: Final = CriticRule(
    id="retry-not-idempotent",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="a retry that repeats a POST or PATCH request without an idempotency key",
    advice="The first request may have worked although its answer was lost, so the retry can do it twice: "
    "send an idempotency key with the request.",
)
LOST_TASK: Final = CriticRule(
    id="lost-task",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="a task whose result is dropped",
    advice="Nothing holds the task, so it can disappear before it ends, and its error with it: keep a reference.",
)
STRIP_OF_WORDS: Final = CriticRule(
    id="strip-of-words",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="`strip` with a word in place of a set of characters",
    advice="`strip` removes any of these characters, not the word: use `removeprefix` or `removesuffix`.",
)
MISSING_COMMA: Final = CriticRule(
    id="missing-comma",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="two texts of a list without a comma between them",
    advice="Python joins the two texts into one: put a comma between them.",
)
NOT_AWAITED: Final = CriticRule(
    id="call-not-awaited",
    severity=Severity.HIGH,
    suffixes=_PYTHON,
    finds="a coroutine that is not awaited, and a call that loses its `await`",
    advice="The call makes a coroutine and drops it, so the function never runs: await it.",
)
MISSING_RAISE: Final = CriticRule(
    id="missing-raise",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="an exception that is created and not raised",
    advice="The exception is created and dropped, so the program goes on after the failure: raise it.",
)
IGNORED_RESULT: Final = CriticRule(
    id="ignored-gather-result",
    severity=Severity.MEDIUM,
    suffixes=_PYTHON,
    finds="`asyncio.gather(..., return_exceptions=True)` whose result is dropped",
    advice="`return_exceptions=True` returns the errors of the tasks, and this code drops them: "
    "look at the result, or use a TaskGroup.",
)
_PYTHON_RULES: Final[Mapping[str, CriticRule]] = {
    rule.id: rule
    for rule in (
        NO_TIMEOUT,
        NOT_VERIFIED,
        SWALLOWED,
        CANCELLATION,
        NO_BACKOFF,
        NO_LIMIT,
        NOT_IDEMPOTENT,
        IGNORED_RESULT,
        MISSING_RAISE,
        LOST_TASK,
        STRIP_OF_WORDS,
        NOT_AWAITED,
        MISSING_COMMA,
    )
}


# Python


_SCRIPT: Final = re.compile(r"(?:^|/)(?:scripts?|extras?|tools?|ci|docker|bin|hack|contrib)/")
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
        for rule, line, last, detail in new:
            lost = any(map(_PYTHON_HANDLES.search, file.removed.values())) and line not in file.added
            if rule == NO_TIMEOUT.id and _SCRIPT.search(file.path):
                continue
            if lost or not _is_explained(rule, lines[line - 1 : last]):
                ends = rule == CANCELLATION.id and detail == "ends"
                yield _PYTHON_RULES[rule].at(file.path, line, severity=Severity.LOW if ends else None)


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
                yield NOT_AWAITED.at(file.path, number)


# Other languages, by their lines

_ANY_FILE: Final = tuple(
    re.compile(text)
    for text in (
        r"\bInsecureSkipVerify\s*[:=]\s*true\b",
        r"\brejectUnauthorized['\"]?\s*[:=]\s*false\b",
        r"\bNODE_TLS_REJECT_UNAUTHORIZED\b['\"\]]{0,2}\s*[:=]\s*['\"]?0\b",
        r"\bwget\s[^|;&]*--no-check-certificate\b",
        r"\bcurl\s(?:[^|;&]*\s)?(?:--insecure|-[fsSLvIigN]*k[fsSLvIigNo]*)(?:\s|$)",
        r"\bOpenSSL::SSL::VERIFY_NONE\b",
        r"\bCURLOPT_SSL_VERIFY(?:PEER|HOST)\b['\"]?\s*(?:,|=>)\s*(?:false|0)\b",
        r"\bhttp\.sslVerify['\"]?\s*[= ]\s*['\"]?false\b",
        r"\bsslVerify\s*=\s*false\b",
        r"\bGIT_SSL_NO_VERIFY['\"]?\s*[:=]\s*['\"]?(?:1|true)\b",
        r"\bPYTHONHTTPSVERIFY['\"]?\s*[:=]\s*['\"]?0\b",
        r"\bstrict-ssl\s*[= ]\s*false\b",
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
_COMMENT_SIGNS: Final = ("//", "#", "*", "/*", "--", ";", "<!--")


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
        if len(line) <= _LONGEST_LINE and not line.lstrip().startswith(_COMMENT_SIGNS):
            yield number, line


_CATCH: Final = re.compile(r"(?:^|[\s}])catch\s*(?:\([^(){}]{0,200}\)\s*)?\{\s*(\}?)")
_RESCUE: Final = re.compile(
    r"^\s*rescue(?:\s+(?:StandardError|Exception))?(?:\s*=>\s*\w+)?\s*(?:;\s*(?:nil|end)\b.*)?$"
)
_GO_IGNORED: Final = re.compile(r"^\s*_\s*=\s*err\s*$")
_GO_DISCARDS: Final = re.compile(r"^\s*(?:\w+,\s*)?_\s*:?=\s*([\w.]+)\(")
_GO_EMPTY: Final = re.compile(r"^\s*if\s+(?:[^{};]{1,200};\s*)?err\s*!=\s*nil\s*\{\s*(\}?)\s*$")
_NO_CATCH: Final = re.compile(r"\.catch\(\s*(?:\(\s*\w{0,20}\s*\)|\w{1,20})\s*=>\s*(?:\{\s*\}|null|undefined)\s*\)")
_NOTHING: Final = re.compile(r"^\s*(?:nil|false|true)?\s*$")


def check_dropped_errors(change: ChangeSet) -> Iterator[Finding]:
    """Empty handlers in languages other than Python."""
    for file in change.files:
        if file.is_generated or file.is_test or file.suffix not in {*_BRACES, ".rb", ".go"}:
            continue
        lines = dict(file.added) if file.after is None else _numbered(file.after)
        old_lines = _numbered(file.before or "")
        new = only_new(
            _dropped_errors(file.suffix, lines),
            key=lambda each: each[1],
            is_touched=partial(_is_added, file),
            before=[text for _, text in _dropped_errors(file.suffix, old_lines)],
            kind=lambda _: SWALLOWED.id,
        )
        yield from (SWALLOWED.at(file.path, number) for number, _ in new)


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
            if discards and any(f"{discards[1]}(" in each and "err" in each for each in file.removed.values()):
                yield SWALLOWED.at(file.path, number)
            is_whole_body = opens.match(above[:_LONGEST_LINE]) and below.strip().startswith("}")
            if is_whole_body and ignores.match(line[:_LONGEST_LINE]) and _handled_before(file, number):
                yield SWALLOWED.at(file.path, number - 1)


def _handled_before(file: ChangedFile, number: int) -> bool:
    """Whether the line that an added line replaces used the error."""
    replaced: list[str] = []
    new = 0
    for line in file.diff.split("\n"):
        if found := _NEW_LINE.match(line):
            new, replaced = int(found[1]), []
        elif line.startswith("-"):
            replaced.append(line[1:_LONGEST_LINE])
        elif line.startswith("+"):
            if new == number:
                return any(map(_HANDLES.search, replaced))
            new += 1
        else:
            new, replaced = new + 1, []
    return False


_NEW_LINE: Final = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")


def _numbered(text: str) -> dict[int, str]:
    return dict(enumerate(text.split("\n"), start=1))


def _is_added(file: ChangedFile, place: tuple[int, str]) -> bool:
    return place[0] in file.added or place[0] + 1 in file.added


def _dropped_errors(suffix: str, lines: Mapping[int, str]) -> list[tuple[int, str]]:
    """The lines of empty handlers, each with its number."""
    short = (number for number, line in lines.items() if len(line) <= _LONGEST_LINE)
    return [(number, lines[number].strip()) for number in short if _drops_error(suffix, lines, number)]


def _drops_error(suffix: str, lines: Mapping[int, str], number: int) -> bool:
    """Whether the handler that starts at a line is empty."""
    line, following = lines[number], _following(lines, number)
    if line.lstrip().startswith(_COMMENT_SIGNS):
        return False
    if suffix == ".rb":
        ends = _NOTHING.match(following) and _following(lines, number + 1) == "end"
        return line.rstrip().endswith(" rescue nil") or bool(_RESCUE.match(line) and (following == "end" or ends))
    if suffix == ".go":
        tested = _GO_EMPTY.match(line)
        return bool(_GO_IGNORED.match(line) or (tested and (tested[1] or following == "}")))
    if suffix in _SCRIPTS and _NO_CATCH.search(line):
        return True
    caught = _CATCH.search(line)
    return caught is not None and bool(caught[1] or (not line[caught.end() :].strip() and following.startswith("}")))


def _following(lines: Mapping[int, str], number: int) -> str:
    """The line after a line, without spaces; `?` where it is not known."""
    return lines.get(number + 1, "?")[:_LONGEST_LINE].strip()


_GO_CALL: Final = re.compile(r"\bhttp\.(?:Get|Post|PostForm|Head)\(")
_GO_CLIENT: Final = re.compile(r"\bhttp\.Client\{\s*\}|\bhttp\.DefaultClient\.(?:Do|Get|Post|PostForm|Head)\(")


_GO_LIMITED: Final = re.compile(r"\bhttp\.Client\{[^{}]{0,200}\bTimeout:")
_GO_CLIENT_OPENS: Final = re.compile(r"\bhttp\.Client\{\s*$")
_CLIENT_LINES: Final = 20


def check_go_timeouts(change: ChangeSet) -> Iterator[Finding]:
    """HTTP calls of Go that wait without limit."""
    for file in change.files:
        text = file.after or ""
        is_left_out = file.is_test or file.is_generated or _SCRIPT.search(file.path)
        if file.suffix != ".go" or is_left_out or '"net/http"' not in text:
            continue
        has_limit = re.search(r"\.Timeout\s*=|WithContext\(|context\.WithTimeout", text) is not None
        removed = [line.strip() for line in file.removed.values()]
        loses_limit = _GO_LIMITED.search(" ".join(removed)) is not None
        for number, line in _code_lines(file):
            waits = _GO_CALL.search(line) or (_GO_CLIENT.search(line) and (loses_limit or not has_limit))
            if waits and line.strip() not in removed:
                yield NO_TIMEOUT.at(file.path, number)
        if loses_limit or not has_limit:
            yield from (NO_TIMEOUT.at(file.path, number) for number in _clients_without_timeout(file, text))


def _clients_without_timeout(file: ChangedFile, text: str) -> Iterator[int]:
    """The lines of `http.Client{` over several lines that the change adds, or takes the timeout from."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not _GO_CLIENT_OPENS.search(line[:_LONGEST_LINE]):
            continue
        body = lines[number : number + _CLIENT_LINES]
        end = next((place for place, each in enumerate(body) if each.strip().startswith("}")), 0)
        is_cut = number in file.added or any(cut in file.cuts for cut in range(number + 1, number + end + 2))
        if is_cut and not any("Timeout" in each for each in body[:end]):
            yield number


CHECKS: Final[tuple[CriticCheck, ...]] = (
    CriticCheck(rules=tuple(_PYTHON_RULES.values()), run=check_python),
    CriticCheck(rules=(NOT_AWAITED,), run=check_lost_awaits),
    CriticCheck(rules=(NOT_VERIFIED,), run=check_connections),
    CriticCheck(rules=(SWALLOWED,), run=check_dropped_errors),
    CriticCheck(rules=(SWALLOWED,), run=check_lost_handling),
    CriticCheck(rules=(NO_TIMEOUT,), run=check_go_timeouts),
)
