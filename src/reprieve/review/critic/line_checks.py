"""Checks of added lines in every text file: secrets, conflict markers, debugging, invisible characters."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from reprieve import RedactionReport, redact
from reprieve.review.critic.findings import Severity
from reprieve.review.critic.rules import CriticCheck, CriticRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet
    from reprieve.review.critic.findings import Finding

MAX_LINE: Final = 1_000
"""Longer lines are data or minified code; checks of lines do not read them."""
_MOST_IN_FILE: Final = 50
"""Findings of one rule in one file; further ones say nothing new."""

SECRET: Final = CriticRule(
    id="secret",
    depends_on_place=True,
    severity=Severity.HIGH,
    finds="keys and tokens in the format of a vendor, private keys, and random-looking values behind a name such as `password` or in a URL; made-up values, "
    "tokens that the documents of a vendor show, passwords in tests, documents and samples, and private keys in tests are left out",
    advice="This {kind} can be read by every reader of the repository, now and in its history. "
    "Revoke it, and read its successor from the environment or a secret store.",
)
CONFLICT_MARKER: Final = CriticRule(
    id="conflict-marker",
    depends_on_place=True,
    severity=Severity.HIGH,
    finds="`<<<<<<<` or `>>>>>>>` at the start of a line, in files that do not parse or are not parsed",
    advice="A merge conflict was committed. Choose one side and remove the markers.",
)
DEBUG_LEFTOVER: Final = CriticRule(
    id="debug-leftover",
    severity=Severity.MEDIUM,
    suffixes=(
        ".py", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".vue", ".svelte", ".rb", ".rs", ".php",
        ".java", ".kt", ".go",
    ),
    finds="breakpoints; outside of tests, scripts and programs for people also prints: `console.log` of values in files that had none, `dbg!`, `var_dump`, "
    '`print` of `f"{x=}"` or of texts such as `DEBUG` and `here`, `fmt.Println` and `%+v` of values in packages of Go',
    advice="`{statement}` looks like a leftover of debugging: {effect}. Remove it.",
)  # fmt: skip
BIDI_CONTROL: Final = CriticRule(
    id="bidi-control",
    severity=Severity.HIGH,
    finds="characters that change the direction of text, so that code reads differently from how it runs",
    advice="The line has the invisible character {character}, which changes the order in which text is "
    "shown: "
    "readers see other code than the compiler. Remove it, or write it as an escape.",
)
INVISIBLE_CHARACTER: Final = CriticRule(
    id="invisible-character",
    severity=Severity.MEDIUM,
    finds="zero-width characters between letters of code, YAML and TOML",
    advice="The invisible character {character} stands inside a word: two names that look equal are "
    "different. Remove it.",
)

_PROSE: Final = frozenset(
    {".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc", ".html", ".htm", ".ipynb", ".svg", ".tex", ".1"}
)
_SAMPLE_FOLDERS: Final = frozenset({
    "doc", "docs", "documentation", "example", "examples", "sample", "samples", "demo", "demos", "fixture",
    "fixtures", "mock", "mocks", "__mocks__", "cassettes", "snapshots", "__snapshots__", "stories",
    "testdata", "tests", "test",
})  # fmt: skip
_SAMPLE_NAME: Final = re.compile(
    r"(?:^|[._-])(?:example|sample|template|dist|tpl|stories|mock|mocks|test|tests)(?:[._-]|$)", re.IGNORECASE
)
_CODE: Final = frozenset({
    ".py", ".pyi", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".vue", ".svelte", ".go", ".rs", ".rb",
    ".java", ".kt", ".kts", ".scala", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".php", ".swift", ".m",
    ".dart", ".lua", ".pl", ".r", ".jl", ".ex", ".exs", ".erl", ".hs", ".clj", ".groovy", ".sql", ".sh",
    ".bash", ".zsh", ".ps1",
})  # fmt: skip


def readable_lines(file: ChangedFile) -> Iterator[tuple[int, str]]:
    """The added lines that are not too long for checks of lines, with their numbers."""
    return ((number, line) for number, line in file.added.items() if len(line) <= MAX_LINE)


# --- secrets ------------------------------------------------------------------------------------------------

_MARKER: Final = re.compile(r"\[redacted:([a-z0-9-]{1,40})\]")
_BLOCK: Final = 200
"""Lines that are scanned at once; only blocks with a secret are scanned line by line."""
_CHOSEN_RULES: Final = frozenset({
    "password", "passphrase", "credential", "token-pair", "url-credentials", "basic-credentials",
    "command-line", "wifi-password",
})  # fmt: skip
"""Rules of the scanner whose values people choose: they have words in them."""
_ISSUED_RULES: Final = frozenset({
    "secret", "bearer-token", "credential-header", "url-parameter", "aws-secret", "sas-signature", "jwt",
    "vendor-key", "okta-token", "octopus-key", "facebook-token", "mailgun-key", "mailchimp-key",
    "voyage-key", "resend-key", "twitter-token", "yandex-key", "line-token", "fernet-token", "onfido-token",
    "scalingo-token", "lob-key", "clickup-token", "cal-key", "network-key", "mollie-key", "notion-token",
    "discord-token", "ionic-token", "launchdarkly-key", "asana-token", "dropbox-token", "zendesk-token",
    "firebase-key", "prefect-token", "bitbucket-token", "fireworks-key", "adyen-key",
})  # fmt: skip
"""Rules of the scanner whose values programs make, in shapes that other text can have too."""
_OTHER_VENDOR_RULES: Final = frozenset({"google-secret", "svix-secret", "linkedin-secret", "adobe-secret", "hook-url"})
_PUBLIC_RULES: Final = frozenset({"posthog-key", "private-key", "putty-key"})
"""Keys that are made to be published, and those that have a check of their own."""
_AROUND: Final = " \t\"'`,;"
_PUBLIC_VALUE: Final = (
    "pk_",
    "pk.",
    "sb_publishable",
    "FLWPUBK",
    "public-",
    "pk-lf-",
    "age1",
    "phc_",
    "mob-",
)
_PLACEHOLDER: Final = re.compile(
    r"example|sample|dummy|fake|test|mock|placeholder|change_?-?me|replace|your|insert|redacted|xxx|foobar"
    r"|foo_|insecure|not_?a?_?real"
    r"|todo|fixme|default|password|passwd|secret|s3cr3t|p4ssw|passw0rd|hunter2|letmein|qwerty|deadbeef"
    r"|cafebabe|demo|lorem|localhost|my-|my_"
    r"|0123|1234|2345|abcd|4321|[<>{}]|^\$|\$[({A-Z_]|%[({A-Z]|^%|%$|\*\*|\.\.\.",
    re.IGNORECASE,
)
_VENDOR_PLACEHOLDER: Final = re.compile(
    r"example|sample|dummy|fake|placeholder|change_?me|replace|your|redacted|xxx|foobar|insecure|[<>{}$]"
    r"|\*\*|\.\.\.|16C7e42F292c6912E7710c838347Ae178B4a|1B4a2e77838347a7E420ce178F2E7c6912E1"
    r"|012345|12345|23456|abcde|54321|deadbeef",
    re.IGNORECASE,
)
_OTHER_NAME: Final = re.compile(
    r"hash|digest|checksum|sha\d|fingerprint|public|thumbprint|integrity|etag|commit|revision|cache"
    r"|selector|placeholder|label"
    r"|title|example|pattern|regex|message|format|_type|field|descri|translat|_name|_id\b|_url|url\b|prefix"
    r"|header",
    re.IGNORECASE,
)
_PATTERN_AFTER: Final = re.compile(r"\\?[\[({]\S{0,80}[\])}][{*+?]|\\[wdsSWD]")
"""The rest of a regular expression, which describes keys and is none."""
_PUBLISHED: Final = re.compile(r"devstoreaccount|minioadmin|guest:guest|localstack|azurite", re.IGNORECASE)
"""Services for tests whose credentials their makers have published."""
_SETTINGS: Final = frozenset({".yml", ".yaml", ".toml", ".ini", ".cfg", ".env"})
_REPEATED: Final = re.compile(r"(.)\1{3}")
_LOCAL_HOST: Final = re.compile(
    r"@(?:localhost|127\.|0\.0\.0\.0|\[?::1|host\.docker|[\w.-]{0,60}example\b|[a-z_]{1,20}[:/])"
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z]+(?:[_.:/-][A-Za-z]{2,}\d{0,4})*\Z")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\Z")
_RUN: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY: Final = re.compile(r"^[\s\"'+,|#]*(?:\\n)?[A-Za-z0-9+/=]{40,}")
_LEAST_BODY_LINES: Final = 3
_SHORTEST_CHOSEN: Final = 8
_SHORTEST_ISSUED: Final = 16
_ENOUGH_ENTROPY: Final = 3.0
_LENGTH_OF_WORDS: Final = 3.2


@dataclass(frozen=True, slots=True)
class _Secret:
    """A stretch of a line that the scanner took out."""

    rule: str
    value: str
    before: str
    """The line up to the value."""
    after: str


def find_secrets(change: ChangeSet) -> Iterator[Finding]:
    """Credentials in added lines."""
    removed = {line.strip() for file in change.files for line in file.removed.values()}
    for file in change.files:
        if file.is_generated or not file.added:
            continue
        yield from islice(_secrets_in(file, removed), _MOST_IN_FILE)


def _secrets_in(file: ChangedFile, removed: set[str]) -> Iterator[Finding]:
    yield from _private_keys(file, removed)
    is_sample = _is_sample(file)
    tests = _lines_of_tests(file)
    for number, line in _suspicious_lines(file):
        is_made_up = is_sample or number in tests
        secret = next((each for each in _taken_out(line) if _is_secret(file, each, is_sample=is_made_up)), None)
        if secret is not None and line.strip() not in removed and secret.value not in (file.before or ""):
            finding = SECRET.at(file.path, number, kind=_kind_of(secret.rule))
            quote = redact(line.strip()).replace(secret.value, f"[redacted:{secret.rule}]")
            yield finding.model_copy(update={"quote": quote})


def _private_keys(file: ChangedFile, removed: set[str]) -> Iterator[Finding]:
    if _is_of_tests(file):
        return
    lines = dict(file.added)
    tests = _lines_of_tests(file)
    for number, line in lines.items():
        found = _PRIVATE_KEY.search(line[:MAX_LINE])
        if found is None or line.strip() in removed or number in tests:
            continue
        inside = line[found.end() : found.end() + MAX_LINE]
        below = [lines.get(number + 1 + each, "") for each in range(_LEAST_BODY_LINES + 2)]
        in_line = inside.count("\\n") >= _LEAST_BODY_LINES and _KEY_BODY.match(inside)
        if in_line or sum(_KEY_BODY.match(each) is not None for each in below) >= _LEAST_BODY_LINES:
            severity = Severity.MEDIUM if _is_sample(file) else None
            finding = SECRET.at(file.path, number, severity=severity, kind="private key")
            yield finding.model_copy(update={"quote": found[0]})


def _suspicious_lines(file: ChangedFile) -> Iterator[tuple[int, str]]:
    """The lines of blocks in which the scanner found a secret."""
    lines = list(readable_lines(file))
    for start in range(0, len(lines), _BLOCK):
        part = lines[start : start + _BLOCK]
        report = RedactionReport()
        redact("\n".join(line for _, line in part), report=report)
        if any(_is_of_secrets(rule) for rule, _ in report.counts):
            yield from part


def _is_of_secrets(rule: str) -> bool:
    return rule in _CHOSEN_RULES or rule in _ISSUED_RULES or _is_of_vendor(rule)


def _is_of_vendor(rule: str) -> bool:
    """Whether a rule of the scanner finds a format that only one vendor's keys have."""
    if rule in _PUBLIC_RULES or rule in _ISSUED_RULES or rule in _CHOSEN_RULES:
        return False
    return rule.endswith(("-key", "-token")) or rule in _OTHER_VENDOR_RULES


