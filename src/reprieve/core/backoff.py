"""How long to wait before the next try: the number of failures and a random draw in, seconds out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from reprieve.errors import UsageError

LONGEST: Final = 31_536_000.0
"""Seconds in a year: no wait, ceiling or deadline is longer."""

_LONGEST_SHOWN: Final = 60

_STEPS_THAT_MATTER: Final = 2**53
"""A float cannot count further; an attempt number beyond it waits as long as this one."""


def require_number(name: str, value: object, low: float, high: float) -> None:
    """Refuse what is not a number within the bounds; the message begins with the field's name."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{name} must be a number from {low:g} to {high:g}, not {shown(value)}")
    if not low <= value <= high:
        raise UsageError(f"{name} must be from {low:g} to {high:g}, not {shown(value)}")


def require_whole(name: str, value: object, low: int, high: int) -> None:
    """Refuse what is not a whole number within the bounds; the message begins with the field's name."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{name} must be a whole number from {low} to {high}, not {shown(value)}")
    if not low <= value <= high:
        raise UsageError(f"{name} must be from {low} to {high}, not {shown(value)}")


def shown(value: object) -> str:
    """A refused value for a message: cut short, and never itself a failure."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no int of more than 4300 digits
        return "a number of so many digits"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


class JitterKind(StrEnum):
    """The ways to spread retries, so that those who failed together do not return together."""

    NONE = "none"
    FULL = "full"
    PROPORTIONAL = "proportional"
    ADDITIVE = "additive"


@dataclass(frozen=True, slots=True)
class Jitter:
    """How the draw moves a delay; made by `none`, `full`, `proportional` and `additive`."""

    kind: JitterKind = JitterKind.NONE
    low: float = 0.0
    high: float = 0.0

    def __post_init__(self) -> None:
        """Refuse bounds that no jitter can have."""
        match self.kind:
            case JitterKind.NONE | JitterKind.FULL:
                if self.low or self.high:
                    raise UsageError(f"jitter {self.kind!s} takes no bounds")
            case JitterKind.PROPORTIONAL:
                require_number("jitter's fraction", self.high, 0.0, 1.0)
                if self.low != -self.high:
                    raise UsageError("jitter proportional is the same fraction both ways")
            case JitterKind.ADDITIVE:
                require_number("jitter's low bound", self.low, -LONGEST, LONGEST)
                require_number("jitter's high bound", self.high, -LONGEST, LONGEST)
                if self.low > self.high:
                    raise UsageError(f"jitter's low bound must not exceed its high one, as {self.low!r} does")
            case _:
                raise UsageError(f"jitter must be one of {', '.join(JitterKind)}, not {self.kind!r}")

    @classmethod
    def none(cls) -> Jitter:
        """Leave the delay as it is."""
        return cls()

    @classmethod
    def full(cls) -> Jitter:
        """Draw from nothing up to the whole delay."""
        return cls(JitterKind.FULL)

    @classmethod
    def proportional(cls, fraction: float) -> Jitter:
        """Move the delay by up to this fraction of it, either way."""
        require_number("jitter's fraction", fraction, 0.0, 1.0)
        return cls(JitterKind.PROPORTIONAL, -fraction, fraction)

    @classmethod
    def additive(cls, low: float, high: float) -> Jitter:
        """Add something from `low` to `high` seconds, which may be below nothing."""
        return cls(JitterKind.ADDITIVE, low, high)

    def apply(self, delay: float, draw: float) -> float:
        """Move a delay by the draw; never below nothing."""
        match self.kind:
            case JitterKind.NONE:
                return delay
            case JitterKind.FULL:
                return delay * draw
            case JitterKind.PROPORTIONAL:
                return delay * (1.0 + self.high * (2.0 * draw - 1.0))
            case JitterKind.ADDITIVE:
                return max(0.0, delay + self.low + (self.high - self.low) * draw)
            case _:
                assert_never(self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential growth up to a maximum, or a schedule whose last value repeats; then the jitter."""

    initial: float = 1.0
    multiplier: float = 2.0
    maximum: float = 86_400.0
    """The cap before the jitter (ING-2.1), so the jitter may exceed it; a day where none is asked for."""
    schedule: tuple[float, ...] | None = None
    """Seconds after the first, second, ... failure; takes the place of the growth."""
    jitter: Jitter = Jitter()

    def __post_init__(self) -> None:
        """Refuse what would wait for ever, shrink or not be a number."""
        require_number("initial", self.initial, 0.0, LONGEST)
        require_number("multiplier", self.multiplier, 1.0, 1000.0)
        require_number("maximum", self.maximum, 0.0, LONGEST)
        # Whole numbers would grow without end where floats overflow.
        for name in ("initial", "multiplier", "maximum"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if not isinstance(self.jitter, Jitter):
            raise UsageError(f"jitter must be a Jitter, such as Jitter.full(), not {self.jitter!r}")
        if self.schedule is not None:
            object.__setattr__(self, "schedule", _checked_schedule(self.schedule))

    def delay(self, attempt: int, draw: float) -> float:
        """Seconds to wait after this many failures; `draw` is from 0 up to, not including, 1."""
        if attempt < 1:
            raise UsageError(f"attempt counts failures from 1, not {attempt!r}")
        if not 0.0 <= draw < 1.0:
            raise UsageError(f"draw must be at least 0 and below 1, not {draw!r}")
        return self.jitter.apply(self.before_jitter(attempt), draw)

    def before_jitter(self, attempt: int) -> float:
        """The delay that the jitter then moves."""
        if self.schedule is not None:
            return self.schedule[min(attempt, len(self.schedule)) - 1]
        try:
            grown = self.initial * self.multiplier ** min(attempt - 1, _STEPS_THAT_MATTER)
        except OverflowError:
            return self.maximum if self.initial else 0.0
        return min(grown, self.maximum)


def _checked_schedule(schedule: object) -> tuple[float, ...]:
    if not isinstance(schedule, list | tuple) or not schedule:
        raise UsageError(f"schedule must be a list of one or more seconds, not {shown(schedule)}")
    for seconds in schedule:
        require_number("schedule's delay", seconds, 0.0, LONGEST)
    return tuple(float(seconds) for seconds in schedule)
