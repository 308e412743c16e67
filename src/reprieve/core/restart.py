"""Decide whether an ended process is started again, and after which delay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COMMAND_REFUSED_CODE: Final = 2
"""Exit code of a command line that is wrong. Another start would end in the same way."""
_MAX_DOUBLINGS: Final = 60
"""A float holds the delay after this many doublings; every ceiling is far below it."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How an ended process is started again."""

    first_delay_seconds: float = 0.5
    max_delay_seconds: float = 30.0
    stable_seconds: float = 60.0
    """A process that lived this long had started well: the delays begin anew after its end."""
    max_quick_ends: int | None = None
    """Give up at this many ends in a row, each sooner than `stable_seconds` after its start. None: never."""


@dataclass(frozen=True, slots=True)
class RestartHistory:
    """What the decision has to know about the earlier ends of one place."""

    starts: int = 0
    quick_ends: int = 0


@dataclass(frozen=True, slots=True)
class Restart:
    """Start it again after the delay."""

    delay_seconds: float
    history: RestartHistory


@dataclass(frozen=True, slots=True)
class StayEnded:
    """Do not start it again: it ended as it should, or was told to stop, or its command is wrong."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not start it again: it ended too often too soon."""

    quick_ends: int


def decide_restart(
    history: RestartHistory, code: int, lived_seconds: float, policy: RestartPolicy, *, stopping: bool
) -> Restart | StayEnded | GiveUp:
    """Decide from the exit code, the length of the life that ended, and the ends before it."""
    refused = code == COMMAND_REFUSED_CODE and history.starts == 0
    if code == 0 or stopping or refused:
        return StayEnded()
    stable = lived_seconds >= policy.stable_seconds
    quick_ends = 1 if stable else history.quick_ends + 1
    if policy.max_quick_ends is not None and not stable and quick_ends >= policy.max_quick_ends:
        return GiveUp(quick_ends)
    doublings = min(quick_ends - 1, _MAX_DOUBLINGS)
    delay = min(policy.first_delay_seconds * 2.0**doublings, policy.max_delay_seconds)
    return Restart(delay, RestartHistory(history.starts + 1, quick_ends))
