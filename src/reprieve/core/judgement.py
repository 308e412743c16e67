"""One verdict from a chain of exceptions: who recognises which link, and which of them is heard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from reprieve.core import provider
from reprieve.core.chain import Link, Walk, links
from reprieve.core.facts import attribute, qualified, seconds
from reprieve.core.failure import TAXONOMY, ErrorClass, Evidence, Kind
from reprieve.core.finding import Finding, Weight
from reprieve.core.message import message_of
from reprieve.core.rules import databases, text
from reprieve.core.rules.declared import of_attributes, of_operation_timeout, of_verdict, renamed
from reprieve.core.rules.retried import already_retried
from reprieve.core.rules.table import KNOWN_PACKAGES, rules_for
from reprieve.errors import OperationTimeoutError, Verdict

Scan = Callable[[str], tuple[str, tuple[tuple[str, int], ...]]]
"""Redacts a text; gives it back with the rules that had to act and how often."""

UserRules = Mapping[type[BaseException], Callable[[BaseException], Finding | None]]
"""What users know of their own exceptions; asked before anything else."""

UNKNOWN: Final = Finding(ErrorClass.UNKNOWN, rule="unknown")
_SAYS_HOW: Final = frozenset({
    ErrorClass.TLS_INVALID, ErrorClass.DNS_FAILURE, ErrorClass.CONNECTION_REFUSED, ErrorClass.CONNECTION_RESET,
    ErrorClass.NETWORK_TIMEOUT, ErrorClass.RESOURCE_EXHAUSTED,
})  # fmt: skip
_NEVER_SENT: Final = tuple(
    f"{package}.{name}"
    for package in ("httpx", "httpx2", "httpcore", "httpcore2")
    for name in ("UnsupportedProtocol", "LocalProtocolError", "InvalidURL")
)


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
class Judged:
    """A finding with the way to the link it was read from, and what it was refined from."""

    finding: Finding
    path: str
    before: tuple[Evidence, ...] = ()


def judge(exc: BaseException, context: Context, walk: Walk | None = None) -> Judged:
    """The verdict on an exception and all that stands behind it."""
    best: Judged | None = None
    first_path = ""
    extra: list[Evidence] = []
    walk = Walk() if walk is None else walk
    for link in links(exc, walk):
        first_path = first_path or link.path
        retried = already_retried(link)
        if retried is not None and not any(each.rule == retried.rule for each in extra):
            extra.append(retried)
        found = _find(link, context, walk, extra)
        if found is None:
            continue
        best = found if best is None else _refined(best, found)
        if best.finding.weight is Weight.DECIDES:
            break
    if best is None:
        words = text.of_words(message_of(exc), context.now, to_the_letter=context.to_the_letter)
        finding = _with_own_wait(words or UNKNOWN.but(value=qualified(type(exc))), exc)
        best = Judged(finding or UNKNOWN, first_path)
    return best if not extra else replace(best, before=(*best.before, *extra))


def _refined(outer: Judged, inner: Judged) -> Judged:
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
    return Judged(finding, inner.path, (*outer.before, evidence_of(outer)))


def _find(link: Link, context: Context, walk: Walk, extra: list[Evidence]) -> Judged | None:
    """What is known of one link; a rule that fails knows nothing, for a failure is being handled."""
    if isinstance(link.exc, BaseExceptionGroup):
        return _of_group(link.exc, link, context, walk)
    finding = _of_user(link, context.user_rules, extra)
    if finding is None:
        try:
            finding = _recognised(link, context)
        except Exception as error:  # noqa: BLE001 - a foreign object may do anything when it is looked at
            extra.append(Evidence(rule="unreadable", link=link.path, field="type", value=type(error).__name__))
    return None if finding is None else Judged(finding, link.path)


def _of_user(link: Link, rules: UserRules, extra: list[Evidence]) -> Finding | None:
    for kind in type(link.exc).__mro__ if rules else ():
        rule = rules.get(kind)
        if rule is None:
            continue
        try:
            found = rule(link.exc)
        except Exception as error:  # noqa: BLE001 - the failure at hand matters more than the rule's own
            extra.append(Evidence(rule="user-rule-failed", link=link.path, field="rule", value=type(error).__name__))
            continue
        if found is not None:
            return found
    return None


def _recognised(link: Link, context: Context) -> Finding | None:
    """Its author's word, the table, its facts, its name: the first that says something."""
    exc = link.exc
    if isinstance(exc, Verdict):
        return of_verdict(exc, "declared")
    if isinstance(exc, OperationTimeoutError):
        return of_operation_timeout(exc)
    package = link.names[0].partition(".")[0] if link.names else "builtins"
    if package == "builtins":
        return _by_table(exc, link.names, context.now)
    if package in KNOWN_PACKAGES:
        return _by_table(exc, link.names, context.now) or _by_facts(exc, context.now) or _by_name(exc, link)
    declared = of_attributes(exc)
    if declared is not None:
        return declared
    found = _by_facts(exc, context.now) or _by_table(exc, link.names, context.now) or _by_name(exc, link)
    return renamed(found, exc)


