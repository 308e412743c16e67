"""Runs the checks on a change and reports what they found, what was checked, and what was not."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from reprieve.review.critic.change_set import ChangeSet, ParsedFile
from reprieve.review.critic.findings import Finding, fold, quoted
from reprieve.review.critic.parsing import ParserChild, kind_of
from reprieve.review.critic.registry import CHECKS
from reprieve.review.critic.rules import NotCheckedError
from reprieve.review.critic.summary import count, describe_change, describe_findings, describe_scope
from reprieve.review.critic.suppression import CriticSettings, allowance_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reprieve.review.critic.change_set import ChangedFile
    from reprieve.review.critic.rules import CriticCheck, CriticRule

MAX_FINDINGS: Final = 50
_MOVED_LINES: Final = 4
"""How far beside a line its neighbours are looked for; blank lines may stand between them."""
_LOG: Final = logging.getLogger("reprieve.review.critic")


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsReport:
    """What the rules found in a change."""

    summary: str = ""
    """What the change is and what was found, in plain sentences."""
    scope: str = ""
    """What was checked and what was not: `12 checks on 3 files; 2 .go files: rules for every file only`."""
    findings: tuple[Finding, ...] = ()
    """Folded, the worst first; those that the change itself allows are marked."""
    hidden: int = 0
    """Findings beyond the number that is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What one check came to."""

    found: list[Finding]
    note: str = ""
    """Why it did not look at everything."""
    is_incomplete: bool = False


def check_change(
    change: ChangeSet,
    settings: CriticSettings | None = None,
    *,
    checks: Sequence[CriticCheck] = CHECKS,
    parser: ParserChild | None = None,
) -> FactsReport:
    """Run the checks; it blocks while linters and parsers work. A `parser` that the caller has started is closed."""
    settings = settings or CriticSettings()
    used = [check for check in checks if change.tree.paths or not check.needs_tree]
    with parser or ParserChild() as child, ThreadPoolExecutor(max_workers=1) as beside:
        early = [beside.submit(_run, check, change) if check.runs_beside else None for check in used]
        parsed, notes = _parse(change, child)
        change = replace(change, parsed=parsed, parser=child)
        outcomes = [
            _run(check, change) if running is None else running.result()
            for check, running in zip(used, early, strict=True)
        ]
    left_out = {rule.id for check in checks if check not in used for rule in check.rules}
    if left_out:
        notes.append(f"the rest of the repository is unknown: {', '.join(sorted(left_out))} not checked")
    partial = sum(1 for each in change.files if each.after is None and each.diff and not each.is_deleted)
    if partial:
        notes.append(
            f"{count(partial, 'file')} known only by the patch: rules that read whole files did not run on them"
        )
    found = [each for outcome in outcomes for each in outcome.found]
    notes += [outcome.note for outcome in outcomes if outcome.note]
    unread = [check for check, outcome in zip(used, outcomes, strict=True) if outcome.is_incomplete]
    incomplete = {rule.id for check in unread for rule in check.rules}
    kept = list(_allowed(change, _configured(settings, _not_moved(change, found))))
    folded = fold(_quoted(change, kept))
    files = [each for each in change.files if each.after is not None or each.diff]
    rules = [rule for check in used for rule in check.rules if settings.is_enabled(rule.id)]
    applied = {rule.id for rule in rules if any(rule.reads(each.suffix) for each in files)} - incomplete
    return FactsReport(
        summary=f"{describe_change(change)} {describe_findings(folded)}",
        scope=describe_scope(len(applied), len(files), [*_general_only(files, rules), *notes]),
        findings=folded[:MAX_FINDINGS],
        hidden=len(folded[MAX_FINDINGS:]),
    )


def _run(check: CriticCheck, change: ChangeSet) -> _Outcome:
    """Run one check. What it found before it raised is kept."""
    found: list[Finding] = []
    try:
        found.extend(check.run(change))
    except NotCheckedError as reason:
        return _Outcome(found=found, note=str(reason), is_incomplete=True)
    except Exception as error:  # noqa: BLE001 - a broken check must not end the review, and must not pass unseen
        _LOG.exception("a check of the critic failed")
        return _Outcome(found=found, note=f"{check.rules[0].id} not checked: {type(error).__name__}")
    return _Outcome(found=found)


@cache
def rules_digest() -> str:
    """A digest of the program's version and its rules: with another one a report may differ."""
    said = [f"{rule.id} {rule.code} {rule.severity}" for check in CHECKS for rule in check.rules]
    return hashlib.sha256("\n".join([version("reprieve"), *said]).encode()).hexdigest()[:16]


