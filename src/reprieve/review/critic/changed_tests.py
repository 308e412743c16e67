"""Checks of what a change does to tests: deletes them, skips them, or leaves them out."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Literal, assert_never

from reprieve.review.critic.change_set import is_test
from reprieve.review.critic.findings import Severity
from reprieve.review.critic.line_checks import MAX_LINE, readable_lines
from reprieve.review.critic.rules import CriticCheck, CriticRule
from reprieve.review.critic.summary import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet
    from reprieve.review.critic.findings import Finding

_JAVASCRIPT: Final = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx")

TEST_DELETED: Final = CriticRule(
    id="test-deleted",
    depends_on_place=True,
    severity=Severity.MEDIUM,
    suffixes=(".py", *_JAVASCRIPT, ".go", ".java", ".kt"),
    finds="files that lose tests whose code stays, unless the commit message says so; not seen: a test that new tests of the same file or "
    "a new table of cases may replace, or whose name or body has a name that the change takes out of the code",
    advice="The change deletes {what}, but the code stays: {names}. Say why in the description, or keep them.",
)
TEST_SKIPPED: Final = CriticRule(
    id="test-skipped",
    depends_on_place=True,
    severity=Severity.MEDIUM,
    suffixes=(".py", *_JAVASCRIPT, ".go", ".java", ".kt", ".rb", ".rs"),
    finds="tests that ran before the change and are skipped now, by a mark, a call of `skip` at the top of the test, or one under a "
    "condition that does not ask for the system or an installed program",
    advice="`{marker}` skips a test that ran before this change. Repair it, or delete it with a reason.",
)
TEST_ALONE: Final = CriticRule(
    id="test-only",
    severity=Severity.HIGH,
    suffixes=_JAVASCRIPT,
    finds="`.only` and `fit`, which keep all other tests from running",
    advice="`{marker}` keeps the other tests from running, and the build stays green. Remove it.",
)
CODE_WITHOUT_TEST: Final = CriticRule(
    id="code-without-test",
    depends_on_place=True,
    severity=Severity.NONE,
    suffixes=(".py", *_JAVASCRIPT, ".go", ".java", ".kt", ".rb", ".cs"),
    finds="code with a test file of its own that changes without a change of any test; off unless `[critic.severity]` sets one",
    advice="The change adds {lines} of code to {files} and touches no test. Extend {tests}.",
)

# --- deleted tests ------------------------------------------------------------------------------------------

_NAMED_TESTS: Final = {
    ".py": re.compile(r"\s*(?:async\s+)?def\s+(test\w*)\s*\("),
    ".go": re.compile(r"func\s+(Test\w+)\s*\(\s*\w+\s+\*testing\.T\)"),
    **dict.fromkeys(
        _JAVASCRIPT,
        re.compile(r"\s*(?:it|test)(?:\.each\b[^\"'`]{0,100}\))?\s*\(\s*[\"'`]([^\"'`]{3,200})[\"'`]"),
    ),
}
_ANNOTATED: Final = re.compile(r"\s*@(?:\w+\.)*(?:Test|ParameterizedTest|RepeatedTest)\b")
_METHOD: Final = re.compile(
    r"\s*(?:(?:public|private|internal|final|suspend|static)\s+)*(?:void|fun)\s+(`[^`]{1,200}`|\w+)\s*\("
)
_TABLE_OF_CASES: Final = re.compile(
    r"parametri[sz]e\b|\.each\b|ParameterizedTest|\bsubTest\(|\btests := \[\]struct|\bt\.Run\("
)
_WORD: Final = re.compile(r"[A-Za-z_]\w{3,}")
_SIMILAR: Final = 0.6
_MAX_COMPARED: Final = 60
_SAID: Final = re.compile(
    r"\b(?:remov|delet|drop|flak|migrat|refactor|rewrit|port|mv|move|consolidat|simplif|dedup|revert|clean)\w*\b",
    re.IGNORECASE,
)
"""Words of a title that says why tests disappear."""
_SAID_REMOVED: Final = re.compile(
    r"\b(?:remov|delet|drop|flak|dedup|revert|clean|migrat|port|mv|move)\w*\b", re.IGNORECASE
)
_SAID_OF_TESTS: Final = re.compile(
    r"\b(?:remov|delet|drop|replac|collaps|consolidat|merg)(?:e|es|ed|ing)?\s+(?:(?!(?:to|in|for|of|with|from|by)\b)[`\w,]+\s+){0,4}?(?:`?test_\w+|(?:\w+ )?tests?\b)"
    r"|\btests?\b[^.\n]{0,40}\b(?:removed|deleted|dropped|replaced|obsolete|redundant|collapsed|no longer)\b"
    r"|\b(?:reduce|collapse)\b[^.\n]{0,30}\btests?\b",
    re.IGNORECASE,
)
"""Sentences of a message that say so."""
_ANY_TEST: Final = re.compile(
    r"\s*(?:await\s+)?(?:(?:it|test|specify|t\.test|t\.Run)\b(?:\.\w+)?\(|(?:async\s+)?def test|func Test|@Test\b|(?:it|test)\s+[\"'])"
)
_MESSAGE: Final = 10_000
_LONGEST_NAME: Final = 80
_SHOWN_NAMES: Final = 3
_BODY_LINES: Final = 60
_FEW_TESTS: Final = 5
_LINES_TO_TOP: Final = 10
_LINES_BELOW: Final = 6
"""How far a mark stands from the name of its test, with other marks between them."""


@dataclass(frozen=True)
class _Tests:
    """The tests of a text: their names, and the lines in which they begin."""

    lines: tuple[str, ...]
    suffix: str

    @cached_property
    def by_name(self) -> Mapping[str, int]:
        """The number of the line in which each test begins."""
        found: dict[str, int] = {}
        if self.suffix in (".java", ".kt"):
            expected = 0
            for number, line in enumerate(self.lines, 1):
                expected = number if _ANNOTATED.match(line) else expected
                is_near = expected and number - expected < _LINES_BELOW
                if is_near and (method := _METHOD.match(line)):
                    found.setdefault(method[1], number)
                    expected = 0
        elif pattern := _NAMED_TESTS.get(self.suffix):
            for number, line in enumerate(self.lines, 1):
                if match := pattern.match(line):
                    found.setdefault(match[1], number)
        return found

    def body(self, name: str) -> str:
        """The lines of a test, up to the next one."""
        start = self.by_name[name]
        following = bisect_right(self.starts, start)
        later = self.starts[following : following + 1]
        end = min([*later, start + _BODY_LINES, len(self.lines) + 1])
        return "\n".join(self.lines[start - 1 : end - 1])

    @cached_property
    def starts_of_any(self) -> int:
        """How many tests there are, those inside of other tests included."""
        return sum(_ANY_TEST.match(line) is not None for line in self.lines)

    @cached_property
    def starts(self) -> list[int]:
        """The first lines of all tests, in order."""
        return sorted(self.by_name.values())


def _tests_of(text: str | None, suffix: str) -> _Tests:
    return _Tests(tuple(line[:MAX_LINE] for line in (text or "").split("\n")), suffix)


def find_deleted_tests(change: ChangeSet) -> Iterator[Finding]:
    """One finding for all tests that a change takes away from code that stays."""
    files = [
        each
        for each in change.files
        if each.is_test and not each.is_generated and each.suffix in TEST_DELETED.suffixes and each.before is not None
    ]
    if not any(each.removed for each in files) or _takes_out_code(change) or _is_announced(change, files):
        return
    tests = [(each, _tests_of(each.before, each.suffix), _tests_of(each.after, each.suffix)) for each in files]
    moved = {
        name
        for file in change.files
        if file.is_test and file.is_new
        for name in _tests_of(file.after, file.suffix).by_name
    }
    new = moved | {name for _, before, after in tests for name in after.by_name if name not in before.by_name}
    lost = sum(name not in after.by_name for _, before, after in tests for name in before.by_name)
    if moved and len(new) >= lost > _FEW_TESTS:
        return  # the tests are put in order anew, in other files
    found: dict[str, list[str]] = {}
    for file, before, after in tests:
        if missed := _missed_tests(change, file, before, after, new):
            line = 0 if file.is_deleted else _line_after(file, before.by_name[missed[0]])
            found[f"{file.path}:{line}" if line else file.path] = missed
    if found:
        names = [name for missed in found.values() for name in missed]
        path, _, line_text = next(iter(found)).partition(":")
        finding = TEST_DELETED.at(path, int(line_text or 0), what=count(len(names), "test"), names=_listed(names))
        yield finding.model_copy(update={"also": tuple(found)[1:]})


def _missed_tests(change: ChangeSet, file: ChangedFile, before: _Tests, after: _Tests, new: set[str]) -> list[str]:
    """The tests that a file loses, without those that others replace or whose code goes too."""
    kept = after.by_name
    lost = [name for name in before.by_name if name not in kept]
    if not lost or _is_of_deleted_code(file, change):
        return []
    is_cut = not file.added and not new
    cases = sum(each.is_new and each.is_test and each.suffix not in TEST_DELETED.suffixes for each in change.files)
    if not is_cut and (
        len(lost) <= max(cases, sum(name not in before.by_name for name in kept))
        or after.starts_of_any >= before.starts_of_any
        or any(_TABLE_OF_CASES.search(line) for _, line in readable_lines(file))
    ):
        return []
    gone = _words_that_are_gone(change)
    stays = [
        name
        for name in lost[:_MAX_COMPARED]
        if name not in new
        and not gone.intersection(_WORD.findall(before.body(name)))
        and not _SKIP_WORD.search(before.body(name))
    ]
    if not is_cut:
        grown = [
            each
            for each in kept
            if each not in before.by_name or before.body(each).rstrip() != after.body(each).rstrip()
        ]
        stays = _without_similar([name for name in stays if not _is_merged(name, grown)], new)
    return [name for name in stays if not _is_inherited(change, file, before, name)]


def _is_announced(change: ChangeSet, tests: list[ChangedFile]) -> bool:
    """Whether the title or the message says that tests disappear; a move says so where tests are added too."""
    words = (
        _SAID
        if any(each.added for each in tests) or any(each.is_test and each.is_new for each in change.files)
        else _SAID_REMOVED
    )
    return words.search(change.title) is not None or _SAID_OF_TESTS.search(change.message[:_MESSAGE]) is not None


_CLASS_OF_TESTS: Final = re.compile(r"class\s+\w+\(([^()]*)\)\s*:")
_NO_TESTS_INSIDE: Final = re.compile(r"(?:\w+\.)*(?:object|\w*TestCase)\Z")


def _is_inherited(change: ChangeSet, file: ChangedFile, before: _Tests, name: str) -> bool:
    """Whether the class of a lost Python test has a base with a test of this name, which runs in its place."""
    if file.suffix != ".py":
        return False
    above = before.lines[: before.by_name[name] - 1]
    indent = _indent_of(before.lines[before.by_name[name] - 1])
    owner = next((line for line in reversed(above) if line.strip() and _indent_of(line) < indent), "")
    bases = _CLASS_OF_TESTS.match(owner.strip())
    if bases is None or all(_NO_TESTS_INSIDE.match(each.strip()) for each in bases[1].split(",")):
        return False
    defined = re.compile(rf"^\s*(?:async\s+)?def\s+{re.escape(name)}\(", re.MULTILINE)
    paths = change.tree.containing([name], ["*.py"])
    return any(
        defined.search((change.tree.read(path) or b"").decode("utf-8", "replace")) for path in paths[:_MAX_COMPARED]
    )


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def _takes_out_code(change: ChangeSet) -> bool:
    """Whether the change makes the code shorter: tests go with the behaviour that it removes."""
    sources = [each for each in change.files if not each.is_test and each.suffix in TEST_DELETED.suffixes]
    return sum(len(each.removed) for each in sources) > sum(len(each.added) for each in sources)


def _is_merged(name: str, grown: Iterable[str]) -> bool:
    """Whether a test that is new or changed has the beginning of the name, so that it can have taken the case over."""
    return any(name.startswith(each) or each.startswith(name) for each in grown)


def _words_that_are_gone(change: ChangeSet) -> frozenset[str]:
    """Names that the change takes out of the code: a test of one of them has nothing left to test."""
    sources = [each for each in change.files if not each.is_test and each.suffix in TEST_DELETED.suffixes]
    removed = {word for each in sources for line in each.removed.values() for word in _WORD.findall(line[:MAX_LINE])}
    if not removed:
        return frozenset()
    kept = {word for each in sources if not each.is_deleted for word in _WORD.findall(each.after or "")}
    return frozenset(removed - kept)


def _is_of_deleted_code(file: ChangedFile, change: ChangeSet) -> bool:
    """Whether the change deletes, or moves, the module that a test file is named after."""
    subject = _subject_of(file.old_path)
    return any(
        PurePosixPath(each.old_path).stem.lower() == subject
        for each in change.files
        if not each.is_test and (each.is_deleted or (each.old_path and each.old_path != each.path))
    )


def _subject_of(path: str) -> str:
    stem = PurePosixPath(path).name.partition(".")[0]
    return re.sub(r"^test_|_test$|(?<=[a-z0-9])Tests?$", "", stem).lower()


def _without_similar(names: list[str], new: Iterable[str]) -> list[str]:
    """The names that have no similar new name: a test with one was renamed."""
    others = sorted(new)[:_MAX_COMPARED]
    return [name for name in names[:_MAX_COMPARED] if not any(_is_similar(name, each) for each in others)]


def _is_similar(one: str, other: str) -> bool:
    matcher = SequenceMatcher(None, one[:_LONGEST_NAME], other[:_LONGEST_NAME])
    return matcher.quick_ratio() >= _SIMILAR and matcher.ratio() >= _SIMILAR


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"`{name[:_LONGEST_NAME]}`" for name in names[:_SHOWN_NAMES])
    return shown if len(names) <= _SHOWN_NAMES else f"{shown} and {len(names) - _SHOWN_NAMES} more"


def _line_after(file: ChangedFile, old_line: int) -> int:
    """The line of the new version where a removed line stood."""
    removed = sum(number < old_line for number in file.removed)
    added = 0
    place = old_line - removed
    for number in sorted(file.added):
        if number > place + added:
            break
        added += 1
    last = (file.after or "").count("\n") + 1
    return min(max(place + added, 1), last)


# --- skipped tests ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Skip:
    """A way to skip a test."""

    suffixes: tuple[str, ...]
    pattern: re.Pattern[str]
    """Matched at the beginning of a line; its first group is shown."""
    named: Literal["below", "here", "above", "before"] = "below"
    """Where the name of the test stands, seen from the line that skips it."""


_SKIPS: Final = (
    _Skip((".py",), re.compile(r"\s*@((?:pytest\.)?mark\.skip|unittest\.skip|skip)(?![\w.])")),
    _Skip((".py",), re.compile(r"\s*@((?:pytest\.)?mark\.skipif|unittest\.skipIf)\(\s*(?:True|1)\b")),
    _Skip(
        (".py",),
        re.compile(r"\s*@((?:pytest\.)?mark\.xfail)(?:\s*$|\(\s*(?:$|\)|(?:reason|strict|run|raises)\s*=))"),
    ),
    _Skip((".py",), re.compile(r"\s*@(unittest\.expectedFailure|expectedFailure)\b")),
    _Skip(
        (".py",),
        re.compile(r"\s+(pytest\.(?:skip|xfail)|self\.skipTest|raise (?:unittest\.)?SkipTest)\("),
        named="above",
    ),
    _Skip(
        _JAVASCRIPT,
        re.compile(r"\s*((?:it|test|describe|context|suite)\.(?:skip|fixme|todo)|xit|xdescribe|xtest)\(\s*[\"'`]"),
        named="here",
    ),
    _Skip(
        _JAVASCRIPT,
        re.compile(
            r"\s*(?:await\s)?\s*(?:it|test|describe)\(\s*[\"'`].{1,200}[\"'`]\s*,\s*\{[^{}]{0,100}\b(skip)\s*:(?!\s*false)"
        ),
        named="before",
    ),
    _Skip(
        _JAVASCRIPT, re.compile(r"\s+(this\.skip|t\.skip|test\.(?:skip|fixme))\(\s*(?:\)|true|[\"'`])"), named="above"
    ),
    _Skip((".java", ".kt"), re.compile(r"\s*(@(?:Disabled|Ignore))\b")),
    _Skip((".rb",), re.compile(r"\s*(xit|xdescribe|xcontext|xspecify)\s*\(?\s*[\"']"), named="here"),
    _Skip((".rb",), re.compile(r"\s+(skip|pending)(?:$|\s+[\"']|\([\"'])"), named="above"),
    _Skip((".go",), re.compile(r"\s+(t\.Skip(?:f|Now)?)\("), named="above"),
    _Skip((".rs",), re.compile(r"\s*(#\[ignore\b[^\]]{0,100}\])")),
)
_TEST_ABOVE: Final = re.compile(
    r"\s*(?:func\s+(Test\w+)\(|(?:async\s+)?def\s+(test\w*)\s*\(|(?:it|test|specify)\s*\(?\s*[\"'`]([^\"'`]{3,200})[\"'`])"
)
_ASKS_MACHINE: Final = re.compile(
    r"short|GOOS|GOARCH|env|platform|version|LookPath|which|uid|root|network|\bCI\b|windows|linux|darwin|import|avail|install"
    r"|docker|support|has|exist|find|browser|isMobile|except|rescue|catch|err\b|err |self\.|async|driver|backend|config\.(?:get|option)",
    re.IGNORECASE,
)
"""Conditions that depend on where a test runs: it still runs elsewhere."""
_SKIP_WORD: Final = re.compile(
    r"skip|xfail|expectedFailure|fixme|todo|\bxit\b|xdescribe|xtest|@Disabled|@Ignore|#\[ignore", re.IGNORECASE
)
_ONLY: Final = re.compile(r"\s*((?:it|test|describe|context|suite)\.only|fit|fdescribe)\(\s*[\"'`]")
_TITLE: Final = re.compile(r"\(?\s*[\"'`]([^\"'`]{1,200})")
_NAME_BELOW: Final = re.compile(r"(?:[\w\s]{0,60}?\s)?(?:def|class|fn|fun|void|func)\s+(`[^`]{1,200}`|\w+)")
_SKIPS_ALL: Final = re.compile(
    r"(pytestmark\s*=\s*\[?\s*(?:pytest\.)?mark\.(?:skip|xfail)(?![\w])|pytest\.skip\(.*allow_module_level)"
)
_CONDITION: Final = re.compile(r"\s*(?!(?:reason|strict|run|raises)\s*=)[^\s)\"'`].*,\s*$")
"""The first argument of a mark over several lines, where it is no reason."""
_MAX_SKIPS: Final = 50
"""Of one file; further ones are not looked at."""


def find_skipped_tests(change: ChangeSet) -> Iterator[Finding]:
    """Tests that ran before and do not run any more."""
    for file in change.files:
        if file.is_generated or file.suffix not in TEST_SKIPPED.suffixes or not _may_hold_tests(file):
            continue
        ran_all = not any(_SKIPS_ALL.match(line) for line in (file.before or "").split("\n"))
        for number, line in readable_lines(file):
            if ran_all and (found := _SKIPS_ALL.match(line)):
                yield TEST_SKIPPED.at(file.path, number, marker=found[1])
        for number, marker in _skips_in(file)[:_MAX_SKIPS]:
            yield TEST_SKIPPED.at(file.path, number, marker=marker)


def find_lone_tests(change: ChangeSet) -> Iterator[Finding]:
    """Marks that make a runner leave out all other tests."""
    for file in change.files:
        if file.is_generated or not file.is_test or file.suffix not in _JAVASCRIPT:
            continue
        removed = {line.strip() for line in file.removed.values()}
        for number, line in readable_lines(file):
            if (found := _ONLY.match(line)) and line.strip() not in removed:
                yield TEST_ALONE.at(file.path, number, marker=found[1])


def _may_hold_tests(file: ChangedFile) -> bool:
    return file.before is not None and file.after is not None and (file.is_test or file.suffix == ".rs")


def _skips_in(file: ChangedFile) -> list[tuple[int, str]]:
    """The lines that skip a test that the old version ran, with the marker that each one uses."""
    removed = {each.strip() for each in file.removed.values()}
    ways = [each for each in _SKIPS if file.suffix in each.suffixes]
    replaced = {
        number
        for edit in file.edits
        if any(_SKIP_WORD.search(each[:MAX_LINE]) for each in edit.removed)
        for number in range(edit.line, edit.line + len(edit.added))
    }
    found = [
        (number, line, way, match)
        for number, line in readable_lines(file)
        for way in ways
        if (match := way.pattern.match(line)) and line.strip() not in removed and number not in replaced
    ]
    if not found:
        return []
    old, new = ((text or "").split("\n") for text in (file.before, file.after))
    return [
        (number, match[1])
        for number, line, way, match in found[: 2 * _MAX_SKIPS]
        if not (line.rstrip().endswith("(") and _CONDITION.match("".join(new[number : number + 1])))
        and (name := _test_name(way, new, number, line, match))
        and _ran_before(old, name, way)
    ]


def _test_name(way: _Skip, lines: list[str], number: int, line: str, match: re.Match[str]) -> str:
    """The name of the test that a line skips; empty where it is not known."""
    match way.named:
        case "here":
            found = _TITLE.match(line[match.end(1) :])
            return found[1] if found else ""
        case "before":
            found = _TITLE.search(line[: match.start(1)], line.find("("))
            return found[1] if found else ""
        case "above":
            return _name_of_test_around(lines, number)
        case "below":
            below = lines[number : number + _LINES_BELOW]
            return next((found[1] for line in below if (found := _NAME_BELOW.match(line.strip()[:MAX_LINE]))), "")
        case _:
            assert_never(way.named)


def _name_of_test_around(lines: list[str], number: int) -> str:
    """The test that a line is in; empty where the line runs under a condition that depends on the machine."""
    indent = _indent_of(lines[number - 1])
    for line in reversed(lines[max(0, number - 1 - _LINES_TO_TOP) : number - 1]):
        text = line[:MAX_LINE]
        if not text.strip() or _indent_of(text) >= indent:
            continue
        indent = _indent_of(text)
        if found := _TEST_ABOVE.match(text):
            return next(each for each in found.groups() if each)
        if _ASKS_MACHINE.search(text) or not re.match(r"\s*(?:if\b|\}?\s*else\b|with\b|for\b|while\b)", text):
            return ""
    return ""


_NEAR_THE_NAME: Final = {"here": (0, 1), "before": (0, 1), "above": (0, _LINES_BELOW), "below": (-_LINES_BELOW, 0)}


def _ran_before(lines: list[str], name: str, way: _Skip) -> bool:
    """Whether the old version has the test, without such a mark near its name."""
    is_found = False
    for number, line in enumerate(lines):
        if name not in line or not _names(name, line[:MAX_LINE], way):
            continue
        first, last = _NEAR_THE_NAME[way.named]
        near = lines[max(0, number + first) : number + last]
        blank = max((place for place, each in enumerate(near, 1) if not each.strip()), default=0) if first else 0
        if any(_SKIP_WORD.search(each[:MAX_LINE]) for each in near[blank:]):
            return False
        is_found = True
    return is_found


def _names(name: str, line: str, way: _Skip) -> bool:
    """Whether a line is the one that gives a test its name."""
    if any(f"{mark}{name}" in line for mark in "\"'`"):
        return way.named != "below"
    found = _NAME_BELOW.match(line.strip())
    return found is not None and found[1] == name


# --- code without a test ------------------------------------------------------------------------------------

_LEAST_LINES: Final = 40
_SHOWN_FILES: Final = 2
_COMMENT: Final = ("#", "//", "/*", "*", '"""', "'''", "--")
_IMPORT: Final = re.compile(
    r"\s*(?:import\b|from\s+\S+\s+import\b|use\b|package\b|require\b|using\b|[)\]}({\[;,]+\s*$)"
)
_NO_CODE: Final = re.compile(
    r"(?:^|/)(?:migrations?|versions|docs?|examples?|scripts?|bin|tools?|ci|benchmarks?|bench|config"
    r"|settings|vendor|locales?|dist|build|\w*test\w*)/"
    r"|(?:^|/)(?:__init__|__main__|setup|conftest|manage|version|_version|settings|config|constants|noxfile"
    r"|gulpfile|gruntfile)\.\w+$"
    r"|\.config\.\w+$|\.d\.ts$|\.stories\.\w+$",
    re.IGNORECASE,
)
_COMMON_NAMES: Final = frozenset({
    "app", "base", "cli", "common", "core", "helpers", "index", "main", "models", "routes", "schemas",
    "server", "types", "util", "utils", "views", "api", "client", "errors", "exceptions", "handlers",
    "service", "services", "tasks", "page", "layout",
})  # fmt: skip
_SPACE: Final = re.compile(r"[\s'\",;()]")


