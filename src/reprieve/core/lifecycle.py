"""The states of jobs and of dead letters, and the ways between them, a table each; an undefined transition raises and changes nothing."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.errors import IllegalTransitionError

if TYPE_CHECKING:
    from collections.abc import Mapping


class JobStatus(StrEnum):
    """What a job is, to everybody who asks."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    RETRYABLE_FAILED = "retryable_failed"
    NEEDS_REVIEW = "needs_review"
    SUCCEEDED = "succeeded"
    DEAD_LETTER = "dead_letter"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether the job has ended; a dead letter may be replayed, which opens it again."""
        return self in OVER


OVER: Final = frozenset({JobStatus.SUCCEEDED, JobStatus.DEAD_LETTER, JobStatus.SKIPPED, JobStatus.CANCELLED})
DEAD_LETTER_STATUS: Final = 599
"""The status code of what is in the dead-letter queue (ING-3.3)."""


class JobEvent(StrEnum):
    """What can happen to a job."""

    CLAIM = "claim"
    CHECKPOINT = "checkpoint"
    FINISH = "finish"
    RETRY = "retry"
    BURY = "bury"
    SKIP = "skip"
    ASK = "ask"
    """Hand it to a person."""
    RELEASE = "release"
    """The lease was given back at no cost."""
    CANCEL = "cancel"
    ANSWER = "answer"
    """A person has answered: it goes on."""
    REOPEN = "reopen"
    """Who rejected it takes that back."""
    REPLAY = "replay"


def _table() -> dict[tuple[JobStatus, JobEvent], JobStatus]:
    pending, running, failed = JobStatus.PENDING, JobStatus.IN_PROGRESS, JobStatus.RETRYABLE_FAILED
    review, dead = JobStatus.NEEDS_REVIEW, JobStatus.DEAD_LETTER
    table = {
        (pending, JobEvent.CLAIM): running,
        (running, JobEvent.CLAIM): running,
        (failed, JobEvent.CLAIM): running,
        (running, JobEvent.CHECKPOINT): running,
        (running, JobEvent.FINISH): JobStatus.SUCCEEDED,
        (running, JobEvent.RETRY): failed,
        (running, JobEvent.BURY): dead,
        (running, JobEvent.SKIP): JobStatus.SKIPPED,
        (running, JobEvent.ASK): review,
        (running, JobEvent.RELEASE): running,
        (review, JobEvent.ANSWER): running,
        (review, JobEvent.SKIP): JobStatus.SKIPPED,
        (JobStatus.SKIPPED, JobEvent.REOPEN): review,
        (dead, JobEvent.REPLAY): running,
    }
    table |= {(status, JobEvent.CANCEL): JobStatus.CANCELLED for status in (pending, running, failed, review)}
    # Callers who run their own loop report what became of a job that nobody has claimed.
    for status in (pending, failed):
        table |= {
            (status, JobEvent.FINISH): JobStatus.SUCCEEDED,
            (status, JobEvent.RETRY): failed,
            (status, JobEvent.BURY): dead,
            (status, JobEvent.SKIP): JobStatus.SKIPPED,
            (status, JobEvent.ASK): review,
        }
    return table


TRANSITIONS: Final[Mapping[tuple[JobStatus, JobEvent], JobStatus]] = _table()


def after(status: JobStatus, event: JobEvent) -> JobStatus:
    """What a job is after an event."""
    try:
        return TRANSITIONS[status, event]
    except KeyError:
        raise IllegalTransitionError("job", status, event) from None


class LetterState(StrEnum):
    """How far a dead letter is."""

    OPEN = "open"
    TRIAGED = "triaged"
    """Its cause is named."""
    REMEDIATED = "remediated"
    """What was done about the cause is on record."""
    APPROVED = "approved"
    """Somebody has confirmed that running it again does no harm."""
    REPLAYING = "replaying"
    REPLAYED = "replayed"
    """Its job has succeeded; waits for verification."""
    RESOLVED = "resolved"
    ESCALATED = "escalated"
    """For engineering."""
    DISCARDED = "discarded"

    @property
    def closed(self) -> bool:
        """Whether it asks for nothing any more."""
        return self in CLOSED

    @property
    def dead(self) -> bool:
        """Whether its job is in the dead-letter queue (status 599) and waits for somebody to do something."""
        return self in DEAD


CLOSED: Final = frozenset({LetterState.RESOLVED, LetterState.DISCARDED})
DEAD: Final = frozenset(
    {LetterState.OPEN, LetterState.TRIAGED, LetterState.REMEDIATED, LetterState.APPROVED, LetterState.ESCALATED}
)


class LetterEvent(StrEnum):
    """What can happen to a dead letter; each leaves an entry in its history."""

    TRIAGE = "triage"
    REMEDIATE = "remediate"
    APPROVE = "approve"
    REPLAY = "replay"
    OVERRIDE = "override"
    """Replayed though a gate was not passed, for a reason that is written down."""
    RECOVER = "recover"
    """The replayed job has succeeded."""
    FAIL = "fail"
    """The replayed job has failed again."""
    RELAPSE = "relapse"
    """It has failed again with the same class, which is not retryable."""
    WITHDRAW = "withdraw"
    """The replayed job was cancelled or skipped."""
    VERIFY = "verify"
    RESOLVE = "resolve"
    ESCALATE = "escalate"
    DISCARD = "discard"
    REOPEN = "reopen"
    NOTE = "note"


def _letter_table() -> dict[tuple[LetterState, LetterEvent], LetterState]:
    state, event = LetterState, LetterEvent
    table = {
        (state.OPEN, event.TRIAGE): state.TRIAGED,
        (state.TRIAGED, event.TRIAGE): state.TRIAGED,
        (state.REMEDIATED, event.TRIAGE): state.TRIAGED,
        (state.APPROVED, event.TRIAGE): state.TRIAGED,
        (state.ESCALATED, event.TRIAGE): state.TRIAGED,
        (state.TRIAGED, event.REMEDIATE): state.REMEDIATED,
        (state.REMEDIATED, event.REMEDIATE): state.REMEDIATED,
        (state.REMEDIATED, event.APPROVE): state.APPROVED,
        (state.APPROVED, event.REPLAY): state.REPLAYING,
        (state.REPLAYING, event.RECOVER): state.REPLAYED,
        (state.REPLAYING, event.FAIL): state.OPEN,
        (state.REPLAYING, event.RELAPSE): state.ESCALATED,
        (state.REPLAYING, event.WITHDRAW): state.DISCARDED,
        (state.REPLAYED, event.VERIFY): state.REPLAYED,
        (state.REPLAYED, event.RESOLVE): state.RESOLVED,
        (state.REPLAYED, event.ESCALATE): state.ESCALATED,
        (state.DISCARDED, event.REOPEN): state.OPEN,
    }
    dead = [each for each in state if each in DEAD]  # in one order, whatever the hashes of this process are
    table |= {(each, event.OVERRIDE): state.REPLAYING for each in dead}
    table |= {(each, event.ESCALATE): state.ESCALATED for each in dead if each is not state.ESCALATED}
    table |= {(each, event.DISCARD): state.DISCARDED for each in dead}
    # A job can have succeeded while its letter is looked at once more: what is verified may always be closed.
    table |= {(each, event.VERIFY): each for each in dead}
    table |= {(each, event.RESOLVE): state.RESOLVED for each in dead}
    return table | {(each, event.NOTE): each for each in state}


LETTER_TRANSITIONS: Final[Mapping[tuple[LetterState, LetterEvent], LetterState]] = _letter_table()


def letter_after(state: LetterState, *events: LetterEvent) -> LetterState:
    """What a dead letter is after these events."""
    for event in events:
        try:
            state = LETTER_TRANSITIONS[state, event]
        except KeyError:
            raise IllegalTransitionError("dead letter", state, event) from None
    return state


def after_another_death(*, before: str, error_class: str, retryable: bool) -> LetterEvent:
    """What another failure of a replayed job means: the same class, not retryable, is for engineering (CRIT-5.6)."""
    return LetterEvent.RELAPSE if error_class == before and not retryable else LetterEvent.FAIL


class DeliveryStatus(StrEnum):
    """What is known about telling one recipient."""

    PENDING = "pending"
    """Nothing of it has reached the provider, for all that is known: it may be sent."""
    SENDING = "sending"
    """Somebody is at it, or was when its process ended."""
    SENT = "sent"
    FAILED = "failed"
    """Refused for good; a person, or a replay of its job, may try again."""
    UNCERTAIN = "uncertain"
    """It may have been taken: nobody sends it again before the provider was asked."""
    RECONCILING = "reconciling"
    """The provider is being asked, or has to be."""
    HELD = "held"
    """What became of it cannot be known: a person decides."""

    @property
    def settled(self) -> bool:
        """Whether nothing is left to be found out."""
        return self in {DeliveryStatus.SENT, DeliveryStatus.FAILED}


class DeliveryEvent(StrEnum):
    """What can happen to a delivery."""

    BEGIN = "begin"
    """Somebody is about to hand it to the provider; on disk before the first byte leaves."""
    ACCEPT = "accept"
    """The provider has taken it."""
    PUT_OFF = "put_off"
    """It is known not to have been processed; another try may help."""
    REFUSE = "refuse"
    """It is known not to have been processed, and never will be."""
    DOUBT = "doubt"
    """It may have been processed."""
    LOOK = "look"
    """Somebody is about to ask the provider."""
    FIND = "find"
    """The provider has it: backfilled."""
    MISS = "miss"
    """The provider definitely does not have it: cleared, and to be sent."""
    HOLD = "hold"
    CONFIRM = "confirm"
    """A person says that it was received."""
    RESEND = "resend"
    """A person, or the replay of its job, asks for it to be sent again."""
    GIVE_UP = "give_up"
    """A person says that it shall not be sent."""


def _delivery_table() -> dict[tuple[DeliveryStatus, DeliveryEvent], DeliveryStatus]:
    status, event = DeliveryStatus, DeliveryEvent
    return {
        (status.PENDING, event.BEGIN): status.SENDING,
        (status.UNCERTAIN, event.BEGIN): status.SENDING,
        (status.RECONCILING, event.BEGIN): status.SENDING,
        (status.SENDING, event.BEGIN): status.SENDING,
        (status.SENDING, event.ACCEPT): status.SENT,
        (status.SENDING, event.PUT_OFF): status.PENDING,
        (status.SENDING, event.REFUSE): status.FAILED,
        (status.SENDING, event.DOUBT): status.UNCERTAIN,
        (status.SENDING, event.LOOK): status.RECONCILING,
        (status.UNCERTAIN, event.LOOK): status.RECONCILING,
        (status.RECONCILING, event.LOOK): status.RECONCILING,
        (status.HELD, event.LOOK): status.RECONCILING,
        (status.SENT, event.LOOK): status.RECONCILING,
        (status.RECONCILING, event.FIND): status.SENT,
        (status.RECONCILING, event.MISS): status.PENDING,
        (status.RECONCILING, event.DOUBT): status.RECONCILING,
        (status.SENDING, event.HOLD): status.HELD,
        (status.UNCERTAIN, event.HOLD): status.HELD,
        (status.RECONCILING, event.HOLD): status.HELD,
        (status.SENT, event.HOLD): status.HELD,
        (status.HELD, event.CONFIRM): status.SENT,
        (status.HELD, event.RESEND): status.PENDING,
        (status.HELD, event.GIVE_UP): status.FAILED,
        (status.FAILED, event.RESEND): status.PENDING,
        (status.FAILED, event.CONFIRM): status.SENT,
        (status.PENDING, event.GIVE_UP): status.FAILED,
    }


DELIVERY_TRANSITIONS: Final[Mapping[tuple[DeliveryStatus, DeliveryEvent], DeliveryStatus]] = _delivery_table()


def delivery_after(status: DeliveryStatus, event: DeliveryEvent) -> DeliveryStatus:
    """What a delivery is after an event."""
    try:
        return DELIVERY_TRANSITIONS[status, event]
    except KeyError:
        raise IllegalTransitionError("delivery", status, event) from None
