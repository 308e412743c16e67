"""Telling people once: what to do about a delivery, decided from its row, the phase it got to, and what its provider can do.

A delivery that may have reached its provider is never sent again before the provider was asked, or unless the provider
itself drops the second one; where it can do neither, a person decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.core.failure import ErrorClass
from reprieve.core.lifecycle import DeliveryEvent, DeliveryStatus

if TYPE_CHECKING:
    from reprieve.core.failure import Failure

REPLAYED: Final = "its job is replayed"
"""Of a delivery that a replay has put back: it is sent by its job alone, as a payload that was corrected may name others."""
LEFT_OUT: Final = "its job was replayed without it"
"""Of one that a corrected payload no longer named: given up, and missed by nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """What a provider can do about duplicates; times in seconds."""

    key_window: float | None = None
    """How long it drops a second message with the same key; None: it takes no key."""
    looks_up: bool = False
    """Whether it can be asked if it has a message."""
    lag: float = 0.0
    """How long after a message was taken a look-up may still miss it."""
    retention: float | None = None
    """How long a look-up can find it; None: for ever."""
    send_timeout: float = 30.0
    """How long a send may take before it is given up."""


class Phase(StrEnum):
    """How far a send had got when it failed."""

    BEFORE = "before"
    """Nothing of the message had been handed over."""
    DURING = "during"
    """Some or all of it had, and no answer was there."""
    REJECTED = "rejected"
    """The provider has said that it did not take it."""


class Found(StrEnum):
    """What a look-up found."""

    FOUND = "found"
    ABSENT = "absent"
    """The provider says that it does not have it."""
    UNKNOWN = "unknown"
    """It did not say."""
    DUPLICATE = "duplicate"
    """It has it more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A delivery's row, as far as it decides what to do."""

    status: DeliveryStatus
    notified_at: float | None
    """When it was marked as sent."""
    evidence: bool
    """There is a `notification_id`, or a look-up found it, or a person confirmed it."""
    attempts: int
    """Sends that were begun."""
    first_sent_at: float | None
    last_sent_at: float | None
    """When the latest send was begun."""
    leased_until: float | None
    """Somebody is at it until then."""
    not_before: float | None
    lookups: int
    """Since the latest send."""

    @property
    def notified(self) -> bool:
        """Whether it is marked as sent."""
        return self.notified_at is not None


class Act(StrEnum):
    """What to do about a delivery now."""

    NOTHING = "nothing"
    SEND = "send"
    LOOK_UP = "look_up"
    WAIT = "wait"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Next:
    """What to do, until when to wait, and why."""

    act: Act
    at: float | None = None
    reason: str = ""


_MARGIN: Final = 0.1
"""Of a provider's window that is not relied on: its clock is not ours."""
_LONGEST_WAIT: Final = 900.0
_FIRST_WAIT: Final = 1.0


def next_act(row: Standing, can: Capability, now: float) -> Next:
    """What to do about a delivery now; never a second send that the provider could not drop or deny."""
    if row.leased_until is not None and now < row.leased_until:
        return Next(Act.WAIT, row.leased_until, "somebody is at it")
    match row.status:
        case DeliveryStatus.FAILED | DeliveryStatus.HELD:
            return Next(Act.NOTHING)
        case DeliveryStatus.SENT if row.notified and row.evidence:
            return Next(Act.NOTHING)
        case DeliveryStatus.PENDING if row.not_before is not None and now < row.not_before:
            return Next(Act.WAIT, row.not_before, "put off")
        case DeliveryStatus.PENDING:
            return Next(Act.SEND)
        case _:
            return _reconcile(row, can, now)


def _reconcile(row: Standing, can: Capability, now: float) -> Next:
    """It may have reached the provider, or is said to have without evidence."""
    asking = may_ask(row, can, now)
    if asking.act is Act.HOLD and not row.notified and _is_dropped_twice(row, can, now):
        return Next(Act.SEND, reason="the provider drops a second one with the same key")
    return asking


