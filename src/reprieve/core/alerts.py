"""Alerts: who has to hear of what, and when it is over; rules as data, evaluated on numbers that others have counted.

A rule watches one kind of event and raises at once, or when too many came within a window, or when too large a share of a
batch did. One alert is open per rule and key at a time; what happens again while it is open only counts.

The window is half open: an event that is exactly as old as the window is long is out of it. So "more than 10 within
5 minutes" asks for eleven whose first and last are less than 300 s apart, in whatever order they were written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.core.backoff import LONGEST, require_number, require_whole, shown
from reprieve.core.failure import ErrorClass
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_COUNTED: Final = 10_000
_LONGEST_SUMMARY: Final = 500


class Watch(StrEnum):
    """What a rule watches."""

    FAILURE = "failure"
    """Every attempt that failed, whatever was decided."""
    PAUSE = "pause"
    """A fatal failure, which pauses its stage (ORC-1.4)."""
    SPENT = "spent"
    """A budget or a deadline is spent, and its policy pages then (ORC-2.2)."""
    PAGE = "page"
    """Any other failure that a person has to hear of (CRIT-1.9), among them what a profile parks with `alert`."""
    ESCALATION = "escalation"
    """A replay failed again with the same class, which is not retryable (CRIT-5.6); or a refusal is a surprise (CRIT-1.8)."""
    SKIPPED = "skipped"
    """Items of a batch that were skipped."""
    BROKEN_ORDER = "broken_order"
    """A delivery that was marked as sent, and its provider has no record of it (REV-7.2)."""
    UNPROVEN = "unproven"
    """A delivery that is marked as sent without evidence (REV-8.2)."""
    HELD = "held"
    """A delivery that waits for a person."""
    DUPLICATE = "duplicate"
    """A delivery that its provider has more than once."""


class Level(StrEnum):
    """How loud an alert is."""

    PAGE = "page"
    WARNING = "warning"


class By(StrEnum):
    """By what alerts of one rule are kept apart."""

    SOURCE = "source"
    """The pipeline, the analysis, the sender."""
    STAGE = "stage"
    CLASS = "class"
    """The stage and the error class."""


class Until(StrEnum):
    """When an alert is over by itself."""

    QUIET = "quiet"
    """Once it has not happened for so long."""
    RESUMED = "resumed"
    """Once the stage is not paused any more."""
    SETTLED = "settled"
    """Once no dead letter of its stage and class waits for anybody."""
    RELEASED = "released"
    """Once the sender has no delivery that is held."""
    HAND = "hand"
    """Never: a person resolves it."""


_STAGED: Final = frozenset({Watch.FAILURE, Watch.PAUSE, Watch.SPENT, Watch.PAGE, Watch.ESCALATION})
"""What happens at a stage, with an error class."""
_UNTILS: Final[Mapping[Until, frozenset[Watch]]] = {
    Until.QUIET: frozenset(Watch),
    Until.HAND: frozenset(Watch),
    Until.RESUMED: _STAGED,
    Until.SETTLED: _STAGED,
    Until.RELEASED: frozenset({Watch.HELD}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: what it watches, how much is too much, how loud it is, and when it is over."""

    name: str
    watches: Watch
    error_classes: tuple[str, ...] = ()
    """Only these; empty: all."""
    level: Level = Level.PAGE
    more_than: int = 0
    """Raised by what comes after so many; 0: at once."""
    within: float | None = None
    """Seconds in which they are counted; needed where `more_than` is not 0."""
    share: float | None = None
    """Of a batch: raised above it."""
    at_least: int = 20
    """How large a batch has to be for its share to mean anything."""
    by: By = By.CLASS
    until: Until = Until.QUIET
    quiet: float = 3600.0
    """Seconds without another one after which it is over, where `until` says quiet."""
    off: bool = False

    def __post_init__(self) -> None:
        """Refuse what could not be evaluated."""
        for kind, key in ((Watch, "watches"), (Level, "level"), (By, "by"), (Until, "until")):
            if not isinstance(getattr(self, key), kind):
                raise UsageError(f"{key} must be one of {', '.join(kind)}, not {getattr(self, key)!r}")
        require_whole("more_than", self.more_than, 0, MOST_COUNTED)
        require_whole("at_least", self.at_least, 1, MOST_COUNTED)
        require_number("quiet", self.quiet, 0.0, LONGEST)
        if not isinstance(self.off, bool):
            raise UsageError(f"off must be true or false, not {shown(self.off)}")
        self._check_count()
        if (self.share is not None) != (self.watches is Watch.SKIPPED):
            raise UsageError(f"share is for what watches {Watch.SKIPPED}, and that needs one")
        if self.share is not None:
            require_number("share", self.share, 0.0, 1.0)
        if self.error_classes and self.watches not in _STAGED:
            raise UsageError(f"error_class is of no use where {self.watches} is watched")
        if self.watches not in _UNTILS[self.until]:
            raise UsageError(f"until cannot be {self.until} where {self.watches} is watched")

    def _check_count(self) -> None:
        if self.within is not None:
            require_number("within", self.within, 0.0, LONGEST)
        if self.more_than and self.watches is not Watch.FAILURE:
            raise UsageError(f"more_than counts failures: it is of no use where {self.watches} is watched")
        if self.more_than and not self.within:
            raise UsageError("within is missing: more_than counts what comes within so many seconds")
        if self.within is not None and not self.more_than:
            raise UsageError("more_than is missing: within says only how far back it counts")

    @property
    def counts(self) -> bool:
        """Whether it takes several."""
        return self.more_than > 0


