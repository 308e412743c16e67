"""Findings: their severity, and the folding of equal ones."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from reprieve import redact

if TYPE_CHECKING:
    from collections.abc import Iterable

SECRET_RULE: Final = "secret"  # noqa: S105 - the id of a rule
"""The rule that no comment of a change can switch off."""
_MAX_QUOTE: Final = 160
FACTS: Final = "facts"
"""The origin of findings that rules made; a model's have the name of the model."""
PERSON: Final = "person"


class Severity(StrEnum):
    """How bad a finding is, the least first."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def rank(self) -> int:
        """A number that grows with the severity."""
        return list(Severity).index(self)


class Finding(BaseModel):
    """One thing that is wrong, and where."""

    model_config = ConfigDict(frozen=True)

    file: str
    line: int
    """In the new version of the file; 0 means the file as a whole."""
    comment: str
    """Why it matters and what to do, in one sentence or two."""
    rule: str = ""
    """The id of the rule; empty where a model or a person wrote the finding."""
    code: str = ""
    """The code of the linter that found it."""
    severity: Severity = Severity.LOW
    quote: str = ""
    """The line as it stands in the file, sanitized."""
    origin: str = FACTS
    also: tuple[str, ...] = ()
    """Other places with the same finding, as `path:line`."""
    allowed: bool = False
    """Whether a comment of the change itself allows it."""

    @property
    def place(self) -> str:
        """`path:line`, or the path alone for a whole file."""
        return f"{self.file}:{self.line}" if self.line else self.file


def fold(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings of the same rule with the same text: of high severity those of one file, others of all files.

    A rule says one thing about a line. Secrets are never merged: each one has to be revoked. Returns the worst first, then by file and line.
    """
    groups: dict[tuple[object, ...], list[Finding]] = {}
    known: set[tuple[object, ...]] = set()
    for each in findings:
        place = (each.rule, each.place, each.comment if each.rule in {"", SECRET_RULE} else "", each.origin)
        if place in known and not each.also:
            continue
        known.add(place)
        key: tuple[object, ...] = (each.rule, each.comment, each.severity, each.origin, each.allowed)
        if each.severity is Severity.HIGH:
            key = (*key, each.file)
        if not each.rule or each.rule == SECRET_RULE:
            key = (*key, each.file, each.line)
        groups.setdefault(key, []).append(each)
    folded = [_merged(sorted(group, key=_by_place)) for group in groups.values()]
    return tuple(sorted(folded, key=lambda each: (-each.severity.rank, *_by_place(each), each.rule)))


def quoted(line: str) -> str:
    """A line as a finding quotes it: without secrets, and not too long."""
    return redact(line.strip()[: 2 * _MAX_QUOTE])[:_MAX_QUOTE]


def worst(findings: Iterable[Finding]) -> Severity:
    """The highest severity among findings, `none` without any."""
    return max((each.severity for each in findings), key=lambda each: each.rank, default=Severity.NONE)


def _by_place(finding: Finding) -> tuple[str, int]:
    return finding.file, finding.line


def _merged(group: list[Finding]) -> Finding:
    places = list(dict.fromkeys(place for each in group for place in (each.place, *each.also)))
    return group[0].model_copy(update={"also": tuple(places[1:])})