def may_ask(row: Standing, can: Capability, now: float) -> Next:
    """LOOK_UP once it would mean something that the provider has no record; WAIT before that, HOLD where it never will."""
    if row.leased_until is not None and now < row.leased_until:
        return Next(Act.WAIT, row.leased_until, "somebody is at it")
    sent_at = now if row.last_sent_at is None else row.last_sent_at
    due = _shown_at(row, can, sent_at)
    if now < due:
        return Next(Act.WAIT, due, "the provider may not show it yet")
    if not can.looks_up:
        return Next(Act.HOLD, reason="the provider can neither be asked nor drops a second one")
    if can.retention is not None and now >= sent_at + can.retention * (1 - _MARGIN):
        return Next(Act.HOLD, reason="the provider can no longer be asked: too long ago")
    return Next(Act.LOOK_UP)


def _shown_at(row: Standing, can: Capability, sent_at: float) -> float:
    """From when on the provider shows it, if it has it."""
    due = 0.0 if row.not_before is None else row.not_before
    match row.status:
        case DeliveryStatus.SENDING | DeliveryStatus.HELD:
            # Whoever began it has not said when it ended: it may have been at it until its time was over.
            return max(due, sent_at + can.send_timeout + can.lag)
        case DeliveryStatus.SENT if row.last_sent_at is not None:
            # Marked when it ended, or later: by a look-up, or a person.
            marked_at = sent_at if row.notified_at is None else row.notified_at
            return max(due, min(max(sent_at, marked_at), sent_at + can.send_timeout) + can.lag)
        case _:
            return due


def _is_dropped_twice(row: Standing, can: Capability, now: float) -> bool:
    first = row.first_sent_at
    return can.key_window is not None and first is not None and now < first + can.key_window * (1 - _MARGIN)


def after_failed_send(
    failure: Failure, phase: Phase, *, doubted: bool = False, attempts: int | None = None
) -> DeliveryEvent:
    """What a failed send means: judged by how far it got, not by the kind of exception.

    An earlier try that was in doubt stays so, however surely this one was not processed. `attempts` are those that were
    made, where no job's own budget ends them.
    """
    if doubted or phase is Phase.DURING:
        return DeliveryEvent.DOUBT
    if failure.retryable and (attempts is None or attempts < _MOST_SENDS):
        return DeliveryEvent.PUT_OFF
    return DeliveryEvent.REFUSE


IN_DOUBT: Final = frozenset({DeliveryStatus.SENDING, DeliveryStatus.UNCERTAIN, DeliveryStatus.RECONCILING})
"""Where a send was begun of which nobody knows what came."""


def wait_in_doubt(attempts: int, lag: float) -> float:
    """Seconds before anything is done about a send in doubt: what the provider needs, and more each time it was sent."""
    return max(lag, min(_FIRST_WAIT * 2.0 ** (attempts - 2), _LONGEST_WAIT) if attempts > 1 else 0.0)


_NEVER_CONNECTED: Final = frozenset({ErrorClass.CONNECTION_REFUSED, ErrorClass.DNS_FAILURE})
_CLIENT_ERRORS: Final = range(400, 500)
_REQUEST_TIMEOUT: Final = 408


def assumed_phase(failure: Failure) -> Phase:
    """How far a send had got whose sender does not say: as far as it may have."""
    if failure.error_class in _NEVER_CONNECTED:
        return Phase.BEFORE
    if failure.status_code in _CLIENT_ERRORS and failure.status_code != _REQUEST_TIMEOUT:
        return Phase.REJECTED
    return Phase.DURING


def after_look_up(found: Found, row: Standing, can: Capability, now: float) -> tuple[DeliveryEvent, Next]:
    """What an answer means, and what comes next."""
    if found in {Found.FOUND, Found.DUPLICATE}:
        return DeliveryEvent.FIND, Next(Act.NOTHING)
    if found is Found.ABSENT:
        return DeliveryEvent.MISS, Next(Act.SEND)
    if not row.notified and _is_dropped_twice(row, can, now):
        return DeliveryEvent.DOUBT, Next(Act.SEND, reason="the provider drops a second one with the same key")
    wait = min(max(can.lag, _FIRST_WAIT) * 2.0**row.lookups, _LONGEST_WAIT)
    sent_at = now if row.last_sent_at is None else row.last_sent_at
    if row.lookups >= _MOST_LOOKUPS or (
        can.retention is not None and now + wait >= sent_at + can.retention * (1 - _MARGIN)
    ):
        return DeliveryEvent.HOLD, Next(Act.HOLD, reason="the provider did not say whether it has it")
    return DeliveryEvent.DOUBT, Next(Act.WAIT, now + wait, "the provider did not say; it is asked again")


_MOST_LOOKUPS: Final = 20
_MOST_SENDS: Final = 20
