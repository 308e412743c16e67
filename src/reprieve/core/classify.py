"""Facts into a Failure, with the evidence.

The outermost recognised exception decides; deeper links refine what is only a broken connection or a wrapping. Structured
facts come before words, and words that merely quote somebody's input are not heard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from reprieve.core import provider
from reprieve.core.chain import Link, links
from reprieve.core.facts import attribute, integer, qualified, seconds
from reprieve.core.failure import TAXONOMY, Category, ErrorClass, Evidence, Failure, Kind, Scope, Severity
from reprieve.core.finding import Finding, Weight
from reprieve.core.message import message_of
from reprieve.core.pasted import parse_traceback
from reprieve.core.rules import databases, text
from reprieve.core.rules.retried import already_retried
from reprieve.core.rules.table import KNOWN_PACKAGES, of_attributes, rules_for
from reprieve.core.signature import Frames, fingerprint, frames_of, signature

Scan = Callable[[str], tuple[str, tuple[tuple[str, int], ...]]]
"""Redacts a text; gives it back with the rules that had to act and how often."""

UserRules = Mapping[type[BaseException], Callable[[BaseException], Finding | None]]
"""What users know of their own exceptions; asked before anything else."""

_MESSAGE_LENGTH = 1000
_WINDOW = 20_000
_TAIL = 300
_UNKNOWN = Finding(ErrorClass.UNKNOWN, rule="unknown")
_SAYS_HOW: Final = frozenset({
    ErrorClass.TLS_INVALID, ErrorClass.DNS_FAILURE, ErrorClass.CONNECTION_REFUSED, ErrorClass.CONNECTION_RESET,
    ErrorClass.NETWORK_TIMEOUT, ErrorClass.RESOURCE_EXHAUSTED,
})  # fmt: skip
_NEVER_SENT: Final = tuple(
    f"{package}.{name}"
    for package in ("httpx", "httpx2", "httpcore", "httpcore2")
    for name in ("UnsupportedProtocol", "LocalProtocolError", "InvalidURL")
)
_HEARD_BY_INGESTION: Final = frozenset({
    Category.NETWORK, Category.RATE_LIMIT, Category.UPSTREAM, Category.AUTH, Category.VALIDATION, Category.UNKNOWN,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Context:
    """What a judgement needs besides the exception: the moment, the stage, the judge, and how to redact."""

    now: float
    scan: Scan
    stage: str = ""
    to_the_letter: bool = False
    """Judge as the ingestion policy does, by status and words alone (decision 2)."""
    user_rules: UserRules = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A finding with the way to the link it was read from, and what it was refined from."""

    finding: Finding
    path: str
    before: tuple[Evidence, ...] = ()


def classify(exc: BaseException, context: Context) -> Failure:
    """Judge an exception; cancellations and exits are no failures, and pass through (decision 6)."""
    if is_passage(exc):
        raise exc
    judged = _judge(exc, context)
    return _failure(judged, exc, message_of(exc), context, frames_of(exc.__traceback__))


def classify_traceback(text_of_it: str, context: Context) -> Failure | None:
    """Judge a traceback that somebody pasted; None where the text is none."""
    found = parse_traceback(text_of_it)
    if found is None:
        return None
    return _failure(_judge(found.exc, context), found.exc, message_of(found.exc), context, found.frames)


def classify_response(status: int | None, headers: object, body: object, context: Context) -> Failure:
    """Judge a bare HTTP answer."""
    status = integer(status)
    parsed = provider.parse_body(body)
    finding = provider.of_response(status, headers, parsed, context.now)
    finding = finding or _UNKNOWN.but(status=status, field="status", value=str(status))
    words = provider.message_in(parsed) or ("an answer without a status" if status is None else f"HTTP {status}")
    return _failure(_Judged(finding, "response"), None, words, context)


def classify_words(message: str, context: Context) -> Failure:
    """Judge a bare message, where nothing better is known."""
    finding = text.of_words(message, context.now, to_the_letter=context.to_the_letter) or _UNKNOWN
    return _failure(_Judged(finding, "message"), None, message, context)


def is_passage(exc: BaseException) -> bool:
    """Whether this is somebody leaving, not something failing."""
    if isinstance(exc, BaseExceptionGroup):
        return any(is_passage(inner) for inner in exc.exceptions)
    if not isinstance(exc, Exception):
        return True
    kind = type(exc)
    return kind.__name__ == "CancelledError" and str(kind.__module__).partition(".")[0] in ("asyncio", "concurrent")