def _taken_out(line: str) -> Iterator[_Secret]:
    """What the scanner takes out of a line, found by comparing the clean line with the line."""
    pieces = _MARKER.split(redact(line))
    place = len(pieces[0])
    for index in range(1, len(pieces), 2):
        following = pieces[index + 1]
        is_last = index + 2 >= len(pieces)
        end = len(line) - len(following) if is_last else line.find(following, place + 1) if following else place
        if end <= place:
            continue
        value = line[place:end]
        yield _Secret(_rule_of(value, pieces[index]), value, line[:place], line[end:])
        place = end + len(following)


def _rule_of(value: str, rule: str) -> str:
    """The rule of the vendor whose format a value has; otherwise the rule that took it out."""
    if _is_of_vendor(rule):
        return rule
    report = RedactionReport()
    redact(value.strip(_AROUND), report=report)
    return next((each for each, _ in report.counts if _is_of_vendor(each)), rule)


_STRUCT_TAG: Final = re.compile(r"`\w+:\"")
_LONG_PASSWORD: Final = 20
"""A random password of this length in a URL is a real one, in an example too."""
_VENDOR_VALUE: Final = re.compile(
    r"xox[abprs]-\d{8,15}-[\w-]{15,80}$|gh[pousr]_\w{36}$|github_pat_\w{50,90}$|glpat-[\w-]{20}$|[sr]k_live_\w{20,120}$"
    r"|A(?:KIA|SIA)[A-Z2-7]{16}$|AIza[\w-]{35}$|SG\.[\w-]{22}\.[\w-]{43}$|npm_\w{36}$|pypi-[\w-]{80,200}$|dop_v1_[0-9a-f]{64}$"
)
"""Forms that no other value has, under whatever name they stand."""


