"""Checks of whole files: those that do not parse, are large, or do not belong in source control."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from reprieve.review.critic.findings import Severity
from reprieve.review.critic.ruff import find_ruff
from reprieve.review.critic.rules import CriticCheck, CriticRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet
    from reprieve.review.critic.findings import Finding

DOES_NOT_PARSE: Final = CriticRule(
    id="does-not-parse",
    depends_on_place=True,
    severity=Severity.HIGH,
    suffixes=(".py", ".pyi", ".json", ".jsonc", ".toml", ".yaml", ".yml"),
    finds="files that parsed before the change, or are new, and do not parse",
    advice="The file is not valid {language}: {message}. Every program that reads it fails.",
)
LARGE_FILE: Final = CriticRule(
    id="large-file",
    depends_on_place=True,
    severity=Severity.MEDIUM,
    finds="files larger than 1 MB (images 3 MB) that are new or grow by 500 kB; generated files, such as lock files, are left out",
    advice="The file has {size} MB, and every clone of the repository keeps it after it is deleted. "
    "Store it outside the repository or in Git LFS.",
)
BINARY_FILE: Final = CriticRule(
    id="binary-file",
    depends_on_place=True,
    severity=Severity.MEDIUM,
    finds="new compiled files, packages, archives, databases, key stores and leftovers of editors, by their suffix; in tests and folders of samples none",
    advice="Source control rarely wants {what}: {why}",
)

_LANGUAGES: Final = {".json": "JSON", ".jsonc": "JSON", ".toml": "TOML", ".yaml": "YAML", ".yml": "YAML"}
_TEMPLATE: Final = re.compile(r"(?<!\$)\{\{|\{%|<%")
_INPUT_FOLDERS: Final = frozenset({
    "template", "cookiecutter", "skeleton", "skeletons", "scaffold", "scaffolds", "charts", "stubs",
    "snippets", "testdata", "test_data", "fixtures", "invalid", "corpus", "fuzz", "snapshots",
})  # fmt: skip
_JSON_COMMENT: Final = re.compile(r"^[ \t]*(?://|/\*)", re.MULTILINE)
_SEVERAL_DOCUMENTS: Final = "Extra data"
_PYTHON_2: Final = (
    "Missing parentheses in call to",
    "multiple exception types must be parenthesized",
    "leading zeros in",
)
_NEWER_PYTHON: Final = re.compile(r"\s*(?:type\s+\w|class \w+\[|(?:async )?def \w+\[|except\*? [^(]*,)|.*\b[tf]r?[\"']")
"""Lines that may be syntax of a Python that is newer than the one that parsed them."""
_ASYNC_NAME: Final = re.compile(r"\.async\b|\basync ?=|\bimport async\b")
"""`async` was a name before Python 3.7."""
_RUFF_SECONDS: Final = 10.0
_RUFF_CODES: Final = (None, "invalid-syntax", "E999")
_LONGEST_MESSAGE: Final = 120


def find_unparsable_files(change: ChangeSet) -> Iterator[Finding]:
    """Files that no program can read since this change."""
    for file in change.files:
        parsed = change.parsed.get(file.path)
        error = None if parsed is None or parsed.after is None else parsed.after.get("error")
        was_broken = parsed is not None and parsed.before is not None and parsed.before.get("error") is not None
        if not error or was_broken or file.is_generated or file.after is None:
            continue
        line, message = int(error[0] or 1), str(error[1])
        if _is_expected(file, message) or (file.suffix in (".py", ".pyi") and not _is_confirmed(file, line)):
            continue
        language = _LANGUAGES.get(file.suffix, "Python")
        last = file.after.count("\n") + 1
        shown = message[:_LONGEST_MESSAGE].rstrip(". ")
        yield DOES_NOT_PARSE.at(file.path, min(max(line, 1), last), language=language, message=shown)


def _is_expected(file: ChangedFile, message: str) -> bool:
    """Whether a file need not parse by itself: a template, an input of a test, another dialect."""
    text = file.after or ""
    folders = PurePosixPath(file.path.lower()).parts[:-1]
    if not text.strip() or "templates" in folders or any("{{" in each for each in folders) or _is_template(file, text):
        return True
    if (file.suffix == ".json" and _JSON_COMMENT.search(text)) or message.startswith(_PYTHON_2):
        return True
    if file.before is not None:
        return False
    is_input = not _INPUT_FOLDERS.isdisjoint(folders) or (file.is_test and file.suffix not in (".py", ".pyi"))
    return is_input or message.startswith(_SEVERAL_DOCUMENTS)


def _is_template(file: ChangedFile, text: str) -> bool:
    """Whether the change makes a template of a file, or adds one."""
    if file.suffix in (".py", ".pyi"):
        return "{%" in text or "cookiecutter." in text
    return _TEMPLATE.search(text) is not None and _TEMPLATE.search(file.before or "") is None


def _is_confirmed(file: ChangedFile, line: int) -> bool:
    """Whether ruff, which knows every Python 3, does not parse the file either."""
    text = file.after or ""
    lines = text.split("\n")
    wrong = lines[line - 1][:1000] if line <= len(lines) else ""
    if _ASYNC_NAME.search(wrong):
        return False
    found = _ruff_says(text)
    return _NEWER_PYTHON.match(wrong) is None if found is None else found


def _ruff_says(text: str) -> bool | None:
    """Whether ruff reports invalid syntax; None where it is not installed or fails."""
    program = find_ruff()
    if program is None:
        return None
    command = [
        program, "check", "--isolated", "--no-cache", "--select", "F632", "--target-version", "py314",
        "--output-format", "json", "--exit-zero", "--stdin-filename", "file.py", "-",
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603 - the linter that is installed; the text is its input only
            command,
            input=text.encode("utf-8", "replace"),
            capture_output=True,
            cwd=tempfile.gettempdir(),
            env={},
            timeout=_RUFF_SECONDS,
            check=True,
        )
        said: list[dict[str, Any]] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return any(each.get("code") in _RUFF_CODES for each in said)


# --- large and binary files ---------------------------------------------------------------------------------

_MEGABYTE: Final = 1_000_000
_LARGE_IMAGE: Final = 3 * _MEGABYTE
_IMAGES: Final = frozenset({".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".avif", ".mp4", ".webm", ".ico", ".pdf"})
_MACHINE: Final = "build it where it is needed."
_ARCHIVE: Final = "reviewers cannot read its content. Add the files themselves, or download it by its checksum."
_DATA: Final = "it changes with every run, and may have data of people. Create it from a script."
_KEYS: Final = "a key store has private keys. Revoke them and keep it in a secret store."
_EDITOR: Final = "a tool left it behind. Delete it and add it to .gitignore."
_COMPILED: Final = (
    ".exe",
    ".dll",
    ".so",
    ".dylib",
    ".a",
    ".o",
    ".obj",
    ".lib",
    ".class",
    ".pyc",
    ".pyo",
    ".pyd",
)
_PACKAGES: Final = (
    ".jar",
    ".war",
    ".ear",
    ".whl",
    ".egg",
    ".deb",
    ".rpm",
    ".dmg",
    ".msi",
    ".apk",
    ".ipa",
    ".gem",
)
_ARCHIVES: Final = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")
_DATABASES: Final = (".db", ".sqlite", ".sqlite3", ".dump", ".bak", ".mdb")
_UNWANTED: Final = {
    **dict.fromkeys(_COMPILED, ("a compiled file", _MACHINE)),
    **dict.fromkeys(_PACKAGES, ("a built package", _MACHINE)),
    **dict.fromkeys(_ARCHIVES, ("an archive", _ARCHIVE)),
    **dict.fromkeys(_DATABASES, ("a database or a backup", _DATA)),
    **dict.fromkeys((".p12", ".pfx", ".keystore", ".jks", ".kdbx"), ("a key store", _KEYS)),
    **dict.fromkeys((".swp", ".swo", ".orig", ".rej"), ("a leftover file", _EDITOR)),
}
_UNWANTED_NAMES: Final = dict.fromkeys((".DS_Store", "Thumbs.db", "desktop.ini"), ("a leftover file", _EDITOR))
_ANY_CONTENT: Final = frozenset({".swp", ".swo", ".orig", ".rej", ".bak", ".pyc", ".pyo", ".p12", ".pfx", ".jks"})
"""Suffixes that say enough without a look at the content."""
_WANTED: Final = ("gradle-wrapper.jar", "maven-wrapper.jar", "debug.keystore")
_DATA_FOLDERS: Final = frozenset(
    {"testdata", "test_data", "fixtures", "fixture", "corpus", "vendor", "third_party", "samples", "examples"}
)


def find_large_files(change: ChangeSet) -> Iterator[Finding]:
    """Files that make every clone large."""
    for file in change.files:
        if file.is_deleted or file.is_generated or file.size <= _MEGABYTE:
            continue
        if file.size <= _LARGE_IMAGE and file.suffix in _IMAGES:
            continue
        grew = file.before is not None and file.size - len(file.before.encode()) > _MEGABYTE // 2
        if file.is_new or grew:
            yield LARGE_FILE.at(file.path, 0, size=f"{file.size / _MEGABYTE:.1f}")


def find_binary_files(change: ChangeSet) -> Iterator[Finding]:
    """New files that a machine made."""
    for file in change.files:
        found = _UNWANTED_NAMES.get(file.name) or _UNWANTED.get(file.suffix)
        folders = PurePosixPath(file.path.lower()).parts[:-1]
        if found is None or not file.is_new or file.is_deleted or file.is_generated or file.name in _WANTED:
            continue
        if file.is_test or not _DATA_FOLDERS.isdisjoint(folders):
            continue
        is_binary = file.is_binary or file.after is None
        if is_binary or file.suffix in _ANY_CONTENT or file.name in _UNWANTED_NAMES:
            what, why = found
            severity = Severity.HIGH if why == _KEYS else None
            yield BINARY_FILE.at(file.path, 0, severity=severity, what=what, why=why)


CHECKS: Final[tuple[CriticCheck, ...]] = (
    CriticCheck(rules=(DOES_NOT_PARSE,), run=find_unparsable_files),
    CriticCheck(rules=(LARGE_FILE,), run=find_large_files),
    CriticCheck(rules=(BINARY_FILE,), run=find_binary_files),
)
