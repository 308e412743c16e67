"""The summary of a review, made from what the diff is and what was found, in plain sentences."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet
    from reprieve.review.critic.findings import Finding

_SHOWN_AREAS: Final = 3
_LINES_TO_TEST: Final = 15
_TESTED: Final = frozenset(
    {"Python", "JavaScript", "TypeScript", "Go", "Rust", "Ruby", "Java", "Kotlin", "C#", "PHP", "Swift"}
)
_LANGUAGES: Final = {
    ".py": "Python", ".pyi": "Python", ".js": "JavaScript", ".jsx": "JavaScript", ".mjs": "JavaScript", ".cjs": "JavaScript",
    ".ts": "TypeScript", ".tsx": "TypeScript", ".go": "Go", ".rs": "Rust", ".rb": "Ruby", ".java": "Java", ".kt": "Kotlin",
    ".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++", ".hpp": "C++", ".cs": "C#", ".php": "PHP", ".swift": "Swift",
    ".sh": "shell", ".sql": "SQL", ".html": "HTML", ".css": "CSS", ".scss": "CSS", ".md": "Markdown", ".rst": "reStructuredText",
    ".json": "JSON", ".toml": "TOML", ".yaml": "YAML", ".yml": "YAML",
}  # fmt: skip


def describe_change(change: ChangeSet) -> str:
    """One or two sentences: how many files and lines, in which languages and areas."""
    if not change.files:
        return "The change touches no files."
    added = sum(len(each.added) for each in change.files)
    removed = sum(len(each.removed) for each in change.files)
    kinds = [
        f"{number} {text}"
        for number, text in (
            (sum(each.is_new for each in change.files), "new"),
            (sum(each.is_deleted for each in change.files), "deleted"),
            (sum(bool(each.old_path) and each.old_path != each.path for each in change.files), "renamed"),
        )
        if number
    ]
    which = f" ({', '.join(kinds)})" if kinds else ""
    languages = _most_common(_LANGUAGES.get(each.suffix, "") for each in change.files)
    areas = _most_common(_area(each) for each in change.files)
    where = f" in {_listed(areas)}" if areas else ""
    of = f" of {_listed(languages)}" if languages else ""
    untested = ""
    if any(_is_code(each) for each in change.files) and not any(each.is_test for each in change.files):
        untested = " No test is changed."
    return (
        f"The change touches {count(len(change.files), 'file')}{which}{of}{where}: "
        f"{count(added, 'line')} added, {removed} removed.{untested}"
    )


def _is_code(file: ChangedFile) -> bool:
    """Whether a file is a program, with enough added lines to expect a test."""
    return _LANGUAGES.get(file.suffix, "") in _TESTED and not file.is_generated and len(file.added) >= _LINES_TO_TEST


def describe_findings(findings: Sequence[Finding]) -> str:
    """One sentence that counts findings by severity and names the worst."""
    counted = [each for each in findings if not each.allowed]
    allowed = len(findings) - len(counted)
    more = f" {count(allowed, 'finding')} {'is' if allowed == 1 else 'are'} allowed by this change." if allowed else ""
    if not counted:
        return f"Nothing was found.{more}"
    spread = Counter(each.severity for each in counted)
    parts = [f"{spread[severity]} {severity}" for severity in sorted(spread, key=lambda each: -each.rank)]
    worst = counted[0]
    return f"{count(len(counted), 'finding')}: {', '.join(parts)}. The first is {worst.rule or 'a comment'} at {printable(worst.place)}.{more}"


def describe_scope(rules: int, files: int, not_checked: Sequence[str]) -> str:
    """What was checked and what was not: `12 rules on 3 files; 2 .go files: ...`."""
    return "; ".join([f"{count(rules, 'rule')} on {count(files, 'file')}", *not_checked])


def printable(text: str) -> str:
    """A text of a repository on one line, without control characters."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def count(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _area(file: ChangedFile) -> str:
    parents = PurePosixPath(file.path).parts[:-1]
    return printable("/".join(parents[:2]))


def _most_common(words: Iterable[str]) -> list[str]:
    found = Counter(word for word in words if word)
    return [word for word, _ in found.most_common()]


def _listed(words: Sequence[str]) -> str:
    shown = list(words[:_SHOWN_AREAS])
    if len(words) > _SHOWN_AREAS:
        return f"{', '.join(shown)} and {len(words) - _SHOWN_AREAS} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