def _is_secret(file: ChangedFile, secret: _Secret, *, is_sample: bool) -> bool:
    value = secret.value.strip(_AROUND)
    if (file.suffix == ".go" and _STRUCT_TAG.search(secret.before)) or _PATTERN_AFTER.match(secret.after):
        return False
    if _VENDOR_VALUE.match(value) and not _REPEATED.search(value) and not _VENDOR_PLACEHOLDER.search(value):
        return not is_sample or _entropy(value) >= _ENOUGH_ENTROPY
    if secret.rule == "url-credentials" and len(value) >= _LONG_PASSWORD and _entropy(value) >= _ENOUGH_ENTROPY:
        return not file.is_test and _LOCAL_HOST.match(secret.after) is None and not _has_words(value)
    if secret.rule in _CHOSEN_RULES or secret.rule in _ISSUED_RULES:
        return not is_sample and _stands_as_value(file, secret) and _is_credential(secret, value)
    return (
        _is_of_vendor(secret.rule)
        and not value.startswith(_PUBLIC_VALUE)
        and _VENDOR_PLACEHOLDER.search(value) is None
        and _REPEATED.search(value) is None
        and (not is_sample or _entropy(value) >= _ENOUGH_ENTROPY)
        and not _has_words(value[4:])
    )


def _is_credential(secret: _Secret, value: str) -> bool:
    """Whether a value that stands under a telling name is a real one."""
    if _is_placeholder(value) or _PUBLISHED.search(secret.before):
        return False
    if secret.rule == "url-credentials":
        return len(value) >= _SHORTEST_CHOSEN and _LOCAL_HOST.match(secret.after) is None
    if _OTHER_NAME.search(secret.before[-60:]):
        return False
    if secret.rule in _CHOSEN_RULES:
        return len(value) >= _SHORTEST_CHOSEN
    return len(value) >= _SHORTEST_ISSUED and _entropy(value) >= _ENOUGH_ENTROPY and not _has_words(value)