def _by_table(exc: BaseException, names: tuple[str, ...], now: float) -> Finding | None:
    for name, rule in rules_for(names):
        found = rule if isinstance(rule, Finding) else rule(exc, now)
        if found is not None:
            return found if found.rule else found.but(rule=name, value=found.value or name)
    return None


def _by_facts(exc: BaseException, now: float) -> Finding | None:
    """An unknown library that carries a status or a SQLSTATE where others do."""
    return _with_own_wait(databases.of_sqlstate(exc, now) or provider.of_exception(exc, now), exc)


def _by_name(exc: BaseException, link: Link) -> Finding | None:
    return _with_own_wait(text.of_type_name(link.names[0]), exc)


def _with_own_wait(finding: Finding | None, exc: BaseException) -> Finding | None:
    """With the `retry_after` that an exception of an unknown library carries itself."""
    if finding is None or finding.retry_after is not None:
        return finding
    wait = seconds(attribute(exc, "retry_after"))
    return finding if wait is None else finding.but(retry_after=wait)


def _of_group(group: BaseExceptionGroup[BaseException], link: Link, context: Context, walk: Walk) -> Judged | None:
    """Worth another try only if every leaf is; the wait is the longest of theirs."""
    if not walk.descend():
        return None
    leaves = [
        judge(leaf, context, walk) for leaf in group.exceptions if isinstance(leaf, Exception) and walk.is_new(leaf)
    ]
    walk.ascend()
    if not leaves:
        return None
    worst = next((leaf for leaf in leaves if not is_retryable(leaf.finding)), leaves[0])
    waits = [leaf.finding.retry_after for leaf in leaves if leaf.finding.retry_after is not None]
    finding = worst.finding.but(
        retry_after=max(waits, default=None), weight=Weight.DECIDES,
        outcome_unknown=any(leaf.finding.outcome_unknown for leaf in leaves),
        requires_idempotent=any(needs_idempotence(leaf.finding) for leaf in leaves),
    )  # fmt: skip
    return Judged(finding, f"{link.path} > {worst.path}", worst.before)


def is_retryable(finding: Finding) -> bool:
    """Whether another try is worth it: as found, else as the taxonomy has it."""
    return kind_of(finding).retryable if finding.retryable is None else finding.retryable


def needs_idempotence(finding: Finding) -> bool:
    """Whether only idempotent work may be repeated: as found, else as the taxonomy has it."""
    return kind_of(finding).requires_idempotent if finding.requires_idempotent is None else finding.requires_idempotent


def kind_of(finding: Finding) -> Kind:
    """The taxonomy's row; a class of the user's own is as the declared ones."""
    known = TAXONOMY.get(finding.error_class)
    if known is not None:
        return known
    return TAXONOMY[ErrorClass.DECLARED_PERMANENT if finding.retryable is False else ErrorClass.DECLARED_RETRYABLE]


def evidence_of(judged: Judged) -> Evidence:
    """The deciding rule, as a record shows it."""
    finding = judged.finding
    return Evidence(rule=finding.rule, link=judged.path, field=finding.field, value=finding.value)
