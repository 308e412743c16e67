"""Checks of file modes, links, and commands that set modes."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Final

from reprieve.review.critic.findings import Severity
from reprieve.review.critic.line_checks import readable_lines
from reprieve.review.critic.rules import CriticCheck, CriticRule
from reprieve.review.critic.source_text import is_comment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet
    from reprieve.review.critic.findings import Finding

FILE_PERMISSION: Final = CriticRule(
    id="file-permission",
    depends_on_place=True,
    severity=Severity.MEDIUM,
    finds="files that became executable and are no programs",
    advice="The file became executable, but it has no `#!` line. Take the permission away with `git "
    "update-index --chmod=-x`.",
)
LINK_OUTSIDE: Final = CriticRule(
    id="link-outside-repository",
    depends_on_place=True,
    severity=Severity.MEDIUM,
    finds="symbolic links that point out of the repository",
    advice="The link points to `{target}`, outside the repository: it is broken, or reads a file of the "
    "machine that checks it out. "
    "Link to a file of the repository.",
)
WORLD_WRITABLE: Final = CriticRule(
    id="world-writable",
    severity=Severity.MEDIUM,
    finds="`chmod`, `install -m`, `--chmod`, `umask` and `mode:` that let every user write, in scripts, Dockerfiles, Makefiles and YAML; calls of `chmod` in "
    "JavaScript, TypeScript, Go, Ruby and PHP",
    advice="`{command}` lets every user and process of the machine change the file. Give write access to "
    "its owner or group only.",
)

_EXECUTABLE: Final = "100755"
_LINK: Final = "120000"
_PROGRAMS: Final = frozenset(
    {
        ".sh",
        ".bash",
        ".zsh",
        ".fish",
        ".ksh",
        ".bat",
        ".cmd",
        ".ps1",
        ".exe",
        ".bin",
        ".run",
        ".command",
        ".pl",
    }
)
_PROGRAM_NAMES: Final = frozenset(
    {"gradlew", "mvnw", "configure", "autogen", "bootstrap", "entrypoint", "run", "install"}
)
_MODE: Final = re.compile(
    r"(?:\bchmod\s+(?:-{1,2}[\w-]+\s+){0,3}|--chmod[= ]|\b(?:install|mkdir)\s(?:[^|;&]{0,80}\s)?(?:-m\s?|--mode[= ]))[\"']?([\w,+=-]{1,40})[\"']?(?=\s|$)"
)
_MODE_KEY: Final = re.compile(r"\s*-?\s*mode:\s*[\"']?([0-7]{3,4}|[ugoa][\w,+=-]{1,40})[\"']?\s*$")
_UMASK: Final = re.compile(r"(?:^|[;&|]\s*|\s)(?:umask\s+|UMask=)0{1,4}(?=\s|$|;)")
_FILE_CALL: Final = re.compile(
    r"\b(?:chmod|fchmod|lchmod|chmodSync|Chmod)\([^()]{0,200}(?:\([^()]{0,100}\)[^()]{0,100})?\b0?o?([0-7]{3})\s*\)"
)
_OCTAL: Final = re.compile(r"[0-7]{3,4}")
_CLAUSE: Final = re.compile(r"([ugoa]*)[+=]([rwxXst]*)")
_YAML: Final = frozenset({".yml", ".yaml"})
_PROGRAMS_OF_CALLS: Final = frozenset({".js", ".mjs", ".cjs", ".ts", ".go", ".rb", ".php"})
_SHELL: Final = frozenset({".service", ".sh", ".bash", ".zsh", ".yml", ".yaml", ".mk", ".dockerfile"})
_SHELL_NAMES: Final = ("Dockerfile", "Containerfile", "Makefile", "Jenkinsfile", "Vagrantfile", "entrypoint")


def find_permissions(change: ChangeSet) -> Iterator[Finding]:
    """Modes of files, links and commands that give more access than is needed."""
    for file in change.files:
        if file.is_deleted or file.is_generated:
            continue
        if _is_wrongly_executable(file):
            yield FILE_PERMISSION.at(file.path, 0)
        target = next(iter(file.added.values()), "") if file.mode == _LINK else ""
        if target and _leads_out(file.path, target):
            yield LINK_OUTSIDE.at(file.path, 0, target=target[:100])
        removed = {line.strip() for line in file.removed.values()}
        for number, line in readable_lines(file) if not file.is_test else ():
            command = "" if is_comment(line, file.suffix) or line.strip() in removed else _world_writable(file, line)
            if command:
                yield WORLD_WRITABLE.at(file.path, number, command=command)


def _world_writable(file: ChangedFile, line: str) -> str:
    """The command in a line that lets every user write; empty without one."""
    if file.suffix in _PROGRAMS_OF_CALLS:
        found = _FILE_CALL.search(line)
        return found[0] if found and _opens(found[1]) else ""
    if not _runs_in_shell(file):
        return ""
    if umask := _UMASK.search(line):
        return umask[0].strip()
    for found in (*_MODE.finditer(line), *([key] if (key := _MODE_KEY.match(line)) and file.suffix in _YAML else [])):
        if _opens(found[1]):
            return " ".join(found[0].split())
    return ""


def _runs_in_shell(file: ChangedFile) -> bool:
    """Whether a shell runs lines of a file: a script, a Dockerfile, a workflow, or a program that names a shell."""
    if file.suffix in _SHELL or file.name.startswith(_SHELL_NAMES):
        return True
    first = (file.after or "").partition("\n")[0]
    return first.startswith("#!") and re.search(r"python|ruby|perl|node|php", first) is None


def _opens(mode: str) -> bool:
    """Whether a mode of `chmod` gives everyone the right to write."""
    if _OCTAL.fullmatch(mode):
        return bool(int(mode[-1]) & 2) and not (len(mode) > 3 and mode[0] in "1357")  # noqa: PLR2004 - of a sticky folder
    clauses = [_CLAUSE.fullmatch(each) for each in mode.split(",")]
    return any(each is not None and ("o" in each[1] or "a" in each[1]) and "w" in each[2] for each in clauses)


def _is_wrongly_executable(file: ChangedFile) -> bool:
    if file.mode != _EXECUTABLE or file.old_mode == _EXECUTABLE or file.suffix in _PROGRAMS or file.after is None:
        return False
    return (
        not file.after.startswith("#!")
        and file.name not in _PROGRAM_NAMES
        and bool(file.suffix)
        and "__main__" not in file.after
    )


def _leads_out(path: str, target: str) -> bool:
    return target.startswith("/") or posixpath.normpath(posixpath.join(posixpath.dirname(path), target)).startswith(
        "../"
    )


CHECKS: Final[tuple[CriticCheck, ...]] = (
    CriticCheck(rules=(FILE_PERMISSION, LINK_OUTSIDE, WORLD_WRITABLE), run=find_permissions),
)