def _is_placeholder(value: str) -> bool:
    """Whether a value is made up for a reader, a name, a path or an expression."""
    if _PLACEHOLDER.search(value) or _REPEATED.search(value) or _UUID.match(value) or _IDENTIFIER.match(value):
        return True
    if (
        not value.isascii()
        or any(sign.isspace() for sign in value)
        or value.startswith(("/", "./", "http", "@", "#", "--"))
    ):
        return True
    return not any(sign.isdigit() for sign in value) or not any(sign.isalpha() for sign in value)


def _stands_as_value(file: ChangedFile, secret: _Secret) -> bool:
    """Whether the value is written out: quoted in code, behind a name in configuration, inside a URL."""
    if secret.rule in ("url-credentials", "command-line"):
        return True
    line = secret.before.lstrip()
    if line.startswith(("#", "//", "*", "/*", "--", ";", "<!--")):
        return False
    return (
        file.suffix not in _CODE or secret.before.rstrip("bfru")[-1:] in ("'", '"', "`") or secret.value[:1] in "'\"`"
    )


_CI_FOLDERS: Final = frozenset({".ci", ".circleci", "ci"})
_CI_NAME: Final = re.compile(
    r"compose.*(?:ci|cypress|dev|e2e|local)|\b(?:ci|cypress|dev|e2e|local)\b.*compose", re.IGNORECASE
)


