"""A verdict becomes a record: completed from the taxonomy, sanitized, cut to length."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from reprieve.core.facts import qualified
from reprieve.core.failure import Category, ErrorClass, Evidence, Failure, Kind, Scope, Severity
from reprieve.core.judgement import evidence_of, is_retryable, kind_of, needs_idempotence
from reprieve.core.rules import text
from reprieve.core.signature import Frames, fingerprint, signature

if TYPE_CHECKING:
    from reprieve.core.finding import Finding
    from reprieve.core.judgement import Context, Judged, Scan

_MESSAGE_LENGTH = 1000
_WINDOW = 20_000
_TAIL = 300
_CODE_LENGTH = 80
_BETWEEN = "\x1f"
# What no database takes, what no encoder takes, and what moves a terminal's cursor; line ends and tabs may stay.
_UNWRITABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_HEARD_BY_INGESTION: Final = frozenset({
    Category.NETWORK, Category.RATE_LIMIT, Category.UPSTREAM, Category.AUTH, Category.VALIDATION,
})  # fmt: skip


def failure_of(
    judged: Judged, exc: BaseException | None, message: str, context: Context, frames: Frames = ()
) -> Failure:
    """The record of a verdict; nothing in it is as it came from outside."""
    if context.to_the_letter and not judged.finding.declared:
        judged = replace(judged, finding=_to_the_letter(judged.finding, message, context.now))
    finding = judged.finding
    kind, retryable = kind_of(finding), is_retryable(finding)
    exception_type = "" if exc is None else qualified(type(exc))
    clean, redactions = sanitized(message, context.scan)
    facts = _Facts(finding.error_class, finding.code, exception_type, (evidence_of(judged), *judged.before))
    facts = facts.clean(context.scan)
    return Failure(
        category=finding.category or kind.category,
        error_class=facts.error_class,
        retryable=retryable,
        requires_idempotent=retryable and needs_idempotence(finding),
        retry_after=finding.retry_after if retryable else None,
        status_code=finding.status,
        severity=_severity(finding, kind, retryable=retryable),
        outcome_unknown=finding.outcome_unknown,
        scope=_scope(finding, kind, retryable=retryable),
        message=clean or exception_type or finding.error_class,
        signature=signature(clean or exception_type or finding.error_class),
        fingerprint=fingerprint(
            stage=context.stage, error_class=facts.error_class, code=facts.code, status=finding.status,
            exception_type=facts.exception_type, frames=frames,
        ),
        exception_type=facts.exception_type,
        code=facts.code,
        evidence=facts.evidence,
        redactions=redactions,
    )  # fmt: skip


class _Facts:
    """The short texts of a record, which may come from outside too; looked through all at once, as they are clean mostly."""

    __slots__ = ("code", "error_class", "evidence", "exception_type")

    def __init__(self, error_class: str, code: str | None, exception_type: str, evidence: tuple[Evidence, ...]) -> None:
        self.error_class, self.code, self.exception_type, self.evidence = error_class, code, exception_type, evidence

    def clean(self, scan: Scan) -> _Facts:
        """The same without what must not be shown."""
        parts = [self.error_class, self.code or "", self.exception_type]
        parts += [part for each in self.evidence for part in (each.rule, each.link, each.field, each.value)]
        whole = _BETWEEN.join(parts)
        if (
            not _UNWRITABLE.search(whole.replace(_BETWEEN, ""))
            and scan(whole)[0] == whole
            and len(self.code or "") <= _CODE_LENGTH
        ):
            return self
        shown = [sanitized(part, scan)[0] for part in parts]
        evidence = tuple(Evidence(*shown[at : at + 4]) for at in range(3, len(shown), 4))
        error_class = self.error_class if shown[0] == self.error_class else ErrorClass.UNKNOWN
        return _Facts(error_class, shown[1][:_CODE_LENGTH] or None, shown[2], evidence)


def _severity(finding: Finding, kind: Kind, *, retryable: bool) -> Severity:
    """The taxonomy's severity, unless the verdict on this one case contradicts it."""
    severity = finding.severity or kind.severity
    passing = severity in (Severity.TRANSIENT, Severity.UPSTREAM)
    if retryable and not passing:
        return Severity.TRANSIENT
    return Severity.PERMANENT if passing and not retryable else severity


def _scope(finding: Finding, kind: Kind, *, retryable: bool) -> Scope:
    scope = finding.scope or kind.scope
    needs_hand = scope in (Scope.AFTER_REPAIR, Scope.HUMAN)
    if retryable and needs_hand:
        return Scope.SAME_REQUEST
    return Scope.HUMAN if not retryable and not needs_hand else scope


def _to_the_letter(finding: Finding, message: str, now: float) -> Finding:
    """The ingestion policy: 429 and 5xx retry, other 4xx do not; else the words; else retry."""
    status = finding.status
    if status == 429:  # noqa: PLR2004 - ING-1.1
        return finding.but(error_class=ErrorClass.RATE_LIMITED, retryable=True, requires_idempotent=False)
    if status is not None and 500 <= status < 600:  # noqa: PLR2004 - ING-1.2
        return finding.but(retryable=True, requires_idempotent=False)
    if status is not None and 400 <= status < 500:  # noqa: PLR2004 - ING-1.5
        return finding.but(retryable=False)
    if (finding.category or kind_of(finding).category) in _HEARD_BY_INGESTION:
        return finding.but(requires_idempotent=False)
    return text.of_words(message, now, to_the_letter=True) or finding.but(retryable=True, requires_idempotent=False)


def writable(words: str) -> str:
    """A text that every database and encoder takes and that moves no terminal's cursor."""
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", words) if _UNWRITABLE.search(words) else words


def sanitized(message: str, scan: Scan) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Redacted first, cut after; of a huge text only the beginning is looked at, and its torn end is dropped."""
    torn = len(message) > _WINDOW
    message = message[:_WINDOW]
    clean, redactions = scan(writable(message))
    if torn and len(clean) < _MESSAGE_LENGTH + _TAIL and not clean.endswith("]"):
        clean = clean[:-_TAIL] if len(clean) > _TAIL else clean.rpartition(" ")[0]
    return (clean if len(clean) <= _MESSAGE_LENGTH else clean[: _MESSAGE_LENGTH - 1] + "…"), redactions