def _general_only(files: Sequence[ChangedFile], rules: Sequence[CriticRule]) -> Iterable[str]:
    """One clause for each suffix that no rule reads by its language."""
    known = {suffix for rule in rules for suffix in rule.suffixes}
    others = Counter(each.suffix or each.name for each in files if each.suffix not in known)
    for suffix, number in sorted(others.items()):
        yield f"{count(number, f'{suffix} file')}: rules for every file only"


def _parse(change: ChangeSet, child: ParserChild) -> tuple[dict[str, ParsedFile], list[str]]:
    parsed: dict[str, ParsedFile] = {}
    notes: list[str] = []
    for each in change.files:
        kind = kind_of(each.path)
        if kind is None or each.is_generated or (each.after is None and not each.is_deleted):
            continue
        answers: list[dict[str, Any] | None] = [
            None if text is None else child.parse(kind, text) for text in (each.before, each.after)
        ]
        parsed[each.path] = ParsedFile(before=answers[0], after=answers[1])
        if answers[1] is not None and (why := answers[1].get("gave_up")):
            notes.append(f"{each.path} not parsed: {why}")
    return parsed, notes


def _not_moved(change: ChangeSet, found: Iterable[Finding]) -> Iterable[Finding]:
    """Without findings on lines that the change only moved: it removes the same lines, with those beside them, elsewhere."""
    places = {rule.id for check in CHECKS for rule in check.rules if rule.depends_on_place}
    removed = {run for file in change.files for edit in file.edits for run in _runs(edit.removed)}
    for each in found:
        file = change.by_path.get(each.file)
        if each.rule in places or file is None or not removed or each.line not in file.added:
            yield each
            continue
        edit = next(edit for edit in file.edits if edit.line <= each.line < edit.line + len(edit.added))
        at = each.line - edit.line
        near = edit.added[max(0, at - _MOVED_LINES) : at + _MOVED_LINES + 1]
        if not any(edit.added[at].strip() in run and run in removed for run in _runs(near)):
            yield each


def _runs(lines: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """Every three lines that follow one another, blank ones left out."""
    text = [line.strip() for line in lines if line.strip()]
    return zip(text, text[1:], text[2:], strict=False)


def _configured(settings: CriticSettings, found: Iterable[Finding]) -> Iterable[Finding]:
    """Findings of rules and paths that are switched on, with the severity that the settings give them."""
    for each in found:
        severity = settings.severity_of(each)
        if severity is not None:
            yield each if severity is each.severity else each.model_copy(update={"severity": severity})


def _allowed(change: ChangeSet, found: Iterable[Finding]) -> Iterable[Finding]:
    """Without findings that a comment of the base allows; those that only the change allows are marked."""
    for each in found:
        file = change.by_path.get(each.file)
        match None if file is None else allowance_of(file, each):
            case None:
                yield each
            case "change":
                yield each.model_copy(update={"allowed": True})


def _quoted(change: ChangeSet, found: Iterable[Finding]) -> Iterable[Finding]:
    lines: dict[str, list[str]] = {}
    for each in found:
        if each.quote or not each.line:
            yield each.model_copy(update={"quote": quoted(each.quote)}) if each.quote else each
            continue
        if each.file not in lines:
            lines[each.file] = _text_of(change, each.file).split("\n")
        text = lines[each.file]
        line = text[each.line - 1] if each.line <= len(text) else ""
        line = line or _added_line(change.by_path.get(each.file), each.line)
        yield each.model_copy(update={"quote": quoted(line)})


def _added_line(file: ChangedFile | None, line: int) -> str:
    return "" if file is None else file.added.get(line, "")


def _text_of(change: ChangeSet, path: str) -> str:
    file = change.by_path.get(path)
    if file is not None:
        return file.after or ""
    return (change.tree.read(path) or b"").decode("utf-8", "replace")