def _judge(exc: BaseException, context: Context) -> _Judged:
    best: _Judged | None = None
    first_path = ""
    retried: Evidence | None = None
    for link in links(exc):
        first_path = first_path or link.path
        retried = retried or already_retried(link)
        found = _find(link, context)
        if found is None:
            continue
        best = found if best is None else _refined(best, found)
        if best.finding.weight is Weight.DECIDES:
            break
    if best is None:
        words = text.of_words(message_of(exc), context.now, to_the_letter=context.to_the_letter)
        best = _Judged(words or _UNKNOWN.but(value=qualified(type(exc))), first_path)
    return best if retried is None else replace(best, before=(*best.before, retried))


def _refined(outer: _Judged, inner: _Judged) -> _Judged:
    """What a deeper link adds to a finding that does not decide by itself."""
    match outer.finding.weight:
        case Weight.WRAPPER:
            takes = True
        case Weight.GATEWAY:
            answered = inner.finding.status is not None and inner.finding.rule.startswith(("http.", "code.", "model."))
            takes = answered or inner.finding.error_class in _SAYS_HOW
        case Weight.TRANSPORT if outer.finding.error_class is ErrorClass.DATABASE_UNAVAILABLE:
            takes = inner.finding.error_class is ErrorClass.TLS_INVALID
        case _:
            takes = inner.finding.error_class in _SAYS_HOW and inner.finding.weight is not Weight.WRAPPER
            takes = takes or inner.finding.rule.startswith(_NEVER_SENT)
    if not takes:
        return outer
    finding = inner.finding
    if outer.finding.weight is Weight.TRANSPORT and not outer.finding.outcome_unknown:
        finding = finding.but(outcome_unknown=False)  # it broke while connecting: nothing was sent
    return _Judged(finding, inner.path, (*outer.before, _evidence(outer)))


def _find(link: Link, context: Context) -> _Judged | None:
    """The first that recognises this exception: the user, its attributes, the table, its facts, its name."""
    exc = link.exc
    if isinstance(exc, BaseExceptionGroup):
        return _of_group(exc, link, context)
    finding = _of_user(exc, context.user_rules)
    package = link.names[0].partition(".")[0] if link.names else "builtins"
    foreign = package not in KNOWN_PACKAGES and package != "builtins"
    if finding is None and foreign:
        finding = of_attributes(exc) or _by_facts(exc, context.now)
    if finding is None:
        finding = _by_table(exc, link.names, context.now)
    if finding is None and package != "builtins":
        finding = None if foreign else _by_facts(exc, context.now)
        by_name = text.of_type_name(link.names[0]) if finding is None else None
        finding = _with_own_wait(by_name, exc) if by_name is not None else finding
    return None if finding is None else _Judged(finding, link.path)


def _of_user(exc: BaseException, rules: UserRules) -> Finding | None:
    """What the user's rules say; one that fails is as one that has nothing to say, for a failure is being handled."""
    if rules:
        for kind in type(exc).__mro__:
            rule = rules.get(kind)
            if rule is None:
                continue
            try:
                found = rule(exc)
            except Exception:  # noqa: BLE001 - the failure at hand matters more than the rule's own
                found = None
            if found is not None:
                return found
    return None


def _by_table(exc: BaseException, names: tuple[str, ...], now: float) -> Finding | None:
    for name, rule in rules_for(names):
        found = rule if isinstance(rule, Finding) else rule(exc, now)
        if found is not None:
            return found if found.rule else found.but(rule=name, value=found.value or name)
    return None


def _by_facts(exc: BaseException, now: float) -> Finding | None:
    """An unknown library that carries a status or a SQLSTATE where others do."""
    found = databases.of_sqlstate(exc, now) or provider.of_exception(exc, now)
    return None if found is None else _with_own_wait(found, exc)


def _with_own_wait(finding: Finding, exc: BaseException) -> Finding:
    """With the `retry_after` that an exception of an unknown library carries itself."""
    wait = seconds(attribute(exc, "retry_after")) if finding.retry_after is None else None
    return finding if wait is None else finding.but(retry_after=wait)