_TEST_FILE: Final = re.compile(r"(?:^|[._-])tests?(?:[._-]|$)", re.IGNORECASE)
_TEST_FOLDER: Final = re.compile(r"(?<![a-z])test|unittest|pytest")
_RUST_TESTS: Final = "#[cfg(test)]"


def _is_of_tests(file: ChangedFile) -> bool:
    """Whether only tests use a file, settings for tests included."""
    folders = PurePosixPath(file.path.lower()).parts[:-1]
    return file.is_test or any(map(_TEST_FOLDER.search, folders)) or _TEST_FILE.search(file.name) is not None


def _lines_of_tests(file: ChangedFile) -> frozenset[int]:
    """The lines of Rust that are compiled for tests alone."""
    if file.suffix != ".rs" or _RUST_TESTS not in (file.after or ""):
        return frozenset()
    inside: set[int] = set()
    is_test = False
    for number, line in enumerate((file.after or "").split("\n"), 1):
        is_test = is_test or line.startswith(_RUST_TESTS)
        if is_test:
            inside.add(number)
        is_test = is_test and not line.startswith("}")
    return frozenset(inside)


def _is_sample(file: ChangedFile) -> bool:
    """Whether the file shows or tests something, so that its credentials are made up."""
    folders = PurePosixPath(file.path.lower()).parts[:-1]
    return (
        _is_of_tests(file)
        or file.suffix in _PROSE | _TRANSLATED
        or _LOCALE.search(file.path.lower()) is not None
        or not _SAMPLE_FOLDERS.isdisjoint(folders)
        or _SAMPLE_NAME.search(file.name) is not None
        or any("test" in each or each in _CI_FOLDERS for each in folders)
        or _CI_NAME.search(file.name) is not None
    )


def _entropy(value: str) -> float:
    counts = Counter(value[:256])
    size = sum(counts.values())
    return -sum(each / size * math.log2(each / size) for each in counts.values())


def _has_words(value: str) -> bool:
    """Whether many characters of the same kind follow each other, as in names; random text has short runs."""
    runs = _RUN.findall(value[:256])
    return sum(map(len, runs)) >= _LENGTH_OF_WORDS * len(runs)


def _kind_of(rule: str) -> str:
    match rule:
        case "url-credentials" | "command-line" | "token-pair" | "basic-credentials" | "credential":
            return "password"
        case "hook-url":
            return "webhook URL"
        case "jwt" | "credential-header" | "url-parameter":
            return "token"
        case _:
            return rule.replace("-", " ")


# --- conflict markers ---------------------------------------------------------------------------------------

_OURS: Final = "<<<<<<< "
_THEIRS: Final = ">>>>>>> "
_MIDDLE: Final = ("=======", "|||||||")


