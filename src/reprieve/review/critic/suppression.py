"""Settings and comments that switch rules off; both are read from the base of a change."""

from __future__ import annotations

import re
import tomllib
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from reprieve.review.critic.findings import Severity
from reprieve.review.patterns import Pattern

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from reprieve.review.critic.change_set import ChangedFile
    from reprieve.review.critic.findings import Finding

_COMMENT: Final = re.compile(
    r"reprieve:\s{0,10}allow\s{0,10}[\[(]?\s{0,10}([\w-]{1,60}(?:\s{0,10},\s{0,10}[\w-]{1,60}){0,20})", re.IGNORECASE
)
_NOQA: Final = re.compile(r"#\s*noqa(?::\s*([A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?(?=[\s#]|$)", re.IGNORECASE)
_MAX_LINE: Final = 2_000
_LINTER: Final = re.compile(r"[A-Z]+[0-9]+")


class CriticSettings(BaseModel):
    """`[critic]`: which rules run, where, and how severe their findings are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    off: tuple[str, ...] = ()
    """Rules that do not run, by id or by the linter's code."""
    exclude: tuple[str, ...] = ()
    """Paths that are not reviewed, as patterns of .gitignore."""
    severity: dict[str, Severity] = {}
    """Severities in place of the rules' own; `none` switches a rule off."""

    @field_validator("off", "severity")
    @classmethod
    def _known(cls, value: tuple[str, ...] | dict[str, Severity]) -> tuple[str, ...] | dict[str, Severity]:
        from reprieve.review.critic.registry import KNOWN_NAMES  # noqa: PLC0415 - the registry imports the checks

        unknown = sorted(set(value) - KNOWN_NAMES)
        if unknown:
            raise ValueError(f"there is no rule {unknown[0]!r}; `reprieve review --rules` lists them")
        return value

    @cached_property
    def _excluded(self) -> tuple[Pattern, ...]:
        return tuple(Pattern(each) for each in self.exclude)

    def is_enabled(self, rule: str) -> bool:
        """Whether a rule runs at all."""
        return rule not in self.off and self.severity.get(rule) is not Severity.NONE

    def is_excluded(self, path: str) -> bool:
        """Whether a path is not reviewed."""
        return any(pattern.fits(path) for pattern in self._excluded)

    def severity_of(self, finding: Finding) -> Severity | None:
        """The severity of a finding by these settings; None where it is switched off."""
        names = {finding.rule, finding.code}
        if names & set(self.off) or self.is_excluded(finding.file):
            return None
        given = next((self.severity[name] for name in sorted(names) if name in self.severity), finding.severity)
        return None if given is Severity.NONE else given


def settings_of(text: str | None, of: str = "the base") -> tuple[CriticSettings, tuple[str, ...]]:
    """The settings of a reprieve.toml, and all that is wrong with it; wrong settings switch nothing off."""
    if not text:
        return CriticSettings(), ()
    try:
        section = tomllib.loads(text).get("critic", {})
        return CriticSettings.model_validate(section), ()
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return CriticSettings(), (f"reprieve.toml of {of} is not TOML: {error}",)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        return CriticSettings(), tuple(f"reprieve.toml of {of}: {_problem(each)}" for each in found)


def _problem(error: ErrorDetails) -> str:
    place = ".".join(["critic", *(str(each) for each in error["loc"])])
    if error["type"] == "extra_forbidden":
        return f"{place}: there is no such setting"
    return f"{place}: {error['msg'].removeprefix('Value error, ')}"


def allowance_of(file: ChangedFile, finding: Finding) -> Literal["base", "change"] | None:
    """Which version has the comment that allows a finding; None without one.

    The comment stands on the line of the finding or alone on the line above: `# reprieve: allow sql-injection`.
    Ruff's findings are allowed by `# noqa: CODE` too.
    """
    if not finding.line:
        return None
    lines = file.after.split("\n") if file.after is not None else None
    for number in (finding.line, finding.line - 1):
        line = _line_at(file, lines, number)
        if not line or (number != finding.line and not _is_comment(line)):
            continue
        if _allows(line[:_MAX_LINE], finding):
            return "base" if file.diff and number not in file.added else "change"
    return None


def _line_at(file: ChangedFile, lines: list[str] | None, number: int) -> str:
    if lines is None:
        return file.added.get(number, "")
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _allows(line: str, finding: Finding) -> bool:
    code = finding.code
    if found := _COMMENT.search(line):
        named = {each.strip().lower() for each in found[1].split(",")}
        if finding.rule in named or (code and code.lower() in named):
            return True
    if code and (found := _NOQA.search(line)):
        return found[1] is None or code in _LINTER.findall(found[1].upper())
    return False


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith(("#", "//", "/*", "--", ";", "<!--", "*", "%"))