def find_code_without_test(change: ChangeSet) -> Iterator[Finding]:
    """One finding for a change that adds code to files with tests and touches no test."""
    if any(is_test(path) for each in change.files for path in (each.path, each.old_path)):
        return
    candidates = [(file, lines) for file in change.files if (lines := _code_lines(file)) >= _LEAST_LINES]
    if not candidates:
        return
    by_name = _tests_by_name(change)
    found = [(file, lines, test) for file, lines in candidates if (test := _test_of(file.path, by_name))]
    if found:
        found.sort(key=lambda each: -each[1])
        files, tests = ([each[0].path for each in found], [each[2] for each in found])
        total = count(sum(lines for _, lines, _ in found), "line")
        yield CODE_WITHOUT_TEST.at(files[0], 0, lines=total, files=_few(files), tests=_few(tests))


def _code_lines(file: ChangedFile) -> int:
    """How many lines of code a change adds to an existing file, without those that it only rewrites."""
    if file.is_new or file.is_deleted or file.is_generated or file.suffix not in CODE_WITHOUT_TEST.suffixes:
        return 0
    if _NO_CODE.search(file.path) or file.old_path != file.path:
        return 0
    removed = {_SPACE.sub("", line[:MAX_LINE]) for line in file.removed.values()}
    added = [line for line in file.added.values() if line.strip() and not line.lstrip().startswith(_COMMENT)]
    code = [
        line for line in added if not _IMPORT.match(line[:MAX_LINE]) and _SPACE.sub("", line[:MAX_LINE]) not in removed
    ]
    rewritten = sum(bool(line.strip()) for line in file.removed.values())
    return len(code) if len(code) - rewritten >= _LEAST_LINES else 0