def find_conflict_markers(change: ChangeSet) -> Iterator[Finding]:
    """One finding for each conflict, at its first marker."""
    for file in change.files:
        parsed = change.parsed.get(file.path)
        answer = None if parsed is None else parsed.after
        parses = answer is not None and answer.get("error") is None and not answer.get("gave_up")
        if file.is_generated or parses or (file.is_test and file.suffix not in _CODE):
            continue  # a file that parses has the markers inside a text
        shown = _fenced_lines(file)
        yield from (CONFLICT_MARKER.at(file.path, number) for number in _conflicts(file) if number not in shown)


def _conflicts(file: ChangedFile) -> Iterator[int]:
    is_open = False
    middle = 0
    for number, line in readable_lines(file):
        if line.startswith(_OURS):
            yield number
            is_open, middle = True, 0
        elif line == _MIDDLE[0] or line.startswith(f"{_MIDDLE[1]} "):
            middle = middle or number
        elif line.startswith(_THEIRS):
            if not is_open:
                yield middle or number
            is_open, middle = False, 0


def _fenced_lines(file: ChangedFile) -> frozenset[int]:
    """The lines of a document that stand in a block of code."""
    if file.suffix not in _PROSE or file.after is None:
        return frozenset()
    fenced: set[int] = set()
    is_fenced = False
    for number, line in enumerate(file.after.split("\n"), 1):
        if line.lstrip().startswith(("```", "~~~")):
            is_fenced = not is_fenced
        elif is_fenced:
            fenced.add(number)
    return frozenset(fenced)


# --- leftovers of debugging ---------------------------------------------------------------------------------

_STOPS: Final = "it stops the program until a person continues it"
_PRINTS: Final = "it prints values into the output of the program"
_JAVASCRIPT: Final = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".vue", ".svelte")
_CONSOLE: Final = re.compile(r"(console\.(?:log|dir|table))\((.{0,300})")
_DUMP: Final = re.compile(
    r"(console\.(?:log|dir|table))\([\"'`][\w$.]{1,40}(?: [\w$.]{1,40})?:?[\"'`]\s*,\s*[\w$.\[]{1,80}(.{0,300})"
)
"""A short label and a value: a print from debugging, also in a file that writes to the console."""
_ERROR_ALONE: Final = re.compile(r"\s*(?:e|ex|err|error|exception|reason)(?:\.\w+)?\s*\)")
"""An error that a handler shows."""
_LITERAL: Final = re.compile(r"[\"'`]([^\"'`]*)[\"'`]")
_WORDS_OF_MESSAGE: Final = 3
_PYTHON_DEBUGGER: Final = re.compile(
    r"(?:[^#'\"]{0,80};\s*)?((?:pdb|ipdb|pudb)\.set_trace\(\)|breakpoint\(\))\s*(?:#.*)?$"
)


@dataclass(frozen=True, slots=True)
class _Leftover:
    """A statement that people write while they look for a fault."""

    suffixes: tuple[str, ...]
    pattern: re.Pattern[str]
    """Matched at the beginning of a line; its first group is shown."""
    effect: str


