"""Checks of continuous integration: its rights, its actions, its scripts, and steps that no longer fail."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from reprieve.review.critic.findings import Severity
from reprieve.review.critic.line_checks import MAX_LINE, readable_lines
from reprieve.review.critic.rules import CriticCheck, CriticRule
from reprieve.review.critic.source_text import is_comment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet
    from reprieve.review.critic.findings import Finding

CI_PERMISSION: Final = CriticRule(
    id="ci-permission",
    severity=Severity.MEDIUM,
    suffixes=(".yml", ".yaml"),
    finds="workflows of GitHub that get `write-all`, write access to contents, actions, packages or deployments (releasing workflows excepted), "
    "`secrets: inherit` or `pull_request_target`, and had none of it, or that lose all `permissions:` of what they still run; a right whose need a comment "
    "explains is left out",
    advice="`{entry}` {effect}. Grant only what the job needs.",
)
CI_UNPINNED_ACTION: Final = CriticRule(
    id="ci-unpinned-action",
    severity=Severity.LOW,
    suffixes=(".yml", ".yaml"),
    finds="third-party actions that are new to the repository: selected by a branch, or by a tag where the repository pins others to commits",
    advice="The owner of `{action}` can move `{ref}` to other code, which runs with the rights of this "
    "workflow. "
    "Pin the action to a commit.",
)
CI_SCRIPT_INJECTION: Final = CriticRule(
    id="ci-script-injection",
    severity=Severity.HIGH,
    suffixes=(".yml", ".yaml"),
    finds="titles, bodies, branch names and other text of pull requests and issues that `${{ }}` puts into a `run:` or `script:` of a workflow of GitHub",
    advice="`{expression}` is text of the author of a pull request or issue, and the shell runs it as code. "
    "Pass it through `env:` and use the variable in quotes.",
)
CI_STEP_IGNORED: Final = CriticRule(
    id="ci-step-ignored",
    depends_on_place=True,
    severity=Severity.MEDIUM,
    finds="steps with a known test, lint or audit tool that get `|| true`, `--exit-zero`, `continue-on-error` or `if: false` and had none of it, or that a change which adds no other "
    "command takes out of all files of continuous integration",
    advice="{what}: faults that it finds do not stop a merge any more. Repair the cause instead.",
)

_WORKFLOW: Final = re.compile(r"(?:^|/)\.github/(?:workflows/[^/]+|actions/(?:[^/]+/)*action)\.ya?ml$")
_CI_FILE: Final = re.compile(
    r"(?:^|/)(?:\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.ya?ml|\.circleci/config\.ya?ml"
    r"|\.?azure-pipelines\.ya?ml|Jenkinsfile"
    r"|\.travis\.ya?ml|bitbucket-pipelines\.ya?ml|\.drone\.ya?ml|appveyor\.ya?ml)$"
)
_MAX_CI_FILES: Final = 60
_CONTINUED_LINES: Final = 20
_SCOPE: Final = re.compile(r"(contents|actions|packages|deployments|administration):\s*write\b")
_RIGHTS: Final = (
    (
        re.compile(r"permissions:\s*write-all\b"),
        "permissions: write-all",
        "lets every step write to the repository, its packages and its releases",
        Severity.HIGH,
    ),
    (
        re.compile(r"secrets:\s*inherit\b"),
        "secrets: inherit",
        "hands all secrets to the called workflow",
        None,
    ),
    (
        re.compile(r"(?:(?:on:|-|\[).{0,80})?\bpull_request_target\b"),
        "pull_request_target",
        "runs with the secrets of the repository for pull requests of forks",
        None,
    ),
)
_PUBLISHES: Final = re.compile(
    r"release|publish|deploy|tag|draft|docs|pages|version|changelog|docker|image|package", re.IGNORECASE
)
"""Names of workflows that write to the repository or its packages because that is their purpose."""
_USES: Final = re.compile(r"\s*(?:-\s+)?uses:\s*[\"']?([\w.-]+/[\w./-]+)@([\w./-]+)")
_OWN_ACTIONS: Final = ("actions/", "github/")
_PINNED: Final = re.compile(r"[0-9a-f]{40}\Z|sha256:")
_EXPRESSION: Final = re.compile(r"\$\{\{([^{}]{1,300})\}\}")
_ANY_USE: Final = re.compile(r"\buses:\s{0,4}[\"']?([\w./-]{1,200})@")
_PINNED_USE: Final = re.compile(r"\buses:\s{0,4}[\"']?(?!actions/|github/)[\w.-]{1,80}/[\w./-]{1,120}@[0-9a-f]{40}\b")
_HOSTILE_TEXT: Final = re.compile(
    r"\bgithub\.(?:head_ref\b|event\.[\w.*\[\]-]{1,80}\.(?:title|body|message|email|name|head_ref|page_name"
    r"|head\.ref|head\.label)\b)"
)
_TRUSTED_TEXT: Final = re.compile(
    r"github\.event\.(?:repository|organization|sender|release|workflow|inputs|action|label|deployment"
    r"|installation)\b"
)
_OUTSIDERS: Final = re.compile(
    r"\b(?:pull_request\w*|issues|issue_comment|discussion\w*|workflow_run|workflow_call|fork)\b"
)
_SCRIPT: Final = re.compile(r"(\s*)(?:-\s+)?(?:run|script):\s*(.*)")
_TOOL: Final = re.compile(
    r"\b(playwright test|cypress run|pytest|tox|nox|mypy|pyright|ruff (?:check|format --check)|flake8|pylint|unittest|eslint|stylelint|oxlint|biome|vitest"
    r"|jest|mocha|ava|(?:npm|yarn|pnpm|bun|deno) (?:run )?(?:test|lint|check|typecheck|type-check)(?::[\w:-]+)?|vue-tsc|tsc|prettier --check|black --check"
    r"|isort --check|pre-commit run|prek run|go test|go vet|golangci-lint|staticcheck|govulncheck|gosec|cargo (?:test|clippy|fmt|audit|deny)"
    r"|mvn (?:test|verify)|gradlew? (?:test|check)|make (?:test|tests|check|lint)|just (?:test|check|lint)|rspec|rubocop|phpunit|phpstan|psalm|dotnet test"
    r"|ctest|bandit|semgrep|safety|pip-audit|npm audit|trivy|hadolint|shellcheck|actionlint|yamllint|zizmor|codespell|ansible-lint|markdownlint)\b"
)
_IGNORED: Final = re.compile(
    r"\s*(?:-\s+)?(continue-on-error:\s*true|allow_failure:\s*true|if:\s*(?:false|\$\{\{\s*false\s*\}\}))\s*(?:#.*)?$"
)
_OR_TRUE: Final = re.compile(r"(?:\|\||;) ?(?:true|:|exit 0|echo\b[^|;&]*) ?[\"']?$|\s--exit-zero\b|\bset \+e\s*;")
_COMMAND: Final = re.compile(r"^\s{0,60}(?:-\s)?\s{0,20}(?:run|script|uses|sh|bash)\b|&&")
_STEP: Final = re.compile(r"(\s*)-\s")


_LIMITS_RIGHTS: Final = re.compile(r"^\s*permissions:", re.MULTILINE)
_JOB: Final = re.compile(r"^  ([\w-]+):\s*(?:#.*)?$")
_REASON: Final = re.compile(r"(?:^|\s)#\s*(\S.*)$")
_REASON_WORDS: Final = 3


def find_workflow_rights(change: ChangeSet) -> Iterator[Finding]:
    """Rights that a workflow did not have before."""
    for file in change.files:
        if not _WORKFLOW.search(file.path) or file.is_deleted:
            continue
        before = file.before or ""
        if not _LIMITS_RIGHTS.search(file.after or "") and _limits_what_stays(before, file.after or ""):
            cut = min(file.cuts, default=1)
            yield CI_PERMISSION.at(
                file.path, cut, entry="permissions:", effect="is gone, so all jobs get the default rights"
            )
        for number, line in readable_lines(file):
            for pattern, entry, effect, severity in _RIGHTS:
                if pattern.match(line.strip()) and not pattern.search(before):
                    yield CI_PERMISSION.at(file.path, number, severity=severity, entry=entry, effect=effect)
            found = _SCOPE.match(line.strip())
            if found and (
                (_PUBLISHES.search(file.name) and not _was_read(file, found[1])) or _is_explained(file, number)
            ):
                continue
            if found and (file.is_new or "permissions:" in before) and f"{found[1]}: write" not in before:
                effect = f"lets the workflow change the {found[1]} of the repository"
                yield CI_PERMISSION.at(file.path, number, entry=f"{found[1]}: write", effect=effect)


def _limits_what_stays(before: str, after: str) -> bool:
    """Whether the old `permissions:` limited the whole workflow, or a job that the new version still has."""
    job = ""
    for line in before.split("\n"):
        job = found[1] if (found := _JOB.match(line[:MAX_LINE])) else job
        if not _LIMITS_RIGHTS.match(line):
            continue
        if not line[:1].isspace() or re.search(rf"^  {re.escape(job)}:", after, re.MULTILINE):
            return True
    return False


def _is_explained(file: ChangedFile, number: int) -> bool:
    """Whether a comment on a line, or alone on the line above, says why."""
    lines = (file.after or "").split("\n")
    above = lines[number - 2].strip() if number > 1 else ""
    comments = (_REASON.search(lines[number - 1][:MAX_LINE]), _REASON.match(above[:MAX_LINE]))
    return any(each is not None and len(each[1].split()) >= _REASON_WORDS for each in comments)


def _was_read(file: ChangedFile, scope: str) -> bool:
    """Whether the change replaces the right to read by the right to write."""
    return any(line.strip().startswith(f"{scope}: read") for line in file.removed.values())


def find_unpinned_actions(change: ChangeSet) -> Iterator[Finding]:
    """Actions of third parties that are new to the repository.

    A tag is reported in a repository that pins other actions to commits.
    """
    files = [each for each in change.files if _WORKFLOW.search(each.path) and each.added]
    new = [(file, number, found) for file in files for number, found in _third_party_actions(file)]
    if not new:
        return
    used = "\n".join([*(each.before or "" for each in files), *_ci_texts(change, is_old=True)])
    pins_others = _PINNED_USE.search(used) is not None
    known = set(_ANY_USE.findall(used))
    for file, number, found in new:
        is_branch = found[2] in ("main", "master", "latest", "develop", "dev", "trunk", "HEAD")
        if found[1] not in known and (is_branch or pins_others):
            yield CI_UNPINNED_ACTION.at(file.path, number, action=found[1], ref=found[2])


def _third_party_actions(file: ChangedFile) -> Iterator[tuple[int, re.Match[str]]]:
    for number, line in readable_lines(file):
        found = _USES.match(line)
        if (
            found
            and not found[1].startswith(_OWN_ACTIONS)
            and "/.github/" not in found[1]
            and not _PINNED.match(found[2])
        ):
            yield number, found


def find_script_injections(change: ChangeSet) -> Iterator[Finding]:
    """Expressions that put text of people outside the project into a script."""
    for file in change.files:
        if not _WORKFLOW.search(file.path) or file.after is None or not _OUTSIDERS.search(file.after):
            continue
        scripts = _script_lines(file.after)
        for number, line in readable_lines(file):
            for text in _EXPRESSION.findall(line) if number in scripts else ():
                found = _HOSTILE_TEXT.search(text)
                if found and not _TRUSTED_TEXT.match(found[0]):
                    yield CI_SCRIPT_INJECTION.at(file.path, number, expression=found[0])


def _script_lines(text: str) -> frozenset[int]:
    """The lines of a workflow that a shell or a script step runs."""
    inside: set[int] = set()
    indent = -1
    for number, line in enumerate(text.split("\n"), 1):
        if indent >= 0 and (not line.strip() or len(line) - len(line.lstrip()) > indent):
            inside.add(number)
            continue
        indent = -1
        if found := _SCRIPT.match(line[:MAX_LINE]):
            inside.add(number)
            key = line.find("run:") if "run:" in line else line.find("script:")
            indent = key if found[2].startswith(("|", ">")) else -1
    return frozenset(inside)


def find_ignored_steps(change: ChangeSet) -> Iterator[Finding]:
    """Steps that check the code and cannot fail any more, or that are gone."""
    files = [each for each in change.files if _CI_FILE.search(each.path) and not each.is_generated]
    for file in files:
        lines = (file.after or "").split("\n")
        removed = {line.strip() for line in file.removed.values()}
        for number, line in readable_lines(file):
            if line.strip() in removed or file.is_new or is_comment(line, file.suffix) or _was_ignored(file, number):
                continue
            tool = _TOOL.search(_whole_command(lines, number)) if _OR_TRUE.search(line.rstrip()) else None
            if tool is None and _IGNORED.match(line):
                tool = _TOOL.search(_step_around(lines, number))
            if tool:
                yield CI_STEP_IGNORED.at(file.path, number, what=f"The result of `{tool[1]}` is ignored")
    yield from _removed_steps(change, files)


def _was_ignored(file: ChangedFile, number: int) -> bool:
    """Whether the lines that an added line replaces ignored the results of as many steps."""
    edit = next(each for each in file.edits if each.line <= number < each.line + len(each.added))
    return 0 < _ignored_steps(edit.added) <= _ignored_steps(edit.removed)


def _ignored_steps(lines: Iterable[str]) -> int:
    short = [line for line in lines if len(line) <= MAX_LINE]
    return sum(bool(_IGNORED.match(line) or (_OR_TRUE.search(line.rstrip()) and _TOOL.search(line))) for line in short)


def _whole_command(lines: list[str], number: int) -> str:
    """A line with those above it that it continues."""
    first = number - 1
    while first > 0 and number - first < _CONTINUED_LINES and lines[first - 1].rstrip().endswith("\\"):
        first -= 1
    return " ".join(line[:MAX_LINE].strip() for line in lines[first:number])


def _step_around(lines: list[str], number: int) -> str:
    """The lines of the step that a line belongs to."""
    start = number - 1
    while start > 0 and number - start < _MAX_CI_FILES and not _STEP.match(lines[start]):
        start -= 1
    end = number
    while end < len(lines) and end - number < _MAX_CI_FILES and not _STEP.match(lines[end]) and lines[end].strip():
        end += 1
    return "\n".join(line[:MAX_LINE] for line in lines[start:end])


def _removed_steps(change: ChangeSet, files: list[ChangedFile]) -> Iterator[Finding]:
    """Tools that no file of continuous integration runs any more, where no new command takes their place."""
    removed: dict[str, tuple[ChangedFile, int]] = {}
    for file in files:
        for number, line in file.removed.items():
            text = line[:MAX_LINE]
            if not is_comment(text, file.suffix) and "install" not in text and (found := _TOOL.search(text)):
                removed.setdefault(found[1], (file, number))
    if not removed or any(each.is_deleted or each.is_new for each in files) or not change.tree.paths:
        return
    if any(_COMMAND.search(line) for file in files for _, line in readable_lines(file)):
        return
    left = "\n".join(
        line for text in _ci_texts(change) for line in text.split("\n") if not line.lstrip().startswith("#")
    )
    for tool, (file, number) in removed.items():
        if not re.search(rf"\b{re.escape(tool)}\b", left):
            last = (file.after or "").count("\n") + 1
            yield CI_STEP_IGNORED.at(file.path, min(number, last), what=f"The step that runs `{tool}` is removed")


def _ci_texts(change: ChangeSet, *, is_old: bool = False) -> Iterator[str]:
    """The files of continuous integration of a whole tree."""
    tree = change.base if is_old else change.tree
    paths = sorted(path for path in tree.paths if _CI_FILE.search(path) or _WORKFLOW.search(path))
    for path in paths[:_MAX_CI_FILES]:
        yield (tree.read(path) or b"").decode("utf-8", "replace")


CHECKS: Final[tuple[CriticCheck, ...]] = (
    CriticCheck(rules=(CI_PERMISSION,), run=find_workflow_rights),
    CriticCheck(rules=(CI_UNPINNED_ACTION,), run=find_unpinned_actions),
    CriticCheck(rules=(CI_SCRIPT_INJECTION,), run=find_script_injections),
    CriticCheck(rules=(CI_STEP_IGNORED,), run=find_ignored_steps),
)
