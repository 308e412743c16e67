"""Rules and checks of the critic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reprieve.review.critic.findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from reprieve.review.critic.change_set import ChangeSet


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticRule:
    """One kind of fault: its stable id, how severe it is, and what people are told."""

    id: str
    severity: Severity
    suffixes: tuple[str, ...] = ()
    """The files that it reads, such as `.py`; empty: every file."""
    finds: str
    """What it finds, for the documentation; a clause without a full stop."""
    advice: str
    """Why it matters and what to do: one sentence, with `{names}` for values of the finding."""
    code: str = ""
    """The code of the linter that finds it, as people know it from `noqa` comments."""

    is_practice: bool = False
    """Whether projects do this on purpose too: not reported where other lines of the file do it already."""
    depends_on_place: bool = False
    """Whether a line can be right in one place and wrong in another: lines that only moved are reported too."""

    def reads(self, suffix: str) -> bool:
        """Whether it reads files with this suffix."""
        return not self.suffixes or suffix in self.suffixes

    @property
    def languages(self) -> str:
        """The files that it reads, for people: `.py .pyi`, or `every file`."""
        return " ".join(self.suffixes) or "every file"

    def at(self, file: str, line: int, *, severity: Severity | None = None, **values: object) -> Finding:
        """Build a finding of this rule; the quoted line is added by the critic."""
        return Finding(
            rule=self.id,
            code=self.code,
            file=file,
            line=line,
            comment=self.advice.format(**values) if values else self.advice,
            severity=severity or self.severity,
        )


class NotCheckedError(Exception):
    """A check could not look at everything; the message says what was left out, and why.

    What the check yielded before is kept.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticCheck:
    """A function that yields the findings of some rules."""

    rules: tuple[CriticRule, ...]
    run: Callable[[ChangeSet], Iterable[Finding]]
    needs_tree: bool = False
    """Whether it reads files that the change did not touch: left out where only a patch is known."""
    runs_beside: bool = False
    """Whether it waits for other programs and reads nothing that was parsed: it runs while the files are parsed."""