_PRINTS_IN_LIBRARY: Final = "it prints values into the output of every program that uses the package"
_GO_PROGRAM: Final = re.compile(r"^package main\b", re.MULTILINE)
_LEFTOVERS: Final = (
    _Leftover((".py",), _PYTHON_DEBUGGER, _STOPS),
    _Leftover(_JAVASCRIPT, re.compile(r"(debugger)\s*;?\s*(?://.*)?$"), _STOPS),
    _Leftover(
        (".rb",), re.compile(r"(binding\.(?:pry|irb|break)|byebug|debugger)\s*(?:#.*)?$"), _STOPS
    ),
    _Leftover((".rs",), re.compile(r"(?:let\s[^=]{1,60}=\s*)?(dbg!)\("), _PRINTS),
    _Leftover((".php",), re.compile(r"(var_dump|dd)\("), _PRINTS),
    _Leftover((".java", ".kt"), re.compile(r"((?:System\.out\.)?println)\(\"(?:DEBUG|debug:|XXX|>>>|here)"), _PRINTS),
    _Leftover((".go",), re.compile(r"(spew\.Dump|fmt\.Print(?:ln|f)?(?=\(\"(?:DEBUG|debug:|XXX|>>>)))\("), _PRINTS),
    _Leftover((".go",), re.compile(r"(fmt\.Printf)\(\"[^\"]{0,120}%[+#]v"), _PRINTS_IN_LIBRARY),
    _Leftover((".go",), re.compile(r"(println)\("), _PRINTS_IN_LIBRARY),
    _Leftover((".go",), re.compile(r"(log\.Print(?:f|ln)?)\(\"(?:DEBUG|debug:|XXX|>>>|here)\b"), _PRINTS),
    _Leftover((".go",), re.compile(r"(fmt\.Println)\(\"[\w$. :=-]{1,40}\"\s*,\s*[\w.\[]"), _PRINTS_IN_LIBRARY),
    _Leftover(
        (".py",),
        re.compile(
            r"(print)\(\s*f?[\"'](?:here\b|got here|DEBUG\b|debug:|xxx|asdf|foo\b[\"']"
            r"|\{[\w.\[\]()]{1,60}=\}[\"'])",
            re.IGNORECASE,
        ),
        _PRINTS,
    ),
)  # fmt: skip
_PROGRAM_FOLDERS: Final = frozenset({
    "scripts", "script", "bin", "cli", "tools", "tool", "examples", "example", "docs", "doc", "bench",
    "benchmarks", "benchmark", "config", "configs", "build", "demo", "demos", "samples", "sandbox", "hack",
    "ci", ".github", "dev", "migrations", "cmd", "debug", "playground", "notebooks", "commands",
    "management", "website", "templates",
})  # fmt: skip
_PROGRAM_NAME: Final = re.compile(
    r"(?:^|[._-])(?:cli|main|__main__|script|config|conf|gulpfile|gruntfile|rollup|webpack|vite|karma|jest"
    r"|rc|build|setup|server|dev|debug\w*|"
    r"benchmark|logger|log|logging|example|demo|rdb|pdb)(?:[._-]|$)",
    re.IGNORECASE,
)


def find_debug_leftovers(change: ChangeSet) -> Iterator[Finding]:
    """Breakpoints and prints that are left from debugging."""
    for file in change.files:
        if file.is_generated or file.suffix not in DEBUG_LEFTOVER.suffixes:
            continue
        patterns = _patterns_for(file)
        known = {line.strip() for line in [*(file.before or "").split("\n"), *file.removed.values()]}
        found = {
            number: (match[1], effect)
            for number, line in readable_lines(file)
            for pattern, effect in reversed(patterns)
            if (match := pattern.match(line.strip()))
            and line.strip() not in known
            and not _speaks(pattern, match)
            and "no-console" not in line
        }
        texts = _text_lines(file) if found else frozenset()
        for number, (statement, effect) in found.items():
            if number not in texts:
                yield DEBUG_LEFTOVER.at(file.path, number, statement=statement, effect=effect)


def _patterns_for(file: ChangedFile) -> list[tuple[re.Pattern[str], str]]:
    """The patterns of leftovers that fit a file: what a program prints for its user is none."""
    prints = not file.is_test and not _is_program(file)
    patterns = [
        (each.pattern, each.effect)
        for each in _LEFTOVERS
        if file.suffix in each.suffixes
        and (prints or each.effect == _STOPS)
        and (each.effect != _PRINTS_IN_LIBRARY or _GO_PROGRAM.search(file.after or "package main") is None)
    ]
    if file.suffix in _JAVASCRIPT and prints and file.before is not None:
        patterns.append((_CONSOLE if "console.log" not in file.before else _DUMP, _PRINTS))
    return patterns


def _is_program(file: ChangedFile) -> bool:
    """Whether the output of a file is for a person who runs it."""
    folders = PurePosixPath(file.path.lower()).parts[:-1]
    text = file.after or ""
    return (
        not _PROGRAM_FOLDERS.isdisjoint(folders)
        or _PROGRAM_NAME.search(file.name) is not None
        or text.startswith("#!")
        or "__main__" in text
    )


