"""What operators and breakers say about jobs and stages."""

from __future__ import annotations

from enum import StrEnum

from reprieve.core.value import value


@value
class Cancel:
    """End a job now, or ask its worker to stop it."""

    job_id: int
    actor: str
    reason: str
    now: float


class Cancelled(StrEnum):
    """What became of it."""

    DONE = "done"
    REQUESTED = "requested"
    """It is running; its worker will stop it."""
    OVER = "over"
    """It had ended before."""
    UNKNOWN = "unknown"


@value
class Wake:
    """Make waiting jobs ready again whose `waits_on` begins so, but for those that wait on exactly `unless`."""

    prefix: str
    unless: str = ""
    stages: tuple[tuple[str, str], ...] = ()
    now: float


@value
class Pause:
    """Let nobody claim this stage until it is resumed."""

    pipeline: str
    stage: str
    actor: str
    reason: str
    now: float


@value
class Resume:
    """Let a paused or held stage go on, its breaker closed."""

    pipeline: str
    stage: str
    actor: str
    now: float


@value
class Hold:
    """Let nobody claim this stage before `until`; with `opens` only a probe may after that. Never shortens a hold."""

    pipeline: str
    stage: str
    until: float
    error_class: str
    reason: str
    now: float
    opens: bool = False


@value
class Close:
    """The upstream answers again: close the breaker."""

    pipeline: str
    stage: str
    now: float


@value
class Probe:
    """Ask for the right to send one job through an open breaker whose hold is over; one holder at a time."""

    pipeline: str
    stage: str
    until: float
    """When the right lapses, should its holder die."""
    now: float


@value
class GiveBack:
    """There was nothing to send through: the right to probe goes back, and nothing else changes."""

    pipeline: str
    stage: str
    until: float
    """As it was asked for; a right that is somebody else's by now stays theirs."""
    now: float