def _tests_by_name(change: ChangeSet) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(change.tree.paths):
        if is_test(path):
            found[PurePosixPath(path).name.lower()].append(path)
    return found


def _test_of(path: str, by_name: Mapping[str, list[str]]) -> str:
    """The test file that belongs to a source file by its name; empty without one."""
    pure = PurePosixPath(path.lower())
    stem, suffix = pure.stem, pure.suffix
    names = [
        f"test_{stem}{suffix}",
        f"{stem}_test{suffix}",
        f"{stem}_spec{suffix}",
        f"{stem}test{suffix}",
        f"{stem}tests{suffix}",
    ]
    if suffix in _JAVASCRIPT:
        names = [f"{stem}.{word}{each}" for word in ("test", "spec") for each in _JAVASCRIPT]
    parent = pure.parent.name
    for name in names:
        for test in by_name.get(name, ()):
            near = parent in PurePosixPath(test.lower()).parts
            if near or (stem not in _COMMON_NAMES and suffix != ".go" and len(by_name[name]) == 1):
                return test
    return ""


def _few(paths: list[str]) -> str:
    unique = list(dict.fromkeys(paths))
    shown = " and ".join(f"`{path}`" for path in unique[:_SHOWN_FILES])
    return shown if len(unique) <= _SHOWN_FILES else f"{shown} and {count(len(unique) - _SHOWN_FILES, 'other')}"


CHECKS: Final[tuple[CriticCheck, ...]] = (
    CriticCheck(rules=(TEST_DELETED,), run=find_deleted_tests),
    CriticCheck(rules=(TEST_SKIPPED,), run=find_skipped_tests),
    CriticCheck(rules=(TEST_ALONE,), run=find_lone_tests),
    CriticCheck(rules=(CODE_WITHOUT_TEST,), run=find_code_without_test, needs_tree=True),
)
