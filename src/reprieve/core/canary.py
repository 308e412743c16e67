"""Canary replay: when a campaign sends its next wave, when it waits, and when it stops by itself."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.core.backoff import require_number, require_whole
from reprieve.core.value import value
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WAVES: Final = (1, 2, 5, 20, 100)
"""How many are replayed before the next wave; after the last of these come all that are left."""
AT_ONCE: Final = 1000
"""The most that are launched in one go."""
UNDER_WAY: Final = 2000
"""The most that are replayed at the same time: enough for workers never to wait, few enough to be stopped in time."""

_REFILL: Final = 500
"""How many are worth another launch while others are still under way."""
_ENOUGH: Final = 20
"""From how many on a wave is judged before it has ended."""
_SLICE: Final = 0.25
"""Seconds between two launches under a rate, where it allows for several in that time."""
_BURST: Final = 1.0
"""Seconds whose allowance may be saved up."""
_SLOWEST: Final = 1 / 86_400
_FASTEST: Final = 1_000_000.0
_MOST_WAVES: Final = 100
_LARGEST_WAVE: Final = 1_000_000
_HAIR: Final = 1e-6
"""What rounding may take off an allowance; as seconds, the shortest wait."""


class CampaignState(StrEnum):
    """How far a campaign is."""

    GATHERING = "gathering"
    """Its members are being written down; nobody runs it yet."""
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    """By itself: the failure came back."""
    CANCELLED = "cancelled"
    DONE = "done"

    @property
    def over(self) -> bool:
        """Whether nothing will be replayed by it any more."""
        return self in OVER


OVER: Final = frozenset({CampaignState.STOPPED, CampaignState.CANCELLED, CampaignState.DONE})


class CampaignEvent(StrEnum):
    """What an operator can do about a campaign."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


CAMPAIGN_TRANSITIONS: Final[Mapping[tuple[CampaignState, CampaignEvent], CampaignState]] = {
    (CampaignState.RUNNING, CampaignEvent.PAUSE): CampaignState.PAUSED,
    (CampaignState.PAUSED, CampaignEvent.RESUME): CampaignState.RUNNING,
    (CampaignState.GATHERING, CampaignEvent.CANCEL): CampaignState.CANCELLED,
    (CampaignState.RUNNING, CampaignEvent.CANCEL): CampaignState.CANCELLED,
    (CampaignState.PAUSED, CampaignEvent.CANCEL): CampaignState.CANCELLED,
}


class MemberState(StrEnum):
    """What became of one item of a campaign."""

    WAITING = "waiting"
    REPLAYING = "replaying"
    CONFIRMED = "confirmed"
    """Its job has succeeded."""
    RETURNED = "returned"
    """It has failed with the fingerprint it had before."""
    FAILED = "failed"
    """It has failed otherwise, or was withdrawn."""
    LEFT_OUT = "left_out"
    """It could not be replayed any more when its turn came."""


@value
class Standing:
    """A running campaign in numbers, as somebody has just seen it."""

    waves: Sequence[int]
    wave: int
    """Which one it is at, from 0; beyond the last of `waves`: all that are left."""
    launched: int
    """How many have had their turn in this wave, those that were left out included."""
    waiting: int
    """How many have not had theirs."""
    replaying: int
    confirmed: int
    """These four of this wave."""
    failed: int
    left_out: int
    returned: int
    """Of all waves."""
    failure: str = "the failure they had before"
    """What has come back, if something has; for people."""

    @property
    def size(self) -> int | None:
        """How many this wave is to replay; None: all that are left."""
        return self.waves[self.wave] if self.wave < len(self.waves) else None

    @property
    def sent(self) -> int:
        """How many this wave has replayed."""
        return self.launched - self.left_out

    @property
    def wanted(self) -> int:
        """How many this wave has still to replay."""
        return self.waiting if self.size is None else max(0, min(self.waiting, self.size - self.sent))


@value
class Pace:
    """How many replays a rate allows at a moment: what was not used is saved up for a second, and no longer.

    Whoever begins to look has saved up nothing, so that neither a restart nor a pause is followed by a flood.
    """

    allowed: float
    at: float
    sent: int
    """How many had been replayed by then, by anybody."""

    def later(self, rate: float, *, now: float, sent: int) -> Pace:
        """The same at a later look."""
        saved = min(self.allowed + rate * max(0.0, now - self.at), max(1.0, _BURST * rate))
        return Pace(allowed=saved - (sent - self.sent), at=max(now, self.at), sent=sent)

    @classmethod
    def start(cls, *, now: float, sent: int) -> Pace:
        """At the first look: the very first of a campaign need not wait."""
        return cls(allowed=0.0 if sent else 1.0, at=now, sent=sent)


@value
class Send:
    """Replay so many more of this wave."""

    count: int


@value
class NextWave:
    """All of this wave are confirmed: widen."""


@value
class Wait:
    """Nothing can be done now."""

    seconds: float | None
    """None: until something that is replayed comes to an end."""


@value
class Stop:
    """Replay nothing more."""

    reason: str


@value
class Done:
    """Nobody is left."""


Move = Send | NextWave | Wait | Stop | Done


def decide(standing: Standing, *, rate: float | None = None, pace: Pace | None = None) -> Move:
    """What a running campaign does next; with a rate, at this pace."""
    reason = _reason_to_stop(standing)
    if reason is not None:
        return Stop(reason=reason)
    if standing.wanted:
        return _send(standing, rate, pace)
    if standing.replaying:
        return Wait(seconds=None)
    return NextWave() if standing.waiting else Done()


def _reason_to_stop(standing: Standing) -> str | None:
    """The same failure came back; or more than half of what this wave replayed has failed otherwise."""
    where = f"in wave {standing.wave + 1}"
    if standing.returned:
        return f"{standing.returned:,} of {standing.sent:,} {where} came back with {standing.failure}"
    ended = not standing.wanted and not standing.replaying
    # Of all that were sent, not of those that are over: failures are quick where successes take their time.
    if 2 * standing.failed > standing.sent and (ended or standing.sent >= _ENOUGH):
        return f"{standing.failed:,} of {standing.sent:,} {where} failed with something else"
    return None


def _send(standing: Standing, rate: float | None, pace: Pace | None) -> Move:
    room = UNDER_WAY - standing.replaying
    if room < min(standing.wanted, _REFILL):
        return Wait(seconds=None)
    count = min(standing.wanted, room, AT_ONCE)
    if rate is None or pace is None:
        return Send(count=count)
    allowed = int(pace.allowed + _HAIR)
    worthwhile = min(count, max(1, int(_SLICE * rate)))
    if allowed < worthwhile:
        return Wait(seconds=max((worthwhile - pace.allowed) / rate, _HAIR))
    return Send(count=min(count, allowed))


def check_waves(waves: Sequence[int]) -> tuple[int, ...]:
    """Refuse waves that could not be sent; none at all means everything at once."""
    if len(waves) > _MOST_WAVES:
        raise UsageError(f"a campaign has at most {_MOST_WAVES} waves, not {len(waves)}")
    for size in waves:
        require_whole("a wave", size, 1, _LARGEST_WAVE)
    return tuple(waves)


def check_rate(rate: float | None) -> float | None:
    """Refuse a rate that nobody could keep: from one a day to a million a second."""
    if rate is not None:
        require_number("rate", rate, _SLOWEST, _FASTEST)
    return rate