def _speaks(pattern: re.Pattern[str], match: re.Match[str]) -> bool:
    """Whether a line for the console says a sentence: it is a message, and no leftover."""
    if pattern is not _CONSOLE:
        return False
    if _ERROR_ALONE.match(match[2]):
        return True
    words = max((len(text.split()) for text in _LITERAL.findall(match[2])), default=0)
    return words >= _WORDS_OF_MESSAGE or "process." in match[2]


def _text_lines(file: ChangedFile) -> frozenset[int]:
    """The lines of Python that stand inside a text of several lines."""
    if file.suffix != ".py" or file.after is None:
        return frozenset()
    inside: set[int] = set()
    mark = ""
    for number, line in enumerate(file.after.split("\n"), 1):
        if mark:
            inside.add(number)
            mark = "" if line.count(mark) % 2 else mark
        else:
            mark = next((each for each in ('"""', "'''") if line.count(each) % 2), "")
    return frozenset(inside)


# --- invisible characters -----------------------------------------------------------------------------------

_DIRECTION: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
_DIRECTION_MARK: Final = re.compile("[\u200e\u200f\u061c]")
_ZERO_WIDTH: Final = re.compile("[A-Za-z0-9_]([\u200b\u200c\u200d\u2060\ufeff\u00ad])[A-Za-z0-9_]")
_INVISIBLE: Final = re.compile("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\u061c\u2060\ufeff\u00ad]")
_RIGHT_TO_LEFT: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_TRANSLATED: Final = frozenset(
    {".po", ".pot", ".arb", ".xlf", ".xliff", ".resx", ".strings", ".csv", ".tsv", ".srt", ".vtt", ".snap"}
)
_LOCALE: Final = re.compile(
    r"(?:^|/)(?:[\w-]*locales?|i18n|l10n|lang|langs|languages?|translations?|messages"
    r"|values-[a-z]{2})(?:[/._-])"
)


def find_invisible_characters(change: ChangeSet) -> Iterator[Finding]:
    """Characters that a reader does not see, and that change what code means."""
    for file in change.files:
        if file.is_generated or file.suffix in _PROSE | _TRANSLATED or _LOCALE.search(file.path.lower()):
            continue
        before = {line.strip() for line in (file.before or "").split("\n") if not line.isascii()}
        lines = (
            (number, line) for number, line in file.added.items() if not line.isascii() and line.strip() not in before
        )
        found = (finding for number, line in lines for finding in _invisible_in(file, number, line[: 20 * MAX_LINE]))
        yield from islice(found, _MOST_IN_FILE)


def _invisible_in(file: ChangedFile, number: int, line: str) -> Iterable[Finding]:
    is_code = file.suffix in _CODE | _SETTINGS
    rule, found = BIDI_CONTROL, _DIRECTION.search(line) or (_DIRECTION_MARK.search(line) if is_code else None)
    if found is not None and not is_code and _RIGHT_TO_LEFT.search(line):
        return
    if found is None and is_code:
        rule, found = INVISIBLE_CHARACTER, _ZERO_WIDTH.search(line)
    if found is None:
        return
    character = f"U+{ord(found[0] if rule is BIDI_CONTROL else found[1]):04X}"
    quote = _INVISIBLE.sub(lambda sign: f"\\u{ord(sign[0]):04x}", line.strip())
    yield rule.at(file.path, number, character=character).model_copy(update={"quote": quote})


CHECKS: Final[tuple[CriticCheck, ...]] = (
    CriticCheck(rules=(SECRET,), run=find_secrets),
    CriticCheck(rules=(CONFLICT_MARKER,), run=find_conflict_markers),
    CriticCheck(rules=(DEBUG_LEFTOVER,), run=find_debug_leftovers),
    CriticCheck(rules=(BIDI_CONTROL, INVISIBLE_CHARACTER), run=find_invisible_characters),
)