def _of_group(group: BaseExceptionGroup[BaseException], link: Link, context: Context) -> _Judged | None:
    """Worth another try only if every leaf is; the wait is the longest of theirs."""
    leaves = [_judge(leaf, context) for leaf in group.exceptions if isinstance(leaf, Exception)]
    if not leaves:
        return None
    worst = next((leaf for leaf in leaves if not _is_retryable(leaf.finding)), leaves[0])
    waits = [leaf.finding.retry_after for leaf in leaves if leaf.finding.retry_after is not None]
    unknown = any(leaf.finding.outcome_unknown for leaf in leaves)
    finding = worst.finding.but(
        retry_after=max(waits, default=None), outcome_unknown=unknown, weight=Weight.DECIDES,
        requires_idempotent=any(_needs_idempotence(leaf.finding) for leaf in leaves),
    )  # fmt: skip
    return _Judged(finding, f"{link.path} > {worst.path}", worst.before)


def _is_retryable(finding: Finding) -> bool:
    return _kind(finding).retryable if finding.retryable is None else finding.retryable


def _needs_idempotence(finding: Finding) -> bool:
    return _kind(finding).requires_idempotent if finding.requires_idempotent is None else finding.requires_idempotent


def _kind(finding: Finding) -> Kind:
    """The taxonomy's row; a class of the user's own is as the declared ones."""
    known = TAXONOMY.get(finding.error_class)
    if known is not None:
        return known
    return TAXONOMY[ErrorClass.DECLARED_PERMANENT if finding.retryable is False else ErrorClass.DECLARED_RETRYABLE]


def _evidence(judged: _Judged) -> Evidence:
    finding = judged.finding
    return Evidence(rule=finding.rule, link=judged.path, field=finding.field, value=finding.value)


def _failure(
    judged: _Judged, exc: BaseException | None, message: str, context: Context, frames: Frames = ()
) -> Failure:
    finding = judged.finding
    if context.to_the_letter and finding.rule != "declared":
        finding = _to_the_letter(finding, message, context.now)
        judged = _Judged(finding, judged.path, judged.before)
    kind = _kind(finding)
    retryable = _is_retryable(finding)
    clean, redactions = _sanitized(message, context.scan)
    code = _sanitized(finding.code, context.scan)[0][:80] if finding.code else None
    exception_type = "" if exc is None else qualified(type(exc))
    return Failure(
        category=finding.category or kind.category,
        error_class=finding.error_class,
        retryable=retryable,
        requires_idempotent=retryable and _needs_idempotence(finding),
        retry_after=finding.retry_after if retryable else None,
        status_code=finding.status,
        severity=_severity(finding, kind, retryable=retryable),
        outcome_unknown=finding.outcome_unknown,
        scope=_scope(finding, kind, retryable=retryable),
        message=clean,
        signature=signature(clean),
        fingerprint=fingerprint(
            stage=context.stage, error_class=finding.error_class, code=code, status=finding.status,
            exception_type=exception_type, frames=frames,
        ),
        exception_type=exception_type,
        code=code,
        evidence=(_with_clean_code(_evidence(judged), finding.code, code), *judged.before),
        redactions=redactions,
    )  # fmt: skip


def _with_clean_code(evidence: Evidence, code: str | None, clean: str | None) -> Evidence:
    """The evidence with the provider's word as it may be shown; its other values are our own words."""
    if code is None or evidence.value != code or clean is None or clean == code:
        return evidence
    return Evidence(rule="code", link=evidence.link, field=evidence.field, value=clean)


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
    if (finding.category or _kind(finding).category) in _HEARD_BY_INGESTION:
        return finding.but(requires_idempotent=False)
    return text.of_words(message, now, to_the_letter=True) or finding.but(retryable=True, requires_idempotent=False)


def _sanitized(message: str, scan: Scan) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Redacted first, cut after; of a huge text only the beginning is looked at, and its torn end is dropped."""
    if not message.isascii():  # half a surrogate pair would break whoever encodes the record
        message = message[: _WINDOW + 1].encode("utf-8", "backslashreplace").decode("utf-8")
    if len(message) <= _WINDOW:
        clean, redactions = scan(message)
    else:
        clean, redactions = scan(message[:_WINDOW])
        clean = clean[:-_TAIL]
    return (clean if len(clean) <= _MESSAGE_LENGTH else clean[: _MESSAGE_LENGTH - 1] + "…"), redactions