def _table(*rules: Rule) -> dict[str, Rule]:
    return {rule.name: rule for rule in rules}


_DAY: Final = 86_400.0
DEFAULT_RULES: Final[Mapping[str, Rule]] = _table(
    Rule(name="authentication", watches=Watch.FAILURE, error_classes=(ErrorClass.AUTH_DENIED,)),
    Rule(name="fatal", watches=Watch.PAUSE, by=By.STAGE, until=Until.RESUMED),
    Rule(name="spent", watches=Watch.SPENT, until=Until.SETTLED),
    Rule(name="page", watches=Watch.PAGE, until=Until.SETTLED),
    Rule(name="escalation", watches=Watch.ESCALATION, until=Until.SETTLED),
    Rule(
        name="rate_limits", watches=Watch.FAILURE, error_classes=(ErrorClass.RATE_LIMITED,), level=Level.WARNING,
        more_than=10, within=300.0, by=By.SOURCE, quiet=300.0,
    ),
    Rule(name="skipped", watches=Watch.SKIPPED, level=Level.WARNING, share=0.05, by=By.SOURCE, quiet=_DAY),
    Rule(name="broken_order", watches=Watch.BROKEN_ORDER, by=By.SOURCE, quiet=_DAY),
    Rule(name="unproven", watches=Watch.UNPROVEN, by=By.SOURCE, quiet=_DAY),
    Rule(name="held", watches=Watch.HELD, level=Level.WARNING, by=By.SOURCE, until=Until.RELEASED),
    Rule(name="duplicate", watches=Watch.DUPLICATE, by=By.SOURCE, quiet=_DAY),
)  # fmt: skip
"""What every profile begins with: LLM-7.1, ORC-1.4, ORC-2.2, CRIT-1.9, CRIT-5.6, LLM-7.2, LLM-7.3, REV-7.2, REV-8.2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Something that happened, as rules see it."""

    watch: Watch
    at: float
    source: str
    """A pipeline, an analysis, a sender: by name."""
    stage: str = ""
    error_class: str = ""
    summary: str
    """For people: one sanitized line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One reason to have an alert open: opens it, or counts where it is."""

    rule: str
    key: str
    level: Level
    at: float
    summary: str
    source: str
    stage: str
    error_class: str
    until: Until
    quiet: float
    on_relapse: bool = False
    """Only where the store finds that it is an escalation."""


def alarm(rule: Rule, seen: Seen, *, on_relapse: bool = False) -> Alarm:
    """What a rule makes of something that happened."""
    return Alarm(
        rule=rule.name, key=key_of(rule, seen), level=rule.level, at=seen.at, summary=seen.summary[:_LONGEST_SUMMARY],
        source=seen.source, stage=seen.stage, error_class=seen.error_class, until=rule.until, quiet=rule.quiet,
        on_relapse=on_relapse,
    )  # fmt: skip


def key_of(rule: Rule, seen: Seen) -> str:
    """By what it is one alert."""
    parts = {By.SOURCE: (seen.source,), By.STAGE: (seen.source, seen.stage), By.CLASS: (seen.source, seen.stage, seen.error_class)}  # fmt: skip
    return "/".join(part for part in parts[rule.by] if part)


def at_once(rules: Mapping[str, Rule], seen: Seen) -> Rule | None:
    """The first rule that this alone is enough for: nobody is woken twice for one thing.

    A failure that pages or spends its budget is a failure too, and a rule for failures of its class comes first; unless its
    stage is paused, which lasts longer.
    """
    first = (seen.watch, Watch.FAILURE) if seen.watch is Watch.PAUSE else (Watch.FAILURE, seen.watch)
    for watch in first if seen.watch in _STAGED else (seen.watch,):
        for rule in rules.values():
            if rule.watches is watch and not rule.counts and rule.share is None and concerns(rule, seen.error_class):
                return rule
    return None


def counting(rules: Mapping[str, Rule], error_class: str) -> tuple[Rule, ...]:
    """The rules for which a failure of this class is one of several."""
    return tuple(rule for rule in rules.values() if rule.counts and concerns(rule, error_class))


def concerns(rule: Rule, error_class: str) -> bool:
    """Whether a rule is on, and looks at this class."""
    return not rule.off and (not rule.error_classes or error_class in rule.error_classes)


def too_many(times: Iterable[float], *, more_than: int, within: float) -> bool:
    """Whether more than so many of these moments lie within a window, wherever it begins."""
    ordered = sorted(times)
    return any(last - first < within for first, last in zip(ordered, ordered[more_than:], strict=False))


def enough_to_tell(more_than: int) -> int:
    """How many moments around one have to be looked at: among so many within twice the window there are always too many."""
    return 2 * more_than + 1


class Verdict(StrEnum):
    """What a number means for an alert."""

    RAISE = "raise"
    KEEP = "keep"
    """As it is: open or not."""
    RESOLVE = "resolve"


def weigh_batch(rule: Rule, *, part: int, whole: int) -> Verdict:
    """Whether so many of a batch are too many; a small batch says nothing, neither way."""
    if not 0 <= part <= whole:
        raise UsageError(f"{part} of {whole} is no share of a batch")
    if rule.off or rule.share is None or whole < rule.at_least:
        return Verdict.KEEP
    # Rounded: 0.29 * 100 is a little less than 29.
    return Verdict.RAISE if part > round(rule.share * whole, 6) else Verdict.RESOLVE
